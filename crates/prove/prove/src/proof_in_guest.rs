//! The part of a proof that runs in a guest of the lab: makes layers on the guest's disks, writes,
//! reads. It follows an order of the host and reports to its witness. The commands for the layers
//! are in `guest_layers.rs`, the host's side in `guest_trials.rs`.
//!
//! The command can destroy what its order names, so it does nothing unless the machine is a guest.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::agent::{AgentError, AgentStorage, TargetOpening, prepared_size};
use crate::guest_agent::{GuestOrder, GuestPort, GuestTask, MailReader, carry_out};
use crate::layout::{CELL, Layout};
use crate::wire::AgentSays;
use durio_command::{CommandError, CommandErrorKind, error_chain};
use durio_lab::LabRequest;
use durio_observe::read_host;
use durio_plan::proof::{Arm, FileWrites};

use crate::folder_engine::FolderWrites;
use crate::guest_layers::{GuestStack, not_attached};
use crate::proof_target::ProofStorage;

/// How often the mailbox is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// Follows an order of the host that this guest belongs to.
///
/// # Errors
/// If this machine is not a guest of the lab. The host hears of all other failures too.
pub fn prove_in_guest(order: &str) -> Result<(), CommandError> {
    if read_host().lab.is_none() {
        let text = "only a guest of the lab can be proved in; durio prove run boots it";
        return Err(CommandError::wrong_use(text));
    }
    let order: GuestOrder = serde_json::from_str(order)
        .map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))?;
    let path = Path::new(LabRequest::WITNESS_PATH);
    let port = File::options().write(true).open(path);
    let mut port = GuestPort::new(
        port.map_err(|error| CommandError::io("open the witness's port", path, error))?,
    );
    let done = follow(&order, &mut port);
    let message = match &done {
        Ok(()) if order.task == GuestTask::Prepare => Some(AgentSays::Prepared),
        Ok(()) => None,
        Err(Obstacle::Smaller) => Some(smaller()),
        Err(Obstacle::NotAttached(error)) => Some(not_attached(error)),
        Err(Obstacle::Failed(error)) => Some(AgentSays::Failed { reason: error_chain(error) }),
    };
    message.map_or(Ok(()), |message| port.say(&message)).map_err(failed)?;
    match done {
        // The host has heard, and decides.
        Ok(()) | Err(Obstacle::Smaller | Obstacle::NotAttached(_)) => Ok(()),
        Err(Obstacle::Failed(error)) => Err(error),
    }
}

/// Why an order was not carried out.
enum Obstacle {
    /// The target has shrunk.
    Smaller,
    /// The layers are not there after a cut.
    NotAttached(CommandError),
    Failed(CommandError),
}

impl From<CommandError> for Obstacle {
    fn from(error: CommandError) -> Self {
        Self::Failed(error)
    }
}

fn follow(order: &GuestOrder, port: &mut GuestPort<File>) -> Result<(), Obstacle> {
    let stack = GuestStack { layers: order.layers, disks: &order.disks };
    let path = match order.task {
        GuestTask::ReadStates => return Ok(read_states(order, &stack, port)?),
        GuestTask::Prepare => make(order, &stack)?,
        GuestTask::Load { .. } => {
            let path = stack.attach()?;
            if order.arm.writes == FileWrites::Append {
                empty_log(order, &path)?;
            }
            path
        }
        GuestTask::Read => stack.attach().map_err(Obstacle::NotAttached)?,
    };
    let mut storage = storage(order, &path)?;
    if order.task == GuestTask::Read && !fits(order, &storage) {
        return Err(Obstacle::Smaller);
    }
    carry_out(order, &mut storage, port).map_err(failed)?;
    drop(storage);
    if order.task == GuestTask::Prepare {
        stack.detach()?;
    }
    Ok(())
}

fn smaller() -> AgentSays {
    AgentSays::Gone { reason: "the target is smaller".to_owned() }
}

/// One crash state after the other. The host ends the guest after the last.
fn read_states(
    order: &GuestOrder,
    stack: &GuestStack<'_>,
    port: &mut GuestPort<File>,
) -> Result<(), CommandError> {
    let missing = || CommandError::cannot_measure("the order names no mailbox");
    let mailbox = order.mailbox.as_deref().ok_or_else(missing)?;
    let mut mailbox = storage(order, mailbox)?;
    for number in 1.. {
        while mailbox.open(TargetOpening::READING, MailReader).map_err(failed)? < number {
            thread::sleep(LOOK);
        }
        // Cached data of the last state must not be taken for this one.
        let caches = Path::new("/proc/sys/vm/drop_caches");
        fs::write(caches, "3").map_err(|error| CommandError::io("write to", caches, error))?;
        match stack.attach() {
            Err(error) => port.say(&not_attached(&error)).map_err(failed)?,
            Ok(path) => {
                read_state(order, &path, port)?;
                stack.detach()?;
            }
        }
        port.say(&AgentSays::Released).map_err(failed)?;
    }
    Ok(())
}

/// A missing or shorter file is gone, like a filesystem that cannot be mounted.
fn read_state(
    order: &GuestOrder,
    path: &Path,
    port: &mut GuestPort<File>,
) -> Result<(), CommandError> {
    let found = storage(order, path).map_err(|error| error_chain(&error));
    match found {
        Ok(mut storage) if fits(order, &storage) => carry_out(order, &mut storage, port),
        Ok(_) => port.say(&smaller()),
        Err(reason) => port.say(&AgentSays::Gone { reason }),
    }
    .map_err(failed)
}

fn storage(order: &GuestOrder, path: &Path) -> Result<ProofStorage, CommandError> {
    let Arm { path: durable, writes, .. } = order.arm;
    // The host's mailbox is a device also where cells are files.
    if writes.makes_files() && order.mailbox.as_deref() != Some(path) {
        let controls = Layout::new(order.cells).control;
        let syncs_folder = writes == FileWrites::Replace;
        let writes = match order.task {
            GuestTask::Load { .. } => {
                FolderWrites::Replace { path: durable, syncs_folder, controls }
            }
            _ => FolderWrites::Make,
        };
        let size = order.cells.saturating_mul(CELL as u64);
        return Ok(ProofStorage::of_folder(path.to_owned(), size, writes));
    }
    let name = path.to_string_lossy();
    ProofStorage::find(&name, &[path.to_owned()], true, Some(order.engine))
}

/// Makes the layers on empty disks, and returns the path to write to.
fn make(order: &GuestOrder, stack: &GuestStack<'_>) -> Result<PathBuf, CommandError> {
    let path = stack.make()?;
    if !order.layers.is_device() {
        make_target(order, &path)?;
    }
    Ok(path)
}

/// A file, or a folder for files.
fn make_target(order: &GuestOrder, path: &Path) -> Result<(), CommandError> {
    if order.arm.writes.makes_files() {
        return fs::create_dir(path)
            .map_err(|error| CommandError::io("make the folder", path, error));
    }
    // Blocks that were never written would be journalled with the first write of each.
    let write = || -> std::io::Result<()> {
        let bytes = prepared(order);
        let mut file = File::options().write(true).create_new(true).open(path)?;
        std::io::copy(&mut std::io::Read::take(std::io::repeat(0), bytes), &mut file)?;
        file.sync_all()
    };
    write().map_err(|error| CommandError::io("fill", path, error))
}

/// A life begins with an empty log, so that it grows until the cut.
fn empty_log(order: &GuestOrder, path: &Path) -> Result<(), CommandError> {
    let empty = || -> std::io::Result<()> {
        let file = File::options().write(true).open(path)?;
        file.set_len(prepared(order))?;
        file.sync_all()
    };
    empty().map_err(|error| CommandError::io("cut off the log of", path, error))
}

/// Whether all is there that was before the first write.
fn fits(order: &GuestOrder, storage: &ProofStorage) -> bool {
    storage.size() >= prepared(order)
}

fn prepared(order: &GuestOrder) -> u64 {
    prepared_size(order.cells, order.arm.writes).unwrap_or(u64::MAX)
}

fn failed(error: AgentError) -> CommandError {
    CommandError::of(CommandErrorKind::CannotMeasure, error)
}

#[cfg(test)]
mod tests;
