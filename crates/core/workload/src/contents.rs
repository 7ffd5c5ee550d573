//! The contents of writes, as a definition and in words. `block_filler` makes the bytes.

use serde::{Deserialize, Serialize};

use crate::{PerMille, Workload};

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Random bytes.
    #[default]
    Incompressible,
    /// This share of each 4 KiB is zeros at the end, the rest random.
    Compressible {
        /// The zeros, in thousandths.
        #[serde(rename = "zeros_per_mille")]
        zeros: PerMille,
    },
    /// The same bytes over and over.
    Pattern {
        /// At least one.
        bytes: Vec<u8>,
    },
}

impl Contents {
    /// The share of a block that is random bytes.
    #[must_use]
    pub fn random_share(&self) -> PerMille {
        match self {
            Self::Incompressible => PerMille::ALL,
            Self::Compressible { zeros } => PerMille(PerMille::ALL.0.saturating_sub(zeros.0)),
            Self::Pattern { .. } => PerMille::NONE,
        }
    }

    /// True if any byte is random; else all blocks are equal.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.random_share() > PerMille::NONE
    }
}

/// How contents change from one write to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// Every write has new bytes (fio: `refill_buffers`).
    EachWrite,
    /// The buffers are filled once; some bytes in each 512 are new in each write (fio:
    /// `scramble_buffers`). No two blocks are equal, but compression finds the rest again.
    Scrambled,
    /// The buffers are filled once and written as they are.
    Never,
}

impl Renewal {
    // Records without the field are of versions that changed 8 bytes in each 4 KiB.
    pub(crate) const fn of_old_records() -> Self {
        Self::Scrambled
    }
}

impl Workload {
    /// What it writes, in words: "incompressible, every block unique". None if it only reads.
    #[must_use]
    pub fn data_words(&self) -> Option<String> {
        if !self.writes() {
            return None;
        }
        let kind = match &self.contents {
            Contents::Pattern { bytes } => return Some(pattern_words(bytes)),
            Contents::Compressible { zeros: PerMille::ALL } => return Some("zeros".to_owned()),
            Contents::Compressible { zeros } if zeros.0 > 0 => {
                format!("compressible to {}", percent(self.contents.random_share()))
            }
            _ => "incompressible".to_owned(),
        };
        Some(match (self.renewal, self.duplicates) {
            (Renewal::EachWrite, PerMille::NONE) => format!("{kind}, every block unique"),
            (Renewal::EachWrite, share) => format!("{kind}, {} of blocks repeat", percent(share)),
            (Renewal::Scrambled, _) => format!(
                "{kind} within a block, but buffers are reused with a few bytes changed: \
                 compression and delta encoding find most of each block again"
            ),
            (Renewal::Never, _) => {
                format!("{kind} within a block, but the same buffers are written again and again")
            }
        })
    }
}

fn percent(share: PerMille) -> String {
    format!("{} %", f64::from(share.0) / 10.0)
}

fn pattern_words(bytes: &[u8]) -> String {
    /// Longer patterns are cut.
    const SHOWN: usize = 8;
    let digits: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > SHOWN { "…" } else { "" };
    format!("the pattern 0x{digits}{more} in every block")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(contents: Contents, renewal: Renewal, duplicates: u16) -> String {
        let duplicates = PerMille(duplicates);
        let read_share = PerMille::NONE;
        let workload =
            Workload { contents, renewal, duplicates, read_share, ..Workload::default() };
        workload.validate().unwrap();
        workload.data_words().unwrap()
    }

    #[test]
    fn words_say_what_is_written() {
        let half = || Contents::Compressible { zeros: PerMille(500) };
        let unique = words(Contents::Incompressible, Renewal::EachWrite, 0);
        assert_eq!(unique, "incompressible, every block unique");
        let mixed = words(half(), Renewal::EachWrite, 200);
        assert_eq!(mixed, "compressible to 50 %, 20 % of blocks repeat");
        let zeros = Contents::Compressible { zeros: PerMille::ALL };
        assert_eq!(words(zeros, Renewal::EachWrite, 0), "zeros");
        let pattern = Contents::Pattern { bytes: vec![0xde, 0xad] };
        assert_eq!(words(pattern, Renewal::Never, 0), "the pattern 0xdead in every block");
        let reused = words(Contents::Incompressible, Renewal::Scrambled, 0);
        assert!(reused.contains("reused"), "{reused}");
        assert_eq!(Workload::default().data_words(), None);
    }

    #[test]
    fn a_record_that_says_nothing_of_renewal_is_of_buffers_that_were_reused() {
        let mut saved = serde_json::to_value(Workload::default()).unwrap();
        assert_eq!(saved["renewal"], "each_write");
        saved.as_object_mut().unwrap().remove("renewal");
        let old: Workload = serde_json::from_value(saved).unwrap();
        assert_eq!(old.renewal, Renewal::Scrambled);
    }

    #[test]
    fn shares_and_patterns_are_told_with_their_numbers() {
        let zeros = |share| Contents::Compressible { zeros: PerMille(share) };
        let shares = [0, 255, 999, 1000].map(|share| zeros(share).random_share().0);
        assert_eq!(shares, [1000, 745, 1, 0]);
        assert!(zeros(999).is_random() && !zeros(1000).is_random());
        assert_eq!(Contents::Incompressible.random_share(), PerMille::ALL);
        assert!(!Contents::Pattern { bytes: vec![1] }.is_random());
        let none = words(zeros(0), Renewal::EachWrite, 0);
        assert_eq!(none, "incompressible, every block unique");
        let some = words(zeros(1), Renewal::Never, 0);
        assert!(some.starts_with("compressible to 99.9 % within a block, but the same"), "{some}");
        let pattern = |count: u8| {
            words(Contents::Pattern { bytes: (1..=count).collect() }, Renewal::Never, 0)
        };
        assert_eq!(pattern(8), "the pattern 0x0102030405060708 in every block");
        assert_eq!(pattern(9), "the pattern 0x0102030405060708… in every block");
    }
}
