//! A bench of stacks, made up: a mirror with ext4 on it, the mirror degraded, and a filesystem that
//! could not be made.

use durio_analyse::attribution::{
    Base, BaseKind, BenchPoints, PointKind, RaidPoint, StackFindings, StackPoint, Timing,
    attribution,
};
use durio_analyse::raid_efficiency::{ArrayLayout, MemberLayout};
use durio_analyse::{ComponentTime, Findings, LatencyBreakdown, LatencyComponent};
use durio_plan::PublishedShare;
use durio_workload::Pattern;

use crate::sample;

/// The log's commits, so many times slower than those of the sample.
fn run(slower: f64) -> Findings {
    let mut findings = sample::complete();
    findings.workloads.truncate(1);
    let workload = &mut findings.workloads[0];
    // The models of arrays are of small random writes.
    workload.definition.pattern = Pattern::Random;
    workload.iops /= slower;
    workload.cpu.per_operation_ns *= slower;
    for operation in &mut workload.operations {
        operation.rate /= slower;
        operation.bandwidth /= slower;
        let scaled = |nanos: &mut Option<u64>| *nanos = nanos.map(|nanos| times(nanos, slower));
        let service = &mut operation.service;
        service.mean_ns *= slower;
        scaled(&mut service.p50_ns);
        scaled(&mut service.p99_ns);
        operation
            .curve
            .iter_mut()
            .for_each(|point| point.latency_ns = times(point.latency_ns, slower));
    }
    findings
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "made up")]
fn times(nanos: u64, factor: f64) -> u64 {
    (nanos as f64 * factor) as u64
}

/// The runs that a bench refers to.
pub(crate) struct Runs {
    raw: Findings,
    raw_later: Findings,
    mirror: Findings,
    ext4: Findings,
    degraded: Findings,
}

impl Runs {
    pub(crate) fn new() -> Self {
        let mut ext4 = run(3.0);
        // The RAM disks below it count nothing.
        ext4.workloads[0].devices[0].writes_completed = 0;
        ext4.workloads[0].context_switches_per_operation = Some(1.03);
        ext4.workloads[0].latency_breakdown = Some(components());
        Self { raw: run(1.0), raw_later: run(1.3), mirror: run(1.6), ext4, degraded: run(1.25) }
    }

    pub(crate) fn findings(&self, timing: Option<Timing>) -> StackFindings {
        attribution(&BenchPoints {
            name: "mirror".into(),
            summary: "What a mirror and a filesystem on it cost.".into(),
            timing,
            points: self.points(),
        })
        .unwrap()
    }

    fn points(&self) -> Vec<StackPoint<'_>> {
        let raw = |stack, run| point(stack, "raw", PointKind::Raw, None, Some(run));
        let mut points = vec![
            raw("mirror", &self.raw),
            point("mirror", "RAID1", PointKind::Raid, Some(0), Some(&self.mirror)),
            point("mirror", "ext4", PointKind::Filesystem, Some(1), Some(&self.ext4)),
            raw("degraded", &self.raw),
            point("degraded", "RAID1 less one", PointKind::Raid, Some(3), Some(&self.degraded)),
            raw("broken", &self.raw_later),
            point("broken", "xfs", PointKind::Filesystem, Some(5), None),
        ];
        let array = ArrayLayout { layout: MemberLayout::Raid1 { copies: 2 }, members: 2 };
        for (at, degraded_members) in [(1, 0), (4, 1)] {
            points[at].raid = Some(RaidPoint { array, degraded_members });
        }
        points[1].published = published(0.5);
        points[2].published = published(0.4);
        points[6].failure = Some("mkfs.xfs: the smallest filesystem is 300 MiB".into());
        points
    }
}

fn point<'a>(
    stack: &str,
    layer: &str,
    kind: PointKind,
    below: Option<usize>,
    run: Option<&'a Findings>,
) -> StackPoint<'a> {
    StackPoint {
        stack: stack.into(),
        layer: layer.into(),
        kind,
        base: Base { kind: BaseKind::Ram, label: "RAM disks of 256 MiB".into() },
        below,
        raid: None,
        no_model: None,
        published: Vec::new(),
        runs: run.into_iter().collect(),
        failure: None,
    }
}

fn published(share_of_raw: f64) -> Vec<PublishedShare> {
    vec![PublishedShare {
        stack: String::new(),
        layer: 0,
        workload: "commit".into(),
        jobs: None,
        share_of_raw,
        rate: None,
        source: Some("somebody-2025".into()),
    }]
}

fn components() -> LatencyBreakdown {
    let breakdown = [
        (LatencyComponent::Entry, 210_000.0),
        (LatencyComponent::Queued, 3_000.0),
        (LatencyComponent::Device, 180_000.0),
        (LatencyComponent::Exit, 22_000.0),
    ];
    let component = |(component, mean_ns): (LatencyComponent, f64)| ComponentTime {
        component,
        mean_ns,
        p50_ns: times(1, mean_ns),
        p99_ns: None,
        off_cpu_mean_ns: 0.0,
        off_cpu_p50_ns: 0,
        share: mean_ns / 415_000.0,
    };
    LatencyBreakdown {
        step: 1,
        operations: 512,
        lost_events: 0,
        clock: "x86-tsc".into(),
        resolution_ns: 1,
        mean_ns: 415_000.0,
        traced_p50_ns: None,
        untraced_p50_ns: None,
        overhead_share: None,
        components: breakdown.map(component).into(),
        off_cpu_share: 0.711,
        waits_per_operation: 1.0,
        preemptions_per_operation: 0.0,
        devices: Vec::new(),
        unavailable: None,
    }
}
