//! Agents by ssh, or by srun in an allocation of Slurm: one session for each host, which is made again
//! when it breaks, and which carries the tunnel of the bus if that has one.
//!
//! The command on the host is fixed. What depends on the campaign travels by stdin, and a host's name
//! stands after `--`, so that nothing in a list of hosts becomes an option or a shell's word.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use durio_agree::host_list;
use durio_agree::host_name::{HostList, SshHost};
use durio_base::Bytes;
use durio_block::{open_input, read_bounded};
use durio_command::CommandError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::invitation::{HostTarget, Invitation, JoinReply, LINE_BYTES_MAX};
use crate::programs::{last_line, output_of};

/// [`LaunchSettings`] for a later process, in the folder of the campaign.
pub(crate) const LAUNCH_FILE: &str = "launch.json";
const LAUNCH_BYTES_MAX: Bytes = Bytes::from_mib(16);

/// How the hosts are reached, and what each of them runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchSettings {
    pub(crate) hosts: Vec<LaunchedHost>,
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

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LaunchedHost {
    pub(crate) name: String,
    /// USER@HOST:PORT, as in a list of hosts.
    pub(crate) address: String,
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
    },
}

/// What starts agents on the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LaunchVia {
    Ssh,
    Slurm,
}

impl LaunchVia {
    fn program(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Slurm => "srun",
        }
    }
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
    /// # Errors
    /// If an address is not one of a host: the file may have been changed.
    pub(crate) fn ssh_hosts(&self) -> Result<Vec<SshHost>, CommandError> {
        let host = |launched: &LaunchedHost| {
            let mut parsed = host_list::parse_list(&launched.address)?;
            match (parsed.pop(), parsed.is_empty()) {
                (Some(host), true) => Ok(SshHost { name: launched.name.clone(), ..host }),
                _ => Err(CommandError::wrong_use(format!("'{}' is not one host", launched.name))),
            }
        };
        self.hosts.iter().map(host).collect()
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, CommandError> {
        let path = folder.join(LAUNCH_FILE);
        let failed = |error| CommandError::io("read", &path, error);
        let text = open_input(&path).and_then(|file| read_bounded(file, LAUNCH_BYTES_MAX));
        serde_json::from_slice(&text.map_err(failed)?).map_err(|error| failed(error.into()))
    }
}

const JOIN: &str = "durio-fleet join";

/// Receives the two programs, compares their digests and joins; the folder is removed at the end. In
/// one word of sh, because the user's login shell may be another.
const PUSH_AND_JOIN: &str = "exec sh -c 'umask 077; \
    d=$(mktemp -d \"${TMPDIR:-/tmp}/durio-fleet.XXXXXXXX\") || exit 3; \
    trap \"rm -rf \\\"$d\\\"\" EXIT; trap \"exit 3\" HUP INT TERM PIPE; \
    read -r a b x y && head -c \"$a\" >\"$d/durio-fleet\" && head -c \"$b\" >\"$d/durio\" && \
    printf \"%s  %s\\n\" \"$x\" \"$d/durio-fleet\" \"$y\" \"$d/durio\" | sha256sum -c - >/dev/null \
    || { echo \"the copied programs differ from the originals\" >&2; exit 3; }; \
    chmod 700 \"$d/durio-fleet\" \"$d/durio\"; \"$d/durio-fleet\" join'";

const REPLY_MAX: Duration = Duration::from_secs(60);
/// Beyond the silence after which a host is lost: the record has every agent that died.
const AGAIN_LATER: Duration = Duration::from_millis(500);
const END_MAX: Duration = Duration::from_secs(5);
/// Other programs of the host may have a port.
const PORT_TRIES: u32 = 3;
/// Below the ports that Linux gives out by itself, from 32768 on (net.ipv4.ip_local_port_range).
const PORT_MIN: u64 = 20_000;
const PORT_COUNT: u64 = 12_000;
const ERRORS_MAX: usize = 8 << 10;

/// News of a session.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The host's public key.
    Key { host: String, key: String },
    /// The host cannot be reached, or refuses.
    Unreachable { host: String, reason: String, hint: Option<&'static str> },
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
        let agent = read(&durio_command::own_program()?)?;
        let durio = read(&crate::programs::durio()?)?;
        let (first, second) = (Sha256::digest(&agent), Sha256::digest(&durio));
        let header = format!("{} {} {first:x} {second:x}\n", agent.len(), durio.len());
        Ok(Self { header, agent, durio })
    }

    async fn send(&self, input: &mut ChildStdin) -> std::io::Result<()> {
        input.write_all(self.header.as_bytes()).await?;
        input.write_all(&self.agent).await?;
        input.write_all(&self.durio).await
    }
}

impl Launcher {
    fn command(&self, host: &SshHost, port: u16) -> Command {
        let mut command = match self.via {
            LaunchVia::Ssh => self.ssh(host, port),
            LaunchVia::Slurm => self.srun(host),
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
        match self.programs {
            Some(_) => command.args(["sh", "-c", PUSH_AND_JOIN]),
            None => command.args(JOIN.split(' ')),
        };
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
        command.arg(if self.programs.is_some() { PUSH_AND_JOIN } else { JOIN });
        command
    }
}

async fn told_over(over: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = over.wait_for(|is_over| *is_over).await;
}

/// A session of one host.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
}

/// What became of an attempt.
enum Attempt {
    Joined(Session, String),
    Failed { reason: String, hint: Option<&'static str>, is_port: bool },
}

/// Keeps a session to a host until `over` is set. A host that was never `known` to take part gets one
/// attempt.
pub(crate) async fn keep(
    launcher: Arc<Launcher>,
    (host, mut is_known): (SshHost, bool),
    invitation: Invitation,
    events: UnboundedSender<LinkEvent>,
    mut over: watch::Receiver<bool>,
) {
    let (mut failures, mut is_told) = (0, false);
    while !*over.borrow() {
        let attempt = {
            let Ok(_permit) = launcher.starting.acquire().await else { return };
            if *over.borrow() {
                return;
            }
            attempt(&launcher, &host, invitation.clone()).await
        };
        match attempt {
            Attempt::Joined(mut session, key) => {
                (is_known, is_told, failures) = (true, true, 0);
                let _ = events.send(LinkEvent::Key { host: host.name.clone(), key });
                tokio::select! {
                    _ = session.child.wait() => {}
                    () = told_over(&mut over) => {
                        session.end().await;
                        return;
                    }
                }
            }
            Attempt::Failed { is_port: true, .. } if failures < PORT_TRIES => failures += 1,
            // A host that had joined is lost, which the machine notices; it may come back.
            Attempt::Failed { .. } if is_told => {}
            Attempt::Failed { reason, hint, .. } => {
                let host = host.name.clone();
                let _ = events.send(LinkEvent::Unreachable { host, reason, hint });
                is_told = true;
                if !is_known {
                    return;
                }
            }
        }
        tokio::select! {
            () = sleep(launcher.lost_after + AGAIN_LATER) => {}
            () = told_over(&mut over) => return,
        }
    }
}

impl Session {
    /// Closes stdin, by which the host knows that the session is over.
    async fn end(mut self) {
        self.input = None;
        if timeout(END_MAX, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

async fn attempt(launcher: &Launcher, host: &SshHost, mut invitation: Invitation) -> Attempt {
    let (port, program) = (random_port(), launcher.via.program());
    if launcher.tunnel.is_some() {
        invitation.bus.address = format!("nats://127.0.0.1:{port}");
    }
    let failed = |reason: String| Attempt::Failed { reason, hint: None, is_port: false };
    let mut child = match launcher.command(host, port).spawn() {
        Ok(child) => child,
        Err(error) => return failed(format!("cannot start {program}: {error}")),
    };
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut input), Some(output), Some(errors)) = streams else {
        return failed(format!("{program} has no streams"));
    };
    let errors = tokio::spawn(read_errors(errors));
    let mut lines = BufReader::new(output.take(LINE_BYTES_MAX));
    let mut line = Vec::new();
    let spoken = timeout(REPLY_MAX, async {
        // A session that has ended does not read: its own words are the reason.
        if let Some(programs) = &launcher.programs {
            let _ = programs.send(&mut input).await;
        }
        if let Ok(text) = invitation.line() {
            let _ = input.write_all(&text).await;
        }
        lines.read_until(b'\n', &mut line).await
    });
    let answered = spoken.await;
    match serde_json::from_slice(&line) {
        Ok(JoinReply::Key(key)) => {
            return Attempt::Joined(Session { child, input: Some(input) }, key);
        }
        Ok(JoinReply::Refused(reason)) => return failed(last_line(reason.as_bytes())),
        Err(_) => {}
    }
    if answered.is_err() {
        return failed(format!("no answer in {} s", REPLY_MAX.as_secs()));
    }
    drop(input);
    let code = timeout(END_MAX, child.wait()).await.ok().and_then(Result::ok);
    let said = errors.await.unwrap_or_default();
    let is_port = is_about_port(&said);
    let (reason, hint) = explained(code.and_then(|status| status.code()), &said);
    Attempt::Failed { reason, hint, is_port }
}

/// The beginning of what ssh and the host write to stderr; the rest is read and dropped, so that they
/// do not wait for a reader.
async fn read_errors(mut errors: tokio::process::ChildStderr) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let free = ERRORS_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&buffer[..count.min(free)]);
    }
    kept
}

fn is_about_port(said: &[u8]) -> bool {
    String::from_utf8_lossy(said).contains("remote port forwarding failed")
}

/// The reason in words, and what helps.
fn explained(code: Option<i32>, said: &[u8]) -> (String, Option<&'static str>) {
    let text = String::from_utf8_lossy(said);
    // srun: "execve(): durio-fleet: No such file or directory".
    if code == Some(127) || text.contains("execve(): durio-fleet: No such file") {
        let hint = "install durio and durio-fleet on the hosts, or copy them with --push";
        return ("durio-fleet is not installed there".to_owned(), Some(hint));
    }
    if is_about_port(said) {
        let hint = "the tunnel of the bus needs AllowTcpForwarding in the host's sshd_config; \
                    --bus direct does without it";
        return ("sshd refuses to forward a port".to_owned(), Some(hint));
    }
    let hint = if text.contains("Host key verification failed") {
        Some("connect once by ssh to accept the host's key, or compare it with your known_hosts")
    } else if text.contains("Permission denied") {
        Some("durio-fleet cannot type passwords: use a key or an agent of ssh")
    } else {
        None
    };
    (last_line(said), hint)
}

fn random_port() -> u16 {
    let token = durio_command::random_token();
    let random = u64::from_str_radix(&token[..8], 16).unwrap_or_default();
    u16::try_from(PORT_MIN + random % PORT_COUNT).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let command = launcher.command(&host, 20_001);
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
    fn a_node_of_slurm_has_a_step_of_one_task_with_the_same_command() {
        let words = words(&launcher(LaunchVia::Slurm, None));
        let is_there = |word: &str| words.iter().any(|known| known == word);
        assert!(is_there("--ntasks-per-node=1") && is_there("--kill-on-bad-exit=0"), "{words:?}");
        assert_eq!(&words[words.len() - 3..], ["--nodelist=10.0.0.1", "durio-fleet", "join"]);
    }

    #[test]
    fn each_failure_of_ssh_has_its_sentence_and_its_hint() {
        let rows: [(Option<i32>, &[u8], &str, &str); 5] = [
            (
                Some(2),
                b"slurmstepd: error: execve(): durio-fleet: No such file or directory",
                "durio-fleet is not installed",
                "--push",
            ),
            (Some(127), b"sh: durio-fleet: not found", "durio-fleet is not installed", "--push"),
            (Some(255), b"root@db: Permission denied (publickey).", "Permission denied", "a key"),
            (Some(255), b"Host key verification failed.", "verification failed", "accept"),
            (
                Some(255),
                b"Error: remote port forwarding failed for listen port 20001",
                "sshd refuses to forward",
                "AllowTcpForwarding",
            ),
        ];
        for (code, said, reason, hint) in rows {
            let found = explained(code, said);
            assert!(found.0.contains(reason), "{found:?}");
            assert!(found.1.is_some_and(|found| found.contains(hint)), "{found:?}");
        }
        assert_eq!(explained(Some(255), b"ssh: x: No route to host\r\n").1, None);
    }

    #[test]
    fn ports_are_below_those_that_systems_give_out() {
        for _ in 0..100 {
            assert!((20_000..32_000).contains(&random_port()));
        }
    }
}
