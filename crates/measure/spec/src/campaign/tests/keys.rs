//! Where each key of a step goes in the plan, and what holds where it is not said.

use durio_plan::{
    AccessAdvice, BatchPolicy, EngineKind, Goal, Limit, ParameterValue, Placement, Rounds,
    TargetKind, Tracking,
};
use durio_workload::{
    Arrivals, AtEnd, BlockShare, CacheMode, Contents, Coverage, Pattern, Region, Skew, SyncPolicy,
    Workload, Zone,
};

use super::*;

/// The only step with these lines.
fn step(lines: &str) -> Step {
    let plan = plan_of(&spec(&format!("[[step]]\nname = \"s\"\n{lines}")));
    let steps = measured(&plan);
    let [step] = steps.as_slice() else { panic!("{steps:?}") };
    (*step).clone()
}

/// The load of a step with these lines; other tests hold its name and summary.
fn workload(lines: &str) -> Workload {
    let (name, summary) = (String::new(), String::new());
    Workload { name, summary, ..step(lines).load.workload }
}

/// The same on two devices of 1 TiB.
fn on_two_devices(lines: &str) -> Result<Step, SpecError> {
    let text = format!(
        "schema = 1\nname = \"x\"\n[[target]]\nname = \"d\"\n[[step]]\nname = \"s\"\n{lines}"
    );
    let mut request = request(&text, DEVICE)?;
    let second = Location { path: RawPath::from("/dev/b"), ..request.places[0][0].clone() };
    request.places[0].push(second);
    let plan = plan_campaign(&request)?.plan;
    Ok(measured(&plan)[0].clone())
}

#[test]
fn every_key_of_a_random_load_is_its_own_field() {
    let lines = "pattern = \"random\"\nreads = \"37.5%\"\nblock_size = \"16KiB\"\n\
                 skew = \"zipf:0.42\"\nrun_length = 3\ncompressible = \"20%\"\n\
                 duplicates = \"12.5%\"\nregion = \"offset:3%\"\nwithin = \"25%..75%\"\njobs = 6\n\
                 depth = 5\nsync = \"fdatasync\"\nsync_every = 7\ncache = \"buffered\"\nbatch = 2\n\
                 rate = \"2.5k\"\narrivals = \"constant\"\nplacement = \"cpus:0-2,5\"\n";
    let within = Region { offset: Bytes::from_mib(256), length: Bytes::from_mib(512) };
    let expected = Workload {
        pattern: Pattern::Random,
        read_share: PerMille(375),
        block_size: Bytes::from_kib(16),
        skew: Skew::Zipf { theta_per_mille: 420 },
        run_length: 3,
        contents: Contents::Compressible { zeros: PerMille(200) },
        duplicates: PerMille(125),
        // 3 % of 1 GiB.
        region: RegionRule::OffsetEach { by: Bytes::new(32_212_254) },
        within: Some(within),
        jobs: 6,
        depth: 5,
        sync: SyncPolicy { method: SyncMethod::Fdatasync, every: 7 },
        cache: CacheMode::Buffered,
        ..Workload::default()
    };
    assert_eq!(workload(lines), expected);
    let load = step(lines).load;
    assert_eq!((load.engine, load.batch), (EngineKind::Uring, BatchPolicy { submit_max: 2 }));
    assert_eq!(load.arrivals, Arrivals::Constant { rate_per_second: 2500.0 });
    assert_eq!(load.placement, Placement::Cpus(vec![0, 1, 2, 5]));
}

#[test]
fn every_key_of_a_sequential_load_is_its_own_field() {
    let holes = workload("reads = \"0%\"\nhole = \"8KiB\"\nsync = \"o_dsync\"\njobs = 2\n");
    let expected = Workload {
        read_share: PerMille::NONE,
        hole: Bytes::from_kib(8),
        sync: SyncPolicy::each(SyncMethod::ODsync),
        region: RegionRule::ShareEach,
        jobs: 2,
        ..Workload::default()
    };
    assert_eq!(holes, expected);
    let log = workload("reads = \"0%\"\nat_end = \"reallocate\"\nregion = \"shared\"\n");
    assert_eq!((log.at_end, log.region), (AtEnd::Reallocate, RegionRule::Shared));
    let spread = workload("jobs = 7\nregion = \"offset:spread\"\n");
    // A seventh in whole per cent.
    let by = Bytes::new(Bytes::from_gib(1).get() * 14 / 100);
    assert_eq!(spread.region, RegionRule::OffsetEach { by });
    let once = workload("pattern = \"random\"\ncoverage = \"each-once\"\n");
    assert_eq!(once.coverage, Coverage::EachOnce);
    let hot = workload("pattern = \"random\"\nskew = \"zones:70%/10%,30%/90%\"\n").skew;
    let zone = |accesses, size| Zone { accesses: PerMille(accesses), size: PerMille(size) };
    assert_eq!(hot, Skew::Zones { zones: vec![zone(700, 100), zone(300, 900)] });
}

#[test]
fn sizes_of_reads_and_of_writes_are_those_of_their_keys() {
    let share = |kib, weight| BlockShare { size: Bytes::from_kib(kib), weight: PerMille(weight) };
    let both = workload(
        "pattern = \"random\"\nreads = \"40%\"\n\
         block_mix = { \"4KiB\" = 300, \"32KiB\" = 700 }\n\
         write_block_mix = { \"16KiB\" = 900, \"8KiB\" = 100 }\n",
    );
    assert_eq!(both.block_mix, [share(4, 300), share(32, 700)]);
    assert_eq!(both.write_block_mix, [share(16, 900), share(8, 100)]);
    assert_eq!(both.block_size, Bytes::from_kib(32));
    let writes = workload(
        "pattern = \"random\"\nreads = \"40%\"\nblock_size = \"64KiB\"\n\
         write_block_mix = { \"8KiB\" = 1000 }\n",
    );
    assert_eq!((writes.block_mix, writes.block_size), (vec![share(64, 1000)], Bytes::from_kib(64)));
}

#[test]
fn what_a_step_does_not_say_is_as_the_reference_has_it() {
    let plain = step("");
    assert_eq!(workload(""), Workload::default());
    let load = &plain.load;
    assert_eq!((load.engine, load.batch.submit_max), (EngineKind::Sync, 4));
    assert_eq!((&load.arrivals, &load.placement), (&Arrivals::Closed, &Placement::DeviceNode));
    assert_eq!((load.fio_engine.as_deref(), load.advice), (None, None::<AccessAdvice>));
    assert_eq!(plain.limit, Limit::Duration(Nanos::from_secs(60)));
    assert_eq!((plain.ramp, plain.pause_before), (Nanos::ZERO, Nanos::ZERO));
    assert_eq!((plain.interval, plain.repeat), (Nanos::from_secs(1), 0));
    assert_eq!((plain.memory_bound, plain.read_ahead), (None, None));
    assert!(!plain.first_job_ends_all && !plain.drop_cache && plain.beside.is_empty());
    assert_eq!(step("depth = 2\n").load.engine, EngineKind::Uring);
    let poisson = Arrivals::Poisson { rate_per_second: 90.0 };
    assert_eq!(step("rate = 90\n").load.arrivals, poisson);
    for (lines, expected) in [
        ("jobs = 4\n", RegionRule::ShareEach),
        ("jobs = 4\npattern = \"random\"\n", RegionRule::Shared),
    ] {
        assert_eq!(workload(lines).region, expected, "{lines}");
    }
}

#[test]
fn engines_are_those_that_are_named() {
    for (lines, engine, fio_engine) in [
        ("engine = \"aio\"\ndepth = 3\n", EngineKind::Aio, None),
        ("engine = \"uring\"\n", EngineKind::Uring, None),
        ("engine = \"mmap\"\ncache = \"buffered\"\n", EngineKind::Mmap, None),
        ("engine = \"fio\"\nfio_engine = \"libaio\"\ndepth = 3\n", EngineKind::Fio, Some("libaio")),
    ] {
        let load = step(lines).load;
        assert_eq!((load.engine, load.fio_engine.as_deref()), (engine, fio_engine), "{lines}");
    }
    for (lines, words) in [
        ("engine = \"fio\"\n", "needs fio_engine"),
        ("fio_engine = \"libaio\"\n", "belongs to engine = \"fio\""),
        ("batch = 0\n", "would never submit"),
        ("engine = \"aio\"\nreads = \"0%\"\nsync = \"linked_fsync\"\n", "or sync = \"fsync\""),
    ] {
        check_refused(&format!("[[step]]\nname = \"s\"\n{lines}"), &[words]);
    }
}

#[test]
fn every_key_of_a_step_is_its_own_field() {
    let step = step(
        "cache = \"buffered\"\nduration = \"20s\"\nramp = \"3s\"\ninterval = \"250ms\"\n\
         pause = \"7s\"\nfirst_job_ends_all = true\nmemory_bound = \"25%\"\n\
         read_ahead = \"512KiB\"\ndrop_cache = true\n",
    );
    assert_eq!(step.limit, Limit::Duration(Nanos::from_secs(20)));
    assert_eq!((step.ramp, step.pause_before), (Nanos::from_secs(3), Nanos::from_secs(7)));
    assert_eq!(step.interval, Nanos::from_millis(250));
    assert_eq!(step.memory_bound, Some(Bytes::from_mib(256)));
    assert_eq!(step.read_ahead, Some(Bytes::from_kib(512)));
    assert!(step.first_job_ends_all && step.drop_cache);
}

#[test]
fn amounts_are_of_all_paths_together() {
    let limit = |lines: &str| on_two_devices(&format!("jobs = 2\n{lines}")).unwrap().limit;
    assert_eq!(limit("loops = 3\n"), Limit::Volume(Bytes::from_gib(6 * 1024)));
    assert_eq!(limit("volume = \"50%\"\n"), Limit::Volume(Bytes::from_gib(1024)));
    assert_eq!(limit("volume = \"3GiB\"\n"), Limit::Volume(Bytes::from_gib(3)));
    assert_eq!(limit("operations = 77\n"), Limit::Operations(77));
    let bound = on_two_devices("jobs = 2\ncache = \"buffered\"\nmemory_bound = \"25%\"\n");
    assert_eq!(bound.unwrap().memory_bound, Some(Bytes::from_gib(512)));
    let few = on_two_devices("").unwrap_err();
    assert!(few.to_string().contains("jobs = 1 in total is less than the 2 paths"), "{few}");
}

#[test]
fn limits_that_do_nothing_and_intervals_without_end_are_refused() {
    for (lines, words) in [
        ("volume = \"0B\"\n", "it does nothing"),
        ("operations = 0\n", "it does nothing"),
        ("loops = 0\n", "it does nothing"),
        ("duration = \"999us\"\n", "must be between 1 ms and a month"),
        ("interval = \"999us\"\n", "intervals under 1 ms"),
        ("duration = \"100001s\"\ninterval = \"1s\"\n", "is more than 100000"),
        ("duration = \"100s\"\ninterval = \"1ms\"\nramp = \"1ms\"\n", "is more than 100000"),
    ] {
        check_refused(&format!("[[step]]\nname = \"s\"\n{lines}"), &[words]);
    }
    assert_eq!(step("duration = \"100000s\"\ninterval = \"1s\"\n").interval, Nanos::from_secs(1));
}

#[test]
fn a_shortened_step_is_not_longer_than_the_spec_s_and_has_intervals_that_fit() {
    let text = spec(
        "[[step]]\nname = \"s\"\nduration = \"100s\"\nramp = \"1s\"\npause = \"30ms\"\n\
         interval = \"10s\"\n",
    );
    let scaled = |per_mille| {
        let mut request = request(&text, DIRECTORY).unwrap();
        request.time_scale_per_mille = per_mille;
        let plan = plan_campaign(&request).unwrap().plan;
        let step = measured(&plan)[0].clone();
        let Limit::Duration(duration) = step.limit else { panic!("{step:?}") };
        [duration, step.ramp, step.pause_before, step.interval].map(|span| span.get() / 1_000_000)
    };
    assert_eq!(scaled(1000), [100_000, 1000, 30, 10_000]);
    assert_eq!(scaled(500), [50_000, 500, 30, 10_000]);
    assert_eq!(scaled(20), [2000, 100, 30, 100]);
}

/// Axis, coordinate and label of each level, by step.
fn levels(lines: &str) -> Vec<Vec<String>> {
    let plan = plan_of(&spec(&format!("[[step]]\nname = \"s\"\nreads = \"0%\"\n{lines}")));
    let shown = |level: &ParameterValue| format!("{} {}: {}", level.axis, level.value, level.label);
    measured(&plan).iter().map(|step| step.levels.iter().map(shown).collect()).collect()
}

#[test]
fn words_stand_on_an_axis_as_they_do_in_the_file_and_numbers_at_their_values() {
    let list = levels("sync = [\"o_dsync\", \"none\", \"fsync\"]\n");
    assert_eq!(list, [["sync 0: o_dsync"], ["sync 1: no sync"], ["sync 2: fsync"]]);
    // The keys of a row are told in its own order.
    let points = levels(
        "points = [\n{ sync = \"fsync\", jobs = 5 },\n{ jobs = 2, sync = \"none\" },\n\
         { block_size = \"8KiB\", sync = \"o_dsync\" },\n]\n",
    );
    let expected = [
        ["sync 0: fsync", "jobs 5: 5"],
        ["jobs 2: 2", "sync 1: no sync"],
        ["block_size 8192: 8 KiB", "sync 2: o_dsync"],
    ];
    assert_eq!(points, expected);
}

#[test]
fn the_steps_of_a_map_are_told_by_its_two_axes_in_the_order_of_the_file() {
    let lines = "sync = [\"fsync\", \"none\"]\nblock_size = [\"8KiB\", \"16KiB\"]\n\
                 jobs = [4, 1]\nx = \"jobs\"\ny = \"sync\"\n";
    let map = [
        ["sync 0: fsync", "jobs 4: 4"],
        ["sync 0: fsync", "jobs 1: 1"],
        ["sync 1: no sync", "jobs 4: 4"],
        ["sync 1: no sync", "jobs 1: 1"],
    ];
    assert_eq!(levels(lines), [map, map].concat());
    let plan = plan_of(&spec(&format!("[[step]]\nname = \"s\"\nreads = \"0%\"\n{lines}")));
    assert_eq!(sections(&plan), [("s, block size 8 KiB", 4), ("s, block size 16 KiB", 4)]);
    let kind = SectionKind::Map { x: "jobs".to_owned(), y: "sync".to_owned() };
    assert!(plan.campaign.unwrap().sections.iter().all(|section| section.kind == kind));
}

#[test]
fn a_precondition_has_repeats_of_its_own_alone() {
    let counts = |own: &str| -> Vec<u32> {
        let plan = plan_of(&spec(&format!(
            "[defaults]\nrepeats = 3\n[[precondition]]\nname = \"p\"\nreads = \"0%\"\n\
             loops = 1\n{own}[[step]]\nname = \"s\"\n"
        )));
        sections(&plan).into_iter().map(|(_, steps)| steps).collect()
    };
    assert_eq!((counts(""), counts("repeats = 2\n")), (vec![1, 3], vec![2, 3]));
}

#[test]
fn rounds_have_what_their_table_says_and_else_what_the_snia_test_has() {
    let rounds = |lines: &str| -> Rounds {
        let plan = plan_of(&spec(&format!("[[step]]\nname = \"s\"\n{lines}")));
        plan.campaign.unwrap().sections[0].rounds.unwrap()
    };
    let steady = |tracking, window, excursion_per_mille, slope_per_mille| Until::SteadyState {
        tracked: 0,
        tracking,
        window,
        excursion_per_mille,
        slope_per_mille,
    };
    let until = steady(Tracking::LatencyMean, 5, 200, 100);
    assert_eq!(rounds("rounds = { steady_state = \"latency\" }\n"), Rounds { max: 25, until });
    let until = steady(Tracking::Bandwidth, 3, 150, 55);
    let said = "rounds = { steady_state = \"bandwidth\", max = 9, window = 3, \
                excursion = \"15%\", slope = \"5.5%\" }\n";
    assert_eq!(rounds(said), Rounds { max: 9, until });
    let found = |percentile, millis, precision_per_mille| Until::GoalFound {
        goal: Goal { percentile, latency: Nanos::from_millis(millis) },
        precision_per_mille,
        ceiling_step: None,
    };
    let said = "rate = 500\nrounds = { goal = \"p99.9 <= 3ms\", precision = \"4%\", max = 11 }\n";
    assert_eq!(rounds(said), Rounds { max: 11, until: found(99.9, 3, 40) });
    let said = "rate = 500\nrounds = { goal = \"p50 <= 1ms\" }\n";
    assert_eq!(rounds(said), Rounds { max: 25, until: found(50.0, 1, 20) });
}

/// Whole MiB; the share is of the free space.
#[test]
fn a_file_that_is_made_has_a_gib_or_a_tenth_of_the_free_space_unless_it_is_said() {
    let size = |line: &str, free_mib, scale| {
        let text = format!(
            "schema = 1\nname = \"x\"\n[[target]]\nname = \"data\"\n{line}[[step]]\nname = \"s\"\n"
        );
        let free = Bytes::from_mib(free_mib);
        let facts = LocationFacts::Directory { free, filesystem: 1 };
        let mut request = request(&text, facts).unwrap();
        request.size_scale_per_mille = scale;
        let target = plan_campaign(&request).unwrap().plan.targets[1].clone();
        assert!(matches!(target.kind, TargetKind::NewFile { .. }), "{target:?}");
        target.size
    };
    for (line, free_mib, scale, mib) in [
        ("", 80_000, 1000, 1024),
        ("", 10_240, 1000, 1024),
        ("", 5000, 1000, 500),
        ("", 1009, 1000, 100),
        ("size = \"33%\"\n", 1009, 1000, 332),
        ("size = \"200MiB\"\n", 80_000, 1000, 200),
        ("size = \"200MiB\"\n", 80_000, 750, 150),
        ("size = \"33%\"\n", 1000, 750, 330),
    ] {
        assert_eq!(size(line, free_mib, scale), Bytes::from_mib(mib), "{line} {free_mib} {scale}");
    }
}
