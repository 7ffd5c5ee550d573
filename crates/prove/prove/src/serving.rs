//! A simulated disk that is served over NBD until it is stopped, its control socket, and the log of its
//! clients' writes.
//!
//! durio-nbd has NBD and the transport of orders, durio-simdisk the disk's rules.
//!
//! The control socket is next to the disk's, with the suffix `.control`. A client sends one
//! [`DiskOrder`] and gets one [`OrderAnswer`]; the order is carried out when the answer arrives.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_command::{CommandError, error_chain};
use durio_nbd::{
    Address, Command, Connection, ControlServer, Export, Refusal, Request, Server, Storage, Uri,
    control_of, send_answer, send_order,
};
use durio_simdisk::trace::MARK_MAX;
use durio_simdisk::{
    Disk, DiskError, DiskRequest, Logger, Profile, SECTOR, SharedDisk, Stats, Ticket, named,
};
use serde::{Deserialize, Serialize};

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
    #[serde(flatten)]
    pub stats: Stats,
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
) -> Result<(), CommandError> {
    let server = Server::bind(&serving.address)?;
    let mut control = ControlServer::bind(serving.control.clone())?;
    let log = match &serving.log {
        Some(path) => WriteLog::create(path, &mut disk.lock())
            .map(|log| Some(Arc::new(log)))
            .map_err(|error| CommandError::io("create the log", path, error))?,
        None => None,
    };
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
    let Some((log, path)) = log.zip(serving.log.as_deref()) else { return Ok(()) };
    log.finish(&mut disk.lock()).map_err(|error| CommandError::io("write the log", path, error))
}

/// Sends an order to a served disk.
///
/// # Errors
/// If no server is there, or it does not answer.
pub fn order(control: &Path, order: &DiskOrder) -> Result<OrderAnswer, CommandError> {
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
            None => Err(format!("'{profile}' is not a profile that lies")),
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
        Ok(()) => {
            let disk = disk.lock();
            OrderAnswer::Done(DiskState { size: disk.size(), stats: disk.stats() })
        }
        Err(reason) => OrderAnswer::Refused { reason },
    }
}

/// A second disk, served until this is dropped. It has a separate control socket.
struct Fork {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Fork {
    fn serve(disk: Disk, socket: PathBuf, advertised: Advertisement) -> Result<Self, CommandError> {
        let control = control_of(&socket);
        let serving = Serving { address: Address::Unix(socket), control, advertised, log: None };
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let ending = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let disk = SharedDisk::new(disk);
            let ready = |_: &Uri| drop(sender.send(Ok(())));
            let is_over = || ending.load(Ordering::Relaxed);
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
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// What clients learn about a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// A volatile cache, which is flushed. A client sends no flush if none is advertised.
    pub flush: bool,
    /// The disk takes writes with FUA.
    pub fua: bool,
    /// Bytes of memory that the disk may take; a write that needs more fails for lack of space.
    pub memory: u64,
}

impl Advertisement {
    /// The declarations of a disk of this profile.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let has_cache = profile.declares_cache();
        Self { flush: has_cache, fua: has_cache, memory: u64::MAX }
    }
}

/// A disk that is served. Its time is this machine's. The requests of a batch are in flight together: all
/// begin before the first of them ends.
#[derive(Debug)]
pub struct ServedDisk {
    disk: SharedDisk,
    advertised: Advertisement,
    begin: Instant,
    connections: AtomicU32,
    log: Option<Arc<WriteLog>>,
}

impl ServedDisk {
    #[must_use]
    pub fn new(disk: SharedDisk, advertised: Advertisement) -> Self {
        let connections = AtomicU32::new(0);
        Self { disk, advertised, begin: Instant::now(), connections, log: None }
    }

    /// Records clients' writes in this log.
    #[must_use]
    pub fn logged(self, log: Option<Arc<WriteLog>>) -> Self {
        Self { log, ..self }
    }

    #[must_use]
    pub fn disk(&self) -> &SharedDisk {
        &self.disk
    }

    fn now(&self) -> Nanos {
        self.begin.elapsed().into()
    }
}

impl Storage for ServedDisk {
    fn export(&self) -> Export {
        let sector = u32::try_from(SECTOR).unwrap_or(u32::MAX);
        let Advertisement { flush, fua, .. } = self.advertised;
        let size = self.disk.lock().size();
        // Whether a flush covers other connections' writes depends on the disk's honesty.
        Export { flush, fua, block_size_min: sector, ..Export::new("disk", size) }
    }

    fn connect(&self) -> Box<dyn Connection + '_> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let life = self.disk.lock().stats().cuts;
        Box::new(DiskClient { served: self, number, life })
    }
}

struct DiskClient<'a> {
    served: &'a ServedDisk,
    number: u32,
    /// The number of cuts before this connection started. Its requests after a later cut were in
    /// flight when the power went, and must not reach the disk when it has power again.
    life: u64,
}

impl Connection for DiskClient<'_> {
    fn carry_out(&mut self, batch: &mut [Request<'_>]) {
        let now = self.served.now();
        // Held over the batch: a cut comes before it or after it.
        let disk = &mut *self.served.disk.lock();
        if disk.stats().cuts != self.life {
            batch.iter_mut().for_each(|request| request.outcome = Err(Refusal::Gone));
            return;
        }
        // A batch is bounded, so the disk barely exceeds its limit.
        let is_full = disk.resident_bytes() >= self.served.advertised.memory;
        let begin = |request: &Request<'_>| match request.command {
            Command::Write { .. } if is_full => Err(Refusal::NoSpace),
            _ => disk.begin(self.number, now, begin_of(&request.command)).map_err(refusal),
        };
        let begun: Vec<Result<Ticket, Refusal>> = batch.iter().map(begin).collect();
        for (request, ticket) in batch.iter_mut().zip(begun) {
            let into: &mut [u8] = match &mut request.command {
                Command::Read { into, .. } => into,
                _ => &mut [],
            };
            let end = |ticket| disk.end(ticket, now, into).map_err(refusal);
            request.outcome = ticket.and_then(end);
        }
        if let Some(log) = &self.served.log {
            log.take(disk);
        }
    }
}

fn refusal(error: DiskError) -> Refusal {
    match error {
        DiskError::Gone => Refusal::Gone,
        DiskError::BeyondEnd => Refusal::NoSpace,
        DiskError::Medium => Refusal::Io,
    }
}

fn begin_of<'a>(command: &'a Command<'_>) -> DiskRequest<'a> {
    let sectors = |bytes: u64| bytes / SECTOR as u64;
    match command {
        Command::Read { offset, .. } => DiskRequest::Read { sector: sectors(*offset) },
        Command::Write { offset, data, fua } => {
            DiskRequest::Write { sector: sectors(*offset), data, fua: *fua }
        }
        Command::Flush => DiskRequest::Flush,
        Command::Trim { offset, length, fua }
        | Command::WriteZeroes { offset, length, fua, .. } => {
            let (sector, sectors) = (sectors(*offset), sectors(*length));
            DiskRequest::Zero { sector, sectors, fua: *fua }
        }
    }
}

/// A log of dm-log-writes in a file, which can be read while it grows; and its first error, after which
/// nothing more is written.
#[derive(Debug)]
pub struct WriteLog(Mutex<WriteLogState>);

#[derive(Debug)]
struct WriteLogState {
    logger: Option<Logger<BufWriter<File>>>,
    error: Option<io::Error>,
}

impl WriteLog {
    /// Starts to record the disk into a new file.
    ///
    /// # Errors
    /// If the file exists, or cannot be made.
    pub fn create(path: &Path, disk: &mut Disk) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        let logger = Some(Logger::new(BufWriter::new(file))?);
        disk.record();
        Ok(Self(Mutex::new(WriteLogState { logger, error: None })))
    }

    /// Writes the events recorded since the last call.
    pub fn take(&self, disk: &mut Disk) {
        let events = disk.take_events();
        if events.is_empty() {
            return;
        }
        let state = &mut *self.state();
        let written = state.logger.as_mut().map_or(Ok(()), |logger| logger.take(&events));
        if let Err(error) = written {
            state.logger = None;
            state.error = Some(error);
            // Its events have no consumer any more.
            disk.take_recording();
        }
    }

    /// Marks this moment.
    ///
    /// # Errors
    /// If the log does not permit this mark.
    pub fn mark(&self, disk: &mut Disk, name: &str) -> Result<(), String> {
        if name.is_empty() || name.len() > MARK_MAX || name.contains('\0') {
            return Err(format!("a mark must have 1 to {MARK_MAX} bytes, none of them NUL"));
        }
        disk.mark(name);
        self.take(disk);
        if self.has_failed() { Err("the log cannot be written".to_owned()) } else { Ok(()) }
    }

    /// Whether the log has stopped.
    pub fn has_failed(&self) -> bool {
        self.state().error.is_some()
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first error of writing it.
    pub fn finish(&self, disk: &mut Disk) -> io::Result<()> {
        self.take(disk);
        disk.take_recording();
        let state = &mut *self.state();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let Some(logger) = state.logger.take() else { return Ok(()) };
        logger.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    fn state(&self) -> MutexGuard<'_, WriteLogState> {
        // An error at the moment of a panic is in the file's state, not in this one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_of_a_disk_is_told_under_its_own_name() {
        let profile = Profile::honest(1 << 20);
        let advertised = Advertisement::of(&profile);
        let disk = SharedDisk::new(Disk::new(profile, 1));
        let ask = |order| carry_out(order, &disk, (advertised, None), &mut Vec::new());
        for power in [DiskOrder::Cut, DiskOrder::Restore] {
            assert!(matches!(ask(power), OrderAnswer::Done(_)));
        }
        let data = [7; SECTOR];
        let write = |fua| DiskRequest::Write { sector: 8, data: &data, fua };
        let read = DiskRequest::Read { sector: 8 };
        // Three writes are behind the last flush: each takes a page of the cache.
        let requests = [
            (2, write(true)),
            (1, write(false)),
            (5, DiskRequest::Flush),
            (3, write(false)),
            (4, read),
        ];
        for (count, request) in requests {
            for _ in 0..count {
                let into = &mut [0; SECTOR];
                disk.lock().carry_out(0, Nanos::ZERO, request, into).unwrap();
            }
        }
        let stats = Stats {
            reads: 4,
            writes: 6,
            fua_writes: 2,
            flushes: 5,
            cuts: 1,
            volatile_bytes: 12_288,
        };
        let answer = ask(DiskOrder::Stats);
        assert_eq!(answer, OrderAnswer::Done(DiskState { size: 1_048_576, stats }));
        assert_eq!(
            serde_json::to_string(&answer).unwrap(),
            "{\"answer\":\"done\",\"size\":1048576,\"reads\":4,\"writes\":6,\"fua_writes\":2,\
             \"flushes\":5,\"cuts\":1,\"volatile_bytes\":12288}"
        );
    }

    #[test]
    fn a_log_that_cannot_be_written_says_so_at_each_mark_and_at_its_end() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let logger = Some(Logger::new(BufWriter::new(full)).unwrap());
        let log = WriteLog(Mutex::new(WriteLogState { logger, error: None }));
        let mut disk = Disk::new(Profile::honest(1 << 20), 1);
        disk.record();
        assert!(!log.has_failed());
        for name in ["one", "two"] {
            assert_eq!(log.mark(&mut disk, name).unwrap_err(), "the log cannot be written");
            assert!(log.has_failed());
        }
        assert_eq!(log.finish(&mut disk).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
