//! A running QEMU: its port, its monitor (QMP, docs/interop/qmp-spec.txt of QEMU), its console, its end,
//! and the switch that cuts its power.
//!
//! Passes on the output of the guest's command and reports how the guest ended. A guest whose processor
//! cannot continue (KVM fails to emulate an instruction) neither dies nor reports anything: QEMU stops
//! it and waits for a debugger.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ChildStderr, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durio_block::ProcessGroup;
use durio_command::CommandError;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::error::cannot;
use crate::unpack::Spool;
use crate::wire::{GuestFrame, INTERRUPT};
use crate::{LabExit, Streams};

/// The machine of every guest.
// -no-reboot: after a panic the kernel restarts at once (panic=-1), and QEMU ends instead.
pub(crate) const MACHINE_WORDS: &str =
    "-nodefaults -no-user-config -no-reboot -display none -nic none -M q35";
/// The arguments for a guest on the host's processor, in the trial and in real guests.
pub(crate) const KVM_WORDS: [&str; 4] = ["-accel", "kvm", "-cpu", KVM_CPU];
pub(crate) const KVM_CPU: &str = "host";
/// QEMU's stdin is a socket to its monitor.
pub(crate) const MONITOR_WORDS: [&str; 4] =
    ["-chardev", "socket,id=qmp,fd=0", "-mon", "chardev=qmp,mode=control"];

/// How often the caller's stop condition is polled.
const LOOK: Duration = Duration::from_millis(20);
/// How long a guest may take until its command starts. An emulated one takes some seconds on a
/// quiet host, and up to 60 (measured) with twelve busy loops on two processors.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
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

/// A running QEMU, which is killed when this is dropped.
pub(crate) struct QemuMachine {
    group: ProcessGroup,
    cutter: Cutter,
    port: UnixStream,
    started: Instant,
    /// How long the guest may take from its start to its end.
    life: Duration,
    news: Option<Receiver<MachineMessage>>,
    console: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl QemuMachine {
    pub(crate) fn start(
        mut command: Command,
        life: Duration,
        cutter: &Cutter,
    ) -> Result<Self, CommandError> {
        let fail = |error| cannot("start QEMU", error);
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
            life,
            news: None,
            console: Arc::default(),
            readers: Vec::new(),
        };
        machine.attend(monitor)?;
        Ok(machine)
    }

    fn attend(&mut self, monitor: UnixStream) -> Result<(), CommandError> {
        // Bounded: a guest that writes faster than our output is read must wait, instead of filling
        // memory.
        let (sender, receiver) = sync_channel(NEWS_MAX);
        self.news = Some(receiver);
        let port = self.port.try_clone().map_err(|error| cannot("read the port", error))?;
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

    fn spawn(&mut self, reader: impl FnOnce() + Send + 'static) -> Result<(), CommandError> {
        let thread = thread::Builder::new().name("durio-lab".to_owned()).spawn(reader);
        self.readers.push(thread.map_err(|error| cannot("start a thread", error))?);
        Ok(())
    }

    /// Passes on the guest's output until its end, or until it must be ended.
    pub(crate) fn follow(
        &mut self,
        archive: Option<Spool>,
        streams: &mut Streams<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<End, CommandError> {
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
        if age >= self.life {
            return Some(LabExit::TimeLimit);
        }
        (end.first_command_after.is_none() && age >= BOOT_LIMIT).then(|| {
            let limit = BOOT_LIMIT.as_secs();
            LabExit::GuestFailed(format!("its command did not start within {limit} s"))
        })
    }

    fn take(
        &self,
        frame: GuestFrame,
        streams: &mut Streams<'_>,
        end: &mut End,
    ) -> Result<Option<LabExit>, CommandError> {
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

fn pass(sink: &mut dyn Write, bytes: &[u8], name: &str) -> Result<(), CommandError> {
    match sink.write_all(bytes).and_then(|()| sink.flush()) {
        // The reader has closed its end; the command continues.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| cannot(format!("write to {name}"), error)),
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

/// The path by which QEMU opens our handle of a file without a name.
pub(crate) fn own_handle(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}

/// QEMU sends no events before capabilities are negotiated.
const AGREE: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n";
const ASK: &[u8] = b"{\"execute\":\"query-status\"}\n";
/// The state of a guest that is about to end (qapi/run-state.json).
const ENDING: &str = "shutdown";

/// Waits until QEMU reports that the guest is stopped, and returns QEMU's word for the reason
/// (`internal-error`, `paused`, `io-error`, …); `None` when QEMU is gone. `up` is called when QEMU
/// has greeted: the machine is about to run.
pub(crate) fn wait_for_stop(monitor: UnixStream, up: impl FnOnce()) -> Option<String> {
    let writer = monitor.try_clone().ok()?;
    let mut lines = BufReader::new(monitor).lines();
    begin(&mut lines, &writer).ok()?;
    up();
    // A read error is an end too: QEMU's exit reports the cause.
    lines.map_while(Result::ok).find_map(|line| standing_still(&line, &writer))
}

/// Skips the greeting, and queries the state: the guest may have stopped before.
fn begin(
    lines: &mut impl Iterator<Item = io::Result<String>>,
    mut to: &UnixStream,
) -> io::Result<()> {
    // QEMU speaks first, and takes no command before that.
    let _greeting = lines.next().transpose()?;
    to.write_all(AGREE)?;
    to.write_all(ASK)
}

/// The state, if this line reports that the guest does not run. The event of a stop lacks the
/// reason, so the state is queried.
fn standing_still(line: &str, mut to: &UnixStream) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.get("event").and_then(Value::as_str) == Some("STOP") {
        to.write_all(ASK).ok()?;
    }
    let state = message.get("return")?;
    let is_running = state.get("running")?.as_bool()?;
    let word = state.get("status")?.as_str()?;
    (!is_running && word != ENDING).then(|| word.to_owned())
}

/// Cuts the power of one guest, from any thread.
///
/// QEMU is killed with all its threads at once: the guest executes no further instruction, and
/// nothing in its memory gets out. This alone does not make a power cut: the servers of its disks
/// hold what the guest has written, and must drop what a cut would take.
#[derive(Debug, Clone, Default)]
pub struct Cutter(Arc<Mutex<CutterState>>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum CutterState {
    /// The guest has not started.
    #[default]
    Waiting,
    /// This process group is the guest's and was not waited for yet, so its number cannot be
    /// reused.
    Running(Pid),
    Cut,
    /// The guest ended otherwise.
    Over,
}

impl Cutter {
    /// A switch that waits for its guest.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cuts the power now. True if this ends the guest, whose outcome is then
    /// [`crate::LabExit::Cut`]; false if it has ended before. A guest that is not started yet will
    /// not start.
    pub fn cut(&self) -> bool {
        let mut state = self.state();
        if let CutterState::Running(group) = *state {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if *state != CutterState::Over {
            *state = CutterState::Cut;
        }
        *state == CutterState::Cut
    }

    /// Whether it was cut.
    pub(crate) fn has_cut(&self) -> bool {
        *self.state() == CutterState::Cut
    }

    /// Names the group to kill from now on; false if the power is off already.
    pub(crate) fn starts(&self, group: Pid) -> bool {
        let mut state = self.state();
        if *state != CutterState::Cut {
            *state = CutterState::Running(group);
        }
        *state != CutterState::Cut
    }

    /// Must be called before the group's end is waited for, which frees its number.
    pub(crate) fn ends(&self) {
        let mut state = self.state();
        if *state != CutterState::Cut {
            *state = CutterState::Over;
        }
    }

    fn state(&self) -> MutexGuard<'_, CutterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn sleeping() -> (ProcessGroup, Pid) {
        let group = ProcessGroup::start(Command::new("sleep").arg("600")).unwrap();
        let pid = Pid::from_child(&group.leader);
        (group, pid)
    }

    #[test]
    fn a_cut_kills_what_runs() {
        let (mut group, pid) = sleeping();
        let cutter = Cutter::new();
        assert!(cutter.starts(pid));
        assert!(cutter.clone().cut());
        assert_eq!(group.leader.wait().unwrap().signal(), Some(9));
        cutter.ends();
        assert!(cutter.has_cut());
    }

    #[test]
    fn a_cut_that_comes_too_late_kills_nobody_and_says_so() {
        let (group, pid) = sleeping();
        let cutter = Cutter::new();
        assert!(cutter.starts(pid));
        cutter.ends();
        assert!(!cutter.cut() && !cutter.has_cut());
        assert!(!group.has_ended().unwrap(), "its number may be another's by now");
    }

    #[test]
    fn a_cut_that_comes_too_early_keeps_the_guest_from_starting() {
        let (_group, pid) = sleeping();
        let cutter = Cutter::new();
        assert!(cutter.cut());
        assert!(!cutter.starts(pid));
    }

    /// A QEMU that says this, and what it was asked.
    fn against(said: &'static str) -> (Option<String>, Vec<String>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let waiting = thread::spawn(move || wait_for_stop(ours, || ()));
        (&theirs).write_all(said.as_bytes()).unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let asked = BufReader::new(theirs).lines().map_while(Result::ok).collect();
        (waiting.join().unwrap(), asked)
    }

    const GREETING: &str = "{\"QMP\": {\"version\": {}}}\n{\"return\": {}}\n";

    #[test]
    fn a_stop_is_looked_into_and_its_reason_returned() {
        let said = concat!(
            "{\"QMP\": {}}\n{\"return\": {}}\n",
            "{\"return\": {\"status\": \"running\", \"running\": true}}\n",
            "{\"event\": \"STOP\", \"timestamp\": {}}\n",
            "{\"return\": {\"status\": \"internal-error\", \"running\": false}}\n",
        );
        let (reason, asked) = against(said);
        assert_eq!(reason.as_deref(), Some("internal-error"));
        assert_eq!(asked.iter().filter(|line| line.contains("query-status")).count(), 2);
    }

    #[test]
    fn the_end_of_qemu_and_a_guest_that_ends_are_no_stop() {
        assert_eq!(against(GREETING).0, None);
        assert_eq!(against("").0, None);
        assert_eq!(against("{}\nno json\n{\"return\": 3}\n").0, None);
        assert_eq!(
            against("{}\n{\"return\": {\"status\": \"shutdown\", \"running\": false}}\n").0,
            None
        );
    }
}
