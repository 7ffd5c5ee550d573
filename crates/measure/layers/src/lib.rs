//! Building declared stacks: checked, turned into commands, carried out, and always undone.
//!
//! From a [`DeclaredStack`] and a [`BuildPlace`] come the commands that would run ([`commands`]); a
//! [`Builder`] runs exactly these, and [`clean`] removes what a killed builder left behind.
//! durio-spec reads stacks from specs, and `durio-observe` finds the layers under a path.
//!
//! This crate changes the machine. Before every step its undo is on disk. Nothing is run or written
//! without a value of `permit`, and nothing is undone without the proof that the build made it
//! (`undo`); so undoing can be done twice. Everything about one kind of layer, its words in a spec
//! too, is one file of `kinds`.

mod builder;
mod check;
mod declared;
mod error;
mod identity;
mod journal;
mod kinds;
mod needs;
mod permit;
mod place;
mod plan;
mod real_system;
mod server;
mod spec;
mod step;
mod system;
mod take_down;
#[cfg(test)]
mod tests;
mod tool_words;
mod undo;

pub use builder::{Builder, BuiltLayer};
pub use check::check_declared;

pub use declared::{DeclaredLayer, DeclaredStack};
pub use error::{BuildError, Missing};
pub use kinds::*;
pub use needs::{NamedNeeds, missing, requirements};
pub use place::BuildPlace;
pub use plan::commands;
pub use spec::{KeyFault, SpecForm, SpecKey, SpecValue, SpecValues};
pub use step::{Action, BuildCommand, BuildOptions, BuildProgress};
pub use take_down::{CleanOutcome, CleanState, clean};
