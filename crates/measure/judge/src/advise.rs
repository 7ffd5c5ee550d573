//! Advice: rules about kernel, devices, filesystems and databases, as data, applied to facts.
//!
//! Facts are settings in effect, a database's settings and the findings of a run; the rules are in
//! `rules/`. [`AdviceReport`] is plain data: each rule is met, not met, cannot tell or not
//! applicable, with the values read, what to do, how to undo it, and the sources. Nothing is
//! applied or printed here.
//!
//! A rule is data: conditions in a small language over named facts (`condition.rs`), whose kinds
//! are in `rules/facts.toml`. Documents that contradict each other are shown as a conflict, never
//! resolved silently. Each rule has the project's measurements of its claim, or the reason why
//! there are none (`evidence.rs`). No advice ever lowers durability; a test scans for it.

/// Enums of words: a case, its documentation, and the word that users read. Saved documents have
/// the case's name.
macro_rules! word_enum {
    (
        $(#[$about:meta])* $name:ident, $how:ident:
        $($(#[$doc:meta])* $case:ident $word:literal,)*
    ) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        $(#[$about])*
        pub enum $name {
            $($(#[$doc])* $case,)*
        }

        impl $name {
            /// As users read it.
            #[must_use]
            pub const fn $how(self) -> &'static str {
                match self {
                    $(Self::$case => $word,)*
                }
            }
        }
    };
}

mod catalogue;
mod condition;
mod document;
mod error;
mod evidence;
mod explained;
mod facts;
mod from_run;
mod from_system;
mod request;
mod rule;
mod settings;
mod value;

pub use document::{
    ADVICE_SCHEMA, Advice, AdviceReport, Apply, Conflict, MissingFact, PROOF_SCHEMA, ReadFact,
    RuleCounts, RuleProof, Statement, SwitchedSetting,
};
pub use error::AdviceError;
pub use evidence::{Conditions, Evidence, EvidenceOutcome};
pub use explained::advice_explanations;
pub use request::{AdviceRequest, FactOrigin, advise};
pub use rule::{
    AdviceRole, AdviceSource, AdviceState, ProofMethod, ProveLoad, Risk, Rule, SourceKind, Subject,
    Switch, rule_named, rules,
};
pub use settings::{DatabaseSetting, DatabaseSettings};
