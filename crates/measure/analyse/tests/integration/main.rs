//! Tests of durio-analyse from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod durable;
mod ladder_properties;
mod published_durable;
mod published_ladders;
