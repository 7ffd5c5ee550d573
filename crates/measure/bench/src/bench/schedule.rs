//! The order of steps in a bench, and their record. The manifest is saved after each change.
//! Building and measuring are passed in, so that tests can plant failures in both.

use durio_command::{CommandError, error_chain};
use durio_layers::{BuildError, Builder, BuiltLayer, DeclaredStack};
use durio_record::Outcome;
use durio_record::bench::{BenchManifest, BenchStack, LayerState, TearDown};

/// A stack that is being built. Dropping it takes it down too.
pub(crate) trait StackHandle {
    /// The next layer; nothing if all are there. After an error nothing is there any more.
    fn build_next(&mut self) -> Result<Option<BuiltLayer>, BuildError>;

    fn tear_down(self: Box<Self>) -> Result<(), BuildError>;
}

impl StackHandle for Builder<'_> {
    fn build_next(&mut self) -> Result<Option<BuiltLayer>, BuildError> {
        Builder::build_next(self)
    }

    fn tear_down(self: Box<Self>) -> Result<(), BuildError> {
        Builder::tear_down(*self)
    }
}

type BeginStack<'a> = dyn Fn(&DeclaredStack) -> Result<Box<dyn StackHandle + 'a>, BuildError> + 'a;

/// A built layer to measure.
#[derive(Debug)]
pub(crate) struct BenchPoint<'a> {
    /// Which stack, from 0.
    pub(crate) stack: usize,
    pub(crate) layer: &'a BuiltLayer,
    pub(crate) run: String,
}

pub(crate) struct BenchSchedule<'a> {
    pub(crate) manifest: BenchManifest<DeclaredStack>,
    /// Begins to build a stack; nothing of it is there yet.
    pub(crate) begin: &'a BeginStack<'a>,
    /// True once the user wants it to end.
    pub(crate) stop: &'a dyn Fn() -> bool,
    pub(crate) save: &'a dyn Fn(&BenchManifest<DeclaredStack>) -> Result<(), CommandError>,
    /// Called before a layer is built.
    pub(crate) building: &'a dyn Fn(usize, usize),
}

impl BenchSchedule<'_> {
    /// Builds, measures and takes down every stack. What goes wrong with one is in the manifest.
    ///
    /// # Errors
    /// If the manifest cannot be saved: the record is the product. The stack is still taken down.
    pub(crate) fn run(
        mut self,
        measure: &mut dyn FnMut(&BenchPoint<'_>) -> Result<Outcome, CommandError>,
    ) -> Result<BenchManifest<DeclaredStack>, CommandError> {
        let mut runs = 0;
        for index in 0..self.manifest.stacks.len() {
            if (self.stop)() {
                break;
            }
            self.stack(index, &mut runs, measure)?;
        }
        self.manifest.outcome = Some(self.outcome());
        (self.save)(&self.manifest)?;
        Ok(self.manifest)
    }

    fn outcome(&self) -> Outcome {
        let went_wrong = |stack: &BenchStack<DeclaredStack>| {
            stack.failure.is_some() || matches!(stack.tear_down, Some(TearDown::Failed { .. }))
        };
        match self.manifest.stacks.iter().any(went_wrong) {
            // A run that a stop broke off has not failed.
            _ if (self.stop)() => Outcome::Interrupted,
            true => Outcome::Failed,
            false => Outcome::Complete,
        }
    }

    fn stack(
        &mut self,
        index: usize,
        runs: &mut usize,
        measure: &mut dyn FnMut(&BenchPoint<'_>) -> Result<Outcome, CommandError>,
    ) -> Result<(), CommandError> {
        let declared = self.manifest.stacks[index].declared.clone();
        (self.building)(index, 0);
        let mut handle = match (self.begin)(&declared) {
            Ok(handle) => handle,
            Err(error) => return self.not_built(index, 0, &error),
        };
        for layer in 0.. {
            // Past the last layer the handle only says that all are there.
            if (1..declared.layers.len()).contains(&layer) {
                (self.building)(index, layer);
            }
            match handle.build_next() {
                Ok(Some(built)) => {
                    self.built(index, &built)?;
                    let wanted = declared.layers.get(layer).is_some_and(|layer| layer.measured);
                    if wanted && !self.measured(index, &declared, &built, runs, measure)? {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => return self.not_built(index, layer, &error),
            }
        }
        // Also where measuring has failed: the next stack may need the same devices.
        let torn_down = handle.tear_down();
        self.torn_down(index, torn_down.map_err(|error| error_chain(&error)))
    }

    /// Measures a layer; true if the next one should be built.
    fn measured(
        &mut self,
        index: usize,
        declared: &DeclaredStack,
        built: &BuiltLayer,
        runs: &mut usize,
        measure: &mut dyn FnMut(&BenchPoint<'_>) -> Result<Outcome, CommandError>,
    ) -> Result<bool, CommandError> {
        *runs += 1;
        let word = declared.layers.get(built.index).map_or("", |layer| layer.kind.name());
        let run = format!("{runs:02}-{}-{word}", declared.name);
        let point = BenchPoint { stack: index, layer: built, run: run.clone() };
        // Saved first: the reader of a killed bench's folder then knows the run's subject.
        self.set(index, built.index, LayerState::Partial, Some(run));
        (self.save)(&self.manifest)?;
        let (state, failure) = match measure(&point) {
            Ok(Outcome::Complete) => (LayerState::Measured, None),
            Ok(Outcome::Interrupted) => {
                (LayerState::Partial, Some("the user stopped it".to_owned()))
            }
            Ok(Outcome::Failed) => {
                (LayerState::Partial, Some("its run failed; the run folder says why".to_owned()))
            }
            Err(error) => (LayerState::Failed, Some(error_chain(&error))),
        };
        self.set(index, built.index, state, None);
        let goes_on = failure.is_none();
        if let Some(reason) = failure {
            self.fail(index, built.index, &reason);
        }
        (self.save)(&self.manifest)?;
        Ok(goes_on)
    }

    fn built(&mut self, index: usize, built: &BuiltLayer) -> Result<(), CommandError> {
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        if let Some(layer) = self.manifest.stacks[index].layers.get_mut(built.index) {
            layer.state = LayerState::Built;
            layer.devices = built.devices.iter().map(shown).collect();
            layer.mount = built.mount.as_ref().map(shown);
            layer.commands.clone_from(&built.commands);
            layer.build = Some(built.taken);
        }
        (self.save)(&self.manifest)
    }

    /// A layer that could not be built; by then nothing of the stack is there.
    fn not_built(
        &mut self,
        index: usize,
        layer: usize,
        error: &BuildError,
    ) -> Result<(), CommandError> {
        self.set(index, layer, LayerState::Failed, None);
        self.fail(index, layer, &error_chain(error));
        let left = match error {
            BuildError::AndNotTornDown { left, .. } | BuildError::NotTornDown(left) => {
                Err(left.join("; "))
            }
            _ => Ok(()),
        };
        self.torn_down(index, left)
    }

    fn torn_down(&mut self, index: usize, outcome: Result<(), String>) -> Result<(), CommandError> {
        self.manifest.stacks[index].tear_down = Some(match outcome {
            Ok(()) => TearDown::Done,
            Err(reason) => TearDown::Failed { reason },
        });
        (self.save)(&self.manifest)
    }

    fn set(&mut self, index: usize, layer: usize, state: LayerState, run: Option<String>) {
        if let Some(layer) = self.manifest.stacks[index].layers.get_mut(layer) {
            layer.state = state;
            // A run that started stays named, however it ended.
            layer.run = run.or(layer.run.take());
        }
    }

    fn fail(&mut self, index: usize, layer: usize, reason: &str) {
        let stack = &mut self.manifest.stacks[index];
        let label = stack.layers.get(layer).map_or("", |layer| layer.label.as_str());
        stack.failure = Some(format!("layer {} ({label}): {reason}", layer + 1));
    }
}
