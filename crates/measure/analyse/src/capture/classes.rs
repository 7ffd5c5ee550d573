//! The class of a file, from the operations on it and not from its name.

use serde::Serialize;

use super::files::{CapturedFileFindings, share};

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
    #[must_use]
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
pub(super) fn classify(it: &CapturedFileFindings, most: u64) -> (FileClass, String) {
    let durable = it.durable();
    if durable == 0 {
        let gone = it.class == FileClass::Temporary;
        return match gone {
            true => (FileClass::Temporary, "never synced, and gone at the end".to_owned()),
            false => (FileClass::Unsynced, "never synced in this time".to_owned()),
        };
    }
    let order = it.in_order();
    let is_known = it.pattern.unknown * 2 <= it.writes;
    let order_text = match is_known {
        true => format!("{:.0} % of writes go on where the last one was", 100.0 * order),
        false => "where its writes go is not known".to_owned(),
    };
    let per_sync = share(it.writes, durable);
    let text = format!(
        "{order_text}; {per_sync:.1} writes to a sync; synced by {}",
        threads(it.syncing_threads)
    );
    #[expect(clippy::cast_precision_loss, reason = "counts of one capture")]
    let is_often = durable as f64 >= OFTEN * most as f64;
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
