//! Facts of a run: its results, as rules ask for them. The place of each fact is the run folder.
//!
//! Workloads are known by their definition and the layout of their file, never by their name, except
//! etcd's, whose threshold is about that very workload. A fact is absent where its workload was not
//! measured to its end.
//!
//! The slices of `durio durable` compare like with like, so their ratios replace those of workloads
//! that happen to be alike.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use durio_analyse::durable::{BATCH_SHARE, DurableArm, DurableFindings, FileModesFindings};
use durio_analyse::ladder::Knee;
use durio_analyse::{Findings, WorkloadFindings};
use durio_base::Bytes;
use durio_base::stats::least_squares::float;
use durio_plan::{FileLayout, TargetKind};
use durio_record::OperationName;
use durio_workload::{CacheMode, Contents, Pattern, Renewal, SyncMethod, Workload};

use super::facts::{FactValue, Facts};

// Records of these sizes stand for a commit of one page.
const RECORD: [u64; 2] = [8192, 4096];

// PostgreSQL's names of the methods that it has on Linux. It knows no others (`RWF_DSYNC`,
// `sync_file_range`, a sync linked to its write), so that facts about its setting leave them out; the
// fastest of all is a fact of its own, for databases that choose freely.
const METHODS: [(SyncMethod, &str); 4] = [
    (SyncMethod::Fsync, "fsync"),
    (SyncMethod::Fdatasync, "fdatasync"),
    (SyncMethod::ODsync, "open_datasync"),
    (SyncMethod::OSync, "open_sync"),
];

// Methods that differ only in whether the inode's times are stored too; those that databases use
// most stand first.
const PAIRS: [(SyncMethod, SyncMethod); 4] = [
    (SyncMethod::Fsync, SyncMethod::Fdatasync),
    (SyncMethod::LinkedFsync, SyncMethod::LinkedFdatasync),
    (SyncMethod::OSync, SyncMethod::ODsync),
    (SyncMethod::RwfSync, SyncMethod::RwfDsync),
];

/// What must be alike for two commits to be compared.
type Setup = (u64, bool, bool);

/// A commit by one writer: its mean in nanoseconds, by method and setup; the lower one of several.
type Commits = BTreeMap<(&'static str, Setup), f64>;

pub(super) fn facts(findings: &Findings) -> Facts {
    let mut gathered = RunFacts { place: &findings.run_folder, facts: Facts::default() };
    let commits = commits(findings);
    flushes(&mut gathered, findings, &commits);
    methods(&mut gathered, &commits);
    appends(&mut gathered, &commits);
    etcd(&mut gathered, findings);
    reads(&mut gathered, findings);
    load(&mut gathered, findings);
    validity(&mut gathered, findings);
    // Last: what compares like with like takes the place of what happens to be alike.
    if let Some(found) = &findings.durable {
        durable_facts(&mut gathered, found);
    }
    gathered.facts
}

struct RunFacts<'a> {
    place: &'a str,
    facts: Facts,
}

impl RunFacts<'_> {
    fn put(&mut self, name: &str, value: Option<FactValue>) {
        if let Some(value) = value {
            self.facts.put(format!("run.{name}"), value, self.place);
        }
    }

    fn number(&mut self, name: &str, number: Option<f64>) {
        // A ratio to zero is undefined, and JSON has no infinities.
        let number = number.filter(|number| number.is_finite());
        self.put(name, number.map(FactValue::Number));
    }

    /// A single 8 kB write and its flush, and the delay of commits that it makes.
    fn flush(&mut self, nanos: f64) {
        // PostgreSQL's documents advise half a flush; a delay that was measured takes its place.
        self.put("flush_8k", Some(FactValue::Time(nanos)));
        self.number("half_flush_us", Some((nanos / 2000.0).round()));
        self.commit_delay(nanos / 2.0);
    }

    fn commit_delay(&mut self, nanos: f64) {
        self.put("advised_commit_delay", Some(FactValue::Time(nanos)));
        self.number("advised_commit_delay_us", Some((nanos / 1000.0).round()));
    }

    /// Which of several methods takes least, and how much more the others take.
    fn best_of(&mut self, times: &[(&str, f64)]) {
        let Some((best, least)) = times.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
        self.put("best_sync_method", Some(FactValue::Text((*best).to_owned())));
        for (name, time) in times {
            self.number(&format!("time_of_{name}_over_best"), Some(time / least));
        }
    }
}

fn is_one_writer(workload: &Workload) -> bool {
    workload.jobs == 1
        && workload.depth == 1
        && workload.read_share.0 == 0
        && workload.pattern == Pattern::Sequential
        && workload.group_commit.is_none()
}

fn layout(findings: &Findings, workload: &WorkloadFindings) -> Option<FileLayout> {
    let target = findings.plan.targets.iter().find(|target| target.name == workload.target)?;
    match &target.kind {
        TargetKind::NewFile { layout, .. } => Some(*layout),
        _ => None,
    }
}

fn headline_mean(workload: &WorkloadFindings) -> Option<f64> {
    let operation = workload.operation(workload.headline)?;
    Some(operation.service.mean_ns).filter(|mean| *mean > 0.0)
}

/// Steps with a load of their own, measured to the end, that nothing ran beside.
fn alone(findings: &Findings) -> impl Iterator<Item = &WorkloadFindings> {
    let beside = |workload: &WorkloadFindings| {
        findings
            .workloads
            .iter()
            .any(|other| other.step == workload.step && other.stream != workload.stream)
    };
    findings.workloads.iter().filter(move |workload| workload.complete && !beside(workload))
}

fn commits(findings: &Findings) -> Commits {
    let mut commits = Commits::new();
    for workload in alone(findings) {
        let definition = &workload.definition;
        let size = definition.block_size.get();
        let method = METHODS.iter().find(|(method, _)| *method == definition.sync.method);
        let (Some((_, method)), Some(mean)) = (method, headline_mean(workload)) else { continue };
        let each = definition.sync.every == 1;
        // Concurrent writers share flushes, and a sync after several writes is not one's price.
        if !is_one_writer(definition) || !each || !RECORD.contains(&size) {
            continue;
        }
        let grows = match layout(findings, workload) {
            Some(FileLayout::Empty) => true,
            // A first write into preallocated blocks converts extents: neither recycled nor growing.
            Some(FileLayout::Preallocated) => continue,
            // What existed before is overwritten in place.
            _ => false,
        };
        let setup = (size, workload.effective.cache == CacheMode::Direct, grows);
        let known = commits.entry((method, setup)).or_insert(mean);
        // Whatever else ran at the same time can only have made it longer.
        *known = known.min(mean);
    }
    commits
}

fn mean(commits: &Commits, method: &'static str, setup: Setup) -> Option<f64> {
    commits.get(&(method, setup)).copied()
}

/// In the order in which they decide: recycled files before growing ones, 8 KiB before 4, buffered
/// before direct.
fn setups(commits: &Commits) -> Vec<Setup> {
    let mut setups: Vec<Setup> = commits.keys().map(|(_, setup)| *setup).collect();
    setups.sort_by_key(|(size, direct, grows)| (*grows, std::cmp::Reverse(*size), *direct));
    setups.dedup();
    setups
}

/// A single 8 kB write and its flush, as pg_test_fsync takes it: the mean.
fn flushes(gathered: &mut RunFacts<'_>, findings: &Findings, commits: &Commits) {
    let of_8k = setups(commits).into_iter().filter(|(size, _, grows)| *size == 8192 && !grows);
    if let Some(nanos) = of_8k.filter_map(|setup| mean(commits, "fdatasync", setup)).next() {
        gathered.flush(nanos);
    }
    let sync = alone(findings).filter(|workload| is_one_writer(&workload.definition));
    let p50 =
        sync.filter_map(|workload| workload.operation(OperationName::Sync)?.service.p50_ns).min();
    gathered.put("flush_p50", p50.map(|nanos| FactValue::Time(float(nanos))));
}

fn methods(gathered: &mut RunFacts<'_>, commits: &Commits) {
    let both = setups(commits).into_iter().find_map(|setup| {
        Some(mean(commits, "fsync", setup)? / mean(commits, "fdatasync", setup)?)
    });
    gathered.number("fsync_over_fdatasync", both);
    let all = |setup: &Setup| {
        METHODS.iter().filter(|(_, name)| mean(commits, name, *setup).is_some()).count()
    };
    // Only a setup with several methods tells which is best; direct and buffered are compared
    // with their like.
    let Some(setup) = setups(commits).into_iter().filter(|setup| all(setup) > 1).max_by_key(all)
    else {
        return;
    };
    let times = METHODS.iter().filter_map(|(_, name)| Some((*name, mean(commits, name, setup)?)));
    gathered.best_of(&times.collect::<Vec<_>>());
}

/// How much slower the method in use is than the best.
// It takes a setting and a run to know.
pub(super) fn gain_over(facts: &mut Facts) {
    let Some(used) = facts.text("postgresql.wal_sync_method") else { return };
    let Some(fact) = facts.get(&format!("run.time_of_{used}_over_best")).cloned() else { return };
    if let Ok(value) = fact.value {
        facts.put("run.best_sync_gain", value, fact.place);
    }
}

fn appends(gathered: &mut RunFacts<'_>, commits: &Commits) {
    let pairs = commits.iter().filter_map(|((method, (size, direct, grows)), time)| {
        let recycled = mean(commits, method, (*size, *direct, false))?;
        grows.then_some((*method == "fdatasync", time / recycled))
    });
    // What databases do on Linux by default, if it was measured.
    let best = pairs.max_by_key(|(is_usual, _)| *is_usual);
    gathered.number("append_over_recycled", best.map(|(_, ratio)| ratio));
}

fn etcd(gathered: &mut RunFacts<'_>, findings: &Findings) {
    let commit = alone(findings).find(|workload| workload.name == "commit-etcd");
    let p99 = commit.and_then(|workload| workload.operation(OperationName::Sync)?.service.p99_ns);
    gathered.put("etcd_sync_p99", p99.map(|nanos| FactValue::Time(float(nanos))));
}

fn reads(gathered: &mut RunFacts<'_>, findings: &Findings) {
    // The size of PostgreSQL's pages, for its random_page_cost.
    let one = |pattern: Pattern| {
        alone(findings).find(|workload| {
            let definition = &workload.definition;
            definition.pattern == pattern
                && definition.read_share.0 == 1000
                && (definition.jobs, definition.depth) == (1, 1)
                && definition.block_size == Bytes::from_kib(8)
        })
    };
    let time = |pattern: Pattern| headline_mean(one(pattern)?);
    let times = time(Pattern::Random).zip(time(Pattern::Sequential));
    gathered
        .number("random_over_sequential", times.map(|(random, sequential)| random / sequential));
    // The size of InnoDB's pages, for its innodb_io_capacity.
    let mixed = alone(findings).filter(|workload| {
        let definition = &workload.definition;
        definition.pattern == Pattern::Random
            && (1..1000).contains(&definition.read_share.0)
            && definition.block_size == Bytes::from_kib(16)
    });
    let most = mixed.map(|workload| workload.iops).max_by(f64::total_cmp);
    gathered.number("mixed_16k_iops", most.map(f64::round));
    gathered.number("depth_knee", knee(findings));
}

/// The knee of random reads over the depth, rounded to whole operations.
fn knee(findings: &Findings) -> Option<f64> {
    let campaign = findings.campaign.as_ref()?;
    let curves = campaign.sections.iter().flat_map(|section| {
        section.curves.iter().filter(|curve| {
            let first = curve.rows.first().and_then(|at| section.rows.get(*at));
            curve.axis == "depth" && first.is_some_and(|row| is_random_read(findings, row.step))
        })
    });
    let units = curves.filter_map(|curve| match &curve.ladder.as_ref()?.knee {
        Knee::Measured { units, .. } => Some(*units),
        _ => None,
    });
    // A depth below one cannot be set.
    units.max_by(f64::total_cmp).map(|units| units.round().max(1.0))
}

fn is_random_read(findings: &Findings, step: u32) -> bool {
    let of_step = findings.workloads.iter().find(|workload| workload.step == step);
    of_step.is_some_and(|workload| {
        workload.definition.pattern == Pattern::Random && workload.definition.read_share.0 == 1000
    })
}

fn load(gathered: &mut RunFacts<'_>, findings: &Findings) {
    let busiest = findings.workloads.iter().map(|workload| workload.cpu.busiest_job_share);
    gathered.number("busiest_job_share", busiest.max_by(f64::total_cmp));
    gathered.number("queue_over_requests", fullest_queue(findings));
    gathered.number("log_p99_loaded_over_idle", log_under_load(findings));
}

/// The mean number of requests under way ÷ nr_requests, of the step and disk where it was highest.
fn fullest_queue(findings: &Findings) -> Option<f64> {
    let layers = findings.stack.iter().flat_map(|stack| stack.walk()).map(|(_, layer)| layer);
    let limits: BTreeMap<&str, u64> = layers
        .filter_map(|layer| Some((layer.name.as_str(), layer.block.as_ref()?.nr_requests?)))
        .collect();
    let shares = findings.workloads.iter().flat_map(|workload| {
        let limits = &limits;
        let counting = workload.devices.iter().filter(|device| !device.not_counted);
        counting.filter_map(move |device| {
            let limit = *limits.get(device.name.as_str()).filter(|limit| **limit > 0)?;
            let span = workload.intervals.last()?.to.get();
            // The kernel weights the time by the requests under way (Documentation/block/stat.rst).
            let queued = float(device.weighted_io_ms) * 1e6 / float(span.max(1));
            Some(queued / float(limit))
        })
    });
    shares.max_by(f64::total_cmp)
}

/// The p99 of a log with other load beside it ÷ that of the same log alone.
fn log_under_load(findings: &Findings) -> Option<f64> {
    let p99 = |workload: &WorkloadFindings| {
        workload.operation(workload.headline).and_then(|operation| operation.service.p99_ns)
    };
    let is_log =
        |workload: &WorkloadFindings| workload.durable && is_one_writer(&workload.definition);
    let idle: Vec<&WorkloadFindings> =
        alone(findings).filter(|workload| is_log(workload)).collect();
    // By identity, because two logs may have equal figures.
    let is_alone =
        |workload: &WorkloadFindings| idle.iter().any(|alone| std::ptr::eq(*alone, workload));
    let loaded = findings
        .workloads
        .iter()
        .filter(|workload| workload.complete && is_log(workload) && !is_alone(workload));
    let ratios = loaded.filter_map(|loaded| {
        let same = idle.iter().find(|idle| {
            let (a, b) = (&idle.definition, &loaded.definition);
            (a.block_size, a.sync, a.cache) == (b.block_size, b.sync, b.cache)
        })?;
        Some(float(p99(loaded)?) / float(p99(same)?.max(1)))
    });
    ratios.max_by(f64::total_cmp)
}

fn validity(gathered: &mut RunFacts<'_>, findings: &Findings) {
    let rates = findings.workloads.iter().filter_map(|workload| workload.rate_variation);
    let worst = rates.map(|rates| rates.coefficient_of_variation).max_by(f64::total_cmp);
    gathered.number("unsteadiness", worst);
    let stolen = findings.workloads.iter().filter_map(|workload| workload.cpu.machine_steal_share);
    gathered.number("steal_share", stolen.max_by(f64::total_cmp));
    let zeros = |workload: &WorkloadFindings| match workload.definition.contents {
        // Storage finds the same buffers again.
        _ if workload.definition.renewal != Renewal::EachWrite => 1.0,
        Contents::Incompressible => 0.0,
        Contents::Compressible { zeros } => f64::from(zeros.0) / 1000.0,
        Contents::Pattern { .. } => 1.0,
    };
    let writers =
        findings.workloads.iter().filter(|workload| workload.definition.read_share.0 < 1000);
    gathered.number("compressible_share", writers.map(zeros).max_by(f64::total_cmp));
    gathered.number("file_over_memory", smallest_file(findings));
}

/// The smallest file of buffered reads ÷ the machine's memory, or the bound that was set.
fn smallest_file(findings: &Findings) -> Option<f64> {
    let memory = findings.host.memory.get();
    let workloads = findings.workloads.iter();
    let buffered = workloads.filter(|workload| {
        workload.effective.cache == CacheMode::Buffered && workload.definition.read_share.0 > 0
    });
    let sizes = buffered.filter_map(|workload| {
        let step = findings.plan.steps.get(usize::try_from(workload.step).ok()?)?;
        let bound = step.memory_bound.map_or(memory, |bound| bound.get().min(memory));
        let target = findings.plan.targets.iter().find(|target| target.name == workload.target)?;
        (bound > 0).then(|| float(target.size.get()) / float(bound))
    });
    sizes.min_by(f64::total_cmp)
}

// A sync after more writes than this is not a log's batch: a crash would lose too much.
const EVERY_MAX: u32 = 64;

fn durable_facts(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    durable_methods(gathered, durable);
    file_modes(gathered, &durable.file_modes);
    sizes(gathered, durable);
    batches(gathered, durable);
    commit_delay(gathered, durable);
}

fn rate(arm: &DurableArm) -> Option<f64> {
    arm.figures.as_ref().map(|figures| figures.rate_per_second).filter(|rate| *rate > 0.0)
}

/// What databases do on Linux by default: fdatasync through the page cache; the lower the more so.
fn is_unusual(arm: &DurableArm) -> (bool, bool) {
    let setting = &arm.setting;
    (setting.method != SyncMethod::Fdatasync, setting.cache != CacheMode::Buffered)
}

fn durable_methods(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let Some(found) = &durable.methods else { return };
    let rate_of = |method: SyncMethod, cache: CacheMode| {
        let arms = found.rows.iter().map(|row| &row.arm);
        let like = arms.filter(|arm| arm.setting.method == method && arm.setting.cache == cache);
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
    let durable = SyncMethod::ALL.into_iter().filter(|method| *method != SyncMethod::None);
    let rates: Vec<(SyncMethod, f64)> =
        durable.filter_map(|method| Some((method, rate_of(method, cache)?))).collect();
    if let Some((fastest, rate)) = rates.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
        gathered.put("fastest_sync_method", Some(FactValue::Text(fastest.name().to_owned())));
        gathered.number("fastest_sync_gain", Some(rate / usual));
    }
    let known = METHODS.iter().filter_map(|(method, name)| {
        let rate = rates.iter().find(|known| known.0 == *method)?.1;
        Some((*name, 1e9 / rate))
    });
    gathered.best_of(&known.collect::<Vec<_>>());
}

fn file_modes(gathered: &mut RunFacts<'_>, found: &[FileModesFindings]) {
    let rows = || found.iter().flat_map(|findings| &findings.rows);
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
    let of_8k = curves
        .iter()
        .filter(|curve| curve.setting.method == SyncMethod::Fdatasync)
        .find_map(|curve| {
            let arm = curve.arms.iter().find(|arm| arm.setting.block_size.get() == 8192)?;
            arm.figures.as_ref().map(|figures| figures.latency.mean_ns)
        });
    if let Some(nanos) = of_8k {
        gathered.flush(nanos);
    }
    let batch = curves.iter().find_map(|curve| {
        let shares = &curve.batching.as_ref()?.for_shares;
        let found = shares.iter().find(|advised| (advised.share - BATCH_SHARE).abs() < 1e-9)?;
        Some(FactValue::Bytes(found.size_bytes.round()))
    });
    gathered.put("batch_bytes", batch);
}

/// How many times as many commits a log with batches makes: as measured with the most committers, or
/// by a sync after several writes of one writer.
fn batches(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let rows = durable.group_commit.iter().flat_map(|findings| &findings.rows);
    let gains = rows.filter_map(|row| Some((row.arm.setting.committers(), row.gain?)));
    // The most committers, and of several such rows the one that gains most.
    let shared = gains.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|gain| gain.1);
    let every = durable.sync_every.iter().find_map(|findings| {
        let time = |every: u32| {
            let row = findings.rows.iter().find(|row| row.arm.setting.every == every);
            row.map(|row| row.ns_per_write).filter(|nanos| *nanos > 0.0)
        };
        let most = findings.rows.iter().map(|row| row.arm.setting.every);
        let most = most.filter(|every| (2..=EVERY_MAX).contains(every)).max()?;
        Some(time(1)? / time(most)?)
    });
    gathered.number("batch_gain", shared.or(every));
}

/// The delay that was measured as best; it takes the place of half a flush.
fn commit_delay(gathered: &mut RunFacts<'_>, durable: &DurableFindings) {
    let advised = durable.commit_delays.iter().filter_map(|findings| findings.advice.as_ref());
    // With several settings, the one with the largest gain counts.
    let best = advised.max_by(|a, b| a.gain_share.total_cmp(&b.gain_share));
    if let Some(advice) = best {
        gathered.commit_delay(float(advice.delay.get()));
        gathered.number("commit_delay_gain", Some(1.0 + advice.gain_share));
    }
}
