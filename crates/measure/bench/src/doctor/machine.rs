//! The machine: engines, limits, clock, processors, permissions, and its devices' counters.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use durio_base::{Bytes, counted};
use durio_block::{Buffers, Engine, EngineKind, MonotonicClock, Ring, UringEngine};
use durio_observe::{Host, Stack, find_tracefs, leaf_devices, read_device_counters};
use durio_plan::{Plan, Step};
use durio_report::DiagnosisRow;
use durio_run::probe_tracing;
use rustix::process::{Resource, geteuid, getrlimit};

use super::CheckedThing;

pub(super) fn rows(host: &Host, plan: Option<&Plan>, stack: Option<&Stack>) -> Vec<DiagnosisRow> {
    let mut rows = vec![
        ring(host, plan).row("io_uring", "deep queues: lookup, scan, mixed, --engine uring"),
        aio().row("libaio", "--engine aio"),
        open_files(getrlimit(Resource::Nofile).current)
            .needed("open files", "each job opens its files itself"),
        clock(host).row("clock", "the time of each operation"),
        processors(host).row("CPUs", "concurrent jobs"),
        rights().row("rights", "built stacks, traces, what drives and superblocks say"),
        tracing().row("tracing", "--trace-path, the order of flushes in durio durable"),
    ];
    if let Some(stack) = stack {
        let name = "device counters";
        rows.push(devices(host, stack).row(name, "flushes, time and bytes at the device"));
    }
    rows
}

/// Without a plan: 8 MiB of blocks in flight, the most of any step of `check`.
const BUFFERS: Bytes = Bytes::from_mib(8);
const SLOT: usize = 256 << 10;

fn ring(host: &Host, plan: Option<&Plan>) -> CheckedThing {
    let setting = host
        .kernel_parameters
        .iter()
        .find(|parameter| parameter.name == "kernel/io_uring_disabled");
    let setting = setting.map_or("0", |parameter| parameter.value.trim());
    let mut ring = match Ring::new(1) {
        Ok(ring) => ring,
        Err(error) => return no_ring(setting, &error.source),
    };
    let bytes = plan.map_or(BUFFERS, buffers_of);
    match registered(&mut ring, bytes) {
        Ok(()) => CheckedThing::ok(format!("a ring was set up, and {bytes} of buffers registered")),
        Err(reason) => {
            let limit = match getrlimit(Resource::Memlock).current {
                Some(limit) => format!("locked memory is limited to {}", Bytes::new(limit)),
                None => "locked memory is not limited".to_owned(),
            };
            CheckedThing::limited(
                format!("{reason} ({limit}); durio uses them unregistered"),
                format!(
                    "raise the limit to {bytes}: ulimit -l {}, memlock in limits.conf, or \
                     LimitMEMLOCK= of a service",
                    bytes.get() >> 10
                ),
            )
        }
    }
}

fn no_ring(setting: &str, error: &io::Error) -> CheckedThing {
    let remedy = match setting {
        "0" => "a container's seccomp profile may forbid it; the kernel must be 5.1 or later",
        "1" => {
            "as root: sysctl kernel.io_uring_disabled=0, or add the user to kernel.io_uring_group"
        }
        _ => "as root: sysctl kernel.io_uring_disabled=0",
    };
    let text =
        format!("{error} (kernel.io_uring_disabled = {setting}); the sync engine is used instead");
    CheckedThing::no(text, remedy)
}

/// What all rings of a step have in flight.
fn buffers_of(plan: &Plan) -> Bytes {
    let uses_rings = |step: &&Step| step.loads().any(|load| load.engine == EngineKind::Uring);
    let most = plan.steps.iter().filter(uses_rings).map(Step::buffer_bytes).max();
    most.filter(|bytes| *bytes > Bytes::ZERO).unwrap_or(BUFFERS)
}

/// Registers buffers, all with one ring: the limit is per user, whatever the number of rings.
fn registered(ring: &mut Ring, bytes: Bytes) -> Result<(), String> {
    let in_words = |error: durio_block::BlockError| format!("{error}: {}", error.source);
    let slots = usize::try_from(bytes.get()).unwrap_or(usize::MAX).div_ceil(SLOT).max(1);
    let buffers = Buffers::try_new(slots, SLOT).map_err(in_words)?;
    let file = File::open("/dev/null").map_err(|error| error.to_string())?;
    let engine = UringEngine::new(MonotonicClock, ring, &[file.into()], buffers);
    let facts = engine.map_err(in_words)?.facts();
    let refused = facts.fallbacks.into_iter().find(|fallback| fallback.starts_with("buffers"));
    refused.map_or(Ok(()), Err)
}

fn aio() -> CheckedThing {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(Path::new("/proc/sys/fs").join(name)).ok()?.trim().parse().ok()
    };
    let used = number("aio-nr").zip(number("aio-max-nr"));
    let used = used.map(|(used, most)| format!("{used} of {most} operations in use"));
    match EngineKind::Aio.probe() {
        Ok(()) => CheckedThing::ok(used.unwrap_or_else(|| "a context was set up".to_owned())),
        Err(error) => {
            let used = used.map_or_else(String::new, |used| format!(" ({used})"));
            let remedy = "as root: sysctl fs.aio-max-nr=1048576; the kernel needs CONFIG_AIO";
            CheckedThing::no(
                format!("{}{used}; the sync engine is used instead", error.source),
                remedy,
            )
        }
    }
}

// `durio check` ran with 40 and not with 24; with the sync engine in the place of rings it has 32 jobs.
const CHECK_FILES: u64 = 48;
// Fewer than this a shell hardly ever has, and a campaign of many jobs soon takes.
const OPEN_FILES_MIN: u64 = 256;

fn open_files(limit: Option<u64>) -> CheckedThing {
    let remedy = "ulimit -n 1024, nofile in limits.conf, or LimitNOFILE= of a service";
    match limit {
        Some(limit) if limit < CHECK_FILES => {
            CheckedThing::no(format!("{limit} at most; durio check needs {CHECK_FILES}"), remedy)
        }
        Some(limit) if limit < OPEN_FILES_MIN => {
            CheckedThing::limited(format!("{limit} at most; many jobs need more"), remedy)
        }
        Some(limit) => CheckedThing::ok(format!("{limit} at most")),
        None => CheckedThing::ok("not limited"),
    }
}

fn clock(host: &Host) -> CheckedThing {
    let source = host.clocksource.as_deref().unwrap_or("unknown");
    if host.tsc_reliable {
        return CheckedThing::ok(format!(
            "the time-stamp counter (the kernel's clock is {source})"
        ));
    }
    let text = format!("CLOCK_MONOTONIC of {source}; the time-stamp counter is not reliable");
    // These are read in a system call, not in the vDSO.
    let remedy = match source {
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => {
            "see dmesg for why the kernel gave up the TSC: this clock is slow and affects all results"
        }
        _ => "nothing: results are right, but each clock reading takes longer",
    };
    CheckedThing::limited(text, remedy)
}

fn processors(host: &Host) -> CheckedThing {
    let (allowed, online) = (host.cpus_allowed, host.cpus_online);
    let mut limits = Vec::new();
    if allowed < online {
        limits.push(format!("{allowed} of {online} may be used"));
    }
    if let Some(cores) = host.cgroup.cpu_quota_cores.filter(|cores| *cores < f64::from(online)) {
        limits.push(format!("cpu.max of the control group allows {cores:.2} of {online}"));
    }
    match limits.is_empty() {
        true => CheckedThing::ok(counted(online.into(), "CPU")),
        false => CheckedThing::limited(
            limits.join("; "),
            "give durio all CPUs that the database has (taskset, cpuset, CPU quota)",
        ),
    }
}

/// `CAP_SYS_ADMIN` (linux/capability.h).
const SYS_ADMIN: u32 = 21;

fn rights() -> CheckedThing {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    rights_of(geteuid().is_root(), has_capability(&status, SYS_ADMIN))
}

fn rights_of(is_root: bool, is_admin: bool) -> CheckedThing {
    let lacking = "no stacks are built, no traces made, and drives and superblocks are not asked";
    match (is_root, is_admin) {
        (true, true) => CheckedThing::ok("root"),
        (true, false) => CheckedThing::limited(
            format!("root without CAP_SYS_ADMIN, as in a container: {lacking}"),
            "run durio on the host, or give the container --privileged",
        ),
        (false, _) => CheckedThing::limited(
            format!("not root: {lacking}"),
            "run as root for these; durio stack bench --lab builds stacks as any user",
        ),
    }
}

/// By the text of `/proc/self/status`.
fn has_capability(status: &str, number: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & (1 << number) != 0)
}

fn tracing() -> CheckedThing {
    let root = Path::new("/");
    match probe_tracing(root) {
        Ok(()) => CheckedThing::ok("an instance of tracefs was made"),
        Err(_) if find_tracefs(root).is_none() => CheckedThing::no(
            "tracefs is not mounted",
            "as root: mount -t tracefs tracefs /sys/kernel/tracing",
        ),
        Err(_) if !geteuid().is_root() => CheckedThing::no("tracefs takes root", "run as root"),
        Err(reason) => {
            CheckedThing::no(reason, "the kernel may be locked down, or a container may not trace")
        }
    }
}

/// Whether the kernel counts the I/O of the devices below, and does not throttle it.
fn devices(host: &Host, stack: &Stack) -> CheckedThing {
    let names = leaf_devices(stack);
    if names.is_empty() {
        let remedy = "nothing, unless a directory on a local disk can be measured";
        return CheckedThing::no("no block device is known below the directory", remedy);
    }
    let (mut faults, mut remedies) = (Vec::new(), Vec::new());
    for name in &names {
        match read_device_counters(name) {
            Err(error) => faults.push(format!("{name}: {error}")),
            Ok(counters) if counters.not_counted => {
                faults.push(format!("{name} is not counted"));
                remedies.push(format!("as root: echo 1 > /sys/block/{name}/queue/iostats"));
            }
            Ok(counters) if counters.flushes_completed.is_none() => {
                faults.push(format!("{name}: flushes are not counted (Linux 5.5 and later do)"));
            }
            Ok(_) => {}
        }
    }
    if !host.cgroup.io_max.is_empty() {
        faults.push(format!("io.max of the control group: {}", host.cgroup.io_max.join(", ")));
        remedies.push("run in a control group without io.max, unless the database has it".into());
    }
    match faults.is_empty() {
        true => CheckedThing::ok(names.join(", ")),
        false => CheckedThing::limited(faults.join("; "), remedies.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use durio_report::DiagnosisState;

    use super::*;

    #[test]
    fn capabilities_are_bits_of_a_line() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000200000\n";
        assert!(has_capability(status, SYS_ADMIN));
        assert!(!has_capability(status, 14) && !has_capability("", SYS_ADMIN));
    }

    #[test]
    fn only_root_with_all_rights_is_not_limited() {
        assert_eq!(rights_of(true, true).state, DiagnosisState::Ok);
        for (is_root, is_admin) in [(true, false), (false, false), (false, true)] {
            assert_eq!(rights_of(is_root, is_admin).state, DiagnosisState::Limited);
        }
    }

    #[test]
    fn open_files_that_are_too_few_for_check_prevent_it() {
        let of = |limit| open_files(limit).state;
        assert_eq!((of(Some(24)), of(Some(64))), (DiagnosisState::No, DiagnosisState::Limited));
        assert_eq!((of(Some(1024)), of(None)), (DiagnosisState::Ok, DiagnosisState::Ok));
    }

    #[test]
    fn who_forbids_rings_decides_what_is_to_be_done() {
        let refused = io::Error::from_raw_os_error(1);
        assert!(no_ring("0", &refused).remedy.contains("seccomp"));
        assert!(no_ring("1", &refused).remedy.contains("io_uring_group"));
        assert!(no_ring("2", &refused).remedy.ends_with("kernel.io_uring_disabled=0"));
    }

    #[test]
    fn fewer_processors_than_the_machine_has_are_a_limit() {
        let mut host = Host { cpus_online: 8, cpus_allowed: 8, ..Host::default() };
        assert_eq!(processors(&host).text, "8 CPUs");
        host.cgroup.cpu_quota_cores = Some(1.5);
        host.cpus_allowed = 4;
        let found = processors(&host);
        assert_eq!(found.state, DiagnosisState::Limited);
        assert_eq!(found.text, "4 of 8 may be used; cpu.max of the control group allows 1.50 of 8");
    }

    #[test]
    fn a_slow_clock_is_told_from_one_that_only_takes_longer() {
        let of = |source: &str, tsc_reliable| {
            clock(&Host { clocksource: Some(source.to_owned()), tsc_reliable, ..Host::default() })
        };
        assert_eq!(of("kvm-clock", true).state, DiagnosisState::Ok);
        assert!(of("hpet", false).remedy.contains("dmesg"));
        assert!(of("kvm-clock", false).remedy.contains("nothing"));
    }
}
