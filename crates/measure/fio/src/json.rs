//! fio's JSON and json+ output, read and written.
//!
//! Reads the bytes of a file that fio 3.0 or later wrote with `--output-format=json` or `json+`,
//! with all that surrounds and repeats the documents in practice, into a [`FioFile`] with the last
//! complete result; [`write()`] turns a result into the same JSON.
//!
//! Accepted without complaint, because fio does it: text before, between and after documents;
//! several documents (`--status-interval`: the last complete one of a run counts; `>> FILE`: runs
//! before the last); `client_stats` instead of `jobs`; missing sections and keys; repeated keys;
//! `nan` and `inf`; unsigned numbers printed as negative ones; control characters and broken UTF-8
//! in strings; numbers as strings. Keys that are not listed in the types are skipped.

mod cursor;
mod files;
mod job;
mod output;
mod table;

pub use files::{FioFile, MAX_BYTES, read, read_file};
pub use job::{
    DirectionFigures, FioJob, LatencyBlock, LatencySearch, LatencyShares, PercentileList,
    PriorityLatency, SteadyStateData, SteadyStateLatency, SteadyStateTest, SyncSection,
};
pub use output::{DiskCounters, DiskUtil, FioOutput, write};
pub use table::{OptionPairs, Shares};
