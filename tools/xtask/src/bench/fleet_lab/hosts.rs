//! Hosts on one machine: a network namespace with its own sshd each, all on one bridge.
//!
//! A namespace lives as long as its processes, so nothing is mounted below /run/netns and nothing
//! outlives the lab. The mounts of the rest of the system stay visible, cgroups and tracefs among them.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::campaign::LabCampaign;
use super::throttle::LabGroup;
use super::wait_until;
use crate::bench::session::{self, Interrupt};
use crate::{cargo, packages};

const PROGRAMS: [&str; 7] =
    ["nats-server", "sshd", "ssh", "ssh-keygen", "unshare", "nsenter", "ip"];
const MACHINE_ID: &str = "/etc/machine-id";
const LISTEN_MAX: Duration = Duration::from_secs(20);

/// What a host of the lab has.
pub(super) struct LabSettings<'s> {
    pub(super) hosts: usize,
    /// A folder with durio and durio-fleet; without one they are built.
    pub(super) programs: Option<&'s Path>,
    /// durio and durio-fleet are in the PATH of the hosts.
    pub(super) is_installed: bool,
    /// The hosts that belong to this group, which slows them down.
    pub(super) group: Option<(LabGroup, &'s [usize])>,
    /// One folder for the targets of all hosts, instead of one for each.
    pub(super) shared: Option<&'s Path>,
}

#[derive(Debug)]
pub(super) struct FleetLab {
    hosts: Vec<LabHost>,
    bridge: String,
    slowed: Vec<usize>,
    pub(super) interrupt: Interrupt,
    folder: TempDir,
    /// After the hosts, whose processes are in it.
    group: Option<LabGroup>,
}

#[derive(Debug)]
struct LabHost {
    name: String,
    /// The bridge's end of its link.
    link: String,
    /// Its network namespace, as /proc names it.
    namespace: PathBuf,
    sshd: Child,
}

/// Why there can be no lab here.
pub(super) fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root may make network namespaces".to_owned());
    }
    // Images of containers often lack it.
    if !Path::new(MACHINE_ID).is_file() {
        return Some(format!("{MACHINE_ID} is missing, over which each host has its own"));
    }
    let missing = PROGRAMS.into_iter().find(|program| program_path(program).is_none());
    missing.map(|program| format!("{program} is missing"))
}

pub(super) fn program_path(program: &str) -> Option<PathBuf> {
    let folders = packages::search_path();
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Both programs, copied into a folder where no concurrent build can replace them.
pub(super) fn copy_programs(from: Option<&Path>, to: &Path) -> Result<()> {
    let built = cargo::metadata()?.target_directory.into_std_path_buf().join("release");
    if from.is_none() {
        let words = ["build", "--release", "-p", "durio", "-p", "durio-fleet"];
        let status = cargo::command(&words).status().context("cannot run cargo")?;
        ensure!(status.success(), "durio and durio-fleet cannot be built");
    }
    let from = from.unwrap_or(&built);
    fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
    for name in ["durio", "durio-fleet"] {
        let program = from.join(name);
        fs::copy(&program, to.join(name)).with_context(|| format!("no {}", program.display()))?;
    }
    Ok(())
}

impl FleetLab {
    /// Hosts db1 and up.
    pub(super) fn new(settings: LabSettings<'_>, interrupt: &Interrupt) -> Result<Self> {
        let target_folder = cargo::metadata()?.target_directory.into_std_path_buf();
        let folder = session::folder(&target_folder)?;
        let (group, slowed) = settings
            .group
            .map_or((None, Vec::new()), |(group, hosts)| (Some(group), hosts.to_vec()));
        let mut lab = Self {
            hosts: Vec::new(),
            bridge: format!("dfl{}", std::process::id()),
            slowed,
            interrupt: interrupt.clone(),
            folder,
            group,
        };
        copy_programs(settings.programs, &lab.path("bin"))?;
        for key in ["id", "hostkey"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(lab.path(key));
            succeed(&mut keygen)?;
        }
        fs::copy(lab.path("id.pub"), lab.path("authorized_keys"))?;
        fs::create_dir(lab.path("data"))?;
        let bridge = lab.bridge.clone();
        ip(&["link", "add", &bridge, "type", "bridge"])?;
        ip(&["addr", "add", &format!("{}/24", address(0)), "dev", &bridge])?;
        ip(&["link", "set", &bridge, "up"])?;
        lab.write_ssh_files(settings.hosts)?;
        for number in 1..=settings.hosts {
            interrupt.check()?;
            lab.make_host(number, settings.is_installed, settings.shared)?;
            let host = lab.start_host(number)?;
            lab.hosts.push(host);
        }
        eprintln!("{} hosts listen, each in its own network namespace", settings.hosts);
        Ok(lab)
    }

    fn write_ssh_files(&self, hosts: usize) -> Result<()> {
        let folder = self.folder.path().display();
        let (mut config, mut known) = (String::new(), String::new());
        let hostkey = fs::read_to_string(self.path("hostkey.pub"))?;
        for number in 1..=hosts {
            let address = address(number);
            config.push_str(&format!("Host db{number}\n HostName {address}\n"));
            known.push_str(&format!("{address} {hostkey}"));
        }
        config.push_str(&format!(
            "Host *\n User root\n IdentityFile {folder}/id\n IdentitiesOnly yes\n \
             UserKnownHostsFile {folder}/known\n GlobalKnownHostsFile none\n"
        ));
        fs::write(self.path("ssh_config"), config)?;
        fs::write(self.path("known"), known)?;
        Ok(())
    }

    fn make_host(&self, number: usize, is_installed: bool, shared: Option<&Path>) -> Result<()> {
        let (name, address) = (name(number), address(number));
        let home = self.path(&name);
        fs::create_dir(&home)?;
        match shared {
            Some(shared) => std::os::unix::fs::symlink(shared, home.join("data"))?,
            None => fs::create_dir(home.join("data"))?,
        }
        let (folder, shown) = (self.folder.path().display(), home.display());
        let programs = if is_installed { format!("{folder}/bin:") } else { String::new() };
        let config = format!(
            "Port 22\nListenAddress {address}\nHostKey {folder}/hostkey\n\
             AuthorizedKeysFile {folder}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nPermitRootLogin prohibit-password\n\
             SetEnv PATH={programs}/usr/bin:/bin HOME={shown} XDG_STATE_HOME={shown}/state \
             TMPDIR={shown}\n"
        );
        fs::write(home.join("sshd_config"), config)?;
        // Hosts of one machine have one id; without others the second one would be refused.
        fs::write(home.join("machine-id"), format!("{number:032x}\n"))?;
        Ok(())
    }

    fn start_host(&self, number: usize) -> Result<LabHost> {
        let name = name(number);
        let home = self.path(&name);
        // The targets of all hosts have one path, and each host its own files there.
        let script = "mount --bind \"$1/machine-id\" /etc/machine-id && \
                      mount --bind \"$1/data\" \"$3\" && mount -t tmpfs tmpfs /run && \
                      mkdir /run/sshd && read -r go && \
                      exec \"$2\" -D -e -f \"$1/sshd_config\" </dev/null";
        let log = File::options().append(true).create(true).open(home.join("sshd.log"))?;
        let mut sshd = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script, "sh"])
            .arg(&home)
            .arg(program_path("sshd").context("sshd is missing")?)
            .arg(self.path("data"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a namespace")?;
        let mut input = sshd.stdin.take();
        let link = format!("{}h{number}", self.bridge);
        let mut host = LabHost { name, link, namespace: PathBuf::new(), sshd };
        let connected = self.connect_host(&mut host, number).and_then(|()| {
            let go = input.take().context("no input")?.write_all(b"\n");
            go.context("the namespace has ended")
        });
        let place = SocketAddr::from((address(number).parse::<std::net::IpAddr>()?, 22));
        let listens = || TcpStream::connect_timeout(&place, LISTEN_MAX).is_ok();
        let started = connected
            .and_then(|()| wait_until("sshd listens", LISTEN_MAX, &self.interrupt, listens));
        if let Err(error) = started {
            let _ = host.sshd.kill();
            let _ = host.sshd.wait();
            let said = fs::read_to_string(home.join("sshd.log")).unwrap_or_default();
            return Err(error.context(format!("{}: {}", host.name, said.trim())));
        }
        Ok(host)
    }

    /// Gives a new namespace its link, and puts the host into its group.
    fn connect_host(&self, host: &mut LabHost, number: usize) -> Result<()> {
        let pid = host.sshd.id();
        let namespace = format!("/proc/{pid}/ns/net");
        let own = fs::read_link("/proc/self/ns/net")?;
        let is_new = || fs::read_link(&namespace).is_ok_and(|found| found != own);
        wait_until("the namespace is made", LISTEN_MAX, &self.interrupt, is_new)?;
        host.namespace = fs::read_link(&namespace)?;
        if let Some(group) = self.group.as_ref().filter(|_| self.slowed.contains(&number)) {
            group.add(pid)?;
        }
        // The host that had this number before may have left it.
        let _ = ip(&["link", "del", &host.link]);
        let pid = pid.to_string();
        // The same for a host that comes back: others remember for half a minute who has an address.
        let hardware = format!("02:00:00:00:{:02x}:{number:02x}", std::process::id() % 250);
        let veth = ["type", "veth", "peer", "name", "eth0", "address", &hardware, "netns", &pid];
        ip(&[&["link", "add", host.link.as_str()][..], &veth].concat())?;
        ip(&["link", "set", &host.link, "master", &self.bridge, "up"])?;
        let inside = |words: &[&str]| {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net={namespace}")).arg("ip").args(words);
            succeed(&mut command)
        };
        inside(&["addr", "add", &format!("{}/24", address(number)), "dev", "eth0"])?;
        inside(&["link", "set", "eth0", "up"])?;
        inside(&["link", "set", "lo", "up"])
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// The list of hosts and the target of a campaign on all of them.
    pub(super) fn words(&self, spec: &str) -> Result<Vec<String>> {
        fs::write(self.path("lab.toml"), spec)?;
        let target = format!("data={}", self.path("data").display());
        let hosts = self.names().join(",");
        let words = ["run", "lab.toml", "--hosts", &hosts, "--target", &target];
        let more = ["--ssh-config", "ssh_config", "--yes", "-o", "campaign"];
        Ok(words.iter().chain(&more).map(|word| (*word).to_owned()).collect())
    }

    /// A campaign on all hosts in the folder `campaign`, which must not be there.
    pub(super) fn campaign(&self, spec: &str, more: &[&str]) -> Result<LabCampaign> {
        let mut words = self.words(spec)?;
        words.extend(more.iter().map(|word| (*word).to_owned()));
        self.start(&words)
    }

    /// durio-fleet, with its files in the folder of the lab.
    pub(super) fn start(&self, words: &[String]) -> Result<LabCampaign> {
        LabCampaign::start(
            &self.path("bin/durio-fleet"),
            self.folder.path(),
            words,
            &self.interrupt,
        )
    }

    fn host(&self, name: &str) -> Result<&LabHost> {
        let found = self.hosts.iter().find(|host| host.name == name);
        found.with_context(|| format!("no host {name}"))
    }

    /// Processes of a host whose command line has this part.
    pub(super) fn processes(&self, host: &str, part: &str) -> Result<Vec<Pid>> {
        let namespace = &self.host(host)?.namespace;
        Ok(processes_where(|folder| {
            fs::read_link(folder.join("ns/net")).is_ok_and(|found| found == *namespace)
                && command_line(folder).contains(part)
        }))
    }

    /// Sends a signal to such processes; at least one must be there.
    pub(super) fn signal(&self, host: &str, part: &str, signal: Signal) -> Result<()> {
        let found = self.processes(host, part)?;
        ensure!(!found.is_empty(), "no process '{part}' on {host}");
        for pid in found {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
        Ok(())
    }

    /// Sets the link of a host up or down.
    pub(super) fn set_link(&self, host: &str, state: &str) -> Result<()> {
        ip(&["link", "set", &self.host(host)?.link, state])
    }

    /// Kills all that runs on a host, its sshd among it.
    pub(super) fn kill_host(&self, name: &str) -> Result<()> {
        self.signal(name, "", Signal::KILL)
    }

    /// Ends campaigns on all hosts, starts hosts that were killed, and removes the folder.
    pub(super) fn clean(&mut self) -> Result<()> {
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            let name = host.name.clone();
            let _ = ip(&["link", "set", &host.link, "up"]);
            if host.sshd.try_wait()?.is_some() {
                self.hosts[at] = self.start_host(at + 1)?;
            }
            let sshd = Pid::from_child(&self.hosts[at].sshd);
            wait_until("a host is idle", LISTEN_MAX, &self.interrupt, || {
                let found = self.processes(&name, "").unwrap_or_default();
                let rest: Vec<Pid> = found.into_iter().filter(|pid| *pid != sshd).collect();
                rest.iter().for_each(|pid| {
                    let _ = kill_process(*pid, Signal::KILL);
                });
                rest.is_empty()
            })?;
            let _ = fs::remove_dir_all(self.path(&name).join("state"));
        }
        let _ = fs::remove_dir_all(self.path("campaign"));
        Ok(())
    }
}

impl Drop for FleetLab {
    fn drop(&mut self) {
        for host in &self.hosts {
            let namespace = &host.namespace;
            let of_host = |folder: &Path| {
                fs::read_link(folder.join("ns/net")).is_ok_and(|found| found == *namespace)
            };
            for pid in processes_where(of_host) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        for host in &mut self.hosts {
            let _ = host.sshd.kill();
            let _ = host.sshd.wait();
        }
        let _ = ip(&["link", "del", &self.bridge]);
    }
}

/// The processes of this machine of which this is true; it gets their folders in /proc.
pub(super) fn processes_where(is_wanted: impl Fn(&Path) -> bool) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        is_wanted(&entry.path()).then(|| Pid::from_raw(pid))?
    });
    pids.collect()
}

/// The command line of a process, with blanks between its words.
pub(super) fn command_line(folder: &Path) -> String {
    let words = fs::read(folder.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ")
}

/// The child of a process that runs this program.
pub(super) fn child_of(parent: u32, program: &str) -> Option<Pid> {
    let is_child = |folder: &Path| {
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        read("status").contains(&format!("PPid:\t{parent}\n")) && read("comm").trim() == program
    };
    processes_where(is_child).into_iter().next()
}

fn name(number: usize) -> String {
    format!("db{number}")
}

/// The address of a host, or that of the bridge for 0; labs of two processes do not meet.
fn address(number: usize) -> String {
    format!("10.213.{}.{}", std::process::id() % 250, number + 1)
}

fn ip(words: &[&str]) -> Result<()> {
    succeed(Command::new("ip").args(words))
}

pub(super) fn succeed(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).env("PATH", packages::search_path()).output();
    let program = command.get_program().to_string_lossy().into_owned();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_found_by_their_folders_in_proc() {
        let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        let found = processes_where(|folder| folder.ends_with(std::process::id().to_string()));
        assert_eq!(found, [own]);
        assert_eq!(child_of(std::process::id(), "no-such-program"), None);
    }

    #[test]
    fn hosts_have_different_addresses_in_one_network() {
        let [bridge, first] = [0, 1].map(address);
        assert!(bridge.ends_with(".1") && first.ends_with(".2"), "{bridge} {first}");
        assert_eq!(bridge.rsplit_once('.').unwrap().0, first.rsplit_once('.').unwrap().0);
    }
}
