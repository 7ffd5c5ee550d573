//! An array that is served until somebody ends it.
//!
//! In: devices, a socket. Out: nothing; answers on the sockets. Not here: what orders do (`orders`).
//!
//! Sockets are bound before a member is written to, so a name that is taken changes nothing.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use durio_block::lock_memory;
use durio_nbd::{Address, Listener, Server, Uri, control_of};
use durio_raid::server::{ArrayHandle, ArrayServer, ServerError};
use durio_raid::{AssembleOptions, Config, Found, SuperblockError, Table, assemble};
use durio_units::Nanos;

use super::devices::{Device, claim_devices};
use super::examine::assemble_words;
use super::orders::{Ending, obey};
use crate::error::{BenchError, BenchErrorKind, with_causes};
use crate::locate::Permission;

/// How often the wish to end is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Which array is served, and how.
#[derive(Debug)]
pub struct ServeWish<'a> {
    /// Its devices.
    pub paths: &'a [PathBuf],
    /// The socket for clients.
    pub socket: &'a Path,
    /// A member that has an operation for longer has failed.
    pub timeout: Nanos,
    /// Without a majority of its members, too.
    pub force: bool,
}

/// An array that is served, for orders.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) handle: ArrayHandle,
    /// As it was when it started.
    pub(super) table: Table,
    pub(super) devices: Vec<Device>,
}

/// Serves it until `stop` says so, or an order. `ready` gets its URI when clients can come, `remark` what
/// a user should know besides.
///
/// # Errors
/// If it does not start; if it has stopped by itself.
pub fn serve_array(
    wish: &ServeWish<'_>,
    ready: impl FnOnce(&Uri),
    remark: &dyn Fn(&str),
    stop: &dyn Fn() -> bool,
) -> Result<(), BenchError> {
    let devices = claim_devices(wish.paths, Permission::Members, 0)?;
    let server = Server::bind(&Address::Unix(wish.socket.to_owned())).map_err(cannot)?;
    let control = Listener::bind(&Address::Unix(control_of(wish.socket))).map_err(cannot)?;
    let (array, mut served) = start(wish, devices)?;
    if let Err(error) = lock_memory() {
        remark(&format!("{}; it may have to wait for storage", with_causes(&error)));
    }
    let stopping = wait_until_it_runs(&served.handle, stop);
    let end = server.stop_handle();
    let mut ending = Ending::default();
    thread::scope(|scope| {
        let storage = served.handle.clone();
        let serving = scope.spawn(move || server.serve(&storage).map(|()| server));
        if stopping.is_ok() {
            ready(&Uri::of(&Address::Unix(wish.socket.to_owned()), ""));
            let is_over = || stop() || array.has_ended() || serving.is_finished();
            while !is_over() && !ending.is_wished() {
                match control.accept() {
                    Ok(stream) => obey(stream, &mut served, &mut ending),
                    // Nobody is there, or who was has gone.
                    Err(_) => thread::sleep(LOOK),
                }
            }
        }
        end.stop();
        serving.join().unwrap_or_else(|it| std::panic::resume_unwind(it)).map(drop).map_err(cannot)
    })?;
    let stopped = match array.has_ended() {
        true => Ok(()),
        false => stopping.and_then(|()| refuse_stopped(&served.handle)),
    };
    let ended = array.stop().map_err(server_error);
    ending.answer();
    stopped.and(ended)
}

fn start(wish: &ServeWish<'_>, devices: Vec<Device>) -> Result<(ArrayServer, Served), BenchError> {
    let found = devices.iter().map(found_on).collect::<Result<Vec<_>, _>>()?;
    let newest = found.iter().max_by_key(|it| {
        let table = &it.superblock.table;
        (table.epoch, table.revision)
    });
    let Some(table) = newest.map(|it| it.superblock.table.clone()) else {
        return Err(BenchError::wrong_use("an array has devices: name them"));
    };
    let options = AssembleOptions { force: wish.force, rejoin: true, ..AssembleOptions::default() };
    let plan = assemble(&found, options).map_err(|error| {
        let name = |device: u8| {
            let path = wish.paths.get(usize::from(device));
            path.map_or_else(String::new, |it| format!("'{}'", it.display()))
        };
        BenchError::cannot_measure(format!("it does not start: {}", assemble_words(&error, name)))
            .hint("durio raid examine DEV... shows what each of them knows")
    })?;
    let alignments = devices.iter().map(Device::alignment).collect::<Result<Vec<_>, _>>()?;
    let alignment = alignments.into_iter().max().unwrap_or(512);
    let files = devices.iter().map(Device::member_file).collect::<Result<Vec<_>, _>>()?;
    let config = Config { timeout: wish.timeout, ..Config::default() };
    let array = ArrayServer::start(plan, config, alignment, files).map_err(server_error)?;
    let handle = array.handle();
    Ok((array, Served { handle, table, devices }))
}

fn found_on(device: &Device) -> Result<Found, BenchError> {
    let shown = device.path.display();
    device.find()?.map_err(|error| {
        let text = format!("'{shown}': {error}");
        let failure = BenchError::cannot_measure(text);
        match error {
            SuperblockError::Newer(_) => failure,
            _ => failure.hint("leave it out, and add it as a new device when the array runs"),
        }
    })
}

/// Until its first superblocks are stored.
fn wait_until_it_runs(handle: &ArrayHandle, stop: &dyn Fn() -> bool) -> Result<(), BenchError> {
    loop {
        let status = handle.status().map_err(server_error)?;
        if status.engine.is_running || stop() {
            return Ok(());
        }
        refuse_stopped(handle)?;
        thread::sleep(Duration::from_millis(2));
    }
}

fn refuse_stopped(handle: &ArrayHandle) -> Result<(), BenchError> {
    let status = handle.status().map_err(server_error)?;
    match status.engine.stopped {
        None => Ok(()),
        Some(reason) => {
            let text = format!("the array has stopped by itself: {reason}");
            Err(BenchError::cannot_measure(text).hint("bring its members back, and start it again"))
        }
    }
}

fn cannot(error: durio_nbd::NbdError) -> BenchError {
    BenchError::of(BenchErrorKind::CannotMeasure, error)
}

pub(super) fn server_error(error: ServerError) -> BenchError {
    BenchError::of(BenchErrorKind::CannotMeasure, error)
}
