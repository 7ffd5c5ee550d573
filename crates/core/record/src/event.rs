//! What happens during a run: the only channel out of the runner.
//!
//! An event is a step's start or end, a closed interval with its histograms, an error or a warning:
//! never one per I/O. Times are nanoseconds since the run began, on one monotonic clock.
//!
//! Steps without a measurement give events operation by operation: a commit's requests to the
//! devices, the effect of sync calls, and where the time of single operations went, as the kernel's
//! tracing shows it. The analyser computes medians over operations.

mod step;

use std::borrow::Cow;

use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use step::{QUANTITY_MAX, is_zero};

use crate::Latency;

pub use step::{
    Accounting, Batches, ContextSwitches, Interval, JobEnded, MemoryMeasured, OperationRecord,
    Outcome, Pacing, Phase, ProcessGap, RoundDecision, RoundEnded, RunEnded, RunResumed,
    StepDeclined, StepEnded, StepGated, StepStarted, StoppedBy, StreamStarted, TargetPreparation,
    TargetPrepared, Warning,
};

/// Anything that happens during a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A target is ready.
    TargetPrepared(TargetPrepared),
    StepStarted(StepStarted),
    /// A step that started when another process said has ended.
    StepGated(StepGated),
    /// An interval is closed.
    Interval(Interval),
    /// A job has ended.
    JobEnded(JobEnded),
    /// A step has ended.
    StepEnded(StepEnded),
    /// A step was refused; the run continues.
    StepDeclined(StepDeclined),
    /// An error ended the step.
    Error(StoppedBy),
    Warning(Warning),
    /// durio itself did not run for a while.
    ProcessGap(ProcessGap),
    /// A round of a section is over.
    RoundEnded(RoundEnded),
    /// Memory was copied, to know its speed.
    MemoryMeasured(MemoryMeasured),
    CommitsTraced(CommitsTraced),
    /// Operations were followed through the kernel.
    PathTraced(PathTraced),
    /// Sync calls were compared.
    SyncCallsProbed(SyncCallsProbed),
    /// An interrupted run continues.
    RunResumed(RunResumed),
    /// The run has ended.
    RunEnded(RunEnded),
    /// An event of a newer durio; readers pass over it.
    Unknown,
}

/// An event with its time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimedEvent {
    /// Since the run's start.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    #[serde(flatten)]
    pub event: Event,
}

impl TimedEvent {
    /// Reads a line of the record.
    ///
    /// # Errors
    /// If it is not JSON, or lacks a field of its kind of event.
    pub fn read(line: &[u8]) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct EventHead<'l> {
            #[serde(rename = "at_ns")]
            at: Nanos,
            #[serde(borrow)]
            event: Cow<'l, str>,
        }
        let EventHead { at, event } = serde_json::from_slice(line)?;
        // Not by serde's derive: of a tagged enum it keeps every value aside first, which takes twice
        // the time, and three times the code of every kind.
        let event = match &*event {
            "target_prepared" => Event::TargetPrepared(serde_json::from_slice(line)?),
            "step_started" => Event::StepStarted(serde_json::from_slice(line)?),
            "step_gated" => Event::StepGated(serde_json::from_slice(line)?),
            "interval" => Event::Interval(serde_json::from_slice(line)?),
            "job_ended" => Event::JobEnded(serde_json::from_slice(line)?),
            "step_ended" => Event::StepEnded(serde_json::from_slice(line)?),
            "step_declined" => Event::StepDeclined(serde_json::from_slice(line)?),
            "error" => Event::Error(serde_json::from_slice(line)?),
            "warning" => Event::Warning(serde_json::from_slice(line)?),
            "process_gap" => Event::ProcessGap(serde_json::from_slice(line)?),
            "round_ended" => Event::RoundEnded(serde_json::from_slice(line)?),
            "memory_measured" => Event::MemoryMeasured(serde_json::from_slice(line)?),
            "commits_traced" => Event::CommitsTraced(serde_json::from_slice(line)?),
            "path_traced" => Event::PathTraced(serde_json::from_slice(line)?),
            "sync_calls_probed" => Event::SyncCallsProbed(serde_json::from_slice(line)?),
            "run_resumed" => Event::RunResumed(serde_json::from_slice(line)?),
            "run_ended" => Event::RunEnded(serde_json::from_slice(line)?),
            _ => Event::Unknown,
        };
        Ok(Self { at, event })
    }
}

/// The begin of a histogram's tag: the step, its round and stream where they are not the first.
fn tag_of(step: u32, round: u32, stream: u32) -> String {
    let mut tag = format!("step{step}");
    for (name, number) in [("round", round), ("stream", stream)] {
        if number > 0 {
            tag.push_str(&format!(".{name}{number}"));
        }
    }
    tag
}

impl Event {
    fn operations_mut(&mut self) -> &mut [OperationRecord] {
        match self {
            Self::Interval(interval) => &mut interval.operations,
            Self::JobEnded(job) => &mut job.operations,
            _ => &mut [],
        }
    }

    /// Checks that the numbers of an event are possible: a file may be damaged, and code that
    /// computes with them must not have to allow for that.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let operations = match self {
            Self::Interval(interval) => {
                // Rates are divided by the time between.
                if interval.from > interval.to || interval.to.get() > QUANTITY_MAX {
                    return Err(format!("an interval from {} to {}", interval.from, interval.to));
                }
                &interval.operations
            }
            Self::JobEnded(job) => {
                let quantities = [
                    job.measured.get(),
                    job.cpu_user.get(),
                    job.cpu_system.get(),
                    job.accounting.span_ns,
                    job.accounting.engine_span_ns,
                ];
                if quantities.iter().any(|&quantity| quantity > QUANTITY_MAX) {
                    return Err("a job with impossible times".to_owned());
                }
                &job.operations
            }
            Self::ProcessGap(gap) if gap.from.max(gap.span).get() > QUANTITY_MAX => {
                return Err(format!("a gap of {} from {} on", gap.span, gap.from));
            }
            _ => return Ok(()),
        };
        operations.iter().try_for_each(OperationRecord::validate)
    }

    /// Calls `visit` with each latency that has a histogram, and a tag that names it.
    pub(crate) fn for_each_latency<E>(
        &mut self,
        mut visit: impl FnMut(&mut Latency, String) -> Result<(), E>,
    ) -> Result<(), E> {
        let prefix = match self {
            Self::Interval(interval) => {
                let step = tag_of(interval.step, interval.round, interval.stream);
                format!("{step}.interval{}", interval.index)
            }
            Self::JobEnded(job) => {
                format!("{}.job{}", tag_of(job.step, job.round, job.stream), job.job)
            }
            _ => return Ok(()),
        };
        for record in self.operations_mut() {
            let name = record.operation.name();
            for (part, latency) in record.latencies_mut() {
                visit(latency, format!("{prefix}.{name}.{part}"))?;
            }
        }
        Ok(())
    }

    /// Begin and length of the event, for the histogram log's columns.
    pub(crate) fn span(&self) -> (Nanos, Nanos) {
        match self {
            Self::Interval(interval) => (interval.from, interval.to.saturating_sub(interval.from)),
            Self::JobEnded(job) => (Nanos::ZERO, job.measured),
            _ => (Nanos::ZERO, Nanos::ZERO),
        }
    }
}

/// One request of a commit, as a device's driver got it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedRequest {
    /// The kernel's name of the device.
    pub device: String,
    /// The kernel's letters (blk_fill_rwbs): FF is a flush, a trailing F is FUA, M is metadata.
    pub flags: String,
    /// Bytes; zero for a flush.
    pub bytes: Bytes,
    /// From the start of the commit until the driver got it; the median of its commits.
    #[serde(rename = "issued_ns")]
    pub issued: Nanos,
    /// From there to its completion; the median of its commits. None if that was not seen.
    #[serde(rename = "service_ns", default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Nanos>,
}

/// Commits that sent the same requests in the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedSequence {
    pub commits: u64,
    /// The requests, in the order in which the drivers got them.
    pub requests: Vec<TracedRequest>,
    /// From the start of the commit to its end; the median.
    #[serde(rename = "commit_ns")]
    pub commit: Nanos,
}

/// A few commits were made while the kernel traced what reached the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitsTraced {
    /// Index of the step in the plan.
    pub step: u32,
    /// The commits that were made.
    pub commits: u64,
    /// What they sent, the most frequent sequence first. Empty if nothing could be traced.
    pub sequences: Vec<TracedSequence>,
    /// Events that the kernel could not keep.
    pub lost: u64,
    /// Why nothing could be traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

/// The caller of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncCaller {
    /// The C library's function, as a database calls it: a preloaded library may have replaced it.
    Library,
    /// The system call itself.
    Kernel,
}

/// Writes, each with a sync, and what reached the devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedCalls {
    pub caller: SyncCaller,
    /// The call: fsync, fdatasync.
    pub call: String,
    pub calls: u64,
    /// Flushes that the devices below completed in that time; none if they do not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<u64>,
    /// Writes that they completed in that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
    /// The time of all calls.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// The error that a call gave, which ended them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

/// Sync calls were compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncCallsProbed {
    /// Index of the step in the plan.
    pub step: u32,
    pub calls: Vec<ProbedCalls>,
}

/// The parts of an operation's time. At each moment it is in exactly one of them, the first of this
/// order that fits: together they are the whole.
// A line has hundreds of operations, most of whose components are zero: those are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LatencyComponents {
    /// A driver of a lowest device had a request of the operation (or a lowest device without
    /// requests had its queued I/O).
    #[serde(rename = "device_ns", skip_serializing_if = "is_zero")]
    pub device: Nanos,
    /// Something was queued to a block device and was with no lowest driver: layers such as md, dm and
    /// loop, and the scheduler's queue.
    #[serde(rename = "queued_ns", skip_serializing_if = "is_zero")]
    pub queued: Nanos,
    /// In a system call, before anything was queued; all of a call that queues nothing.
    #[serde(rename = "entry_ns", skip_serializing_if = "is_zero")]
    pub entry: Nanos,
    /// In a system call, after the last thing queued was done.
    #[serde(rename = "exit_ns", skip_serializing_if = "is_zero")]
    pub exit: Nanos,
    /// In a system call, between one thing done and the next queued.
    #[serde(rename = "between_ns", skip_serializing_if = "is_zero")]
    pub between: Nanos,
    /// Outside of system calls: in the program itself.
    #[serde(rename = "program_ns", skip_serializing_if = "is_zero")]
    pub program: Nanos,
}

/// I/O queued to one block device during an operation; a write and its flush in one count as both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PathIo {
    /// Place of the device in [`PathTraced::devices`].
    pub device: u32,
    /// Reads, counted in bios: as they were queued, before the kernel joins or cuts them.
    pub reads: u32,
    pub read_bytes: Bytes,
    /// Writes (bios) with data.
    pub writes: u32,
    pub written_bytes: Bytes,
    /// Bios that ask for a flush before them.
    pub flushes: u32,
    /// Bios that ask to be durable themselves (FUA).
    pub fua: u32,
}

/// One operation: an access, and the sync calls that follow it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationPath {
    /// Where its time went.
    pub spent: LatencyComponents,
    /// How much of that its thread was on no processor.
    pub off_cpu: LatencyComponents,
    /// How often the thread left its processor to wait.
    pub waits: u32,
    /// How often the processor was taken from it.
    pub preemptions: u32,
    /// Queued I/O per device; devices without any are absent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io: Vec<PathIo>,
}

/// A block device below the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDevice {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// No other device is below it.
    pub lowest: bool,
    /// Its driver is given requests; else it takes queued I/O as it is (zram, brd, md, dm).
    pub requests: bool,
}

/// Operations were made by one job, one at a time, while the kernel traced it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTraced {
    /// Index of the step in the plan.
    pub step: u32,
    /// The clock of the trace, as the kernel names it; empty if nothing was traced.
    pub clock: String,
    /// The smallest difference that it shows.
    #[serde(rename = "resolution_ns")]
    pub resolution: Nanos,
    /// The block devices below the target, top to bottom.
    pub devices: Vec<PathDevice>,
    /// The operations, in order; those of which events were lost are left out.
    pub operations: Vec<OperationPath>,
    /// Service latencies of the same operations without tracing, before and after.
    #[serde(rename = "untraced_service_ns", default)]
    pub untraced: Vec<Nanos>,
    /// Service latencies while the kernel traced.
    #[serde(rename = "traced_service_ns", default)]
    pub traced: Vec<Nanos>,
    /// Events that the kernel could not keep.
    pub lost: u64,
    /// Why nothing could be traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that the golden folder does not have.
    const LINES: [&str; 9] = [
        r#"{"at_ns":1,"event":"step_declined","step":2,"round":0,"message":"m","errno":95}"#,
        r#"{"at_ns":1,"event":"error","step":null,"message":"m","errno":5,"offset_bytes":4096}"#,
        r#"{"at_ns":1,"event":"warning","message":"m"}"#,
        r#"{"at_ns":1,"event":"process_gap","step":0,"round":1,"from_ns":5,"span_ns":7}"#,
        r#"{"at_ns":1,"event":"memory_measured","threads":2,"copied_bytes_per_second":9}"#,
        r#"{"at_ns":1,"event":"commits_traced","step":0,"commits":3,"sequences":[],"lost":0}"#,
        r#"{"at_ns":1,"event":"path_traced","step":0,"clock":"mono","resolution_ns":1000,"devices":[],"operations":[],"untraced_service_ns":[1],"traced_service_ns":[2],"lost":0}"#,
        r#"{"at_ns":1,"event":"sync_calls_probed","step":0,"calls":[{"caller":"kernel","call":"fsync","calls":1,"elapsed_ns":4}]}"#,
        r#"{"at_ns":1,"event":"run_resumed","step":4,"repeated":[0],"resumed":"now"}"#,
    ];

    #[test]
    fn every_kind_is_read_by_its_name_and_written_byte_for_byte() {
        let golden = include_str!("../tests/golden/v2/events.jsonl");
        for line in golden.lines().chain(LINES) {
            let timed = TimedEvent::read(line.as_bytes()).unwrap();
            assert_ne!(timed.event, Event::Unknown, "{line}");
            assert_eq!(serde_json::to_string(&timed).unwrap(), line);
        }
        let newer = TimedEvent::read(br#"{"at_ns":1,"event":"of_a_newer_durio","x":[1]}"#).unwrap();
        assert_eq!(newer.event, Event::Unknown);
    }

    fn line(text: &str) -> Event {
        TimedEvent::read(text.as_bytes()).unwrap().event
    }

    const OPERATIONS: &str = r#"[{"operation":"read","bytes":5,"service":{"count":2,"sum_ns":7,"min_ns":3,"max_ns":4},"submit":{"count":2,"sum_ns":2,"min_ns":1,"max_ns":1},"completion":{"count":2,"sum_ns":5,"min_ns":2,"max_ns":3},"response":{"count":2,"sum_ns":9,"min_ns":4,"max_ns":5}},{"operation":"commit","bytes":6,"service":{"count":1,"sum_ns":8,"min_ns":8,"max_ns":8}}]"#;

    fn interval() -> Interval {
        let text = format!(
            r#"{{"at_ns":1,"event":"interval","step":3,"repeat":0,"round":2,"stream":1,"target":0,"phase":"measure","index":9,"from_ns":100,"to_ns":350,"operations":{OPERATIONS}}}"#
        );
        let Event::Interval(interval) = line(&text) else { unreachable!("it says so") };
        interval
    }

    fn job() -> JobEnded {
        let text = format!(
            r#"{{"at_ns":1,"event":"job_ended","step":3,"job":4,"measured_ns":50,"cpu_user_ns":1,"cpu_system_ns":2,"exchanges":3,"accounting":{{"in_flight_ns":1,"span_ns":2,"engine_span_ns":3}},"operations":{OPERATIONS}}}"#
        );
        let Event::JobEnded(job) = line(&text) else { unreachable!("it says so") };
        job
    }

    #[test]
    fn tags_name_step_round_stream_operation_and_part() {
        let tags = |mut event: Event| {
            let mut tags = Vec::new();
            let visit = |_: &mut Latency, tag: String| {
                tags.push(tag);
                Ok::<_, ()>(())
            };
            event.for_each_latency(visit).unwrap();
            tags
        };
        let parts =
            ["read.service", "read.submit", "read.completion", "read.response", "commit.service"];
        let with = |prefix: &str| parts.map(|part| format!("{prefix}.{part}"));
        assert_eq!(tags(Event::Interval(interval())), with("step3.round2.stream1.interval9"));
        assert_eq!(tags(Event::JobEnded(job())), with("step3.job4"));
        assert_eq!(tags(Event::Unknown), [""; 0]);
        let one = |round, stream| tag_of(7, round, stream);
        assert_eq!(one(0, 0), "step7");
        assert_eq!([one(1, 0), one(0, 1)], ["step7.round1", "step7.stream1"]);
        // The first that fails ends it.
        let failed = Event::JobEnded(job()).for_each_latency(|_, tag| Err(tag));
        assert_eq!(failed, Err("step3.job4.read.service".to_owned()));
    }

    #[test]
    fn an_event_spans_its_interval_or_its_measured_time() {
        let span = |event: Event| {
            let (from, length) = event.span();
            (from.get(), length.get())
        };
        assert_eq!(span(Event::Interval(interval())), (100, 250));
        assert_eq!(span(Event::JobEnded(job())), (0, 50));
        assert_eq!(span(Event::Unknown), (0, 0));
        assert_eq!(Event::Interval(interval()).operations_mut().len(), 2);
        assert_eq!(Event::JobEnded(job()).operations_mut().len(), 2);
        assert_eq!(Event::Unknown.operations_mut().len(), 0);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_beyond_their_bounds() {
        const MOST: u64 = 72_057_594_037_927_936;
        assert_eq!(QUANTITY_MAX, MOST);
        let of_interval = |change: &dyn Fn(&mut Interval)| {
            let mut interval = interval();
            change(&mut interval);
            Event::Interval(interval).validate().is_ok()
        };
        assert!(of_interval(&|_| {}));
        let ends = |from, to| {
            of_interval(&|interval| {
                (interval.from, interval.to) = (Nanos::new(from), Nanos::new(to));
            })
        };
        assert!(ends(350, 350) && !ends(351, 350));
        assert!(ends(100, MOST) && !ends(100, MOST + 1));
        let changes: [fn(&mut JobEnded, u64); 5] = [
            |job, value| job.measured = Nanos::new(value),
            |job, value| job.cpu_user = Nanos::new(value),
            |job, value| job.cpu_system = Nanos::new(value),
            |job, value| job.accounting.span_ns = value,
            |job, value| job.accounting.engine_span_ns = value,
        ];
        for (place, change) in changes.into_iter().enumerate() {
            let fits = |value| {
                let mut job = job();
                change(&mut job, value);
                Event::JobEnded(job).validate().is_ok()
            };
            assert!(fits(MOST) && !fits(MOST + 1), "quantity {place}");
        }
        let gap = |from, span| {
            let (from, span) = (Nanos::new(from), Nanos::new(span));
            Event::ProcessGap(ProcessGap { step: 0, round: 0, from, span }).validate().is_ok()
        };
        assert!(gap(MOST, MOST) && !gap(MOST + 1, 0) && !gap(0, MOST + 1));
        assert!(Event::Unknown.validate().is_ok());
        let latencies: [fn(&mut OperationRecord) -> &mut Latency; 4] = [
            |record| &mut record.service,
            |record| record.submit.as_mut().unwrap(),
            |record| record.completion.as_mut().unwrap(),
            |record| record.response.as_mut().unwrap(),
        ];
        for latency in latencies {
            let fits = |exact: (u64, u64, u64)| {
                let mut job = job();
                let known = &mut latency(&mut job.operations[0]).exact;
                (known.count, known.min_ns, known.max_ns) = exact;
                let of_job = Event::JobEnded(job.clone()).validate().is_ok();
                let operations = job.operations;
                let of_interval = Event::Interval(Interval { operations, ..interval() }).validate();
                assert_eq!(of_interval.is_ok(), of_job);
                of_job
            };
            assert!(fits((1, 5, 5)) && !fits((1, 6, 5)));
            assert!(fits((MOST, 5, 5)) && !fits((MOST + 1, 5, 5)));
            assert!(fits((1, 5, MOST)) && !fits((1, 5, MOST + 1)));
        }
    }
}
