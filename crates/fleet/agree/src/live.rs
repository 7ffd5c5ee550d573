//! What hosts tell of their runs while these measure, and the newest figures of all hosts.
//!
//! A host sends a [`LiveReport`] about once a second. Reports are neither signed nor repeated: nothing
//! is decided by them, and results come from run folders. The bus lets each host speak for itself only,
//! and the board refuses what no run can have.

mod region;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use durio_base::stats::least_squares::median;
use durio_base::{Bytes, Nanos};
use durio_record::fleet::HostState;
use durio_record::{Exact, Latency, OperationName, PayloadReader, Phase};
use serde::{Deserialize, Serialize};

use crate::message::{STEPS_MAX, subject_token};

/// The last part of the subject.
pub const LIVE_KIND: &str = "live";
pub const LIVE_SCHEMA: u32 = 1;
/// Entries of the histogram log for one kind of operation.
pub const HISTOGRAMS_MAX: usize = 32;
/// The largest report; one of four loads with intervals of a second has a fiftieth of it.
pub const REPORT_BYTES_MAX: usize = 256 << 10;
const STREAMS_MAX: usize = 64;
const SPAN_MAX: Nanos = Nanos::from_secs(3_600);
/// Hosts send one a second; more are not read.
const REPORT_EVERY_MIN: Nanos = Nanos::from_millis(250);
/// Figures older than this and two of their intervals are not current.
const CURRENT: Nanos = Nanos::from_secs(3);
const RECENT_MAX: usize = 60;
const SLOWEST: usize = 5;

/// What a run has done since the report before: of its newest step, round and phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveReport {
    pub step: u32,
    pub round: u32,
    pub phase: Phase,
    pub streams: Vec<LiveStream>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveStream {
    pub stream: u32,
    /// The time of these counts.
    #[serde(rename = "span_ns")]
    pub span: Nanos,
    pub operations: Vec<LiveOperation>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveOperation {
    pub operation: OperationName,
    pub bytes: Bytes,
    /// From the intended start where the load has a schedule, else from preparation.
    #[serde(flatten)]
    pub exact: Exact,
    /// Latencies, as the histogram log has them; empty if there are too many to send.
    pub histograms: Vec<String>,
}

impl LiveReport {
    /// The subject on which a host sends it.
    #[must_use]
    pub fn subject(campaign: &str, host: &str) -> String {
        format!("c.{campaign}.h.{}.{LIVE_KIND}", subject_token(host))
    }

    /// What goes over the bus: without histograms if these are too much. `None` if even that is.
    #[must_use]
    pub fn encode(mut self) -> Option<Vec<u8>> {
        let encoded = serde_json::to_vec(&self).ok()?;
        if encoded.len() <= REPORT_BYTES_MAX {
            return Some(encoded);
        }
        let streams = self.streams.iter_mut();
        streams
            .flat_map(|stream| &mut stream.operations)
            .for_each(|counts| counts.histograms.clear());
        serde_json::to_vec(&self).ok().filter(|encoded| encoded.len() <= REPORT_BYTES_MAX)
    }

    /// A report whose numbers are possible.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(encoded: &[u8]) -> Result<Self, &'static str> {
        if encoded.len() > REPORT_BYTES_MAX {
            return Err("size");
        }
        let report: Self = serde_json::from_slice(encoded).map_err(|_| "form")?;
        if report.step as usize >= STEPS_MAX {
            return Err("step");
        }
        if report.streams.len() > STREAMS_MAX {
            return Err("number of streams");
        }
        report.streams.iter().try_for_each(LiveStream::check)?;
        Ok(report)
    }
}

impl LiveStream {
    fn check(&self) -> Result<(), &'static str> {
        if self.span == Nanos::ZERO || self.span > SPAN_MAX {
            return Err("span");
        }
        let mut seen = Vec::new();
        for counts in &self.operations {
            if seen.contains(&counts.operation) {
                return Err("operation twice");
            }
            seen.push(counts.operation);
            counts.check(self.span)?;
        }
        Ok(())
    }
}

impl LiveOperation {
    fn check(&self, span: Nanos) -> Result<(), &'static str> {
        // An operation per nanosecond, 1 TiB per second: a sum of all hosts stays a number.
        const BYTES_PER_NANOSECOND: u64 = 1_100;
        let Exact { count, min_ns, max_ns, .. } = self.exact;
        if count > span.get() || self.bytes.get() / BYTES_PER_NANOSECOND > span.get() {
            return Err("rate");
        }
        if min_ns > max_ns || max_ns > SPAN_MAX.get() {
            return Err("latency");
        }
        match self.histograms.len() > HISTOGRAMS_MAX {
            true => Err("number of histograms"),
            false => Ok(()),
        }
    }
}

/// The figures of one kind of operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct OperationFigures {
    rate: f64,
    bytes_per_second: f64,
    #[serde(skip)]
    latency: Latency,
    /// Known where a relay has added the host's latencies to those of others.
    p99_ns: Option<u64>,
}

impl OperationFigures {
    fn add(&mut self, other: &Self) {
        self.rate += other.rate;
        self.bytes_per_second += other.bytes_per_second;
        self.latency.add(&other.latency);
    }

    fn p99_ns(&self) -> Option<u64> {
        let counted = || Some(self.latency.histogram()?.value_at_quantile(0.99));
        self.p99_ns.or_else(counted)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct HostFigures {
    #[serde(skip)]
    at: Nanos,
    #[serde(rename = "current_ns")]
    current_for: Nanos,
    step: u32,
    round: u32,
    phase: Phase,
    operations: BTreeMap<OperationName, OperationFigures>,
    /// Operations of all kinds per second, the newest last.
    #[serde(skip)]
    recent: VecDeque<f64>,
}

/// The newest figures of each host.
#[derive(Debug, Default)]
pub struct LiveBoard {
    hosts: BTreeMap<String, HostFigures>,
    /// When each host or relay sent its last report, whatever was in it.
    reported: BTreeMap<String, Nanos>,
    /// Latencies of the hosts behind each relay, and when they came.
    regions: BTreeMap<String, (Nanos, BTreeMap<OperationName, Latency>)>,
    payloads: PayloadReader,
}

/// Where a host is in the campaign.
#[derive(Debug, Clone, Copy)]
pub struct HostStanding<'h> {
    pub host: &'h str,
    pub state: HostState,
    /// How long ago its last word came, if it is silent.
    pub silent: Option<Nanos>,
}

/// A fleet at one moment, for programs and views.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LiveDocument {
    pub schema: u32,
    pub campaign: String,
    pub name: String,
    /// Since this coordinator began.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// Hosts with current figures.
    pub hosts_reporting: usize,
    /// Sums over hosts with current figures; the fastest first.
    pub operations: Vec<LiveTotal>,
    /// Five hosts, of those in the step in which most are.
    pub slowest: Vec<SlowHost>,
    pub hosts: Vec<LiveHost>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveTotal {
    pub operation: OperationName,
    pub hosts: usize,
    pub operations_per_second: f64,
    pub bytes_per_second: f64,
    /// 99th percentile of the latencies of all these hosts together.
    pub p99_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowHost {
    pub host: String,
    /// Its rate as a share of the median host's.
    pub of_median: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveHost {
    pub host: String,
    pub state: HostState,
    #[serde(rename = "silent_ns")]
    pub silent: Option<Nanos>,
    /// Absent while there are none that are current.
    pub figures: Option<StandingFigures>,
    #[serde(skip)]
    pub recent: Vec<f64>,
}

/// The operation of a host that the fleet makes most of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingFigures {
    pub step: u32,
    pub round: u32,
    pub phase: Phase,
    pub operations_per_second: f64,
    pub bytes_per_second: f64,
    pub p99_ns: Option<u64>,
    /// Its rate as a share of the median host's in the step in which most are.
    pub of_median: Option<f64>,
}

impl LiveBoard {
    /// Takes a host's report. `is_planned` says whether its plan has a step.
    ///
    /// # Errors
    /// Why it is not believed.
    pub fn take(
        &mut self,
        (host, encoded): (&str, &[u8]),
        now: Nanos,
        is_planned: impl FnOnce(u32) -> bool,
    ) -> Result<(), &'static str> {
        self.check_frequency(host, now)?;
        let report = LiveReport::decode(encoded)?;
        if !is_planned(report.step) {
            return Err("step");
        }
        let mut operations: BTreeMap<OperationName, OperationFigures> = BTreeMap::new();
        let mut longest = Nanos::ZERO;
        for stream in &report.streams {
            longest = longest.max(stream.span);
            for counts in &stream.operations {
                let figures = self.figures(counts, stream.span)?;
                operations.entry(counts.operation).or_default().add(&figures);
            }
        }
        let current_for = Nanos::new(CURRENT.get() + 2 * longest.get());
        let LiveReport { step, round, phase, .. } = report;
        let recent = VecDeque::new();
        let figures = HostFigures { at: now, current_for, step, round, phase, operations, recent };
        self.put(host, figures);
        Ok(())
    }

    fn check_frequency(&mut self, sender: &str, now: Nanos) -> Result<(), &'static str> {
        let before = self.reported.insert(sender.to_owned(), now);
        let is_early = |before: Nanos| now.saturating_sub(before) < REPORT_EVERY_MIN;
        if before.is_some_and(is_early) { Err("frequency") } else { Ok(()) }
    }

    /// The newest figures of a host, whose rate joins those before.
    fn put(&mut self, host: &str, mut figures: HostFigures) {
        let rate = figures.operations.values().map(|figures| figures.rate).sum();
        let mut recent = self.hosts.remove(host).map(|known| known.recent).unwrap_or_default();
        recent.push_back(rate);
        if recent.len() > RECENT_MAX {
            recent.pop_front();
        }
        figures.recent = recent;
        self.hosts.insert(host.to_owned(), figures);
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are quotients")]
    fn figures(
        &mut self,
        counts: &LiveOperation,
        span: Nanos,
    ) -> Result<OperationFigures, &'static str> {
        let mut latency = Latency::default();
        for text in &counts.histograms {
            let histogram = self.payloads.read(text.as_bytes()).ok_or("histogram")?;
            latency.add_histogram(&histogram);
        }
        latency.exact = counts.exact;
        let counted = latency.histogram().map(durio_record::SparseHistogram::count);
        if counted.is_some_and(|counted| counted != counts.exact.count) {
            return Err("count of histograms");
        }
        let seconds = span.as_secs_f64();
        let rate = counts.exact.count as f64 / seconds;
        let bytes_per_second = counts.bytes.get() as f64 / seconds;
        Ok(OperationFigures { rate, bytes_per_second, latency, p99_ns: None })
    }

    /// The fleet now; the name is that of the campaign.
    pub fn document<'h>(
        &self,
        (campaign, name, elapsed): (&str, &str, Nanos),
        hosts: impl Iterator<Item = HostStanding<'h>>,
        now: Nanos,
    ) -> LiveDocument {
        let standings: Vec<(HostStanding<'h>, Option<&HostFigures>)> =
            hosts.map(|standing| (standing, self.current(standing, now))).collect();
        let current: Vec<(&str, &HostFigures)> = standings
            .iter()
            .filter_map(|(standing, figures)| Some((standing.host, (*figures)?)))
            .collect();
        let operations = totals(&current, &self.latencies_of_regions(now));
        let main = operations.first().map(|total| total.operation);
        let shares = main.map(|main| shares_of_median(&current, main)).unwrap_or_default();
        let by_host: BTreeMap<&str, f64> = shares.iter().copied().collect();
        let hosts = standings.iter().map(|(standing, figures)| LiveHost {
            host: standing.host.to_owned(),
            state: standing.state,
            silent: standing.silent,
            figures: figures
                .map(|figures| shown(figures, main, by_host.get(standing.host).copied())),
            recent: self
                .hosts
                .get(standing.host)
                .map(|known| known.recent.iter().copied().collect())
                .unwrap_or_default(),
        });
        let slowest = shares.iter().take(SLOWEST);
        LiveDocument {
            schema: LIVE_SCHEMA,
            campaign: campaign.to_owned(),
            name: name.to_owned(),
            elapsed,
            hosts_reporting: current.len(),
            slowest: slowest
                .map(|&(host, of_median)| SlowHost { host: host.to_owned(), of_median })
                .collect(),
            hosts: hosts.collect(),
            operations,
        }
    }

    fn current(&self, standing: HostStanding<'_>, now: Nanos) -> Option<&HostFigures> {
        let is_over = standing.state.is_final() || standing.state == HostState::Ended;
        let figures = self.hosts.get(standing.host).filter(|_| !is_over)?;
        (now.saturating_sub(figures.at) <= figures.current_for).then_some(figures)
    }
}

fn totals(
    current: &[(&str, &HostFigures)],
    regions: &BTreeMap<OperationName, Latency>,
) -> Vec<LiveTotal> {
    let mut totals = Vec::new();
    for operation in OperationName::ALL {
        let mut sum = OperationFigures::default();
        let mut hosts = 0;
        let measured = current.iter().filter_map(|(_, host)| host.operations.get(&operation));
        for figures in measured {
            sum.add(figures);
            hosts += 1;
        }
        if let Some(latency) = regions.get(&operation) {
            sum.latency.add(latency);
        }
        if hosts > 0 {
            totals.push(LiveTotal {
                operation,
                hosts,
                operations_per_second: sum.rate,
                bytes_per_second: sum.bytes_per_second,
                p99_ns: sum.p99_ns(),
            });
        }
    }
    totals.sort_by(|a, b| b.operations_per_second.total_cmp(&a.operations_per_second));
    totals
}

/// Rates of the hosts in the step in which most are, as shares of their median; the slowest first.
fn shares_of_median<'h>(
    current: &[(&'h str, &HostFigures)],
    main: OperationName,
) -> Vec<(&'h str, f64)> {
    let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for (_, host) in current {
        *counts.entry((host.step, host.round)).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|&(_, count)| *count).map(|(place, _)| *place);
    let here = current.iter().filter(|(_, host)| Some((host.step, host.round)) == most);
    // A host that makes none of these operations is the slowest.
    let rate = |host: &HostFigures| host.operations.get(&main).map_or(0.0, |figures| figures.rate);
    let mut rates: Vec<(&str, f64)> = here.map(|&(name, host)| (name, rate(host))).collect();
    let values: Vec<f64> = rates.iter().map(|(_, rate)| *rate).collect();
    // One host has no others to compare it with.
    let Some(middle) = median(&values).filter(|middle| *middle > 0.0 && values.len() > 1) else {
        return Vec::new();
    };
    rates.iter_mut().for_each(|(_, rate)| *rate /= middle);
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    rates
}

fn shown(
    figures: &HostFigures,
    main: Option<OperationName>,
    of_median: Option<f64>,
) -> StandingFigures {
    let made = main.and_then(|main| figures.operations.get(&main));
    StandingFigures {
        step: figures.step,
        round: figures.round,
        phase: figures.phase,
        operations_per_second: made.map_or(0.0, |made| made.rate),
        bytes_per_second: made.map_or(0.0, |made| made.bytes_per_second),
        p99_ns: made.and_then(OperationFigures::p99_ns),
        of_median,
    }
}
