//! Workloads of all hosts taken together, over the time that all of them ran.
//!
//! Counts and histograms of whole intervals within the common window are added; percentiles, maxima
//! and rates of different windows never are. Hosts are read one after the other, so that only sums
//! are in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use durio_analyse::{distribution, is_cut_short};
use durio_base::Nanos;
use durio_base::stats::least_squares::{count, float, mean};
use durio_plan::Step;
use durio_record::{Event, Interval, Latency, Phase, RunFolder};

use crate::analyse::MeasuredRun;
use crate::window::{CommonWindow, HostStep, StepSpan, skew_limit};
use crate::{FleetDoubt, FleetDoubtKind, HostShare, PooledFindings, SharedStorage};

/// A host with its runs, oldest first.
#[derive(Debug)]
pub(crate) struct HostRecord {
    pub(crate) name: String,
    pub(crate) runs: Vec<MeasuredRun>,
}

impl HostRecord {
    /// The newest run that was made with those of the other hosts.
    pub(crate) fn newest_run(&self) -> Option<&MeasuredRun> {
        self.runs.iter().rev().find(|run| !run.run.is_confirmation)
    }
}

/// A host that fell silent.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) host: String,
    /// The step of the last barrier before that, and of the first one after it.
    pub(crate) step: u32,
    pub(crate) next_step: Option<u32>,
}

/// Facts of the campaign that no run has.
#[derive(Debug, Default)]
pub(crate) struct PoolConditions {
    /// The spec says that the targets are one storage.
    pub(crate) is_shared: bool,
    /// One process ordered all starts, so that their clock is one.
    pub(crate) has_order: bool,
    pub(crate) losses: Vec<Loss>,
}

/// A step on one host.
#[derive(Debug, Clone, Copy)]
struct PoolHost<'a> {
    host: usize,
    name: &'a str,
    machine: &'a str,
    span: &'a StepSpan,
}

/// A step on all hosts that completed it.
#[derive(Debug)]
struct Pool<'a> {
    key: &'a HostStep,
    members: Vec<PoolHost<'a>>,
    /// Hosts that started it and did not complete it.
    cut: Vec<&'a str>,
    window: Option<CommonWindow>,
    totals: Totals,
}

/// The workloads that at least two hosts completed, in the order of the first host, and reasons to
/// doubt them.
pub(crate) fn pool(
    hosts: &[HostRecord],
    conditions: &PoolConditions,
) -> (Vec<PooledFindings>, Vec<FleetDoubt>) {
    let mut pools = pools(hosts, conditions.has_order);
    add_runs(&mut pools, hosts);
    let doubts = doubts(&pools, conditions);
    (pools.iter().map(|pool| pool.findings(conditions)).collect(), doubts)
}

/// Reads every host's newest run once more, now that the windows are known.
fn add_runs<'a>(pools: &mut [Pool<'a>], hosts: &'a [HostRecord]) {
    for (index, host) in hosts.iter().enumerate() {
        let Some(run) = host.newest_run() else { continue };
        let wanted: Vec<WantedStep<'_>> = pools
            .iter()
            .enumerate()
            .filter_map(|(pool, known)| {
                let members = &known.members;
                let place = members.binary_search_by_key(&index, |member| member.host).ok()?;
                let window = known.window.filter(|window| window.length > Nanos::ZERO)?;
                Some(WantedStep { pool, span: members[place].span, window })
            })
            .collect();
        if wanted.is_empty() {
            continue;
        }
        // A folder that was removed since leaves the pool without a rate.
        let tallies = tally_run(&run.path, &wanted).unwrap_or_default();
        for (wanted, tally) in wanted.iter().zip(tallies) {
            pools[wanted.pool].totals.add(&host.name, &tally);
        }
    }
}

fn pools(hosts: &[HostRecord], has_order: bool) -> Vec<Pool<'_>> {
    let mut order: Vec<&HostStep> = Vec::new();
    let mut members: BTreeMap<&HostStep, Vec<PoolHost<'_>>> = BTreeMap::new();
    for (index, host) in hosts.iter().enumerate() {
        let Some(run) = host.newest_run() else { continue };
        let machine = run.machine_id.as_deref().unwrap_or(&host.name);
        for span in &run.steps {
            let known = members.entry(&span.key).or_insert_with(|| {
                order.push(&span.key);
                Vec::new()
            });
            known.push(PoolHost { host: index, name: &host.name, machine, span });
        }
    }
    let mut pools = Vec::new();
    for key in order {
        let all = members.remove(key).unwrap_or_default();
        let (members, cut): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|member| member.span.is_complete);
        if members.len() < 2 {
            continue;
        }
        let spans: Vec<&StepSpan> = members.iter().map(|member| member.span).collect();
        let window = CommonWindow::new(&spans, has_order);
        let cut = cut.into_iter().map(|member| member.name).collect();
        pools.push(Pool { key, members, cut, window, totals: Totals::default() });
    }
    pools
}

/// A step whose intervals are wanted from a record.
#[derive(Debug, Clone, Copy)]
struct WantedStep<'a> {
    /// Place of its pool.
    pool: usize,
    span: &'a StepSpan,
    window: CommonWindow,
}

impl WantedStep<'_> {
    fn has(&self, interval: &Interval) -> bool {
        let span = self.span;
        (interval.step, interval.round, interval.stream) == (span.step, span.round, span.stream)
    }
}

/// More seconds of a window are not shown one by one.
const SECONDS_MAX: u64 = 86_400;

const SECOND_NS: u64 = 1_000_000_000;

/// Operations in a second of the window, and how much of it whole intervals cover.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Second {
    operations: f64,
    covered_ns: u64,
}

/// Operations of one host in the common window.
#[derive(Debug, Default)]
struct PooledCounts {
    count: u64,
    covered_ns: u64,
    latency: Latency,
    /// The record lost histograms of some of the operations.
    lacks_histograms: bool,
    seconds: Vec<Second>,
}

impl PooledCounts {
    fn new(window: &CommonWindow) -> Self {
        let seconds = window.length.get() / SECOND_NS;
        let shown = usize::try_from(seconds).unwrap_or_default();
        let shown = if seconds > SECONDS_MAX { 0 } else { shown };
        Self { seconds: vec![Second::default(); shown], ..Self::default() }
    }

    fn add(&mut self, wanted: &WantedStep<'_>, interval: &Interval, step: &Step) {
        if interval.phase != Phase::Measure || is_cut_short(interval, step) {
            return;
        }
        let (from, to) = (interval.from, interval.to);
        let Some(offset) = wanted.window.offset_of(wanted.span, from, to) else { return };
        let operation = wanted.span.key.operation;
        let record = interval.operations.iter().find(|record| record.operation == operation);
        let count = record.map_or(0, |record| record.service.exact.count);
        let length = to.saturating_sub(from).get();
        self.count = self.count.saturating_add(count);
        self.covered_ns = self.covered_ns.saturating_add(length);
        if let Some(record) = record {
            // From the intended start in an open loop.
            let latency = record.response.as_ref().unwrap_or(&record.service);
            self.lacks_histograms |= latency.exact.count > 0 && latency.histogram().is_none();
            self.latency.add(latency);
        }
        self.add_to_seconds(offset.get(), length, count);
    }

    /// Divides the operations of an interval among the seconds of the window, by time.
    fn add_to_seconds(&mut self, offset: u64, length: u64, operations: u64) {
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            let second = at / SECOND_NS;
            let next = (second + 1).saturating_mul(SECOND_NS).min(end);
            let place = usize::try_from(second).ok();
            let Some(known) = place.and_then(|place| self.seconds.get_mut(place)) else { return };
            known.operations += float(operations) * float(next - at) / float(length);
            known.covered_ns += next - at;
            at = next;
        }
    }
}

/// The tallies of the wanted steps, in their order, of the run at `path`; `None` if it cannot be
/// opened.
fn tally_run(path: &Path, wanted: &[WantedStep<'_>]) -> Option<Vec<PooledCounts>> {
    let folder = RunFolder::open(path).ok()?;
    let mut tallies: Vec<PooledCounts> =
        wanted.iter().map(|wanted| PooledCounts::new(&wanted.window)).collect();
    // The steps were complete: they end before damage that there may be.
    for timed in folder.events().ok()?.map_while(Result::ok) {
        for (wanted, tally) in wanted.iter().zip(&mut tallies) {
            let span = wanted.span;
            match &timed.event {
                // A resumed run does a step again, and the first attempt is void.
                Event::StepStarted(started)
                    if (started.step, started.round) == (span.step, span.round) =>
                {
                    *tally = PooledCounts::new(&wanted.window);
                }
                Event::Interval(interval) if wanted.has(interval) => {
                    if let Some(step) = folder.plan.steps.get(span.step as usize) {
                        tally.add(wanted, interval, step);
                    }
                }
                _ => {}
            }
        }
    }
    Some(tallies)
}

/// Results of one host in the common window, without its histogram.
#[derive(Debug)]
struct HostTotal {
    host: String,
    rate: f64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

/// Operations of all hosts in the common window.
#[derive(Debug, Default)]
struct Totals {
    latency: Latency,
    lacks_histograms: bool,
    hosts: Vec<HostTotal>,
    /// Hosts without a whole interval in the window.
    empty: Vec<String>,
    /// The rate of each second, and the hosts that are in it.
    seconds: Vec<(f64, usize)>,
}

impl Totals {
    fn add(&mut self, host: &str, tally: &PooledCounts) {
        if tally.covered_ns == 0 {
            self.empty.push(host.to_owned());
            return;
        }
        let own = distribution(&tally.latency).filter(|_| !tally.lacks_histograms);
        self.hosts.push(HostTotal {
            host: host.to_owned(),
            rate: per_second(float(tally.count), tally.covered_ns),
            p50_ns: own.as_ref().and_then(|own| own.p50_ns),
            p99_ns: own.as_ref().and_then(|own| own.p99_ns),
        });
        self.lacks_histograms |= tally.lacks_histograms;
        self.latency.add(&tally.latency);
        self.seconds.resize(self.seconds.len().max(tally.seconds.len()), (0.0, 0));
        for (sum, second) in self.seconds.iter_mut().zip(&tally.seconds) {
            // A shorter part of a second says little about all of it.
            if second.covered_ns >= SECOND_NS / 2 {
                sum.0 += per_second(second.operations, second.covered_ns);
                sum.1 += 1;
            }
        }
    }

    /// The rates from the first to the last second that all `hosts` are in: where one is missing the
    /// rate would seem to fall.
    fn rate_over_time(&self, hosts: usize) -> Vec<f64> {
        let is_full = |second: &(f64, usize)| second.1 == hosts;
        let first = self.seconds.iter().position(is_full).unwrap_or_default();
        let behind = self.seconds.iter().rposition(is_full).map_or(first, |last| last + 1);
        self.seconds.get(first..behind).into_iter().flatten().map(|second| second.0).collect()
    }
}

fn per_second(operations: f64, nanos: u64) -> f64 {
    operations / (float(nanos) / 1e9)
}

/// Jain's index: 1 if all are equal, 1 ÷ n if one has everything.
fn fairness(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 { sum * sum / (count(rates.len()) * squares) } else { 1.0 }
}

impl Pool<'_> {
    fn findings(&self, conditions: &PoolConditions) -> PooledFindings {
        let HostStep { workload, target, operation, occurrence } = self.key.clone();
        let shared = shared_storage(&self.members, conditions.is_shared);
        let no_rate = self.no_rate(shared.is_some(), conditions);
        let totals = &self.totals;
        // Without a common window the hosts are compared by their whole steps.
        let is_common = totals.hosts.len() == self.members.len();
        let rates: Vec<f64> = match is_common {
            true => totals.hosts.iter().map(|host| host.rate).collect(),
            false => self.members.iter().map(|member| member.span.rate).collect(),
        };
        let p99: Option<Vec<f64>> =
            self.members.iter().map(|member| member.span.p99_ns.map(float)).collect();
        let seconds = |span: fn(&CommonWindow) -> Nanos| {
            self.window.as_ref().map_or(0.0, |window| span(window).as_secs_f64())
        };
        PooledFindings {
            workload: match occurrence {
                0 => workload,
                _ => format!("{workload} (repeat {})", occurrence + 1),
            },
            target,
            operation,
            hosts: self.members.len(),
            shared,
            window_seconds: seconds(|window| window.length),
            skew_seconds: seconds(|window| window.skew),
            rate: no_rate.is_none().then(|| rates.iter().sum()),
            no_rate,
            sum_of_rates: self.members.iter().map(|member| member.span.rate).sum(),
            latency: distribution(&totals.latency)
                .filter(|_| is_common && !totals.lacks_histograms),
            mean_of_p99_ns: p99.as_deref().and_then(mean),
            fairness: fairness(&rates),
            shares: if is_common { self.shares() } else { self.shares_of_rates() },
            rate_over_time: totals.rate_over_time(self.members.len()),
        }
    }

    fn shares(&self) -> Vec<HostShare> {
        let all: f64 = self.totals.hosts.iter().map(|host| host.rate).sum();
        let share = |host: &HostTotal| HostShare {
            host: host.host.clone(),
            share: if all > 0.0 { host.rate / all } else { 0.0 },
            p50_ns: host.p50_ns,
            p99_ns: host.p99_ns,
        };
        largest_first(self.totals.hosts.iter().map(share))
    }

    fn shares_of_rates(&self) -> Vec<HostShare> {
        let all: f64 = self.members.iter().map(|member| member.span.rate).sum();
        let share = |member: &PoolHost<'_>| HostShare {
            host: member.name.to_owned(),
            share: if all > 0.0 { member.span.rate / all } else { 0.0 },
            p50_ns: None,
            p99_ns: None,
        };
        largest_first(self.members.iter().map(share))
    }

    fn spans(&self) -> Vec<&StepSpan> {
        self.members.iter().map(|member| member.span).collect()
    }

    /// True if the host was lost between this step's barrier and the next one, and its record does
    /// not have the whole step.
    fn is_hit_by(&self, loss: &Loss) -> bool {
        let step = self.members.first().map_or(0, |member| member.span.step);
        let is_in_time = loss.step <= step && loss.next_step.is_none_or(|next| step < next);
        is_in_time && !self.members.iter().any(|member| member.name == loss.host)
    }

    /// Why the operations of all hosts are not one rate.
    fn no_rate(&self, is_shared: bool, conditions: &PoolConditions) -> Option<String> {
        let Some(window) = &self.window else {
            return Some(
                "the starts are not on one clock: a run was resumed, or does not say when it \
                 started"
                    .to_owned(),
            );
        };
        if !self.cut.is_empty() {
            let hosts = listed(&self.cut);
            return Some(format!("{hosts} did not complete it, with an unknown load until then"));
        }
        let losses = conditions.losses.iter().filter(|loss| self.is_hit_by(loss));
        let lost: BTreeSet<&str> = losses.map(|loss| loss.host.as_str()).collect();
        if !lost.is_empty() {
            let hosts = listed(&Vec::from_iter(lost));
            return Some(format!("{hosts} fell silent while it ran: the load is unknown"));
        }
        if window.length == Nanos::ZERO {
            return Some("the last host started after the first had ended".to_owned());
        }
        let limit = skew_limit(&self.spans());
        // Without an order starts are seconds apart, which the window allows for; a doubt says so.
        if is_shared && window.is_ordered() && window.skew_max > limit {
            let skew = window.skew_max;
            return Some(format!(
                "the starts on shared storage differ by up to {skew}, more than {limit}"
            ));
        }
        let empty = &self.totals.empty;
        let is_missing = self.totals.hosts.len() + empty.len() < self.members.len();
        match (empty.is_empty(), is_missing) {
            (true, false) => None,
            (true, true) => Some("a record was removed while it was read".to_owned()),
            (false, _) => {
                let empty: Vec<&str> = empty.iter().map(String::as_str).collect();
                let (length, hosts) = (window.length, listed(&empty));
                Some(format!("the common window of {length} has no whole interval of {hosts}"))
            }
        }
    }
}

/// `db1 and db2`, `db1, db2 and 6 more`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [first, second] => format!("{first} and {second}"),
        [first, second, more @ ..] => format!("{first}, {second} and {} more", more.len()),
        _ => names.concat(),
    }
}

fn largest_first(shares: impl Iterator<Item = HostShare>) -> Vec<HostShare> {
    let mut shares: Vec<HostShare> = shares.collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// Storage that at least two machines have in common.
fn shared_storage(members: &[PoolHost<'_>], is_stated: bool) -> Option<SharedStorage> {
    if is_stated {
        return Some(SharedStorage::Stated);
    }
    let mut machines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for member in members {
        if let Some(storage) = &member.span.storage {
            machines.entry(storage).or_default().insert(member.machine);
        }
    }
    let (storage, _) = machines
        .into_iter()
        .filter(|(_, machines)| machines.len() >= 2)
        .max_by_key(|(_, machines)| machines.len())?;
    let has_it = |member: &&PoolHost<'_>| member.span.storage.as_deref() == Some(storage);
    let with = members.iter().filter(has_it).count();
    Some(SharedStorage::Detected(match with == members.len() {
        true => storage.to_owned(),
        false => format!("{storage} ({with} of {} hosts)", members.len()),
    }))
}

fn doubts(pools: &[Pool<'_>], conditions: &PoolConditions) -> Vec<FleetDoubt> {
    let windows = || pools.iter().filter_map(|pool| Some((pool, pool.window?)));
    let doubt =
        |sentence: String| FleetDoubt { kind: FleetDoubtKind::Skewed, hosts: Vec::new(), sentence };
    let mut doubts = Vec::new();
    // Local drives may be measured one host after the other.
    let by_wall = windows().filter(|(pool, window)| {
        let is_together = window.length > Nanos::ZERO
            || shared_storage(&pool.members, conditions.is_shared).is_some();
        is_together && !window.is_ordered()
    });
    if let Some(skew) = by_wall.map(|(_, window)| window.skew).max() {
        doubts.push(doubt(format!(
            "no process ordered the starts: hosts are aligned by their wall clocks, whose errors \
             are not known; starts differ by up to {skew}"
        )));
    }
    let skewed = windows().filter(|(pool, window)| {
        window.is_ordered() && window.skew_max > skew_limit(&pool.spans())
    });
    let skews: Vec<Nanos> = skewed.map(|(_, window)| window.skew_max).collect();
    if let Some(most) = skews.iter().max() {
        let (steps, all) = (skews.len(), pools.len());
        doubts.push(doubt(format!(
            "{steps} of {all} steps started with more than 10 ms, or 1 % of an interval, between \
             hosts: up to {most}"
        )));
    }
    doubts
}

#[cfg(test)]
mod tests;
