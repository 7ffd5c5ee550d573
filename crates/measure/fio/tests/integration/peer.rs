//! The crate against a real fio, where there is one: results read, percentiles, results written.
//!
//! Environment: `DURIO_TEST_MISSING`, comma-separated names that count as missing;
//! `DURIO_TEST_SKIPS`, a file for one line per skipped test.

mod consumers;
mod percentiles;
mod requirements;
mod round_trip;
mod running;
