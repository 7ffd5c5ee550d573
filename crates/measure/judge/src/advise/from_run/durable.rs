//! Facts of `durio durable`: its slices compare like with like, so that their ratios replace those of
//! workloads that happen to be alike.
//!
//! [`DurableFindings`] give facts of the run.

use durio_plan::FileLayout;
use durio_workload::{CacheMode, SyncMethod};

use super::{METHODS, PAIRS, RunFacts};
use crate::advise::value::{FactValue, real};
use durio_analyse::durable::{BATCH_SHARE, DurableArm, DurableFindings, FileModesFindings};

// A sync after more writes than this is not a log's batch: a crash would lose too much.
const EVERY_MAX: u32 = 64;

pub(super) fn facts(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    methods(gathered, durable);
    file_modes(gathered, &durable.file_modes);
    sizes(gathered, durable);
    batches(gathered, durable);
    commit_delay(gathered, durable);
}

fn rate(arm: &DurableArm) -> Option<f64> {
    arm.figures.as_ref().map(|it| it.rate_per_second).filter(|rate| *rate > 0.0)
}

/// What databases do on Linux by default: fdatasync through the page cache; the lower the more so.
fn is_unusual(arm: &DurableArm) -> (bool, bool) {
    let setting = &arm.setting;
    (setting.method != SyncMethod::Fdatasync, setting.cache != CacheMode::Buffered)
}

fn methods(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let Some(found) = &durable.methods else { return };
    let rate_of = |method: SyncMethod, cache: CacheMode| {
        let arms = found.rows.iter().map(|row| &row.arm);
        let like = arms.filter(|it| it.setting.method == method && it.setting.cache == cache);
        like.filter_map(rate).max_by(f64::total_cmp)
    };
    let caches = [CacheMode::Buffered, CacheMode::Direct];
    let ratio = PAIRS.iter().find_map(|(whole, data)| {
        caches.iter().find_map(|cache| Some(rate_of(*data, *cache)? / rate_of(*whole, *cache)?))
    });
    gathered.number("fsync_over_fdatasync", ratio);
    // All methods in the cache mode in which fdatasync was measured: like is compared with like.
    let usual = |cache: CacheMode| Some((cache, rate_of(SyncMethod::Fdatasync, cache)?));
    let Some((cache, usual)) = caches.into_iter().find_map(usual) else { return };
    let durable = SyncMethod::ALL.into_iter().filter(|it| *it != SyncMethod::None);
    let rates: Vec<(SyncMethod, f64)> =
        durable.filter_map(|method| Some((method, rate_of(method, cache)?))).collect();
    if let Some((fastest, rate)) = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        gathered.put("fastest_sync_method", Some(FactValue::Text(fastest.name().to_owned())));
        gathered.number("fastest_sync_gain", Some(rate / usual));
    }
    let known = METHODS.iter().filter_map(|(method, name)| {
        let rate = rates.iter().find(|it| it.0 == *method)?.1;
        Some((*name, 1e9 / rate))
    });
    gathered.best_of(&known.collect::<Vec<_>>());
}

fn file_modes(gathered: &mut RunFacts<'_>, found: &[FileModesFindings]) {
    let rows = || found.iter().flat_map(|it| &it.rows);
    let over_recycled = |layout: FileLayout| {
        let of = rows().filter(|row| row.arm.setting.layout == Some(layout));
        let shares = of.filter_map(|row| Some((is_unusual(&row.arm), row.share_of_recycled?)));
        let usual = shares.filter(|(_, share)| *share > 0.0).min_by_key(|(unusual, _)| *unusual);
        usual.map(|(_, share)| 1.0 / share)
    };
    gathered.number("append_over_recycled", over_recycled(FileLayout::Empty));
    gathered.number("preallocated_over_recycled", over_recycled(FileLayout::Preallocated));
}

/// A single 8 kB write and its flush, and how large a batch has to be.
fn sizes(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let curves = durable.sizes.iter().flat_map(|sizes| &sizes.curves);
    let mut curves: Vec<_> = curves.filter(|curve| curve.setting.is_durable()).collect();
    // Usual curves come first, because the first that has the requested value is taken.
    curves.sort_by_key(|curve| curve.arms.first().map(is_unusual));
    let of_8k =
        curves.iter().filter(|it| it.setting.method == SyncMethod::Fdatasync).find_map(|it| {
            let arm = it.arms.iter().find(|arm| arm.setting.block_size.get() == 8192)?;
            arm.figures.as_ref().map(|figures| figures.latency.mean_ns)
        });
    if let Some(nanos) = of_8k {
        gathered.flush(nanos);
    }
    let batch = curves.iter().find_map(|curve| {
        let shares = &curve.batching.as_ref()?.for_shares;
        let found = shares.iter().find(|it| (it.share - BATCH_SHARE).abs() < 1e-9)?;
        Some(FactValue::Bytes(found.size_bytes.round()))
    });
    gathered.put("batch_bytes", batch);
}

/// How many times as many commits a log with batches makes: as measured with the most committers, or
/// by a sync after several writes of one writer.
fn batches(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let rows = durable.group_commit.iter().flat_map(|it| &it.rows);
    let gains = rows.filter_map(|row| Some((row.arm.setting.committers(), row.gain?)));
    // The most committers, and of several such rows the one that gains most.
    let shared = gains.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|it| it.1);
    let every = durable.sync_every.iter().find_map(|it| {
        let time = |every: u32| {
            let row = it.rows.iter().find(|row| row.arm.setting.every == every);
            row.map(|row| row.ns_per_write).filter(|nanos| *nanos > 0.0)
        };
        let most = it.rows.iter().map(|row| row.arm.setting.every);
        let most = most.filter(|every| (2..=EVERY_MAX).contains(every)).max()?;
        Some(time(1)? / time(most)?)
    });
    gathered.number("batch_gain", shared.or(every));
}

/// The delay that was measured as best; it takes the place of half a flush.
fn commit_delay(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let advised = durable.commit_delays.iter().filter_map(|it| it.advice.as_ref());
    // With several settings, the one with the largest gain counts.
    let best = advised.max_by(|a, b| a.gain_share.total_cmp(&b.gain_share));
    if let Some(advice) = best {
        gathered.commit_delay(real(advice.delay.get()));
    }
}
