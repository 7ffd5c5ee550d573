//! An array that is served: a thread that owns the engine, a ring over the members, and buffers.
//!
//! ```text
//!  NBD connections ──► jobs ──► thread: Engine ──► operations ──► MemberRing ──► members
//!        ▲   (nbd.rs)           (core.rs)  ▲                          │
//!        └────────── answers ◄─────┘       └──────── completions ◄────┘
//! ```
//!
//! In: an assembled array, open files of its members, requests of front ends, orders. Out: answers. Not
//! here: which devices are members and may be written to (durio-bench), what happens with a request (the
//! engine).
//!
//! The engine's clock is this machine's, but for times in which the thread did not run: a server that was
//! stopped for a minute does not hold that against its members.
//!
//! A member that the engine gives up gets nothing more. What is on its way to it goes on, with buffers
//! that nobody else has, and what it answers is not listened to. It can come back when all of it has ended.

mod core;
mod members;
mod nbd;
mod queue;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use durio_block::{BlockError, RingWaker, UblkQueue};

use self::core::{Core, Order};
use self::queue::Shared;
use crate::{AddError, Config, JoinAs, Newcomer, Plan, ScrubError, Status};

pub use members::{find_member, leave_unsynced, make_blank, marked_regions, write_metadata};

/// Devices that an array can have at a time, those among them that it has given up.
pub const DEVICES_MAX: u8 = 64;

/// An open member.
#[derive(Debug)]
pub struct MemberFile {
    /// The caller's name of the device, below [`DEVICES_MAX`].
    pub device: u8,
    /// Open for reading and writing.
    pub file: OwnedFd,
    /// What claims it for this process, until nothing is on its way any more.
    pub claim: Option<OwnedFd>,
}

/// What a device has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceCounters {
    /// Operations that are on their way.
    pub in_flight: u32,
    /// Reads that have ended well.
    pub reads: u64,
    /// Writes that have.
    pub writes: u64,
    /// Operations that have not.
    pub errors: u64,
    /// Its file is open here.
    pub is_open: bool,
    /// The engine uses it.
    pub is_used: bool,
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
    /// There is no thread for it.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// The engine refuses the device.
    #[error(transparent)]
    Add(#[from] AddError),
    /// The engine does not scrub now.
    #[error(transparent)]
    Scrub(#[from] ScrubError),
    /// It was given up, and has not answered all that it was asked.
    #[error("operations are still on their way to it: try again when they have ended")]
    Draining,
    /// It is a member that works.
    #[error("the array uses it")]
    Used,
    /// The server has ended.
    #[error("the array is not served any more")]
    Ended,
}

/// A served array.
#[derive(Debug)]
pub struct ArrayServer {
    handle: ArrayHandle,
    thread: thread::JoinHandle<Result<(), ServerError>>,
}

/// What reaches a served array, from any thread.
#[derive(Debug, Clone)]
pub struct ArrayHandle(Arc<Shared>);

impl ArrayServer {
    /// Serves an assembled array; its first superblocks are being written when this returns. `alignment`
    /// is what the members ask of offsets and lengths.
    ///
    /// # Errors
    /// If there is no ring.
    pub fn start(
        plan: Plan,
        config: Config,
        alignment: u32,
        members: Vec<MemberFile>,
    ) -> Result<Self, ServerError> {
        let shared = Arc::new(Shared::new(&plan.table, alignment, RingWaker::new()?));
        let (sender, made) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let serve = move || match Core::new(plan, config, members, of_thread) {
            Ok(core) => {
                let _ = sender.send(Ok(()));
                core.run()
            }
            Err(error) => {
                let _ = sender.send(Err(error));
                Ok(())
            }
        };
        // The ring is of the thread that makes it.
        let thread = thread::Builder::new().name("raid".to_owned()).spawn(serve);
        let thread = thread.map_err(ServerError::Thread)?;
        made.recv().unwrap_or(Err(ServerError::Ended))?;
        Ok(Self { handle: ArrayHandle(shared), thread })
    }

    /// What reaches it.
    #[must_use]
    pub fn handle(&self) -> ArrayHandle {
        self.handle.clone()
    }

    /// True if it has ended, as it does by itself when the ring fails.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends in order: answers what is on its way, clears the map, and waits for all of it.
    ///
    /// # Errors
    /// What ended it before, if anything did.
    ///
    /// # Panics
    /// If its thread did.
    pub fn stop(self) -> Result<(), ServerError> {
        // It may have ended already, and then says why.
        let _ = self.handle.order(|core| core.close());
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl ArrayHandle {
    /// How it stands.
    ///
    /// # Errors
    /// If it has ended.
    pub fn status(&self) -> Result<ServerStatus, ServerError> {
        self.order(|core| core.status())
    }

    /// Gives a member up.
    ///
    /// # Errors
    /// If it has ended.
    pub fn fail(&self, device: u8) -> Result<(), ServerError> {
        self.order(move |core| core.fail(device))
    }

    /// Compares all copies, and makes them equal if it shall.
    ///
    /// # Errors
    /// If the array has one copy, does not run, or is being scrubbed.
    pub fn scrub(&self, repair: bool) -> Result<(), ServerError> {
        self.order(move |core| core.scrub(repair))?
    }

    /// Serves the queue of a ublk device from the array's own thread. No request of it may be longer than
    /// a chunk, nor cross one.
    ///
    /// # Errors
    /// If the ring does not take it.
    pub fn serve(&self, queue: UblkQueue) -> Result<(), ServerError> {
        self.order(move |core| core.serve(queue))?
    }

    /// Opens a device that is not in use yet.
    ///
    /// # Errors
    /// If the ring does not take it.
    pub fn open(&self, member: MemberFile) -> Result<(), ServerError> {
        self.order(move |core| core.open(member))?
    }

    /// Has an open device join.
    ///
    /// # Errors
    /// If it was given up and is still busy, or if the engine refuses it.
    pub fn add(&self, what: JoinAs, newcomer: Newcomer) -> Result<(), ServerError> {
        self.order(move |core| core.add(what, &newcomer))?
    }

    /// Whether an open device could join now: to be asked before it is erased.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn refuse_newcomer(&self, what: JoinAs, newcomer: Newcomer) -> Result<(), ServerError> {
        self.order(move |core| core.refuse_newcomer(what, &newcomer))?
    }

    /// Lets go of a device that the engine does not use.
    ///
    /// # Errors
    /// If it is used, or still busy.
    pub fn forget(&self, device: u8) -> Result<(), ServerError> {
        self.order(move |core| core.forget(device))?
    }

    /// Has the thread do something, and waits for what comes of it.
    fn order<R: Send + 'static>(
        &self,
        carry_out: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let (sender, answer) = mpsc::channel();
        let order: Order = Box::new(move |core| {
            // Whoever asked may be gone.
            let _ = sender.send(carry_out(core));
        });
        self.0.push_order(order)?;
        answer.recv().map_err(|_| ServerError::Ended)
    }
}
