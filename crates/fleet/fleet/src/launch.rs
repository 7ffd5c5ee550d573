//! How hosts are reached: by ssh, which carries the tunnel of the bus if that has one, or by srun in an
//! allocation of Slurm; by this machine, or by a relay.
//!
//! The command on the host is fixed. What depends on the campaign travels by stdin, and a host's name
//! stands after `--`, so that nothing in a list of hosts becomes an option or a shell's word.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use durio_agree::host_list;
use durio_agree::host_name::{HostList, SshHost};
use durio_base::Bytes;
use durio_block::{open_input, read_bounded};
use durio_command::{CommandError, own_program};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, Command};
use tokio::sync::Semaphore;

use crate::programs::output_of;

/// [`LaunchSettings`] for a later process, in the folder of the campaign.
pub(crate) const LAUNCH_FILE: &str = "launch.json";
const LAUNCH_BYTES_MAX: Bytes = Bytes::from_mib(16);
/// Between two sessions that a host has with itself for one campaign.
const HERE_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How the hosts are reached, and what each of them runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchSettings {
    /// All, behind relays or not.
    pub(crate) hosts: Vec<LaunchedHost>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) relays: Vec<LaunchedRelay>,
    pub(crate) targets: Vec<HostTarget>,
    pub(crate) ssh_config: Option<PathBuf>,
    pub(crate) via: LaunchVia,
    pub(crate) bus: BusChoice,
    pub(crate) push: bool,
    pub(crate) fanout: usize,
    /// The name of the runs.
    pub(crate) run: Option<String>,
    pub(crate) lost_wait_ns: u64,
    pub(crate) lost_after_ns: u64,
    /// Goals that the report judges.
    #[serde(default)]
    pub(crate) goals: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchedHost {
    pub(crate) name: String,
    /// USER@HOST:PORT, as in a list of hosts.
    pub(crate) address: String,
}

/// A target of the spec, and its folder on the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostTarget {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl std::str::FromStr for HostTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, path) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains('/'))
            .ok_or(
                "expected NAME=PATH with the target's name in the spec, such as data=/srv/data",
            )?;
        match path.starts_with('/') {
            true => Ok(Self { name: name.to_owned(), path: path.into() }),
            false => Err(format!("'{path}' is not an absolute path on the hosts")),
        }
    }
}

/// A relay, and the names of the hosts in its region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LaunchedRelay {
    pub(crate) relay: LaunchedHost,
    pub(crate) hosts: Vec<String>,
}

impl LaunchedHost {
    pub(crate) fn new(host: &SshHost) -> Self {
        Self { name: host.name.clone(), address: host.to_string() }
    }

    /// # Errors
    /// If the address is not one of a host: the file may have been changed.
    pub(crate) fn ssh_host(&self) -> Result<SshHost, CommandError> {
        let mut parsed = host_list::parse_list(&self.address)?;
        match (parsed.pop(), parsed.is_empty()) {
            (Some(host), true) => Ok(SshHost { name: self.name.clone(), ..host }),
            _ => Err(CommandError::wrong_use(format!("'{}' is not one host", self.name))),
        }
    }
}

/// Where the bus is, as the operator chose it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BusChoice {
    Tunnel,
    /// Without an address the one from which packets go to the hosts.
    Direct {
        address: Option<IpAddr>,
        port: Option<u16>,
    },
    Site {
        address: String,
        credentials: PathBuf,
        authority: Option<PathBuf>,
        /// The public keys of hosts that join it, in a folder of `durio fleet serve`.
        #[serde(default)]
        invited: Option<PathBuf>,
    },
}

/// What starts agents on the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaunchVia {
    Ssh,
    Slurm,
    /// Hosts that stay on the bus.
    Joined,
}

/// The nodes of the allocation in which this process runs.
///
/// # Errors
/// If it runs in none.
pub(crate) fn slurm_hosts() -> Result<HostList, CommandError> {
    let help = "salloc --exclusive -N 8 durio fleet run SPEC --via slurm --target NAME=PATH";
    let nodes = std::env::var_os("SLURM_JOB_NODELIST").filter(|nodes| !nodes.is_empty());
    let nodes = nodes.ok_or_else(|| {
        CommandError::wrong_use("--via slurm needs an allocation of Slurm").hint(help)
    })?;
    let words: [&OsStr; 3] = ["show".as_ref(), "hostnames".as_ref(), &nodes];
    let text = output_of("scontrol".as_ref(), &words)?;
    host_list::parse_file(&text, "scontrol show hostnames", None)
}

impl LaunchSettings {
    /// The hosts that this machine itself reaches, without those behind relays.
    ///
    /// # Errors
    /// As [`LaunchedHost::ssh_host`].
    pub(crate) fn own_hosts(&self) -> Result<Vec<SshHost>, CommandError> {
        let behind: BTreeSet<&String> = self.relays.iter().flat_map(|one| &one.hosts).collect();
        let own = self.hosts.iter().filter(|host| !behind.contains(&host.name));
        own.map(LaunchedHost::ssh_host).collect()
    }

    /// All that dial the bus of this machine.
    ///
    /// # Errors
    /// As [`LaunchedHost::ssh_host`].
    pub(crate) fn diallers(&self) -> Result<Vec<SshHost>, CommandError> {
        let relays = self.relays.iter().map(|one| one.relay.ssh_host());
        self.own_hosts()?.into_iter().map(Ok).chain(relays).collect()
    }

    /// The relays of hosts that are asked, each with these alone.
    pub(crate) fn asked_relays(&self, asked: &[String]) -> Vec<LaunchedRelay> {
        let asked: BTreeSet<&String> = asked.iter().collect();
        let regions = self.relays.iter().map(|one| {
            let hosts = one.hosts.iter().filter(|host| asked.contains(host)).cloned();
            LaunchedRelay { relay: one.relay.clone(), hosts: hosts.collect() }
        });
        regions.filter(|one| !one.hosts.is_empty()).collect()
    }

    /// What a relay needs for its hosts. It reaches them as this machine does its own, by the
    /// configuration of ssh that it has; its bus has an address and a port of its machine.
    pub(crate) fn of_region(&self, hosts: &[String]) -> Self {
        let named: BTreeSet<&String> = hosts.iter().collect();
        let here = self.hosts.iter().filter(|host| named.contains(&host.name)).cloned();
        let bus = match self.bus {
            BusChoice::Tunnel => BusChoice::Tunnel,
            _ => BusChoice::Direct { address: None, port: None },
        };
        let (relays, ssh_config, goals) = (Vec::new(), None, Vec::new());
        Self { hosts: here.collect(), relays, ssh_config, bus, goals, ..self.clone() }
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, CommandError> {
        let path = folder.join(LAUNCH_FILE);
        let failed = |error| CommandError::io("read", &path, error);
        let text = open_input(&path).and_then(|file| read_bounded(file, LAUNCH_BYTES_MAX));
        let settings: Self =
            serde_json::from_slice(&text.map_err(failed)?).map_err(|error| failed(error.into()))?;
        if let Some(config) = &settings.ssh_config {
            check_ssh_config(config, folder)?;
        }
        Ok(settings)
    }
}

/// Refuses a configuration that another user may have written, or that came with the folder: ssh runs
/// its ProxyCommand.
fn check_ssh_config(config: &Path, folder: &Path) -> Result<(), CommandError> {
    let failed = |error| CommandError::io("read", config, error);
    let real = std::fs::canonicalize(config).map_err(failed)?;
    let facts = std::fs::metadata(&real).map_err(failed)?;
    let is_own = [0, rustix::process::geteuid().as_raw()].contains(&facts.uid());
    let reason = if real.starts_with(std::fs::canonicalize(folder).map_err(failed)?) {
        "is in that folder"
    } else if !is_own {
        "belongs to another user"
    } else if facts.mode() & 0o022 != 0 {
        "can be written by other users"
    } else {
        return Ok(());
    };
    let shown = config.display();
    let text =
        format!("the ssh configuration '{shown}', which the campaign folder names, {reason}");
    Err(CommandError::wrong_use(text).hint(format!(
        "if you trust it, copy it to a file of yours and name that in {LAUNCH_FILE}"
    )))
}

/// Receives the two programs, compares their digests and runs a command of durio-fleet. The folder is
/// removed at the end, unless an agent has marked it as its own: its run may outlast a link. In one word
/// of sh, because the user's login shell may be another.
const PUSH: &str = "exec sh -c 'umask 077; \
    d=$(mktemp -d \"${TMPDIR:-/tmp}/durio-fleet.XXXXXXXX\") || exit 3; \
    trap \"[ -e \\\"$d/kept\\\" ] || rm -rf \\\"$d\\\"\" EXIT; \
    trap \"exit 3\" HUP INT TERM PIPE; : >\"$d/pushed\"; \
    read -r a b x y && head -c \"$a\" >\"$d/durio-fleet\" && head -c \"$b\" >\"$d/durio\" && \
    printf \"%s  %s\\n\" \"$x\" \"$d/durio-fleet\" \"$y\" \"$d/durio\" | sha256sum -c - >/dev/null \
    || { echo \"the copied programs differ from the originals\" >&2; exit 3; }; \
    chmod 700 \"$d/durio-fleet\" \"$d/durio\"; \"$d/durio-fleet\" ";

/// What a host gets for a command of durio-fleet that is copied there.
pub(crate) fn pushed(command: &str) -> String {
    format!("{PUSH}{command}'")
}

/// How hosts are reached.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) via: LaunchVia,
    pub(crate) ssh_config: Option<PathBuf>,
    /// The port of the bus on this machine that ssh carries to the hosts.
    pub(crate) tunnel: Option<u16>,
    pub(crate) programs: Option<PushedPrograms>,
    /// Sessions that are being made at a time.
    pub(crate) starting: Semaphore,
    /// Silence after which a host is lost.
    pub(crate) lost_after: Duration,
}

/// The programs that hosts get for the time of the campaign.
#[derive(Debug)]
pub(crate) struct PushedPrograms {
    header: String,
    agent: Vec<u8>,
    durio: Vec<u8>,
}

impl PushedPrograms {
    /// Those of this machine.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn of_this_machine() -> Result<Self, CommandError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| CommandError::io("read", path, error))
        };
        let agent = read(&own_program()?)?;
        let durio = read(&crate::programs::durio()?)?;
        let (first, second) = (Sha256::digest(&agent), Sha256::digest(&durio));
        let header = format!("{} {} {first:x} {second:x}\n", agent.len(), durio.len());
        Ok(Self { header, agent, durio })
    }

    pub(crate) async fn send(&self, input: &mut ChildStdin) -> std::io::Result<()> {
        input.write_all(self.header.as_bytes()).await?;
        input.write_all(&self.agent).await?;
        input.write_all(&self.durio).await
    }
}

impl Launcher {
    /// # Errors
    /// If the programs of this machine are to be copied, and cannot be read.
    pub(crate) fn new(launch: &LaunchSettings) -> Result<Self, CommandError> {
        Ok(Self {
            via: launch.via,
            ssh_config: launch.ssh_config.clone(),
            tunnel: None,
            programs: match launch.push {
                true => Some(PushedPrograms::of_this_machine()?),
                false => None,
            },
            starting: Semaphore::new(launch.fanout),
            lost_after: Duration::from_nanos(launch.lost_after_ns),
        })
    }

    /// For a host that stays on a bus: sessions with itself.
    pub(crate) fn here() -> Self {
        Self {
            via: LaunchVia::Joined,
            ssh_config: None,
            tunnel: None,
            programs: None,
            starting: Semaphore::new(1),
            lost_after: HERE_AGAIN_AFTER,
        }
    }

    /// Starts a command of durio-fleet on a host.
    pub(crate) fn command(&self, (host, port): (&SshHost, u16), word: &str) -> Command {
        let mut command = match self.via {
            LaunchVia::Ssh => self.ssh(host, port),
            LaunchVia::Slurm => self.srun(host),
            // PATH has it as well, where the system does not say which program this is.
            LaunchVia::Joined => Command::new(own_program().unwrap_or("durio-fleet".into())),
        };
        match (&self.programs, self.via) {
            (_, LaunchVia::Joined) => command.arg(word),
            (Some(_), LaunchVia::Slurm) => command.args(["sh", "-c", &pushed(word)]),
            (None, LaunchVia::Slurm) => command.args(["durio-fleet", word]),
            (Some(_), LaunchVia::Ssh) => command.arg(pushed(word)),
            (None, LaunchVia::Ssh) => command.arg(format!("durio-fleet {word}")),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the coordinator, which ends the hosts in order.
        command.process_group(0).kill_on_drop(true);
        command
    }

    /// A step for each node: its streams and its end are those of one host.
    fn srun(&self, host: &SshHost) -> Command {
        let mut command = Command::new("srun");
        command.args(["--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--kill-on-bad-exit=0"]);
        // Another step does not delay it, and all processors of the node are for the run.
        command.args(["--overlap", "--cpu-bind=none", "--unbuffered"]);
        command.arg(format!("--nodelist={}", host.address));
        command
    }

    fn ssh(&self, host: &SshHost, port: u16) -> Command {
        let mut command = Command::new("ssh");
        if let Some(config) = &self.ssh_config {
            command.arg("-F").arg(config);
        }
        let options = [
            "BatchMode=yes",
            "ConnectTimeout=15",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "ExitOnForwardFailure=yes",
            "ForwardAgent=no",
            "ForwardX11=no",
            // A shared session would end with another program, or carry the tunnel twice.
            "ControlMaster=no",
            "ControlPath=none",
        ];
        command.arg("-T").args(options.iter().flat_map(|option| ["-o", option]));
        if let Some(bus_port) = self.tunnel {
            command.arg("-R").arg(format!("127.0.0.1:{port}:127.0.0.1:{bus_port}"));
        }
        command.args(host.ssh_arguments());
        command
    }
}

#[cfg(test)]
mod tests;
