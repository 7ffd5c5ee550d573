//! The messages between an agent and its witness: lines of JSON over any byte stream.
//!
//! Messages are bounded before they are parsed.

use std::io::{self, BufRead, Write};

use durio_observe::PowerState;
use durio_plan::proof::Arm;
use durio_record::proof::Inventory;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ledger::Intent;
use crate::reading::ObservedCell;
use crate::stamp::StampOwner;

/// The version of the conversation.
pub(crate) const PROTOCOL: u32 = 2;
/// The longest line; longer than any message.
pub(crate) const LINE_MAX: usize = 1 << 20;
/// Cells per message: each takes some 20 bytes, or 500 if it is damaged.
pub(crate) const CELLS_AT_ONCE: usize = 1024;

/// A message of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum AgentSays {
    Hello(Hello),
    /// The agent's target, once it has sent the token.
    Has(Introduction),
    /// The label and the stamps are written, and durable by the path of the task.
    Prepared,
    /// Writes that will be done.
    Intend {
        writes: Vec<Intent>,
    },
    /// A write is durable.
    Acknowledged {
        seq: u64,
    },
    /// A control's write has returned.
    ControlDone {
        seq: u64,
    },
    /// The contents of consecutive cells.
    Observed {
        first: u64,
        cells: Vec<ObservedCell>,
    },
    /// The reading is complete.
    ReadingDone,
    /// The target did not come back: its filesystem cannot be mounted, or it is smaller.
    Gone {
        reason: String,
    },
    /// The target is closed and its disk's cached state dropped: another disk may take its place.
    Released,
    /// The task cannot be done.
    Failed {
        reason: String,
    },
}

/// The agent's first message: a short line, because it is read before the sender is authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) protocol: u32,
    /// The token that the witness gives to its agents.
    pub(crate) token: String,
}

/// What an agent says of its target when it comes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Introduction {
    /// Bytes of the target.
    pub(crate) size: u64,
    /// The owner in the target's label.
    pub(crate) label: Option<StampOwner>,
    /// The machine, the system under test, and counters that show later whether its power was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inventory: Option<Box<Inventory>>,
}

impl Introduction {
    /// The counters that show later whether the machine's power was gone.
    pub(crate) fn power(&self) -> PowerState {
        self.inventory.as_ref().map(|inventory| inventory.power.clone()).unwrap_or_default()
    }
}

/// A message of a witness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum WitnessSays {
    /// The witness does not take this agent.
    Refused {
        reason: String,
    },
    /// Write the label and all stamps.
    Prepare {
        owner: StampOwner,
        /// Cells of the target.
        cells: u64,
        /// The path to use.
        arm: Arm,
    },
    /// Write until the power goes.
    Load(WitnessedLoad),
    /// The intents are recorded: their writes may start.
    Intended,
    /// Read all cells, and report their contents.
    Read {
        /// The owner of the expected stamps.
        owner: StampOwner,
        /// Cells of the target.
        cells: u64,
    },
    /// Read one cell once more.
    Again {
        owner: StampOwner,
        cell: u64,
    },
    Done,
}

/// A load of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WitnessedLoad {
    /// The owner of the stamps.
    pub(crate) owner: StampOwner,
    /// Cells of the target.
    pub(crate) cells: u64,
    pub(crate) arm: Arm,
    /// The number of the first write.
    pub(crate) first_seq: u64,
    /// Seed for the choice of places.
    pub(crate) seed: u64,
}

/// Sends one message, a line of JSON.
pub(crate) fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Waits for a message. An endless line is an error, and so is the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    io::Read::take(from, LINE_MAX as u64).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        let is_long = line.len() == LINE_MAX;
        let kind = if is_long { io::ErrorKind::InvalidData } else { io::ErrorKind::UnexpectedEof };
        return Err(kind.into());
    }
    Ok(serde_json::from_slice(&line)?)
}

/// True for a stream's timeout.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::SECTORS;
    use crate::reading::SectorState;

    #[test]
    fn what_is_sent_is_received() {
        let mut bytes = Vec::new();
        let mixed = ObservedCell::Mixed(Box::new([SectorState::Write(7); SECTORS]));
        let cells = vec![ObservedCell::Whole(3), mixed];
        let said = AgentSays::Observed { first: 9, cells };
        send(&mut bytes, &said).unwrap();
        let heard: AgentSays = receive(&mut bytes.as_slice()).unwrap();
        assert_eq!(heard, said);
    }

    #[test]
    fn half_a_message_and_one_without_end_are_errors() {
        let kind = |bytes: &[u8]| receive::<AgentSays>(&mut &bytes[..]).unwrap_err().kind();
        assert_eq!(kind(b"{\"say\":\"prepared\"}"), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(b""), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(&vec![b' '; 2 << 20]), io::ErrorKind::InvalidData);
        assert!(receive::<AgentSays>(&mut &b"{\"say\":\"what\"}\n"[..]).is_err());
    }

    #[test]
    fn a_message_has_room_for_as_many_cells_as_are_told_at_once_whatever_they_hold() {
        let longest = SectorState::Elsewhere { home: u64::MAX, seq: u64::MAX };
        let cells = vec![ObservedCell::Mixed(Box::new([longest; SECTORS])); CELLS_AT_ONCE];
        let mut bytes = Vec::new();
        send(&mut bytes, &AgentSays::Observed { first: u64::MAX, cells }).unwrap();
        assert!((262_144..=1_048_576).contains(&bytes.len()), "{}", bytes.len());
        assert!(receive::<AgentSays>(&mut bytes.as_slice()).is_ok());
    }

    #[test]
    fn a_message_has_a_mebibyte_at_most_with_its_end() {
        let received = |bytes: usize| {
            let mut line = b"{\"say\":\"prepared\"}".to_vec();
            line.resize(bytes - 1, b' ');
            line.push(b'\n');
            receive::<AgentSays>(&mut line.as_slice()).map_err(|error| error.kind())
        };
        assert_eq!(received(1_048_576), Ok(AgentSays::Prepared));
        assert_eq!(received(1_048_577), Err(io::ErrorKind::InvalidData));
    }
}
