//! fio's command line and output.
//!
//! Turns a target and options into arguments, and JSON into numbers.
//!
//! Observed with fio 3.33: notes precede the JSON; `usr_cpu` and `sys_cpu` are percent of
//! `job_runtime`, which is in milliseconds; the total of `sync` is 0 and its count is `lat_ns.N`;
//! percentiles are where they were asked for, under the latency's name.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::{MeasuredKind, MeasuredTrial, OperationFigures};

/// Percentiles of the total latency, not of the completion latency, which begins only after the
/// submitting call returns.
pub(super) const TOTAL_LATENCIES: &str =
    "--lat_percentiles=1 --clat_percentiles=0 --slat_percentiles=0 --percentile_list=50:99:99.9";

/// fio with one job on `target`; `options` are separated by blanks.
pub(super) fn command(target: &Path, options: &str) -> Vec<OsString> {
    let mut filename = OsString::from("--filename=");
    filename.push(target);
    let mut words: Vec<OsString> = vec!["fio".into(), "--name=j".into(), filename];
    // Without threads, callgrind would count the parent alone.
    words.extend(["--thread", "--output-format=json"].map(OsString::from));
    words.extend(options.split_whitespace().map(OsString::from));
    words
}

/// Reads the results of the first job.
pub(super) fn parse(text: &str) -> Result<MeasuredTrial> {
    // fio prints notes about a job's options before its JSON, on stdout too.
    let begin = text.find('{').context("fio printed no JSON")?;
    let document: Value = serde_json::from_str(&text[begin..]).context("fio's JSON")?;
    let job = document.pointer("/jobs/0").context("fio's JSON has no job")?;
    let error = number(job, "/error")?;
    ensure!(error == 0.0, "fio's job ended with error {error}");
    let seconds = number(job, "/job_runtime")? / 1e3;
    let operations: Vec<_> = MeasuredKind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind, operation(job.get(kind.name())?, kind, seconds)?)))
        .collect();
    let of_accesses = || operations.iter().filter(|(kind, _)| *kind != MeasuredKind::Sync);
    let accesses: f64 = of_accesses().map(|(_, operation)| operation.count).sum();
    let percent = number(job, "/usr_cpu")? + number(job, "/sys_cpu")?;
    Ok(MeasuredTrial {
        iops: of_accesses().map(|(_, operation)| operation.rate).sum(),
        accesses,
        cpu_ns: percent / 100.0 * seconds * 1e9 / accesses,
        operations,
        deviation: None,
        fallbacks: Vec::new(),
    })
}

fn operation(value: &Value, kind: MeasuredKind, seconds: f64) -> Option<OperationFigures> {
    let count = number(value, "/lat_ns/N").ok().filter(|&count| count > 0.0)?;
    let rate = match kind {
        MeasuredKind::Read | MeasuredKind::Write => number(value, "/iops").ok()?,
        MeasuredKind::Sync => count / seconds,
    };
    Some(OperationFigures {
        count,
        rate,
        mean: number(value, "/lat_ns/mean").ok()?,
        p50: number(value, "/lat_ns/percentile/50.000000").ok(),
        p99: number(value, "/lat_ns/percentile/99.000000").ok(),
        p99_9: number(value, "/lat_ns/percentile/99.900000").ok(),
        max: number(value, "/lat_ns/max").ok(),
    })
}

fn number(value: &Value, pointer: &str) -> Result<f64> {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("no number at {pointer}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
        {"fio version": "fio-3.33", "jobs": [{"jobname": "j", "error": 0, "job_runtime": 2000,
         "usr_cpu": 10.0, "sys_cpu": 30.0,
         "read": {"iops": 0.0, "total_ios": 0, "lat_ns": {"mean": 0.0, "N": 0}},
         "write": {"iops": 100.5, "total_ios": 200, "lat_ns": {"mean": 1500.5, "N": 200,
           "percentile": {"50.000000": 1400, "99.000000": 2000}}},
         "sync": {"total_ios": 0, "lat_ns": {"mean": 9000.0, "N": 200,
           "percentile": {"50.000000": 8000, "99.000000": 9900}}}}]}"#;

    #[test]
    fn figures_are_read_past_the_notes() {
        let measured = parse(SAMPLE).expect("the sample is whole");
        assert_eq!(measured.iops, 100.5);
        assert_eq!(measured.accesses, 200.0);
        // 40 % of 2 s for 200 writes.
        assert_eq!(measured.cpu_ns, 4e6);
        assert!(measured.operation(MeasuredKind::Read).is_none());
        let write = measured.operation(MeasuredKind::Write).expect("there are writes");
        assert_eq!((write.p50, write.p99, write.mean), (Some(1400.0), Some(2000.0), 1500.5));
    }

    #[test]
    fn the_rate_of_syncs_is_their_count_over_the_time() {
        let measured = parse(SAMPLE).expect("the sample is whole");
        let sync = measured.operation(MeasuredKind::Sync).expect("there are syncs");
        assert_eq!((sync.count, sync.rate, sync.p50), (200.0, 100.0, Some(8000.0)));
    }

    #[test]
    fn an_error_of_the_job_is_an_error() {
        assert!(parse(&SAMPLE.replace("\"error\": 0", "\"error\": 5")).is_err());
        assert!(parse("fio: unknown option").is_err());
    }

    #[test]
    fn options_become_words_and_a_blank_in_the_target_does_not() {
        let words = command(Path::new("/a b"), "--rw=read  --bs=4k");
        assert!(words.contains(&"--filename=/a b".into()));
        assert!(words.ends_with(&["--rw=read".into(), "--bs=4k".into()]));
    }
}
