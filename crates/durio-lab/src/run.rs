//! Boots a guest, passes through what its command says, and waits for its end.
//!
//! In: a request, two writers, a word whether to stop. Out: an outcome. Not here: how QEMU is called,
//! what the guest does.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::image::image;
use crate::kernel_payload::kernel_of_image;
use crate::outcome::{LabExit, LabOutcome, reason_in};
use crate::qemu::Qemu;
use crate::unpack::{check_empty, unpack};
use crate::wire::{Frame, INTERRUPT};
use crate::{LabError, LabRequest};

/// How often the caller is asked whether to stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long a guest may take until its command starts; none that works takes a tenth of it.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// How long a command may take to end that was asked to, and its files to be brought out.
const FAREWELL: Duration = Duration::from_secs(60);
/// How much of the console is kept.
const CONSOLE_BYTES_MAX: usize = 64 * 1024;
/// Frames that wait for a slow reader of our output.
const FRAMES_MAX: usize = 64;

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
    let begin = Instant::now();
    request.check()?;
    if let Some(out) = &request.out {
        check_empty(out)?;
    }
    let qemu = Qemu::find()?;
    let facts = qemu.facts(request);
    let (files, kernel) = thread::scope(|scope| {
        let kernel = scope.spawn(|| kernel_of_image(&request.kernel.image));
        // Without it the image is booted as it is, whatever was wrong.
        (image(request, &facts), kernel.join().ok().flatten())
    });
    let files = files?;
    let preparation = begin.elapsed();
    let image = kernel.as_ref().map_or_else(|| request.kernel.image.clone(), own_handle);
    let mut command = qemu.command(request, &facts, &image, &own_handle(&files));
    let child = command.spawn().map_err(|error| LabError::io("start QEMU", error))?;
    let mut guest = Guest::attend(child)?;
    let mut end = guest.follow(request, streams, stop)?;
    let console = guest.end();
    if end.exit == LabExit::GuestFailed(String::new()) {
        end.exit = LabExit::GuestFailed(reason_in(&console));
    }
    if let (Some(out), Some(archive), true) = (&request.out, end.archive, end.is_whole) {
        bring_out(archive, out)?;
    }
    let first_command_after = end.first_command_after;
    let was_unpacked = kernel.is_some();
    Ok(LabOutcome {
        exit: end.exit,
        facts,
        first_command_after,
        was_unpacked,
        preparation,
        console,
    })
}

/// The path by which QEMU opens our own handle of a file, which has no name.
fn own_handle(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

fn bring_out(mut archive: File, out: &Path) -> Result<(), LabError> {
    let rewound = archive.seek(SeekFrom::Start(0));
    rewound.map_err(|error| LabError::io("read what the guest brought out", error))?;
    unpack(io::BufReader::new(archive), out)
}

/// How a guest ended, and what it gave before.
struct End {
    exit: LabExit,
    first_command_after: Option<Duration>,
    archive: Option<File>,
    /// Its last frame came: nothing is missing in the archive.
    is_whole: bool,
}

/// A running QEMU, which is killed when this goes.
struct Guest {
    child: Child,
    started: Instant,
    frames: Option<Receiver<io::Result<Frame>>>,
    console: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Guest {
    /// Begins to read what QEMU says.
    fn attend(mut child: Child) -> Result<Self, LabError> {
        let (port, said) = (child.stdout.take(), child.stderr.take());
        let mut guest = Self {
            child,
            started: Instant::now(),
            frames: None,
            console: Arc::default(),
            readers: Vec::new(),
        };
        if let (Some(port), Some(said)) = (port, said) {
            let (sender, receiver) = sync_channel(FRAMES_MAX);
            let console = Arc::clone(&guest.console);
            guest.frames = Some(receiver);
            guest.spawn(move || read_frames(port, &sender))?;
            guest.spawn(move || read_console(said, &console))?;
        }
        Ok(guest)
    }

    fn spawn(&mut self, reader: impl FnOnce() + Send + 'static) -> Result<(), LabError> {
        let thread = thread::Builder::new().name("durio-lab".to_owned()).spawn(reader);
        self.readers.push(thread.map_err(|error| LabError::io("start a thread", error))?);
        Ok(())
    }

    fn follow(
        &mut self,
        request: &LabRequest,
        streams: &mut Streams<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<End, LabError> {
        let mut end = End {
            exit: LabExit::Stopped,
            first_command_after: None,
            archive: None,
            is_whole: false,
        };
        let mut asked = None;
        loop {
            if stop() && !self.may_go_on(&end, &mut asked) {
                break;
            }
            if let Some(exit) = self.overdue(request, &end) {
                end.exit = exit;
                return Ok(end);
            }
            let Some(frames) = &self.frames else { break };
            let frame = match frames.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => continue,
                // QEMU is gone; the console says why.
                Err(RecvTimeoutError::Disconnected) => {
                    end.exit = LabExit::GuestFailed(String::new());
                    break;
                }
                Ok(frame) => frame,
            };
            match frame {
                Ok(frame) => {
                    if let Some(exit) = self.take(frame, streams, &mut end)? {
                        end.exit = exit;
                        break;
                    }
                }
                Err(error) => {
                    end.exit = LabExit::GuestFailed(error.to_string());
                    return Ok(end);
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
        let port = self.child.stdin.as_mut().filter(|_| end.first_command_after.is_some());
        port.is_some_and(|port| port.write_all(&[INTERRUPT]).is_ok())
    }

    fn overdue(&self, request: &LabRequest, end: &End) -> Option<LabExit> {
        let age = self.started.elapsed();
        if age >= request.limit {
            return Some(LabExit::TimeLimit);
        }
        (end.first_command_after.is_none() && age >= BOOT_LIMIT).then(|| {
            let limit = BOOT_LIMIT.as_secs();
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
            Frame::Archive(bytes) => store(&mut end.archive, &bytes)?,
            Frame::Exit(code) => {
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
        for reader in self.readers.drain(..) {
            // A reader that panicked has nothing more to say.
            let _ = reader.join();
        }
        let bytes = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn kill(&mut self) {
        // The reader must not wait for a place that nobody makes.
        self.frames = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
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

fn store(archive: &mut Option<File>, bytes: &[u8]) -> Result<(), LabError> {
    let fail = |error| LabError::io("keep what the guest brings out", error);
    if archive.is_none() {
        let memory = memfd_create("durio-lab-out", MemfdFlags::CLOEXEC);
        *archive = Some(File::from(memory.map_err(|error| fail(error.into()))?));
    }
    archive.as_mut().map_or(Ok(()), |file| file.write_all(bytes).map_err(fail))
}

/// Reads frames until the stream ends, or is none of frames, or nobody wants more.
fn read_frames(port: ChildStdout, sender: &SyncSender<io::Result<Frame>>) {
    let mut port = io::BufReader::with_capacity(1 << 16, port);
    loop {
        let (message, is_last) = match Frame::read_from(&mut port) {
            Ok(None) => return,
            // QEMU was ended in the middle of a frame: the console says why.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
            Ok(Some(frame)) => (Ok(frame), false),
            Err(error) => (Err(error), true),
        };
        if sender.send(message).is_err() || is_last {
            return;
        }
    }
}

/// Keeps the last of what is said.
fn read_console(mut said: ChildStderr, console: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = said.read(&mut bytes) {
        let mut kept = console.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes.get(..count).unwrap_or_default().iter().filter(|byte| **byte != b'\r'));
        let surplus = kept.len().saturating_sub(CONSOLE_BYTES_MAX);
        kept.drain(..surplus);
    }
}
