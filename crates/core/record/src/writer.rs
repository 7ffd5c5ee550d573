//! Writes a run folder.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use durio_base::Nanos;
use durio_block::Folder;
use durio_plan::{Plan, Role};
use serde::Serialize;

use crate::error::{failed, malformed};
use crate::histogram_log::HistogramLogWriter;
use crate::{Environment, Event, Latency, Manifest, RecordError, TimedEvent, file_names, folder};

/// Writes the events of one run. A failed record must fail the run, because the record is the
/// product: every error is returned.
pub struct RecordWriter {
    folder: Folder,
    events: BufWriter<File>,
    histograms: HistogramLogWriter<BufWriter<File>>,
    /// Separates tags from those that were written before the run was interrupted.
    part: u32,
}

impl std::fmt::Debug for RecordWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordWriter").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl RecordWriter {
    /// Makes the folder, which must not exist, and writes the data known before the first event.
    ///
    /// # Errors
    /// If the folder exists or a file cannot be written.
    pub fn create(
        folder: &Path,
        manifest: &Manifest,
        plan: &Plan,
        environment: &Environment,
    ) -> Result<Self, RecordError> {
        let parent = folder.parent().unwrap_or(Path::new(""));
        let folder = folder::make_folder(folder, "make the run folder")?;
        write_json(&folder, file_names::PLAN, plan)?;
        write_json(&folder, file_names::ENVIRONMENT, environment)?;
        // Both are there before the manifest: a folder without one of them is damaged, not young.
        let events = create(&folder, file_names::EVENTS)?;
        let path = folder.path().join(file_names::HISTOGRAMS);
        let log = create(&folder, file_names::HISTOGRAMS)?;
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let histograms =
            HistogramLogWriter::new(log, started).map_err(|error| failed("write", &path, error))?;
        let mut writer = Self { folder, events, histograms, part: 0 };
        // The header: a resumed run appends and writes none.
        writer.sync_histograms()?;
        sync_names(&writer.folder)?;
        // Last: a folder with a manifest is a run folder, and has all that was written before it.
        folder::replace(&writer.folder, file_names::MANIFEST, manifest)?;
        // The folder's own name is in its parent, which syncing the folder does not make last
        // (fsync(2)).
        sync_names(&folder::open_folder(parent, "sync")?)?;
        Ok(writer)
    }

    /// Continues the record of an interrupted run, for the `part`-th time. Events behind the first
    /// `whole_bytes` ([`crate::EventReader::whole_bytes`]) were unreadable: they are cut off, and
    /// so is the end of an unfinished histogram.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn resume(folder: &Path, part: u32, whole_bytes: u64) -> Result<Self, RecordError> {
        let folder = folder::open_folder(folder, "resume the run folder")?;
        folder::check_owner(&folder)?;
        let events = append(&folder, file_names::EVENTS, |_| Ok(whole_bytes))?;
        let log = append(&folder, file_names::HISTOGRAMS, end_of_whole_lines)?;
        let histograms = HistogramLogWriter::resumed(log);
        Ok(Self { folder, events, histograms, part })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Appends an event that happened `at` after the run's start.
    ///
    /// Histograms go first and both files are flushed, so that a reader of an event finds them and
    /// a killed run loses at most the event being written. A power cut may take anything written
    /// since the last [`Self::write_synced`], and different amounts from each file.
    ///
    /// # Errors
    /// If a file cannot be written, for example because its disk is full.
    pub fn write(&mut self, at: Nanos, mut event: Event) -> Result<(), RecordError> {
        self.write_histograms(at, &mut event)?;
        self.write_event(at, event)
    }

    /// The same, and makes all events until this one last: histograms first, so that this event is
    /// never in a record that lacks one. It waits for the storage below the record, so it must not
    /// be called during a measurement.
    ///
    /// # Errors
    /// If a file cannot be written or synced.
    pub fn write_synced(&mut self, at: Nanos, mut event: Event) -> Result<(), RecordError> {
        // An event that refers to a histogram must never be on disk without it.
        self.write_histograms(at, &mut event)?;
        self.sync_histograms()?;
        self.write_event(at, event)?;
        let fail = |error| failed("sync", &self.path(file_names::EVENTS), error);
        // fdatasync writes the new length too, without which no event can be read; times may be
        // lost.
        self.events.get_ref().sync_data().map_err(fail)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sync_histograms(&mut self) -> Result<(), RecordError> {
        let log = self.histograms.writer_mut();
        let synced = log.flush().and_then(|()| log.get_ref().sync_data());
        synced.map_err(|error| failed("sync", &self.path(file_names::HISTOGRAMS), error))
    }

    fn write_event(&mut self, at: Nanos, event: Event) -> Result<(), RecordError> {
        let path = self.path(file_names::EVENTS);
        let fail = |error| failed("write", &path, error);
        let line = serde_json::to_vec(&TimedEvent { at, event })
            .map_err(|error| malformed("write", &path, error))?;
        self.events.write_all(&line).map_err(fail)?;
        self.events.write_all(b"\n").map_err(fail)?;
        // To the kernel, not to the disk: a kill loses only this process's memory.
        self.events.flush().map_err(fail)
    }

    fn write_histograms(&mut self, at: Nanos, event: &mut Event) -> Result<(), RecordError> {
        let path = self.path(file_names::HISTOGRAMS);
        let fail = |error| failed("write", &path, error);
        let (_, length) = event.span();
        let start = Duration::from(at.saturating_sub(length));
        let (log, part) = (&mut self.histograms, self.part);
        event.for_each_latency(|latency: &mut Latency, mut tag| {
            // The steps that are run again have the same names, and the log has the first ones too.
            if part > 0 {
                tag.push_str(&format!(".part{part}"));
            }
            let Some(histogram) = &latency.histogram else { return Ok(()) };
            log.write(&tag, start, length.into(), histogram).map_err(fail)?;
            latency.tag = Some(tag);
            Ok(())
        })?;
        log.writer_mut().flush().map_err(fail)
    }

    /// Saves a file that was derived from the record, such as the report.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, name: &str, contents: &[u8]) -> Result<(), RecordError> {
        folder::replace_bytes(&self.folder, name, contents)
    }
}

impl Event {
    /// True if the record must have it after a power cut: it concludes a step, a round or the run.
    /// The end of a step that only prepared a target need not last: the resulting state must not
    /// settle while the record waits for its disk, and no results can be lost. The step after
    /// it syncs for both.
    pub fn must_last(&self, plan: &Plan) -> bool {
        match self {
            Self::StepEnded(ended) => {
                let step = plan.steps.get(ended.step as usize);
                step.is_none_or(|step| step.role != Role::Precondition)
            }
            Self::StepDeclined(_) | Self::RoundEnded(_) | Self::RunEnded(_) => true,
            _ => false,
        }
    }
}

/// Makes the names in a folder last.
fn sync_names(folder: &Folder) -> Result<(), RecordError> {
    folder.sync().map_err(|error| failed("sync", folder.path(), error))
}

/// Opens a file to append to at its `end`, and cuts off the rest.
pub(crate) fn append(
    folder: &Folder,
    name: &str,
    end: impl FnOnce(&mut File) -> std::io::Result<u64>,
) -> Result<BufWriter<File>, RecordError> {
    let fail = |error| failed("go on with", &folder.path().join(name), error);
    let mut file = folder.open_own(name).map_err(fail)?;
    let end = end(&mut file).map_err(fail)?;
    // Cut off before anything is appended, else a torn line would begin the next whole one.
    file.set_len(end).map_err(fail)?;
    file.seek(SeekFrom::Start(end)).map_err(fail)?;
    Ok(BufWriter::new(file))
}

/// The offset behind the last line feed.
pub(crate) fn end_of_whole_lines(file: &mut File) -> std::io::Result<u64> {
    // From the end: the last line feed is near it, however long the log is.
    const CHUNK: u64 = 64 << 10;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut chunk = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(CHUNK);
        file.seek(SeekFrom::Start(begin))?;
        chunk.clear();
        Read::by_ref(file).take(end - begin).read_to_end(&mut chunk)?;
        if let Some(place) = chunk.iter().rposition(|&byte| byte == b'\n') {
            return Ok(begin + place as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

fn create(folder: &Folder, name: &str) -> Result<BufWriter<File>, RecordError> {
    let fail = |error| failed("make", &folder.path().join(name), error);
    Ok(BufWriter::new(folder.make_file(name).map_err(fail)?))
}

fn write_json(folder: &Folder, name: &str, value: &impl Serialize) -> Result<(), RecordError> {
    let path = folder.path().join(name);
    let text = folder::to_json(&path, value)?;
    let written = folder.make_file(name).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(|error| failed("write", &path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(parts: &[&[u8]]) -> u64 {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&parts.concat()).unwrap();
        end_of_whole_lines(&mut file).unwrap()
    }

    #[test]
    fn the_last_line_feed_is_found_wherever_it_lies() {
        let long = |bytes: usize| vec![b'x'; bytes];
        assert_eq!((end_of(&[]), end_of(&[b"torn"]), end_of(&[b"\n"])), (0, 0, 1));
        assert_eq!((end_of(&[b"ab\n"]), end_of(&[b"ab\ncd"]), end_of(&[b"a\nb\n"])), (3, 3, 4));
        // Around a chunk of 64 KiB from the end, and two of them.
        for behind in [65_534, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073] {
            assert_eq!(end_of(&[b"ab\n", &long(behind)]), 3, "{behind}");
            assert_eq!(end_of(&[&long(70_000), b"\n", &long(behind)]), 70_001, "{behind}");
            assert_eq!(end_of(&[&long(behind)]), 0, "{behind}");
        }
    }

    #[test]
    fn the_end_of_a_step_a_round_and_the_run_must_last() {
        use crate::RunFolder;
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
        let mut plan = RunFolder::open(&golden).unwrap().plan;
        plan.steps[1].role = Role::Precondition;
        let lasts = |text: &str| {
            let line = format!(r#"{{"at_ns":1,"event":{text}}}"#);
            TimedEvent::read(line.as_bytes()).unwrap().event.must_last(&plan)
        };
        let step = |step: u32| {
            lasts(&format!(
                r#""step_ended","step":{step},"outcome":"complete","measured_ns":5,"cpu":null,"devices":[]"#
            ))
        };
        assert_eq!([step(0), step(1), step(2)], [true, false, true]);
        assert!(lasts(r#""step_declined","step":2,"message":"m""#));
        assert!(lasts(r#""round_ended","section":0,"round":0,"decision":"reached""#));
        assert!(lasts(r#""run_ended","outcome":"complete","memory_max_bytes":1"#));
        assert!(!lasts(r#""warning","message":"m""#));
        assert!(!lasts(r#""run_resumed","step":4,"repeated":[0],"resumed":"now""#));
    }
}
