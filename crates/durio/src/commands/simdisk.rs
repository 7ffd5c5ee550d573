//! `durio simdisk`: disks that keep their word, or break it.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use durio_base::{Bytes, did_you_mean};
use durio_command::{CommandError, random_seed};
use durio_nbd::{Address, control_of};
use durio_prove::serving::Advertisement;
use durio_prove::serving::{DiskOrder, DiskState, OrderAnswer, Serving, order, serve_disk};
use durio_simdisk::{Disk, NamedProfile, SharedDisk, ZOO, named};

use crate::exit_code::{Exit, TABLE};
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Serve simulated disks that are honest, or lie in a known way
///
/// A simulated disk has a volatile cache and a power switch: `durio simdisk cut` cuts the power at
/// once and loses everything that was not durable. QEMU, fio, libnbd and the kernel's client can
/// use it over NBD.
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
    /// Cut the power: the cache is lost except for random survivors, and requests get no answer
    Cut(Control),
    /// Restore the power after a cut
    Restore(Control),
    /// Show the statistics of a served disk as JSON
    Stats(Control),
    /// Make a served disk lie from now on, as another profile does
    Fault {
        /// Lying profile, as listed by durio simdisk list
        #[arg(value_name = "PROFILE", value_parser = values::SIMDISK, hide_possible_values = true)]
        profile: String,

        #[command(flatten)]
        control: Control,
    },
    /// Serve a copy of a served disk in its current state on a second socket
    Fork {
        /// Socket of the copy
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
/// Prints a line with its URI on stdout when it is ready. The disk is in memory; only written data
/// takes space. A second socket, PATH.control, is for durio simdisk cut, restore, stats, fault, fork
/// and mark.
///
///   durio simdisk serve --profile flush-ignored --size 1G --socket /tmp/disk
///   fio --name=x --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/disk' --rw=randwrite --size=1G
///   durio simdisk cut --socket /tmp/disk; durio simdisk restore --socket /tmp/disk
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct SimdiskServe {
    /// Disk profile, as listed by durio simdisk list
    #[arg(long, value_name = "NAME", default_value = "write-back", value_parser = values::SIMDISK,
          hide_possible_values = true)]
    pub(crate) profile: String,

    /// Size, a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(crate) size: Bytes,

    /// Socket to serve at
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,

    /// Serve at this address instead; the control socket is still derived from --socket
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Seed of what a cut leaves and of how the disk lies [default: a new one]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,

    /// Do not announce a cache, so that clients send no flushes
    #[arg(long)]
    pub(crate) no_flush: bool,

    /// Do not announce FUA, so that clients write and flush instead
    #[arg(long)]
    pub(crate) no_fua: bool,

    /// Log client requests to a new file, in the format of dm-log-writes and replay-log
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,

    /// Memory limit of the contents; writes beyond it fail with ENOSPC
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) memory: Bytes,
}

#[derive(Debug, Args)]
pub(crate) struct Control {
    /// Socket of the disk, as given to durio simdisk serve
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
}

pub(super) fn simdisk(arguments: &Simdisk) -> Result<Exit, CommandError> {
    match &arguments.command {
        SimdiskCommand::List => list(),
        SimdiskCommand::Serve(arguments) => serve(arguments),
        SimdiskCommand::Cut(control) => tell(control, &DiskOrder::Cut),
        SimdiskCommand::Restore(control) => tell(control, &DiskOrder::Restore),
        SimdiskCommand::Stats(control) => show(control),
        SimdiskCommand::Fault { profile, control } => {
            let profile = known(profile)?.name.to_owned();
            tell(control, &DiskOrder::Fault { profile })
        }
        SimdiskCommand::Fork { to, control } => {
            tell(control, &DiskOrder::Fork { socket: absolute(to)? })
        }
        SimdiskCommand::Mark { name, control } => {
            tell(control, &DiskOrder::Mark { name: name.clone() })
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|error| CommandError::io("find", path, error))
}

fn list() -> Result<Exit, CommandError> {
    let width = ZOO.iter().map(|disk| disk.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for named in ZOO {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:width$}  {}", named.name, named.about);
    }
    output::answer_text(&text)?;
    Ok(Exit::Fine)
}

fn serve(arguments: &SimdiskServe) -> Result<Exit, CommandError> {
    let named = known(&arguments.profile)?;
    let size = arguments.size.get();
    if size == 0 || !size.is_multiple_of(4096) || i64::try_from(size).is_err() {
        let text =
            format!("the size of a disk must be a multiple of 4 KiB, not {}", arguments.size);
        return Err(CommandError::wrong_use(text));
    }
    let seed = arguments.seed.unwrap_or_else(random_seed);
    let profile = named.profile(size);
    let flush = profile.declares_cache() && !arguments.no_flush;
    let advertised =
        Advertisement { flush, fua: flush && !arguments.no_fua, memory: arguments.memory.get() };
    let address = match arguments.listen {
        Some(address) => {
            output::warn_of_reach(address, "can read and write the disk: it has no password");
            Address::Tcp(address)
        }
        // The URI is for clients anywhere.
        None => Address::Unix(absolute(&arguments.socket)?),
    };
    let serving = Serving {
        address,
        control: control_of(&arguments.socket),
        advertised,
        log: arguments.record.clone(),
    };
    let disk = SharedDisk::new(Disk::new(profile, seed));
    let stop = stop_on_signals()?;
    output::remark(&format!("durio: seed {seed}"));
    let ready = |uri: &durio_nbd::Uri| {
        // A caller that stopped listening does not want the disk either; the next signal ends it.
        let _ = output::answer_text(&format!("ready: {uri}\n"));
    };
    serve_disk(&disk, &serving, ready, &|| stop.is_set())?;
    Ok(Exit::Fine)
}

/// The disk of this name.
pub(super) fn known(name: &str) -> Result<&'static NamedProfile, CommandError> {
    named(name).ok_or_else(|| {
        let names: Vec<&str> = ZOO.iter().map(|disk| disk.name).collect();
        let hint = did_you_mean(name, &names, "there are");
        CommandError::wrong_use(format!("unknown profile '{name}'")).hint(hint)
    })
}

fn ask(control: &Control, wanted: &DiskOrder) -> Result<DiskState, CommandError> {
    let nobody = |error: CommandError| {
        error.hint("is a disk served there? durio simdisk serve --socket PATH serves one")
    };
    match order(&control_of(&control.socket), wanted).map_err(nobody)? {
        OrderAnswer::Done(state) => Ok(state),
        OrderAnswer::Refused { reason } => Err(CommandError::cannot_measure(reason)),
    }
}

fn tell(control: &Control, wanted: &DiskOrder) -> Result<Exit, CommandError> {
    ask(control, wanted)?;
    Ok(Exit::Fine)
}

fn show(control: &Control) -> Result<Exit, CommandError> {
    let state = ask(control, &DiskOrder::Stats)?;
    let mut bytes =
        serde_json::to_vec_pretty(&state).map_err(|error| CommandError::unmade(error.into()))?;
    bytes.push(b'\n');
    output::answer(&bytes)?;
    Ok(Exit::Fine)
}
