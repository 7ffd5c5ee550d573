//! What is refused, with its sentence and its exit code.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::lab::{Lab, events, spec, states};

#[test]
fn hosts_that_cannot_take_part_are_named_with_their_reasons_and_the_others_go_on() {
    let Some(lab) = Lab::new(2) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let config = fs::read_to_string(lab.path("ssh_config")).unwrap();
    let closed = "Host closed\n HostName 127.0.0.1\n Port 1\n";
    fs::write(lab.path("ssh_config"), format!("{closed}{config}")).unwrap();
    let target = format!("data={}", lab.path("data").display());
    let ended = lab
        .start(&[
            "run",
            "tiny.toml",
            "--hosts",
            "db1,closed,db2",
            "--target",
            &target,
            "--ssh-config",
            "ssh_config",
            "--yes",
            "-o",
            "campaign",
            "--min-hosts",
            "50%",
        ])
        .wait()
        .expect(1, "closed failed: ssh: connect to host 127.0.0.1 port 1: Connection refused");
    assert!(ended.said.contains("1 of 3 hosts without a whole run"), "{}", ended.said);
    let folder = lab.path("campaign");
    assert_eq!(states(&folder, "closed"), ["failed"]);
    assert_eq!(states(&folder, "db2").last().unwrap(), "collected");
}

#[test]
fn a_plan_that_a_host_does_not_permit_or_cannot_make_stops_the_campaign() {
    let Some(lab) = Lab::new(1) else { return };
    // The folder is a link: the login permits the folder that was named, not another.
    std::os::unix::fs::symlink(lab.path("data"), lab.path("link")).unwrap();
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let target = |name: &str| format!("data={}", lab.path(name).display());
    let run = |target: &str, folder: &str| {
        lab.start(&[
            "run",
            "tiny.toml",
            "--hosts",
            "db1",
            "--target",
            target,
            "--ssh-config",
            "ssh_config",
            "--yes",
            "-o",
            folder,
        ])
        .wait()
    };
    run(&target("link"), "campaign").expect(3, "is a symbolic link");
    assert_eq!(events(&lab.path("campaign"), "host_refused").len(), 1);
    run(&target("absent"), "second").expect(3, "db1 refused:");
    assert!(fs::read_dir(lab.path("data")).unwrap().next().is_none());
}

#[test]
fn wrong_wishes_are_refused_before_any_host_is_asked() {
    let Some(lab) = Lab::new(1) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let rows: [(&[&str], &str); 8] = [
        (&["--hosts", "db1"], "confirmation needed, but there is no terminal"),
        (
            &["--hosts", "db1", "--yes", "--lost-after", "1.4s"],
            "--lost-after must be at least 1.5s",
        ),
        (&["--hosts", "db1,db1", "--yes"], "db1"),
        (&["--hosts=-oProxyCommand=x", "--yes"], "-oProxyCommand"),
        (&["--hosts", "db1", "--yes", "--min-hosts", "2"], "--min-hosts 2 is more than"),
        (&["--hosts", "db1", "--yes", "--target", "data"], "expected NAME=PATH"),
        (&["--hosts", "db1", "--yes", "--target", "data=relative"], "not an absolute path"),
        (&["--yes"], "DURIO_HOSTS"),
    ];
    for (words, part) in rows {
        let words = [&["run", "tiny.toml", "-o", "campaign"], words].concat();
        lab.start(&words).wait().expect(2, part);
        assert!(!lab.path("campaign").exists());
    }
    lab.start(&["run", "no-such", "--hosts", "db1", "--yes"]).wait().expect(2, "no-such");
    lab.start(&["status", "absent"]).wait().expect(3, "absent");
}

#[test]
fn a_relay_tells_its_coordinator_what_is_wrong_with_its_invitation() {
    let to_host = r#"{"campaign":"0123456789abcdef0123456789abcdef","host":"gw1","coordinator":"U",
        "bus":{"address":"nats://127.0.0.1:1","authority":null,"is_site":false},"run":null,
        "targets":[]}"#;
    let to_host = to_host.replace('\n', "");
    for (line, reason) in [("{}", "missing field"), (&*to_host, "it is not one to a relay")] {
        let mut relay = Command::new(env!("CARGO_BIN_EXE_durio-fleet"))
            .arg("relay")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        writeln!(relay.stdin.take().unwrap(), "{line}").unwrap();
        let output = relay.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let refused = format!("{{\"refused\":\"invalid invitation: {reason}");
        assert!(said.starts_with(&refused), "{said}");
    }
}

#[test]
fn one_machine_under_two_names_takes_part_once() {
    let Some(lab) = Lab::new(2) else { return };
    let id = fs::read(lab.path("db1/machine-id")).unwrap();
    fs::write(lab.path("db2/machine-id"), id).unwrap();
    let ended = lab.campaign(1, &[]).wait().expect(1, "refused: is the same machine as db");
    assert!(ended.said.contains("1 of 2 hosts without a whole run"), "{}", ended.said);
    let folder = lab.path("campaign");
    let mut last: Vec<String> =
        ["db1", "db2"].map(|host| states(&folder, host).pop().unwrap()).into();
    last.sort();
    assert_eq!(last, ["collected", "refused"]);
}
