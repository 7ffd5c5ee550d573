//! A simulated disk that is served until it is stopped, and its control socket.
//!
//! durio-nbd has NBD and the transport of orders, durio-simdisk the disk's rules.
//!
//! The control socket is next to the disk's, with the suffix `.control`. A client sends one
//! [`DiskOrder`] and gets one [`OrderAnswer`]; the order is carried out when the answer arrives.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use durio_command::error_chain;
use durio_nbd::{
    Address, ControlError, ControlServer, NbdError, Server, Uri, control_of, send_answer,
    send_order,
};
use durio_simdisk::{Disk, SharedDisk, named};
use serde::{Deserialize, Serialize};

use crate::served::{Advertisement, ServedDisk};
use crate::write_log::WriteLog;

/// How often the stop condition is polled.
const LOOK: Duration = Duration::from_millis(20);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order to a served disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum DiskOrder {
    /// Cut the power: unanswered requests stay unanswered, and the cache is lost except for its
    /// survivors.
    Cut,
    /// Give the power back.
    Restore,
    Stats,
    /// Lie from now on as the disk of this name does.
    Fault {
        /// A profile that lies.
        profile: String,
    },
    /// Serve a copy of this disk in its present state, on a socket of this path.
    Fork {
        socket: PathBuf,
    },
    /// Mark this moment in the log.
    Mark {
        name: String,
    },
}

/// The outcome of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum OrderAnswer {
    /// It was carried out; this is the disk now.
    Done(DiskState),
    Refused {
        reason: String,
    },
}

/// A disk as its counters show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskState {
    /// Bytes of the disk.
    pub size: u64,
    pub reads: u64,
    /// Writes, those with FUA among them.
    pub writes: u64,
    pub fua_writes: u64,
    pub flushes: u64,
    pub cuts: u64,
    /// Bytes in the volatile cache.
    pub volatile_bytes: u64,
}

/// Where a disk is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The address of the disk.
    pub address: Address,
    /// The path of the control socket.
    pub control: PathBuf,
    /// What clients learn about the disk.
    pub advertised: Advertisement,
    /// A new file for the log of their requests.
    pub log: Option<PathBuf>,
}

/// Why a disk cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// An error of the disk's socket.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("cannot {doing} the log '{}'", path.display())]
    Log { doing: &'static str, path: PathBuf, source: io::Error },
}

/// Serves the disk until `stop` says so; `ready` gets its URI when clients can connect. Removes the
/// sockets at the end.
///
/// # Errors
/// If a socket cannot be made, because a server answers there or something else has the name. If
/// the log cannot be written, serving ends at once.
pub fn serve_disk(
    disk: &SharedDisk,
    serving: &Serving,
    ready: impl FnOnce(&Uri),
    stop: &dyn Fn() -> bool,
) -> Result<(), ServingError> {
    let server = Server::bind(&serving.address)?;
    let mut control = ControlServer::bind(serving.control.clone())?;
    let log = create_log(disk, serving)?;
    let storage = ServedDisk::new(disk.clone(), serving.advertised).logged(log.clone());
    let end = server.stop_handle();
    thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(&storage));
        ready(&Uri::of(&server.address(), ""));
        let mut forks = Vec::new();
        let log = log.as_deref();
        let is_over = || stop() || log.is_some_and(WriteLog::has_failed);
        while !is_over() && !served.is_finished() {
            let Some((caller, order)) = control.next(LOOK) else { continue };
            let answer = match order {
                Ok(order) => carry_out(order, disk, (serving.advertised, log), &mut forks),
                Err(error) => OrderAnswer::Refused { reason: format!("no order: {error}") },
            };
            send_answer(&caller, &answer);
        }
        end.stop();
        drop(forks);
        served.join().unwrap_or(Ok(()))
    })?;
    let finished = log.map_or(Ok(()), |log| log.finish(&mut disk.lock()));
    finished.map_err(|source| log_error("write", serving, source))
}

fn create_log(disk: &SharedDisk, serving: &Serving) -> Result<Option<Arc<WriteLog>>, ServingError> {
    let create = |path| WriteLog::create(path, &mut disk.lock()).map(Arc::new);
    let created = serving.log.as_deref().map(create).transpose();
    created.map_err(|source| log_error("create", serving, source))
}

fn log_error(doing: &'static str, serving: &Serving, source: io::Error) -> ServingError {
    ServingError::Log { doing, path: serving.log.clone().unwrap_or_default(), source }
}

/// Sends an order to a served disk.
///
/// # Errors
/// If no server is there, or it does not answer.
pub fn order(control: &Path, order: &DiskOrder) -> Result<OrderAnswer, ServingError> {
    Ok(send_order(control, order, PATIENCE)?)
}

/// What clients learn, and where their requests are logged.
type Service<'a> = (Advertisement, Option<&'a WriteLog>);

fn carry_out(
    order: DiskOrder,
    disk: &SharedDisk,
    (advertised, log): Service<'_>,
    forks: &mut Vec<Fork>,
) -> OrderAnswer {
    let done = match order {
        DiskOrder::Cut => {
            disk.lock().cut();
            Ok(())
        }
        DiskOrder::Restore => disk.lock().restore().map_err(|error| error.to_string()),
        DiskOrder::Stats => Ok(()),
        DiskOrder::Fault { profile } => match named(&profile).and_then(|profile| profile.lie) {
            Some(lie) => {
                disk.lock().add_lie(lie);
                Ok(())
            }
            None => Err(format!("'{profile}' is no profile that lies")),
        },
        DiskOrder::Fork { socket } => {
            let fork = disk.lock().clone();
            let fork = Fork::serve(fork, socket, advertised);
            fork.map(|fork| forks.push(fork)).map_err(|error| error_chain(&error))
        }
        DiskOrder::Mark { name } => match log {
            Some(log) => log.mark(&mut disk.lock(), &name),
            None => Err("the disk was served without --record".to_owned()),
        },
    };
    match done {
        Ok(()) => OrderAnswer::Done(state_of(&disk.lock())),
        Err(reason) => OrderAnswer::Refused { reason },
    }
}

fn state_of(disk: &Disk) -> DiskState {
    let stats = disk.stats();
    DiskState {
        size: disk.size(),
        reads: stats.reads,
        writes: stats.writes,
        fua_writes: stats.fua_writes,
        flushes: stats.flushes,
        cuts: stats.cuts,
        volatile_bytes: stats.volatile_bytes,
    }
}

/// A second disk, served until this is dropped. It has a separate control socket.
struct Fork {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Fork {
    fn serve(disk: Disk, socket: PathBuf, advertised: Advertisement) -> Result<Self, ServingError> {
        let control = control_of(&socket);
        let serving = Serving { address: Address::Unix(socket), control, advertised, log: None };
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (sender, receiver) = std::sync::mpsc::channel();
        let ending = std::sync::Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let disk = SharedDisk::new(disk);
            let ready = |_: &Uri| drop(sender.send(Ok(())));
            let is_over = || ending.load(std::sync::atomic::Ordering::Relaxed);
            if let Err(error) = serve_disk(&disk, &serving, ready, &is_over) {
                let _ = sender.send(Err(error));
            }
        });
        let fork = Self { stop, thread: Some(thread) };
        // A thread that sends nothing has already reported an error.
        receiver.recv().unwrap_or(Ok(())).map(|()| fork)
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}
