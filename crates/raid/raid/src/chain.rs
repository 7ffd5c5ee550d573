//! A list of slots, linked through an array: queues of parts without allocation. Slots come out in
//! the order in which they went in.

/// No slot.
pub(crate) const NONE: u16 = u16::MAX;

/// First and last of a list. A slot is in one list at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    first: u16,
    last: u16,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self { first: NONE, last: NONE };

    pub(crate) fn is_empty(self) -> bool {
        self.first == NONE
    }

    pub(crate) fn push(&mut self, slot: u16, links: &mut [u16]) {
        links[usize::from(slot)] = NONE;
        match self.last {
            NONE => self.first = slot,
            last => links[usize::from(last)] = slot,
        }
        self.last = slot;
    }

    pub(crate) fn pop(&mut self, links: &[u16]) -> Option<u16> {
        let first = (self.first != NONE).then_some(self.first)?;
        self.first = links[usize::from(first)];
        if self.first == NONE {
            self.last = NONE;
        }
        Some(first)
    }

    /// Appends all of another list.
    pub(crate) fn append(&mut self, other: Self, links: &mut [u16]) {
        if other.is_empty() {
            return;
        }
        match self.last {
            NONE => self.first = other.first,
            last => links[usize::from(last)] = other.first,
        }
        self.last = other.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_as_they_went_in() {
        let mut links = [NONE; 8];
        let (mut one, mut other) = (Chain::EMPTY, Chain::EMPTY);
        [3, 1, 7].into_iter().for_each(|slot| one.push(slot, &mut links));
        [0, 5].into_iter().for_each(|slot| other.push(slot, &mut links));
        one.append(other, &mut links);
        let out: Vec<u16> = std::iter::from_fn(|| one.pop(&links)).collect();
        assert_eq!((out, one.is_empty()), (vec![3, 1, 7, 0, 5], true));
    }
}
