//! Loads with known options, and fields that fio has not.

use durio_base::Bytes;
use durio_plan::{EngineKind, Load};
use durio_workload::{BlockShare, Coverage, JumpShares, Pattern, PerMille, Skew};

use super::*;

const TERMS: ExportTerms = ExportTerms {
    limit: Limit::Operations(10),
    ramp: Nanos::ZERO,
    arrivals: Arrivals::Closed,
    first_job_ends_all: false,
};

fn places(count: u64) -> Vec<ExportPlace> {
    let place = |number: u64| ExportPlace {
        path: "/dev/disk/by-path/pci-0:1".into(),
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
    assert_eq!(value(&jobs[0], "filename"), Some("/dev/disk/by-path/pci-0\\:1"));
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
        (Workload { read_share: PerMille(700), ..Workload::default() }, "a place for each"),
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
