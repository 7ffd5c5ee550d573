//! Requests to a lab.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use durio_base::Bytes;
use durio_observe::LabTiming;

use crate::LabError;
use crate::disk::{self, LabDisk};
use crate::kernels::Kernel;

/// The guest's root directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabRoot {
    /// This machine's, read-only below a layer of memory: every installed program can be used,
    /// changes are visible only in the guest and end with it. `/tmp`, `/run`, `/mnt` and `/var/tmp`
    /// are empty.
    Shared,
    /// The guest's memory: durio, a shell, the usual programs, those that make filesystems and
    /// arrays, and the requested files. The guest reads nothing of this machine while it runs.
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
    /// By KVM if the timing is the host's and a trial shows that it works, else by emulation.
    Auto,
    /// By KVM; an error if it does not work.
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

/// A file or folder of this machine to copy into the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabFile {
    /// Where it is here.
    pub source: PathBuf,
    /// Its absolute path in the guest.
    pub guest: PathBuf,
}

/// A guest and its command.
#[derive(Debug, Clone)]
pub struct LabRequest {
    /// The kernel to boot.
    pub kernel: Kernel,
    /// The unit of the guest's clock.
    pub timing: LabTiming,
    /// How its instructions are carried out.
    pub accelerator: Accelerator,
    /// Virtual processors, 1 to 64; 1 if the timing is counted.
    pub cpus: u32,
    /// The guest's memory, including its files in memory.
    pub memory: Bytes,
    /// How long the guest may live, from its start, in this machine's time.
    pub limit: Duration,
    /// The guest's root.
    pub root: LabRoot,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Variables for the command, in addition to PATH, HOME, `DURIO_LAB` (the timing's word) and
    /// `DURIO_LAB_OUT` (a folder for files to bring out).
    pub environment: Vec<(OsString, OsString)>,
    /// The program that becomes the guest's first process and its command `durio`: called with
    /// [`crate::GUEST_COMMAND`] as its only argument it must call [`crate::guest_main`].
    pub program: PathBuf,
    /// Further programs for a hermetic guest; each must exist here.
    pub tools: Vec<String>,
    /// Modules that the kernel must have, in addition to those that every guest needs.
    pub modules: Vec<String>,
    /// Files for the guest.
    pub files: Vec<LabFile>,
    /// Files of this boot alone, by their paths in the guest; another boot may have others.
    pub texts: Vec<(PathBuf, Vec<u8>)>,
    /// Disks, each with a link to it at [`LabDisk::path_in_guest`].
    pub disks: Vec<LabDisk>,
    /// The guest has a port to its witness at [`LabRequest::WITNESS_PATH`], which the command also
    /// finds in `DURIO_LAB_WITNESS`. The host has the written bytes when the call returns, as long
    /// as it reads its pipe before that is full (64 KiB).
    pub has_witness: bool,
    /// The folder for files from `DURIO_LAB_OUT`: empty, or not existing yet.
    pub out: Option<PathBuf>,
}

impl LabRequest {
    /// The default memory of a guest.
    pub const MEMORY_DEFAULT: Bytes = Bytes::from_gib(2);
    /// The default limit of a guest: 30 minutes.
    pub const LIMIT_DEFAULT: Duration = Duration::from_secs(1800);
    /// The guest's path of the port to its witness.
    pub const WITNESS_PATH: &'static str = "/dev/virtio-ports/durio.witness";
    /// Virtual processors at most.
    pub const CPUS_MAX: u32 = 64;

    /// A guest of one processor with a separate root, counted timing and the default memory and
    /// limit.
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
        // A program's arguments cannot contain zero bytes (execve(2)).
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
