//! Rules about the process and the machine: libraries that replace sync calls, kernels other than
//! Linux, hypervisors.

use durio_observe::{Host, ProcessFacts, Stack};

use super::{EvidenceReading, Signal, SignalWord, ends, reading, signal};

// The date that gVisor gives for its kernel, in every version (gVisor, pkg/sentry/syscalls).
const GVISOR_VERSION: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";

// Version 2 of the subsystem has a Linux kernel, and writes `-microsoft-standard`.
const WSL1_RELEASE: &str = "-Microsoft";

fn preload_readings(process: &ProcessFacts) -> Vec<EvidenceReading> {
    let [environment, file] = [&process.preload_environment, &process.preload_file];
    let environment =
        environment.iter().map(|library| ("LD_PRELOAD", "/proc/self/environ", library));
    let file = file.iter().map(|library| ("preloaded", "/etc/ld.so.preload", library));
    environment
        .chain(file)
        .map(|(what, place, library)| reading(what, place, library.clone()))
        .collect()
}

/// A library whose purpose is that syncs do nothing.
pub(super) fn sync_swallower(host: &Host, _: &[Stack]) -> Option<Signal> {
    let process = host.process.as_ref().filter(|process| !process.sync_swallowers.is_empty())?;
    let mapped = process.sync_swallowers.iter();
    let mut read: Vec<EvidenceReading> =
        mapped.map(|path| reading("mapped library", "/proc/self/maps", path.clone())).collect();
    read.extend(preload_readings(process));
    signal(
        ("sync-swallower", SignalWord::UnsafeConfig, "process".to_owned()),
        read,
        "the library's name is that of one that makes fsync and similar calls do nothing: a \
         database started in the same way loses acknowledged commits",
        "start the database without LD_PRELOAD and without the line in /etc/ld.so.preload",
    )
}

/// Any other library that is loaded before the C library.
pub(super) fn preloaded(host: &Host, _: &[Stack]) -> Option<Signal> {
    let process = host.process.as_ref().filter(|process| process.sync_swallowers.is_empty())?;
    let read = preload_readings(process);
    if read.is_empty() {
        return None;
    }
    signal(
        ("preloaded", SignalWord::Suspect, "process".to_owned()),
        read,
        "a preloaded library can replace any call of the C library, including fsync; the \
         comparison of sync calls shows whether it does",
        "find out what the library is for, and measure without it",
    )
}

pub(super) fn imitated_kernel(host: &Host, _: &[Stack]) -> Option<Signal> {
    let process = host.process.as_ref()?;
    let version = process.kernel_version.clone().unwrap_or_default();
    let is_gvisor = version.contains(GVISOR_VERSION) || host.kernel.ends_with("-gvisor");
    let is_wsl1 = host.kernel.ends_with(WSL1_RELEASE);
    let name = match (is_gvisor, is_wsl1) {
        (true, _) => "gVisor",
        (_, true) => "the Windows Subsystem for Linux, version 1",
        _ => return None,
    };
    let read = vec![
        reading("release", "/proc/sys/kernel/osrelease", host.kernel.clone()),
        reading("version", "/proc/version", version),
    ];
    signal(
        ("imitated-kernel", SignalWord::Suspect, "machine".to_owned()),
        read,
        format!(
            "this is {name}, not a Linux kernel: it answers system calls itself, and what a sync \
             becomes below it cannot be seen"
        ),
        "measure on the host",
    )
}

pub(super) fn traced(host: &Host, _: &[Stack]) -> Option<Signal> {
    let tracer = host.process.as_ref()?.tracer.filter(|tracer| *tracer != 0)?;
    signal(
        ("traced", SignalWord::Suspect, "process".to_owned()),
        vec![reading("TracerPid", "/proc/self/status", tracer.to_string())],
        "another process traces this one: it can answer any system call itself, and slows all of \
         them down",
        "measure without it",
    )
}

pub(super) fn filtered(host: &Host, _: &[Stack]) -> Option<Signal> {
    let mode = host.process.as_ref()?.seccomp.filter(|mode| *mode != 0)?;
    signal(
        ("seccomp", SignalWord::Fact, "process".to_owned()),
        vec![reading("Seccomp", "/proc/self/status", mode.to_string())],
        "a filter checks every system call, as in most containers; it could answer syncs without \
         making them (systemd-nspawn --suppress-sync does): the device's flush counter shows \
         whether it does",
        "",
    )
}

pub(super) fn virtual_machine(host: &Host, stacks: &[Stack]) -> Option<Signal> {
    let hypervisor = host.hypervisor.clone()?;
    let mut devices = stacks.iter().flat_map(ends).filter_map(|layer| layer.block.as_ref());
    // A RAM disk or a loop device belongs to this kernel; the hypervisor has no part in it.
    if !devices.any(|block| block.virtual_device != Some(true)) {
        return None;
    }
    let place = "/sys/hypervisor/type, clock sources, /sys/class/dmi/id, /proc/cpuinfo";
    let mut read = vec![reading("hypervisor", place, hypervisor)];
    let dmi = [("sys_vendor", &host.dmi_vendor), ("product_name", &host.dmi_product)];
    read.extend(dmi.into_iter().filter_map(|(file, value)| {
        Some(reading("firmware's name", format!("/sys/class/dmi/id/{file}"), value.clone()?))
    }));
    signal(
        ("virtual-machine", SignalWord::Fact, "machine".to_owned()),
        read,
        "flushes end at the hypervisor, and nothing here shows what it does with them: QEMU's \
         cache=unsafe looks like any other disk",
        "check the disk's configuration on the host",
    )
}

/// What its signals mean.
pub(super) const EXPLAINED: &[[&str; 5]] = &[
    [
        "sync-swallower",
        "unsafe-config",
        "a library is loaded that is known to make fsync do nothing (libeatmydata and similar)",
        "a database started in the same way loses acknowledged commits",
        "start it without LD_PRELOAD and without the line in /etc/ld.so.preload",
    ],
    [
        "preloaded",
        "suspect",
        "a library is preloaded",
        "it can replace any call of the C library, including fsync",
        "find out what it is for, and measure without it",
    ],
    [
        "imitated-kernel",
        "suspect",
        "the kernel is gVisor's or WSL 1's imitation",
        "it answers system calls itself, and what a sync becomes below it cannot be seen",
        "measure on the host",
    ],
    [
        "traced",
        "suspect",
        "another process traces durio (strace, a debugger)",
        "system calls cost more, and the tracer may change them",
        "stop the tracer and measure again",
    ],
    [
        "seccomp",
        "fact",
        "a seccomp filter checks every system call, as in most containers",
        "it could answer syncs without making them (systemd-nspawn --suppress-sync does); the \
         device's flush counter shows whether it does",
        "",
    ],
    [
        "virtual-machine",
        "fact",
        "durio runs in a virtual machine",
        "flushes end at the hypervisor, and nothing in the guest shows what it does with them: \
         QEMU's cache=unsafe looks like any other disk",
        "check the disk's configuration on the host",
    ],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_signal, disk, host_with, stack_of};

    #[test]
    fn an_ordinary_process_gives_no_signal() {
        let process = ProcessFacts {
            seccomp: Some(0),
            tracer: Some(0),
            kernel_version: Some("Linux version 6.12.3 (gcc) #1 SMP".into()),
            ..ProcessFacts::default()
        };
        let stacks = [stack_of(disk("nvme0n1"))];
        for host in [host_with(process), Host::default()] {
            let rules =
                [sync_swallower, preloaded, imitated_kernel, traced, filtered, virtual_machine];
            for rule in rules {
                assert_eq!(rule(&host, &stacks), None);
            }
        }
    }

    #[test]
    fn a_library_that_swallows_syncs_is_told_from_any_other() {
        let mut process = ProcessFacts {
            preload_environment: Some("libx.so".into()),
            preload_file: Some("/usr/lib/y.so".into()),
            ..ProcessFacts::default()
        };
        let host = host_with(process.clone());
        let found = assert_signal(preloaded(&host, &[]), "preloaded", SignalWord::Suspect);
        assert_eq!(found.read.len(), 2);
        assert_eq!(sync_swallower(&host, &[]), None);
        process.sync_swallowers = vec!["/usr/lib/libeatmydata.so".into()];
        let host = host_with(process);
        let found = sync_swallower(&host, &[]);
        assert_signal(found, "sync-swallower", SignalWord::UnsafeConfig);
        assert_eq!(preloaded(&host, &[]), None, "told once");
    }

    #[test]
    fn kernels_that_are_imitated_are_named() {
        let version = Some(format!("Linux version 4.4.0 {GVISOR_VERSION}"));
        let process = ProcessFacts { kernel_version: version, ..ProcessFacts::default() };
        let found = imitated_kernel(&host_with(process), &[]);
        assert_signal(found, "imitated-kernel", SignalWord::Suspect);
        let release = |release: &str| {
            let kernel = release.to_owned();
            imitated_kernel(&Host { kernel, ..host_with(ProcessFacts::default()) }, &[])
        };
        assert!(release("4.4.0-19041-Microsoft").is_some());
        assert!(release("5.15.90.1-microsoft-standard-WSL2").is_none());
    }

    #[test]
    fn tracers_filters_and_hypervisors_are_told() {
        let process = ProcessFacts { tracer: Some(7), seccomp: Some(2), ..ProcessFacts::default() };
        let mut host = host_with(process);
        assert_signal(traced(&host, &[]), "traced", SignalWord::Suspect);
        assert_signal(filtered(&host, &[]), "seccomp", SignalWord::Fact);
        host.hypervisor = Some("kvm".into());
        let stacks = [stack_of(disk("vda"))];
        let found = virtual_machine(&host, &stacks);
        assert_signal(found, "virtual-machine", SignalWord::Fact);
        assert_eq!(virtual_machine(&host, &[]), None, "no device of the hypervisor's");
    }

    fn told(signal: &Signal) -> Vec<[&str; 3]> {
        signal.read.iter().map(|read| [&*read.what, &*read.place, &*read.value]).collect()
    }

    #[test]
    fn each_library_is_told_with_the_place_that_names_it() {
        let mut process = ProcessFacts {
            preload_environment: Some("/opt/x.so".into()),
            preload_file: Some("/usr/lib/y.so".into()),
            ..ProcessFacts::default()
        };
        let places = [
            ["LD_PRELOAD", "/proc/self/environ", "/opt/x.so"],
            ["preloaded", "/etc/ld.so.preload", "/usr/lib/y.so"],
        ];
        let found = preloaded(&host_with(process.clone()), &[]).unwrap();
        assert_eq!(told(&found), places);
        let file_alone = ProcessFacts { preload_environment: None, ..process.clone() };
        let found = preloaded(&host_with(file_alone), &[]).unwrap();
        assert_eq!(told(&found), places[1..]);
        process.sync_swallowers = vec!["/a/libeatmydata.so".into(), "/b/libnosync.so".into()];
        let found = sync_swallower(&host_with(process), &[]).unwrap();
        let mapped = ["mapped library", "/proc/self/maps"];
        let libraries = ["/a/libeatmydata.so", "/b/libnosync.so"];
        let mapped = libraries.map(|library| [mapped[0], mapped[1], library]);
        assert_eq!(told(&found), [mapped[0], mapped[1], places[0], places[1]]);
    }

    #[test]
    fn a_machine_is_told_with_the_names_that_its_firmware_has() {
        let host = Host {
            hypervisor: Some("kvm".into()),
            dmi_vendor: Some("QEMU".into()),
            dmi_product: Some("Standard PC".into()),
            ..Host::default()
        };
        let found = virtual_machine(&host, &[stack_of(disk("vda"))]).unwrap();
        let firmware = "firmware's name";
        assert_eq!(
            told(&found)[1..],
            [
                [firmware, "/sys/class/dmi/id/sys_vendor", "QEMU"],
                [firmware, "/sys/class/dmi/id/product_name", "Standard PC"],
            ]
        );
        assert_eq!(found.read[0].value, "kvm");
        // One disk of this kernel and one of the hypervisor.
        let mut memory = disk("ram0");
        memory.block.as_mut().unwrap().virtual_device = Some(true);
        let alone = [stack_of(memory.clone())];
        assert_eq!(virtual_machine(&host, &alone), None);
        assert!(virtual_machine(&host, &[stack_of(memory), stack_of(disk("vda"))]).is_some());
    }

    #[test]
    fn tracers_filters_and_imitated_kernels_are_told_with_what_was_read() {
        let process = ProcessFacts {
            tracer: Some(4711),
            seccomp: Some(2),
            kernel_version: Some("Linux version 4.4.0-Microsoft".into()),
            ..ProcessFacts::default()
        };
        let host = Host { kernel: "4.4.0-19041-Microsoft".into(), ..host_with(process) };
        let tracer = traced(&host, &[]).unwrap();
        assert_eq!(told(&tracer), [["TracerPid", "/proc/self/status", "4711"]]);
        let filter = filtered(&host, &[]).unwrap();
        assert_eq!(told(&filter), [["Seccomp", "/proc/self/status", "2"]]);
        let kernel = imitated_kernel(&host, &[]).unwrap();
        let expected = [
            ["release", "/proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft"],
            ["version", "/proc/version", "Linux version 4.4.0-Microsoft"],
        ];
        assert_eq!(told(&kernel), expected);
        assert!(kernel.implies.contains("Subsystem for Linux"), "{}", kernel.implies);
        let gvisor = Host { kernel: "4.4.0-gvisor".into(), ..host };
        let implies = imitated_kernel(&gvisor, &[]).unwrap().implies;
        assert!(implies.contains("this is gVisor,"), "{implies}");
    }
}
