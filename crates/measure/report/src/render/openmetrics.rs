//! OpenMetrics text, for Prometheus and node_exporter's textfile collector.
//!
//! Turns the records of a document, or families of numbers, into families with base units (seconds,
//! bytes, ratios) and labels, as <https://prometheus.io/docs/practices/naming/> has them, and
//! `# EOF`.
//!
//! In a record, columns whose name ends in a unit are numbers, and all others labels, as are the
//! block size and the share of reads, by which workloads differ. The folder's name is in
//! `durio_run_info` and not a label, because every run would begin new series.

use std::collections::BTreeSet;
use std::io;

use durio_base::visible;
use durio_judge::summary::Summary;

use crate::Options;
use crate::document::{Cell, Document, Row, Table};

/// Figures of one name.
#[derive(Debug)]
pub(crate) struct MetricFamily {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) kind: MetricKind,
    pub(crate) samples: Vec<MetricSample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Gauge,
    Counter,
    Histogram,
    /// Quantiles, which no other kind may have.
    Summary,
}

type MetricLabels = Vec<(String, String)>;

/// One value. The suffix belongs to the kind: `_total`, `_bucket`, `_sum`, `_count`.
#[derive(Debug)]
pub(crate) struct MetricSample {
    pub(crate) suffix: &'static str,
    pub(crate) labels: MetricLabels,
    pub(crate) value: f64,
}

impl MetricSample {
    /// What it is a quantile of; the quantile is the last label.
    fn series(&self) -> &[(String, String)] {
        let is_quantile = self.labels.last().is_some_and(|(name, _)| name == "quantile");
        &self.labels[..self.labels.len() - usize::from(is_quantile)]
    }
}

impl MetricFamily {
    pub(crate) fn new(name: &str, kind: MetricKind, help: &str) -> Self {
        Self { name: name.to_owned(), help: help.to_owned(), kind, samples: Vec::new() }
    }

    /// Adds a value of a gauge or a counter.
    pub(crate) fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let suffix = if self.kind == MetricKind::Counter { "_total" } else { "" };
        self.add_part(suffix, labels, value);
    }

    pub(crate) fn add_part(&mut self, suffix: &'static str, labels: &[(&str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        self.samples.push(MetricSample { suffix, labels: labels.collect(), value });
    }
}

pub(crate) fn render(document: &Document, _: &Options, out: &mut dyn io::Write) -> io::Result<()> {
    // Words alone cannot be scraped.
    if !document.records.columns.iter().any(|column| figure(&column.title).is_some()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut all = families(&document.records);
    all.extend(document.summary.as_ref().map(verdict));
    write(&all, out)
}

/// The first word of the report, to alert on.
fn verdict(summary: &Summary) -> MetricFamily {
    let help = "Verdict of the report: good, caution, unknown or bad.";
    let mut family = MetricFamily::new("durio_verdict_info", MetricKind::Gauge, help);
    family.add(&[("verdict", &summary.verdict.word().to_lowercase())], 1.0);
    family
}

/// Writes families; those without a value are left out.
pub(crate) fn write(families: &[MetricFamily], out: &mut dyn io::Write) -> io::Result<()> {
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let MetricFamily { name, help, kind, .. } = family;
        let kind = match kind {
            MetricKind::Gauge => "gauge",
            MetricKind::Counter => "counter",
            MetricKind::Histogram => "histogram",
            MetricKind::Summary => "summary",
        };
        writeln!(out, "# TYPE {name} {kind}")?;
        if let Some(unit) = unit(name) {
            writeln!(out, "# UNIT {name} {unit}")?;
        }
        writeln!(out, "# HELP {name} {}", escaped(help))?;
        for MetricSample { suffix, labels, value } in &family.samples {
            let labels = labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text)));
            let labels = labels.collect::<Vec<_>>().join(",");
            let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            writeln!(out, "{name}{suffix}{labels} {value}")?;
        }
    }
    writeln!(out, "# EOF")
}

/// Without control characters, and with the ends of labels and lines escaped.
fn escaped(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('"', "\\\"")
}

fn families(records: &Table) -> Vec<MetricFamily> {
    let figures: Vec<Option<ColumnMetric>> =
        records.columns.iter().map(|column| figure(&column.title)).collect();
    let run = the_run(records);
    let labels_of = |row: &Row| -> MetricLabels {
        let columns = records.columns.iter().zip(&figures).zip(&row.cells);
        let labels = columns.filter(|((column, figure), cell)| {
            // A position of zero is the only one for most records.
            let is_said = !matches!(cell.plain().as_str(), "" | "0");
            figure.is_none() && is_said && !(run.is_some() && column.title == RUN)
        });
        labels.map(|((column, _), cell)| (label_name(&column.title), cell.plain())).collect()
    };
    let labels: Vec<MetricLabels> = records.rows.iter().map(labels_of).collect();
    let mut families: Vec<MetricFamily> = Vec::new();
    if let Some(run) = &run {
        let mut info =
            MetricFamily::new("durio_run_info", MetricKind::Gauge, "Name of the run folder.");
        info.add(&[(RUN, run)], 1.0);
        families.push(info);
    }
    for (at, figure) in figures.iter().enumerate() {
        let Some(figure) = figure else { continue };
        let samples = samples(figure, records.rows.iter().map(|row| row.cells.get(at)), &labels);
        match families.iter_mut().find(|family| family.name == figure.name) {
            Some(same) => {
                same.samples.extend(samples);
                // The quantiles of one series follow each other, or the format is broken.
                same.samples.sort_by(|a, b| a.series().cmp(b.series()));
            }
            None => {
                let kind =
                    if figure.quantile.is_some() { MetricKind::Summary } else { MetricKind::Gauge };
                families.push(MetricFamily {
                    samples,
                    ..MetricFamily::new(&figure.name, kind, &figure.help)
                });
            }
        }
    }
    families
}

const RUN: &str = "run";

/// The run that all records are of; none of a list of runs.
fn the_run(records: &Table) -> Option<String> {
    let at = records.columns.iter().position(|column| column.title == RUN)?;
    let mut runs = records.rows.iter().map(|row| row.cells.get(at).map(Cell::plain));
    let first = runs.next()??;
    runs.all(|run| run.as_deref() == Some(&first)).then_some(first)
}

fn samples<'a>(
    figure: &ColumnMetric,
    cells: impl Iterator<Item = Option<&'a Cell>>,
    labels: &[MetricLabels],
) -> Vec<MetricSample> {
    let mut seen = BTreeSet::new();
    let sample = |(cell, labels): (Option<&Cell>, &MetricLabels)| {
        let value = cell?.number()? / figure.divisor;
        let quantile =
            figure.quantile.iter().map(|quantile| ("quantile".to_owned(), quantile.clone()));
        let labels: MetricLabels = labels.iter().cloned().chain(quantile).collect();
        // A series that is there twice makes a scraper refuse all others too.
        seen.insert(labels.clone()).then_some(MetricSample { suffix: "", labels, value })
    };
    cells.zip(labels).filter_map(sample).collect()
}

/// The meaning of a column's values, by its name.
#[derive(Debug, PartialEq)]
struct ColumnMetric {
    name: String,
    help: String,
    quantile: Option<String>,
    /// How many of the column are one of the base unit.
    divisor: f64,
}

// Endings of columns, with the base unit and the divisor of values.
const UNITS: [(&str, &str, f64); 7] = [
    ("_bytes_per_s", "_bytes_per_second", 1.0),
    ("_per_sync", "_per_sync", 1.0),
    ("_per_s", "_per_second", 1.0),
    ("_ns", "_seconds", 1e9),
    ("_bytes", "_bytes", 1.0),
    ("_share", "_ratio", 1.0),
    ("count", "operations", 1.0),
];

/// Columns that describe a workload and are labels, though their names end in a unit.
const CONSTANTS: [&str; 2] = ["block_size_bytes", "read_share"];

/// Columns of times that are not latencies of operations.
const TIMES: [&str; 5] = ["measured", "idle_before", "slow_commit", "piece_begin", "piece"];

/// The unit with which the name of a family ends.
fn unit(name: &str) -> Option<&'static str> {
    let mut units = UNITS.iter().map(|(_, base, _)| base.trim_start_matches('_'));
    units.find(|unit| name.ends_with(&format!("_{unit}")))
}

/// None for a column of labels.
fn figure(title: &str) -> Option<ColumnMetric> {
    if CONSTANTS.contains(&title) {
        return None;
    }
    let unit = UNITS.iter().find_map(|(ending, base, divisor)| {
        title.strip_suffix(ending).map(|stem| (stem, *base, *divisor))
    });
    let (stem, base, divisor) = unit?;
    let (stem, percentile) = match stem.rsplit_once("p9").or_else(|| stem.rsplit_once("p5")) {
        // p50, p99, p99_9, with a prefix: response_p99.
        Some((before, _)) if before.is_empty() || before.ends_with('_') => {
            let percentile = stem[before.len() + 1..].replace('_', ".");
            (before.trim_end_matches('_'), percentile.parse::<f64>().ok())
        }
        _ => (stem, None),
    };
    let is_latency = base == "_seconds" && !TIMES.contains(&stem);
    let words = match (is_latency, stem) {
        (true, "") => "latency".to_owned(),
        (true, stem) if percentile.is_some() => format!("{stem}_latency"),
        (true, stem) => format!("latency_{stem}"),
        (false, stem) => stem.to_owned(),
    };
    let name = format!("durio_{words}{base}");
    let (words, unit) = (words.replace('_', " "), base.replace('_', " "));
    let help = match base {
        "_ratio" => format!("{words} as a ratio."),
        "_seconds" | "_bytes" | "_bytes_per_second" => format!("{words} in{unit}."),
        _ => format!("{words}{unit}."),
    };
    let quantile = percentile.map(|percentile| format!("{}", (percentile * 1e4).round() / 1e6));
    Some(ColumnMetric { name, help, quantile, divisor })
}

/// `[a-zA-Z_][a-zA-Z0-9_]*`, as the format has it.
fn label_name(title: &str) -> String {
    title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(families: &[MetricFamily]) -> String {
        let mut out = Vec::new();
        write(families, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_column_is_a_figure_by_its_unit_and_a_label_without_one() {
        let of = |title| figure(title).map(|figure| (figure.name, figure.quantile, figure.divisor));
        let named = |name: &str, quantile: Option<&str>, divisor| {
            Some((name.to_owned(), quantile.map(str::to_owned), divisor))
        };
        assert_eq!(of("p99_9_ns"), named("durio_latency_seconds", Some("0.999"), 1e9));
        assert_eq!(of("p50_ns"), named("durio_latency_seconds", Some("0.5"), 1e9));
        assert_eq!(
            of("response_p99_ns"),
            named("durio_response_latency_seconds", Some("0.99"), 1e9)
        );
        assert_eq!(of("mean_ns"), named("durio_latency_mean_seconds", None, 1e9));
        assert_eq!(of("measured_ns"), named("durio_measured_seconds", None, 1e9));
        assert_eq!(of("slow_commit_ns"), named("durio_slow_commit_seconds", None, 1e9));
        assert_eq!(of("rate_per_s"), named("durio_rate_per_second", None, 1.0));
        assert_eq!(
            of("bandwidth_bytes_per_s"),
            named("durio_bandwidth_bytes_per_second", None, 1.0)
        );
        assert_eq!(of("commits_per_sync"), named("durio_commits_per_sync", None, 1.0));
        assert_eq!(of("log_busy_share"), named("durio_log_busy_ratio", None, 1.0));
        assert_eq!(of("count"), named("durio_operations", None, 1.0));
        for label in ["run", "step", "workload", "jobs", "levels", "block_size_bytes", "read_share"]
        {
            assert_eq!(of(label), None, "{label}");
        }
    }

    #[test]
    fn a_family_has_its_unit_where_its_name_ends_in_one() {
        let columns =
            ["workload", "block_size_bytes", "p99_ns", "bandwidth_bytes_per_s", "log_busy_share"];
        let row = vec![
            Cell::text("commit"),
            Cell::Count(8192),
            Cell::Count(1_500_000),
            Cell::Number(7.0),
            Cell::Share(0.5),
        ];
        let text = text(&families(&Table::new(columns).with([row])));
        let labels = "workload=\"commit\",block_size_bytes=\"8192\"";
        let expected = format!(
            "# TYPE durio_latency_seconds summary\n# UNIT durio_latency_seconds seconds\n# HELP \
             durio_latency_seconds latency in seconds.\ndurio_latency_seconds{{{labels},quantile=\"0.99\"}} \
             0.0015\n# TYPE durio_bandwidth_bytes_per_second gauge\n# UNIT \
             durio_bandwidth_bytes_per_second bytes_per_second\n# HELP \
             durio_bandwidth_bytes_per_second bandwidth in bytes per \
             second.\ndurio_bandwidth_bytes_per_second{{{labels}}} 7\n# TYPE durio_log_busy_ratio \
             gauge\n# UNIT durio_log_busy_ratio ratio\n# HELP durio_log_busy_ratio log busy as a \
             ratio.\ndurio_log_busy_ratio{{{labels}}} 0.5\n# EOF\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn names_that_would_end_a_label_do_not_and_equal_series_are_there_once() {
        let columns = ["run", "workload", "round", "p99_ns"];
        let row = |name: &str, p99| {
            vec![Cell::text("r"), Cell::text(name), Cell::Count(0), Cell::Count(p99)]
        };
        let rows = [row("a\"b\\c\nd", 1_500_000), row("a\"b\\c\nd", 2), row("x", 3)];
        let text = text(&families(&Table::new(columns).with(rows)));
        assert!(text.contains("durio_run_info{run=\"r\"} 1\n"), "{text}");
        assert_eq!(text.matches("a\\\"b\\\\").count(), 1, "{text}");
        assert!(text.contains("quantile=\"0.99\"} 0.0015\n"), "{text}");
        assert!(text.ends_with("# EOF\n") && !text.contains("round"), "{text}");
    }

    #[test]
    fn counters_and_histograms_have_their_suffixes() {
        let mut probes = MetricFamily::new("durio_probes", MetricKind::Counter, "Probes.");
        probes.add(&[], 3.0);
        let empty = MetricFamily::new("durio_empty", MetricKind::Gauge, "Nothing.");
        let expected = "# TYPE durio_probes counter\n# HELP durio_probes Probes.\ndurio_probes_total 3\n# EOF\n";
        assert_eq!(text(&[probes, empty]), expected);
    }
}
