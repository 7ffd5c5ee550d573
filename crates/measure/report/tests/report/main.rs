//! The formats, from outside: what a reader finds in them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a test ends at the first surprise and says what it skips; made-up numbers are small"
)]

mod array_cells;
mod browser;
mod campaign;
mod campaign_sample;
mod capture;
mod capture_cells;
mod cells;
mod compare;
mod csv;
mod durable;
mod durable_cells;
mod durable_sample;
mod durable_writers_cells;
mod explained;
mod fio_json;
mod fio_rows;
#[path = "../../../../fleet/hosts/tests/report/sample.rs"]
#[allow(dead_code, reason = "the tests of durio-hosts use the rest of it")]
mod fleet_sample;
mod hostile_names;
mod html;
mod io_properties;
mod json;
mod junit;
mod layout;
mod machines;
mod poster;
mod prediction_cells;
mod profile;
mod proof;
mod proof_cells;
mod report_cells;
mod run_cells;
mod sample;
mod sample_machine;
mod stack;
mod stack_documents;
mod stack_sample;
mod summary;
mod text;
mod times;
mod unique_sample;
mod watch_cells;
mod why_cells;

use durio_analyse::{Findings, OperationFindings};
use durio_base::Nanos;
use durio_report::{Format, Options, write};

/// The findings in a format, with all details.
fn written(format: Format, findings: &Findings) -> String {
    written_with(format, findings, &Options { verbose: true, ..Options::default() })
}

fn written_with(format: Format, findings: &Findings, options: &Options) -> String {
    let mut out = Vec::new();
    write(format, findings, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_format_has_a_name_and_can_write_every_run() {
    let names: Vec<_> = Format::ALL.into_iter().map(Format::name).collect();
    let expected = ["text", "json", "html", "markdown", "csv", "openmetrics", "junit", "fio-json"];
    assert_eq!(names, expected);
    let runs = [sample::complete(), sample::partial(), sample::empty(), sample::hostile()];
    for findings in &runs {
        for format in Format::ALL {
            assert!(!written(format, findings).is_empty(), "{format}");
        }
    }
}

#[test]
fn what_the_writer_says_reaches_the_caller() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for format in Format::ALL {
        let written = write(format, &sample::complete(), &Options::default(), &mut Full);
        assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull, "{format}");
    }
}

#[test]
fn odd_figures_stop_no_format() {
    for odd in [0.0, f64::NAN, f64::INFINITY, -1.0, 1e300] {
        let mut findings = sample::two_locations();
        for workload in &mut findings.workloads {
            (workload.iops, workload.bandwidth, workload.in_flight.deviation) = (odd, odd, odd);
            workload.operations.iter_mut().for_each(|operation| odd_operation(operation, odd));
            workload.intervals.iter_mut().for_each(|interval| interval.rate = odd);
        }
        for format in Format::ALL {
            assert!(!written(format, &findings).contains("inf "), "{format} with {odd}");
        }
    }
}

fn odd_operation(operation: &mut OperationFindings, odd: f64) {
    (operation.rate, operation.service.mean_ns) = (odd, odd);
    operation.service.p99_ns = Some(if odd > 0.0 { u64::MAX } else { 0 });
    for point in &mut operation.curve {
        (point.quantile, point.latency_ns) = (odd, u64::MAX);
    }
}

#[test]
fn a_run_whose_intervals_have_no_length_is_still_written() {
    let mut findings = sample::complete();
    for interval in &mut findings.workloads[0].intervals {
        (interval.from, interval.to) = (Nanos::ZERO, Nanos::ZERO);
        (interval.p50_ns, interval.p99_ns) = (None, None);
    }
    assert!(written(Format::Html, &findings).contains("id=\"chart-2\""));
}
