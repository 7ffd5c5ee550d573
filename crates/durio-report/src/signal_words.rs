//! What terminal and page say of signals with the same words.

use durio_analyse::Reading;

/// The heading.
pub(crate) const QUESTION: &str = "Can its flush be trusted?";

/// Said once, above all signals.
pub(crate) const NO_PROOF: &str = "What was read and counted, the weightiest first; nothing here is a proof, only power cuts are.";

/// One piece of evidence in a line.
pub(crate) fn evidence(reading: &Reading) -> String {
    format!("{} = {} [{}]", reading.what, reading.value, reading.place)
}
