//! Why a lab could not be made ready, before anything was booted or around it.
//!
//! Each error has a message for the user with a remedy. How a guest ended is an outcome
//! ([`crate::LabExit`]), not an error.

use std::io;
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_command::{CommandError, CommandErrorKind};

/// Why a guest cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// `qemu-system-x86_64` is not on the search path.
    #[error("qemu-system-x86_64 is not installed")]
    NoQemu,
    /// QEMU exists but cannot be started, or does not print its version.
    #[error("'{}' cannot be used: {why}", program.display())]
    BadQemu { program: PathBuf, why: String },
    /// KVM was requested, and does not work.
    #[error("KVM does not work here: {why}")]
    NoKvm { why: String },
    /// No kernel was named, and none was found.
    #[error("no kernel with its modules was found in {}", listed(searched))]
    NoKernel { searched: Vec<PathBuf> },
    /// The file is not a kernel that QEMU can boot here.
    #[error("'{}' is not an x86-64 kernel image: {why}", path.display())]
    NotAKernel { path: PathBuf, why: String },
    /// The folder with this kernel's modules is missing.
    #[error("no modules of kernel {release} in '{}'", folder.display())]
    NoModules {
        release: String,
        /// The folder that was searched for modules.
        folder: PathBuf,
    },
    /// The kernel has these neither built in nor as modules.
    #[error("kernel {release} has no driver {}, neither built in nor as a module", names.join(", "))]
    MissingModules { release: String, names: Vec<String> },
    /// A module's file is damaged, or belongs to another kernel.
    #[error("module '{}': {why}", path.display())]
    BadModule { path: PathBuf, why: String },
    /// A program for the guest is not on this machine.
    #[error("'{name}' is not installed on this machine, so the guest cannot have it")]
    MissingTool {
        /// The program's name or path.
        name: String,
    },
    /// A program cannot be taken along.
    #[error("'{}' cannot be taken into the guest: {why}", path.display())]
    BadTool { path: PathBuf, why: String },
    /// The loaded files leave no room to run.
    #[error("{given} of memory is too little: the guest needs at least {needed}")]
    MemoryTooSmall {
        given: Bytes,
        /// The need of the initial memory filesystem and a kernel.
        needed: Bytes,
    },
    /// The request contradicts itself.
    #[error("{0}")]
    WrongRequest(String),
    /// The system refused something.
    #[error("cannot {doing}")]
    Io {
        /// The operation that failed.
        doing: String,
        source: io::Error,
    },
}

impl From<LabError> for CommandError {
    fn from(error: LabError) -> Self {
        let advice = error.advice();
        let kind = match error {
            // The machine's lack, not the guest's failure.
            LabError::NoKvm { .. } => CommandErrorKind::CannotMeasure,
            _ => CommandErrorKind::LabFailed,
        };
        advice.into_iter().fold(Self::of(kind, error), Self::hint)
    }
}

impl LabError {
    pub(crate) fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    pub(crate) fn reading(path: &Path, source: io::Error) -> Self {
        Self::io(format!("read '{}'", path.display()), source)
    }

    /// The remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NoQemu => "on Debian: apt-get install qemu-system-x86".to_owned(),
            Self::NoKvm { .. } => "--accelerator auto emulates the guest instead".to_owned(),
            Self::NoKernel { .. } => {
                "name one with --kernel and --modules, or unpack a kernel package below \
                 ~/.cache/durio/kernels: apt-get download linux-image-VERSION-amd64 (since Linux \
                 6.19 linux-binary-VERSION-amd64 and linux-modules-VERSION-amd64), then for each \
                 dpkg-deb -x PACKAGE ~/.cache/durio/kernels/VERSION; in durio's checkout cargo xtask \
                 lab kernel does both"
                    .to_owned()
            }
            Self::NoModules { release, .. } => {
                format!(
                    "name the folder lib/modules/{release} of this kernel's package by --modules"
                )
            }
            Self::MissingModules { names, .. } if names.iter().any(|name| name == "zfs") => {
                "cargo xtask lab zfs, in durio's checkout, builds zfs for a kernel in \
                 ~/.cache/durio/kernels; Debian's kernels have none"
                    .to_owned()
            }
            Self::MissingModules { .. } => {
                "durio lab kernels shows what each kernel has; Debian's linux-image-amd64 has all \
                 but zfs, the cloud kernels lack many"
                    .to_owned()
            }
            Self::MissingTool { .. } => {
                "install it here, or leave it out; --root shared uses this machine's programs"
                    .to_owned()
            }
            Self::MemoryTooSmall { needed, .. } => format!("give --memory {needed} or more"),
            _ => return None,
        })
    }
}

fn listed(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| format!("'{}'", path.display())).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_machine_without_kvm_cannot_measure_and_each_error_has_its_advice() {
        let missing = |name: &str| {
            let names = vec!["dm-mod".to_owned(), name.to_owned()];
            LabError::MissingModules { release: "6.1".into(), names }
        };
        let (given, needed) = (Bytes::from_mib(64), Bytes::from_mib(300));
        let rows = [
            (LabError::NoQemu, Some("apt-get install qemu-system-x86")),
            (LabError::NoKvm { why: "x".into() }, Some("--accelerator auto")),
            (missing("zfs"), Some("cargo xtask lab zfs")),
            (missing("zfsx"), Some("durio lab kernels")),
            (LabError::MissingTool { name: "fio".into() }, Some("--root shared")),
            (LabError::MemoryTooSmall { given, needed }, Some("--memory 300 MiB or more")),
            (LabError::WrongRequest("w".into()), None),
            (LabError::BadQemu { program: "/q".into(), why: "x".into() }, None),
        ];
        for (error, advice) in rows {
            let is_kvm = matches!(error, LabError::NoKvm { .. });
            let told = CommandError::from(error);
            let kind =
                if is_kvm { CommandErrorKind::CannotMeasure } else { CommandErrorKind::LabFailed };
            assert_eq!(told.kind, kind, "{told}");
            assert_eq!(told.hints.len(), usize::from(advice.is_some()), "{told}");
            assert!(told.hints.concat().contains(advice.unwrap_or_default()), "{:?}", told.hints);
        }
    }
}
