//! Least squares for a handful of parameters, and order statistics.
//!
//! All input is finite. The caller chooses the model and knows the meaning of its parameters.

/// Parameters of a fit, and the data for their intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution<const P: usize> {
    pub parameters: [f64; P],
    /// Diagonal of the inverse of the normal matrix: times the variance of a residual it is the
    /// variance of the parameter.
    pub unit_variance: [f64; P],
}

/// Weighted least squares by the normal equations, columns scaled to a largest element of one;
/// `None` if the columns are not independent.
///
/// With weights 1 / σ² this is the estimate of Gauss and Aitken.
pub fn weighted<const P: usize>(
    rows: &[[f64; P]],
    targets: &[f64],
    weights: &[f64],
) -> Option<Solution<P>> {
    // Columns may hold byte counts and ones: unscaled, the normal matrix loses digits.
    let scales = column_scales(rows)?;
    let mut matrix = [[0.0; P]; P];
    let mut right = [0.0; P];
    for ((row, target), weight) in rows.iter().zip(targets).zip(weights) {
        for i in 0..P {
            let left = weight * row[i] / scales[i];
            right[i] += left * target;
            for j in 0..P {
                matrix[i][j] += left * row[j] / scales[j];
            }
        }
    }
    let inverse = inverse(matrix)?;
    let parameter = |i: usize| (0..P).map(|j| inverse[i][j] * right[j]).sum::<f64>() / scales[i];
    Some(Solution {
        parameters: std::array::from_fn(parameter),
        unit_variance: std::array::from_fn(|i| inverse[i][i] / (scales[i] * scales[i])),
    })
}

fn column_scales<const P: usize>(rows: &[[f64; P]]) -> Option<[f64; P]> {
    let mut scales = [0.0_f64; P];
    for row in rows {
        for (scale, cell) in scales.iter_mut().zip(row) {
            *scale = scale.max(cell.abs());
        }
    }
    scales.iter().all(|scale| scale.is_finite() && *scale > 0.0).then_some(scales)
}

/// A pivot below this share of the largest possible one (1 for scaled columns) means dependent
/// columns.
const SMALLEST_PIVOT: f64 = 1e-12;

/// Gauss and Jordan, with row pivoting.
fn inverse<const P: usize>(mut matrix: [[f64; P]; P]) -> Option<[[f64; P]; P]> {
    let mut inverse: [[f64; P]; P] =
        std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))));
    for column in 0..P {
        let pivot = (column..P)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()))?;
        if !matrix[pivot][column].is_finite() || matrix[pivot][column].abs() < SMALLEST_PIVOT {
            return None;
        }
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let divisor = matrix[column][column];
        (0..P).for_each(|j| {
            matrix[column][j] /= divisor;
            inverse[column][j] /= divisor;
        });
        for row in (0..P).filter(|row| *row != column) {
            let factor = matrix[row][column];
            for j in 0..P {
                matrix[row][j] -= factor * matrix[column][j];
                inverse[row][j] -= factor * inverse[column][j];
            }
        }
    }
    Some(inverse)
}

/// The line through evenly spaced values: value at the first and slope per position.
///
/// `None` for fewer than two values.
pub fn line(values: &[f64]) -> Option<(f64, f64)> {
    // Positions from the centre: sums of squares of positions from zero lose digits on a long
    // series.
    let centre = (count(values.len()) - 1.0) / 2.0;
    let mean = mean(values)?;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (position, value) in values.iter().enumerate() {
        let distance = count(position) - centre;
        covariance += distance * (value - mean);
        variance += distance * distance;
    }
    let slope = covariance / variance;
    (variance > 0.0).then_some((mean - slope * centre, slope))
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count(values.len()))
}

/// Median, the mean of the middle two for an even number; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even);
    // Half of the sum could overflow.
    Some(lower.map_or(*upper, |lower| lower + (*upper - lower) / 2.0))
}

/// From the median of absolute errors to the standard deviation of normal ones.
pub const NORMAL_MEDIAN: f64 = 1.4826;

/// Standard deviation of normal values by the median of their distances from the median, which a few
/// values far off do not move; `None` of nothing.
pub fn robust_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some(NORMAL_MEDIAN * median(&distances)?)
}

/// A count as a float.
#[expect(clippy::cast_precision_loss, reason = "no series here comes near 2^53 elements")]
pub fn count(number: usize) -> f64 {
    number as f64
}

/// A latency, a size or a counter as a float.
#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days, 2^53 bytes 8 PiB")]
pub fn float(number: u64) -> f64 {
    number as f64
}

/// `a` ÷ `b`, zero where there is nothing to divide by.
pub fn quotient(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { float(a) / float(b) }
}

/// The sum, or the largest number there is: a damaged record must not stop a report.
pub fn saturating_sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// The lowest and the highest; of nothing infinity and its negative.
pub fn range(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let widen = |(low, high): (f64, f64), value| (low.min(value), high.max(value));
    values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), widen)
}

/// The values in rising order, each once.
pub fn distinct(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// A position below `count`, from 64 random bits.
#[expect(clippy::cast_possible_truncation, reason = "below count")]
pub fn position(bits: u64, count: usize) -> usize {
    // Lemire's multiplication (Fast Random Integer Generation in an Interval, 2019) without its
    // rejection: the bias is below count ÷ 2⁶⁴.
    ((u128::from(bits) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_found_exactly() {
        let rows: Vec<[f64; 3]> = (0..6)
            .map(|i| {
                let x = f64::from(i);
                [1.0, x, x * x * 1e6]
            })
            .collect();
        let targets: Vec<f64> =
            rows.iter().map(|[a, b, c]| 3.0 * a - 2.0 * b + 1e-6 * 0.5 * c).collect();
        let found = weighted(&rows, &targets, &[1.0; 6]).unwrap().parameters;
        for (found, planted) in found.iter().zip([3.0, -2.0, 0.5e-6]) {
            assert!((found / planted - 1.0).abs() < 1e-9, "{found} for {planted}");
        }
    }

    #[test]
    fn columns_that_depend_on_each_other_have_no_solution() {
        let rows = [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]];
        assert_eq!(weighted(&rows, &[1.0, 2.0, 3.0], &[1.0; 3]), None);
        assert_eq!(weighted::<2>(&[], &[], &[]), None);
    }

    #[test]
    fn a_pivot_of_a_billionth_of_a_thousandth_is_a_figure_and_a_smaller_one_a_dependence() {
        let with = |pivot: f64| inverse([[1.0, 0.0], [0.0, pivot]]);
        assert_eq!(with(1e-12).map(|found| found[0][0]), Some(1.0));
        assert_eq!(with(0.99e-12), None);
    }

    #[test]
    fn the_variance_of_a_mean_is_that_of_a_sample_divided_by_their_number() {
        let found = weighted(&[[1.0], [1.0], [1.0], [1.0]], &[1.0, 3.0, 5.0, 7.0], &[1.0; 4]);
        let found = found.unwrap();
        assert!((found.parameters[0] - 4.0).abs() < 1e-12);
        assert!((found.unit_variance[0] - 0.25).abs() < 1e-12);
    }

    #[test]
    fn line_mean_and_median_of_small_series() {
        assert_eq!(line(&[1.0, 3.0, 5.0]), Some((1.0, 2.0)));
        assert_eq!(line(&[1.0]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_robust_deviation_is_not_moved_by_one_value_far_off() {
        // By hand: median 4, distances 3, 1, 0, 2 and 96, of which the middle one is 2.
        let found = robust_deviation(&[1.0, 3.0, 4.0, 6.0, 100.0]).unwrap();
        assert!((found - 1.4826 * 2.0).abs() < 1e-12, "{found}");
        assert_eq!((robust_deviation(&[]), robust_deviation(&[7.0])), (None, Some(0.0)));
    }

    /// By hand: Σw 7.5, Σwx 100, Σwx² 2000, Σwy 21.5, Σwxy 380, determinant 5000.
    #[test]
    fn weights_and_scales_of_columns_enter_parameters_and_their_variances() {
        let rows = [[1.0, 0.0], [1.0, 10.0], [1.0, 20.0], [1.0, 40.0]];
        let found = weighted(&rows, &[1.0, 3.0, 2.0, 9.0], &[1.0, 4.0, 2.0, 0.5]).unwrap();
        let found = [found.parameters, found.unit_variance].concat();
        for (found, expected) in found.iter().zip([1.0, 0.14, 0.4, 0.0015]) {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} for {expected}");
        }
    }

    #[test]
    fn a_column_of_zeros_or_without_a_limit_has_no_solution() {
        assert_eq!(weighted(&[[0.0, 1.0], [0.0, 2.0]], &[1.0, 2.0], &[1.0; 2]), None);
        assert_eq!(weighted(&[[1.0], [f64::INFINITY]], &[1.0, 2.0], &[1.0; 2]), None);
    }

    #[test]
    fn a_line_is_found_through_points_beside_it() {
        // By hand: mean 4, slope (−1.5·1 − 0.5·2 + 0.5·6 + 1.5·7) ÷ 5 = 2.2.
        let (first, slope) = line(&[1.0, 2.0, 6.0, 7.0]).unwrap();
        assert!((first - 0.7).abs() < 1e-12 && (slope - 2.2).abs() < 1e-12, "{first} {slope}");
        assert_eq!(line(&[]), None);
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
        assert_eq!(median(&[7.0]), Some(7.0));
    }

    #[test]
    fn numbers_are_divided_added_and_bounded() {
        assert_eq!((quotient(7, 2), quotient(7, 0), quotient(0, 3)), (3.5, 0.0, 0.0));
        assert_eq!((count(3), float(5)), (3.0, 5.0));
        assert_eq!(saturating_sum([3, 4, 5]), 12);
        assert_eq!(saturating_sum([3, u64::MAX, 5]), u64::MAX);
        assert_eq!(range([3.0, -2.5, 7.25, 1.0]), (-2.5, 7.25));
        assert_eq!(range([]), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!(distinct([3.0, 1.5, 3.0, -2.0, 1.5]), [-2.0, 1.5, 3.0]);
    }

    #[test]
    fn random_bits_give_each_position_its_share() {
        assert_eq!([0, u64::MAX / 2, u64::MAX].map(|bits| position(bits, 10)), [0, 4, 9]);
        assert_eq!(position(3 << 62, 4), 3);
        assert_eq!(position((3 << 62) - 1, 4), 2);
    }
}
