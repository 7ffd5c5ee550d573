//! The target's side: writes and reads at the request of its witness.
//!
//! Takes a stream to the witness and a target. The witness decides when the power goes and gives
//! verdicts.
//!
//! Writes nothing to a target without the witness's label, except the label itself, which is
//! written when the witness asks for it and the user has permitted it.

use std::io::{self, BufReader, Read, Write};

use durio_base::Nanos;
use durio_block::{BlockError, Clock, Engine, EngineUser, MonotonicClock};
use durio_command::error_chain;
use durio_plan::proof::{Arm, DurablePath, FileWrites};
use durio_record::proof::Inventory;

use crate::layout::{CELL, Layout, Schedule};
use crate::ledger::{Intent, Witness};
use crate::reading::{extend_by_log, label_of, observe, observe_cell};
use crate::stamp::StampOwner;
use crate::wire::{
    AgentSays, CELLS_AT_ONCE, CellText, Hello, Introduction, PROTOCOL, WitnessSays, receive, send,
};
use crate::writer::{Writer, WriterError, prepare};

/// Bytes of a read.
pub(crate) const READ: usize = 128 << 10;
/// Reads of a verification in flight at a time.
const READS: u32 = 8;

/// How to open a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetOpening {
    pub write: bool,
    /// Each write is durable when it returns (`O_DSYNC`).
    pub data_sync: bool,
    pub depth: u32,
    /// Bytes of an operation.
    pub slot: usize,
}

impl TargetOpening {
    pub const READING: Self = Self { write: false, data_sync: false, depth: READS, slot: READ };

    pub(crate) fn writing(arm: &Arm, slot: usize) -> Self {
        let data_sync = arm.path == DurablePath::ODsync;
        // One more for controls.
        Self { write: true, data_sync, depth: arm.depth + 1, slot }
    }
}

/// Storage that an agent is for.
pub trait AgentStorage {
    /// Bytes of the target.
    fn size(&self) -> u64;

    /// Opens it, bypassing every cache of this machine, and lends the engine.
    fn open<U: EngineUser<MonotonicClock>>(&mut self, wanted: TargetOpening, user: U) -> U::Output;
}

/// Why an agent ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The witness is gone.
    #[error("the witness is gone")]
    Witness(#[source] io::Error),
    /// The witness does not want this agent.
    #[error("the witness refuses: {0}")]
    Refused(String),
    #[error(transparent)]
    Target(#[from] BlockError),
    /// Something else, in words.
    #[error("{0}")]
    Failed(String),
}

/// An agent's description of its target. It is read before the witness is called, which does not
/// wait long.
///
/// # Errors
/// If the target cannot be read.
pub fn introduce(
    target: &mut impl AgentStorage,
    inventory: Inventory,
) -> Result<Introduction, AgentError> {
    let label = target.open(TargetOpening::READING, LabelReader)?;
    Ok(Introduction { size: target.size(), label, inventory: Some(Box::new(inventory)) })
}

/// Follows the witness's orders until it says that they are complete.
///
/// # Errors
/// If the witness is gone or refuses, or the target fails.
pub fn follow<S>(
    stream: S,
    target: &mut impl AgentStorage,
    token: &str,
    introduction: Introduction,
) -> Result<(), AgentError>
where
    S: Copy + Read + Write,
{
    let mut link = Link { stream, reader: BufReader::new(stream) };
    link.say(&AgentSays::Hello(Hello { protocol: PROTOCOL, token: token.to_owned() }))?;
    link.say(&AgentSays::Has(introduction))?;
    loop {
        let done = match link.hear()? {
            WitnessSays::Done => return Ok(()),
            WitnessSays::Refused { reason } => return Err(AgentError::Refused(reason)),
            WitnessSays::Prepare { owner, cells, arm } => {
                let task = Preparing { owner, cells, arm };
                let fits = task.check(target.size());
                fits.and_then(|()| target.open(TargetOpening::writing(&arm, READ), task))
                    .and_then(|()| link.say(&AgentSays::Prepared))
            }
            WitnessSays::Load { owner, cells, arm, first_seq, seed } => {
                let task = Loading { link: &mut link, owner, cells, arm, first_seq, seed };
                task.carry_out(target)
            }
            WitnessSays::Read { owner, cells } => {
                let log_end = None;
                target.open(
                    TargetOpening::READING,
                    TargetReading { link: &mut link, owner, cells, log_end },
                )
            }
            WitnessSays::Again { owner, cell } => {
                target.open(TargetOpening::READING, ReadingAgain { link: &mut link, owner, cell })
            }
            WitnessSays::Intended => {
                Err(AgentError::Failed("the witness sent an unexpected answer".into()))
            }
        };
        let Err(error) = done else { continue };
        if !matches!(error, AgentError::Witness(_)) {
            link.say(&AgentSays::Failed { reason: error_chain(&error) })?;
        }
        return Err(error);
    }
}

/// Bytes that a target of `cells` cells has before the first write; `None` on overflow.
#[must_use]
pub fn prepared_size(cells: u64, writes: FileWrites) -> Option<u64> {
    Layout::new(cells).prepared(writes).end.checked_mul(CELL as u64)
}

fn check_label(target: &mut impl AgentStorage, owner: StampOwner) -> Result<(), AgentError> {
    match target.open(TargetOpening::READING, LabelReader)? {
        Some(label) if label == owner => Ok(()),
        Some(_) => Err(AgentError::Failed("the target has the label of another proof".into())),
        None => Err(AgentError::Failed("the target has no label of a proof".into())),
    }
}

struct Link<S> {
    stream: S,
    reader: BufReader<S>,
}

/// Takes an agent's messages.
pub(crate) trait AgentListener {
    fn say(&mut self, message: &AgentSays) -> Result<(), AgentError>;
}

impl<S: Copy + Read + Write> AgentListener for Link<S> {
    fn say(&mut self, message: &AgentSays) -> Result<(), AgentError> {
        send(self.stream, message).map_err(AgentError::Witness)
    }
}

impl<S: Copy + Read + Write> Link<S> {
    fn hear(&mut self) -> Result<WitnessSays, AgentError> {
        receive(&mut self.reader).map_err(AgentError::Witness)
    }
}

/// The witness at the other end.
impl<S: Copy + Read + Write> Witness for Link<S> {
    type Error = AgentError;

    fn intend(&mut self, intents: &[Intent]) -> Result<(), AgentError> {
        self.say(&AgentSays::Intend { writes: intents.to_vec() })?;
        match self.hear()? {
            WitnessSays::Intended => Ok(()),
            WitnessSays::Refused { reason } => Err(AgentError::Refused(reason)),
            _ => Err(AgentError::Failed("the witness does not answer an announcement".into())),
        }
    }

    fn acknowledge(&mut self, seq: u64, _: Nanos) -> Result<(), AgentError> {
        self.say(&AgentSays::Acknowledged { seq })
    }

    fn control_done(&mut self, seq: u64) -> Result<(), AgentError> {
        self.say(&AgentSays::ControlDone { seq })
    }
}

struct LabelReader;

impl EngineUser<MonotonicClock> for LabelReader {
    type Output = Result<Option<StampOwner>, BlockError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        label_of(&mut engine)
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error)
    }
}

pub(crate) struct Preparing {
    pub(crate) owner: StampOwner,
    pub(crate) cells: u64,
    pub(crate) arm: Arm,
}

impl Preparing {
    pub(crate) fn check(&self, size: u64) -> Result<(), AgentError> {
        match prepared_size(self.cells, self.arm.writes) {
            Some(bytes) if bytes <= size => Ok(()),
            _ => Err(AgentError::Failed("the target is smaller than the witness expects".into())),
        }
    }
}

impl EngineUser<MonotonicClock> for Preparing {
    type Output = Result<(), AgentError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        let failed = |error| AgentError::Failed(error_chain(&error));
        let cells = Layout::new(self.cells).prepared(self.arm.writes);
        let path = if self.arm.writes.makes_files() { DurablePath::Fsync } else { self.arm.path };
        prepare(&mut engine, self.owner, path, cells).map_err(failed)
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}

pub(crate) struct Loading<'a, W> {
    pub(crate) link: &'a mut W,
    pub(crate) owner: StampOwner,
    pub(crate) cells: u64,
    pub(crate) arm: Arm,
    pub(crate) first_seq: u64,
    pub(crate) seed: u64,
}

impl<W: Witness<Error = AgentError>> Loading<'_, W> {
    /// Writes to a target that has the owner's label, until it fails or its witness is gone.
    pub(crate) fn carry_out(self, target: &mut impl AgentStorage) -> Result<(), AgentError> {
        check_label(target, self.owner)?;
        let cells = usize::try_from(self.arm.write_cells).unwrap_or(usize::MAX);
        target.open(TargetOpening::writing(&self.arm, cells.saturating_mul(CELL)), self)
    }
}

impl<W: Witness<Error = AgentError>> EngineUser<MonotonicClock> for Loading<'_, W> {
    type Output = Result<(), AgentError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        let Arm { path, depth, writes, .. } = self.arm;
        // A writer that makes files syncs them: its write is durable when it returns.
        let path = if writes.makes_files() { DurablePath::ODsync } else { path };
        let layout = Layout::new(self.cells);
        let schedule = Schedule::new(layout, &self.arm, self.first_seq, self.seed);
        let never = engine.clock().now().plus(u64::MAX);
        let ends = (&mut engine, self.link);
        match Writer::new(ends, self.owner, path, depth, schedule).run(never, u64::MAX) {
            Ok(()) => Ok(()),
            Err(WriterError::Witness(error)) => Err(error),
            Err(WriterError::Engine(error)) => Err(error.into()),
            Err(error @ WriterError::Failed { .. }) => Err(AgentError::Failed(error.to_string())),
        }
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}

pub(crate) struct TargetReading<'a, L> {
    pub(crate) link: &'a mut L,
    pub(crate) owner: StampOwner,
    pub(crate) cells: u64,
    /// The cell at which the target ends, if it grows.
    pub(crate) log_end: Option<u64>,
}

impl<L: AgentListener> EngineUser<MonotonicClock> for TargetReading<'_, L> {
    type Output = Result<(), AgentError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        let layout = Layout::new(self.cells);
        let (cells, mut observed) = (layout.stamped(), Vec::new());
        let end = self.log_end.map_or(cells.end, |end| end.clamp(layout.journal.start, cells.end));
        observe(&mut engine, self.owner, cells.start..end, READS, &mut observed)?;
        if self.log_end.is_some() {
            let place = |cell| usize::try_from(cell - cells.start).unwrap_or(usize::MAX);
            extend_by_log(&mut observed, place(layout.journal.start), place(cells.end));
        }
        for (first, part) in
            (cells.start..).step_by(CELLS_AT_ONCE).zip(observed.chunks(CELLS_AT_ONCE))
        {
            let cells = part.iter().map(CellText::from).collect();
            self.link.say(&AgentSays::Observed { first, cells })?;
        }
        self.link.say(&AgentSays::ReadingDone)
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}

struct ReadingAgain<'a, S> {
    link: &'a mut Link<S>,
    owner: StampOwner,
    cell: u64,
}

impl<S: Copy + Read + Write> EngineUser<MonotonicClock> for ReadingAgain<'_, S> {
    type Output = Result<(), AgentError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        let observed = observe_cell(&mut engine, self.owner, self.cell)?;
        let cells = vec![CellText::from(&observed)];
        self.link.say(&AgentSays::Observed { first: self.cell, cells })
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}
