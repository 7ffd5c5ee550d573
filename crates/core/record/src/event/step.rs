//! Events of a measured step: its loads, its intervals, its jobs, how it ended. The analyser
//! computes rates and shares.

use durio_base::{Bytes, Nanos};
use durio_observe::{CpuCounters, DeviceCounters};
use durio_plan::{EngineKind, OperationName};
use durio_workload::{Arrivals, CacheMode, RegionRule};
use serde::{Deserialize, Serialize};

use crate::Latency;

/// Results count in the measured phase alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the measurement: left out of the results.
    Ramp,
    Measure,
}

/// The counts of one kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationRecord {
    pub operation: OperationName,
    /// Bytes moved; zero for syncs.
    pub bytes: Bytes,
    /// From preparation to completion.
    pub service: Latency,
    /// From preparation to the return of the submitting call; asynchronous engines only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<Latency>,
    /// From the return of the submitting call to completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<Latency>,
    /// From the intended start to completion; open loops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Latency>,
    /// fio's own histogram of the service latency, as index and count of its buckets, where fio was
    /// the engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fio_bins: Vec<(u32, u64)>,
}

/// More nanoseconds or operations than any step has: 2⁵⁶ ns are two years. Sums over operations in
/// flight (latencies, bytes) can be more, up to where they saturate.
pub(super) const QUANTITY_MAX: u64 = 1 << 56;

impl OperationRecord {
    /// No operation of this kind so far.
    pub fn new(operation: OperationName) -> Self {
        Self {
            operation,
            bytes: Bytes::ZERO,
            service: Latency::default(),
            submit: None,
            completion: None,
            response: None,
            fio_bins: Vec::new(),
        }
    }

    /// Its latencies, each with the part of its histogram's tag.
    pub(super) fn latencies_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut Latency)> {
        let some = [
            ("service", Some(&mut self.service)),
            ("submit", self.submit.as_mut()),
            ("completion", self.completion.as_mut()),
            ("response", self.response.as_mut()),
        ];
        some.into_iter().filter_map(|(part, latency)| Some((part, latency?)))
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        let latencies = [
            Some(&self.service),
            self.submit.as_ref(),
            self.completion.as_ref(),
            self.response.as_ref(),
        ];
        // Sums of damaged numbers must not overflow.
        let exact_fits = latencies.into_iter().flatten().all(|latency| {
            let exact = &latency.exact;
            exact.min_ns <= exact.max_ns
                && exact.max_ns <= QUANTITY_MAX
                && exact.count <= QUANTITY_MAX
        });
        if exact_fits {
            return Ok(());
        }
        Err(format!("{} with impossible numbers", self.operation.name()))
    }
}

/// How a target was made ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetPreparation {
    /// A file was laid out without a name.
    Unnamed,
    /// A file was laid out with a name; the journal remembers it.
    Named,
    Existing,
    /// There is nothing to lay out.
    None,
}

/// A target is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetPrepared {
    /// Index in the plan.
    pub target: usize,
    pub layout: TargetPreparation,
    /// Bytes written for it.
    #[serde(rename = "written_bytes")]
    pub written: Bytes,
    /// How long that took, its final sync included.
    #[serde(rename = "elapsed_ns")]
    pub elapsed: Nanos,
    /// True if O_DIRECT works on it.
    pub direct: bool,
    /// True if a range can be returned to the preallocated state.
    pub reallocates: bool,
}

/// A load of a step as it is in effect. Where that differs from the plan, `fallbacks` says why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamStarted {
    /// The engine in use.
    pub engine: EngineKind,
    /// Jobs that the load has, each a thread.
    pub jobs: u32,
    /// Operations that each job keeps in flight.
    pub depth: u32,
    /// Operations per submission at most.
    pub batch: u32,
    /// Through or past the page cache.
    pub cache: CacheMode,
    /// Region rule in use.
    pub region: RegionRule,
    /// The clock in use: tsc, monotonic or virtual; fio's own.
    pub clock: String,
    /// What the engine uses.
    pub features: Vec<String>,
    /// Planned features that were unavailable, with the reason.
    pub fallbacks: Vec<String>,
    /// When operations start; the rate is that of this round.
    #[serde(default, skip_serializing_if = "Arrivals::is_closed")]
    pub arrivals: Arrivals,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepStarted {
    /// Index in the plan.
    pub step: u32,
    /// Round of its section, from 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
    // Written as it was when a step had only one load.
    #[serde(flatten)]
    pub stream: StreamStarted,
    /// The other loads, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<StreamStarted>,
}

impl StepStarted {
    /// All loads; the position is the number of the stream.
    pub fn streams(&self) -> impl Iterator<Item = &StreamStarted> {
        std::iter::once(&self.stream).chain(&self.beside)
    }
}

// Records of version 1 have neither rounds nor streams: all of theirs are the first.
pub(super) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An interval is closed: all jobs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Index of the step in the plan.
    pub step: u32,
    /// Repetition of the step.
    pub repeat: u32,
    /// Round of the step's section.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
    /// Stream: the place of the load among those of the step.
    pub stream: u32,
    /// Index of the (first) target in the plan.
    pub target: usize,
    pub phase: Phase,
    /// Number within the step, from 0.
    pub index: u64,
    /// Its start, since the step's start.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// Its end, since the step's start; the last interval may be shorter.
    #[serde(rename = "to_ns")]
    pub to: Nanos,
    /// The longest time in which a job did not look for completions while some were outstanding.
    /// None where operations are waited for one by one, and in records without it.
    #[serde(default, rename = "unwatched_ns_max", skip_serializing_if = "Option::is_none")]
    pub unwatched_max: Option<Nanos>,
    /// What completed in it; an operation without completions is absent.
    pub operations: Vec<OperationRecord>,
}

/// What Little's law holds the latencies against, over all phases of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Accounting {
    /// Number in flight, integrated over time on a clock that shares no stamp with the latencies.
    pub in_flight_ns: u64,
    /// From the first start to the last completion, on that other clock.
    pub span_ns: u64,
    /// The same span on the engine's clock.
    pub engine_span_ns: u64,
    /// Time in which the job made the data of writes, before they started: in no latency, and not
    /// in `in_flight_ns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filling_ns: u64,
}

/// What an open loop did with its schedule, over the measured phase of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pacing {
    /// Arrivals that were due before the end.
    pub due: u64,
    /// How many of them were started.
    pub started: u64,
    /// How many of the started ones found a free place in the queue when they were due: the
    /// following fields are about these.
    pub punctual: u64,
    /// Sum of the times from the intended start to the real one: the generator's own lag.
    pub lag_ns_sum: u64,
    /// The largest lag of a punctual arrival.
    pub lag_ns_max: u64,
    /// The longest time by which any arrival was started late, for whatever reason.
    pub behind_ns_max: u64,
}

/// What the batches of a log were, over the measured phase of one job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Batches {
    /// Records per batch and the number of such batches, ascending.
    pub sizes: Vec<(u32, u64)>,
    /// Bytes that were written to fill batches up.
    #[serde(rename = "padding_bytes")]
    pub padding: Bytes,
    /// Batches before which the leader waited for more.
    pub delayed: u64,
    /// Batches that held as much as they may while records were left over.
    pub full: u64,
}

/// A job has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobEnded {
    /// Index of the step in the plan.
    pub step: u32,
    /// Round of the step's section.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
    /// Stream: the place of its load among those of the step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stream: u32,
    /// Number of the job among those of the step, from 0.
    pub job: u32,
    /// From the end of the ramp to its last completion, or to the end of an open loop's window if
    /// that is later.
    #[serde(rename = "measured_ns")]
    pub measured: Nanos,
    /// User CPU time of its thread.
    #[serde(rename = "cpu_user_ns")]
    pub cpu_user: Nanos,
    /// System CPU time of its thread.
    #[serde(rename = "cpu_system_ns")]
    pub cpu_system: Nanos,
    /// Context switches of its thread; none in records that have them not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<ContextSwitches>,
    /// How long its thread was ready to run and waited for a CPU, by the kernel's count; of a log,
    /// the sum over its threads. None where the kernel does not count it, and in older records.
    #[serde(rename = "run_delay_ns", default, skip_serializing_if = "Option::is_none")]
    pub run_delay: Option<Nanos>,
    /// Calls that handed operations to the engine; looks for completions alone are not counted.
    pub exchanges: u64,
    /// What Little's law holds the latencies against.
    pub accounting: Accounting,
    /// The schedule's outcome; open loops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The batches of a log with group commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batches: Option<Batches>,
    /// Totals of the measured phase.
    pub operations: Vec<OperationRecord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran to its limit.
    Complete,
    /// The user stopped it.
    Interrupted,
    /// An error ended it.
    Failed,
}

/// A step has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEnded {
    /// Index in the plan.
    pub step: u32,
    /// Round of its section.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
    pub outcome: Outcome,
    /// From the end of the ramp to the last completion of all jobs.
    #[serde(rename = "measured_ns")]
    pub measured: Nanos,
    /// The processors' counters over that time.
    pub cpu: Option<CpuCounters>,
    /// The counters of the devices below the target over that time.
    pub devices: Vec<DeviceCounters>,
    /// User CPU time of the process, the kernel's workers for it included, without that of the
    /// thread that records.
    #[serde(rename = "cpu_process_user_ns", default, skip_serializing_if = "Option::is_none")]
    pub cpu_process_user: Option<Nanos>,
    /// Time in which nothing was in flight, from the last completion of the step before to the
    /// first start of this one; none for the first step of a run.
    #[serde(rename = "idle_before_ns", default, skip_serializing_if = "Option::is_none")]
    pub idle_before: Option<Nanos>,
    /// System CPU time of the same.
    #[serde(rename = "cpu_process_system_ns", default, skip_serializing_if = "Option::is_none")]
    pub cpu_process_system: Option<Nanos>,
    /// Context switches of the process, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<ContextSwitches>,
}

/// A step whose start another process had ordered has ended (`durio run --gate`). Times are on this
/// host's CLOCK_MONOTONIC, which the order names and which other processes here can compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepGated {
    /// Index in the plan.
    pub step: u32,
    /// Round of its section.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round: u32,
    /// When it was ready to start.
    #[serde(rename = "armed_ns")]
    pub armed: Nanos,
    #[serde(rename = "ordered_at_ns")]
    pub ordered_at: Nanos,
    /// The first job's start.
    #[serde(rename = "started_ns")]
    pub started: Nanos,
    /// The sender's estimate of its clock minus this host's.
    pub offset_ns: i64,
    /// The largest error of that estimate, by the sender.
    pub bound_ns: u64,
}

impl StepGated {
    /// The actual start minus the ordered one; negative if it came earlier.
    pub fn lateness_ns(&self) -> i64 {
        let late = self.started.saturating_sub(self.ordered_at).get();
        let early = self.ordered_at.saturating_sub(self.started).get();
        let signed = |span| i64::try_from(span).unwrap_or(i64::MAX);
        signed(late) - signed(early)
    }
}

/// What stopped a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoppedBy {
    /// Index of the step in the plan; none while preparing.
    pub step: Option<u32>,
    /// The operation that failed.
    pub message: String,
    /// The system's error number, if there is one.
    pub errno: Option<i32>,
    /// First byte of the failed operation.
    #[serde(rename = "offset_bytes")]
    pub offset: Option<Bytes>,
}

/// A step that was not carried out because the target or the kernel refused it; it has no results,
/// and the run continued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepDeclined {
    /// Index of the step in the plan.
    pub step: u32,
    /// Round of its section, from 0.
    #[serde(default)]
    pub round: u32,
    /// The refused operation, as a sentence.
    pub message: String,
    /// The system's error number, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

/// A fact that a reader of the results must know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    pub message: String,
}

/// A round of a section is over, with the decision on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundEnded {
    /// Index of the section in the plan's campaign.
    pub section: u32,
    /// The round, from 0.
    pub round: u32,
    pub decision: RoundDecision,
}

/// The decision after a round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundDecision {
    /// Another round at the same rate.
    Again,
    /// Again at another rate.
    AgainAt { rate_per_second: f64 },
    /// What the rounds were for is reached.
    Reached,
    /// The rounds are used up, and it is not.
    NotReached,
}

/// An interrupted run continues: steps that had started and not finished are done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResumed {
    /// Index of the step with which it continues.
    pub step: u32,
    /// Earlier steps that are done again because the state that they made is lost.
    pub repeated: Vec<u32>,
    /// When, in RFC 3339.
    pub resumed: String,
}

/// How fast memory was copied before the first step, by all processors at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryMeasured {
    pub threads: u32,
    /// Bytes copied per second, over all threads: each was read once and written once.
    #[serde(rename = "copied_bytes_per_second")]
    pub copied_per_second: Bytes,
}

/// The run has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    pub outcome: Outcome,
    /// Largest resident memory of the process.
    #[serde(rename = "memory_max_bytes")]
    pub memory_max: Bytes,
}

/// A time in which durio itself did not run: it was stopped, the machine was suspended, or other
/// processes had its processors. Operations in flight seem to last as long, and none starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGap {
    /// Index of the step in the plan.
    pub step: u32,
    /// Round of its section, from 0.
    #[serde(default)]
    pub round: u32,
    /// The last sign of life before it, from the start of the step.
    #[serde(rename = "from_ns")]
    pub from: Nanos,
    /// From there to the next one: at most a tenth of a second more than the gap.
    #[serde(rename = "span_ns")]
    pub span: Nanos,
}

/// Context switches of threads, as the kernel counts them (getrusage: ru_nvcsw, ru_nivcsw).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContextSwitches {
    /// The thread waited: for I/O, a lock, another thread.
    pub voluntary: u64,
    /// The processor was taken from it: its time was up, or something more urgent came.
    pub involuntary: u64,
}

impl ContextSwitches {
    /// The counts after `earlier`; zero where a counter has gone back.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_add(other.voluntary),
            involuntary: self.involuntary.saturating_add(other.involuntary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_the_switches_and_an_older_one_has_none() {
        let line = r#"{"step":0,"outcome":"complete","measured_ns":5,"cpu":null,"devices":[],"context_switches":{"voluntary":7,"involuntary":3}}"#;
        let ended: StepEnded = serde_json::from_str(line).unwrap();
        let switches = ContextSwitches { voluntary: 7, involuntary: 3 };
        assert_eq!(ended.context_switches, Some(switches));
        let older = StepEnded { context_switches: None, ..ended };
        let text = serde_json::to_string(&older).unwrap();
        assert!(!text.contains("context_switches"), "{text}");
        let ended: StepEnded = serde_json::from_str(&text).unwrap();
        assert_eq!((ended.context_switches, ended.outcome), (None, Outcome::Complete));
    }

    #[test]
    fn the_lateness_of_a_start_is_signed_and_an_impossible_one_is_bounded() {
        let line = r#"{"step":3,"armed_ns":5,"ordered_at_ns":700,"started_ns":950,"offset_ns":-40,"bound_ns":60}"#;
        let gated: StepGated = serde_json::from_str(line).unwrap();
        assert_eq!((gated.round, gated.lateness_ns()), (0, 250));
        assert_eq!(serde_json::to_string(&gated).unwrap(), line);
        let of = |ordered_at, started| {
            let [ordered_at, started] = [ordered_at, started].map(Nanos::new);
            StepGated { ordered_at, started, ..gated }.lateness_ns()
        };
        assert_eq!((of(950, 700), of(7, 7)), (-250, 0));
        assert_eq!((of(0, u64::MAX), of(u64::MAX, 0)), (i64::MAX, -i64::MAX));
    }

    #[test]
    fn a_counter_that_went_back_counts_nothing() {
        let (a, b) = (ContextSwitches { voluntary: 5, involuntary: 1 }, ContextSwitches::default());
        assert_eq!(b.saturating_since(a), b);
        let full = ContextSwitches { voluntary: u64::MAX, involuntary: u64::MAX };
        assert_eq!(full.saturating_add(a), full);
    }

    #[test]
    fn each_operation_has_its_name_and_the_first_load_is_the_first_stream() {
        let names = OperationName::ALL.map(OperationName::name);
        assert_eq!(names, ["commit", "read", "write", "sync", "reallocate"]);
        let line = r#"{"step":1,"engine":"null","jobs":7,"depth":1,"batch":1,"cache":"direct","region":"shared","clock":"tsc","features":[],"fallbacks":[]}"#;
        let mut started: StepStarted = serde_json::from_str(line).unwrap();
        let text = serde_json::to_string(&started).unwrap();
        assert_eq!(text, line, "the first round and a closed loop are not written");
        let jobs =
            |started: &StepStarted| started.streams().map(|stream| stream.jobs).collect::<Vec<_>>();
        assert_eq!(jobs(&started), [7]);
        started.beside.push(StreamStarted { jobs: 9, ..started.stream.clone() });
        assert_eq!(jobs(&started), [7, 9]);
        started.round = 3;
        assert!(serde_json::to_string(&started).unwrap().contains(r#""round":3"#));
    }
}
