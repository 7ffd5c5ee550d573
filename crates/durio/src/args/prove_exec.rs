//! The arguments of `durio prove exec`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_lab::{LabRequest, LabRoot};
use durio_plan::proof::GuestFrontEnd;

use super::OutputArguments;
use crate::exit_code::TABLE;
use crate::values;

/// Prove whether what a command of yours acknowledges survives power cuts
///
/// Runs COMMAND in a guest of the lab with its files on a simulated disk, cuts the power of disk and
/// guest in one instant, boots again, and runs your check. Every cut begins with the disk as the setup
/// left it.
///
///   durio prove exec --disk flush-ignored --setup 'contrib/prove/sqlite.sh setup' \
///     --check 'contrib/prove/sqlite.sh check' -- contrib/prove/sqlite.sh load
///
/// The contract, for all three:
///
///   $DURIO_DATA          an empty folder on the disk's filesystem: what is kept there is tested
///   COMMAND              prints one line to stdout for each thing that it holds to be durable, such as
///                        "committed 17", unbuffered; runs until the power goes
///   $DURIO_ACKNOWLEDGED  a file with the lines that this machine had when the power went; for --check
///   --check              exits with 0 if all of them are there, with 1 if something is missing or
///                        corrupt; anything else decides nothing, and ends the proof with exit code 3
///
/// A filesystem that cannot be mounted after a cut counts as a loss. A cut counts if 32 lines came
/// before it; the first loss ends the proof. The result is a folder (docs/formats/proof-folder.md) that
/// `durio report` shows; `durio prove run --resume` goes on with it. docs/method/proof.md shows SQLite
/// and PostgreSQL.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveExec {
    /// The simulated disk, as durio simdisk list shows it; it lies when the setup has ended
    #[arg(long, value_name = "PROFILE", default_value = "write-back", value_parser = values::SIMDISK,
          hide_possible_values = true, help_heading = "What")]
    pub(crate) disk: String,

    /// What looks for losses after each cut; sh -c runs it
    #[arg(long, value_name = "SHELL_COMMAND", help_heading = "What")]
    pub(crate) check: String,

    /// What prepares $DURIO_DATA once, before the disk lies; sh -c runs it
    #[arg(long, value_name = "SHELL_COMMAND", help_heading = "What")]
    pub(crate) setup: Option<String>,

    /// Cuts without a loss after which the proof ends
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "What")]
    pub(crate) cuts: u32,

    /// How long the command runs from its first line to the cut; up to twice as long, by the seed
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "What")]
    pub(crate) load: Nanos,

    /// Seed of all random choices [default: a new one]
    #[arg(long, value_name = "NUMBER", help_heading = "What")]
    pub(crate) seed: Option<u64>,

    /// Size of the disk, 16 MiB to 4 GiB, a multiple of 4 KiB; it has ext4
    #[arg(long, value_name = "SIZE", default_value = "256MiB", help_heading = "Guest")]
    pub(crate) size: Bytes,

    /// The device that QEMU shows
    #[arg(long, value_name = "DEVICE", default_value = GuestFrontEnd::VirtioBlk.word(), help_heading = "Guest",
          value_parser = values::one_of(&GuestFrontEnd::ALL, GuestFrontEnd::word))]
    pub(crate) front_end: GuestFrontEnd,

    /// Whether that device has a volatile write cache; without it QEMU sends every write with FUA
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set,
          help_heading = "Guest")]
    pub(crate) write_cache: bool,

    /// Kernel to boot: an image, or a release as durio lab kernels lists it [default: the newest]
    #[arg(long, value_name = "KERNEL", help_heading = "Guest")]
    pub(crate) kernel: Option<String>,

    /// Root filesystem of the guest: this machine's, read-only (shared), or its own (hermetic)
    ///
    /// As for durio lab run: with a shared root the guest has everything that is installed here, and
    /// runs in the current folder; /tmp, /run, /mnt and /var/tmp are empty. A hermetic one has durio, a
    /// shell, the usual programs, COMMAND, and what --tool and --file add; it runs in $DURIO_DATA.
    #[arg(long, value_name = "ROOT", default_value = LabRoot::Shared.word(), help_heading = "Guest",
          value_parser = values::one_of(&LabRoot::ALL, LabRoot::word))]
    pub(crate) root: LabRoot,

    /// Memory of the guest, including its files
    #[arg(long, value_name = "SIZE", default_value_t = LabRequest::MEMORY_DEFAULT,
          help_heading = "Guest")]
    pub(crate) memory: Bytes,

    /// Time limit for each boot, in this machine's time
    #[arg(long, value_name = "TIME", default_value = "30m", help_heading = "Guest")]
    pub(crate) time_limit: Nanos,

    /// Add a program and its libraries to a hermetic guest (can be repeated)
    #[arg(long = "tool", value_name = "PROGRAM", help_heading = "Contents")]
    pub(crate) tools: Vec<String>,

    /// Copy this file or folder into the guest, to the same path or to GUEST_PATH (can be repeated)
    #[arg(long = "file", value_name = "PATH[:GUEST_PATH]", help_heading = "Contents")]
    pub(crate) files: Vec<OsString>,

    /// Create the folder in this directory instead of the state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<String>,
}
