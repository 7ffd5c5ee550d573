//! Tests of durio-simdisk from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod lies;
mod model;
mod write_log;
