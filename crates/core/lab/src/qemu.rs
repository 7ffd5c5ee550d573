//! QEMU: its location, its abilities, and its arguments for a guest.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use durio_block::{ANSWER_LIMIT, Clock as _, TscClock, ask};
use durio_command::CommandError;
use durio_observe::{LabFacts, LabTiming};

use crate::error::{failed, no_kvm, no_qemu};
use crate::kvm_trial::kvm_fault;
use crate::machine::{KVM_CPU, KVM_WORDS, MACHINE_WORDS, MONITOR_WORDS};
use crate::request::disk_words;
use crate::wire::{GUEST_COMMAND, INIT_PATH, PORT_NAME, ROOT_TAG, WITNESS_NAME};
use crate::{Accelerator, LabRequest, LabRoot};

const PROGRAM: &str = "qemu-system-x86_64";
/// QEMU's name for the host's own processor.
pub(crate) const KVM: &str = "kvm";
/// 4 ns of the guest's clock per instruction: 250 million instructions a second.
const ICOUNT_SHIFT: u8 = 2;
// The emulated processor: x86-64-v2 with AES, independent of the host, so that the kernel chooses
// the same routines everywhere.
const CPU_MODEL: &str = "Westmere";
/// Firmware that does only what a kernel handed over in memory needs.
// Emulation is slow at code that runs once, and the usual firmware does far more.
const QUICK_FIRMWARE: &str = "qboot.rom";

// The kernel's parameters: panics end the guest at once; no self-tests and no mitigations, which
// cost time and do not belong to the measurement. The kernel does not search its pages for wrong
// permissions, and does not start sources of randomness other than the processor's (a second of
// trials), encrypted keys, the character device of a timer, or TCP by BPF.
const KERNEL_WORDS: &str = "console=ttyS0 quiet mitigations=off nokaslr panic=-1 reboot=t tsc=reliable \
no_timer_check audit=0 raid=noautodetect cryptomgr.notests nowatchdog random.trust_cpu=on \
rodata=off \
initcall_blacklist=jent_mod_init,init_encrypted,hpet_late_init,bpf_tcp_ca_kfunc_init";
// Skipping the calibration of the processor's timer saves 25 million instructions of waiting;
// another timer does its work. With several processors, which counted guests do not have, that
// would be slower.
const COUNTED_WORDS: &str = " nolapic_timer";

/// Parameter for the kernel of an emulated guest that uses the host's clock: the rate of the host's
/// counter, which QEMU passes on. The kernel would otherwise measure it against a timer that QEMU
/// emulates, and on a busy host it measured a tenth of the rate, so that the guest's clock ran ten
/// times too fast (arch/x86/kernel/tsc.c: tsc_early_khz).
fn counter_words() -> &'static str {
    static WORDS: LazyLock<String> = LazyLock::new(|| {
        let clock = TscClock::calibrate();
        clock.map(|clock| format!(" tsc_early_khz={}", clock.ticks(1_000_000))).unwrap_or_default()
    });
    &WORDS
}

#[derive(Debug, Clone)]
pub struct Qemu {
    program: PathBuf,
    /// As printed by QEMU, such as `7.2.22 (Debian 1:7.2+dfsg-7)`.
    pub version: String,
    has_quick_firmware: bool,
}

impl Qemu {
    /// Finds QEMU on the search path.
    ///
    /// # Errors
    /// If it is not there, or does not print its version.
    pub fn find() -> Result<Self, CommandError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut places = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
        let program = places.find(|program| program.is_file()).ok_or_else(no_qemu)?;
        let bad = |why: &str| failed(format!("'{}' cannot be used: {why}", program.display()));
        let output = ask(Command::new(&program).arg("--version"), ANSWER_LIMIT);
        let output = output.map_err(|error| bad(&error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().and_then(|line| line.split_once("version "));
        let version = version.map(|(_, version)| version.trim().to_owned());
        let version = version.ok_or_else(|| bad("it does not say its version"))?;
        // Some distributions ship QEMU without it, and an unknown -bios is an error.
        let has_quick_firmware = has_quick_firmware(&program);
        Ok(Self { program, version, has_quick_firmware })
    }

    #[cfg(test)]
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Why KVM cannot be used on this machine; `None` if it can. A guest of 300 bytes tries it out,
    /// once per process, for at most two seconds of the guest.
    #[must_use]
    pub fn kvm_fault(&self) -> Option<&'static str> {
        kvm_fault(&self.program)
    }

    /// The facts about a guest of this request: KVM is used if the timing is the host's and it
    /// works.
    ///
    /// # Errors
    /// If the request needs KVM, and it does not work.
    pub(crate) fn facts(&self, request: &LabRequest) -> Result<LabFacts, CommandError> {
        let is_counted = request.timing == LabTiming::Counted;
        // A counted guest never uses KVM, which does not count instructions.
        let may_use_kvm = !is_counted && request.accelerator != Accelerator::Tcg;
        let without_kvm = may_use_kvm.then(|| kvm_fault(&self.program)).flatten();
        if let (Accelerator::Kvm, Some(why)) = (request.accelerator, without_kvm) {
            return Err(no_kvm(why));
        }
        let has_kvm = may_use_kvm && without_kvm.is_none();
        Ok(LabFacts {
            timing: request.timing,
            accelerator: if has_kvm { KVM } else { "tcg" }.to_owned(),
            without_kvm: without_kvm.map(str::to_owned),
            qemu_version: self.version.clone(),
            cpu_model: if has_kvm { KVM_CPU } else { CPU_MODEL }.to_owned(),
            icount_shift: is_counted.then_some(ICOUNT_SHIFT),
            root: request.root.word().to_owned(),
        })
    }

    /// The same guest, emulated for this reason.
    pub(crate) fn emulated(facts: LabFacts, reason: String) -> LabFacts {
        LabFacts {
            accelerator: "tcg".to_owned(),
            cpu_model: CPU_MODEL.to_owned(),
            without_kvm: Some(reason),
            ..facts
        }
    }

    /// The command that boots a guest from a kernel and its files. Its stdin must be a socket to
    /// QEMU's monitor, its stdout a socket to the guest's port; its stderr gets the kernel's
    /// console.
    ///
    /// # Errors
    /// For a disk that QEMU's arguments cannot describe.
    pub(crate) fn command(&self, booted: &QemuBoot<'_>) -> Result<Command, CommandError> {
        let QemuBoot { request, facts, kernel, files, .. } = *booted;
        let mut command = Command::new(&self.program);
        command.args(MACHINE_WORDS.split(' ')).args(accelerator(facts)).args(MONITOR_WORDS);
        command.args(["-smp", &request.cpus.to_string()]);
        command.args(["-m", &format!("{}M", request.memory.get() >> 20)]);
        if self.has_quick_firmware {
            command.args(["-bios", QUICK_FIRMWARE]);
        }
        command.arg("-kernel").arg(kernel).arg("-initrd").arg(files);
        let more = match (facts.icount_shift, facts.accelerator.as_str()) {
            (Some(_), _) => COUNTED_WORDS,
            (None, KVM) => "",
            (None, _) => counter_words(),
        };
        let words = format!("{KERNEL_WORDS}{more} rdinit={INIT_PATH} -- {GUEST_COMMAND}");
        command.arg("-append").arg(words);
        command.args(["-chardev", "file,id=console,path=/dev/stderr"]);
        command.args(["-serial", "chardev:console"]);
        command.args(["-device", "virtio-serial-pci", "-chardev", "socket,id=port,fd=1"]);
        command.arg("-device").arg(format!("virtserialport,chardev=port,name={PORT_NAME}"));
        if request.has_witness {
            command.args(witness_words(booted.witness));
        }
        command.args(disk_words(&request.disks)?);
        if request.root == LabRoot::Shared {
            // remap: files of two filesystems of the host may have one inode number, which would
            // make them one file to the guest.
            let share = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap";
            command.args(["-fsdev", share, "-device"]);
            command.arg(format!("virtio-9p-pci,fsdev=root,mount_tag={ROOT_TAG}"));
        }
        command.stderr(Stdio::piped());
        Ok(command)
    }
}

/// QEMU's parameters for one boot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QemuBoot<'a> {
    pub(crate) request: &'a LabRequest,
    pub(crate) facts: &'a LabFacts,
    pub(crate) kernel: &'a Path,
    pub(crate) files: &'a Path,
    /// Where to write the guest's messages to its witness; without it they are discarded.
    pub(crate) witness: Option<&'a Path>,
}

/// A second port, to a pipe.
// On a separate device, without ioeventfd: the guest's kernel does not wait until the host has the
// program's bytes (drivers/char/virtio_console.c), so it must only continue when QEMU has passed
// them on.
fn witness_words(pipe: Option<&Path>) -> [String; 6] {
    let listens = match pipe {
        // A path of ours, of digits and slashes.
        Some(pipe) => format!("file,id=witness,path={}", pipe.display()),
        None => "null,id=witness".to_owned(),
    };
    let device = || "-device".to_owned();
    let bus = "virtio-serial-pci,id=witness-bus,ioeventfd=off".to_owned();
    let port = format!("virtserialport,bus=witness-bus.0,chardev=witness,name={WITNESS_NAME}");
    ["-chardev".to_owned(), listens, device(), bus, device(), port]
}

/// Whether it is in one of QEMU's folders; some distributions leave it out.
fn has_quick_firmware(program: &Path) -> bool {
    let output = ask(Command::new(program).args(["-L", "help"]), ANSWER_LIMIT);
    let text = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .any(|folder| Path::new(folder).join(QUICK_FIRMWARE).is_file())
}

/// Counted: one thread, no waiting for the host's clock, and the same random numbers each time.
fn accelerator(facts: &LabFacts) -> Vec<String> {
    let words = match (facts.icount_shift, facts.accelerator.as_str()) {
        (_, KVM) => return KVM_WORDS.map(str::to_owned).to_vec(),
        // sleep=off: the clock of a waiting guest jumps to its next timer.
        (Some(shift), _) => format!(
            "-accel tcg,thread=single,tb-size=512 -icount shift={shift},sleep=off -rtc clock=vm -seed 1"
        ),
        (None, _) => "-accel tcg,thread=multi,tb-size=512".to_owned(),
    };
    let words = format!("{words} -cpu {}", facts.cpu_model);
    words.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;

    use super::*;
    use crate::Kernel;

    fn words(timing: LabTiming, root: LabRoot, accelerator: &str) -> String {
        let kernel = Kernel { release: "6".into(), image: "/k,1".into(), modules: "/m".into() };
        let mut request = LabRequest::new(kernel, "/durio".into(), vec!["true".into()]);
        (request.timing, request.root, request.memory) = (timing, root, Bytes::from_mib(700));
        let (program, version) = ("/qemu".into(), "7.2".into());
        let qemu = Qemu { program, version, has_quick_firmware: true };
        let shift = (timing == LabTiming::Counted).then_some(ICOUNT_SHIFT);
        let facts = LabFacts {
            timing,
            accelerator: accelerator.into(),
            without_kvm: None,
            qemu_version: "7.2".into(),
            cpu_model: "Westmere".into(),
            icount_shift: shift,
            root: root.word().into(),
        };
        let (kernel, files) = (Path::new("/k,1"), Path::new("/files"));
        let booted = QemuBoot { request: &request, facts: &facts, kernel, files, witness: None };
        let command = qemu.command(&booted).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn counted_timing_counts_instructions_in_one_thread() {
        let line = words(LabTiming::Counted, LabRoot::Hermetic, "tcg");
        assert!(
            line.contains("-icount shift=2,sleep=off") && line.contains("thread=single"),
            "{line}"
        );
        assert!(line.contains("nolapic_timer") && line.contains("-bios qboot.rom"), "{line}");
        assert!(line.contains("-m 700M") && line.contains("-kernel /k,1 "), "{line}");
    }

    #[test]
    fn wall_timing_uses_what_works() {
        assert!(words(LabTiming::Wall, LabRoot::Hermetic, "kvm").contains("-accel kvm -cpu host"));
        let line = words(LabTiming::Wall, LabRoot::Hermetic, "tcg");
        assert!(line.contains("thread=multi") && !line.contains("icount"), "{line}");
        assert!(!line.contains("nolapic_timer"), "{line}");
    }

    #[test]
    fn only_an_emulated_guest_with_the_hosts_clock_is_told_the_rate_of_the_hosts_counter() {
        let told = |timing, accelerator| {
            words(timing, LabRoot::Hermetic, accelerator).contains(" tsc_early_khz=")
        };
        assert_eq!(told(LabTiming::Wall, "tcg"), cfg!(target_arch = "x86_64"));
        assert!(!told(LabTiming::Wall, KVM) && !told(LabTiming::Counted, "tcg"));
    }

    fn with_accelerator(
        accelerator: Accelerator,
        timing: LabTiming,
    ) -> Result<LabFacts, CommandError> {
        let kernel = Kernel { release: "6".into(), image: "/k".into(), modules: "/m".into() };
        let request = LabRequest::new(kernel, "/durio".into(), vec!["true".into()]);
        // KVM cannot work with a program that is not there.
        let (program, version) = ("/nonexistent/qemu".into(), "7.2".into());
        let qemu = Qemu { program, version, has_quick_firmware: true };
        qemu.facts(&LabRequest { accelerator, timing, ..request })
    }

    #[test]
    fn kvm_that_does_not_work_is_an_error_only_where_nothing_else_will_do() {
        let wall = LabTiming::Wall;
        let error = with_accelerator(Accelerator::Kvm, wall).unwrap_err();
        assert!(error.to_string().starts_with("KVM does not work here: "), "{error}");
        let auto = with_accelerator(Accelerator::Auto, wall).unwrap();
        assert_eq!((auto.accelerator.as_str(), auto.without_kvm.is_some()), ("tcg", true));
        for (accelerator, timing) in
            [(Accelerator::Tcg, wall), (Accelerator::Auto, LabTiming::Counted)]
        {
            let facts = with_accelerator(accelerator, timing).unwrap();
            assert_eq!((facts.accelerator.as_str(), facts.without_kvm), ("tcg", None));
        }
    }

    #[test]
    fn the_host_is_never_shared_writable_and_there_is_no_network() {
        for root in [LabRoot::Shared, LabRoot::Hermetic] {
            let line = words(LabTiming::Wall, root, "tcg");
            assert!(line.contains("-nic none"), "{line}");
            let shares = line.matches("-fsdev").count();
            assert_eq!(shares, line.matches("readonly=on").count(), "{line}");
            assert_eq!(shares, usize::from(root == LabRoot::Shared), "{line}");
        }
    }
}
