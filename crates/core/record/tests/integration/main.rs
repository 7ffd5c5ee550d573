//! Tests of durio-record from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench_folder;
mod journal;
mod proof_folder;
mod run_folder;
mod state_folder;
