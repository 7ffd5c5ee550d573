//! Hosts that stay on a bus, which one process serves for one campaign after another.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};

use durio_agree::sign::SigningKey;
use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::bus::{give_files, write_seed};
use crate::lab::{Campaign, Lab, free_port, runs, spec, states, wait_until};

/// A bus in the folder `bus` that lets these hosts in.
fn serve(lab: &Lab, hosts: &[&str]) -> Campaign {
    let listen = format!("127.0.0.1:{}", free_port());
    let served = lab.start(&["serve", "--folder", "bus", "--listen", &listen]);
    let url = format!("hosts reach the bus at tls://{listen}");
    wait_until("the bus is served", || served.said().contains(&url));
    let invited = invite(lab, hosts);
    assert!(invited.status.success(), "{invited:?}");
    served
}

fn invite(lab: &Lab, words: &[&str]) -> Output {
    lab.command(&[&["invite", "--folder", "bus"][..], words].concat()).output().unwrap()
}

/// Puts the files of an invitation on a host, with a permit for the folder of the lab.
fn install(lab: &Lab, host: &str) {
    let folder = lab.path("bus/hosts").join(host);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let permit = format!(
        "[[permit]]\ncoordinator = \"fleet\"\ntarget = \"data\"\npath = \"{}\"\n",
        lab.path("data").display()
    );
    let file = read("fleet.toml") + &permit;
    let names = ["bus.creds", "bus-ca.pem"];
    let [credentials, authority] = names.map(read);
    let files = [("fleet.toml", file), (names[0], credentials), (names[1], authority)];
    give_files(lab, host, &files);
}

struct Joined {
    process: Child,
    host: &'static str,
}

/// `durio-fleet join` on a host, as its service starts it.
fn join(lab: &Lab, host: &'static str) -> Joined {
    let log = File::create(lab.path(&format!("{host}.join"))).unwrap();
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(lab.path("ssh_config")).args([host, "exec durio-fleet join </dev/null"]);
    let process = ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    Joined { process, host }
}

impl Joined {
    fn said(&self, lab: &Lab) -> String {
        fs::read_to_string(lab.path(&format!("{}.join", self.host))).unwrap()
    }

    fn await_words(&self, lab: &Lab, words: &str) {
        let what = format!("{} says {words}: {}", self.host, self.said(lab));
        wait_until(&what, || self.said(lab).contains(words));
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The words of a command on all hosts that joined.
fn words<'w>(command: &[&'w str], target: &'w str) -> Vec<&'w str> {
    [command, &["--via", "joined", "--bus", "bus", "--target", target][..]].concat()
}

/// The first step alone.
fn one_step() -> String {
    let spec = spec(1);
    let (head, _) = spec.split_once("[[step]]\nname = \"commit\"").unwrap();
    head.to_owned()
}

/// Two hosts that have joined a bus.
fn two_joined(lab: &Lab) -> (Campaign, [Joined; 2]) {
    let served = serve(lab, &["db[1-2]"]);
    let joined = ["db1", "db2"].map(|host| {
        install(lab, host);
        join(lab, host)
    });
    joined.iter().for_each(|host| host.await_words(lab, "has joined tls://127.0.0.1:"));
    (served, joined)
}

/// Takes a host's credentials back, and waits until the bus refuses them.
fn revoke(lab: &Lab, host: &Joined) {
    let revoked = invite(lab, &["--revoke", host.host]);
    assert!(revoked.status.success(), "{revoked:?}");
    host.await_words(lab, "it refuses the credentials");
}

#[test]
fn hosts_that_joined_take_part_in_one_campaign_after_another() {
    let Some(lab) = Lab::new(2) else { return };
    let target = format!("data={}", lab.path("data").display());
    let (_served, mut joined) = two_joined(&lab);

    let doctor = lab.command(&words(&["doctor", "--format", "json"], &target)).output().unwrap();
    let health: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let hosts = health["hosts"].as_array().unwrap();
    assert_eq!((hosts.len(), &hosts[0]["has_host_file"]), (2, &Value::Bool(true)), "{health}");

    for (folder, spec) in [("first", spec(1)), ("second", one_step())] {
        fs::write(lab.path("tiny.toml"), spec).unwrap();
        let run = ["run", "tiny.toml", "--yes", "--lost-after", "10s", "-o", folder];
        let ended = lab.start(&words(&run, &target)).wait().expect(0, "tiny, 2 hosts");
        assert!(!ended.said.contains("without a whole run"), "{}", ended.said);
        for host in ["db1", "db2"] {
            assert_eq!(states(&lab.path(folder), host).last().unwrap(), "collected");
            assert_eq!(runs(&lab.path(folder), host).len(), 1);
            wait_until("nothing is left", || lab.leftovers(host).is_empty());
        }
    }

    // The service is stopped.
    for process in lab.processes("db1", "durio-fleet join") {
        kill_process(process, Signal::TERM).unwrap();
    }
    assert_eq!(joined[0].process.wait().unwrap().code(), Some(0), "{}", joined[0].said(&lab));
}

#[test]
fn a_host_whose_credentials_are_revoked_is_not_asked() {
    let Some(lab) = Lab::new(2) else { return };
    fs::write(lab.path("tiny.toml"), one_step()).unwrap();
    let target = format!("data={}", lab.path("data").display());
    let (_served, joined) = two_joined(&lab);
    revoke(&lab, &joined[1]);
    let run = ["run", "tiny.toml", "--yes", "--lost-after", "10s", "-o", "alone"];
    lab.start(&words(&run, &target)).wait().expect(0, "tiny, 1 host");
    assert!(states(&lab.path("alone"), "db2").is_empty(), "it is not asked");
    let plan = ["plan", "tiny.toml", "--hosts", "db1,db2"];
    let absent = "db2  failed: it is not invited to the bus";
    lab.start(&words(&plan, &target)).wait().expect(1, absent);
}

#[test]
fn new_credentials_let_a_host_in_again_without_a_new_start_of_its_service() {
    let Some(lab) = Lab::new(2) else { return };
    fs::write(lab.path("tiny.toml"), one_step()).unwrap();
    let target = format!("data={}", lab.path("data").display());
    let (_served, joined) = two_joined(&lab);
    revoke(&lab, &joined[1]);
    let times_joined = |host: &Joined| host.said(&lab).matches("db2 has joined").count();
    let before = times_joined(&joined[1]);
    assert!(invite(&lab, &["db2"]).status.success());
    let credentials = lab.path("bus/hosts/db2/bus.creds");
    let replace = format!("cat {} >/etc/durio/bus.creds", credentials.display());
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(lab.path("ssh_config")).args(["db2", &replace]);
    assert!(ssh.status().unwrap().success());
    wait_until("db2 has joined again", || times_joined(&joined[1]) > before);
    let run = ["run", "tiny.toml", "--yes", "--lost-after", "10s", "-o", "both"];
    lab.start(&words(&run, &target)).wait().expect(0, "tiny, 2 hosts");
}

#[test]
fn a_host_that_joined_obeys_the_coordinators_of_its_file_alone() {
    let Some(lab) = Lab::new(1) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let target = format!("data={}", lab.path("data").display());
    let mut bare = join(&lab, "db1");
    assert_eq!(bare.process.wait().unwrap().code(), Some(3));
    let said = bare.said(&lab);
    assert!(said.contains("this host has no host file /etc/durio/fleet.toml"), "{said}");

    let _served = serve(&lab, &["db1"]);
    let run = ["run", "tiny.toml", "--yes", "-o", "campaign"];
    lab.start(&words(&run, &target)).wait().expect(3, "no host has joined the bus");
    install(&lab, "db1");
    let joined = join(&lab, "db1");
    joined.await_words(&lab, "db1 has joined");

    let key = SigningKey::generate();
    write_seed(&lab, "other.nk", &key);
    let foreign = [&run[..], &["--key", "other.nk"]].concat();
    let sentence = format!("the coordinator's key '{}' is not in the host file", key.public());
    lab.start(&words(&foreign, &target)).wait().expect(3, &sentence);
    assert!(lab.leftovers("db1").is_empty(), "no agent was started");

    fs::set_permissions(lab.path("other.nk"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::remove_dir_all(lab.path("campaign")).unwrap();
    lab.start(&words(&foreign, &target)).wait().expect(3, "other users can read 'other.nk'");
    // A target without a permit.
    let elsewhere = format!("data={}", lab.path("db1").display());
    lab.start(&words(&run, &elsewhere)).wait().expect(3, "db1 refused:");
}

#[test]
fn a_tunnel_that_sshd_opens_to_the_network_is_refused() {
    let Some(lab) = Lab::with(1, "GatewayPorts yes") else { return };
    let sentence = "sshd opens the port of the tunnel on all addresses of this host";
    lab.campaign(1, &[]).wait().expect(3, sentence);
    fs::remove_dir_all(lab.path("campaign")).unwrap();
    lab.campaign(1, &["--bus", "direct:127.0.0.1"]).wait().expect(0, "tiny, 1 host");
}
