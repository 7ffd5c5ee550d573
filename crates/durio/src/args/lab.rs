//! The arguments of `durio lab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use durio_lab::{LabRequest, LabRoot, LabTiming};
use durio_report::Format;
use durio_units::{Bytes, Nanos};

use crate::values;

/// Exit codes of `lab run`, which are also those of whatever it runs.
const TABLE: &str = "\
Exit codes:
  the command's own; 128 + N if signal N ended it, 127 if there is no such command,
  126 if it cannot be run
  2    wrong use
  124  the time limit was reached
  125  durio or the guest failed: the reason is on stderr
  130  interrupted: Ctrl-C reaches the command, which has a minute to end, and what it
       wrote is brought out; a second one ends everything at once";

/// Run commands in a throw-away virtual machine, with another kernel or with root's rights
///
/// For what this machine's kernel has no modules for, or what only root may do: md, LVM, dm, btrfs,
/// RAM disks. Needs QEMU (Debian: qemu-system-x86) and a kernel with its modules; no right.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    Run(Box<LabRun>),
    Kernels(LabKernels),
    Compare(Box<LabCompare>),
}

/// Compare what each layer of a stack spec costs on two kernels
///
/// Benches the spec in guests with the one kernel and with the other, in turns (A B A B A B), and shows
/// how the cost per I/O of each layer has changed. With counted timing (the default) that is the cost
/// of the software, and repeats on any machine within about 1 % (Btrfs: 10 %).
///
/// A layer is called cheaper or dearer if the 95 % interval of B ÷ A (Welch's, of the logarithms of the
/// repeats) does not hold 1, no repeat of one kernel lies among those of the other, and the change is
/// at least 1 %. So chance calls about one layer in twenty changed at most. With --repeat 1 the figures
/// are shown and not judged.
///
///   durio lab compare --kernel 6.1.0-56-amd64 --kernel 6.12.95+deb12-amd64 bitmap-cost
///   durio lab compare --kernel A --kernel B --scale-time 0.1 --repeat 5 --format html my.toml >a.html
///
/// The result is a folder (docs/formats/lab-compare-folder.md) with a bench folder for each turn;
/// `durio report` takes it and them.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = crate::exit_code::TABLE)]
pub(crate) struct LabCompare {
    /// A TOML file, or the name of a stack spec that durio brings along
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    /// The kernel's image, or its release as durio lab kernels shows it; twice, the earlier one first
    #[arg(
        long = "kernel",
        value_name = "KERNEL",
        required = true,
        num_args = 1,
        help_heading = "Guest"
    )]
    pub(crate) kernels: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) guest: InGuest,

    #[command(flatten)]
    pub(crate) choosing: super::Choosing,

    /// Make the folder inside of this directory, not in the user's state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// What to print on stdout: text, json, html or csv
    #[arg(long, value_name = "FORMAT", default_value = "text",
          value_parser = values::comparison_format, help_heading = "Output")]
    pub(crate) format: Format,

    /// No progress on stderr
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// How often the spec is benched on each kernel, 1 to 100
    ///
    /// Each is a guest of its own, so that N repeats take 2 N times as long as one bench with --lab;
    /// --scale-time shortens it. How the repeats scatter says which changes are more than chance.
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Method",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,

    /// Seed of every random choice; the same on both kernels and in every repeat
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Method")]
    pub(crate) seed: u64,
}

// What a guest that benches is like; no doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
pub(crate) struct InGuest {
    /// What the guest's clock counts: instructions, or the host's time [default: counted]
    #[arg(long, value_name = "TIMING", help_heading = "Guest")]
    timing: Option<Timing>,

    /// Virtual processors, 1 to 64; counted timing has 1 [default: 1]
    #[arg(long, value_name = "N", help_heading = "Guest",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LabRequest::CPUS_MAX)))]
    cpus: Option<u32>,

    /// Memory of the guest, which holds its devices too [default: those of the largest stack and
    /// 1536 MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, help_heading = "Guest")]
    pub(crate) memory: Option<Bytes>,

    /// How long the guest may live, in this machine's time [default: 2h]
    #[arg(long, value_name = "TIME", value_parser = values::nanos, help_heading = "Guest")]
    time_limit: Option<Nanos>,
}

impl InGuest {
    /// What the guest's clock counts.
    pub(crate) fn timing(&self) -> LabTiming {
        self.timing.unwrap_or(Timing::Counted).into()
    }

    pub(crate) fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(1)
    }

    pub(crate) fn time_limit(&self) -> Duration {
        const DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);
        self.time_limit.map_or(DEFAULT, |limit| Duration::from_nanos(limit.get()))
    }

    /// True if anything was asked of a guest.
    pub(crate) fn is_given(&self) -> bool {
        let Self { timing, cpus, memory, time_limit } = self;
        timing.is_some() || cpus.is_some() || memory.is_some() || time_limit.is_some()
    }
}

/// Boot a guest, run one command in it as root, and end with its exit code
///
/// Output and errors of the command come out as they are; what it writes to the folder
/// $DURIO_LAB_OUT is brought out to --out. The guest has no network, and nothing that it does is
/// seen here.
///
///   durio lab run -- sh -c 'modprobe raid1; cat /proc/mdstat'
///   durio lab run --timing wall --cpus 2 -- nproc
///   durio lab run --root shared --out results -- sh -c 'fio job.fio > $DURIO_LAB_OUT/fio.txt'
///
/// With counted timing (the default) the guest's clock counts instructions: figures repeat on any
/// machine, under any load. They are software cost per I/O without contention, never speed, and
/// are marked so. With wall timing the clock is the host's, and KVM is used where it works: that
/// is tried first; else the guest is emulated, and stderr and the record say why.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct LabRun {
    /// The kernel to boot: an image, or a release as durio lab kernels shows it [default: the newest]
    #[arg(long, value_name = "KERNEL", help_heading = "Guest")]
    pub(crate) kernel: Option<PathBuf>,

    /// Its modules: the folder lib/modules/RELEASE [default: those beside the kernel]
    #[arg(long, value_name = "DIR", requires = "kernel", help_heading = "Guest")]
    pub(crate) modules: Option<PathBuf>,

    /// What the guest's clock counts: instructions, or the host's time
    #[arg(long, value_name = "TIMING", default_value = "counted", help_heading = "Guest")]
    pub(crate) timing: Timing,

    /// Virtual processors, 1 to 64; counted timing has 1
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Guest",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(LabRequest::CPUS_MAX)))]
    pub(crate) cpus: u32,

    /// Memory of the guest, which holds its files too
    #[arg(long, value_name = "SIZE", default_value_t = LabRequest::MEMORY_DEFAULT,
          value_parser = values::bytes, help_heading = "Guest")]
    pub(crate) memory: Bytes,

    /// How long the guest may live, in this machine's time
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = values::nanos,
          help_heading = "Guest")]
    pub(crate) time_limit: Nanos,

    /// Root of the guest: its own (hermetic), or this machine's read-only (shared) [default: hermetic
    /// where the timing is counted, else shared]
    ///
    /// A hermetic guest has durio, a shell, the usual programs and those for filesystems and arrays,
    /// as they are installed here. With a shared root it has all that is installed here; what it
    /// writes stays in its memory, and the folders /tmp, /run, /mnt and /var/tmp are empty.
    #[arg(long, value_name = "ROOT", help_heading = "Guest")]
    pub(crate) root: Option<Root>,

    /// Another program for a hermetic guest, with its libraries (can be repeated)
    #[arg(long = "tool", value_name = "PROGRAM", help_heading = "Contents")]
    pub(crate) tools: Vec<String>,

    /// A module that the kernel must have (can be repeated)
    #[arg(long = "module", value_name = "NAME", help_heading = "Contents")]
    pub(crate) needed_modules: Vec<String>,

    /// A file or folder that the guest gets a copy of, at the same path or at another one (can be
    /// repeated)
    #[arg(long = "file", value_name = "PATH[:GUEST_PATH]", help_heading = "Contents")]
    pub(crate) files: Vec<OsString>,

    /// Where to put what the command wrote to $DURIO_LAB_OUT: a folder that is empty or not there
    #[arg(long, value_name = "DIR", help_heading = "Contents")]
    pub(crate) out: Option<PathBuf>,

    /// Say on stderr what is booted, how long that took, and what the kernel said
    #[arg(long, short, help_heading = "Contents")]
    pub(crate) verbose: bool,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<OsString>,
}

/// List the kernels that can be booted, and which drivers of stacks they have
///
/// A kernel is looked for as /boot/vmlinuz-* with /lib/modules, and as a tree in ~/.cache/durio/kernels
/// ($XDG_CACHE_HOME/durio/kernels) and in the folders that DURIO_KERNELS names, between colons. A tree
/// has boot/vmlinuz-* or vmlinuz, and lib/modules/RELEASE or modules: an unpacked package is one.
///
///   apt-get download linux-image-6.1.0-56-amd64
///   dpkg-deb -x linux-image-6.1.0-56-amd64_*.deb ~/.cache/durio/kernels/6.1.0-56-amd64
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LabKernels {}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Timing {
    /// Instructions
    Counted,
    /// The host's time
    Wall,
}

impl From<Timing> for LabTiming {
    fn from(timing: Timing) -> Self {
        match timing {
            Timing::Counted => Self::Counted,
            Timing::Wall => Self::Wall,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Root {
    /// This machine's, read-only
    Shared,
    /// Its own memory
    Hermetic,
}

impl From<Root> for LabRoot {
    fn from(root: Root) -> Self {
        match root {
            Root::Shared => Self::Shared,
            Root::Hermetic => Self::Hermetic,
        }
    }
}

impl LabRun {
    /// The root that was chosen, or that which suits the timing: a shared one lets a counted clock
    /// jump ahead while the guest waits for the host.
    pub(crate) fn root(&self) -> LabRoot {
        match (self.root, self.timing) {
            (Some(root), _) => root.into(),
            (None, Timing::Counted) => LabRoot::Hermetic,
            (None, Timing::Wall) => LabRoot::Shared,
        }
    }
}
