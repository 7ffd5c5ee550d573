//! `durio raid`: arrays served by durio.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use durio_base::Bytes;
use durio_bench::BenchError;
use durio_block::Folder;
use durio_raid_commands::{
    ArrayOrder, CreateWish, EraseConsent, FrontKind, ServeWish, create_array, examine_array,
    order_array, serve_array,
};

use crate::args::{
    FrontChoice, RaidAdd, RaidArguments, RaidCommand, RaidConsent, RaidCreate, RaidExamine,
    RaidReplace, RaidStart,
};
use crate::exit_code::Exit;
use crate::output;
use crate::stop_signals::stop_on_signals;

/// Limit for showing a server's remarks at its start; the log has all of them.
const LOG_SHOWN: usize = 64 << 10;

pub(super) fn raid(arguments: &RaidArguments) -> Result<Exit, BenchError> {
    match &arguments.command {
        RaidCommand::Create(arguments) => create(arguments),
        RaidCommand::Examine(arguments) => examine(arguments),
        RaidCommand::Start(arguments) => start(arguments),
        RaidCommand::Status { socket, output } => {
            let status = order_array(&socket.socket, &ArrayOrder::Status)?;
            output::report(*output, &status)?;
            Ok(Exit::Fine)
        }
        RaidCommand::Fail(it) => {
            tell(&it.socket.socket, &ArrayOrder::Fail { path: absolute(&it.path)? })
        }
        RaidCommand::Remove(it) => {
            tell(&it.socket.socket, &ArrayOrder::Remove { path: absolute(&it.path)? })
        }
        RaidCommand::Add(arguments) => add(arguments),
        RaidCommand::Replace(arguments) => replace(arguments),
        RaidCommand::Scrub { repair, socket } => {
            tell(&socket.socket, &ArrayOrder::Scrub { repair: *repair })
        }
        RaidCommand::Stop(it) => tell(&it.socket, &ArrayOrder::Stop),
    }
}

fn create(arguments: &RaidCreate) -> Result<Exit, BenchError> {
    let wish = CreateWish {
        name: &arguments.name,
        level: arguments.level,
        chunk: arguments.chunk,
        members: &arguments.members,
        spares: &arguments.spares,
        destroy: &arguments.destroy,
        force_signature: arguments.force_signature,
        assume_clean: arguments.assume_clean,
    };
    let shape = create_array(&wish)?;
    let size = Bytes::new(shape.size_bytes);
    output::answer_text(&format!("created: {}, {size}, {}\n", shape.name, shape.array))?;
    Ok(Exit::Fine)
}

fn examine(arguments: &RaidExamine) -> Result<Exit, BenchError> {
    let examination = examine_array(&arguments.devices)?;
    output::report(arguments.output, &examination)?;
    Ok(Exit::Fine)
}

fn start(arguments: &RaidStart) -> Result<Exit, BenchError> {
    let socket = absolute(&arguments.socket)?;
    if arguments.detach {
        return start_detached(&socket);
    }
    let front = match (arguments.front, arguments.attach) {
        (FrontChoice::Nbd, false) => FrontKind::Nbd,
        (FrontChoice::Nbd, true) => FrontKind::AttachedNbd,
        (FrontChoice::Ublk, false) => FrontKind::Ublk,
        (FrontChoice::Ublk, true) => {
            let text = "--attach is for --front nbd: ublk makes a block device anyway";
            return Err(BenchError::wrong_use(text));
        }
    };
    let wish = ServeWish {
        paths: &arguments.devices,
        front,
        queues: arguments.queues,
        socket: &socket,
        timeout: arguments.timeout,
        force: arguments.force,
    };
    let stop = stop_on_signals()?;
    let ready = |name: &str| {
        // A caller that stopped listening does not want the array either; the next signal ends it.
        let _ = output::answer_text(&format!("ready: {name}\n"));
        if arguments.detached {
            // Detached from the terminal. It leads no group, so this does not fail.
            let _ = rustix::process::setsid();
        }
        if let Err(error) = tell_service_manager() {
            output::remark(&format!("durio: cannot tell the service manager: {error}"));
        }
    };
    let remark = |text: &str| output::remark(&format!("durio: {text}"));
    serve_array(&wish, ready, &remark, &|| stop.is_set())?;
    Ok(Exit::Fine)
}

/// Starts the server as a separate process, and waits until it serves. Until then it is in this
/// process's group, so Ctrl-C ends both.
fn start_detached(socket: &Path) -> Result<Exit, BenchError> {
    let mut log = socket.as_os_str().to_owned();
    log.push(".log");
    let log = PathBuf::from(log);
    let fail_at = |error| BenchError::io("write", &log, error);
    // Another server of this socket may still write to it.
    let errors = open_log(&log).map_err(fail_at)?;
    let before = errors.metadata().map_err(fail_at)?.len();
    let fail = |error| BenchError::io("start", Path::new("durio raid start"), error);
    let program = std::env::current_exe().map_err(fail)?;
    let words = std::env::args_os().skip(1);
    let words = words.map(|it| if it == "--detach" { "--detached".into() } else { it });
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
        .map_err(|error| BenchError::io("read", &log, error))?;
    String::from_utf8_lossy(&remarks[..count]).lines().for_each(output::remark);
    if said.ends_with('\n') {
        output::answer_text(&said)?;
        return Ok(Exit::Fine);
    }
    let status = server.wait().map_err(fail)?;
    match status.code() {
        Some(code) => Ok(Exit::Command(u8::try_from(code).unwrap_or(u8::MAX))),
        None => Err(BenchError::cannot_measure(format!("the server was ended: {status}"))),
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

fn add(arguments: &RaidAdd) -> Result<Exit, BenchError> {
    let path = &arguments.device.path;
    let consent = consent(&arguments.consent, path)?;
    let order = ArrayOrder::Add { path: absolute(path)?, consent };
    tell(&arguments.device.socket.socket, &order)
}

fn replace(arguments: &RaidReplace) -> Result<Exit, BenchError> {
    let RaidReplace { old, new, socket, .. } = arguments;
    let consent = consent(&arguments.consent, new)?;
    let order = ArrayOrder::Replace { old: absolute(old)?, new: absolute(new)?, consent };
    tell(&socket.socket, &order)
}

fn consent(arguments: &RaidConsent, path: &Path) -> Result<EraseConsent, BenchError> {
    if let Some(named) = arguments.destroy.as_ref().filter(|it| *it != path) {
        let text = format!("--destroy '{}' does not match '{}'", named.display(), path.display());
        return Err(BenchError::wrong_use(text));
    }
    let force_signature = arguments.force_signature;
    Ok(EraseConsent { destroy: arguments.destroy.is_some(), force_signature })
}

fn tell(socket: &Path, order: &ArrayOrder) -> Result<Exit, BenchError> {
    order_array(socket, order)?;
    Ok(Exit::Fine)
}

/// The server has a different working directory.
fn absolute(path: &Path) -> Result<PathBuf, BenchError> {
    std::path::absolute(path).map_err(|error| BenchError::io("find", path, error))
}
