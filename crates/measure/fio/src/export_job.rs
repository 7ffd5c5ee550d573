//! A load of a plan as jobs of fio: one fio job for each job of the load.
//!
//! A [`Load`], the place where each job works and the time it ends become options for fio's command
//! line. Every field of the load is honoured, or [`FioError::NotInFio`] names those that cannot be.
//! The inverse of [`crate::import`].

use std::path::PathBuf;

use durio_base::Nanos;
use durio_plan::{AccessAdvice, Limit, Load};
use durio_workload::{
    Arrivals, AtEnd, BlockShare, ByteZone, CacheMode, Contents, Coverage, Pattern, PerMille,
    Region, Renewal, Skew, SyncMethod, SyncPolicy, Workload, Zone,
};

use crate::FioError;
use crate::installed::NamedOptions;

/// Where one job works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportPlace {
    /// The file or device, as fio can open it.
    pub path: PathBuf,
    /// The part that the job touches.
    pub region: Region,
    /// The processors that it may run on; none for any.
    pub cpus: Vec<u32>,
    pub seed: u64,
}

/// When jobs begin accesses, and when they end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExportTerms {
    /// The limit of the load, all its jobs together.
    pub limit: Limit,
    /// Time before the measurement.
    pub ramp: Nanos,
    /// When accesses start, all jobs together.
    pub arrivals: Arrivals,
    /// The first job that is done ends all others.
    pub first_job_ends_all: bool,
}

/// The ioengines that a load may name: those that read and write files.
pub const ENGINES: [&str; 8] =
    ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio"];

/// The ioengine of a load: the one it names, or else psync for depth 1 and io_uring for more.
pub fn engine_of(load: &Load) -> &str {
    match &load.fio_engine {
        Some(engine) => engine,
        None if load.workload.depth == 1 => "psync",
        None => "io_uring",
    }
}

/// True if a job of this ioengine can have several accesses in flight.
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
) -> Result<Vec<NamedOptions>, FioError> {
    let common = common_options(load, terms)?;
    let count = u64::try_from(places.len()).unwrap_or(u64::MAX);
    (0..)
        .zip(places)
        .map(|(index, place)| {
            let mut options = place_options(place)?;
            options.extend(common.iter().cloned());
            options.extend(end_options(load, terms, (index, count))?);
            Ok(NamedOptions { name: format!("{name}.{index}"), options })
        })
        .collect()
}

fn refuse<T>(what: impl Into<String>) -> Result<T, FioError> {
    Err(FioError::NotInFio { what: what.into() })
}

fn hint_of(advice: Option<AccessAdvice>) -> &'static str {
    match advice {
        None => "0",
        Some(AccessAdvice::Random) => "random",
        Some(AccessAdvice::Sequential) => "sequential",
        Some(AccessAdvice::NoReuse) => "noreuse",
    }
}

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
        file_order: _,
        drain,
        // fio's own time is another.
        completion_time: _,
        advice,
    } = load;
    if drain.is_some() {
        return refuse("a queue that drains before it is filled again");
    }
    if *blocking_syncs {
        return refuse("syncs that block their job in fio before 3.41 and not in later versions");
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
        // Before the step durio drops the cache itself; this is for the passes of fio.
        option("invalidate", u8::from(workload.drops_cache_each_pass)),
        // durio gives the kernel no advice either.
        option("fadvise_hint", hint_of(*advice)),
        option("create_fsync", 0),
        // If durio is killed, the kernel kills fio: as threads its jobs end with it.
        option("thread", 1),
        // durio reads these counters itself, before and after fio.
        option("disk_util", 0),
        // fio has the bins of those latencies alone whose percentiles are shown.
        option("clat_percentiles", 1),
        option("lat_percentiles", 1),
    ];
    // As durio does: completions are taken as soon as there is one, and refilled together.
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
    let mut options = access_options(workload)?;
    if workload.at_end == AtEnd::Reallocate {
        return refuse("a log that is preallocated again at the end of its segment");
    }
    options.push(option("direct", u8::from(workload.cache == CacheMode::Direct)));
    options.extend(sync_options(workload.sync)?);
    if workload.syncs_at_end && workload.writes() {
        options.push(option("end_fsync", 1));
    }
    if workload.writes() {
        options.extend(data_options(workload)?);
    }
    Ok(options)
}

fn sync_options(sync: SyncPolicy) -> Result<Option<FioOption>, FioError> {
    let method = sync.method;
    Ok(Some(match method {
        SyncMethod::None => return Ok(None),
        SyncMethod::Fsync => option("fsync", sync.every),
        SyncMethod::Fdatasync => option("fdatasync", sync.every),
        SyncMethod::ODsync => option("sync", "dsync"),
        SyncMethod::OSync => option("sync", "sync"),
        SyncMethod::RwfDsync | SyncMethod::RwfSync => {
            return refuse(format!("{method} (fio has no such flag); use o_dsync or o_sync"));
        }
        SyncMethod::FileRange => {
            return refuse(
                "sync_file_range with the fdatasync after it that makes it durable; use fdatasync",
            );
        }
        SyncMethod::LinkedFsync | SyncMethod::LinkedFdatasync => {
            let unlinked = method.unlinked();
            return refuse(format!("{method} (fio links no operations); use {unlinked}"));
        }
    }))
}

/// Percent of a share in thousandths, which fio has no half ones of.
fn whole_percent(per_mille: u16, what: &str) -> Result<u16, FioError> {
    if per_mille.is_multiple_of(10) {
        return Ok(per_mille / 10);
    }
    refuse(format!("{what} of {per_mille} thousandths; fio needs whole percentages"))
}

fn rate_options(workload: &Workload, arrivals: Arrivals) -> Result<Vec<FioOption>, FioError> {
    let Some(rate) = arrivals.rate_per_second() else { return Ok(Vec::new()) };
    if workload.reads() && workload.writes() {
        return refuse("one rate for reads and writes; fio paces them separately");
    }
    let each = rate / f64::from(workload.jobs.max(1));
    let whole = each.round();
    // fio keeps a rate in 32 bits, and takes 0 for none.
    if !(1.0..=f64::from(u32::MAX)).contains(&whole) || (each - whole).abs() > 1e-6 {
        return refuse(format!(
            "{each} accesses per second and job; fio needs whole numbers from 1"
        ));
    }
    let process = if matches!(arrivals, Arrivals::Poisson { .. }) { "poisson" } else { "linear" };
    Ok(vec![option("rate_iops", whole), option("rate_process", process)])
}

fn place_options(place: &ExportPlace) -> Result<Vec<FioOption>, FioError> {
    let ExportPlace { path, region, cpus, seed } = place;
    let Some(path) = path.to_str() else {
        return refuse(format!("a path that is not UTF-8: '{}'", path.display()));
    };
    let mut options = vec![
        // A colon separates names; before anything else fio takes a backslash as it is (get_next_str).
        option("filename", path.replace(':', "\\:")),
        option("offset", region.offset.get()),
        option("size", region.length.get()),
        // fio reads numbers as signed ones.
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
    // Blocks of one size are shared out whole: a job cannot do half of one.
    let part = |bytes: u64| match single {
        true => share(bytes.div_ceil(block), job).saturating_mul(block),
        false => share(bytes, job),
    };
    let (amount, duration) = match terms.limit {
        Limit::Duration(duration) => (None, Some(duration)),
        Limit::Operations(count) if single => (Some(share(count, job).saturating_mul(block)), None),
        Limit::Operations(_) => {
            return refuse("a number of accesses with several sizes; give a duration");
        }
        Limit::Volume(bytes) => (Some(part(bytes.get())), None),
        Limit::VolumeWithin { volume, duration } => (Some(part(volume.get())), Some(duration)),
    };
    let mut options = vec![match amount {
        // fio takes an io_size of 0 for none, and would move the whole region.
        Some(0) => {
            return refuse("a job without a single access; give fewer jobs or a larger amount");
        }
        Some(bytes) => option("io_size", bytes),
        // Without it fio ends once it has been through the region.
        None => option("time_based", 1),
    }];
    options.extend(duration.map(|duration| time("runtime", duration)));
    if terms.ramp > Nanos::ZERO {
        if amount.is_some() {
            return refuse("a ramp before an amount; give a duration");
        }
        options.push(time("ramp_time", terms.ramp));
    }
    if terms.first_job_ends_all {
        options.extend([option("exitall", 1), option("exit_what", "all")]);
    }
    Ok(options)
}

fn time(name: &str, span: Nanos) -> FioOption {
    // fio has no shorter unit.
    option(name, format!("{}us", span.get().div_ceil(1000)))
}

/// The options of the pattern. The fields that are named and not used are others' part.
fn access_options(workload: &Workload) -> Result<Vec<FioOption>, FioError> {
    let Workload {
        name: _,
        summary: _,
        pattern,
        read_share,
        block_size,
        block_mix,
        write_block_mix,
        skew,
        coverage,
        run_length,
        own_cursors,
        jumps,
        // fio does by the limit.
        cursors_wrap: _,
        write_skew,
        hole,
        align,
        contents: _,
        renewal: _,
        duplicates: _,
        // Each job's region is in its place.
        region: _,
        within: _,
        jobs: _,
        depth: _,
        sync: _,
        cache: _,
        at_end: _,
        drops_cache_each_pass: _,
        syncs_at_end: _,
        group_commit,
    } = workload;
    if group_commit.is_some() {
        return refuse("committers that share a log's syncs");
    }
    let mut options = Vec::new();
    let is_mixed = workload.reads() && workload.writes();
    let number = match pattern {
        Pattern::Sequential if is_mixed && !own_cursors => {
            return refuse(
                "sequential reads and writes at a shared position; fio has a position for each",
            );
        }
        Pattern::Random if is_mixed && *run_length > 1 && !own_cursors => {
            return refuse(
                "runs of reads and writes at a shared position; fio has a position for each",
            );
        }
        Pattern::Sequential => hole.get(),
        Pattern::Random => u64::from(*run_length),
    };
    let word = match (workload.reads(), workload.writes()) {
        (true, true) => "rw",
        (true, false) => "read",
        (false, _) => "write",
    };
    let (order, neutral) = if *pattern == Pattern::Random { ("rand", 1) } else { ("", 0) };
    let suffix = if number == neutral { String::new() } else { format!(":{number}") };
    options.push(option("rw", format!("{order}{word}{suffix}")));
    if is_mixed {
        options.push(option("rwmixread", whole_percent(read_share.0, "a share of reads")?));
    }
    options.extend(size_options(block_size.get(), block_mix, write_block_mix)?);
    if *pattern == Pattern::Random {
        let smallest = workload.block_sizes().first().map_or(block_size.get(), |size| size.get());
        let align = if align.get() > 0 { align.get() } else { smallest };
        options.push(option("blockalign", align));
        let goes_on = jumps.is_some() || *run_length > 1;
        options.extend(coverage_option(*coverage, goes_on, skew)?);
        options.extend(skew_option(skew, write_skew.as_ref())?);
        if let Some(jumps) = jumps {
            let reads = whole_percent(jumps.reads.0, "a share of jumps")?;
            let writes = whole_percent(jumps.writes.0, "a share of jumps")?;
            options.push(option("percentage_random", format!("{reads},{writes}")));
        }
    }
    Ok(options)
}

fn size_options(
    single: u64,
    mix: &[BlockShare],
    write_mix: &[BlockShare],
) -> Result<Vec<FioOption>, FioError> {
    if mix.is_empty() && write_mix.is_empty() {
        return Ok(vec![option("bs", single)]);
    }
    let reads = if mix.is_empty() { format!("{single}/100") } else { split(mix)? };
    let value = match write_mix {
        [] => reads,
        writes => format!("{reads},{}", split(writes)?),
    };
    Ok(vec![option("bssplit", value)])
}

fn split(mix: &[BlockShare]) -> Result<String, FioError> {
    let part = |share: &BlockShare| {
        let percent = whole_percent(share.weight.0, "a share of a block size")?;
        Ok(format!("{}/{percent}", share.size.get()))
    };
    let parts: Vec<String> = mix.iter().map(part).collect::<Result<_, FioError>>()?;
    Ok(parts.join(":"))
}

fn coverage_option(
    coverage: Coverage,
    goes_on: bool,
    skew: &Skew,
) -> Result<Option<FioOption>, FioError> {
    match coverage {
        Coverage::Independent => Ok(Some(option("norandommap", 1))),
        _ if !skew.is_uniform() => {
            refuse("blocks that are each accessed once, with a skew: fio then has no random map")
        }
        Coverage::EachOnce if goes_on => {
            refuse("runs of blocks that are each accessed once: fio's random map only tracks jumps")
        }
        Coverage::EachOnce | Coverage::JumpsOnce => Ok(None),
    }
}

fn skew_option(skew: &Skew, write_skew: Option<&Skew>) -> Result<Option<FioOption>, FioError> {
    let thousandths = |number: u32| f64::from(number) / 1000.0;
    let distribution = match skew {
        Skew::Uniform => return Ok(None),
        // fio refuses it: its formula divides by 1 − theta.
        Skew::Zipf { theta_per_mille: 1000 } => {
            return refuse("zipf with theta 1; use 0.999 or 1.001");
        }
        Skew::Zipf { theta_per_mille } => format!("zipf:{}", thousandths(*theta_per_mille)),
        Skew::Pareto { h_per_mille } => format!("pareto:{}", thousandths((*h_per_mille).into())),
        Skew::Normal { .. } => {
            return refuse("a normal distribution: fio's differs, and is scattered");
        }
        Skew::Zones { zones } => format!("zoned:{}", zone_list(zones)?),
        Skew::ByteZones { zones } => format!("zoned_abs:{}", byte_zone_list(zones)?),
    };
    let of_writes = match (skew, write_skew) {
        (_, None) => String::new(),
        (Skew::Zones { .. }, Some(Skew::Zones { zones })) => format!(",{}", zone_list(zones)?),
        (Skew::ByteZones { .. }, Some(Skew::ByteZones { zones })) => {
            format!(",{}", byte_zone_list(zones)?)
        }
        _ => return refuse("reads and writes with different kinds of skew"),
    };
    Ok(Some(option("random_distribution", distribution + &of_writes)))
}

fn zone_list(zones: &[Zone]) -> Result<String, FioError> {
    let zone = |zone: &Zone| {
        let accesses = whole_percent(zone.accesses.0, "a zone's share of accesses")?;
        let size = whole_percent(zone.size.0, "a zone's share of the region")?;
        Ok(format!("{accesses}/{size}"))
    };
    Ok(zones.iter().map(zone).collect::<Result<Vec<_>, FioError>>()?.join(":"))
}

fn byte_zone_list(zones: &[ByteZone]) -> Result<String, FioError> {
    let zone = |zone: &ByteZone| {
        let accesses = whole_percent(zone.accesses.0, "a zone's share of accesses")?;
        Ok(format!("{accesses}/{}", zone.size.get()))
    };
    Ok(zones.iter().map(zone).collect::<Result<Vec<_>, FioError>>()?.join(":"))
}

fn data_options(workload: &Workload) -> Result<Vec<FioOption>, FioError> {
    let Workload { contents, renewal, duplicates, .. } = workload;
    let mut options = match contents {
        Contents::Incompressible => Vec::new(),
        Contents::Compressible { zeros: PerMille::ALL } => {
            return Ok(vec![option("zero_buffers", 1)]);
        }
        Contents::Compressible { zeros } => {
            if *renewal != Renewal::EachWrite {
                return refuse("compressible buffers that are reused");
            }
            vec![
                option("buffer_compress_percentage", whole_percent(zeros.0, "a share of zeros")?),
                // durio spreads zeros over units of this size, too (durio-workload, block_filler).
                option("buffer_compress_chunk", 4096),
            ]
        }
        Contents::Pattern { bytes } => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            return Ok(vec![option("buffer_pattern", format!("0x{digits}"))]);
        }
    };
    options.push(option("scramble_buffers", u8::from(*renewal == Renewal::Scrambled)));
    if *renewal == Renewal::EachWrite {
        options.push(option("refill_buffers", 1));
    }
    if *duplicates > PerMille::NONE {
        let percent = whole_percent(duplicates.0, "a share of duplicates")?;
        options.push(option("dedupe_percentage", percent));
    }
    Ok(options)
}

#[cfg(test)]
mod tests;
