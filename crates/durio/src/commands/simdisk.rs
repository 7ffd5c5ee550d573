//! `durio simdisk`: disks that keep their word, or break it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use durio_base::did_you_mean;
use durio_bench::{BenchError, BenchErrorKind};
use durio_command::random_seed;
use durio_nbd::{Address, control_of};
use durio_prove::served::Advertisement;
use durio_prove::serving::{DiskOrder, DiskState, OrderAnswer, Serving, order, serve_disk};
use durio_simdisk::{Disk, NamedProfile, SharedDisk, ZOO, named};

use crate::args::{Control, Simdisk, SimdiskCommand, SimdiskServe};
use crate::exit_code::Exit;
use crate::output;
use crate::stop_signals::stop_on_signals;

pub(super) fn simdisk(arguments: &Simdisk) -> Result<Exit, BenchError> {
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

fn absolute(path: &Path) -> Result<PathBuf, BenchError> {
    std::path::absolute(path).map_err(|error| BenchError::io("find", path, error))
}

fn list() -> Result<Exit, BenchError> {
    let width = ZOO.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for named in ZOO {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:width$}  {}", named.name, named.about);
    }
    output::answer_text(&text)?;
    Ok(Exit::Fine)
}

fn serve(arguments: &SimdiskServe) -> Result<Exit, BenchError> {
    let named = known(&arguments.profile)?;
    let size = arguments.size.get();
    if size == 0 || !size.is_multiple_of(4096) || i64::try_from(size).is_err() {
        let text = format!("a disk has a multiple of 4 KiB, and not {}", arguments.size);
        return Err(BenchError::wrong_use(text));
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
    serve_disk(&disk, &serving, ready, &|| stop.is_set()).map_err(cannot)?;
    Ok(Exit::Fine)
}

/// The disk of this name.
pub(super) fn known(name: &str) -> Result<&'static NamedProfile, BenchError> {
    named(name).ok_or_else(|| {
        let names: Vec<&str> = ZOO.iter().map(|it| it.name).collect();
        let hint = did_you_mean(name, &names, "there are");
        BenchError::wrong_use(format!("unknown profile '{name}'")).hint(hint)
    })
}

fn cannot(error: durio_prove::serving::ServingError) -> BenchError {
    BenchError::of(BenchErrorKind::CannotMeasure, error)
}

fn ask(control: &Control, wanted: &DiskOrder) -> Result<DiskState, BenchError> {
    let nobody = |error| {
        cannot(error).hint("is a disk served there? durio simdisk serve --socket PATH serves one")
    };
    match order(&control_of(&control.socket), wanted).map_err(nobody)? {
        OrderAnswer::Done(state) => Ok(state),
        OrderAnswer::Refused { reason } => Err(BenchError::cannot_measure(reason)),
    }
}

fn tell(control: &Control, wanted: &DiskOrder) -> Result<Exit, BenchError> {
    ask(control, wanted)?;
    Ok(Exit::Fine)
}

fn show(control: &Control) -> Result<Exit, BenchError> {
    let state = ask(control, &DiskOrder::Stats)?;
    let mut bytes =
        serde_json::to_vec_pretty(&state).map_err(|it| BenchError::unmade(it.into()))?;
    bytes.push(b'\n');
    output::answer(&bytes)?;
    Ok(Exit::Fine)
}
