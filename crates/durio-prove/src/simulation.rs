//! A campaign in this process: a simulated disk, its writer, its ledger, its verifier, one cut after the
//! other, as fast as the processor goes.
//!
//! In: a profile, an arm, a seed. Out: the findings of each cut. Not here: verdicts, files.

use std::cell::RefCell;
use std::rc::Rc;

use durio_block::{BlockError, Buffers, Clock, Completion, Engine, Ticks};
use durio_plan::proof::{Arm, LossClass};
use durio_record::proof::{CutFindings, Finding, InPlace};
use durio_simdisk::{Disk, Profile, SharedDisk, SimEngine};
use durio_units::Nanos;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::classify::classify;
use crate::history::{History, HistoryError};
use crate::layout::{CELL, Layout};
use crate::ledger::{Entry, Ledger};
use crate::reading::{Observed, observe, observe_cell};
use crate::schedule::Schedule;
use crate::stamp::Owner;
use crate::writer::{Writer, WriterError, prepare};

/// Bytes of a read of the verifier.
const READ: usize = 64 << 10;
/// Queues between the engine and the disk, as a kernel has one for each processor.
const QUEUES: u32 = 2;
/// Acknowledged writes before a cut, about.
const WRITES: std::ops::Range<u64> = 40..130;

/// Why a simulation cannot go on. Losses are no errors.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The engine, which has no reason to fail.
    #[error(transparent)]
    Engine(#[from] BlockError),
    /// The writer, before the power was cut.
    #[error(transparent)]
    Writer(#[from] WriterError<std::convert::Infallible>),
    /// The ledger contradicts itself.
    #[error(transparent)]
    Ledger(#[from] HistoryError),
}

/// A campaign on one disk.
#[derive(Debug)]
pub struct Simulation {
    disk: SharedDisk,
    engine: SimEngine,
    owner: Owner,
    arm: Arm,
    layout: Layout,
    ledger: Ledger,
    history: History,
    next_seq: u64,
    chance: Xoshiro256PlusPlus,
    readings: [Vec<Observed>; 2],
}

impl Simulation {
    /// A disk, stamped by the arm's own path.
    ///
    /// # Errors
    /// If stamping it fails.
    ///
    /// # Panics
    /// If the disk is too small.
    pub fn new(profile: Profile, arm: Arm, seed: u64) -> Result<Self, SimulationError> {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let layout = Layout::new(profile.size / CELL as u64);
        let disk: SharedDisk = Rc::new(RefCell::new(Disk::new(profile, chance.next_u64())));
        let buffers = Buffers::try_new(arm.depth as usize + 1, READ)?;
        let mut engine =
            SimEngine::new(Rc::clone(&disk), QUEUES, Ticks(0), chance.next_u64(), buffers);
        let mut run = [0; 16];
        chance.fill_bytes(&mut run);
        let owner = Owner { run, target: 1 };
        prepare(&mut engine, owner, arm.path, &layout)?;
        let history = History::new(layout.stamped(), Nanos::new(engine.clock().now().0));
        Ok(Self {
            disk,
            engine,
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

    /// One life of the disk: load, cut, verification.
    ///
    /// # Errors
    /// See [`SimulationError`].
    pub fn cut(&mut self) -> Result<CutFindings, SimulationError> {
        self.load()?;
        let size = self.disk.borrow().size();
        self.disk.borrow_mut().cut();
        for &entry in self.ledger.entries() {
            self.history.take(entry)?;
        }
        self.history.take(Entry::Cut { at: self.now() })?;
        let is_back = self.disk.borrow_mut().restore().is_ok();
        if !is_back || self.disk.borrow().size() < size {
            return Ok(self.gone());
        }
        self.drain()?;
        let found = self.verify()?;
        self.history.begin_life();
        self.ledger.clear();
        Ok(found)
    }

    fn load(&mut self) -> Result<(), SimulationError> {
        let writes = WRITES.start + self.chance.next_u64() % (WRITES.end - WRITES.start);
        let span = writes * self.commit_ns() / u64::from(self.arm.depth);
        let until = self.engine.clock().now().plus(span);
        let Arm { path, depth, write_cells } = self.arm;
        let seed = self.chance.next_u64();
        let schedule = Schedule::new(self.layout.clone(), write_cells, depth, self.next_seq, seed);
        let ends = (&mut self.engine, &mut self.ledger);
        let mut writer = Writer::new(ends, self.owner, path, depth, schedule);
        let outcome = writer.run(until);
        self.next_seq = writer.next_seq();
        Ok(outcome?)
    }

    /// How long a commit takes, about.
    fn commit_ns(&self) -> u64 {
        let disk = self.disk.borrow();
        let pace = disk.profile().pace;
        let syncs = self.arm.path.syncs();
        let nanos = match (disk.profile().declares_cache(), syncs) {
            (true, true) => pace.write.get() + pace.durable.get(),
            (true, false) => pace.durable.get(),
            (false, _) => pace.write.get(),
        };
        nanos + nanos / 4
    }

    fn now(&self) -> Nanos {
        Nanos::new(self.engine.clock().now().0)
    }

    /// Takes the completions of what the cut has ended.
    fn drain(&mut self) -> Result<(), SimulationError> {
        let mut completions = [Completion::default(); 8];
        while self.engine.exchange(&[], &mut completions)? > 0 {}
        Ok(())
    }

    fn verify(&mut self) -> Result<CutFindings, SimulationError> {
        let (engine, owner) = (&mut self.engine, self.owner);
        for reading in &mut self.readings {
            observe(engine, owner, self.layout.stamped(), self.arm.depth, reading)?;
        }
        let [first, second] = &self.readings;
        let again = |cell| observe_cell(engine, owner, cell);
        Ok(classify(&mut self.history, [first, second], again)?)
    }

    fn gone(&self) -> CutFindings {
        let finding = Finding {
            class: LossClass::Gone,
            sector: 0,
            sectors: 0,
            seq: 0,
            acknowledged_before_ns: None,
            found: InPlace::Nothing,
        };
        let acknowledged = self.history.acknowledged().len() as u64;
        CutFindings { acknowledged, findings: vec![finding], ..CutFindings::default() }
    }
}
