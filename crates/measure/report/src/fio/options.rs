//! `job options`: the settings that were in effect, under fio's names.
//!
//! Lists a workload's settings as names and text. Settings that fio does not know (a private region
//! per job, batches) are left out.

use durio_analyse::{Findings, WorkloadFindings};
use durio_fio::import::ResultJob;
use durio_fio::json::OptionPairs;
use durio_fio::normal::JobHead;
use durio_plan::{EngineKind, Limit, Load, Plan, Step, Target, TargetKind};
use durio_workload::{Arrivals, CacheMode, Pattern, SyncMethod, Workload};

use crate::figures::whole;

pub(super) fn options(findings: &Findings, workload: &WorkloadFindings) -> OptionPairs {
    let step = findings.plan.steps.get(workload.step as usize);
    let load = step.and_then(|step| step.stream(workload.stream));
    let mut options = vec![
        ("name", workload.name.clone()),
        ("rw", pattern(&workload.definition).to_owned()),
        ("bs", workload.definition.block_size.get().to_string()),
        ("ioengine", engine(workload, load)),
        ("iodepth", workload.effective.depth.to_string()),
        ("numjobs", workload.effective.jobs.to_string()),
        // A load of several jobs is one row here, as with that option.
        ("group_reporting", "1".to_owned()),
        ("direct", u8::from(workload.effective.cache == CacheMode::Direct).to_string()),
    ];
    options.extend(mix(&workload.definition));
    options.extend(durability(&workload.definition));
    options.extend(load.and_then(|load| target(&findings.plan, load)).into_iter().flatten());
    options.extend(step.into_iter().flat_map(limit));
    options.extend(arrivals(workload));
    options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The description of a job before its run, from its record; none if the run ended before it.
pub(super) fn head(findings: &Findings, job: &ResultJob) -> Option<JobHead> {
    let workload = super::workload_at(findings, job.place)?;
    let step = findings.plan.steps.get(workload.step as usize);
    let load = step.and_then(|step| step.stream(workload.stream));
    let definition = &workload.definition;
    let mixes = [&definition.block_mix, &definition.write_block_mix];
    let mixed = mixes.into_iter().flatten().map(|share| share.size.get());
    let sizes: Vec<u64> = mixed.collect();
    let usual = definition.block_size.get();
    Some(JobHead {
        name: job.name.clone(),
        group: job.group,
        pattern: pattern(definition).to_owned(),
        block_bytes: (
            sizes.iter().copied().min().unwrap_or(usual),
            sizes.iter().copied().max().unwrap_or(usual),
        ),
        engine: engine(workload, load),
        depth: workload.effective.depth,
        copies: job.copies,
    })
}

type NamedOption = (&'static str, String);

fn pattern(workload: &Workload) -> &'static str {
    let random = workload.pattern == Pattern::Random;
    match (workload.reads(), workload.writes(), random) {
        (true, false, false) => "read",
        (true, false, true) => "randread",
        (true, true, false) => "rw",
        (true, true, true) => "randrw",
        (false, _, false) => "write",
        (false, _, true) => "randwrite",
    }
}

// fio's nearest: preadv2 and pwritev2, which durio's blocking engine uses for flags, are pvsync2.
fn engine(workload: &WorkloadFindings, load: Option<&Load>) -> String {
    let flags =
        matches!(workload.definition.sync.method, SyncMethod::RwfDsync | SyncMethod::RwfSync);
    let name = match workload.effective.engine {
        EngineKind::Sync if flags => "pvsync2",
        EngineKind::Fio => {
            load.and_then(|load| load.fio_engine.as_deref()).unwrap_or(EngineKind::Fio.fio_name())
        }
        engine => engine.fio_name(),
    };
    name.to_owned()
}

fn mix(workload: &Workload) -> Option<NamedOption> {
    let is_mixed = workload.reads() && workload.writes();
    // fio has whole percents.
    is_mixed.then(|| ("rwmixread", (workload.read_share.0 / 10).to_string()))
}

fn durability(workload: &Workload) -> Option<NamedOption> {
    let every = workload.sync.every.to_string();
    let option = match workload.sync.method {
        SyncMethod::None => return None,
        SyncMethod::Fsync | SyncMethod::LinkedFsync => ("fsync", every),
        // fio's nearest: it has neither links nor a range's sync that makes anything durable.
        SyncMethod::Fdatasync | SyncMethod::LinkedFdatasync | SyncMethod::FileRange => {
            ("fdatasync", every)
        }
        SyncMethod::ODsync | SyncMethod::RwfDsync => ("sync", "dsync".to_owned()),
        SyncMethod::OSync | SyncMethod::RwfSync => ("sync", "sync".to_owned()),
    };
    workload.writes().then_some(option)
}

fn target(plan: &Plan, load: &Load) -> Option<[NamedOption; 2]> {
    let target: &Target = plan.targets.get(load.target)?;
    let place = match &target.kind {
        TargetKind::Scripted => "scripted".to_owned(),
        _ => target.location.as_ref().map_or_else(|| target.name.clone(), ToString::to_string),
    };
    Some([("filename", place), ("size", target.size.get().to_string())])
}

fn limit(step: &Step) -> Vec<NamedOption> {
    let seconds = |time: durio_base::Nanos| format!("{}ms", time.get() / 1_000_000);
    let mut options = match step.limit {
        Limit::Duration(time) => vec![("runtime", seconds(time)), ("time_based", "1".to_owned())],
        Limit::Operations(count) => vec![("number_ios", count.to_string())],
        Limit::Volume(bytes) => vec![("io_size", bytes.get().to_string())],
        Limit::VolumeWithin { volume, duration } => {
            vec![("io_size", volume.get().to_string()), ("runtime", seconds(duration))]
        }
    };
    if step.ramp.get() > 0 {
        options.push(("ramp_time", seconds(step.ramp)));
    }
    options
}

// fio's rate is per job.
fn arrivals(workload: &WorkloadFindings) -> Vec<NamedOption> {
    let Some(open) = &workload.open_loop else { return Vec::new() };
    let each = open.offered_per_second / f64::from(workload.effective.jobs.max(1));
    let process =
        if matches!(open.arrivals, Arrivals::Poisson { .. }) { "poisson" } else { "linear" };
    vec![("rate_iops", whole(each).to_string()), ("rate_process", process.to_owned())]
}
