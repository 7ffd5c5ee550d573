//! Loads with known options, and fields that fio has not.

use durio_base::Bytes;
use durio_plan::{DrainPolicy, EngineKind, Load};
use durio_workload::{BlockShare, Coverage, GroupCommit, JumpShares, Pattern, PerMille, Skew};

use super::*;

const TERMS: ExportTerms = ExportTerms {
    limit: Limit::Operations(10),
    ramp: Nanos::ZERO,
    arrivals: Arrivals::Closed,
    first_job_ends_all: false,
};

fn places(count: u64) -> Vec<ExportPlace> {
    let place = |number: u64| ExportPlace {
        path: "/dev/disk/by-label/a\\x20b:1".into(),
        region: Region { offset: Bytes::new(number << 20), length: Bytes::from_mib(1) },
        cpus: vec![3, 5],
        seed: 9,
    };
    (0..count).map(place).collect()
}

fn exported(workload: Workload, terms: ExportTerms) -> Result<Vec<NamedOptions>, FioError> {
    let load = Load::new(0, workload, EngineKind::Fio);
    let places = places(load.workload.jobs.into());
    export_load(&load, "s", &places, terms)
}

#[track_caller]
fn value<'j>(job: &'j NamedOptions, name: &str) -> Option<&'j str> {
    let found: Vec<_> = job.options.iter().filter(|(option, _)| option == name).collect();
    assert!(found.len() <= 1, "{name} twice: {:?}", job.options);
    found.first().map(|(_, value)| value.as_str())
}

#[test]
fn each_job_has_its_region_and_its_share() {
    let workload = Workload { jobs: 3, ..Workload::default() };
    let jobs = exported(workload, TERMS).unwrap();
    let io_size: Vec<_> = jobs.iter().map(|job| value(job, "io_size").unwrap()).collect();
    assert_eq!(io_size, ["16384", "12288", "12288"]);
    assert_eq!(value(&jobs[2], "offset"), Some("2097152"));
    assert_eq!(value(&jobs[0], "filename"), Some("/dev/disk/by-label/a\\x20b\\:1"));
    assert_eq!(value(&jobs[0], "cpus_allowed"), Some("3,5"));
    assert_eq!((value(&jobs[0], "rw"), value(&jobs[0], "norandommap")), (Some("read"), None));
}

#[test]
fn a_mixed_load_has_its_mix_sizes_skew_and_rate() {
    let share = |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    let workload = Workload {
        pattern: Pattern::Random,
        read_share: PerMille::ALL,
        block_size: Bytes::from_kib(8),
        block_mix: vec![share(4, 600), share(8, 400)],
        skew: Skew::Zipf { theta_per_mille: 1200 },
        run_length: 4,
        jobs: 2,
        depth: 8,
        ..Workload::default()
    };
    let limit = Limit::Duration(Nanos::from_millis(1500));
    let arrivals = Arrivals::Poisson { rate_per_second: 500.0 };
    let terms = ExportTerms { limit, arrivals, ramp: Nanos::from_millis(200), ..TERMS };
    let jobs = exported(workload, terms).unwrap();
    for (name, expected) in [
        ("rw", "randread:4"),
        ("bssplit", "4096/60:8192/40"),
        ("blockalign", "4096"),
        ("random_distribution", "zipf:1.2"),
        ("rate_iops", "250"),
        ("rate_process", "poisson"),
        ("runtime", "1500000us"),
        ("ramp_time", "200000us"),
        ("ioengine", "io_uring"),
        ("iodepth", "8"),
        ("iodepth_batch", "4"),
    ] {
        assert_eq!(value(&jobs[1], name), Some(expected), "{name}");
    }
}

#[test]
fn jumps_of_reads_come_before_those_of_writes() {
    let workload = Workload {
        pattern: Pattern::Random,
        read_share: PerMille(700),
        coverage: Coverage::Independent,
        jumps: Some(JumpShares { reads: PerMille(250), writes: PerMille(600) }),
        ..Workload::default()
    };
    let jobs = exported(workload, TERMS).unwrap();
    assert_eq!(value(&jobs[0], "rwmixread"), Some("70"));
    assert_eq!(value(&jobs[0], "percentage_random"), Some("25,60"));
}

#[test]
fn times_are_whole_microseconds_that_are_never_less_than_those_meant() {
    for (nanos, expected) in [(1, "1us"), (1000, "1us"), (1001, "2us"), (2_999_999, "3000us")] {
        let time = Nanos::new(nanos);
        let terms = ExportTerms { limit: Limit::Duration(time), ramp: time, ..TERMS };
        let jobs = exported(Workload::default(), terms).unwrap();
        let found = ["runtime", "ramp_time"].map(|name| value(&jobs[0], name));
        assert_eq!(found, [Some(expected); 2], "{nanos} ns");
    }
}

#[test]
fn the_seed_of_each_place_fits_a_signed_number() {
    let load = Load::new(0, Workload { jobs: 3, ..Workload::default() }, EngineKind::Fio);
    let mut places = places(3);
    for (place, seed) in places.iter_mut().zip([9, 1_000_000, u64::MAX]) {
        place.seed = seed;
    }
    let jobs = export_load(&load, "s", &places, TERMS).unwrap();
    let seeds: Vec<_> = jobs.iter().map(|job| value(job, "randseed").unwrap()).collect();
    assert_eq!(seeds, ["4", "500000", "9223372036854775807"]);
}

#[test]
fn a_batch_is_what_is_submitted_together_and_never_more_than_the_depth() {
    for (submit_max, depth, expected) in [(3, 8, "3"), (8, 8, "8"), (64, 8, "8")] {
        let workload = Workload { depth, ..Workload::default() };
        let mut load = Load::new(0, workload, EngineKind::Fio);
        load.batch.submit_max = submit_max;
        let jobs = export_load(&load, "s", &places(1), TERMS).unwrap();
        let names = ["iodepth_batch", "iodepth_batch_complete_max", "iodepth_batch_complete_min"];
        let found = names.map(|name| value(&jobs[0], name).unwrap());
        assert_eq!(found, [expected, expected, "1"], "{submit_max} of {depth}");
    }
}

#[test]
fn what_fio_has_not_is_named() {
    let write = Workload { read_share: PerMille::NONE, ..Workload::default() };
    let synced = |method| Workload { sync: SyncPolicy::each(method), ..write.clone() };
    let random = Workload { pattern: Pattern::Random, ..Workload::default() };
    let odd = vec![
        BlockShare { size: Bytes::from_kib(4), weight: PerMille(333) },
        BlockShare { size: Bytes::from_kib(2), weight: PerMille(667) },
    ];
    let each = Coverage::EachOnce;
    let cases = [
        (synced(SyncMethod::RwfDsync), "rwf_dsync"),
        (synced(SyncMethod::FileRange), "sync_file_range"),
        (synced(SyncMethod::LinkedFsync), "linked_fsync"),
        (synced(SyncMethod::LinkedFdatasync), "use fdatasync"),
        (Workload { at_end: AtEnd::Reallocate, ..write.clone() }, "preallocated again"),
        (Workload { read_share: PerMille(705), ..random.clone() }, "705 thousandths"),
        (Workload { read_share: PerMille(700), ..Workload::default() }, "a position for each"),
        (Workload { block_mix: odd, ..random.clone() }, "333 thousandths"),
        (Workload { skew: Skew::Normal { deviation_per_mille: 100 }, ..random.clone() }, "normal"),
        (Workload { skew: Skew::Zipf { theta_per_mille: 1000 }, ..random.clone() }, "theta 1"),
        (Workload { coverage: each, run_length: 2, ..random }, "runs of blocks"),
    ];
    let limit = Limit::Duration(Nanos::from_secs(1));
    for (workload, part) in cases {
        let error = exported(workload, ExportTerms { limit, ..TERMS }).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let few = ExportTerms { limit: Limit::Operations(1), ..TERMS };
    assert!(exported(Workload { jobs: 2, ..Workload::default() }, few).is_err());
    let arrivals = Arrivals::Constant { rate_per_second: 10.5 };
    assert!(exported(Workload::default(), ExportTerms { arrivals, ..TERMS }).is_err());
}

#[test]
fn an_amount_is_shared_out_in_whole_blocks_and_in_bytes_where_they_have_several_sizes() {
    let io_sizes = |workload: Workload, limit| -> Vec<String> {
        let jobs = exported(workload, ExportTerms { limit, ..TERMS }).unwrap();
        jobs.iter().map(|job| value(job, "io_size").unwrap().to_owned()).collect()
    };
    let blocks = Workload { jobs: 3, block_size: Bytes::from_kib(8), ..Workload::default() };
    // Eleven blocks, the last of them for a single byte.
    let volume = Bytes::new(10 * 8192 + 1);
    let duration = Nanos::from_millis(2500);
    for limit in [Limit::Volume(volume), Limit::VolumeWithin { volume, duration }] {
        assert_eq!(io_sizes(blocks.clone(), limit), ["32768", "32768", "24576"]);
    }
    let share = |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    let mixed = Workload { block_mix: vec![share(4, 300), share(8, 700)], ..blocks.clone() };
    let odd = Limit::Volume(Bytes::new(100_001));
    assert_eq!(io_sizes(mixed.clone(), odd), ["33334", "33334", "33333"]);
    let both = Limit::VolumeWithin { volume, duration };
    let job = &exported(blocks, ExportTerms { limit: both, ..TERMS }).unwrap()[2];
    assert_eq!((value(job, "runtime"), value(job, "time_based")), (Some("2500000us"), None));
    let error = exported(mixed, TERMS).unwrap_err().to_string();
    assert!(error.contains("a number of accesses with several sizes"), "{error}");
}

#[test]
fn the_first_job_that_is_done_ends_all_others_only_where_that_is_wished() {
    for (wish, expected) in [(false, [None, None]), (true, [Some("1"), Some("all")])] {
        let terms = ExportTerms { first_job_ends_all: wish, ..TERMS };
        let jobs = exported(Workload { jobs: 2, ..Workload::default() }, terms).unwrap();
        for job in &jobs {
            assert_eq!(["exitall", "exit_what"].map(|name| value(job, name)), expected, "{wish}");
        }
    }
}

/// What is written, as fio has it; none of it for a job that only reads.
#[test]
fn contents_are_the_options_of_their_kind() {
    let names = [
        "zero_buffers",
        "buffer_pattern",
        "buffer_compress_percentage",
        "buffer_compress_chunk",
        "scramble_buffers",
        "refill_buffers",
        "dedupe_percentage",
    ];
    let of = |contents: Contents, renewal, duplicates, read_share| -> Vec<Option<String>> {
        let duplicates = PerMille(duplicates);
        let workload =
            Workload { contents, renewal, duplicates, read_share, ..Workload::default() };
        let jobs = exported(workload, TERMS).unwrap();
        names.iter().map(|name| value(&jobs[0], name).map(str::to_owned)).collect()
    };
    let zeros = |share| Contents::Compressible { zeros: PerMille(share) };
    let pattern = Contents::Pattern { bytes: vec![0x0d, 0xe0, 0x07] };
    let random = Contents::Incompressible;
    let (each, never, scrambled) = (Renewal::EachWrite, Renewal::Never, Renewal::Scrambled);
    for (contents, renewal, duplicates, expected) in [
        (zeros(1000), never, 0, [Some("1"), None, None, None, None, None, None]),
        (pattern, never, 0, [None, Some("0x0de007"), None, None, None, None, None]),
        (zeros(370), each, 0, [None, None, Some("37"), Some("4096"), Some("0"), Some("1"), None]),
        (random.clone(), scrambled, 0, [None, None, None, None, Some("1"), None, None]),
        (random.clone(), never, 0, [None, None, None, None, Some("0"), None, None]),
        (random.clone(), each, 120, [None, None, None, None, Some("0"), Some("1"), Some("12")]),
    ] {
        let expected = expected.map(|value| value.map(str::to_owned));
        assert_eq!(of(contents, renewal, duplicates, PerMille::NONE), expected);
    }
    let reader = of(random, scrambled, 0, PerMille::ALL);
    assert!(reader.iter().all(Option::is_none), "{reader:?}");
}

#[test]
fn advice_is_a_hint_and_none_is_said_too() {
    for (advice, expected) in [
        (None, "0"),
        (Some(AccessAdvice::Random), "random"),
        (Some(AccessAdvice::Sequential), "sequential"),
        (Some(AccessAdvice::NoReuse), "noreuse"),
    ] {
        let mut load = Load::new(0, Workload::default(), EngineKind::Fio);
        load.advice = advice;
        let jobs = export_load(&load, "s", &places(1), TERMS).unwrap();
        assert_eq!(value(&jobs[0], "fadvise_hint"), Some(expected), "{advice:?}");
    }
}

#[test]
fn the_ioengine_is_the_load_s_or_one_for_its_depth() {
    let of = |engine: Option<&str>, depth| {
        let workload = Workload { depth, ..Workload::default() };
        let mut load = Load::new(0, workload, EngineKind::Fio);
        load.fio_engine = engine.map(str::to_owned);
        let jobs = export_load(&load, "s", &places(1), TERMS).map_err(|error| error.to_string())?;
        let names = ["ioengine", "iodepth", "iodepth_batch", "slat_percentiles"];
        Ok::<_, String>(names.map(|name| value(&jobs[0], name).map(str::to_owned)))
    };
    for (engine, depth, expected) in [
        (None, 1, [Some("psync"), Some("1"), None, None]),
        (None, 2, [Some("io_uring"), Some("2"), Some("2"), Some("1")]),
        (Some("libaio"), 1, [Some("libaio"), Some("1"), Some("1"), Some("1")]),
        (Some("posixaio"), 6, [Some("posixaio"), Some("6"), Some("4"), Some("1")]),
        (Some("pvsync2"), 1, [Some("pvsync2"), Some("1"), None, None]),
    ] {
        let expected = expected.map(|value| value.map(str::to_owned));
        assert_eq!(of(engine, depth), Ok(expected), "{engine:?} {depth}");
    }
    for engine in ["sync", "psync", "vsync", "pvsync", "pvsync2"] {
        let error = of(Some(engine), 2).unwrap_err();
        assert!(error.contains(&format!("{engine} waits for each access")), "{error}");
    }
}

/// Files are durio's, times are those that durio records, and fio dies with it.
#[test]
fn every_job_leaves_files_and_the_page_cache_alone_and_shows_its_latencies() {
    let jobs = exported(Workload { jobs: 2, ..Workload::default() }, TERMS).unwrap();
    for (name, expected) in [
        ("allow_file_create", "0"),
        ("fallocate", "none"),
        ("invalidate", "0"),
        ("create_fsync", "0"),
        ("thread", "1"),
        ("disk_util", "0"),
        ("clat_percentiles", "1"),
        ("lat_percentiles", "1"),
    ] {
        assert_eq!(value(&jobs[1], name), Some(expected), "{name}");
    }
    assert_eq!([&jobs[0].name, &jobs[1].name], ["s.0", "s.1"]);
}

#[test]
fn what_fio_times_or_joins_otherwise_is_named() {
    let drain = DrainPolicy { take_min: 2, take_max: 4, refill_at: 1, think: None };
    let load = |change: &dyn Fn(&mut Load)| {
        let mut load = Load::new(0, Workload::default(), EngineKind::Fio);
        change(&mut load);
        export_load(&load, "s", &places(1), TERMS).unwrap_err().to_string()
    };
    let drains = load(&|load| load.drain = Some(drain));
    assert!(drains.contains("a queue that drains"), "{drains}");
    let blocks = load(&|load| load.blocking_syncs = true);
    assert!(blocks.contains("syncs that block their job"), "{blocks}");
    let shared = load(&|load| load.workload.group_commit = Some(GroupCommit::of(8)));
    assert!(shared.contains("committers that share"), "{shared}");
    let ramp = ExportTerms { ramp: Nanos::from_millis(1), ..TERMS };
    let error = exported(Workload::default(), ramp).unwrap_err().to_string();
    assert!(error.contains("a ramp before an amount"), "{error}");
    let random = Workload { pattern: Pattern::Random, ..Workload::default() };
    let mixed = Workload { read_share: PerMille(300), ..random.clone() };
    let paced = ExportTerms { arrivals: Arrivals::Constant { rate_per_second: 8.0 }, ..TERMS };
    let error = exported(mixed.clone(), paced).unwrap_err().to_string();
    assert!(error.contains("one rate for reads and writes"), "{error}");
    let pareto = Skew::Pareto { h_per_mille: 200 };
    let zones = |share| Zone { accesses: PerMille(share), size: PerMille(500) };
    let zones = Skew::Zones { zones: vec![zones(400), zones(600)] };
    let two = Workload { skew: zones, write_skew: Some(pareto.clone()), ..mixed };
    let error = exported(two, TERMS).unwrap_err().to_string();
    assert!(error.contains("different kinds of skew"), "{error}");
    let hot = Workload { skew: pareto, coverage: Coverage::EachOnce, ..random };
    let error = exported(hot, TERMS).unwrap_err().to_string();
    assert!(error.contains("fio then has no random map"), "{error}");
}

#[test]
fn each_method_of_syncing_has_its_option_and_says_after_how_many_writes() {
    let names = ["fsync", "fdatasync", "sync", "end_fsync", "direct"];
    let of = |method, every, syncs_at_end, read_share| -> Vec<Option<String>> {
        let (sync, read_share) = (SyncPolicy { method, every }, PerMille(read_share));
        let cache = if syncs_at_end { CacheMode::Buffered } else { CacheMode::Direct };
        let workload = Workload { sync, syncs_at_end, read_share, cache, ..Workload::default() };
        let jobs = exported(workload, TERMS).unwrap();
        names.iter().map(|name| value(&jobs[0], name).map(str::to_owned)).collect()
    };
    for (found, expected) in [
        (of(SyncMethod::None, 1, false, 0), [None, None, None, None, Some("1")]),
        (of(SyncMethod::Fsync, 8, false, 0), [Some("8"), None, None, None, Some("1")]),
        (of(SyncMethod::Fdatasync, 3, true, 0), [None, Some("3"), None, Some("1"), Some("0")]),
        (of(SyncMethod::ODsync, 1, false, 0), [None, None, Some("dsync"), None, Some("1")]),
        (of(SyncMethod::OSync, 1, true, 0), [None, None, Some("sync"), Some("1"), Some("0")]),
        (of(SyncMethod::None, 1, true, 1000), [None, None, None, None, Some("0")]),
    ] {
        assert_eq!(found, expected.map(|value| value.map(str::to_owned)));
    }
}

#[test]
fn a_rate_is_a_whole_number_of_each_job_from_1_to_what_32_bits_hold() {
    let of = |rate_per_second, jobs| {
        let arrivals = Arrivals::Constant { rate_per_second };
        let limit = Limit::Duration(Nanos::from_secs(1));
        let terms = ExportTerms { arrivals, limit, ..TERMS };
        let jobs = exported(Workload { jobs, ..Workload::default() }, terms).ok()?;
        Some(jobs.iter().map(|job| value(job, "rate_iops").unwrap().to_owned()).collect::<Vec<_>>())
    };
    let each = |rate: &str, jobs| Some(vec![rate.to_owned(); jobs]);
    assert_eq!((of(12.0, 4), of(4.0, 4)), (each("3", 4), each("1", 4)));
    assert_eq!([of(10.0, 4), of(2.0, 4), of(0.4, 1)], [None, None, None]);
    assert_eq!(of(4_294_967_295.0, 1), each("4294967295", 1));
    assert_eq!(of(4_294_967_296.0, 1), None);
}
