//! Goals: the target, the measured value, and whether it holds.

use super::table;

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
pub(super) fn print(goals: &[BenchGoal]) {
    let rows = goals.iter().map(|goal| {
        let holds = if goal.holds { "yes" } else { "NO" };
        [goal.what.clone(), goal.goal.clone(), goal.measured.clone(), holds.to_owned()]
    });
    println!("\nGoals\n");
    table::print(&["goal", "limit", "measured", "holds"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_itself_holds_and_what_is_no_number_does_not() {
        assert!(BenchGoal::at_most("x", 0.5, 0.5, 2, "").holds);
        assert!(!BenchGoal::at_most("x", 0.51, 0.5, 2, "").holds);
        assert!(!BenchGoal::at_most("x", f64::NAN, 0.5, 2, "").holds);
        assert!(BenchGoal::at_least("x", 0.9, 0.9).holds);
        assert!(!BenchGoal::at_least("x", f64::NAN, 0.9).holds);
    }
}
