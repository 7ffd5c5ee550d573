//! A load of a plan as jobs of fio: one fio job for each job of the load.
//!
//! In: a [`Load`], where each of its jobs works, when it ends. Out: options for fio's command line,
//! every field of the load honoured; or [`FioError::NotInFio`] with what cannot be. The inverse of
//! [`crate::import`]. Not here: files, running.

mod accesses;

use std::path::PathBuf;

use durio_plan::{Limit, Load};
use durio_units::Nanos;
use durio_workload::{Arrivals, AtEnd, CacheMode, Region, SyncMethod, SyncPolicy, Workload};

use crate::FioError;
use crate::installed::JobOptions;

/// Where one job works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPlace {
    /// The file or device, as fio can open it.
    pub path: PathBuf,
    /// The part that the job touches.
    pub region: Region,
    /// The processors that it may run on; none for any.
    pub cpus: Vec<u32>,
    /// Its seed.
    pub seed: u64,
}

/// When jobs begin accesses, and when they end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExportTerms {
    /// The limit of the load, all its jobs together.
    pub limit: Limit,
    /// Before the figures.
    pub ramp: Nanos,
    /// When accesses start, all jobs together.
    pub arrivals: Arrivals,
    /// The first job that is done ends all others.
    pub first_job_ends_all: bool,
}

/// The ioengines that a load may name: those that read and write files.
pub const ENGINES: [&str; 8] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio"];

/// The ioengine of a load: what it names, or else psync for depth 1 and io_uring for more.
#[must_use]
pub fn engine_of(load: &Load) -> &str {
    match &load.fio_engine {
        Some(engine) => engine,
        None if load.workload.depth == 1 => "psync",
        None => "io_uring",
    }
}

/// True if a job of this ioengine can have several accesses in flight.
#[must_use]
pub fn is_asynchronous(engine: &str) -> bool {
    matches!(engine, "libaio" | "io_uring" | "posixaio")
}

/// The fio jobs of a load, in the order of its jobs; `name` begins their names.
///
/// # Errors
/// [`FioError::NotInFio`] for the first field that fio cannot express.
pub fn export_load(
    load: &Load,
    name: &str,
    places: &[ExportPlace],
    terms: ExportTerms,
) -> Result<Vec<JobOptions>, FioError> {
    let common = common_options(load, terms)?;
    let count = u64::try_from(places.len()).unwrap_or(u64::MAX);
    (0..)
        .zip(places)
        .map(|(index, place)| {
            let mut options = place_options(place)?;
            options.extend(common.iter().cloned());
            options.extend(end_options(load, terms, (index, count))?);
            Ok(JobOptions { name: format!("{name}.{index}"), options })
        })
        .collect()
}

fn refuse<T>(what: impl Into<String>) -> Result<T, FioError> {
    Err(FioError::NotInFio { what: what.into() })
}

/// An option of fio.
type FioOption = (String, String);

#[expect(clippy::needless_pass_by_value, reason = "numbers and texts alike")]
fn option(name: &str, value: impl ToString) -> FioOption {
    (name.to_owned(), value.to_string())
}

fn common_options(load: &Load, terms: ExportTerms) -> Result<Vec<FioOption>, FioError> {
    let Load {
        target: _,
        more_targets: _,
        targets_each: _,
        workload,
        engine: _,
        fio_engine: _,
        batch,
        script: _,
        // Its own arrivals may be those of another round: `terms` has them.
        arrivals: _,
        // As processors in the places.
        placement: _,
        blocking_syncs,
        // In the terms.
        own_limit: _,
    } = load;
    if *blocking_syncs {
        return refuse("syncs that hold up their job in one fio and not in the next (3.41)");
    }
    let engine = engine_of(load);
    if workload.depth > 1 && !is_asynchronous(engine) {
        return refuse(format!("{engine} waits for each access: its depth is 1"));
    }
    let mut options = vec![
        option("ioengine", engine),
        option("iodepth", workload.depth),
        // Files are as durio made them, and stay.
        option("allow_file_create", 0),
        option("fallocate", "none"),
        option("invalidate", u8::from(workload.drops_cache_each_pass)),
        option("fadvise_hint", 0),
        option("create_fsync", 0),
        option("thread", 1),
        option("disk_util", 0),
        option("clat_percentiles", 1),
        option("lat_percentiles", 1),
    ];
    if is_asynchronous(engine) {
        let batch = batch.submit_max.min(workload.depth);
        options.push(option("iodepth_batch", batch));
        options.push(option("iodepth_batch_complete_min", 1));
        options.push(option("iodepth_batch_complete_max", batch));
        options.push(option("slat_percentiles", 1));
    }
    options.extend(workload_options(workload)?);
    options.extend(rate_options(workload, terms.arrivals)?);
    Ok(options)
}

fn workload_options(workload: &Workload) -> Result<Vec<FioOption>, FioError> {
    let mut options = accesses::options(workload)?;
    if workload.at_end == AtEnd::Reallocate {
        return refuse("a log that is preallocated again at the end of its segment");
    }
    options.push(option("direct", u8::from(workload.cache == CacheMode::Direct)));
    options.extend(sync_options(workload.sync)?);
    if workload.syncs_at_end && workload.writes() {
        options.push(option("end_fsync", 1));
    }
    if workload.writes() {
        options.extend(accesses::data_options(workload)?);
    }
    Ok(options)
}

fn sync_options(sync: SyncPolicy) -> Result<Vec<FioOption>, FioError> {
    Ok(match sync.method {
        SyncMethod::None => Vec::new(),
        SyncMethod::Fsync => vec![option("fsync", sync.every)],
        SyncMethod::Fdatasync => vec![option("fdatasync", sync.every)],
        SyncMethod::ODsync => vec![option("sync", "dsync")],
        SyncMethod::OSync => vec![option("sync", "sync")],
        SyncMethod::RwfDsync | SyncMethod::RwfSync => {
            return refuse(format!(
                "{} (fio knows no such flag); use o_dsync or o_sync",
                sync.method
            ));
        }
        SyncMethod::FileRange => {
            return refuse(
                "sync_file_range with the fdatasync after it that makes it durable; use fdatasync",
            );
        }
        SyncMethod::LinkedFsync | SyncMethod::LinkedFdatasync => {
            return refuse(format!(
                "{} (fio links no operations); use {}",
                sync.method,
                sync.method.unlinked()
            ));
        }
    })
}

/// Percent of a share in thousandths, which fio has no half ones of.
fn whole_percent(per_mille: u16, what: &str) -> Result<u16, FioError> {
    if per_mille.is_multiple_of(10) {
        return Ok(per_mille / 10);
    }
    refuse(format!("{what} of {per_mille} thousandths; fio has whole percents"))
}

fn rate_options(workload: &Workload, arrivals: Arrivals) -> Result<Vec<FioOption>, FioError> {
    let Some(rate) = arrivals.rate_per_second() else { return Ok(Vec::new()) };
    if workload.reads() && workload.writes() {
        return refuse("a rate of reads and writes together; fio paces each on its own");
    }
    let each = rate / f64::from(workload.jobs.max(1));
    let whole = each.round();
    if !(1.0..=f64::from(u32::MAX)).contains(&whole) || (each - whole).abs() > 1e-6 {
        return refuse(format!("{each} accesses per second and job; fio has whole numbers from 1"));
    }
    let process = if matches!(arrivals, Arrivals::Poisson { .. }) { "poisson" } else { "linear" };
    Ok(vec![option("rate_iops", whole), option("rate_process", process)])
}

fn place_options(place: &ExportPlace) -> Result<Vec<FioOption>, FioError> {
    let ExportPlace { path, region, cpus, seed } = place;
    let Some(path) = path.to_str() else {
        return refuse(format!("a path that is no text: '{}'", path.display()));
    };
    let mut options = vec![
        // A colon separates names.
        option("filename", path.replace('\\', "\\\\").replace(':', "\\:")),
        option("offset", region.offset.get()),
        option("size", region.length.get()),
        option("randseed", seed >> 1),
    ];
    if !cpus.is_empty() {
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        options.push(option("cpus_allowed", list.join(",")));
    }
    Ok(options)
}

/// The share of job `index` of `count`, as for durio's own jobs: the first ones take the rest.
fn share(all: u64, (index, count): (u64, u64)) -> u64 {
    let count = count.max(1);
    all / count + u64::from(index < all % count)
}

fn end_options(
    load: &Load,
    terms: ExportTerms,
    job: (u64, u64),
) -> Result<Vec<FioOption>, FioError> {
    let block = load.workload.block_size.get().max(1);
    let single = !load.workload.has_mix();
    let mut options = match terms.limit {
        Limit::Duration(duration) => vec![option("time_based", 1), time("runtime", duration)],
        Limit::Operations(count) if single => amount(share(count, job).saturating_mul(block))?,
        Limit::Operations(_) => {
            return refuse("a number of accesses of several sizes; give a duration");
        }
        Limit::Volume(bytes) => volume(bytes.get(), (single, block), job)?,
        Limit::VolumeWithin { volume: bytes, duration } => {
            let mut options = volume(bytes.get(), (single, block), job)?;
            options.push(time("runtime", duration));
            options
        }
    };
    if terms.ramp > Nanos::ZERO {
        if !matches!(terms.limit, Limit::Duration(_)) {
            return refuse("a ramp before an amount; give a duration");
        }
        options.push(time("ramp_time", terms.ramp));
    }
    if terms.first_job_ends_all {
        options.extend([option("exitall", 1), option("exit_what", "all")]);
    }
    Ok(options)
}

fn volume(
    bytes: u64,
    (single, block): (bool, u64),
    job: (u64, u64),
) -> Result<Vec<FioOption>, FioError> {
    match single {
        true => amount(share(bytes.div_ceil(block), job).saturating_mul(block)),
        false => amount(share(bytes, job)),
    }
}

fn amount(bytes: u64) -> Result<Vec<FioOption>, FioError> {
    match bytes {
        0 => refuse("a job without a single access; give fewer jobs or a larger amount"),
        bytes => Ok(vec![option("io_size", bytes)]),
    }
}

fn time(name: &str, span: Nanos) -> FioOption {
    option(name, format!("{}us", span.get().div_ceil(1000)))
}

#[cfg(test)]
mod tests;
