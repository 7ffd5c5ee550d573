//! What each workload's figures came from and what checks them, as named values.

use durio_analyse::{Distribution, Findings, OperationFindings, WorkloadFindings};
use durio_stack::DeviceCounters;
use durio_units::{Bytes, Nanos};

use crate::facts::{data_line, device_time_line, engine_line, in_flight_line, switches_line};
use crate::figures::{counted, decimal, latency, latency_or_absent, mean_latency, percent};
use crate::layer_facts::Named;
use crate::rows::place_name;

/// Bytes of a sector in the kernel's counters, whatever the device.
const SECTOR: u64 = 512;

/// The account of one workload.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) title: String,
    pub(super) facts: Vec<Named>,
}

pub(super) fn accounts(findings: &Findings) -> Vec<Account> {
    findings.workloads.iter().map(account).collect()
}

fn account(workload: &WorkloadFindings) -> Account {
    let mut facts = vec![
        named("engine", engine_line(workload)),
        named("measured for", workload.measured.to_string()),
        named("Little's law", in_flight_line(&workload.in_flight)),
        named("clock", clock(workload)),
        named("CPU per operation", mean_latency(workload.cpu.per_operation_ns)),
        named("CPU of the jobs", cpu_of_jobs(workload)),
    ];
    facts.extend(data_line(workload).map(|it| named("data", it)));
    facts.extend(cpu_of_machine(workload));
    facts.extend(switches_line(workload).map(|it| named("context switches of the jobs", it)));
    facts.extend(workload.machine_switches_per_operation.map(|it| {
        let text = format!("{} per operation (of all programs)", decimal(it));
        named("context switches of the machine", text)
    }));
    facts.extend(device_time_line(workload).map(|it| named("time at the device", it)));
    facts.extend(
        workload
            .unwatched_max
            .map(|it| named("longest time without a look for completions", it.to_string())),
    );
    let throttled = workload.cpu.throttled.map(|it| it.to_string());
    facts.extend(throttled.map(|it| named("held back by quota", it)));
    facts.extend(workload.evenness.map(|it| {
        let text = format!(
            "coefficient of variation {} over {}",
            percent(it.coefficient_of_variation),
            counted(it.intervals, "interval")
        );
        named("evenness of rate", text)
    }));
    facts.extend(workload.operations.iter().flat_map(of_operation));
    facts.extend(workload.devices.iter().map(device));
    Account { title: format!("{} at {}", workload.name, place_name(&workload.location)), facts }
}

fn clock(workload: &WorkloadFindings) -> String {
    let in_flight = &workload.in_flight;
    if in_flight.span == Nanos::ZERO {
        return format!("{}: held against no other", workload.effective.clock);
    }
    // Clocks differ by parts in a million where they are sound.
    let parts = in_flight.clock_deviation * 1e6;
    format!(
        "{}: {parts:+.1} ppm against the reference clock over {}",
        workload.effective.clock, in_flight.span
    )
}

fn cpu_of_jobs(workload: &WorkloadFindings) -> String {
    let cpu = &workload.cpu;
    format!(
        "user {} cores, system {} cores, busiest job {} of a core",
        decimal(cpu.user_cores),
        decimal(cpu.system_cores),
        percent(cpu.busiest_job_share)
    )
}

fn cpu_of_machine(workload: &WorkloadFindings) -> Option<Named> {
    let system = workload.cpu.machine_system_share.map(|it| format!("system {}", percent(it)));
    let steal = workload.cpu.machine_steal_share.map(|it| format!("stolen {}", percent(it)));
    let parts: Vec<_> = [system, steal].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| named("CPU of the machine", parts.join(", ")))
}

fn of_operation(operation: &OperationFindings) -> Vec<Named> {
    let name = operation.operation.name();
    let mut facts = vec![named(&format!("{name}, service"), distribution(&operation.service))];
    let submit = operation.submit.as_ref();
    facts.extend(submit.map(|it| named(&format!("{name}, submit"), distribution(it))));
    let completion = operation.completion.as_ref();
    facts.extend(completion.map(|it| named(&format!("{name}, completion"), distribution(it))));
    facts
}

fn distribution(it: &Distribution) -> String {
    format!(
        "{}: min {}, mean {}, p50 {}, p90 {}, p99 {}, max {}",
        counted(it.count, "sample"),
        latency(it.min_ns),
        mean_latency(it.mean_ns),
        latency_or_absent(it.p50_ns),
        latency_or_absent(it.p90_ns),
        latency_or_absent(it.p99_ns),
        latency(it.max_ns)
    )
}

fn device(it: &DeviceCounters) -> Named {
    if it.not_counted {
        let text = "not counted: this device keeps no counters".to_owned();
        return named(&format!("device {}", it.name), text);
    }
    let bytes = |sectors: u64| Bytes::new(sectors.saturating_mul(SECTOR));
    let flushes = it.flushes_completed.map(|count| format!(", {}", flushes(count)));
    let text = format!(
        "{} ({}), {} ({}){}, busy {} ms",
        counted(it.reads_completed, "read"),
        bytes(it.sectors_read),
        counted(it.writes_completed, "write"),
        bytes(it.sectors_written),
        flushes.unwrap_or_default(),
        it.io_ms
    );
    named(&format!("device {} (all I/O)", it.name), text)
}

fn flushes(count: u64) -> String {
    format!("{count} {}", if count == 1 { "flush" } else { "flushes" })
}

fn named(name: &str, value: String) -> Named {
    (name.to_owned(), value)
}
