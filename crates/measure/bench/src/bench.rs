//! A bench: one stack after the other is built, measured layer by layer, and taken down.
//!
//! A stack spec and a permission to overwrite give a bench folder, with the cost of each layer.
//!
//! ```text
//!   schedule ── build a layer (layers)  ── measure it (point, execute) ── record it ──┐
//!      └──────────────────────── the next layer, or tear down ◄───────────────────────┘
//! ```

mod point;
mod progress;
mod schedule;
#[cfg(test)]
mod tests;

pub use point::{Planning, PointEstimate, StackChoice, estimates};
pub use progress::listing;

use std::path::{Path, PathBuf};

use durio_analyse::attribution::StackFindings;
use durio_command::{CommandError, Ending, StopFlag, command_line};
use durio_layers::{
    BuildError, BuildOptions, BuildPlace, BuildProgress, Builder, CleanOutcome, DeclaredKind,
    DeclaredLayer, DeclaredStack, clean, missing,
};
use durio_plan::{ClockChoice, Cost, PublishedShare};
use durio_record::Outcome;
use durio_record::bench::{BENCH_FOLDER_SCHEMA, BenchFolder, BenchManifest, BenchStack};
use durio_spec::{StackBench, shipped_stack_specs};

use crate::campaign::read_spec;
use crate::execute::{Execution, RunOptions, absolute, save_findings};
use crate::observer::Observer;
use crate::read_back::{KnownRuns, ReadBack, bench_findings};
use crate::state_folder::build_journals;
use progress::BenchProgress;
use schedule::BenchSchedule;

/// The stacks, and the devices that may be overwritten for them.
#[derive(Debug, Clone, Copy)]
pub struct BenchRequest<'a> {
    /// A file, or the name of a built-in spec.
    pub spec: &'a Path,
    pub choice: &'a StackChoice,
    /// Devices that may be overwritten.
    pub destroy: &'a [PathBuf],
    /// Also those that hold something.
    pub force_signature: bool,
    /// The clock of all latencies.
    pub clock: ClockChoice,
    /// The options of each run.
    pub options: RunOptions<'a>,
}

/// A bench that can begin.
#[derive(Debug)]
pub struct Bench<'a> {
    request: BenchRequest<'a>,
    spec: StackBench,
    /// With the scale that it has for this spec.
    choice: StackChoice,
    stacks: Vec<DeclaredStack>,
    execution: Execution,
    estimates: Vec<PointEstimate>,
}

/// A bench that is over.
#[derive(Debug)]
pub struct BenchOutcome {
    pub folder: BenchFolder<DeclaredStack>,
    /// What its layers cost.
    pub found: Result<ReadBack<StackFindings>, CommandError>,
    pub ending: Ending,
}

impl<'a> Bench<'a> {
    /// Reads the spec, and refuses what cannot be benched.
    ///
    /// # Errors
    /// If nothing can be built here, or something would be overwritten that was not named.
    pub fn prepare(request: BenchRequest<'a>) -> Result<Self, CommandError> {
        let spec = read_stack_spec(request.spec)?;
        let choice = request.choice.scaled_for(&spec)?;
        let stacks = with_directories(chosen_stacks(&spec, &choice)?);
        // All that can be known is refused here: a bench takes hours, and what it finds wrong with its last
        // stack it should have told before the first.
        refuse_unknown_destroy(&stacks, request.destroy)?;
        refuse_missing_destroy(&stacks, request.destroy)?;
        refuse_if_nothing_can_be_built(&stacks)?;
        let execution = Execution::begin("stack", &request.options)?;
        let (seed, clock) = (execution.seed, request.clock);
        let planning = Planning { bench: &spec, choice: &choice, seed, clock };
        let estimates = estimates(&planning, &stacks)?;
        Ok(Self { request, spec, choice, stacks, execution, estimates })
    }

    /// What measuring every layer costs at most.
    pub fn cost(&self) -> Cost {
        self.estimates.iter().map(|estimate| estimate.plan.cost()).fold(Cost::default(), Cost::and)
    }

    fn planning(&self) -> Planning<'_> {
        Planning {
            bench: &self.spec,
            choice: &self.choice,
            seed: self.execution.seed,
            clock: self.request.clock,
        }
    }

    /// Takes down what dead benches left, and reports it.
    ///
    /// # Errors
    /// If there is no state folder.
    pub fn clean(&self) -> Result<Vec<CleanOutcome>, CommandError> {
        Ok(clean(&build_journals()?))
    }

    /// Benches. What goes wrong with one stack is recorded, and the next one follows.
    ///
    /// # Errors
    /// If the bench folder cannot be written.
    pub fn run(
        &self,
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<BenchOutcome, CommandError> {
        let manifest = self.manifest();
        let folder =
            BenchFolder::<DeclaredStack>::create(self.execution.folder(), manifest.clone())?;
        // Each run is analysed once, live: the layers are compared by these very findings.
        let mut known = KnownRuns::new();
        let manifest = self.all(manifest, &folder, &mut known, stop, observer)?;
        let folder = BenchFolder::<DeclaredStack>::open(&absolute(folder.path()))?;
        let ending = manifest.outcome.unwrap_or(Outcome::Failed).into();
        let found = bench_findings(&folder, known, observer);
        save_bench(&folder, &found)?;
        Ok(BenchOutcome { folder, found, ending })
    }

    fn all(
        &self,
        manifest: BenchManifest<DeclaredStack>,
        folder: &BenchFolder<DeclaredStack>,
        known: &mut KnownRuns,
        stop_flag: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<BenchManifest<DeclaredStack>, CommandError> {
        let stacks = manifest.stacks.clone();
        let progress = BenchProgress::new(observer, &stacks, &self.estimates);
        let stop = || stop_flag.is_set();
        let tell = |step: BuildProgress<'_>| progress.step(step);
        let (files, journals) = (std::env::temp_dir(), build_journals()?);
        let schedule = BenchSchedule {
            manifest,
            begin: &|stack| {
                // Each stack has an id of its own in all its names, so none takes another's leftovers for its own.
                let destroy = self.request.destroy.to_vec();
                let force = self.request.force_signature;
                let place = BuildPlace { destroy, force, ..BuildPlace::new(&files) };
                let options = BuildOptions { stop: &stop, progress: &tell };
                Ok(Box::new(Builder::new(stack, &place, &journals, options)?))
            },
            stop: &stop,
            save: &|manifest| Ok(folder.update(manifest)?),
            building: &|stack, layer| progress.building(stack, layer),
        };
        schedule.run(&mut |point| {
            progress.measuring(point.stack, point.layer.index);
            let execution = self.execution.point(&point.run);
            let (plan, held) = self.planning().plan(point.layer, execution.file_name())?;
            let executed = execution.execute(&plan, held, stop_flag, observer)?;
            known.insert(point.run.clone(), executed.findings);
            executed.outcome
        })
    }

    fn manifest(&self) -> BenchManifest<DeclaredStack> {
        let (bench, started) = self.execution.identity();
        let StackBench { name, summary, text, .. } = self.spec.clone();
        // Of stacks that were left out nothing is set beside anything.
        let is_there =
            |share: &&PublishedShare| self.stacks.iter().any(|stack| stack.name == share.stack);
        let scale = self.choice.scale;
        BenchManifest {
            schema: BENCH_FOLDER_SCHEMA,
            bench,
            durio_version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
            command: command_line(),
            label: self.execution.label.clone(),
            name,
            summary,
            spec: text,
            seed: self.execution.seed,
            time_scale_per_mille: scale.time_per_mille,
            size_scale_per_mille: scale.size_per_mille,
            several_devices: self.spec.several_devices,
            published: self.spec.published.iter().filter(is_there).cloned().collect(),
            outcome: None,
            stacks: self.stacks.iter().map(waiting).collect(),
        }
    }
}

/// The stacks with the directories of their loop files, so that the record and the report name them.
fn with_directories(mut stacks: Vec<DeclaredStack>) -> Vec<DeclaredStack> {
    let files = std::env::temp_dir();
    // Another path could not be declared.
    let files = files.to_str().filter(|path| path.starts_with('/'));
    for layer in stacks.iter_mut().flat_map(|stack| &mut stack.layers) {
        if let (DeclaredKind::Loop(source), Some(files)) = (&mut layer.kind, files) {
            source.directory.get_or_insert_with(|| files.to_owned());
        }
    }
    stacks
}

/// Keeps what was found beside the manifest; of nothing measured, nothing.
pub(crate) fn save_bench(
    folder: &BenchFolder<DeclaredStack>,
    found: &Result<ReadBack<StackFindings>, CommandError>,
) -> Result<(), CommandError> {
    let Ok(found) = found else { return Ok(()) };
    save_findings(&found.findings, |name, bytes| folder.save(name, bytes))
}

fn waiting(stack: &DeclaredStack) -> BenchStack<DeclaredStack> {
    let of = |layer: &DeclaredLayer| (layer.kind.name().to_owned(), layer.label());
    BenchStack::waiting(stack.clone(), stack.layers.iter().map(of).collect())
}

/// Reads a file, or the built-in spec of this name.
///
/// # Errors
/// If it is neither, or no stack spec.
pub fn read_stack_spec(path: &Path) -> Result<StackBench, CommandError> {
    let (name, text) = read_spec(path, "stack spec", shipped_stack_specs())?;
    StackBench::parse(&name, &text)
}

/// The stacks that were asked for, scaled.
///
/// # Errors
/// If the spec has no stack of that name, or nothing is left of one at that scale.
pub fn chosen_stacks(
    bench: &StackBench,
    choice: &StackChoice,
) -> Result<Vec<DeclaredStack>, CommandError> {
    let all = bench.scaled(choice.scale.size_per_mille)?;
    let is_there = |name: &&String| all.iter().any(|stack| stack.name == **name);
    if let Some(name) = choice.only.iter().find(|name| !is_there(name)) {
        let names: Vec<&str> = all.iter().map(|stack| stack.name.as_str()).collect();
        return Err(CommandError::wrong_use(format!("the spec has no stack '{name}'"))
            .hint(format!("its stacks are {}", names.join(", "))));
    }
    let wanted =
        |stack: &DeclaredStack| choice.only.is_empty() || choice.only.contains(&stack.name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// What may be overwritten must be part of a stack.
fn refuse_unknown_destroy(
    stacks: &[DeclaredStack],
    destroy: &[PathBuf],
) -> Result<(), CommandError> {
    // By the file itself: names in /dev/disk are links.
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    };
    let names_nothing =
        |path: &&PathBuf| !existing_devices(stacks).any(|device| same(path, Path::new(device)));
    match destroy.iter().find(names_nothing) {
        None => Ok(()),
        Some(path) => {
            let text =
                format!("--destroy '{}' names no device of the spec's stacks", path.display());
            Err(CommandError::wrong_use(text).hint("devices that durio makes need no permission"))
        }
    }
}

/// The devices of the user's that stacks stand on.
fn existing_devices(stacks: &[DeclaredStack]) -> impl Iterator<Item = &String> {
    stacks.iter().flat_map(|stack| &stack.layers).flat_map(|layer| match &layer.kind {
        DeclaredKind::Device(device) => device.paths.as_slice(),
        _ => &[],
    })
}

/// What would be overwritten must be named, before anything is built.
fn refuse_missing_destroy(
    stacks: &[DeclaredStack],
    destroy: &[PathBuf],
) -> Result<(), CommandError> {
    let is_named = |device: &String| destroy.iter().any(|path| path.as_path() == Path::new(device));
    match existing_devices(stacks).find(|device| !is_named(device)) {
        None => Ok(()),
        Some(device) => {
            Err(CommandError::wrong_use(format!("whatever is on '{device}' would be lost"))
                .hint(format!("allow that with --destroy {device}")))
        }
    }
}

/// Where each stack lacks something, nothing begins.
fn refuse_if_nothing_can_be_built(stacks: &[DeclaredStack]) -> Result<(), CommandError> {
    let mut first = None;
    for stack in stacks {
        let missing = missing(stack);
        if missing.is_empty() {
            return Ok(());
        }
        first.get_or_insert(BuildError::Missing { stack: stack.name.clone(), missing });
    }
    let Some(error) = first else { return Ok(()) };
    Err(CommandError::cannot(error)
        .hint("--lab does the same in a throw-away virtual machine, as any user"))
}
