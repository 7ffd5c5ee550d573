//! Tests of durio-prove from outside, in one program.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arrays;
mod enumerate;
mod served_log;
mod stamp_format;
mod zoo;
