//! A served array: how it is found again, proven to be ours, and ended.

use std::time::Duration;

use durio_block::MEMBER_SIGNATURE;
use rustix::process::Signal;

use crate::identity::HEAD;
use crate::kinds::prelude::*;
use crate::permit::Grounds;
use crate::system::ServerRemains;
use crate::undo::{OwnershipVerdict, UndoContext, parent_of};

/// How often is looked whether a server has ended: for a minute where it ends in order, on a machine that
/// may be busy, and for 20 s where it is killed.
const LOOK: Duration = Duration::from_millis(20);
const ORDERLY_LOOKS: u32 = 3000;
const KILLED_LOOKS: u32 = 1000;

const MAGIC: &[u8] = b"durioRDS";
/// The two slots of the superblock that a member begins with (docs/formats/raid-superblock.md).
const SLOTS: [usize; 2] = [0, 4096];
const ARRAY: usize = 16;
const EPOCH: usize = 48;
const NAME: usize = 104;
const NAME_BYTES: usize = 32;
/// A new array is of epoch 1; each start, and each member that fails, makes another one.
const FIRST_START: u64 = 2;

/// The fact by which an array is known.
const IDENTITY: &str = "array";

/// An array that a process serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndServer {
    /// Where its server is asked.
    pub(crate) socket: String,
    pub(crate) members: Vec<String>,
}

impl EndServer {
    /// The array identity in its members' superblocks; nothing if they are not members of this
    /// build's array.
    fn array_on_members(&self, system: &dyn System) -> Option<String> {
        let name = parent_of(&self.socket)?.rsplit('/').next()?;
        self.members.iter().find_map(|member| {
            let head = system.head(Path::new(member), HEAD).ok()?;
            newest(&DeviceHead(&head), name).map(|found| found.array)
        })
    }

    fn served(&self, system: &dyn System, array: &str) -> Result<ServerRemains, UndoFailure> {
        system.served(&self.socket, array).map_err(|error| error.to_string())
    }

    /// Asks the server to end, and ends it if it does not.
    fn end(
        &self,
        undoer: &mut Undoer<'_>,
        proven: &Proven,
        array: &str,
    ) -> Result<(), UndoFailure> {
        for (signal, looks) in [(Signal::TERM, ORDERLY_LOOKS), (Signal::KILL, KILLED_LOOKS)] {
            let sent = undoer.system.signal_server(proven, signal);
            sent.map_err(|error| error.to_string())?;
            for _ in 0..looks {
                let served = self.served(undoer.system, array)?;
                if !served.has_server {
                    return Ok(());
                }
                served.refuse_in_use()?;
                undoer.system.pause(LOOK);
            }
        }
        Err("its server does not end".to_owned())
    }
}

impl UndoStep for EndServer {
    fn text(&self) -> String {
        format!("durio raid stop --socket {}", self.socket)
    }

    fn fill(&mut self, values: &Values) {
        for member in &mut self.members {
            *member = filled(member, values);
        }
    }

    /// No other process can write to members while they are served.
    fn holds_devices(&self) -> bool {
        true
    }

    fn folder(&self) -> Option<&str> {
        parent_of(&self.socket)
    }

    /// By the socket, whose name has this build's tag, or by the identity of the array that its device
    /// has.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let recorded =
            prover.known.recorded.and_then(|identity| identity.get(IDENTITY)).map(str::to_owned);
        let array = recorded.or_else(|| self.array_on_members(prover.system)).unwrap_or_default();
        let served = self.served(prover.system, &array)?;
        let is_there = served.has_server || served.has_device;
        let identity = LayerIdentity::of([(IDENTITY, Some(array))]);
        Ok(LiveThing::of(&self.socket, is_there.then_some(identity)))
    }

    /// It was found by a name or an identity of this build.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn check_made(&self, _grounds: &Grounds, made: Option<&LayerIdentity>) -> Result<(), String> {
        match made.and_then(|identity| identity.get(IDENTITY)).unwrap_or_default() {
            "" => Err(format!("what is served at {} is not the array that was made", self.socket)),
            _ => Ok(()),
        }
    }

    fn release(&self, undoer: &mut Undoer<'_>, known: &UndoContext<'_>) -> Result<(), UndoFailure> {
        let OwnershipVerdict::Ours(proven) = undoer.prover(known).prove(self)? else {
            return Ok(());
        };
        let served = self.served(undoer.system, proven.fact(IDENTITY))?;
        if served.has_server || !served.has_device {
            return Ok(());
        }
        undoer.system.fail_users(&proven, proven.fact(IDENTITY)).map_err(|error| error.to_string())
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let array = proven.fact(IDENTITY);
        let served = self.served(undoer.system, array)?;
        served.refuse_in_use()?;
        if served.has_server {
            self.end(undoer, proven, array)?;
        }
        if self.served(undoer.system, array)?.has_device {
            let removed = undoer.system.remove_served(proven, array);
            removed.map_err(|error| error.to_string())?;
        }
        Ok(if served.has_server { Undone::Done } else { Undone::Remains })
    }

    /// The sockets of a server that was killed.
    fn tidy(&self, undoer: &mut Undoer<'_>, known: &UndoContext<'_>) -> Result<(), UndoFailure> {
        let Some(folder) = self.folder() else { return Ok(()) };
        for name in undoer.system.names(Path::new(folder)) {
            let left = undoer.prover(known).made_in_folder(&format!("{folder}/{name}"));
            left.map_or(Ok(()), |proven| in_words(undoer.system.remove_file(&proven)))?;
        }
        Ok(())
    }
}

/// What a superblock says.
#[derive(Debug, PartialEq, Eq)]
struct OnMember {
    array: String,
    epoch: u64,
}

/// The newer superblock of those at the begin, if it is of an array of this name.
fn newest(head: &DeviceHead<'_>, name: &str) -> Option<OnMember> {
    let read = |slot: usize| {
        let is_meant =
            head.at(slot, MAGIC.len())? == MAGIC && head.is_text(slot + NAME, NAME_BYTES, name);
        let array = head.at(slot + ARRAY, 16)?.iter().map(|byte| format!("{byte:02x}")).collect();
        let found = OnMember { array, epoch: head.u64_le(slot + EPOCH)? };
        is_meant.then_some(found)
    };
    SLOTS.into_iter().filter_map(read).max_by_key(|found| found.epoch)
}

/// A member of an array whose name has the tag; as it was made, if the array was started by this build
/// alone.
pub(super) fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    let name = SLOTS.into_iter().find_map(|slot| {
        let is_one = head.at(slot, MAGIC.len())? == MAGIC;
        is_one.then(|| head.at(slot + NAME, NAME_BYTES)).flatten()
    });
    let name = std::str::from_utf8(name?).ok()?.trim_end_matches('\0');
    let is_ours = name.strip_prefix(tag).is_some_and(|rest| rest.starts_with('-'));
    let found = newest(head, name).filter(|_| is_ours)?;
    Some((&[MEMBER_SIGNATURE], found.epoch <= FIRST_START))
}
