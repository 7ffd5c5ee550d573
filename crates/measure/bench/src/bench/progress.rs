//! Where a bench is, as lines on stderr: which stack of how many, which layer, time left.

use std::cell::Cell;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_layers::{BuildProgress, DeclaredStack};
use durio_record::bench::BenchStack;

use super::point::PointEstimate;
use crate::observer::Observer;

/// How often the progress of a synchronisation is reported.
const SYNC_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct BenchProgress<'a> {
    observer: &'a dyn Observer,
    stacks: &'a [BenchStack<DeclaredStack>],
    estimates: &'a [PointEstimate],
    sync_told: Cell<Option<Instant>>,
}

impl<'a> BenchProgress<'a> {
    pub(crate) const fn new(
        observer: &'a dyn Observer,
        stacks: &'a [BenchStack<DeclaredStack>],
        estimates: &'a [PointEstimate],
    ) -> Self {
        Self { observer, stacks, estimates, sync_told: Cell::new(None) }
    }

    /// A layer is about to be built.
    pub(crate) fn building(&self, stack: usize, layer: usize) {
        let Some(it) = self.stacks.get(stack) else { return };
        let Some(label) = it.layers.get(layer).map(|layer| &layer.label) else { return };
        self.say(&format!(
            "stack {} of {}, {}, layer {} of {}: {label}",
            stack + 1,
            self.stacks.len(),
            it.declared.name,
            layer + 1,
            it.layers.len()
        ));
    }

    /// A layer is about to be measured.
    pub(crate) fn measuring(&self, stack: usize, layer: usize) {
        let own = self.time(|estimate| estimate.stack == stack && estimate.layer == layer);
        let left = self.time(|estimate| (estimate.stack, estimate.layer) >= (stack, layer));
        self.say(&format!("  measuring it for {own}; {left} of measuring left"));
    }

    /// A step of building.
    pub(crate) fn step(&self, progress: BuildProgress<'_>) {
        if let BuildProgress::LeftAlone { undo, why } = progress {
            // Reported to all users, also without progress: it stays.
            self.observer.remark(&format!("durio: left alone: {undo}: {why}"));
        }
        let BuildProgress::Syncing { device, done, all } = progress else { return };
        if self.sync_told.get().is_some_and(|told| told.elapsed() < SYNC_EVERY) {
            return;
        }
        self.sync_told.set(Some(Instant::now()));
        let percent = u128::from(done) * 100 / u128::from(all.max(1));
        self.say(&format!("  {device} is made equal: {percent} %"));
    }

    fn time(&self, wanted: impl Fn(&PointEstimate) -> bool) -> Nanos {
        let times = self
            .estimates
            .iter()
            .filter(|estimate| wanted(estimate))
            .map(|estimate| estimate.time().get());
        Nanos::new(times.fold(0, u64::saturating_add))
    }

    fn say(&self, line: &str) {
        self.observer.progress(line);
    }
}
