//! Shrinks a failing case to the same kind of violation with fewer events.
//!
//! `case.rs` applies omissions.
//!
//! One thing after another is left out, and stays out if the violation remains with no more events:
//! kinds of events and a larger array, in other campaigns too; then lives, then steps, in halves
//! down to single ones. The effort is bounded by events, not by time, so shrinking is reproducible.

use super::campaign::CutCampaign;
use super::case::{Reduction, SimEventKind, StepRanges};
use super::life::STEPS_MAX;
use super::{CUTS_PER_CAMPAIGN, CutCase, Scenario, Violation};

/// Limits of events for the trials: with switches in other campaigns, and with lives and steps of
/// the best; some seconds.
const EFFORT: [u64; 2] = [4_000_000, 16_000_000];
/// Campaigns to try with a switch, in addition to the one that was found.
const OTHERS: u64 = 60;
/// Campaigns to try with all switches.
const OTHERS_AT_THE_END: u64 = 4000;
/// Arrays, small ones first: members and blocks of each.
const ARRAYS: [(u8, u8); 5] = [(2, 2), (2, 4), (3, 4), (4, 4), (4, 16)];

/// A case, and how large it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShrunkCase {
    /// How it is replayed.
    pub case: CutCase,
    pub what: String,
    /// Events from the start of its campaign.
    pub events: u64,
    /// Bytes of the array.
    size: u64,
}

struct Shrinker {
    kind: String,
    best: ShrunkCase,
    /// Events that may be tried yet.
    effort: u64,
}

/// Returns the original, and the smallest case found with the same kind of violation.
#[must_use]
pub fn shrink(scenario: Scenario, violation: &Violation) -> (ShrunkCase, ShrunkCase) {
    let case = CutCase { scenario, cut: violation.cut, reduction: Reduction::default() };
    let (kind, what) = (kind_of(&violation.what), violation.what.clone());
    let first = ShrunkCase { case, what, events: u64::MAX, size: 0 };
    let mut shrinker = Shrinker { kind, best: first, effort: EFFORT[0] };
    // A panic repeats on every attempt, and was reported once.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    shrinker.accepts(shrinker.number(), Reduction::default());
    let original = shrinker.best.clone();
    shrinker.leave_out_kinds(OTHERS);
    let reduction = shrinker.reduction();
    shrinker.accepts_any(OTHERS_AT_THE_END, &reduction);
    shrinker.effort = EFFORT[1];
    shrinker.leave_out_lives();
    let mut before = u64::MAX;
    while shrinker.best.events < before {
        before = shrinker.best.events;
        shrinker.leave_out_steps();
        shrinker.leave_out_lives();
        shrinker.leave_out_kinds(0);
    }
    std::panic::set_hook(hook);
    (original, shrinker.best)
}

/// A violation without its numbers.
pub(super) fn kind_of(what: &str) -> String {
    let words = what.split([';', '[', '{']).next().unwrap_or_default();
    words.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

impl Shrinker {
    /// Whether the violation remains, with no more events: then this becomes the best case.
    fn accepts(&mut self, number: u64, reduction: Reduction) -> bool {
        if self.effort == 0 {
            return false;
        }
        let scenario = self.best.case.scenario;
        let mut campaign = CutCampaign::new(scenario, number, reduction.clone());
        campaign.events_max = self.best.events;
        let result = campaign.run_caught(CUTS_PER_CAMPAIGN);
        self.effort = self.effort.saturating_sub(campaign.effort());
        let Err((life, what)) = result else { return false };
        let events = campaign.events;
        if kind_of(&what) != self.kind || events > self.best.events {
            return false;
        }
        let case = CutCase { scenario, cut: number * CUTS_PER_CAMPAIGN + life, reduction };
        self.best = ShrunkCase { case, what, events, size: campaign.geometry.size() };
        true
    }

    fn number(&self) -> u64 {
        self.best.case.cut / CUTS_PER_CAMPAIGN
    }

    fn reduction(&self) -> Reduction {
        self.best.case.reduction.clone()
    }

    fn accepts_any(&mut self, others: u64, reduction: &Reduction) -> bool {
        let mut is_accepted = self.accepts(self.number(), reduction.clone());
        // A larger campaign is not an improvement, and life and step numbers belong to this one.
        if reduction.lives().is_none() {
            for number in 0..others {
                is_accepted |= self.accepts(number, reduction.clone());
            }
        }
        is_accepted
    }

    fn leave_out_kinds(&mut self, others: u64) {
        for (members, blocks) in ARRAYS {
            let before = self.best.clone();
            self.accepts_any(others, &before.case.reduction.of_array(members, blocks));
            if self.best.size < before.size {
                break;
            }
            self.best = before;
        }
        for (kind, _) in SimEventKind::ALL {
            let before = self.best.clone();
            if before.case.reduction.has(kind) {
                self.accepts_any(others, &before.case.reduction.leaving_out(kind));
            }
            // A switch without effect would mislead the reader.
            if self.best.events == before.events {
                self.best = before;
            }
        }
    }

    fn leave_out_lives(&mut self) {
        let last = self.best.case.cut % CUTS_PER_CAMPAIGN;
        let all = || (0..=last).map(|life| (life, None)).collect();
        let mut kept = self.reduction().lives().map_or_else(all, <[_]>::to_vec);
        let mut size = kept.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < kept.len() {
                let mut fewer = kept.clone();
                fewer.drain(at..(at + size).min(kept.len()));
                let reduction = self.reduction().of_lives(fewer.clone());
                match !fewer.is_empty() && self.accepts(self.number(), reduction) {
                    true => kept = fewer,
                    false => at += size,
                }
            }
            size /= 2;
        }
        // Drop everything after the violation.
        let last = self.best.case.cut % CUTS_PER_CAMPAIGN;
        kept.retain(|life| life.0 <= last);
        self.accepts(self.number(), self.reduction().of_lives(kept));
    }

    /// In all lives, the last first, before the next smaller size.
    fn leave_out_steps(&mut self) {
        let count = self.best.case.reduction.lives().map_or(0, <[_]>::len);
        let mut size = STEPS_MAX as usize;
        while size > 0 {
            for at in (0..count).rev() {
                self.leave_out_steps_of(at, size);
            }
            size /= 2;
        }
    }

    fn leave_out_steps_of(&mut self, at: usize, size: usize) {
        let Some(lives) = self.best.case.reduction.lives().map(<[_]>::to_vec) else { return };
        let mut kept: Vec<u32> = match &lives[at].1 {
            Some(steps) => steps.iter().cloned().flatten().collect(),
            None => (0..STEPS_MAX).collect(),
        };
        // Backwards: steps after the violation go first.
        let mut end = kept.len();
        while end > 0 {
            let mut fewer = kept.clone();
            fewer.drain(end.saturating_sub(size)..end);
            let mut lives = lives.clone();
            lives[at].1 = Some(ranges(&fewer));
            let reduction = self.reduction().of_lives(lives);
            end = end.saturating_sub(size);
            if self.accepts(self.number(), reduction) {
                kept = fewer;
            }
        }
    }
}

fn ranges(steps: &[u32]) -> StepRanges {
    let mut ranges: StepRanges = Vec::new();
    for &step in steps {
        match ranges.last_mut() {
            Some(last) if last.end == step => last.end += 1,
            _ => ranges.push(step..step + 1),
        }
    }
    ranges
}
