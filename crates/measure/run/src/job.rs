//! One worker: builds its engine in its own thread, waits for the common start, runs the loop; and on
//! which processors the workers of a load run.

use std::collections::BTreeMap;

use durio_base::Nanos;
use durio_block::{
    BlockError, Buffers, Clock, Engine, EngineSetup, EngineUser, NullAnswers, NullEngine,
    SyncEngine,
};
use durio_plan::{EngineKind, Load, NullScript, Placement};
use durio_workload::{BlockFiller, Stream, Workload};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::counters::ThreadUsage;
use crate::error::RunError;
use crate::job_input::{
    JobInput, JobOutcome, JobShared, RunClock, StartSignal, has_committer_threads, write_flags,
};
use crate::log::Log;
use crate::measured_loop::{Idle, LoopInput, MeasuredLoop, slots_per_operation};
use crate::recorder::JobRecorder;
use crate::{StopFlag, committer_threads};

/// The body of a job's thread; `None` if the step never began.
pub(crate) fn run_job(mut input: JobInput, shared: &JobShared) -> Option<JobOutcome> {
    // Before the buffers: memory is taken from the node on which it is touched first.
    if let Err(error) = stay_on(&input.processors) {
        input.ready.tell(Err(error));
        return None;
    }
    let _guard = FailOnPanic(&shared.failed);
    match input.clock {
        RunClock::Tsc(clock) => run_with_clock(input, clock, shared),
        RunClock::Monotonic(clock) => run_with_clock(input, clock, shared),
    }
}

/// Binds the calling thread to processors; none leave it where it is.
fn stay_on(processors: &[u32]) -> Result<(), RunError> {
    if processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &processor in processors {
        if processor as usize >= CpuSet::MAX_CPU {
            return Err(RunError::unsupported(format!("processor {processor} does not exist"))
                .hint("lscpu lists the processors"));
        }
        set.set(processor as usize);
    }
    sched_setaffinity(None, &set).map_err(|errno| {
        let list: Vec<String> = processors.iter().map(u32::to_string).collect();
        let message = format!("cannot run on the processors {}", list.join(","));
        RunError::target(message)
            .because(std::io::Error::from(errno))
            .hint("lscpu lists the processors; a control group may permit fewer")
    })
}

/// A job that panics ends the others too.
struct FailOnPanic<'a>(&'a StopFlag);

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set();
        }
    }
}

fn run_with_clock<C: Clock + Copy + Send + Sync>(
    mut input: JobInput,
    clock: C,
    shared: &JobShared,
) -> Option<JobOutcome> {
    let mut filler = BlockFiller::new(&input.workload, input.seed);
    let buffers = match filled_buffers(&input, &mut filler) {
        Ok(buffers) => buffers,
        Err(error) => return decline(input, error.into()),
    };
    let has_threads = has_committer_threads(&input.workload);
    // The committer that finds the log free leads, so the engine moves from thread to thread: a
    // ring set up with SINGLE_ISSUER refuses every thread but its first.
    if has_threads && input.engine != EngineKind::Sync {
        let error = RunError::unsupported("committers with one thread each need the sync engine");
        return decline(input, error);
    }
    if input.engine == EngineKind::Null {
        let engine = NullEngine::new(script(&input), buffers);
        return drive(engine, (input, filler), shared);
    }
    let mut files = std::mem::take(&mut input.files).into_iter();
    let Some(file) = files.next() else {
        let error = RunError::unsupported("only the null engine runs without a target");
        return decline(input, error);
    };
    if has_threads {
        let engine = SyncEngine::new(clock, file, buffers);
        return committer_threads::run(engine, clock, (input, filler), shared);
    }
    let (depth, entries) = (input.workload.depth, ring_entries(&input.workload));
    let (more_files, blocking_syncs) = (files.collect(), input.blocking_syncs);
    let advice = input.advice;
    let setup =
        EngineSetup { clock, file, more_files, buffers, depth, entries, blocking_syncs, advice };
    input.engine.open(setup, WaitingJob { input, filler, shared })
}

fn script(input: &JobInput) -> NullAnswers {
    match input.script.clone() {
        Some(NullScript { latencies, fails_at }) => NullAnswers::new(latencies, fails_at),
        None => NullAnswers::new(vec![Nanos::from_micros(100)], None),
    }
}

/// A job that waits for its engine.
struct WaitingJob<'a> {
    input: JobInput,
    filler: BlockFiller,
    shared: &'a JobShared,
}

impl<C: Clock> EngineUser<C> for WaitingJob<'_> {
    type Output = Option<JobOutcome>;

    fn drive<E: Engine<Clock = C>>(self, engine: E) -> Self::Output {
        drive(engine, (self.input, self.filler), self.shared)
    }

    /// The kernel let the probe have one and refuses one to this job.
    fn refused(self, error: BlockError) -> Self::Output {
        let mut error = RunError::from(error);
        if self.input.engine == EngineKind::Uring {
            error = error.hint(
                "use fewer jobs or a smaller --depth, raise the limit on locked memory \
                 (ulimit -l), or give --engine sync",
            );
        }
        decline(self.input, error)
    }
}

/// An entry of the ring for each slot.
fn ring_entries(workload: &Workload) -> u32 {
    let each = slots_per_operation(workload.sync.method);
    u32::try_from(workload.depth as usize * each).unwrap_or(u32::MAX)
}

/// Buffers with the workload's contents, different for each job.
fn filled_buffers(input: &JobInput, filler: &mut BlockFiller) -> Result<Buffers, BlockError> {
    let length = usize::try_from(input.workload.transfer_max().get()).unwrap_or(usize::MAX);
    let slots = (input.workload.depth * input.slots_each) as usize;
    let buffers = Buffers::try_new(slots, length)?;
    // A linked sync has a separate slot, and moves no data.
    let linked = slots * (slots_per_operation(input.workload.sync.method) - 1);
    let mut buffers = buffers.with_bare(linked);
    for slot in 0..slots {
        // Touches every page before the measurement, also for reads.
        filler.prime(buffers.slot_mut(slot));
    }
    Ok(buffers)
}

/// Reports to the coordinator that this job cannot run; it then calls the step off.
fn decline(mut input: JobInput, error: RunError) -> Option<JobOutcome> {
    input.ready.tell(Err(error));
    None
}

fn drive<E: Engine>(
    mut engine: E,
    (mut input, filler): (JobInput, BlockFiller),
    shared: &JobShared,
) -> Option<JobOutcome> {
    let workload = &input.workload;
    let asynchronous = engine.capabilities().asynchronous;
    let files = (input.files_each, input.file_order);
    let stream = Stream::over_files(workload, input.region, input.seed, files);
    let kinds = (asynchronous, input.schedule.is_some());
    let mut recorder =
        JobRecorder::new(input.index as usize, workload, kinds, input.closed, input.empty);
    let bounds = input.bounds;
    let loop_input = LoopInput {
        stream,
        recorder: &mut recorder,
        stop: shared.stop.flag(),
        failed: shared.failed.flag(),
        write_flags: write_flags(workload.sync.method),
        commits: workload.commits_each_write(),
        sync: workload.sync.method,
        depth: workload.depth,
        batch: input.batch,
        varied: workload.has_mix(),
        filler,
        pass_files: std::mem::take(&mut input.pass_files),
        syncs_at_end: workload.syncs_at_end && workload.writes(),
        files: input.files_each,
        drain: input.drain,
        completion_time: input.completion_time,
    };
    let facts = engine.facts();
    // Everything that allocates, before the job says that it is ready.
    let mut log = Log::of(workload, input.region);
    // Before the job says that it is ready: the loop allocates nothing.
    let mut idle =
        Idle::with_capacity(workload.group_commit.map_or(0, |policy| policy.committers as usize));
    let measured = MeasuredLoop::new(&mut engine, bounds, loop_input);
    input.ready.tell(Ok(facts));
    if shared.barrier.wait() == StartSignal::Aborted {
        return None;
    }
    // Usage of the loop alone: making the buffers is behind it.
    let before = ThreadUsage::of_thread();
    let started = measured.common_start(&shared.started);
    let result = match (&mut log, input.schedule) {
        (Some(log), schedule) => measured.run_log(started, log, &mut idle, schedule),
        (None, Some(schedule)) => measured.run_open(started, schedule),
        (None, None) => measured.run(started),
    };
    if shared.first_ends_all {
        // The flag of a failure serves: the loop looks at it anyway.
        shared.failed.set();
    }
    let usage = ThreadUsage::of_thread().since(before);
    let end = Nanos::new(result.end_ns);
    let recorder_waits = recorder.waits;
    Some(JobOutcome {
        index: input.index,
        result,
        parts: recorder.finish(),
        usage,
        recorder_waits,
        end,
    })
}

/// The machine's NUMA nodes, and on which of them the targets' devices are.
#[derive(Debug, Clone, Default)]
pub struct Processors {
    /// The processors of each node.
    pub nodes: BTreeMap<u32, Vec<u32>>,
    /// Per target of the plan: the node of the device below, where there is one.
    pub node_of_target: Vec<Option<u32>>,
}

impl Processors {
    /// The processors of a job; none means wherever the kernel puts it.
    pub(crate) fn of(&self, load: &Load, target: usize, place: u32) -> Result<Vec<u32>, RunError> {
        match &load.placement {
            Placement::Anywhere => Ok(Vec::new()),
            // On a machine of one node there is nothing to choose.
            Placement::DeviceNode if self.nodes.len() < 2 => Ok(Vec::new()),
            // Memory on another node than the device's is reached over the link between them.
            Placement::DeviceNode => {
                let node = self.node_of_target.get(target).copied().flatten();
                Ok(node.and_then(|node| self.nodes.get(&node)).cloned().unwrap_or_default())
            }
            Placement::Node(node) => self.nodes.get(node).cloned().ok_or_else(|| {
                RunError::unsupported(format!("this machine has no NUMA node {node}"))
                    .hint("lscpu lists the nodes")
            }),
            Placement::Cpus(cpus) if cpus.is_empty() => Ok(Vec::new()),
            Placement::Cpus(cpus) => Ok(vec![cpus[place as usize % cpus.len()]]),
        }
    }

    /// The placement of a load in words, for the record; empty if the kernel decides.
    pub(crate) fn words(&self, load: &Load) -> Vec<String> {
        match &load.placement {
            Placement::Node(node) => vec![format!("node {node}")],
            Placement::Cpus(cpus) => {
                let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
                vec![format!("processors {}", list.join(","))]
            }
            Placement::DeviceNode if self.nodes.len() > 1 => {
                let node = self.node_of_target.get(load.target).copied().flatten();
                node.map(|node| format!("node {node} of the device")).into_iter().collect()
            }
            Placement::DeviceNode | Placement::Anywhere => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(placement: Placement) -> Load {
        Load { placement, ..Load::new(0, Workload::default(), EngineKind::Sync) }
    }

    #[test]
    fn jobs_run_on_the_devices_node_unless_told_otherwise() {
        let nodes = BTreeMap::from([(0, vec![0, 1]), (1, vec![2, 3])]);
        let two = Processors { nodes, node_of_target: vec![Some(1), None] };
        let of = |placement, target, place| two.of(&load(placement), target, place).unwrap();
        assert_eq!(of(Placement::DeviceNode, 0, 5), [2, 3]);
        assert_eq!(of(Placement::DeviceNode, 1, 0), [0; 0], "a device of no node");
        assert_eq!(of(Placement::Anywhere, 0, 0), [0; 0]);
        assert_eq!(of(Placement::Node(0), 0, 0), [0, 1]);
        assert_eq!(of(Placement::Cpus(vec![3, 1]), 0, 2), [3]);
        assert!(two.of(&load(Placement::Node(7)), 0, 0).is_err());
    }

    #[test]
    fn the_record_has_the_processors_where_they_were_chosen() {
        let nodes = BTreeMap::from([(0, vec![0, 1]), (3, vec![2, 5])]);
        let two = Processors { nodes, node_of_target: vec![None, Some(3)] };
        let nodes = BTreeMap::from([(3, vec![2, 5])]);
        let one = Processors { nodes, node_of_target: vec![None, Some(3)] };
        let words = |machine: &Processors, placement, target| {
            machine.words(&Load { target, ..load(placement) })
        };
        let none: [&str; 0] = [];
        assert_eq!(words(&two, Placement::DeviceNode, 1), ["node 3 of the device"]);
        assert_eq!(words(&two, Placement::DeviceNode, 0), none);
        assert_eq!(words(&two, Placement::DeviceNode, 2), none);
        assert_eq!(words(&two, Placement::Anywhere, 1), none);
        assert_eq!(words(&one, Placement::DeviceNode, 1), none);
        for machine in [&one, &two] {
            assert_eq!(words(machine, Placement::Node(4), 0), ["node 4"]);
            assert_eq!(words(machine, Placement::Cpus(vec![7, 2]), 0), ["processors 7,2"]);
        }
    }

    #[test]
    fn a_machine_of_one_node_leaves_jobs_where_they_are() {
        let nodes = BTreeMap::from([(0, vec![0, 1])]);
        let one = Processors { nodes, node_of_target: vec![Some(0)] };
        assert_eq!(one.of(&load(Placement::DeviceNode), 0, 0).unwrap(), [0; 0]);
    }

    #[test]
    fn a_ring_has_an_entry_for_each_access_and_one_for_each_linked_sync() {
        use durio_workload::{PerMille, SyncMethod, SyncPolicy};
        let of = |method| {
            let (read_share, sync) = (PerMille::NONE, SyncPolicy::each(method));
            ring_entries(&Workload { depth: 7, read_share, sync, ..Workload::default() })
        };
        assert_eq!([of(SyncMethod::None), of(SyncMethod::Fsync), of(SyncMethod::RwfSync)], [7; 3]);
        assert_eq!([of(SyncMethod::LinkedFsync), of(SyncMethod::LinkedFdatasync)], [14; 2]);
    }

    #[test]
    fn a_processor_that_no_machine_has_is_refused_and_none_is_no_bond() {
        assert!(stay_on(&[]).is_ok());
        let beyond = u32::try_from(CpuSet::MAX_CPU).unwrap();
        let error = stay_on(&[beyond]).unwrap_err();
        assert_eq!(error.to_string(), format!("processor {beyond} does not exist"));
    }
}
