//! Blocks: their sizes (one, or a mix by weight), and their contents as a definition and in words.
//! `block_filler` makes the bytes.

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::{DefinitionError, PerMille, Workload};

/// One size of a mix and how often it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockShare {
    #[serde(rename = "size_bytes")]
    pub size: Bytes,
    /// Share of the accesses, in thousandths; those of a mix add up to 1000.
    #[serde(rename = "weight_per_mille")]
    pub weight: PerMille,
}

/// The largest number of sizes in one mix.
const SIZES_MAX: usize = 512;

/// Checks a mix: sizes above zero, weights that add up to 1000.
pub(crate) fn validate_mix(mix: &[BlockShare], size_max: Bytes) -> Result<(), DefinitionError> {
    if mix.is_empty() {
        return Ok(());
    }
    let fail = |text: String| Err(DefinitionError(text));
    if mix.len() > SIZES_MAX {
        return fail(format!("a mix of {} block sizes is more than {SIZES_MAX}", mix.len()));
    }
    for share in mix {
        if share.size == Bytes::ZERO || share.size > size_max {
            return fail(format!("block sizes must be 1 B to {size_max}, not {}", share.size));
        }
    }
    let sum: u32 = mix.iter().map(|share| u32::from(share.weight.0)).sum();
    if sum != 1000 {
        return fail(format!("the weights of a block-size mix add up to {sum}, not to 1000"));
    }
    Ok(())
}

/// Draws sizes of a mix: 32 random bits choose one.
#[derive(Debug, Clone)]
pub(crate) struct SizeChoice {
    /// Upper bounds (2³² for the last) and sizes, in the mix's order.
    bounds: Box<[(u64, u64)]>,
}

impl SizeChoice {
    /// The mix, or without one the single size.
    pub(crate) fn new(mix: &[BlockShare], single: Bytes) -> Self {
        if mix.is_empty() {
            return Self { bounds: Box::new([(1 << 32, single.get())]) };
        }
        let mut sum = 0;
        let bounds = mix.iter().map(|share| {
            sum += u64::from(share.weight.0);
            // From the sums and not from the weights, so that rounding adds up to 2³².
            ((sum << 32) / 1000, share.size.get())
        });
        Self { bounds: bounds.collect() }
    }

    /// The size that `bits` (32 of them) choose.
    #[inline]
    pub(crate) fn choose(&self, bits: u64) -> u64 {
        let found = self.bounds.partition_point(|(bound, _)| *bound <= bits);
        self.bounds.get(found).or(self.bounds.last()).map_or(0, |(_, size)| *size)
    }

    pub(crate) fn smallest(&self) -> u64 {
        self.bounds.iter().map(|(_, size)| *size).min().unwrap_or(0)
    }
}

/// What a block holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// Random bytes, which no storage can compress.
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
        /// Repeated from the start of each block; at least one.
        bytes: Vec<u8>,
    },
}

impl Contents {
    /// The share of a block that is random bytes.
    pub fn random_share(&self) -> PerMille {
        match self {
            Self::Incompressible => PerMille::ALL,
            Self::Compressible { zeros } => PerMille(PerMille::ALL.0.saturating_sub(zeros.0)),
            Self::Pattern { .. } => PerMille::NONE,
        }
    }

    /// True if any byte is random; else all blocks are equal.
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

    fn mix(weights: &[(u64, u16)]) -> Vec<BlockShare> {
        let share = |&(kib, weight): &(u64, u16)| BlockShare {
            size: Bytes::from_kib(kib),
            weight: PerMille(weight),
        };
        weights.iter().map(share).collect()
    }

    #[test]
    fn every_draw_of_32_bits_has_a_size_in_proportion_to_its_weight() {
        let mix = mix(&[(4, 550), (8, 230), (16, 168), (32, 52)]);
        let choice = SizeChoice::new(&mix, Bytes::from_kib(32));
        let mut counts = [0_u32; 4];
        for step in 0..1000_u64 {
            let size = choice.choose((step << 32) / 1000 + 1);
            counts[mix.iter().position(|share| share.size.get() == size).unwrap()] += 1;
        }
        assert_eq!(counts, [550, 230, 168, 52]);
        assert_eq!(choice.choose(u64::from(u32::MAX)), 32 << 10);
    }

    #[test]
    fn weights_that_do_not_add_up_are_refused() {
        let limit = Bytes::from_gib(1);
        assert!(validate_mix(&mix(&[(4, 500), (8, 500)]), limit).is_ok());
        assert!(validate_mix(&mix(&[(4, 500), (8, 499)]), limit).is_err());
        assert!(validate_mix(&mix(&[(0, 1000)]), limit).is_err());
        assert!(validate_mix(&mix(&[(4 << 20, 1000)]), limit).is_err());
    }

    #[test]
    fn a_mix_has_its_bounds_and_one_size_is_always_drawn() {
        let limit = Bytes::from_kib(8);
        let fits = |mix: &[BlockShare]| validate_mix(mix, limit).is_ok();
        assert!(fits(&[]) && fits(&mix(&[(8, 1000)])));
        assert!(!fits(&[BlockShare { size: Bytes::new(8193), weight: PerMille(1000) }]));
        assert!(fits(&[BlockShare { size: Bytes::new(1), weight: PerMille(1000) }]));
        assert!(!fits(&mix(&[(4, 500), (8, 501)])));
        let many = |count: usize| {
            let mut all = vec![(4, 0); count - 1];
            all.push((4, 1000));
            fits(&mix(&all))
        };
        assert!(many(512) && !many(513));
        let single = SizeChoice::new(&[], limit);
        assert_eq!([0, u64::from(u32::MAX)].map(|bits| single.choose(bits)), [8192, 8192]);
        assert_eq!(single.smallest(), 8192);
        let choice = SizeChoice::new(&mix(&[(8, 250), (2, 750)]), limit);
        assert_eq!(choice.smallest(), 2048);
        let quarter = 1_u64 << 30;
        let drawn = [0, quarter - 1, quarter, u64::from(u32::MAX)].map(|bits| choice.choose(bits));
        assert_eq!(drawn, [8192, 8192, 2048, 2048]);
    }

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
