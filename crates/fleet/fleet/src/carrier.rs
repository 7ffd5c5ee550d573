//! `durio-fleet join`: the process at the other end of a session of ssh or srun, or of one that a host
//! that stays on a bus has with itself.
//!
//! ```text
//!  coordinator ── ssh ── join ── socket ── agent ── gate ── durio run
//! ```
//!
//! It hands the invitation to the agent of the campaign, which it starts if needed, and ends
//! when the session does. The agent stays: a link that breaks, or a coordinator that dies, harms no
//! run, and the next session finds the same agent.

use std::env;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use durio_agree::sign::EndedCampaigns;
use durio_block::Folder;
use durio_command::CommandError;
use serde::Serialize;

use crate::invitation::{Invitation, JoinReply, LINE_BYTES_MAX, line_of};

/// The command of this program by which it becomes the agent, in the campaign's folder.
pub(crate) const AGENT_COMMAND: &str = "agent";
/// The agent's socket in that folder. Addressed by its bare name: longer paths do not fit into the
/// address of a socket.
pub(crate) const SOCKET: &str = "agent.sock";
/// What a host remembers of a campaign.
pub(crate) const MEMORY_FILE: &str = "memory.json";
/// What the agent says.
const LOG_FILE: &str = "agent.log";

const CONNECT_TRIES: u32 = 100;
const CONNECT_EVERY: Duration = Duration::from_millis(50);
/// 3 s: an agent whose run was not collected stays for 2 s.
const LEAVE_TRIES: u32 = 60;
const REPLY_MAX: Duration = Duration::from_secs(20);

/// The folder of all campaigns of this user on this host.
pub(crate) fn fleet_folder() -> Result<Folder, CommandError> {
    state_folder("fleet")
}

/// A folder of this user alone, for what outlives a process.
pub(crate) fn state_folder(name: &str) -> Result<Folder, CommandError> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        // The XDG specification says to ignore a relative one.
        path.is_absolute().then_some(path)
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".local/state")))
        .ok_or_else(|| {
            CommandError::cannot_measure("there is no folder for the state of a campaign")
                .hint("set HOME or XDG_STATE_HOME")
        })?
        .join("durio");
    Folder::make_own_path(&state)
        .and_then(|state| state.own_folder_or_make(name))
        .map_err(|error| CommandError::io("use the state folder", &state, error))
}

/// The invitation that a session writes to stdin.
///
/// # Errors
/// If it is not one.
pub(crate) fn read_invitation(bytes_max: u64) -> Result<Invitation, CommandError> {
    let mut line = Vec::new();
    let mut input = BufReader::new(io::stdin().lock().take(bytes_max));
    input.read_until(b'\n', &mut line).map_err(CommandError::cannot)?;
    Invitation::parse(&line)
}

/// Reads an invitation on stdin, hands it on, and stays until stdin closes or the agent ends.
///
/// # Errors
/// If it is not an invitation, or no agent answers.
pub(crate) fn join() -> Result<(), CommandError> {
    let invitation = read_invitation(LINE_BYTES_MAX)?;
    let (mut socket, reply) = match invitation.bus.check().and_then(|()| reach(&invitation)) {
        Ok(reached) => reached,
        // The coordinator shows it to its user, with the name of the host.
        Err(error) => {
            tell(&JoinReply::Refused(durio_command::error_chain(&error)));
            return Err(error);
        }
    };
    write_out(&reply);
    // The agent ends the session by closing it, and the coordinator by closing stdin.
    let session = socket.try_clone().map_err(CommandError::cannot)?;
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = session.shutdown(Shutdown::Both);
    });
    let _ = socket.set_read_timeout(None);
    let _ = io::copy(&mut socket, &mut io::sink());
    // Slurm kills what is left of a step when its task ends, and the agent has to clean up.
    if env::var_os("SLURM_JOB_ID").is_some() {
        await_agent();
    }
    Ok(())
}

/// Waits a while until the agent of the current folder has ended, which holds its lock.
fn await_agent() {
    for _ in 0..LEAVE_TRIES {
        thread::sleep(CONNECT_EVERY);
        // An agent that has cleaned up leaves no folder.
        let is_served = env::current_dir()
            .and_then(|path| Folder::open(&path))
            .and_then(|folder| folder.try_lock().map(|is_free| !is_free));
        if !is_served.unwrap_or(false) {
            return;
        }
    }
}

/// A line for the coordinator's session. While that takes none, its bus is cut as well.
pub(crate) fn tell(line: &impl Serialize) {
    if let Ok(line) = line_of(line) {
        write_out(&line);
    }
}

fn write_out(line: &[u8]) {
    // The coordinator makes a session that broke again.
    let mut output = io::stdout().lock();
    let _ = output.write_all(line).and_then(|()| output.flush());
}

/// The agent's socket and its reply.
fn reach(invitation: &Invitation) -> Result<(UnixStream, Vec<u8>), CommandError> {
    let fleet = fleet_folder()?;
    let campaign = &invitation.campaign;
    if !fleet.has(campaign).map_err(CommandError::cannot)? {
        EndedCampaigns::open(&fleet)?.check(campaign)?;
    }
    let folder = fleet.own_folder_or_make(campaign);
    let folder =
        folder.map_err(|error| CommandError::io("make a folder in", fleet.path(), error))?;
    env::set_current_dir(folder.path())
        .map_err(|error| CommandError::io("enter", folder.path(), error))?;
    let mut socket = match UnixStream::connect(SOCKET) {
        Ok(socket) => socket,
        Err(_) => start_agent(&folder)?,
    };
    let silent = |error: io::Error| {
        CommandError::cannot(error).context("the agent of this host does not answer")
    };
    socket.set_read_timeout(Some(REPLY_MAX)).map_err(silent)?;
    socket.write_all(&invitation.line()?).map_err(silent)?;
    let mut reply = Vec::new();
    let mut reader = BufReader::new((&socket).take(LINE_BYTES_MAX));
    reader.read_until(b'\n', &mut reply).map_err(silent)?;
    drop(reader);
    if reply.is_empty() {
        return Err(CommandError::cannot_measure("the agent of this host ended without a word"));
    }
    Ok((socket, reply))
}

/// Starts an agent that outlives this process, and waits for its socket.
fn start_agent(folder: &Folder) -> Result<UnixStream, CommandError> {
    let program = durio_command::own_program()?;
    let log = || -> io::Result<File> { folder.append_own(LOG_FILE) };
    let failed = |error| CommandError::io("start", &program, error);
    Command::new(&program)
        .arg(AGENT_COMMAND)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log().map_err(failed)?)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    for _ in 0..CONNECT_TRIES {
        thread::sleep(CONNECT_EVERY);
        if let Ok(socket) = UnixStream::connect(SOCKET) {
            return Ok(socket);
        }
    }
    let log = std::fs::read(LOG_FILE).unwrap_or_default();
    let reason = crate::programs::last_line(&log);
    Err(CommandError::cannot_measure(format!("the agent of this host did not start: {reason}")))
}
