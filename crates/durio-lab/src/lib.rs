//! A throw-away virtual machine: boots a kernel of this machine or another one under QEMU, runs one
//! command as root, passes its output and exit code through, brings out what it wrote, leaves nothing.
//!
//! In: a [`LabRequest`]. Out: a [`LabOutcome`]. Not here: arguments, exit codes of durio, fetching
//! kernels.
//!
//! The guest has no network and writes nothing outside of its own memory. Its first process is the
//! very program that asks for it: [`guest_main`].

mod compression;
mod cpio;
mod error;
mod guest;
mod image;
mod kernel_image;
mod kernel_payload;
mod kernel_tools;
pub mod kernels;
mod kvm_trial;
mod modules;
mod monitor;
mod outcome;
mod programs;
mod qemu;
mod request;
mod run;
#[cfg(test)]
mod skipped;
mod tree;
mod unpack;
mod wire;

pub use durio_observe::{LabFacts, LabTiming};
pub use error::LabError;
pub use guest::{GUEST_COMMAND, guest_main};
pub use kernel_image::release_of_image;
pub use kernels::Kernel;
pub use outcome::{LabExit, LabOutcome};
pub use programs::find_program;
pub use qemu::Qemu;
pub use request::{LabFile, LabRequest, LabRoot};
pub use run::{Streams, run};
pub use unpack::LeftOut;
