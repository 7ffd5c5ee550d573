//! The command line from outside: exit codes, messages, and what is left behind.
//!
//! In: the built program, a sandbox per test. Out: nothing left by durio where it measured, every
//! byte of the user's as before, no panic, no exit code 4: every test asserts these at its end.
//! Not here: whether figures are right on real storage (the engines' conformance suite, the benches).
//!
//! - `DURIO_TEST_MISSING`, `DURIO_TEST_SKIPS`: what this machine lacks, and where a test that
//!   cannot run says so (see `requirements`).
//! - `DURIO_TEST_SEED`: seed of random moments and damages; printed when it matters.
//! - `TRYCMD=overwrite`: writes the outputs kept in `tests/outputs` again instead of comparing them;
//!   `DURIO_TEST_REWRITE=1` does so with the reports of `records`.
//! - What takes longer than a second or two is `#[ignore = "slow"]`: `cargo test --test cli --
//!   --ignored` runs it alone.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test ends at the first surprise and says what it skips"
)]

mod accounting;
mod advise;
mod audit;
mod audit_documents;
mod audit_own;
mod broken_kvm;
mod by_hand;
mod capture;
mod check;
mod compare;
mod config;
mod contents;
mod crash_states;
mod destroy;
mod doctor;
mod durable;
mod durio;
mod examples;
mod explain;
mod failing_calls;
mod filesystems;
mod fio_engine;
mod fio_honoured;
mod fio_jobs;
mod fio_latency;
mod fio_mapped;
mod fio_places;
mod fio_plot;
mod fio_stand_in;
mod fio_trace;
mod fleet;
mod flush_signals;
mod foreign_state;
mod gate;
mod golden_records;
mod guests;
mod hdr_peer;
mod held_back;
mod help;
mod hostile_files;
mod hostile_names;
mod identity;
mod lab;
mod lab_raid;
mod lab_suite;
mod lab_timed;
mod lab_zfs;
mod leftovers;
mod loops;
mod multipath;
mod output;
mod outputs;
mod paths;
mod plan;
mod power_cut;
mod predict;
mod profile;
mod proof_parts;
mod proving;
mod proving_commands;
mod proving_guests;
mod raid;
mod raid_claims;
mod raid_replace;
mod raid_sockets;
mod raid_stripes;
mod record;
mod refusals;
mod replay;
mod report;
mod requirements;
mod resume;
mod run;
mod runs;
mod said_of_a_run;
mod sandbox;
mod seeded;
mod served_stacks;
mod signals;
mod simdisks;
mod stacks;
mod storage_faults;
mod terminal;
mod traces;
mod typical;
mod watch;
mod watching;
mod why;
mod windows;
