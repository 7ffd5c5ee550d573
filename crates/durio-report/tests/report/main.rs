//! The formats, from outside: what a reader finds in them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a test ends at the first surprise and says what it skips; made-up numbers are small"
)]

mod browser;
mod csv;
mod html;
mod json;
mod sample;
mod text;

use durio_analyse::Findings;
use durio_report::{Format, Options, write};

/// The findings in a format, with the default options.
fn written(format: Format, findings: &Findings) -> String {
    written_with(format, findings, &Options::default())
}

fn written_with(format: Format, findings: &Findings, options: &Options) -> String {
    let mut out = Vec::new();
    write(format, findings, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_format_has_a_name_and_can_write_every_run() {
    let names: Vec<_> = Format::ALL.into_iter().map(Format::name).collect();
    assert_eq!(names, ["text", "json", "html", "csv"]);
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
