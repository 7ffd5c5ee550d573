//! Why a request cannot become a plan.

use durio_command::CommandError;
use durio_plan::RawPath;

/// A refused request, with the remedy.
pub type SpecError = CommandError;

/// The refusal of a plan that writes to an existing target.
pub(crate) fn would_destroy(path: &RawPath) -> SpecError {
    SpecError::wrong_use(format!("'{path}' exists, and this would write to it"))
        .hint(format!("permit it with --destroy '{path}', or name a directory"))
}
