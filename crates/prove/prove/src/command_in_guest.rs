//! The part of `durio prove exec` that runs in a guest of the lab: a filesystem on the guest's
//! disk, and a user's command on it. The host gets the command's output and exit code, and a
//! message if the filesystem cannot be made or mounted. The host's side is `command_trials.rs`.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::guest_agent::GuestPort;
use crate::wire::AgentSays;
use durio_command::{CommandError, CommandErrorKind, error_chain};
use durio_lab::LabRequest;
use durio_observe::read_host;
use durio_plan::proof::GuestLayers;
use serde::{Deserialize, Serialize};

use crate::guest_layers::{make_filesystem, mount, not_attached, unmount};

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
    if read_host().lab.is_none() {
        let text = "only a guest of the lab runs commands for a proof; durio prove exec boots it";
        return Err(CommandError::wrong_use(text));
    }
    let order: CommandOrder = serde_json::from_str(order)
        .map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))?;
    if let Err(error) = attach(&order) {
        say(&match order.task {
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

fn say(message: &AgentSays) -> Result<(), CommandError> {
    let path = Path::new(LabRequest::WITNESS_PATH);
    let port = File::options().write(true).open(path);
    let port = port.map_err(|error| CommandError::io("open the witness's port", path, error))?;
    let told = GuestPort::new(port).say(message);
    told.map_err(CommandError::cannot)
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
