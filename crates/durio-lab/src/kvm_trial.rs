//! Whether KVM works here, tried out: a guest of 300 bytes computes in all modes that a kernel passes
//! through, and ends by itself.
//!
//! In: QEMU's program. Out: nothing, or why KVM cannot be used. Not here: what is used instead.
//!
//! Its device file says nothing: on machines that are guests themselves it may be there, open, make
//! processors, even carry out instructions in real mode, and fail in long mode
//! ("KVM internal error. Suberror: 1"), where QEMU stops the guest for ever.

mod rom;

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

use crate::monitor::wait_for_stop;
use crate::qemu::{KVM_WORDS, MACHINE_WORDS, MONITOR_WORDS};
use crate::run::own_handle;

/// How long the guest may take; where KVM works it takes a tenth of a second, and where it does not QEMU
/// says so as soon. This is for a guest that neither ends nor stops, on a machine however busy.
const LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// How long is waited for what QEMU said, when it is gone, and how much of it is read.
const LAST_WORDS: Duration = Duration::from_secs(2);
const SAID_BYTES_MAX: u64 = 1 << 16;

/// What KVM did wrong to a guest that came after the trial.
static LATER_FAULT: OnceLock<String> = OnceLock::new();

/// Why KVM cannot be used on this machine; none if it can. Tried once per process.
pub(crate) fn kvm_fault(program: &Path) -> Option<&'static str> {
    static FAULT: OnceLock<Option<String>> = OnceLock::new();
    let fault = FAULT.get_or_init(|| try_out(program, &KVM_WORDS).err());
    fault.as_deref().or_else(|| LATER_FAULT.get().map(String::as_str))
}

/// The next guests of this process need not find out again.
pub(crate) fn remember_fault(reason: &str) {
    LATER_FAULT.get_or_init(|| reason.to_owned());
}

/// Lets the guest run with these words for QEMU.
fn try_out(program: &Path, words: &[&str]) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let firmware = firmware().map_err(failed)?;
    let (monitor, theirs) = UnixStream::pair().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(MACHINE_WORDS).args(words).args(["-m", "16"]);
    command.args(["-device", "isa-debug-exit,iobase=0x501,iosize=1"]);
    command.arg("-bios").arg(own_handle(&firmware)).args(MONITOR_WORDS);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    let group = ProcessGroup::start(&mut command).map_err(failed)?;
    // Its end of the socket: while it is open here, QEMU's end is not seen.
    drop(command);
    judge(group, monitor)
}

/// The firmware as a file without a name.
fn firmware() -> io::Result<File> {
    let mut file = File::from(memfd_create("durio-lab-trial", MemfdFlags::CLOEXEC)?);
    file.write_all(&rom::rom())?;
    Ok(file)
}

fn judge(mut group: ProcessGroup, monitor: UnixStream) -> Result<(), String> {
    let ours = monitor.try_clone().map_err(|error| error.to_string())?;
    let (sender, stopped) = channel();
    let watch = thread::spawn(move || sender.send(wait_for_stop(monitor)));
    let (tell, heard) = channel();
    if let Some(said) = group.leader.stderr.take() {
        thread::spawn(move || tell.send(text(said)));
    }
    let end = end(&mut group, &stopped);
    let _ = group.end();
    let _ = ours.shutdown(Shutdown::Both);
    let _ = watch.join();
    // A process that left QEMU's group may hold the stream open for ever.
    let said = heard.recv_timeout(LAST_WORDS).unwrap_or_default();
    end.map_err(|reason| with_qemus_word(&reason, &said))
}

/// Waits for the guest to end by itself.
fn end(group: &mut ProcessGroup, stopped: &Receiver<Option<String>>) -> Result<(), String> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if group.has_ended().map_err(|error| error.to_string())? {
            let status = group.end().map_err(|error| error.to_string())?;
            return match status.code() == Some(rom::RIGHT_CODE) {
                true => Ok(()),
                false => Err(format!("QEMU ended with {status}")),
            };
        }
        if let Ok(Some(word)) = stopped.try_recv() {
            return Err(format!("a trial guest stopped ({word})"));
        }
        thread::sleep(LOOK);
    }
    Err(format!("a trial guest did not end within {} s", LIMIT.as_secs()))
}

fn text(said: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = said.take(SAID_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// With the line in which QEMU says what is wrong.
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Qemu;
    use crate::skipped::skip;

    fn qemu() -> Option<PathBuf> {
        let qemu = Qemu::find().ok();
        if qemu.is_none() {
            skip("qemu-system-x86_64 is not installed");
        }
        qemu.map(|it| it.program().to_owned())
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
        assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_wrapper_that_leaves_a_child_behind_with_the_streams_holds_nothing_up() {
        let folder = tempfile::tempdir().unwrap();
        let begin = Instant::now();
        let script = "sleep 600 & setsid sleep 5 & echo 'error: none' >&2; exit 1";
        let error = try_out(&program(&folder, script), &KVM_WORDS).unwrap_err();
        assert!(error.contains("QEMU ended with"), "{error}");
        assert!(begin.elapsed() < LIMIT, "{:?}", begin.elapsed());
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
}
