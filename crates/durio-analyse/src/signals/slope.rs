//! The time of a flush against what was written before it: a volatile cache has to be emptied, and
//! that takes longer the fuller it is.
//!
//! In: medians by number of blocks, or the steps of a durable plan's slice. Out: [`FlushSlope`] and
//! signals. Not here: running the steps.

use std::collections::BTreeMap;

use durio_plan::{SectionKind, Slice};
use durio_record::OperationName;
use durio_stack::{Stack, WriteCache};
use durio_units::{Bytes, Nanos};
use durio_workload::CacheMode;
use serde::{Deserialize, Serialize};

use super::measured::FLASH_FLUSH_MIN;
use super::{Evidence, Signal, SignalWord, ends, layer_name, reading, signal};
use crate::WorkloadFindings;

/// Fewer numbers of blocks are no slope.
const POINTS_MIN: usize = 4;

/// The largest numbers' flushes take at least so many times those of the smallest, or the line is
/// flat: below, noise explains it.
const RISE_MIN: f64 = 1.5;

/// A cache cannot be emptied much faster than the medium is written.
const BANDWIDTH_RATIO_MAX: f64 = 2.0;

/// Writes from this size on show the medium's bandwidth rather than its latency.
const BANDWIDTH_BLOCK_MIN: Bytes = Bytes::from_kib(128);

/// One number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushPoint {
    /// Blocks written since the flush before.
    pub blocks: u32,
    /// Median time of the flush.
    #[serde(rename = "flush_ns_p50")]
    pub flush: Nanos,
}

/// What the line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlopeWord {
    /// Rises with the blocks, from a time that programming takes: a volatile cache that is emptied.
    Emptied,
    /// Rises, and from less than programming takes.
    Rises,
    /// Rises, but the cache would be emptied faster than the medium can be written.
    TooSteepToBeTrue,
    /// Flat and fast, and the kernel sends no flush.
    NotSent,
    /// Flat and fast, although the kernel sends flushes: protected against power loss, or a lie.
    ProtectedOrLie,
    /// Flat and slow: a fixed price, which says nothing.
    FixedPrice,
}

/// The line through the points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FlushSlope {
    /// Time of a flush with next to nothing to do, in nanoseconds.
    pub intercept_ns: f64,
    /// What each MiB adds, in nanoseconds; zero or less if nothing.
    pub ns_per_mib: f64,
    /// Bytes per second at which the cache would be emptied, where the line rises.
    pub bandwidth_bytes_per_second: Option<f64>,
    /// What it says.
    pub word: SlopeWord,
}

/// The line through the medians, and what it says; `None` with fewer than four numbers of blocks.
///
/// `block` is the size of each, `sends_flushes` whether the kernel takes the cache for volatile,
/// `write_bandwidth` the bytes per second at which the same storage was written at most. The slope is
/// the median of the slopes between all pairs (Theil and Sen), so that one stall does not tilt it.
#[must_use]
pub fn flush_slope(
    points: &[FlushPoint],
    block: Bytes,
    sends_flushes: bool,
    write_bandwidth: Option<f64>,
) -> Option<FlushSlope> {
    const MIB: f64 = 1_048_576.0;
    let xy: Vec<(f64, f64)> = points.iter().map(|point| coordinates(*point, block)).collect();
    let mut distinct: Vec<u32> = points.iter().map(|point| point.blocks).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < POINTS_MIN || block == Bytes::ZERO {
        return None;
    }
    let per_byte = median(slopes(&xy))?;
    let intercept = median(xy.iter().map(|(x, y)| y - per_byte * x).collect())?;
    let bandwidth = (per_byte > 0.0).then(|| 1e9 / per_byte);
    let word = match rises(&xy) {
        true if too_steep(bandwidth, write_bandwidth) => SlopeWord::TooSteepToBeTrue,
        true if intercept >= nanos(FLASH_FLUSH_MIN) => SlopeWord::Emptied,
        true => SlopeWord::Rises,
        false if !is_fast(&xy) => SlopeWord::FixedPrice,
        false if sends_flushes => SlopeWord::ProtectedOrLie,
        false => SlopeWord::NotSent,
    };
    Some(FlushSlope {
        intercept_ns: intercept,
        ns_per_mib: per_byte * MIB,
        bandwidth_bytes_per_second: bandwidth,
        word,
    })
}

#[expect(clippy::cast_precision_loss, reason = "bytes and nanoseconds of a flush")]
fn coordinates(point: FlushPoint, block: Bytes) -> (f64, f64) {
    let bytes = u64::from(point.blocks).saturating_mul(block.get());
    (bytes as f64, point.flush.get() as f64)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a flush")]
fn nanos(value: Nanos) -> f64 {
    value.get() as f64
}

fn slopes(xy: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::new();
    for (index, a) in xy.iter().enumerate() {
        let later = xy.iter().skip(index + 1).filter(|b| (b.0 - a.0).abs() > 0.0);
        slopes.extend(later.map(|b| (b.1 - a.1) / (b.0 - a.0)));
    }
    slopes
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        0 => Some(values.get(values.len() / 2 - 1)?.midpoint(upper)),
        _ => Some(upper),
    }
}

/// The flushes of the two largest numbers against those of the two smallest.
fn rises(xy: &[(f64, f64)]) -> bool {
    let mut sorted = xy.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean_of = |ends: &[(f64, f64)]| ends.iter().map(|it| it.1).sum::<f64>();
    let (Some(low), Some(high)) = (sorted.first_chunk::<2>(), sorted.last_chunk::<2>()) else {
        return false;
    };
    mean_of(high) >= RISE_MIN * mean_of(low)
}

fn is_fast(xy: &[(f64, f64)]) -> bool {
    xy.iter().all(|(_, y)| *y < nanos(FLASH_FLUSH_MIN))
}

fn too_steep(emptied: Option<f64>, written: Option<f64>) -> bool {
    matches!((emptied, written), (Some(emptied), Some(written))
        if written > 0.0 && emptied > BANDWIDTH_RATIO_MAX * written)
}

/// The steps of the slice at one location.
struct Measured<'a> {
    stack: &'a Stack,
    points: Vec<FlushPoint>,
    block: Bytes,
}

/// Signals of the slice of a durable plan that asks for the slope.
pub(super) fn measured(evidence: &Evidence<'_>) -> Vec<Signal> {
    let basis = evidence.basis;
    let mut places: BTreeMap<&str, Measured<'_>> = BTreeMap::new();
    for workload in basis.workloads.iter().filter(|workload| is_of_slice(evidence, workload)) {
        let Some(stack) = basis.stack_at(&workload.location) else { continue };
        let Some(sync) = workload.operation(OperationName::Sync) else { continue };
        let Some(p50) = sync.service.p50_ns else { continue };
        let block = workload.definition.block_size;
        let place = places.entry(&workload.location);
        let place = place.or_insert_with(|| Measured { stack, points: Vec::new(), block });
        if place.block == block {
            let blocks = workload.definition.sync.every;
            place.points.push(FlushPoint { blocks, flush: Nanos::new(p50) });
        }
    }
    let one = |(location, measured): (&str, Measured<'_>)| told(evidence, location, &measured);
    places.into_iter().filter_map(one).collect()
}

fn is_of_slice(evidence: &Evidence<'_>, workload: &WorkloadFindings) -> bool {
    let sections = evidence.basis.plan.campaign.iter().flat_map(|campaign| &campaign.sections);
    let slope = SectionKind::Slice { slice: Slice::FlushSlope };
    let mut of_slice = sections.filter(|section| section.kind == slope);
    of_slice.any(|section| section.range().contains(&(workload.step as usize)))
}

/// The most bytes per second that writes past the page cache reached at the location.
fn write_bandwidth(evidence: &Evidence<'_>, location: &str) -> Option<f64> {
    let is_write = |workload: &&WorkloadFindings| {
        let definition = &workload.definition;
        workload.location == location
            && !definition.reads()
            && definition.block_size >= BANDWIDTH_BLOCK_MIN
            && (workload.effective.cache == CacheMode::Direct || workload.durable)
    };
    let bandwidths = evidence.basis.workloads.iter().filter(is_write).map(|it| it.bandwidth);
    bandwidths.max_by(f64::total_cmp)
}

fn told(evidence: &Evidence<'_>, location: &str, measured: &Measured<'_>) -> Option<Signal> {
    let layer = ends(measured.stack).next()?;
    let view = layer.block.as_ref()?.write_cache?;
    let sends = view == WriteCache::WriteBack;
    let written = write_bandwidth(evidence, location);
    let slope = flush_slope(&measured.points, measured.block, sends, written)?;
    let (word, implies) = meaning(slope.word);
    let place = format!("slice of flushes at {location}");
    let mut read: Vec<_> = measured
        .points
        .iter()
        .map(|point| {
            let what = format!("flush after {} writes of {}, p50", point.blocks, measured.block);
            reading(&what, place.clone(), point.flush.to_string())
        })
        .collect();
    read.push(reading("added by each MiB", place, format!("{:.1} µs", slope.ns_per_mib / 1e3)));
    let advice = if word == SignalWord::Suspect { "only a power cut proves it" } else { "" };
    signal(("flush-slope", word), layer_name(layer), read, implies, advice)
}

const fn meaning(word: SlopeWord) -> (SignalWord, &'static str) {
    match word {
        SlopeWord::Emptied => (
            SignalWord::Fact,
            "a flush takes longer the more was written before it, and never less than programming \
             flash takes: as a volatile cache does that is really emptied",
        ),
        SlopeWord::Rises => (
            SignalWord::Fact,
            "a flush takes longer the more was written before it, from less than programming flash \
             takes: work is done, and not all of it can be the medium's",
        ),
        SlopeWord::TooSteepToBeTrue => (
            SignalWord::Suspect,
            "by the slope the cache would be emptied more than twice as fast as this storage was \
             ever written: what is flushed does not all reach the medium",
        ),
        SlopeWord::NotSent => (
            SignalWord::Declared,
            "a flush takes no time whatever was written before it, for none is sent: the device is \
             taken for one without a volatile cache",
        ),
        SlopeWord::ProtectedOrLie => (
            SignalWord::Suspect,
            "a flush is fast whatever was written before it, though the cache is said to be \
             volatile: protected against power loss, or not done",
        ),
        SlopeWord::FixedPrice => (
            SignalWord::Fact,
            "a flush has the same price whatever was written before it, and no small one; nothing \
             follows from that",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Bytes = Bytes::from_kib(4);

    /// Flushes of a fixed time and so many nanoseconds per block.
    fn line(fixed_micros: u64, per_block: u64) -> Vec<FlushPoint> {
        let blocks = [1, 4, 16, 64, 256, 1024];
        let flush = |blocks: u32| Nanos::new(fixed_micros * 1000 + u64::from(blocks) * per_block);
        blocks.iter().map(|&blocks| FlushPoint { blocks, flush: flush(blocks) }).collect()
    }

    fn word(points: &[FlushPoint], sends: bool, written: Option<f64>) -> SlopeWord {
        flush_slope(points, BLOCK, sends, written).unwrap().word
    }

    #[test]
    fn a_cache_that_is_emptied_shows_its_bandwidth() {
        // 4 KiB in 8 µs are 512 MB/s.
        let slope = flush_slope(&line(400, 8000), BLOCK, true, Some(500e6)).unwrap();
        assert_eq!(slope.word, SlopeWord::Emptied);
        assert!((slope.intercept_ns - 400_000.0).abs() < 1.0, "{slope:?}");
        let bandwidth = slope.bandwidth_bytes_per_second.unwrap();
        assert!((bandwidth / 512e6 - 1.0).abs() < 1e-6, "{bandwidth}");
        assert_eq!(word(&line(20, 8000), true, None), SlopeWord::Rises);
    }

    #[test]
    fn a_cache_that_is_emptied_faster_than_it_can_be_written_is_suspect() {
        assert_eq!(word(&line(400, 8000), true, Some(250e6)), SlopeWord::TooSteepToBeTrue);
        assert_eq!(word(&line(400, 8000), true, Some(0.0)), SlopeWord::Emptied);
    }

    #[test]
    fn flat_and_fast_is_a_declaration_or_suspect_and_flat_and_slow_says_nothing() {
        assert_eq!(word(&line(30, 0), true, None), SlopeWord::ProtectedOrLie);
        assert_eq!(word(&line(2, 0), false, None), SlopeWord::NotSent);
        assert_eq!(word(&line(1200, 0), true, None), SlopeWord::FixedPrice);
    }

    #[test]
    fn one_stall_does_not_tilt_the_line() {
        let mut points = line(30, 0);
        points[2].flush = Nanos::from_millis(40);
        let slope = flush_slope(&points, BLOCK, true, None).unwrap();
        assert!(slope.ns_per_mib.abs() < 1.0, "{slope:?}");
        assert_eq!(slope.word, SlopeWord::FixedPrice, "one flush was slow: no longer all are fast");
    }

    #[test]
    fn few_points_are_no_line() {
        assert_eq!(flush_slope(&line(30, 0)[..3], BLOCK, true, None), None);
        let same = [FlushPoint { blocks: 1, flush: Nanos::new(9) }; 9];
        assert_eq!(flush_slope(&same, BLOCK, true, None), None);
        assert_eq!(flush_slope(&line(30, 0), Bytes::ZERO, true, None), None);
        assert_eq!(flush_slope(&[], BLOCK, true, None), None);
    }

    #[test]
    fn any_points_give_a_finite_line_or_none() {
        use proptest::prelude::*;
        let point = (any::<u32>(), any::<u64>())
            .prop_map(|(blocks, ns)| FlushPoint { blocks, flush: Nanos::new(ns) });
        proptest!(|(points in proptest::collection::vec(point, 0..12), block in 0_u64..1 << 20)| {
            if let Some(slope) = flush_slope(&points, Bytes::new(block), true, Some(1e9)) {
                prop_assert!(slope.intercept_ns.is_finite() && slope.ns_per_mib.is_finite());
            }
        });
    }
}
