//! Tests of durio-fio from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod import;
mod job_file;
mod large;
mod peer;
