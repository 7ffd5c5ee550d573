//! durio's command line and output.
//!
//! Turns a target and options into arguments, and findings into numbers. It reads the document as
//! every user gets it, without the findings' types.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::{MeasuredKind, MeasuredTrial, OperationFigures};

/// The paths of durio and of its run folders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Durio<'a> {
    pub(super) program: &'a Path,
    pub(super) out: &'a Path,
}

impl Durio<'_> {
    /// `durio run` on `target`; `options` are separated by blanks.
    pub(super) fn run(self, target: &Path, options: &str) -> Vec<OsString> {
        let mut words = self.common("run");
        // Otherwise durio would measure itself before each job, which is not part of the trial.
        words.extend(["--no-self-cost".into(), "--target".into(), target.into()]);
        words.extend(options.split_whitespace().map(OsString::from));
        words
    }

    /// `durio fio` with fio's words, and the file that it may overwrite.
    pub(super) fn fio(self, destroy: Option<&Path>, fio: &[OsString]) -> Vec<OsString> {
        let mut words = self.common("fio");
        if let Some(file) = destroy {
            words.extend(["--destroy".into(), file.into()]);
        }
        words.push("--".into());
        words.extend(fio.iter().cloned());
        words
    }

    /// `durio check --quick` of a folder.
    pub(super) fn check_quick(self, folder: &Path) -> Vec<OsString> {
        let mut words = self.common("check");
        words.extend(["--quick".into(), folder.into()]);
        words
    }

    /// `durio predict` of a database in a folder.
    pub(super) fn predict(self, database: &str, folder: &Path, options: &str) -> Vec<OsString> {
        let mut words = self.common("predict");
        words.extend([database.into(), folder.into()]);
        words.extend(options.split_whitespace().map(OsString::from));
        words
    }

    fn common(self, command: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.program.into(), command.into()];
        words.extend(["--format", "json", "--quiet", "--out"].map(OsString::from));
        words.push(self.out.into());
        words
    }
}

/// Reads the results of the first workload.
pub(super) fn parse(text: &str) -> Result<MeasuredTrial> {
    let findings = findings(text)?;
    let workload = findings.pointer("/workloads/0").context("no workload in the findings")?;
    let operations: Vec<_> = array(workload, "/operations")
        .iter()
        .filter_map(|found| {
            let name = found.get("operation")?.as_str()?;
            let kind = MeasuredKind::ALL.into_iter().find(|kind| kind.name() == name)?;
            Some((kind, operation(found)?))
        })
        .collect();
    let of_accesses = operations.iter().filter(|(kind, _)| *kind != MeasuredKind::Sync);
    Ok(MeasuredTrial {
        iops: number(workload, "/iops")?,
        accesses: of_accesses.map(|(_, operation)| operation.count).sum(),
        cpu_ns: number(workload, "/cpu/per_operation_ns")?,
        operations,
        deviation: number(workload, "/in_flight/deviation").ok(),
        fallbacks: array(workload, "/effective/fallbacks")
            .iter()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect(),
    })
}

fn operation(value: &Value) -> Option<OperationFigures> {
    Some(OperationFigures {
        count: number(value, "/service/count").ok()?,
        rate: number(value, "/rate_per_second").ok()?,
        mean: number(value, "/service/mean_ns").ok()?,
        p50: number(value, "/service/p50_ns").ok(),
        p99: number(value, "/service/p99_ns").ok(),
        p99_9: number(value, "/service/p99_9_ns").ok(),
        max: number(value, "/service/max_ns").ok(),
    })
}

/// The parts of `durio check` about durio itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SelfCheck {
    /// Largest resident memory, in bytes.
    pub(super) memory: f64,
    /// Buffers of the step that needs the most, in bytes.
    pub(super) buffers: f64,
    /// Largest deviation from Little's law, without its sign.
    pub(super) deviation: f64,
    /// Least share of jobs × depth that was in flight with an asynchronous engine.
    pub(super) in_flight: f64,
    /// Workloads that the share is of.
    pub(super) asynchronous: usize,
}

/// Reads the findings of `durio check`.
pub(super) fn parse_check(text: &str) -> Result<SelfCheck> {
    let findings = findings(text)?;
    let mut check = SelfCheck {
        memory: number(&findings, "/memory_max_bytes")?,
        buffers: 0.0,
        deviation: 0.0,
        in_flight: f64::INFINITY,
        asynchronous: 0,
    };
    for workload in array(&findings, "/workloads") {
        let (jobs, depth) =
            (number(workload, "/effective/jobs")?, number(workload, "/effective/depth")?);
        let block = number(workload, "/definition/block_size_bytes")?;
        check.buffers = check.buffers.max(jobs * depth * block);
        check.deviation = check.deviation.max(number(workload, "/in_flight/deviation")?.abs());
        let engine = workload.pointer("/effective/engine").and_then(Value::as_str);
        if matches!(engine, Some("uring" | "aio")) {
            let by_latency = number(workload, "/in_flight/by_latency")?;
            let offered = number(workload, "/in_flight/offered")?;
            check.in_flight = check.in_flight.min(by_latency / offered);
            check.asynchronous += 1;
        }
    }
    ensure!(check.asynchronous > 0, "no workload ran on an asynchronous engine");
    Ok(check)
}

pub(super) fn findings(text: &str) -> Result<Value> {
    let findings: Value = serde_json::from_str(text).context("durio's JSON")?;
    let state = findings.get("state").and_then(Value::as_str);
    ensure!(state == Some("complete"), "durio's run is not complete: {state:?}");
    Ok(findings)
}

pub(super) fn array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn number(value: &Value, pointer: &str) -> Result<f64> {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("no number at {pointer} of the findings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"schema": "durio-findings-1", "state": "complete",
        "memory_max_bytes": 9000000, "workloads": [
        {"iops": 100.0, "effective": {"engine": "sync", "jobs": 1, "depth": 1,
            "fallbacks": ["no O_DIRECT"]},
         "definition": {"block_size_bytes": 8192},
         "in_flight": {"by_latency": 1.0, "offered": 1.0, "deviation": -0.015},
         "cpu": {"per_operation_ns": 250.5},
         "operations": [
           {"operation": "commit", "rate_per_second": 100.0,
            "service": {"count": 500, "mean_ns": 5.0, "p50_ns": 4, "p99_ns": 9}},
           {"operation": "write", "rate_per_second": 100.0,
            "service": {"count": 500, "mean_ns": 3.0, "p50_ns": 2, "p99_ns": null}},
           {"operation": "sync", "rate_per_second": 100.0,
            "service": {"count": 500, "mean_ns": 2.0, "p50_ns": 2, "p99_ns": 3}}]},
        {"effective": {"engine": "uring", "jobs": 2, "depth": 16},
         "definition": {"block_size_bytes": 262144},
         "in_flight": {"by_latency": 30.4, "offered": 32.0, "deviation": 0.001}}]}"#;

    #[test]
    fn figures_are_those_of_the_first_workload_and_a_commit_is_no_access() {
        let measured = parse(SAMPLE).expect("the sample is whole");
        assert_eq!((measured.iops, measured.accesses), (100.0, 500.0));
        assert_eq!((measured.cpu_ns, measured.deviation), (250.5, Some(-0.015)));
        assert_eq!(measured.fallbacks, ["no O_DIRECT"]);
        let write = measured.operation(MeasuredKind::Write).expect("there are writes");
        assert_eq!((write.p50, write.p99), (Some(2.0), None));
    }

    #[test]
    fn a_check_tells_the_largest_step_and_the_worst_deviation() {
        let check = parse_check(SAMPLE).expect("the sample is whole");
        assert_eq!(check.buffers, 8.0 * 1024.0 * 1024.0);
        assert_eq!((check.deviation, check.in_flight), (0.015, 0.95));
        assert_eq!(check.asynchronous, 1);
    }

    #[test]
    fn a_run_that_did_not_end_is_an_error() {
        assert!(parse(&SAMPLE.replace("complete", "failed")).is_err());
    }
}
