//! A guest that is made ready once and booted as often as need be.
//!
//! In: a request; for each boot two writers, a word whether to stop, a power switch, a witness. Out: how
//! that boot ended. Not here: which files the guest has, how QEMU is called and followed.
//!
//! The unpacked kernel and the archive of files are in memory, and each boot reads them there; what the
//! guest shall do is put behind the archive, so that two boots may differ in it. A guest keeps nothing
//! from one boot to the next but what its disks keep.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use durio_block::Folder;
use durio_observe::LabFacts;

use crate::cutter::Cutter;
use crate::image::GuestFiles;
use crate::kernel_image::kernel_of_image;
use crate::kvm_trial::{remember_fault, with_qemus_word};
use crate::machine::{End, Limits, Machine};
use crate::qemu::{Booted, Qemu};
use crate::run::reason_in;
use crate::unpack::{Skipped, Spool, check_empty, open_or_make};
use crate::{Accelerator, LabError, LabExit, LabOutcome, LabRequest, Streams};

/// How long a guest may take until its command starts. An emulated one takes some seconds on a quiet host
/// and was seen to take 60 beside twelve busy loops on two processors.
const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// The host's side of one boot.
pub struct Boot<'a> {
    /// Where the command's output goes.
    pub streams: Streams<'a>,
    /// Asked all the time: whether the command shall end.
    pub stop: &'a (dyn Fn() -> bool + 'a),
    /// Whoever may cut the guest's power. A switch is for one boot.
    pub cutter: Option<&'a Cutter>,
    /// The end of a pipe for writing, which gets what the guest tells its witness, and is closed when
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
    /// The kernel, unpacked, if it can be started so.
    kernel: Option<Arc<File>>,
    preparation: Duration,
}

impl PreparedGuest {
    /// Makes a guest ready, which takes a second or two.
    ///
    /// # Errors
    /// Whatever would keep the guest from being started.
    pub fn new(request: LabRequest) -> Result<Self, LabError> {
        request.check()?;
        if let Some(path) = &request.out {
            check_empty(path)?;
        }
        let qemu = Qemu::find()?;
        // Where KVM was asked for and does not work, that is said before anything is made.
        qemu.facts(&request)?;
        let begin = Instant::now();
        // Neither needs the other, and each keeps a processor busy.
        let (files, kernel) = thread::scope(|scope| {
            let kernel = scope.spawn(|| kernel_of_image(&request.kernel.image));
            // Without it the image is booted as it is, whatever was wrong.
            (GuestFiles::of(&request), kernel.join().ok().flatten())
        });
        let (files, kernel) = (Arc::new(files?), kernel.map(Arc::new));
        Ok(Self { request, qemu, files, kernel, preparation: begin.elapsed() })
    }

    /// What it was made ready for.
    #[must_use]
    pub fn request(&self) -> &LabRequest {
        &self.request
    }

    /// The same kernel and files for another request: with another command (a hermetic guest has no
    /// other programs than before), environment, texts, place for what is brought out, limit, timing,
    /// processors, memory, or disks of front ends that it has drivers for.
    ///
    /// # Errors
    /// [`LabError::WrongRequest`] if that request needs other files.
    pub fn with_request(&self, request: LabRequest) -> Result<Self, LabError> {
        request.check()?;
        match self.files.serve(&request) {
            true => Ok(Self { request, ..self.clone() }),
            false => {
                let text = "a guest that was made ready has no files for another request";
                Err(LabError::WrongRequest(text.to_owned()))
            }
        }
    }

    /// Boots it, and waits for its end. QEMU is ended in every case, and with the thread that calls this.
    ///
    /// # Errors
    /// Whatever keeps the guest from being started, and what was brought out from being written. How a
    /// guest that was started ended is an outcome.
    pub fn boot(&self, mut boot: Boot<'_>) -> Result<LabOutcome, LabError> {
        if boot.witness.is_some() && !self.request.has_witness {
            let text = "a witness listens to a guest that has no port to it";
            return Err(LabError::WrongRequest(text.to_owned()));
        }
        let Some(path) = &self.request.out else { return self.boot_working(None, &mut boot) };
        check_empty(path)?;
        let was_there = path.is_dir();
        // Held from here on: what its name leads to later does not matter.
        let outcome = self.boot_working(Some(&open_or_make(path)?), &mut boot);
        if !was_there && !outcome.as_ref().is_ok_and(|it| matches!(it.exit, LabExit::Code(_))) {
            // Only if nothing is in it.
            let _ = std::fs::remove_dir(path);
        }
        outcome
    }

    /// Boots it by KVM if that works, and once more without it if it did not after all.
    fn boot_working(
        &self,
        out: Option<&Folder>,
        boot: &mut Boot<'_>,
    ) -> Result<LabOutcome, LabError> {
        let outcome = self.boot_once(self.qemu.facts(&self.request)?, out, boot)?;
        let Some(why) = outcome.fault_of_kvm() else { return Ok(outcome) };
        // The next guests of this process are emulated at once.
        remember_fault(&why);
        if self.request.accelerator == Accelerator::Kvm {
            return Err(LabError::NoKvm { why });
        }
        // Nothing of the command has happened yet.
        self.boot_once(Qemu::emulated(outcome.facts, why), out, boot)
    }

    fn boot_once(
        &self,
        facts: LabFacts,
        out: Option<&Folder>,
        boot: &mut Boot<'_>,
    ) -> Result<LabOutcome, LabError> {
        let spool = out.map(Spool::new).transpose()?;
        let files = self.files.with_orders(&self.request, &facts)?;
        let image = match &self.kernel {
            Some(kernel) => own_handle(kernel.as_ref()),
            None => self.request.kernel.image.clone(),
        };
        let witness = boot.witness.as_ref().map(own_handle);
        let command = self.qemu.command(&Booted {
            request: &self.request,
            facts: &facts,
            kernel: &image,
            files: &own_handle(&files),
            witness: witness.as_deref(),
        })?;
        let cutter = boot.cutter.cloned().unwrap_or_default();
        let mut machine = Machine::start(command, self.limits(), &cutter)?;
        let mut end = machine.follow(spool, &mut boot.streams, boot.stop)?;
        let console = machine.end();
        settle(&mut end.exit, &cutter, &console);
        self.outcome(facts, end, out, console)
    }

    fn limits(&self) -> Limits {
        Limits { boot: BOOT_LIMIT, life: self.request.limit }
    }

    fn outcome(
        &self,
        facts: LabFacts,
        end: End,
        out: Option<&Folder>,
        console: String,
    ) -> Result<LabOutcome, LabError> {
        let is_whole = end.is_whole && end.exit != LabExit::Cut;
        let skipped = match (out, end.archive) {
            (Some(out), Some(archive)) if is_whole => archive.unpack(out)?,
            _ => Skipped::default(),
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

/// A cut is the end whatever else was seen of it; a failure gets its reason.
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

/// The path by which QEMU opens our own handle of a file, which has no name.
pub(crate) fn own_handle(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}
