//! Any result written is JSON and reads as it was.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::*;
use crate::histogram::FioBins;

/// Figures that six decimals hold exactly.
fn figure() -> impl Strategy<Value = f64> {
    any::<i32>().prop_map(|number| f64::from(number) / 64.0)
}

fn options() -> impl Strategy<Value = OptionPairs> {
    vec((any::<String>(), any::<String>()), 0..4)
}

fn latency() -> impl Strategy<Value = LatencyBlock> {
    let percentiles = vec((1_u32..=6400, any::<u64>()), 0..4).prop_map(|mut list| {
        list.sort_unstable_by_key(|&(percent, _)| percent);
        list.into_iter().map(|(percent, value)| (f64::from(percent) / 64.0, value)).collect()
    });
    let counts = (any::<u64>(), any::<u64>(), of(any::<u64>()));
    (counts, figure(), figure(), percentiles, vec((any::<u64>(), 1..9_u64), 0..5)).prop_map(
        |((min, max, n), mean, stddev, percentiles, latencies)| {
            let mut bins = FioBins::default();
            latencies.iter().for_each(|&(latency, count)| bins.add(latency, count));
            LatencyBlock { min, max, mean, stddev, n, percentiles, bins }
        },
    )
}

fn direction() -> impl Strategy<Value = DirectionFigures> {
    let priority = (any::<u64>(), of(any::<u64>()), any::<bool>(), latency()).prop_map(
        |(prio, priohint, is_total, latency)| PriorityLatency {
            prioclass: prio % 4,
            prio,
            priohint,
            lat_ns: is_total.then(|| latency.clone()),
            clat_ns: (!is_total).then_some(latency),
        },
    );
    let blocks = (latency(), latency(), latency(), vec(priority, 0..3));
    (any::<[u64; 12]>(), vec(figure(), 6), blocks, of(figure())).prop_map(
        |(counts, figures, (slat_ns, clat_ns, lat_ns, prios), cachehit)| {
            let [io_bytes, bw_bytes, bw, runtime, total_ios, short_ios, drop_ios, ..] = counts;
            let [.., bw_min, bw_max, bw_samples, iops_min, iops_max] = counts;
            let [iops, bw_agg, bw_mean, bw_dev, iops_mean, iops_stddev] = figures[..] else {
                unreachable!("six figures")
            };
            DirectionFigures {
                io_bytes,
                bw_bytes,
                bw,
                iops,
                runtime,
                total_ios,
                short_ios,
                drop_ios,
                slat_ns,
                clat_ns,
                lat_ns,
                prios,
                bw_min,
                bw_max,
                bw_agg,
                bw_mean,
                bw_dev,
                bw_samples,
                iops_min,
                iops_max,
                iops_mean,
                iops_stddev,
                iops_samples: bw_samples ^ 1,
                cachehit,
            }
        },
    )
}

fn steady_state() -> impl Strategy<Value = SteadyStateTest> {
    let lists = (vec(any::<u64>(), 0..4), vec(any::<u64>(), 0..4), of(vec(any::<u64>(), 0..4)));
    (any::<(String, String, bool, i64, u64)>(), figure(), lists).prop_map(
        |((ss, criterion, attained, duration, mean), slope, (iops, bw, lat_ns))| SteadyStateTest {
            ss,
            duration,
            attained,
            criterion,
            max_deviation: slope + 1.0,
            slope,
            data: SteadyStateData {
                bw_mean: mean,
                iops_mean: mean / 2,
                latency: lat_ns.map(|lat_ns| SteadyStateLatency { lat_mean: mean, lat_ns }),
                iops,
                bw,
            },
        },
    )
}

fn job() -> impl Strategy<Value = FioJob> {
    let texts = (any::<String>(), of(options()), of(any::<String>()), of(any::<String>()));
    let directions = (of(direction()), of(direction()), of(direction()), of(latency()));
    let shares = vec((any::<String>(), figure()), 0..4);
    (texts, directions, shares, of(steady_state()), any::<(i64, u32, u64, Option<u64>)>()).prop_map(
        |(
            texts,
            (read, write, mixed, sync),
            shares,
            steadystate,
            (error, groupid, count, maybe),
        )| {
            let (jobname, options, desc, hostname) = texts;
            FioJob {
                jobname: format!("job {jobname}"),
                groupid: groupid.into(),
                error,
                options,
                read,
                write,
                mixed,
                sync: sync.map(|lat_ns| SyncSection { total_ios: count, lat_ns }),
                ctx: count,
                job_runtime: maybe,
                iodepth_level: shares.clone(),
                latency: LatencyShares { us: shares, ..LatencyShares::default() },
                errors: maybe.map(|total| (total, error)),
                latency_search: maybe.map(|depth| LatencySearch { depth, ..Default::default() }),
                desc,
                steadystate,
                hostname,
                port: maybe,
                ..FioJob::default()
            }
        },
    )
}

fn disk() -> impl Strategy<Value = DiskUtil> {
    (any::<String>(), any::<[u64; 3]>(), figure(), of(any::<(u64, u64)>()), any::<bool>()).prop_map(
        |(name, [read_ios, write_ios, in_queue], util, sectors, is_raid)| DiskUtil {
            name,
            own: DiskCounters {
                read_ios,
                write_ios,
                in_queue,
                util,
                read_sectors: sectors.map(|(read, _)| read),
                write_sectors: sectors.map(|(_, write)| write),
                ..Default::default()
            },
            members: is_raid.then(|| DiskCounters {
                read_sectors: sectors.map(|(read, _)| read),
                write_sectors: sectors.map(|(_, write)| write),
                write_merges: 3,
                util,
                ..Default::default()
            }),
            ..DiskUtil::default()
        },
    )
}

fn output() -> impl Strategy<Value = FioOutput> {
    let jobs = vec(job(), 0..3);
    (any::<(String, Option<u64>, bool)>(), options(), jobs, of(vec(disk(), 0..3))).prop_map(
        |((text, timestamp, is_client), global_options, jobs, disk_util)| FioOutput {
            version: format!("fio-3.{text}"),
            timestamp,
            time: Some(text),
            global_options,
            is_client,
            jobs,
            disk_util,
            ..FioOutput::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_json_and_reads_as_it_was(output in output()) {
        let text = write(&output);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        let file = read(text.as_bytes()).unwrap();
        prop_assert_eq!((file.documents, file.text.as_str(), file.cut_off_line), (1, "", None));
        let mut found = file.output;
        found.jobs.iter_mut().for_each(|job| job.line = 0);
        prop_assert_eq!(found, output);
    }
}

/// A key that is read into another's field would be written from there too, and a round trip sees nothing.
#[test]
fn each_key_of_a_device_is_read_into_its_own_field() {
    let text = r#"{"fio version": "fio-3.36", "jobs": [], "disk_util": [{"name": "md0",
        "read_ios": 1, "write_ios": 2, "read_sectors": 3, "write_sectors": 4, "read_merges": 5,
        "write_merges": 6, "read_ticks": 7, "write_ticks": 8, "in_queue": 9, "util": 10.5,
        "aggr_read_ios": 11, "aggr_write_ios": 12, "aggr_read_sectors": 13,
        "aggr_write_sectors": 14, "aggr_read_merges": 15, "aggr_write_merge": 16,
        "aggr_read_ticks": 17, "aggr_write_ticks": 18, "aggr_in_queue": 19, "aggr_util": 20.5}]}"#;
    let counters = |first: u64, util| DiskCounters {
        read_ios: first,
        write_ios: first + 1,
        read_sectors: Some(first + 2),
        write_sectors: Some(first + 3),
        read_merges: first + 4,
        write_merges: first + 5,
        read_ticks: first + 6,
        write_ticks: first + 7,
        in_queue: first + 8,
        util,
    };
    let (own, members) = (counters(1, 10.5), Some(counters(11, 20.5)));
    let expected = DiskUtil { name: "md0".to_owned(), own, members, ..DiskUtil::default() };
    assert_eq!(read(text.as_bytes()).unwrap().output.disk_util, Some(vec![expected]));
}

#[test]
fn each_key_of_a_job_that_shares_a_field_is_read_into_its_own_part() {
    let text = r#"{"fio version": "fio-3.36", "jobs": [{"jobname": "a", "total_err": 3,
        "first_error": 5, "latency_depth": 6, "latency_target": 7, "latency_percentile": 8.5,
        "latency_window": 9, "latency_ns": {"2": 10.0}, "latency_us": {"2": 11.0},
        "latency_ms": {"2": 12.0}}]}"#;
    let output = read(text.as_bytes()).unwrap().output;
    let [job] = output.jobs.as_slice() else { panic!("{output:?}") };
    assert_eq!(job.errors, Some((3, 5)));
    let search = LatencySearch { depth: 6, target: 7, percentile: 8.5, window: 9 };
    assert_eq!(job.latency_search, Some(search));
    let shares = [&job.latency.ns, &job.latency.us, &job.latency.ms].map(|shares| shares[0].1);
    assert_eq!(shares, [10.0, 11.0, 12.0]);
}
