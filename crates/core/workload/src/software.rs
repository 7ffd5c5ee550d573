//! A database's own work for a commit, in addition to the write and the sync of its log.
//!
//! [`Software`] is plain data that is saved with every result; `durio-run` burns the processor
//! time.

use durio_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::DefinitionError;

/// Who sends transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientThreads {
    /// The database is a library: its callers commit.
    Embedded,
    /// One thread, with a connection for each client: it sends the next transaction of each as soon as it
    /// has read the answer.
    One,
    /// A thread for each client, with a separate connection.
    Each,
}

/// Who writes and syncs the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogWriter {
    /// Each client has a thread of the server. A thread that finds the log free writes for all that
    /// wait.
    Committer,
    /// The same threads hand their records to a thread for the log alone.
    LogThread,
    /// One thread serves all clients: it writes for those whose requests it found together.
    EventLoop,
    /// The client that commits, for itself alone. Others would poll for their turn, so there is one.
    Client,
}

/// The threads of a database and of its clients, and the processor time that they take, in time of
/// the processor on which it was measured (docs/method/predict.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    /// Who sends transactions.
    pub clients: ClientThreads,
    /// Who writes the log.
    pub writer: LogWriter,
    /// A flush that ends wakes all that wait, also those whose records it did not have.
    pub wakes_all: bool,
    /// How often a batch is written and synced, one after the other, before it is acknowledged.
    #[serde(default = "once")]
    pub flushes: u32,
    /// The server's threads take turns on the processors, each at most this long, in the order in
    /// which they became ready, as a built-in scheduler gives them (Go's): not even a flush that
    /// ends overtakes. None if that is left to the kernel.
    #[serde(default, rename = "turn_ns", skip_serializing_if = "Option::is_none")]
    pub turn: Option<Nanos>,
    /// Time of the client, between an answer and its next transaction.
    #[serde(rename = "client_ns")]
    pub client: Nanos,
    /// Time of the server, before the record is handed to the log.
    #[serde(rename = "before_ns")]
    pub before: Nanos,
    /// Time of the server, from the acknowledgement to the answer.
    #[serde(rename = "after_ns")]
    pub after: Nanos,
    /// Time of the log's writer for each batch: others wait for it.
    #[serde(rename = "batch_ns")]
    pub batch: Nanos,
    /// Time of each committer of a flushed batch; none if they have no part in it. The batch ends,
    /// and the next starts, when the last of them has taken it.
    #[serde(default, rename = "apply_ns", skip_serializing_if = "Option::is_none")]
    pub apply: Option<Nanos>,
    /// Before a committer sleeps, it yields its processor for this long, if that was worth it
    /// before; none if it sleeps at once.
    #[serde(default, rename = "yields_ns", skip_serializing_if = "Option::is_none")]
    pub yields: Option<Nanos>,
    /// Time of a server thread each time it has slept, until its caches are warm again.
    #[serde(rename = "wake_ns")]
    pub wake: Nanos,
}

/// More files than any database syncs for a commit.
const FLUSHES_MAX: u32 = 16;

const fn once() -> u32 {
    1
}

// The storage does not limit the rate of a transaction that computes longer.
const TIME_MAX: Nanos = Nanos::from_secs(1);

impl Software {
    /// Checks every bound.
    ///
    /// # Errors
    /// The first violated bound, as a sentence.
    pub fn validate(&self) -> Result<(), DefinitionError> {
        let fail = |text: &str| Err(DefinitionError(text.to_owned()));
        if [self.client, self.before, self.after, self.batch, self.wake]
            .iter()
            .chain(&self.apply)
            .chain(&self.turn)
            .chain(&self.yields)
            .any(|time| *time > TIME_MAX)
        {
            return fail("processor time of a transaction is at most a second");
        }
        if self.flushes == 0 || self.flushes > FLUSHES_MAX {
            return Err(DefinitionError(format!(
                "a batch is written and synced 1 to {FLUSHES_MAX} times, not {}",
                self.flushes
            )));
        }
        let is_embedded = self.clients == ClientThreads::Embedded;
        if is_embedded && self.writer == LogWriter::EventLoop {
            return fail("an event loop has clients of its own: it cannot be embedded");
        }
        if is_embedded && self.client > Nanos::ZERO {
            return fail("an embedded database has no client: its callers' time is 'before'");
        }
        if self.apply.is_some() && self.writer != LogWriter::Committer {
            return fail("only committers that write the log have a part in the end of a batch");
        }
        if self.yields.is_some() && self.writer != LogWriter::Committer {
            return fail("only committers that write the log yield before they sleep");
        }
        if self.turn == Some(Nanos::ZERO) {
            return fail("a turn lasts longer than nothing");
        }
        if self.turn.is_some() && self.writer != LogWriter::LogThread {
            return fail("turns are for a log that is written by a thread of its own");
        }
        if !is_embedded && self.writer == LogWriter::Client {
            return fail("where the client writes the log, the database is embedded in it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_and_bounds_are_refused() {
        let good = Software {
            clients: ClientThreads::One,
            writer: LogWriter::Committer,
            wakes_all: true,
            flushes: 1,
            turn: None,
            client: Nanos::from_micros(2),
            before: Nanos::from_micros(10),
            after: Nanos::ZERO,
            batch: Nanos::ZERO,
            apply: None,
            yields: None,
            wake: Nanos::ZERO,
        };
        good.validate().unwrap();
        let embedded = Software { clients: ClientThreads::Embedded, ..good };
        embedded.validate().unwrap_err();
        let embedded = Software { client: Nanos::ZERO, ..embedded };
        embedded.validate().unwrap();
        Software { writer: LogWriter::EventLoop, ..embedded }.validate().unwrap_err();
        Software { writer: LogWriter::Client, ..embedded }.validate().unwrap();
        Software { writer: LogWriter::Client, ..good }.validate().unwrap_err();
        Software { before: Nanos::from_secs(2), ..good }.validate().unwrap_err();
        let apply = Some(Nanos::ZERO);
        Software { apply, ..good }.validate().unwrap();
        Software { apply, writer: LogWriter::LogThread, ..good }.validate().unwrap_err();
        Software { apply: Some(Nanos::from_secs(2)), ..good }.validate().unwrap_err();
        let yields = Some(Nanos::from_micros(100));
        Software { yields, ..good }.validate().unwrap();
        Software { yields, writer: LogWriter::LogThread, ..good }.validate().unwrap_err();
        let turns = Software { turn: Some(Nanos::new(1)), writer: LogWriter::LogThread, ..good };
        turns.validate().unwrap();
        Software { turn: Some(Nanos::ZERO), ..turns }.validate().unwrap_err();
        Software { writer: LogWriter::Committer, ..turns }.validate().unwrap_err();
        Software { flushes: 0, ..good }.validate().unwrap_err();
        Software { flushes: 17, ..good }.validate().unwrap_err();
    }
}
