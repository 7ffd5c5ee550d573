//! A running QEMU: its port, its monitor, its console, its end.
//!
//! Passes on the output of the guest's command and reports how the guest ended.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStderr, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durio_block::ProcessGroup;
use rustix::process::Pid;

use crate::cutter::Cutter;
use crate::qemu::wait_for_stop;
use crate::unpack::Spool;
use crate::wire::{GuestFrame, INTERRUPT};
use crate::{LabError, LabExit, Streams};

/// How often the caller's stop condition is polled.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command may take to end when asked to, and its files to be brought out.
const FAREWELL: Duration = Duration::from_secs(60);
/// How long to wait for QEMU's last output after its end.
const LAST_WORDS: Duration = Duration::from_secs(2);
const CONSOLE_BYTES_MAX: usize = 64 * 1024;
/// Limit of messages for a slow reader of our output.
const NEWS_MAX: usize = 64;

/// How a guest ended, and its output.
pub(crate) struct End {
    pub(crate) exit: LabExit,
    pub(crate) first_command_after: Option<Duration>,
    /// Where to keep the files it brings out; absent if they are not wanted.
    pub(crate) archive: Option<Spool>,
    /// Its last frame came: the archive is complete.
    pub(crate) is_whole: bool,
}

/// QEMU's news of its guest.
enum MachineMessage {
    /// Something came through the port.
    Frame(GuestFrame),
    /// The port delivered something other than durio's frames.
    Garbled(io::Error),
    /// QEMU has stopped the guest, for this reason.
    Stopped(String),
}

/// How long a guest may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestLimits {
    /// Until its command starts.
    pub(crate) boot: Duration,
    /// Until its end.
    pub(crate) life: Duration,
}

/// A running QEMU, which is killed when this is dropped.
pub(crate) struct QemuMachine {
    group: ProcessGroup,
    cutter: Cutter,
    port: UnixStream,
    started: Instant,
    limits: GuestLimits,
    news: Option<Receiver<MachineMessage>>,
    console: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl QemuMachine {
    pub(crate) fn start(
        mut command: Command,
        limits: GuestLimits,
        cutter: &Cutter,
    ) -> Result<Self, LabError> {
        let fail = |error| LabError::io("start QEMU", error);
        let (port, qemus_port) = UnixStream::pair().map_err(fail)?;
        // Socket pairs, not paths: no other process can connect, and no name can be left behind.
        let (monitor, qemus_monitor) = UnixStream::pair().map_err(fail)?;
        command.stdin(OwnedFd::from(qemus_monitor)).stdout(OwnedFd::from(qemus_port));
        // In a separate group: durio handles a terminal's Ctrl-C, and informs the guest.
        let mut group = ProcessGroup::start(&mut command).map_err(fail)?;
        if !cutter.starts(Pid::from_child(&group.leader)) {
            // The power was cut before the start: end the guest at once.
            let _ = group.end();
        }
        // QEMU's ends of the sockets: while they are open here, QEMU's end goes unnoticed.
        drop(command);
        let mut machine = Self {
            group,
            cutter: cutter.clone(),
            port,
            started: Instant::now(),
            limits,
            news: None,
            console: Arc::default(),
            readers: Vec::new(),
        };
        machine.attend(monitor)?;
        Ok(machine)
    }

    fn attend(&mut self, monitor: UnixStream) -> Result<(), LabError> {
        // Bounded: a guest that writes faster than our output is read must wait, instead of filling
        // memory.
        let (sender, receiver) = sync_channel(NEWS_MAX);
        self.news = Some(receiver);
        let port = self.port.try_clone().map_err(|error| LabError::io("read the port", error))?;
        let of_port = sender.clone();
        self.spawn(move || read_frames(port, &of_port))?;
        self.spawn(move || {
            if let Some(word) = wait_for_stop(monitor, || ()) {
                let _ = sender.send(MachineMessage::Stopped(word));
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

    /// Passes on the guest's output until its end, or until it must be ended.
    pub(crate) fn follow(
        &mut self,
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
            if let Some(exit) = self.overdue(&end) {
                end.exit = exit;
                return Ok(end);
            }
            let Some(news) = &self.news else { break };
            match news.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                // QEMU has ended; the console has the reason.
                Err(RecvTimeoutError::Disconnected) => {
                    end.exit = LabExit::GuestFailed(String::new());
                    break;
                }
                Ok(MachineMessage::Frame(frame)) => {
                    if let Some(exit) = self.take(frame, streams, &mut end)? {
                        end.exit = exit;
                        break;
                    }
                }
                Ok(MachineMessage::Garbled(error)) => {
                    end.exit = LabExit::GuestFailed(error.to_string());
                    return Ok(end);
                }
                Ok(MachineMessage::Stopped(word)) => {
                    end.exit = LabExit::GuestFailed(format!("QEMU stopped it ({word})"));
                    break;
                }
            }
        }
        // Whatever the command made of it: the caller's decision counts.
        if stop() {
            end.exit = LabExit::Stopped;
        }
        Ok(end)
    }

    /// Asks a started command to end, as Ctrl-C would, and gives it time to do so.
    fn may_go_on(&mut self, end: &End, asked: &mut Option<Instant>) -> bool {
        if let Some(asked) = asked {
            return asked.elapsed() < FAREWELL;
        }
        *asked = Some(Instant::now());
        end.first_command_after.is_some() && self.port.write_all(&[INTERRUPT]).is_ok()
    }

    fn overdue(&self, end: &End) -> Option<LabExit> {
        let age = self.started.elapsed();
        if age >= self.limits.life {
            return Some(LabExit::TimeLimit);
        }
        (end.first_command_after.is_none() && age >= self.limits.boot).then(|| {
            let limit = self.limits.boot.as_secs();
            LabExit::GuestFailed(format!("its command did not start within {limit} s"))
        })
    }

    fn take(
        &self,
        frame: GuestFrame,
        streams: &mut Streams<'_>,
        end: &mut End,
    ) -> Result<Option<LabExit>, LabError> {
        match frame {
            GuestFrame::Ready => end.first_command_after = Some(self.started.elapsed()),
            GuestFrame::Stdout(bytes) => pass(streams.stdout, &bytes, "stdout")?,
            GuestFrame::Stderr(bytes) => pass(streams.stderr, &bytes, "stderr")?,
            GuestFrame::Archive(bytes) => {
                end.archive.as_mut().map_or(Ok(()), |archive| archive.write(&bytes))?;
            }
            GuestFrame::Exit(code) => {
                // The archive is sent before the code: a guest that died in between has sent half
                // an archive.
                end.is_whole = true;
                return Ok(Some(LabExit::Code(code)));
            }
            GuestFrame::Failed(text) => return Ok(Some(LabExit::GuestFailed(text))),
        }
        Ok(None)
    }

    /// Ends QEMU, if it has not ended, and returns the console's last text.
    pub(crate) fn end(mut self) -> String {
        self.kill();
        // A process that left QEMU's group may hold its streams open forever.
        let end = Instant::now() + LAST_WORDS;
        while Instant::now() < end && !self.readers.iter().all(JoinHandle::is_finished) {
            thread::sleep(LOOK);
        }
        let bytes = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn kill(&mut self) {
        // Without this, the reader would wait forever for room in the channel.
        self.news = None;
        self.cutter.ends();
        let _ = self.group.end();
        let _ = self.port.shutdown(Shutdown::Both);
    }
}

impl Drop for QemuMachine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn pass(sink: &mut dyn Write, bytes: &[u8], name: &str) -> Result<(), LabError> {
    match sink.write_all(bytes).and_then(|()| sink.flush()) {
        // The reader has closed its end; the command continues.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| LabError::io(format!("write to {name}"), error)),
    }
}

/// Reads frames until the stream ends, stops being valid, or the receiver is gone.
fn read_frames(port: UnixStream, sender: &SyncSender<MachineMessage>) {
    let mut port = io::BufReader::with_capacity(1 << 16, port);
    loop {
        let (news, is_last) = match GuestFrame::read_from(&mut port) {
            Ok(None) => return,
            // QEMU ended within a frame, or before it read our data: the console has the reason.
            Err(error) if [UnexpectedEof, ConnectionReset].contains(&error.kind()) => return,
            Ok(Some(frame)) => (MachineMessage::Frame(frame), false),
            Err(error) => (MachineMessage::Garbled(error), true),
        };
        if sender.send(news).is_err() || is_last {
            return;
        }
    }
}

/// Keeps the end of the console's output.
fn read_console(mut said: ChildStderr, console: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = said.read(&mut bytes) {
        let mut kept = console.lock().unwrap_or_else(PoisonError::into_inner);
        // The kernel's console ends its lines with CR and LF.
        kept.extend(bytes.get(..count).unwrap_or_default().iter().filter(|byte| **byte != b'\r'));
        let surplus = kept.len().saturating_sub(CONSOLE_BYTES_MAX);
        kept.drain(..surplus);
    }
}

/// The last lines of a console that explain why a guest died.
pub(crate) fn reason_in(console: &str) -> String {
    let lines = || console.lines().map(str::trim).filter(|line| !line.is_empty());
    // The first is the cause; a panic is followed by its trace.
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
