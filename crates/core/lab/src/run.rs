//! Runs a guest to its end: prepared once, booted as often as necessary, and how it ended.
//!
//! The unpacked kernel and the archive of files are in memory, where each boot reads them. The
//! guest's orders are appended to the archive, so two boots may have different orders. Only the
//! guest's disks keep anything from one boot to the next.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use durio_block::Folder;
use durio_command::CommandError;
use durio_observe::LabFacts;

use crate::error::{failed, no_kvm};
use crate::image::GuestFiles;
use crate::kernel_image::kernel_of_image;
use crate::kvm_trial::{remember_fault, with_qemus_word};
use crate::machine::{Cutter, End, QemuMachine, own_handle};
use crate::qemu::{KVM, Qemu, QemuBoot};
use crate::unpack::{SkippedEntries, Spool, check_empty, open_or_make};
use crate::{Accelerator, LabRequest};

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabExit {
    /// The command ended with this exit code; 128 + N if signal N ended it, 127 if the command does
    /// not exist, 126 if it cannot be run.
    Code(u8),
    /// The limit was reached.
    TimeLimit,
    /// The guest died before or while running the command; the known facts about it.
    GuestFailed(String),
    /// The caller asked to stop.
    Stopped,
    /// A [`crate::Cutter`] cut its power.
    Cut,
}

/// A guest that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabOutcome {
    pub exit: LabExit,
    /// The facts about the guest.
    pub facts: LabFacts,
    /// From the start of QEMU to the start of the command, if it was started.
    pub first_command_after: Option<Duration>,
    /// Whether the kernel was unpacked before its start; otherwise its image unpacked itself, which
    /// is slow in a guest.
    pub was_unpacked: bool,
    /// The time to prepare the guest's files, before QEMU was started. Each outcome of a guest
    /// prepared once has the same.
    pub preparation: Duration,
    /// The end of the output of the kernel and QEMU.
    pub console: String,
    /// Brought out files that did not reach the folder of the request.
    pub skipped: SkippedEntries,
}

impl LabOutcome {
    /// Why the guest failed by KVM before its command started, if that may be the cause.
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
        true => "it printed nothing".to_owned(),
        false => format!("its last output: {}", last.join(" | ")),
    }
}

/// Where the command's output goes.
pub struct Streams<'a> {
    pub stdout: &'a mut dyn Write,
    pub stderr: &'a mut dyn Write,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// Runs one guest to its end and leaves nothing behind: its files are in memory, and QEMU is ended
/// in every case.
///
/// # Errors
/// If the guest cannot be started, or the files it brings out cannot be written. How a started
/// guest ended is an outcome.
pub fn run(
    request: &LabRequest,
    streams: &mut Streams<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<LabOutcome, CommandError> {
    let streams = Streams { stdout: &mut *streams.stdout, stderr: &mut *streams.stderr };
    let boot = Boot { streams, stop, cutter: None, witness: None };
    PreparedGuest::new(request.clone())?.boot(boot)
}

/// The host's side of one boot.
pub struct Boot<'a> {
    /// Where the command's output goes.
    pub streams: Streams<'a>,
    /// Polled: whether to end the command.
    pub stop: &'a (dyn Fn() -> bool + 'a),
    /// Cuts the guest's power. A switch is for one boot.
    pub cutter: Option<&'a Cutter>,
    /// The write end of a pipe, which gets the guest's messages to its witness, and is closed when
    /// the boot has ended. For a guest whose request has a witness.
    pub witness: Option<OwnedFd>,
}

impl std::fmt::Debug for Boot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Boot").field("cutter", &self.cutter).finish_non_exhaustive()
    }
}

/// A guest whose kernel and files are ready.
#[derive(Debug, Clone)]
pub struct PreparedGuest {
    request: LabRequest,
    qemu: Qemu,
    files: Arc<GuestFiles>,
    /// The unpacked kernel, if it can be started directly.
    kernel: Option<Arc<File>>,
    preparation: Duration,
}

impl PreparedGuest {
    /// Prepares a guest, which takes a second or two.
    ///
    /// # Errors
    /// If the guest could not be started.
    pub fn new(request: LabRequest) -> Result<Self, CommandError> {
        request.check()?;
        if let Some(path) = &request.out {
            check_empty(path)?;
        }
        let qemu = Qemu::find()?;
        // If KVM was requested and does not work, fail before anything is made.
        qemu.facts(&request)?;
        let begin = Instant::now();
        // They are independent, and each keeps a processor busy.
        let (files, kernel) = thread::scope(|scope| {
            let kernel = scope.spawn(|| kernel_of_image(&request.kernel.image));
            // Without it the image is booted as it is, whatever the error was.
            (GuestFiles::of(&request), kernel.join().ok().flatten())
        });
        let (files, kernel) = (Arc::new(files?), kernel.map(Arc::new));
        Ok(Self { request, qemu, files, kernel, preparation: begin.elapsed() })
    }

    /// The request it was prepared for.
    #[must_use]
    pub fn request(&self) -> &LabRequest {
        &self.request
    }

    /// The same kernel and files for another request: with another command (a hermetic guest has
    /// only the programs it had before), environment, texts, output folder, limit, timing,
    /// processors, memory, or disks of front ends that it has drivers for.
    ///
    /// # Errors
    /// If that request needs other files.
    pub fn with_request(&self, request: LabRequest) -> Result<Self, CommandError> {
        request.check()?;
        match self.files.serve(&request) {
            true => Ok(Self { request, ..self.clone() }),
            false => {
                let text = "a prepared guest lacks the files for another request";
                Err(failed(text))
            }
        }
    }

    /// Boots the guest and waits for its end. QEMU is ended in every case, also with the calling
    /// thread.
    ///
    /// # Errors
    /// If the guest cannot be started, or the files it brings out cannot be written. How a started
    /// guest ended is an outcome.
    pub fn boot(&self, mut boot: Boot<'_>) -> Result<LabOutcome, CommandError> {
        if boot.witness.is_some() && !self.request.has_witness {
            let text = "the guest has no port to its witness";
            return Err(failed(text));
        }
        let Some(path) = &self.request.out else { return self.boot_working(None, &mut boot) };
        check_empty(path)?;
        let was_there = path.is_dir();
        // Held from here on: later changes of its path do not matter.
        let outcome = self.boot_working(Some(&open_or_make(path)?), &mut boot);
        if !was_there
            && !outcome.as_ref().is_ok_and(|outcome| matches!(outcome.exit, LabExit::Code(_)))
        {
            // Only if nothing is in it.
            let _ = std::fs::remove_dir(path);
        }
        outcome
    }

    /// Boots the guest by KVM if that works, and again without KVM if it failed after all.
    fn boot_working(
        &self,
        out: Option<&Folder>,
        boot: &mut Boot<'_>,
    ) -> Result<LabOutcome, CommandError> {
        let outcome = self.boot_once(self.qemu.facts(&self.request)?, out, boot)?;
        let Some(why) = outcome.fault_of_kvm() else { return Ok(outcome) };
        // Later guests of this process are emulated at once.
        remember_fault(&why);
        if self.request.accelerator == Accelerator::Kvm {
            return Err(no_kvm(&why));
        }
        // The command has not started yet.
        self.boot_once(Qemu::emulated(outcome.facts, why), out, boot)
    }

    fn boot_once(
        &self,
        facts: LabFacts,
        out: Option<&Folder>,
        boot: &mut Boot<'_>,
    ) -> Result<LabOutcome, CommandError> {
        let spool = out.map(Spool::new).transpose()?;
        let files = self.files.with_orders(&self.request, &facts)?;
        let image = match &self.kernel {
            Some(kernel) => own_handle(kernel.as_ref()),
            None => self.request.kernel.image.clone(),
        };
        let witness = boot.witness.as_ref().map(own_handle);
        let command = self.qemu.command(&QemuBoot {
            request: &self.request,
            facts: &facts,
            kernel: &image,
            files: &own_handle(&files),
            witness: witness.as_deref(),
        })?;
        let cutter = boot.cutter.cloned().unwrap_or_default();
        let mut machine = QemuMachine::start(command, self.request.limit, &cutter)?;
        let mut end = machine.follow(spool, &mut boot.streams, boot.stop)?;
        let console = machine.end();
        settle(&mut end.exit, &cutter, &console);
        self.outcome(facts, end, out, console)
    }

    fn outcome(
        &self,
        facts: LabFacts,
        end: End,
        out: Option<&Folder>,
        console: String,
    ) -> Result<LabOutcome, CommandError> {
        let is_whole = end.is_whole && end.exit != LabExit::Cut;
        let skipped = match (out, end.archive) {
            (Some(out), Some(archive)) if is_whole => archive.unpack(out)?,
            _ => SkippedEntries::default(),
        };
        Ok(LabOutcome {
            exit: end.exit,
            facts,
            first_command_after: end.first_command_after,
            was_unpacked: self.kernel.is_some(),
            preparation: self.preparation,
            console,
            skipped,
        })
    }
}

/// A cut overrides any other outcome; a failure gets its reason.
fn settle(exit: &mut LabExit, cutter: &Cutter, console: &str) {
    if cutter.has_cut() {
        *exit = LabExit::Cut;
    }
    if let LabExit::GuestFailed(reason) = exit {
        *reason = match reason.is_empty() {
            true => reason_in(console),
            false => with_qemus_word(reason, console),
        };
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
        assert_eq!(reason_in(""), "it printed nothing");
        assert_eq!(reason_in("a\n\nb\n"), "its last output: a | b");
    }

    fn settled(mut exit: LabExit, is_cut: bool, console: &str) -> LabExit {
        let cutter = Cutter::new();
        assert!(!is_cut || cutter.cut());
        settle(&mut exit, &cutter, console);
        exit
    }

    #[test]
    fn a_guest_whose_power_was_cut_ended_so_whatever_it_said() {
        let failed = |reason: &str| LabExit::GuestFailed(reason.to_owned());
        for exit in [LabExit::Code(0), LabExit::Stopped, failed("x")] {
            assert_eq!(settled(exit.clone(), true, "durio lab: no port"), LabExit::Cut);
            assert!(!matches!(settled(exit, false, ""), LabExit::Cut));
        }
        assert_eq!(settled(LabExit::Code(3), false, "durio lab: no port"), LabExit::Code(3));
        assert_eq!(settled(failed(""), false, "durio lab: no port"), failed("no port"));
        let said = "[ 1] x\nqemu-system-x86_64: error: kvm run failed\n";
        assert_eq!(
            settled(failed("it died"), false, said),
            failed("it died: error: kvm run failed")
        );
        assert_eq!(settled(failed("it died"), false, "x"), failed("it died"));
    }

    #[test]
    fn kvm_is_blamed_for_a_guest_that_failed_with_it_before_its_command() {
        let blamed = |exit, accelerator: &str, first_command_after| {
            let outcome = LabOutcome {
                exit,
                facts: LabFacts {
                    timing: durio_observe::LabTiming::Wall,
                    accelerator: accelerator.to_owned(),
                    without_kvm: None,
                    qemu_version: String::new(),
                    cpu_model: String::new(),
                    icount_shift: None,
                    root: String::new(),
                },
                first_command_after,
                was_unpacked: true,
                preparation: Duration::ZERO,
                console: String::new(),
                skipped: SkippedEntries::default(),
            };
            outcome.fault_of_kvm()
        };
        let failed = || LabExit::GuestFailed("it died".to_owned());
        assert_eq!(blamed(failed(), "kvm", None).as_deref(), Some("a guest failed: it died"));
        assert_eq!(blamed(failed(), "tcg", None), None);
        assert_eq!(blamed(failed(), "kvm", Some(Duration::from_secs(1))), None);
        assert_eq!(blamed(LabExit::TimeLimit, "kvm", None), None);
    }
}
