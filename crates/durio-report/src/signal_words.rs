//! What terminal and page say of signals with the same words.

use durio_analyse::Reading;

/// The heading.
pub(crate) const QUESTION: &str = "Can its flush be trusted?";

/// Said once, above all signals.
pub(crate) const NO_PROOF: &str =
    "Observations, most severe first. They are evidence, not proof; only a power cut is.";

/// One piece of evidence in a line.
pub(crate) fn evidence(reading: &Reading) -> String {
    format!("{} = {} [{}]", reading.what, reading.value, reading.place)
}
