//! A throw-away virtual machine: boots a kernel of this machine or another one under QEMU, runs one
//! command as root, passes through its output and exit code, brings out its files, and leaves
//! nothing behind.
//!
//! Takes a [`LabRequest`] and returns a [`LabOutcome`]. The caller provides kernels and the servers
//! of a guest's disks.
//!
//! The guest has no network and writes only to its memory and its disks. Its first process is the
//! program that asks for it: [`guest_main`].
//!
//! # How a guest runs
//!
//! This crate boots a kernel under QEMU with a filesystem in memory made for it (`image.rs`), and
//! starts the kernel without its self-extraction (`kernel_image.rs`; docs/design/0009 says why).
//! The filesystem has the needed modules, read and ordered by their own headers (`modules/`), with
//! indexes for modprobe; programs with their libraries (`programs.rs`), preferring those that
//! belong to the kernel's modules, in the folder `tools` of its tree (made by `cargo xtask lab
//! zfs`); and durio, which is the guest's first process (`guest/`) and postpones the kernel's
//! housekeeping. Guest and host share one serial port that carries frames (`wire.rs`): stdout,
//! stderr, the archive of files to bring out, the exit code. The host sends at most a single byte,
//! by which Ctrl-C reaches the command. The archive for the kernel has no name in any folder, QEMU
//! ends when durio does, and the guest ends when its port is closed, so nothing stays behind
//! whichever process is killed. What the guest's clock counted is in a file in the guest
//! (`durio_observe::LabFacts`), and so part of every record made there.
//!
//! A guest may have disks ([`LabDisk`]), a second port to a witness, and a switch that cuts its power
//! ([`Cutter`]). It is made ready once and booted as often as need be ([`PreparedGuest`]); [`run`] does
//! both.

mod cpio;
mod error;
mod guest;
mod image;
mod kernel_image;
pub mod kernels;
mod kvm_trial;
mod machine;
mod modules;
mod programs;
mod qemu;
mod request;
mod run;
mod unpack;
mod wire;

pub use durio_observe::{LabFacts, LabTiming};
pub use durio_plan::proof::GuestFrontEnd;
pub use error::cannot_read;
pub use guest::guest_main;
pub use kernels::Kernel;
pub use machine::Cutter;
pub use programs::find_program;
pub use qemu::Qemu;
pub use request::{Accelerator, LabDisk, LabFile, LabRequest, LabRoot};
pub use run::{Boot, LabExit, LabOutcome, PreparedGuest, Streams, run};
pub use unpack::SkippedEntries;
pub use wire::GUEST_COMMAND;
