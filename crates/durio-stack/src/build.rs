//! Building declared stacks: checked, turned into commands, carried out, and always undone.
//!
//! In: a [`DeclaredStack`](crate::DeclaredStack) and a [`Place`]. Out: the commands that would run
//! ([`commands`]), a [`Builder`] that runs exactly these, and [`clean`] for what a builder that was
//! killed left behind. Not here: how a stack is written in a spec, running workloads on it.
//!
//! This is the one part of the crate that changes the machine. Before every step its undo is on
//! disk; undoing looks first whether the thing is there and is ours, so it can be done twice.

mod builder;
mod carry_out;
mod check;
mod clean;
mod command;
mod error;
mod journal;
mod missing;
mod names;
mod place;
mod plan;
#[cfg(test)]
mod scripted;
mod step;
mod system;
#[cfg(test)]
mod test_stacks;
mod tool_words;
mod undo;

pub use builder::{BuildOptions, Builder, BuiltLayer, Progress};
pub use check::check_declared;
pub use clean::{CleanOutcome, CleanState, clean};
pub use command::{Action, BuildCommand, Check};
pub use error::BuildError;
pub use missing::{Missing, missing, requirements};
pub use place::Place;
pub use plan::commands;
pub use tool_words::{Tool, WordFault, check_words, tool_words_reference};
pub use undo::Undo;
