//! Sections as loads, groups of them as steps.
//!
//! Turns [`ImportedSection`]s into [`Step`]s. Copies whose regions follow a rule are jobs of one load,
//! others become separate loads. Sections that differ only in their file are one load over several
//! targets.

use durio_base::{Bytes, Nanos};
use durio_plan::{CompletionTime, Limit, Load, Role, Step};
use durio_workload::{FileOrder, Region, RegionRule, Workload};

use super::extent::CopyExtent;
use super::rows::{CopiesPlace, StreamPlace};
use super::section::{CopyPlace, ImportedSection};
use super::{CpuBinding, ImportNotes};
use crate::job_file::ExitScope;

// Up to this number, copies of a section are separate loads: a longer report would not be read.
const APART_MAX: usize = 64;

/// The bounds of one copy; at least one of them is there, or else it was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CopyBounds {
    bytes: Option<u64>,
    duration: Option<Nanos>,
}

impl CopyBounds {
    fn limit(self, jobs: u32) -> Limit {
        let volume = |bytes: u64| Bytes::new(bytes.saturating_mul(u64::from(jobs)));
        match (self.bytes, self.duration) {
            (Some(bytes), None) => Limit::Volume(volume(bytes)),
            (None, duration) => Limit::Duration(duration.unwrap_or(Nanos::ZERO)),
            (Some(bytes), Some(duration)) => {
                Limit::VolumeWithin { volume: volume(bytes), duration }
            }
        }
    }
}

/// A load before it knows how many jobs it has in all.
#[derive(Debug, Clone)]
struct LoadPart<'s> {
    section: &'s ImportedSection,
    /// Names of all sections in it.
    names: Vec<&'s str>,
    targets: Vec<usize>,
    /// How many of them each job works on.
    targets_each: usize,
    rule: RegionRule,
    within: Region,
    /// Per section in it.
    bindings: Vec<CpuBinding>,
    /// Numbers of the first copies of the sections in it, among the copies of all sections.
    first_copies: Vec<u32>,
    copies_each: u32,
    bounds: CopyBounds,
}

/// The steps of all groups, in order, and which copies are in which of their loads.
pub(super) fn steps(
    sections: &[ImportedSection],
    said: &mut ImportNotes,
) -> (Vec<Step>, Vec<CopiesPlace>) {
    let (mut steps, mut places): (Vec<Step>, Vec<CopiesPlace>) = Default::default();
    let last_group = sections.last().map_or(0, |section| section.group);
    for group in sections.chunk_by(|one, other| one.group == other.group) {
        let is_last = group.first().is_some_and(|first| first.group == last_group);
        let parts = parts_of_group(group);
        if let Some(mut step) = step(group, &parts, is_last, said) {
            // A group whose jobs were refused has no step, and no number.
            step.index = u32::try_from(steps.len()).unwrap_or(u32::MAX);
            for (stream, part) in (0..).zip(&parts) {
                places.extend(part.places(StreamPlace { step: step.index, stream }));
            }
            steps.push(step);
        }
    }
    set_pauses(sections, &mut steps, said);
    (steps, places)
}

fn parts_of_group(group: &[ImportedSection]) -> Vec<LoadPart<'_>> {
    let copies: usize = group.iter().map(|section| section.copies.len()).sum();
    let mut parts: Vec<LoadPart<'_>> = Vec::new();
    for part in group.iter().flat_map(|section| parts_of(section, copies <= APART_MAX)) {
        add(&mut parts, part);
    }
    parts
}

fn step(
    group: &[ImportedSection],
    parts: &[LoadPart<'_>],
    is_last: bool,
    said: &mut ImportNotes,
) -> Option<Step> {
    tell_of_parts(group, parts, said);
    let mut loads = parts.iter().map(load);
    let load = loads.next()?;
    let bounds = parts.first()?.bounds;
    let limit = bounds.limit(load.workload.jobs);
    let reason = "jobs that run at the same time are recorded in the same intervals";
    let asked =
        common(group, |section| section.reporting.log_interval, ("log_avg_msec", reason), said);
    let interval = asked.unwrap_or_else(|| interval(bounds.duration));
    let mut step = Step::new(Role::Measure, load, limit, interval);
    for (mut other, part) in loads.zip(parts.iter().skip(1)) {
        let own = part.bounds.limit(other.workload.jobs);
        // fio's jobs end each by their own size and time; a step has one limit for all that say no
        // other.
        other.own_limit = (own != limit).then_some(own);
        step.beside.push(other);
    }
    let reason = "jobs that run at the same time have one ramp";
    let ramp = common(group, |section| Some(section.timing.ramp), ("ramp_time", reason), said);
    step.ramp = ramp.unwrap_or(Nanos::ZERO);
    let reason = "jobs that run at the same time begin with the same page cache";
    let drops = common(group, |section| section.drops_cache, ("invalidate", reason), said);
    step.drop_cache = drops.unwrap_or(false);
    step.first_job_ends_all = ends_all(group, is_last, said);
    Some(step)
}

/// What the jobs of a group have in common; refused with the option and the reason where they differ.
fn common<T: PartialEq>(
    group: &[ImportedSection],
    of: impl Fn(&ImportedSection) -> Option<T>,
    (option, reason): (&str, &str),
    said: &mut ImportNotes,
) -> Option<T> {
    let mut found = group.iter().filter_map(|section| Some((of(section)?, &section.at)));
    let (first, _) = found.next()?;
    if let Some((_, at)) = found.find(|(other, _)| *other != first) {
        said.refuse_at(at, option, reason);
    }
    Some(first)
}

/// A fiftieth, within 100 ms and 1 s; a job without a time gets the latter.
fn interval(duration: Option<Nanos>) -> Nanos {
    let (least, most) = (Nanos::from_millis(100).get(), Nanos::from_secs(1).get());
    let fiftieth = duration.map_or(most, |duration| (duration.get() / 50).clamp(least, most));
    // No step is recorded in more than a hundred thousand intervals.
    let coarse = duration.map_or(0, |duration| duration.get() / 50_000);
    Nanos::new(fiftieth.max(coarse))
}

/// The loads of one section: one for all its copies where fio has one row for them, else one each.
/// More copies than a step may have loads are one all the same, if they can be.
fn parts_of(section: &ImportedSection, may_part: bool) -> Vec<LoadPart<'_>> {
    let is_one = !section.reporting.is_apart || !may_part || section.copies.len() == 1;
    let whole = is_one.then(|| rule_of(&section.copies, section.workload.block_size)).flatten();
    if let Some(places) = whole {
        let copies = (section.binding.clone(), section.first_copy);
        return vec![part(section, &section.copies, places, copies)];
    }
    let single = |(index, copy): (usize, &CopyPlace)| {
        let binding = match &section.binding {
            CpuBinding::Cpus(cpus) => {
                CpuBinding::Cpus(cpus.get(index).copied().into_iter().collect())
            }
            other => other.clone(),
        };
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let first_copy = section.first_copy.saturating_add(number);
        let place = (copy.targets.clone(), RegionRule::Shared, region(&copy.extent));
        part(section, std::slice::from_ref(copy), place, (binding, first_copy))
    };
    section.copies.iter().enumerate().map(single).collect()
}

/// Targets, and how copies have their parts of them.
type CopyPlaces = (Vec<usize>, RegionRule, Region);

fn part<'s>(
    section: &'s ImportedSection,
    copies: &[CopyPlace],
    (targets, rule, within): CopyPlaces,
    (binding, first_copy): (CpuBinding, u32),
) -> LoadPart<'s> {
    let bytes = copies.first().and_then(|copy| copy.bytes);
    LoadPart {
        section,
        names: vec![&section.workload.name],
        targets,
        targets_each: copies.first().map_or(1, |copy| copy.targets.len()),
        rule,
        within,
        bindings: vec![binding],
        first_copies: vec![first_copy],
        copies_each: u32::try_from(copies.len()).unwrap_or(u32::MAX),
        bounds: CopyBounds { bytes, duration: section.timing.duration },
    }
}

fn region(extent: &CopyExtent) -> Region {
    Region { offset: Bytes::new(extent.offset), length: Bytes::new(extent.length) }
}

/// The rule by which copies have their places, if there is one and all move as much.
fn rule_of(copies: &[CopyPlace], block: Bytes) -> Option<CopyPlaces> {
    let first = copies.first()?;
    if copies.iter().any(|copy| copy.bytes != first.bytes) {
        return None;
    }
    let mut groups: Vec<&[usize]> = Vec::new();
    for copy in copies {
        if !groups.contains(&copy.targets.as_slice()) {
            groups.push(&copy.targets);
        }
    }
    let targets = groups.concat();
    // Jobs of a load take its targets in turn: only copies that do so can be one.
    let in_turn = (0..)
        .zip(copies)
        .all(|(index, copy): (usize, _)| groups.get(index % groups.len()) == Some(&&*copy.targets));
    if in_turn && copies.iter().all(|copy| copy.extent == first.extent) {
        return Some((targets, RegionRule::Shared, region(&first.extent)));
    }
    let last = copies.last()?;
    if groups.len() > 1 {
        return None;
    }
    let step = copies.get(1)?.extent.offset.checked_sub(first.extent.offset)?;
    let is_even = copies.windows(2).all(|pair| match pair {
        [one, next] => next.extent.offset.checked_sub(one.extent.offset) == Some(step),
        _ => true,
    });
    // A rule of durio begins each part at a whole block.
    let is_whole = step > 0 && step.is_multiple_of(block.get());
    if !is_even || !is_whole {
        return None;
    }
    if copies.iter().all(|copy| copy.extent.length == step) {
        let length = Bytes::new(last.extent.end() - first.extent.offset);
        let within = Region { offset: Bytes::new(first.extent.offset), length };
        return Some((targets, RegionRule::ShareEach, within));
    }
    let to_the_end = copies.iter().all(|copy| copy.extent.end() == first.extent.end());
    let by = Bytes::new(step);
    to_the_end.then(|| (targets, RegionRule::OffsetEach { by }, region(&first.extent)))
}

/// Adds a part, to an earlier one if they differ in nothing but their target.
fn add<'s>(parts: &mut Vec<LoadPart<'s>>, part: LoadPart<'s>) {
    let is_joined = |known: &&mut LoadPart<'s>| known.takes(&part);
    match parts.iter_mut().find(is_joined) {
        Some(known) => {
            known.targets.extend(&part.targets);
            known.names.extend(&part.names);
            known.bindings.extend(part.bindings);
            known.first_copies.extend(part.first_copies);
        }
        None => parts.push(part),
    }
}

impl LoadPart<'_> {
    fn takes(&self, other: &Self) -> bool {
        let [target] = other.targets.as_slice() else { return false };
        let (ours, theirs) = (self.section, other.section);
        let is_another = !std::ptr::eq(ours, theirs) && !self.targets.contains(target);
        let in_one_row = ours.reporting.is_grouped && theirs.reporting.is_grouped;
        // With several targets already, one more would change whose turn it is.
        let same_places = self.targets.len() == self.names.len()
            && (self.rule, self.within, self.copies_each, self.bounds)
                == (other.rule, other.within, other.copies_each, other.bounds);
        let same_bindings = match (self.bindings.first(), other.bindings.first()) {
            (Some(one), Some(other)) => one.is_like(other),
            _ => false,
        };
        let alike = |section: &ImportedSection| {
            let queue = (
                section.queue.engine,
                section.queue.batch,
                section.queue.drain,
                section.queue.arrivals,
            );
            (queue, section.advice, section.file_order, section.timing, section.reporting_group)
        };
        let nameless = |workload: &Workload| Workload {
            name: String::new(),
            summary: String::new(),
            ..workload.clone()
        };
        is_another
            && in_one_row
            && same_places
            && same_bindings
            && alike(ours) == alike(theirs)
            && nameless(&ours.workload) == nameless(&theirs.workload)
    }

    fn places(&self, at: StreamPlace) -> impl Iterator<Item = CopiesPlace> {
        let place = move |&first: &u32| CopiesPlace { first, copies: self.copies_each, at };
        self.first_copies.iter().map(place)
    }

    fn jobs(&self) -> u32 {
        let sections = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.copies_each.saturating_mul(sections)
    }

    fn name(&self) -> String {
        match self.names.as_slice() {
            [name] => (*name).to_owned(),
            [first, .., last] => format!("{first}..{last}"),
            [] => String::new(),
        }
    }
}

fn load(part: &LoadPart<'_>) -> Load {
    let section = part.section;
    let jobs = part.jobs();
    let workload = Workload {
        name: part.name(),
        region: part.rule,
        within: Some(part.within),
        jobs,
        ..section.workload.clone()
    };
    let mut targets = part.targets.iter().copied();
    let first = targets.next().unwrap_or(0);
    // fio's rate is that of each copy, a load's that of all together.
    let arrivals = section.queue.arrivals;
    let total = arrivals.rate_per_second().unwrap_or(0.0) * f64::from(jobs);
    Load {
        more_targets: targets.collect(),
        targets_each: u32::try_from(part.targets_each).unwrap_or(u32::MAX),
        batch: section.queue.batch,
        arrivals: arrivals.at_rate(total),
        placement: CpuBinding::interleaved(&part.bindings, part.copies_each),
        blocking_syncs: section.blocking_syncs,
        file_order: if part.targets_each > 1 {
            section.file_order
        } else {
            FileOrder::EACH_IN_TURN
        },
        drain: section.queue.drain,
        completion_time: match section.queue.engine.is_asynchronous() {
            true => CompletionTime::Taken,
            false => CompletionTime::Seen,
        },
        advice: section.advice,
        ..Load::new(first, workload, section.queue.engine)
    }
}

fn tell_of_parts(group: &[ImportedSection], parts: &[LoadPart<'_>], said: &mut ImportNotes) {
    for part in parts.iter().filter(|part| part.names.len() > 1) {
        let what = format!(
            "the sections {} do the same on {} targets: they are one load with one result",
            part.names.join(", "),
            part.targets.len()
        );
        said.note_at(&part.section.at, "name", &what);
    }
    for section in group {
        let joined =
            |part: &&LoadPart<'_>| part.copies_each > 1 && std::ptr::eq(part.section, section);
        if section.reporting.is_apart && parts.iter().any(|part| joined(&part)) {
            let what = "number of copies that share one row and one log";
            said.note_at(&section.at, "numjobs", what);
        }
        let own = parts.iter().filter(|part| std::ptr::eq(part.section, section)).count();
        if own > 1 && !section.reporting.is_apart {
            let what = "the regions of its copies are irregular: each copy is a separate load";
            said.note_at(&section.at, "numjobs", what);
        }
    }
}

fn ends_all(group: &[ImportedSection], is_last: bool, said: &mut ImportNotes) -> bool {
    let scope = group.iter().find_map(|section| section.timing.ends);
    let Some((scope, first)) = scope.zip(group.first()) else { return false };
    let one_group = group.iter().all(|section| section.reporting_group == first.reporting_group);
    let one_scope = group.iter().all(|section| section.timing.ends == Some(scope));
    let fits = match scope {
        ExitScope::Stonewall => true,
        ExitScope::Group => one_group,
        ExitScope::All => is_last,
    };
    if !fits || !one_scope {
        let reason = "durio ends exactly the jobs of a stonewall group; give exit_what=stonewall";
        said.refuse_at(&first.at, "exitall", reason);
    }
    true
}

// fio counts from its own start, so the time of earlier groups is part of the delay.
fn set_pauses(sections: &[ImportedSection], steps: &mut [Step], said: &mut ImportNotes) {
    let groups = sections.chunk_by(|one, other| one.group == other.group);
    // A lower bound, and exact unless an earlier group ends by volume.
    let (mut elapsed, mut is_known) = (Nanos::ZERO, true);
    for (group, step) in groups.zip(steps) {
        let copies: usize = group.iter().map(|section| section.copies.len()).sum();
        let draws = group.iter().find(|section| section.timing.draws_start);
        if let Some(section) = draws.filter(|_| copies > 1) {
            let reason = "fio draws a start for each job, durio starts all jobs of a group at the same \
                          moment; give one delay, or let a job with a range run alone";
            said.refuse_at(&section.at, "startdelay", reason);
            continue;
        }
        let reason = "durio starts all jobs of a group at the same moment; use stonewall for order";
        let delay =
            common(group, |section| Some(section.timing.start_delay), ("startdelay", reason), said);
        let delay = delay.unwrap_or(Nanos::ZERO);
        let rest = delay.saturating_sub(elapsed);
        match group.first().filter(|_| rest > Nanos::ZERO && !is_known) {
            None => step.pause_before = rest,
            Some(first) => {
                let reason = "fio counts it from its own start, and the duration of earlier jobs \
                              is unknown: give them time_based and a runtime, or leave it out";
                said.refuse_at(&first.at, "startdelay", reason);
            }
        }
        let own = duration(step);
        is_known &= own.is_some();
        let own = step.pause_before.get().saturating_add(own.unwrap_or(0));
        elapsed = Nanos::new(elapsed.get().saturating_add(own));
    }
}

/// How long a step takes, if time alone bounds it.
fn duration(step: &Step) -> Option<u64> {
    let of = |limit: Limit| match limit {
        Limit::Duration(duration) => Some(duration.get().saturating_add(step.ramp.get())),
        _ => None,
    };
    let limits = step.loads().map(|load| of(load.own_limit.unwrap_or(step.limit)));
    limits.collect::<Option<Vec<_>>>()?.into_iter().max()
}
