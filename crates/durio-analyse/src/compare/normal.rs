//! The normal distribution and Student's t, as far as intervals need them.
//!
//! In: deviates, degrees of freedom. Out: probabilities and quantiles. Not here: data.

/// The 97.5 % quantile of the normal distribution.
pub(super) const NORMAL_97_5: f64 = 1.959_963_984_540_054;

/// The probability that a standard normal variable is below `z`.
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 26.2.17: within 7.5e-8.
pub(super) fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_530];
    let polynomial = series.iter().fold(0.0, |sum, term| (sum + term) * t);
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let above = density * polynomial;
    if z < 0.0 { above } else { 1.0 - above }
}

/// The 97.5 % quantile of Student's t with `freedom` degrees of freedom, taken as 3 at least.
///
/// Abramowitz and Stegun, 26.7.5: within 0.5 % from 3 degrees on.
pub(super) fn student_97_5(freedom: f64) -> f64 {
    let (z, nu) = (NORMAL_97_5, freedom.max(3.0));
    let odd = |powers: [f64; 5]| powers.iter().fold(0.0, |sum, term| sum * z * z + term) * z;
    z + odd([0.0, 0.0, 0.0, 1.0, 1.0]) / (4.0 * nu)
        + odd([0.0, 0.0, 5.0, 16.0, 3.0]) / (96.0 * nu.powi(2))
        + odd([0.0, 3.0, 19.0, 17.0, -15.0]) / (384.0 * nu.powi(3))
        + odd([79.0, 776.0, 1482.0, -1920.0, -945.0]) / (92_160.0 * nu.powi(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_values_come_out() {
        for (z, below) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9), (3.0, 0.998_650)] {
            assert!((normal_below(z) - below).abs() < 1e-6, "{z}: {}", normal_below(z));
        }
        let table = [(3.0, 3.182), (4.0, 2.776), (10.0, 2.228), (24.0, 2.064), (1e6, 1.960)];
        for (freedom, quantile) in table {
            let t = student_97_5(freedom);
            assert!((t / quantile - 1.0).abs() < 0.005, "{freedom}: {t}");
        }
    }
}
