//! The target's side: writes and reads at the request of its witness.
//!
//! Takes a stream to the witness and a target. The witness decides when the power goes and gives
//! verdicts.
//!
//! Writes nothing to a target without the witness's label, except the label itself, which is
//! written when the witness asks for it and the user has permitted it.

use std::io::{BufReader, Read, Write};

use durio_base::Nanos;
use durio_block::{BlockError, Clock, Engine, EngineUser, MonotonicClock};
use durio_command::error_chain;
use durio_plan::proof::{Arm, DurablePath, FileWrites};
use durio_record::proof::Inventory;

use crate::error::ProveError;
use crate::layout::{CELL, Layout, Schedule};
use crate::ledger::{Intent, Witness};
use crate::reading::{extend_by_log, label_of, observe, observe_cell};
use crate::stamp::StampOwner;
use crate::wire::{
    AgentSays, CELLS_AT_ONCE, Hello, Introduction, PROTOCOL, WitnessSays, WitnessedLoad, receive,
    send,
};
use crate::writer::{Writer, prepare};

/// Bytes of a read.
pub(crate) const READ: usize = 128 << 10;
/// Reads of a verification in flight at a time.
const READS: u32 = 8;

/// How to open a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TargetOpening {
    pub(crate) write: bool,
    /// Each write is durable when it returns (`O_DSYNC`).
    pub(crate) data_sync: bool,
    pub(crate) depth: u32,
    /// Bytes of an operation.
    pub(crate) slot: usize,
}

impl TargetOpening {
    pub(crate) const READING: Self =
        Self { write: false, data_sync: false, depth: READS, slot: READ };

    pub(crate) fn writing(arm: &Arm, slot: usize) -> Self {
        let data_sync = arm.path == DurablePath::ODsync;
        // One more for controls.
        Self { write: true, data_sync, depth: arm.depth + 1, slot }
    }
}

/// An engine over an open target.
pub(crate) type TargetEngine<'a> = dyn Engine<Clock = MonotonicClock> + 'a;

/// Storage that an agent is for.
pub(crate) trait AgentStorage {
    /// Bytes of the target.
    fn size(&self) -> u64;

    /// Opens it, bypassing every cache of this machine, and lends the engine to `work`.
    fn open<T>(
        &mut self,
        wanted: TargetOpening,
        work: impl FnOnce(&mut TargetEngine<'_>) -> Result<T, ProveError>,
    ) -> Result<T, ProveError>;
}

/// Lends an engine that is chosen at run time to a function.
pub(crate) struct EngineLoan<F>(pub(crate) F);

impl<T, F> EngineUser<MonotonicClock> for EngineLoan<F>
where
    F: FnOnce(&mut TargetEngine<'_>) -> Result<T, ProveError>,
{
    type Output = Result<T, ProveError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        (self.0)(&mut engine)
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}

/// An agent's description of its target. It is read before the witness is called, which does not
/// wait long.
pub(crate) fn introduce(
    target: &mut impl AgentStorage,
    inventory: Inventory,
) -> Result<Introduction, ProveError> {
    let label = target.open(TargetOpening::READING, |engine| Ok(label_of(engine)?))?;
    Ok(Introduction { size: target.size(), label, inventory: Some(Box::new(inventory)) })
}

/// Follows the witness's orders until it says that they are complete.
pub(crate) fn follow<S>(
    stream: S,
    target: &mut impl AgentStorage,
    token: &str,
    introduction: Introduction,
) -> Result<(), ProveError>
where
    S: Copy + Read + Write,
{
    let mut link = Link { stream, reader: BufReader::new(stream) };
    link.say(&AgentSays::Hello(Hello { protocol: PROTOCOL, token: token.to_owned() }))?;
    link.say(&AgentSays::Has(introduction))?;
    loop {
        let done = match link.hear()? {
            WitnessSays::Done => return Ok(()),
            WitnessSays::Refused { reason } => return Err(refused(&reason)),
            WitnessSays::Prepare { owner, cells, arm } => {
                stamp(target, owner, cells, arm).and_then(|()| link.say(&AgentSays::Prepared))
            }
            WitnessSays::Load(load) => load.carry_out(target, &mut link),
            WitnessSays::Read { owner, cells } => {
                report(target, (owner, cells), None, &mut |said| link.say(said))
            }
            WitnessSays::Again { owner, cell } => target
                .open(TargetOpening::READING, |engine| Ok(observe_cell(engine, owner, cell)?))
                .and_then(|observed| {
                    link.say(&AgentSays::Observed { first: cell, cells: vec![observed] })
                }),
            WitnessSays::Intended => {
                Err(ProveError::failed("the witness sent an unexpected answer"))
            }
        };
        let Err(error) = done else { continue };
        if !matches!(error, ProveError::Gone { .. }) {
            link.say(&AgentSays::Failed { reason: error_chain(&error) })?;
        }
        return Err(error);
    }
}

fn refused(reason: &str) -> ProveError {
    ProveError::Failed(format!("the witness refuses: {reason}"))
}

/// Bytes that a target of `cells` cells has before the first write; `None` on overflow.
pub(crate) fn prepared_size(cells: u64, writes: FileWrites) -> Option<u64> {
    Layout::new(cells).prepared(writes).end.checked_mul(CELL as u64)
}

struct Link<S> {
    stream: S,
    reader: BufReader<S>,
}

impl<S: Copy + Read + Write> Link<S> {
    fn say(&mut self, message: &AgentSays) -> Result<(), ProveError> {
        send(self.stream, message).map_err(witness_gone)
    }

    fn hear(&mut self) -> Result<WitnessSays, ProveError> {
        receive(&mut self.reader).map_err(witness_gone)
    }
}

pub(crate) fn witness_gone(source: std::io::Error) -> ProveError {
    ProveError::Gone { who: "witness", source }
}

/// The witness at the other end.
impl<S: Copy + Read + Write> Witness for Link<S> {
    fn intend(&mut self, intents: &[Intent]) -> Result<(), ProveError> {
        self.say(&AgentSays::Intend { writes: intents.to_vec() })?;
        match self.hear()? {
            WitnessSays::Intended => Ok(()),
            WitnessSays::Refused { reason } => Err(refused(&reason)),
            _ => Err(ProveError::failed("the witness did not answer an announcement")),
        }
    }

    fn acknowledge(&mut self, seq: u64, _: Nanos) -> Result<(), ProveError> {
        self.say(&AgentSays::Acknowledged { seq })
    }

    fn control_done(&mut self, seq: u64) -> Result<(), ProveError> {
        self.say(&AgentSays::ControlDone { seq })
    }
}

/// Writes the label and all stamps.
pub(crate) fn stamp(
    target: &mut impl AgentStorage,
    owner: StampOwner,
    cells: u64,
    arm: Arm,
) -> Result<(), ProveError> {
    if prepared_size(cells, arm.writes).is_none_or(|bytes| bytes > target.size()) {
        return Err(ProveError::failed("the target is smaller than the witness expects"));
    }
    let cells = Layout::new(cells).prepared(arm.writes);
    let path = if arm.writes.makes_files() { DurablePath::Fsync } else { arm.path };
    let opening = TargetOpening::writing(&arm, READ);
    target.open(opening, |engine| prepare(engine, owner, path, cells))
}

impl WitnessedLoad {
    /// Writes to a target that has the owner's label, until it fails or its witness is gone.
    pub(crate) fn carry_out(
        self,
        target: &mut impl AgentStorage,
        witness: &mut impl Witness,
    ) -> Result<(), ProveError> {
        match target.open(TargetOpening::READING, |engine| Ok(label_of(engine)?))? {
            Some(label) if label == self.owner => {}
            Some(_) => return Err(ProveError::failed("the target has the label of another proof")),
            None => return Err(ProveError::failed("the target does not have a proof's label")),
        }
        let Arm { path, depth, write_cells, writes } = self.arm;
        let slot = usize::try_from(write_cells).unwrap_or(usize::MAX).saturating_mul(CELL);
        target.open(TargetOpening::writing(&self.arm, slot), |engine| {
            // A writer that makes files syncs them: its write is durable when it returns.
            let path = if writes.makes_files() { DurablePath::ODsync } else { path };
            let layout = Layout::new(self.cells);
            let schedule = Schedule::new(layout, &self.arm, self.first_seq, self.seed);
            let never = engine.clock().now().plus(u64::MAX);
            Writer::new((engine, witness), self.owner, path, depth, schedule).run(never, u64::MAX)
        })
    }
}

/// Reads all cells of an owner, and reports what they hold. `log_end` is the cell at which a growing
/// target ends.
pub(crate) fn report(
    target: &mut impl AgentStorage,
    (owner, cells): (StampOwner, u64),
    log_end: Option<u64>,
    say: &mut dyn FnMut(&AgentSays) -> Result<(), ProveError>,
) -> Result<(), ProveError> {
    let layout = Layout::new(cells);
    let (cells, mut observed) = (layout.stamped(), Vec::new());
    let end = log_end.map_or(cells.end, |end| end.clamp(layout.journal.start, cells.end));
    target.open(TargetOpening::READING, |engine| {
        Ok(observe(engine, owner, cells.start..end, READS, &mut observed)?)
    })?;
    if log_end.is_some() {
        let place = |cell| usize::try_from(cell - cells.start).unwrap_or(usize::MAX);
        extend_by_log(&mut observed, place(layout.journal.start), place(cells.end));
    }
    for (first, part) in (cells.start..).step_by(CELLS_AT_ONCE).zip(observed.chunks(CELLS_AT_ONCE))
    {
        say(&AgentSays::Observed { first, cells: part.to_vec() })?;
    }
    say(&AgentSays::ReadingDone)
}
