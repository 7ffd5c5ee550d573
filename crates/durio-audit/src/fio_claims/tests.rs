//! Results as fio writes them, sound and with planted faults.

use durio_fio::histogram::FioBins;
use durio_fio::json::SyncSection;

use super::*;
use crate::audit;

fn latency(nanos: u64, count: u64) -> LatencyBlock {
    let mut bins = FioBins::default();
    bins.add(nanos, count);
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let mean = nanos as f64;
    let percentiles = [50.0, 99.0].iter().filter_map(|&it| Some((it, bins.percentile_ns(it)?)));
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
        write: Some(Direction {
            total_ios: count,
            io_bytes: count * 8192,
            runtime: 600_000,
            bw_bytes: 10_000 * 8192,
            iops: 10_000.0,
            lat_ns: latency(29_000, count),
            ..Direction::default()
        }),
        sync: Some(SyncSection { total_ios: 0, lat_ns: latency(70_000, count) }),
        ..FioJob::default()
    }
}

fn codes(jobs: Vec<FioJob>) -> Vec<String> {
    let output = FioOutput { version: "fio-3.33".into(), jobs, ..FioOutput::default() };
    audit(&fio_claims(&output)).findings.into_iter().map(|it| it.rule).collect()
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
    assert_eq!(claim.line, Some(Line::Number(12)));
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
    assert!(claim.note.contains("not told"));
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
        assert!(fio_claims(&output)[0].note.contains("not told"));
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
