//! `durio raid`: arrays served by durio.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use durio_base::{Bytes, shell_word};
use durio_block::Folder;
use durio_command::CommandError;
use durio_raid_commands::{
    ArrayOrder, CreateArray, EraseConsent, ServeArray, create_array, examine_array, list_arrays,
    order_array, serve_array,
};
use durio_report::array_standing;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::output;
use crate::stop_signals::stop_on_signals;

/// Create and serve an array of several devices: RAID 0, 1, 5, 6 or 10 in user space
///
/// For small durable writes: a write is acknowledged when all copies are durable, overlapping
/// writes reach all copies in the same order, and after a crash only the regions being written are
/// copied again. The array is served as a block device, or over NBD, which the kernel and QEMU can
/// use. All its metadata is on its devices; there is no configuration file.
#[derive(Debug, Args)]
pub(crate) struct RaidArguments {
    #[command(subcommand)]
    pub(crate) command: RaidCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RaidCommand {
    #[command(after_help = TABLE)]
    Create(CreateArray),
    Examine(RaidExamine),
    Start(RaidStart),
    /// Show the state of a served array: members, dirty regions, background work
    ///
    /// Without --socket, lists the arrays that are served now: of this user, or for root of all. It
    /// exits with 0 also if none is served, or if a server does not answer.
    #[command(alias = "list")]
    Status {
        /// Socket of the array, as given to durio raid start; without it, all arrays are listed
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,

        #[command(flatten)]
        output: OutputArguments,
    },
    /// Mark a member as failed; refused for the only copy of some data
    ///
    /// The device stays claimed until durio raid remove, so that no other program can use it.
    Fail(ArrayDevice),
    Add(RaidAdd),
    Replace(RaidReplace),
    /// Release a spare or a failed device, so that it can be unplugged or reused
    Remove(ArrayDevice),
    /// Compare all copies of a served array in the background; durio raid status shows the result
    ///
    /// A chunk is compared only while no write to it is in flight. The first copy in sync is taken as
    /// correct, since an array cannot know which of two is; at levels 5 and 6 the data is taken as
    /// correct, not the parity.
    Scrub {
        /// Also rewrite copies that differ or cannot be read
        #[arg(long)]
        repair: bool,

        #[command(flatten)]
        socket: ArraySocket,
    },
    /// Stop a served array cleanly, and wait until it has stopped
    ///
    /// Requests in flight are answered, and the next start has nothing to copy. Ctrl-C does the
    /// same.
    Stop(ArraySocket),
}

/// Show the superblocks of devices, and whether the devices can start together; read-only
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct RaidExamine {
    /// Devices or files to examine
    #[arg(value_name = "DEV", required = true)]
    pub(crate) devices: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Serve an array until Ctrl-C or durio raid stop
///
/// Prints on stdout when it is ready, and its address: a block device with --front ublk or --attach, an
/// NBD URI with --front nbd, where several clients can connect. A second socket, PATH.control, is
/// for the other durio raid commands. An acknowledged write is durable on all copies.
///
/// A block device that is mounted or otherwise in use is not removed. If the server of a ublk
/// device is killed, users of the device wait and lose nothing: start the array again.
///
/// More than half of the members must be present. A member that was missing returns automatically
/// and is brought up to date. After a crash, the regions being written are copied again in the
/// background.
///
///   durio raid start --front ublk --socket /run/data /dev/sdb /dev/sdc
///   mkfs.ext4 /dev/ublkb0
///   durio raid status --socket /run/data
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RaidStart {
    #[command(flatten)]
    pub(crate) array: ServeArray,

    /// Continue in the background when ready; later messages go to PATH.log
    ///
    /// Exits with 0 when clients can connect; errors before that are reported as usual. Under
    /// systemd, durio-raid@NAME.service does not need --detach.
    #[arg(long)]
    pub(crate) detach: bool,

    /// The process in the background
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) detached: bool,

    /// Start without a majority of the members; newer writes on the missing members are lost
    #[arg(long, help_heading = "Safety")]
    pub(crate) force: bool,
}

/// Add a device in place of a missing member, or as a spare
///
/// A member that was missing returns and is brought up to date. Any other device needs --destroy,
/// and gets a copy of everything. If no member is missing, it becomes a spare, which replaces a
/// member that fails; level 0 has no spares.
///
///   durio raid add --socket /run/data /dev/sdc
///   durio raid add --socket /run/data --destroy /dev/sdd /dev/sdd
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RaidAdd {
    #[command(flatten)]
    pub(crate) device: ArrayDevice,

    #[command(flatten)]
    pub(crate) consent: RaidConsent,
}

/// Replace a healthy member without losing redundancy
///
/// Everything is copied to the new device, which also gets all new writes; the old one stays in use
/// until the new one is in sync; durio raid remove then releases it. If the new device fails first,
/// the old one stays; if the old one fails first, the new one is rebuilt from the other copies. At
/// level 0 this is the only way to replace a device. For a missing member, use durio raid add.
///
///   durio raid replace --socket /run/data --destroy /dev/sdd /dev/sdb /dev/sdd
///   durio raid status --socket /run/data
///   durio raid remove --socket /run/data /dev/sdb
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct RaidReplace {
    /// Member to replace: its device or its role
    #[arg(value_name = "OLD")]
    pub(crate) old: PathBuf,

    /// Device that joins the array
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    #[command(flatten)]
    pub(crate) socket: ArraySocket,

    #[command(flatten)]
    pub(crate) consent: RaidConsent,
}

#[derive(Debug, Args)]
pub(crate) struct RaidConsent {
    /// Allow overwriting this device or file (exact path); it joins as a new member
    #[arg(long, value_name = "PATH", help_heading = "Safety")]
    pub(crate) destroy: Option<PathBuf>,

    /// Allow --destroy also on a filesystem or a RAID member
    #[arg(long, requires = "destroy", help_heading = "Safety")]
    pub(crate) force_signature: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ArrayDevice {
    /// Device; fail and remove also take the role of a member
    #[arg(value_name = "DEV")]
    pub(crate) path: PathBuf,

    #[command(flatten)]
    pub(crate) socket: ArraySocket,
}

#[derive(Debug, Args)]
pub(crate) struct ArraySocket {
    /// Socket of the array, as given to durio raid start
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
}

/// Limit for showing a server's remarks at its start; the log has all of them.
const LOG_SHOWN: usize = 64 << 10;

pub(super) fn raid(arguments: &RaidArguments) -> Result<Exit, CommandError> {
    match &arguments.command {
        RaidCommand::Create(array) => create(array),
        RaidCommand::Examine(arguments) => examine(arguments),
        RaidCommand::Start(arguments) => start(arguments),
        RaidCommand::Status { socket, output } => {
            match socket {
                Some(socket) => {
                    output::report(*output, &order_array(socket, &ArrayOrder::Status)?)?;
                }
                None => output::report(*output, &list_arrays())?,
            }
            Ok(Exit::Fine)
        }
        RaidCommand::Fail(it) => {
            let path = member(&it.socket.socket, &it.path)?;
            tell(&it.socket.socket, &ArrayOrder::Fail { path })
        }
        RaidCommand::Remove(it) => {
            let path = member(&it.socket.socket, &it.path)?;
            tell(&it.socket.socket, &ArrayOrder::Remove { path })
        }
        RaidCommand::Add(arguments) => add(arguments),
        RaidCommand::Replace(arguments) => replace(arguments),
        RaidCommand::Scrub { repair, socket } => {
            tell(&socket.socket, &ArrayOrder::Scrub { repair: *repair })
        }
        RaidCommand::Stop(it) => tell(&it.socket, &ArrayOrder::Stop),
    }
}

fn create(array: &CreateArray) -> Result<Exit, CommandError> {
    let shape = create_array(array)?;
    let size = Bytes::new(shape.size_bytes);
    output::answer_text(&format!("created: {}, {size}, {}\n", shape.name, shape.array))?;
    let devices = array.members.iter().chain(&array.spares);
    let devices = devices.map(|device| shell_word(&device.to_string_lossy()));
    let devices = devices.collect::<Vec<_>>().join(" ");
    output::remark(&format!("hint: serve it with: durio raid start --socket PATH {devices}"));
    Ok(Exit::Fine)
}

fn examine(arguments: &RaidExamine) -> Result<Exit, CommandError> {
    let examination = examine_array(&arguments.devices)?;
    output::report(arguments.output, &examination)?;
    Ok(Exit::Fine)
}

fn start(arguments: &RaidStart) -> Result<Exit, CommandError> {
    if arguments.detach {
        return start_detached(&absolute(&arguments.array.socket)?);
    }
    let stop = stop_on_signals()?;
    let ready = |name: &str| {
        // A caller that stopped listening does not want the array either; the next signal ends it.
        let _ = output::answer_text(&format!("ready: {name}\n"));
        if arguments.detached {
            // Detached from the terminal. It leads no group, so this does not fail.
            let _ = rustix::process::setsid();
        }
        if let Err(error) = tell_service_manager() {
            output::remark(&format!("durio: cannot notify the service manager: {error}"));
        }
    };
    let remark = |text: &str| output::remark(&format!("durio: {text}"));
    serve_array(&arguments.array, arguments.force, ready, &remark, &|| stop.is_set())?;
    Ok(Exit::Fine)
}

/// Starts the server as a separate process, and waits until it serves. Until then it is in this
/// process's group, so Ctrl-C ends both.
fn start_detached(socket: &Path) -> Result<Exit, CommandError> {
    let mut log = socket.as_os_str().to_owned();
    log.push(".log");
    let log = PathBuf::from(log);
    let fail_at = |error| CommandError::io("write", &log, error);
    // Another server of this socket may still write to it.
    let errors = open_log(&log).map_err(fail_at)?;
    let before = errors.metadata().map_err(fail_at)?.len();
    let fail = |error| CommandError::io("start", Path::new("durio raid start"), error);
    let program = std::env::current_exe().map_err(fail)?;
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| if word == "--detach" { "--detached".into() } else { word });
    let mut command = Command::new(program);
    let told = errors.try_clone().map_err(fail)?;
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(told);
    let mut server = command.spawn().map_err(fail)?;
    let mut said = String::new();
    if let Some(stdout) = server.stdout.take() {
        BufReader::new(stdout).read_line(&mut said).map_err(fail)?;
    }
    let mut remarks = vec![0; LOG_SHOWN];
    let count = errors
        .read_at(&mut remarks, before)
        .map_err(|error| CommandError::io("read", &log, error))?;
    String::from_utf8_lossy(&remarks[..count]).lines().for_each(output::remark);
    if said.ends_with('\n') {
        output::answer_text(&said)?;
        return Ok(Exit::Fine);
    }
    let status = server.wait().map_err(fail)?;
    match status.code() {
        Some(code) => Ok(Exit::Command(u8::try_from(code).unwrap_or(u8::MAX))),
        None => Err(CommandError::cannot_measure(format!("the server was ended: {status}"))),
    }
}

/// Opens a regular file of ours: others may be able to put a link or a FIFO into the folder.
fn open_log(path: &Path) -> io::Result<File> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    Folder::open(path.parent().unwrap_or(Path::new("")))?.append_own(name)
}

/// Reports readiness as in sd_notify(3), if a service manager listens.
fn tell_service_manager() -> io::Result<()> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(path)))?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

fn add(arguments: &RaidAdd) -> Result<Exit, CommandError> {
    let path = &arguments.device.path;
    let consent = consent(&arguments.consent, path)?;
    let order = ArrayOrder::Add { path: absolute(path)?, consent };
    tell(&arguments.device.socket.socket, &order)
}

fn replace(arguments: &RaidReplace) -> Result<Exit, CommandError> {
    let RaidReplace { old, new, socket, .. } = arguments;
    let consent = consent(&arguments.consent, new)?;
    let old = member(&socket.socket, old)?;
    let order = ArrayOrder::Replace { old, new: absolute(new)?, consent };
    tell(&socket.socket, &order)
}

fn consent(arguments: &RaidConsent, path: &Path) -> Result<EraseConsent, CommandError> {
    if let Some(named) = arguments.destroy.as_ref().filter(|named| *named != path) {
        let text = format!("--destroy '{}' does not match '{}'", named.display(), path.display());
        return Err(CommandError::wrong_use(text));
    }
    let force_signature = arguments.force_signature;
    Ok(EraseConsent { destroy: arguments.destroy.is_some(), force_signature })
}

fn tell(socket: &Path, order: &ArrayOrder) -> Result<Exit, CommandError> {
    let status = order_array(socket, order)?;
    output::remark(&match order {
        ArrayOrder::Stop => "durio: stopped".to_owned(),
        ArrayOrder::Scrub { .. } => {
            "durio: the scrub has started; durio raid status shows its progress and result"
                .to_owned()
        }
        _ => format!("durio: {}", array_standing(&status)),
    });
    Ok(Exit::Fine)
}

/// The device of this path; a number that is not a path here means the member of that role, as durio
/// raid status prints it.
fn member(socket: &Path, word: &Path) -> Result<PathBuf, CommandError> {
    let role = word.to_str().and_then(|text| text.parse::<u8>().ok());
    let Some(role) = role.filter(|_| !word.exists()) else { return absolute(word) };
    let status = order_array(socket, &ArrayOrder::Status)?;
    let found = status.devices.into_iter().find(|device| device.role == Some(role));
    found.and_then(|device| device.path).map(PathBuf::from).ok_or_else(|| {
        CommandError::cannot_measure(format!("no device of the array has the role {role}"))
            .hint("durio raid status shows them")
    })
}

/// The server has a different working directory.
fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|error| CommandError::io("find", path, error))
}
