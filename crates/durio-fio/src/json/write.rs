//! fio's json+ from a result, in the form of fio 3.33.
//!
//! In: [`FioOutput`]. Out: text, byte for byte what fio 3.33 prints for the same figures, but for
//! what would not be JSON: control characters are escaped, counts above i64 stay positive, figures
//! that are no numbers become 0. Not here: keys that fio 3.33 lacks, unless the result has them.

mod direction;
mod disk;
mod job;
mod printer;

use super::output::{FioOutput, Options};
use printer::Printer;

/// The document as text, with a final new line. Keys for what is `None` are left out.
///
/// ```
/// use durio_fio::json::{FioOutput, read, write};
/// let output = FioOutput { version: "fio-3.33".to_owned(), ..FioOutput::default() };
/// assert_eq!(read(write(&output).as_bytes()).unwrap().output, output);
/// ```
#[must_use]
pub fn write(output: &FioOutput) -> String {
    let mut printer = Printer::default();
    printer.object(None, |printer| document(printer, output));
    printer.finish()
}

fn document(printer: &mut Printer, output: &FioOutput) {
    printer.text("fio version", &output.version);
    printer.maybe_count("timestamp", output.timestamp);
    printer.maybe_count("timestamp_ms", output.timestamp_ms);
    printer.maybe_text("time", output.time.as_deref());
    if !output.global_options.is_empty() || output.is_client {
        options(printer, "global options", &output.global_options);
    }
    let jobs = if output.is_client { "client_stats" } else { "jobs" };
    printer.array(jobs, |printer| {
        for one in &output.jobs {
            printer.object(None, |printer| job::write(printer, one));
        }
    });
    if let Some(disks) = &output.disk_util {
        printer.array("disk_util", |printer| {
            for one in disks {
                printer.object(None, |printer| disk::write(printer, one));
            }
        });
    }
}

fn options(printer: &mut Printer, key: &str, options: &Options) {
    printer.object(Some(key), |printer| {
        for (name, value) in options {
            printer.text(name, value);
        }
    });
}

#[cfg(test)]
mod tests;
