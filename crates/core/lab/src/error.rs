//! Errors of a lab: why a guest cannot be made ready, or its files cannot be brought out, each with the
//! known remedy. How a guest ended is an outcome ([`crate::LabExit`]), not an error.

use std::io;
use std::path::Path;

use durio_base::Bytes;
use durio_command::{CommandError, CommandErrorKind};

pub(crate) fn failed(text: impl Into<String>) -> CommandError {
    CommandError::new(CommandErrorKind::LabFailed, text)
}

/// The system refused to do this.
pub(crate) fn cannot(doing: impl Into<String>, source: io::Error) -> CommandError {
    let text = format!("cannot {}", doing.into());
    CommandError::of(CommandErrorKind::LabFailed, source).context(text)
}

/// A file for the guest cannot be read.
#[must_use]
pub fn cannot_read(path: &Path, source: io::Error) -> CommandError {
    cannot(format!("read '{}'", path.display()), source)
}

pub(crate) fn no_qemu() -> CommandError {
    failed("qemu-system-x86_64 is not installed").hint("on Debian: apt-get install qemu-system-x86")
}

/// KVM was requested, and does not work: the machine's lack, not the guest's failure.
pub(crate) fn no_kvm(why: &str) -> CommandError {
    CommandError::cannot_measure(format!("KVM does not work here: {why}"))
        .hint("--accelerator auto emulates the guest instead")
}

/// The kernel has these neither built in nor as modules.
pub(crate) fn missing_modules(release: &str, names: &[String]) -> CommandError {
    let listed = names.join(", ");
    let text = format!("kernel {release} has no driver {listed}, neither built in nor as a module");
    failed(text).hint(match names.iter().any(|name| name == "zfs") {
        true => {
            "cargo xtask lab zfs, in durio's checkout, builds zfs for a kernel in \
             ~/.cache/durio/kernels; Debian's kernels have none"
        }
        false => {
            "durio lab kernels shows what each kernel has; Debian's linux-image-amd64 has all but \
             zfs, the cloud kernels lack many"
        }
    })
}

/// A module's file is damaged, or belongs to another kernel.
pub(crate) fn bad_module(path: &Path, why: &str) -> CommandError {
    failed(format!("module '{}': {why}", path.display()))
}

/// A program for the guest is not on this machine.
pub(crate) fn missing_tool(name: &str) -> CommandError {
    failed(format!("'{name}' is not installed on this machine, so the guest cannot have it"))
        .hint("install it here, or leave it out; --root shared uses this machine's programs")
}

/// A program cannot be taken along.
pub(crate) fn bad_tool(path: &Path, why: &str) -> CommandError {
    failed(format!("'{}' cannot be taken into the guest: {why}", path.display()))
}

/// The loaded files and a kernel leave no room to run.
pub(crate) fn memory_too_small(given: Bytes, needed: Bytes) -> CommandError {
    failed(format!("{given} of memory is too little: the guest needs at least {needed}"))
        .hint(format!("give --memory {needed} or more"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_machine_without_kvm_cannot_measure_and_each_error_has_its_advice() {
        let missing = |name: &str| missing_modules("6.1", &["dm-mod".to_owned(), name.to_owned()]);
        let (given, needed) = (Bytes::from_mib(64), Bytes::from_mib(300));
        let rows = [
            (no_qemu(), Some("apt-get install qemu-system-x86")),
            (no_kvm("x"), Some("--accelerator auto")),
            (missing("zfs"), Some("cargo xtask lab zfs")),
            (missing("zfsx"), Some("durio lab kernels")),
            (missing_tool("fio"), Some("--root shared")),
            (memory_too_small(given, needed), Some("--memory 300 MiB or more")),
            (failed("w"), None),
            (bad_tool(Path::new("/q"), "x"), None),
        ];
        for (number, (told, advice)) in rows.into_iter().enumerate() {
            let kind = match number {
                1 => CommandErrorKind::CannotMeasure,
                _ => CommandErrorKind::LabFailed,
            };
            assert_eq!(told.kind, kind, "{told}");
            assert_eq!(told.hints.len(), usize::from(advice.is_some()), "{told}");
            assert!(told.hints.concat().contains(advice.unwrap_or_default()), "{:?}", told.hints);
        }
    }
}
