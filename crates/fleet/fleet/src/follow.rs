//! Follows the record of a run while durio writes it, so that the process that measures does nothing
//! more: what was appended since the last look, as a report for the coordinator.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use durio_agree::live::{HISTOGRAMS_MAX, LiveOperation, LiveReport, LiveStream};
use durio_base::{Bytes, Nanos};
use durio_block::Folder;
use durio_record::{
    Event, Exact, Interval, OperationName, OperationRecord, TimedEvent, file_names,
};

use crate::child::run_name;

/// What is read at a time; of more, a view needs the newest only.
const READ_MAX: u64 = 2 << 20;
/// Entries of the histogram log whose events have not been seen.
const ENTRIES_MAX: usize = 512;

/// The run below a folder, and how far it was read.
#[derive(Debug)]
pub(crate) struct RecordFollower {
    runs: PathBuf,
    run: Option<Folder>,
    events: GrowingFile,
    histograms: GrowingFile,
    /// Tag and histogram of entries whose events have not been seen.
    entries: VecDeque<(String, String)>,
}

impl RecordFollower {
    pub(crate) fn new(runs: PathBuf) -> Self {
        let [events, histograms] =
            [file_names::EVENTS, file_names::HISTOGRAMS].map(GrowingFile::new);
        Self { runs, run: None, events, histograms, entries: VecDeque::new() }
    }

    /// How far its events were read.
    pub(crate) fn position(&self) -> u64 {
        self.events.offset
    }

    /// What the run has done since the last look; `None` if no interval has ended.
    pub(crate) fn look(&mut self) -> Option<LiveReport> {
        if self.run.is_none() {
            let runs = Folder::open(&self.runs).ok()?;
            self.run = runs.folder(run_name(&runs).ok()??).ok();
        }
        let run = self.run.as_ref()?;
        // In this order: histograms are written before the event that has their tags.
        let events = self.events.read_lines(run).ok()?;
        let log = self.histograms.read_lines(run).unwrap_or_default();
        self.keep_entries(&log);
        let intervals = events.split(|&byte| byte == b'\n').filter_map(read_interval);
        self.report(&intervals.collect::<Vec<_>>())
    }

    fn keep_entries(&mut self, log: &[u8]) {
        let entries = log.split(|&byte| byte == b'\n').filter_map(read_entry);
        for entry in entries {
            if self.entries.len() == ENTRIES_MAX {
                self.entries.pop_front();
            }
            self.entries.push_back(entry);
        }
    }

    fn report(&mut self, intervals: &[Interval]) -> Option<LiveReport> {
        let newest = intervals.last()?;
        let place = |interval: &Interval| (interval.step, interval.round, interval.phase);
        let mut spans: BTreeMap<u32, Nanos> = BTreeMap::new();
        let mut gathered: BTreeMap<(u32, OperationName), GatheredOperation> = BTreeMap::new();
        for interval in intervals.iter().filter(|interval| place(interval) == place(newest)) {
            let span = spans.entry(interval.stream).or_default();
            let length = interval.to.saturating_sub(interval.from);
            *span = Nanos::new(span.get().saturating_add(length.get()));
            for record in &interval.operations {
                let key = (interval.stream, record.operation);
                let entry = self.entry_of(record);
                gathered.entry(key).or_default().add(record, entry);
            }
        }
        let streams = spans.into_iter().filter(|(_, span)| *span > Nanos::ZERO);
        let streams = streams.map(|(stream, span)| LiveStream {
            stream,
            span,
            operations: gathered
                .range((stream, OperationName::Read)..=(stream, OperationName::Reallocate))
                .map(|(&(_, operation), gathered)| gathered.operation(operation))
                .collect(),
        });
        let (step, round, phase) = place(newest);
        Some(LiveReport { step, round, phase, streams: streams.collect() })
    }

    fn entry_of(&mut self, record: &OperationRecord) -> Option<String> {
        let tag = record.response.as_ref().unwrap_or(&record.service).tag()?;
        let at = self.entries.iter().position(|(known, _)| known == tag)?;
        self.entries.remove(at).map(|(_, histogram)| histogram)
    }
}

#[derive(Debug, Default)]
struct GatheredOperation {
    bytes: u64,
    exact: Exact,
    histograms: Vec<String>,
    /// One of its histograms is missing: percentiles of the rest would be of other latencies.
    is_incomplete: bool,
}

impl GatheredOperation {
    fn add(&mut self, record: &OperationRecord, entry: Option<String>) {
        let latency = record.response.as_ref().unwrap_or(&record.service);
        self.bytes = self.bytes.saturating_add(record.bytes.get());
        self.exact.add(&latency.exact);
        match entry.filter(|_| self.histograms.len() < HISTOGRAMS_MAX) {
            Some(histogram) => self.histograms.push(histogram),
            None => self.is_incomplete |= latency.exact.count > 0,
        }
    }

    fn operation(&self, operation: OperationName) -> LiveOperation {
        let (bytes, exact) = (Bytes::new(self.bytes), self.exact);
        let histograms = match self.is_incomplete {
            true => Vec::new(),
            false => self.histograms.clone(),
        };
        LiveOperation { operation, bytes, exact, histograms }
    }
}

/// Other events are not parsed: the end of a step may have thousands of lines.
fn read_interval(line: &[u8]) -> Option<Interval> {
    const KIND: &[u8] = b"\"event\":\"interval\"";
    let head = &line[..line.len().min(100)];
    if !head.windows(KIND.len()).any(|window| window == KIND) {
        return None;
    }
    match TimedEvent::read(line).ok()?.event {
        Event::Interval(interval) => Some(interval),
        _ => None,
    }
}

/// Tag and histogram of an interval's entry: tag, begin, length, maximum, histogram.
fn read_entry(line: &[u8]) -> Option<(String, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let (tag, rest) = line.strip_prefix("Tag=")?.split_once(',')?;
    let histogram = rest.splitn(4, ',').nth(3)?;
    tag.contains(".interval").then(|| (tag.to_owned(), histogram.to_owned()))
}

/// A file that another process appends to.
#[derive(Debug)]
struct GrowingFile {
    name: &'static str,
    /// Opened once, until it is replaced.
    file: Option<File>,
    offset: u64,
    /// The offset is within a line.
    is_in_line: bool,
}

impl GrowingFile {
    fn new(name: &'static str) -> Self {
        Self { name, file: None, offset: 0, is_in_line: false }
    }

    /// The whole lines that were appended since the last call. A file that was replaced or cut is read
    /// from its begin.
    fn read_lines(&mut self, folder: &Folder) -> io::Result<Vec<u8>> {
        let known = self.file.take().and_then(|file| Some((file.metadata().ok()?, file)));
        // An open file that has no name any more was replaced.
        let (facts, file) = match known.filter(|(facts, _)| facts.nlink() > 0) {
            Some(known) => known,
            None => {
                (self.offset, self.is_in_line) = (0, false);
                let file = folder.open_file(self.name)?;
                (file.metadata()?, file)
            }
        };
        let (file, end) = (self.file.insert(file), facts.len());
        if end < self.offset {
            (self.offset, self.is_in_line) = (0, false);
        }
        if end - self.offset > READ_MAX {
            (self.offset, self.is_in_line) = (end - READ_MAX, true);
        }
        let length = usize::try_from(end - self.offset).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, self.offset)?;
        let is_end = |byte: &u8| *byte == b'\n';
        let Some(end) = bytes.iter().rposition(is_end) else {
            // The rest of a line is awaited, unless there is too much of it.
            return Ok(Vec::new());
        };
        bytes.truncate(end + 1);
        self.offset += bytes.len() as u64;
        if std::mem::take(&mut self.is_in_line) {
            let begin = bytes.iter().position(is_end).map_or(0, |end| end + 1);
            bytes.drain(..begin);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::Path;

    use durio_record::Phase;

    use super::*;

    const RUN: &str = "20270101-run";

    fn interval(step: u32, index: u64, count: u64) -> String {
        let (from, to) = (1_000 * index, 1_000 * index + 500);
        format!(
            r#"{{"at_ns":9,"event":"interval","step":{step},"repeat":0,"stream":0,"target":0,"phase":"measure","index":{index},"from_ns":{from},"to_ns":{to},"operations":[{{"operation":"read","bytes":4096,"service":{{"count":{count},"sum_ns":70,"min_ns":3,"max_ns":9,"histogram":"step{step}.interval{index}.read.service"}}}}]}}
"#
        )
    }

    fn entry(step: u32, index: u64) -> String {
        format!("Tag=step{step}.interval{index}.read.service,0.1,0.2,0.3,HIST{step}x{index}\n")
    }

    fn append(runs: &Path, name: &str, text: &str) {
        let path = runs.join(RUN).join(name);
        let mut file = fs::File::options().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn run() -> (tempfile::TempDir, RecordFollower) {
        let runs = tempfile::tempdir().unwrap();
        let follower = RecordFollower::new(runs.path().to_owned());
        fs::create_dir(runs.path().join(RUN)).unwrap();
        (runs, follower)
    }

    /// Step, operations, histograms of the only stream and operation.
    fn told(report: Option<LiveReport>) -> Option<(u32, u64, Vec<String>)> {
        let report = report?;
        let [stream] = &report.streams[..] else { panic!("{report:?}") };
        let [counts] = &stream.operations[..] else { panic!("{report:?}") };
        Some((report.step, counts.exact.count, counts.histograms.clone()))
    }

    #[test]
    fn only_what_was_appended_is_told_with_its_histograms() {
        let (runs, mut follower) = run();
        assert_eq!(follower.look(), None);
        append(runs.path(), "histograms.hlog", &format!("#[header]\n{}", entry(1, 0)));
        append(runs.path(), "events.jsonl", &interval(1, 0, 7));
        let report = follower.look().unwrap();
        assert_eq!((report.step, report.round, report.phase), (1, 0, Phase::Measure));
        let stream = &report.streams[0];
        assert_eq!((stream.span, stream.operations[0].bytes), (Nanos::new(500), Bytes::new(4096)));
        assert_eq!(told(Some(report)), Some((1, 7, vec!["HIST1x0".to_owned()])));
        assert_eq!(follower.look(), None);
        let both = [entry(1, 1), entry(1, 2)].concat();
        append(runs.path(), "histograms.hlog", &both);
        append(runs.path(), "events.jsonl", &[interval(1, 1, 1), interval(1, 2, 2)].concat());
        let histograms = ["HIST1x1", "HIST1x2"].map(str::to_owned).to_vec();
        assert_eq!(told(follower.look()), Some((1, 3, histograms)));
    }

    #[test]
    fn a_line_counts_when_it_is_whole_and_an_entry_may_come_before_its_event() {
        let (runs, mut follower) = run();
        let line = interval(1, 0, 7);
        let (begin, rest) = line.split_at(60);
        append(runs.path(), "histograms.hlog", &entry(1, 0));
        append(runs.path(), "events.jsonl", begin);
        assert_eq!(follower.look(), None);
        append(runs.path(), "events.jsonl", rest);
        assert_eq!(told(follower.look()), Some((1, 7, vec!["HIST1x0".to_owned()])));
    }

    #[test]
    fn a_missing_histogram_leaves_counts_without_percentiles() {
        let (runs, mut follower) = run();
        append(runs.path(), "histograms.hlog", &entry(1, 1));
        append(runs.path(), "events.jsonl", &[interval(1, 0, 7), interval(1, 1, 2)].concat());
        assert_eq!(told(follower.look()), Some((1, 9, Vec::new())));
    }

    #[test]
    fn of_two_steps_the_newer_is_told() {
        let (runs, mut follower) = run();
        append(runs.path(), "histograms.hlog", &[entry(1, 0), entry(2, 0)].concat());
        append(runs.path(), "events.jsonl", &[interval(1, 0, 7), interval(2, 0, 5)].concat());
        assert_eq!(told(follower.look()), Some((2, 5, vec!["HIST2x0".to_owned()])));
    }

    #[test]
    fn a_file_that_was_cut_or_replaced_is_read_from_its_begin() {
        let (runs, mut follower) = run();
        let events = runs.path().join(RUN).join("events.jsonl");
        append(runs.path(), "events.jsonl", &[interval(1, 0, 7), interval(1, 1, 7)].concat());
        assert_eq!(told(follower.look()), Some((1, 14, Vec::new())));
        fs::write(&events, interval(2, 0, 3)).unwrap();
        assert_eq!(told(follower.look()), Some((2, 3, Vec::new())));
        // Longer than before, so only its inode differs.
        let other = runs.path().join("other");
        fs::write(&other, [interval(3, 0, 4), interval(3, 1, 4)].concat()).unwrap();
        fs::rename(&other, &events).unwrap();
        assert_eq!(told(follower.look()), Some((3, 8, Vec::new())));
    }

    #[test]
    fn garbage_is_passed_over() {
        let (runs, mut follower) = run();
        let torn = r#"{"at_ns":1,"event":"interval","step":-1}"#;
        let path = runs.path().join(RUN).join("events.jsonl");
        fs::write(&path, b"\xff\xfe\n\n\0\0\0\n").unwrap();
        append(runs.path(), "events.jsonl", &format!("{torn}\n[[[\n{}", interval(1, 0, 7)));
        append(runs.path(), "histograms.hlog", "Tag=\nTag=step1.interval0.read.service,1\n,,,\n");
        assert_eq!(told(follower.look()), Some((1, 7, Vec::new())));
    }

    #[test]
    fn of_a_backlog_the_newest_2_mib_are_read_and_a_line_without_end_does_not_stay() {
        let (runs, mut follower) = run();
        let long = "x".repeat(5 << 20);
        append(runs.path(), "events.jsonl", &long);
        assert_eq!(follower.look(), None);
        append(runs.path(), "events.jsonl", &format!("{long}\n{}", interval(1, 0, 7)));
        assert_eq!(told(follower.look()), Some((1, 7, Vec::new())));
        append(runs.path(), "events.jsonl", &interval(1, 1, 8));
        assert_eq!(told(follower.look()), Some((1, 8, Vec::new())));
    }

    #[test]
    fn latencies_from_the_intended_start_are_told_where_there_are_any() {
        let (runs, mut follower) = run();
        let response = r#","response":{"count":5,"sum_ns":90,"min_ns":8,"max_ns":30,"histogram":"step1.interval0.read.response"},"service":{"#;
        let line = interval(1, 0, 7).replace(r#","service":{"#, response);
        let log = "Tag=step1.interval0.read.service,0.1,0.2,0.3,SERVICE\n\
                   Tag=step1.interval0.read.response,0.1,0.2,0.3,RESPONSE\n";
        append(runs.path(), "histograms.hlog", log);
        append(runs.path(), "events.jsonl", &line);
        assert_eq!(told(follower.look()), Some((1, 5, vec!["RESPONSE".to_owned()])));
    }

    #[test]
    fn each_stream_has_its_time_and_one_without_any_is_left_out() {
        let (runs, mut follower) = run();
        let on_stream =
            |stream: u32, line: &str| line.replace("\"stream\":0", &format!("\"stream\":{stream}"));
        let empty = interval(1, 0, 3).replace("\"to_ns\":500", "\"to_ns\":0");
        let lines = [
            interval(1, 0, 7),
            interval(1, 1, 8),
            on_stream(1, &interval(1, 0, 4)),
            on_stream(2, &empty),
        ];
        append(runs.path(), "events.jsonl", &lines.concat());
        let report = follower.look().unwrap();
        let streams = report.streams.iter().map(|told| {
            let counts = &told.operations[0];
            (told.stream, told.span.get(), counts.exact.count, counts.bytes.get())
        });
        assert_eq!(streams.collect::<Vec<_>>(), [(0, 1_000, 15, 8_192), (1, 500, 4, 4_096)]);
    }

    #[test]
    fn of_two_rounds_or_phases_of_a_step_the_newer_is_told() {
        for (field, newer) in [
            ("\"stream\":0", "\"round\":1,\"stream\":0"),
            ("\"phase\":\"measure\"", "\"phase\":\"ramp\""),
        ] {
            let (runs, mut follower) = run();
            let lines = [interval(1, 0, 7), interval(1, 1, 5).replace(field, newer)];
            append(runs.path(), "events.jsonl", &lines.concat());
            assert_eq!(told(follower.look()), Some((1, 5, Vec::new())), "{newer}");
        }
    }

    #[test]
    fn of_the_entries_without_an_event_the_newest_512_are_kept() {
        let (runs, mut follower) = run();
        let entries: String = (0..513).map(|index| entry(1, index)).collect();
        append(runs.path(), "histograms.hlog", &entries);
        for (index, histograms) in [(0, Vec::new()), (1, vec!["HIST1x1".to_owned()])] {
            append(runs.path(), "events.jsonl", &interval(1, index, 2));
            assert_eq!(told(follower.look()), Some((1, 2, histograms)), "{index}");
        }
    }

    #[test]
    fn a_report_has_32_histograms_of_an_operation_or_none() {
        for (count, histograms) in [(32, 32), (33, 0)] {
            let (runs, mut follower) = run();
            let entries: String = (0..count).map(|index| entry(1, index)).collect();
            let events: String = (0..count).map(|index| interval(1, index, 1)).collect();
            append(runs.path(), "histograms.hlog", &entries);
            append(runs.path(), "events.jsonl", &events);
            let (_, told_count, told_histograms) = told(follower.look()).unwrap();
            assert_eq!((told_count, told_histograms.len()), (count, histograms));
        }
    }
}
