//! Compares rows with those of their baseline: the share of the lower layer's rate that a layer
//! keeps. A section names a target as its baseline; the sections of the same name over that target
//! give shares, and for RAID the model to compare with.

use durio_base::RaidLevel;
use durio_plan::{Campaign, DeclaredLayout};
use durio_workload::Pattern;
use serde::{Deserialize, Serialize};

use super::row::CampaignRow;
use super::{CampaignInput, SectionFindings};
use crate::DeclinedAnalysis;
use crate::measurement::Measurement;
use crate::mirror::{MirrorComparison, Penalty, compare_with_prediction, penalty};
use crate::raid_efficiency::{
    ArrayLayout, ArrayRates as MeasuredRates, MemberLayout, ParityWrite, RaidEfficiency, efficiency,
};

/// A row against its baseline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BaselineFindings {
    /// Position of the row in its section.
    pub row: usize,
    /// Position of the baseline's section.
    pub baseline_section: usize,
    /// Position of the baseline's row in that.
    pub baseline_row: usize,
    /// Drives that the baseline was measured on at the same time.
    pub baseline_drives: u32,
    /// Drives under the row's target; as many as the baseline's unless a RAID is declared.
    pub drives: u32,
    /// Rate of the baseline: that measured, for as many drives as there are under the target.
    pub raw_rate_per_second: f64,
    /// Rate of the row as a share of it.
    pub share_of_raw: f64,
    /// Mean latency added to that of the baseline; below zero if the row is faster.
    pub latency_ns_added: Option<f64>,
    /// The RAID's rate as a share of its model's; only for small random accesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidEfficiency>,
    /// What its penalty says, of a mirror that is only written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror_penalty: Option<Penalty>,
    /// Its latencies against the slowest of as many independent draws from the single drive's, for
    /// a mirror over a baseline of one drive; from the points of the distributions' curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror_beside: Option<MirrorComparison>,
    /// Why the model could not be applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<DeclinedAnalysis>,
    /// A remark on the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The array that was declared.
///
/// # Errors
/// [`DeclinedAnalysis::NoSuchLayout`] if members are not declared. None at all without a RAID.
pub(super) fn array(declared: &DeclaredLayout) -> Option<Result<ArrayLayout, DeclinedAnalysis>> {
    let level = declared.raid?;
    let Some(members) = declared.members else {
        let why = "its number of members is not declared".to_owned();
        return Some(Err(DeclinedAnalysis::NoSuchLayout { why }));
    };
    Some(Ok(ArrayLayout { layout: layout_of(level, members, declared.copies), members }))
}

/// The layout of a level over `members` drives; a RAID10 has two copies by default.
// A small write is taken to update parity in the way that reads less, and by reconstruction where
// both read as much: so does Linux md (drivers/md/raid5.c, `handle_stripe_dirtying`).
pub(crate) fn layout_of(level: RaidLevel, members: u32, copies: Option<u32>) -> MemberLayout {
    let parity = |reads_to_modify: u32, parities: u32| {
        let reads_to_reconstruct = members.saturating_sub(1 + parities);
        match reads_to_reconstruct <= reads_to_modify {
            true => ParityWrite::ReconstructWrite,
            false => ParityWrite::ReadModifyWrite,
        }
    };
    match level {
        RaidLevel::Raid0 => MemberLayout::Raid0,
        RaidLevel::Raid1 => MemberLayout::Raid1 { copies: copies.unwrap_or(members) },
        RaidLevel::Raid10 => MemberLayout::Raid10 { copies: copies.unwrap_or(2) },
        RaidLevel::Raid5 => MemberLayout::Raid5 { parity_write: parity(2, 1) },
        RaidLevel::Raid6 => MemberLayout::Raid6 { parity_write: parity(3, 2) },
    }
}

pub(crate) fn drives_in_words(drives: u32) -> String {
    if drives == 1 { "one drive".to_owned() } else { format!("{drives} drives") }
}

/// The user's statements about a row's target.
fn declared_of<'c>(campaign: &'c Campaign, row: &CampaignRow) -> Option<&'c DeclaredLayout> {
    let of_it = |target: &&durio_plan::DeclaredTarget| {
        let place = target.location.as_ref().map(ToString::to_string);
        target.target == row.target && place.is_none_or(|place| place == row.location)
    };
    campaign.declared.iter().find(of_it).map(|target| &target.declared)
}

/// Compares the rows of section `at` with their baselines.
pub(super) fn baselines(
    measured: &CampaignInput<'_>,
    campaign: &Campaign,
    sections: &[SectionFindings],
    at: usize,
) -> Vec<BaselineFindings> {
    let target = campaign.sections.get(at).and_then(|section| section.baseline.as_ref());
    let (Some(target), Some(section)) = (target, sections.get(at)) else { return Vec::new() };
    let comparison = BaselineComparison { measured, campaign, sections, at, target };
    // An accompanying load has other settings and no counterpart in the baseline.
    let rows = section.rows.iter().enumerate().filter(|(_, row)| row.complete && row.stream == 0);
    rows.filter_map(|(position, row)| comparison.of_row(position, row)).collect()
}

struct BaselineComparison<'a> {
    measured: &'a CampaignInput<'a>,
    campaign: &'a Campaign,
    sections: &'a [SectionFindings],
    at: usize,
    target: &'a str,
}

/// A row of the baseline with its place.
#[derive(Clone, Copy)]
struct BaselineCandidate<'a> {
    section: usize,
    position: usize,
    row: &'a CampaignRow,
    drives: u32,
}

impl BaselineComparison<'_> {
    fn of_row(&self, position: usize, row: &CampaignRow) -> Option<BaselineFindings> {
        let declared = declared_of(self.campaign, row);
        let array = declared.and_then(array);
        let members =
            array.as_ref().and_then(|array| array.as_ref().ok()).map(|array| array.members);
        let base = self.candidate(row, members)?;
        let drives = members.unwrap_or(base.drives);
        // Published raw rates are those of one drive, an array's those of all its drives.
        let raw = base.row.rate * f64::from(drives) / f64::from(base.drives.max(1));
        let share = row.rate / raw;
        let mut found = BaselineFindings {
            row: position,
            baseline_section: base.section,
            baseline_row: base.position,
            baseline_drives: base.drives,
            drives,
            raw_rate_per_second: raw,
            share_of_raw: if share.is_finite() { share } else { return None },
            latency_ns_added: row.service.zip(base.row.service).map(|(a, b)| a.mean_ns - b.mean_ns),
            note: note(row, base, drives),
            ..BaselineFindings::default()
        };
        match array {
            None => {}
            Some(Err(declined)) => found.declined = Some(declined),
            Some(Ok(array)) => self.set_raid(&mut found, row, base, array),
        }
        Some(found)
    }

    /// The baseline's row for the same workload, if possible with as much in flight per drive.
    fn candidate(&self, row: &CampaignRow, members: Option<u32>) -> Option<BaselineCandidate<'_>> {
        let name = &self.sections.get(self.at)?.name;
        let sections = self.sections.iter().enumerate();
        let named = sections.filter(|(at, section)| *at != self.at && section.name == *name);
        let rows = named.flat_map(|(section, findings)| {
            findings.rows.iter().enumerate().map(move |(position, row)| (section, position, row))
        });
        let of_target = rows.filter(|(.., row)| row.target == self.target);
        let alike =
            of_target.filter(|(.., candidate)| candidate.complete && is_alike(candidate, row));
        let candidates = alike.map(|(section, position, row)| BaselineCandidate {
            section,
            position,
            row,
            drives: self.measured.table.of_step(row.step).first().map_or(1, Measurement::drives),
        });
        let candidates: Vec<_> = candidates.collect();
        let same_load = |candidate: &&BaselineCandidate<'_>| {
            load_differs(row, **candidate, members.unwrap_or(candidate.drives)).is_none()
        };
        let same_level = |candidate: &&BaselineCandidate<'_>| candidate.row.levels == row.levels;
        let only = candidates.first().filter(|_| candidates.len() == 1);
        // Shares at another load per drive measure queueing as much as the layer.
        let best = candidates.iter().find(same_load).or(candidates.iter().find(same_level));
        best.or(only).copied()
    }

    fn set_raid(
        &self,
        found: &mut BaselineFindings,
        row: &CampaignRow,
        base: BaselineCandidate<'_>,
        array: ArrayLayout,
    ) {
        let workload = self.measured.table.at(row.step, 0);
        let Some(workload) =
            workload.filter(|workload| workload.definition.pattern == Pattern::Random)
        else {
            return;
        };
        let rates = MeasuredRates {
            array_rate_per_second: row.rate,
            raw_rate_per_second: found.raw_rate_per_second,
            read_share: f64::from(workload.definition.read_share.0) / 1000.0,
        };
        match efficiency(array, rates) {
            Ok(efficiency) => found.raid = Some(efficiency),
            Err(declined) => found.declined = Some(declined),
        }
        let (MemberLayout::Raid1 { copies } | MemberLayout::Raid10 { copies }) = array.layout
        else {
            return;
        };
        // The time per write is jobs ÷ rate, if both have as many jobs and each waits for its write.
        let same_load = load_differs(row, base, array.members).is_none();
        if workload.definition.reads() || row.open_loop.is_some() || !same_load {
            return;
        }
        found.mirror_penalty = penalty(found.raw_rate_per_second, row.rate, copies).ok();
        // Several drives side by side give one pooled distribution, from which no single one can be
        // drawn.
        let single = self.measured.table.at(base.row.step, 0).filter(|_| base.drives == 1);
        found.mirror_beside = single.and_then(|single| {
            compare_with_prediction(&single.latency_counts(), &workload.latency_counts(), copies)
                .ok()
        });
    }
}

/// The same workload: name, block size, engine, and every level but the number of jobs, which is
/// compared per drive.
fn is_alike(a: &CampaignRow, b: &CampaignRow) -> bool {
    let levels = |row: &CampaignRow| -> Vec<_> {
        row.levels.iter().filter(|level| level.axis != "jobs").cloned().collect()
    };
    a.stream == 0
        && a.name == b.name
        && a.block_size == b.block_size
        && a.durable == b.durable
        && a.engine == b.engine
        && levels(a) == levels(b)
}

/// In words, if not as much is in flight per drive.
fn load_differs(row: &CampaignRow, base: BaselineCandidate<'_>, drives: u32) -> Option<String> {
    let per_drive = row.in_flight_offered / f64::from(drives.max(1));
    let base_per_drive = base.row.in_flight_offered / f64::from(base.drives.max(1));
    ((per_drive - base_per_drive).abs() > 1e-9).then(|| {
        format!(
            "{per_drive:.2} operations in flight per drive; the baseline had {base_per_drive:.2}"
        )
    })
}

fn note(row: &CampaignRow, base: BaselineCandidate<'_>, drives: u32) -> Option<String> {
    let mut notes: Vec<String> = load_differs(row, base, drives).into_iter().collect();
    if base.drives != drives {
        notes.push(format!(
            "the baseline was measured on {}, and its rate multiplied by {drives}",
            drives_in_words(base.drives)
        ));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_write_updates_parity_in_the_way_that_reads_less() {
        use ParityWrite::{ReadModifyWrite, ReconstructWrite};
        let expected = [ReconstructWrite, ReconstructWrite, ReadModifyWrite];
        let raid5 = [3, 4, 5].map(|members| layout_of(RaidLevel::Raid5, members, None));
        assert_eq!(raid5, expected.map(|parity_write| MemberLayout::Raid5 { parity_write }));
        let raid6 = [4, 6, 7].map(|members| layout_of(RaidLevel::Raid6, members, None));
        assert_eq!(raid6, expected.map(|parity_write| MemberLayout::Raid6 { parity_write }));
    }

    #[test]
    fn copies_are_those_declared_or_all_members_of_a_mirror_or_two_of_a_striped_one() {
        let of = |level, copies| layout_of(level, 6, copies);
        assert_eq!(of(RaidLevel::Raid1, None), MemberLayout::Raid1 { copies: 6 });
        assert_eq!(of(RaidLevel::Raid1, Some(3)), MemberLayout::Raid1 { copies: 3 });
        assert_eq!(of(RaidLevel::Raid10, None), MemberLayout::Raid10 { copies: 2 });
        assert_eq!(of(RaidLevel::Raid10, Some(3)), MemberLayout::Raid10 { copies: 3 });
        assert_eq!(of(RaidLevel::Raid0, Some(3)), MemberLayout::Raid0);
    }
}
