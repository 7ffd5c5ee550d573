//! A session to a host or to a relay, which is made again when it breaks: the invitation goes out on
//! its stdin, and the reply comes on its stdout.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use durio_agree::host_name::SshHost;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::invitation::{Invitation, JoinReply, LINE_BYTES_MAX, RegionReply, RelayRegion};
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

/// News of a session.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The host's public key.
    Key { host: String, key: String },
    /// The host cannot be reached, or refuses.
    Unreachable { host: String, reason: String, hint: Option<&'static str> },
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
pub(crate) async fn keep(
    launcher: Arc<Launcher>,
    (host, mut is_known): (SshHost, bool),
    mut invitation: Invitation,
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
                if let Some(region) = &mut invitation.region {
                    // The next process of the relay finds hosts that have joined.
                    region.is_known = true;
                }
                let region = invitation.region.as_deref();
                tokio::select! {
                    _ = session.child.wait() => {}
                    () = hear_region(&mut session.output, region, &events) => {}
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
                    let _ = events.send(LinkEvent::Unreachable { host, reason, hint });
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
    events: &UnboundedSender<LinkEvent>,
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
            let said = serde_json::from_slice::<RegionReply>(&line).ok();
            let said = said.filter(|said| hosts.contains(said.host.as_str()));
            let Some(RegionReply { host, reply }) = said else { continue };
            let _ = events.send(match reply {
                JoinReply::Key(key) => LinkEvent::Key { host, key },
                JoinReply::Refused(reason) => {
                    let reason = last_line(reason.as_bytes());
                    LinkEvent::Unreachable { host, reason, hint: None }
                }
            });
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
    let (port, program) = (random_port(), launcher.via.program());
    if launcher.tunnel.is_some() {
        invitation.bus.address = format!("nats://127.0.0.1:{port}");
    }
    let failed = |reason: String| Attempt::Failed { reason, hint: None, is_port: false };
    let word = if invitation.region.is_some() { RELAY_COMMAND } else { "join" };
    let mut child = match launcher.command((host, port), word).spawn() {
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
            let output = invitation.region.is_some().then(|| Box::new(lines));
            return Attempt::Joined(Session { child, input: Some(input), output }, key);
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
mod tests;
