//! Rules about measurements: flushes counted per sync, times that no medium reaches, and the time of
//! a flush over the data written before it (a volatile cache takes longer to empty the fuller it is).
//!
//! Only workloads with one operation at a time count, because concurrent flushes are merged and
//! share their time. The slope gets the steps of a durable plan's experiment; the line itself is
//! fitted by `durable::flush_slope`.

use std::collections::BTreeMap;

use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};
use durio_observe::{Layer, Stack};
use durio_plan::{EngineKind, Experiment, SectionKind};
use durio_record::OperationName;
use durio_workload::{CacheMode, SyncMethod};

use super::device::is_cloud_volume;
use super::{EvidenceReading, Signal, ends, filled, is_flushed, layer_name, reading, signal};
use crate::RuleInput;
use durio_analyse::durable::{FlushPoint, FlushSlope, SlopeShape, flush_slope};
use durio_analyse::{OperationFindings, WorkloadFindings};

// Programming a page of planar NAND took 200 to 1350 µs (HP, "Solid state drive technology",
// technical white paper), which a flush without power-loss protection waits for; that 3D NAND takes
// some 400 to 700 µs, and its fast areas 150 to 250, is general knowledge.
const FLASH_FLUSH_MIN: Nanos = Nanos::from_micros(150);

// A disk that turns 7200 times a minute comes back to the same sector after 8.3 ms; even the way to
// another one is not under a millisecond.
const DISK_FLUSH_MIN: Nanos = Nanos::from_millis(1);

// A round trip in a data centre to the replicas, and their commit: general knowledge.
const VOLUME_FLUSH_MIN: Nanos = Nanos::from_micros(100);

// Syncs below which their flushes are not counted against them.
const SYNCS_MIN: u64 = 20;

// Fewer syncs have no 1st percentile.
const FAST_SYNCS_MIN: u64 = 100;

// A share of flushes per sync that others' I/O explains.
const FLUSHES_PER_SYNC_MIN: f64 = 0.5;

// A flush that adds less than this share to a write costs nothing.
const DELTA_SHARE_MIN: f64 = 0.1;

// The transfer of larger writes takes so long that a flush which works hides in it.
const DELTA_BLOCK_MAX: Bytes = Bytes::from_kib(16);

// A FUA write that takes at most this many times a plain write is just a plain write.
const FUA_LIKE_PLAIN: f64 = 1.15;

// A flush that makes a write take at least this many times the plain write does something.
const FLUSH_AT_WORK: f64 = 2.0;

/// The operation that waits for durability.
fn synced(workload: &WorkloadFindings) -> Option<&OperationFindings> {
    // A linked sync has no separate latency: each commit has one, and it takes longer.
    let calls = workload.operation(OperationName::Sync);
    match workload.definition.sync.method {
        SyncMethod::None => None,
        _ => calls.or_else(|| workload.operation(OperationName::Commit)),
    }
}

/// Workloads with one operation at a time on a real engine, each with the layers below it.
fn alone<'a>(input: &'a RuleInput<'_>) -> impl Iterator<Item = (&'a WorkloadFindings, &'a Stack)> {
    let is_alone = |workload: &&WorkloadFindings| {
        let effective = &workload.effective;
        effective.engine != EngineKind::Null
            && effective.jobs.saturating_mul(effective.depth) == 1
            && workload.definition.group_commit.is_none()
    };
    let workloads = input.workloads.iter().filter(is_alone);
    workloads.filter_map(|workload| Some((workload, input.stack_at(&workload.location)?)))
}

/// The devices at the bottom that the kernel sends flushes to.
fn flushed_ends(stack: &Stack) -> impl Iterator<Item = &Layer> {
    ends(stack).filter(|layer| is_flushed(layer))
}

fn takes_fua(stack: &Stack) -> bool {
    flushed_ends(stack)
        .any(|layer| layer.block.as_ref().is_some_and(|block| block.fua == Some(true)))
}

fn names(stack: &Stack) -> String {
    flushed_ends(stack).map(layer_name).collect::<Vec<_>>().join(", ")
}

/// Syncs and flushes of one method at one location.
struct SyncCounts<'a> {
    stack: &'a Stack,
    syncs: u64,
    flushes: u64,
    workloads: Vec<&'a str>,
}

impl SyncCounts<'_> {
    fn is_few(&self) -> bool {
        let share = float(self.flushes) / float(self.syncs.max(1));
        share < FLUSHES_PER_SYNC_MIN
    }

    fn readings(&self, method: &str, location: &str) -> [EvidenceReading; 2] {
        let place = format!("{} at {location}", self.workloads.join(", "));
        let mut devices: Vec<&str> = Vec::new();
        flushed_ends(self.stack).for_each(|layer| add_once(&mut devices, &layer.name));
        let counters = format!("/sys/class/block/{}/stat", devices.join(", "));
        [
            reading(&format!("syncs by {method}"), place, self.syncs.to_string()),
            reading("flushes in that time", counters, self.flushes.to_string()),
        ]
    }
}

/// Per location and method.
fn counts<'a>(input: &'a RuleInput<'_>) -> BTreeMap<(&'a str, &'static str), SyncCounts<'a>> {
    let mut counts = BTreeMap::new();
    for (workload, stack) in alone(input) {
        let Some(sync) = synced(workload) else { continue };
        let counting = workload.devices.iter().filter(|device| !device.not_counted);
        // Each layer and each member of an array counts the same flush: a sum would count it again.
        let flushes = counting.filter_map(|device| device.flushes_completed).max();
        let Some(flushes) = flushes else { continue };
        let method = workload.definition.sync.method;
        // A write that bypasses the cache needs no flush, and is not counted as one.
        let is_invisible = !method.is_sync_call() && takes_fua(stack);
        if sync.service.count < SYNCS_MIN || is_invisible || flushed_ends(stack).next().is_none() {
            continue;
        }
        let key = (workload.location.as_str(), method.name());
        let new = || SyncCounts { stack, syncs: 0, flushes: 0, workloads: Vec::new() };
        let counted = counts.entry(key).or_insert_with(new);
        counted.syncs = counted.syncs.saturating_add(sync.service.count);
        counted.flushes = counted.flushes.saturating_add(flushes);
        add_once(&mut counted.workloads, &workload.name);
    }
    counts
}

fn add_once<'a>(names: &mut Vec<&'a str>, name: &'a str) {
    if !names.contains(&name) {
        names.push(name);
    }
}

/// Flushes that the devices completed, against the syncs that were acknowledged: of a location one
/// signal for the methods with too few, and one for the others.
pub(super) fn flushes_per_sync(input: &RuleInput<'_>) -> Vec<Signal> {
    let mut found: BTreeMap<(&str, bool), (&Stack, Vec<EvidenceReading>)> = BTreeMap::new();
    let counts = counts(input);
    for ((location, method), counted) in &counts {
        let key = (*location, !counted.is_few());
        let (_, read) = found.entry(key).or_insert((counted.stack, Vec::new()));
        read.extend(counted.readings(method, location));
    }
    let one = |((_, are_sent), (stack, read)): ((&str, bool), (&Stack, Vec<EvidenceReading>))| {
        match are_sent {
            true => signal("flushes-counted", names(stack), read),
            false => signal("flushes-missing", names(stack), read),
        }
    };
    found.into_iter().filter_map(one).collect()
}

/// The time below which a flush of the medium is not plausible, and its name.
fn floor(layer: &Layer, is_virtual: bool) -> Option<(Nanos, &'static str)> {
    let block = layer.block.as_ref()?;
    match () {
        () if is_cloud_volume(layer) => {
            Some((VOLUME_FLUSH_MIN, "a volume with replicas (general knowledge)"))
        }
        // Hypervisors call any disk rotational.
        () if block.rotational == Some(true) && !is_virtual => {
            Some((DISK_FLUSH_MIN, "a spinning disk at 7200 rpm"))
        }
        () => Some((FLASH_FLUSH_MIN, "flash without power-loss protection")),
    }
}

/// Syncs that are faster than the medium allows: the fastest 1st percentile for a device.
///
/// A busy machine makes most syncs slower and none faster, so the verdict must not depend on the
/// slow ones. On a machine with more work than CPUs, p5 of one disk was 45 to 950 µs from run to
/// run (400 syncs each), and p1 34 to 99 µs. The minimum could be a sync without anything to flush.
pub(super) fn latency_floor(input: &RuleInput<'_>) -> Vec<Signal> {
    let mut fastest: BTreeMap<&str, (u64, &WorkloadFindings, &Layer)> = BTreeMap::new();
    for (workload, stack) in alone(input) {
        let sync = synced(workload).filter(|sync| sync.service.count >= FAST_SYNCS_MIN);
        let low = sync.and_then(|sync| sync.service.p1_ns);
        let Some((low, layer)) = low.zip(flushed_ends(stack).next()) else { continue };
        let known = fastest.entry(&layer.name).or_insert((low, workload, layer));
        if low < known.0 {
            *known = (low, workload, layer);
        }
    }
    let is_virtual = input.environment.host.hypervisor.is_some();
    let one = |(low, workload, layer): (u64, &WorkloadFindings, &Layer)| {
        let (limit, medium) = floor(layer, is_virtual)?;
        if low >= limit.get() {
            return None;
        }
        let what = format!("time of a sync by {}, p1", workload.definition.sync.method);
        let place = format!("{} at {}", workload.name, workload.location);
        let key = if is_virtual { "flush-fast:virtual" } else { "flush-fast" };
        let read = vec![reading(&what, place, Nanos::new(low).to_string())];
        let limit = limit.to_string();
        let values = [("medium", medium), ("limit", limit.as_str())];
        filled(signal(key, layer_name(layer), read), &values)
    };
    fastest.into_values().filter_map(one).collect()
}

/// The median of a kind of operation, with samples enough.
fn median(workload: &WorkloadFindings, name: OperationName) -> Option<f64> {
    let service = &workload.operation(name)?.service;
    let p50 = float(service.p50_ns?);
    (service.count >= SYNCS_MIN && p50 > 0.0).then_some(p50)
}

/// A separate sync after each direct write: how much longer the commit takes than its write.
pub(super) fn flush_delta(input: &RuleInput<'_>) -> Vec<Signal> {
    let mut found: BTreeMap<&str, Signal> = BTreeMap::new();
    for (workload, stack) in alone(input) {
        if !found.contains_key(workload.location.as_str()) {
            found.extend(
                free_flush(workload, stack).map(|signal| (workload.location.as_str(), signal)),
            );
        }
    }
    found.into_values().collect()
}

fn free_flush(workload: &WorkloadFindings, stack: &Stack) -> Option<Signal> {
    let definition = &workload.definition;
    let is_plain = definition.sync.method.is_separate_call()
        && definition.commits_each_write()
        && definition.block_size <= DELTA_BLOCK_MAX
        && workload.effective.cache == CacheMode::Direct;
    let layer = flushed_ends(stack).next().filter(|_| is_plain)?;
    let write = median(workload, OperationName::Write)?;
    let commit = median(workload, OperationName::Commit)?;
    if commit - write >= write * DELTA_SHARE_MIN {
        return None;
    }
    let place = format!("{} at {}", workload.name, workload.location);
    signal(
        "flush-costs-nothing",
        layer_name(layer),
        vec![
            reading("direct write, p50", place.clone(), nanos_text(write)),
            reading("write and sync, p50", place, nanos_text(commit)),
        ],
    )
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "was an integer")]
fn nanos_text(nanos: f64) -> String {
    Nanos::new(nanos.max(0.0) as u64).to_string()
}

/// Medians of direct writes of one size at one location.
#[derive(Default)]
struct Medians {
    plain: Option<f64>,
    by_fua: Option<f64>,
    with_flush: Option<f64>,
}

fn lowest(known: &mut Option<f64>, new: Option<f64>) {
    *known = match (*known, new) {
        (Some(known), Some(new)) => Some(known.min(new)),
        (known, new) => known.or(new),
    };
}

/// FUA writes that cost no more than plain ones, where a flush costs much: a hint, no more.
pub(super) fn fua_against_flush(input: &RuleInput<'_>) -> Vec<Signal> {
    let mut groups: BTreeMap<(&str, u64), (&Stack, Medians)> = BTreeMap::new();
    for (workload, stack) in alone(input) {
        let definition = &workload.definition;
        if workload.effective.cache != CacheMode::Direct || !takes_fua(stack) {
            continue;
        }
        let key = (workload.location.as_str(), definition.block_size.get());
        let (_, medians) = groups.entry(key).or_insert_with(|| (stack, Medians::default()));
        let commit = median(workload, OperationName::Commit);
        match definition.sync.method {
            SyncMethod::ODsync | SyncMethod::RwfDsync => lowest(&mut medians.by_fua, commit),
            method if method.is_separate_call() && definition.commits_each_write() => {
                lowest(&mut medians.with_flush, commit);
                lowest(&mut medians.plain, median(workload, OperationName::Write));
            }
            SyncMethod::None => lowest(&mut medians.plain, median(workload, OperationName::Write)),
            _ => {}
        }
    }
    let hint = |(key, (stack, medians))| fua_hint(key, stack, &medians);
    groups.into_iter().filter_map(hint).collect()
}

fn fua_hint((location, size): (&str, u64), stack: &Stack, medians: &Medians) -> Option<Signal> {
    let (plain, by_fua, with_flush) = (medians.plain?, medians.by_fua?, medians.with_flush?);
    if by_fua > plain * FUA_LIKE_PLAIN || with_flush < plain * FLUSH_AT_WORK {
        return None;
    }
    let place = format!("writes of {size} bytes at {location}");
    let read = [
        ("direct write, p50", plain),
        ("O_DSYNC or RWF_DSYNC, p50", by_fua),
        ("write and flush, p50", with_flush),
    ];
    signal(
        "fua-like-plain-write",
        names(stack),
        read.map(|(what, nanos)| reading(what, place.clone(), nanos_text(nanos))).to_vec(),
    )
}

// A cache cannot be emptied much faster than the medium is written.
const BANDWIDTH_RATIO_MAX: f64 = 2.0;

// Writes from this size on show the medium's bandwidth rather than its latency.
const BANDWIDTH_BLOCK_MIN: Bytes = Bytes::from_kib(128);

/// The judgement of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlopeWord {
    Emptied,
    Rises,
    TooSteepToBeTrue,
    NotSent,
    ProtectedOrLie,
    FixedPrice,
}

/// The judgement of a line, if it is one; `written` are the most bytes per second at which the same
/// storage was written.
fn word_of(
    slope: &FlushSlope,
    points: &[FlushPoint],
    sends_flushes: bool,
    written: Option<f64>,
) -> Option<SlopeWord> {
    let programming = float(FLASH_FLUSH_MIN.get());
    let is_fast = points.iter().all(|point| point.flush_ns_p50 < programming);
    Some(match slope.shape {
        SlopeShape::CannotTell => return None,
        SlopeShape::Rises if too_fast(slope, written) => SlopeWord::TooSteepToBeTrue,
        SlopeShape::Rises if slope.intercept_ns.value >= programming => SlopeWord::Emptied,
        SlopeShape::Rises => SlopeWord::Rises,
        SlopeShape::Flat if !is_fast => SlopeWord::FixedPrice,
        SlopeShape::Flat if sends_flushes => SlopeWord::ProtectedOrLie,
        SlopeShape::Flat => SlopeWord::NotSent,
    })
}

/// True if even the slowest emptying within the interval is faster than the medium was written.
fn too_fast(slope: &FlushSlope, written: Option<f64>) -> bool {
    const MIB: f64 = 1_048_576.0;
    // Without an interval no device is accused: infinitely slow is never too fast.
    let slowest = slope.ns_per_mib.interval().map_or(f64::INFINITY, |(_, high)| high);
    let emptied = MIB / slowest * 1e9;
    written.is_some_and(|written| written > 0.0 && emptied > BANDWIDTH_RATIO_MAX * written)
}

/// The steps of the experiment at one location, all of one block size.
struct FlushSeries<'a> {
    stack: &'a Stack,
    points: Vec<FlushPoint>,
    block: Bytes,
}

/// Signals of the experiment of a durable plan that asks for the slope.
pub(super) fn slopes(input: &RuleInput<'_>) -> Vec<Signal> {
    let mut places: BTreeMap<&str, FlushSeries<'_>> = BTreeMap::new();
    for workload in input.workloads.iter().filter(|workload| is_of_experiment(input, workload)) {
        let Some(stack) = input.stack_at(&workload.location) else { continue };
        let sync = workload.operation(OperationName::Sync);
        let Some(p50) = sync.and_then(|sync| sync.service.p50_ns) else { continue };
        let block = workload.definition.block_size;
        let place = places.entry(&workload.location);
        let place = place.or_insert_with(|| FlushSeries { stack, points: Vec::new(), block });
        if place.block == block {
            place.points.push(point(workload.definition.sync.every, block, Nanos::new(p50)));
        }
    }
    let one = |(location, series): (&str, FlushSeries<'_>)| slope_signal(input, location, &series);
    places.into_iter().filter_map(one).collect()
}

/// One flush after `blocks` blocks.
fn point(blocks: u32, block: Bytes, flush: Nanos) -> FlushPoint {
    let dirty_bytes = float(u64::from(blocks).saturating_mul(block.get()));
    FlushPoint { blocks, dirty_bytes, flush_ns_p50: float(flush.get()) }
}

fn is_of_experiment(input: &RuleInput<'_>, workload: &WorkloadFindings) -> bool {
    let sections = input.plan.campaign.iter().flat_map(|campaign| &campaign.sections);
    let slope = SectionKind::Experiment { experiment: Experiment::FlushSlope };
    let mut of_experiment = sections.filter(|section| section.kind == slope);
    of_experiment.any(|section| section.range().contains(&(workload.step as usize)))
}

/// The most bytes per second that writes past the page cache reached at the location.
fn write_bandwidth(input: &RuleInput<'_>, location: &str) -> Option<f64> {
    let is_write = |workload: &&WorkloadFindings| {
        let definition = &workload.definition;
        workload.location == location
            && !definition.reads()
            && definition.block_size >= BANDWIDTH_BLOCK_MIN
            && (workload.effective.cache == CacheMode::Direct || workload.durable)
    };
    let bandwidths = input.workloads.iter().filter(is_write).map(|workload| workload.bandwidth);
    bandwidths.max_by(f64::total_cmp)
}

fn slope_signal(input: &RuleInput<'_>, location: &str, series: &FlushSeries<'_>) -> Option<Signal> {
    let layer = ends(series.stack).next()?;
    // A kernel that shows no view may send flushes or not: the line could mean anything.
    layer.block.as_ref()?.write_cache?;
    let written = write_bandwidth(input, location);
    let FlushSeries { points, block, .. } = series;
    let slope = flush_slope(points).ok()?;
    let word = word_of(&slope, points, is_flushed(layer), written)?;
    let place = format!("experiment of flushes at {location}");
    let flush = |point: &FlushPoint| {
        let what = format!("flush after {} writes of {block}, p50", point.blocks);
        reading(&what, place.clone(), nanos_text(point.flush_ns_p50))
    };
    let mut read: Vec<_> = points.iter().map(flush).collect();
    let each_mib = format!("{:.1} µs", slope.ns_per_mib.value / 1e3);
    read.push(reading("added by each MiB", place.clone(), each_mib));
    signal(key(word), layer_name(layer), read)
}

/// The key of its sentence.
const fn key(word: SlopeWord) -> &'static str {
    match word {
        SlopeWord::Emptied => "flush-slope:emptied",
        SlopeWord::Rises => "flush-slope:rises",
        SlopeWord::TooSteepToBeTrue => "flush-slope:too-steep",
        SlopeWord::NotSent => "flush-slope:not-sent",
        SlopeWord::ProtectedOrLie => "flush-slope:protected-or-lie",
        SlopeWord::FixedPrice => "flush-slope:fixed-price",
    }
}

#[cfg(test)]
mod tests;
