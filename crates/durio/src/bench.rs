//! A bench: one stack after the other is built, measured layer by layer, and taken down.
//!
//! In: a stack spec and where its stacks are built. Out: a bench folder. Not here: how a stack is
//! built (`durio_layers`), how a point is measured (`execute.rs`).
//!
//! ```text
//!   course ── build a layer (site) ── measure it (point, execute) ── record it ──┐
//!      └──────────────────────── the next layer, or tear down ◄──────────────────┘
//! ```

mod course;
mod listing;
mod machine;
mod point;
mod progress;
#[cfg(test)]
mod tests;

pub(crate) use course::{Course, Measured};
pub(crate) use listing::listing;
pub(crate) use machine::Machine;
pub(crate) use point::{Estimate, Planning, estimates};
pub(crate) use progress::BenchProgress;
