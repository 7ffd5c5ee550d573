//! What the witness knows: which writes were intended, which were acknowledged, and when.
//!
//! In: the writer's messages. Out: entries in the order in which they came. Not here: how they come
//! (`wire.rs`), what follows from them (`history.rs`).

use durio_base::Nanos;
use serde::{Deserialize, Serialize};

/// A write that is about to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its number, from 1; each is one more than the one before.
    pub seq: u64,
    /// Its first sector.
    pub sector: u64,
    pub sectors: u16,
    /// It is written without a sync, and nobody is promised anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The write will be done; told before it is.
    Intended(Intent),
    /// The write is durable: whatever makes it so has returned.
    Acknowledged {
        /// The write.
        seq: u64,
        /// When the witness heard of it.
        at: Nanos,
    },
    /// A control's write has returned.
    ControlDone {
        /// The write.
        seq: u64,
    },
    /// The power was cut. What comes later is another life of the target.
    Cut { at: Nanos },
}

/// Takes what the writer tells.
pub trait Witness {
    /// What went wrong.
    type Error;

    /// Writes that are known to it before the first of them begins, at least 64: as many as it takes until
    /// an announcement has surely come to where no power cut reaches it.
    const AHEAD: usize = 64;

    /// Writes that will be done. None of them begins before this has returned.
    ///
    /// # Errors
    /// If the witness has not got them.
    fn intend(&mut self, intents: &[Intent]) -> Result<(), Self::Error>;

    /// A write is durable.
    ///
    /// # Errors
    /// If the witness is known to be gone. That it has heard is not known.
    fn acknowledge(&mut self, seq: u64, now: Nanos) -> Result<(), Self::Error>;

    /// A control's write has returned.
    ///
    /// # Errors
    /// As above.
    fn control_done(&mut self, seq: u64) -> Result<(), Self::Error>;
}

/// A ledger in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    entries: Vec<Entry>,
}

impl Ledger {
    /// The entries in their order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds what the witness itself knows, or read.
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl Witness for Ledger {
    type Error = std::convert::Infallible;

    fn intend(&mut self, intents: &[Intent]) -> Result<(), Self::Error> {
        self.entries.extend(intents.iter().map(|&intent| Entry::Intended(intent)));
        Ok(())
    }

    fn acknowledge(&mut self, seq: u64, now: Nanos) -> Result<(), Self::Error> {
        self.entries.push(Entry::Acknowledged { seq, at: now });
        Ok(())
    }

    fn control_done(&mut self, seq: u64) -> Result<(), Self::Error> {
        self.entries.push(Entry::ControlDone { seq });
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
        ledger.push(Entry::Cut { at: Nanos::new(9) });
        let expected = [
            Entry::Intended(intent(1)),
            Entry::Intended(intent(2)),
            Entry::Acknowledged { seq: 1, at: Nanos::new(5) },
            Entry::ControlDone { seq: 2 },
            Entry::Cut { at: Nanos::new(9) },
        ];
        assert_eq!(ledger.entries(), expected);
        ledger.clear();
        assert_eq!((ledger.entries(), Ledger::AHEAD), (&[][..], 64));
    }
}
