//! Results as fio writes them, sound and with planted faults.

use durio_fio::histogram::FioBins;
use durio_fio::json::SyncSection;

use super::*;
use crate::audit::audit;

fn latency(nanos: u64, count: u64) -> LatencyBlock {
    let mut bins = FioBins::default();
    bins.add(nanos, count);
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let mean = nanos as f64;
    let percentiles =
        [50.0, 99.0].iter().filter_map(|&percent| Some((percent, bins.percentile_ns(percent)?)));
    let percentiles = percentiles.collect();
    LatencyBlock { min: nanos, max: nanos, mean, stddev: 0.0, n: Some(count), percentiles, bins }
}

/// 600 s of 8 KiB writes of 29 µs, each with an fdatasync of 70 µs: 99 % of one worker.
fn log() -> FioJob {
    let options =
        [("name", "log"), ("rw", "write"), ("bs", "8k"), ("fdatasync", "1"), ("direct", "1")];
    let count = 6_000_000;
    FioJob {
        jobname: "log".into(),
        line: 12,
        options: Some(options.map(|(name, value)| (name.into(), value.into())).into()),
        write: Some(DirectionFigures {
            total_ios: count,
            io_bytes: count * 8192,
            runtime: 600_000,
            bw_bytes: 10_000 * 8192,
            iops: 10_000.0,
            lat_ns: latency(29_000, count),
            ..DirectionFigures::default()
        }),
        sync: Some(SyncSection { total_ios: 0, lat_ns: latency(70_000, count) }),
        ..FioJob::default()
    }
}

fn codes(jobs: Vec<FioJob>) -> Vec<String> {
    let output = FioOutput { version: "fio-3.33".into(), jobs, ..FioOutput::default() };
    audit(&fio_claims(&output)).findings.into_iter().map(|finding| finding.rule).collect()
}

fn with_option(name: &str, value: &str) -> FioJob {
    let mut job = log();
    let options = job.options.get_or_insert_default();
    options.retain(|(known, _)| known != name);
    options.push((name.into(), value.into()));
    job
}

#[test]
fn a_sound_result_is_clean_and_known_by_its_line() {
    assert_eq!(codes(vec![log()]), [""; 0]);
    let output = FioOutput { jobs: vec![log()], ..FioOutput::default() };
    let claim = &fio_claims(&output)[0];
    assert_eq!(claim.line, Some(ClaimPlace::Number(12)));
    assert_eq!((claim.jobs, claim.depth, claim.writes_per_sync), (Some(1), Some(1), Some(1)));
    assert_eq!(claim.sync.count, Some(6_000_000), "the section's own count is 0");
    assert_eq!(claim.engine.as_deref(), Some("psync"));
}

#[test]
fn more_in_flight_than_there_are_jobs_is_impossible() {
    let mut job = log();
    job.write.get_or_insert_default().lat_ns = latency(35_000, 6_000_000);
    assert_eq!(codes(vec![job.clone()]), ["in-flight-impossible"]);
    // A run of 20 ms: its time is known to a twentieth.
    let write = job.write.get_or_insert_default();
    (write.total_ios, write.runtime) = (200, 20);
    write.io_bytes = 200 * 8192;
    job.sync = Some(SyncSection { total_ios: 0, lat_ns: latency(70_000, 200) });
    assert!(!codes(vec![job]).contains(&"in-flight-impossible".to_owned()));
}

#[test]
fn syncs_that_were_never_issued_are_told() {
    let mut job = log();
    job.sync = Some(SyncSection::default());
    assert!(codes(vec![job]).contains(&"sync-never-issued".to_owned()));
}

#[test]
fn jobs_that_are_reported_one_by_one_are_one_each() {
    let job = with_option("numjobs", "2");
    assert_eq!(codes(vec![job.clone(), job.clone()]), [""; 0]);
    assert!(codes(vec![job]).contains(&"in-flight-shortfall".to_owned()), "one for two");
}

#[test]
fn a_group_of_several_sections_says_nothing_of_its_settings() {
    let mut job = with_option("numjobs", "1");
    job.jobname = "first".into();
    job.write.get_or_insert_default().lat_ns = latency(900_000, 6_000_000);
    let output = FioOutput { jobs: vec![job], ..FioOutput::default() };
    let claim = &fio_claims(&output)[0];
    assert_eq!((claim.jobs, claim.depth, claim.block_size), (None, None, None));
    assert!(claim.note.ends_with(": not all settings of its jobs are given"));
}

#[test]
fn options_mean_what_they_mean_to_fio() {
    let of = |name, value| {
        let output = FioOutput { jobs: vec![with_option(name, value)], ..FioOutput::default() };
        fio_claims(&output).remove(0)
    };
    assert!(of("rate_iops", "100").paced);
    assert_eq!(of("direct", "0").buffered, Some(true));
    assert_eq!(of("bs", "4k,8k").block_size, None);
    assert_eq!(of("bssplit", "4k/50:8k/50").block_size, None);
    assert_eq!(of("rw", "randrw").read_share, Some(0.5));
    assert_eq!(of("iodepth", "many").depth, None);
    assert_eq!(of("ioengine", "libaio").blocking, Some(false));
    let dsync = of("fdatasync", "0");
    assert_eq!(dsync.durability, Durability::Denied);
}

#[test]
fn a_bandwidth_that_its_rate_cannot_make_is_impossible() {
    let mut job = log();
    job.write.get_or_insert_default().bw_bytes = 10_000 * 16_384;
    assert_eq!(codes(vec![job]), ["bandwidth-impossible"]);
}

#[test]
fn a_slowest_sample_counts_where_there_are_enough() {
    let mut job = log();
    let write = job.write.get_or_insert_default();
    (write.bw_min, write.bw_mean, write.bw_samples) = (30_000, 80_000.0, 7);
    assert_eq!(codes(vec![job.clone()]), [""; 0]);
    job.write.get_or_insert_default().bw_samples = 8;
    assert_eq!(codes(vec![job]), ["stalls"]);
}

#[test]
fn a_name_that_fio_cut_is_the_same_and_says_nothing_of_the_pattern() {
    // Of 127 bytes, the last of which is the first half of a letter.
    for name in [format!("a read of {}", "x".repeat(150)), format!("{}é and read", "x".repeat(126))]
    {
        let mut job = with_option("name", &name);
        job.jobname = String::from_utf8_lossy(&name.as_bytes()[..127]).into_owned();
        let output = FioOutput { jobs: vec![job.clone()], ..FioOutput::default() };
        let claim = &fio_claims(&output)[0];
        assert_eq!((claim.jobs, claim.read_share), (Some(1), Some(0.0)), "{}", claim.note);
        // Shorter than fio cuts it, it is another.
        job.jobname.truncate(100);
        let output = FioOutput { jobs: vec![job], ..FioOutput::default() };
        assert!(fio_claims(&output)[0].note.ends_with(": not all settings of its jobs are given"));
    }
    // Words of a name whose settings are not known.
    let mut job = with_option("name", "last of the group");
    job.jobname = "randread 4k fsync every 2".into();
    let output = FioOutput { jobs: vec![job], ..FioOutput::default() };
    let claim = &fio_claims(&output)[0];
    assert_eq!((claim.read_share, claim.random), (None, None));
    assert_eq!(claim.durability, Durability::Unknown);
    assert_eq!(claim.workload, "randread 4k fsync every 2", "it is still its name");
}

/// A mixed job in which each figure is another.
fn mixed() -> FioJob {
    let direction = |base: u64, count: u64| DirectionFigures {
        total_ios: count,
        io_bytes: count * 4096,
        runtime: 2_000 + base,
        bw_bytes: base * 1000,
        bw_min: base + 1,
        bw_mean: 2.5,
        bw_samples: 8,
        lat_ns: LatencyBlock { min: base + 10, max: base + 90, ..latency(base + 50, count) },
        clat_ns: latency(base + 40, count),
        slat_ns: latency(base + 5, count),
        ..DirectionFigures::default()
    };
    let options = [
        ("name", "mixed"),
        ("rw", "randrw"),
        ("rwmixread", "70"),
        ("bs", "16k"),
        ("iodepth", "7"),
        ("numjobs", "3"),
        ("ioengine", "libaio"),
        ("size", "2G"),
        ("filename", "/dev/x"),
        ("ramp_time", "5"),
        ("fsync", "9"),
        ("direct", "1"),
    ];
    FioJob {
        jobname: "mixed".into(),
        options: Some(options.map(|(name, value)| (name.into(), value.into())).into()),
        sys_cpu: 12.5,
        read: Some(direction(1_000, 300)),
        write: Some(direction(3_000, 700)),
        sync: Some(SyncSection { total_ios: 77, lat_ns: latency(9_000, 60) }),
        ..FioJob::default()
    }
}

fn claim_of(job: FioJob) -> Claim {
    let output = FioOutput { version: "fio-3.33".into(), jobs: vec![job], ..FioOutput::default() };
    fio_claims(&output).remove(0)
}

#[test]
fn each_field_of_a_claim_is_the_figure_of_that_name() {
    let exact = |value: f64| Some(Figure::exact(value));
    let percentiles = |block: LatencyBlock| -> Vec<_> {
        block.percentiles.iter().map(|&(percent, nanos)| (percent, Figure::of(nanos))).collect()
    };
    let rate = |count: f64, ms: f64| {
        let per = |ms: f64| count * 1e3 / ms;
        Some(Figure { value: per(ms), low: per(ms + 1.0), high: per(ms - 1.0) })
    };
    let operations = |base: f64, ios: (u64, f64)| Operations {
        rate: rate(ios.1, 2_000.0 + base),
        latency_ns_mean: exact(base + 50.0),
        latency_ns_min: exact(base + 10.0),
        latency_ns_max: exact(base + 90.0),
        count: Some(ios.0),
        submit_ns_mean: exact(base + 5.0),
        bandwidth_min: exact((base + 1.0) * 1024.0),
        bandwidth_mean: exact(2560.0),
        ..Operations::default()
    };
    let expected = Claim {
        line: Some(ClaimPlace::Name("mixed".into())),
        source: "fio-3.33".into(),
        stack: "/dev/x".into(),
        workload: "mixed".into(),
        durable: "fsync every 9 writes".into(),
        note: "entry 1".into(),
        read_share: Some(0.7),
        random: Some(true),
        block_size: Some(Bytes::from_kib(16)),
        jobs: Some(3),
        depth: Some(7),
        engine: Some("libaio".into()),
        blocking: Some(false),
        buffered: Some(false),
        durability: Durability::SyncCall,
        writes_per_sync: Some(9),
        open_ends: 1,
        read: Operations {
            percentiles_ns: percentiles(latency(1_050, 300)),
            ..operations(1_000.0, (300, 300.0))
        },
        write: Operations {
            percentiles_ns: percentiles(latency(3_050, 700)),
            ..operations(3_000.0, (700, 700.0))
        },
        sync: Operations {
            rate: rate(60.0, 5_000.0),
            latency_ns_mean: exact(9_000.0),
            latency_ns_min: exact(9_000.0),
            latency_ns_max: exact(9_000.0),
            percentiles_ns: percentiles(latency(9_000, 60)),
            count: Some(60),
            ..Operations::default()
        },
        bandwidth: exact(4_000_000.0),
        runtime: Some(Nanos::from_millis(5_000)),
        total: Some(Bytes::new(1_000 * 4096)),
        size: Some(Bytes::from_gib(2)),
        target: Some("/dev/x".into()),
        system_cpu_share: Some(0.125),
        ..Claim::default()
    };
    assert_eq!(claim_of(mixed()), expected);
}

#[test]
fn what_a_direction_lacks_is_no_figure() {
    let changed = |change: &dyn Fn(&mut DirectionFigures)| {
        let mut job = mixed();
        change(job.read.as_mut().unwrap());
        claim_of(job)
    };
    let none = changed(&|figures| figures.total_ios = 0);
    assert_eq!(none.read, Operations::default());
    assert_eq!(none.bandwidth, Some(Figure::exact(3e6)), "of what was moved alone");
    let untimed = changed(&|figures| (figures.lat_ns, figures.clat_ns) = Default::default());
    assert!(untimed.read.rate.is_some() && untimed.read.count.is_none());
    let completion = changed(&|figures| figures.lat_ns = LatencyBlock::default());
    assert_eq!(completion.read.latency_ns_mean, Some(Figure::exact(1_040.0)));
    let percentiles = changed(&|figures| figures.lat_ns.percentiles.clear()).read.percentiles_ns;
    assert_eq!(percentiles[0].1, Figure::of(latency(1_040, 300).percentiles[0].1));
    assert_eq!(
        changed(&|figures| figures.slat_ns = LatencyBlock::default()).read.submit_ns_mean,
        None
    );
    let few = changed(&|figures| figures.bw_samples = 7).read;
    assert_eq!((few.bandwidth_min, few.bandwidth_mean), (None, None));
    let damaged = changed(&|figures| figures.lat_ns.mean = f64::NAN).read.latency_ns_mean;
    assert_eq!(damaged, Some(Figure::exact(0.0)));
    let negative = changed(&|figures| figures.lat_ns.mean = -5.0).read.latency_ns_mean;
    assert_eq!(negative, Some(Figure::exact(0.0)));
    // A run of no time, and of one millisecond.
    let rate = |runtime| changed(&|figures| figures.runtime = runtime).read.rate.unwrap();
    let short = Figure { value: 300e3, low: 150e3, high: 600e3 };
    assert_eq!((rate(0), rate(1)), (short, short));
    assert_eq!(rate(2), Figure { value: 150e3, low: 100e3, high: 300e3 });
    let mut job = mixed();
    job.sync = Some(SyncSection { total_ios: 77, ..SyncSection::default() });
    let sync = claim_of(job).sync;
    assert_eq!((sync.count, sync.rate), (Some(77), None));
    let mut job = mixed();
    (job.sync, job.sys_cpu) = (None, f64::NAN);
    let claim = claim_of(job);
    assert_eq!((claim.sync, claim.system_cpu_share), (Operations::default(), None));
}

#[test]
fn each_option_of_a_job_has_its_meaning() {
    let of = |name: &str, value: &str| {
        let mut job = mixed();
        let options = job.options.get_or_insert_default();
        options.retain(|(known, _)| known != name);
        options.push((name.into(), value.into()));
        claim_of(job)
    };
    let without = |names: &[&str]| {
        let mut job = mixed();
        job.options.get_or_insert_default().retain(|(known, _)| !names.contains(&known.as_str()));
        claim_of(job)
    };
    for (text, bytes) in [
        ("512", Some(512)),
        ("512b", Some(512)),
        ("3k", Some(3 << 10)),
        ("3KB", Some(3 << 10)),
        ("3m", Some(3 << 20)),
        ("3mb", Some(3 << 20)),
        ("3g", Some(3 << 30)),
        ("3gb", Some(3 << 30)),
        ("3t", Some(3 << 40)),
        ("3tb", Some(3 << 40)),
        ("3p", None),
        ("17179869184g", None),
    ] {
        assert_eq!(of("bs", text).block_size.map(Bytes::get), bytes, "{text}");
    }
    assert_eq!(without(&["bs"]).block_size, Some(Bytes::from_kib(4)));
    for mixed in ["bsrange", "blocksize_range", "bssplit", "bs_unaligned", "bs_is_seq_rand"] {
        assert_eq!(of(mixed, "1").block_size, None, "{mixed}");
    }
    for (pattern, share, random) in [
        ("read", Some(1.0), false),
        ("write", Some(0.0), false),
        ("randread", Some(1.0), true),
        ("randwrite:8", Some(0.0), true),
        ("rw", Some(0.7), false),
        ("readwrite", Some(0.7), false),
        ("trim", None, false),
    ] {
        let claim = of("rw", pattern);
        assert_eq!((claim.read_share, claim.random), (share, Some(random)), "{pattern}");
    }
    let mut job = mixed();
    let options = job.options.get_or_insert_default();
    options.retain(|(known, _)| known != "rwmixread");
    options.push(("rwmixwrite".into(), "40".into()));
    assert_eq!(claim_of(job).read_share, Some(0.6));
    assert_eq!(without(&["rwmixread"]).read_share, Some(0.5));
    for name in [
        "rate",
        "rate_iops",
        "rate_min",
        "rate_iops_min",
        "thinktime",
        "latency_target",
        "thinkcycles",
        "flow",
        "zonemode",
    ] {
        assert!(of(name, "1").paced, "{name}");
    }
    let unsaid = without(&["rw", "ioengine", "iodepth", "numjobs", "ramp_time", "fsync", "direct"]);
    assert_eq!(
        (unsaid.engine.as_deref(), unsaid.depth, unsaid.jobs),
        (Some("psync"), Some(1), Some(1))
    );
    assert_eq!((unsaid.read_share, unsaid.open_ends, unsaid.paced), (Some(1.0), 0, false));
    assert_eq!((unsaid.durability, &*unsaid.durable), (Durability::Denied, "no sync asked for"));
    assert_eq!((unsaid.buffered, unsaid.writes_per_sync), (None, None));
    for (value, buffered) in [("0", true), ("false", true), ("1", false), ("", false)] {
        assert_eq!(of("direct", value).buffered, Some(buffered), "direct={value}");
    }
    let said = |name: &str, value: &str| {
        let mut job = mixed();
        let options = job.options.get_or_insert_default();
        options.retain(|(known, _)| !["direct", "fsync"].contains(&known.as_str()));
        options.push((name.into(), value.into()));
        claim_of(job)
    };
    assert_eq!(said("buffered", "0").buffered, Some(false));
    assert_eq!(said("buffered", "1").buffered, Some(true));
    for (value, durability, durable) in [
        ("0", Durability::Denied, "no sync asked for"),
        ("none", Durability::Denied, "no sync asked for"),
        ("1", Durability::InTheWrite, "O_SYNC"),
        ("sync", Durability::InTheWrite, "O_SYNC"),
        ("dsync", Durability::InTheWrite, "O_DSYNC"),
    ] {
        let claim = said("sync", value);
        assert_eq!((claim.durability, &*claim.durable), (durability, durable), "{value}");
    }
    assert_eq!(of("numjobs", "0").jobs, Some(1));
    assert_eq!(of("numjobs", "many").jobs, None);
    assert_eq!(of("fsync", "1").writes_per_sync, Some(1));
}

#[test]
fn an_entry_is_named_by_its_line_its_job_or_its_number() {
    let line = |jobname: &str, line| {
        let job = FioJob { jobname: jobname.into(), line, ..mixed() };
        claim_of(job).line.unwrap()
    };
    assert_eq!(line("", 0), ClaimPlace::Name("entry 1".into()));
    assert_eq!(line("a", 0), ClaimPlace::Name("a".into()));
    assert_eq!(line("a", 3), ClaimPlace::Number(3));
    let output = FioOutput { jobs: vec![mixed(), mixed()], ..FioOutput::default() };
    let notes: Vec<_> =
        fio_claims(&output).into_iter().map(|claim| (claim.note, claim.jobs)).collect();
    assert_eq!(notes, [("entry 1".to_owned(), Some(1)), ("entry 2".to_owned(), Some(1))]);
    // Entries of another group are others.
    let other = FioJob { groupid: 1, ..mixed() };
    let output = FioOutput { jobs: vec![mixed(), other], ..FioOutput::default() };
    assert_eq!(fio_claims(&output)[0].jobs, Some(3));
    // Options of all jobs are known too, and without any nothing is.
    let job = FioJob { options: None, ..mixed() };
    assert!(claim_of(job.clone()).note.ends_with(": not all settings of its jobs are given"));
    let global = vec![("bs".into(), "8k".into())];
    let output = FioOutput { jobs: vec![job], global_options: global, ..FioOutput::default() };
    assert_eq!(fio_claims(&output)[0].block_size, Some(Bytes::from_kib(8)));
}
