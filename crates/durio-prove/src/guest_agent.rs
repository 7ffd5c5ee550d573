//! The agent in a guest of the lab: one order, and a port to the witness on which nobody answers.
//!
//! In: an order, a target. Out: messages. Not here: filesystems and how a target is opened, when the
//! power goes.
//!
//! What is written to the port is with the host when the call returns, so an announcement needs no
//! answer.

use std::io::Write;
use std::path::PathBuf;

use durio_block::{BlockError, Engine, EngineKind, EngineUser, MonotonicClock};
use durio_plan::proof::{Arm, GuestLayers};
use durio_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentError, Listener, Loading, Preparing, READ, Reading, Target, Wanted};
use crate::ledger::{Intent, Witness};
use crate::reading::read_cell;
use crate::stamp::Owner;
use crate::wire::{AgentSays, send};

/// Readings after a cut: two that are compared, and one for cells that are not as they must be.
pub const READINGS: usize = 3;

/// What a guest shall do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestOrder {
    /// Which part of a life.
    pub task: GuestTask,
    /// Whose stamps.
    pub owner: Owner,
    /// Cells of the target.
    pub cells: u64,
    /// How it is written to.
    pub arm: Arm,
    /// How operations are submitted.
    pub engine: EngineKind,
    /// What lies on the disk.
    pub layers: GuestLayers,
    /// The disk, in the guest.
    pub disk: PathBuf,
    /// A disk on which the host tells the number of the state that it has put on the other, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<PathBuf>,
}

/// A part of a guest's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum GuestTask {
    /// Make the layers, write the label and all stamps.
    Prepare,
    /// Write until the power goes.
    Load {
        /// The number of the first write.
        first_seq: u64,
        /// Of the choices of places.
        seed: u64,
    },
    /// Read all cells, [`READINGS`] times.
    Read,
    /// Read all cells once, of one crash state after the other, until the guest is ended. Nothing of a
    /// simulated disk that keeps its word is read twice.
    ReadStates,
}

/// Reads the number of the state that is on the disk: the first 8 bytes of the mailbox, little-endian.
#[derive(Debug)]
pub struct MailReader;

impl EngineUser<MonotonicClock> for MailReader {
    type Output = Result<u64, AgentError>;

    fn drive<E: Engine<Clock = MonotonicClock>>(self, mut engine: E) -> Self::Output {
        if !read_cell(&mut engine, 0)? {
            return Err(AgentError::Failed("the mailbox cannot be read".to_owned()));
        }
        let (numbers, _) = engine.slot_mut(0).as_chunks::<8>();
        Ok(u64::from_le_bytes(numbers[0]))
    }

    fn refused(self, error: BlockError) -> Self::Output {
        Err(error.into())
    }
}

/// The guest's end of the port to its witness.
#[derive(Debug)]
pub struct GuestPort<W>(W);

impl<W: Write> GuestPort<W> {
    /// A port that is open.
    pub const fn new(port: W) -> Self {
        Self(port)
    }

    /// Says something.
    ///
    /// # Errors
    /// If the host is gone.
    pub fn say(&mut self, message: &AgentSays) -> Result<(), AgentError> {
        send(&mut self.0, message).map_err(AgentError::Witness)
    }
}

impl<W: Write> Listener for GuestPort<W> {
    fn say(&mut self, message: &AgentSays) -> Result<(), AgentError> {
        GuestPort::say(self, message)
    }
}

impl<W: Write> Witness for GuestPort<W> {
    type Error = AgentError;

    fn intend(&mut self, intents: &[Intent]) -> Result<(), AgentError> {
        self.say(&AgentSays::Intend { writes: intents.to_vec() })
    }

    fn acknowledge(&mut self, seq: u64, _: Nanos) -> Result<(), AgentError> {
        self.say(&AgentSays::Acknowledged { seq })
    }

    fn control_done(&mut self, seq: u64) -> Result<(), AgentError> {
        self.say(&AgentSays::ControlDone { seq })
    }
}

/// Does the order's task on a target that is there. What follows it is the caller's to say.
///
/// # Errors
/// If the host is gone, or the target fails.
pub fn carry_out<W: Write>(
    order: &GuestOrder,
    target: &mut impl Target,
    link: &mut GuestPort<W>,
) -> Result<(), AgentError> {
    let GuestOrder { task, owner, cells, arm, .. } = *order;
    match task {
        GuestTask::Prepare => {
            let task = Preparing { owner, cells, arm };
            task.check(target.size())?;
            target.open(Wanted::writing(&arm, READ), task)
        }
        GuestTask::Load { first_seq, seed } => {
            Loading { link, owner, cells, arm, first_seq, seed }.carry_out(target)
        }
        GuestTask::Read => (0..READINGS).try_for_each(|_| {
            target.open(Wanted::READING, Reading { link: &mut *link, owner, cells })
        }),
        GuestTask::ReadStates => target.open(Wanted::READING, Reading { link, owner, cells }),
    }
}
