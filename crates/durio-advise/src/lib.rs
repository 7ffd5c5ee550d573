//! Advice: rules about kernel, devices, filesystems and databases, as data, against what was read.
//!
//! In: facts (settings as they stand, a database's settings, the findings of a run) and the rules in
//! `rules/`. Out: [`AdviceReport`], plain data: each rule met, not met, not to be told or not
//! applicable, with the values read, what to do, how to undo it, and by whom it is said.
//! Not here: reading the system, applying anything, printing.
//!
//! A rule is data: conditions in a small language over named facts (`condition.rs`), whose kinds are
//! in `rules/facts.toml`. Documents that contradict each other are shown as a conflict, never
//! resolved in silence. Each rule says what the project measured of it itself, or why it could not
//! (`evidence.rs`). Nothing that lowers durability is ever advised; a test scans for it.

mod advise;
mod catalogue;
mod condition;
mod conflict;
mod document;
mod error;
mod evidence;
mod facts;
mod from_run;
mod from_system;
mod proof;
mod rule;
mod settings;
mod templates;
mod value;

pub use advise::{AdviceRequest, System, advise};
pub use document::{
    ADVICE_SCHEMA, Advice, AdviceReport, Apply, Conflict, Counts, MissingFact, ReadFact, Statement,
};
pub use error::AdviceError;
pub use evidence::{Conditions, Evidence, EvidenceOutcome};
pub use proof::{PROOF_SCHEMA, Proof, SwitchedSetting};
pub use rule::{
    AdviceRole, AdviceSource, AdviceState, Prove, ProveLoad, Risk, Rule, SourceKind, Subject,
    Switch, known_advice_databases, rule_named, rules,
};
pub use settings::{DatabaseSettings, Setting};
