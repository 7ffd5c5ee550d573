//! Compares a database's software with the database without a disk: how long its times are here.
//! Rates of both by clients give [`CalibrationFindings`], and the factor for the model's times.

use durio_base::stats::least_squares::median;
use serde::Serialize;

/// Form of the JSON document.
pub const CALIBRATION_SCHEMA: &str = "durio-calibration-1";

/// A factor's range or rates that are farther apart than this are reported.
// Durio's choice: predictions are wanted within 15 %.
const SCATTER_MAX: f64 = 1.3;

/// Factors beyond this, or below its inverse, are those of a different database.
const FACTOR_MAX: f64 = 10.0;

/// Where the software has a smaller share of a transaction's time, the time does not show how long it takes.
const SHARE_MIN: f64 = 0.05;

/// The results of one calibration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalibrationFindings {
    /// The form of the document.
    pub schema: &'static str,
    pub database: String,
    /// What loaded the database.
    pub command: String,
    /// The factor for the profile's times.
    pub factor: f64,
    /// Its quartiles over the rounds and numbers of clients.
    pub factor_range: (f64, f64),
    /// One for each number of clients.
    pub points: Vec<CalibrationPoint>,
    /// Processors that others had before a round, at most.
    pub others: f64,
}

/// One number of clients; rates are transactions per second without a disk.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CalibrationPoint {
    pub clients: u32,
    /// The database's rate, round by round.
    pub real: Vec<f64>,
    /// The model's rate with the profile's times, round by round.
    pub once: Vec<f64>,
    /// And with times twice as long.
    pub twice: Vec<f64>,
    /// The model's rate with the calibrated times.
    pub calibrated: f64,
}

/// The factor by which the profile's times are as long as the database's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factor {
    /// The median of all rounds and numbers of clients.
    pub median: f64,
    /// Its quartiles: half of the rounds lie between them.
    pub range: (f64, f64),
}

impl CalibrationPoint {
    /// The calibrated model's rate divided by the database's in the last round, which ran next to
    /// it.
    pub fn ratio(&self) -> f64 {
        self.real.last().map_or(f64::NAN, |real| self.calibrated / real)
    }

    /// The factor of each round: part of a transaction's time is the software's and grows with the
    /// factor, the rest does not. Rounds with too small a software share are skipped.
    fn factors(&self) -> impl Iterator<Item = f64> {
        let rounds = self.real.iter().zip(&self.once).zip(&self.twice);
        rounds.filter_map(|((real, once), twice)| {
            let (real, once, twice) = (1.0 / real, 1.0 / once, 1.0 / twice);
            let software = twice - once;
            (software >= SHARE_MIN * once).then(|| 1.0 + (real - once) / software)
        })
    }
}

impl CalibrationFindings {
    /// Rounds or numbers of clients disagree so much that the factor is doubtful.
    pub fn scatters(&self) -> bool {
        let (least, most) = self.factor_range;
        most > least * SCATTER_MAX
    }
}

/// The factor at which the model would be as fast as the database.
///
/// # Errors
/// A sentence if no factor can make it so.
pub fn factor(points: &[CalibrationPoint]) -> Result<Factor, String> {
    let mut all: Vec<f64> = points.iter().flat_map(CalibrationPoint::factors).collect();
    all.sort_by(f64::total_cmp);
    let quarter = |quartile: usize| all.get(quartile * all.len() / 4).copied();
    let (Some(least), Some(median), Some(most)) = (quarter(1), median(&all), quarter(3)) else {
        return Err(
            "its rate hardly depends on the profile's times: sockets, threads and the load \
                    take almost all of the time"
                .to_owned(),
        );
    };
    if (1.0 / FACTOR_MAX..=FACTOR_MAX).contains(&median) {
        return Ok(Factor { median, range: (least, most) });
    }
    let text = match median > 0.0 {
        true => format!("the profile's times would have to be {median:.1} times as long"),
        false => "the database is faster than the model without any software".to_owned(),
    };
    Err(format!("{text}: this is a different database, or the command counts something else"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transactions of 60 µs that are not the software's, and 40 that are.
    fn rate(factor: f64) -> f64 {
        1e6 / (60.0 + 40.0 * factor)
    }

    fn point(real: &[f64]) -> CalibrationPoint {
        let rounds = |rate: f64| real.iter().map(|_| rate).collect();
        CalibrationPoint {
            clients: 1,
            real: real.to_vec(),
            once: rounds(rate(1.0)),
            twice: rounds(rate(2.0)),
            calibrated: rate(1.0),
        }
    }

    #[test]
    fn a_model_of_which_only_a_part_is_software_is_calibrated_by_that_part() {
        for wanted in [0.2, 0.9, 1.0, 1.6, 2.5] {
            let found = factor(&[point(&[rate(wanted); 3])]).unwrap();
            assert!((found.median - wanted).abs() < 1e-9, "{wanted}: {found:?}");
        }
    }

    #[test]
    fn a_round_that_was_disturbed_and_clients_that_show_nothing_do_not_move_it() {
        let mut idle = point(&[100.0; 3]);
        idle.twice.clone_from(&idle.once);
        let points = [point(&[rate(1.5), rate(1.5), rate(4.0)]), idle];
        assert!((factor(&points).unwrap().median - 1.5).abs() < 1e-9);
        assert!(factor(&points[1..]).unwrap_err().contains("hardly depends"));
    }

    #[test]
    fn what_no_factor_can_make_alike_is_an_error() {
        for (real, said) in [(rate(20.0), "20.0 times"), (rate(-1.0), "faster than the model")] {
            let error = factor(&[point(&[real])]).unwrap_err();
            assert!(error.contains(said) && error.contains("a different database"), "{error}");
        }
    }

    /// A point whose software takes this share of the time.
    fn with_share(share: f64) -> CalibrationPoint {
        CalibrationPoint {
            real: vec![1.0],
            once: vec![1.0],
            twice: vec![1.0 / (1.0 + share)],
            ..CalibrationPoint::default()
        }
    }

    #[test]
    fn a_round_counts_in_which_a_twentieth_of_the_time_is_the_softwares() {
        assert!(factor(&[with_share(0.0499)]).is_err());
        assert!((factor(&[with_share(0.0501)]).unwrap().median - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_factor_is_a_tenth_to_ten() {
        let is_one = |wanted: f64| factor(&[point(&[rate(wanted)])]).is_ok();
        assert_eq!([is_one(9.99), is_one(10.01)], [true, false]);
        assert_eq!([is_one(0.1001), is_one(0.0999)], [true, false]);
    }

    #[test]
    fn the_middle_half_of_the_rounds_is_its_range_and_scatters_beyond_1_3() {
        let rounds = [0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5].map(rate);
        let found = factor(&[point(&rounds)]).unwrap();
        for (found, expected) in [(found.range.0, 1.0), (found.median, 1.15), (found.range.1, 1.4)]
        {
            assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
        }
        let scatters = |most: f64| {
            let factor_range = (2.0, most);
            let (schema, database, command) = (CALIBRATION_SCHEMA, String::new(), String::new());
            CalibrationFindings {
                schema,
                database,
                command,
                factor: 2.2,
                factor_range,
                points: Vec::new(),
                others: 0.0,
            }
            .scatters()
        };
        assert_eq!([scatters(2.599), scatters(2.601)], [false, true]);
    }

    #[test]
    fn the_ratio_is_that_of_the_last_round() {
        let found = CalibrationPoint {
            real: vec![100.0, 50.0],
            calibrated: 60.0,
            ..CalibrationPoint::default()
        };
        assert!((found.ratio() - 1.2).abs() < 1e-9);
    }
}
