//! fio's terse output (`--minimal`) from a result.
//!
//! A line per job in version 2 to 5 of the format, fields between semicolons: 121 in version 3 (no
//! trims), 162 in 4, 180 in 5, and nine more per block device. Latencies are microseconds,
//! bandwidths KiB/s. The format has no field for syncs.

use std::fmt::Write as _;

use crate::json::{
    DirectionFigures, DiskCounters, DiskUtil, FioJob, FioOutput, LatencyBlock, Shares,
};

// Fields for percentiles per direction, used or not (`FIO_IO_U_LIST_MAX_LEN` in fio's stat.h).
const PERCENTILES: usize = 20;
/// Labels of the depths, and of the latencies below and from 1 ms.
const DEPTHS: usize = 7;
const MICROSECONDS: usize = 10;
const MILLISECONDS: usize = 12;

/// A line per job; `percentiles` has those that each job shows also where it has no latency.
pub fn write(output: &FioOutput, version: u8, percentiles: &[Vec<f64>]) -> String {
    let lists = percentiles.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    let line = |(job, list): (&FioJob, &[f64])| line(output, job, version, list);
    output.jobs.iter().zip(lists).map(line).collect()
}

fn line(output: &FioOutput, job: &FioJob, version: u8, percentiles: &[f64]) -> String {
    let mut line = match version {
        2 => format!("2;{};{};{}", job.jobname, job.groupid, job.error),
        _ => format!("{version};{};{};{};{}", output.version, job.jobname, job.groupid, job.error),
    };
    direction(&mut line, job.read.as_ref(), version, percentiles);
    direction(&mut line, job.write.as_ref(), version, percentiles);
    if version != 3 {
        direction(&mut line, job.trim.as_ref(), version, percentiles);
    }
    add(&mut line, format_args!("{:.6}%;{:.6}%", job.usr_cpu, job.sys_cpu));
    add(&mut line, format_args!("{};{};{}", job.ctx, job.majf, job.minf));
    shares(&mut line, &job.iodepth_level, DEPTHS, 1, 0.0);
    // What took less than 1 µs is counted with the first microseconds.
    let below: f64 = job.latency.ns.iter().map(|(_, percent)| percent).sum();
    shares(&mut line, &job.latency.us, MICROSECONDS, 2, below);
    shares(&mut line, &job.latency.ms, MILLISECONDS, 2, 0.0);
    if version >= 3 {
        output.disk_util.iter().flatten().for_each(|util| disk(&mut line, util));
    }
    if let Some(description) = &job.desc {
        if version == 2 {
            line.push('\n');
        }
        add(&mut line, format_args!("{description}"));
    }
    line.push('\n');
    line
}

fn direction(
    line: &mut String,
    given: Option<&DirectionFigures>,
    version: u8,
    percentiles: &[f64],
) {
    let nothing = DirectionFigures::default();
    let figures = given.unwrap_or(&nothing);
    let (kib, bw) = (figures.io_bytes >> 10, figures.bw_bytes >> 10);
    add(line, format_args!("{kib};{bw};{};{}", figures.whole_iops(), figures.runtime));
    latency(line, &figures.slat_ns);
    latency(line, &figures.clat_ns);
    // fio shows those of the total latency where figures was asked for them.
    let shown = [&figures.lat_ns, &figures.clat_ns]
        .into_iter()
        .find(|latency| !latency.percentiles.is_empty());
    let known: Vec<(f64, u64)> = match shown {
        Some(block) => block.percentiles.clone(),
        None => percentiles.iter().map(|&percent| (percent, 0)).collect(),
    };
    for index in 0..PERCENTILES {
        match known.get(index) {
            Some((percent, ns)) => add(line, format_args!("{percent:.6}%={}", ns / 1000)),
            None => add(line, format_args!("0%=0")),
        }
    }
    latency(line, &figures.lat_ns);
    add(line, format_args!("{};{};{:.6}%", figures.bw_min, figures.bw_max, figures.bw_agg));
    add(line, format_args!("{:.6};{:.6}", figures.bw_mean, figures.bw_dev));
    if version == 5 {
        add(line, format_args!("{};{};{}", figures.bw_samples, figures.iops_min, figures.iops_max));
        add(
            line,
            format_args!(
                "{:.6};{:.6};{}",
                figures.iops_mean, figures.iops_stddev, figures.iops_samples
            ),
        );
    }
}

fn latency(line: &mut String, block: &LatencyBlock) {
    let (mean, deviation) = (block.mean / 1000.0, block.stddev / 1000.0);
    let (min, max) = (block.min / 1000, block.max / 1000);
    add(line, format_args!("{min};{max};{mean:.6};{deviation:.6}"));
}

fn shares(line: &mut String, shares: &Shares, labels: usize, digits: usize, first: f64) {
    for index in 0..labels {
        let percent = shares.get(index).map_or(0.0, |(_, percent)| *percent);
        let percent = if index == 0 { percent + first } else { percent };
        add(line, format_args!("{percent:.digits$}%"));
    }
}

fn disk(line: &mut String, disk: &DiskUtil) {
    let members = disk.members.as_ref().map(|members| ("slaves", members));
    for (name, counters) in std::iter::once((disk.name.as_str(), &disk.own)).chain(members) {
        let DiskCounters { read_ios, write_ios, read_merges, write_merges, .. } = counters;
        add(line, format_args!("{name};{read_ios};{write_ios};{read_merges};{write_merges}"));
        let DiskCounters { read_ticks, write_ticks, in_queue, util, .. } = counters;
        add(line, format_args!("{read_ticks};{write_ticks};{in_queue};{util:.2}%"));
    }
}

fn add(line: &mut String, fields: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = write!(line, ";{fields}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_number_of_fields() {
        let disks = Some(vec![DiskUtil { name: "vda".into(), ..DiskUtil::default() }]);
        let jobs = vec![FioJob { jobname: "a".into(), ..FioJob::default() }];
        let mut output = FioOutput { version: "fio-3.33".into(), jobs, ..FioOutput::default() };
        for (version, fields) in [(2, 161), (3, 121), (4, 162), (5, 180)] {
            let count = |output: &FioOutput| write(output, version, &[]).trim().split(';').count();
            output.disk_util = None;
            assert_eq!(count(&output), fields, "version {version}");
            output.disk_util.clone_from(&disks);
            let more = if version == 2 { 0 } else { 9 };
            assert_eq!(count(&output), fields + more, "version {version} with a device");
        }
    }

    /// Output of fio 3.33 with `--output-format=terse,json`: the line, then the document.
    fn check(recorded: &str, version: u8) {
        let (expected, document) = recorded.split_once('\n').unwrap();
        let output = crate::json::read(document.as_bytes()).unwrap().output;
        let percentiles = crate::import::ShownPercentiles::default().list;
        let written = write(&output, version, &[percentiles]);
        let fields: Vec<_> = written.trim().split(';').zip(expected.split(';')).collect();
        for (index, (written, expected)) in fields.iter().enumerate() {
            // The share of the group's bandwidth is divided in whole KiB here and exactly in JSON.
            let figure = |text: &str| text.trim_end_matches('%').parse::<f64>().unwrap_or(f64::NAN);
            let is_near = (figure(written) / figure(expected) - 1.0).abs() < 1e-4;
            assert!(written == expected || is_near, "{}: {written} {expected}", index + 1);
        }
        assert_eq!(fields.len(), expected.split(';').count());
    }

    #[test]
    fn a_line_is_as_fio_prints_it_from_the_same_figures() {
        check(include_str!("../tests/recorded/terse_3.txt"), 3);
        check(include_str!("../tests/recorded/terse_5.txt"), 5);
    }

    #[test]
    fn percentiles_are_those_of_the_total_latency_where_it_has_some_and_else_of_the_completion() {
        let block = |ns: u64| LatencyBlock {
            percentiles: vec![(50.0, ns), (99.0, 3 * ns)],
            ..LatencyBlock::default()
        };
        let clat_ns = block(20_000);
        let reads =
            DirectionFigures { clat_ns, lat_ns: block(25_000), ..DirectionFigures::default() };
        let writes = DirectionFigures { clat_ns: block(40_000), ..DirectionFigures::default() };
        let job = FioJob { read: Some(reads), write: Some(writes), ..FioJob::default() };
        let line = write(&FioOutput { jobs: vec![job], ..FioOutput::default() }, 3, &[]);
        let fields: Vec<&str> = line.split(';').collect();
        assert_eq!(fields[17..20], ["50.000000%=25", "99.000000%=75", "0%=0"]);
        assert_eq!(fields[58..61], ["50.000000%=40", "99.000000%=120", "0%=0"]);
    }

    #[test]
    fn the_description_is_the_last_field_and_in_version_2_a_line_of_its_own() {
        let job = FioJob { desc: Some("two words".into()), ..FioJob::default() };
        let output = FioOutput { jobs: vec![job], ..FioOutput::default() };
        assert!(write(&output, 3, &[]).ends_with("%;two words\n"));
        assert!(write(&output, 2, &[]).ends_with("%\n;two words\n"));
    }

    #[test]
    fn each_figure_has_its_own_field_in_each_direction() {
        let block = |first: u32| {
            let [min, max] = [0, 1].map(|more| u64::from(first + more) * 1000);
            let [mean, stddev] = [2, 3].map(|more| f64::from(first + more) * 1000.0);
            LatencyBlock { min, max, mean, stddev, ..LatencyBlock::default() }
        };
        let figures = || {
            Some(DirectionFigures {
                io_bytes: 11 << 10,
                bw_bytes: 12 << 10,
                total_ios: 26,
                runtime: 2000,
                slat_ns: block(15),
                clat_ns: block(19),
                lat_ns: block(23),
                bw_min: 27,
                bw_max: 28,
                bw_agg: 29.0,
                bw_mean: 30.0,
                bw_dev: 31.0,
                bw_samples: 32,
                iops_min: 33,
                iops_max: 34,
                iops_mean: 35.0,
                iops_stddev: 36.0,
                iops_samples: 37,
                ..DirectionFigures::default()
            })
        };
        let first = "11;12;13;2000;15;16;17.000000;18.000000;19;20;21.000000;22.000000";
        let last = "23;24;25.000000;26.000000;27;28;29.000000%;30.000000;31.000000;32;33;34;\
                    35.000000;36.000000;37";
        let of_nothing = FioJob { jobname: "a".into(), groupid: 3, error: 5, ..FioJob::default() };
        let jobs = vec![
            FioJob { read: figures(), ..of_nothing.clone() },
            FioJob { write: figures(), ..of_nothing.clone() },
            FioJob { trim: figures(), ..of_nothing },
        ];
        let text = write(&FioOutput { jobs, version: "v".into(), ..FioOutput::default() }, 5, &[]);
        // A direction has 47 fields, of which 20 are percentiles.
        for (line, begin) in text.lines().zip([5, 52, 99]) {
            let fields: Vec<&str> = line.split(';').collect();
            assert_eq!(fields[..5], ["5", "v", "a", "3", "5"]);
            assert_eq!(fields[begin..begin + 12].join(";"), first);
            assert_eq!(fields[begin + 12..begin + 32], ["0%=0"; 20]);
            assert_eq!(fields[begin + 32..begin + 47].join(";"), last);
            let mut others = [5, 52, 99].into_iter().filter(|&other| other != begin);
            assert!(others.all(|other| fields[other..other + 4] == ["0"; 4]), "{line}");
        }
    }

    #[test]
    fn a_device_has_its_own_counters_and_then_those_of_its_members() {
        let counters = |first: u32, util| {
            let [read_ios, write_ios, read_merges, write_merges, read_ticks, write_ticks, in_queue] =
                [0, 1, 2, 3, 4, 5, 6].map(|more| u64::from(first + more));
            DiskCounters {
                read_ios,
                write_ios,
                read_merges,
                write_merges,
                read_ticks,
                write_ticks,
                in_queue,
                util,
                ..DiskCounters::default()
            }
        };
        let (own, members) = (counters(1, 8.5), Some(counters(11, 18.25)));
        let raid = DiskUtil { name: "md0".into(), own, members, ..DiskUtil::default() };
        let (jobs, disk_util) = (vec![FioJob::default()], Some(vec![raid]));
        let output = FioOutput { jobs, disk_util, ..FioOutput::default() };
        let expected = ";md0;1;2;3;4;5;6;7;8.50%;slaves;11;12;13;14;15;16;17;18.25%\n";
        let text = write(&output, 3, &[]);
        assert!(text.ends_with(expected), "{text}");
    }
}
