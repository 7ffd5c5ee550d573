//! Tests of durio-workload from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arrivals;
mod places;
mod stream;
