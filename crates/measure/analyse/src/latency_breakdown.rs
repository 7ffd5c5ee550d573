//! Where the time of one operation goes: in the system call, in block layers, at the devices, on and
//! off the processor.
//!
//! Traced operations ([`PathTraced`]) and the measurements give a [`LatencyBreakdown`] for each
//! workload whose operations were traced.

use durio_base::Nanos;
use durio_base::stats::least_squares::{float, quotient, saturating_sum};
use durio_plan::{Load, Plan};
use durio_record::{LatencyComponents, OperationPath, PathIo, PathTraced};
use serde::{Deserialize, Serialize};

use crate::WorkloadFindings;
use crate::distribution::percentile;

/// A part of an operation's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyComponent {
    /// In the program itself, outside of system calls.
    Program,
    /// From the entry into the system call until something was queued to a block device; all of a call
    /// that queues nothing. On memory most of a filesystem's cost lies here.
    Entry,
    /// Queued, and with no lowest driver: md, dm, loop and their like, and the scheduler.
    Queued,
    /// With a lowest driver: issue (or queue, without requests) to completion.
    Device,
    /// After one thing was done and before the next was queued: the filesystem, and waking.
    Between,
    /// From the last completion until the system call returns: waking, and the way out.
    Exit,
}

impl LatencyComponent {
    /// All, in the order in which an operation passes them.
    pub const ALL: [Self; 6] =
        [Self::Program, Self::Entry, Self::Queued, Self::Device, Self::Between, Self::Exit];

    /// As readers know it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Entry => "entry to first queue",
            Self::Queued => "queued, in layers",
            Self::Device => "issue to complete",
            Self::Between => "between I/Os",
            Self::Exit => "last complete to exit",
        }
    }

    fn of(self, spent: &LatencyComponents) -> u64 {
        match self {
            Self::Program => spent.program,
            Self::Entry => spent.entry,
            Self::Queued => spent.queued,
            Self::Device => spent.device,
            Self::Between => spent.between,
            Self::Exit => spent.exit,
        }
        .get()
    }
}

/// The time of one component. Medians do not add up; means do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ComponentTime {
    #[serde(rename = "stretch")]
    pub component: LatencyComponent,
    pub mean_ns: f64,
    pub p50_ns: u64,
    /// 99th percentile; `None` below 100 operations.
    pub p99_ns: Option<u64>,
    /// Mean of the part in which the thread was on no processor.
    pub off_cpu_mean_ns: f64,
    /// Median of that part.
    pub off_cpu_p50_ns: u64,
    /// The mean as a share of the operation's mean, 0 to 1.
    pub share: f64,
}

/// What one operation queues to one block device, on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DevicePerOperation {
    /// The kernel's name, such as `md0`.
    pub device: String,
    /// It stands on no other block device.
    pub lowest: bool,
    /// Reads, counted in bios.
    pub reads: f64,
    pub read_bytes: f64,
    /// Writes (bios) with data.
    pub writes: f64,
    pub written_bytes: f64,
    /// Bios that ask for a flush before them.
    pub flushes: f64,
    /// Bios that ask to be durable themselves (FUA).
    pub fua: f64,
}

/// Where the time of one operation goes, with one job and one operation at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyBreakdown {
    /// Index of the step that was traced.
    pub step: u32,
    /// Operations that were traced completely.
    pub operations: u64,
    /// Events that the kernel could not keep; their operations are left out.
    pub lost_events: u64,
    /// The clock of the trace, by the kernel's name.
    pub clock: String,
    /// The smallest difference that it shows.
    pub resolution_ns: u64,
    /// Mean of the whole operation.
    pub mean_ns: f64,
    /// Median service latency while the kernel traced.
    pub traced_p50_ns: Option<u64>,
    /// Median service latency of as many operations without tracing, right before and after.
    pub untraced_p50_ns: Option<u64>,
    /// What tracing costs: traced ÷ untraced − 1; below zero where chance is larger.
    pub overhead_share: Option<f64>,
    /// The components, in the order in which an operation passes them; empty if nothing was seen.
    #[serde(rename = "slices")]
    pub components: Vec<ComponentTime>,
    /// Time on no processor as a share of all, 0 to 1.
    pub off_cpu_share: f64,
    /// How often the thread left its processor to wait, per operation.
    pub waits_per_operation: f64,
    /// How often the processor was taken from it, per operation.
    pub preemptions_per_operation: f64,
    /// What reached each block device, top to bottom; known even where a device has no counters.
    pub devices: Vec<DevicePerOperation>,
    /// Why nothing could be traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

impl LatencyBreakdown {
    /// The time of a component.
    pub fn component(&self, component: LatencyComponent) -> Option<&ComponentTime> {
        self.components.iter().find(|time| time.component == component)
    }
}

/// Gives each workload the components of the step that made the same operations alone.
pub(crate) fn attach(plan: &Plan, workloads: &mut [WorkloadFindings], traced: &[PathTraced]) {
    for traced in traced {
        let Some(step) = plan.steps.get(traced.step as usize) else { continue };
        // A trace has one job with one operation at a time; the components of that operation hold
        // for every workload that differs from it in jobs or depth alone.
        let same = |workload: &WorkloadFindings| {
            let step_of = plan.steps.get(workload.step as usize);
            let load = step_of.and_then(|step| step.stream(workload.stream));
            load.is_some_and(|load| is_same(load, &step.load))
        };
        let found = breakdown(traced);
        for workload in workloads.iter_mut().filter(|workload| same(workload)) {
            workload.latency_breakdown = Some(found.clone());
        }
    }
}

/// True if one operation of both loads, alone, is the same.
fn is_same(a: &Load, b: &Load) -> bool {
    let alone = |load: &Load| {
        let mut load = load.alone();
        // The traced step repeats a workload under a separate name.
        load.workload.name.clear();
        load.workload.summary.clear();
        load
    };
    alone(a) == alone(b)
}

fn breakdown(traced: &PathTraced) -> LatencyBreakdown {
    let all = &traced.operations;
    let whole = |path: &OperationPath| {
        LatencyComponent::ALL.iter().map(|component| component.of(&path.spent)).sum()
    };
    let off = |path: &OperationPath| {
        LatencyComponent::ALL.iter().map(|component| component.of(&path.off_cpu)).sum()
    };
    let mean_ns = mean(all.iter().map(whole));
    // Medians, so that one disturbed operation does not look like the cost of tracing.
    let (with, without) = (median(&traced.traced), median(&traced.untraced));
    let overhead = with.zip(without).filter(|(_, without)| *without > 0);
    LatencyBreakdown {
        step: traced.step,
        operations: all.len() as u64,
        lost_events: traced.lost,
        clock: traced.clock.clone(),
        resolution_ns: traced.resolution.get(),
        mean_ns,
        traced_p50_ns: with,
        untraced_p50_ns: without,
        overhead_share: overhead.map(|(with, without)| float(with) / float(without) - 1.0),
        components: match all.is_empty() {
            true => Vec::new(),
            false => {
                LatencyComponent::ALL.map(|component| time_of(component, all, mean_ns)).to_vec()
            }
        },
        off_cpu_share: share(mean(all.iter().map(off)), mean_ns),
        waits_per_operation: mean(all.iter().map(|path| path.waits.into())),
        preemptions_per_operation: mean(all.iter().map(|path| path.preemptions.into())),
        devices: devices(traced),
        unavailable: traced.unavailable.clone(),
    }
}

fn time_of(component: LatencyComponent, all: &[OperationPath], whole: f64) -> ComponentTime {
    let sorted = |of: fn(&OperationPath) -> &LatencyComponents| {
        let mut spans: Vec<u64> = all.iter().map(|path| component.of(of(path))).collect();
        spans.sort_unstable();
        spans
    };
    let (spent, off) = (sorted(|path| &path.spent), sorted(|path| &path.off_cpu));
    let mean_ns = mean(spent.iter().copied());
    ComponentTime {
        component,
        mean_ns,
        p50_ns: percentile(&spent, 50).unwrap_or(0),
        p99_ns: percentile(&spent, 99),
        off_cpu_mean_ns: mean(off.iter().copied()),
        off_cpu_p50_ns: percentile(&off, 50).unwrap_or(0),
        share: share(mean_ns, whole),
    }
}

fn devices(traced: &PathTraced) -> Vec<DevicePerOperation> {
    let count = traced.operations.len() as u64;
    let per_operation = |place: usize, of: fn(&PathIo) -> u64| {
        let ios = traced.operations.iter().flat_map(|path| &path.io);
        let own = ios.filter(|io| io.device as usize == place).map(of);
        quotient(saturating_sum(own), count)
    };
    let device = |(place, device): (usize, &durio_record::PathDevice)| DevicePerOperation {
        device: device.name.clone(),
        lowest: device.lowest,
        reads: per_operation(place, |io| io.reads.into()),
        read_bytes: per_operation(place, |io| io.read_bytes.get()),
        writes: per_operation(place, |io| io.writes.into()),
        written_bytes: per_operation(place, |io| io.written_bytes.get()),
        flushes: per_operation(place, |io| io.flushes.into()),
        fua: per_operation(place, |io| io.fua.into()),
    };
    traced.devices.iter().enumerate().map(device).collect()
}

fn median(spans: &[Nanos]) -> Option<u64> {
    let mut spans: Vec<u64> = spans.iter().map(|span| span.get()).collect();
    spans.sort_unstable();
    percentile(&spans, 50)
}

fn mean(numbers: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = numbers.len() as u64;
    quotient(saturating_sum(numbers), count)
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_record::PathDevice;

    use super::*;
    use crate::tests::sample::sample;

    /// 100 operations of 10 to 1000 µs at the device and 5 µs before; 300 µs of them off the processor.
    fn traced(step: u32) -> PathTraced {
        let path = |number: u64| {
            let device = Nanos::from_micros(10 * number);
            let spent = LatencyComponents {
                device,
                entry: Nanos::from_micros(5),
                ..LatencyComponents::default()
            };
            let off = Nanos::from_micros(300).min(device);
            let io = PathIo {
                device: 1,
                writes: 2,
                written_bytes: Bytes::from_kib(8),
                flushes: 1,
                ..PathIo::default()
            };
            OperationPath {
                spent,
                off_cpu: LatencyComponents { device: off, ..LatencyComponents::default() },
                waits: 1,
                preemptions: 0,
                io: vec![io],
            }
        };
        let device = |name: &str, lowest| PathDevice { name: name.into(), lowest, requests: true };
        PathTraced {
            step,
            clock: "x86-tsc".into(),
            resolution: Nanos::new(1),
            devices: vec![device("md0", false), device("sda", true)],
            operations: (1..=100).map(path).collect(),
            untraced: vec![Nanos::from_micros(400), Nanos::from_micros(500), Nanos::new(1)],
            traced: vec![Nanos::from_micros(500); 3],
            lost: 2,
            unavailable: None,
        }
    }

    #[test]
    fn slices_are_the_medians_and_means_of_the_operations() {
        let found = breakdown(&traced(0));
        let device = found.component(LatencyComponent::Device).unwrap();
        assert_eq!((device.p50_ns, device.p99_ns), (500_000, Some(990_000)));
        assert!((device.mean_ns - 505_000.0).abs() < 1e-6);
        let entry = found.component(LatencyComponent::Entry).unwrap();
        assert!((entry.share - 5.0 / 510.0).abs() < 1e-9 && entry.off_cpu_mean_ns < 1e-9);
        let sum: f64 = found.components.iter().map(|component| component.mean_ns).sum();
        assert!((sum - found.mean_ns).abs() < 1e-6, "means add up");
        // 10 + 20 + … + 300, and 70 times 300.
        assert!((found.off_cpu_share - (4650.0 + 21_000.0) / 51_000.0).abs() < 1e-9);
        assert!((found.waits_per_operation - 1.0).abs() < 1e-9);
        assert!((found.overhead_share.unwrap() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_reaches_each_device_is_told_per_operation() {
        let found = breakdown(&traced(0));
        let short: Vec<_> =
            found.devices.iter().map(|device| (&device.device[..], device.writes)).collect();
        assert_eq!(short, [("md0", 0.0), ("sda", 2.0)]);
        let sda = &found.devices[1];
        assert_eq!((sda.written_bytes, sda.flushes, sda.lowest), (8192.0, 1.0, true));
    }

    #[test]
    fn nothing_traced_gives_the_reason_and_no_figure() {
        let unavailable = Some("tracefs is not mounted".to_owned());
        let mut nothing = PathTraced { operations: vec![], traced: vec![], ..traced(0) };
        nothing.unavailable.clone_from(&unavailable);
        let found = breakdown(&nothing);
        assert!(found.components.is_empty() && found.overhead_share.is_none());
        assert_eq!(
            (found.unavailable, found.mean_ns, found.off_cpu_share),
            (unavailable, 0.0, 0.0)
        );
        let few = PathTraced { operations: traced(0).operations[..99].to_vec(), ..traced(0) };
        assert!(breakdown(&few).components.iter().all(|component| component.p99_ns.is_none()));
    }

    #[test]
    fn workloads_of_more_jobs_have_the_slices_of_the_same_operation() {
        let mut sample = sample();
        let step = sample.plan.steps[0].clone();
        let mut alone = durio_plan::Step { role: durio_plan::Role::TracePath, ..step };
        alone.index = 1;
        alone.load = alone.load.alone();
        alone.load.workload.name = "followed".into();
        sample.plan.steps[0].load.workload.jobs = 16;
        sample.plan.steps.truncate(1);
        sample.plan.steps.push(alone);
        sample.workloads.truncate(1);
        attach(&sample.plan, &mut sample.workloads, &[traced(1)]);
        assert_eq!(sample.workloads[0].latency_breakdown.as_ref().unwrap().step, 1);
        sample.workloads[0].latency_breakdown = None;
        sample.plan.steps[1].load.workload.block_size = Bytes::from_mib(1);
        attach(&sample.plan, &mut sample.workloads, &[traced(1), traced(77)]);
        assert!(sample.workloads[0].latency_breakdown.is_none(), "other operations");
    }

    /// An operation in which no two figures are alike, so many times as long or as often.
    fn unlike(times: u32) -> OperationPath {
        let parts = |unit: u64| {
            let nanos = |part: u64| Nanos::new(part * unit * u64::from(times));
            LatencyComponents {
                program: nanos(1),
                entry: nanos(2),
                queued: nanos(3),
                device: nanos(5),
                between: nanos(7),
                exit: nanos(11),
            }
        };
        let io = |device: u32, unit: u32| {
            let bytes = |part: u32| Bytes::new((part * unit * times).into());
            PathIo {
                device,
                reads: unit * times,
                read_bytes: bytes(2),
                writes: 3 * unit * times,
                written_bytes: bytes(5),
                flushes: 7 * unit * times,
                fua: 11 * unit * times,
            }
        };
        OperationPath {
            spent: parts(100),
            off_cpu: parts(10),
            waits: 2 * times,
            preemptions: 5 * times,
            io: vec![io(0, 1), io(1, 100)],
        }
    }

    #[test]
    fn each_part_of_an_operation_has_its_own_time_and_each_device_its_own_work() {
        let operations = [1, 6, 2].map(unlike).to_vec();
        let found = breakdown(&PathTraced { operations, ..traced(3) });
        let parts: Vec<(LatencyComponent, u64, u64)> = found
            .components
            .iter()
            .map(|time| (time.component, time.p50_ns, time.off_cpu_p50_ns))
            .collect();
        // Of 1, 2 and 6 times the median is 2 and the mean 3.
        let expected = [
            (LatencyComponent::Program, 200, 20),
            (LatencyComponent::Entry, 400, 40),
            (LatencyComponent::Queued, 600, 60),
            (LatencyComponent::Device, 1000, 100),
            (LatencyComponent::Between, 1400, 140),
            (LatencyComponent::Exit, 2200, 220),
        ];
        assert_eq!(parts, expected);
        for time in &found.components {
            let mean = 1.5 * float(time.p50_ns);
            assert!((time.mean_ns - mean).abs() < 1e-6, "{time:?}");
            assert!((time.off_cpu_mean_ns - mean / 10.0).abs() < 1e-6, "{time:?}");
            assert!((time.share - mean / 8700.0).abs() < 1e-9, "{time:?}");
        }
        let figures = [
            found.mean_ns - 8700.0,
            found.off_cpu_share - 0.1,
            found.waits_per_operation - 6.0,
            found.preemptions_per_operation - 15.0,
        ];
        assert!(figures.iter().all(|off| off.abs() < 1e-6), "{figures:?}");
        assert_eq!((found.step, found.operations, found.lost_events), (3, 3, 2));
        let medians = (found.traced_p50_ns, found.untraced_p50_ns);
        assert_eq!(medians, (Some(500_000), Some(400_000)));
        for (device, unit) in found.devices.iter().zip([3.0, 300.0]) {
            let work = [
                (device.reads, 1.0),
                (device.read_bytes, 2.0),
                (device.writes, 3.0),
                (device.written_bytes, 5.0),
                (device.flushes, 7.0),
                (device.fua, 11.0),
            ];
            let is_it = work.iter().all(|(found, part)| (found - part * unit).abs() < 1e-9);
            assert!(is_it, "{device:?}");
        }
        assert_eq!(found.devices.len(), 2);
    }
}
