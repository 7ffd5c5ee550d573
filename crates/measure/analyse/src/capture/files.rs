//! The writes of one file, their places and syncs; files of one folded name as one, and their class by
//! the operations on them, not by their name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use durio_base::stats::least_squares::{float, quotient};
use durio_observe::CapturedFile;
use serde::{Deserialize, Serialize};

use crate::distribution::percentile;

/// A size, and how many writes had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedSize {
    /// Bytes of a write.
    pub bytes: u64,
    pub count: u64,
}

/// Where writes go, by the one before in the same file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OffsetPattern {
    /// Where the last one ended, or at the start of a file.
    pub continued: u64,
    /// Within the last one: its tail is written again.
    pub tail_rewritten: u64,
    pub elsewhere: u64,
    pub unknown: u64,
}

/// Files of one name but for its numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapturedFileFindings {
    /// The path, its numbers as `#`.
    pub path: String,
    /// How many files that are.
    pub files: usize,
    /// Its class, by the operations on it.
    pub class: FileClass,
    /// The reason for the class.
    pub class_because: String,
    pub writes: u64,
    pub written_bytes: u64,
    /// Bytes beyond those that were written before: a tail that is written again does not count twice.
    pub new_bytes: u64,
    /// By how much the files became larger; `None` if their first size is unknown.
    pub grown_bytes: Option<u64>,
    /// Bytes of the files together.
    pub file_bytes: u64,
    /// Sizes of writes, the most frequent first.
    pub sizes: Vec<CapturedSize>,
    /// What all offsets and sizes are a multiple of.
    pub alignment: u64,
    pub pattern: OffsetPattern,
    /// Flags that matter: `O_DIRECT`, `O_DSYNC`, `O_SYNC`, `O_APPEND`.
    pub flags: Vec<&'static str>,
    /// Number of syncs by system call.
    pub syncs: BTreeMap<&'static str, u64>,
    /// Writes that were durable by flags of theirs or of the file.
    pub durable_writes: u64,
    /// Bytes that were written between two syncs, the most frequent first.
    pub batches: Vec<CapturedSize>,
    /// New bytes of a sync.
    pub new_bytes_per_sync: Option<f64>,
    pub writing_threads: usize,
    pub syncing_threads: usize,
    /// The most syncs that were under way at once.
    pub syncs_at_once: u32,
    /// Syncs that began while another was under way.
    pub overlapping_syncs: u64,
    /// Time of a sync, median, with what tracing adds.
    pub sync_p50_ns: Option<u64>,
    /// The same, 99 of 100.
    pub sync_p99_ns: Option<u64>,
    /// Between the begins of two syncs, median.
    pub between_syncs_p50_ns: Option<u64>,
    /// The same, 99 of 100.
    pub between_syncs_p99_ns: Option<u64>,
    /// Syncs of a second.
    pub syncs_per_second: f64,
    pub errors: u64,
}

impl CapturedFileFindings {
    /// Syncs, and writes that are durable by themselves.
    pub fn durable(&self) -> u64 {
        self.sync_calls() + self.durable_writes
    }

    /// Syncs; a hint of when to write back (sync_file_range) makes nothing durable.
    pub fn sync_calls(&self) -> u64 {
        self.syncs
            .iter()
            .filter(|(name, _)| **name != "sync_file_range")
            .map(|(_, calls)| calls)
            .sum()
    }

    /// The share of writes that go on where the one before ended, or write its tail again.
    pub fn in_order(&self) -> f64 {
        let OffsetPattern { continued, tail_rewritten, elsewhere, .. } = self.pattern;
        quotient(continued + tail_rewritten, continued + tail_rewritten + elsewhere)
    }

    /// The files' growth as a share of the new bytes, if known.
    pub fn growth(&self) -> Option<f64> {
        self.grown_bytes.map(|bytes| quotient(bytes, self.new_bytes))
    }

    /// True if they are known to have grown by most of it.
    pub fn grows(&self) -> bool {
        self.growth().is_some_and(|growth| growth > 0.5)
    }
}

/// How often something happened in each second; zero of a capture without time.
pub(super) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { float(count) / seconds } else { 0.0 }
}

/// An open file descriptor of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenState {
    #[expect(dead_code, reason = "whose position it is")]
    pub(super) file: usize,
    pub(super) position: Option<u64>,
}

/// A file, while events come.
#[derive(Debug, Default)]
pub(super) struct FileState {
    path: String,
    /// By number: it may be opened in several ways.
    pub(super) flags: HashMap<usize, Vec<&'static str>>,
    first_size: Option<u64>,
    size: u64,
    pub(super) is_gone: bool,
    pub(super) errors: u64,
    last: Option<Range<u64>>,
    writes: u64,
    written_bytes: u64,
    new_bytes: u64,
    sizes: BTreeMap<u64, u64>,
    common: u64,
    pattern: OffsetPattern,
    unsynced: u64,
    batches: BTreeMap<u64, u64>,
    syncs: BTreeMap<&'static str, u64>,
    durable_writes: u64,
    writers: BTreeSet<u32>,
    syncers: BTreeSet<u32>,
    under_way: u32,
    at_once: u32,
    overlapping: u64,
    sync_times: Vec<u64>,
    write_times: Vec<u64>,
    begins: Vec<u64>,
}

impl FileState {
    pub(super) fn new(file: &CapturedFile) -> Self {
        let (first_size, size) = (file.size, file.size.unwrap_or(0));
        Self { path: file.path.clone(), first_size, size, ..Self::default() }
    }

    pub(super) const fn end(&self) -> u64 {
        self.size
    }

    pub(super) fn is_append(&self, number: usize) -> bool {
        self.has(number, "O_APPEND")
    }

    pub(super) fn is_durable(&self, number: usize) -> bool {
        self.has(number, "O_DSYNC")
    }

    fn has(&self, number: usize, flag: &str) -> bool {
        self.flags.get(&number).is_some_and(|flags| flags.contains(&flag))
    }

    pub(super) fn write(
        &mut self,
        (begin, end): (u64, u64),
        task: u32,
        offset: Option<u64>,
        bytes: u64,
    ) {
        if self.write_times.len() < WRITE_TIMES_MAX {
            self.write_times.extend(taken(begin, end));
        }
        self.writes += 1;
        self.written_bytes += bytes;
        *self.sizes.entry(bytes).or_default() += 1;
        self.writers.insert(task);
        self.unsynced += bytes;
        self.common |= bytes;
        let Some(begin) = offset else {
            self.pattern.unknown += 1;
            self.new_bytes += bytes;
            return;
        };
        self.common |= begin;
        let end = begin.saturating_add(bytes);
        let new_from = match &self.last {
            // The first write of a file starts it, or continues at its end.
            None if begin == 0 || begin == self.size => {
                self.pattern.continued += 1;
                begin
            }
            Some(last) if begin == last.end => {
                self.pattern.continued += 1;
                begin
            }
            Some(last) if last.contains(&begin) => {
                self.pattern.tail_rewritten += 1;
                last.end
            }
            // A capture that starts amid a file does not know what was before.
            None => {
                self.pattern.unknown += 1;
                begin
            }
            Some(_) => {
                self.pattern.elsewhere += 1;
                begin
            }
        };
        self.new_bytes += end.saturating_sub(new_from);
        self.size = self.size.max(end);
        self.last = Some(begin..end);
    }

    fn begins_at(&mut self, at: u64) {
        self.begins.push(at);
        if self.unsynced > 0 {
            *self.batches.entry(std::mem::take(&mut self.unsynced)).or_default() += 1;
        }
    }

    pub(super) fn sync_begins(&mut self, at: u64) {
        self.overlapping += u64::from(self.under_way > 0);
        self.under_way += 1;
        self.at_once = self.at_once.max(self.under_way);
        self.begins_at(at);
    }

    pub(super) fn sync_ends(
        &mut self,
        begin: u64,
        at: u64,
        task: u32,
        call: &'static str,
        is_good: bool,
    ) {
        self.under_way = self.under_way.saturating_sub(1);
        self.errors += u64::from(!is_good);
        *self.syncs.entry(call).or_default() += 1;
        self.syncers.insert(task);
        self.took(begin, at);
    }

    pub(super) fn durable_write(&mut self, begin: u64, at: u64, task: u32) {
        self.durable_writes += 1;
        self.syncers.insert(task);
        self.begins_at(begin);
        self.took(begin, at);
    }

    fn took(&mut self, begin: u64, at: u64) {
        self.sync_times.extend(taken(begin, at));
    }

    /// Nanoseconds of each write.
    pub(super) fn take_write_times(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.write_times)
    }

    fn is_used(&self) -> bool {
        self.writes > 0 || !self.syncs.is_empty() || self.errors > 0
    }
}

/// Numbers of a path as `#`, as they differ between generations of a file.
pub(super) fn folded_path(path: &str) -> String {
    let mut plain = String::new();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        // Segments of a log may be numbered in hexadecimal letters too (PostgreSQL's 24 digits).
        if part.len() >= 8
            && part.bytes().all(|file| file.is_ascii_digit() || (b'A'..=b'F').contains(&file))
        {
            plain.push('#');
        } else {
            for letter in part.chars() {
                match letter.is_ascii_digit() {
                    true if plain.ends_with('#') => {}
                    true => plain.push('#'),
                    false => plain.push(letter),
                }
            }
        }
        if !is_last {
            plain.push('/');
        }
    }
    plain
}

/// The sizes, the most frequent first.
pub(super) fn by_frequency(sizes: &BTreeMap<u64, u64>) -> Vec<CapturedSize> {
    let mut all: Vec<CapturedSize> =
        sizes.iter().map(|(bytes, count)| CapturedSize { bytes: *bytes, count: *count }).collect();
    all.sort_by_key(|size| (std::cmp::Reverse(size.count), size.bytes));
    all
}

/// Bounds memory to 8 MiB per file: the first writes of a long capture stand for the rest.
const WRITE_TIMES_MAX: usize = 1 << 20;

/// `None` for a call that ends when it begins: a tracer's text does not have its end.
fn taken(begin: u64, end: u64) -> Option<u64> {
    end.checked_sub(begin).filter(|nanos| *nanos > 0)
}

/// The files by folded name, those that most was waited for first.
pub(super) fn folded(files: Vec<FileState>, seconds: f64) -> Vec<CapturedFileFindings> {
    let mut groups: BTreeMap<String, Vec<FileState>> = BTreeMap::new();
    for file in files.into_iter().filter(FileState::is_used) {
        groups.entry(folded_path(&file.path)).or_default().push(file);
    }
    let mut found: Vec<CapturedFileFindings> = groups
        .into_iter()
        .map(|(path, group)| {
            one(if group.len() == 1 { group[0].path.clone() } else { path }, &group, seconds)
        })
        .collect();
    found.sort_by_key(|file| std::cmp::Reverse((file.durable(), file.written_bytes)));
    let most = found.iter().map(CapturedFileFindings::durable).max().unwrap_or(0);
    found.iter_mut().for_each(|file| (file.class, file.class_because) = classify(file, most));
    found
}

fn one(path: String, group: &[FileState], seconds: f64) -> CapturedFileFindings {
    let sum = |of: fn(&FileState) -> u64| group.iter().map(of).sum::<u64>();
    let merged = |of: fn(&FileState) -> &BTreeMap<u64, u64>| {
        let mut all = BTreeMap::new();
        group.iter().flat_map(of).for_each(|(key, count)| *all.entry(*key).or_default() += count);
        by_frequency(&all)
    };
    let threads = |of: fn(&FileState) -> &BTreeSet<u32>| {
        group.iter().flat_map(of).collect::<BTreeSet<_>>().len()
    };
    let mut syncs = BTreeMap::new();
    group
        .iter()
        .flat_map(|file| &file.syncs)
        .for_each(|(name, group)| *syncs.entry(*name).or_default() += group);
    let sorted = |of: fn(&FileState) -> &Vec<u64>| {
        let mut all: Vec<u64> = group.iter().flat_map(of).copied().collect();
        all.sort_unstable();
        all
    };
    let times = sorted(|file| &file.sync_times);
    let begins = sorted(|file| &file.begins);
    let mut between: Vec<u64> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
    between.sort_unstable();
    let common = group.iter().fold(0, |all, file| all | file.common);
    let flags: BTreeSet<_> =
        group.iter().flat_map(|file| file.flags.values()).flatten().copied().collect();
    let mut found = CapturedFileFindings {
        path,
        files: group.len(),
        class: FileClass::Data,
        class_because: String::new(),
        writes: sum(|file| file.writes),
        written_bytes: sum(|file| file.written_bytes),
        new_bytes: sum(|file| file.new_bytes),
        grown_bytes: group
            .iter()
            .map(|group| Some(group.size.saturating_sub(group.first_size?)))
            .sum(),
        file_bytes: sum(|file| file.size),
        sizes: merged(|file| &file.sizes),
        // Larger alignments are not distinguished: no database fills its writes up to more.
        alignment: 1 << common.trailing_zeros().min(15),
        pattern: OffsetPattern {
            continued: sum(|file| file.pattern.continued),
            tail_rewritten: sum(|file| file.pattern.tail_rewritten),
            elsewhere: sum(|file| file.pattern.elsewhere),
            unknown: sum(|file| file.pattern.unknown),
        },
        flags: flags.into_iter().collect(),
        syncs,
        durable_writes: sum(|file| file.durable_writes),
        batches: merged(|file| &file.batches),
        new_bytes_per_sync: None,
        writing_threads: threads(|file| &file.writers),
        syncing_threads: threads(|file| &file.syncers),
        syncs_at_once: group.iter().map(|file| file.at_once).max().unwrap_or(0),
        overlapping_syncs: sum(|file| file.overlapping),
        sync_p50_ns: percentile(&times, 50),
        sync_p99_ns: percentile(&times, 99),
        between_syncs_p50_ns: percentile(&between, 50),
        between_syncs_p99_ns: percentile(&between, 99),
        syncs_per_second: 0.0,
        errors: sum(|file| file.errors),
    };
    // A file that is gone and was never synced is temporary.
    if group.iter().all(|file| file.is_gone) && found.durable() == 0 {
        found.class = FileClass::Temporary;
    }
    let durable = found.durable();
    found.new_bytes_per_sync = (durable > 0).then(|| quotient(found.new_bytes, durable));
    found.syncs_per_second = per_second(durable, seconds);
    found
}

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileClass {
    /// Written in order and synced by a waiting process.
    Log,
    /// Written in order and synced now and then: a checkpoint, a snapshot, a table that is built.
    Checkpoint,
    /// Written here and there.
    Data,
    /// Written, not synced, and gone.
    Temporary,
    /// Written and not synced while it was watched.
    Unsynced,
}

impl FileClass {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Checkpoint => "checkpoint",
            Self::Data => "data",
            Self::Temporary => "temp",
            Self::Unsynced => "unsynced",
        }
    }
}

/// From this share on writes are in order: a log changes its segment now and then.
const IN_ORDER: f64 = 0.8;

/// A log has at least this share of the syncs of the file with the most.
const OFTEN: f64 = 0.1;

/// The class of files, and the reason; `most` are the syncs of the file with the most.
pub(super) fn classify(file: &CapturedFileFindings, most: u64) -> (FileClass, String) {
    let durable = file.durable();
    if durable == 0 {
        let gone = file.class == FileClass::Temporary;
        return match gone {
            true => (FileClass::Temporary, "never synced, and deleted before the end".to_owned()),
            false => (FileClass::Unsynced, "never synced in this time".to_owned()),
        };
    }
    let order = file.in_order();
    let is_known = file.pattern.unknown * 2 <= file.writes;
    let order_text = match is_known {
        true => format!("{:.0} % of writes continue where the previous one ended", 100.0 * order),
        false => "the positions of its writes are unknown".to_owned(),
    };
    let per_sync = quotient(file.writes, durable);
    let text = format!(
        "{order_text}; {per_sync:.1} writes per sync; synced by {}",
        threads(file.syncing_threads)
    );
    let is_often = float(durable) >= OFTEN * float(most);
    let class = match (is_known && order < IN_ORDER, is_often) {
        (true, _) => FileClass::Data,
        (false, true) => FileClass::Log,
        (false, false) => FileClass::Checkpoint,
    };
    (class, text)
}

fn threads(count: usize) -> String {
    if count == 1 { "one thread".to_owned() } else { format!("{count} threads") }
}
