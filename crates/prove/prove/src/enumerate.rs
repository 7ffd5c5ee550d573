//! Every state in which a power cut may leave a disk, from one recorded run.
//!
//! ```text
//!  recording ──► durable image ──┐
//!            └─► unflushed writes ├──► states ──► check ──► counts, first failures
//!                 └─► subsets ────┘
//! ```
//!
//! Takes a recording of an honest disk and a check of an image. Returns how many states there were,
//! how many failed, and the first failures, each with a name that recreates it ([`visit_one`]).
//! [`stamped`] has the check for the prover's writer.
//!
//! Between two boundaries (a mark, a flush or a write with FUA that makes something durable) the
//! durable image is the same, and writes only join the unflushed ones. So the states of a stretch
//! are those at its end: the image, with none of the unflushed writes, one, two, all but one, or
//! all of them, each whole, later ones over earlier ones. Small and large subsets find whatever can
//! be found (Chipmunk, EuroSys'23). States with the same contents after the same mark are checked
//! once.

pub mod stamped;
mod subset;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;

use durio_base::counted;
use durio_simdisk::{DiskEvent, Image, Recording, Unflushed, Write, trace};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use twox_hash::XxHash3_64;

use subset::{sample, subsets, subsets_of};

pub use subset::{StateName, StateNameError, Subset};

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnumerationLimits {
    /// Subsets for each stretch between two boundaries; if there are more, a seed chooses some of
    /// each size.
    pub subsets: usize,
    /// States in all. If there are more, each stretch gets fewer; if there are more stretches, the
    /// seed chooses some of them.
    pub states: usize,
    /// Failures to list individually.
    pub failures: usize,
    pub seed: u64,
}

impl Default for EnumerationLimits {
    /// All pairs of 43 unflushed writes, in every stretch.
    fn default() -> Self {
        Self { subsets: 1000, states: usize::MAX, failures: 10, seed: 0 }
    }
}

/// The kind of the last boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary<'a> {
    Start,
    Mark(&'a str),
    Flush,
    /// The end of a write with FUA.
    Fua,
    /// A cut and its survivors.
    Cut,
}

/// A state of the disk after a cut.
#[derive(Debug, Clone, Copy)]
pub struct CutState<'a> {
    /// The last boundary before the cut.
    pub boundary: Boundary<'a>,
    /// The last mark before the cut that the recorded program set.
    pub mark: Option<&'a str>,
    /// Such marks before the cut.
    pub marks: usize,
    /// Events before the cut.
    pub events: usize,
    /// Writes that were not durable, in the order in which they began.
    pub unflushed: &'a [Write],
    /// Which of them survived.
    pub subset: Subset,
    /// The same by their places.
    pub kept: &'a [usize],
}

impl CutState<'_> {
    /// The name of the state in this recording.
    #[must_use]
    pub const fn name(&self) -> StateName {
        StateName { events: self.events, subset: self.subset }
    }
}

/// A state that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedState {
    pub name: StateName,
    /// The same in words.
    pub state: String,
    pub reason: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enumeration {
    pub stretches: u64,
    /// States that were checked.
    pub states: u64,
    /// States with contents that had been checked before.
    pub duplicates: u64,
    /// Subsets of these sizes that were not tried because of the limit.
    pub left_out: u64,
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<FailedState>,
}

/// Checks each state in which a cut may leave the disk.
pub fn enumerate(
    recording: &Recording,
    limits: EnumerationLimits,
    mut check: impl FnMut(&Image, &CutState<'_>) -> Result<(), String>,
) -> Enumeration {
    let (mut failed, mut failures) = (0, Vec::new());
    let found = visit(recording, limits, |image, state| {
        if let Err(reason) = check(image, state) {
            failed += 1;
            if failures.len() < limits.failures {
                failures.push(FailedState { name: state.name(), state: state.to_string(), reason });
            }
        }
        ControlFlow::Continue(())
    });
    Enumeration { failed, failures, ..found }
}

/// Shows each state to `visitor` until it stops. No state counts as failed.
pub fn visit(
    recording: &Recording,
    limits: EnumerationLimits,
    visitor: impl FnMut(&Image, &CutState<'_>) -> ControlFlow<()>,
) -> Enumeration {
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(limits.seed);
    let share = StretchShare::of(recording, limits, &mut chance);
    let mut walk = StateWalk {
        point: RecordingPoint::begin(recording),
        content: 0,
        checked: HashSet::new(),
        limits,
        share,
        chance,
        visitor,
        found: Enumeration::default(),
    };
    for (at, event) in recording.events().iter().enumerate() {
        if let Some(boundary) = boundary_of(event, &walk.point.unflushed) {
            if walk.stretch(at).is_break() {
                return walk.found;
            }
            walk.cross(boundary);
        }
        walk.take(event);
    }
    // The last one ends the walk either way.
    let _ = walk.stretch(recording.events().len());
    walk.found
}

/// Shows the state of this name; `None` if the recording has no such state.
pub fn visit_one<T>(
    recording: &Recording,
    name: StateName,
    visitor: impl FnOnce(&Image, &CutState<'_>) -> T,
) -> Option<T> {
    let mut point = RecordingPoint::begin(recording);
    for event in recording.events().get(..name.events)? {
        if let Some(boundary) = boundary_of(event, &point.unflushed) {
            point.cross(boundary);
        }
        point.unflushed.take(event).iter().for_each(|write| write.store_to(&mut point.durable));
    }
    let unflushed: Vec<Write> = point.unflushed.writes().cloned().collect();
    if !name.subset.is_of(unflushed.len()) {
        return None;
    }
    let mut kept = Vec::new();
    name.subset.places(unflushed.len(), &mut kept);
    let state = point.state(name.events, &unflushed, (name.subset, &kept));
    Some(visitor(&image_of(&point.durable, &state), &state))
}

/// The contents of the disk in a state.
fn image_of(durable: &Image, state: &CutState<'_>) -> Image {
    let mut image = durable.clone();
    state.kept.iter().for_each(|&place| state.unflushed[place].store_to(&mut image));
    image
}

fn boundary_of<'a>(event: &'a DiskEvent, unflushed: &Unflushed) -> Option<Boundary<'a>> {
    match event {
        // The log's own marks acknowledge nothing.
        DiskEvent::Mark(name) if [trace::END_MARK, trace::CUT_MARK].contains(&name.as_str()) => {
            None
        }
        DiskEvent::Mark(name) => Some(Boundary::Mark(name)),
        DiskEvent::Cut => Some(Boundary::Cut),
        _ if !unflushed.changes_with(event) => None,
        DiskEvent::Flushed { .. } => Some(Boundary::Flush),
        _ => Some(Boundary::Fua),
    }
}

/// How many states each stretch gets.
struct StretchShare {
    subsets: usize,
    /// The chosen stretches; `None` for all.
    chosen: Option<HashSet<u64>>,
}

impl StretchShare {
    fn of(
        recording: &Recording,
        limits: EnumerationLimits,
        chance: &mut Xoshiro256PlusPlus,
    ) -> Self {
        let mut share = Self { subsets: limits.subsets, chosen: None };
        if limits.states == usize::MAX {
            return share;
        }
        let stretches = stretches(recording);
        let states = |most: usize| {
            let of = |&unflushed: &usize| subsets_of(unflushed).min(most);
            stretches.iter().map(of).fold(0, usize::saturating_add)
        };
        // Every stretch gets at least the subsets with none and all of the writes.
        let fits = (2..=limits.subsets).rev().find(|&most| states(most) <= limits.states);
        share.subsets = fits.unwrap_or(2);
        if fits.is_none() {
            let chosen = sample(stretches.len(), limits.states.div_ceil(2), chance);
            share.chosen = Some(chosen.into_iter().map(|number| number as u64).collect());
        }
        share
    }
}

/// How many unflushed writes there are at the end of each stretch.
fn stretches(recording: &Recording) -> Vec<usize> {
    let (mut unflushed, mut counts) = (Unflushed::default(), Vec::new());
    for event in recording.events() {
        if boundary_of(event, &unflushed).is_some() {
            counts.push(unflushed.writes().len());
        }
        unflushed.take(event);
    }
    counts.push(unflushed.writes().len());
    counts
}

/// A moment of a recording.
struct RecordingPoint<'a> {
    durable: Image,
    unflushed: Unflushed,
    boundary: Boundary<'a>,
    mark: Option<&'a str>,
    marks: usize,
}

impl<'a> RecordingPoint<'a> {
    fn begin(recording: &Recording) -> Self {
        Self {
            durable: recording.base().clone(),
            unflushed: Unflushed::default(),
            boundary: Boundary::Start,
            mark: None,
            marks: 0,
        }
    }

    fn cross(&mut self, boundary: Boundary<'a>) {
        self.boundary = boundary;
        if let Boundary::Mark(name) = boundary {
            self.mark = Some(name);
            self.marks += 1;
        }
    }

    const fn state<'s>(
        &self,
        events: usize,
        unflushed: &'s [Write],
        (subset, kept): (Subset, &'s [usize]),
    ) -> CutState<'s>
    where
        'a: 's,
    {
        let Self { boundary, mark, marks, .. } = *self;
        CutState { boundary, mark, marks, events, unflushed, subset, kept }
    }
}

struct StateWalk<'a, V> {
    point: RecordingPoint<'a>,
    /// The contents of the durable image, as one number.
    content: u64,
    /// Contents that were checked since the last mark.
    checked: HashSet<u64>,
    limits: EnumerationLimits,
    share: StretchShare,
    chance: Xoshiro256PlusPlus,
    visitor: V,
    found: Enumeration,
}

impl<'a, V: FnMut(&Image, &CutState<'_>) -> ControlFlow<()>> StateWalk<'a, V> {
    fn take(&mut self, event: &DiskEvent) {
        let point = &mut self.point;
        for write in point.unflushed.take(event) {
            for (sector, bytes) in write.sectors() {
                let before = value_of(sector, point.durable.sector(sector));
                let change = value_of(sector, bytes).wrapping_sub(before);
                self.content = self.content.wrapping_add(change);
            }
            write.store_to(&mut point.durable);
        }
    }

    fn cross(&mut self, boundary: Boundary<'a>) {
        self.point.cross(boundary);
        if matches!(boundary, Boundary::Mark(_)) {
            // After this, a different result may be expected of the same contents.
            self.checked.clear();
        }
    }

    /// The states of the stretch that ends here.
    fn stretch(&mut self, events: usize) -> ControlFlow<()> {
        let number = self.found.stretches;
        self.found.stretches += 1;
        let unflushed: Vec<Write> = self.point.unflushed.writes().cloned().collect();
        if self.share.chosen.as_ref().is_some_and(|chosen| !chosen.contains(&number)) {
            self.found.left_out += subsets_of(unflushed.len()) as u64;
            return ControlFlow::Continue(());
        }
        let mut contents = SectorContents::new(&self.point.durable, &unflushed);
        let chosen = subsets(unflushed.len(), self.share.subsets, &mut self.chance);
        self.found.left_out += chosen.left_out;
        let mut kept = Vec::with_capacity(unflushed.len());
        for subset in chosen.list {
            subset.places(unflushed.len(), &mut kept);
            let content = self.content.wrapping_add(contents.change(&kept));
            if !self.checked.insert(content) {
                self.found.duplicates += 1;
            } else if self.found.states >= self.limits.states as u64 {
                self.found.left_out += 1;
            } else {
                let state = self.point.state(events, &unflushed, (subset, &kept));
                self.found.states += 1;
                (self.visitor)(&image_of(&self.point.durable, &state), &state)?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl fmt::Display for Boundary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("after the start"),
            Self::Mark(name) => write!(f, "after mark '{name}'"),
            Self::Flush => f.write_str("after a flush"),
            Self::Fua => f.write_str("after a write with FUA"),
            Self::Cut => f.write_str("after a cut"),
        }
    }
}

impl fmt::Display for CutState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.unflushed.len();
        write!(f, "{}, {}, ", self.boundary, counted(self.events as u64, "event"))?;
        let (kept, places) = match self.kept.len() {
            _ if all == 0 => return f.write_str("nothing unflushed"),
            0 => return write!(f, "without its {all} unflushed writes"),
            kept if kept == all => return write!(f, "with its {all} unflushed writes"),
            kept if kept * 2 <= all => ("with", self.kept.to_vec()),
            _ => ("without", (0..all).filter(|place| !self.kept.contains(place)).collect()),
        };
        write!(f, "of its {all} unflushed writes {kept}")?;
        for (number, &place) in places.iter().enumerate() {
            let sector = self.unflushed[place].first_sector().unwrap_or(0);
            let comma = if number > 0 { "," } else { "" };
            write!(f, "{comma} number {place} (sector {sector})")?;
        }
        Ok(())
    }
}

/// The value of a sector with these bytes; that of zeros is 0. The contents of a state are one number,
/// the sum of these: among a million states, two different ones have the same sum once in 10^7 runs.
fn value_of(sector: u64, bytes: Option<&[u8]>) -> u64 {
    match bytes {
        Some(bytes) if bytes.iter().any(|&byte| byte != 0) => {
            mixed(XxHash3_64::oneshot(bytes) ^ mixed(sector))
        }
        _ => 0,
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The sectors that some writes touch, each with a place here.
struct SectorContents {
    /// The values without the writes.
    before: Vec<u64>,
    /// For each write, its sectors by their places, and the values that it gives them.
    writes: Vec<Vec<(usize, u64)>>,
    /// The round in which each sector was last counted.
    counted: Vec<u64>,
    round: u64,
}

impl SectorContents {
    fn new(image: &Image, writes: &[Write]) -> Self {
        let mut places = HashMap::new();
        let mut before = Vec::new();
        let sectors_of = |write: &Write| {
            let place_of = |(sector, bytes)| {
                let place = *places.entry(sector).or_insert_with(|| {
                    before.push(value_of(sector, image.sector(sector)));
                    before.len() - 1
                });
                (place, value_of(sector, bytes))
            };
            write.sectors().map(place_of).collect()
        };
        let writes = writes.iter().map(sectors_of).collect();
        let counted = vec![0; before.len()];
        Self { before, writes, counted, round: 0 }
    }

    /// By how much these writes change the sum, each over those before it.
    fn change(&mut self, kept: &[usize]) -> u64 {
        self.round += 1;
        let mut change = 0_u64;
        for &write in kept.iter().rev() {
            for &(place, value) in &self.writes[write] {
                if self.counted[place] != self.round {
                    self.counted[place] = self.round;
                    change = change.wrapping_add(value).wrapping_sub(self.before[place]);
                }
            }
        }
        change
    }
}
