//! Every state in which a power cut may leave a disk, from one recorded run.
//!
//! ```text
//!  recording ──► durable image ──┐
//!            └─► unflushed writes ├──► states ──► check ──► counts, first failures
//!                 └─► subsets ────┘
//! ```
//!
//! In: a recording of an honest disk, and a check of an image. Out: how many states there were, how many
//! failed, and the first of those, so that one can be made again ([`image_of`]). Not here: who wrote,
//! what a check looks for ([`stamped`] has the prover's own).
//!
//! Between two boundaries (a mark, a flush or a write with FUA that makes something durable) the durable
//! image is the same, and writes only join the unflushed ones. So the states of a stretch are those at its
//! end: the image, with none of the unflushed writes, one, two, all but one, or all of them, each whole,
//! later ones over earlier ones. Small and large subsets find what is found at all (Chipmunk,
//! EuroSys'23). States of the same contents after the same mark are checked once.

mod contents;
pub mod stamped;
mod subsets;

use std::collections::HashSet;
use std::fmt;

use durio_simdisk::{Event, Image, Recording, Unflushed, Write};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use contents::{Contents, value_of};
use subsets::{Subset, subsets};

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Subsets for each stretch between two boundaries; of more a seed chooses some of each size.
    pub subsets: usize,
    /// Failures that are told one by one.
    pub failures: usize,
    /// The seed.
    pub seed: u64,
}

impl Default for Limits {
    /// All pairs of 43 unflushed writes.
    fn default() -> Self {
        Self { subsets: 1000, failures: 10, seed: 0 }
    }
}

/// What the last boundary was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary<'a> {
    /// The recording's begin.
    Start,
    /// A mark.
    Mark(&'a str),
    /// A flush.
    Flush,
    /// The end of a write with FUA.
    Fua,
    /// A cut, and what it left.
    Cut,
}

/// A state of the disk after a cut.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// The last boundary before the cut.
    pub boundary: Boundary<'a>,
    /// Marks before the cut.
    pub marks: usize,
    /// Events before the cut.
    pub events: usize,
    /// Writes that were not durable, in the order in which they began.
    pub unflushed: &'a [Write],
    /// Which of them survived, by their place.
    pub kept: &'a [usize],
}

/// A state that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Events before the cut.
    pub events: usize,
    /// Unflushed writes that survived, by their place.
    pub kept: Vec<usize>,
    /// The same in words.
    pub state: String,
    /// What the check said.
    pub reason: String,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enumeration {
    /// Stretches between boundaries.
    pub stretches: u64,
    /// States that were checked.
    pub states: u64,
    /// States that had been checked, by their contents.
    pub duplicates: u64,
    /// Subsets of these sizes that were not tried, because there were too many.
    pub left_out: u64,
    /// States that failed.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Failure>,
}

/// Checks each state in which a cut may leave the disk.
pub fn enumerate(
    recording: &Recording,
    limits: Limits,
    check: impl FnMut(&Image, &State<'_>) -> Result<(), String>,
) -> Enumeration {
    let mut walk = Walk {
        durable: recording.base().clone(),
        unflushed: Unflushed::default(),
        boundary: Boundary::Start,
        marks: 0,
        content: 0,
        checked: HashSet::new(),
        limits,
        chance: Xoshiro256PlusPlus::seed_from_u64(limits.seed),
        check,
        found: Enumeration::default(),
    };
    for (at, event) in recording.events().iter().enumerate() {
        if let Some(boundary) = boundary_of(event, &walk.unflushed) {
            walk.stretch(at);
            walk.cross(boundary);
        }
        walk.take(event);
    }
    walk.stretch(recording.events().len());
    walk.found
}

/// The contents of one state: after so many events, with these of the unflushed writes.
///
/// # Panics
/// If there are fewer events, or unflushed writes.
#[must_use]
pub fn image_of(recording: &Recording, events: usize, kept: &[usize]) -> Image {
    let mut image = recording.base().clone();
    let mut unflushed = Unflushed::default();
    for event in &recording.events()[..events] {
        unflushed.take(event).iter().for_each(|write| write.store_to(&mut image));
    }
    let writes: Vec<&Write> = unflushed.writes().collect();
    kept.iter().for_each(|&place| writes[place].store_to(&mut image));
    image
}

fn boundary_of<'a>(event: &'a Event, unflushed: &Unflushed) -> Option<Boundary<'a>> {
    match event {
        Event::Mark(name) => Some(Boundary::Mark(name)),
        Event::Cut => Some(Boundary::Cut),
        _ if !unflushed.changes_with(event) => None,
        Event::Flushed { .. } => Some(Boundary::Flush),
        _ => Some(Boundary::Fua),
    }
}

struct Walk<'a, C> {
    durable: Image,
    unflushed: Unflushed,
    boundary: Boundary<'a>,
    marks: usize,
    /// What the durable image holds, as one number.
    content: u64,
    /// Contents that were checked since the last mark.
    checked: HashSet<u64>,
    limits: Limits,
    chance: Xoshiro256PlusPlus,
    check: C,
    found: Enumeration,
}

impl<'a, C: FnMut(&Image, &State<'_>) -> Result<(), String>> Walk<'a, C> {
    fn take(&mut self, event: &Event) {
        for write in self.unflushed.take(event) {
            for (sector, bytes) in write.sectors() {
                let before = value_of(sector, self.durable.sector(sector));
                let change = value_of(sector, bytes).wrapping_sub(before);
                self.content = self.content.wrapping_add(change);
            }
            write.store_to(&mut self.durable);
        }
    }

    fn cross(&mut self, boundary: Boundary<'a>) {
        self.boundary = boundary;
        if matches!(boundary, Boundary::Mark(_)) {
            self.marks += 1;
            // From now on something else may be expected of the same contents.
            self.checked.clear();
        }
    }

    /// The states of the stretch that ends here.
    fn stretch(&mut self, events: usize) {
        self.found.stretches += 1;
        let unflushed: Vec<Write> = self.unflushed.writes().cloned().collect();
        let mut contents = Contents::new(&self.durable, &unflushed);
        let chosen = subsets(unflushed.len(), self.limits.subsets, &mut self.chance);
        self.found.left_out += chosen.left_out;
        let mut kept = Vec::with_capacity(unflushed.len());
        for subset in chosen.list {
            subset.places(unflushed.len(), &mut kept);
            let content = self.content.wrapping_add(contents.change(&kept));
            if self.checked.insert(content) {
                let Self { boundary, marks, .. } = *self;
                let unflushed = unflushed.as_slice();
                self.state(&State { boundary, marks, events, unflushed, kept: &kept });
            } else {
                self.found.duplicates += 1;
            }
        }
    }

    fn state(&mut self, state: &State<'_>) {
        let mut image = self.durable.clone();
        state.kept.iter().for_each(|&place| state.unflushed[place].store_to(&mut image));
        self.found.states += 1;
        let Err(reason) = (self.check)(&image, state) else { return };
        self.found.failed += 1;
        if self.found.failures.len() < self.limits.failures {
            let (events, kept) = (state.events, state.kept.to_vec());
            self.found.failures.push(Failure { events, kept, state: state.to_string(), reason });
        }
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

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.unflushed.len();
        write!(f, "{}, {} events, ", self.boundary, self.events)?;
        let (kept, places) = match self.kept.len() {
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

/// The subsets of a stretch as they are handed on.
struct Chosen {
    list: Vec<Subset>,
    left_out: u64,
}
