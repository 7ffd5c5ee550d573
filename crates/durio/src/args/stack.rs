//! The arguments of `durio stack`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_report::{PlanFormat, StackFormat};

use super::{InGuest, Measuring};
use crate::exit_code::TABLE;
use crate::values;

/// Show the layers below a path, and measure what each layer costs
///
/// A stack is what lies between a file and its devices: filesystem, volumes, RAID, caches. `show`
/// tells what is there. `plan` and `bench` take a spec that declares stacks from the bottom up:
/// durio builds one after the other, runs the same workloads on the raw devices, the array and the
/// filesystem, and takes everything down again, whatever happens.
///
///   durio stack show /var/lib/postgresql
///   durio stack plan
///   durio stack plan ram-layers
///   durio stack bench loop-layers --scale-time 0.1
///   durio stack clean
///
/// How to write a spec is in docs/formats/stack-spec.md.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Stack {
    #[command(subcommand)]
    pub(crate) command: StackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    Show(StackShow),
    Plan(StackPlan),
    Bench(Box<StackBenching>),
    Clean(StackClean),
}

/// Take down what a bench that was killed left behind
///
/// Before each step of a build its undo is written to a journal in the user's state folder. What a
/// dead bench built is taken down in reverse order, if it is still the very thing that was built;
/// what lives, and what is not durio's, is not touched. The next bench does the same at its begin.
///
/// The exit code is 3 if something could not be taken down; it stays in the journal.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct StackClean {}

/// Show the layers from a path to its devices
///
/// Nothing is written, and no right is needed. What cannot be read without it is left out.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct StackShow {
    /// Files, directories or devices
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// What to print on stdout: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::audit_format)]
    pub(crate) format: StackFormat,

    /// Read another machine, whose /sys and /proc are copied to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Show every command that a bench would run, with its undo, and its workloads with their times
///
/// Nothing is built, written or read. Without SPEC it lists the specs that durio brings along. Names
/// that only the kernel knows stand in braces.
///
///   durio stack plan
///   durio stack plan bitmap-cost
///   durio stack plan my-stacks.toml --only mirror-none --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackPlan {
    /// A TOML file, or the name of a spec that durio brings along
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    /// As for bench: permit to overwrite this block device
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    /// What to print on stdout: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = values::audit_format,
          help_heading = "Output")]
    pub(crate) format: PlanFormat,

    /// Print the JSON schema of stack specs
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}

/// Build the stacks of a spec one after the other, measure each layer, and take them down
///
/// Each stack is built layer by layer. After each layer its workloads run on it: on the devices, the
/// array, the filesystem. Then the stack is taken down and the next one built, so the raw devices are
/// measured anew for each, and drift is seen. What cannot be built or measured is recorded with its
/// reason, and the bench goes on with the next stack.
///
/// Only root can build; with --lab anybody can, and kernels without the modules do: the bench is done
/// in a throw-away virtual machine. By default its clock counts instructions: the figures are
/// software cost per I/O without contention, the same on any machine, and never speed.
///
/// Devices that durio makes need no permission; each existing device that the
/// spec names must be named by --destroy too. Ctrl-C takes the stack down and leaves the folder with
/// what was measured so far; pressed again it ends durio at once, and like after a kill `durio stack
/// clean` takes down the rest.
///
///   durio stack bench loop-layers
///   durio stack bench ram-layers --only xfs --only xfs-on-raid5 --scale-time 0.1
///   durio stack bench my-stacks.toml --destroy /dev/nvme1n1 --destroy /dev/nvme2n1
///   durio stack bench raid-modes --lab --scale-time 0.02 --scale-size 0.1
///
/// The result is a bench folder (docs/formats/bench-folder.md): a manifest, and a run folder for
/// each point. `durio report` takes both.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackBenching {
    /// A TOML file, or the name of a spec that durio brings along
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    /// In a guest of durio's lab (durio lab --help), not on this machine
    #[arg(long, help_heading = "Guest")]
    pub(crate) lab: bool,

    /// The guest's kernel: an image, or a release as durio lab kernels shows it [default: the newest]
    #[arg(long, value_name = "KERNEL", requires = "lab", help_heading = "Guest")]
    pub(crate) kernel: Option<PathBuf>,

    /// Its modules: the folder lib/modules/RELEASE [default: those beside the kernel]
    #[arg(long, value_name = "DIR", requires = "kernel", help_heading = "Guest")]
    pub(crate) modules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) guest: InGuest,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

// Which part of a spec, and how much of it; no doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
pub(crate) struct Choosing {
    /// Only this stack, by its full name (can be repeated)
    #[arg(long, value_name = "STACK", requires = "spec", help_heading = "What")]
    pub(crate) only: Vec<String>,

    /// Durations, ramps and pauses times this, to no less than 100 ms; figures are provisional then
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "How long, how large")]
    pub(crate) scale_time: u32,

    /// Sizes of devices that durio makes, files, regions and volumes times this, to whole MiB
    #[arg(long, value_name = "FACTOR", value_parser = values::scale, default_value = "1",
          requires = "spec", help_heading = "How long, how large")]
    pub(crate) scale_size: u32,

    /// Permit ladders that multiply to this many steps per point; more than 10000 need it
    #[arg(long, value_name = "N", requires = "spec", help_heading = "How long, how large")]
    pub(crate) confirm_steps: Option<u64>,
}
