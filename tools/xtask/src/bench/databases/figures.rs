//! Results from pairs of a database and its prediction: medians over the undisturbed pairs, rows
//! and goals.

use crate::bench::figures::{Ratio, median};
use crate::bench::goals::BenchGoal;
use crate::bench::table;

/// Cores of foreign load, and the stolen share, above which a pair is left out: half of the limit
/// in other benches, because all processors are needed here.
pub(super) const NOISY: f64 = 0.25;
pub(super) const STOLEN: f64 = 0.05;

/// Goals: how far a prediction may be off, in how many cases, and in none.
const NEAR: f64 = 0.15;
const NEAR_SHARE: f64 = 15.0 / 18.0;
const FAR: f64 = 0.30;
/// And its latencies.
const NEAR_P50: f64 = 0.20;
const NEAR_P99: f64 = 0.40;
/// And its commits per sync.
const NEAR_PER_SYNC: f64 = 0.10;

/// One run of a database, or of its prediction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct DatabaseRun {
    /// Commits per second.
    pub(super) rate: f64,
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    pub(super) per_sync: Option<f64>,
    /// Cores that others kept busy.
    pub(super) foreign: f64,
    /// The share of the wanted time that the hypervisor gave away.
    pub(super) stolen: f64,
}

impl DatabaseRun {
    fn is_disturbed(&self) -> bool {
        self.foreign > NOISY || self.stolen > STOLEN
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct RunPair {
    pub(super) real: DatabaseRun,
    pub(super) predicted: DatabaseRun,
}

impl RunPair {
    fn is_disturbed(&self) -> bool {
        self.real.is_disturbed() || self.predicted.is_disturbed()
    }
}

/// One database with one number of clients.
#[derive(Debug)]
pub(super) struct DatabaseRow {
    pub(super) database: &'static str,
    pub(super) clients: u32,
    pub(super) pairs: Vec<RunPair>,
}

impl DatabaseRow {
    pub(super) fn new(database: &'static str, clients: u32) -> Self {
        Self { database, clients, pairs: Vec::new() }
    }

    /// The database's and the prediction's values, from the undisturbed pairs.
    fn each(&self, of: impl Fn(&DatabaseRun) -> Option<f64>) -> [Vec<f64>; 2] {
        let pairs = || self.pairs.iter().filter(|it| !it.is_disturbed());
        let real = pairs().filter_map(|it| of(&it.real)).collect();
        [real, pairs().filter_map(|it| of(&it.predicted)).collect()]
    }

    pub(super) fn rates(&self) -> [Vec<f64>; 2] {
        self.each(|it| Some(it.rate))
    }

    /// Predicted to real.
    fn ratio(&self) -> Ratio {
        let [real, predicted] = self.rates();
        Ratio::of(&predicted, &real)
    }

    /// By how much a value is off; `None` if the database's benchmark does not report it.
    fn off(&self, of: fn(&DatabaseRun) -> Option<f64>) -> Option<f64> {
        let [real, predicted] = self.each(of).map(|it| median(&it));
        real.is_finite().then(|| (predicted / real - 1.0).abs())
    }

    /// By how much commits per sync are off; `None` with one client, which shares no syncs.
    fn per_sync_off(&self) -> Option<f64> {
        self.off(|it| it.per_sync).filter(|_| self.clients > 1)
    }

    fn words(&self) -> [String; 8] {
        let both = |of: fn(&DatabaseRun) -> Option<f64>, digits: usize| {
            let [real, predicted] = self.each(of).map(|it| one(median(&it), digits));
            format!("{real}, {predicted}")
        };
        let [real, predicted] = self.rates().map(|it| spread(&it));
        let undisturbed = self.pairs.iter().filter(|it| !it.is_disturbed()).count();
        [
            format!("{}, {}", self.database, self.clients),
            real,
            predicted,
            if undisturbed == 0 { "-".to_owned() } else { self.ratio().to_string() },
            both(|it| it.p50_us, 0),
            both(|it| it.p99_us, 0),
            both(|it| it.per_sync, 1),
            format!("{undisturbed} of {}", self.pairs.len()),
        ]
    }
}

/// Median and, in parentheses, least and most.
fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values {
        [] => "-".to_owned(),
        _ => format!("{:.0} ({least:.0} to {most:.0})", median(values)),
    }
}

/// Formats a number; an unknown one is a dash.
fn one(value: f64, digits: usize) -> String {
    if value.is_finite() { format!("{value:.digits$}") } else { "-".to_owned() }
}

pub(super) fn print(rows: &[DatabaseRow]) {
    println!();
    table::print(
        &[
            "database, clients",
            "real, commits/s",
            "predicted",
            "predicted / real",
            "p50, us: real, predicted",
            "p99, us",
            "commits per sync",
            "pairs",
        ],
        rows.iter().map(DatabaseRow::words),
    );
}

pub(super) fn goals(rows: &[DatabaseRow]) -> Vec<BenchGoal> {
    let off: Vec<f64> = rows.iter().map(|it| (it.ratio().median - 1.0).abs()).collect();
    let near = off.iter().filter(|it| **it <= NEAR).count();
    #[expect(clippy::cast_precision_loss, reason = "rows of a table")]
    let share = near as f64 / off.len() as f64;
    // A row without an undisturbed pair is NaN, and meets no goal.
    let greatest =
        |of: &[f64]| if of.iter().any(|it| it.is_nan()) { f64::NAN } else { largest(of) };
    let each =
        |of: &dyn Fn(&DatabaseRow) -> Option<f64>| rows.iter().filter_map(of).collect::<Vec<f64>>();
    let what = format!("share of rates predicted within {:.0} %", NEAR * 100.0);
    let mut goals = vec![
        BenchGoal::at_least(what, share, (NEAR_SHARE * 100.0).floor() / 100.0),
        BenchGoal::at_most("rate furthest off", greatest(&off) * 100.0, FAR * 100.0, 0, " %"),
    ];
    for (what, off, limit) in [
        ("p50 furthest off", each(&|it| it.off(|it| it.p50_us)), NEAR_P50),
        ("p99 furthest off", each(&|it| it.off(|it| it.p99_us)), NEAR_P99),
        ("commits per sync furthest off", each(&DatabaseRow::per_sync_off), NEAR_PER_SYNC),
    ] {
        if !off.is_empty() {
            goals.push(BenchGoal::at_most(what, greatest(&off) * 100.0, limit * 100.0, 0, " %"));
        }
    }
    goals
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Prints the foreign load of each run.
pub(super) fn print_loads(rows: &[DatabaseRow]) {
    println!(
        "\nForeign load, cores, of database and prediction in each pair; left out is marked *\n\n```"
    );
    for row in rows {
        let pair = |it: &RunPair| {
            let mark = if it.is_disturbed() { "*" } else { "" };
            let stolen = it.real.stolen.max(it.predicted.stolen);
            let stolen = if stolen >= 0.01 {
                format!(" {:.0} % stolen", stolen * 100.0)
            } else {
                String::new()
            };
            format!("{:.2} {:.2}{stolen}{mark}", it.real.foreign, it.predicted.foreign)
        };
        let pairs: Vec<String> = row.pairs.iter().map(pair).collect();
        let name = format!("{}, {}", row.database, row.clients);
        println!("{name:<20} {}", pairs.join(" | "));
    }
    println!("```");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(real: f64, predicted: f64) -> RunPair {
        let run =
            |rate| DatabaseRun { rate, per_sync: Some(rate / 10.0), ..DatabaseRun::default() };
        RunPair { real: run(real), predicted: run(predicted) }
    }

    fn row(pairs: &[RunPair]) -> DatabaseRow {
        DatabaseRow { pairs: pairs.to_vec(), ..DatabaseRow::new("toy", 8) }
    }

    #[test]
    fn a_pair_in_which_either_run_was_disturbed_is_left_out_and_counted() {
        let mut pairs = [pair(100.0, 110.0), pair(100.0, 500.0), pair(10.0, 110.0)];
        pairs[1].predicted.foreign = 0.7;
        pairs[2].real.stolen = 0.2;
        let words = row(&pairs).words();
        assert_eq!(words[1..4], ["100 (100 to 100)", "110 (110 to 110)", "1.10 (1.10–1.10)"]);
        assert_eq!((words[4].as_str(), words[7].as_str()), ("-, -", "1 of 3"));
    }

    #[test]
    fn goals_hold_by_the_rows_and_not_without_one_undisturbed_pair() {
        let near = || row(&[pair(100.0, 90.0)]);
        assert!(goals(&[near()]).iter().all(|it| it.holds));
        let far: Vec<bool> =
            goals(&[near(), row(&[pair(100.0, 140.0)])]).iter().map(|it| it.holds).collect();
        assert_eq!(far, [false, false, false]);
        let mut disturbed = pair(100.0, 100.0);
        disturbed.real.foreign = 2.0;
        assert!(goals(&[near(), row(&[disturbed])]).iter().any(|it| !it.holds));
    }

    #[test]
    fn one_client_shares_no_sync_and_is_not_held_against_that_goal() {
        let alone = DatabaseRow { clients: 1, ..row(&[pair(100.0, 100.0)]) };
        assert_eq!(alone.per_sync_off(), None);
    }
}
