//! Durability, time, placement, and what is written.

use super::super::values;
use super::super::{
    CpuPolicy, DataOptions, DurabilityOptions, ExitScope, Given, PlacementOptions, SyncOpen,
    TimingOptions,
};
use super::settings::{Settings, complaint};
use crate::FioError;

/// Reads how writes are made durable.
pub(super) fn durability(settings: &Settings<'_>) -> Result<DurabilityOptions, FioError> {
    Ok(DurabilityOptions {
        open: settings.read("sync", |text, _| sync(text))?,
        fsync_every: settings.integer("fsync")?,
        fdatasync_every: settings.integer("fdatasync")?,
        fsync_at_end: settings.boolean("end_fsync")?,
        fsync_on_close: settings.boolean("fsync_on_close")?,
        fsync_after_layout: settings.boolean("create_fsync")?,
    })
}

fn sync(text: &str) -> Result<SyncOpen, String> {
    match text {
        "none" | "0" => Ok(SyncOpen::None),
        "sync" | "1" => Ok(SyncOpen::Sync),
        "dsync" => Ok(SyncOpen::Dsync),
        _ => Err(format!("{text:?} is none of: none, 0, sync, 1, dsync")),
    }
}

/// Reads how long the job runs. `exitall` is not here: it counts for all jobs.
pub(super) fn timing(settings: &Settings<'_>) -> Result<TimingOptions, FioError> {
    settings.flag("exitall")?;
    Ok(TimingOptions {
        runtime_us: settings.seconds("runtime")?,
        time_based: settings.flag("time_based")?,
        ramp_us: settings.seconds("ramp_time")?,
        start_delay_us: settings.read("startdelay", |text, _| start_delay(text))?,
        loops: settings.positive("loops")?,
        exit_all: None,
        exit_all_on_error: settings.flag("exitall_on_error")?,
        exit_scope: settings.read("exit_what", |text, _| exit_scope(text))?,
    })
}

fn exit_scope(text: &str) -> Result<ExitScope, String> {
    match text {
        "group" => Ok(ExitScope::Group),
        "stonewall" => Ok(ExitScope::Stonewall),
        "all" => Ok(ExitScope::All),
        _ => Err(format!("{text:?} is none of: group, stonewall, all")),
    }
}

/// `startdelay`: one time, or the least and the most.
fn start_delay(text: &str) -> Result<(u64, u64), String> {
    match values::pieces(text).as_slice() {
        [one] => values::seconds(one).map(|it| (it, it)),
        [least, most] => Ok((values::seconds(least)?, values::seconds(most)?)),
        _ => Err(format!("{text:?} is neither a time nor a range of times")),
    }
}

/// Reads on which CPUs and memory the job runs.
pub(super) fn placement(settings: &Settings<'_>) -> Result<PlacementOptions, FioError> {
    Ok(PlacementOptions {
        thread: settings.flag("thread")?,
        cpus: cpus(settings)?,
        cpu_policy: settings.read("cpus_allowed_policy", |text, _| cpu_policy(text))?,
        cpu_nodes: settings.read("numa_cpu_nodes", |text, _| values::node_list(text))?,
        memory: settings.read("numa_mem_policy", |text, _| values::memory_policy(text))?,
    })
}

/// `cpus_allowed` and `cpumask` set the same thing: the later one counts.
fn cpus(settings: &Settings<'_>) -> Result<Option<Given<Vec<u32>>>, FioError> {
    let Some(setting) = settings.later("cpus_allowed", "cpumask") else { return Ok(None) };
    let text = setting.value.as_deref().ok_or_else(|| complaint(setting, "it needs a value"))?;
    let value = if setting.name == "cpumask" {
        values::integer(text, 1024).and_then(values::cpu_mask)
    } else {
        values::cpu_list(text)
    };
    let value = value.map_err(|what| complaint(setting, &what))?;
    Ok(Some(Given { value, at: setting.at.clone() }))
}

fn cpu_policy(text: &str) -> Result<CpuPolicy, String> {
    match text {
        "shared" => Ok(CpuPolicy::Shared),
        "split" => Ok(CpuPolicy::Split),
        _ => Err(format!("{text:?} is none of: shared, split")),
    }
}

/// Reads what is written.
pub(super) fn data(settings: &Settings<'_>) -> Result<DataOptions, FioError> {
    Ok(DataOptions {
        compressible_percent: settings.percent("buffer_compress_percentage")?,
        compress_chunk_bytes: settings.size("buffer_compress_chunk")?,
        refill: settings.flag("refill_buffers")?,
        zeros: settings.flag("zero_buffers")?,
        scramble: settings.boolean("scramble_buffers")?,
        duplicate_percent: settings.percent("dedupe_percentage")?,
        pattern: settings.read("buffer_pattern", |text, _| values::pattern(text))?,
    })
}
