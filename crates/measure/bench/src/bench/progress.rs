//! A bench as its user sees it: while it runs, as lines on stderr, where it is: which stack of how
//! many, which layer, time left; and its folder as text: which runs there are, what became of each
//! layer, how to report them.

use std::cell::Cell;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use durio_base::{Nanos, visible};
use durio_layers::{BuildProgress, DeclaredStack};
use durio_record::Outcome;
use durio_record::bench::{BenchLayer, BenchManifest, BenchStack, LayerState, TearDown};

use super::point::PointEstimate;
use crate::observer::Observer;

/// How often the progress of a synchronisation is reported.
const SYNC_EVERY: Duration = Duration::from_secs(10);

pub(crate) struct BenchProgress<'a> {
    observer: &'a dyn Observer,
    stacks: &'a [BenchStack<DeclaredStack>],
    estimates: &'a [PointEstimate],
    sync_told: Cell<Option<Instant>>,
    /// The stack and the layer that are built or measured.
    place: Cell<(usize, usize)>,
}

impl<'a> BenchProgress<'a> {
    pub(crate) const fn new(
        observer: &'a dyn Observer,
        stacks: &'a [BenchStack<DeclaredStack>],
        estimates: &'a [PointEstimate],
    ) -> Self {
        let (sync_told, place) = (Cell::new(None), Cell::new((0, 0)));
        Self { observer, stacks, estimates, sync_told, place }
    }

    /// A layer is about to be built.
    pub(crate) fn building(&self, stack: usize, layer: usize) {
        let label = self.stacks.get(stack).and_then(|stack| stack.layers.get(layer));
        self.say((stack, layer), label.map_or("", |layer| &layer.label));
    }

    /// A layer is about to be measured.
    pub(crate) fn measuring(&self, stack: usize, layer: usize) {
        let layer_time = self.time(|estimate| (estimate.stack, estimate.layer) == (stack, layer));
        let left = self.time(|estimate| (estimate.stack, estimate.layer) >= (stack, layer));
        self.say((stack, layer), &format!("measuring {layer_time} of the remaining {left}"));
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
        self.say(self.place.get(), &format!("resyncing {device}, {percent} %"));
    }

    fn time(&self, wanted: impl Fn(&PointEstimate) -> bool) -> Nanos {
        let times = self
            .estimates
            .iter()
            .filter(|estimate| wanted(estimate))
            .map(|estimate| estimate.time().get());
        Nanos::new(times.fold(0, u64::saturating_add))
    }

    fn say(&self, (stack, layer): (usize, usize), what: &str) {
        self.place.set((stack, layer));
        let Some(named) = self.stacks.get(stack) else { return };
        self.observer.progress(&format!(
            "stack {} of {}, {}, layer {} of {}: {what}",
            stack + 1,
            self.stacks.len(),
            named.declared.name,
            layer + 1,
            named.layers.len()
        ));
    }
}

/// The outcome of a bench that its report does not have, and how to report one of its runs; with
/// `whole` also every layer with its run.
pub fn listing(manifest: &BenchManifest<DeclaredStack>, folder: &Path, whole: bool) -> String {
    let mut text = String::new();
    if whole || manifest.outcome != Some(Outcome::Complete) {
        line(&mut text, &format!("BENCH {}: {}", manifest.name, state(manifest.outcome)));
    }
    if whole && !manifest.summary.is_empty() {
        line(&mut text, &manifest.summary);
    }
    let labels = manifest.stacks.iter().flat_map(|stack| &stack.layers);
    // Names are the user's: control characters are spelt out, and take more room.
    let width = labels.map(|layer| visible(&layer.label).chars().count()).max().unwrap_or(0);
    for stack in &manifest.stacks {
        if whole {
            text.push('\n');
            line(&mut text, &stack.declared.name);
        }
        for layer in stack.layers.iter().filter(|_| whole) {
            let run = layer.run.as_deref().unwrap_or("-");
            let padding = " ".repeat(width.saturating_sub(visible(&layer.label).chars().count()));
            let words = words(layer);
            line(&mut text, &format!("  {}{padding}  {words:<9}  {run}", layer.label));
        }
        for remark in stack.failure.iter().filter(|_| whole) {
            line(&mut text, &format!("  ! {remark}"));
        }
        if let Some(TearDown::Failed { reason }) = &stack.tear_down {
            let remark = format!("not taken down: {reason}; durio stack clean tries again");
            line(&mut text, &format!("  ! {}: {remark}", stack.declared.name));
        }
    }
    let mut layers = manifest.stacks.iter().flat_map(|stack| &stack.layers);
    match layers.find_map(|layer| layer.run.as_deref()) {
        Some(run) => {
            line(&mut text, &format!("one run: durio report {}", folder.join(run).display()));
        }
        None => line(&mut text, &format!("bench folder: {}", folder.display())),
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", visible(line.trim_end()));
}

const fn state(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        Some(Outcome::Complete) => "complete",
        Some(Outcome::Interrupted) => "INTERRUPTED",
        Some(Outcome::Failed) => "something failed",
        None => "PARTIAL: still running, or killed",
    }
}

const fn words(layer: &BenchLayer) -> &'static str {
    match layer.state {
        LayerState::Waiting => "-",
        LayerState::Built => "built",
        LayerState::Measured => "measured",
        LayerState::Partial => "PARTIAL",
        LayerState::Failed => "FAILED",
        LayerState::Unknown => "unknown",
    }
}
