//! Power cuts of simulated arrays, by seed: does the engine keep its promises?
//!
//! Takes a seed, a number of cuts, and optionally a planted fault; returns the first violation with
//! the number of its cut.
//!
//! ```text
//!  campaign: an array that lives for some cuts
//!    life:   assemble ──► start ──► requests, completions, failures in any order ──► cut
//!              │ check of the media                         │ check of each answer    │
//!              └───────────────────── model of each sector ─┴─────────────────────────┘
//! ```
//!
//! Members are disks of durio-simdisk with volatile caches; a cut tears any write that is not
//! durable, sector by sector. One seeded scheduler decides which operation starts or ends next. A
//! separate model ([`model`]) knows what may be read, and a separate parser ([`media`]) reads the
//! map, so an error of the engine does not hide itself.
//!
//! A campaign is determined by the seed and its number, a life by the earlier ones in its campaign:
//! a cut is replayed by the lives before it in its campaign.

mod campaign;
mod case;
mod damages;
mod drives;
mod liars;
mod life;
mod media;
mod model;
mod operator;
mod shrink;
mod starting;
#[cfg(test)]
mod tests;

use crate::Fault;
use campaign::CutCampaign;

pub use case::{CutCase, Reduction, parse_fault, parse_liars};
pub use drives::{lies, why_unseen};
pub use shrink::{ShrunkCase, shrink};

/// Cuts of one campaign.
pub const CUTS_PER_CAMPAIGN: u64 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scenario {
    /// The seed of every decision.
    pub seed: u64,
    /// The fault that is planted in the engine.
    pub fault: Option<Fault>,
    /// Which arrays, and who operates them.
    pub focus: Focus,
    pub liars: Liars,
}

impl Scenario {
    /// The same with a fault planted, where that is found.
    #[must_use]
    pub fn planting(self, fault: Fault) -> Self {
        let focus = match fault {
            // Only a chain of starts leads there.
            Fault::BaseNotAsked => Focus::Starts,
            _ if fault.is_of_stripes() => Focus::Stripes,
            _ => self.focus,
        };
        Self { fault: Some(fault), focus, liars: Liars::None, ..self }
    }
}

/// Which arrays are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Focus {
    /// Levels 0, 1 and 10 of 2 to 6 members; one campaign of eight is as [`Focus::Starts`], one of four as
    /// [`Focus::Stripes`].
    #[default]
    Any,
    /// Level 10 of four members.
    Four,
    /// Three copies, each start with another member missing, cut while superblocks are on their way.
    Starts,
    /// Levels 5 and 6 of 3 to 5 members.
    Stripes,
}

/// Which campaigns of levels 1 and 10 have a drive that lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Liars {
    /// One of eight, with any lie.
    #[default]
    Some,
    None,
    /// Each, with any lie.
    Every,
    /// Each, with the lie of this name.
    Only(&'static str),
    /// The same, and all is judged as if it were honest: it must be found.
    Believed(&'static str),
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the cut in whose life it was seen, from 0.
    pub cut: u64,
    pub what: String,
}

/// What happened in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub cuts: u64,
    /// Of those, before the array ran.
    pub cuts_at_start: u64,
    /// Of those, while copies were made the same.
    pub cuts_in_resync: u64,
    /// Of those, during a rebuild.
    pub cuts_in_rebuild: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Reads that were checked.
    pub reads: u64,
    /// Members that failed, stalled, or went away.
    pub failures: u64,
    /// Starts that were refused, for a majority or because halves went on apart.
    pub refusals: u64,
    /// Members that came back by their map, or were rebuilt.
    pub rejoined: u64,
    /// Members that work and began to be replaced.
    pub replacements: u64,
    /// Replacements that took their role.
    pub replaced: u64,
    pub scrubs: u64,
    /// Drives that were truncated, grown, or copied back, wholly or in part.
    pub damages: u64,
    /// Drives that are again as they were while the array ran.
    pub put_back: u64,
    /// Differences between copies that were planted, found and repaired.
    pub differences: u64,
    /// Campaigns with a drive that lies.
    pub liars: u64,
    /// Starts at which the others knew that it had gone back.
    pub went_back: u64,
    /// Starts at which it hid that an honest copy lacks something.
    pub misled: u64,
    /// Scrubs that made all copies of an array with a liar equal.
    pub repairs: u64,
    /// Arrays that were lost with it.
    pub lost_with_liar: u64,
}

/// Simulates this many cuts, up to the first violation.
#[must_use]
pub fn simulate(scenario: Scenario, cuts: u64) -> (Tally, Option<Violation>) {
    let mut tally = Tally::default();
    for number in 0..cuts.div_ceil(CUTS_PER_CAMPAIGN) {
        let first = number * CUTS_PER_CAMPAIGN;
        let mut campaign = CutCampaign::new(scenario, number, Reduction::default());
        // The campaign counts on, and its liar was counted when it was drawn.
        campaign.tally = Tally { liars: tally.liars + campaign.tally.liars, ..tally };
        let violation = campaign.run_caught(CUTS_PER_CAMPAIGN.min(cuts - first));
        tally = campaign.tally;
        if let Err((life, what)) = violation {
            return (tally, Some(Violation { cut: first + life, what }));
        }
    }
    (tally, None)
}

/// The events of the life that ends with this cut, in words, and what was wrong in it; those of all lives
/// that take place in a case that names some.
#[must_use]
pub fn replay(case: &CutCase) -> (Vec<String>, Option<Violation>) {
    let CutCase { scenario, cut, ref reduction } = *case;
    let mut campaign = CutCampaign::new(scenario, cut / CUTS_PER_CAMPAIGN, reduction.clone());
    let life = cut % CUTS_PER_CAMPAIGN;
    campaign.traced = Some(life);
    let violation = campaign.run_caught(life + 1);
    let violation = violation.err().map(|(life, what)| Violation {
        cut: cut / CUTS_PER_CAMPAIGN * CUTS_PER_CAMPAIGN + life,
        what,
    });
    (std::mem::take(&mut campaign.trace), violation)
}
