//! Processes that stay and serve a device: started, found, and ended.
//!
//! Starts a command and returns its message when it is ready, or why it is not, and its process.
//! What it serves and when it ends is decided in [`crate::kinds`].
//!
//! A server is found by its words and never by a noted number: its socket has the tag of the build,
//! in a folder that only this user can enter. So a running server can always be found, however its
//! builder dies.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use durio_block::{BlockError, ErrorKind, UblkControl, UblkDevice, UblkState, lead_process_group};
use durio_nbd::{KernelClient, NbdDevice};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use crate::permit::PermittedCommand;
use crate::system::{ExitedProcess, ServerRemains, beginning, program_file};

/// What a server says first of all.
const READY: &str = "ready: ";

/// How long a server may take until it is ready: a busy machine, and a guest whose processor is
/// emulated.
const READY_LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

/// How long the kernel may take to see that a server has ended, and the last user of a device to let go
/// of it.
const PASSING: Duration = Duration::from_secs(20);

/// What there is of the array with this identity, whose server was started at this socket.
pub(crate) fn served(socket: &str, array: &str) -> io::Result<ServerRemains> {
    let device = mark_of(array).map_or(Ok(None), with_mark)?;
    Ok(ServerRemains {
        has_server: server_at(socket).is_some(),
        has_device: device.is_some(),
        is_in_use: device.is_some_and(ServedDevice::is_in_use),
    })
}

/// Starts a server, and waits until it names its device.
pub(crate) fn serve(
    command: &PermittedCommand,
    output: &Path,
    stop: &dyn Fn() -> bool,
) -> io::Result<ExitedProcess> {
    let (out, err) = (output.with_extension("out"), output.with_extension("err"));
    let mut process = Command::new(program_file(command.program()));
    process.arg0(command.program()).args(command.words()).env("LC_ALL", "C");
    // In a separate group: Ctrl-C ends the bench, and the bench ends it.
    lead_process_group(&mut process);
    // Without the journal's lock, by whose end others know that all programs have ended.
    process.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mark = Arc::new(OnceLock::new());
    let end = watch(process.spawn()?, Arc::clone(&mark))?;
    let begin = Instant::now();
    let failure = loop {
        let ended = end.recv_timeout(LOOK);
        // In this order: its output before its end is in the file.
        let said = beginning(&out);
        if let (Err(_), Some(device)) = (&ended, ready_line(&said)) {
            mark.get_or_init(|| mark_of_device(device));
            return Ok(ExitedProcess { stdout: device.to_owned(), ..ExitedProcess::default() });
        }
        match ended {
            Ok(how) => break format!("it ended before it was ready: {how}"),
            Err(_) if stop() => break "stopped before it was ready".to_owned(),
            Err(_) if begin.elapsed() > READY_LIMIT => {
                break format!("it was not ready within {} s", READY_LIMIT.as_secs());
            }
            Err(_) => (),
        }
    };
    Ok(ExitedProcess { failure: Some(failure), stdout: beginning(&out), stderr: beginning(&err) })
}

fn mark_of_device(path: &str) -> Option<u64> {
    if let Some(number) = path.strip_prefix("/dev/nbd") {
        return NbdDevice::look(number.parse().ok()?).map(|device| device.mark);
    }
    let number = path.strip_prefix("/dev/ublkb")?.parse().ok()?;
    UblkControl::open().and_then(|mut control| control.look(number)).ok().map(|device| device.mark)
}

/// The device in the first line, once that is whole.
pub(crate) fn ready_line(said: &str) -> Option<&str> {
    let (line, _) = said.strip_prefix(READY)?.split_once('\n')?;
    line.starts_with("/dev/").then_some(line)
}

/// Reports its end, and reaps its process. If it was killed, the users of its device get errors;
/// among them is the bench, which would otherwise wait for ever.
fn watch(mut child: Child, mark: Arc<OnceLock<Option<u64>>>) -> io::Result<Receiver<String>> {
    let (tell, end) = channel();
    let watch = move || {
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        // No receiver is left once it was ready.
        let _ = tell.send(how);
        // The take-down finds the remains and reports them.
        let _ = mark.get().copied().flatten().map_or(Ok(()), fail_users_with);
    };
    thread::Builder::new().name("durio-server".to_owned()).spawn(watch)?;
    Ok(end)
}

/// The process whose words are those of an array's server at this socket.
pub(crate) fn server_at(socket: &str) -> Option<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.into_iter().find(|pid| is_server_at(*pid, socket))
}

fn is_server_at(pid: u32, socket: &str) -> bool {
    let folder = format!("/proc/{pid}");
    let is_own = fs::metadata(&folder).is_ok_and(|facts| facts.uid() == geteuid().as_raw());
    let words = fs::read(format!("{folder}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
    let has = |pair: [&str; 2]| words.windows(2).any(|two| two == pair.map(str::as_bytes));
    is_own && has(["raid", "start"]) && has(["--socket", socket])
}

/// Sends a signal to that process and to no other: it is held while its words are looked at again.
pub(crate) fn signal_server(socket: &str, signal: Signal) -> io::Result<()> {
    let Some(pid) = server_at(socket) else { return Ok(()) };
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or(io::ErrorKind::NotFound)?;
    let held = pidfd_open(number, PidfdFlags::empty())?;
    match is_server_at(pid, socket) {
        true => Ok(pidfd_send_signal(held, signal)?),
        false => Ok(()),
    }
}

/// The block device of an array.
#[derive(Debug, Clone, Copy)]
enum ServedDevice {
    Ublk(UblkDevice),
    Nbd(NbdDevice),
}

impl ServedDevice {
    fn path(self) -> PathBuf {
        match self {
            Self::Ublk(device) => device.path(),
            Self::Nbd(device) => device.path(),
        }
    }

    fn is_in_use(self) -> bool {
        match self {
            Self::Ublk(device) => device.is_in_use(),
            Self::Nbd(device) => device.is_in_use(),
        }
    }
}

/// As the server marks its device.
fn mark_of(array: &str) -> Option<u64> {
    let first = u64::from_str_radix(array.get(..16)?, 16).ok()?;
    Some(first.swap_bytes().max(1))
}

/// None where the kernel has neither ublk nor an NBD client.
fn with_mark(mark: u64) -> io::Result<Option<ServedDevice>> {
    match UblkControl::open().and_then(|mut control| control.find(mark)) {
        Ok(Some(device)) => return Ok(Some(ServedDevice::Ublk(device))),
        Err(error) if error.kind != ErrorKind::NotFound => return Err(in_words(&error)),
        Ok(None) | Err(_) => (),
    }
    Ok(NbdDevice::find(mark)?.map(ServedDevice::Nbd))
}

/// The device of a server that has ended. The kernel takes a moment to see that.
fn abandoned(mark: u64) -> io::Result<Option<ServedDevice>> {
    let begin = Instant::now();
    loop {
        match with_mark(mark)? {
            Some(ServedDevice::Ublk(device)) if device.state == UblkState::Live => {
                if begin.elapsed() > PASSING {
                    let text = format!("another server has {}", device.path().display());
                    return Err(io::Error::other(text));
                }
                thread::sleep(LOOK);
            }
            found => return Ok(found),
        }
    }
}

/// Gives errors to the users of a device whose server has died: otherwise they wait for the next
/// server, and the layers on it could not be taken down.
pub(crate) fn fail_users(array: &str) -> io::Result<()> {
    mark_of(array).map_or(Ok(()), fail_users_with)
}

fn fail_users_with(mark: u64) -> io::Result<()> {
    match abandoned(mark)? {
        Some(ServedDevice::Ublk(device)) if device.state == UblkState::Waiting => stop(&device),
        Some(ServedDevice::Nbd(device)) => detach(&device),
        Some(ServedDevice::Ublk(_)) | None => Ok(()),
    }
}

/// Takes away the device of a server that has died; one that is in use stays.
pub(crate) fn remove_device(array: &str) -> io::Result<()> {
    let Some(mark) = mark_of(array) else { return Ok(()) };
    let Some(device) = abandoned(mark)? else { return Ok(()) };
    if device.is_in_use() {
        return Err(io::Error::other(format!("{} is in use", device.path().display())));
    }
    match device {
        ServedDevice::Ublk(device) => delete(device),
        ServedDevice::Nbd(device) => {
            detach(&device)?;
            let begin = Instant::now();
            while NbdDevice::find(mark)?.is_some() {
                if begin.elapsed() > PASSING {
                    return Err(still_open(&device.path()));
                }
                thread::sleep(LOOK);
            }
            Ok(())
        }
    }
}

fn delete(device: UblkDevice) -> io::Result<()> {
    if device.state == UblkState::Waiting {
        stop(&device)?;
    }
    // In a thread: it waits as long as the device is open anywhere.
    let (tell, end) = channel();
    let path = device.path();
    let delete = move || {
        let deleted = UblkControl::open().and_then(|mut control| control.delete(&device));
        // Who asked may have lost patience.
        let _ = tell.send(deleted.map_err(|error| in_words(&error)));
    };
    thread::Builder::new().name("durio-ublk".to_owned()).spawn(delete)?;
    end.recv_timeout(PASSING).unwrap_or_else(|_| Err(still_open(&path)))
}

fn still_open(path: &Path) -> io::Error {
    io::Error::other(format!("another process still has {} open", path.display()))
}

fn detach(device: &NbdDevice) -> io::Result<()> {
    let detached = KernelClient::open().and_then(|kernel| kernel.detach(device));
    detached.map_err(|error| io::Error::other(format!("{error}: {}", error.source)))
}

fn stop(device: &UblkDevice) -> io::Result<()> {
    UblkControl::open()
        .and_then(|mut control| control.stop(device))
        .map_err(|error| in_words(&error))
}

fn in_words(error: &BlockError) -> io::Error {
    io::Error::other(format!("{error}: {}", error.source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_its_first_line_names_a_device() {
        assert_eq!(ready_line("ready: /dev/ublkb7\n"), Some("/dev/ublkb7"));
        assert_eq!(ready_line("ready: /dev/nbd12\n"), Some("/dev/nbd12"));
        for said in ["", "ready: /dev/ublkb7", "ready: nbd+unix:///x\n", "durio: /dev/ublkb7\n"] {
            assert_eq!(ready_line(said), None, "{said}");
        }
    }

    #[test]
    fn the_mark_of_a_device_is_what_its_server_makes_of_the_arrays_identity() {
        assert_eq!(mark_of("0102030405060708ffffffffffffffff"), Some(0x0807_0605_0403_0201));
        assert_eq!(mark_of("00000000000000000000000000000000"), Some(1));
        assert_eq!((mark_of("01"), mark_of("no number of this")), (None, None));
    }

    #[test]
    fn only_a_process_with_the_words_of_a_server_at_this_very_socket_is_one() {
        let socket = format!("/run/durio/test-{}", std::process::id());
        let start = |words: &[&str]| {
            Command::new("sh")
                .args(["-c", "read x", "raid"])
                .args(words)
                .stdin(Stdio::piped())
                .spawn()
        };
        let mut others = vec![
            start(&["start", "--socket", "/run/durio/other"]).unwrap(),
            start(&["stop", "--socket", &socket]).unwrap(),
        ];
        assert_eq!(server_at(&socket), None);
        let server = start(&["start", "--socket", &socket]).unwrap();
        // The kernel tells who started it of it a moment before it shows its words.
        while server_at(&socket).is_none() {
            thread::sleep(LOOK);
        }
        assert_eq!(server_at(&socket), Some(server.id()));
        signal_server(&socket, Signal::TERM).unwrap();
        others.push(server);
        let last = others.last_mut().unwrap().wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&last), Some(15));
        assert_eq!(server_at(&socket), None);
        signal_server(&socket, Signal::KILL).unwrap();
        for mut other in others {
            drop(other.stdin.take());
            other.wait().unwrap();
        }
    }
}
