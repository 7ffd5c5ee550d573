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
