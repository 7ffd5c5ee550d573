//! What a lab is asked for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use durio_base::Bytes;
use durio_observe::LabTiming;

use crate::LabError;
use crate::disk::{self, LabDisk};
use crate::kernels::Kernel;

/// What the guest's root directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabRoot {
    /// This machine's, read-only below a layer of memory: every program that is installed here can
    /// be used, changes are seen by the guest alone and go with it. `/tmp`, `/run`, `/mnt` and
    /// `/var/tmp` are empty.
    Shared,
    /// The guest's own memory: durio, a shell, the usual programs, those that make filesystems and
    /// arrays, and what else was asked for. The guest reads nothing of this machine while it runs.
    Hermetic,
}

impl LabRoot {
    pub const ALL: [Self; 2] = [Self::Shared, Self::Hermetic];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Hermetic => "hermetic",
        }
    }
}

/// How the guest's instructions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// By KVM where the timing is the host's and a trial shows that it works, else by emulation.
    Auto,
    /// By KVM; an error where it does not work.
    Kvm,
    /// By emulation; KVM is not tried.
    Tcg,
}

impl Accelerator {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Kvm, Self::Tcg];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

impl std::fmt::Display for Accelerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// A file or folder of this machine that the guest gets a copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFile {
    /// Where it is here.
    pub source: PathBuf,
    /// Where the guest has it; an absolute path.
    pub guest: PathBuf,
}

/// A guest, and what it shall do.
#[derive(Debug, Clone)]
pub struct LabRequest {
    /// What is booted.
    pub kernel: Kernel,
    /// What the guest's clock counts.
    pub timing: LabTiming,
    /// How its instructions are carried out.
    pub accelerator: Accelerator,
    /// Virtual processors, 1 to 64; 1 where the timing is counted.
    pub cpus: u32,
    /// The guest's memory, its files in memory among it.
    pub memory: Bytes,
    /// How long the guest may live, from its start, in this machine's time.
    pub limit: Duration,
    /// What the guest's root is.
    pub root: LabRoot,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Variables for the command, beside PATH, HOME, `DURIO_LAB` (the timing's word) and
    /// `DURIO_LAB_OUT` (a folder for what shall be brought out).
    pub environment: Vec<(OsString, OsString)>,
    /// The program that becomes the guest's first process and its command `durio`: called with
    /// [`crate::GUEST_COMMAND`] as its only argument it must call [`crate::guest_main`].
    pub program: PathBuf,
    /// Further programs for a hermetic guest; each must exist here.
    pub tools: Vec<String>,
    /// Modules that the kernel must have, beside those that the guest itself needs.
    pub modules: Vec<String>,
    /// Files for the guest.
    pub files: Vec<LabFile>,
    /// Files of this boot alone, by their paths in the guest: another boot of the same guest may have
    /// others.
    pub texts: Vec<(PathBuf, Vec<u8>)>,
    /// Disks, each with a link to it at [`LabDisk::path_in_guest`].
    pub disks: Vec<LabDisk>,
    /// The guest has a port to its witness at [`LabRequest::WITNESS_PATH`], which the command also finds
    /// in `DURIO_LAB_WITNESS`: what is written there is with the host when the call returns, as long as
    /// the host reads its pipe before that is full (64 KiB).
    pub has_witness: bool,
    /// Where to put what the command wrote to `DURIO_LAB_OUT`: a folder that is empty or not there.
    pub out: Option<PathBuf>,
}

impl LabRequest {
    /// Memory of a guest for which none is named.
    pub const MEMORY_DEFAULT: Bytes = Bytes::from_gib(2);
    /// The limit of a guest for which none is named: 30 minutes.
    pub const LIMIT_DEFAULT: Duration = Duration::from_secs(1800);
    /// Where the guest has the port to its witness.
    pub const WITNESS_PATH: &'static str = "/dev/virtio-ports/durio.witness";
    /// Virtual processors at most.
    pub const CPUS_MAX: u32 = 64;

    /// A guest of one processor with its own root, counted timing and the default memory and limit.
    #[must_use]
    pub fn new(kernel: Kernel, program: PathBuf, command: Vec<OsString>) -> Self {
        Self {
            kernel,
            timing: LabTiming::Counted,
            accelerator: Accelerator::Auto,
            cpus: 1,
            memory: Self::MEMORY_DEFAULT,
            limit: Self::LIMIT_DEFAULT,
            root: LabRoot::Hermetic,
            command,
            environment: Vec::new(),
            program,
            tools: Vec::new(),
            modules: Vec::new(),
            files: Vec::new(),
            texts: Vec::new(),
            disks: Vec::new(),
            has_witness: false,
            out: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let wrong = |text: &str| Err(LabError::WrongRequest(text.to_owned()));
        if self.command.is_empty() {
            return wrong("there is no command to run");
        }
        if self.cpus == 0 || self.cpus > Self::CPUS_MAX {
            return wrong(&format!("a guest has 1 to {} processors", Self::CPUS_MAX));
        }
        // QEMU counts instructions in one thread alone.
        if self.timing == LabTiming::Counted && self.cpus != 1 {
            return wrong(
                "counted timing is of one processor; leave --cpus out, or use --timing wall",
            );
        }
        if self.timing == LabTiming::Counted && self.accelerator == Accelerator::Kvm {
            return wrong("KVM counts no instructions; --accelerator kvm needs --timing wall");
        }
        let mut places = self.files.iter().map(|file| &file.guest);
        if !places.all(|it| it.is_absolute()) || !self.texts.iter().all(|it| it.0.is_absolute()) {
            return wrong("a file's place in the guest is an absolute path");
        }
        // No program can be given such an argument (execve(2)).
        let has_zero = |text: &OsString| text.as_encoded_bytes().contains(&0);
        if self.command.iter().any(has_zero) {
            return wrong("an argument has a zero byte in it");
        }
        disk::check(&self.disks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> LabRequest {
        let kernel = Kernel { release: "6".into(), image: "/k".into(), modules: "/m".into() };
        LabRequest::new(kernel, "/durio".into(), vec!["true".into()])
    }

    #[test]
    fn a_guest_of_which_nothing_is_said_has_one_processor_2_gib_and_half_an_hour() {
        let it = request();
        let given = (it.cpus, it.memory.get(), it.limit.as_secs());
        assert_eq!(given, (1, 2_147_483_648, 1800));
    }

    #[test]
    fn a_guest_has_1_to_64_processors() {
        let of = |cpus| {
            let request = LabRequest { cpus, timing: LabTiming::Wall, ..request() };
            request.check().map_err(|error| error.to_string())
        };
        assert_eq!([of(1), of(64)], [Ok(()), Ok(())]);
        for cpus in [0, 65] {
            assert!(of(cpus).unwrap_err().contains("a guest has 1 to 64 processors"), "{cpus}");
        }
    }
}
