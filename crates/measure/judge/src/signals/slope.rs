//! The time of a flush over the data written before it: a volatile cache has to be emptied, which
//! takes longer the fuller it is.
//!
//! It gets the steps of a durable plan's experiment; the line itself is fitted by
//! `durable::flush_slope`.

use std::collections::BTreeMap;

use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};
use durio_observe::Stack;
use durio_plan::{Experiment, SectionKind};
use durio_record::OperationName;
use durio_workload::CacheMode;

use super::measured::{FLASH_FLUSH_MIN, nanos_text};
use super::{Signal, SignalWord, ends, is_flushed, layer_name, reading, signal};
use crate::RuleInput;
use durio_analyse::WorkloadFindings;
use durio_analyse::durable::{FlushPoint, FlushSlope, SlopeShape, flush_slope};

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
pub(super) fn measured(input: &RuleInput<'_>) -> Vec<Signal> {
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
    let (word, implies) = meaning(word_of(&slope, points, is_flushed(layer), written)?);
    let place = format!("experiment of flushes at {location}");
    let flush = |point: &FlushPoint| {
        let what = format!("flush after {} writes of {block}, p50", point.blocks);
        reading(&what, place.clone(), nanos_text(point.flush_ns_p50))
    };
    let mut read: Vec<_> = points.iter().map(flush).collect();
    let each_mib = format!("{:.1} µs", slope.ns_per_mib.value / 1e3);
    read.push(reading("added by each MiB", place.clone(), each_mib));
    let advice = if word == SignalWord::Suspect { "only a power cut proves it" } else { "" };
    signal(("flush-slope", word, layer_name(layer)), read, implies, advice)
}

const fn meaning(word: SlopeWord) -> (SignalWord, &'static str) {
    match word {
        SlopeWord::Emptied => (
            SignalWord::Fact,
            "a flush takes longer the more was written before it, and never less than programming \
             flash takes: as expected of a volatile cache that is really emptied",
        ),
        SlopeWord::Rises => (
            SignalWord::Fact,
            "a flush takes longer the more was written before it, but starts below the time that \
             programming flash takes: some work is done, but not all of it by the medium",
        ),
        SlopeWord::TooSteepToBeTrue => (
            SignalWord::Suspect,
            "by the slope the cache would be emptied more than twice as fast as this storage was \
             ever written: not all flushed data reaches the medium",
        ),
        SlopeWord::NotSent => (
            SignalWord::Declared,
            "a flush takes no time whatever was written before it, because no flush is sent: the \
             kernel assumes that the device has no volatile cache",
        ),
        SlopeWord::ProtectedOrLie => (
            SignalWord::Suspect,
            "a flush is fast whatever was written before it, although the cache is said to be \
             volatile: it is protected against power loss, or the flush is not done",
        ),
        SlopeWord::FixedPrice => (
            SignalWord::Fact,
            "a flush takes the same considerable time whatever was written before it; nothing \
             follows from that",
        ),
    }
}

/// What its signals mean.
pub(super) const EXPLAINED: &[[&str; 5]] = &[[
    "flush-slope",
    "suspect, declared, fact",
    "how the time of a flush grows with what was written before it (experiment flush-slope \
         of durio durable)",
    "a volatile cache takes longer to empty the fuller it is; flat and fast means protected, or \
     not done; faster than the storage can write means that not all of it reaches the medium",
    "if it is suspect, only a power cut proves it",
]];

#[cfg(test)]
mod tests {
    use super::*;

    /// Flushes of a fixed time and so many nanoseconds per block of 4 KiB.
    fn line(fixed_micros: u64, per_block: u64) -> Vec<FlushPoint> {
        let blocks = [1, 4, 16, 64, 256, 1024];
        let flush = |blocks: u32| Nanos::new(fixed_micros * 1000 + u64::from(blocks) * per_block);
        let of = |&blocks: &u32| point(blocks, Bytes::from_kib(4), flush(blocks));
        blocks.iter().map(of).collect()
    }

    fn word(points: &[FlushPoint], sends: bool, written: Option<f64>) -> Option<SlopeWord> {
        word_of(&flush_slope(points).unwrap(), points, sends, written)
    }

    #[test]
    fn a_cache_that_is_emptied_rises_from_the_time_that_programming_takes() {
        // 4 KiB in 8 µs are 512 MB/s.
        assert_eq!(word(&line(400, 8000), true, Some(500e6)), Some(SlopeWord::Emptied));
        assert_eq!(word(&line(20, 8000), true, None), Some(SlopeWord::Rises));
    }

    #[test]
    fn a_cache_that_is_emptied_faster_than_it_can_be_written_is_suspect() {
        let steep = Some(SlopeWord::TooSteepToBeTrue);
        assert_eq!(word(&line(400, 8000), true, Some(250e6)), steep);
        assert_eq!(word(&line(400, 8000), true, Some(0.0)), Some(SlopeWord::Emptied));
    }

    #[test]
    fn a_slope_that_is_not_known_well_accuses_nobody() {
        let mut points = line(100, 1000);
        for (index, point) in points.iter_mut().enumerate() {
            point.flush_ns_p50 *= [0.7, 1.4, 0.8, 1.5, 0.6, 1.3][index];
        }
        let found = word(&points, true, Some(1e9));
        assert!(found != Some(SlopeWord::TooSteepToBeTrue), "{found:?}");
    }

    #[test]
    fn flat_and_fast_is_a_declaration_or_suspect_and_flat_and_slow_says_nothing() {
        assert_eq!(word(&line(30, 0), true, None), Some(SlopeWord::ProtectedOrLie));
        assert_eq!(word(&line(2, 0), false, None), Some(SlopeWord::NotSent));
        assert_eq!(word(&line(1200, 0), true, None), Some(SlopeWord::FixedPrice));
    }

    #[test]
    fn a_cache_may_be_emptied_twice_as_fast_as_the_storage_was_written() {
        // 4 KiB in 8 µs are 512 MB/s.
        let of = |written| word(&line(400, 8000), true, Some(written));
        assert_eq!(
            [of(256.5e6), of(255.5e6)],
            [Some(SlopeWord::Emptied), Some(SlopeWord::TooSteepToBeTrue),]
        );
    }

    #[test]
    fn bandwidth_is_that_of_the_fastest_writes_of_128_kib_or_more_at_the_place() {
        let mut sample = crate::tests::sample();
        let mut add = |bytes: u64, bandwidth: f64, location: &str| {
            let mut workload = sample.workloads[0].clone();
            workload.definition.block_size = Bytes::new(bytes);
            (workload.bandwidth, workload.location) = (bandwidth, location.to_owned());
            sample.workloads.push(workload);
        };
        add((128 << 10) - 1, 9e9, "/data");
        add(1 << 20, 8e9, "/other");
        add(128 << 10, 2e9, "/data");
        add(1 << 20, 3e9, "/data");
        add(256 << 10, 1e9, "/data");
        assert_eq!(write_bandwidth(&sample.input(), "/data"), Some(3e9));
        sample.workloads.remove(4);
        assert_eq!(write_bandwidth(&sample.input(), "/data"), Some(2e9));
        // Through the cache, and not made durable: not the storage's.
        for workload in &mut sample.workloads {
            (workload.effective.cache, workload.durable) = (CacheMode::Buffered, false);
        }
        assert_eq!(write_bandwidth(&sample.input(), "/data"), None);
    }
}
