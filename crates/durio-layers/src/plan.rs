//! Every command of a build, in order, with its undo.
//!
//! In: a declared stack and a place. Out: the list that is shown as a plan and that the builder
//! carries out. Not here: looking at the system; what only it knows is a placeholder.

mod filesystem;
mod lvm;
mod mapped;
mod md;
mod source;

pub(super) use source::{HOT_ADD, NULL_CONFIG};
pub(super) use {mapped::dm_driver, md::md_driver};

use super::check::check_declared;
use super::command::{Action, BuildCommand, Check};
use super::error::BuildError;
use super::place::Place;
use super::undo::Undo;
use crate::{DeclaredKind, DeclaredLayer, DeclaredStack};

/// The commands that build the stack, in order, from the bottom; nothing is run.
///
/// # Errors
/// As [`check_declared`].
pub fn commands(stack: &DeclaredStack, place: &Place) -> Result<Vec<BuildCommand>, BuildError> {
    Ok(draw(stack, place)?.commands)
}

/// What a layer will consist of; names may hold placeholders.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DrawnLayer {
    /// Its devices; of a filesystem those below.
    pub(super) devices: Vec<String>,
    pub(super) mount: Option<String>,
}

/// The whole plan.
#[derive(Debug)]
pub(super) struct Drawn {
    pub(super) commands: Vec<BuildCommand>,
    pub(super) layers: Vec<DrawnLayer>,
}

pub(super) fn draw(stack: &DeclaredStack, place: &Place) -> Result<Drawn, BuildError> {
    check_declared(stack)?;
    let mut draft = Draft { place, layer: 0, commands: Vec::new() };
    let mut layers: Vec<DrawnLayer> = Vec::new();
    for (index, layer) in stack.layers.iter().enumerate() {
        draft.layer = index;
        let below = layers.last().map(|layer| layer.devices.as_slice()).unwrap_or_default();
        let drawn = draft.draw_layer(layer, below);
        layers.push(drawn);
    }
    Ok(Drawn { commands: draft.commands, layers })
}

/// A plan in the making.
struct Draft<'a> {
    place: &'a Place,
    layer: usize,
    commands: Vec<BuildCommand>,
}

impl<'a> Draft<'a> {
    fn draw_layer(&mut self, layer: &DeclaredLayer, below: &[String]) -> DrawnLayer {
        let devices = |devices| DrawnLayer { devices, mount: None };
        match &layer.kind {
            DeclaredKind::Ram(made) => devices(self.ram(*made)),
            DeclaredKind::Zram(made) => devices(self.zram(*made)),
            DeclaredKind::Null { made, completion, queue_depth } => {
                devices(self.null(
                    *made,
                    source::Timed { completion: *completion, queue_depth: *queue_depth },
                ))
            }
            DeclaredKind::Loop { made, directory } => {
                devices(self.loops(*made, directory.as_deref()))
            }
            DeclaredKind::Device { paths } => devices(self.existing(paths)),
            DeclaredKind::Md(md) => devices(
                self.in_groups(layer, below, |draft, group, below| draft.md(md, group, below)),
            ),
            DeclaredKind::Lvm { layout, chunk } => {
                devices(self.in_groups(layer, below, |draft, group, below| {
                    draft.lvm(*layout, *chunk, group, below)
                }))
            }
            DeclaredKind::Dm { target } => devices(self.mapped(*target, below)),
            kind => self.filesystem(kind, below),
        }
    }

    /// One device for each group of those below.
    fn in_groups(
        &mut self,
        layer: &DeclaredLayer,
        below: &[String],
        mut draw: impl FnMut(&mut Self, usize, &[String]) -> String,
    ) -> Vec<String> {
        let groups = usize::try_from(layer.groups).unwrap_or(1).max(1);
        let size = (below.len() / groups).max(1);
        below.chunks(size).enumerate().map(|(group, below)| draw(self, group, below)).collect()
    }

    fn push(&mut self, action: Action, undo: Option<Undo>) {
        self.commands.push(BuildCommand { layer: self.layer, action, undo });
    }

    fn run<S: AsRef<str>>(&mut self, program: &str, arguments: &[S], undo: Option<Undo>) {
        self.push(Action::run(program, arguments), undo);
    }

    /// A program whose standard output fills in a placeholder.
    fn ask(&mut self, program: &str, arguments: &[&str], output: &str, undo: Option<Undo>) {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        let output = Some(output.to_owned());
        self.push(Action::Run { program: program.to_owned(), arguments, output }, undo);
    }

    fn load(&mut self, module: &str, arguments: &[&str]) {
        let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
        self.push(Action::Load { module: module.to_owned(), arguments }, None);
    }

    fn check(&mut self, check: Check) {
        self.push(Action::Check(check), None);
    }

    fn write(&mut self, path: String, number: u64) {
        self.push(Action::Write { path, text: number.to_string() }, None);
    }

    /// `durio1234567-2-0`: tag, layer, group.
    fn name(&self, group: usize) -> String {
        format!("{}-{}-{group}", self.place.tag(), self.layer)
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
