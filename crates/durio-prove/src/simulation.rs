//! A campaign in this process: a simulated disk, its writer, its ledger, its verifier, one cut after the
//! other, as fast as the processor goes.
//!
//! In: a profile, an arm, a seed. Out: the findings of each cut. Not here: verdicts, files.

use durio_block::{BlockError, Buffers, Clock, Completion, Engine, MonotonicClock, Ticks};
use durio_nbd::{NbdEngine, NbdError};
use durio_plan::proof::Arm;
use durio_record::proof::CutFindings;
use durio_simdisk::{Disk, Profile, SharedDisk, SimEngine};
use durio_units::Nanos;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::background::{BackgroundError, BackgroundServer};
use crate::classify::{classify, gone};
use crate::history::{History, HistoryError};
use crate::layout::{CELL, Layout};
use crate::ledger::{Entry, Ledger};
use crate::reading::{Observed, observe, observe_cell};
use crate::schedule::Schedule;
use crate::served::Advertised;
use crate::stamp::Owner;
use crate::writer::{Writer, WriterError, prepare};

/// Bytes of a read of the verifier.
const READ: usize = 64 << 10;
/// Queues between the engine and the disk, as a kernel has one for each processor.
const QUEUES: u32 = 2;
/// Acknowledged writes before a cut.
const WRITES: std::ops::Range<u64> = 40..130;

/// Why a simulation cannot go on. Losses are no errors.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The engine, which has no reason to fail.
    #[error(transparent)]
    Engine(#[from] BlockError),
    /// The server.
    #[error(transparent)]
    Background(#[from] BackgroundError),
    /// The way to the disk.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// The writer, before the power was cut.
    #[error(transparent)]
    Writer(#[from] WriterError<std::convert::Infallible>),
    /// The ledger contradicts itself.
    #[error(transparent)]
    Ledger(#[from] HistoryError),
}

/// How a simulated disk is reached.
pub trait Access {
    /// What submits to it.
    type Engine: Engine;

    /// An engine, with a disk that has power.
    ///
    /// # Errors
    /// If there is no way to the disk.
    fn connect(&mut self, disk: &SharedDisk) -> Result<Self::Engine, SimulationError>;

    /// The same after a cut; `before` has operations in flight that the cut has ended.
    ///
    /// # Errors
    /// As [`Access::connect`].
    fn reconnect(
        &mut self,
        before: Self::Engine,
        disk: &SharedDisk,
    ) -> Result<Self::Engine, SimulationError>;

    /// How long a life may last at most.
    fn life_max(&self) -> Nanos;

    /// Up to how long after an acknowledgement the power may go; zero if always at once.
    fn phase_max(&self) -> Nanos;
}

/// By a call, on a virtual clock.
#[derive(Debug)]
pub struct ByCall {
    slots: usize,
    seed: u64,
}

impl Access for ByCall {
    type Engine = SimEngine;

    fn connect(&mut self, disk: &SharedDisk) -> Result<SimEngine, SimulationError> {
        let buffers = Buffers::try_new(self.slots, READ)?;
        Ok(SimEngine::new(disk.clone(), QUEUES, Ticks(0), self.seed, buffers))
    }

    fn reconnect(
        &mut self,
        mut before: SimEngine,
        _: &SharedDisk,
    ) -> Result<SimEngine, SimulationError> {
        // The same engine: what was in flight is answered with an error, and time goes on.
        let mut completions = [Completion::default(); 8];
        while before.exchange(&[], &mut completions)? > 0 {}
        Ok(before)
    }

    /// In its own time, of which it has any amount.
    fn life_max(&self) -> Nanos {
        Nanos::new(60_000_000_000)
    }

    /// A commit of the honest pace.
    fn phase_max(&self) -> Nanos {
        Nanos::new(600_000)
    }
}

/// Over NBD, by a socket in a folder of its own.
#[derive(Debug)]
pub struct ByNbd {
    slots: usize,
    server: Option<BackgroundServer>,
}

impl Access for ByNbd {
    type Engine = NbdEngine<MonotonicClock>;

    fn connect(&mut self, disk: &SharedDisk) -> Result<Self::Engine, SimulationError> {
        let server = match self.server.take() {
            Some(server) => server,
            None => BackgroundServer::start(disk, Advertised::of(disk.lock().profile()))?,
        };
        let uri = self.server.insert(server).uri();
        Ok(NbdEngine::connect(uri, MonotonicClock, Buffers::try_new(self.slots, READ)?)?)
    }

    fn reconnect(
        &mut self,
        before: Self::Engine,
        disk: &SharedDisk,
    ) -> Result<Self::Engine, SimulationError> {
        drop(before);
        self.connect(disk)
    }

    /// A disk in memory answers in microseconds; whoever waits longer waits for a processor.
    fn life_max(&self) -> Nanos {
        Nanos::new(10_000_000_000)
    }

    /// Where the clock is the machine's, another moment would be another proof each time.
    fn phase_max(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// A campaign on one disk.
#[derive(Debug)]
pub struct Simulation<A: Access> {
    disk: SharedDisk,
    access: A,
    engine: Option<A::Engine>,
    owner: Owner,
    arm: Arm,
    layout: Layout,
    ledger: Ledger,
    history: History,
    next_seq: u64,
    chance: Xoshiro256PlusPlus,
    readings: [Vec<Observed>; 2],
}

impl Simulation<ByCall> {
    /// A disk that is reached by a call, stamped by the arm's own path.
    ///
    /// # Errors
    /// If stamping it fails.
    ///
    /// # Panics
    /// If the disk is too small.
    pub fn new(profile: Profile, arm: Arm, seed: u64) -> Result<Self, SimulationError> {
        let slots = arm.depth as usize + 1;
        Self::with(ByCall { slots, seed }, profile, arm, seed)
    }
}

impl Simulation<ByNbd> {
    /// A disk that is reached over NBD, by a socket in a folder for temporary files.
    ///
    /// # Errors
    /// If it cannot be served there, or stamping it fails.
    ///
    /// # Panics
    /// If the disk is too small.
    pub fn over_nbd(profile: Profile, arm: Arm, seed: u64) -> Result<Self, SimulationError> {
        let slots = arm.depth as usize + 1;
        Self::with(ByNbd { slots, server: None }, profile, arm, seed)
    }
}

impl<A: Access> Simulation<A> {
    fn with(mut access: A, profile: Profile, arm: Arm, seed: u64) -> Result<Self, SimulationError> {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let layout = Layout::new(profile.size / CELL as u64);
        let disk = SharedDisk::new(Disk::new(profile, chance.next_u64()));
        let mut engine = access.connect(&disk)?;
        let mut run = [0; 16];
        chance.fill_bytes(&mut run);
        let owner = Owner { run, target: 1 };
        prepare(&mut engine, owner, arm.path, layout.stamped())?;
        let history = History::new(layout.stamped(), now(&engine));
        Ok(Self {
            disk,
            access,
            engine: Some(engine),
            owner,
            arm,
            layout,
            ledger: Ledger::default(),
            history,
            next_seq: 1,
            chance,
            readings: [Vec::new(), Vec::new()],
        })
    }

    /// The disk, with its truth.
    #[must_use]
    pub fn disk(&self) -> &SharedDisk {
        &self.disk
    }

    /// One life of the disk: load, cut, verification. After a cut from which the disk did not come back
    /// there is no other.
    ///
    /// # Errors
    /// See [`SimulationError`].
    ///
    /// # Panics
    /// If the disk did not come back from the cut before.
    pub fn cut(&mut self) -> Result<CutFindings, SimulationError> {
        let mut engine = self.engine.take().expect("the disk came back");
        self.load(&mut engine)?;
        let size = self.disk.lock().size();
        self.disk.lock().cut();
        for &entry in self.ledger.entries() {
            self.history.take(entry)?;
        }
        self.history.take(Entry::Cut { at: now(&engine) })?;
        let is_back = self.disk.lock().restore().is_ok();
        if !is_back || self.disk.lock().size() < size {
            return Ok(gone(Some(&self.history)));
        }
        let mut engine = self.access.reconnect(engine, &self.disk)?;
        let found = self.verify(&mut engine)?;
        self.history.begin_life();
        self.ledger.clear();
        self.engine = Some(engine);
        Ok(found)
    }

    fn load(&mut self, engine: &mut A::Engine) -> Result<(), SimulationError> {
        let writes = WRITES.start + self.chance.next_u64() % (WRITES.end - WRITES.start);
        let Arm { path, depth, .. } = self.arm;
        let seed = self.chance.next_u64();
        let schedule = Schedule::new(self.layout.clone(), &self.arm, self.next_seq, seed);
        let after =
            |engine: &A::Engine, span: u64| engine.clock().now().plus(engine.clock().ticks(span));
        let until = after(engine, self.access.life_max().get());
        let phase = self.access.phase_max().get();
        // Half of the cuts come right after an acknowledgement, the others at any moment.
        let phase = (self.chance.next_u64() % (2 * phase + 1)).saturating_sub(phase);
        let mut writer = Writer::new((engine, &mut self.ledger), self.owner, path, depth, schedule);
        writer.run(until, writes)?;
        if phase > 0 {
            let until = after(writer.engine(), phase);
            writer.run(until, u64::MAX)?;
        }
        self.next_seq = writer.next_seq();
        Ok(())
    }

    fn verify(&mut self, engine: &mut A::Engine) -> Result<CutFindings, SimulationError> {
        let owner = self.owner;
        for reading in &mut self.readings {
            observe(engine, owner, self.layout.stamped(), self.arm.depth, reading)?;
        }
        let [first, second] = &self.readings;
        let again = |cell| observe_cell(engine, owner, cell);
        Ok(classify(&mut self.history, [first, second], again)?)
    }
}

fn now(engine: &impl Engine) -> Nanos {
    Nanos::new(engine.clock().nanos(engine.clock().now().0))
}
