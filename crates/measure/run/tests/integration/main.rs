//! Tests of durio-run from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod campaigns;
mod declined;
mod group_commit;
mod methods;
mod runs;
mod starts;
mod traces;
