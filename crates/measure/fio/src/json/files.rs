//! A file that fio wrote: text, documents, text.
//!
//! Reads bytes or a path into a [`FioFile`]: the last complete result and what surrounds it.
//! Memory: the file, at most [`MAX_BYTES`], and two results.

use std::io;
use std::path::Path;

use durio_base::Bytes;
use durio_block::{open_input, read_bounded};

use super::FioOutput;
use super::cursor::{Cursor, JsonFault};
use super::job::{DirectionFigures, FioJob};
use crate::FioError;

/// The largest file that is read: a result with all bins has about 100 KB per job.
pub const MAX_BYTES: u64 = 512 << 20;

const TEXT_MAX_BYTES: usize = 64 << 10;

/// What a file of fio holds.
#[derive(Debug, Clone, PartialEq)]
pub struct FioFile {
    /// The last complete result; fio's results with `--status-interval` cover all since the start.
    pub output: FioOutput,
    /// Complete results before it that are of other runs (`>> FILE`), in their order, each in its last state.
    pub earlier: Vec<FioOutput>,
    /// How many complete results the file has, states of one run among them.
    pub documents: u64,
    /// The line at which a further result ends too early or is damaged, if there is one after the
    /// last complete result.
    pub cut_off_line: Option<u64>,
    /// The text outside the documents, trimmed: fio's messages, its output for people. At most 64
    /// KiB.
    pub text: String,
}

/// Reads a file.
///
/// # Errors
/// [`FioError::Read`], and those of [`read`].
pub fn read_file(path: &Path) -> Result<FioFile, FioError> {
    read(&read_within(path, MAX_BYTES)?)
}

/// All bytes of a file, if they are at most `max`.
fn read_within(path: &Path, max: u64) -> Result<Vec<u8>, FioError> {
    let read = open_input(path).and_then(|file| match file.metadata()?.len() > max {
        // Before any of it takes memory.
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => read_bounded(file, Bytes::new(max)),
    });
    read.map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => too_large(max),
        _ => FioError::Read { path: path.to_owned(), source },
    })
}

/// Reads all documents and keeps the last complete result.
///
/// # Errors
/// Without a complete result: [`FioError::Empty`], [`FioError::NotFio`], or the line at which the
/// document is truncated or wrong, whichever says most. Also if there are more than [`MAX_BYTES`], or
/// fio was older than 3.0.
pub fn read(bytes: &[u8]) -> Result<FioFile, FioError> {
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(too_large(MAX_BYTES));
    }
    let mut search = JsonSearch { text_from: Some(0), ..JsonSearch::default() };
    let mut cursor = Cursor::new(bytes);
    // Only a brace with one of fio's first keys begins a result: messages and what users print have
    // braces too.
    while cursor.find_brace() {
        let start = cursor.at();
        let Some(ahead) = search.result_at(cursor) else {
            // Text after the start of a damaged document is not a message.
            if search.damaged_from == Some(start) {
                search.end_text(bytes, start);
            }
            cursor.step();
            continue;
        };
        search.end_text(bytes, start);
        cursor = ahead;
        search.text_from = Some(cursor.at());
    }
    search.end_text(bytes, bytes.len());
    search.finish(bytes)
}

/// The keys with which fio's documents begin, also after their keys were sorted.
const FIRST_KEYS: [&str; 9] = [
    VERSION,
    "timestamp",
    "timestamp_ms",
    "time",
    "global options",
    "jobs",
    "client_stats",
    "disk_util",
    "cpu_idleness",
];
const VERSION: &str = "fio version";
/// The most braces that are looked at to distinguish other JSON from text.
const OTHER_MAX: u32 = 8;

#[derive(Default)]
struct JsonSearch {
    /// One for each run.
    outputs: Vec<FioOutput>,
    documents: u64,
    /// The last damaged document of fio after the last complete one, and where it begins.
    damaged: Option<JsonFault>,
    damaged_from: Option<usize>,
    /// The first other JSON.
    other_line: Option<u64>,
    others: u32,
    text: String,
    /// Where text began that may be a message; `None` inside a damaged document.
    text_from: Option<usize>,
}

impl JsonSearch {
    /// Reads a result that begins here; returns where it ends, or `None` if no result begins here.
    fn result_at<'a>(&mut self, mut cursor: Cursor<'a>) -> Option<Cursor<'a>> {
        if !cursor.has_first_key(&FIRST_KEYS) {
            self.note_other(cursor);
            return None;
        }
        let (start, line) = (cursor.at(), cursor.line());
        // A tool may have sorted the keys. Then other JSON may begin so too, so damage is reported
        // only for fio's own first key.
        let is_fio = cursor.has_first_key(&[VERSION]);
        match FioOutput::read_fio(&mut cursor) {
            Ok(Some(output)) => {
                if self.outputs.last().is_some_and(|before| is_later_state(before, &output)) {
                    self.outputs.pop();
                }
                self.outputs.push(output);
                self.documents += 1;
                // A complete result repeats the one that was cut off before it.
                self.damaged = None;
                return Some(cursor);
            }
            Err(fault) if is_fio => {
                self.damaged = Some(fault);
                self.damaged_from = Some(start);
            }
            _ => drop(self.other_line.get_or_insert(line)),
        }
        None
    }

    /// Checks for other JSON, unless one was found already or there were too many braces.
    fn note_other(&mut self, mut cursor: Cursor<'_>) {
        // Otherwise a text of braces would be read to its end from each of them.
        if self.other_line.is_some() || self.others >= OTHER_MAX {
            return;
        }
        self.others += 1;
        let line = cursor.line();
        if cursor.skip_value().is_ok() {
            self.other_line = Some(line);
        }
    }

    fn end_text(&mut self, bytes: &[u8], end: usize) {
        let Some(start) = self.text_from.take() else { return };
        let room = TEXT_MAX_BYTES.saturating_sub(self.text.len());
        let bytes = bytes.get(start..end).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes.get(..room).unwrap_or(bytes));
        if !text.trim().is_empty() {
            let gap = if self.text.is_empty() { "" } else { "\n" };
            self.text.extend([gap, text.trim()]);
        }
    }

    fn finish(mut self, bytes: &[u8]) -> Result<FioFile, FioError> {
        let Some(output) = self.outputs.pop() else {
            return Err(self.failure(bytes));
        };
        if is_too_old(&output.version) {
            let version = output.version;
            let what = format!("written by {version}; durio reads results of fio 3.0 and later");
            return Err(FioError::Other(what));
        }
        let cut_off_line = self.damaged.map(|fault| fault.line);
        let (earlier, documents) = (self.outputs, self.documents);
        Ok(FioFile { output, earlier, documents, cut_off_line, text: self.text })
    }

    fn failure(self, bytes: &[u8]) -> FioError {
        if let Some(fault) = self.damaged {
            fault.into()
        } else if let Some(line) = self.other_line {
            FioError::NotFio { line }
        } else {
            without_json(bytes)
        }
    }
}

/// How far the clock of fio's documents and its run times may be apart: documents have whole seconds.
const CLOCKS_APART_MS: u64 = 2000;

/// The most by which the clock of documents and the growth of `elapsed`, which counts a started
/// second, may differ within a run.
const ELAPSED_APART_MS: u64 = 1000;

/// True if both say when they began, and not the same; one that is still to begin says 0.
fn is_of_another_start(before: &FioJob, after: &FioJob) -> bool {
    let start = |job: &FioJob| job.job_start.filter(|start| *start > 0);
    start(before).zip(start(after)).is_some_and(|(before, after)| before != after)
}

/// True if both are of one run, the second as it was later (`--status-interval`), or once more.
///
/// The same jobs must have done at least as much, and must have run for as long as lies between the documents: a
/// run that was repeated has run for about the same time, however much later.
fn is_later_state(before: &FioOutput, after: &FioOutput) -> bool {
    let sides = |job: &FioJob| {
        [&job.read, &job.write, &job.trim].map(|figures| figures.clone().unwrap_or_default())
    };
    let has_gone_on = |(before, after): (&FioJob, &FioJob)| {
        let went_on = |(before, after): (DirectionFigures, DirectionFigures)| {
            before.total_ios <= after.total_ios && before.runtime <= after.runtime
        };
        (&before.jobname, before.groupid) == (&after.jobname, after.groupid)
            && sides(before).into_iter().zip(sides(after)).all(went_on)
    };
    let pairs = || before.jobs.iter().zip(&after.jobs);
    if before.jobs.len() != after.jobs.len() || !pairs().all(has_gone_on) {
        return false;
    }
    if pairs().any(|(before, after)| is_of_another_start(before, after)) {
        return false;
    }
    let is_same = |(before, after): (&FioJob, &FioJob)| {
        (&before.read, &before.write, &before.sync) == (&after.read, &after.write, &after.sync)
    };
    let ran = |output: &FioOutput| {
        let of_jobs = output.jobs.iter().flat_map(sides).map(|figures| figures.runtime);
        of_jobs.max().unwrap_or(0)
    };
    let at = |output: &FioOutput| {
        output.timestamp_ms.or_else(|| output.timestamp.map(|seconds| seconds.saturating_mul(1000)))
    };
    let ran_on = ran(after).saturating_sub(ran(before));
    let elapsed = |output: &FioOutput| output.jobs.iter().filter_map(|job| job.elapsed).max();
    if let Some((before_at, after_at)) = at(before).zip(at(after))
        && let Some((before, after)) = elapsed(before).zip(elapsed(after))
        && after_at.abs_diff(before_at).abs_diff(after.saturating_sub(before).saturating_mul(1000))
            > ELAPSED_APART_MS
    {
        return false;
    }
    let is_on_time = || match at(before).zip(at(after)) {
        Some((before, after)) => after.abs_diff(before).abs_diff(ran_on) <= CLOCKS_APART_MS,
        None => true,
    };
    pairs().all(is_same) || (ran_on > 0 && is_on_time())
}

fn without_json(bytes: &[u8]) -> FioError {
    let start = bytes.trim_ascii_start();
    let start = String::from_utf8_lossy(start.get(..400).unwrap_or(start)).into_owned();
    match start.lines().next() {
        None => FioError::Empty,
        Some(line) => {
            let line: String = line.chars().take(120).collect();
            FioError::Other(format!(
                "not JSON: the file begins with '{line}'; run fio with --output-format=json+"
            ))
        }
    }
}

fn too_large(max: u64) -> FioError {
    FioError::Other(format!(
        "more than {max} bytes: too large for a fio result that durio can read"
    ))
}

/// True for fio 2.x and older; names without a number are taken as new.
// Those counted in µs.
fn is_too_old(version: &str) -> bool {
    let digits =
        version.trim_start_matches("fio-").split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < 3)
}

#[cfg(test)]
mod tests;
