//! Statistics of plain numbers: means, medians, fits by least squares, shifts of repeats with their
//! intervals, quantiles of Student's t.

pub mod binomial;
pub mod least_squares;
pub mod repeats;
pub mod student;
