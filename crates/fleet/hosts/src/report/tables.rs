//! Tables of hosts and of figures, and the records of spreadsheets and metrics.

use durio_analyse::each_once;
use durio_report::document::{
    Cell, Column, DetailLevel, Table, detail, page, record, shown, words,
};

use super::{FleetView, figure_value, host_word, operation, statistic};
use crate::analyse::shortened;
use crate::goals::FleetGoal;
use crate::{FigureKey, FleetFindings, GroupFigure, HostEvidence, HostFindings, HostStatistic};

/// Characters of a rate over time.
const TREND_PLACES: usize = 16;
/// Rows of figures on a screen.
const FIGURE_ROWS: usize = 3;
/// More rows than this make a page slow; JSON has all.
const FIGURE_ROWS_MAX: usize = 400;

/// The median of the host's runs on a logarithmic scale, as hosts are compared; of fresh runs only
/// where the host has no others.
pub(super) fn host_value(host: &HostFindings, key: &FigureKey) -> Option<f64> {
    let values = |is_confirmation: bool| -> Vec<f64> {
        let runs = host.runs.iter().filter(|run| run.is_confirmation == is_confirmation);
        let figures = runs.filter_map(|run| run.figures.iter().find(|figure| figure.key == *key));
        figures.map(|figure| figure.value).collect()
    };
    let screened = values(false);
    let mut values = if screened.is_empty() { values(true) } else { screened };
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    // A root would change the last digit.
    Some(if lower == upper { upper } else { (lower * upper).sqrt() })
}

/// A row of the table of hosts.
struct HostRow<'f> {
    host: &'f HostFindings,
    /// The figure in which it is worst.
    worst: Option<(&'f HostEvidence, String)>,
    rate: Option<f64>,
    p99: Option<f64>,
    trend: Vec<f64>,
    has_groups: bool,
}

pub(super) fn hosts(view: &FleetView<'_>) -> Table {
    let key = view.headline().map(|figure| &figure.key);
    let figure = |host: &HostFindings, statistic: HostStatistic| {
        host_value(host, &FigureKey { statistic, ..key?.clone() })
    };
    let has_groups = view.findings.groups.len() > 1;
    let rows = view.findings.hosts.iter().map(|host| HostRow {
        host,
        worst: host.evidence.first().map(|evidence| (evidence, view.figure(&evidence.key))),
        rate: figure(host, HostStatistic::Rate),
        p99: figure(host, HostStatistic::P99),
        trend: shortened(&host.rate_over_time, TREND_PLACES),
        has_groups,
    });
    Table::shown(&host_columns(), rows)
}

fn host_columns<'f>() -> Vec<Column<HostRow<'f>>> {
    vec![
        shown("host", |row| Cell::text(&row.host.name)),
        words(shown("verdict", |row| {
            let (tone, word) = host_word(row.host);
            Cell::Word(tone, word)
        })),
        words(shown("worst in", |row| {
            Cell::of(row.worst.as_ref(), |(_, figure)| Cell::text(figure))
        })),
        shown("worse by", |row| {
            Cell::of(row.worst.as_ref(), |(evidence, _)| Cell::Factor(evidence.factor))
        }),
        detail(shown("95 % interval", |row| {
            let interval = row.worst.as_ref().and_then(|(evidence, _)| evidence.interval);
            Cell::of(interval, |[low, high]| Cell::text(format!("{low:.2} to {high:.2}")))
        })),
        shown("per s", |row| Cell::of(row.rate, Cell::Rate)),
        shown("p99", |row| Cell::of(row.p99, Cell::Latency)),
        words(shown("rate over time", |row| match row.trend.is_empty() {
            true => Cell::Empty,
            false => Cell::Trend(row.trend.clone()),
        })),
        detail(shown("runs", |row| Cell::Count(row.host.runs.len() as u64))),
        detail(shown("group", |row| {
            let group = row.host.group.filter(|_| row.has_groups);
            Cell::of(group, |group| Cell::Count(group as u64 + 1))
        })),
        words(page(shown("reason", |row| Cell::of(row.host.reason.as_ref(), Cell::text)))),
    ]
}

/// A figure of a group of hosts.
struct FigureRow<'f> {
    name: String,
    group: Option<usize>,
    figure: &'f GroupFigure,
}

/// The figures of each group, the headline first; and how many have no row.
pub(super) fn figures(view: &FleetView<'_>) -> (Table, usize) {
    let groups = &view.findings.groups;
    let mut all: Vec<(Option<usize>, &GroupFigure)> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let number = (groups.len() > 1).then_some(at);
        all.extend(group.figures.iter().map(|figure| (number, figure)));
    }
    let headline = view.headline().map(|figure| &figure.key);
    // Stable: the other figures keep their order.
    all.sort_by_key(|(group, figure)| {
        let is_headline = headline == Some(&figure.key);
        let is_same = headline.is_some_and(|headline| {
            headline.workload == figure.key.workload && headline.operation == figure.key.operation
        });
        (*group, !is_headline, !is_same)
    });
    let left_out = all.len().saturating_sub(FIGURE_ROWS_MAX);
    let rows = all.into_iter().take(FIGURE_ROWS_MAX).map(|(group, figure)| FigureRow {
        name: view.figure(&figure.key),
        group,
        figure,
    });
    let mut table = Table::shown(&figure_columns(), rows);
    table.rows.iter_mut().skip(FIGURE_ROWS).for_each(|row| row.level = DetailLevel::Detail);
    (table, left_out)
}

fn figure_columns<'f>() -> Vec<Column<FigureRow<'f>>> {
    fn value(row: &FigureRow<'_>, value: f64) -> Cell {
        Cell::text(figure_value(row.figure.key.statistic, value))
    }
    vec![
        shown("figure", |row| Cell::text(&row.name)),
        shown("group", |row| Cell::of(row.group, |group| Cell::Count(group as u64 + 1))),
        shown("hosts", |row| Cell::Count(row.figure.hosts as u64)),
        shown("median", |row| value(row, row.figure.median)),
        shown("lowest", |row| value(row, row.figure.min)),
        shown("highest", |row| value(row, row.figure.max)),
        shown("spread", |row| Cell::Share(row.figure.spread)),
    ]
}

/// A figure of a host; a host without any has a record with its reason.
struct FigureRecord<'f> {
    host: &'f HostFindings,
    key: Option<&'f FigureKey>,
    value: Option<f64>,
    evidence: Option<&'f HostEvidence>,
    /// A goal that the host misses with this value, or was not compared with.
    goal: Option<&'f FleetGoal>,
}

impl<'f> FigureRecord<'f> {
    fn empty(host: &'f HostFindings) -> Self {
        Self { host, key: None, value: None, evidence: None, goal: None }
    }

    fn value_of(&self, is_rate: bool) -> Cell {
        Cell::of(self.value.filter(|_| self.has_unit(is_rate)), Cell::Number)
    }

    fn limit(&self, is_rate: bool) -> Cell {
        Cell::of(self.goal.filter(|_| self.has_unit(is_rate)), |goal| Cell::Number(goal.limit))
    }

    fn has_unit(&self, is_rate: bool) -> bool {
        self.statistic().is_some_and(|statistic| statistic.is_higher_better() == is_rate)
    }

    fn statistic(&self) -> Option<HostStatistic> {
        self.key.map(|key| key.statistic).or(self.goal.map(|goal| goal.statistic))
    }

    fn key(&self, cell: impl Fn(&FigureKey) -> Cell) -> Cell {
        Cell::of(self.key, cell)
    }

    fn evidence(&self, value: impl Fn(&HostEvidence) -> Option<f64>) -> Cell {
        Cell::of(self.evidence.and_then(value), Cell::Number)
    }
}

pub(super) fn records<'f>(findings: &'f FleetFindings, goals: &'f [FleetGoal]) -> Table {
    let of_host = |host: &'f HostFindings| -> Vec<FigureRecord<'f>> {
        let figures = host.runs.iter().flat_map(|run| &run.figures);
        let keys = each_once(figures.map(|figure| &figure.key));
        if keys.is_empty() {
            return vec![FigureRecord::empty(host)];
        }
        let record = |key| FigureRecord {
            key: Some(key),
            value: host_value(host, key),
            evidence: host.evidence.iter().find(|evidence| evidence.key == *key),
            ..FigureRecord::empty(host)
        };
        keys.into_iter().map(record).collect()
    };
    let rows = findings.hosts.iter().flat_map(of_host);
    let rows = rows.chain(goals.iter().flat_map(|goal| goal_records(findings, goal)));
    Table::records(&record_columns(), rows)
}

/// The hosts that miss a goal, then those that were not compared with it.
fn goal_records<'f>(findings: &'f FleetFindings, goal: &'f FleetGoal) -> Vec<FigureRecord<'f>> {
    let missed = goal.missed.iter().map(|(name, value)| (name, Some(*value)));
    let hosts = missed.chain(goal.open.iter().map(|name| (name, None)));
    let record = |(name, value): (&String, Option<f64>)| {
        let host = findings.hosts.iter().find(|host| host.name == *name)?;
        Some(FigureRecord { value, goal: Some(goal), ..FigureRecord::empty(host) })
    };
    hosts.filter_map(record).collect()
}

fn record_columns<'f>() -> Vec<Column<FigureRecord<'f>>> {
    vec![
        record("host", |row| Cell::text(&row.host.name)),
        record("outcome", |row| Cell::saved(&row.host.outcome)),
        record("verdict", |row| Cell::saved(&row.host.verdict)),
        record("group", |row| Cell::of(row.host.group, |group| Cell::Count(group as u64 + 1))),
        record("workload", |row| row.key(|key| Cell::text(&key.workload))),
        record("target", |row| row.key(|key| Cell::text(&key.target))),
        record("operation", |row| row.key(|key| Cell::text(key.operation.name()))),
        record("statistic", |row| Cell::of(row.statistic(), |known| Cell::text(statistic(known)))),
        record("rate_per_s", |row| row.value_of(true)),
        record("service_ns", |row| row.value_of(false)),
        // How much worse than the group: 0.34 is 1.34 times.
        record("worse_share", |row| row.evidence(|evidence| Some(evidence.factor - 1.0))),
        record("worse_low_share", |row| row.evidence(|evidence| Some(evidence.interval?[0] - 1.0))),
        record("worse_high_share", |row| {
            row.evidence(|evidence| Some(evidence.interval?[1] - 1.0))
        }),
        record("chance_share", |row| row.evidence(|evidence| Some(evidence.p))),
        record("reason", |row| Cell::of(row.host.reason.as_ref(), Cell::text)),
        record("goal", |row| Cell::of(row.goal, |goal| Cell::text(&goal.goal))),
        record("goal_outcome", |row| {
            let outcome = if row.value.is_some() { "missed" } else { "not compared" };
            Cell::of(row.goal, |_| Cell::text(outcome))
        }),
        record("goal_limit_per_s", |row| row.limit(true)),
        record("goal_limit_ns", |row| row.limit(false)),
    ]
}

/// A host's verdict and headline, for a pointer on the map.
pub(super) fn host_title(view: &FleetView<'_>, host: &HostFindings) -> String {
    let (_, word) = host_word(host);
    let figure = match (host.evidence.first(), view.headline()) {
        (Some(evidence), _) => Some(view.effect(host, evidence)),
        (None, Some(figure)) => host_value(host, &figure.key).map(|value| {
            let value = figure_value(figure.key.statistic, value);
            format!("{} {value}", operation(&figure.key))
        }),
        (None, None) => None,
    };
    let figure = figure.map_or_else(String::new, |figure| format!(", {figure}"));
    format!("{}: {word}{figure}", host.name)
}
