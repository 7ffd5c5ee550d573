//! A served array: one engine behind a lock, and threads, each with a ring over the members and
//! private buffers.
//!
//! ```text
//!  NBD connections ──► jobs ──┐
//!        ▲   (nbd.rs)         ▼
//!        └─── answers ◄── ring_thread.rs ◄──────► Engine, behind a lock (array.rs)
//!  ublk queue ──────────► │      ▲
//!                         ▼      └── completions ◄──┐
//!                     operations ──► MemberRing ──► members
//! ```
//!
//! Each queue of a ublk device has a thread, which uses the engine as if it had it alone: a request
//! is answered by the thread that got it, from a buffer of that thread. If an event in one thread
//! leads to work for another (a shared mark is stored, a write waited for another), the work is
//! left for that thread.
//!
//! Takes an assembled array, open files of its members, requests of front ends, and orders.
//! durio-raid-commands decides which devices are members and may be written to.
//!
//! The engine's clock is this machine's, minus times in which the thread did not run: a server that
//! was stopped for a minute does not count that against its members.
//!
//! A member that the engine gives up gets no new operations. Those in flight continue with private
//! buffers, and their results are ignored. The member can come back when all of them have ended.

mod array;
#[cfg(test)]
mod member_tests;
mod members;
mod nbd;
mod queue;
mod ring_thread;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use durio_block::{BlockError, MemberRing, RingWaker, UblkQueue};

use crate::{Config, JoinAs, Newcomer, OrderError, StartPlan, Status};
use array::LockedArray;
use queue::{ServerState, ThreadOrder};
use ring_thread::RingThread;

pub use members::{find_member, leave_unsynced, make_blank, marked_regions, write_metadata};

/// Devices that an array can have at a time, those among them that it has given up.
pub const DEVICES_MAX: u8 = 64;

/// Threads that can serve an array.
pub const THREADS_MAX: u8 = 64;

#[derive(Debug)]
pub struct MemberFile {
    /// The caller's name of the device, below [`DEVICES_MAX`].
    pub device: u8,
    /// Open for reading and writing.
    pub file: OwnedFd,
    /// What claims it for this process, until nothing is on its way any more.
    pub claim: Option<OwnedFd>,
}

impl MemberFile {
    /// The same, for another thread.
    fn try_clone(&self) -> Result<Self, ServerError> {
        let clone = |descriptor: &OwnedFd| descriptor.try_clone().map_err(ServerError::Descriptor);
        let claim = self.claim.as_ref().map(clone).transpose()?;
        Ok(Self { device: self.device, file: clone(&self.file)?, claim })
    }
}

/// What a device has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Operations that are on their way.
    pub in_flight: u32,
    /// Reads that have ended well.
    pub reads: u64,
    pub writes: u64,
    /// Operations that have not.
    pub errors: u64,
    /// Its file is open here.
    pub is_open: bool,
    /// The engine uses it.
    pub is_used: bool,
}

impl DeviceCounters {
    /// Whether the device is neither used nor busy.
    pub fn refuse_busy(&self) -> Result<(), ServerError> {
        match self {
            Self { is_used: true, .. } => Err(ServerError::Used),
            Self { in_flight: 1.., .. } => Err(ServerError::Draining),
            _ => Ok(()),
        }
    }
}

/// How a served array stands.
#[derive(Debug, Clone)]
pub struct ServerStatus {
    /// As the engine has it.
    pub engine: Status,
    /// By the caller's names.
    pub devices: Vec<DeviceCounters>,
    /// Requests that are on their way, in pieces of a chunk.
    pub requests: u32,
}

/// Why an array is not served, or why a device does not join it.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The ring, or memory.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// No thread could be started for it.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// A member is opened once for each thread.
    #[error("cannot open a member for each thread")]
    Descriptor(#[source] io::Error),
    /// The engine refuses the device, or does not scrub now.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// It was given up, and has not answered all that it was asked.
    #[error("operations on it are still in flight: try again when they are complete")]
    Draining,
    /// It is a member that works.
    #[error("the array uses it")]
    Used,
    /// The server has ended.
    #[error("the array is no longer served")]
    Ended,
}

#[derive(Debug)]
pub struct ArrayServer {
    handle: ArrayHandle,
    threads: Vec<thread::JoinHandle<Result<(), ServerError>>>,
}

/// What reaches a served array, from any thread.
#[derive(Debug, Clone)]
pub struct ArrayHandle(Arc<ServerState>);

impl ArrayServer {
    /// Serves an assembled array by so many threads, each of which opens the members anew; its first
    /// superblocks are being written when this returns. `alignment` is what the members ask of offsets and
    /// lengths.
    ///
    /// # Panics
    /// If there is no thread, or more than [`THREADS_MAX`].
    pub fn start(
        plan: StartPlan,
        config: Config,
        alignment: u32,
        members: &[MemberFile],
        threads: u8,
    ) -> Result<Self, ServerError> {
        assert!((1..=THREADS_MAX).contains(&threads), "{threads} threads");
        let timeout = Duration::from_nanos(config.timeout.get());
        // One part each, for each lies within a chunk; zeroes wait until they have theirs.
        let config = Config { parts_max: config.requests_max, alignment, ..config };
        let table = plan.table.clone();
        let array = LockedArray::new(plan, &config, members, threads);
        let wakers = (0..threads).map(|_| RingWaker::new()).collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::new(ServerState::new(&table, alignment, array, wakers.into_iter()));
        // None begins before all are there.
        let mut array = shared.array()?;
        let started = (0..threads)
            .map(|number| {
                let members = members.iter().map(MemberFile::try_clone);
                let members = members.collect::<Result<Vec<_>, _>>()?;
                start_thread(number, timeout, members, Arc::clone(&shared))
            })
            .collect::<Result<Vec<_>, _>>();
        if started.is_err() {
            array.give_up();
        }
        drop(array);
        Ok(Self { handle: ArrayHandle(shared), threads: started? })
    }

    #[must_use]
    pub fn handle(&self) -> ArrayHandle {
        self.handle.clone()
    }

    /// True if it has ended, as it does by itself when a ring fails.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(thread::JoinHandle::is_finished)
    }

    /// Ends in order: answers the requests in flight, clears the map, and waits for all of it.
    ///
    /// # Errors
    /// What ended it before, if anything did.
    ///
    /// # Panics
    /// If one of its threads did.
    pub fn stop(self) -> Result<(), ServerError> {
        // It may have ended already, and then says why.
        let _ = self.handle.order(0, |_, array| array.close());
        let mut ended = Ok(());
        for thread in self.threads {
            match (thread.join(), &ended) {
                (Err(panic), _) => std::panic::resume_unwind(panic),
                // The others end because of one.
                (Ok(one), Ok(()) | Err(ServerError::Ended)) => ended = one.and(ended),
                (Ok(_), Err(_)) => {}
            }
        }
        ended
    }
}

impl ArrayHandle {
    /// States of the array and its members.
    pub fn status(&self) -> Result<ServerStatus, ServerError> {
        self.order(0, |_, array| array.status())
    }

    /// Gives a member up.
    pub fn fail(&self, device: u8) -> Result<(), ServerError> {
        self.order(0, move |_, array| array.engine.member_failed(device, &mut array.out))
    }

    /// Compares all copies, and makes them equal if it shall.
    ///
    /// # Errors
    /// If the array has one copy, does not run, or is being scrubbed.
    pub fn scrub(&self, repair: bool) -> Result<(), ServerError> {
        Ok(self.order(0, move |_, array| array.engine.scrub(repair, &mut array.out))??)
    }

    /// Threads that serve it.
    #[must_use]
    pub fn threads(&self) -> u16 {
        self.0.desks.len() as u16
    }

    /// Serves the queues of a ublk device, each from a thread of the array's. No request of it may be longer
    /// than a chunk, nor cross one.
    ///
    /// # Panics
    /// If there are more queues than threads.
    pub fn serve(&self, queues: Vec<UblkQueue>) -> Result<(), ServerError> {
        for (thread, queue) in queues.into_iter().enumerate() {
            let desk = Arc::clone(&self.0.desks[thread]);
            self.order(thread, move |ring, _| ring.serve(queue, || desk.buffer()))??;
        }
        Ok(())
    }

    /// Opens a device that is not in use yet.
    pub fn open(&self, member: &MemberFile) -> Result<(), ServerError> {
        let device = member.device;
        for thread in 0..self.0.desks.len() {
            let MemberFile { file, claim, .. } = member.try_clone()?;
            let files = Some((file, claim));
            self.order(thread, move |ring, _| ring.set_member(device.into(), files))??;
        }
        self.order(0, move |_, array| array.opened(device))
    }

    /// Has an open device join.
    ///
    /// # Errors
    /// If it was given up and is still busy, or if the engine refuses it.
    pub fn add(&self, what: JoinAs, newcomer: Newcomer) -> Result<(), ServerError> {
        self.order(0, move |_, array| array.add(what, &newcomer))?
    }

    /// Whether an open device could join now: to be asked before it is erased.
    pub fn refuse_newcomer(&self, what: JoinAs, newcomer: Newcomer) -> Result<(), ServerError> {
        Ok(self.order(0, move |_, array| array.engine.refuse_newcomer(what, &newcomer))??)
    }

    /// Lets go of a device that the engine does not use.
    ///
    /// # Errors
    /// If it is used, or still busy.
    pub fn forget(&self, device: u8) -> Result<(), ServerError> {
        self.order(0, move |_, array| array.forget(device))??;
        for thread in 0..self.0.desks.len() {
            self.order(thread, move |ring, _| ring.set_member(device.into(), None))??;
        }
        Ok(())
    }

    /// Has a thread do something with its ring and the array, and waits for what comes of it.
    fn order<R: Send + 'static>(
        &self,
        thread: usize,
        carry_out: impl FnOnce(&mut MemberRing, &mut LockedArray) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let (sender, answer) = mpsc::channel();
        let order: ThreadOrder = Box::new(move |ring, array| {
            // The caller may be gone.
            let _ = sender.send(carry_out(ring, array));
        });
        self.0.desks[thread].push_order(order)?;
        answer.recv().map_err(|_| ServerError::Ended)
    }
}

/// Starts a thread of an array, which waits for the lock.
fn start_thread(
    number: u8,
    timeout: Duration,
    members: Vec<MemberFile>,
    shared: Arc<ServerState>,
) -> Result<thread::JoinHandle<Result<(), ServerError>>, ServerError> {
    let (sender, made) = mpsc::channel();
    let serve = move || match RingThread::new(number, timeout, members, shared) {
        Ok(thread) => {
            let _ = sender.send(Ok(()));
            thread.run()
        }
        Err(error) => {
            let _ = sender.send(Err(error));
            Ok(())
        }
    };
    let name = if number == 0 { "raid".to_owned() } else { format!("raid-{number}") };
    // The ring is of the thread that makes it.
    let thread = thread::Builder::new().name(name).spawn(serve).map_err(ServerError::Thread)?;
    made.recv().unwrap_or(Err(ServerError::Ended))?;
    Ok(thread)
}
