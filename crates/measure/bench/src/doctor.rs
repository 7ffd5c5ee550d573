//! What this machine lets durio do in a directory: each thing is tried where that is cheap. Runs
//! use the same probes, so a row says what a run would find. Here are also the programs and drivers
//! that some commands use: fio, those that build stacks, QEMU and its kernels.
//!
//! Nothing that exists is written to, and nothing stays: the one file is unnamed, or loses its name
//! before it is written to.

mod directory;
mod machine;

use std::path::Path;

use directory::DirectorySurvey;
use durio_base::counted;
use durio_command::{CommandError, error_chain};
use durio_fio::FioError;
use durio_fio::installed::Fio;
use durio_lab::{Qemu, kernels};
use durio_layers::{DeclaredLayer, DeclaredStack, Missing, missing, requirements};
use durio_observe::read_host;
use durio_report::{Diagnosis, DiagnosisRow, DiagnosisState};
use durio_spec::shipped_stack_specs;

use crate::bench::read_stack_spec;

/// Tries what can be done in `directory` and on this machine.
pub fn diagnose(directory: &Path) -> Diagnosis {
    let host = read_host();
    let DirectorySurvey { mut rows, plan, stack } = directory::survey(directory, &host);
    rows.push(directory::state_folder());
    rows.extend(machine::rows(&host, plan.as_ref(), stack.as_ref()));
    rows.extend(program_rows());
    Diagnosis::new(directory.display().to_string(), rows)
}

/// The result of a probe.
struct CheckedThing {
    state: DiagnosisState,
    text: String,
    remedy: String,
}

impl CheckedThing {
    fn ok(text: impl Into<String>) -> Self {
        Self { state: DiagnosisState::Ok, text: text.into(), remedy: String::new() }
    }

    fn limited(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: DiagnosisState::Limited, text: text.into(), remedy: remedy.into() }
    }

    fn no(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { state: DiagnosisState::No, text: text.into(), remedy: remedy.into() }
    }

    /// An error with its hints.
    fn error(error: &CommandError) -> Self {
        Self::no(error_chain(error), error.hints.join("; "))
    }

    fn row(self, name: &'static str, used_for: &'static str) -> DiagnosisRow {
        let Self { state, text: found, remedy } = self;
        DiagnosisRow { name, state, found, remedy, used_for, needed_by_check: false }
    }

    /// A row without which `durio check` cannot run.
    fn needed(self, name: &'static str, used_for: &'static str) -> DiagnosisRow {
        DiagnosisRow { needed_by_check: true, ..self.row(name, used_for) }
    }
}

/// The rows of programs and drivers.
fn program_rows() -> Vec<DiagnosisRow> {
    let qemu = Qemu::find();
    let kvm = match &qemu {
        Ok(qemu) => kvm(qemu),
        Err(_) => CheckedThing::no("not tried: no QEMU", ""),
    };
    let qemu = match qemu {
        Ok(qemu) => CheckedThing::ok(qemu.version),
        Err(error) => CheckedThing::error(&error),
    };
    vec![
        fio().row("fio", "durio fio, --engine fio, fio's job files"),
        stacks().row("stack layers", "durio stack bench with the built-in specs"),
        qemu.row("QEMU", "durio lab, durio stack bench --lab"),
        kvm.row("KVM", "guests at full speed"),
        lab_kernels().row("lab kernels", "what guests boot"),
    ]
}

fn fio() -> CheckedThing {
    match Fio::find(None) {
        Ok(fio) => CheckedThing::ok(format!("{} ({})", fio.version_text, fio.path.display())),
        Err(FioError::NotInstalled { .. }) => {
            CheckedThing::no("not installed", "install it (Debian: apt install fio)")
        }
        Err(error) => CheckedThing::no(error.to_string(), "install a newer one"),
    }
}

/// The needs of the built-in stacks, each once.
fn stacks() -> CheckedThing {
    let all = DeclaredStack { name: String::new(), layers: built_in_layers() };
    let needed = requirements(&all);
    // Root is a separate row.
    let missing: Vec<_> = missing(&all).into_iter().filter(|need| *need != Missing::Root).collect();
    let text = format!("{} programs and drivers", needed.len());
    stacks_found(&text, needed.len(), &missing)
}

fn stacks_found(all: &str, count: usize, missing: &[Missing]) -> CheckedThing {
    if missing.is_empty() {
        return CheckedThing::ok(format!("all {all}"));
    }
    let (mut names, mut packages, mut has_all_drivers) = (Vec::new(), Vec::new(), true);
    for it in missing {
        match it {
            Missing::Program { name, package } => {
                names.push(*name);
                // Several programs come in one package.
                if !packages.contains(package) {
                    packages.push(package);
                }
            }
            Missing::Driver { module, .. } => {
                names.push(*module);
                has_all_drivers = false;
            }
            Missing::Root => {}
        }
    }
    let mut remedies = Vec::new();
    if !packages.is_empty() {
        remedies.push(format!("Debian: apt install {}", packages.join(" ")));
    }
    if !has_all_drivers {
        remedies.push("--lab builds on a kernel that has the drivers".to_owned());
    }
    let text = format!("{} of {all}; missing: {}", count - names.len(), names.join(", "));
    CheckedThing::limited(text, remedies.join("; "))
}

fn built_in_layers() -> Vec<DeclaredLayer> {
    let specs = shipped_stack_specs().iter();
    // A built-in spec that cannot be read is a fault that tests find; here it is left out.
    let specs = specs.filter_map(|spec| read_stack_spec(Path::new(spec.name)).ok());
    specs.flat_map(|spec| spec.stacks).flat_map(|stack| stack.layers).collect()
}

fn kvm(qemu: &Qemu) -> CheckedThing {
    match qemu.kvm_fault() {
        None => CheckedThing::ok("a trial guest ran"),
        Some(fault) => {
            let is_there = Path::new("/dev/kvm").exists();
            CheckedThing::no(format!("{fault}; guests are emulated"), kvm_remedy(is_there, fault))
        }
    }
}

fn kvm_remedy(is_there: bool, fault: &str) -> &'static str {
    match is_there {
        false => "enable virtualisation in the firmware; as root: modprobe kvm_intel or kvm_amd",
        true if fault.contains("Permission denied") => "join the group kvm: usermod -aG kvm USER",
        true => "in a virtual machine, the host must support nested virtualisation",
    }
}

fn lab_kernels() -> CheckedThing {
    let found = kernels::usable();
    match found.first() {
        Some(newest) => {
            let count = counted(found.len() as u64, "kernel");
            CheckedThing::ok(format!("{count}, the newest {}", newest.release))
        }
        None => CheckedThing::error(&kernels::none_found()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_stacks_name_the_programs_that_they_need() {
        let all = DeclaredStack { name: String::new(), layers: built_in_layers() };
        let names: Vec<_> = requirements(&all)
            .into_iter()
            .filter_map(|need| match need {
                Missing::Program { name, .. } => Some(name),
                _ => None,
            })
            .collect();
        for name in ["mdadm", "mkfs.ext4", "mkfs.xfs"] {
            assert!(names.contains(&name), "{names:?}");
        }
    }

    #[test]
    fn a_device_file_that_cannot_be_used_has_another_remedy_than_none() {
        assert!(kvm_remedy(false, "").contains("modprobe"));
        assert!(kvm_remedy(true, "Could not access KVM: Permission denied").contains("group kvm"));
        assert!(kvm_remedy(true, "QEMU ended with signal: 6").contains("nested"));
    }

    #[test]
    fn a_package_is_named_once_and_a_driver_leads_to_the_lab() {
        let program = |name, package| Missing::Program { name, package };
        let driver = Missing::Driver { module: "brd", purpose: "RAM disks" };
        let missing = [program("modprobe", "kmod"), program("rmmod", "kmod"), driver];
        let found = stacks_found("9 programs and drivers", 9, &missing);
        assert_eq!(found.state, DiagnosisState::Limited);
        assert_eq!(found.text, "6 of 9 programs and drivers; missing: modprobe, rmmod, brd");
        assert!(found.remedy.starts_with("Debian: apt install kmod; --lab"), "{}", found.remedy);
        assert_eq!(stacks_found("9 programs", 9, &[]).state, DiagnosisState::Ok);
    }
}
