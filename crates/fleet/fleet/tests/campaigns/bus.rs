//! Buses other than the tunnel of ssh: TLS on an address of this machine, and servers of a site.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use durio_agree::sign::SigningKey;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::failures::{child_of, kill};
use crate::lab::{Lab, free_port, program_path, spec, states, wait_until};

#[test]
fn hosts_reach_a_bus_on_an_address_of_the_coordinator_by_tls_where_sshd_forwards_no_port() {
    let Some(lab) = Lab::with(2, "AllowTcpForwarding no") else { return };
    let ended = lab.campaign(1, &["--bus", "direct:127.0.0.1"]).wait().expect(0, "tiny, 2 hosts");
    assert!(!ended.said.contains("without a whole run"), "{}", ended.said);
    for host in ["db1", "db2"] {
        assert_eq!(states(&lab.path("campaign"), host).last().unwrap(), "collected");
        // No tunnel holds the coordinator until the agents have ended.
        wait_until("nothing is left", || lab.leftovers(host).is_empty());
    }
    assert!(!lab.path("campaign/bus").exists(), "the server's key is gone");
}

#[test]
fn a_bus_by_tls_that_is_killed_is_started_again_with_its_certificate() {
    let Some(lab) = Lab::new(1) else { return };
    let campaign = lab.campaign(4, &["--bus", "direct:127.0.0.1"]);
    campaign.await_state("db1", "running");
    kill(child_of(campaign.pid(), "nats-server", ""));
    let ended = campaign.wait().expect(0, "the bus is gone; running steps go on");
    assert!(ended.said.contains("the bus is back"), "{}", ended.said);
    assert_eq!(states(&lab.path("campaign"), "db1").last().unwrap(), "collected");
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A nats-server as a site has it, with a certificate that is valid until the year `until`; its port
/// and the certificate of its authority.
fn site_server(lab: &Lab, user: &str, until: i32) -> (Server, u16, PathBuf) {
    let at = |name: &str| lab.path(&format!("{until}-{name}"));
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, format!("site {until}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    fs::write(at("ca.pem"), authority.self_signed(&authority_key).unwrap().pem()).unwrap();
    let mut server = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    server.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = server.signed_by(&key, &Issuer::new(authority, authority_key)).unwrap();
    fs::write(at("server.pem"), certificate.pem()).unwrap();
    fs::write(at("server.key"), key.serialize_pem()).unwrap();
    let port = free_port();
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\n\
         tls {{ cert_file: \"{}\", key_file: \"{}\" }}\n\
         authorization {{ users: [ {{ nkey: {user} }} ] }}\n",
        at("server.pem").display(),
        at("server.key").display(),
    );
    fs::write(at("nats.conf"), text).unwrap();
    let server = start_server(&at("nats.conf"));
    wait_until("nats-server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (server, port, at("ca.pem"))
}

fn start_server(settings: &Path) -> Server {
    let mut command = Command::new(program_path("nats-server").unwrap());
    command.arg("--config").arg(settings);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Server(command.spawn().unwrap())
}

#[test]
fn a_server_of_a_site_that_cannot_be_trusted_is_refused_with_the_reason() {
    let Some(lab) = Lab::new(1) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let key = SigningKey::generate();
    write_seed(&lab, "user.nk", &key);
    write_seed(&lab, "other.nk", &SigningKey::generate());
    let (_valid, port, authority) = site_server(&lab, &key.public(), 2_900);
    let (_expired, expired_port, expired_authority) = site_server(&lab, &key.public(), 2_020);
    let run = |port: u16, credentials: &str, authority: Option<&Path>, folder: &str| {
        let bus = format!("tls://127.0.0.1:{port}");
        let authority = authority.map(|path| path.display().to_string());
        let mut words = vec!["run", "tiny.toml", "--hosts", "db1", "--ssh-config", "ssh_config"];
        words.extend(["--yes", "-o", folder, "--bus", &bus, "--bus-credentials", credentials]);
        words.extend(authority.iter().flat_map(|path| ["--bus-ca", path.as_str()]));
        lab.start(&words).wait()
    };
    run(port, "user.nk", Some(&expired_authority), "a")
        .expect(3, "its certificate is signed by an authority that is not trusted here");
    run(expired_port, "user.nk", Some(&expired_authority), "b")
        .expect(3, "its certificate has expired");
    run(port, "other.nk", Some(&authority), "c").expect(3, "it refuses the credentials");
    run(port, "absent.nk", Some(&authority), "d").expect(3, "cannot read the credentials in");
    assert!(states(&lab.path("c"), "db1").is_empty(), "no host is asked");
}

pub(crate) fn write_seed(lab: &Lab, name: &str, key: &SigningKey) {
    fs::write(lab.path(name), key.seed().unwrap()).unwrap();
    fs::set_permissions(lab.path(name), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_server_of_a_site_whose_users_have_the_printed_permissions_carries_a_campaign() {
    let Some(lab) = Lab::new(1) else { return };
    let printed = lab.command(&["permissions", "--hosts", "db1"]).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (4, "# coordinator", "# db1"));
    let (coordinator, host) = (SigningKey::generate(), SigningKey::generate());
    let (port, settings) = (free_port(), lab.path("site.conf"));
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\nauthorization {{ users: [\n\
         {{ nkey: {}, {} }}\n{{ nkey: {}, {} }}\n] }}\n",
        coordinator.public(),
        lines[1],
        host.public(),
        lines[3],
    );
    fs::write(&settings, text).unwrap();
    let _server = start_server(&settings);
    wait_until("nats-server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    write_seed(&lab, "coordinator.nk", &coordinator);
    let bus = format!("nats://127.0.0.1:{port}");
    let options = ["--bus", bus.as_str(), "--bus-credentials", "coordinator.nk"];
    // The host has no credentials yet.
    let failed = lab.campaign(1, &options).wait().expect(3, "/etc/durio/bus.creds");
    assert!(failed.said.contains("cannot sign in to the bus of this site"), "{}", failed.said);
    fs::remove_dir_all(lab.path("campaign")).unwrap();
    give_files(&lab, "db1", &[("bus.creds", host.seed().unwrap())]);
    lab.campaign(1, &options).wait().expect(0, "tiny, 1 host");
    assert_eq!(states(&lab.path("campaign"), "db1").last().unwrap(), "collected");
}

/// Puts files into /etc/durio of a host: over the /etc of its namespace, in memory.
pub(crate) fn give_files(lab: &Lab, host: &str, files: &[(&str, String)]) {
    let [layers, given] = ["etc", "given"].map(|name| lab.path(host).join(name));
    fs::create_dir(&layers).unwrap();
    fs::create_dir(&given).unwrap();
    for (name, text) in files {
        fs::write(given.join(name), text).unwrap();
    }
    let (layers, given) = (layers.display(), given.display());
    // The layers hide what is mounted on the file.
    let home = lab.path(host);
    let home = home.display();
    let script = format!(
        "set -e; umask 077; mount -t tmpfs tmpfs {layers}; \
         mkdir -m 755 {layers}/upper {layers}/work; \
         mount -t overlay etc -o lowerdir=/etc,upperdir={layers}/upper,workdir={layers}/work /etc; \
         cat {home}/machine-id >/etc/machine-id; mkdir -m 755 /etc/durio; for file in {given}/*; do cat \"$file\" \
         >/etc/durio/\"${{file##*/}}\"; done"
    );
    let mut ssh = Command::new("ssh");
    ssh.arg("-F").arg(lab.path("ssh_config")).args([host, &script]);
    assert!(ssh.status().unwrap().success());
}

#[test]
fn nodes_of_an_allocation_of_slurm_are_the_hosts_and_srun_starts_their_agents() {
    let Some(lab) = Lab::new(2) else { return };
    fs::write(lab.path("tiny.toml"), spec(1)).unwrap();
    let run = ["run", "tiny.toml", "--via", "slurm", "--yes", "-o", "campaign"];
    lab.start(&run).wait().expect(2, "--via slurm needs an allocation of Slurm");
    let with_hosts = [&run[..], &["--hosts", "db1"]].concat();
    lab.start(&with_hosts).wait().expect(2, "the hosts are the nodes of the allocation");

    // Programs of these names that reach the hosts of the lab.
    fs::create_dir(lab.path("slurm")).unwrap();
    let script = |name: &str, text: &str| {
        let path = lab.path("slurm").join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let hostnames = "test \"$*\" = 'show hostnames db[1-2]' && printf 'db1\\ndb2\\n'";
    script("scontrol", hostnames);
    let reach = "for word; do case $word in --nodelist=*) node=${word#*=} ;; --*) ;; *) break ;; \
                 esac; shift; done; exec ssh -F ssh_config -- \"$node\" SLURM_JOB_ID=7 \"$@\"";
    script("srun", reach);
    let path = format!("{}:{}", lab.path("slurm").display(), std::env::var("PATH").unwrap());
    let target = format!("data={}", lab.path("data").display());
    let words = [&run[..], &["--target", &target, "--bus", "direct:127.0.0.1"]].concat();
    let mut command = lab.command(&words);
    command.env("PATH", path).env("SLURM_JOB_NODELIST", "db[1-2]");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for host in ["db1", "db2"] {
        assert_eq!(states(&lab.path("campaign"), host).last().unwrap(), "collected");
        // No tunnel holds the coordinator until the agents have ended.
        wait_until("nothing is left", || lab.leftovers(host).is_empty());
    }
}
