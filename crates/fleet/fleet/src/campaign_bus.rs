//! Where the bus of a campaign is: a private nats-server on loopback, which ssh carries to the hosts,
//! or on an address of this machine; or a server of the site.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use durio_agree::bus_rights::{
    BusServer, BusUser, check_bus_address, coordinator_permissions, permissions, site_permissions,
};
use durio_agree::host_list;
use durio_agree::host_name::SshHost;
use durio_agree::sign::SigningKey;
use durio_block::Folder;
use durio_command::CommandError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bus::{BusAccess, BusListener, PrivateBus, SignIn, parse_place};
use crate::invitation::HostBus;
use crate::launch::{BusChoice, LaunchSettings, LaunchVia};
use crate::programs::nats_server;
use crate::secrets::{AUTHORITY_FILE, make_certificate};
use crate::standing_bus::StandingBus;
use crate::words::answer;

/// The credentials of a host for the bus of its site. A place that no message can change.
pub(crate) const HOST_CREDENTIALS: &str = "/etc/durio/bus.creds";
const REACH_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct BusArguments {
    /// How hosts reach the bus: tunnel (a private nats-server on loopback, carried by ssh -R), direct
    /// or direct:ADDRESS[:PORT] (the same on an address of this machine, by TLS), or tls://HOST:PORT
    /// (a NATS server of your site); with --via joined the folder of durio fleet serve, or
    /// tls://HOST:PORT [default: tunnel; direct with --via slurm; the usual folder with --via joined]
    #[arg(long, value_name = "BUS", help_heading = "Hosts")]
    pub(crate) bus: Option<String>,

    /// File by which this machine signs in to the site's server: NATS credentials, or the seed of an
    /// nkey; each host has its own in /etc/durio/bus.creds
    #[arg(long, value_name = "FILE", requires = "bus", help_heading = "Hosts")]
    pub(crate) bus_credentials: Option<PathBuf>,

    /// File with the certificate of the authority of the site's server, in PEM [default: the
    /// authorities that each system trusts]
    #[arg(long, value_name = "FILE", requires = "bus", help_heading = "Hosts")]
    pub(crate) bus_ca: Option<PathBuf>,

    /// What starts the agents: ssh; srun in an allocation of Slurm, whose nodes are the hosts; or
    /// nothing, on hosts that have joined the bus (durio fleet join). Those are the hosts unless --hosts
    /// names some of them
    #[arg(long, value_enum, default_value = "ssh", help_heading = "Hosts")]
    pub(crate) via: LaunchVia,
}

/// Show what the users of a NATS server of your site may do, for its configuration
///
/// A campaign with --bus tls://HOST:PORT uses a server that is there. Its users are made by those who
/// run it: one for the coordinator and one for each host, each with these permissions, which hold for
/// all campaigns. A host can speak for itself alone, and hears the coordinator alone.
///
///   durio fleet permissions --hosts db[01-40]
///
/// The coordinator signs in by --bus-credentials FILE, a host by /etc/durio/bus.creds. Both files have
/// the mode 0600, and hold NATS credentials or the seed of an nkey. The subjects that begin with j. are
/// for hosts that stay on the bus (durio fleet join), and for --via joined.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct PermissionsArguments {
    /// Hosts: a list such as db[001-250], a file with one per line, or an inventory of Ansible
    /// [default: $DURIO_HOSTS]
    #[arg(long, value_name = "HOSTS")]
    pub(crate) hosts: Option<OsString>,

    /// Group of the inventory
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
}

impl BusArguments {
    /// # Errors
    /// If the options contradict each other, or an address has a password or sends without TLS. Not
    /// while arguments are parsed: those messages repeat the value.
    pub(crate) fn choice(&self) -> Result<BusChoice, CommandError> {
        let usual = match self.via {
            LaunchVia::Slurm => "direct",
            LaunchVia::Ssh | LaunchVia::Joined => "tunnel",
        };
        let text = self.bus.as_deref().unwrap_or(usual);
        if text.contains("://") {
            check_bus_address(text)?;
            let Some(credentials) = self.bus_credentials.clone() else {
                return Err(CommandError::wrong_use(
                    "the bus of the site needs --bus-credentials FILE",
                ));
            };
            let (address, authority) = (text.to_owned(), self.bus_ca.clone());
            return Ok(BusChoice::Site { address, credentials, authority, invited: None });
        }
        if self.bus_credentials.is_some() || self.bus_ca.is_some() {
            return Err(CommandError::wrong_use(
                "--bus-credentials and --bus-ca are for a server of the site: --bus tls://HOST:PORT",
            ));
        }
        if self.via == LaunchVia::Joined {
            let folder = self.bus.as_ref().map(PathBuf::from);
            return Ok(StandingBus::open(folder.as_deref())?.choice());
        }
        match (text, self.via) {
            ("tunnel", LaunchVia::Ssh) => Ok(BusChoice::Tunnel),
            ("tunnel", _) => {
                Err(CommandError::wrong_use("--bus tunnel is carried by ssh, not by Slurm")
                    .hint("leave out --bus: hosts then reach this machine directly"))
            }
            _ => direct(text).ok_or_else(|| {
                // Not printed: a password may be in it.
                CommandError::wrong_use("invalid --bus: expected tunnel, direct or tls://HOST:PORT")
                    .hint(
                        "with an address of this machine: direct:10.0.0.1 or direct:10.0.0.1:4222",
                    )
            }),
        }
    }
}

fn direct(text: &str) -> Option<BusChoice> {
    let place = text.strip_prefix("direct")?;
    if place.is_empty() {
        return Some(BusChoice::Direct { address: None, port: None });
    }
    let (address, port) = parse_place(place.strip_prefix(':')?)?;
    // The certificate is for one address, which hosts dial.
    (!address.is_unspecified()).then_some(BusChoice::Direct { address: Some(address), port })
}

impl BusChoice {
    /// Where a private server listens; `None` for a server of the site.
    fn listener(&self, hosts: &[SshHost]) -> Result<Option<BusListener>, CommandError> {
        Ok(match *self {
            Self::Site { .. } => None,
            Self::Tunnel => {
                let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
                Some(BusListener { address, port: None, is_tls: false })
            }
            Self::Direct { address, port } => {
                let address = address.or_else(|| address_towards(hosts)).ok_or_else(|| {
                    CommandError::cannot_measure(
                        "cannot tell at which address hosts reach this machine",
                    )
                    .hint("name it, as in --bus direct:10.0.0.1")
                })?;
                Some(BusListener { address, port, is_tls: true })
            }
        })
    }

    /// Refuses what could not start, before anything is made.
    pub(crate) fn check(&self, hosts: &[SshHost]) -> Result<(), CommandError> {
        match (self, self.listener(hosts)?) {
            (Self::Site { credentials, .. }, _) => SignIn::File(credentials).options().map(|_| ()),
            (_, Some(listener)) => {
                nats_server(!listener.address.is_loopback())?;
                listener.free_port().map(|_| ())
            }
            (_, None) => Ok(()),
        }
    }
}

/// The address of this machine from which packets go to the first host that it can resolve. Nothing
/// is sent.
fn address_towards(hosts: &[SshHost]) -> Option<IpAddr> {
    const ANY_PORT: u16 = 22;
    let mut places = hosts
        .iter()
        .filter_map(|host| (host.address.as_str(), ANY_PORT).to_socket_addrs().ok()?.next());
    let place = places.next()?;
    let local = if place.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).ok()?;
    socket.connect(place).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The bus of one run on each host.
#[derive(Debug)]
pub(crate) struct CampaignBus {
    /// Absent where the site has a server.
    server: Option<PrivateBus>,
    campaign: String,
    address: String,
    authority: Option<PathBuf>,
    credentials: Option<PathBuf>,
    /// The port on loopback that ssh carries to the hosts.
    pub(crate) tunnel: Option<u16>,
}

impl CampaignBus {
    /// Starts a private server, or notes where that of the site is. `folder` is made for the server, and
    /// removed at the end.
    ///
    /// # Errors
    /// If a server cannot be started.
    pub(crate) fn start(
        launch: &LaunchSettings,
        folder: PathBuf,
        (campaign, coordinator): (&str, &SigningKey),
    ) -> Result<Self, CommandError> {
        if let BusChoice::Site { address, credentials, authority, .. } = &launch.bus {
            return Ok(Self {
                server: None,
                campaign: campaign.to_owned(),
                address: address.clone(),
                authority: authority.clone(),
                credentials: Some(credentials.clone()),
                tunnel: None,
            });
        }
        let listener = launch
            .bus
            .listener(&launch.diallers()?)?
            .ok_or_else(|| CommandError::cannot_measure("the campaign has no bus"))?;
        let program = nats_server(!listener.address.is_loopback())?;
        let port = listener.free_port()?;
        // Left by a coordinator that was killed.
        let _ = fs::remove_dir_all(&folder);
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| CommandError::io("make", &folder, error))?;
        let settings = BusServer {
            address: listener.address,
            port,
            tls: match listener.is_tls {
                true => Some(make_certificate(&folder, &listener.address.to_string())?),
                false => None,
            },
            coordinator: BusUser {
                key: coordinator.public(),
                rights: coordinator_permissions(campaign),
            },
            hosts: Vec::new(),
        };
        let server = PrivateBus::start(program, folder, settings)?;
        Ok(Self {
            campaign: campaign.to_owned(),
            address: server.address(),
            authority: server.authority(),
            credentials: None,
            tunnel: (launch.bus == BusChoice::Tunnel).then(|| server.port()),
            server: Some(server),
        })
    }

    /// How the coordinator reaches it.
    pub(crate) fn access<'k>(&'k self, key: &'k SigningKey) -> BusAccess<'k> {
        let (address, authority) = (self.address.clone(), self.authority.clone());
        let sign_in = self.credentials.as_deref().map_or(SignIn::Key(key), SignIn::File);
        BusAccess { address, authority, sign_in }
    }

    /// How hosts reach it; each tunnel has its own address.
    pub(crate) fn for_hosts(&self) -> Result<HostBus, CommandError> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).map_err(|error| CommandError::io("read", path, error))
        };
        Ok(HostBus {
            address: self.address.clone(),
            authority: self.authority.as_ref().map(read).transpose()?,
            is_site: self.server.is_none(),
        })
    }

    /// Lets a host in by its key, soon. The users of a site's server are there before.
    pub(crate) fn admit(&mut self, host: &str, key: &str) {
        if let Some(server) = &mut self.server {
            let rights = permissions(&self.campaign, host);
            server.admit(BusUser { key: key.to_owned(), rights });
        }
    }

    pub(crate) fn maintain(&mut self) -> Result<(), CommandError> {
        self.server.as_mut().map_or(Ok(()), PrivateBus::maintain)
    }

    pub(crate) async fn stop(self) {
        if let Some(server) = self.server {
            server.stop().await;
        }
    }
}

impl HostBus {
    /// How this host reaches it; the certificate of its authority is kept in `folder`.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) fn access<'k>(
        &self,
        key: &'k SigningKey,
        folder: &Folder,
    ) -> Result<BusAccess<'k>, CommandError> {
        let path = folder.path().join(AUTHORITY_FILE);
        if let Some(text) = &self.authority {
            folder
                .replace(AUTHORITY_FILE, text.as_bytes())
                .map_err(|error| CommandError::io("write", &path, error))?;
        }
        let sign_in = match self.is_site {
            true => SignIn::File(Path::new(HOST_CREDENTIALS)),
            false => SignIn::Key(key),
        };
        let (address, authority) = (self.address.clone(), self.authority.as_ref().map(|_| path));
        Ok(BusAccess { address, authority, sign_in })
    }

    /// Refuses a bus that this host cannot reach or sign in to, with the reason; later it would only be
    /// silent. The end of a tunnel is always there, and must be there for this host alone.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.is_site {
            SignIn::File(Path::new(HOST_CREDENTIALS)).options()?;
        }
        let Some(place) = self.address.strip_prefix("tls://") else {
            return if self.is_site { Ok(()) } else { check_tunnel(&self.address) };
        };
        let failed = |error: io::Error| {
            CommandError::cannot(error)
                .context(format!("cannot reach the bus at {place} from this host"))
        };
        let found = place.to_socket_addrs().map_err(failed)?;
        let mut result = Err(failed(io::ErrorKind::NotFound.into()));
        for place in found {
            match TcpStream::connect_timeout(&place, REACH_MAX) {
                Ok(_) => return Ok(()),
                Err(error) => result = Err(failed(error)),
            }
        }
        result
    }
}

/// Refuses a tunnel whose port sshd has opened on other addresses than the one that ssh asked for.
fn check_tunnel(address: &str) -> Result<(), CommandError> {
    let port = address.rsplit(':').next().and_then(|port| port.parse::<u16>().ok());
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let mut tables = tables.iter().flatten();
    if port.is_some_and(|port| tables.any(|table| listens_beyond_loopback(table, port))) {
        let text = "sshd opens the port of the tunnel on all addresses of this host";
        return Err(CommandError::cannot_measure(text).hint(
            "set GatewayPorts no or clientspecified in its sshd_config, or use --bus direct",
        ));
    }
    Ok(())
}

/// Whether a table of the kernel's sockets has one that listens at this port on another address than
/// those of loopback.
fn listens_beyond_loopback(table: &str, port: u16) -> bool {
    const LISTENS: &str = "0A";
    // ::1, in words of 32 bits of this machine's order.
    let loopback: String =
        [0, 0, 0, 1_u32.to_be()].iter().map(|word| format!("{word:08X}")).collect();
    table.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (Some(local), Some(state)) = (fields.next(), fields.nth(1)) else { return false };
        let Some((address, found)) = local.split_once(':') else { return false };
        let is_loopback = match (address.len(), u32::from_str_radix(address, 16)) {
            (8, Ok(word)) => Ipv4Addr::from(u32::from_be(word)).is_loopback(),
            _ => address == loopback,
        };
        state == LISTENS && u16::from_str_radix(found, 16) == Ok(port) && !is_loopback
    })
}

/// Writes the permissions that the users of a site's server need.
///
/// # Errors
/// If no hosts are named.
pub(crate) fn show_permissions(arguments: &PermissionsArguments) -> Result<(), CommandError> {
    let listed = host_list::named(arguments.hosts.as_deref(), arguments.group.as_deref())?;
    let names: Vec<String> = listed.hosts.into_iter().map(|host| host.name).collect();
    answer(&site_permissions(&names))
}

/// Files that a campaign on these hosts has open: each session has three streams, and its tunnel a
/// connection to the bus, which inherits the limit.
fn files_needed(hosts: usize) -> u64 {
    const FILES_PER_HOST: u64 = 6;
    const OTHER_FILES: u64 = 200;
    FILES_PER_HOST * hosts as u64 + OTHER_FILES
}

fn check_file_limit(hosts: usize, maximum: Option<u64>) -> Result<(), CommandError> {
    let needed = files_needed(hosts);
    match maximum.filter(|maximum| *maximum < needed) {
        None => Ok(()),
        Some(maximum) => {
            let hosts = durio_base::counted(hosts as u64, "host");
            let text = format!("{hosts} need {needed} open files, and the limit is {maximum}");
            Err(CommandError::cannot_measure(text).hint(format!("ulimit -Hn {needed}, as root")))
        }
    }
}

/// Raises the limit of open files, because many systems allow 1,024 at first.
///
/// # Errors
/// If this user may not have as many.
pub(crate) fn raise_file_limit(hosts: usize) -> Result<(), CommandError> {
    let (needed, limit) = (files_needed(hosts), getrlimit(Resource::Nofile));
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    check_file_limit(hosts, limit.maximum)?;
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).map_err(|error| {
        CommandError::cannot(error).context("cannot raise the limit of open files")
    })
}

#[cfg(test)]
mod tests;
