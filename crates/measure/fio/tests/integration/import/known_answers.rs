//! What single options become.

use durio_base::{Bytes, Nanos};
use durio_plan::{
    AccessAdvice, BatchPolicy, CompletionTime, DrainPolicy, EngineKind, FileLayout, Limit,
    Placement, TargetKind, ThinkTime,
};
use durio_workload::{
    Arrivals, CacheMode, Contents, Coverage, FileChoice, FileOrder, Pattern, PerMille, Region,
    RegionRule, Renewal, Skew, SyncMethod, SyncPolicy,
};

use super::{load, plan, step};

#[test]
fn what_nobody_says_is_as_in_fio() {
    let step = step("[a]\nfilename=/dev/a");
    let (load, workload) = (&step.load, &step.load.workload);
    assert_eq!((load.engine, load.batch), (EngineKind::Sync, BatchPolicy { submit_max: 1 }));
    assert_eq!((workload.jobs, workload.depth), (1, 1));
    assert_eq!((workload.pattern, workload.read_share), (Pattern::Sequential, PerMille::ALL));
    assert_eq!((workload.block_size, workload.cache), (Bytes::from_kib(4), CacheMode::Buffered));
    assert_eq!(load.placement, Placement::Anywhere);
    assert_eq!(step.limit, Limit::Volume(Bytes::from_gib(1)));
    assert!(step.drop_cache, "invalidate=1");
}

#[test]
fn random_blocks_come_once_each_unless_there_is_no_map() {
    let coverage =
        |more: &str| load(&format!("[a]\nfilename=/dev/a\nrw=randread\n{more}")).workload;
    assert_eq!(coverage("").coverage, Coverage::EachOnce);
    assert_eq!(coverage("norandommap").coverage, Coverage::Independent);
    assert_eq!(coverage("random_generator=lfsr").coverage, Coverage::EachOnce);
    let zipf = coverage("random_distribution=zipf:1.2");
    assert_eq!(zipf.coverage, Coverage::Independent);
    assert_eq!(zipf.skew, Skew::Zipf { theta_per_mille: 1200 });
    let pareto = coverage("random_distribution=pareto:0.2");
    assert_eq!(pareto.skew, Skew::Pareto { h_per_mille: 200 });
    let zoned = coverage("norandommap\nrandom_distribution=zoned:60/10:40/40").skew;
    let Skew::Zones { zones } = zoned else { panic!("{zoned:?}") };
    let zones: Vec<_> = zones.iter().map(|zone| (zone.accesses.0, zone.size.0)).collect();
    assert_eq!(zones, [(600, 100), (400, 400), (0, 500)], "half of it is never touched");
}

#[test]
fn numbers_of_rw_are_runs_and_holes() {
    let workload = load("[a]\nfilename=/dev/a\nrw=randread:8\nnorandommap").workload;
    assert_eq!((workload.run_length, workload.hole), (8, Bytes::ZERO));
    let workload = load("[a]\nfilename=/dev/a\nrw=write:4k").workload;
    assert_eq!((workload.run_length, workload.hole), (1, Bytes::from_kib(4)));
}

#[test]
fn sizes_are_mixes_in_thousandths() {
    let shares = |mix: &[durio_workload::BlockShare]| -> Vec<(u64, u16)> {
        mix.iter().map(|share| (share.size.get() >> 10, share.weight.0)).collect()
    };
    let text = "[a]\nfilename=/dev/a\nrw=randread\nnorandommap\nbssplit=4k/60:8k/:16k/";
    let workload = load(text).workload;
    assert_eq!(workload.block_size, Bytes::from_kib(16));
    assert_eq!(shares(&workload.block_mix), [(4, 600), (8, 200), (16, 200)]);
    let text =
        "[a]\nfilename=/dev/a\nrw=randrw\nrwmixread=70\nnorandommap\nbs=4k,8k\nblockalign=4k";
    let workload = load(text).workload;
    assert_eq!(workload.read_share, PerMille(700));
    assert_eq!(shares(&workload.block_mix), [(4, 1000)]);
    assert_eq!(shares(&workload.write_block_mix), [(8, 1000)]);
    let text = "[a]\nfilename=/dev/a\nrw=randread\nnorandommap\nbsrange=4k-16k";
    let mix = shares(&load(text).workload.block_mix);
    assert_eq!(mix, [(4, 250), (8, 250), (12, 250), (16, 250)]);
    // Thousandths that are a thousand together.
    let thirds = "[a]\nfilename=/dev/a\nrw=randread\nnorandommap\nbsrange=4k-12k";
    assert_eq!(shares(&load(thirds).workload.block_mix), [(4, 333), (8, 333), (12, 334)]);
}

#[test]
fn writes_are_durable_by_the_method_that_is_given() {
    let sync = |more: &str| {
        load(&format!("[a]\nfilename=/dev/a\nrw=write\ndirect=1\n{more}")).workload.sync
    };
    assert_eq!(sync(""), SyncPolicy::NONE);
    assert_eq!(sync("sync=1"), SyncPolicy::each(SyncMethod::OSync));
    assert_eq!(sync("sync=dsync"), SyncPolicy::each(SyncMethod::ODsync));
    assert_eq!(sync("fsync=8"), SyncPolicy { method: SyncMethod::Fsync, every: 8 });
    assert_eq!(sync("fdatasync=1"), SyncPolicy::each(SyncMethod::Fdatasync));
}

#[test]
fn amounts_and_times_are_limits() {
    let limit = |more: &str| step(&format!("[a]\nfilename=/dev/a\nrw=randread\n{more}")).limit;
    let mib = |count| Limit::Volume(Bytes::from_mib(count));
    assert_eq!(limit("size=10m"), mib(10));
    assert_eq!(limit("size=10m\nloops=3\nnumjobs=2\ngroup_reporting"), mib(60));
    assert_eq!(limit("size=10m\nio_size=4m"), mib(4));
    assert_eq!(limit("size=25%"), mib(256));
    assert_eq!(limit("number_ios=256"), mib(1));
    assert_eq!(limit("size=10m\ntime_based\nruntime=5"), Limit::Duration(Nanos::from_secs(5)));
    let (volume, duration) = (Bytes::from_mib(10), Nanos::from_secs(5));
    assert_eq!(limit("size=10m\nruntime=5"), Limit::VolumeWithin { volume, duration });
    assert_eq!(limit("number_ios=256\nnumjobs=3\ngroup_reporting"), mib(3), "of each copy");
    assert_eq!(limit("size=1m\nnumber_ios=5000"), mib(1), "the smaller of the two");
    // Whole blocks where each comes once, one more where offsets are free.
    assert_eq!(limit("size=42k\nbs=4k"), Limit::Volume(Bytes::from_kib(40)));
    assert_eq!(limit("size=42k\nbs=4k\nnorandommap"), Limit::Volume(Bytes::from_kib(44)));
}

#[test]
fn a_ramp_is_kept_with_a_time() {
    let step = step("[a]\nfilename=/dev/a\ntime_based\nruntime=5\nramp_time=500ms");
    assert_eq!(step.ramp, Nanos::from_millis(500));
}

/// A fiftieth of the time from 100 ms to 1 s, and never more than 50,000 of them.
#[test]
fn intervals_follow_the_time_of_a_job() {
    let interval = |seconds: u64| {
        let text = format!("[a]\nfilename=/dev/a\ntime_based\nruntime={seconds}");
        step(&text).interval
    };
    for (seconds, millis) in
        [(1, 100), (5, 100), (12, 240), (50, 1000), (500, 1000), (50_000, 1000), (75_000, 1500)]
    {
        assert_eq!(interval(seconds), Nanos::from_millis(millis), "{seconds} s");
    }
    assert_eq!(step("[a]\nfilename=/dev/a").interval, Nanos::from_secs(1), "no time is known");
}

#[test]
fn places_in_percent_begin_at_whole_blocks_and_have_whole_blocks() {
    let within = |more: &str| {
        let text = format!("[a]\nfilename=/dev/a\nrw=randread\nbs=8k\n{more}");
        let within = load(&text).workload.within.unwrap();
        (within.offset.get(), within.length.get())
    };
    // 33 % of 1 GiB are 354,334,801 bytes.
    assert_eq!(within("size=33%"), (0, 43_253 * 8192));
    assert_eq!(within("size=33%\noffset=33%"), (43_254 * 8192, 43_253 * 8192));
    let aligned = within("size=33%\noffset=33%\noffset_align=64k");
    assert_eq!(aligned, (5407 * 65_536, 43_253 * 8192));
    // Bytes are taken as they are.
    assert_eq!(within("size=8m\noffset=12k\noffset_align=64k"), (12 << 10, 8 << 20));
}

#[test]
fn a_file_has_its_size_and_a_job_moves_a_part_of_it() {
    let of = |more: &str| {
        let plan = plan(&format!("[a]\nfilename=new\nrw=read\nfilesize=16m\n{more}")).plan;
        let within = plan.steps[0].load.workload.within.unwrap();
        let mib = |bytes: Bytes| bytes.get() >> 20;
        let Limit::Volume(moved) = plan.steps[0].limit else { panic!("{plan:?}") };
        (mib(plan.targets[0].size), mib(within.offset), mib(within.length), mib(moved))
    };
    assert_eq!(of(""), (16, 0, 16, 16));
    assert_eq!(of("offset=4m"), (16, 4, 12, 12));
    assert_eq!(of("offset=4m\nsize=3m"), (16, 4, 12, 3));
    assert_eq!(of("size=30m"), (16, 0, 16, 16));
    assert_eq!(of("size=3m\nio_size=5m"), (16, 0, 16, 5));
}

#[test]
fn copies_share_a_region_or_have_shares_or_offsets() {
    let of = |more: &str| {
        let load =
            load(&format!("[a]\nfilename=/dev/a\nrw=randread\nnumjobs=4\ngroup_reporting\n{more}"));
        let within = load.workload.within.unwrap();
        (load.workload.region, within.offset.get() >> 20, within.length.get() >> 20)
    };
    assert_eq!(of("size=16m\noffset=8m"), (RegionRule::Shared, 8, 16));
    assert_eq!(of("size=16m\noffset_increment=16m"), (RegionRule::ShareEach, 0, 64));
    assert_eq!(of("size=25%\noffset_increment=25%"), (RegionRule::ShareEach, 0, 1024));
    let by = Bytes::from_mib(16);
    let text = "offset_increment=16m\ntime_based\nruntime=1";
    assert_eq!(of(text), (RegionRule::OffsetEach { by }, 0, 1024));
}

#[test]
fn queues_keep_their_engine_depth_and_batch() {
    let of = |more: &str| {
        let load = load(&format!("[a]\nfilename=/dev/a\nrw=randread\niodepth=32\n{more}"));
        (load.engine, load.workload.depth, load.batch.submit_max)
    };
    assert_eq!(of("ioengine=libaio"), (EngineKind::Aio, 32, 1));
    assert_eq!(of("ioengine=psync"), (EngineKind::Sync, 1, 1));
    assert_eq!(of("ioengine=vsync"), (EngineKind::Sync, 1, 1));
    assert_eq!(of("ioengine=io_uring\nsqthread_poll"), (EngineKind::Uring, 32, 1));
    let batch = "ioengine=io_uring\niodepth_batch=8\niodepth_batch_complete_max=8";
    assert_eq!(of(batch), (EngineKind::Uring, 32, 8));
}

#[test]
fn rates_are_those_of_all_copies() {
    let of = |more: &str| {
        load(&format!("[a]\nfilename=/dev/a\nnumjobs=4\ngroup_reporting\n{more}")).arrivals
    };
    assert_eq!(of("rate_iops=100"), Arrivals::Constant { rate_per_second: 400.0 });
    let poisson = Arrivals::Poisson { rate_per_second: 400.0 };
    assert_eq!(of("rate_iops=100\nrate_process=poisson"), poisson);
    assert_eq!(of("rate=1m\nbs=64k"), Arrivals::Constant { rate_per_second: 64.0 });
}

#[test]
fn contents_change_from_write_to_write_as_fio_means_it() {
    let of = |more: &str| {
        let workload = load(&format!("[a]\nfilename=/dev/a\nrw=write\n{more}")).workload;
        (workload.contents, workload.renewal, workload.duplicates.0)
    };
    let random = Contents::Incompressible;
    let half = Contents::Compressible { zeros: PerMille(500) };
    let zeros = Contents::Compressible { zeros: PerMille::ALL };
    let pattern = Contents::Pattern { bytes: vec![0xde, 0xad] };
    for (options, expected) in [
        ("", (&random, Renewal::Scrambled, 0)),
        ("scramble_buffers=0", (&random, Renewal::Never, 0)),
        ("refill_buffers", (&random, Renewal::EachWrite, 0)),
        ("buffer_compress_percentage=50", (&half, Renewal::EachWrite, 0)),
        ("dedupe_percentage=20", (&random, Renewal::EachWrite, 200)),
        ("dedupe_percentage=20\nbuffer_compress_percentage=50", (&half, Renewal::EachWrite, 200)),
        ("zero_buffers\nrefill_buffers", (&zeros, Renewal::Never, 0)),
        ("buffer_pattern=0xdead\nrefill_buffers", (&pattern, Renewal::Never, 0)),
    ] {
        let (contents, renewal, duplicates) = expected;
        assert_eq!(of(options), (contents.clone(), renewal, duplicates), "{options}");
    }
}

#[test]
fn copies_have_the_cpus_that_fio_would_give_them() {
    let text = "[a]\nfilename=/dev/a\nrw=randread\n[b]\nstonewall\nfilename=/dev/a\nrw=randread\n\
                numjobs=3\ngroup_reporting\ncpus_allowed=0,2,4\ncpus_allowed_policy=split";
    let steps = plan(text).plan.steps;
    // The first copy of b is the second of all.
    assert_eq!(steps[1].load.placement, Placement::Cpus(vec![2, 4, 0]));
    let memory = |policy: &str| {
        let text = format!("[a]\nfilename=/dev/a\nnuma_cpu_nodes=1\nnuma_mem_policy={policy}");
        super::imported(&text).map(|imported| imported.plan.steps[0].load.placement.clone())
    };
    for policy in ["bind:1", "prefer:1", "local", "default"] {
        assert_eq!(memory(policy), Ok(Placement::Node(1)), "{policy}");
    }
    for policy in ["bind:0", "bind:0-1", "prefer:0", "interleave:1"] {
        let refusals = memory(policy).unwrap_err();
        assert_eq!((refusals.len(), refusals[0].option.as_str()), (1, "numa_mem_policy"));
    }
}

#[test]
fn files_that_are_not_there_are_laid_out_as_fio_does() {
    let target = |text: &str| plan(text).plan.targets[0].clone();
    let read = target("[a]\nfilename=new\nsize=8m\noffset=1m");
    let TargetKind::NewFile { layout, named, .. } = &read.kind else { panic!("{read:?}") };
    assert_eq!(
        (*layout, *named, read.size),
        (FileLayout::Incompressible, true, Bytes::from_mib(9))
    );
    for (more, expected) in [
        ("", FileLayout::Preallocated),
        ("fallocate=none", FileLayout::Empty),
        ("overwrite=1", FileLayout::Incompressible),
    ] {
        let target = target(&format!("[a]\nfilename=new\nrw=write\nsize=8m\n{more}"));
        let TargetKind::NewFile { layout, .. } = &target.kind else { panic!("{target:?}") };
        assert_eq!(*layout, expected, "{more}");
    }
}

#[test]
fn copies_without_a_name_have_a_file_each() {
    let plan = plan("[a]\ndirectory=dir\nrw=randread\nsize=8m\nnumjobs=3\ngroup_reporting").plan;
    assert_eq!(plan.targets.len(), 3);
    let load = &plan.steps[0].load;
    assert_eq!((load.target, &load.more_targets[..]), (0, &[1, 2][..]));
    let whole = Region { offset: Bytes::ZERO, length: Bytes::from_mib(8) };
    assert_eq!((load.workload.jobs, load.workload.within), (3, Some(whole)));
}

#[test]
fn copies_take_several_directories_in_turn() {
    for (names, copies, expected) in [
        ("", 3, &["dir1", "dir2", "dir1"][..]),
        ("nrfiles=2", 2, &["dir1", "dir1", "dir2", "dir2"]),
        ("filename=new", 2, &["dir1/new", "dir2/new"]),
    ] {
        let text = format!("[a]\ndirectory=dir1:dir2\nrw=randwrite\nsize=8m\nnumjobs={copies}\n");
        let plan = plan(&format!("{text}{names}\ngroup_reporting")).plan;
        let places =
            plan.targets.iter().map(|target| target.location.as_ref().unwrap().to_string());
        assert_eq!(places.collect::<Vec<_>>(), expected, "{names}");
    }
}

#[test]
fn a_sync_at_the_end_is_one_at_the_close_of_files_too() {
    let of = |more: &str| load(&format!("[a]\nfilename=new\nrw=write\nsize=8m\n{more}")).workload;
    for (more, expected) in [
        ("", false),
        ("end_fsync=1", true),
        ("fsync_on_close=1", true),
        ("end_fsync=1\nfsync_on_close=0", true),
        ("fsync_on_close=1\nfsync=8", true),
        ("fsync_on_close=1\nfsync=1", false),
    ] {
        assert_eq!(of(more).syncs_at_end, expected, "{more}");
    }
}

#[test]
fn an_alignment_is_that_of_free_draws() {
    let of = |more: &str| {
        let workload = load(&format!("[a]\nfilename=/dev/a\nrw=randread\n{more}")).workload;
        (workload.align.get(), workload.coverage)
    };
    let sizes = "bssplit=512/20:8k/80\nblockalign=4k";
    assert_eq!(of(sizes), (4096, Coverage::Independent));
    assert_eq!(of("bs=8k\nblockalign=4k"), (4096, Coverage::Independent));
    assert_eq!(of("bs=8k\nblockalign=8k"), (0, Coverage::EachOnce));
}

#[test]
fn copies_with_several_files_use_them_in_turn() {
    let plan = plan("[a]\nnrfiles=3\nrw=randread\nsize=6m\nnumjobs=2\ngroup_reporting").plan;
    assert_eq!(plan.targets.len(), 6);
    let load = &plan.steps[0].load;
    let of = |job| load.targets_of(job).collect::<Vec<_>>();
    assert_eq!((load.targets_each, of(0), of(1)), (3, vec![0, 1, 2], vec![3, 4, 5]));
    let each = Region { offset: Bytes::ZERO, length: Bytes::from_mib(2) };
    assert_eq!((load.workload.jobs, load.workload.within), (2, Some(each)));
    assert_eq!(plan.steps[0].limit, Limit::Volume(Bytes::from_mib(12)));
}

#[test]
fn several_names_are_the_files_of_every_copy() {
    let load = load(
        "[a]\nfilename=/dev/a:/dev/b\nnrfiles=9\nrw=read\nsize=8m\nnumjobs=2\ngroup_reporting",
    );
    assert_eq!((load.targets_each, &load.more_targets[..]), (2, &[1][..]));
    let each = Region { offset: Bytes::ZERO, length: Bytes::from_mib(4) };
    assert_eq!(load.workload.within, Some(each));
}

#[test]
fn reads_and_writes_in_sequence_have_a_place_each_and_some_jump() {
    let workload = load("[a]\nfilename=/dev/a\nrw=rw").workload;
    assert!(workload.own_cursors && workload.pattern == Pattern::Sequential);
    assert!(!load("[a]\nfilename=/dev/a\nrw=read").workload.own_cursors);
    let workload = load("[a]\nfilename=/dev/a\nrw=randrw\npercentage_random=40,70").workload;
    let jumps = workload.jumps.unwrap();
    assert_eq!((jumps.reads, jumps.writes), (PerMille(400), PerMille(700)));
    assert!(workload.own_cursors);
}

#[test]
fn the_page_cache_is_dropped_where_fio_drops_it() {
    let drops = |more: &str| {
        let text = format!("[a]\nfilename=/dev/a\n{more}");
        load(&text).workload.drops_cache_each_pass
    };
    assert!(!drops("rw=read"), "one pass");
    assert!(drops("rw=read\nloops=2"));
    assert!(drops("rw=read\nsize=1m\nio_size=2m"));
    assert!(drops("rw=read\ntime_based\nruntime=1"));
    assert!(drops("rw=randread\ntime_based\nruntime=1"));
    assert!(!drops("rw=randread\ntime_based\nruntime=1\nnorandommap"), "no pass ends");
    assert!(drops("rw=randread\nloops=2\nnorandommap"), "fio opens the file anew");
    assert!(!drops("rw=read\nloops=2\ndirect=1"));
    assert!(!drops("rw=read\nloops=2\ninvalidate=0"));
    assert!(drops("filename=/dev/b\nrw=read\nloops=2"), "of each file");
}

#[test]
fn rates_of_reads_and_of_writes_are_one_with_their_shares() {
    let load = load("[a]\nfilename=/dev/a\nrw=randrw\nrate_iops=300,100");
    assert_eq!(load.arrivals, Arrivals::Constant { rate_per_second: 400.0 });
    assert_eq!(load.workload.read_share, PerMille(750));
    // One value is that of each direction; what does not occur has none.
    let load = super::load("[a]\nfilename=/dev/a\nrw=randrw\nbs=8k\nrate=800k");
    assert_eq!(load.arrivals, Arrivals::Constant { rate_per_second: 200.0 });
    let load = super::load("[a]\nfilename=/dev/a\nrw=randwrite\nrate_iops=70,80");
    assert_eq!(load.arrivals, Arrivals::Constant { rate_per_second: 80.0 });
    let load = super::load("[a]\nfilename=/dev/a\nrw=randwrite\nrate_iops=70,");
    assert_eq!(load.arrivals, Arrivals::Closed);
}

#[test]
fn libaio_is_held_up_by_its_syncs_and_io_uring_is_not() {
    let text = "[a]\nfilename=/dev/a\nrw=write\niodepth=16\nfsync=1\nioengine=";
    assert!(load(&format!("{text}libaio")).blocking_syncs);
    assert!(!load(&format!("{text}io_uring")).blocking_syncs);
}

#[test]
fn a_delay_counts_from_the_start_of_all_jobs() {
    let text = "[global]\nfilename=/dev/a\ntime_based\nruntime=10\nramp_time=1\n[a]\nstartdelay=2\n\
                [b]\nstonewall\nstartdelay=20\n[c]\nstonewall\nstartdelay=5";
    let pauses: Vec<_> = plan(text).plan.steps.iter().map(|step| step.pause_before).collect();
    assert_eq!(pauses, [2, 7, 0].map(Nanos::from_secs));
    let text = "[a]\nfilename=/dev/a\n[b]\nfilename=/dev/a\nstonewall\nstartdelay=5";
    assert!(super::imported(text).is_err(), "how long the first job takes is not known");
    let text = "[global]\nfilename=/dev/a\nstartdelay=5\n[a]\n[b]\nstonewall";
    let pauses: Vec<_> = plan(text).plan.steps.iter().map(|step| step.pause_before).collect();
    assert_eq!(pauses, [5, 0].map(Nanos::from_secs), "the first alone has used it up");
}

#[test]
fn a_delay_from_a_range_is_drawn_by_the_seed() {
    let drawn = |seed: u64| {
        let imported = super::imported_by("[a]\nfilename=/dev/a\nstartdelay=1:3", seed).unwrap();
        let pause = imported.plan.steps[0].pause_before;
        let note = format!("the drawn delay is {pause}");
        assert!(imported.notes.iter().any(|remark| remark.what == note), "{:?}", imported.notes);
        pause.get()
    };
    let drawn: Vec<u64> =
        (0..40).inspect(|&seed| assert_eq!(drawn(seed), drawn(seed))).map(drawn).collect();
    assert!(drawn.iter().all(|nanos| (1_000_000_000..=3_000_000_000).contains(nanos)), "{drawn:?}");
    // A draw is in a given quarter with one in four: 40 draws miss it once in 100,000 seeds.
    let in_quarter = |from: u64| drawn.iter().filter(|&&nanos| nanos / 500_000_000 == from).count();
    assert!((2..6).all(|from| in_quarter(from) > 0), "{drawn:?}");
    // Both ends are drawn.
    let either = |seed| {
        let imported = super::imported_by("[a]\nfilename=/dev/a\nstartdelay=1us:2us", seed);
        imported.unwrap().plan.steps[0].pause_before.get()
    };
    let ends: std::collections::BTreeSet<u64> = (0..40).map(either).collect();
    assert_eq!(Vec::from_iter(ends), [1000, 2000]);
    let step = super::step("[a]\nfilename=/dev/a\nstartdelay=2:2\nnumjobs=2");
    assert_eq!(step.pause_before, Nanos::from_secs(2), "nothing is to be drawn");
}

#[test]
fn files_of_jobs_are_where_their_names_put_them() {
    let directory = |text: &str| match &plan(text).plan.targets[0].kind {
        TargetKind::NewFile { directory, .. } => directory.as_path().display().to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(directory("[a]\ndirectory=dir\nsize=1m"), "dir");
    assert_eq!(directory("[dir/b]\nsize=1m"), "dir");
    assert_eq!(directory("[a]\nfilename_format=dir/$JobName.$filenum\nsize=1m"), "dir");
    let text = "[a]\nfilename_format=$jobnum.x\nnumjobs=2\nsize=1m\n[b]\nstonewall\n\
                filename_format=1.x\nsize=1m";
    assert_eq!(plan(text).plan.targets.len(), 2, "the last is the second copy's file");
}

#[test]
fn a_job_that_thinks_pauses_after_as_many_accesses_as_it_says() {
    let pauses = |lines: &str| {
        let load = load(&format!("[a]\nfilename=/dev/a\n{lines}"));
        let drain = load.drain.unwrap();
        let ThinkTime { length_ns, after } = drain.think.unwrap();
        (length_ns, after, [drain.take_min, drain.take_max, drain.refill_at])
    };
    assert_eq!(pauses("thinktime=250"), (250_000, 1, [1, 1, 1]), "microseconds");
    assert_eq!(pauses("thinktime=(2+3)"), (5_000, 1, [1, 1, 1]));
    assert_eq!(
        pauses("ioengine=libaio\niodepth=8\nthinktime=3ms\nthinktime_blocks=20"),
        (3_000_000, 20, [1, 1, 8])
    );
    assert_eq!(
        pauses("ioengine=libaio\niodepth=8\niodepth_low=3\nthinktime=2s\nthinktime_blocks=2k"),
        (2_000_000_000, 2048, [1, 1, 3])
    );
    let refusals = super::imported("[a]\nfilename=/dev/a\nthinktime=1\nrate_iops=9").unwrap_err();
    assert_eq!((refusals.len(), refusals[0].option.as_str()), (1, "thinktime"), "{refusals:?}");
}

#[test]
fn batches_and_low_queues_drain_and_others_are_refilled_as_they_are_reaped() {
    let queue = |lines: &str| {
        let text = format!("[a]\nfilename=/dev/a\nioengine=libaio\niodepth=16\n{lines}");
        let load = load(&text);
        (load.batch.submit_max, load.drain)
    };
    let drain = |take_min, take_max, refill_at| {
        Some(DrainPolicy { take_min, take_max, refill_at, think: None })
    };
    assert_eq!(queue(""), (1, None));
    assert_eq!(queue("iodepth_batch=8\niodepth_batch_complete_max=4"), (4, None));
    assert_eq!(queue("iodepth_batch=0\niodepth_batch_complete_max=64"), (16, None));
    assert_eq!(queue("iodepth_batch=2\niodepth_batch_complete_max=4"), (2, drain(1, 4, 16)));
    assert_eq!(queue("iodepth_batch=4\niodepth_batch_complete=6"), (4, drain(6, 6, 16)));
    assert_eq!(queue("iodepth_batch_complete_min=99"), (1, drain(16, 16, 16)));
    assert_eq!(queue("iodepth_low=5"), (1, drain(1, 1, 5)));
    assert_eq!(queue("iodepth_low=17"), (1, None), "as fio takes what is beyond the depth");
    for lines in ["iodepth_batch_complete_min=0", "iodepth_low=5\nrate_iops=100"] {
        let text = format!("[a]\nfilename=/dev/a\nioengine=libaio\niodepth=16\n{lines}");
        let refusals = super::imported(&text).unwrap_err();
        assert_eq!(refusals[0].option, "iodepth_batch_complete_min", "{refusals:?}");
    }
}

#[test]
fn the_order_of_files_is_the_job_s() {
    let order = |lines: &str| {
        load(&format!("[a]\ndirectory=dir\nrw=read\nsize=16m\nnrfiles=4\n{lines}")).file_order
    };
    let in_turn = |run, open_max| FileOrder { choice: FileChoice::InTurn, run, open_max };
    assert_eq!(order(""), FileOrder::EACH_IN_TURN);
    assert_eq!(order("openfiles=2"), in_turn(1, 2));
    assert_eq!(order("file_service_type=roundrobin:3"), in_turn(3, 0));
    assert_eq!(order("file_service_type=sequential"), in_turn(u32::MAX, 0));
    let random = FileOrder { choice: FileChoice::Random, run: 5, open_max: 3 };
    assert_eq!(order("file_service_type=random:5\nopenfiles=3"), random);
    for lines in
        ["file_service_type=zipf:1.2", "openfiles=1\nio_size=1m", "openfiles=1\nnumber_ios=9"]
    {
        let text = format!("[a]\ndirectory=dir\nrw=read\nsize=16m\nnrfiles=4\n{lines}");
        let refusals = super::imported(&text).unwrap_err();
        assert_eq!(refusals[0].option, "file_service_type", "{refusals:?}");
    }
}

#[test]
fn the_kernel_is_told_of_the_order_of_accesses_as_fio_tells_it() {
    let advice = |lines: &str| load(&format!("[a]\nfilename=/dev/a\n{lines}")).advice;
    assert_eq!(advice("rw=read"), Some(AccessAdvice::Sequential));
    assert_eq!(advice("rw=randread"), Some(AccessAdvice::Random));
    assert_eq!(advice("rw=randwrite\nfadvise_hint=1"), Some(AccessAdvice::Random));
    assert_eq!(advice("rw=randread\nfadvise_hint=sequential"), Some(AccessAdvice::Sequential));
    assert_eq!(advice("rw=read\nfadvise_hint=random"), Some(AccessAdvice::Random));
    assert_eq!(advice("rw=read\nfadvise_hint=noreuse"), Some(AccessAdvice::NoReuse));
    assert_eq!(advice("rw=read\nfadvise_hint=0"), None);
    assert_eq!(load("[a]\nfilename=/dev/zero\nsize=1m\nrw=read").advice, None);
}

#[test]
fn an_asynchronous_completion_counts_from_when_it_is_taken_as_in_fio() {
    let time = |engine: &str| {
        load(&format!("[a]\nfilename=/dev/a\niodepth=4\nioengine={engine}")).completion_time
    };
    assert_eq!(time("io_uring"), CompletionTime::Taken);
    assert_eq!(time("libaio"), CompletionTime::Taken);
    // What waits for each access sees its end at once.
    assert_eq!(time("psync"), CompletionTime::Seen);
}
