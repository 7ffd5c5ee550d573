//! The bus: a connection to it, and the private nats-server of a campaign.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::rustls::{self, CertificateError};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use durio_agree::bus_rights::{
    BusServer, BusUser, accept_server, is_on_loopback, server_configuration,
};
use durio_agree::message::{MESSAGE_BYTES_MAX, subject_token};
use durio_agree::sign::SigningKey;
use durio_base::Bytes;
use durio_command::CommandError;
use futures_util::StreamExt as _;
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal, umask};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;

use crate::inbox::{BusInbox, MESSAGES_MAX, WaitingMessage};
use crate::secrets::{AUTHORITY_FILE, read_secret, write_private};

/// Two reloads in a second at most: each reads the keys of all hosts again.
const RELOAD_EVERY: Duration = Duration::from_millis(500);
/// A server that ends at once is not started in a loop.
const RESTART_EVERY: Duration = Duration::from_secs(1);
const RECONNECT_MIN_MS: u64 = 100;
const RECONNECT_MAX_MS: u64 = 2_000;
const PING_EVERY: Duration = Duration::from_secs(1);
const SETTINGS_FILE: &str = "nats.conf";
/// The log of nats-server.
pub(crate) const LOG_FILE: &str = "nats.log";

pub(crate) enum BusEvent {
    /// The bus can be reached, or not any more.
    Up(bool),
    Message(WaitingMessage),
}

/// How a party reaches a bus.
#[derive(Debug)]
pub(crate) struct BusAccess<'k> {
    pub(crate) address: String,
    /// The only authority whose certificates are accepted, instead of those of the system.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) sign_in: SignIn<'k>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SignIn<'k> {
    /// To a server of this campaign, which may need a moment and is tried again until it is there.
    Key(&'k SigningKey),
    /// To a server that is there already, by credentials of NATS or the seed of an nkey: what is wrong
    /// with it is an error.
    File(&'k Path),
}

impl SignIn<'_> {
    /// # Errors
    /// If the file has no credentials, or other users can read it.
    pub(crate) fn options(self) -> Result<ConnectOptions, CommandError> {
        match self {
            Self::Key(key) => Ok(ConnectOptions::with_nkey(key.seed()?)),
            Self::File(path) => credentials(path)
                .map_err(|error| error.context("cannot sign in to the bus of this site")),
        }
    }
}

fn credentials(path: &Path) -> Result<ConnectOptions, CommandError> {
    let text = read_secret("read the credentials in", path)?;
    if let Ok(key) = SigningKey::from_seed(&text) {
        return Ok(ConnectOptions::with_nkey(key.seed()?));
    }
    // The text of the error may have a part of the secret.
    ConnectOptions::with_credentials(&text).map_err(|_| {
        let shown = path.display();
        let reason = format!("'{shown}' has neither credentials of NATS nor the seed of a user");
        CommandError::cannot_measure(reason).hint("nsc generate creds, or nk -gen user")
    })
}

/// A connection, which is made again whenever it breaks.
#[derive(Debug)]
pub(crate) struct BusLink {
    client: Client,
    readers: Vec<JoinHandle<()>>,
}

impl BusLink {
    /// Connects as `name`, and hears these subjects, within the limits of an [`BusInbox`].
    ///
    /// # Errors
    /// If the address cannot be used, or the server of a site does not fit. A server that is not there
    /// yet is tried again.
    pub(crate) async fn connect<F>(
        access: &BusAccess<'_>,
        name: &str,
        subjects: &[String],
        hear: F,
    ) -> Result<Self, CommandError>
    where
        F: Fn(BusEvent) + Clone + Send + Sync + 'static,
    {
        let address = access.address.as_str();
        let failed = |error: CommandError| error.context(format!("cannot use the bus {address}"));
        let inbox = Arc::new(BusInbox::default());
        let (hear_of_link, full) = (hear.clone(), Arc::clone(&inbox));
        let mut options = access
            .sign_in
            .options()?
            .custom_inbox_prefix(format!("_INBOX.{}", subject_token(name)))
            .ping_interval(PING_EVERY)
            .subscription_capacity(MESSAGES_MAX)
            .ignore_discovered_servers()
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(move |event| {
                match event {
                    Event::Connected => hear_of_link(BusEvent::Up(true)),
                    Event::Disconnected => hear_of_link(BusEvent::Up(false)),
                    Event::SlowConsumer(_) => full.note_dropped("*"),
                    _ => {}
                }
                std::future::ready(())
            });
        if let Some(authority) = &access.authority {
            options = options.add_root_certificates(authority.clone());
        }
        let is_site = matches!(access.sign_in, SignIn::File(_));
        if !is_site {
            options = options.retry_on_initial_connect();
        }
        let client = options.connect(address).await.map_err(|error| failed(explain(&error)))?;
        if is_site {
            let info = client.server_info();
            check_site((info.version.as_str(), info.max_payload), address).map_err(failed)?;
        }
        let mut readers = Vec::new();
        for subject in subjects {
            let subscriber = client.subscribe(subject.clone()).await;
            let mut messages = subscriber.map_err(|error| failed(CommandError::cannot(error)))?;
            let (hear, inbox) = (hear.clone(), Arc::clone(&inbox));
            readers.push(tokio::spawn(async move {
                while let Some(message) = messages.next().await {
                    let bytes = message.payload.to_vec();
                    if let Some(message) = inbox.receive(&message.subject, bytes) {
                        hear(BusEvent::Message(message));
                    }
                }
            }));
        }
        Ok(Self { client, readers })
    }

    /// The same, with what it hears.
    pub(crate) async fn connect_with_inbox(
        access: &BusAccess<'_>,
        name: &str,
        subjects: &[String],
    ) -> Result<(Self, UnboundedReceiver<BusEvent>), CommandError> {
        let (heard, inbox) = unbounded_channel();
        let hear = move |event| {
            let _ = heard.send(event);
        };
        Ok((Self::connect(access, name, subjects, hear).await?, inbox))
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

/// Refuses a server that is too old, or to which a piece of a run cannot be sent.
fn check_site((version, payload_max): (&str, usize), address: &str) -> Result<(), CommandError> {
    accept_server(version, !is_on_loopback(address)).map_err(CommandError::cannot_measure)?;
    if payload_max < MESSAGE_BYTES_MAX {
        let [accepted, needed] = [payload_max, MESSAGE_BYTES_MAX].map(|size| size as u64);
        let (accepted, needed) = (Bytes::new(accepted), Bytes::new(needed));
        let text = format!("it accepts messages of {accepted}, and {needed} is needed");
        return Err(CommandError::cannot_measure(text).hint("set max_payload of the server"));
    }
    Ok(())
}

/// The reason why a server refused, or was refused, in words.
fn explain(error: &ConnectError) -> CommandError {
    let system = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref);
    if let Some(rustls::Error::InvalidCertificate(reason)) =
        system.and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        return certificate_refused(reason);
    }
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            CommandError::cannot_measure("it refuses the credentials")
                .hint("durio fleet permissions shows what the users of a site's server need")
        }
        _ => CommandError::cannot_measure(error.to_string()),
    }
}

fn certificate_refused(reason: &CertificateError) -> CommandError {
    let refused = |text: &str| CommandError::cannot_measure(text);
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            refused("its certificate has expired")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            refused("its certificate is not valid yet").hint("compare the clock of this machine")
        }
        CertificateError::UnknownIssuer => {
            refused("its certificate is signed by an authority that is not trusted here")
                .hint("--bus-ca FILE names the certificate of the site's authority")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            refused("its certificate is for another name")
        }
        other => refused(&format!("its certificate is invalid: {other}")),
    }
}

/// Jittered, so that hundreds of hosts do not come back to a bus at once.
pub(crate) fn reconnect_delay(attempts: usize) -> Duration {
    let attempts = u32::try_from(attempts).unwrap_or(u32::MAX).min(16);
    let longest = (RECONNECT_MIN_MS << attempts).min(RECONNECT_MAX_MS);
    let jitter = durio_command::random_seed() % longest.max(1);
    Duration::from_millis((RECONNECT_MIN_MS + jitter).min(RECONNECT_MAX_MS))
}

/// Where a private server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BusListener {
    pub(crate) address: IpAddr,
    /// Any that is free without one.
    pub(crate) port: Option<u16>,
    pub(crate) is_tls: bool,
}

/// The place at which a server listens, ADDRESS[:PORT].
pub(crate) fn parse_place(text: &str) -> Option<(IpAddr, Option<u16>)> {
    let (address, port) = match text.parse::<IpAddr>() {
        Ok(address) => (address, None),
        Err(_) => text.parse::<SocketAddr>().ok().map(|place| (place.ip(), Some(place.port())))?,
    };
    (port != Some(0)).then_some((address, port))
}

impl BusListener {
    /// The port, which is free at the moment.
    ///
    /// # Errors
    /// If it is not, or the address is not one of this machine.
    pub(crate) fn free_port(self) -> Result<u16, CommandError> {
        let Self { address, port, .. } = self;
        let bound = TcpListener::bind((address, port.unwrap_or(0)));
        let found = bound.and_then(|listener| listener.local_addr());
        let place = SocketAddr::new(address, port.unwrap_or(0));
        found.map(|place| place.port()).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                CommandError::cannot_measure(format!("another program listens on {place}"))
                    .hint("without a port in --bus direct:ADDRESS durio takes one that is free")
            }
            io::ErrorKind::AddrNotAvailable => {
                CommandError::cannot_measure(format!("{address} is not an address of this machine"))
            }
            _ => CommandError::cannot(error).context(format!("cannot listen on {place}")),
        })
    }
}

/// A nats-server with a user for each host of a campaign, or for each host that was invited.
#[derive(Debug)]
pub(crate) struct PrivateBus {
    program: PathBuf,
    folder: PathBuf,
    settings: BusServer,
    server: Child,
    started: Instant,
    reloaded: Instant,
    is_changed: bool,
}

impl PrivateBus {
    /// Starts the server in a folder that has its certificate.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        program: PathBuf,
        folder: PathBuf,
        settings: BusServer,
    ) -> Result<Self, CommandError> {
        write_settings(&folder, &settings)?;
        let server = spawn(&program, &folder)?;
        let now = Instant::now();
        let (started, reloaded, is_changed) = (now, now, false);
        Ok(Self { program, folder, settings, server, started, reloaded, is_changed })
    }

    pub(crate) fn port(&self) -> u16 {
        self.settings.port
    }

    pub(crate) fn address(&self) -> String {
        let scheme = if self.settings.tls.is_some() { "tls" } else { "nats" };
        format!("{scheme}://{}", SocketAddr::new(self.settings.address, self.settings.port))
    }

    /// The certificate of the authority that signed the server's.
    pub(crate) fn authority(&self) -> Option<PathBuf> {
        self.settings.tls.as_ref().map(|_| self.folder.join(AUTHORITY_FILE))
    }

    /// Lets a host in, soon.
    pub(crate) fn admit(&mut self, user: BusUser) {
        // A host that was started again has another key.
        self.settings.hosts.retain(|known| known.rights != user.rights);
        self.settings.hosts.push(user);
        self.is_changed = true;
    }

    /// Lets in these hosts and no others, soon.
    pub(crate) fn set_hosts(&mut self, hosts: Vec<BusUser>) {
        self.is_changed |= self.settings.hosts != hosts;
        self.settings.hosts = hosts;
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

    /// Ends the server; its folder stays.
    pub(crate) async fn end(&mut self) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(Duration::from_secs(3), self.server.wait()).await.is_err() {
            let _ = self.server.kill().await;
        }
    }

    pub(crate) async fn stop(mut self) {
        self.end().await;
        // Keys that are there are public ones.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn write_settings(folder: &Path, settings: &BusServer) -> Result<(), CommandError> {
    write_private(&folder.join(SETTINGS_FILE), &server_configuration(settings)?)
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
    // Its log is for this user alone, as all in the folder.
    umask(Mode::from_raw_mode(0o077));
    let error = std::process::Command::new(program)
        .args(["--config", SETTINGS_FILE, "--log", LOG_FILE])
        .current_dir(folder)
        .exec();
    CommandError::io("start", program, error)
}

#[cfg(test)]
mod tests {
    use durio_command::error_chain;

    use super::*;

    #[test]
    fn connections_are_tried_again_after_2_s_at_most() {
        for attempts in [0, 1, 5, 100, usize::MAX] {
            let delay = reconnect_delay(attempts);
            assert!((100..=2_000).contains(&delay.as_millis()), "{attempts}: {delay:?}");
        }
    }

    #[test]
    fn the_first_delays_are_short_and_those_of_many_hosts_are_spread() {
        let delays = |attempts| (0..300).map(move |_| reconnect_delay(attempts).as_millis());
        assert!(delays(0).all(|millis| (100..200).contains(&millis)));
        assert!(delays(1).all(|millis| (100..300).contains(&millis)));
        assert!(delays(6).any(|millis| millis > 1_000));
        let different: std::collections::BTreeSet<u128> = delays(6).collect();
        assert!(different.len() > 20, "{different:?}");
    }

    #[test]
    fn each_certificate_that_is_refused_has_its_sentence() {
        let refused = "its certificate is signed by an authority that is not trusted here";
        for (reason, sentence) in [
            (CertificateError::Expired, "its certificate has expired"),
            (CertificateError::NotValidYet, "its certificate is not valid yet"),
            (CertificateError::UnknownIssuer, refused),
            (CertificateError::NotValidForName, "its certificate is for another name"),
        ] {
            // As the client has it.
            let inner = io::Error::new(
                io::ErrorKind::InvalidData,
                rustls::Error::InvalidCertificate(reason),
            );
            let error = explain(&ConnectError::with_source(ConnectErrorKind::Io, inner));
            assert_eq!(error_chain(&error), sentence);
        }
        let error = explain(&ConnectError::new(ConnectErrorKind::AuthorizationViolation));
        assert_eq!(error_chain(&error), "it refuses the credentials");
        let inner = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = explain(&ConnectError::with_source(ConnectErrorKind::Io, inner));
        assert_eq!(error_chain(&error), "IO error: connection refused");
    }

    #[test]
    fn the_server_of_a_site_is_new_enough_and_takes_messages_of_1_mib() {
        let check = |version, payload_max, address: &str| {
            check_site((version, payload_max), address).map_err(|error| error_chain(&error))
        };
        let (beyond, loopback) = ("tls://fleet:4222", "nats://127.0.0.1:4222");
        assert_eq!(check("2.14.0", 1 << 20, beyond), Ok(()));
        assert_eq!(check("2.9.10", 1 << 20, loopback), Ok(()));
        let old = "nats-server 2.9.9 is too old: 2.9.10 or later is needed".to_owned();
        assert_eq!(check("2.9.9", 1 << 20, loopback), Err(old));
        let holes = check("2.9.10", 1 << 20, beyond).unwrap_err();
        assert!(holes.starts_with("nats-server 2.9.10 must not listen beyond loopback"), "{holes}");
        let small = "it accepts messages of 64 KiB, and 1 MiB is needed".to_owned();
        assert_eq!(check("2.14.0", 64 << 10, beyond), Err(small));
        check("2.14.0", (1 << 20) - 1, beyond).unwrap_err();
        assert_eq!(check("2.9.10", 1 << 20, "tls://127.0.0.1:4222"), Ok(()));
    }

    #[test]
    fn a_port_that_is_in_use_and_an_address_of_another_machine_are_refused() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = taken.local_addr().unwrap();
        let listener = |address: IpAddr, port| BusListener { address, port, is_tls: true };
        let error = listener(place.ip(), Some(place.port())).free_port().unwrap_err();
        assert_eq!(error_chain(&error), format!("another program listens on {place}"));
        assert_ne!(listener(place.ip(), None).free_port().unwrap(), place.port());
        // Reserved for documents (RFC 5737).
        let elsewhere = listener("192.0.2.1".parse().unwrap(), None);
        let error = elsewhere.free_port().unwrap_err();
        assert_eq!(error_chain(&error), "192.0.2.1 is not an address of this machine");
    }
}
