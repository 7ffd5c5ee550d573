//! Every engine through the same suite, the suite against engines with planted faults, and what is one
//! engine's own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "cachestat(2), by which the suite sees what a sync left unwritten")]

mod engines;
mod faults;
mod several_files;
mod suite;
