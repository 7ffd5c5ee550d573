//! A target that is durio's array of simulated disks.
//!
//! Takes profiles of its members and returns an engine over the array, which is assembled again
//! after each cut.

use durio_base::Nanos;
use durio_block::{Clock, Engine, Ticks};
use durio_plan::proof::{ArrayLevel, ArrayTarget};
use durio_raid::simulated::array::{ArrayEngine, ArrayStart, create_array};
use durio_raid::{Fault, Level};
use durio_simdisk::{Disk, Lie, Profile, SharedDisk, named};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{DiskAccess, SimulationError, Slots};
use crate::power;

/// One start in this many is cut again, while superblocks are stored or copies are made equal.
const CUT_AGAIN_ONE_IN: u64 = 4;
/// Events of such a start, at most.
const CUT_AGAIN_WITHIN: u64 = 200;

/// An array, and the disks that it is made of.
#[derive(Debug, Clone)]
pub struct ArrayDisks {
    /// How data is spread.
    pub level: Level,
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
        let level = match target.level {
            ArrayLevel::Raid1 => Level::Mirrored,
            ArrayLevel::Raid5 => Level::Parity,
            ArrayLevel::Raid6 => Level::DoubleParity,
            ArrayLevel::Raid10 => Level::StripedMirrors,
        };
        Some(Self { level, members: (0..target.members).map(member).collect(), fault: None })
    }
}

/// By a call, on a virtual clock.
#[derive(Debug)]
pub struct ByArray {
    level: Level,
    fault: Option<Fault>,
    disks: Vec<SharedDisk>,
    /// Each disk's lies, from the creation of the array on.
    lies: Vec<Vec<Lie>>,
    slots: Slots,
    chance: Xoshiro256PlusPlus,
}

impl ByArray {
    pub(super) fn new(disks: &ArrayDisks, slots: Slots, seed: u64) -> Self {
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

    fn start(&mut self, at: Ticks) -> Result<ArrayEngine, SimulationError> {
        let start = ArrayStart { at, seed: self.chance.next_u64(), fault: self.fault };
        Ok(ArrayEngine::start(&self.disks, start, self.slots.buffers()?)?)
    }

    fn restore(&self) {
        for disk in &self.disks {
            if !power::restore(disk) {
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

    fn connect(&mut self) -> Result<(ArrayEngine, u64), SimulationError> {
        let size = create_array(&self.disks, self.level)?;
        for (disk, lies) in self.disks.iter().zip(&self.lies) {
            lies.iter().for_each(|&lie| disk.lock().add_lie(lie));
        }
        Ok((self.start(Ticks(0))?, size))
    }

    fn reconnect(&mut self, before: ArrayEngine) -> Result<Option<ArrayEngine>, SimulationError> {
        // Requests in flight are lost with the array.
        let mut at = before.clock().now();
        loop {
            self.restore();
            let mut array = match self.start(at) {
                Ok(array) => array,
                Err(SimulationError::Assemble(_)) => return Ok(None),
                Err(error) => return Err(error),
            };
            if !self.chance.next_u64().is_multiple_of(CUT_AGAIN_ONE_IN) {
                return Ok(Some(array));
            }
            array.pass(self.chance.next_u64() % CUT_AGAIN_WITHIN);
            power::cut(&self.disks);
            at = array.clock().now();
        }
    }

    fn settle(&mut self, array: &mut ArrayEngine) -> Result<(), SimulationError> {
        array.replace_lost();
        if array.settle() { Ok(()) } else { Err(SimulationError::Restless) }
    }

    /// In virtual time, which costs nothing.
    fn life_max(&self) -> Nanos {
        Nanos::new(60_000_000_000)
    }

    /// A commit of the honest pace.
    fn phase_max(&self) -> Nanos {
        Nanos::new(600_000)
    }
}
