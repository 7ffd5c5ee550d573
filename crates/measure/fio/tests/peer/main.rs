//! The crate against a real fio, where there is one: results read, percentiles, results written.
//!
//! Environment: `DURIO_TEST_MISSING`, comma-separated names that count as missing;
//! `DURIO_TEST_SKIPS`, a file for one line per skipped test.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod consumers;
mod percentiles;
mod requirements;
mod round_trip;
mod running;
