//! What runs in a guest of the lab: the agent with one order and a one-way port to the witness, and
//! the part of `durio prove exec`: a filesystem on the guest's disk, and a user's command on it.
//!
//! The agent takes an order and a target, and sends messages. The host has a message when the call
//! that writes it returns, unless the host's pipe is full: then up to [`WAITING_MAX`] messages wait in
//! the guest, and are lost with it. So a write is announced that many messages before it begins, and
//! its announcement needs no answer.
//!
//! The host gets the output and the exit code of a command, and a message if the filesystem cannot be
//! made or mounted. The host's side is `command_trials.rs`.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use durio_base::Nanos;
use durio_block::EngineKind;
use durio_command::{CommandError, CommandErrorKind, error_chain};
use durio_lab::LabRequest;
use durio_observe::read_host;
use durio_plan::proof::{Arm, FileWrites, GuestLayers};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentStorage, report, stamp, witness_gone};
use crate::error::ProveError;
use crate::guest_layers::{make_filesystem, mount, not_attached, unmount};
use crate::layout::CELL;
use crate::ledger::{Intent, Witness};
use crate::stamp::StampOwner;
use crate::wire::{AgentSays, WitnessedLoad, send};

/// Readings after a cut: two to compare, and one for deviating cells.
pub(crate) const READINGS: usize = 3;

/// Messages that may wait in the guest: a port's queue has 128 places (QEMU 7.2, hw/char/virtio-serial-bus.c),
/// and one message is with QEMU, which holds it back while the host's pipe is full. The next call waits.
const WAITING_MAX: usize = 129;
/// Writes that may be in flight together, and so end in another order.
const DEPTH_MAX: u32 = 64;

/// What a guest must do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GuestOrder {
    /// Which part of a life.
    pub(crate) task: GuestTask,
    /// The owner of the stamps.
    pub(crate) owner: StampOwner,
    /// Cells of the target.
    pub(crate) cells: u64,
    /// How it is written to.
    pub(crate) arm: Arm,
    /// How operations are submitted.
    pub(crate) engine: EngineKind,
    /// The layers on the disks.
    pub(crate) layers: GuestLayers,
    /// The disks, in the guest.
    pub(crate) disks: Vec<PathBuf>,
    /// A disk on which the host writes the number of the state it has put on the other, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mailbox: Option<PathBuf>,
}

/// A part of a guest's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub(crate) enum GuestTask {
    /// Make the layers, write the label and all stamps.
    Prepare,
    /// Write until the power goes.
    Load {
        /// The number of the first write.
        first_seq: u64,
        /// Seed for the choice of places.
        seed: u64,
    },
    /// Read all cells, [`READINGS`] times.
    Read,
    /// Read all cells once, of one crash state after the other, until the guest is ended. An honest
    /// simulated disk needs no second reading.
    ReadStates,
}

/// Reads an order of the host, which only a guest of the lab follows; `otherwise` is the error elsewhere.
pub(crate) fn order_of_host<T: DeserializeOwned>(
    order: &str,
    otherwise: &str,
) -> Result<T, CommandError> {
    if read_host().lab.is_none() {
        return Err(CommandError::wrong_use(otherwise));
    }
    serde_json::from_str(order).map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))
}

/// The guest's end of the port to its witness.
#[derive(Debug)]
pub(crate) struct GuestPort<W>(pub(crate) W);

impl<W: Write> GuestPort<W> {
    pub(crate) fn say(&mut self, message: &AgentSays) -> Result<(), ProveError> {
        send(&mut self.0, message).map_err(witness_gone)
    }
}

impl GuestPort<File> {
    /// The port of this guest.
    pub(crate) fn open() -> Result<Self, CommandError> {
        let path = Path::new(LabRequest::WITNESS_PATH);
        let port = File::options().write(true).open(path);
        port.map(Self).map_err(|error| CommandError::io("open the witness's port", path, error))
    }
}

impl<W: Write> Witness for GuestPort<W> {
    // Every second write is a control, which may be skipped silently; the writer announces again
    // when 32 of the writes have started.
    const AHEAD: usize = 2 * (WAITING_MAX + DEPTH_MAX as usize) + 64;

    fn intend(&mut self, intents: &[Intent]) -> Result<(), ProveError> {
        self.say(&AgentSays::Intend { writes: intents.to_vec() })
    }

    fn acknowledge(&mut self, seq: u64, _: Nanos) -> Result<(), ProveError> {
        self.say(&AgentSays::Acknowledged { seq })
    }

    fn control_done(&mut self, seq: u64) -> Result<(), ProveError> {
        self.say(&AgentSays::ControlDone { seq })
    }
}

/// Carries out the order on a target that is present. The caller reports the end.
pub(crate) fn carry_out<W: Write>(
    order: &GuestOrder,
    target: &mut impl AgentStorage,
    link: &mut GuestPort<W>,
) -> Result<(), ProveError> {
    let GuestOrder { task, owner, cells, arm, .. } = *order;
    let is_growing = arm.writes == FileWrites::Append;
    let log_end = is_growing.then(|| target.size() / CELL as u64);
    let readings = match task {
        GuestTask::Prepare => return stamp(target, owner, cells, arm),
        GuestTask::Load { first_seq, seed } => {
            return WitnessedLoad { owner, cells, arm, first_seq, seed }.carry_out(target, link);
        }
        GuestTask::Read => READINGS,
        GuestTask::ReadStates => 1,
    };
    (0..readings)
        .try_for_each(|_| report(target, (owner, cells), log_end, &mut |message| link.say(message)))
}

/// Where the guest has the filesystem; the command finds it in `DURIO_DATA`.
const DATA: &str = "/durio/data";
/// Where the guest has the acknowledged lines; the check finds it in `DURIO_ACKNOWLEDGED`.
pub(crate) const ACKNOWLEDGED: &str = "/durio/acknowledged";

/// A guest's task with its disk and a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandOrder {
    /// Which part of a life.
    pub(crate) task: CommandTask,
    pub(crate) layers: GuestLayers,
    /// The disk, in the guest.
    pub(crate) disk: PathBuf,
    /// Where the command runs, if that is there.
    pub(crate) directory: PathBuf,
}

/// A part of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CommandTask {
    /// Make the filesystem; the command, if any, prepares its contents.
    Setup,
    /// The command runs until the power goes.
    Load,
    /// The command looks for missing data.
    Check,
}

/// Follows an order of the host that this guest belongs to, and returns the command's exit code, as
/// shells give it.
///
/// # Errors
/// If this machine is not a guest of the lab; if the filesystem is missing, which the host hears
/// too.
pub fn command_in_guest(order: &str, command: &[String]) -> Result<u8, CommandError> {
    let otherwise = "only a lab guest runs commands for a proof; durio prove exec boots it";
    let order: CommandOrder = order_of_host(order, otherwise)?;
    if let Err(error) = attach(&order) {
        GuestPort::open()?.say(&match order.task {
            CommandTask::Check => not_attached(&error),
            CommandTask::Setup | CommandTask::Load => {
                AgentSays::Failed { reason: error_chain(&error) }
            }
        })?;
        return Err(error);
    }
    let code = run(&order, command)?;
    if order.task == CommandTask::Setup && code == 0 {
        unmount(Path::new(DATA))?;
    }
    Ok(code)
}

fn attach(order: &CommandOrder) -> Result<(), CommandError> {
    if order.task == CommandTask::Setup {
        make_filesystem(order.layers, &order.disk)?;
    }
    mount(order.layers, &order.disk, Path::new(DATA))
}

fn run(order: &CommandOrder, command: &[String]) -> Result<u8, CommandError> {
    let Some((program, arguments)) = command.split_first() else { return Ok(0) };
    let directory = if order.directory.is_dir() { &order.directory } else { Path::new(DATA) };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory);
    command.env("DURIO_DATA", DATA).env("DURIO_ACKNOWLEDGED", ACKNOWLEDGED);
    match command.status() {
        Ok(status) => Ok(code_of(status)),
        Err(error) => Err(CommandError::io("run", Path::new(program), error)),
    }
}

/// As shells tell of a signal.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;

    use durio_block::{Buffers, Ticks};
    use durio_plan::proof::DurablePath;
    use durio_simdisk::{Disk, Profile, SharedDisk, SimEngine};

    use super::*;
    use crate::layout::{Layout, Schedule};
    use crate::wire::receive;
    use crate::writer::Writer;

    /// What a writer says, in its order.
    fn said(depth: u32) -> Vec<AgentSays> {
        let cells = 256;
        let disk = SharedDisk::new(Disk::new(Profile::honest(cells * 4096), 7));
        let buffers = Buffers::try_new(depth as usize + 1, 4096).unwrap();
        let mut engine = SimEngine::new(disk, 1, Ticks(0), 7, buffers);
        let mut port = GuestPort(Vec::new());
        let path = DurablePath::RwfDsync;
        let schedule = Schedule::new(Layout::new(cells), &Arm::new(path, depth), 1, 7);
        let owner = StampOwner { run: [1; 16], target: 1 };
        Writer::new((&mut engine, &mut port), owner, path, depth, schedule)
            .run(Ticks(u64::MAX), 2000)
            .unwrap();
        let mut bytes = io::Cursor::new(port.0);
        std::iter::from_fn(|| receive(&mut bytes).ok()).collect()
    }

    #[test]
    fn a_write_begins_when_its_announcement_can_wait_in_the_guest_no_more() {
        // A queue of 128 places, and one message that QEMU holds back; 64 writes in flight.
        assert_eq!((WAITING_MAX, DEPTH_MAX), (129, 64));
        for depth in [1, 64] {
            let mut announced = BTreeMap::new();
            let mut nearest = usize::MAX;
            for (place, message) in said(depth).into_iter().enumerate() {
                match message {
                    AgentSays::Intend { writes } => {
                        announced.extend(writes.iter().map(|intent| (intent.seq, place)));
                    }
                    // The first announcement finds an empty pipe.
                    AgentSays::Acknowledged { seq } | AgentSays::ControlDone { seq }
                        if announced[&seq] > 0 =>
                    {
                        nearest = nearest.min(place - announced[&seq]);
                    }
                    _ => {}
                }
            }
            // It started at most `depth` messages before it ended.
            let begun = nearest - depth as usize;
            assert!(begun > WAITING_MAX, "depth {depth}: {begun} messages");
        }
    }
}
