//! Compares the contents of a target with what it may hold, and classifies each difference; and the
//! evidence that it was without power.
//!
//! Takes a history, observations of two readings, and a way to read a cell again; returns findings,
//! and updates the history to the state found. Verdicts over several cuts are made elsewhere.

use std::collections::BTreeMap;

use durio_observe::PowerState;
use durio_plan::proof::LossClass;
use durio_record::proof::{
    Controls, CutEvidence, CutFindings, Finding, InFlightWrites, InPlace, LATE_NS,
};

use crate::history::{CellHistory, Ground, History};
use crate::layout::{CELL_SECTORS, SECTORS};
use crate::picture::picture;
use crate::reading::{ObservedCell, SectorState};

/// Repeated readings of a deviating cell before the deviation is believed: an intermittent read
/// error is a different fault than lost data.
const READ_AGAIN: usize = 8;
const WHOLE_CELL: u16 = 8;
/// Findings of a cut that are kept.
const LISTED_MAX: usize = 1000;

/// Classifies the two readings. `again` reads one cell once more.
pub(crate) fn classify<E>(
    history: &mut History,
    readings: [&[ObservedCell]; 2],
    mut again: impl FnMut(u64) -> Result<ObservedCell, E>,
) -> Result<CutFindings, E> {
    let mut found = CutFindings::default();
    let cut_at = history.cut_at().map_or(0, durio_base::Nanos::get);
    found.acknowledged = history.acknowledged().len() as u64;
    let ages = history.acknowledged().iter().map(|(_, at)| cut_at.saturating_sub(at.get()));
    found.acknowledged_late = ages.clone().filter(|&age| age <= LATE_NS).count() as u64;
    found.acknowledging_ns = ages.max();
    found.controls = controls(history, readings[0]);
    let mut cell_states = readings[0].iter().zip(readings[1]);
    for cell in history.cells() {
        let Some((first, second)) = cell_states.next() else { break };
        if let (ObservedCell::Whole(seq), true) = (first, first == second) {
            let may = history.cell(cell);
            if may.later.is_empty() && may.floor == [*seq; SECTORS] {
                count_kept(may, cut_at, &mut found);
                history.settle(cell, [*seq; SECTORS]);
                continue;
            }
        }
        let mut seen = vec![first.clone(), second.clone()];
        if !(first == second && is_legal(history.cell(cell), first)) {
            for _ in 0..READ_AGAIN {
                seen.push(again(cell)?);
            }
        }
        let holds = judge(history.cell(cell), cell, &seen, cut_at, &mut found);
        history.settle(cell, holds);
    }
    if !found.findings.is_empty() {
        found.picture = Some(Box::new(picture(history, &found.findings, readings[0])));
    }
    explain_by_misdirection(&mut found.findings);
    shorten(&mut found);
    Ok(found)
}

/// A wiped target has a finding in every cell, too many for a useful record.
fn shorten(found: &mut CutFindings) {
    // The gravest, and of those the oldest; in their order on the target if all fit.
    if found.findings.len() > LISTED_MAX {
        let age = |finding: &Finding| std::cmp::Reverse(finding.acknowledged_before_ns);
        found.findings.sort_by_key(|finding| (finding.class, age(finding), finding.sector));
        found.left_out = (found.findings.len() - LISTED_MAX) as u64;
        found.findings.truncate(LISTED_MAX);
    }
}

/// The target did not come back, or is smaller.
pub(crate) fn gone(history: Option<&History>) -> CutFindings {
    let finding = Finding {
        class: LossClass::Gone,
        sector: 0,
        sectors: 0,
        seq: 0,
        acknowledged_before_ns: None,
        found: InPlace::Nothing,
    };
    let acknowledged = history.map_or(0, |history| history.acknowledged().len() as u64);
    CutFindings { acknowledged, findings: vec![finding], ..CutFindings::default() }
}

/// Whether a cell may hold this.
pub(crate) fn is_legal(may: &CellHistory, observed: &ObservedCell) -> bool {
    observed
        .sectors()
        .iter()
        .zip(may.floor)
        .all(|(state, floor)| is_legal_sector(may, floor, *state))
}

fn is_legal_sector(may: &CellHistory, floor: u64, state: SectorState) -> bool {
    matches!(state, SectorState::Write(seq) if seq == floor || may.later.contains(&seq))
}

/// Judges a cell: its fault, if any, and its contents.
fn judge(
    may: &CellHistory,
    cell: u64,
    seen: &[ObservedCell],
    cut_at: u64,
    found: &mut CutFindings,
) -> [u64; SECTORS] {
    let last = &seen[seen.len() - 1];
    let is_stable = seen.iter().all(|observed| observed == last);
    let legal = seen.iter().find(|observed| is_legal(may, observed));
    match (is_stable, legal) {
        (true, Some(observed)) => {
            count_kept(may, cut_at, found);
            count_in_flight(may, observed, &mut found.in_flight);
        }
        // The chunk could not be read as a whole, but this cell could.
        (false, Some(observed))
            if seen.iter().all(|state| state == observed || is_unreadable(state)) =>
        {
            let single = &seen[2..];
            if single.iter().any(is_unreadable) {
                let unreadable = (LossClass::Unreadable, InPlace::Unreadable);
                found.findings.push(whole_cell(may, cell, cut_at, unreadable));
            }
        }
        (false, _) if !seen.iter().any(is_unreadable) => {
            let mut seqs: Vec<u64> = seen.iter().filter_map(first_seq).collect();
            seqs.dedup();
            let unstable = (LossClass::Unstable, InPlace::Changing { seqs });
            found.findings.push(whole_cell(may, cell, cut_at, unstable));
        }
        _ => found.findings.extend(differences(may, cell, last, cut_at)),
    }
    holds(may, legal.unwrap_or(last))
}

/// Counts a cell that holds an acknowledged write of this life, or a write intended after it.
fn count_kept(may: &CellHistory, cut_at: u64, found: &mut CutFindings) {
    let Some(age) = age(may, cut_at).filter(|_| may.floor[0] > 0) else { return };
    found.kept += 1;
    found.youngest_kept_ns = Some(found.youngest_kept_ns.map_or(age, |kept| kept.min(age)));
}

/// The contents to expect from now on.
fn holds(may: &CellHistory, observed: &ObservedCell) -> [u64; SECTORS] {
    let mut holds = may.floor;
    for (kept, state) in holds.iter_mut().zip(observed.sectors()) {
        if let SectorState::Write(seq) = state {
            *kept = seq;
        }
    }
    holds
}

fn is_unreadable(observed: &ObservedCell) -> bool {
    observed.sectors().contains(&SectorState::Unreadable)
}

fn count_in_flight(may: &CellHistory, observed: &ObservedCell, counts: &mut InFlightWrites) {
    match observed {
        ObservedCell::Whole(seq) if may.later.contains(seq) => counts.kept += 1,
        ObservedCell::Mixed(_) => counts.torn += 1,
        ObservedCell::Whole(_) => {}
    }
}

fn age(may: &CellHistory, cut_at: u64) -> Option<u64> {
    match may.ground {
        Ground::Acknowledged(at) => Some(cut_at.saturating_sub(at.get())),
        Ground::Read => None,
    }
}

fn first_seq(observed: &ObservedCell) -> Option<u64> {
    observed.sectors().iter().find_map(|state| match state {
        SectorState::Write(seq) => Some(*seq),
        _ => None,
    })
}

/// A finding about all sectors of a cell.
fn whole_cell(
    may: &CellHistory,
    cell: u64,
    cut_at: u64,
    (class, found): (LossClass, InPlace),
) -> Finding {
    Finding {
        class,
        sector: cell * CELL_SECTORS,
        sectors: WHOLE_CELL,
        seq: may.floor[0],
        acknowledged_before_ns: age(may, cut_at),
        found,
    }
}

/// One finding for each fault of the cell.
fn differences(may: &CellHistory, cell: u64, observed: &ObservedCell, cut_at: u64) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    let states = observed.sectors();
    let is_kept = |state: &SectorState, floor: u64| {
        matches!(state, SectorState::Write(seq) if *seq >= floor)
            && is_legal_sector(may, floor, *state)
    };
    // Some of its sectors are there: only a part of the write is lost.
    let is_part = states.iter().zip(may.floor).any(|(state, floor)| is_kept(state, floor));
    for (at, (state, floor)) in states.iter().zip(may.floor).enumerate() {
        if is_legal_sector(may, floor, *state) {
            continue;
        }
        let (class, found) = name(may, *state, is_part);
        match findings.iter_mut().find(|finding| finding.class == class) {
            Some(known) => known.sectors += 1,
            None => findings.push(Finding {
                class,
                sector: cell * CELL_SECTORS + at as u64,
                sectors: 1,
                seq: floor,
                acknowledged_before_ns: age(may, cut_at),
                found,
            }),
        }
    }
    findings
}

fn name(may: &CellHistory, state: SectorState, is_part: bool) -> (LossClass, InPlace) {
    // Data read after an earlier cut was on the medium.
    let gone = match may.ground {
        Ground::Read => LossClass::Collateral,
        Ground::Acknowledged(_) if is_part => LossClass::Torn,
        Ground::Acknowledged(_) => LossClass::Lost,
    };
    match state {
        SectorState::Write(seq) => (gone, InPlace::Older { seq }),
        SectorState::Zeros => (gone, InPlace::Zeros),
        SectorState::Nothing => (gone, InPlace::Nothing),
        SectorState::Elsewhere { home, seq } => {
            // The parts of one write in one cell are adjacent, and are reported as one.
            (
                LossClass::Misdirected,
                InPlace::OfElsewhere { home: home / CELL_SECTORS * CELL_SECTORS, seq },
            )
        }
        SectorState::Foreign => (LossClass::Misdirected, InPlace::Foreign),
        SectorState::Ones => (LossClass::Corrupt, InPlace::Ones),
        SectorState::Damaged { flipped: Some(bits) } => {
            (LossClass::Corrupt, InPlace::FlippedBits { bits })
        }
        SectorState::Damaged { flipped: None } => (LossClass::Corrupt, InPlace::Garbage),
        SectorState::Unreadable => (LossClass::Unreadable, InPlace::Unreadable),
    }
}

/// A missing write that is found elsewhere is misplaced, not lost: report it once.
fn explain_by_misdirection(findings: &mut Vec<Finding>) {
    let misplaced: Vec<(u64, u64)> = findings
        .iter()
        .filter_map(|finding| match finding.found {
            InPlace::OfElsewhere { home, seq } => Some((home, seq)),
            _ => None,
        })
        .collect();
    findings.retain(|finding| {
        let home = finding.sector / CELL_SECTORS * CELL_SECTORS;
        finding.class != LossClass::Lost || !misplaced.contains(&(home, finding.seq))
    });
}

/// Counts the cells with a control whose write had returned, and those where it is missing.
fn controls(history: &History, reading: &[ObservedCell]) -> Controls {
    let done = history.controls_done().map(|intent| (intent.sector / CELL_SECTORS, intent.seq));
    // Of several in a cell, the last one.
    let latest: BTreeMap<u64, u64> = done.collect();
    let is_there = |&(&cell, &seq): &(&u64, &u64)| {
        let place = usize::try_from(cell - history.cells().start).unwrap_or(usize::MAX);
        let states = reading.get(place).map(ObservedCell::sectors);
        states.is_some_and(|states| {
            states.iter().all(|state| matches!(state, SectorState::Write(found) if *found >= seq))
        })
    };
    let written = latest.len() as u64;
    Controls { written, lost: written - latest.iter().filter(is_there).count() as u64 }
}

/// Compares a machine's reports from before and after a cut. durio-record decides whether the evidence
/// is enough.
pub(crate) fn compare_power(before: &PowerState, after: &PowerState) -> CutEvidence {
    let pairs = before.drives.iter().filter_map(|old| {
        let new = after.drives.iter().find(|drive| drive.drive == old.drive)?;
        let power_cycles = old.power_cycles.zip(new.power_cycles).map(|(old, new)| [old, new]);
        Some(([old.unsafe_shutdowns?, new.unsafe_shutdowns?], power_cycles))
    });
    // A cut of an array counts if each of its drives was without power.
    let least = pairs.min_by_key(|([old, new], _)| new.saturating_sub(*old));
    let boots = before.boot_id.as_ref().zip(after.boot_id.as_ref());
    CutEvidence {
        unsafe_shutdowns: least.map(|(pair, _)| pair),
        power_cycles: least.and_then(|(_, pair)| pair),
        rebooted: boots.map(|(before, after)| before != after),
        ..CutEvidence::default()
    }
}

#[cfg(test)]
mod tests;
