//! A throw-away virtual machine: boots a kernel of this machine or another one under QEMU, runs one
//! command as root, passes its output and exit code through, brings out what it wrote, leaves nothing.
//!
//! In: a [`LabRequest`]. Out: a [`LabOutcome`]. Not here: arguments, exit codes of durio, fetching
//! kernels, the servers of a guest's disks.
//!
//! The guest has no network and writes nothing outside of its own memory and its disks. Its first process is the
//! very program that asks for it: [`guest_main`].
//!
//! # How a guest runs
//!
//! This crate boots a kernel under QEMU with a filesystem in memory that is made for it
//! (`image.rs`), and starts it without its own unpacking (`kernel_image.rs`; docs/design/0009 says
//! why): the needed modules, read and ordered by what each says of itself
//! (`modules/`), with indexes for modprobe; programs with their libraries (`programs.rs`), those
//! first that go with the kernel's own modules and stand in the folder `tools` of its tree
//! (made by `cargo xtask lab zfs`); and durio, which is the guest's first
//! process (`guest/`) and puts off what the kernel would do of its own accord. Guest and host share
//! one serial port that carries frames (`wire.rs`): stdout, stderr, the archive of what is brought
//! out, the exit code; the other way a single byte at most, by which Ctrl-C reaches the command. The
//! archive for the kernel has no name in any folder, QEMU's end follows durio's and the guest ends when
//! its port is closed, so nothing stays whoever is killed. What the guest's clock counted is a file in
//! the guest (`durio_observe::LabFacts`), and so part of every record made there.
//!
//! A guest may have disks (`disk.rs`), a second port to a witness, and a switch that cuts its power
//! ([`Cutter`]). It is made ready once and booted as often as need be ([`PreparedGuest`]); [`run`] does
//! both.

mod compression;
mod cpio;
mod cutter;
mod disk;
mod error;
mod guest;
mod image;
mod kernel_image;
pub mod kernels;
mod kvm_trial;
mod machine;
mod modules;
mod prepared;
mod programs;
mod qemu;
mod request;
mod run;
#[cfg(test)]
#[path = "tests/skipped.rs"]
mod skipped;
mod tree;
mod unpack;
mod wire;

pub use cutter::Cutter;
pub use disk::{FrontEnd, LabDisk};
pub use durio_observe::{LabFacts, LabTiming};
pub use error::LabError;
pub use guest::{GUEST_COMMAND, guest_main};
pub use kernel_image::release_of_image;
pub use kernels::Kernel;
pub use prepared::{Boot, PreparedGuest};
pub use programs::find_program;
pub use qemu::Qemu;
pub use request::{Accelerator, LabFile, LabRequest, LabRoot};
pub use run::{LabExit, LabOutcome, Streams, run};
pub use unpack::Skipped;
