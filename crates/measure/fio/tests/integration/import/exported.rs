//! What durio exports to fio is imported again as the same load.

use durio_base::{Bytes, Nanos};
use durio_fio::export_job::{ExportPlace, ExportTerms, export_load};
use durio_plan::{AccessAdvice, BatchPolicy, EngineKind, Limit, Load};
use durio_workload::{
    Arrivals, BlockShare, ByteZone, CacheMode, Contents, Coverage, JumpShares, Pattern, PerMille,
    Region, Renewal, Skew, SyncMethod, SyncPolicy, Workload, Zone,
};
use proptest::prelude::*;

use super::imported;

/// The job file of the only job of a load.
fn job_file(load: &Load, terms: ExportTerms) -> Option<String> {
    let region = load.workload.within.unwrap();
    let place = ExportPlace { path: "/dev/a".into(), region, cpus: vec![3], seed: 12 };
    let jobs = export_load(load, "s", &[place], terms).ok()?;
    let lines: Vec<String> =
        jobs[0].options.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    Some(format!("[s.0]\n{}", lines.concat()))
}

fn zones(first: u16) -> Skew {
    let zone = |accesses, size| Zone { accesses: PerMille(accesses), size: PerMille(size) };
    Skew::Zones { zones: vec![zone(first, 150), zone(1000 - first, 850)] }
}

fn byte_zones(first: u16) -> Skew {
    let zone =
        |accesses, kib| ByteZone { accesses: PerMille(accesses), size: Bytes::from_kib(kib) };
    Skew::ByteZones { zones: vec![zone(first, 640), zone(1000 - first, 2048)] }
}

fn mix(first: u16) -> Vec<BlockShare> {
    let share = |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    vec![share(4, first), share(16, 1000 - first)]
}

/// Numbers from which a load is made: each decides one of its fields.
type Choices = [u8; 16];

/// A load that fio can do, with every field at its own value.
fn made(choices: Choices) -> (Load, ExportTerms) {
    let [
        kind,
        order,
        going_on,
        sizes,
        skew,
        map,
        hole,
        data,
        sync,
        cache,
        depth,
        limit,
        rate,
        offset,
        share,
        ramp,
    ] = choices;
    // Shares of whole percents, none of them at an end.
    let percent = |choice: u8| PerMille(u16::from(choice % 90 + 5) * 10);
    let read_share = [PerMille::ALL, PerMille::NONE, percent(share)][usize::from(kind % 3)];
    let pattern = if order % 3 == 0 { Pattern::Sequential } else { Pattern::Random };
    let is_random = pattern == Pattern::Random;
    let (reads, writes) = (read_share > PerMille::NONE, read_share < PerMille::ALL);
    let is_mixed = reads && writes;
    let run_length = if is_random && going_on % 2 == 1 { u32::from(going_on) } else { 1 };
    let jumps = (is_random && going_on % 4 > 1)
        .then(|| JumpShares { reads: percent(going_on), writes: percent(share / 2) });
    let goes_on = run_length > 1 || jumps.is_some();
    let (block_mix, write_block_mix) = match sizes % 4 {
        0 => (mix(300), Vec::new()),
        1 if is_mixed => (mix(200), mix(600)),
        _ => (Vec::new(), Vec::new()),
    };
    let is_single = block_mix.is_empty();
    let block_size = if is_single { 4096 << (sizes % 3) } else { 16_384 };
    let (skew, write_skew) = match skew % 8 {
        _ if !is_random => (Skew::Uniform, None),
        0 => (Skew::Zipf { theta_per_mille: 1100 + u32::from(share) }, None),
        1 => (Skew::Pareto { h_per_mille: 100 + u16::from(share) }, None),
        2 => (zones(700), is_mixed.then(|| zones(400))),
        3 => (byte_zones(600), is_mixed.then(|| byte_zones(100))),
        _ => (Skew::Uniform, None),
    };
    let coverage = match (skew.is_uniform() && is_random && map % 2 == 0, goes_on) {
        (true, true) => Coverage::JumpsOnce,
        (true, false) => Coverage::EachOnce,
        (false, _) => Coverage::Independent,
    };
    let is_free = is_random && coverage == Coverage::Independent;
    let aligns = is_free && is_single && skew.is_uniform() && map % 3 == 1;
    let is_timed = limit % 2 == 0;
    let is_direct = cache % 2 == 0;
    let (contents, renewal, duplicates) = match data % 8 {
        _ if !writes => (Contents::Incompressible, Renewal::EachWrite, PerMille::NONE),
        0 => (Contents::Compressible { zeros: percent(data) }, Renewal::EachWrite, PerMille::NONE),
        1 => (Contents::Incompressible, Renewal::Never, PerMille::NONE),
        2 => (Contents::Incompressible, Renewal::EachWrite, percent(data)),
        3 => (Contents::Incompressible, Renewal::EachWrite, PerMille::NONE),
        // fio changes neither.
        4 => (Contents::Compressible { zeros: PerMille::ALL }, Renewal::Never, PerMille::NONE),
        5 => {
            let bytes = vec![0x0d, 0xe0, data];
            (Contents::Pattern { bytes }, Renewal::Never, PerMille::NONE)
        }
        _ => (Contents::Incompressible, Renewal::Scrambled, PerMille::NONE),
    };
    let method = match sync % 5 {
        _ if !writes => SyncMethod::None,
        0 => SyncMethod::Fsync,
        1 => SyncMethod::Fdatasync,
        2 => SyncMethod::OSync,
        3 => SyncMethod::ODsync,
        _ => SyncMethod::None,
    };
    let is_call = method.is_separate_call();
    let every = if is_call { u32::from(sync / 5) + 1 } else { 1 };
    let sync_policy = match method {
        SyncMethod::None => SyncPolicy::NONE,
        method => SyncPolicy { method, every },
    };
    // libaio waits in its syncs until fio 3.41, so such a load is not exported.
    let (engine, depth) = match depth % 3 {
        0 => (EngineKind::Sync, 1),
        1 if !is_call => (EngineKind::Aio, u32::from(depth)),
        _ => (EngineKind::Uring, u32::from(depth)),
    };
    let workload = Workload {
        name: "s.0".into(),
        pattern,
        read_share,
        block_size: Bytes::new(block_size),
        block_mix,
        write_block_mix,
        skew,
        write_skew,
        coverage,
        run_length,
        own_cursors: match pattern {
            Pattern::Sequential => is_mixed,
            Pattern::Random => jumps.is_some() || is_mixed && run_length > 1,
        },
        jumps,
        cursors_wrap: is_random && goes_on && is_timed,
        hole: Bytes::new(if is_random { 0 } else { u64::from(hole % 3) * 8192 }),
        align: Bytes::new(if aligns { 512 } else { 0 }),
        contents,
        renewal,
        duplicates,
        depth,
        sync: sync_policy,
        cache: if is_direct { CacheMode::Direct } else { CacheMode::Buffered },
        drops_cache_each_pass: !is_direct && is_timed && !is_free && cache % 4 == 1,
        syncs_at_end: writes && !(is_call && every == 1) && sync % 2 == 0,
        within: Some(Region {
            offset: Bytes::new(u64::from(offset) * 65_536),
            length: Bytes::from_mib(8 + u64::from(share)),
        }),
        ..Workload::default()
    };
    let amount = Bytes::new(block_size * (u64::from(limit) + 3));
    let terms = ExportTerms {
        limit: match limit % 4 {
            0 | 2 => Limit::Duration(Nanos::from_millis(100 * (u64::from(limit) + 1))),
            1 => Limit::Volume(amount),
            _ => Limit::VolumeWithin { volume: amount, duration: Nanos::from_secs(7) },
        },
        ramp: if is_timed { Nanos::from_millis(u64::from(ramp)) } else { Nanos::ZERO },
        arrivals: match rate % 4 {
            0 if !is_mixed => Arrivals::Constant { rate_per_second: f64::from(rate) + 10.0 },
            1 if !is_mixed => Arrivals::Poisson { rate_per_second: f64::from(rate) + 20.0 },
            _ => Arrivals::Closed,
        },
        first_job_ends_all: ramp % 2 == 1,
    };
    let mut load = Load::new(0, workload, EngineKind::Fio);
    load.batch = BatchPolicy { submit_max: if depth == 1 { 1 } else { depth.div_ceil(2) } };
    load.fio_engine = Some(
        match engine {
            EngineKind::Sync => "pvsync",
            EngineKind::Aio => "libaio",
            _ => "io_uring",
        }
        .to_owned(),
    );
    load.advice = match hole % 4 {
        0 => None,
        1 => Some(AccessAdvice::Random),
        2 => Some(AccessAdvice::Sequential),
        _ => Some(AccessAdvice::NoReuse),
    };
    (load, terms)
}

fn engine_of(load: &Load) -> EngineKind {
    match load.fio_engine.as_deref() {
        Some("libaio") => EngineKind::Aio,
        Some("io_uring") => EngineKind::Uring,
        _ => EngineKind::Sync,
    }
}

/// Whether the load is exported; then its import is the same load.
fn comes_back(choices: Choices) -> bool {
    let (load, terms) = made(choices);
    load.workload.validate().unwrap();
    let Some(text) = job_file(&load, terms) else { return false };
    let plan = imported(&text).unwrap_or_else(|refused| panic!("{text}\n{refused:?}")).plan;
    let [step] = plan.steps.as_slice() else { panic!("{text}\n{:?}", plan.steps) };
    let found = &step.load;
    assert_eq!(found.workload, load.workload, "{text}");
    assert_eq!((found.engine, found.batch), (engine_of(&load), load.batch), "{text}");
    assert_eq!((found.arrivals, found.advice), (terms.arrivals, load.advice), "{text}");
    assert_eq!((step.limit, step.ramp), (terms.limit, terms.ramp), "{text}");
    assert_eq!(step.first_job_ends_all, terms.first_job_ends_all, "{text}");
    assert_eq!(found.placement, durio_plan::Placement::Cpus(vec![3]), "{text}");
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn every_exported_option_is_imported_as_what_it_was(choices in any::<Choices>()) {
        // All of these loads are ones that fio has.
        prop_assert!(comes_back(choices));
    }
}

#[test]
fn a_load_with_everything_is_this_job_file_and_comes_back() {
    let (load, terms) = made([2, 1, 7, 1, 7, 0, 0, 2, 6, 1, 8, 4, 2, 5, 61, 9]);
    let text = job_file(&load, terms).unwrap();
    for line in [
        "filename=/dev/a",
        "offset=327680",
        "size=72351744",
        "ioengine=io_uring",
        "iodepth=8",
        "iodepth_batch=4",
        "rw=randrw:7",
        "rwmixread=66",
        "bssplit=4096/20:16384/80,4096/60:16384/40",
        "percentage_random=12,35",
        "fdatasync=2",
        "dedupe_percentage=7",
        "refill_buffers=1",
        "end_fsync=1",
        "direct=0",
        "invalidate=1",
        "time_based=1",
        "runtime=500000us",
        "ramp_time=9000us",
        "cpus_allowed=3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
    }
    assert!(!text.contains("norandommap"), "{text}");
}
