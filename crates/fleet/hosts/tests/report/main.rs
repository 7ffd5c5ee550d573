//! The report of many hosts: what a reader finds in each format.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod cells;
mod goals;
mod hostile;
mod sample;
mod sentences;

use durio_report::{Format, Options, Report, write};

fn written(format: Format, report: &impl Report) -> String {
    written_with(format, report, &Options::default())
}

fn verbose(format: Format, report: &impl Report) -> String {
    written_with(format, report, &Options { verbose: true, ..Options::default() })
}

fn written_with(format: Format, report: &impl Report, options: &Options) -> String {
    let mut out = Vec::new();
    write(format, report, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}
