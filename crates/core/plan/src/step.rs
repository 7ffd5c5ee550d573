//! A step: loads that run at the same time, up to a limit.

use durio_base::{Bytes, Nanos};
use durio_block::EngineKind;
use durio_workload::{
    Arrivals, AtEnd, CommitterThreads, FileOrder, RegionRule, SyncMethod, Workload,
};
use serde::{Deserialize, Serialize};

use crate::queue::{AccessAdvice, BatchPolicy, CompletionTime, DrainPolicy};

/// Which clock stamps the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockChoice {
    /// The TSC where it is reliable, else CLOCK_MONOTONIC.
    Auto,
    /// The processor's time-stamp counter.
    Tsc,
    /// clock_gettime(CLOCK_MONOTONIC).
    Monotonic,
}

/// When a step ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// After this time; operations in flight are waited for.
    #[serde(rename = "duration_ns")]
    Duration(Nanos),
    /// After this many accesses over all jobs (syncs that follow writes are not counted).
    Operations(u64),
    /// After accesses of this many bytes over all jobs.
    #[serde(rename = "volume_bytes")]
    Volume(Bytes),
    /// After accesses of this many bytes over all jobs, or after this time, whichever comes first.
    VolumeWithin {
        #[serde(rename = "volume_bytes")]
        volume: Bytes,
        #[serde(rename = "duration_ns")]
        duration: Nanos,
    },
}

/// What a step's results describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// durio's cost per I/O, on the null target.
    SelfCost,
    /// Nothing: the step brings the target into the state in which it is measured.
    Precondition,
    /// The target's.
    Measure,
    /// Nothing: the step makes a few commits while the kernel traces what reaches the devices.
    Trace,
    /// Nothing: the step makes a few commits through the C library and through direct system calls,
    /// and counts the flushes that reach the devices.
    ProbeSyncCalls,
    /// Nothing: one job makes a few operations, one at a time, while the kernel traces where their
    /// time goes.
    TracePath,
}

/// What the null engine answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NullScript {
    /// Latencies of successive operations, repeated from the start; at least one.
    #[serde(rename = "latencies_ns")]
    pub latencies: Vec<Nanos>,
    /// The operation (counted from 0, per job) that fails with EIO.
    pub fails_at: Option<u64>,
}

/// Where the jobs of a load run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On the NUMA node of the target's device, where there are several nodes and it has one.
    // From another node the device is reached over the link between them.
    #[default]
    DeviceNode,
    /// Wherever the kernel puts them.
    Anywhere,
    /// On the processors of this NUMA node, with their memory there.
    Node(u32),
    /// On these processors: job k on the k-th, around at the end.
    Cpus(Vec<u32>),
}

/// One workload over one target or several, by one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Index of the target in the plan.
    pub target: usize,
    /// Further targets: job k works on target k modulo their number, the first one counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_targets: Vec<usize>,
    /// Each job works on this many targets in turn, with one access each: job k takes group k
    /// modulo the number of groups, and a group is that many consecutive targets. Each target has
    /// the workload's region, and a write's sync goes to the write's target.
    // Records of plans before it have one target for each job.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub targets_each: u32,
    pub workload: Workload,
    /// How they are submitted.
    pub engine: EngineKind,
    /// The ioengine of fio, with [`EngineKind::Fio`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fio_engine: Option<String>,
    /// How many at once.
    pub batch: BatchPolicy,
    /// The null engine's answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<NullScript>,
    /// When they start: as soon as possible, or at a rate.
    #[serde(default, skip_serializing_if = "Arrivals::is_closed")]
    pub arrivals: Arrivals,
    /// Where the jobs run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// A sync holds up its job until it is done, whatever is in flight; nothing else is submitted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocking_syncs: bool,
    /// When this load ends, if not with the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_limit: Option<Limit>,
    /// In which order a job uses its targets, if it has several.
    #[serde(default, skip_serializing_if = "FileOrder::is_each_in_turn")]
    pub file_order: FileOrder,
    /// How the queue drains, if places are not refilled as they are reaped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainPolicy>,
    /// Where the latency of an asynchronous operation ends.
    #[serde(default, skip_serializing_if = "is_default")]
    pub completion_time: CompletionTime,
    /// Advice to the kernel about the accesses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<AccessAdvice>,
}

impl Load {
    /// A load of `workload` on `target` in a closed loop, with defaults for the rest.
    pub fn new(target: usize, workload: Workload, engine: EngineKind) -> Self {
        Self {
            target,
            more_targets: Vec::new(),
            targets_each: 1,
            workload,
            engine,
            fio_engine: None,
            batch: BatchPolicy::DEFAULT,
            script: None,
            arrivals: Arrivals::Closed,
            placement: Placement::DeviceNode,
            blocking_syncs: false,
            own_limit: None,
            file_order: FileOrder::EACH_IN_TURN,
            drain: None,
            completion_time: CompletionTime::Seen,
            advice: None,
        }
    }

    /// The load with one job, and one operation in flight as soon as the last is done, on its first
    /// target: what one operation of it is by itself.
    pub fn alone(&self) -> Self {
        let mut workload = self.workload.clone();
        (workload.jobs, workload.depth, workload.region) = (1, 1, RegionRule::Shared);
        Self {
            // Same engine, same answers: only the company is left out.
            script: self.script.clone(),
            fio_engine: self.fio_engine.clone(),
            ..Self::new(self.target, workload, self.engine)
        }
    }

    /// The indices of all its targets, each once, in the order of the jobs.
    pub fn targets(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.target).chain(self.more_targets.iter().copied())
    }

    /// True if it writes to `target`.
    pub fn writes_to(&self, target: usize) -> bool {
        self.workload.writes() && self.targets().any(|used| used == target)
    }

    /// The target of job `job`, or the first of several, that job's place among the target's jobs,
    /// and how many those are.
    pub fn place_of(&self, job: u32) -> JobPlace {
        let count = self.groups();
        let index = job % count;
        let target = self.targets_of(job).next().unwrap_or(self.target);
        let jobs = self.workload.jobs;
        // Where jobs do not divide evenly, the first groups have one more.
        let sharers = jobs / count + u32::from(jobs % count > index);
        JobPlace { target, place: job / count, sharers }
    }

    /// The targets of job `job`, in the order of its accesses.
    pub fn targets_of(&self, job: u32) -> impl Iterator<Item = usize> + '_ {
        let each = self.targets_each.max(1) as usize;
        self.targets().skip((job % self.groups()) as usize * each).take(each)
    }

    /// How many groups of targets there are for jobs to work on.
    fn groups(&self) -> u32 {
        let targets = u32::try_from(self.more_targets.len() + 1).unwrap_or(u32::MAX);
        // A damaged plan may say 0, until it is refused.
        (targets / self.targets_each.max(1)).max(1)
    }

    /// The bytes of all buffers of all jobs.
    pub fn buffer_bytes(&self) -> Bytes {
        let slots = u64::from(self.workload.in_flight_max()) * u64::from(self.slots_each());
        // The sum is reported before anything is allocated, so it must not wrap around.
        Bytes::new(self.workload.transfer_max().get().saturating_mul(slots))
    }

    /// Buffers for each operation in flight: two for a log whose next batch is filled while the
    /// last is flushed, else one.
    pub fn slots_each(&self) -> u32 {
        let policy = self.workload.group_commit;
        if policy.is_some_and(|policy| policy.double_buffered) { 2 } else { 1 }
    }

    /// The most bytes that are written for an access of the largest size.
    // A batch may hold one record, filled up.
    pub(crate) fn written_each_max(&self) -> Bytes {
        let block = self.workload.block_size;
        self.workload.group_commit.map_or(block, |policy| {
            let tail = if policy.rewrites_tail { policy.pad_to.get() } else { 0 };
            Bytes::new(policy.padded(block).get().saturating_add(tail))
        })
    }

    /// The most bytes that are written for accesses of `bytes`.
    pub(crate) fn written_max(&self, bytes: Bytes) -> u64 {
        if self.workload.group_commit.is_none() {
            return bytes.get();
        }
        let records = self.workload.block_sizes().first().map_or(1, |size| size.get().max(1));
        // At worst every batch holds one record of the smallest size, and is filled up.
        bytes.get().div_ceil(records).saturating_mul(self.written_each_max().get())
    }

    /// Checks that the engine is one that its log knows.
    ///
    /// # Errors
    /// What the load has that the engine has not, as the end of a sentence.
    pub fn validate_log(&self) -> Result<(), String> {
        let threads = self.workload.group_commit.map(|policy| policy.threads);
        let what = match (threads, self.engine) {
            (Some(_), EngineKind::Fio) => "group commit: fio has no equivalent",
            (Some(CommitterThreads::OneEach), EngineKind::Null) => {
                "has committers with a thread each, which the virtual clock does not know; they \
                 need the engine sync, or no threads"
            }
            (Some(CommitterThreads::OneEach), engine) if engine != EngineKind::Sync => {
                "has committers with a thread each: the leader waits for the storage, so the \
                 engine must be sync"
            }
            _ => return Ok(()),
        };
        Err(what.to_owned())
    }

    /// Checks that the engine can make its writes durable in the way that it asks for.
    ///
    /// # Errors
    /// What the load has that the engine has not, as the end of a sentence.
    pub fn validate_sync(&self) -> Result<(), String> {
        let method = self.workload.sync.method;
        let is_of_any = matches!(
            method.unlinked(),
            SyncMethod::None | SyncMethod::Fsync | SyncMethod::Fdatasync
        );
        if is_of_any || self.engine.writes_by_calls() {
            return Ok(());
        }
        let engine = self.engine;
        Err(format!(
            "makes its writes durable by {method}, which has no effect on the engine {engine}: it \
             copies to mapped memory; use fsync or fdatasync"
        ))
    }

    fn validate(&self, targets: usize) -> Result<(), String> {
        // The runner indexes targets with these numbers and does not check them again.
        if let Some(unknown) = self.targets().find(|&target| target >= targets) {
            return Err(format!("names target {unknown} of {targets}"));
        }
        self.workload.validate().map_err(|error| error.0)?;
        self.arrivals.validate().map_err(|error| error.0)?;
        self.validate_log()?;
        self.validate_sync()?;
        let count = self.more_targets.len() + 1;
        let each = self.targets_each as usize;
        if each == 0 || !count.is_multiple_of(each) {
            return Err(format!(
                "has {count} targets, not a multiple of the {each} that each job uses"
            ));
        }
        // A target without a job would not be measured, and its results would be missing.
        if self.workload.jobs < self.groups() {
            return Err(format!("has {} jobs for {count} targets", self.workload.jobs));
        }
        if self.drain.is_some() {
            self.validate_drain()?;
        }
        if each > 1 { self.validate_turns() } else { Ok(()) }
    }

    /// What a queue that drains cannot do.
    fn validate_drain(&self) -> Result<(), String> {
        let what = match () {
            () if !self.arrivals.is_closed() => "starts each access when it is due",
            () if self.workload.group_commit.is_some() => "is a log",
            () if self.drain.is_some_and(|drain| drain.think.is_some()) => return Ok(()),
            () if !self.engine.is_asynchronous() => "has one access in flight",
            () => return Ok(()),
        };
        Err(format!("{what}, so its queue cannot drain before it is filled again"))
    }

    /// What a job over several targets in turn cannot do.
    fn validate_turns(&self) -> Result<(), String> {
        let workload = &self.workload;
        let is_sparse = workload.sync.method.is_separate_call() && workload.sync.every > 1;
        let what = [
            (self.engine == EngineKind::Fio, "is run by fio"),
            // A log's batches follow each other in one file.
            (workload.group_commit.is_some(), "is a log"),
            (workload.at_end == AtEnd::Reallocate, "returns segments to the preallocated state"),
            // A sync covers the file of its write alone: the others' writes would stay without.
            (is_sparse, "does not sync each write"),
        ];
        match what.iter().find(|(is_so, _)| *is_so) {
            Some((_, what)) => Err(format!("{what}, so each of its jobs can have only one target")),
            None => Ok(()),
        }
    }
}

/// Where a job works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPlace {
    /// Index of the target in the plan.
    pub target: usize,
    /// Its place among the jobs on that target, from 0.
    pub place: u32,
    /// How many jobs work on that target.
    pub sharers: u32,
}

/// A coordinate of a step in a ladder or a map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParameterValue {
    /// The varied parameter: jobs, depth, block_size, rate, …
    pub axis: String,
    /// Its value, in the axis' own unit (bytes, nanoseconds, per second, a plain number).
    pub value: f64,
    /// As it is shown.
    pub label: String,
}

impl ParameterValue {
    /// The label with its axis, where it is a bare number: `jobs 4`, `o_dsync`.
    pub fn words(&self) -> String {
        // The label `o_dsync` explains itself, 4 does not.
        match self.label.starts_with(|first: char| first.is_ascii_digit()) {
            true => format!("{} {}", self.axis.replace('_', " "), self.label),
            false => self.label.clone(),
        }
    }
}

/// Loads that run at the same time, up to a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Position in the plan.
    pub index: u32,
    /// What its results describe.
    pub role: Role,
    // In one object with the step, as records had it before steps had further loads.
    #[serde(flatten)]
    pub load: Load,
    /// Loads that run at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Load>,
    /// When it ends, after the ramp.
    pub limit: Limit,
    /// Time at the start that is recorded apart and left out of the results.
    #[serde(rename = "ramp_ns")]
    pub ramp: Nanos,
    /// Length of the recorded intervals.
    #[serde(rename = "interval_ns")]
    pub interval: Nanos,
    /// Which repeat of the ladder it is, from 0.
    pub repeat: u32,
    /// The first job that is done ends all others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_job_ends_all: bool,
    /// How much memory the page cache of this step may use, by a memory cgroup.
    #[serde(rename = "memory_bound_bytes", default, skip_serializing_if = "Option::is_none")]
    pub memory_bound: Option<Bytes>,
    /// The kernel's read-ahead for the files of this step.
    #[serde(rename = "read_ahead_bytes", default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<Bytes>,
    /// Drop the clean pages of the targets from the page cache before it begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drop_cache: bool,
    /// Idle time that is waited for before it begins.
    // An idle drive may begin with garbage collection (docs/design/0006), so a pause is part of the
    // plan.
    #[serde(rename = "pause_before_ns", default, skip_serializing_if = "is_default")]
    pub pause_before: Nanos,
    /// If the target or the kernel refuses it, the refusal is recorded and the run continues with
    /// the next step; nothing replaces it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub declinable: bool,
    /// Index of its section in the plan's campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<u32>,
    /// Where it is on the axes of its section.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<ParameterValue>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(value: &u32) -> bool {
    *value == 1
}

impl Step {
    /// A step of one load, with nothing out of the ordinary; the plan's maker numbers it.
    pub fn new(role: Role, load: Load, limit: Limit, interval: Nanos) -> Self {
        Self {
            index: 0,
            role,
            load,
            beside: Vec::new(),
            limit,
            ramp: Nanos::ZERO,
            interval,
            repeat: 0,
            first_job_ends_all: false,
            memory_bound: None,
            read_ahead: None,
            drop_cache: false,
            pause_before: Nanos::ZERO,
            declinable: false,
            section: None,
            levels: Vec::new(),
        }
    }

    /// All loads; the position is the number of the stream in the record.
    pub fn loads(&self) -> impl Iterator<Item = &Load> {
        std::iter::once(&self.load).chain(&self.beside)
    }

    /// The load of a stream of the record.
    pub fn stream(&self, stream: u32) -> Option<&Load> {
        self.loads().nth(stream as usize)
    }

    /// All workers of all loads.
    pub fn jobs(&self) -> u32 {
        // A damaged plan may have any sum until it is refused.
        self.loads().map(|load| load.workload.jobs).fold(0, u32::saturating_add)
    }

    /// The bytes of all buffers of all jobs.
    pub fn buffer_bytes(&self) -> Bytes {
        let bytes = self.loads().map(|load| load.buffer_bytes().get());
        Bytes::new(bytes.fold(0, u64::saturating_add))
    }

    /// True if any load writes to `target`.
    pub fn writes_to(&self, target: usize) -> bool {
        self.loads().any(|load| load.writes_to(target))
    }

    /// Bytes that it will write at most; none if time alone bounds it.
    pub fn write_bytes_max(&self) -> Option<Bytes> {
        let of = |load: &Load| {
            let limit = load.own_limit.unwrap_or(self.limit);
            match (load.workload.writes(), limit) {
                (false, _) => Some(0),
                (true, Limit::Volume(bytes) | Limit::VolumeWithin { volume: bytes, .. }) => {
                    Some(load.written_max(bytes))
                }
                // An operation of a log is a record, and each may be a separate batch.
                (true, Limit::Operations(count)) => {
                    Some(count.saturating_mul(load.written_each_max().get()))
                }
                (true, Limit::Duration(_)) => None,
            }
        };
        let sum = self.loads().map(of).try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)));
        sum.map(Bytes::new)
    }

    pub(crate) fn validate(&self, targets: usize) -> Result<(), String> {
        // Rates are counts of intervals, divided by their length.
        if self.interval == Nanos::ZERO {
            return Err("has intervals of no length".to_owned());
        }
        self.loads().try_for_each(|load| load.validate(targets))?;
        if self.jobs() > JOBS_MAX {
            return Err(format!("has {} jobs, more than {JOBS_MAX}", self.jobs()));
        }
        Ok(())
    }
}

// As for one workload (durio-workload): more threads than any machine runs.
const JOBS_MAX: u32 = 4096;

#[cfg(test)]
mod tests {
    use durio_workload::SyncPolicy;

    use super::*;

    fn load(jobs: u32, targets: usize, targets_each: u32) -> Load {
        let workload = Workload { jobs, ..Workload::default() };
        let more_targets = (1..targets).collect();
        Load { more_targets, targets_each, ..Load::new(0, workload, EngineKind::Sync) }
    }

    #[test]
    fn jobs_over_several_targets_share_groups_of_them() {
        let load = load(3, 4, 2);
        let of = |job| load.targets_of(job).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(2)), (vec![0, 1], vec![2, 3], vec![0, 1]));
        assert_eq!(load.place_of(2), JobPlace { target: 0, place: 1, sharers: 2 });
        assert_eq!(load.place_of(1), JobPlace { target: 2, place: 0, sharers: 1 });
        assert_eq!(load.validate(4), Ok(()));
    }

    #[test]
    fn groups_are_whole_and_each_has_a_job() {
        assert!(load(3, 3, 2).validate(3).is_err());
        assert!(load(1, 4, 2).validate(4).is_err());
        assert!(load(1, 1, 0).validate(1).is_err());
        let mut sparse = load(1, 2, 2);
        sparse.workload.read_share = durio_workload::PerMille::NONE;
        sparse.workload.sync = SyncPolicy { method: SyncMethod::Fsync, every: 8 };
        assert!(sparse.validate(2).is_err_and(|error| error.contains("one target")));
    }
}
