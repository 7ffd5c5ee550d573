//! Which of its files a job uses next: the number of a file per access.

use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Which file is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChoice {
    /// The one after it, around at the end.
    #[default]
    InTurn,
    /// Any, each as likely as another.
    Random,
}

/// In which order a job uses several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOrder {
    /// Which file is next.
    pub choice: FileChoice,
    /// Accesses of a file before the next is chosen.
    pub run: u32,
    /// Files that are in use at the same time: another comes only when one of them is done. All
    /// files at 0.
    pub open_max: u32,
}

impl FileOrder {
    /// An access of each file in turn.
    pub const EACH_IN_TURN: Self = Self { choice: FileChoice::InTurn, run: 1, open_max: 0 };

    pub fn is_each_in_turn(&self) -> bool {
        *self == Self::EACH_IN_TURN
    }
}

impl Default for FileOrder {
    fn default() -> Self {
        Self::EACH_IN_TURN
    }
}

#[derive(Debug)]
pub(crate) struct FileTurns {
    order: FileOrder,
    /// Accesses in a file until it is done; none if no file ever is.
    each: Option<u64>,
    /// Accesses left in each file.
    left: Box<[u64]>,
    is_open: Box<[bool]>,
    open: usize,
    current: usize,
    run_left: u32,
    /// The next file to ask.
    turn: usize,
    /// The next turn is that of the same file again, and counts for nothing.
    is_kept: bool,
}

impl FileTurns {
    pub(crate) fn new(order: FileOrder, files: usize, each: Option<u64>) -> Self {
        let mut turns = Self {
            order,
            each,
            left: vec![0; files].into_boxed_slice(),
            is_open: vec![false; files].into_boxed_slice(),
            open: 0,
            current: 0,
            run_left: 0,
            turn: 0,
            is_kept: false,
        };
        turns.begin_pass();
        turns
    }

    /// No file is done, and the first ones are open, as many as may be.
    fn begin_pass(&mut self) {
        self.left.fill(self.each.unwrap_or(u64::MAX));
        self.open = self.open_max();
        for (file, is_open) in self.is_open.iter_mut().enumerate() {
            *is_open = file < self.open;
        }
        (self.run_left, self.turn) = (0, 0);
    }

    fn open_max(&self) -> usize {
        match self.order.open_max as usize {
            0 => self.left.len(),
            most => most.min(self.left.len()),
        }
    }

    /// The turn made no access: the file gets it again.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    pub(crate) fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> usize {
        if std::mem::take(&mut self.is_kept) {
            return self.current;
        }
        if self.run_left > 0 && self.left[self.current] > 0 {
            self.run_left -= 1;
        } else {
            self.current = self.choose(random);
            self.run_left = self.order.run.saturating_sub(1);
        }
        let file = self.current;
        if self.each.is_some() {
            self.left[file] -= 1;
            if self.left[file] == 0 {
                (self.is_open[file], self.open) = (false, self.open - 1);
                if self.left.iter().all(|&left| left == 0) {
                    self.begin_pass();
                }
            }
        }
        file
    }

    /// The next file that is not done and is open, or may be opened.
    fn choose(&mut self, random: &mut Xoshiro256PlusPlus) -> usize {
        let files = self.left.len();
        loop {
            let file = match self.order.choice {
                FileChoice::InTurn => self.turn,
                FileChoice::Random => {
                    let product = u128::from(random.next_u64()) * files as u128;
                    usize::try_from(product >> 64).unwrap_or(0)
                }
            };
            self.turn = if file + 1 == files { 0 } else { file + 1 };
            if self.left[file] == 0 {
                continue;
            }
            if !self.is_open[file] {
                if self.open == self.open_max() {
                    continue;
                }
                (self.is_open[file], self.open) = (true, self.open + 1);
            }
            return file;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;

    fn taken(order: FileOrder, files: usize, each: Option<u64>, count: usize) -> Vec<usize> {
        let mut turns = FileTurns::new(order, files, each);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        (0..count).map(|_| turns.next(&mut random)).collect()
    }

    #[test]
    fn files_are_used_in_turn_by_runs_and_by_how_many_may_be_open() {
        let in_turn = |run, open_max| FileOrder { choice: FileChoice::InTurn, run, open_max };
        let each = FileOrder::EACH_IN_TURN;
        assert_eq!(taken(each, 3, Some(2), 8), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(taken(each, 3, None, 7), [0, 1, 2, 0, 1, 2, 0]);
        let one_by_one = [0, 0, 0, 1, 1, 1, 2, 2, 2, 0];
        assert_eq!(taken(in_turn(1, 1), 3, Some(3), 10), one_by_one);
        assert_eq!(taken(in_turn(u32::MAX, 0), 3, Some(3), 10), one_by_one);
        assert_eq!(taken(in_turn(1, 2), 3, Some(2), 6), [0, 1, 0, 1, 2, 2]);
        assert_eq!(taken(in_turn(2, 0), 2, Some(3), 6), [0, 0, 1, 1, 0, 1]);
        assert_eq!(taken(in_turn(1, 2), 3, None, 5), [0, 1, 0, 1, 0], "no file is ever done");
    }

    #[test]
    fn files_are_drawn_evenly_and_each_is_used_to_its_end() {
        let random = |run, open_max| FileOrder { choice: FileChoice::Random, run, open_max };
        let pass = taken(random(1, 0), 4, Some(1000), 4000);
        for file in 0..4 {
            assert_eq!(pass.iter().filter(|&&drawn| drawn == file).count(), 1000);
            let early = pass[..1000].iter().filter(|&&drawn| drawn == file).count();
            assert!((200..300).contains(&early), "{file}: {early}");
        }
        let by_threes = taken(random(3, 0), 4, None, 3000);
        assert!(by_threes.chunks(3).all(|run| run.iter().all(|drawn| *drawn == run[0])));
        let two_open = taken(random(1, 2), 4, Some(50), 200);
        assert!(two_open[..50].iter().all(|&file| file < 2), "the first two are open");
    }

    #[test]
    fn a_kept_turn_is_that_of_the_same_file_and_counts_for_nothing() {
        let order = FileOrder { choice: FileChoice::InTurn, run: 2, open_max: 0 };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
        for (order, expected) in
            [(FileOrder::EACH_IN_TURN, [0, 1, 2, 0, 1, 2, 0]), (order, [0, 0, 1, 1, 2, 2, 0])]
        {
            let mut turns = FileTurns::new(order, 3, Some(2));
            let drawn = expected.map(|_| {
                let file = turns.next(&mut random);
                turns.keep();
                assert_eq!(turns.next(&mut random), file);
                file
            });
            assert_eq!(drawn, expected);
        }
    }

    #[test]
    fn more_files_than_there_are_may_be_open_and_a_run_of_none_is_one() {
        let order = FileOrder { choice: FileChoice::InTurn, run: 0, open_max: 9 };
        assert_eq!(taken(order, 3, Some(2), 7), [0, 1, 2, 0, 1, 2, 0]);
    }
}
