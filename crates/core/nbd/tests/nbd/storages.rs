//! Storages that watch what comes through, and one that fails as it is told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use durio_nbd::{Command, Connection, Export, Refusal, Request, Storage};

/// A request as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Read(u64, u64),
    Write(u64, u64, bool),
    Flush,
    Trim(u64, u64, bool),
    WriteZeroes(u64, u64, bool, bool),
}

/// Keeps no data and notes what came; asserts that nothing came that may not.
pub(crate) struct Watched {
    export: Export,
    /// Batch by batch.
    batches: Mutex<Vec<Vec<Seen>>>,
    pub(crate) connections: AtomicUsize,
    /// What writes end with.
    pub(crate) of_writes: Result<(), Refusal>,
}

impl Watched {
    pub(crate) fn new(export: Export) -> Self {
        let (batches, connections) = (Mutex::default(), AtomicUsize::new(0));
        Self { export, batches, connections, of_writes: Ok(()) }
    }

    pub(crate) fn batches(&self) -> Vec<Vec<Seen>> {
        self.batches.lock().unwrap().clone()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.batches().concat()
    }

    fn assert_inside(&self, offset: u64, length: u64) {
        let min = u64::from(self.export.block_size_min);
        assert!(length > 0 && offset.is_multiple_of(min) && length.is_multiple_of(min));
        assert!(offset.checked_add(length).unwrap() <= self.export.size);
    }

    fn carry_out(&self, request: &mut Request<'_>) -> Seen {
        let seen = match &mut request.command {
            Command::Read { offset, into } => {
                into.fill(0x5a);
                Seen::Read(*offset, into.len() as u64)
            }
            Command::Write { offset, data, fua } => Seen::Write(*offset, data.len() as u64, *fua),
            Command::Flush => Seen::Flush,
            Command::Trim { offset, length, fua } => Seen::Trim(*offset, *length, *fua),
            Command::WriteZeroes { offset, length, fua, no_hole } => {
                Seen::WriteZeroes(*offset, *length, *fua, *no_hole)
            }
        };
        request.outcome = Ok(());
        match seen {
            Seen::Flush => assert!(self.export.flush),
            Seen::Read(offset, length) => self.assert_inside(offset, length),
            Seen::Write(offset, length, fua)
            | Seen::Trim(offset, length, fua)
            | Seen::WriteZeroes(offset, length, fua, _) => {
                self.assert_inside(offset, length);
                assert!(!self.export.read_only && (self.export.fua || !fua));
                request.outcome = self.of_writes;
            }
        }
        seen
    }
}

impl Storage for Watched {
    fn export(&self) -> Export {
        self.export.clone()
    }

    fn connect(&self) -> Box<dyn Connection + '_> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        Box::new(WatchedConnection(self))
    }
}

struct WatchedConnection<'s>(&'s Watched);

impl Connection for WatchedConnection<'_> {
    fn carry_out(&mut self, batch: &mut [Request<'_>]) {
        assert!(!batch.is_empty());
        let seen = batch.iter_mut().map(|request| self.0.carry_out(request)).collect();
        self.0.batches.lock().unwrap().push(seen);
    }
}

impl Drop for WatchedConnection<'_> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}
