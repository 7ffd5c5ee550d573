//! A campaign in this process: a simulated disk or an array of them, its writer, its ledger, its
//! verifier, one cut after another, as fast as the processor goes.
//!
//! Takes a profile, an arm and a seed, and returns the findings of each cut. An array is
//! assembled again after each cut.

use durio_base::{Nanos, RaidLevel};
use durio_block::{BlockError, Buffers, Clock, Completion, Engine, MonotonicClock, Ticks};
use durio_nbd::NbdEngine;
use durio_plan::proof::{Arm, ArrayTarget, DurablePath};
use durio_raid::simulated::array::{ArrayEngine, ArrayStart, create_array};
use durio_raid::{AssembleError, Fault};
use durio_record::proof::CutFindings;
use durio_simdisk::{Disk, Lie, Profile, SharedDisk, SimEngine, named};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::AnyError;
use crate::background::BackgroundServer;
use crate::classify::{classify, gone};
use crate::history::History;
use crate::layout::{CELL, Layout, Schedule};
use crate::ledger::{Ledger, LedgerEntry};
use crate::reading::{ObservedCell, observe, observe_cell};
use crate::serving::Advertisement;
use crate::stamp::StampOwner;
use crate::writer::{Writer, prepare};

/// Minimum bytes of a read of the verifier.
const READ: usize = 64 << 10;
/// Queues between the engine and the disk, as a kernel has one for each processor.
const QUEUES: u32 = 2;
/// Acknowledged writes before a cut.
const WRITES: std::ops::Range<u64> = 40..130;

/// How simulated disks are reached.
pub trait DiskAccess {
    /// The engine that submits to them.
    type Engine: Engine;

    /// Those that lose their power together.
    fn disks(&self) -> &[SharedDisk];

    /// An engine, with disks that have power, and the bytes behind it.
    ///
    /// # Errors
    /// If the disks cannot be reached.
    fn connect(&mut self) -> Result<(Self::Engine, u64), AnyError>;

    /// Restores the power after a cut, and returns an engine; `before` has operations in flight
    /// that the cut has ended. `None` if the target did not come back whole.
    ///
    /// # Errors
    /// As [`DiskAccess::connect`].
    fn reconnect(&mut self, before: Self::Engine) -> Result<Option<Self::Engine>, AnyError>;

    /// Completes, between the two readings, the target's background work after a cut.
    ///
    /// # Errors
    /// If the work does not end.
    fn settle(&mut self, _: &mut Self::Engine) -> Result<(), AnyError> {
        Ok(())
    }

    /// How long a life may last at most. Virtual time costs nothing.
    fn life_max(&self) -> Nanos {
        Nanos::new(60_000_000_000)
    }

    /// The longest time between an acknowledgement and a cut: a commit of the honest pace; zero to cut
    /// at once.
    fn phase_max(&self) -> Nanos {
        Nanos::new(600_000)
    }
}

/// The buffers of an engine: one for each operation in flight, and one more for controls.
#[derive(Debug, Clone, Copy)]
struct Slots {
    count: usize,
    bytes: usize,
}

impl Slots {
    fn of(arm: Arm) -> Self {
        let written = usize::try_from(arm.write_cells).unwrap_or(usize::MAX).saturating_mul(CELL);
        Self { count: arm.depth as usize + 1, bytes: READ.max(written) }
    }

    fn buffers(self) -> Result<Buffers, BlockError> {
        Buffers::try_new(self.count, self.bytes)
    }
}

/// By a call, on a virtual clock.
#[derive(Debug)]
pub struct ByCall {
    disk: [SharedDisk; 1],
    slots: Slots,
    seed: u64,
}

impl DiskAccess for ByCall {
    type Engine = SimEngine;

    fn disks(&self) -> &[SharedDisk] {
        &self.disk
    }

    fn connect(&mut self) -> Result<(SimEngine, u64), AnyError> {
        let [disk] = self.disk.clone();
        let buffers = self.slots.buffers()?;
        let size = disk.lock().size();
        Ok((SimEngine::new(disk, QUEUES, Ticks(0), self.seed, buffers), size))
    }

    fn reconnect(&mut self, mut before: SimEngine) -> Result<Option<SimEngine>, AnyError> {
        if !restore_power(&self.disk[0]) {
            return Ok(None);
        }
        // The same engine: requests in flight are answered with an error, and time continues.
        let mut completions = [Completion::default(); 8];
        while before.exchange(&[], &mut completions)? > 0 {}
        Ok(Some(before))
    }
}

/// Over NBD, by a socket in a private folder.
#[derive(Debug)]
pub struct ByNbd {
    disk: [SharedDisk; 1],
    slots: Slots,
    server: Option<BackgroundServer>,
}

impl DiskAccess for ByNbd {
    type Engine = NbdEngine<MonotonicClock>;

    fn disks(&self) -> &[SharedDisk] {
        &self.disk
    }

    fn connect(&mut self) -> Result<(Self::Engine, u64), AnyError> {
        let [disk] = &self.disk;
        let server = match self.server.take() {
            Some(server) => server,
            None => BackgroundServer::start(disk, Advertisement::of(disk.lock().profile()))?,
        };
        let uri = self.server.insert(server).uri();
        let engine = NbdEngine::connect(uri, MonotonicClock, self.slots.buffers()?)?;
        let size = disk.lock().size();
        Ok((engine, size))
    }

    fn reconnect(&mut self, before: Self::Engine) -> Result<Option<Self::Engine>, AnyError> {
        drop(before);
        if !restore_power(&self.disk[0]) {
            return Ok(None);
        }
        Ok(Some(self.connect()?.0))
    }

    /// A disk in memory answers in microseconds; a longer wait is a wait for a processor.
    fn life_max(&self) -> Nanos {
        Nanos::new(10_000_000_000)
    }

    /// If the clock is the machine's, cutting later would make each proof different.
    fn phase_max(&self) -> Nanos {
        Nanos::ZERO
    }
}

/// A campaign on one disk, or on one array.
#[derive(Debug)]
pub struct Simulation<A: DiskAccess> {
    access: A,
    engine: Option<A::Engine>,
    owner: StampOwner,
    arm: Arm,
    layout: Layout,
    ledger: Ledger,
    history: History,
    next_seq: u64,
    chance: Xoshiro256PlusPlus,
    readings: [Vec<ObservedCell>; 2],
}

impl Simulation<ByCall> {
    /// A disk in this process, stamped by the arm's path.
    ///
    /// # Errors
    /// If stamping it fails.
    ///
    /// # Panics
    /// If the disk is too small.
    pub fn new(profile: Profile, arm: Arm, seed: u64) -> Result<Self, AnyError> {
        Self::with(arm, seed, |slots, chance| ByCall {
            disk: [SharedDisk::new(Disk::new(profile, chance.next_u64()))],
            slots,
            seed,
        })
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
    pub fn over_nbd(profile: Profile, arm: Arm, seed: u64) -> Result<Self, AnyError> {
        Self::with(arm, seed, |slots, chance| ByNbd {
            disk: [SharedDisk::new(Disk::new(profile, chance.next_u64()))],
            slots,
            server: None,
        })
    }
}

impl Simulation<ByArray> {
    /// An array of such disks in this process, stamped by the arm's path.
    ///
    /// # Errors
    /// If the disks make no array, or stamping it fails.
    ///
    /// # Panics
    /// If the array is too small.
    pub fn of_array(disks: &ArrayDisks, arm: Arm, seed: u64) -> Result<Self, AnyError> {
        Self::with(arm, seed, |slots, chance| ByArray::new(disks, slots, chance.next_u64()))
    }
}

impl<A: DiskAccess> Simulation<A> {
    fn with(
        mut arm: Arm,
        seed: u64,
        make: impl FnOnce(Slots, &mut Xoshiro256PlusPlus) -> A,
    ) -> Result<Self, AnyError> {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut access = make(Slots::of(arm), &mut chance);
        if arm.path == DurablePath::ODsync {
            // No file can be opened with the durable flag, so each write carries it.
            arm.path = DurablePath::RwfDsync;
        }
        let (mut engine, size) = access.connect()?;
        let layout = Layout::new(size / CELL as u64);
        let mut run = [0; 16];
        chance.fill_bytes(&mut run);
        let owner = StampOwner { run, target: 1 };
        prepare(&mut engine, owner, arm.path, layout.stamped())?;
        let history = History::new(layout.stamped(), now(&engine));
        Ok(Self {
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

    /// The disk, with its truth; the first one of an array.
    #[must_use]
    pub fn disk(&self) -> &SharedDisk {
        &self.access.disks()[0]
    }

    /// One life of the target: load, cut, verification. A target that did not come back from a cut
    /// has no further life.
    ///
    /// # Errors
    /// If the engine, the disks or the ledger fail; losses are findings.
    ///
    /// # Panics
    /// If it did not come back from the cut before.
    pub fn cut(&mut self) -> Result<CutFindings, AnyError> {
        let mut engine = self.engine.take().expect("the target came back");
        self.load(&mut engine)?;
        cut_power(self.access.disks());
        for &entry in self.ledger.entries() {
            self.history.take(entry)?;
        }
        self.history.take(LedgerEntry::Cut { at: now(&engine) })?;
        let Some(mut engine) = self.access.reconnect(engine)? else {
            return Ok(gone(Some(&self.history)));
        };
        let found = self.verify(&mut engine)?;
        self.history.begin_life();
        self.ledger.clear();
        self.engine = Some(engine);
        Ok(found)
    }

    fn load(&mut self, engine: &mut A::Engine) -> Result<(), AnyError> {
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

    fn verify(&mut self, engine: &mut A::Engine) -> Result<CutFindings, AnyError> {
        let owner = self.owner;
        let [first, second] = &mut self.readings;
        observe(engine, owner, self.layout.stamped(), self.arm.depth, first)?;
        self.access.settle(engine)?;
        observe(engine, owner, self.layout.stamped(), self.arm.depth, second)?;
        let again = |cell| observe_cell(engine, owner, cell);
        Ok(classify(&mut self.history, [first, second], again)?)
    }
}

fn now(engine: &impl Engine) -> Nanos {
    Nanos::new(engine.clock().nanos(engine.clock().now().0))
}

/// One start in this many is cut again, while superblocks are stored or copies are made equal.
const CUT_AGAIN_ONE_IN: u64 = 4;
/// Events of such a start, at most.
const CUT_AGAIN_WITHIN: u64 = 200;

/// An array, and the disks that it is made of.
#[derive(Debug, Clone)]
pub struct ArrayDisks {
    /// How data is spread.
    pub level: RaidLevel,
    /// Its members, in order. They start to lie when the array was created.
    pub members: Vec<Profile>,
    /// The deliberate fault of the engine; only with its feature `simulate`.
    pub fault: Option<Fault>,
}

impl ArrayDisks {
    /// The disks of a target; `None` if its profile has no name here.
    #[must_use]
    pub fn of(target: &ArrayTarget) -> Option<Self> {
        let lying = named(&target.profile)?.profile(target.size.get());
        let honest = Profile { lies: Vec::new(), ..lying.clone() };
        let lies = |member| target.liar.is_none_or(|liar| liar == member);
        let member = |member| if lies(member) { lying.clone() } else { honest.clone() };
        Some(Self {
            level: target.level,
            members: (0..target.members).map(member).collect(),
            fault: None,
        })
    }
}

/// By a call, on a virtual clock.
#[derive(Debug)]
pub struct ByArray {
    level: RaidLevel,
    fault: Option<Fault>,
    disks: Vec<SharedDisk>,
    /// Each disk's lies, from the creation of the array on.
    lies: Vec<Vec<Lie>>,
    slots: Slots,
    chance: Xoshiro256PlusPlus,
}

impl ByArray {
    fn new(disks: &ArrayDisks, slots: Slots, seed: u64) -> Self {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let honest = |profile: &Profile| Profile { lies: Vec::new(), ..profile.clone() };
        let mut disk = |profile| SharedDisk::new(Disk::new(honest(profile), chance.next_u64()));
        Self {
            level: disks.level,
            fault: disks.fault,
            disks: disks.members.iter().map(&mut disk).collect(),
            lies: disks.members.iter().map(|member| member.lies.clone()).collect(),
            slots,
            chance,
        }
    }

    fn start(&mut self, at: Ticks) -> Result<ArrayEngine, AnyError> {
        let start = ArrayStart { at, seed: self.chance.next_u64(), fault: self.fault };
        Ok(ArrayEngine::start(&self.disks, start, self.slots.buffers()?)?)
    }

    fn restore(&self) {
        for disk in &self.disks {
            if !restore_power(disk) {
                // A disk that came back smaller stops being a member.
                disk.lock().cut();
            }
        }
    }
}

impl DiskAccess for ByArray {
    type Engine = ArrayEngine;

    fn disks(&self) -> &[SharedDisk] {
        &self.disks
    }

    fn connect(&mut self) -> Result<(ArrayEngine, u64), AnyError> {
        let size = create_array(&self.disks, self.level)?;
        for (disk, lies) in self.disks.iter().zip(&self.lies) {
            lies.iter().for_each(|&lie| disk.lock().add_lie(lie));
        }
        Ok((self.start(Ticks(0))?, size))
    }

    fn reconnect(&mut self, before: ArrayEngine) -> Result<Option<ArrayEngine>, AnyError> {
        // Requests in flight are lost with the array.
        let mut at = before.clock().now();
        loop {
            self.restore();
            let mut array = match self.start(at) {
                Ok(array) => array,
                Err(error) if error.is::<AssembleError>() => return Ok(None),
                Err(error) => return Err(error),
            };
            if !self.chance.next_u64().is_multiple_of(CUT_AGAIN_ONE_IN) {
                return Ok(Some(array));
            }
            array.pass(self.chance.next_u64() % CUT_AGAIN_WITHIN);
            cut_power(&self.disks);
            at = array.clock().now();
        }
    }

    fn settle(&mut self, array: &mut ArrayEngine) -> Result<(), AnyError> {
        array.replace_lost();
        if array.settle() { Ok(()) } else { Err("the array's copies did not get in sync".into()) }
    }
}

/// Cuts the power of all disks in one instant.
pub fn cut_power(disks: &[SharedDisk]) {
    // All are locked first, so that no disk takes a request between the first cut and the last.
    let mut held: Vec<_> = disks.iter().map(SharedDisk::lock).collect();
    held.iter_mut().for_each(|disk| disk.cut());
}

/// Restores a disk's power, and returns whether it came back with its full size.
#[must_use]
pub fn restore_power(disk: &SharedDisk) -> bool {
    let disk = &mut *disk.lock();
    disk.restore().is_ok() && disk.size() == disk.profile().size
}
