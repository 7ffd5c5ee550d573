//! Student's t distribution, as far as intervals and tests need it.
//!
//! Quantiles and tails by degrees of freedom.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The quantile of Student's t with `freedom` degrees of freedom, which need not be whole: below it
/// lies the share `below` of the distribution. `None` unless `freedom` is above zero.
pub fn quantile(freedom: f64, below: f64) -> Option<f64> {
    let found = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(below);
    found.is_finite().then_some(found)
}

/// The probability of a value above `t`; `None` unless `freedom` is above zero.
pub fn above(t: f64, freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.sf(t))
}

/// The 97.5 % quantile, for a two-sided 95 % interval; `None` without a degree of freedom.
pub fn student_95(degrees: usize) -> Option<f64> {
    quantile(crate::stats::least_squares::count(degrees), 0.975)
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
            let found = quantile(freedom, below).unwrap();
            assert!((found / published - 1.0).abs() < 1e-9, "{found} for {published}");
        }
        // scipy.stats.t.sf(t, freedom).
        let tails = [
            (2.0, 1.17, 0.132_925_572_512_423_4),
            (5.0, 2.0, 0.018_874_775_675_311_862),
            (30.0, 4.5, 1.171_987_149_394_26e-6),
        ];
        for (t, freedom, published) in tails {
            let found = above(t, freedom).unwrap();
            assert!((found / published - 1.0).abs() < 1e-9, "{found} for {published}");
        }
    }

    #[test]
    fn without_a_degree_of_freedom_there_is_no_distribution() {
        assert_eq!((student_95(0), quantile(f64::NAN, 0.5), above(1.0, -1.0)), (None, None, None));
    }
}
