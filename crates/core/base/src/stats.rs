//! Statistics of plain numbers: means, medians, fits by least squares, shifts of repeats with their
//! intervals, many tests at once; and here the distributions behind intervals and tests: quantiles and
//! tails of Student's t by degrees of freedom, the tail of a ratio of variances, and the interval of a
//! failure's probability from the failures in a number of trials.

pub mod least_squares;
pub mod multiple;
pub mod repeats;

use least_squares::{count, float};
use statrs::distribution::{Beta, ContinuousCDF, FisherSnedecor, StudentsT};

/// The quantile of Student's t with `freedom` degrees of freedom, which need not be whole: below it
/// lies the share `below` of the distribution. `None` unless `freedom` is above zero.
pub fn student_quantile(freedom: f64, below: f64) -> Option<f64> {
    let found = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(below);
    found.is_finite().then_some(found)
}

/// The probability of a value above `t`; `None` unless `freedom` is above zero.
pub fn student_above(t: f64, freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.sf(t))
}

/// The probability of a larger ratio of two variances, with these degrees of freedom, by Fisher's F
/// distribution; `None` unless both are above zero, and for the ratio of two zeros.
pub fn variance_ratio_above(ratio: f64, freedom: [f64; 2]) -> Option<f64> {
    let distribution = FisherSnedecor::new(freedom[0], freedom[1]).ok()?;
    // statrs multiplies the ratio, and does not take a product that overflows.
    (!ratio.is_nan()).then(|| distribution.sf(ratio.clamp(0.0, 1e100)))
}

/// The 97.5 % quantile, for a two-sided 95 % interval; `None` without a degree of freedom.
pub fn student_95(degrees: usize) -> Option<f64> {
    student_quantile(count(degrees), 0.975)
}

/// The interval that holds the probability of a failure with this confidence, after `failures` in
/// `trials` (Clopper and Pearson, 1934): exact, so never narrower than it claims. Without a failure
/// it is one-sided, and its upper end 1 - (1 - confidence)^(1 / trials). None without trials.
pub fn clopper_pearson(failures: u64, trials: u64, confidence: f64) -> Option<[f64; 2]> {
    if trials == 0 || failures > trials {
        return None;
    }
    let (k, n) = (float(failures), float(trials));
    if failures == 0 {
        return Some([0.0, 1.0 - (1.0 - confidence).powf(1.0 / n)]);
    }
    if failures == trials {
        return Some([(1.0 - confidence).powf(1.0 / n), 1.0]);
    }
    let tail = (1.0 - confidence) / 2.0;
    let quantile =
        |a: f64, b: f64, below: f64| Beta::new(a, b).ok().map(|beta| beta.inverse_cdf(below));
    Some([quantile(k, n - k + 1.0, tail)?, quantile(k + 1.0, n - k, 1.0 - tail)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_tails_are_those_of_scipy() {
        // scipy.stats.t.ppf(below, freedom) of SciPy 1.17.
        let quantiles = [
            (1.0, 0.975, 12.706_204_736_174_694),
            (1.17, 0.975, 9.076_017_086_827_617),
            (2.0, 0.95, 2.919_985_580_353_724_2),
            (8.0, 0.975, 2.306_004_135_204_166),
            (30.0, 0.995, 2.749_995_653_567_225_4),
        ];
        for (freedom, below, published) in quantiles {
            let found = student_quantile(freedom, below).unwrap();
            assert!((found / published - 1.0).abs() < 1e-9, "{found} for {published}");
        }
        // scipy.stats.t.sf(t, freedom).
        let tails = [
            (2.0, 1.17, 0.132_925_572_512_423_4),
            (5.0, 2.0, 0.018_874_775_675_311_862),
            (30.0, 4.5, 1.171_987_149_394_26e-6),
        ];
        for (t, freedom, published) in tails {
            let found = student_above(t, freedom).unwrap();
            assert!((found / published - 1.0).abs() < 1e-9, "{found} for {published}");
        }
    }

    #[test]
    fn without_a_degree_of_freedom_there_is_no_distribution() {
        assert_eq!(
            (student_95(0), student_quantile(f64::NAN, 0.5), student_above(1.0, -1.0)),
            (None, None, None)
        );
        assert_eq!(variance_ratio_above(1.0, [0.0, 3.0]), None);
    }

    #[test]
    fn the_tail_of_a_variance_ratio_is_that_of_its_closed_form() {
        // With two degrees of freedom above: (1 + 2 F / d)^(−d / 2).
        for (ratio, below) in [(19.0, 2.0_f64), (6.944_271_909_999_159, 4.0), (3.5, 20.0)] {
            let exact = (1.0 + 2.0 * ratio / below).powf(-below / 2.0);
            let found = variance_ratio_above(ratio, [2.0, below]).unwrap();
            assert!((found / exact - 1.0).abs() < 1e-9, "{found} for {exact}");
        }
        // With one: Student's t of the root, both tails.
        let both_tails = 2.0 * student_above(2.5, 8.0).unwrap();
        let found = variance_ratio_above(6.25, [1.0, 8.0]).unwrap();
        assert!((found / both_tails - 1.0).abs() < 1e-9, "{found} for {both_tails}");
        let tails =
            [f64::INFINITY, f64::MAX, 0.0].map(|ratio| variance_ratio_above(ratio, [2.0, 9.0]));
        assert_eq!(tails, [Some(0.0), Some(0.0), Some(1.0)]);
        assert_eq!(variance_ratio_above(f64::NAN, [2.0, 9.0]), None);
    }

    fn close(found: Option<[f64; 2]>, expected: [f64; 2]) {
        let found = found.unwrap();
        assert!((found[0] - expected[0]).abs() < 5e-4, "{found:?} {expected:?}");
        assert!((found[1] - expected[1]).abs() < 5e-4, "{found:?} {expected:?}");
    }

    #[test]
    fn without_a_failure_it_is_the_exact_form_of_the_rule_of_three() {
        for (trials, upper) in
            [(5, 0.4507), (30, 0.0950), (59, 0.0495), (299, 0.0100), (3000, 0.0010)]
        {
            close(clopper_pearson(0, trials, 0.95), [0.0, upper]);
        }
        close(clopper_pearson(3, 3, 0.95), [0.3684, 1.0]);
    }

    /// binom.test(1, 10) and binom.test(7, 40) of R.
    #[test]
    fn with_failures_it_is_what_r_says() {
        close(clopper_pearson(1, 10, 0.95), [0.0025, 0.4450]);
        close(clopper_pearson(7, 40, 0.95), [0.0734, 0.3278]);
    }

    #[test]
    fn no_trials_say_nothing() {
        assert_eq!(clopper_pearson(0, 0, 0.95), None);
        assert_eq!(clopper_pearson(2, 1, 0.95), None);
    }

    /// scipy.stats.beta.ppf(0.025, 3, 8) and ppf(0.975, 4, 7) of SciPy, by Clopper and Pearson.
    #[test]
    fn the_interval_is_exact_and_narrower_with_less_confidence() {
        let [low, high] = clopper_pearson(3, 10, 0.95).unwrap();
        assert!((low / 0.066_739_511_177_734_47 - 1.0).abs() < 1e-9, "{low}");
        assert!((high / 0.652_452_850_059_997_3 - 1.0).abs() < 1e-9, "{high}");
        let [lower, higher] = clopper_pearson(3, 10, 0.90).unwrap();
        assert!(lower > low && higher < high, "{lower} {higher}");
        close(clopper_pearson(1, 1, 0.95), [0.05, 1.0]);
    }
}
