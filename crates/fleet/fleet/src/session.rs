//! A session to a host, to a relay, or of a host that stays on a bus with itself. It is made again when
//! it breaks: the invitation goes out on its stdin, and the answer comes on its stdout.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use durio_agree::host_name::SshHost;
use durio_agree::message::is_same_release;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::invitation::{
    HostAnswer, Invitation, JoinReply, LINE_BYTES_MAX, RelayRegion, SessionGreeting,
};
use crate::launch::Launcher;
use crate::programs::last_line;

/// The command of durio-fleet by which a machine becomes a relay.
pub(crate) const RELAY_COMMAND: &str = "relay";
const REPLY_MAX: Duration = Duration::from_secs(60);
/// Beyond the silence after which a host is lost: the record has every agent that died.
const AGAIN_LATER: Duration = Duration::from_millis(500);
const END_MAX: Duration = Duration::from_secs(5);
/// A relay ends its own sessions, and then its bus.
const RELAY_END_MAX: Duration = Duration::from_secs(15);
/// Other programs of the host may have a port.
const PORT_TRIES: u32 = 3;
/// Below the ports that Linux gives out by itself, from 32768 on (net.ipv4.ip_local_port_range).
const PORT_MIN: u64 = 20_000;
const PORT_COUNT: u64 = 12_000;
const ERRORS_MAX: usize = 8 << 10;

/// Hears the answers of hosts.
pub(crate) type HearAnswer = Arc<dyn Fn(HostAnswer) + Send + Sync>;

/// The sessions of a process. Dropped, they end at once.
pub(crate) struct Sessions {
    launcher: Arc<Launcher>,
    hear: HearAnswer,
    over: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Sessions {
    pub(crate) fn new(
        launcher: Launcher,
        hear: impl Fn(HostAnswer) + Send + Sync + 'static,
    ) -> Self {
        let (launcher, hear) = (Arc::new(launcher), Arc::new(hear));
        Self { launcher, hear, over: watch::Sender::new(false), tasks: JoinSet::new() }
    }

    /// Brings an invitation to a host or a relay, which may be `known` to take part.
    pub(crate) fn invite(&mut self, host: (SshHost, bool), invitation: Invitation) {
        let launcher = Arc::clone(&self.launcher);
        self.spawn(|hear, over| keep(launcher, host, invitation, hear, over));
    }

    /// Brings invitations in another way, until the second is set.
    pub(crate) fn spawn<T>(&mut self, task: impl FnOnce(HearAnswer, watch::Receiver<bool>) -> T)
    where
        T: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task(Arc::clone(&self.hear), self.over.subscribe()));
    }

    /// Ends them in order: hosts remove what was copied to them.
    pub(crate) async fn end(mut self) {
        // Without a session the receiver is gone.
        let _ = self.over.send(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

pub(crate) async fn told_over(over: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = over.wait_for(|is_over| *is_over).await;
}

/// A session of one host, or of a relay.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    /// What a relay says of its hosts.
    output: Option<Box<RelayOutput>>,
}

type RelayOutput = BufReader<Take<ChildStdout>>;

/// What became of an attempt.
enum Attempt {
    Joined(Session, String),
    Failed { reason: String, hint: Option<&'static str>, is_port: bool },
}

/// Keeps a session to a host or a relay until `over` is set. One that was never `known` to take part
/// gets one attempt.
async fn keep(
    launcher: Arc<Launcher>,
    (host, mut is_known): (SshHost, bool),
    mut invitation: Invitation,
    hear: HearAnswer,
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
                hear(HostAnswer::key(host.name.clone(), key));
                if let Some(region) = &mut invitation.region {
                    // The next process of the relay finds hosts that have joined.
                    region.is_known = true;
                }
                let region = invitation.region.as_deref();
                tokio::select! {
                    _ = session.child.wait() => {}
                    () = hear_region(&mut session.output, region, &hear) => {}
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
                for (host, reason) in without_session(&host, invitation.region.as_deref(), &reason)
                {
                    hear(HostAnswer::refused(host, reason, hint));
                }
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

/// The hosts that a session without success was for, with its reason.
fn without_session(
    host: &SshHost,
    region: Option<&RelayRegion>,
    reason: &str,
) -> Vec<(String, String)> {
    let Some(region) = region else { return vec![(host.name.clone(), reason.to_owned())] };
    let behind = region.launch.hosts.iter().map(|behind| behind.name.clone());
    behind.map(|name| (name, format!("its relay {}: {reason}", host.name))).collect()
}

/// Hears a relay on the hosts of its region, and on no others, until its session ends. Waits on then,
/// and for a host at once: the end of its process is the end of a session.
async fn hear_region(
    output: &mut Option<Box<RelayOutput>>,
    region: Option<&RelayRegion>,
    hear: &HearAnswer,
) {
    if let (Some(output), Some(region)) = (output, region) {
        let hosts: BTreeSet<&str> =
            region.launch.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut line = Vec::new();
        loop {
            line.clear();
            output.get_mut().set_limit(LINE_BYTES_MAX);
            if !matches!(output.read_until(b'\n', &mut line).await, Ok(1..)) {
                break;
            }
            let said = serde_json::from_slice::<HostAnswer>(&line).ok();
            if let Some(said) = said.filter(|said| hosts.contains(said.host.as_str())) {
                hear(HostAnswer { reply: said.reply.bounded(), ..said });
            }
        }
    }
    std::future::pending::<()>().await;
}

impl Session {
    /// Closes stdin, by which the host knows that the session is over.
    async fn end(mut self) {
        self.input = None;
        let longest = if self.output.is_some() { RELAY_END_MAX } else { END_MAX };
        if timeout(longest, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

async fn attempt(launcher: &Launcher, host: &SshHost, mut invitation: Invitation) -> Attempt {
    let port = random_port();
    if launcher.tunnel.is_some() {
        invitation.bus.address = format!("nats://127.0.0.1:{port}");
    }
    let failed = |reason: String| Attempt::Failed { reason, hint: None, is_port: false };
    let word = if invitation.region.is_some() { RELAY_COMMAND } else { "join" };
    let mut command = launcher.command((host, port), word);
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let mut child = match command.spawn() {
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
    let is_relay = invitation.region.is_some();
    match answer_in(&line, is_relay) {
        Some(Ok(key)) => {
            let output = is_relay.then(|| Box::new(lines));
            return Attempt::Joined(Session { child, input: Some(input), output }, key);
        }
        Some(Err((reason, hint))) => return Attempt::Failed { reason, hint, is_port: false },
        None => {}
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

/// The key in the first line of a session, or why there is none; `None` for another text. Hosts of
/// another version are refused by their statuses, and a relay has none.
fn answer_in(
    line: &[u8],
    is_relay: bool,
) -> Option<Result<String, (String, Option<&'static str>)>> {
    let SessionGreeting { reply, version } = serde_json::from_slice(line).ok()?;
    let own = env!("CARGO_PKG_VERSION");
    let other = match version.filter(|_| is_relay) {
        Some(version) => {
            Some(last_line(version.as_bytes())).filter(|_| !is_same_release(&version, own))
        }
        None => match &reply {
            JoinReply::Key(_) if is_relay => Some("of an earlier version".to_owned()),
            // Its reason says more.
            _ => None,
        },
    };
    if let Some(other) = other {
        let hint = "install the same version on the relay, or copy it with --push";
        return Some(Err((format!("it has durio-fleet {other}, expected {own}"), Some(hint))));
    }
    Some(match reply.bounded() {
        JoinReply::Key(key) => Ok(key),
        JoinReply::Refused(reason) => Err((reason, None)),
    })
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
mod tests;
