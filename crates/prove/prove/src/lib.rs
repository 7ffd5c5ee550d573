//! Whether acknowledged writes survive power cuts.
//!
//! ```text
//!  schedule ──► writer ──► engine ──► target            cut, restore
//!                 │ intents, acknowledgements              │
//!                 ▼                                        ▼
//!              witness: ledger ──► history ──► classify ◄── reading (twice)
//!                                                 │
//!                                                 ▼
//!                                             findings of a cut
//! ```
//!
//! Takes an engine over a target and a means to cut its power; returns findings of each cut
//! ([`durio_record::proof`]). durio-analyse gives verdicts over several cuts; durio-lab runs
//! guests.
//!
//! The writer of stamps ([`seal`], [`writer`]) and their reader ([`reading`], [`classify`]) share the
//! format ([`stamp`]) and no code, so that an error of one shows in the other.

pub mod agent;
pub mod background;
pub mod classify;
pub mod enumerate;
pub mod evidence;
pub mod guest_agent;
pub mod history;
pub mod layout;
pub mod ledger;
pub mod ledger_file;
mod picture;
pub mod power;
pub mod reading;
pub mod schedule;
pub mod seal;
pub mod served;
pub mod serving;
pub mod simulation;
pub mod stamp;
pub mod trial;
pub mod verify;
pub mod wire;
pub mod witness;
pub mod write_log;
pub mod writer;

/// The error with its causes, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}
