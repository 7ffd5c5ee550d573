//! Results about a database's log from a trace, while clients committed.
//!
//! Takes events, the names of the log's files, and the clients' count of commits; returns
//! [`LogFigures`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};

use super::trace::{Call, CallEvent};

/// Begin of the name of a database's folder.
pub(super) const FOLDER_PREFIX: &str = "durio-trace-";

/// The largest alignment to detect: no database fills its writes up to more.
const ALIGNMENT_MAX: u64 = 32 << 10;

/// A load that was traced.
#[derive(Debug, Clone)]
pub(super) struct TracedLoad {
    pub(super) clients: u32,
    /// The clients' count.
    pub(super) commits: u64,
    /// When it ran, microseconds since 1970.
    pub(super) time: Range<u64>,
    /// Bytes of all files of the log before the load, and the maximum during it.
    pub(super) log_bytes: [u64; 2],
}

/// The log under one load.
#[derive(Debug, Default)]
pub(super) struct LogFigures {
    pub(super) clients: u32,
    pub(super) commits: u64,
    pub(super) seconds: f64,
    /// Files of the log that were written, by their plain path, with the flags that they were opened with.
    pub(super) files: BTreeMap<String, BTreeSet<String>>,
    /// Modes of fallocate on the log, since the server started.
    pub(super) allocated: BTreeSet<String>,
    /// Bytes of each write, in order of size.
    pub(super) sizes: Vec<u64>,
    /// The greatest common alignment of all offsets and sizes.
    pub(super) alignment: u64,
    /// Bytes beyond the log's previous end: a rewritten tail does not count twice.
    pub(super) new_bytes: u64,
    /// Writes that began before the last one of their file had ended.
    pub(super) rewrites: usize,
    /// Files of the log that were made.
    pub(super) made: usize,
    /// The growth of the log's files in bytes.
    pub(super) growth: u64,
    /// Syncs of the log by call.
    pub(super) syncs: BTreeMap<String, usize>,
    /// Bytes written between two syncs, in order of size.
    pub(super) batches: Vec<u64>,
    /// Threads that synced the log, with the number of syncs.
    pub(super) syncers: BTreeMap<u32, usize>,
    /// Syncs of the log that began before another had returned.
    pub(super) overlapping: usize,
    /// Syncs of other files.
    pub(super) others: BTreeMap<String, usize>,
}

impl LogFigures {
    /// Derives the results.
    ///
    /// # Errors
    /// If the trace does not show how commits became durable.
    pub(super) fn of(
        events: &[CallEvent],
        is_log: fn(&str) -> bool,
        load: &TracedLoad,
    ) -> Result<Self> {
        ensure!(load.commits > 0, "the clients committed nothing");
        #[expect(clippy::cast_precision_loss, reason = "a load takes no centuries")]
        let seconds = (load.time.end - load.time.start) as f64 / 1e6;
        let mut figures = Self {
            clients: load.clients,
            commits: load.commits,
            seconds,
            growth: load.log_bytes[1].saturating_sub(load.log_bytes[0]),
            alignment: ALIGNMENT_MAX,
            ..Self::default()
        };
        let mut state = LogState::default();
        for event in events.iter().filter(|event| event.begin < load.time.end) {
            let is_during = event.begin >= load.time.start;
            match (is_log(&event.path), is_during) {
                (true, _) => figures.take(event, is_during, &mut state),
                (false, true) => figures.take_other(event),
                (false, false) => {}
            }
        }
        for (path, flags) in &mut figures.files {
            flags.extend(state.flags.get(&file_name(path)).cloned().unwrap_or_default());
        }
        figures.sizes.sort_unstable();
        figures.batches.sort_unstable();
        ensure!(
            !figures.sizes.is_empty() && !figures.syncs.is_empty(),
            "{} commits and no write with a sync of the log is in the trace: it is written otherwise",
            load.commits
        );
        Ok(figures)
    }

    fn take(&mut self, event: &CallEvent, is_during: bool, state: &mut LogState) {
        match &event.call {
            Call::Open(flags) => {
                self.made += usize::from(is_during && flags.contains("O_CREAT"));
                // A segment may be made in another folder and then renamed; a reader says nothing.
                let name = file_name(&event.path);
                if !flags.contains("O_RDONLY") {
                    state.flags.entry(name).or_default().insert(flags.clone());
                }
            }
            Call::Allocate(mode) => {
                self.allocated.insert(mode.clone());
            }
            Call::Write { bytes, offset } => {
                let begin = offset.unwrap_or(state.last(&event.path).end);
                let last = state.ends.insert(event.path.clone(), begin..begin + bytes);
                if is_during {
                    let last = last.unwrap_or(begin..begin);
                    self.write(event, begin..begin + bytes, &last);
                    state.unsynced += bytes;
                }
            }
            Call::Sync(call) if is_during => {
                *self.syncs.entry(call.clone()).or_default() += 1;
                *self.syncers.entry(event.thread).or_default() += 1;
                self.overlapping += usize::from(event.begin < state.sync_end);
                state.sync_end = state.sync_end.max(event.begin + event.duration);
                if state.unsynced > 0 {
                    self.batches.push(std::mem::take(&mut state.unsynced));
                }
            }
            Call::Sync(_) => {}
        }
    }

    fn write(&mut self, event: &CallEvent, range: Range<u64>, last: &Range<u64>) {
        self.files.entry(plain(&event.path)).or_default();
        self.sizes.push(range.end - range.start);
        // A power of two that divides both.
        let common = (range.start | range.end).trailing_zeros();
        self.alignment = self.alignment.min(1_u64.checked_shl(common).unwrap_or(u64::MAX));
        let goes_on = range.start >= last.start && range.start < last.end;
        self.rewrites += usize::from(goes_on);
        let begin = if goes_on { last.end } else { range.start };
        self.new_bytes += range.end.saturating_sub(begin);
    }

    fn take_other(&mut self, event: &CallEvent) {
        if let Call::Sync(call) = &event.call {
            let name = format!("{call} of {}", plain(&event.path));
            *self.others.entry(name).or_default() += 1;
        }
    }

    pub(super) fn sync_count(&self) -> usize {
        self.syncs.values().sum()
    }
}

#[derive(Debug, Default)]
struct LogState {
    flags: BTreeMap<String, BTreeSet<String>>,
    /// The last write of each file.
    ends: BTreeMap<String, Range<u64>>,
    unsynced: u64,
    /// When the last sync returned.
    sync_end: u64,
}

impl LogState {
    fn last(&self, path: &str) -> Range<u64> {
        self.ends.get(path).cloned().unwrap_or_default()
    }
}

/// A path below the database's folder, each number as `#`: files of one kind have one name.
fn plain(path: &str) -> String {
    let below = path
        .split_once(FOLDER_PREFIX)
        .map_or(path, |(_, rest)| rest.split_once('/').map_or("the folder", |(_, below)| below));
    let mut plain = String::new();
    for letter in below.chars() {
        match letter.is_ascii_digit() {
            true if plain.ends_with('#') => {}
            true => plain.push('#'),
            false => plain.push(letter),
        }
    }
    plain
}

fn file_name(path: &str) -> String {
    plain(path.rsplit('/').next().unwrap_or(path))
}

/// A load's report.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LoadReport {
    /// Transactions that were acknowledged.
    pub(crate) commits: u64,
    /// The duration of these commits, in seconds.
    pub(crate) seconds: f64,
    /// Latency of a transaction in microseconds; absent if the benchmark does not measure it.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// Commits that shared a sync; absent if only the database's counter knows it.
    pub(crate) per_sync: Option<f64>,
}

impl LoadReport {
    /// Reads it.
    ///
    /// # Errors
    /// If a line is something else, or commits or their time are missing.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut said = Self::default();
        for line in text.lines() {
            let number = line.split_once(' ').and_then(|(name, number)| {
                let number: f64 = number.trim().parse().ok()?;
                Some((name, number))
            });
            match number.with_context(|| format!("not understood: {line}"))? {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "commits of seconds, and below zero they are none"
                )]
                ("commits", number) => said.commits = number as u64,
                ("seconds", number) => said.seconds = number,
                ("p50_us", number) => said.p50_us = Some(number),
                ("p99_us", number) => said.p99_us = Some(number),
                ("per_sync", number) => said.per_sync = Some(number),
                (name, _) => bail!("'{name}' is not understood"),
            }
        }
        ensure!(said.commits > 0 && said.seconds > 0.0, "the load counted nothing: {text}");
        Ok(said)
    }

    /// Commits per second.
    #[expect(clippy::cast_precision_loss, reason = "commits of seconds")]
    pub(crate) fn rate(&self) -> f64 {
        self.commits as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::parse;

    use super::*;

    /// Two commits that share a sync, then one alone; the page of the log is written again.
    const SHARED: &str = "\
1 0000000010.000000 openat(AT_FDCWD</v/durio-trace-x>, \"pg_wal/0001\", O_RDWR|O_CLOEXEC) = 5</v/durio-trace-x/pg_wal/0001> <0.000001>
1 0000000010.000001 pwrite64(5</v/durio-trace-x/pg_wal/0001>, \"\"..., 8192, 0) = 8192 <0.000001>
1 0000000010.000002 fdatasync(5</v/durio-trace-x/pg_wal/0001>) = 0 <0.000001>
1 0000000011.000000 pwrite64(5</v/durio-trace-x/pg_wal/0001>, \"\"..., 8192, 0) = 8192 <0.000001>
1 0000000011.000010 fdatasync(5</v/durio-trace-x/pg_wal/0001>) = 0 <0.000100>
2 0000000011.000200 pwrite64(5</v/durio-trace-x/pg_wal/0001>, \"\"..., 16384, 0) = 16384 <0.000001>
2 0000000011.000300 fdatasync(5</v/durio-trace-x/pg_wal/0001>) = 0 <0.000100>
2 0000000011.000500 fsync(6</v/durio-trace-x/base/5/1259>) = 0 <0.000100>
";

    fn is_log(path: &str) -> bool {
        path.contains("/pg_wal/")
    }

    fn figures(text: &str, commits: u64) -> Result<LogFigures> {
        let time = 11_000_000..12_000_000;
        let load = TracedLoad { clients: 2, commits, time, log_bytes: [100, 100] };
        LogFigures::of(&parse(text)?, is_log, &load)
    }

    #[test]
    fn only_what_happened_during_the_load_counts_and_a_tail_once() {
        let it = figures(SHARED, 3).unwrap();
        assert_eq!((it.sync_count(), it.sizes.as_slice()), (2, [8192, 16384].as_slice()));
        assert_eq!((it.new_bytes, it.rewrites, it.alignment), (8192, 2, 8192));
        assert_eq!((it.syncers.len(), it.overlapping, it.growth), (2, 0, 0));
        assert_eq!(it.batches, [8192, 16384]);
        assert_eq!(it.files["pg_wal/#"], ["O_RDWR|O_CLOEXEC".to_owned()].into());
        assert_eq!(it.others, [("fsync of base/#/#".to_owned(), 1)].into());
    }

    #[test]
    fn syncs_that_run_side_by_side_are_seen() {
        let late = SHARED.replace(
            "11.000010 fdatasync(5</v/durio-trace-x/pg_wal/0001>) = 0 <0.000100>",
            "11.000010 fdatasync(5</v/durio-trace-x/pg_wal/0001>) = 0 <0.000400>",
        );
        assert_eq!(figures(&late, 3).unwrap().overlapping, 1);
    }

    #[test]
    fn a_log_that_nobody_syncs_and_a_load_without_commits_are_errors() {
        let unsynced: String = SHARED
            .lines()
            .filter(|call| !call.contains("fdatasync"))
            .map(|call| format!("{call}\n"))
            .collect();
        assert!(figures(&unsynced, 3).unwrap_err().to_string().contains("written otherwise"));
        assert!(figures(SHARED, 0).is_err());
    }

    #[test]
    fn a_load_says_what_it_knows_and_what_it_does_not_is_none() {
        let said = LoadReport::parse("seconds 2000000000e-9\ncommits 50\np99_us 7.5\n").unwrap();
        assert_eq!((said.rate(), said.p50_us, said.p99_us), (25.0, None, Some(7.5)));
    }

    #[test]
    fn a_load_that_counted_nothing_or_says_something_else_is_an_error() {
        for text in ["", "commits 0\nseconds 1", "commits 5", "commits many", "5", "rate 5"] {
            assert!(LoadReport::parse(text).is_err(), "{text}");
        }
    }
}
