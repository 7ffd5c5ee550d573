//! Rules about the process and the machine: libraries that replace sync calls, kernels other than
//! Linux, hypervisors; and the comparison of sync calls, the C library's, which a preloaded library
//! may have replaced, against the kernel's, by the I/O that reached the devices, as the runner counted
//! it.

use durio_base::Nanos;
use durio_base::stats::least_squares::float;
use durio_observe::{Host, ProcessFacts, Stack};
use durio_record::{ProbedCalls, SyncCaller, SyncCallsProbed};

use super::{EvidenceReading, Signal, ends, filled, is_flushed, layer_name, reading, signal};
use crate::RuleInput;

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
    signal("sync-swallower", "process".to_owned(), read)
}

/// Any other library that is loaded before the C library.
pub(super) fn preloaded(host: &Host, _: &[Stack]) -> Option<Signal> {
    let process = host.process.as_ref().filter(|process| process.sync_swallowers.is_empty())?;
    let read = preload_readings(process);
    if read.is_empty() {
        return None;
    }
    signal("preloaded", "process".to_owned(), read)
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
    let signal = signal("imitated-kernel", "machine".to_owned(), read);
    filled(signal, &[("name", name)])
}

pub(super) fn traced(host: &Host, _: &[Stack]) -> Option<Signal> {
    let tracer = host.process.as_ref()?.tracer.filter(|tracer| *tracer != 0)?;
    signal(
        "traced",
        "process".to_owned(),
        vec![reading("TracerPid", "/proc/self/status", tracer.to_string())],
    )
}

pub(super) fn filtered(host: &Host, _: &[Stack]) -> Option<Signal> {
    let mode = host.process.as_ref()?.seccomp.filter(|mode| *mode != 0)?;
    signal(
        "seccomp",
        "process".to_owned(),
        vec![reading("Seccomp", "/proc/self/status", mode.to_string())],
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
    signal("virtual-machine", "machine".to_owned(), read)
}

// Fewer flushes or writes per call than this, and the calls did not reach the device; others' I/O
// may add some.
const REACHED_SHARE_MIN: f64 = 0.5;

// Fewer per call than this are others' I/O alone.
const MISSED_SHARE_MAX: f64 = 0.1;

// A system call that does I/O takes longer than this; one that does nothing takes less.
const WORKING_CALL_MIN: Nanos = Nanos::from_micros(5);

// A library's call that is this many times faster than the kernel's does not end in the kernel.
const FASTER_MAX: u64 = 20;

/// The judgement of a pair of counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SyncFinding {
    /// Both reached the device.
    Agree,
    /// Neither did, though the device would take flushes.
    NeitherSent,
    /// Nothing was counted, and the library's calls are too fast.
    TooFast,
    /// Only the kernel's reached the device.
    Swallowed,
}

/// Signals of every comparison of the run, each with the most severe finding of its calls.
pub(super) fn swallowed(input: &RuleInput<'_>) -> Vec<Signal> {
    input.probed.iter().filter_map(|probed| of_step(input, probed)).collect()
}

fn of_step(input: &RuleInput<'_>, probed: &SyncCallsProbed) -> Option<Signal> {
    let step = input.plan.steps.get(probed.step as usize)?;
    let location = input.plan.target_of(&step.load).location.as_ref()?;
    let stack = input.stack_at(&location.to_string())?;
    let of = |caller| probed.calls.iter().filter(move |calls| calls.caller == caller);
    let pairs = of(SyncCaller::Library).filter_map(|library| {
        let kernel = of(SyncCaller::Kernel).find(|kernel| kernel.call == library.call)?;
        Some((library, kernel))
    });
    let takes_flushes = ends(stack).any(is_flushed);
    let found = pairs.filter_map(|(library, kernel)| compare(library, kernel, takes_flushes));
    // The order of the variants is that of severity.
    let worst = found.max()?;
    let read = probed.calls.iter().flat_map(|calls| readings(calls, stack)).collect();
    finding_signal(worst, stack, read)
}

fn compare(
    library: &ProbedCalls,
    kernel: &ProbedCalls,
    takes_flushes: bool,
) -> Option<SyncFinding> {
    // A failed call may have done nothing, on either path.
    let has_failed = library.errno.is_some() || kernel.errno.is_some();
    if has_failed || library.calls == 0 || kernel.calls == 0 {
        return None;
    }
    let flushes = (library.flushes, kernel.flushes);
    let writes = (library.writes, kernel.writes);
    let missed = |count, calls| share(count, calls) < MISSED_SHARE_MAX;
    let reached = |count, calls| share(count, calls) >= REACHED_SHARE_MIN;
    // Writes too: a device that needs no flush still gets a sync's writeback.
    for counted in [flushes, writes] {
        if let (Some(by_library), Some(by_kernel)) = counted
            && missed(by_library, library.calls)
            && reached(by_kernel, kernel.calls)
        {
            return Some(SyncFinding::Swallowed);
        }
    }
    match flushes {
        (Some(by_library), Some(by_kernel)) if takes_flushes => {
            let both = reached(by_library, library.calls) && reached(by_kernel, kernel.calls);
            let neither = missed(by_library, library.calls) && missed(by_kernel, kernel.calls);
            both.then_some(SyncFinding::Agree).or(neither.then_some(SyncFinding::NeitherSent))
        }
        _ => is_too_fast(library, kernel).then_some(SyncFinding::TooFast),
    }
}

fn share(count: u64, calls: u64) -> f64 {
    float(count) / float(calls)
}

fn is_too_fast(library: &ProbedCalls, kernel: &ProbedCalls) -> bool {
    let (by_library, by_kernel) = (time_of_each(library), time_of_each(kernel));
    by_kernel >= WORKING_CALL_MIN && by_library.get().saturating_mul(FASTER_MAX) < by_kernel.get()
}

fn time_of_each(calls: &ProbedCalls) -> Nanos {
    Nanos::new(calls.elapsed.get() / calls.calls.max(1))
}

fn readings(calls: &ProbedCalls, stack: &Stack) -> Vec<EvidenceReading> {
    let caller = match calls.caller {
        SyncCaller::Library => "the C library",
        SyncCaller::Kernel => "the system call",
    };
    let what = |counted: &str| format!("{counted}, {} × {} by {caller}", calls.calls, calls.call);
    let devices: Vec<&str> = ends(stack).map(|layer| layer.name.as_str()).collect();
    let place = match devices.as_slice() {
        [] => "devices below".to_owned(),
        devices => format!("/sys/class/block/{}/stat", devices.join(", ")),
    };
    let counts = [("flushes", calls.flushes), ("writes", calls.writes)];
    let count = |(counted, value): (&str, Option<u64>)| {
        Some(reading(&what(counted), place.clone(), value?.to_string()))
    };
    let each = time_of_each(calls).to_string();
    let time = reading(&what("time of each"), "this process's clock", each);
    counts.into_iter().filter_map(count).chain([time]).collect()
}

fn finding_signal(
    finding: SyncFinding,
    stack: &Stack,
    read: Vec<EvidenceReading>,
) -> Option<Signal> {
    let below = || {
        let names: Vec<String> = ends(stack).map(layer_name).collect();
        if names.is_empty() { stack.target.clone() } else { names.join(", ") }
    };
    match finding {
        SyncFinding::Swallowed => signal("syncs-swallowed", "process".to_owned(), read),
        SyncFinding::TooFast => signal("library-sync-too-fast", "process".to_owned(), read),
        SyncFinding::NeitherSent => signal("syncs-not-sent", below(), read),
        SyncFinding::Agree => signal("sync-calls-reach-device", below(), read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{assert_signal, disk, host_with, sample, stack_of};
    use durio_analyse::SignalWord;

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

    fn calls(caller: SyncCaller, flushes: Option<u64>, writes: u64, micros: u64) -> ProbedCalls {
        ProbedCalls {
            caller,
            call: "fsync".to_owned(),
            calls: 20,
            flushes,
            writes: Some(writes),
            elapsed: Nanos::from_micros(micros),
            errno: None,
        }
    }

    fn signals_of(library: ProbedCalls, kernel: ProbedCalls) -> Vec<Signal> {
        let sample = sample();
        let probed = [SyncCallsProbed { step: 0, calls: vec![library, kernel] }];
        swallowed(&RuleInput { probed: &probed, ..sample.input() })
    }

    fn id_of(library: (Option<u64>, u64, u64), kernel: (Option<u64>, u64, u64)) -> Option<String> {
        let one = |caller, (flushes, writes, micros)| calls(caller, flushes, writes, micros);
        let library = one(SyncCaller::Library, library);
        let found = signals_of(library, one(SyncCaller::Kernel, kernel));
        found.first().map(|signal| signal.id.clone())
    }

    #[test]
    fn a_sync_that_only_the_system_call_makes_is_swallowed() {
        let id = id_of((Some(0), 20, 3), (Some(20), 20, 2000));
        assert_eq!(id.as_deref(), Some("syncs-swallowed"));
        let by_writes = id_of((None, 0, 3), (None, 20, 2000));
        assert_eq!(by_writes.as_deref(), Some("syncs-swallowed"));
    }

    #[test]
    fn syncs_that_both_reach_the_device_are_a_fact_with_their_counts() {
        let found = signals_of(
            calls(SyncCaller::Library, Some(20), 20, 2000),
            calls(SyncCaller::Kernel, Some(21), 20, 2000),
        );
        assert_eq!(found[0].word, SignalWord::Fact);
        assert_eq!(found[0].read[0].what, "flushes, 20 × fsync by the C library");
        assert_eq!(found[0].read[0].place, "/sys/class/block/nvme0n1/stat");
    }

    #[test]
    fn syncs_that_neither_sends_are_suspect_where_the_device_would_take_them() {
        let id = id_of((Some(0), 20, 1000), (Some(1), 20, 1000));
        assert_eq!(id.as_deref(), Some("syncs-not-sent"));
        assert_eq!(
            compare(
                &calls(SyncCaller::Library, Some(0), 20, 1000),
                &calls(SyncCaller::Kernel, Some(0), 20, 1000),
                false
            ),
            None
        );
    }

    #[test]
    fn without_counts_only_a_library_that_is_far_too_fast_is_suspect() {
        let id = id_of((None, 20, 2), (None, 20, 2000));
        assert_eq!(id.as_deref(), Some("library-sync-too-fast"));
        assert_eq!(id_of((None, 20, 2), (None, 20, 20)), None, "a sync that does nothing");
        assert_eq!(id_of((None, 20, 1000), (None, 20, 2000)), None);
    }

    #[test]
    fn calls_that_failed_or_were_not_made_are_not_compared() {
        let mut failed = calls(SyncCaller::Library, Some(0), 0, 1);
        failed.errno = Some(5);
        let kernel = calls(SyncCaller::Kernel, Some(20), 20, 2000);
        assert_eq!(signals_of(failed, kernel.clone()), []);
        let none = ProbedCalls { calls: 0, ..calls(SyncCaller::Library, Some(0), 0, 0) };
        assert_eq!(signals_of(none, kernel), []);
        let sample = sample();
        let stray = [SyncCallsProbed { step: 99, calls: Vec::new() }];
        assert_eq!(swallowed(&RuleInput { probed: &stray, ..sample.input() }), []);
    }

    #[test]
    fn half_of_the_calls_reach_a_device_and_a_tenth_is_others_io() {
        // Of 1000 calls of each, 2 µs and 2 ms.
        let of = |by_library, by_kernel| {
            let counted = |caller, flushes| ProbedCalls {
                calls: 1000,
                ..calls(caller, Some(flushes), 1000, 2_000_000)
            };
            let library = counted(SyncCaller::Library, by_library);
            compare(&library, &counted(SyncCaller::Kernel, by_kernel), true)
        };
        assert_eq!([of(99, 500), of(99, 499)], [Some(SyncFinding::Swallowed), None]);
        assert_eq!([of(99, 500), of(101, 500)], [Some(SyncFinding::Swallowed), None]);
        assert_eq!([of(500, 500), of(499, 500)], [Some(SyncFinding::Agree), None]);
        assert_eq!([of(99, 99), of(99, 101)], [Some(SyncFinding::NeitherSent), None]);
    }

    #[test]
    fn a_library_is_too_fast_by_twenty_times_where_the_kernels_call_takes_5_us() {
        let of = |by_library: u64, by_kernel: u64| {
            let timed = |caller, nanos: u64| {
                let elapsed = Nanos::new(20 * nanos);
                ProbedCalls { elapsed, ..calls(caller, None, 20, 0) }
            };
            let library = timed(SyncCaller::Library, by_library);
            compare(&library, &timed(SyncCaller::Kernel, by_kernel), true)
        };
        let too_fast = Some(SyncFinding::TooFast);
        assert_eq!([of(249, 5000), of(249, 4999)], [too_fast, None]);
        assert_eq!([of(499, 10_000), of(500, 10_000)], [too_fast, None]);
    }

    #[test]
    fn of_several_calls_the_worst_speaks_and_each_is_told_with_its_counts() {
        let of = |call: &str, caller, flushes, writes, micros| ProbedCalls {
            call: call.to_owned(),
            ..calls(caller, Some(flushes), writes, micros)
        };
        let fine = [
            of("fsync", SyncCaller::Library, 20, 41, 2000),
            of("fsync", SyncCaller::Kernel, 21, 42, 3000),
        ];
        let swallowed_ones = [
            of("fdatasync", SyncCaller::Library, 0, 1, 40),
            of("fdatasync", SyncCaller::Kernel, 22, 43, 5000),
        ];
        let sample = sample();
        for all in [[fine.clone(), swallowed_ones.clone()], [swallowed_ones, fine]] {
            let probed = [SyncCallsProbed { step: 0, calls: all.concat() }];
            let found = swallowed(&RuleInput { probed: &probed, ..sample.input() });
            assert_eq!((found.len(), found[0].id.as_str()), (1, "syncs-swallowed"));
            assert_eq!(found[0].layer, "process");
            let mut told: Vec<String> =
                found[0].read.iter().map(|read| format!("{}: {}", read.what, read.value)).collect();
            told.sort();
            let expected = [
                "flushes, 20 × fdatasync by the C library: 0",
                "flushes, 20 × fdatasync by the system call: 22",
                "flushes, 20 × fsync by the C library: 20",
                "flushes, 20 × fsync by the system call: 21",
                "time of each, 20 × fdatasync by the C library: 2 µs",
                "time of each, 20 × fdatasync by the system call: 250 µs",
                "time of each, 20 × fsync by the C library: 100 µs",
                "time of each, 20 × fsync by the system call: 150 µs",
                "writes, 20 × fdatasync by the C library: 1",
                "writes, 20 × fdatasync by the system call: 43",
                "writes, 20 × fsync by the C library: 41",
                "writes, 20 × fsync by the system call: 42",
            ];
            assert_eq!(told, expected);
        }
    }
}
