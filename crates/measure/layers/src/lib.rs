//! Building declared stacks: checked, turned into commands, carried out, and always undone.
//!
//! In: a [`DeclaredStack`] and a [`BuildPlace`]. Out: the commands that would run ([`commands`]), a
//! [`Builder`] that runs exactly these, and [`clean`] for what a builder that was killed left behind.
//! Not here: how a stack is written in a spec, running workloads on it, what lies under a path
//! (`durio-observe`).
//!
//! This crate changes the machine. Before every step its undo is on disk. Nothing is run or written
//! without a value of `permit`, and nothing is undone without the proof that it is what the build made
//! (`proof`); so undoing can be done twice. What one kind of layer is and does, its words in a spec
//! too, is one file of `kinds`.

mod builder;
mod check;
mod clean;
mod command;
mod declared;
mod error;
mod identity;
mod journal;
mod kinds;
mod needs;
mod permit;
mod place;
mod plan;
mod proof;
mod server;
mod spec;
mod step;
mod superblock;
mod system;
mod take_down;
#[cfg(test)]
mod tests;
mod tool_words;
mod undo;

pub use builder::{Builder, BuiltLayer};
pub use check::check_declared;
pub use clean::{CleanOutcome, CleanState, clean};
pub use command::{Action, BuildCommand};
pub use declared::{DeclaredLayer, DeclaredStack};
pub use error::BuildError;
pub use kinds::*;
pub use needs::{Missing, missing, requirements};
pub use place::BuildPlace;
pub use plan::commands;
pub use spec::{KeyFault, SpecForm, SpecKey, SpecValue, SpecValues};
pub use step::{BuildOptions, Progress};
