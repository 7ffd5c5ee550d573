//! Workloads of all hosts taken together, over the time that all of them ran.
//!
//! Counts and histograms of the common window are added; percentiles, maxima and rates of different
//! windows never are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use durio_analyse::distribution;
use durio_base::Nanos;
use durio_base::stats::least_squares::{count, float, mean};

use crate::analyse::MeasuredRun;
use crate::tally::{HostTotal, Totals, WantedStep, tally_run};
use crate::window::{ClockTime, CommonWindow, HostStep, StepSpan, ordered_time};
use crate::{
    FleetDoubt, FleetDoubtKind, HostShare, PooledFindings, RateMark, RateMarkKind, SharedStorage,
};

/// A rate of shared storage is given if `skew_max` is at most the shortest counted time ÷ 200, because
/// it is right within 1 % then.
///
/// The whole intervals of a host within the common window are its counted time. Starts that differ by
/// up to `skew_max` shift both ends of that time against the other hosts by as much, and there the
/// rate may differ from its mean by as much as the mean: a host counts operations that it did while
/// another was idle. So the error is at most 2 × `skew_max` ÷ counted time. The grid of intervals has no
/// further term: an interval that the window cuts is left out of counts and of time, and makes the
/// counted time shorter.
const COUNTED_PER_SKEW: u64 = 200;

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
    /// Since the campaign's start, by the coordinator's clock.
    pub(crate) at: Nanos,
    /// The step of the last barrier before that, and of the first one after it.
    pub(crate) step: u32,
    pub(crate) next_step: Option<u32>,
}

/// Moments of a campaign, since its start by the coordinator's clock.
#[derive(Debug, Default)]
pub(crate) struct CampaignTimes {
    pub(crate) losses: Vec<Loss>,
    /// The starts that were ordered, by step.
    pub(crate) orders: BTreeMap<u32, Nanos>,
    pub(crate) stops: Vec<Nanos>,
}

impl CampaignTimes {
    pub(crate) fn add(&mut self, other: Self) {
        self.losses.extend(other.losses);
        self.orders.extend(other.orders);
        self.stops.extend(other.stops);
    }
}

/// Facts of the campaign that no run has.
#[derive(Debug, Default)]
pub(crate) struct PoolConditions {
    /// The spec says that the targets are one storage.
    pub(crate) is_shared: bool,
    /// One process ordered all starts, so that their clock is one.
    pub(crate) has_order: bool,
    pub(crate) times: CampaignTimes,
}

/// A step on one host.
#[derive(Debug, Clone, Copy)]
struct PoolHost<'a> {
    host: usize,
    name: &'a str,
    machine: &'a str,
    span: &'a StepSpan,
}

/// A step on all hosts of one storage that completed it, or on those that share none.
#[derive(Debug)]
struct StepPool<'a> {
    key: &'a HostStep,
    shared: Option<SharedStorage>,
    members: Vec<PoolHost<'a>>,
    /// Hosts of the storage whose newest run is of an earlier pass.
    absent: Vec<PoolHost<'a>>,
    /// Hosts that completed it in the newest pass, on any storage.
    complete: BTreeSet<&'a str>,
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
    let mut pools = pools(hosts, conditions);
    add_runs(&mut pools, hosts);
    let doubts = doubts(&pools);
    let mut campaign_start = None;
    let findings = pools.iter().map(|pool| {
        campaign_start = pool.campaign_start(&conditions.times).or(campaign_start);
        let marks = pool.marks(campaign_start, &conditions.times);
        PooledFindings { marks, ..pool.findings(conditions) }
    });
    (findings.collect(), doubts)
}

/// Reads every host's newest run once more, now that the windows are known.
fn add_runs<'a>(pools: &mut [StepPool<'a>], hosts: &'a [HostRecord]) {
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

fn pools<'a>(hosts: &'a [HostRecord], conditions: &PoolConditions) -> Vec<StepPool<'a>> {
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
    let earlier = hosts_of_earlier_passes(hosts, conditions.has_order);
    let is_newest = |member: &PoolHost<'_>| !earlier.contains(&member.host);
    let is_pooled = |member: &PoolHost<'_>| member.span.is_complete && is_newest(member);
    let mut pools = Vec::new();
    for key in order {
        let all = members.remove(key).unwrap_or_default();
        let complete = all.iter().filter(|member| is_pooled(member));
        let complete: BTreeSet<&str> = complete.map(|member| member.name).collect();
        for (shared, all) in by_storage(all, conditions.is_shared) {
            // One host alone is not a pool; with hosts of earlier passes it says why it has no rate.
            let has_pool = all.iter().filter(|member| is_pooled(member)).count() >= 2;
            let (all, absent): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|member| is_newest(member) || !has_pool);
            let (members, cut): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|member| member.span.is_complete);
            if members.len() < 2 {
                continue;
            }
            let spans: Vec<&StepSpan> = members.iter().map(|member| member.span).collect();
            let window = CommonWindow::new(&spans, conditions.has_order);
            let cut = cut.into_iter().map(|member| member.name).collect();
            let (complete, totals) = (complete.clone(), Totals::default());
            pools.push(StepPool { key, shared, members, absent, complete, cut, window, totals });
        }
    }
    pools
}

/// Hosts whose newest run is of a pass before the newest one: it was over when the others started.
fn hosts_of_earlier_passes(hosts: &[HostRecord], has_order: bool) -> BTreeSet<usize> {
    let run = |(host, record): (usize, &HostRecord)| {
        let run = record.newest_run().filter(|_| has_order)?;
        Some((host, ordered_time(&run.steps)?, run.is_complete()))
    };
    let runs: Vec<_> = hosts.iter().enumerate().filter_map(run).collect();
    let complete = runs.iter().filter(|(_, _, is_complete)| *is_complete);
    let shortest = complete.map(|(_, [first, end], _)| end - first).min();
    let newest = runs.iter().map(|(_, [first, _], _)| *first).max();
    let Some((newest, shortest)) = newest.zip(shortest) else { return BTreeSet::new() };
    // The end of a run that was cut is not known. But a pass lasts as long as the runs of others.
    let earlier =
        runs.iter().filter(|(_, [first, end], _)| *end < newest && first + shortest <= newest);
    earlier.map(|(host, ..)| *host).collect()
}

/// Hosts by the storage that several machines have in common, most hosts first. The sum
/// over two arrays is a rate of neither.
fn by_storage(
    all: Vec<PoolHost<'_>>,
    is_stated: bool,
) -> Vec<(Option<SharedStorage>, Vec<PoolHost<'_>>)> {
    if is_stated {
        return vec![(Some(SharedStorage::Stated), all)];
    }
    let mut machines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for member in &all {
        if let Some(device) = &member.span.storage.device {
            machines.entry(device).or_default().insert(member.machine);
        }
    }
    let is_shared = |device: &&str| machines.get(*device).is_some_and(|known| known.len() >= 2);
    let mut storages: BTreeMap<Option<&str>, Vec<PoolHost<'_>>> = BTreeMap::new();
    for member in all {
        let device = member.span.storage.device.as_deref().filter(is_shared);
        storages.entry(device).or_default().push(member);
    }
    let detected = |device: &str| SharedStorage::Detected(device.to_owned());
    let mut storages: Vec<_> =
        storages.into_iter().map(|(device, members)| (device.map(detected), members)).collect();
    storages.sort_by_key(|(_, members)| Reverse(members.len()));
    storages
}

/// Jain's index: 1 if all are equal, 1 ÷ n if one has everything.
fn fairness(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares > 0.0 { sum * sum / (count(rates.len()) * squares) } else { 1.0 }
}

impl StepPool<'_> {
    fn findings(&self, conditions: &PoolConditions) -> PooledFindings {
        let HostStep { workload, target, operation, occurrence } = self.key.clone();
        let no_rate = self.no_rate(conditions);
        let has_rate = no_rate.is_none();
        let totals = &self.totals;
        // Without a common window the hosts are compared by their whole steps.
        let is_common = totals.hosts.len() == self.members.len();
        let by_steps: Vec<HostTotal> = self.members.iter().map(whole_step).collect();
        let hosts = if is_common { &totals.hosts } else { &by_steps };
        let rates: Vec<f64> = hosts.iter().map(|host| host.rate).collect();
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
            absent: self.absent.iter().map(|member| member.name.to_owned()).collect(),
            shared: self.shared.clone(),
            window_seconds: seconds(|window| window.length),
            skew_seconds: seconds(|window| window.skew),
            rate: has_rate.then(|| rates.iter().sum()),
            rate_error: self.rate_error().filter(|_| has_rate),
            no_rate,
            sum_of_rates: self.members.iter().map(|member| member.span.rate).sum(),
            latency: distribution(&totals.latency).filter(|_| has_rate && !totals.lacks_histograms),
            mean_of_p99_ns: p99.as_deref().and_then(mean),
            fairness: fairness(&rates),
            shares: shares(hosts, rates.iter().sum()),
            rate_over_time: totals.rate_over_time(self.members.len()).1,
            marks: Vec::new(),
        }
    }

    /// The campaign's start on the clock of ordered starts; `None` without an order for this step.
    fn campaign_start(&self, times: &CampaignTimes) -> Option<ClockTime> {
        // Without a time in common the runs are not those of one order.
        let is_ordered = |window: &CommonWindow| window.is_agreed && window.length > Nanos::ZERO;
        let window = self.window.filter(is_ordered)?;
        let ordered = times.orders.get(&self.members.first()?.span.step)?;
        let [first_start, _] = window.starts();
        Some(first_start - ClockTime::from(ordered.get()))
    }

    /// The first and the last start, and the losses and stops until the last host's end.
    fn marks(&self, campaign_start: Option<ClockTime>, times: &CampaignTimes) -> Vec<RateMark> {
        let Some(window) = &self.window else { return Vec::new() };
        let (first_second, _) = self.totals.rate_over_time(self.members.len());
        let mark = |at, kind, host| {
            let at_seconds = window.seconds_at(at) - first_second;
            RateMark { at_seconds, kind, host }
        };
        let mut marks: Vec<RateMark> =
            window.starts().map(|at| mark(at, RateMarkKind::Start, None)).into();
        marks.dedup();
        let during = |at: Nanos| {
            let start = campaign_start.filter(|_| window.is_ordered)?;
            Some(start + ClockTime::from(at.get())).filter(|at| window.is_during(*at))
        };
        let losses = times.losses.iter().filter_map(|loss| {
            Some(mark(during(loss.at)?, RateMarkKind::Lost, Some(loss.host.clone())))
        });
        let stops =
            times.stops.iter().filter_map(|at| Some(mark(during(*at)?, RateMarkKind::Stop, None)));
        marks.extend(losses.chain(stops));
        // Hosts that were measured long before the others would take all of a chart.
        let length = window.length.as_secs_f64();
        marks.retain(|mark| mark.at_seconds >= -length);
        marks
    }

    /// True if the host was lost between this step's barrier and the next one, and its record does
    /// not have the whole step.
    fn is_hit_by(&self, loss: &Loss) -> bool {
        let step = self.members.first().map_or(0, |member| member.span.step);
        let is_in_time = loss.step <= step && loss.next_step.is_none_or(|next| step < next);
        is_in_time && !self.complete.contains(loss.host.as_str())
    }

    /// The largest difference of starts and the shortest counted time, where they limit the error of
    /// the rate.
    fn skew_and_counted(&self) -> Option<[Nanos; 2]> {
        // Local drives do not disturb each other. Without an order for the step, starts are seconds
        // apart, which the window allows for; a doubt says so.
        let is_limited = |window: &CommonWindow| window.is_agreed && self.shared.is_some();
        let window = self.window.filter(is_limited)?;
        Some([window.skew_max, self.totals.counted_min?])
    }

    /// As derived at [`COUNTED_PER_SKEW`].
    fn rate_error(&self) -> Option<f64> {
        let [skew, counted] = self.skew_and_counted()?;
        Some(2.0 * float(skew.get()) / float(counted.get()))
    }

    fn too_skewed(&self) -> Option<String> {
        let [skew, counted] = self.skew_and_counted()?;
        let limit = Nanos::new(counted.get() / COUNTED_PER_SKEW);
        (skew > limit).then(|| {
            let [skew, limit] = told_apart([skew, limit]);
            format!(
                "the starts on shared storage differ by up to {skew}, more than {limit}: the rate \
                 may be more than 1 % wrong"
            )
        })
    }

    /// Why the operations of all hosts are not one rate.
    fn no_rate(&self, conditions: &PoolConditions) -> Option<String> {
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
        let losses = conditions.times.losses.iter().filter(|loss| self.is_hit_by(loss));
        let lost: BTreeSet<&str> = losses.map(|loss| loss.host.as_str()).collect();
        if !lost.is_empty() {
            let hosts = listed(&Vec::from_iter(lost));
            return Some(format!("{hosts} fell silent while it ran: the load is unknown"));
        }
        if window.length == Nanos::ZERO {
            return Some("the last host started after the first had ended".to_owned());
        }
        if let Some(reason) = self.too_skewed() {
            return Some(reason);
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

/// The two times with as many digits as distinguish them, if they are not equal.
fn told_apart(times: [Nanos; 2]) -> [String; 2] {
    let short = times.map(|time| time.to_string());
    let millis =
        |digits: usize| times.map(|time| format!("{:.digits$} ms", time.as_secs_f64() * 1e3));
    let mut texts = std::iter::once(short.clone()).chain((1..=6).map(millis));
    texts.find(|[first, second]| first != second).unwrap_or(short)
}

/// `db1 and db2`, `db1, db2 and 6 more`.
pub(crate) fn listed(names: &[&str]) -> String {
    match names {
        [first, second] => format!("{first} and {second}"),
        [first, second, more @ ..] => format!("{first}, {second} and {} more", more.len()),
        _ => names.concat(),
    }
}

fn whole_step(member: &PoolHost<'_>) -> HostTotal {
    let (host, rate) = (member.name.to_owned(), member.span.rate);
    HostTotal { host, rate, p50_ns: None, p99_ns: None }
}

/// What part of all each host has, the largest first.
fn shares(hosts: &[HostTotal], all: f64) -> Vec<HostShare> {
    let share = |host: &HostTotal| HostShare {
        host: host.host.clone(),
        share: if all > 0.0 { host.rate / all } else { 0.0 },
        p50_ns: host.p50_ns,
        p99_ns: host.p99_ns,
    };
    let mut shares: Vec<HostShare> = hosts.iter().map(share).collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

fn doubts(pools: &[StepPool<'_>]) -> Vec<FleetDoubt> {
    let windows = || pools.iter().filter_map(|pool| Some((pool, pool.window?)));
    let doubt = |kind, sentence: String| FleetDoubt { kind, hosts: Vec::new(), sentence };
    let mut doubts = Vec::new();
    // Local drives may be measured one host after the other.
    let by_wall = windows().filter(|(pool, window)| {
        let is_together = window.length > Nanos::ZERO || pool.shared.is_some();
        is_together && !window.is_ordered
    });
    if let Some(skew) = by_wall.map(|(_, window)| window.skew).max() {
        let sentence = format!(
            "no process ordered the starts: hosts are aligned by their wall clocks, whose errors \
             are not known; starts differ by up to {skew}"
        );
        doubts.push(doubt(FleetDoubtKind::Skewed, sentence));
    }
    let ordered = || windows().filter(|(_, window)| window.is_ordered);
    let (agreed, free): (Vec<_>, Vec<_>) = ordered().partition(|(_, window)| window.is_agreed);
    let mut skewed = agreed.clone();
    skewed.retain(|(_, window)| window.skew_max > window.skew_limit);
    let skews = skewed.iter().map(|(_, window)| [window.skew_max, window.skew_limit]);
    if let Some(skew_and_limit) = skews.max() {
        let [most, _] = told_apart(skew_and_limit);
        let (steps, all) = (distinct_steps(&skewed), distinct_steps(&agreed));
        let sentence = format!(
            "{steps} of {all} agreed starts had more than 10 ms, or 1 % of an interval, between \
             hosts: up to {most}"
        );
        doubts.push(doubt(FleetDoubtKind::Skewed, sentence));
    }
    if let Some(most) = free.iter().map(|(_, window)| window.skew).max() {
        let all: Vec<(&StepPool<'_>, CommonWindow)> = windows().collect();
        let (steps, all) = (distinct_steps(&free), distinct_steps(&all));
        let sentence = format!(
            "{steps} of {all} steps were free to start when a host was ready: starts differ by up to \
             {most}"
        );
        doubts.push(doubt(FleetDoubtKind::FreeStart, sentence));
    }
    doubts.extend(copied_filesystems(pools));
    doubts
}

/// A step has a pool for each of its streams and storages.
fn distinct_steps(pools: &[(&StepPool<'_>, CommonWindow)]) -> usize {
    let steps = pools.iter().filter_map(|(pool, _)| pool.members.first());
    steps.map(|member| member.span.step).collect::<BTreeSet<u32>>().len()
}

/// Filesystems with the same UUID on several machines. They are copies, or hosts would destroy each
/// other's data, unless their drives are known to be the same.
fn copied_filesystems(pools: &[StepPool<'_>]) -> Vec<FleetDoubt> {
    let mut found: BTreeMap<&str, BTreeMap<&str, &PoolHost<'_>>> = BTreeMap::new();
    for member in pools.iter().flat_map(|pool| pool.members.iter().chain(&pool.absent)) {
        if let Some(uuid) = &member.span.storage.filesystem {
            found.entry(uuid).or_default().insert(member.machine, member);
        }
    }
    let copied = found.into_iter().filter_map(|(uuid, machines)| {
        let devices: Vec<Option<&str>> =
            machines.values().map(|member| member.span.storage.device.as_deref()).collect();
        let first = devices.first()?;
        let is_one = first.is_some() && devices.iter().all(|device| device == first);
        if machines.len() < 2 || is_one {
            return None;
        }
        let why = match devices.contains(&None) {
            true => "copied images, or one storage without a serial number",
            false => "drives with different serial numbers, so copied images",
        };
        let mut names: Vec<&str> = machines.into_values().map(|member| member.name).collect();
        names.sort_unstable();
        Some(FleetDoubt {
            kind: FleetDoubtKind::CopiedFilesystem,
            hosts: names.iter().map(|name| (*name).to_owned()).collect(),
            sentence: format!("{} have the filesystem UUID {uuid}: {why}", listed(&names)),
        })
    });
    copied.collect()
}

#[cfg(test)]
mod tests;
