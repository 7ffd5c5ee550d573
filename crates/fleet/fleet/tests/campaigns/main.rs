//! Campaigns from end to end: a real nats-server, and hosts that are real sshds in namespaces of their
//! own, on loopback.
//!
//! Environment: `DURIO_TEST_MISSING`, comma-separated programs that count as missing;
//! `DURIO_TEST_SKIPS`, a file for one line per skipped test.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod bus;
mod commands;
mod failures;
mod joined;
mod lab;
mod refusals;
mod relays;
mod runs;
