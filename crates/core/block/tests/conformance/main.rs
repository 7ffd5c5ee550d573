//! Every engine through the same suite, the suite against engines with planted faults, and what is one
//! engine's own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod engines;
mod faults;
mod mapped;
mod several_files;
