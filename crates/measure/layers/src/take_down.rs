//! Takes down a build, the last step first.
//!
//! Takes the started steps with the journal's record of each; returns the outcome of each, which
//! the caller writes to the journal.
//!
//! A stack is a tower: when a step cannot be undone, the layers below it are in use and stay.

use super::identity::LayerIdentity;
use super::journal::BegunStep;
use super::kinds::Undo;
use super::place::Values;
use super::undo::{UndoContext, Undoer, Undone};

/// Observations about the steps above.
#[derive(Debug)]
pub(super) struct TakeDown<'a> {
    pub(super) tag: &'a str,
    pub(super) same_boot: bool,
    /// The builder itself takes down.
    pub(super) live: bool,
    /// A layer above held the devices below until it was taken down just now.
    held: bool,
    broken: Option<String>,
}

impl<'a> TakeDown<'a> {
    pub(super) const fn new(tag: &'a str, same_boot: bool, live: bool) -> Self {
        Self { tag, same_boot, live, held: false, broken: None }
    }

    /// An earlier clean took down layers above; those below may have been used since.
    pub(super) fn went_on_after(mut self, earlier: bool) -> Self {
        self.broken = earlier.then(|| {
            "it may have been used since an earlier clean, which could not end".to_owned()
        });
        self
    }

    /// Releases processes that wait for a dead server.
    pub(super) fn release(&self, undoer: &mut Undoer<'_>, steps: &[BegunStep], values: &Values) {
        for (place, begun) in steps.iter().enumerate() {
            let undo = &begun.step.undo.filled(values);
            let below = steps.get(..place).unwrap_or_default();
            // If that fails, the undo itself reports why.
            let _ = undo.step().release(undoer, &self.known(begun, below, undo, values));
        }
    }

    /// Undoes the last of the steps; the others are those below it.
    pub(super) fn undo_last(
        &mut self,
        undoer: &mut Undoer<'_>,
        steps: &[BegunStep],
        values: &Values,
    ) -> Result<Undone, String> {
        let Some((begun, below)) = steps.split_last() else { return Ok(Undone::Gone) };
        let undo = &begun.step.undo.filled(values);
        let known = self.known(begun, below, undo, values);
        let undone = undoer.carry_out(undo.step(), &known)?;
        self.saw(begun, &undone);
        Ok(undone)
    }

    fn known<'k>(
        &'k self,
        begun: &'k BegunStep,
        below: &'k [BegunStep],
        undo: &'k Undo,
        values: &'k Values,
    ) -> UndoContext<'k> {
        let made = |path| made(below, path);
        UndoContext {
            values,
            tag: self.tag,
            recorded: begun.identity.as_ref(),
            folder: undo.step().folder().and_then(made),
            file: undo.step().file().and_then(made),
            done: begun.done,
            same_boot: self.same_boot,
            live: self.live,
            // While an array or a mounted filesystem held them, no other process could open the
            // devices exclusively.
            vouched: self.live || self.held,
            broken: self.broken.as_deref(),
        }
    }

    fn saw(&mut self, begun: &BegunStep, undone: &Undone) {
        let undo = &begun.step.undo;
        let holds = undo.step().holds_devices();
        match undone {
            Undone::Done => self.held |= holds,
            // A clean that was itself interrupted, or a person: in between the devices were free
            // for use.
            Undone::Gone if holds && begun.done => {
                self.broken =
                    Some(format!("somebody else did `{undo}`, and may have used it since"));
            }
            Undone::LeftAlone(_) if holds => {
                self.broken = Some(format!("`{undo}` was not done"));
            }
            // Whatever its user was, the devices below were free since its end.
            Undone::Remains => self.held = false,
            Undone::Gone | Undone::LeftAlone(_) => (),
        }
    }
}

/// What a step made at the path, as the journal has it.
fn made<'b>(steps: &'b [BegunStep], path: &str) -> Option<&'b LayerIdentity> {
    let mut steps = steps.iter();
    steps.find(|begun| begun.step.undo.step().made_path() == Some(path))?.identity.as_ref()
}
