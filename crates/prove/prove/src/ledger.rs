//! The witness's knowledge: which writes were intended, which were acknowledged, and when.
//!
//! Turns the writer's messages into entries in order of arrival. `wire.rs` carries the messages;
//! `history.rs` interprets the entries.

use durio_base::Nanos;
use serde::{Deserialize, Serialize};

use crate::error::ProveError;

/// A write that is about to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its number, from 1; each is one more than the one before.
    pub seq: u64,
    pub sector: u64,
    pub sectors: u16,
    /// Written without a sync, so nothing is promised.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerEntry {
    /// The write is about to be done.
    Intended(Intent),
    /// The write is durable: the call that makes it so has returned.
    Acknowledged {
        seq: u64,
        /// When the witness heard of it.
        at: Nanos,
    },
    /// A control's write has returned.
    ControlDone { seq: u64 },
    /// The power was cut. Later entries belong to another life of the target.
    Cut { at: Nanos },
}

/// Takes the writer's messages.
pub trait Witness {
    /// Writes announced before the first of them starts, at least 64: enough for an announcement to
    /// be safe from any power cut.
    const AHEAD: usize = 64;

    /// Announces writes. None of them starts before this has returned.
    ///
    /// # Errors
    /// If the witness has not received them.
    fn intend(&mut self, intents: &[Intent]) -> Result<(), ProveError>;

    /// Reports a durable write.
    ///
    /// # Errors
    /// If the witness is known to be gone. Success does not mean that it was heard.
    fn acknowledge(&mut self, seq: u64, now: Nanos) -> Result<(), ProveError>;

    /// A control's write has returned.
    ///
    /// # Errors
    /// As above.
    fn control_done(&mut self, seq: u64) -> Result<(), ProveError>;
}

/// A ledger in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: Vec<LedgerEntry>,
}

impl Ledger {
    /// The entries in their order.
    #[must_use]
    pub fn entries(&self) -> &[LedgerEntry] {
        &self.entries
    }

    /// Adds an entry of the witness itself.
    pub fn push(&mut self, entry: LedgerEntry) {
        self.entries.push(entry);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl Witness for Ledger {
    fn intend(&mut self, intents: &[Intent]) -> Result<(), ProveError> {
        self.entries.extend(intents.iter().map(|&intent| LedgerEntry::Intended(intent)));
        Ok(())
    }

    fn acknowledge(&mut self, seq: u64, now: Nanos) -> Result<(), ProveError> {
        self.entries.push(LedgerEntry::Acknowledged { seq, at: now });
        Ok(())
    }

    fn control_done(&mut self, seq: u64) -> Result<(), ProveError> {
        self.entries.push(LedgerEntry::ControlDone { seq });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_has_what_it_was_told_in_its_order_until_it_forgets() {
        let intent = |seq| Intent { seq, sector: 8 * seq, sectors: 8, is_control: false };
        let mut ledger = Ledger::default();
        ledger.intend(&[intent(1), intent(2)]).unwrap();
        ledger.acknowledge(1, Nanos::new(5)).unwrap();
        ledger.control_done(2).unwrap();
        ledger.push(LedgerEntry::Cut { at: Nanos::new(9) });
        let expected = [
            LedgerEntry::Intended(intent(1)),
            LedgerEntry::Intended(intent(2)),
            LedgerEntry::Acknowledged { seq: 1, at: Nanos::new(5) },
            LedgerEntry::ControlDone { seq: 2 },
            LedgerEntry::Cut { at: Nanos::new(9) },
        ];
        assert_eq!(ledger.entries(), expected);
        ledger.clear();
        assert_eq!((ledger.entries(), Ledger::AHEAD), (&[][..], 64));
    }
}
