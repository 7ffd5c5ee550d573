//! Figures of trials: medians, ratios of paired rounds, goals, and tables in Markdown as
//! docs/benchmarks.md takes them.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

/// The median; NaN without values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(&upper) if sorted.len() % 2 == 1 => upper,
        Some(&upper) => f64::midpoint(sorted[middle - 1], upper),
    }
}

/// The ratios of two things over rounds in which both were measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Ratio {
    /// The ratios of the first to the second, round by round.
    pub(super) fn of(these: &[f64], those: &[f64]) -> Self {
        // Within a round both met the same machine: a slow minute drops out of the ratio.
        let ratios: Vec<_> = these.iter().zip(those).map(|(this, that)| this / that).collect();
        Self {
            median: median(&ratios),
            least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.least, self.greatest)
    }
}

/// One goal after the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BenchGoal {
    pub(super) what: String,
    pub(super) goal: String,
    pub(super) measured: String,
    pub(super) holds: bool,
}

impl BenchGoal {
    /// A value that must not be above a limit, both with `digits` decimals. NaN does not hold.
    pub(super) fn at_most(
        what: impl Into<String>,
        value: f64,
        limit: f64,
        digits: usize,
        unit: &str,
    ) -> Self {
        Self {
            what: what.into(),
            goal: format!("≤ {limit}{unit}"),
            measured: format!("{value:.digits$}{unit}"),
            holds: value <= limit,
        }
    }

    /// A value that must not be below a limit.
    pub(super) fn at_least(what: impl Into<String>, value: f64, limit: f64) -> Self {
        Self {
            what: what.into(),
            goal: format!("≥ {limit}"),
            measured: format!("{value:.3}"),
            holds: value >= limit,
        }
    }
}

/// Prints all goals of a bench.
pub(super) fn print_goals(goals: &[BenchGoal]) {
    let rows = goals.iter().map(|goal| {
        let holds = if goal.holds { "yes" } else { "NO" };
        [goal.what.clone(), goal.goal.clone(), goal.measured.clone(), holds.to_owned()]
    });
    println!("\nGoals\n");
    print_table(&["goal", "limit", "measured", "holds"], rows);
}

/// Prints a table; all columns except the first are right-aligned.
pub(crate) fn print_table<const N: usize>(
    header: &[&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(*header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}

/// Kinds of operations that both programs distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MeasuredKind {
    Read,
    Write,
    Sync,
}

impl MeasuredKind {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Sync];

    /// In the spelling of both programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
        }
    }
}

impl fmt::Display for MeasuredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One kind of operation; latencies are in nanoseconds, from submission to completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OperationFigures {
    pub(super) count: f64,
    pub(super) rate: f64,
    pub(super) mean: f64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p99_9: Option<f64>,
    pub(super) max: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct MeasuredTrial {
    /// Reads and writes per second.
    pub(super) iops: f64,
    /// Reads and writes.
    pub(super) accesses: f64,
    /// User and system time of the job per read or write, in nanoseconds.
    pub(super) cpu_ns: f64,
    pub(super) operations: Vec<(MeasuredKind, OperationFigures)>,
    /// Little's law against the count in flight, where the program counts it.
    pub(super) deviation: Option<f64>,
    /// The options that the program could not honour.
    pub(super) fallbacks: Vec<String>,
}

impl MeasuredTrial {
    /// The results for one kind.
    pub(super) fn operation(&self, kind: MeasuredKind) -> Option<&OperationFigures> {
        self.operations.iter().find(|(found, _)| *found == kind).map(|(_, operation)| operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let ratio = Ratio::of(&[1.0, 4.0, 9.0], &[2.0, 2.0, 3.0]);
        assert_eq!(ratio, Ratio { median: 2.0, least: 0.5, greatest: 3.0 });
        assert_eq!(ratio.to_string(), "2.00 (0.50–3.00)");
    }

    #[test]
    fn a_limit_itself_holds_and_what_is_no_number_does_not() {
        assert!(BenchGoal::at_most("x", 0.5, 0.5, 2, "").holds);
        assert!(!BenchGoal::at_most("x", 0.51, 0.5, 2, "").holds);
        assert!(!BenchGoal::at_most("x", f64::NAN, 0.5, 2, "").holds);
        assert!(BenchGoal::at_least("x", 0.9, 0.9).holds);
        assert!(!BenchGoal::at_least("x", f64::NAN, 0.9).holds);
    }
}
