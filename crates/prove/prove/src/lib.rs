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
//! ([`durio_record::proof`]). its verdicts are over several cuts; durio-lab runs
//! guests.
//!
//! | module | what carries a proof out |
//! |---|---|
//! | `power_proof` | the folder of a plan → power cuts, series after series, and their findings |
//! | `guest_trials`, `proof_in_guest` | cuts of guests of the lab: the host's side, the guest's side |
//! | `guest_layers` | filesystems and arrays on the disks of a guest |
//! | `command_trials`, `guest_agent` | cuts under a user's command, and its own check |
//! | `crash_states` | a log of writes, a check of the user's → what it says of each crash state |
//! | `proof_parts`, `proof_target` | agent, witness and verifier, each as a process |
//!
//! The writer of stamps ([`writer`]) and their reader ([`reading`], `classify.rs`) share the
//! format ([`stamp`]) and no code, so that an error of one shows in the other.

mod agent;
mod background;
mod classify;
mod command_trials;
mod crash_states;
pub mod enumerate;
mod error;
mod guest_agent;
mod guest_layers;
mod guest_trials;
mod history;
pub mod layout;
pub mod ledger;
mod ledger_file;
mod picture;
mod power_proof;
mod proof_in_guest;
mod proof_parts;
mod proof_target;
pub mod reading;
pub mod serving;
pub mod simulation;
pub mod stamp;
mod trial;
mod verify;
mod wire;
mod witness;
pub mod writer;

/// An error whose cause no caller has to match.
pub type AnyError = Box<dyn std::error::Error + Send + Sync>;

pub use background::clear_dead_servers;
pub use crash_states::{CrashStatesRequest, check_crash_state, check_crash_states};
pub use error::{HistoryError, LedgerError, ProveError};
pub use guest_agent::command_in_guest;
pub use guest_trials::name_kernels;
pub use ledger_file::read_ledger;
pub use power_proof::{ProofOutcome, prove_power};
pub use proof_in_guest::prove_in_guest;
pub use proof_parts::{WitnessTerms, be_agent, keep_ledger, verify_target};
pub use proof_target::ProofStorage;
