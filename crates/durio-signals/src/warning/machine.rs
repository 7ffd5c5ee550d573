//! Warnings about the machine that the run took place on.

use durio_units::Nanos;

use durio_plan::EngineKind;

use super::{Basis, per_workload, percent, warning};
use durio_analyse::{WarningFinding, WorkloadFindings};

/// A thread with less idle time than this is at its limit.
const ONE_CORE_SHARE: f64 = 0.9;

/// Above this share of what a job reaches without any storage, the generator is part of the figure.
const OWN_LIMIT_SHARE: f64 = 0.5;

/// System time of the whole machine from which the kernel, not the device, may set the rate
/// (fast-by-design-measuring-storage names 30 %).
const SYSTEM_SHARE: f64 = 0.3;

/// Stolen time that a latency figure notices.
const STEAL_SHARE: f64 = 0.01;

/// As [`per_workload`], without those on virtual time: the machine had no part in their figures.
fn per_real_workload(
    basis: &Basis<'_>,
    code: &str,
    seen: impl Fn(&WorkloadFindings) -> Option<String>,
    why: &str,
    advice: &str,
) -> Vec<WarningFinding> {
    let is_real = |workload: &WorkloadFindings| workload.effective.engine != EngineKind::Null;
    per_workload(basis, code, |workload| seen(workload).filter(|_| is_real(workload)), why, advice)
}

pub(super) fn one_core(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_real_workload(
        basis,
        "one-core",
        |workload| {
            let share = workload.cpu.busiest_job_share;
            (share > ONE_CORE_SHARE)
                .then(|| format!("the busiest job used {} of a core", percent(share)))
        },
        "the speed of a single thread bounds the rate, not the storage",
        "expect more from more jobs; compare only with machines of the same single-thread speed",
    )
}

pub(super) fn durio_limit(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_real_workload(
        basis,
        "durio-limit",
        |workload| {
            let own = basis
                .self_cost
                .iter()
                .filter(|cost| cost.engine == workload.effective.engine)
                .map(|cost| cost.iops)
                .fold(0.0, f64::max);
            let each = workload.iops / f64::from(workload.effective.jobs.max(1));
            (own > 0.0 && each > own * OWN_LIMIT_SHARE).then(|| {
                format!("each job did {each:.0} I/Os per second; without storage it does {own:.0}")
            })
        },
        "durio itself is a large part of the time of each operation",
        "read the rate as a lower bound; use larger blocks or more jobs",
    )
}

pub(super) fn system_time(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_real_workload(
        basis,
        "system-cpu",
        |workload| {
            let share = workload.cpu.machine_system_share?;
            (share > SYSTEM_SHARE).then(|| {
                format!("{} of the machine's time was spent in the kernel", percent(share))
            })
        },
        "the kernel's path to the storage, not the device, may set the rate; a database has to \
         share these processors",
        "check filesystem, encryption, and interrupt placement; compare with the raw device",
    )
}

pub(super) fn steal(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_real_workload(
        basis,
        "steal",
        |workload| {
            let share = workload.cpu.machine_steal_share?;
            (share > STEAL_SHARE).then(|| format!("the hypervisor took {:.1} %", share * 100.0))
        },
        "processor time went to other guests: latencies contain their work",
        "run again at another time, or on a machine of its own",
    )
}

pub(super) fn throttled(basis: &Basis<'_>) -> Vec<WarningFinding> {
    per_real_workload(
        basis,
        "throttled",
        |workload| {
            let held_back = workload.cpu.throttled?;
            (held_back > Nanos::ZERO)
                .then(|| format!("the control group held the process back for {held_back}"))
        },
        "latencies contain waits for the processor quota",
        "raise cpu.max of the group, or read the figures as those of this quota",
    )
}

/// No threshold: what is on costs each operation that meets it, 600 ns a system call for the events of
/// system calls (the costs are in durio-observe's tracefs/active.rs).
pub(super) fn tracing(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let tracing = &basis.environment.host.tracing;
    if tracing.is_empty() {
        return Vec::new();
    }
    let seen = tracing.iter().map(|it| format!("{}: {}", it.name, it.value));
    vec![warning(
        "tracing",
        Vec::new(),
        format!(
            "the kernel was tracing when the run began: {}",
            seen.collect::<Vec<_>>().join("; ")
        ),
        "what is traced costs each operation: rates are lower than without it, latencies longer",
        "end the tracer, or write 0 to events/enable and nop to current_tracer there; then run again",
    )]
}

pub(super) fn limits(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let host = &basis.environment.host;
    let mut seen = Vec::new();
    if !host.cgroup.io_max.is_empty() {
        seen.push(format!("io.max {}", host.cgroup.io_max.join(", ")));
    }
    if let Some(cores) =
        host.cgroup.cpu_quota_cores.filter(|cores| *cores < f64::from(host.cpus_online))
    {
        seen.push(format!("cpu.max allows {cores:.2} of {} processors", host.cpus_online));
    }
    if host.cpus_allowed < host.cpus_online {
        seen.push(format!(
            "only {} of {} processors may be used",
            host.cpus_allowed, host.cpus_online
        ));
    }
    if seen.is_empty() {
        return Vec::new();
    }
    vec![warning(
        "limits",
        Vec::new(),
        seen.join("; "),
        "the kernel caps what this process can reach, whatever the storage could",
        "run outside of the limit to measure the storage, inside to measure what a database there gets",
    )]
}

pub(super) fn governor(basis: &Basis<'_>) -> Vec<WarningFinding> {
    let Some(governor) = &basis.environment.host.governor else { return Vec::new() };
    if governor == "performance" {
        return Vec::new();
    }
    vec![warning(
        "governor",
        Vec::new(),
        format!("the frequency governor is '{governor}'"),
        "a processor that clocks down between operations adds microseconds to each",
        "set it to performance for the measurement, as for the database",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{check_quiet, check_warns};
    use durio_analyse::SelfCost;

    #[test]
    fn a_clean_run_gives_no_warning_of_this_file() {
        for rule in
            [one_core, durio_limit, system_time, steal, throttled, tracing, limits, governor]
        {
            check_quiet(rule, |_| {});
        }
    }

    #[test]
    fn processor_limits_are_named() {
        check_warns(one_core, "one-core", |sample| {
            sample.workloads[0].cpu.busiest_job_share = 0.95;
        });
        check_warns(system_time, "system-cpu", |sample| {
            sample.workloads[0].cpu.machine_system_share = Some(0.31);
        });
        check_warns(steal, "steal", |sample| {
            sample.workloads[0].cpu.machine_steal_share = Some(0.011);
        });
        check_warns(throttled, "throttled", |sample| {
            sample.workloads[0].cpu.throttled = Some(Nanos::new(1));
        });
    }

    #[test]
    fn an_active_tracer_is_named_with_its_place() {
        let on = |sample: &mut crate::sample::Sample| {
            let (name, value) = ("/t/instances/x".to_owned(), "tracer function".to_owned());
            sample.environment.host.tracing.push(durio_observe::Fact { name, value });
        };
        check_warns(tracing, "tracing", on);
    }

    #[test]
    fn durio_near_its_own_limit_is_named() {
        check_warns(durio_limit, "durio-limit", |sample| {
            let iops = sample.workloads[0].iops * 1.9;
            let own = SelfCost { engine: EngineKind::Sync, depth: 1, per_operation_ns: 1.0, iops };
            sample.self_cost.push(own);
        });
    }

    #[test]
    fn caps_of_the_kernel_are_named() {
        check_warns(limits, "limits", |sample| {
            sample.environment.host.cgroup.io_max.push("8:0 rbps=1".to_owned());
        });
        check_warns(limits, "limits", |sample| sample.environment.host.cpus_allowed = 1);
        check_warns(limits, "limits", |sample| {
            sample.environment.host.cgroup.cpu_quota_cores = Some(0.5);
        });
        check_warns(governor, "governor", |sample| {
            sample.environment.host.governor = Some("powersave".to_owned());
        });
    }
}
