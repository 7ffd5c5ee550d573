//! The bus: a connection to it, and the private nats-server of a campaign on loopback.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, Event};
use durio_agree::bus_rights::{
    BusServer, BusUser, coordinator_permissions, permissions, server_configuration,
};
use durio_agree::message::subject_token;
use durio_agree::sign::SigningKey;
use durio_command::CommandError;
use futures_util::StreamExt as _;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// Two reloads in a second at most: each reads the keys of all hosts again.
const RELOAD_EVERY: Duration = Duration::from_millis(500);
/// A server that ends at once is not started in a loop.
const RESTART_EVERY: Duration = Duration::from_secs(1);
const RECONNECT_MIN_MS: u64 = 100;
const RECONNECT_MAX_MS: u64 = 2_000;
const PING_EVERY: Duration = Duration::from_secs(1);

pub(crate) enum BusEvent {
    /// The bus can be reached, or not any more.
    Up(bool),
    Message {
        subject: String,
        bytes: Vec<u8>,
    },
}

/// A connection, which is made again whenever it breaks.
#[derive(Debug)]
pub(crate) struct BusLink {
    client: Client,
    readers: Vec<JoinHandle<()>>,
}

impl BusLink {
    /// Connects by a key, and hears these subjects.
    ///
    /// # Errors
    /// If the address cannot be used. A server that is not there yet is tried again.
    pub(crate) async fn connect<F>(
        address: &str,
        (key, name): (&SigningKey, &str),
        subjects: &[String],
        hear: F,
    ) -> Result<Self, CommandError>
    where
        F: Fn(BusEvent) + Clone + Send + Sync + 'static,
    {
        let failed = |error: String| {
            CommandError::cannot_measure(error).context(format!("cannot use the bus {address}"))
        };
        let hear_of_link = hear.clone();
        let options = ConnectOptions::with_nkey(key.seed()?)
            .custom_inbox_prefix(format!("_INBOX.{}", subject_token(name)))
            .ping_interval(PING_EVERY)
            .retry_on_initial_connect()
            .ignore_discovered_servers()
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(move |event| {
                match event {
                    Event::Connected => hear_of_link(BusEvent::Up(true)),
                    Event::Disconnected => hear_of_link(BusEvent::Up(false)),
                    _ => {}
                }
                std::future::ready(())
            });
        let client = options.connect(address).await.map_err(|error| failed(error.to_string()))?;
        let mut readers = Vec::new();
        for subject in subjects {
            let subscriber = client.subscribe(subject.clone()).await;
            let mut messages = subscriber.map_err(|error| failed(error.to_string()))?;
            let hear = hear.clone();
            readers.push(tokio::spawn(async move {
                while let Some(message) = messages.next().await {
                    let (subject, bytes) = (message.subject.to_string(), message.payload.to_vec());
                    hear(BusEvent::Message { subject, bytes });
                }
            }));
        }
        Ok(Self { client, readers })
    }

    /// Sends; what cannot be sent counts as lost on the way, which the machines expect.
    pub(crate) async fn publish(&self, subject: String, bytes: Vec<u8>) {
        let _ = self.client.publish(subject, bytes.into()).await;
    }

    pub(crate) async fn flush(&self) {
        let _ = self.client.flush().await;
    }
}

impl Drop for BusLink {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

/// Jittered, so that hundreds of hosts do not come back to a bus at once.
fn reconnect_delay(attempts: usize) -> Duration {
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX).min(16);
    let longest = (RECONNECT_MIN_MS << attempts).min(RECONNECT_MAX_MS);
    let jitter = durio_command::random_seed() % longest.max(1);
    Duration::from_millis((RECONNECT_MIN_MS + jitter).min(RECONNECT_MAX_MS))
}

/// A nats-server for one campaign, with a user for each of its hosts.
#[derive(Debug)]
pub(crate) struct PrivateBus {
    program: PathBuf,
    folder: PathBuf,
    settings: BusServer,
    campaign: String,
    server: Child,
    started: Instant,
    reloaded: Instant,
    is_changed: bool,
}

impl PrivateBus {
    /// Starts the server on a port that is free. `folder` is made for it, and removed at the end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        (program, folder): (PathBuf, PathBuf),
        campaign: &str,
        coordinator: &SigningKey,
    ) -> Result<Self, CommandError> {
        let address = Ipv4Addr::LOCALHOST;
        let port = TcpListener::bind((address, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| CommandError::cannot(error).context("cannot find a free port"))?
            .port();
        let key = coordinator.public();
        let rights = coordinator_permissions(campaign);
        let settings = BusServer {
            address: IpAddr::V4(address),
            port,
            tls: None,
            coordinator: BusUser { key, rights },
            hosts: Vec::new(),
        };
        // Left by a coordinator that was killed.
        let _ = fs::remove_dir_all(&folder);
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| CommandError::io("make", &folder, error))?;
        write_settings(&folder, &settings)?;
        let server = spawn(&program, &folder)?;
        let now = Instant::now();
        let campaign = campaign.to_owned();
        let (started, reloaded, is_changed) = (now, now, false);
        Ok(Self { program, folder, settings, campaign, server, started, reloaded, is_changed })
    }

    pub(crate) fn port(&self) -> u16 {
        self.settings.port
    }

    pub(crate) fn address(&self) -> String {
        format!("nats://{}:{}", self.settings.address, self.settings.port)
    }

    /// Lets a host in by its key, soon.
    pub(crate) fn admit(&mut self, host: &str, key: &str) {
        let user = BusUser { key: key.to_owned(), rights: permissions(&self.campaign, host) };
        // A host that was started again has another key.
        self.settings.hosts.retain(|known| known.rights != user.rights);
        self.settings.hosts.push(user);
        self.is_changed = true;
    }

    /// Tells the server of new keys, and starts it again if it has ended.
    ///
    /// # Errors
    /// If it cannot be started or its settings cannot be written.
    pub(crate) fn maintain(&mut self) -> Result<(), CommandError> {
        let has_ended = self.server.try_wait().is_ok_and(|status| status.is_some());
        if has_ended && self.started.elapsed() >= RESTART_EVERY {
            self.started = Instant::now();
            write_settings(&self.folder, &self.settings)?;
            self.server = spawn(&self.program, &self.folder)?;
            self.is_changed = false;
        }
        if self.is_changed && self.reloaded.elapsed() >= RELOAD_EVERY {
            write_settings(&self.folder, &self.settings)?;
            self.signal(Signal::HUP);
            (self.reloaded, self.is_changed) = (Instant::now(), false);
        }
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        let id = self.server.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // One that is gone is started again.
            let _ = kill_process(pid, signal);
        }
    }

    pub(crate) async fn stop(mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(Duration::from_secs(3), self.server.wait()).await.is_err() {
            let _ = self.server.kill().await;
        }
        // Keys that are there are public ones.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn settings_path(folder: &Path) -> PathBuf {
    folder.join("nats.conf")
}

fn write_settings(folder: &Path, settings: &BusServer) -> Result<(), CommandError> {
    use std::io::Write as _;
    let text = server_configuration(settings)?;
    let path = settings_path(folder);
    let new = folder.join("nats.conf.new");
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(0o600).open(&new);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, &path))
        .map_err(|error| CommandError::io("write", &path, error))
}

/// By way of this program, so that the server ends with it ([`become_server`]).
fn spawn(program: &Path, folder: &Path) -> Result<Child, CommandError> {
    let own = durio_command::own_program()?;
    Command::new(&own)
        .arg(SERVER_COMMAND)
        .arg(program)
        .arg(folder)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        // Ctrl-C stops the hosts first; the bus has to carry that.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| CommandError::io("start", program, error))
}

/// The command of this program by which it becomes the server.
pub(crate) const SERVER_COMMAND: &str = "bus-server";

/// Becomes nats-server, which ends when the coordinator does; the error, if that is not possible.
pub(crate) fn become_server(program: &Path, folder: &Path) -> CommandError {
    let parent = getppid();
    if let Err(error) = set_parent_process_death_signal(Some(Signal::TERM)) {
        return CommandError::cannot(error).context("cannot bind the bus to its coordinator");
    }
    // The coordinator may have ended before that.
    if getppid() != parent {
        return CommandError::cannot_measure("the coordinator has ended");
    }
    let error = std::process::Command::new(program)
        .arg("--config")
        .arg(settings_path(folder))
        .arg("--log")
        .arg(folder.join("nats.log"))
        .exec();
    CommandError::io("start", program, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_tried_again_after_2_s_at_most() {
        for attempts in [0, 1, 5, 100, usize::MAX] {
            let delay = reconnect_delay(attempts);
            assert!((100..=2_000).contains(&delay.as_millis()), "{attempts}: {delay:?}");
        }
    }
}
