//! A simulated disk over NBD.
//!
//! Takes batches of requests from a server (durio-nbd) and returns the outcomes of the disk
//! (durio-simdisk).
//!
//! The requests of a batch are in flight together: all begin before the first of them ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use durio_base::Nanos;
use durio_nbd::{Command, Connection, Export, Refusal, Request, Storage};
use durio_simdisk::{DiskError, Profile, SECTOR, SharedDisk, Ticket};

use crate::write_log::WriteLog;

/// What clients learn about a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertisement {
    /// A volatile cache, which is flushed. A client sends no flush if none is advertised.
    pub flush: bool,
    /// Writes with FUA.
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

/// A disk that is served. Its time is this machine's.
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
        Nanos::new(u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX))
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

fn begin_of<'a>(command: &'a Command<'_>) -> durio_simdisk::DiskRequest<'a> {
    let sectors = |bytes: u64| bytes / SECTOR as u64;
    match command {
        Command::Read { offset, .. } => {
            durio_simdisk::DiskRequest::Read { sector: sectors(*offset) }
        }
        Command::Write { offset, data, fua } => {
            durio_simdisk::DiskRequest::Write { sector: sectors(*offset), data, fua: *fua }
        }
        Command::Flush => durio_simdisk::DiskRequest::Flush,
        Command::Trim { offset, length, fua }
        | Command::WriteZeroes { offset, length, fua, .. } => {
            let (sector, sectors) = (sectors(*offset), sectors(*length));
            durio_simdisk::DiskRequest::Zero { sector, sectors, fua: *fua }
        }
    }
}
