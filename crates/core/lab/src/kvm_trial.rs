//! Tries out whether KVM works here: a guest of 300 bytes computes in all modes that a kernel
//! passes through, and ends by itself.
//!
//! The guest is a firmware written for this purpose and assembled once (`kvm_trial/rom.lst`): it
//! takes a processor from reset to long mode, computes there, and ends the guest with the result.
//! It handles no exceptions: an exception resets the processor, and QEMU ends with another code.
//!
//! The device file proves nothing: on machines that are guests themselves it may exist, open,
//! create processors and even execute real mode, yet fail in long mode ("KVM internal error.
//! Suberror: 1"), where QEMU stops the guest forever.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use durio_block::ProcessGroup;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::machine::{KVM_WORDS, MACHINE_WORDS, MONITOR_WORDS, own_handle, wait_for_stop};

/// How long the guest may take, once QEMU has it ready. Where KVM works it takes some milliseconds,
/// and where it does not QEMU reports that as fast. This limit is for a guest that neither ends nor
/// stops, and for a host so busy that milliseconds become seconds.
const LIMIT: Duration = Duration::from_secs(10);
/// How long QEMU may take to start, which on a busy machine exceeds the guest's time.
const START_LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// How long to wait for QEMU's last output after its end, and how much of it to read.
const LAST_WORDS: Duration = Duration::from_secs(2);
const SAID_BYTES_MAX: u64 = 1 << 16;

/// KVM's fault in a guest that came after the trial.
static LATER_FAULT: OnceLock<String> = OnceLock::new();

/// Why KVM cannot be used on this machine; `None` if it can. Tried once per process.
pub(crate) fn kvm_fault(program: &Path) -> Option<&'static str> {
    static FAULT: OnceLock<Option<String>> = OnceLock::new();
    let fault = FAULT.get_or_init(|| try_out(program, &KVM_WORDS).err());
    fault.as_deref().or_else(|| LATER_FAULT.get().map(String::as_str))
}

/// Later guests of this process need not find out again.
pub(crate) fn remember_fault(reason: &str) {
    LATER_FAULT.get_or_init(|| reason.to_owned());
}

fn try_out(program: &Path, words: &[&str]) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let firmware = firmware().map_err(failed)?;
    let (monitor, theirs) = UnixStream::pair().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(MACHINE_WORDS.split(' ')).args(words).args(["-m", "16"]);
    // The guest ends QEMU by a write to this port; the written value determines the exit code.
    command.args(["-device", "isa-debug-exit,iobase=0x501,iosize=1"]);
    command.arg("-bios").arg(own_handle(&firmware)).args(MONITOR_WORDS);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let group = ProcessGroup::start(&mut command).map_err(failed)?;
    // Where KVM is broken QEMU may abort, and would leave its core in the current folder. The
    // kernel reads the limit when it dumps, which is later than this.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = prlimit(Some(Pid::from_child(&group.leader)), Resource::Core, none);
    // Its end of the socket: while it is open here, QEMU's end goes unnoticed.
    drop(command);
    judge(group, monitor)
}

fn firmware() -> io::Result<File> {
    let mut file = File::from(memfd_create("durio-lab-trial", MemfdFlags::CLOEXEC)?);
    file.write_all(&rom())?;
    Ok(file)
}

fn judge(mut group: ProcessGroup, monitor: UnixStream) -> Result<(), String> {
    let ours = monitor.try_clone().map_err(|error| error.to_string())?;
    let (sender, news) = channel();
    let watch = thread::spawn(move || {
        let up = sender.clone();
        let stop = wait_for_stop(monitor, move || drop(up.send(MonitorMessage::Up)));
        stop.map(|word| sender.send(MonitorMessage::Stopped(word)))
    });
    let (tell, heard) = channel();
    if let Some(said) = group.leader.stderr.take() {
        thread::spawn(move || tell.send(text(said)));
    }
    let end = end(&mut group, &news);
    let _ = group.end();
    // The watching thread reads until its socket ends.
    let _ = ours.shutdown(Shutdown::Both);
    let _ = watch.join();
    // A process that left QEMU's group may hold the stream open forever.
    let said = heard.recv_timeout(LAST_WORDS).unwrap_or_default();
    end.map_err(|reason| with_qemus_word(&reason, &said))
}

/// Messages of QEMU's monitor.
enum MonitorMessage {
    /// QEMU has the guest ready.
    Up,
    /// The guest is stopped, for this reason.
    Stopped(String),
}

fn end(group: &mut ProcessGroup, news: &Receiver<MonitorMessage>) -> Result<(), String> {
    let (mut begin, mut limit) = (Instant::now(), START_LIMIT);
    while begin.elapsed() < limit {
        if group.has_ended().map_err(|error| error.to_string())? {
            let status = group.end().map_err(|error| error.to_string())?;
            return match status.code() == Some(RIGHT_CODE) {
                true => Ok(()),
                false => Err(format!("QEMU ended with {status}")),
            };
        }
        match news.try_recv() {
            Ok(MonitorMessage::Up) => (begin, limit) = (Instant::now(), LIMIT),
            Ok(MonitorMessage::Stopped(word)) => {
                return Err(format!("a trial guest stopped ({word})"));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
    Err(format!("a trial guest did not end within {} s", limit.as_secs()))
}

fn text(said: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = said.take(SAID_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Appends the line in which QEMU states the error.
pub(crate) fn with_qemus_word(reason: &str, said: &str) -> String {
    let of_qemu = |line: &&str| {
        ["KVM internal error", "Could not access KVM", "failed to initialize kvm", "error: "]
            .iter()
            .any(|mark| line.contains(mark))
    };
    match said.lines().find(of_qemu) {
        Some(line) => {
            format!("{reason}: {}", line.trim().trim_start_matches("qemu-system-x86_64: "))
        }
        None => reason.to_owned(),
    }
}

/// A ROM ends at the end of the 32-bit address space; QEMU accepts multiples of this.
const ROM_BYTES: usize = 64 << 10;
/// Where the program is in the ROM.
const PROGRAM_AT: usize = 0xfe00;
/// Where a processor starts: 16 bytes before the end.
const RESET_AT: usize = 0xfff0;
/// `jmp fe00`.
const RESET: [u8; 3] = [0xe9, 0x0d, 0xfe];
/// The program's output to the port if every instruction worked.
// Not 0, because QEMU would then exit with 1, as it does after its own errors.
const RIGHT: i32 = 42;
/// The code with which QEMU ends then (hw/misc/debugexit.c).
const RIGHT_CODE: i32 = (RIGHT << 1) | 1;

fn rom() -> Vec<u8> {
    // Everything else is `hlt`: a stray jump halts, and time runs out.
    let mut rom = vec![0xf4; ROM_BYTES];
    for (at, bytes) in [(PROGRAM_AT, trial_program()), (RESET_AT, RESET.to_vec())] {
        rom.splice(at..at + bytes.len(), bytes);
    }
    rom
}

/// Bytes in hexadecimal digits, each instruction on a line with its meaning.
const PROGRAM: &str = include_str!("kvm_trial/rom.lst");

fn trial_program() -> Vec<u8> {
    let bytes = PROGRAM.lines().filter_map(|line| line.split(';').next());
    let digits = bytes.flat_map(str::split_whitespace);
    digits.filter_map(|digits| u8::from_str_radix(digits, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use durio_block::testkit::note_skip;

    use super::*;
    use crate::Qemu;

    fn qemu() -> Option<PathBuf> {
        let qemu = Qemu::find().ok();
        if qemu.is_none() {
            note_skip("kvm_trial", &"qemu-system-x86_64 is not installed");
        }
        qemu.map(|qemu| qemu.program().to_owned())
    }

    /// A program that does this; `$@` are the words for QEMU. A shell writes it: a program that this
    /// process has open for writing cannot be started.
    fn program(folder: &tempfile::TempDir, script: &str) -> PathBuf {
        let path = folder.path().join("qemu-system-x86_64");
        let script = format!("#!/bin/sh\n{script}\n");
        let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
        let mut shell = Command::new("sh");
        let written = shell.args(["-c", write, "sh", &script]).arg(&path).status();
        assert!(written.unwrap().success());
        path
    }

    #[test]
    fn the_guest_computes_in_long_mode_and_ends_by_itself_on_every_emulated_processor() {
        let Some(qemu) = qemu() else { return };
        for model in ["Westmere", "max", "qemu64"] {
            let ended = try_out(&qemu, &["-accel", "tcg", "-cpu", model]);
            assert_eq!(ended, Ok(()), "{model}");
        }
    }

    #[test]
    fn a_processor_without_long_mode_fails() {
        let Some(qemu) = qemu() else { return };
        let error = try_out(&qemu, &["-accel", "tcg", "-cpu", "qemu32"]).unwrap_err();
        // Beside other work, QEMU 7.2 at times lets the guest halt where it should end: one in five.
        let ends = ["QEMU ended with", "did not end within"];
        assert!(ends.iter().any(|end| error.contains(end)), "{error}");
    }

    #[test]
    fn a_guest_that_qemu_holds_still_is_found_at_once() {
        let Some(qemu) = qemu() else { return };
        let folder = tempfile::tempdir().unwrap();
        let script = format!("exec {} \"$@\" -S", qemu.display());
        let begin = Instant::now();
        let error = try_out(&program(&folder, &script), &["-accel", "tcg"]).unwrap_err();
        assert_eq!(error, "a trial guest stopped (prelaunch)");
        assert!(begin.elapsed() < START_LIMIT + LIMIT, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_wrapper_that_leaves_a_child_behind_with_the_streams_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let begin = Instant::now();
        let script = "sleep 600 & setsid sleep 5 & echo 'error: none' >&2; exit 1";
        let error = try_out(&program(&folder, script), &KVM_WORDS).unwrap_err();
        assert!(error.contains("QEMU ended with"), "{error}");
        assert!(begin.elapsed() < START_LIMIT + LIMIT, "{:?}", begin.elapsed());
    }

    #[test]
    fn the_reason_is_in_qemus_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo 'qemu-system-x86_64: Could not access KVM kernel module: Permission denied' >&2; exit 1";
        let error = try_out(&program(&folder, script), &KVM_WORDS).unwrap_err();
        assert!(error.contains("Could not access KVM kernel module: Permission denied"), "{error}");
        let error = try_out(Path::new("/nonexistent"), &KVM_WORDS).unwrap_err();
        assert!(error.contains("No such file"), "{error}");
    }

    /// Every line names the offset at which it stands; the code ends where the table of segments begins.
    #[test]
    fn every_instruction_stands_where_the_listing_says() {
        let mut at = PROGRAM_AT;
        for line in PROGRAM.lines() {
            let (digits, about) = line.split_once(';').unwrap_or((line, ""));
            let offset = about.trim().split_once(": ").map(|(offset, _)| offset);
            if let Some(offset) = offset.filter(|_| !digits.trim().is_empty()) {
                assert_eq!(usize::from_str_radix(offset, 16).unwrap(), at, "{line}");
            }
            at += digits.split_whitespace().count();
        }
        assert_eq!(trial_program().len(), at - PROGRAM_AT);
        assert_eq!((at, rom().len()), (0xff2e, ROM_BYTES));
    }
}
