//! Draws sides from a pool, compares them with durio's code, and counts the gate's outcomes.

use durio_judge::compare::{CompareSettings, ComparedRun, FigureName, Gate, Side, compare};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::FAIL_OVER;
use super::record::Pool;

/// The same draws each time.
const SEED: u64 = 20_261_122;

/// How gates ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    regressions: u32,
    undecided: u32,
    excluded: u32,
}

impl Outcomes {
    fn take(&mut self, gate: &Gate) {
        match (gate.regressions.is_empty(), gate.undecided.is_empty()) {
            (false, _) => self.regressions += 1,
            (true, false) => self.undecided += 1,
            (true, true) => self.excluded += 1,
        }
    }

    fn percent(self, of: u32) -> f64 {
        100.0 * f64::from(of) / f64::from(self.regressions + self.undecided + self.excluded)
    }

    pub(super) fn regression(self) -> f64 {
        self.percent(self.regressions)
    }

    pub(super) fn undecided(self) -> f64 {
        self.percent(self.undecided)
    }

    pub(super) fn excluded(self) -> f64 {
        self.percent(self.excluded)
    }
}

/// Draws two sides from different runs `draws` times: the baseline as recorded, the other from
/// `others`.
pub(super) fn outcomes(
    pool: &Pool,
    others: &[ComparedRun],
    repeats: usize,
    draws: u32,
) -> Outcomes {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut outcomes = Outcomes::default();
    let settings = CompareSettings { fail_over: Some(FAIL_OVER), ..CompareSettings::default() };
    for _ in 0..draws {
        let drawn = some_of(pool.runs.len(), 2 * repeats, &mut random);
        let (a, b) = drawn.split_at(repeats);
        let sides = [side("A", &pool.runs, a), side("B", others, b)];
        if let Some(gate) = compare(&sides, &settings).gate {
            outcomes.take(&gate);
        }
    }
    outcomes
}

fn side(source: &str, runs: &[ComparedRun], places: &[usize]) -> Side {
    let runs = places.iter().filter_map(|&place| runs.get(place).cloned()).collect();
    Side { source: source.to_owned(), runs }
}

/// Different places below `count`, in random order: the first steps of Fisher and Yates.
fn some_of(count: usize, wanted: usize, random: &mut Xoshiro256PlusPlus) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for at in 0..wanted.min(count) {
        let rest = (count - at) as u64;
        // The remainder's bias is far below what some hundred draws can show.
        let offset = usize::try_from(random.next_u64() % rest).unwrap_or_default();
        places.swap(at, at + offset);
    }
    places.truncate(wanted);
    places
}

/// How far single runs scatter, as shares: rate and p99.
pub(super) fn scatter(pool: &Pool) -> [f64; 2] {
    let places: Vec<usize> = (0..pool.runs.len()).collect();
    let (odd, even): (Vec<_>, Vec<_>) = places.iter().partition(|place| *place % 2 == 1);
    let sides = [side("A", &pool.runs, &even), side("B", &pool.runs, &odd)];
    // By force: how steady each run was does not matter here.
    let found = compare(&sides, &CompareSettings { forced: true, ..CompareSettings::default() });
    let step = found.pairs.first().and_then(|pair| pair.steps.first());
    [FigureName::Rate, FigureName::P99].map(|name| {
        let figure = step.and_then(|step| step.figure(name));
        figure.and_then(|it| it.repeats_scatter).unwrap_or(f64::NAN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_run_is_drawn_twice() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..100 {
            let mut drawn = some_of(10, 6, &mut random);
            drawn.sort_unstable();
            drawn.dedup();
            assert_eq!(drawn.len(), 6);
            assert!(drawn.iter().all(|it| *it < 10));
        }
    }
}
