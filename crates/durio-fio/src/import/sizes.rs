//! Block sizes: `bs`, `bsrange`, `bssplit`, `blockalign`.
//!
//! In: the options per direction. Out: the sizes of a workload. Not here: offsets.

use durio_units::Bytes;
use durio_workload::{BlockShare, PerMille};

use super::said::Said;
use crate::job_file::{BlockSizeShare, Direction, Given, PerDirection, Place};

/// fio's block size where nothing is said.
const BLOCK_DEFAULT: u64 = 4096;
/// The most sizes that a mix may have.
const SIZES_MAX: u64 = 512;

/// The sizes of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mix {
    shares: Vec<BlockShare>,
}

impl Mix {
    fn smallest(&self) -> u64 {
        self.shares.iter().map(|share| share.size.get()).min().unwrap_or(BLOCK_DEFAULT)
    }

    fn largest(&self) -> u64 {
        self.shares.iter().map(|share| share.size.get()).max().unwrap_or(BLOCK_DEFAULT)
    }
}

/// The sizes of a workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sizes {
    pub(super) block_size: u64,
    /// Of reads, or of all accesses; empty for one size.
    pub(super) mix: Vec<BlockShare>,
    /// Of writes, where they differ.
    pub(super) write_mix: Vec<BlockShare>,
    /// The smallest of all.
    pub(super) smallest: u64,
    /// The smallest of each direction that occurs.
    smallest_each: Vec<(u64, Option<Given<u64>>)>,
}

impl Sizes {
    /// True if all accesses are of one size.
    pub(super) fn is_single(&self) -> bool {
        self.mix.is_empty() && self.write_mix.is_empty()
    }

    /// What random offsets are multiples of, if not of the smallest size; refused where reads and
    /// writes differ in it.
    pub(super) fn alignment(&self, at: &Place, said: &mut Said) -> Option<u64> {
        let unit = |(smallest, align): &(u64, Option<Given<u64>>)| {
            align.as_ref().map_or(*smallest, |given| given.value)
        };
        let common = self.smallest_each.first().map_or(self.smallest, unit);
        let other = self.smallest_each.iter().find(|each| unit(each) != common);
        if let Some((_, align)) = other {
            let at = align.as_ref().map_or(at, |given| &given.at);
            let reason = format!(
                "fio's offsets would be multiples of {common} bytes for reads and of others for \
                 writes, durio has one alignment; give blockalign={common}"
            );
            said.refuse_at(at, "blockalign", &reason);
        }
        (common != self.smallest && common > 0).then_some(common)
    }
}

/// The options of block sizes, per direction.
pub(super) struct SizeOptions<'o> {
    pub(super) block: &'o PerDirection<Option<Given<u64>>>,
    pub(super) range: &'o PerDirection<Option<Given<(u64, u64)>>>,
    pub(super) split: &'o PerDirection<Option<Given<Vec<BlockSizeShare>>>>,
    pub(super) align: &'o PerDirection<Option<Given<u64>>>,
    pub(super) unaligned: Option<&'o Given<bool>>,
}

/// Reads the sizes of the directions that occur.
pub(super) fn sizes(options: &SizeOptions<'_>, direction: Direction, said: &mut Said) -> Sizes {
    let SizeOptions { block, range, split, align, unaligned } = options;
    let read = || Side { block: &block.read, range: &range.read, split: &split.read };
    let write = || Side { block: &block.write, range: &range.write, split: &split.write };
    let unaligned = unaligned.filter(|given| given.value);
    let mut mix = |side: Side<'_>| side.mix(unaligned, said);
    let (reads, writes) = match direction {
        Direction::Read => (Some(mix(read())), None),
        Direction::Write => (None, Some(mix(write()))),
        Direction::Mixed => (Some(mix(read())), Some(mix(write()))),
    };
    let each = [(&reads, &align.read), (&writes, &align.write)];
    let smallest_each: Vec<_> = each
        .into_iter()
        .filter_map(|(mix, align)| Some((mix.as_ref()?.smallest(), align.clone())))
        .collect();
    let both = [&reads, &writes];
    let present = || both.into_iter().flatten();
    let first = present().next().map_or_else(Vec::new, |mix| mix.shares.clone());
    let differs = reads.is_some() && writes.is_some() && reads != writes;
    let write_mix = if differs { writes.clone().map(|mix| mix.shares) } else { None };
    let is_single = first.len() == 1 && !differs;
    Sizes {
        block_size: present().map(Mix::largest).max().unwrap_or(BLOCK_DEFAULT),
        smallest: present().map(Mix::smallest).min().unwrap_or(BLOCK_DEFAULT),
        mix: if is_single { Vec::new() } else { first },
        write_mix: write_mix.unwrap_or_default(),
        smallest_each,
    }
}

/// What is said of one direction.
struct Side<'o> {
    block: &'o Option<Given<u64>>,
    range: &'o Option<Given<(u64, u64)>>,
    split: &'o Option<Given<Vec<BlockSizeShare>>>,
}

impl Side<'_> {
    fn mix(self, unaligned: Option<&Given<bool>>, said: &mut Said) -> Mix {
        let shares = match self {
            Self { split: Some(split), .. } => split_shares(split, said),
            Self { range: Some(range), .. } => range_shares(range, unaligned, said),
            Self { block, .. } => single(block.as_ref().map_or(BLOCK_DEFAULT, |given| given.value)),
        };
        Mix { shares }
    }
}

fn single(bytes: u64) -> Vec<BlockShare> {
    vec![BlockShare { size: Bytes::new(bytes), weight: PerMille::ALL }]
}

fn split_shares(split: &Given<Vec<BlockSizeShare>>, said: &mut Said) -> Vec<BlockShare> {
    if split.value.len() as u64 > SIZES_MAX {
        said.refuse(split, &format!("durio mixes at most {SIZES_MAX} sizes"));
        return single(BLOCK_DEFAULT);
    }
    let share = |share: &BlockSizeShare| BlockShare {
        size: Bytes::new(share.bytes),
        weight: PerMille(u16::from(share.percent) * 10),
    };
    split.value.iter().map(share).collect()
}

/// fio draws every multiple of the least equally often, where the most is one of them.
fn range_shares(
    range: &Given<(u64, u64)>,
    unaligned: Option<&Given<bool>>,
    said: &mut Said,
) -> Vec<BlockShare> {
    let (least, most) = range.value;
    if let Some(unaligned) = unaligned.filter(|_| least != most) {
        said.refuse(unaligned, "durio draws from a list of sizes, not any number of bytes");
        return single(most);
    }
    let count = most.checked_div(least).unwrap_or(0);
    if most.checked_rem(least) != Some(0) || count > SIZES_MAX {
        let reason = format!(
            "durio draws from at most {SIZES_MAX} sizes, multiples of the least up to the most; \
             write the sizes as bssplit"
        );
        said.refuse(range, &reason);
        return single(most.max(1));
    }
    if !1000_u64.is_multiple_of(count) {
        said.note(range, "the sizes' shares are rounded to thousandths");
    }
    let edge = |number: u64| u16::try_from(number * 1000 / count).unwrap_or(0);
    (1..=count)
        .map(|number| BlockShare {
            size: Bytes::new(least * number),
            weight: PerMille(edge(number) - edge(number - 1)),
        })
        .collect()
}
