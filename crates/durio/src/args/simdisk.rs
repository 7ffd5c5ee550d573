//! The arguments of `durio simdisk`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_base::Bytes;

use crate::exit_code::TABLE;
use crate::values;

/// Serve simulated disks that keep their word, or break it in a known way
///
/// A simulated disk has a volatile cache, and a power switch: `durio simdisk cut` takes the power away
/// in one moment, with all that was not durable. QEMU, fio, libnbd and the kernel's client use it over
/// NBD.
#[derive(Debug, Args)]
pub(crate) struct Simdisk {
    #[command(subcommand)]
    pub(crate) command: SimdiskCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimdiskCommand {
    /// List the profiles, honest ones first
    List,
    Serve(SimdiskServe),
    /// Cut the power: the cache is gone but for its survivors, and nothing is answered any more
    Cut(Control),
    /// Give the power back
    Restore(Control),
    /// Show what a served disk has done, as JSON
    Stats(Control),
    /// Have a served disk lie from now on as another profile does
    Fault {
        /// A profile that lies, as durio simdisk list shows it
        #[arg(value_name = "PROFILE", value_parser = values::SIMDISK, hide_possible_values = true)]
        profile: String,

        #[command(flatten)]
        control: Control,
    },
    /// Serve a copy of a served disk, as it is now, on a second socket
    Fork {
        /// The socket of the copy
        #[arg(long, value_name = "PATH")]
        to: PathBuf,

        #[command(flatten)]
        control: Control,
    },
    /// Mark this moment in the log of a disk that is served with --record
    Mark {
        /// The mark, as replay-log --end-mark finds it
        #[arg(value_name = "NAME")]
        name: String,

        #[command(flatten)]
        control: Control,
    },
}

/// Serve a simulated disk over NBD until Ctrl-C
///
/// Says on stdout when it is ready, and at which URI. The disk lives in memory, and only what was
/// written takes any. Beside its socket stands a second one, PATH.control, for durio simdisk cut,
/// restore, stats, fault, fork and mark.
///
///   durio simdisk serve --profile flush-ignored --size 1G --socket /tmp/disk
///   fio --name=x --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/disk' --rw=randwrite --size=1G
///   durio simdisk cut --socket /tmp/disk; durio simdisk restore --socket /tmp/disk
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct SimdiskServe {
    /// The disk, as durio simdisk list shows it
    #[arg(long, value_name = "NAME", default_value = "write-back", value_parser = values::SIMDISK,
          hide_possible_values = true)]
    pub(crate) profile: String,

    /// Its size, a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) size: Bytes,

    /// The socket at which it is served
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,

    /// Serve it at this address instead; the control socket stays beside --socket
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Seed of what a cut leaves and of how it lies, to repeat it [default: a new one]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Do not tell clients of a cache, so that they send no flush
    #[arg(long)]
    pub(crate) no_flush: bool,

    /// Do not tell clients of FUA, so that they write and flush instead
    #[arg(long)]
    pub(crate) no_fua: bool,

    /// Write what clients do into a new file, as dm-log-writes does and replay-log reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Memory that its contents may take; writes that need more fail for lack of space
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) memory: Bytes,
}

#[derive(Debug, Args)]
pub(crate) struct Control {
    /// The disk's socket, as it was given to durio simdisk serve
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
}
