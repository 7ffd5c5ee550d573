//! The table of measurements.
//!
//! A row is a [`Measurement`]: one workload, measured once. Its key is in its findings (step,
//! stream, round, repeat, section, levels, location and target), and so are its values. Every
//! question (durable writes, campaigns, layers of a stack, predictions) selects rows by
//! [`Measurements`] and takes repeats together here.

use std::ops::Deref;

use durio_base::stats::least_squares::{float, mean, median, saturating_sum};
use durio_observe::DeviceCounters;
use durio_plan::{Load, Plan, Step};
use durio_record::{OperationName, Phase};
use serde::{Deserialize, Serialize};

use crate::mirror::LatencyCount;
use crate::{IntervalPoint, OperationFindings, WorkloadFindings};

/// One workload, measured once; dereferences to its findings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement<'a> {
    /// The plan of its run.
    pub(crate) plan: &'a Plan,
    pub(crate) found: &'a WorkloadFindings,
}

impl Deref for Measurement<'_> {
    type Target = WorkloadFindings;

    fn deref(&self) -> &WorkloadFindings {
        self.found
    }
}

impl<'a> Measurement<'a> {
    pub(crate) fn step(&self) -> Option<&'a Step> {
        self.plan.steps.get(self.found.step as usize)
    }

    pub(crate) fn load(&self) -> Option<&'a Load> {
        self.step()?.stream(self.found.stream)
    }

    /// Targets that its load works on at once.
    pub(crate) fn drives(&self) -> u32 {
        self.load().map_or(1, |load| u32::try_from(load.targets().count()).unwrap_or(u32::MAX))
    }

    /// The operation that the workload is about.
    pub(crate) fn headline_operation(&self) -> Option<&'a OperationFindings> {
        self.found.operation(self.found.headline)
    }
}

/// Whole intervals of the measured phase: the ramp leads to the state, and a cut interval's rate is
/// not comparable.
pub(crate) fn whole_intervals(points: &[IntervalPoint]) -> Vec<&IntervalPoint> {
    let counts = |point: &&IntervalPoint| point.phase == Phase::Measure && !point.cut_short;
    points.iter().filter(counts).collect()
}

impl WorkloadFindings {
    /// Seconds that the devices' counters cover: the ramp and the measured phase.
    pub(crate) fn counted_seconds(&self) -> f64 {
        self.in_flight.span.max(self.measured).as_secs_f64()
    }

    /// Bytes that the devices below moved in all, by their counters of sectors, per byte that was
    /// `asked` for each second; `None` unless every device counts.
    pub(crate) fn device_bytes_per_byte(
        &self,
        asked: f64,
        sectors: fn(&DeviceCounters) -> u64,
    ) -> Option<f64> {
        let bytes = float(self.sum_of_devices(sectors)?) * SECTOR;
        Some(bytes / (asked * self.counted_seconds()))
    }

    /// A counter of all devices together; `None` unless there are devices and all of them count.
    fn sum_of_devices(&self, counter: fn(&DeviceCounters) -> u64) -> Option<u64> {
        let is_counted = self.devices.iter().all(|device| !device.not_counted);
        (!self.devices.is_empty() && is_counted)
            .then(|| saturating_sum(self.devices.iter().map(counter)))
    }

    /// What reached the devices for each of `operation`; `None` without operations, or without
    /// counters of every device.
    pub(crate) fn device_work(&self, operation: &OperationFindings) -> Option<DeviceWork> {
        // The counters run over the whole step, the rate is that of the measured phase alone.
        let span = self.counted_seconds();
        let commits = operation.rate * span;
        let writes = self.sum_of_devices(|device| device.writes_completed)?;
        if commits < 1.0 {
            return None;
        }
        // The kernel counts flushes from 5.5 on.
        let counted: Option<Vec<u64>> =
            self.devices.iter().map(|device| device.flushes_completed).collect();
        let flushes = counted.map(|all| float(saturating_sum(all)));
        let calls = self.operation(OperationName::Sync).map(|sync| sync.rate * span);
        // Per write and not per commit: with group commit a write has padding that no record has.
        let asked = self.operation(OperationName::Write).unwrap_or(operation).bandwidth;
        let bytes = self.device_bytes_per_byte(asked, |device| device.sectors_written)?;
        let per_call = flushes.zip(calls).filter(|(_, calls)| *calls >= 1.0);
        Some(DeviceWork {
            // Not one by nature. An O_DSYNC write to a raw device without FUA has two flushes, one
            // on a preallocated file of ext4 or XFS over a device with FUA has none (traced on
            // Linux 6.12).
            flushes_per_commit: flushes.map(|flushes| flushes / commits),
            flushes_per_sync_call: per_call.map(|(flushes, calls)| flushes / calls),
            writes_per_commit: float(writes) / commits,
            bytes_per_byte: if bytes.is_finite() { bytes } else { 0.0 },
        })
    }

    /// The headline's latencies with their numbers, from the curve over the quantiles.
    pub(crate) fn latency_counts(&self) -> Vec<LatencyCount> {
        let Some(operation) = self.operation(self.headline) else { return Vec::new() };
        // The histogram itself is dropped when its step ends; the curve keeps sixteen points a
        // decade of it.
        let all = operation.service.count;
        let mut before = 0_u64;
        let last = operation.curve.len().saturating_sub(1);
        let count = |(at, point): (usize, &crate::CurvePoint)| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            let up_to = if at == last { all } else { (point.quantile * float(all)).round() as u64 };
            let count = up_to.saturating_sub(before);
            before = before.max(up_to);
            LatencyCount { latency_ns: point.latency_ns, count }
        };
        operation.curve.iter().enumerate().map(count).collect()
    }
}

/// Bytes of a sector in the kernel's counters, whatever the device.
const SECTOR: f64 = 512.0;

/// What all devices together did per commit (or write), the ramp taken to be as fast as the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeviceWork {
    /// Flushes per commit; `None` if a device does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_commit: Option<f64>,
    /// Flushes per sync call, if the method is a separate call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes_per_sync_call: Option<f64>,
    pub writes_per_commit: f64,
    /// Bytes written per byte that the application wrote.
    pub bytes_per_byte: f64,
}

/// Rows of the table, in an order that the question gives them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measurements<'a>(Vec<Measurement<'a>>);

impl<'a> FromIterator<Measurement<'a>> for Measurements<'a> {
    fn from_iter<T: IntoIterator<Item = Measurement<'a>>>(rows: T) -> Self {
        Self(rows.into_iter().collect())
    }
}

impl<'a> Deref for Measurements<'a> {
    type Target = [Measurement<'a>];

    fn deref(&self) -> &[Measurement<'a>] {
        &self.0
    }
}

impl<'a> Measurements<'a> {
    /// The table of one run, by step, stream and round.
    pub(crate) fn of_run(
        plan: &'a Plan,
        found: impl IntoIterator<Item = &'a WorkloadFindings>,
    ) -> Self {
        let mut rows: Vec<_> = found.into_iter().map(|found| Measurement { plan, found }).collect();
        rows.sort_by_key(|row| (row.step, row.stream, row.round));
        Self(rows)
    }

    /// All streams of a step in all their rounds, of a table by step.
    pub(crate) fn of_step(&self, step: u32) -> &[Measurement<'a>] {
        let from = self.0.partition_point(|row| row.step < step);
        let rows = self.0.get(from..).unwrap_or_default();
        rows.get(..rows.partition_point(|row| row.step == step)).unwrap_or_default()
    }

    /// The first stream of a step's round, of a table by step.
    pub(crate) fn at(&self, step: u32, round: u32) -> Option<Measurement<'a>> {
        self.of_step(step).iter().find(|row| (row.stream, row.round) == (0, round)).copied()
    }

    pub(crate) fn extend(&mut self, rows: &[Measurement<'a>]) {
        self.0.extend_from_slice(rows);
    }

    /// The rows from the lowest to the highest rate.
    pub(crate) fn rising(mut self, rate: impl Fn(&WorkloadFindings) -> f64) -> Self {
        self.0.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        self
    }

    /// The middle of rising repeats, of two the lower: its values belong together, while means of
    /// repeats would mix rates and percentiles that never occurred together.
    pub(crate) fn middle(&self) -> Option<Measurement<'a>> {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied()
    }

    /// The median of a value that each row has, or its mean.
    pub(crate) fn together(
        &self,
        by_mean: bool,
        value: impl Fn(&'a WorkloadFindings) -> Option<f64>,
    ) -> Option<f64> {
        // All or nothing: a median of p99.9 over the steps long enough to have one would describe
        // only the longest.
        let values: Option<Vec<f64>> = self.0.iter().map(|row| value(row.found)).collect();
        let values = values?;
        if by_mean { mean(&values) } else { median(&values) }
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;

    use super::*;
    use crate::tests::sample::sample;

    /// Rows of step, stream and round, each with another rate.
    fn found(rows: &[(u32, u32, u32, f64)]) -> Vec<WorkloadFindings> {
        let row = |&(step, stream, round, iops): &(u32, u32, u32, f64)| WorkloadFindings {
            step,
            stream,
            round,
            iops,
            ..sample().workloads.remove(0)
        };
        rows.iter().map(row).collect()
    }

    const ROWS: [(u32, u32, u32, f64); 5] =
        [(4, 0, 1, 40.0), (2, 1, 0, 10.0), (4, 0, 0, 30.0), (2, 0, 0, 20.0), (7, 1, 0, 5.0)];

    #[test]
    fn a_step_has_its_rows_by_stream_and_round_and_a_round_the_first_stream() {
        let (plan, found) = (sample().plan, found(&ROWS));
        let table = Measurements::of_run(&plan, &found);
        let rates = |step| table.of_step(step).iter().map(|row| row.iops).collect::<Vec<_>>();
        assert_eq!([rates(2), rates(4), rates(3)], [vec![20.0, 10.0], vec![30.0, 40.0], vec![]]);
        assert_eq!(table.at(4, 1).unwrap().iops, 40.0);
        assert!(table.at(4, 2).is_none() && table.at(7, 0).is_none());
    }

    #[test]
    fn the_middle_of_an_even_number_of_repeats_is_the_lower() {
        let (plan, found) = (sample().plan, found(&ROWS));
        let middle = |count: usize| {
            let rows = Measurements::of_run(&plan, &found[..count]);
            rows.rising(|row| row.iops).middle().map(|row| row.iops)
        };
        // 40; 10, 40; 10, 30, 40; 10, 20, 30, 40.
        assert_eq!([1, 2, 3, 4].map(middle), [40.0, 10.0, 30.0, 20.0].map(Some));
        assert_eq!(middle(0), None);
    }

    #[test]
    fn a_value_is_taken_together_only_if_every_row_has_it() {
        let (plan, mut found) = (sample().plan, found(&ROWS[..3]));
        for (row, seconds) in found.iter_mut().zip([1, 2, 9]) {
            row.idle_before = Some(Nanos::from_secs(seconds));
        }
        let idle = |row: &WorkloadFindings| Some(row.idle_before?.as_secs_f64());
        let together = |found: &[WorkloadFindings], by_mean| {
            Measurements::of_run(&plan, found).together(by_mean, idle)
        };
        assert_eq!([false, true].map(|by_mean| together(&found, by_mean)), [Some(2.0), Some(4.0)]);
        found[2].idle_before = None;
        assert_eq!(together(&found, false), None);
    }

    #[test]
    fn device_counters_that_one_device_lacks_tell_nothing_of_a_write() {
        let mut found = found(&ROWS[..1]).remove(0);
        let device = |name: &str, writes_completed| DeviceCounters {
            name: name.to_owned(),
            writes_completed,
            sectors_written: 8 * writes_completed,
            flushes_completed: Some(writes_completed / 2),
            ..DeviceCounters::default()
        };
        found.devices = vec![device("vda", 700), device("vdb", 300)];
        (found.in_flight.span, found.measured) = (Nanos::from_secs(4), Nanos::ZERO);
        let mut write = found.operations.remove(0);
        found.operations.clear();
        (write.operation, write.rate, write.bandwidth) = (OperationName::Write, 50.0, 204_800.0);
        let work = found.device_work(&write).unwrap();
        assert_eq!((work.writes_per_commit, work.flushes_per_commit), (5.0, Some(2.5)));
        assert_eq!((work.bytes_per_byte, work.flushes_per_sync_call), (5.0, None));
        found.devices[1].flushes_completed = None;
        assert_eq!(found.device_work(&write).unwrap().flushes_per_commit, None);
        found.devices[1].not_counted = true;
        assert_eq!(found.device_work(&write), None);
    }

    #[test]
    fn a_sync_call_has_its_share_of_the_flushes_and_a_byte_written_its_share_of_the_sectors() {
        let mut found = found(&ROWS[..1]).remove(0);
        found.devices = vec![DeviceCounters {
            writes_completed: 600,
            sectors_written: 4800,
            sectors_read: 77,
            flushes_completed: Some(300),
            ..DeviceCounters::default()
        }];
        (found.in_flight.span, found.measured) = (Nanos::from_secs(1), Nanos::from_secs(4));
        for (operation, (rate, bandwidth)) in
            found.operations.iter_mut().zip([(25.0, 1.0), (50.0, 307_200.0), (30.0, 0.0)])
        {
            (operation.rate, operation.bandwidth) = (rate, bandwidth);
        }
        // 100 commits, 200 writes and 120 syncs in 4 s.
        let commit = found.operation(OperationName::Commit).unwrap();
        let work = found.device_work(commit).unwrap();
        assert_eq!((work.writes_per_commit, work.flushes_per_commit), (6.0, Some(3.0)));
        assert_eq!((work.flushes_per_sync_call, work.bytes_per_byte), (Some(2.5), 2.0));
    }

    #[test]
    fn latencies_of_a_curve_have_the_number_of_operations_up_to_each() {
        let mut found = found(&ROWS[..1]).remove(0);
        let point = |quantile, latency_ns| crate::CurvePoint { quantile, latency_ns };
        let headline = &mut found.operations[0];
        headline.service.count = 1000;
        headline.curve = vec![point(0.5, 70), point(0.9, 80), point(0.99, 300), point(0.995, 900)];
        found.operations[1].curve = vec![point(0.5, 1)];
        let counts: Vec<(u64, u64)> =
            found.latency_counts().iter().map(|it| (it.latency_ns, it.count)).collect();
        assert_eq!(counts, [(70, 500), (80, 400), (300, 90), (900, 10)]);
        found.operations.clear();
        assert_eq!(found.latency_counts(), []);
    }
}
