//! Reads a run folder, also one of a run that was killed.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use durio_block::Folder;
use durio_plan::Plan;
use serde::de::DeserializeOwned;

use crate::error::{failed, is_of_storage, malformed, reading};
use crate::histogram_log::HistogramLogReader;
use crate::{
    Environment, Latency, Manifest, RUN_FOLDER_SCHEMA, RecordError, TimedEvent, file_names, folder,
};

/// A run folder that is read.
#[derive(Debug)]
pub struct RunFolder {
    folder: Folder,
    /// Schema, identity and command.
    pub manifest: Manifest,
    pub plan: Plan,
    /// The machine and the stacks.
    pub environment: Environment,
}

/// The longest event line that is read; an interval's line has some hundred bytes.
const LINE_LENGTH_MAX: u64 = 16 << 20;

impl RunFolder {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// If it is not a run folder, is of a newer schema, or its plan cannot be read.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        const OPERATION: &str = "read the run folder";
        // Held from here on: all reads are from one folder, whatever becomes of its name.
        let folder = folder::open_folder(path, OPERATION)?;
        let manifest = folder::read(&folder, file_names::MANIFEST, RUN_FOLDER_SCHEMA, OPERATION)?;
        let plan: Plan = folder::read_json(&folder, file_names::PLAN)?;
        // Events are looked up in it by index.
        plan.validate()
            .map_err(|reason| malformed("read", &path.join(file_names::PLAN), reason))?;
        let environment = folder::read_json(&folder, file_names::ENVIRONMENT)?;
        Ok(Self { folder, manifest, plan, environment })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Refuses a folder that must not be written to: durio is root, and another user can exchange
    /// its contents.
    ///
    /// # Errors
    /// [`crate::RecordErrorKind::NotOurs`] with the reason.
    pub fn check_owner(&self) -> Result<(), RecordError> {
        folder::check_owner(&self.folder)
    }

    /// A document that not every folder has.
    ///
    /// # Errors
    /// If it is there and cannot be read.
    pub fn document<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RecordError> {
        folder::read_json_if_any(&self.folder, name)
    }

    /// The events, from the first.
    ///
    /// # Errors
    /// If the events or the histograms cannot be opened.
    pub fn events(&self) -> Result<EventReader, RecordError> {
        let open = |name: &str| {
            let file = self.folder.open_file(name);
            let fail = |error| reading(&self.path().join(name), error);
            Ok(BufReader::new(file.map_err(fail)?))
        };
        Ok(EventReader {
            path: self.path().join(file_names::EVENTS),
            lines: open(file_names::EVENTS)?,
            histograms: HistogramLogReader::new(open(file_names::HISTOGRAMS)?),
            line_number: 0,
            whole_bytes: 0,
            has_failed: false,
        })
    }
}

/// Reads the events of a folder in order, up to the end of the file or to the first that is not whole:
/// a line without its end, or one whose histograms are not there. That one is an error that says how
/// much is missing, and after it there is nothing more.
pub struct EventReader {
    path: PathBuf,
    lines: BufReader<File>,
    histograms: HistogramLogReader<BufReader<File>>,
    line_number: u64,
    whole_bytes: u64,
    has_failed: bool,
}

impl std::fmt::Debug for EventReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl EventReader {
    /// The length of the events that were read, from the start of their file.
    pub const fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// After an error: true if nothing behind it was synced ([`Event::must_last`]). Then it is the end
    /// that a power cut leaves, else something was damaged later.
    pub fn is_torn_end(&mut self, plan: &Plan) -> bool {
        loop {
            match self.next_line() {
                Ok(None) => return true,
                // What cannot be read may be anything, and each further read could fail too.
                Err(error) if is_of_storage(&error) => return false,
                Err(_) => {}
                Ok(Some(line)) => {
                    let event = TimedEvent::read(&line).ok();
                    if event.is_some_and(|timed| timed.event.must_last(plan)) {
                        return false;
                    }
                }
            }
        }
    }

    /// The next line with its line feed, which the last one may lack.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut self.lines, LINE_LENGTH_MAX);
        let count = limited
            .read_until(b'\n', &mut line)
            .map_err(|error| failed("read", &self.path, error))?;
        self.line_number += 1;
        // A folder from another user may hold a line without an end.
        if count as u64 == LINE_LENGTH_MAX {
            return Err(self.unreadable("it is longer than 16 MiB"));
        }
        Ok((count > 0).then_some(line))
    }

    /// The current line is not whole, and what follows it is left out.
    fn unreadable(&self, reason: impl std::fmt::Display) -> RecordError {
        let all = fs::metadata(&self.path).map_or(0, |facts| facts.len());
        let missing = all.saturating_sub(self.whole_bytes);
        let number = self.line_number;
        let reason =
            format!("line {number}: {reason}; the last {missing} of its {all} bytes are left out");
        malformed("read", &self.path, reason)
    }

    fn next_event(&mut self) -> Result<Option<TimedEvent>, RecordError> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        if !line.ends_with(b"\n") {
            return Err(self.unreadable("it is incomplete (a kill or a power cut)"));
        }
        let mut timed = TimedEvent::read(&line).map_err(|error| self.unreadable(error))?;
        timed.event.validate().map_err(|reason| self.unreadable(reason))?;
        timed.event.for_each_latency(|latency: &mut Latency, _| self.complete(latency))?;
        self.whole_bytes += line.len() as u64;
        Ok(Some(timed))
    }

    /// Fetches the histogram that a latency refers to.
    fn complete(&mut self, latency: &mut Latency) -> Result<(), RecordError> {
        let Some(tag) = &latency.tag else { return Ok(()) };
        let histogram = self.histograms.next_tagged(tag);
        let histogram = histogram
            .map_err(|error| failed("read the histograms of", &self.path, error))?
            .ok_or_else(|| {
                let reason = format!("the histogram log has no readable entry '{tag}'");
                self.unreadable(reason)
            })?;
        // A different entry of the same tag would give a wrong result without an error.
        if histogram.count() != latency.exact.count {
            let (entry, event) = (histogram.count(), latency.exact.count);
            let reason = format!("it counts {event} where the entry '{tag}' counts {entry}");
            return Err(self.unreadable(reason));
        }
        latency.histogram = Some(histogram);
        Ok(())
    }
}

impl Iterator for EventReader {
    type Item = Result<TimedEvent, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Behind a torn line, new data cannot be separated from older data.
        if self.has_failed {
            return None;
        }
        let event = self.next_event();
        self.has_failed = event.is_err();
        event.transpose()
    }
}
