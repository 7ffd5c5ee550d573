//! Means, intervals and fits, of numbers that mean nothing here.
//!
//! In: numbers. Out: means, medians, fits by least squares, shifts of repeats with their intervals,
//! quantiles of Student's t. Not here: what the numbers are of, and what follows from them.

pub mod binomial;
pub mod least_squares;
pub mod repeats;
pub mod student;
