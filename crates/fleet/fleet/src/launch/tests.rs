//! Command lines of ssh and srun, and regions.

use super::*;
use crate::tests::{launch_settings, launched};

fn launcher(via: LaunchVia, tunnel: Option<u16>) -> Launcher {
    let starting = Semaphore::new(1);
    let ssh_config = Some("/x/ssh".into());
    let lost_after = Duration::from_millis(1_500);
    Launcher { via, ssh_config, tunnel, programs: None, starting, lost_after }
}

fn words(launcher: &Launcher) -> Vec<String> {
    let host = SshHost {
        name: "db".to_owned(),
        user: Some("root".to_owned()),
        address: "10.0.0.1".to_owned(),
        port: Some(2222),
    };
    let command = launcher.command((&host, 20_001), "join");
    let words = command.as_std().get_args();
    words.map(|word| word.to_str().unwrap().to_owned()).collect()
}

#[test]
fn a_hosts_name_stands_after_the_options_and_nothing_of_the_campaign_is_an_argument() {
    let words = words(&launcher(LaunchVia::Ssh, Some(4222)));
    assert_eq!(&words[..2], ["-F", "/x/ssh"]);
    let end = ["-p", "2222", "--", "root@10.0.0.1", "durio-fleet join"];
    assert_eq!(&words[words.len() - end.len()..], end);
    let has = |word: &str| words.iter().any(|known| known == word);
    assert!(has("127.0.0.1:20001:127.0.0.1:4222"));
    assert!(has("BatchMode=yes"));
}

#[test]
fn without_a_tunnel_ssh_forwards_no_port() {
    let words = words(&launcher(LaunchVia::Ssh, None));
    assert!(!words.iter().any(|word| word == "-R" || word.contains(":127.0.0.1:")));
}

#[test]
fn a_session_asks_nothing_forwards_nothing_of_the_user_and_notices_a_dead_host() {
    let words = words(&launcher(LaunchVia::Ssh, None));
    let options: Vec<&str> =
        words.windows(2).filter(|pair| pair[0] == "-o").map(|pair| pair[1].as_str()).collect();
    let expected = "BatchMode=yes ConnectTimeout=15 ServerAliveInterval=5 ServerAliveCountMax=3 \
                    ExitOnForwardFailure=yes ForwardAgent=no ForwardX11=no ControlMaster=no \
                    ControlPath=none";
    assert_eq!(options.join(" "), expected);
    assert!(words.iter().any(|word| word == "-T"), "{words:?}");
}

#[test]
fn a_node_of_slurm_has_a_step_of_one_task_with_the_same_command() {
    let words = words(&launcher(LaunchVia::Slurm, None));
    let is_there = |word: &str| words.iter().any(|known| known == word);
    assert!(is_there("--ntasks-per-node=1") && is_there("--kill-on-bad-exit=0"), "{words:?}");
    assert_eq!(&words[words.len() - 3..], ["--nodelist=10.0.0.1", "durio-fleet", "join"]);
}

#[test]
fn an_ssh_configuration_that_is_not_the_users_alone_is_refused() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("campaign");
    fs::create_dir(&folder).unwrap();
    let (own, foreign) = (directory.path().join("config"), folder.join("config"));
    for path in [&own, &foreign] {
        fs::write(path, "Host *\n").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    let refusal = |path: &Path| {
        check_ssh_config(path, &folder).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refusal(&own), "");
    for mode in [0o664, 0o646] {
        fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
        assert!(refusal(&own).ends_with("can be written by other users"), "{mode:o}");
    }
    assert!(refusal(&foreign).ends_with("is in that folder"));
    // By a link out of the folder it is still a file of it.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&foreign, &link).unwrap();
    assert!(refusal(&link).ends_with("is in that folder"));
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&own, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::chown(&own, Some(12_345), None).unwrap();
        assert!(refusal(&own).ends_with("belongs to another user"));
    }
}

#[test]
fn a_relay_has_the_same_session_with_its_own_command_also_where_programs_are_copied() {
    let host = |name: &str| host_list::parse_list(name).unwrap().remove(0);
    let last = |launcher: &Launcher| {
        let command = launcher.command((&host("gw1"), 20_001), "relay");
        command.as_std().get_args().last().unwrap().to_str().unwrap().to_owned()
    };
    let mut launcher = launcher(LaunchVia::Ssh, None);
    assert_eq!(last(&launcher), "durio-fleet relay");
    let (header, agent, durio) = (String::new(), Vec::new(), Vec::new());
    launcher.programs = Some(PushedPrograms { header, agent, durio });
    assert!(last(&launcher).ends_with("\"$d/durio-fleet\" relay'"));
}

/// db1 and db2 behind gw1, db3 behind gw2, db4 behind none.
fn settings(bus: BusChoice) -> LaunchSettings {
    let relay = |name: &str, hosts: &[&str]| LaunchedRelay {
        relay: launched(name),
        hosts: hosts.iter().map(|&name| name.to_owned()).collect(),
    };
    LaunchSettings {
        relays: vec![relay("gw1", &["db1", "db2"]), relay("gw2", &["db3"])],
        ssh_config: Some("/x/ssh".into()),
        push: true,
        fanout: 7,
        run: Some("nightly".to_owned()),
        goals: vec!["commit p99 < 5ms".to_owned()],
        ..launch_settings(&["db1", "db2", "db3", "db4"], bus)
    }
}

#[test]
fn this_machine_reaches_relays_and_the_hosts_that_have_none() {
    let settings = settings(BusChoice::Tunnel);
    let names = |hosts: Vec<SshHost>| hosts.into_iter().map(|host| host.name).collect::<Vec<_>>();
    assert_eq!(names(settings.own_hosts().unwrap()), ["db4"]);
    let diallers = settings.diallers().unwrap();
    assert_eq!(diallers[1].to_string(), "root@gw1");
    assert_eq!(names(diallers), ["db4", "gw1", "gw2"]);
    let asked = ["db2", "db4"].map(str::to_owned);
    let relays = settings.asked_relays(&asked);
    let found: Vec<(&str, &[String])> =
        relays.iter().map(|one| (one.relay.name.as_str(), one.hosts.as_slice())).collect();
    assert_eq!(found, [("gw1", &asked[..1])]);
}

#[test]
fn a_relay_gets_its_own_hosts_alone_and_neither_files_nor_addresses_of_this_machine() {
    let direct = |address: Option<&str>, port| BusChoice::Direct {
        address: address.map(|address| address.parse().unwrap()),
        port,
    };
    let free = direct(None, None);
    for (bus, expected) in [
        (BusChoice::Tunnel, BusChoice::Tunnel),
        (direct(Some("10.0.0.1"), Some(4222)), free.clone()),
        (free.clone(), free.clone()),
    ] {
        let region = settings(bus).of_region(&["db2".to_owned()]);
        let names: Vec<&str> = region.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!((names, &region.bus), (vec!["db2"], &expected));
        assert!(region.relays.is_empty() && region.goals.is_empty());
        assert_eq!((region.ssh_config, region.push, region.fanout), (None, true, 7));
        assert_eq!(region.run.as_deref(), Some("nightly"));
    }
}

#[test]
fn a_target_has_a_name_and_an_absolute_path() {
    let target: HostTarget = "log=/srv/a=b".parse().unwrap();
    assert_eq!((target.name.as_str(), target.path), ("log", PathBuf::from("/srv/a=b")));
    for text in ["/srv/x", "=/srv/x", "data=srv", "data", "a/b=/srv"] {
        text.parse::<HostTarget>().unwrap_err();
    }
}

#[test]
fn a_host_that_stays_on_a_bus_starts_its_own_program_and_no_ssh() {
    let host = host_list::parse_list("db1").unwrap().remove(0);
    let launcher = Launcher::here();
    let command = launcher.command((&host, 20_001), "join");
    assert_eq!(command.as_std().get_program(), std::env::current_exe().unwrap());
    assert_eq!(command.as_std().get_args().collect::<Vec<_>>(), ["join"]);
    assert_eq!(launcher.tunnel, None);
}
