//! What may be read: known from requests and answers alone.
//!
//! In: writes that are announced and acknowledged, reads, members that are lost. Out: whether a value is
//! legal. Not here: the engine, in any way.
//!
//! A sector may hold what was acknowledged last, or any write that was announced later. Once it was
//! read, it holds that: unless a copy is lost while copies may still differ.

/// Values that a sector may hold.
#[derive(Debug, Clone, Default)]
struct Sector {
    acknowledged: u32,
    /// The request that wrote it.
    number: u32,
    /// What was read since, and by which request.
    seen: Option<(u32, u32)>,
    /// Requests later than `number` that were not acknowledged, and what they wrote.
    open: Vec<(u32, u32)>,
}

/// A sector holds this if it was never written, or was discarded.
pub(super) const ZERO: u32 = 0;

/// All sectors of an array.
#[derive(Debug, Clone)]
pub(super) struct Model {
    sectors: Vec<Sector>,
    /// The last request before a copy was lost: what it read may have been of that copy.
    lost_after: u32,
}

impl Model {
    pub(super) fn new(sectors: usize) -> Self {
        Self { sectors: vec![Sector::default(); sectors], lost_after: 0 }
    }

    pub(super) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// A request to write begins.
    pub(super) fn announce(&mut self, sectors: std::ops::Range<usize>, number: u32, value: u32) {
        self.sectors[sectors].iter_mut().for_each(|it| it.open.push((number, value)));
    }

    /// It was acknowledged.
    pub(super) fn acknowledge(&mut self, sectors: std::ops::Range<usize>, number: u32, value: u32) {
        for sector in &mut self.sectors[sectors] {
            if number > sector.number {
                (sector.acknowledged, sector.number, sector.seen) = (value, number, None);
            }
            let last = sector.number;
            sector.open.retain(|&(it, _)| it > last);
        }
    }

    /// A value was read by the request of this number. False if it must not be.
    pub(super) fn read(&mut self, sector: usize, number: u32, value: u32) -> bool {
        let sector = &mut self.sectors[sector];
        if sector.number > number || sector.seen.is_some_and(|(by, _)| by > number) {
            // A part of a longer read, which was done before a later request: nothing tells how long.
            return true;
        }
        let is_open = |after: u32| {
            sector.open.iter().any(|&(it, wrote)| wrote == value && after < it && it < number)
        };
        let is_legal = match sector.seen {
            Some((seen_by, seen)) => value == seen || is_open(seen_by),
            None => value == sector.acknowledged || is_open(0),
        };
        if !sector.open.is_empty() && number > self.lost_after {
            sector.seen = Some((number, value));
        }
        is_legal
    }

    /// Whether a copy may hold a value on its medium.
    pub(super) fn may_hold(&self, sector: usize, value: u32) -> bool {
        let sector = &self.sectors[sector];
        value == sector.acknowledged || sector.open.iter().any(|&(_, it)| it == value)
    }

    /// All copies hold this value, and nothing is on its way.
    pub(super) fn settle(&mut self, sector: usize, value: u32) {
        let sector = &mut self.sectors[sector];
        (sector.acknowledged, sector.seen) = (value, None);
        sector.open.clear();
    }

    /// A copy is lost after this request: where copies may differ, another may answer from now on.
    pub(super) fn lose_copy(&mut self, number: u32) {
        self.lost_after = number;
        self.sectors.iter_mut().for_each(|it| it.seen = None);
    }

    pub(super) fn describe(&self, sector: usize) -> String {
        format!("{:?}", self.sectors[sector])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_write_may_not_be_lost() {
        let mut model = Model::new(1);
        model.announce(0..1, 1, 11);
        assert!(model.clone().read(0, 2, ZERO));
        assert!(model.clone().read(0, 2, 11));
        model.acknowledge(0..1, 1, 11);
        assert!(!model.clone().read(0, 2, ZERO));
        assert!(model.read(0, 2, 11));
    }

    #[test]
    fn what_was_read_once_is_read_again() {
        let mut model = Model::new(1);
        model.announce(0..1, 1, 11);
        assert!(model.read(0, 2, ZERO));
        assert!(!model.clone().read(0, 3, 11));
        model.announce(0..1, 4, 44);
        assert!(model.clone().read(0, 5, 44));
        assert!(!model.clone().read(0, 5, 11));
        model.lose_copy(4);
        assert!(model.read(0, 5, 11));
    }

    #[test]
    fn a_write_that_came_after_the_read_is_not_seen_by_it() {
        let mut model = Model::new(1);
        model.announce(0..1, 2, 22);
        assert!(!model.read(0, 1, 22));
    }
}
