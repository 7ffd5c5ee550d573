//! A bus that stays while campaigns come and go, and the credentials of the hosts that join it:
//! `durio-fleet serve` and `invite`.
//!
//! ```text
//! FOLDER/         mode 0700; its files 0600
//!   bus.json        where the bus listens, and by which name hosts dial it
//!   bus-ca.pem      the authority that hosts trust; server.pem and server.key are by it
//!   coordinator.nk  the seed by which coordinators sign in, and sign orders
//!   hosts/NAME/     key.pub, which lets the host in; the three files for its /etc/durio
//!   nats.conf       made from the above
//! ```

mod hosts;

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use durio_agree::bus_rights::{
    BusServer, BusUser, check_bus_address, standing_coordinator_permissions,
};
use durio_agree::host_list;
use durio_agree::sign::SigningKey;
use durio_base::counted;
use durio_block::Folder;
use durio_command::{CommandError, error_chain};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::time::interval;

use crate::bus::{BusListener, LOG_FILE, PrivateBus, parse_place, write_settings};
use crate::carrier::state_folder;
use crate::launch::BusChoice;
use crate::leftovers::await_lock;
use crate::programs::{StopSignals, last_line, nats_server, runtime};
use crate::secrets::{
    AUTHORITY_FILE, certificate_files, make_certificate, read_secret, write_private,
};
use crate::words::{answer, remark};
pub(crate) use hosts::invited_keys;
use hosts::{HOST_KEY_FILE, InvitedHosts};

const PLACE_FILE: &str = "bus.json";
const COORDINATOR_FILE: &str = "coordinator.nk";
const HOSTS_FOLDER: &str = "hosts";
/// Below the user's state folder.
const USUAL_FOLDER: &str = "fleet-bus";
const PORT: u16 = 4222;
const START_MAX: Duration = Duration::from_secs(5);
/// Between two looks at who is invited.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Serve a bus that hosts join by themselves, for one campaign after another
///
/// Starts nats-server at an address of this machine, by TLS, and stays until it is interrupted. Its
/// authority, its keys and its hosts are in a folder, which is made at the first start; nothing in it
/// may be read by other users.
///
///   durio fleet serve --listen 10.0.0.1                           # on the machine of the bus
///   durio fleet invite db[01-40]                                  # makes the files of each host
///   durio fleet join </dev/null                                   # on each host, as a service
///   durio fleet run db-ladder --via joined --target data=/srv/data
///
/// Hosts trust the authority of this folder alone, and the certificate is for the name or address by
/// which they dial: where that is not the address of --listen, name it by --public.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArguments {
    /// Address of this machine at which the bus listens, with port 4222 unless another is named
    /// [default: as at the last start]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Option<String>,

    /// Name or address by which hosts dial the bus; it stays for the folder [default: the address of
    /// --listen]
    #[arg(long, value_name = "HOST")]
    public: Option<String>,

    /// Folder of the bus [default: durio/fleet-bus in the state folder of the user]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Make the folder and the configuration of nats-server, and start nothing: for a server that runs
    /// elsewhere, such as in Kubernetes
    #[arg(long)]
    prepare: bool,
}

/// Make the credentials of hosts that join a bus of durio fleet serve, or take them back
///
/// For each host three files for its /etc/durio: bus.creds, a secret by which it signs in; bus-ca.pem,
/// the authority that it trusts; and fleet.toml, its host file, which names the bus and the
/// coordinator, and permits nothing until you add a [[permit]]. A bus that is served lets the hosts in
/// within a second.
///
///   durio fleet invite db[01-40]
///   durio fleet invite --revoke db17
///
/// A host whose credentials are taken back is disconnected. A run that it makes at that time continues
/// to its end, or with --shared for 30 s.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct InviteArguments {
    /// Names of hosts, also as in db[01-40]
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Take the credentials back: the bus refuses these hosts from now on
    #[arg(long)]
    revoke: bool,

    /// Folder of the bus [default: durio/fleet-bus in the state folder of the user]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Where a bus listens, and by which name hosts dial it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BusPlace {
    address: IpAddr,
    port: u16,
    public: String,
}

/// The folder of a bus that stays.
#[derive(Debug)]
pub(crate) struct StandingBus {
    folder: PathBuf,
    place: BusPlace,
}

impl BusPlace {
    /// As hosts dial it.
    fn url(&self) -> String {
        let Self { port, public, .. } = self;
        match public.contains(':') {
            true => format!("tls://[{public}]:{port}"),
            false => format!("tls://{public}:{port}"),
        }
    }
}

impl StandingBus {
    /// The bus of a folder, or of the usual one.
    ///
    /// # Errors
    /// If the folder has none, or other users can look into it.
    pub(crate) fn open(folder: Option<&Path>) -> Result<Self, CommandError> {
        let folder = located(folder)?;
        match read_place(&folder)? {
            Some(place) => Ok(Self { folder, place }),
            None => {
                let text = format!("'{}' is not the folder of a bus", folder.display());
                Err(CommandError::cannot_measure(text)
                    .hint("durio fleet serve --listen ADDRESS makes one")
                    .hint("for a server of your site: --bus tls://HOST:PORT"))
            }
        }
    }

    /// The same, made where it is not there, with the place of the options; and its lock, without which
    /// nothing is changed.
    fn open_or_make(arguments: &ServeArguments) -> Result<(Self, Folder), CommandError> {
        let folder = located(arguments.folder.as_deref())?;
        let known = read_place(&folder)?;
        let place = changed_place(known.as_ref(), arguments)?;
        check_bus_address(&place.url())?;
        if let Some(BusPlace { public, .. }) = &known
            && *public != place.public
        {
            let text = format!("the certificate in '{}' is for '{public}'", folder.display());
            return Err(CommandError::wrong_use(text)
                .hint("hosts trust it: name another --folder for another --public"));
        }
        let lock = private_folder(&folder)?;
        if !lock.try_lock().map_err(|error| CommandError::io("lock", &folder, error))? {
            let text = format!("another durio-fleet serves the bus of '{}'", folder.display());
            return Err(CommandError::cannot_measure(text));
        }
        if known.is_none() {
            make_certificate(&folder, &place.public)?;
            let seed = SigningKey::generate().seed()?;
            write_private(&folder.join(COORDINATOR_FILE), &format!("{seed}\n"))?;
        }
        Ok((Self { folder, place }, lock))
    }

    /// Last, once the place can be used: coordinators read it, and without it the folder is made again.
    fn save_place(&self) -> Result<(), CommandError> {
        let text = serde_json::to_string_pretty(&self.place).map_err(CommandError::cannot)?;
        write_private(&self.folder.join(PLACE_FILE), &text)
    }

    /// How a coordinator uses it.
    pub(crate) fn choice(&self) -> BusChoice {
        BusChoice::Site {
            address: self.place.url(),
            credentials: self.folder.join(COORDINATOR_FILE),
            authority: Some(self.folder.join(AUTHORITY_FILE)),
            invited: Some(self.hosts_folder()),
        }
    }

    fn coordinator_key(&self) -> Result<String, CommandError> {
        let seed = read_secret("read the key in", &self.folder.join(COORDINATOR_FILE))?;
        Ok(SigningKey::from_seed(&seed)?.public())
    }

    fn hosts_folder(&self) -> PathBuf {
        self.folder.join(HOSTS_FOLDER)
    }

    /// Without it no host is invited or revoked: each command writes the settings with all keys, and
    /// those of another one would be missing there.
    fn lock_hosts(&self) -> Result<Folder, CommandError> {
        let folder = private_folder(&self.hosts_folder())?;
        match await_lock(&folder) {
            Ok(()) => Ok(folder),
            Err(error) => Err(CommandError::io("lock", folder.path(), error)),
        }
    }

    fn settings(&self) -> Result<BusServer, CommandError> {
        let mut hosts = InvitedHosts::default();
        hosts.update(&self.hosts_folder())?;
        Ok(BusServer {
            address: self.place.address,
            port: self.place.port,
            tls: Some(certificate_files()),
            coordinator: BusUser {
                key: self.coordinator_key()?,
                rights: standing_coordinator_permissions(),
            },
            hosts: hosts.users(),
        })
    }

    fn host_folder(&self, name: &str) -> PathBuf {
        self.hosts_folder().join(name)
    }

    /// Makes the files of a host; the public key last, which lets it in.
    fn invite(&self, name: &str) -> Result<(), CommandError> {
        let (folder, key) = (self.host_folder(name), SigningKey::generate());
        private_folder(&folder)?;
        let path = self.folder.join(AUTHORITY_FILE);
        let authority = read_secret("read the certificate in", &path)?;
        write_private(&folder.join("bus.creds"), &format!("{}\n", key.seed()?))?;
        write_private(&folder.join(AUTHORITY_FILE), &authority)?;
        let text = host_file_text(name, &self.place.url(), &self.coordinator_key()?);
        write_private(&folder.join("fleet.toml"), &text)?;
        write_private(&folder.join(HOST_KEY_FILE), &format!("{}\n", key.public()))
    }

    fn revoke(&self, name: &str) -> Result<(), CommandError> {
        let folder = self.host_folder(name);
        let failed = |error| CommandError::io("remove the credentials in", &folder, error);
        // First what lets it in.
        fs::remove_file(folder.join(HOST_KEY_FILE)).map_err(failed)?;
        fs::remove_dir_all(&folder).map_err(failed)
    }
}

fn located(folder: Option<&Path>) -> Result<PathBuf, CommandError> {
    match folder {
        // A later process may start elsewhere.
        Some(folder) => std::path::absolute(folder).map_err(CommandError::cannot),
        None => Ok(state_folder(USUAL_FOLDER)?.path().to_owned()),
    }
}

fn read_place(folder: &Path) -> Result<Option<BusPlace>, CommandError> {
    let path = folder.join(PLACE_FILE);
    let failed = |error| CommandError::io("use", folder, error);
    if Folder::open_own_path(folder).map_err(failed)?.is_none() {
        return Ok(None);
    }
    if fs::metadata(folder).map_err(failed)?.permissions().mode() & 0o077 != 0 {
        let shown = folder.display();
        let text = format!("other users can look into '{shown}', which has keys of a bus");
        return Err(CommandError::cannot_measure(text).hint(format!("chmod 700 '{shown}'")));
    }
    if !path.try_exists().map_err(failed)? {
        return Ok(None);
    }
    let text = read_secret("read", &path)?;
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| CommandError::io("read", &path, error.into()))
}

/// What the options say, and where they are silent what was there.
fn changed_place(
    known: Option<&BusPlace>,
    arguments: &ServeArguments,
) -> Result<BusPlace, CommandError> {
    let (address, port) = match (&arguments.listen, known) {
        (Some(text), _) => {
            let (address, port) = parse_place(text).ok_or_else(|| {
                CommandError::wrong_use(format!("invalid --listen '{text}'"))
                    .hint("an address of this machine: 10.0.0.1 or 10.0.0.1:4222")
            })?;
            (address, port.unwrap_or(PORT))
        }
        (None, Some(known)) => (known.address, known.port),
        (None, None) => {
            return Err(CommandError::wrong_use("a new bus needs --listen ADDRESS[:PORT]"));
        }
    };
    let public = match (&arguments.public, known) {
        (Some(public), _) => public.clone(),
        (None, Some(known)) => known.public.clone(),
        (None, None) if address.is_unspecified() => {
            let text = format!("no host can dial {address}: name the bus by --public HOST");
            return Err(CommandError::wrong_use(text));
        }
        (None, None) => address.to_string(),
    };
    Ok(BusPlace { address, port, public })
}

/// A folder that no other user can look into, made where it is not there.
fn private_folder(path: &Path) -> Result<Folder, CommandError> {
    Folder::make_own_path(path).map_err(|error| CommandError::io("make", path, error))
}

fn host_file_text(name: &str, bus: &str, coordinator: &str) -> String {
    format!(
        "# Written by durio fleet invite: /etc/durio/fleet.toml of {name}.\n\
         schema = 1\nname = \"{name}\"\nbus = \"{bus}\"\n\n\
         [[coordinator]]\nname = \"fleet\"\nkey = \"{coordinator}\"\n\n\
         # What campaigns may write to: nothing, until there is a permit such as this.\n\
         # [[permit]]\n# coordinator = \"fleet\"\n# target = \"data\"\n# path = \"/srv/qualify\"\n\
         # size_max = \"64GiB\"\n"
    )
}

pub(crate) fn invite(arguments: &InviteArguments) -> Result<(), CommandError> {
    let bus = StandingBus::open(arguments.folder.as_deref())?;
    let hosts = host_list::parse_list(&arguments.names.join(","))?;
    let _lock = bus.lock_hosts()?;
    let mut names = Vec::new();
    for host in hosts {
        if host.user.is_some() || host.port.is_some() || host.address != host.name {
            return Err(CommandError::wrong_use(format!("'{host}' is not a name of a host")));
        }
        let is_known = bus.host_folder(&host.name).join(HOST_KEY_FILE).is_file();
        if is_known != arguments.revoke {
            let state = if is_known { "has been invited already" } else { "is not invited" };
            let error = CommandError::wrong_use(format!("{} {state}", host.name));
            return Err(match is_known {
                true => error.hint("for new credentials, first durio fleet invite --revoke"),
                false => error,
            });
        }
        names.push(host.name);
    }
    for name in &names {
        if arguments.revoke { bus.revoke(name)? } else { bus.invite(name)? }
    }
    // A server that runs elsewhere has no other way to know.
    write_settings(&bus.folder, &bus.settings()?)?;
    answer(&invited_text(&bus, &names, arguments.revoke))
}

fn invited_text(bus: &StandingBus, names: &[String], is_revoked: bool) -> String {
    let hosts = counted(names.len() as u64, "host");
    if is_revoked {
        return format!("The bus refuses {hosts} from now on: {}\n", names.join(", "));
    }
    let mut text = format!("Credentials of {hosts}; copy the files of a host to its /etc/durio:\n");
    for name in names {
        text.push_str(&format!("  {name}  {}\n", bus.host_folder(name).display()));
    }
    text + "bus.creds is a secret: mode 0600, owned by the user of durio-fleet join. fleet.toml, owned \
            by root,\npermits nothing until you add a [[permit]] to it. key.pub stays here.\n"
}

/// Serves the bus until a signal ends it.
///
/// # Errors
/// If the folder or nats-server cannot be used.
pub(crate) fn serve(arguments: &ServeArguments) -> Result<(), CommandError> {
    let (bus, _lock) = StandingBus::open_or_make(arguments)?;
    if arguments.prepare {
        bus.save_place()?;
        let _hosts = bus.lock_hosts()?;
        write_settings(&bus.folder, &bus.settings()?)?;
        let (url, shown) = (bus.place.url(), bus.folder.display());
        return answer(&format!("The configuration for {url} is in {shown}\n"));
    }
    let BusPlace { address, port, .. } = bus.place;
    let program = nats_server(!address.is_loopback())?;
    BusListener { address, port: Some(port), is_tls: true }.free_port().map_err(|mut error| {
        error.hints = vec!["another address or port: --listen ADDRESS:PORT".to_owned()];
        error
    })?;
    bus.save_place()?;
    runtime()?.block_on(keep_serving(&bus, program))
}

async fn keep_serving(bus: &StandingBus, program: PathBuf) -> Result<(), CommandError> {
    let mut signals = StopSignals::new().map_err(CommandError::cannot)?;
    // How many hosts will be invited is not known; what the system refuses, the server says.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let mut server = PrivateBus::start(program, bus.folder.clone(), bus.settings()?)?;
    await_server(bus).await?;
    let url = bus.place.url();
    remark(&format!("durio: hosts reach the bus at {url}"));
    remark("durio: durio fleet invite NAME makes the files by which a host joins");
    let mut ticks = interval(LOOK_EVERY);
    let (mut hosts, mut told) = (InvitedHosts::default(), String::new());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = signals.next() => break,
        }
        let invited = hosts.update(&bus.hosts_folder()).map(|has_changed| {
            if has_changed {
                server.set_hosts(hosts.users());
            }
        });
        // A bus with the hosts of before is better than none, for example if the disk is full.
        if let Err(error) = server.maintain().and(invited) {
            let text = error_chain(&error);
            if text != told {
                remark(&format!("durio: {text}"));
                told = text;
            }
        }
    }
    server.end().await;
    Ok(())
}

/// Waits until the server listens; an error has its last words.
async fn await_server(bus: &StandingBus) -> Result<(), CommandError> {
    let BusPlace { address, port, .. } = bus.place;
    let until = Instant::now() + START_MAX;
    // Linux takes the address of all interfaces for loopback.
    while TcpStream::connect_timeout(&SocketAddr::new(address, port), START_MAX).is_err() {
        if Instant::now() > until {
            let log = fs::read(bus.folder.join(LOG_FILE)).unwrap_or_default();
            let text = format!("nats-server does not listen at {address}: {}", last_line(&log));
            return Err(CommandError::cannot_measure(text));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
