//! Tests of durio-judge from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounting;
mod advice;
mod audit;
mod compare;
mod machines;
mod null_run;
