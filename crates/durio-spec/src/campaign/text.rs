//! The text of a spec, with the places of its errors.

pub(crate) use durio_workload::nearest_word as nearest;

use durio_workload::line_and_column;

use crate::SpecError;

/// The text of a spec, to find lines in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// Path or name, for messages.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    /// An error at a byte.
    pub(crate) fn error(&self, byte: usize, message: impl AsRef<str>) -> SpecError {
        let (line, column) = line_and_column(self.text, byte);
        SpecError::wrong_use(format!("{}:{line}:{column}: {}", self.name, message.as_ref()))
    }
}
