//! A watcher's state, as OpenMetrics text and as a page.
//!
//! Shows the totals of a watcher's probes, and their history. The watcher makes the probes and
//! serves the bytes.

use std::collections::BTreeMap;
use std::io;

use durio_analyse::history::{FigureHistory, Percentiles};
use durio_analyse::why::ExplainedCall;
use durio_base::{Bytes, Nanos};
use durio_record::{Latency, SparseHistogram};

use crate::document::{Cell, Column, Document, Section, Table, Tone, shown, words};
use crate::figures::{counted, minute, precise, second};
use crate::render::html;
use crate::render::openmetrics::{MetricFamily, MetricKind, write};
use crate::{Options, Report as _, why};

/// What a watcher knows.
#[derive(Debug)]
pub struct WatchedProbe {
    /// From the begin of one probe to that of the next.
    pub every: Nanos,
    pub locations: Vec<WatchedLocation>,
}

/// The probes of one location, since the watcher began where nothing else is said.
#[derive(Debug)]
pub struct WatchedLocation {
    /// As it was named.
    pub location: String,
    pub probes: u64,
    pub failures: u64,
    /// Why the latest probe failed, if it did.
    pub error: Option<String>,
    /// What the probes wrote.
    pub written: Bytes,
    /// The latencies of all their commits.
    pub latencies: Latency,
    /// The latest probe that ended, also of an earlier watcher: begin in RFC 3339, percentiles.
    pub latest: Option<(String, Percentiles)>,
    /// Begin of the latest probe that ended, in seconds since 1970.
    pub succeeded_at: Option<f64>,
    /// Begin of the running probe, in seconds since 1970.
    pub running_since: Option<f64>,
    /// What earlier and this watcher's probes found.
    pub history: Option<FigureHistory>,
    /// The slowest commits of probes that recorded them.
    pub slow: SlowProbeCommits,
}

/// Commits that probes explained.
#[derive(Debug, Default)]
pub struct SlowProbeCommits {
    /// The latest first, with the begin of each one's probe in RFC 3339; some are kept.
    pub commits: Vec<(String, ExplainedCall)>,
    /// Nanoseconds that each cause took of all of them.
    pub lost_ns: BTreeMap<&'static str, u64>,
}

impl SlowProbeCommits {
    /// Commits that are kept.
    const KEPT: usize = 100;

    /// Adds the commits of the probe that began then.
    pub fn add(&mut self, started: &str, calls: &[ExplainedCall]) {
        for piece in calls.iter().flat_map(|call| &call.pieces) {
            *self.lost_ns.entry(piece.cause).or_default() += piece.ns();
        }
        let new = calls.iter().map(|call| (started.to_owned(), call.clone()));
        self.commits.splice(..0, new);
        self.commits.truncate(Self::KEPT);
    }
}

impl WatchedLocation {
    /// Before the first probe.
    pub fn new(location: String) -> Self {
        Self {
            location,
            probes: 0,
            failures: 0,
            error: None,
            written: Bytes::ZERO,
            latencies: Latency::default(),
            latest: None,
            succeeded_at: None,
            running_since: None,
            history: None,
            slow: SlowProbeCommits::default(),
        }
    }

    fn percentile(&self, percentile: fn(&Percentiles) -> Option<u64>) -> Cell {
        let latest = self.latest.as_ref().and_then(|(_, latest)| percentile(latest));
        Cell::of(latest, Cell::nanos)
    }
}

// Upper bounds of the histogram's buckets in seconds: from the latency of a cache with power-loss
// protection to a hang in a database's terms.
const BUCKETS: [f64; 16] = [
    50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3,
    1.0, 2.5, 10.0,
];

/// Every metric, in the order in which they are written: name, kind, meaning.
const METRICS: [(&str, MetricKind, &str); 9] = [
    ("durio_watch_info", MetricKind::Gauge, "Version of durio that is watching."),
    ("durio_watch_interval_seconds", MetricKind::Gauge, "Interval between the starts of probes."),
    ("durio_watch_probes", MetricKind::Counter, "Probes, by how they ended."),
    ("durio_watch_written_bytes", MetricKind::Counter, "Bytes that probes wrote."),
    (
        "durio_watch_last_success_timestamp_seconds",
        MetricKind::Gauge,
        "Start time of the last successful probe.",
    ),
    (
        "durio_watch_running_since_timestamp_seconds",
        MetricKind::Gauge,
        "Start time of the running probe; absent between probes.",
    ),
    (
        "durio_watch_last_commit_latency_seconds",
        MetricKind::Summary,
        "Latency of durable commits of 8 KiB in the latest probe.",
    ),
    (
        "durio_watch_commit_latency_seconds",
        MetricKind::Histogram,
        "Latency of durable commits of 8 KiB.",
    ),
    (
        "durio_slow_commit_seconds",
        MetricKind::Counter,
        "Time of the slowest commits of each probe, by cause (--why).",
    ),
];

impl WatchedProbe {
    /// Writes the text for Prometheus.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn write_metrics(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write(&self.families(), out)
    }

    /// Writes the page for a browser.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write_page(&self, out: &mut dyn io::Write) -> io::Result<()> {
        html::render(&self.document(), &Options::default(), out)
    }

    fn families(&self) -> Vec<MetricFamily> {
        let mut families = METRICS.map(|(name, kind, help)| MetricFamily::new(name, kind, help));
        let [info, every, probes, written, succeeded, running, latest, latencies, slow] =
            &mut families;
        info.add(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        every.add(&[], self.every.as_secs_f64());
        for it in &self.locations {
            let location = ("location", it.location.as_str());
            probes.add(&[location, ("result", "ok")], precise(it.probes));
            probes.add(&[location, ("result", "failed")], precise(it.failures));
            written.add(&[location], precise(it.written.get()));
            it.succeeded_at.into_iter().for_each(|at| succeeded.add(&[location], at));
            it.running_since.into_iter().for_each(|at| running.add(&[location], at));
            if let Some((_, Percentiles { p50_ns, p99_ns, p99_9_ns })) = &it.latest {
                for (quantile, nanos) in [("0.5", p50_ns), ("0.99", p99_ns), ("0.999", p99_9_ns)] {
                    let Some(nanos) = nanos else { continue };
                    latest.add(&[location, ("quantile", quantile)], precise(*nanos) / 1e9);
                }
            }
            add_histogram(latencies, location, &it.latencies);
            for (cause, nanos) in &it.slow.lost_ns {
                slow.add(&[location, ("cause", *cause)], precise(*nanos) / 1e9);
            }
        }
        families.into()
    }

    fn document(&self) -> Document {
        let titles: Vec<&str> =
            self.locations.iter().map(|location| location.location.as_str()).collect();
        let mut document = Document::new("durio watch", titles.join(", "));
        let mut section = Section::default();
        // Within a minute only the seconds tell one probe from the next.
        let is_often = self.every < Nanos::from_secs(60);
        let time: fn(&str) -> String = if is_often { second } else { minute };
        let rows = self.locations.iter().map(|location| WatchRow { location, time });
        section.table(Table::shown(&columns(), rows));
        for it in &self.locations {
            if let Some(error) = &it.error {
                section.toned(Tone::Bad, &it.location, format!("failed: {error}"));
            }
        }
        section.note(format!(
            "a probe every {}: durable commits of 8 KiB at a fixed rate; results for Prometheus \
             are at /metrics, counted since this watcher started",
            self.every
        ));
        document.push(section);
        for history in self.locations.iter().filter_map(|location| location.history.as_ref()) {
            for mut section in history.document().sections {
                let count = counted(history.points.len() as u64, "probe");
                section.heading = format!("{} p99, {count}", history.target);
                document.push(section);
            }
        }
        for it in self.locations.iter().filter(|it| !it.slow.commits.is_empty()) {
            let heading = format!("{}: slow commits", it.location);
            document.push(why::of_probes(heading, &it.slow.commits));
        }
        document
    }
}

/// A location, and how the times of its probes are written.
struct WatchRow<'w> {
    location: &'w WatchedLocation,
    time: fn(&str) -> String,
}

fn columns<'w>() -> Vec<Column<WatchRow<'w>>> {
    vec![
        words(shown("location", |row| Cell::text(&row.location.location))),
        words(shown("latest probe (UTC)", |row| {
            let latest = row.location.latest.as_ref();
            Cell::of(latest, |(started, _)| Cell::text((row.time)(started)))
        })),
        shown("p50", |row| row.location.percentile(|latest| latest.p50_ns)),
        shown("p99", |row| row.location.percentile(|latest| latest.p99_ns)),
        shown("p99.9", |row| row.location.percentile(|latest| latest.p99_9_ns)),
        shown("probes", |row| Cell::Count(row.location.probes)),
        shown("failed", |row| Cell::Count(row.location.failures)),
    ]
}

fn add_histogram(family: &mut MetricFamily, location: (&str, &str), latencies: &Latency) {
    let histogram = latencies.histogram();
    for bound in BUCKETS {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "10 s at most")]
        let count = histogram.map_or(0, |histogram| histogram.count_up_to((bound * 1e9) as u64));
        family.add_part("_bucket", &[location, ("le", &bound.to_string())], precise(count));
    }
    let count = precise(histogram.map_or(0, SparseHistogram::count));
    family.add_part("_bucket", &[location, ("le", "+Inf")], count);
    family.add_part("_sum", &[location], precise(latencies.exact.sum_ns) / 1e9);
    family.add_part("_count", &[location], count);
}
