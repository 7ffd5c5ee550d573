//! Runs compared: the row of each in a list, and how a result changed from run to run. Rows read
//! from run folders give the history of a result, with its lasting changes.

use durio_base::stats::least_squares::float;
use serde::{Deserialize, Serialize};

use crate::steady_state::leaving::{Change, lasting_changes};
use crate::{Headline, RunState};

/// The row of a run in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunRow {
    /// Name of its folder.
    pub run: String,
    /// The name that its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Start, in RFC 3339.
    pub started: String,
    /// The command: `check`, `stack bench`.
    pub command: String,
    /// Name of the machine; empty in records without it.
    pub host: String,
    pub targets: Vec<String>,
    /// How it ended; `None` if it is not a single run, or its findings are missing.
    pub state: Option<RunState>,
    /// The results to read first.
    #[serde(rename = "leading")]
    pub headline: Option<Headline>,
    /// A proof's result in words, instead of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    pub figures: Vec<RunFigures>,
    /// Bytes of its files.
    pub bytes: u64,
    /// Why the row has no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

impl RunRow {
    /// Whether the run measured `workload` more than once at one location, as a ladder does.
    pub fn has_levels_of(&self, workload: &str) -> bool {
        let mut locations: Vec<&str> = Vec::new();
        let same = self.figures.iter().filter(|figures| figures.workload == workload);
        same.into_iter().any(|figures| {
            let is_again = locations.contains(&figures.location.as_str());
            locations.push(&figures.location);
            is_again
        })
    }
}

/// The results of one workload at one location.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFigures {
    pub workload: String,
    pub location: String,
    /// Commits per second where there are any, else accesses per second.
    pub rate_per_second: f64,
    /// Percentiles of its headline operation.
    #[serde(flatten)]
    pub latency: Percentiles,
}

/// In nanoseconds; absent with too few samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub p99_9_ns: Option<u64>,
}

/// A result that a list has for each workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFigure {
    Rate,
    P50,
    P99,
    #[serde(rename = "p99.9")]
    P99_9,
}

impl RunFigure {
    pub const ALL: [Self; 4] = [Self::Rate, Self::P50, Self::P99, Self::P99_9];

    /// As users write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
        }
    }

    fn of(self, figures: &RunFigures) -> Option<f64> {
        let nanos = match self {
            Self::Rate => return Some(figures.rate_per_second),
            Self::P50 => figures.latency.p50_ns,
            Self::P99 => figures.latency.p99_ns,
            Self::P99_9 => figures.latency.p99_9_ns,
        };
        nanos.map(float)
    }
}

/// A result of a workload: `commit.p99`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    pub workload: String,
    pub figure: RunFigure,
}

/// A result from run to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureHistory {
    /// Schema of the document.
    pub schema: String,
    /// Where it was measured.
    pub target: String,
    /// The machine; empty if the records do not say.
    pub host: String,
    pub metric: Metric,
    /// The runs that have it, the earliest first.
    pub points: Vec<HistoryPoint>,
    /// Where it changed for good; `at_interval` is a position in `points`.
    pub changes: Vec<Change>,
}

/// One run of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// Name of its folder.
    pub run: String,
    /// Start, in RFC 3339.
    pub started: String,
    /// Per second, or nanoseconds.
    pub value: f64,
}

/// No screen shows more runs as a line.
const POINTS_MAX: usize = 500;

/// The history of `metric` at `target`, or where the latest run measured it, on the machine of the
/// latest such run; `None` if no run has it. `rows` has the latest first.
pub fn history(rows: &[RunRow], target: Option<&str>, metric: &Metric) -> Option<FigureHistory> {
    let is_it = |figures: &&RunFigures| {
        figures.workload == metric.workload
            && target.is_none_or(|target| figures.location == target)
    };
    // A step of a campaign has its workload's name many times, on other levels each.
    let of_row = |row: &RunRow, location: &str| {
        let mut same =
            row.figures.iter().filter(|figure| is_it(figure) && figure.location == location);
        let only = same.next()?;
        same.next().is_none().then(|| metric.figure.of(only))?
    };
    let (latest, location) = rows.iter().find_map(|row| {
        let location = &row.figures.iter().find(is_it)?.location;
        of_row(row, location).map(|_| (row, location.clone()))
    })?;
    let mut points: Vec<HistoryPoint> = Vec::new();
    for row in rows.iter().filter(|row| row.host == latest.host) {
        // A run that was cut short might not have continued like that.
        if row.state != Some(RunState::Complete) {
            continue;
        }
        if let Some(value) = of_row(row, &location) {
            let (run, started) = (row.run.clone(), row.started.clone());
            points.push(HistoryPoint { run, started, value });
        }
    }
    // The test of changes takes the square of it.
    points.truncate(POINTS_MAX);
    points.reverse();
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    Some(FigureHistory {
        schema: "durio-history-1".to_owned(),
        target: location,
        host: latest.host.clone(),
        metric: metric.clone(),
        changes: lasting_changes(&values),
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at: usize, host: &str, location: &str, rate: f64) -> RunRow {
        let latency = Percentiles { p50_ns: Some(1), p99_ns: None, p99_9_ns: None };
        let figures = RunFigures {
            workload: "commit".to_owned(),
            location: location.to_owned(),
            rate_per_second: rate,
            latency,
        };
        RunRow {
            run: format!("run-{at:03}"),
            host: host.to_owned(),
            state: Some(RunState::Complete),
            figures: vec![figures],
            ..RunRow::default()
        }
    }

    fn metric(figure: RunFigure) -> Metric {
        Metric { workload: "commit".to_owned(), figure }
    }

    #[test]
    fn a_history_has_one_place_and_one_machine_and_says_where_it_changed() {
        let rate = |at: usize| if at < 12 { 1000.0 + at as f64 } else { 700.0 + at as f64 };
        let mut rows: Vec<RunRow> = (0..24).map(|at| row(at, "a", "/data", rate(at))).collect();
        rows.push(row(90, "b", "/data", 1.0));
        rows.push(row(91, "a", "/other", 2.0));
        rows.reverse();
        let found = history(&rows, Some("/data"), &metric(RunFigure::Rate)).unwrap();
        // The latest run there is of the other machine.
        assert_eq!((found.host.as_str(), found.points.len()), ("b", 1));
        rows.remove(1);
        let found = history(&rows, Some("/data"), &metric(RunFigure::Rate)).unwrap();
        assert_eq!((found.host.as_str(), found.points.len()), ("a", 24));
        assert_eq!(found.points[0].run, "run-000");
        let places: Vec<usize> = found.changes.iter().map(|change| change.at_interval).collect();
        assert_eq!(places, [12]);
        let other = history(&rows, None, &metric(RunFigure::Rate)).unwrap();
        assert_eq!((other.target.as_str(), other.points.len()), ("/other", 1));
    }

    #[test]
    fn a_workload_twice_at_one_location_has_levels_and_no_history() {
        let mut run = row(0, "a", "/data", 1.0);
        run.figures.push(row(0, "a", "/other", 2.0).figures.remove(0));
        assert!(!run.has_levels_of("commit"));
        assert!(history(&[run.clone()], Some("/other"), &metric(RunFigure::Rate)).is_some());
        run.figures.push(row(0, "a", "/other", 3.0).figures.remove(0));
        assert!(run.has_levels_of("commit") && !run.has_levels_of("scan"));
        assert_eq!(history(&[run], Some("/other"), &metric(RunFigure::Rate)), None);
    }

    #[test]
    fn what_no_run_has_gives_no_history() {
        let rows = [row(0, "a", "/data", 1.0)];
        assert_eq!(history(&rows, None, &metric(RunFigure::P99)), None);
        assert_eq!(history(&rows, Some("/nowhere"), &metric(RunFigure::Rate)), None);
        assert_eq!(history(&[], None, &metric(RunFigure::Rate)), None);
    }

    #[test]
    fn a_history_has_the_latest_500_runs() {
        let of = |count: usize| {
            let rows: Vec<RunRow> =
                (0..count).rev().map(|at| row(at, "a", "/data", 1.0 + at as f64)).collect();
            let found = history(&rows, None, &metric(RunFigure::Rate)).unwrap();
            (found.points.len(), found.points[0].run.clone())
        };
        assert_eq!(of(500), (500, "run-000".to_owned()));
        assert_eq!(of(501), (500, "run-001".to_owned()));
    }

    #[test]
    fn a_history_is_of_its_own_figure() {
        let mut rows = [row(1, "a", "/data", 1.0), row(0, "a", "/data", 2.0)];
        for (row, number) in rows.iter_mut().zip(1_u64..) {
            row.figures[0].latency = Percentiles {
                p50_ns: Some(100 + number),
                p99_ns: Some(200 + number),
                p99_9_ns: Some(300 + number),
            };
            // Another workload of the same run.
            let other = RunFigures {
                workload: "scan".to_owned(),
                rate_per_second: 9.0,
                ..row.figures[0].clone()
            };
            row.figures.insert(0, other);
        }
        let values = |figure| {
            let found = history(&rows, None, &metric(figure)).unwrap();
            found.points.iter().map(|point| point.value).collect::<Vec<_>>()
        };
        assert_eq!(values(RunFigure::Rate), [2.0, 1.0]);
        assert_eq!(values(RunFigure::P50), [102.0, 101.0]);
        assert_eq!(values(RunFigure::P99), [202.0, 201.0]);
        assert_eq!(values(RunFigure::P99_9), [302.0, 301.0]);
    }

    #[test]
    fn a_history_is_of_runs_that_came_to_their_end() {
        let rows = |states: [Option<RunState>; 5]| {
            let mut rows: Vec<RunRow> =
                (0..5).rev().map(|at| row(at, "a", "/data", 1.0 + at as f64)).collect();
            rows.iter_mut().zip(states).for_each(|(row, state)| row.state = state);
            rows
        };
        use RunState::{Complete, Failed, Interrupted, Partial};
        // The latest first.
        let rows = rows([Some(Interrupted), Some(Failed), Some(Complete), Some(Partial), None]);
        let found = history(&rows, None, &metric(RunFigure::Rate)).unwrap();
        let points: Vec<_> =
            found.points.iter().map(|point| (point.run.as_str(), point.value)).collect();
        assert_eq!(points, [("run-002", 3.0)]);
    }
}
