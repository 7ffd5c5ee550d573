//! The model: which values may be read, derived from requests and answers alone.
//!
//! Takes announced and acknowledged writes, reads, and lost members; decides whether a value is
//! legal, independently of the engine.
//!
//! A sector may hold the last acknowledged write, or any write announced later. A read fixes its
//! value, unless a copy is lost while copies may still differ.

/// Values that a sector may hold.
#[derive(Debug, Clone, Default)]
struct SectorValues {
    acknowledged: u32,
    /// The request that wrote it.
    number: u32,
    /// The value read since, and the request that read it.
    seen: Option<(u32, u32)>,
    /// Requests later than `number` that were not acknowledged, and their values.
    open: Vec<(u32, u32)>,
    /// Since this request its copies may be a lying drive's: it holds any value once written there.
    weak_since: Option<u32>,
}

/// The value of a sector that was never written, or was discarded.
pub(super) const ZERO: u32 = 0;

/// All sectors of an array.
#[derive(Debug, Clone)]
pub(super) struct ArrayModel {
    sectors: Vec<SectorValues>,
    /// The last request before a copy was lost: its read may have come from that copy.
    lost_after: u32,
    /// By the number of a request: the sectors to which it wrote its number.
    written: Vec<std::ops::Range<usize>>,
    /// A weak sector may hold data that was never written.
    pub(super) holds_anything: bool,
}

impl ArrayModel {
    pub(super) fn new(sectors: usize) -> Self {
        let sectors = vec![SectorValues::default(); sectors];
        Self { sectors, lost_after: 0, written: Vec::new(), holds_anything: false }
    }

    pub(super) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// A request to write begins.
    pub(super) fn announce(&mut self, sectors: std::ops::Range<usize>, number: u32, value: u32) {
        if value != ZERO {
            self.written.resize(number as usize, 0..0);
            self.written.push(sectors.clone());
        }
        self.sectors[sectors].iter_mut().for_each(|sector| sector.open.push((number, value)));
    }

    pub(super) fn acknowledge(&mut self, sectors: std::ops::Range<usize>, number: u32, value: u32) {
        for sector in &mut self.sectors[sectors] {
            if number > sector.number {
                (sector.acknowledged, sector.number, sector.seen) = (value, number, None);
            }
            let last = sector.number;
            sector.open.retain(|&(number, _)| number > last);
        }
    }

    /// A value was read by the request of this number. False if that is illegal.
    pub(super) fn read(&mut self, sector: usize, number: u32, value: u32) -> bool {
        let sector = &mut self.sectors[sector];
        if sector.number > number || sector.seen.is_some_and(|(by, _)| by > number) {
            // A part of a longer read that finished before a later request: when it finished is
            // unknown.
            return true;
        }
        let is_open = |after: u32| {
            sector
                .open
                .iter()
                .any(|&(since, wrote)| wrote == value && after < since && since < number)
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
        if self.is_weak(sector) {
            return self.may_ever_hold(sector, Some(value));
        }
        let sector = &self.sectors[sector];
        value == sector.acknowledged || sector.open.iter().any(|&(_, wrote)| wrote == value)
    }

    /// Whether a lying drive may answer this: data once written there. `None` is data of another
    /// place.
    pub(super) fn may_ever_hold(&self, sector: usize, value: Option<u32>) -> bool {
        let was_written = |value: u32| {
            let sectors = self.written.get(value as usize);
            value == ZERO || sectors.is_some_and(|sectors| sectors.contains(&sector))
        };
        self.holds_anything || value.is_some_and(was_written)
    }

    pub(super) fn is_weak(&self, sector: usize) -> bool {
        self.sectors[sector].weak_since.is_some()
    }

    /// A request after this one was acknowledged.
    pub(super) fn was_written_after(&self, sector: usize, number: u32) -> bool {
        self.sectors[sector].number > number
    }

    /// It may hold older data from now on, after the request of this number.
    pub(super) fn weaken(&mut self, sector: usize, number: u32) {
        self.sectors[sector].weak_since = Some(number);
    }

    /// An honest copy has this request's value. An earlier request may have been written before it.
    pub(super) fn strengthen(&mut self, sector: usize, number: u32) {
        let since = &mut self.sectors[sector].weak_since;
        *since = since.filter(|since| *since >= number);
    }

    /// All copies hold this value, and nothing is on its way.
    pub(super) fn settle(&mut self, sector: usize, value: u32) {
        let sector = &mut self.sectors[sector];
        (sector.acknowledged, sector.seen, sector.weak_since) = (value, None, None);
        sector.open.clear();
    }

    /// A copy is lost after this request: where copies may differ, another may answer from now on.
    pub(super) fn lose_copy(&mut self, number: u32) {
        self.lost_after = number;
        self.sectors.iter_mut().for_each(|sector| sector.seen = None);
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
        let mut model = ArrayModel::new(1);
        model.announce(0..1, 1, 11);
        assert!(model.clone().read(0, 2, ZERO));
        assert!(model.clone().read(0, 2, 11));
        model.acknowledge(0..1, 1, 11);
        assert!(!model.clone().read(0, 2, ZERO));
        assert!(model.read(0, 2, 11));
    }

    #[test]
    fn what_was_read_once_is_read_again() {
        let mut model = ArrayModel::new(1);
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
        let mut model = ArrayModel::new(1);
        model.announce(0..1, 2, 22);
        assert!(!model.read(0, 1, 22));
    }
}
