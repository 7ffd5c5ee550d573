//! Every command of a build, in order, with its undo.
//!
//! Lists the commands that a plan shows and the builder carries out; the commands of one kind are
//! in [`crate::kinds`]. Anything that only the system knows is a placeholder.

use durio_base::Bytes;

use crate::check::check_declared;
use crate::declared::DeclaredStack;
use crate::error::BuildError;
use crate::kinds::{Present, RemoveDirectory, StepCheck, Undo};
use crate::place::BuildPlace;
use crate::step::{Action, BuildCommand};

/// The commands that build the stack, in order, from the bottom; nothing is run.
///
/// # Errors
/// As [`check_declared`].
pub fn commands(
    stack: &DeclaredStack,
    place: &BuildPlace,
) -> Result<Vec<BuildCommand>, BuildError> {
    Ok(plan(stack, place)?.commands)
}

/// What a layer will consist of; names may hold placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PlannedLayer {
    /// Its devices; of a filesystem those below.
    pub(crate) devices: Vec<String>,
    pub(crate) mount: Option<String>,
}

impl PlannedLayer {
    pub(crate) const fn of_devices(devices: Vec<String>) -> Self {
        Self { devices, mount: None }
    }
}

#[derive(Debug)]
pub(crate) struct BuildPlan {
    pub(crate) commands: Vec<BuildCommand>,
    pub(crate) layers: Vec<PlannedLayer>,
}

pub(crate) fn plan(stack: &DeclaredStack, place: &BuildPlace) -> Result<BuildPlan, BuildError> {
    check_declared(stack)?;
    let mut draft = PlanDraft { place, layer: 0, groups: 1, commands: Vec::new() };
    let mut layers: Vec<PlannedLayer> = Vec::new();
    for (index, layer) in stack.layers.iter().enumerate() {
        (draft.layer, draft.groups) = (index, layer.groups);
        let below = layers.last().map(|layer| layer.devices.as_slice()).unwrap_or_default();
        let planned = layer.kind.layer().plan(&mut draft, below);
        layers.push(planned);
    }
    Ok(BuildPlan { commands: draft.commands, layers })
}

/// A plan in the making.
pub(crate) struct PlanDraft<'a> {
    pub(crate) place: &'a BuildPlace,
    /// The layer that is planned, from zero at the bottom.
    pub(crate) layer: usize,
    groups: u32,
    commands: Vec<BuildCommand>,
}

impl PlanDraft<'_> {
    /// One device for each group of those below.
    pub(crate) fn in_groups(
        &mut self,
        below: &[String],
        mut one: impl FnMut(&mut Self, usize, &[String]) -> String,
    ) -> PlannedLayer {
        let groups = usize::try_from(self.groups).unwrap_or(1).max(1);
        let groups = below.chunks((below.len() / groups).max(1)).enumerate();
        PlannedLayer::of_devices(groups.map(|(group, below)| one(self, group, below)).collect())
    }

    pub(crate) fn push(&mut self, action: Action, undo: Option<Undo>) {
        self.commands.push(BuildCommand { layer: self.layer, action, undo });
    }

    pub(crate) fn run<S: AsRef<str>>(
        &mut self,
        program: &str,
        arguments: &[S],
        undo: Option<Undo>,
    ) {
        self.push(Action::run(program, arguments, None), undo);
    }

    /// A program whose standard output fills in a placeholder.
    pub(crate) fn ask(
        &mut self,
        program: &str,
        arguments: &[&str],
        output: &str,
        undo: Option<Undo>,
    ) {
        self.push(Action::run(program, arguments, Some(output.to_owned())), undo);
    }

    /// A program that stays, and whose device fills in a placeholder.
    pub(crate) fn serve(&mut self, program: &str, arguments: &[&str], output: &str, undo: Undo) {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        let (program, output) = (program.to_owned(), output.to_owned());
        self.push(Action::Serve { program, arguments, output }, Some(undo));
    }

    pub(crate) fn load(&mut self, module: &str, arguments: &[&str]) {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.push(Action::Load { module: module.to_owned(), arguments }, None);
    }

    pub(crate) fn check(&mut self, check: StepCheck) {
        self.push(Action::Check(check), None);
    }

    pub(crate) fn write(&mut self, path: String, number: u64) {
        self.push(Action::Write { path, text: number.to_string() }, None);
    }

    pub(crate) fn make_directory(&mut self, path: &str) {
        let undo = Undo::RemoveDirectory(RemoveDirectory { path: path.to_owned() });
        self.push(Action::MakeDirectory { path: path.to_owned() }, Some(undo));
    }

    /// The device, once it is there.
    pub(crate) fn present(&mut self, device: String) -> String {
        self.check(StepCheck::Present(Present { device: device.clone(), size: None }));
        device
    }

    /// Devices that a source made, once all are there with their size.
    pub(crate) fn wait_for(&mut self, devices: Vec<String>, size: Bytes) -> PlannedLayer {
        for device in &devices {
            self.check(StepCheck::Present(Present { device: device.clone(), size: Some(size) }));
        }
        PlannedLayer::of_devices(devices)
    }

    /// `durio1234567-2-0`: tag, layer, group.
    pub(crate) fn name(&self, group: usize) -> String {
        format!("{}-{}-{group}", self.place.tag(), self.layer)
    }
}
