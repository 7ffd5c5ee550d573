//! A bench as its user sees it: while it runs, as lines on stderr, where it is: which stack of how
//! many, which layer, time left; and its folder as text: which runs there are, what became of each
//! layer, how to report them.

use std::cell::Cell;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_layers::{BuildProgress, DeclaredStack};
use durio_record::Outcome;
use durio_record::bench::{BenchLayer, BenchManifest, BenchStack, LayerState, TearDown};
use durio_report::visible;

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

/// What became of each stack and layer, as text; with `whole` also of those that went well.
pub fn listing(manifest: &BenchManifest<DeclaredStack>, folder: &Path, whole: bool) -> String {
    let mut text = String::new();
    line(&mut text, &format!("BENCH {}: {}", manifest.name, state(manifest.outcome)));
    if whole && !manifest.summary.is_empty() {
        line(&mut text, &manifest.summary);
    }
    let labels = manifest.stacks.iter().flat_map(|stack| &stack.layers);
    // Names are the user's: control characters are spelt out, and take more room.
    let width = labels.map(|layer| visible(&layer.label).chars().count()).max().unwrap_or(0);
    // That all went well takes no list.
    let is_told = |stack: &&BenchStack<DeclaredStack>| {
        whole || manifest.outcome != Some(Outcome::Complete) || !remarks(stack).is_empty()
    };
    for stack in manifest.stacks.iter().filter(is_told) {
        text.push('\n');
        line(&mut text, &stack.declared.name);
        for layer in &stack.layers {
            let run = layer.run.as_deref().unwrap_or("-");
            let padding = " ".repeat(width.saturating_sub(visible(&layer.label).chars().count()));
            let words = words(layer);
            line(&mut text, &format!("  {}{padding}  {words:<9}  {run}", layer.label));
        }
        for remark in remarks(stack) {
            line(&mut text, &format!("  ! {remark}"));
        }
    }
    let first = manifest
        .stacks
        .iter()
        .flat_map(|stack| &stack.layers)
        .find_map(|layer| layer.run.as_deref());
    if let Some(run) = first {
        text.push('\n');
        line(&mut text, &format!("each run: durio report {}", folder.join(run).display()));
    }
    line(&mut text, &format!("bench folder: {}", folder.display()));
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
        None => "PARTIAL: it runs, or was killed",
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

fn remarks(stack: &BenchStack<DeclaredStack>) -> Vec<String> {
    let left = match &stack.tear_down {
        Some(TearDown::Failed { reason }) => {
            Some(format!("not taken down: {reason}; durio stack clean tries again"))
        }
        _ => None,
    };
    stack.failure.iter().cloned().chain(left).collect()
}
