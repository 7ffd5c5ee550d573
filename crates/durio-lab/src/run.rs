//! Boots a guest, passes through what its command says, and waits for its end.
//!
//! In: a request, two writers, a word whether to stop. Out: how it ended. Not here: how QEMU is called,
//! what the guest does.

use std::fs::File;
use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ChildStderr, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durio_block::{Folder, ProcessGroup};
use durio_observe::LabFacts;

use crate::image::image;
use crate::kernel_image::kernel_of_image;
use crate::kvm_trial::{remember_fault, with_qemus_word};
use crate::qemu::{KVM, Qemu, wait_for_stop};
use crate::unpack::{Skipped, Spool, check_empty, open_or_make};
use crate::wire::{Frame, INTERRUPT};
use crate::{LabError, LabRequest};

/// How often the caller is asked whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long an emulated guest may take until its command starts; none that works takes a tenth of it.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// The same of a guest on the host's processor, which takes a second or two, and is emulated after it.
const BOOT_LIMIT_KVM: Duration = Duration::from_secs(60);
/// How long a command may take to end that was asked to, and its files to be brought out.
const FAREWELL: Duration = Duration::from_secs(60);
/// How long is waited for what QEMU said last, when it is gone.
const LAST_WORDS: Duration = Duration::from_secs(2);
const CONSOLE_BYTES_MAX: usize = 64 * 1024;
/// News that wait for a slow reader of our output.
const NEWS_MAX: usize = 64;

/// Why a guest is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabExit {
    /// The command ended with this exit code; 128 + N if signal N ended it, 127 if there is no such
    /// command, 126 if it cannot be run.
    Code(u8),
    /// The limit was reached.
    TimeLimit,
    /// The guest died, or did not get as far as running the command; what is known of it.
    GuestFailed(String),
    /// The caller asked to stop.
    Stopped,
}

/// A guest that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOutcome {
    /// Why.
    pub exit: LabExit,
    /// What the guest was.
    pub facts: LabFacts,
    /// From the start of QEMU until the command was started, if it was.
    pub first_command_after: Option<Duration>,
    /// Whether the kernel was unpacked before it was started; otherwise its image unpacked itself, which
    /// takes a guest long.
    pub was_unpacked: bool,
    /// Making the guest's files ready, before QEMU was started.
    pub preparation: Duration,
    /// The last of what the kernel and QEMU said.
    pub console: String,
    /// What it brought out and is not in the folder of the request.
    pub skipped: Skipped,
}

impl LabOutcome {
    /// Why the guest failed by KVM before its command began, if it may have been that.
    pub(crate) fn fault_of_kvm(&self) -> Option<String> {
        match &self.exit {
            LabExit::GuestFailed(reason)
                if self.facts.accelerator == KVM && self.first_command_after.is_none() =>
            {
                Some(format!("a guest failed: {reason}"))
            }
            _ => None,
        }
    }
}

/// The last lines of a console that tell why a guest died.
pub(crate) fn reason_in(console: &str) -> String {
    let lines = || console.lines().map(str::trim).filter(|line| !line.is_empty());
    // The first is the cause; what follows a panic is its trace.
    let told = lines().find_map(|line| {
        let panic = line.find("Kernel panic").and_then(|at| line.get(at..));
        panic.or_else(|| line.strip_prefix("durio lab: "))
    });
    if let Some(line) = told {
        return line.to_owned();
    }
    let mut last: Vec<_> = lines().collect();
    last.drain(..last.len().saturating_sub(5));
    match last.is_empty() {
        true => "it said nothing".to_owned(),
        false => format!("the last that it said: {}", last.join(" | ")),
    }
}

/// Where the command's output goes.
pub struct Streams<'a> {
    /// What it writes to its stdout.
    pub stdout: &'a mut dyn Write,
    /// What it writes to its stderr.
    pub stderr: &'a mut dyn Write,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// Runs one guest to its end. Nothing of it stays: its files are in memory, and QEMU is ended in every
/// case.
///
/// # Errors
/// Whatever keeps the guest from being started, and what was brought out from being written. How a
/// guest that was started ended is an outcome.
pub fn run(
    request: &LabRequest,
    streams: &mut Streams<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<LabOutcome, LabError> {
    request.check()?;
    let Some(path) = &request.out else { return with_out(request, None, streams, stop) };
    check_empty(path)?;
    let was_there = path.is_dir();
    // Held from here on: what its name leads to later does not matter.
    let outcome = with_out(request, Some(&open_or_make(path)?), streams, stop);
    if !was_there && !outcome.as_ref().is_ok_and(|it| matches!(it.exit, LabExit::Code(_))) {
        // Only if nothing is in it.
        let _ = std::fs::remove_dir(path);
    }
    outcome
}

fn with_out(
    request: &LabRequest,
    out: Option<&Folder>,
    streams: &mut Streams<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<LabOutcome, LabError> {
    let qemu = Qemu::find()?;
    let outcome = boot(&qemu, qemu.facts(request), (request, out), streams, stop)?;
    match outcome.fault_of_kvm() {
        // Nothing of the command has happened yet.
        Some(reason) => {
            // The next guests of this process are emulated at once.
            remember_fault(&reason);
            let facts = Qemu::emulated(outcome.facts, reason);
            boot(&qemu, facts, (request, out), streams, stop)
        }
        None => Ok(outcome),
    }
}

fn boot(
    qemu: &Qemu,
    facts: LabFacts,
    (request, out): (&LabRequest, Option<&Folder>),
    streams: &mut Streams<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<LabOutcome, LabError> {
    let begin = Instant::now();
    // Neither needs the other, and each keeps a processor busy.
    let (files, kernel) = thread::scope(|scope| {
        let kernel = scope.spawn(|| kernel_of_image(&request.kernel.image));
        // Without it the image is booted as it is, whatever was wrong.
        (image(request, &facts), kernel.join().ok().flatten())
    });
    let files = files?;
    let preparation = begin.elapsed();
    let image = kernel.as_ref().map_or_else(|| request.kernel.image.clone(), own_handle);
    let command = qemu.command(request, &facts, &image, &own_handle(&files));
    // A guest that KVM cannot run is to fail soon, for it is booted again as an emulation.
    let limit = if facts.accelerator == KVM { BOOT_LIMIT_KVM } else { BOOT_LIMIT };
    let mut guest = Guest::start(command, limit)?;
    let spool = out.map(Spool::new).transpose()?;
    let mut end = guest.follow(request, spool, streams, stop)?;
    let console = guest.end();
    if let LabExit::GuestFailed(reason) = &mut end.exit {
        *reason =
            if reason.is_empty() { reason_in(&console) } else { with_qemus_word(reason, &console) };
    }
    let skipped = match (out, end.archive, end.is_whole) {
        (Some(out), Some(archive), true) => archive.unpack(out)?,
        _ => Skipped::default(),
    };
    let first_command_after = end.first_command_after;
    let was_unpacked = kernel.is_some();
    Ok(LabOutcome {
        exit: end.exit,
        facts,
        first_command_after,
        was_unpacked,
        preparation,
        console,
        skipped,
    })
}

/// The path by which QEMU opens our own handle of a file, which has no name.
pub(crate) fn own_handle(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// How a guest ended, and what it gave before.
struct End {
    exit: LabExit,
    first_command_after: Option<Duration>,
    /// Where what it brings out is kept; none if nobody wants it.
    archive: Option<Spool>,
    /// Its last frame came: nothing is missing in the archive.
    is_whole: bool,
}

/// What QEMU has to say of its guest.
enum News {
    /// Something came through the port.
    Frame(Frame),
    /// What came through the port is none of durio's.
    Garbled(io::Error),
    /// QEMU has stopped the guest, for this reason.
    Stopped(String),
}

/// A running QEMU, which is killed when this goes.
struct Guest {
    group: ProcessGroup,
    port: UnixStream,
    started: Instant,
    boot_limit: Duration,
    news: Option<Receiver<News>>,
    console: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Guest {
    fn start(mut command: Command, boot_limit: Duration) -> Result<Self, LabError> {
        let fail = |error| LabError::io("start QEMU", error);
        let (port, qemus_port) = UnixStream::pair().map_err(fail)?;
        // Pairs, not paths: nobody else can connect, and nothing has a name that could be left
        // behind.
        let (monitor, qemus_monitor) = UnixStream::pair().map_err(fail)?;
        command.stdin(OwnedFd::from(qemus_monitor)).stdout(OwnedFd::from(qemus_port));
        // In a group of its own: a terminal's Ctrl-C is for durio, which tells the guest.
        let group = ProcessGroup::start(&mut command).map_err(fail)?;
        // QEMU's ends of the sockets: while they are open here, its own end is not seen.
        drop(command);
        let mut guest = Self {
            group,
            port,
            started: Instant::now(),
            boot_limit,
            news: None,
            console: Arc::default(),
            readers: Vec::new(),
        };
        guest.attend(monitor)?;
        Ok(guest)
    }

    fn attend(&mut self, monitor: UnixStream) -> Result<(), LabError> {
        // Bounded: a guest that writes faster than our output is read waits, rather than fill
        // memory.
        let (sender, receiver) = sync_channel(NEWS_MAX);
        self.news = Some(receiver);
        let port = self.port.try_clone().map_err(|error| LabError::io("read the port", error))?;
        let of_port = sender.clone();
        self.spawn(move || read_frames(port, &of_port))?;
        self.spawn(move || {
            if let Some(word) = wait_for_stop(monitor) {
                let _ = sender.send(News::Stopped(word));
            }
        })?;
        if let Some(said) = self.group.leader.stderr.take() {
            let console = Arc::clone(&self.console);
            self.spawn(move || read_console(said, &console))?;
        }
        Ok(())
    }

    fn spawn(&mut self, reader: impl FnOnce() + Send + 'static) -> Result<(), LabError> {
        let thread = thread::Builder::new().name("durio-lab".to_owned()).spawn(reader);
        self.readers.push(thread.map_err(|error| LabError::io("start a thread", error))?);
        Ok(())
    }

    fn follow(
        &mut self,
        request: &LabRequest,
        archive: Option<Spool>,
        streams: &mut Streams<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<End, LabError> {
        let mut end =
            End { exit: LabExit::Stopped, first_command_after: None, archive, is_whole: false };
        let mut asked = None;
        loop {
            if stop() && !self.may_go_on(&end, &mut asked) {
                break;
            }
            if let Some(exit) = self.overdue(request, &end) {
                end.exit = exit;
                return Ok(end);
            }
            let Some(news) = &self.news else { break };
            match news.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                // QEMU is gone; the console says why.
                Err(RecvTimeoutError::Disconnected) => {
                    end.exit = LabExit::GuestFailed(String::new());
                    break;
                }
                Ok(News::Frame(frame)) => {
                    if let Some(exit) = self.take(frame, streams, &mut end)? {
                        end.exit = exit;
                        break;
                    }
                }
                Ok(News::Garbled(error)) => {
                    end.exit = LabExit::GuestFailed(error.to_string());
                    return Ok(end);
                }
                Ok(News::Stopped(word)) => {
                    end.exit = LabExit::GuestFailed(format!("QEMU stopped it ({word})"));
                    break;
                }
            }
        }
        // However the command took it: the caller's word counts.
        if stop() {
            end.exit = LabExit::Stopped;
        }
        Ok(end)
    }

    /// Asks a command that has started to end as Ctrl-C would, and gives it time to do so.
    fn may_go_on(&mut self, end: &End, asked: &mut Option<Instant>) -> bool {
        if let Some(asked) = asked {
            return asked.elapsed() < FAREWELL;
        }
        *asked = Some(Instant::now());
        end.first_command_after.is_some() && self.port.write_all(&[INTERRUPT]).is_ok()
    }

    fn overdue(&self, request: &LabRequest, end: &End) -> Option<LabExit> {
        let age = self.started.elapsed();
        if age >= request.limit {
            return Some(LabExit::TimeLimit);
        }
        (end.first_command_after.is_none() && age >= self.boot_limit).then(|| {
            let limit = self.boot_limit.as_secs();
            LabExit::GuestFailed(format!("its command did not start within {limit} s"))
        })
    }

    fn take(
        &self,
        frame: Frame,
        streams: &mut Streams<'_>,
        end: &mut End,
    ) -> Result<Option<LabExit>, LabError> {
        match frame {
            Frame::Ready => end.first_command_after = Some(self.started.elapsed()),
            Frame::Stdout(bytes) => pass(streams.stdout, &bytes, "stdout")?,
            Frame::Stderr(bytes) => pass(streams.stderr, &bytes, "stderr")?,
            Frame::Archive(bytes) => {
                end.archive.as_mut().map_or(Ok(()), |archive| archive.write(&bytes))?;
            }
            Frame::Exit(code) => {
                // The archive is sent before the code: a guest that died on the way has left half
                // of one.
                end.is_whole = true;
                return Ok(Some(LabExit::Code(code)));
            }
            Frame::Failed(text) => return Ok(Some(LabExit::GuestFailed(text))),
        }
        Ok(None)
    }

    /// Ends QEMU, if it has not ended, and gives the console's last text.
    fn end(mut self) -> String {
        self.kill();
        // A process that left QEMU's group may hold its streams open for ever.
        let end = Instant::now() + LAST_WORDS;
        while Instant::now() < end && !self.readers.iter().all(JoinHandle::is_finished) {
            thread::sleep(LOOK);
        }
        let bytes = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn kill(&mut self) {
        // The reader must not wait for a place that nobody makes.
        self.news = None;
        let _ = self.group.end();
        let _ = self.port.shutdown(Shutdown::Both);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pass(sink: &mut dyn Write, bytes: &[u8], name: &str) -> Result<(), LabError> {
    match sink.write_all(bytes).and_then(|()| sink.flush()) {
        // Whoever reads has enough; the command goes on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| LabError::io(format!("write to {name}"), error)),
    }
}

/// Reads frames until the stream ends, or is none of frames, or nobody wants more.
fn read_frames(port: UnixStream, sender: &SyncSender<News>) {
    let mut port = io::BufReader::with_capacity(1 << 16, port);
    loop {
        let (news, is_last) = match Frame::read_from(&mut port) {
            Ok(None) => return,
            // QEMU was ended, in the middle of a frame or before it read what we sent: the console
            // says why.
            Err(error) if [UnexpectedEof, ConnectionReset].contains(&error.kind()) => return,
            Ok(Some(frame)) => (News::Frame(frame), false),
            Err(error) => (News::Garbled(error), true),
        };
        if sender.send(news).is_err() || is_last {
            return;
        }
    }
}

/// Keeps the last of what is said.
fn read_console(mut said: ChildStderr, console: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = said.read(&mut bytes) {
        let mut kept = console.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel's console ends its lines with both characters.
        kept.extend(bytes.get(..count).unwrap_or_default().iter().filter(|byte| **byte != b'\r'));
        let surplus = kept.len().saturating_sub(CONSOLE_BYTES_MAX);
        kept.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_named_wherever_it_stands() {
        let console =
            "[    1.0] x\n[    2.5] Kernel panic - not syncing: sysrq triggered crash\n[ y";
        assert_eq!(reason_in(console), "Kernel panic - not syncing: sysrq triggered crash");
    }

    #[test]
    fn what_the_first_process_said_is_named() {
        assert_eq!(reason_in("[ 1] a\ndurio lab: no port\nb"), "no port");
    }

    #[test]
    fn otherwise_the_last_lines_are_shown() {
        assert_eq!(reason_in(""), "it said nothing");
        assert_eq!(reason_in("a\n\nb\n"), "the last that it said: a | b");
    }
}
