//! Steps without results: one job, one operation at a time, made by the coordinator itself.
//!
//! Gives the step's one load as it is in effect, its events at the begin and the end, and between them
//! an engine over its open file, with operations performed to their end.

use std::os::fd::OwnedFd;
use std::time::Instant;

use durio_block::{
    BlockError, Buffers, Clock, Completion, Engine, EngineSetup, EngineUser, Operation,
    OperationKind, WriteFlags,
};
use durio_plan::{EngineKind, Limit, Load, Role};
use durio_record::{Event, Outcome, StepStarted};
use durio_workload::{Access, Arrivals, BlockFiller, Region, Stream, Workload};

use crate::counters::CounterReading;
use crate::error::RunError;
use crate::job_input::write_flags;
use crate::measured_loop::{
    EarlyEnding, JobFailure, blank_operation, is_done, slots_per_operation,
};
use crate::step::effective_load::{effective, open_files, region_of};
use crate::step::{EffectiveLoad, StepSetup, job_error, outcome_of, stream_started};

/// The load of such a step, with its first target open.
pub(crate) struct SingleLoad {
    load: Load,
    pub(crate) effective: EffectiveLoad,
    pub(crate) region: Region,
    /// None for the null engine.
    pub(crate) file: Option<OwnedFd>,
    /// How many operations the step makes.
    pub(crate) count: u64,
}

impl SingleLoad {
    /// The first load of a step, as one job of depth 1.
    pub(crate) fn open(setup: StepSetup<'_>) -> Result<Self, RunError> {
        let step = setup.step;
        let Limit::Operations(count) = step.limit else {
            return Err(refusal("is limited by a number of operations"));
        };
        if !step.beside.is_empty() {
            return Err(refusal("has one load"));
        }
        let load = single(&step.load, step.role)?;
        let mut effective = effective(setup, &load)?;
        let target = setup.plan.targets.get(load.target);
        let size = target.ok_or_else(|| refusal("has a target"))?.size;
        let region = region_of(&load, 1, 0, size)?;
        let file = open_files(&mut effective, setup, &load)?.into_iter().flatten().next();
        Ok(Self { load, effective, region, file, count })
    }
}

/// The load with one job and one operation in flight, on its first target.
fn single(load: &Load, role: Role) -> Result<Load, RunError> {
    let mut load = Load { more_targets: Vec::new(), targets_each: 1, ..load.clone() };
    let may_read = role == Role::TracePath;
    if (load.workload.reads() && !may_read) || load.workload.group_commit.is_some() {
        return Err(refusal("writes, without group commit"));
    }
    // One at a time: the kernel's work in that time belongs to this operation.
    (load.workload.jobs, load.workload.depth) = (1, 1);
    Ok(load)
}

fn refusal(text: &str) -> RunError {
    RunError::unsupported(format!("a step that traces or probes {text}"))
}

/// The begin of the step, for its events.
pub(crate) fn started(setup: StepSetup<'_>, single: &SingleLoad, features: Vec<String>) -> Event {
    let SingleLoad { load, effective, .. } = single;
    Event::StepStarted(StepStarted {
        step: setup.step.index,
        round: setup.round,
        stream: stream_started(load, effective, "monotonic", features, Arrivals::Closed),
        beside: Vec::new(),
    })
}

/// The counters watched while such a step runs.
pub(crate) struct Watching<'a> {
    setup: StepSetup<'a>,
    devices: &'a [String],
    before: CounterReading,
    begin: Instant,
}

impl<'a> Watching<'a> {
    pub(crate) fn begin(setup: StepSetup<'a>, devices: &'a [String]) -> Self {
        Self { setup, devices, before: CounterReading::read(devices), begin: Instant::now() }
    }

    /// The end of the step, for its events.
    pub(crate) fn ended(self, outcome: Outcome) -> Event {
        let measured = self.begin.elapsed().into();
        let watched = CounterReading::read(self.devices).since(&self.before);
        let (step, round) = (self.setup.step.index, self.setup.round);
        Event::StepEnded(watched.step_ended(step, round, outcome, measured))
    }

    /// Ends the step, and reports the error that ended its operations, if any.
    pub(crate) fn conclude(
        self,
        ending: EarlyEnding,
        stopped: bool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        let step = self.setup.step;
        let error = job_error(step.index, &step.load.workload.name, ending);
        let outcome = outcome_of(&error, stopped, emit);
        emit(self.ended(outcome));
        error.map_or(Ok(outcome), |(_, error)| Err(error))
    }
}

/// An operation did not come to its end; why is in [`EarlyEnding`].
pub(crate) struct EndedEarly;

/// Runs `body` with an engine of this kind and one operation in flight; does nothing for engines
/// that reach no file.
pub(crate) fn with_engine<C: Clock + Copy>(
    (kind, clock): (EngineKind, C),
    workload: &Workload,
    file: OwnedFd,
    seed: u64,
    body: &mut dyn FnMut(&mut dyn Engine<Clock = C>),
) -> Result<(), RunError> {
    let length = usize::try_from(workload.transfer_max().get()).unwrap_or(usize::MAX);
    // A sync that is linked to its write has a separate slot.
    let slots = slots_per_operation(workload.sync.method);
    let mut buffers = Buffers::try_new(1, length)?.with_bare(slots - 1);
    BlockFiller::new(workload, !seed).prime(buffers.slot_mut(0));
    if matches!(kind, EngineKind::Null | EngineKind::Fio) {
        return Ok(());
    }
    // A linked sync needs an entry of the ring in addition to its write's.
    let (depth, entries) = (1, if slots > 1 { 2 } else { 1 });
    let (more_files, blocking_syncs, advice) = (Vec::new(), false, None);
    let setup =
        EngineSetup { clock, file, more_files, buffers, depth, entries, blocking_syncs, advice };
    Ok(kind.open(setup, EngineUse(body))?)
}

/// The work to do with a lent engine.
struct EngineUse<'a, C: Clock>(&'a mut dyn FnMut(&mut dyn Engine<Clock = C>));

impl<C: Clock> EngineUser<C> for EngineUse<'_, C> {
    type Output = Result<(), BlockError>;

    fn drive<E: Engine<Clock = C>>(self, mut engine: E) -> Self::Output {
        (self.0)(&mut engine);
        Ok(())
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error)
    }
}

/// The operations of a load, made one after the other.
pub(crate) struct OneByOne<'a> {
    stream: Stream,
    filler: BlockFiller,
    workload: &'a Workload,
    pub(crate) ending: EarlyEnding,
}

impl<'a> OneByOne<'a> {
    pub(crate) fn new(workload: &'a Workload, region: Region, seed: u64) -> Self {
        // An engine would take the access that drops the cache for one that zeroes the region.
        let kept = Workload { drops_cache_each_pass: false, ..workload.clone() };
        let stream = Stream::new(&kept, region, seed);
        let filler = BlockFiller::new(workload, seed);
        Self { stream, filler, workload, ending: EarlyEnding::default() }
    }

    /// The next access; if it writes, its data is made.
    pub(crate) fn next<C: Clock>(&mut self, engine: &mut dyn Engine<Clock = C>) -> Access {
        let access = self.stream.next_access();
        if access.kind == OperationKind::Write {
            let data = engine.slot_mut(0);
            let length = usize::try_from(access.length).unwrap_or(usize::MAX).min(data.len());
            self.filler.fill(&mut data[..length]);
        }
        access
    }

    /// Performs an access alone, or with the sync that is linked to it in the same submission.
    pub(crate) fn access<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        access: Access,
    ) -> Result<(), EndedEarly> {
        let method = self.workload.sync.method;
        let linked = method.linked_sync().filter(|_| access.kind == OperationKind::Write);
        let sync =
            linked.map(|kind| Access { kind, drops_cache: false, file: 0, offset: 0, length: 0 });
        let both: Vec<Access> = std::iter::once(access).chain(sync).collect();
        self.perform(engine, write_flags(method), &both)
    }

    /// Performs an access, and the sync calls that follow it.
    pub(crate) fn access_and_syncs<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        access: Access,
    ) -> Result<(), EndedEarly> {
        self.access(engine, access)?;
        let mut kind = access.kind;
        while let Some(mut sync) = self.stream.follow_up(kind) {
            if sync.kind == OperationKind::SyncFileRange {
                (sync.offset, sync.length) = (access.offset, access.length);
            }
            self.perform(engine, WriteFlags::None, &[sync])?;
            kind = sync.kind;
        }
        Ok(())
    }

    /// Performs accesses that are submitted together, each but the last linked to the next.
    fn perform<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
        flags: WriteFlags,
        accesses: &[Access],
    ) -> Result<(), EndedEarly> {
        let last = accesses.len().saturating_sub(1);
        let operation = |(slot, access): (u32, &Access)| Operation {
            kind: access.kind,
            link: (slot as usize) < last,
            file: access.file,
            slot,
            length: access.length,
            offset: access.offset,
            ..blank_operation(flags)
        };
        let operations: Vec<Operation> = (0..).zip(accesses).map(operation).collect();
        let mut submitted = operations.as_slice();
        let mut left = operations.len();
        while left > 0 {
            let mut completions = [Completion::default(); 2];
            let count = match engine.exchange(submitted, &mut completions) {
                Ok(count) => count,
                Err(error) => {
                    self.ending.engine_error = Some(error);
                    return Err(EndedEarly);
                }
            };
            submitted = &[];
            // An engine that gives nothing must not hold the run up for ever.
            left = left.saturating_sub(count.max(1));
            for completion in completions.iter().take(count) {
                let Some(operation) = operations.get(completion.slot as usize) else { continue };
                let Operation { kind, offset, length, .. } = *operation;
                let result = completion.result;
                if !is_done(kind, length, result) {
                    self.ending.keep(JobFailure { kind, offset, length, result });
                }
            }
        }
        if self.ending.failure.is_some() { Err(EndedEarly) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_workload::{GroupCommit, PerMille};

    use super::*;

    #[test]
    fn a_traced_workload_reads_pass_after_pass_and_never_zeroes_its_region() {
        let workload =
            Workload { drops_cache_each_pass: true, jobs: 1, depth: 1, ..Workload::default() };
        let region = Region { offset: Bytes::new(0), length: Bytes::new(65_536) };
        let mut traced = OneByOne::new(&workload, region, 1);
        // A pass has 16 blocks.
        let kinds: Vec<_> = (0..100).map(|_| traced.stream.next_access().kind).collect();
        assert!(!kinds.contains(&OperationKind::Reallocate), "{kinds:?}");
    }

    #[test]
    fn a_traced_step_is_one_job_of_one_write_at_a_time_on_its_first_target() {
        let of = |read_share, group_commit, role| {
            let workload = Workload {
                read_share: PerMille(read_share),
                group_commit,
                jobs: 4,
                depth: 8,
                ..Workload::default()
            };
            let load = Load::new(1, workload, EngineKind::Sync);
            single(&Load { more_targets: vec![2, 3], targets_each: 3, ..load }, role)
        };
        let alone = of(0, None, Role::Trace).unwrap();
        assert_eq!((alone.target, alone.more_targets.len(), alone.targets_each), (1, 0, 1));
        assert_eq!((alone.workload.jobs, alone.workload.depth), (1, 1));
        for read_share in [1, 1000] {
            assert!(of(read_share, None, Role::Trace).is_err());
            assert!(of(read_share, None, Role::ProbeSyncCalls).is_err());
            assert!(of(read_share, None, Role::TracePath).is_ok());
        }
        for role in [Role::Trace, Role::ProbeSyncCalls, Role::TracePath] {
            assert!(of(0, Some(GroupCommit::of(2)), role).is_err());
        }
    }
}
