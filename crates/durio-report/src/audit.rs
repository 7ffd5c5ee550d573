//! Findings of an audit, as text and as JSON.
//!
//! In: [`AuditFindings`]. Out: bytes, into a writer. Not here: which figures are wrong, and why.

use std::io;

use durio_audit::AuditFindings;

use crate::{Format, Options, text};

/// How the findings of an audit are written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditFormat {
    /// For a terminal.
    Text,
    /// The findings, whole, as one document.
    Json,
}

impl AuditFormat {
    /// Every format, in the order in which help texts list them.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// The name that users write and read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }

    /// The same among all formats.
    pub(crate) const fn of_all(self) -> Format {
        match self {
            Self::Text => Format::Text,
            Self::Json => Format::Json,
        }
    }
}

/// Writes the findings about `subject`, which is a path or another name for what was audited.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write_audit(
    format: AuditFormat,
    findings: &AuditFindings,
    subject: &str,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        AuditFormat::Text => text::write_audit(findings, subject, options, out),
        AuditFormat::Json => crate::json::write_document(findings, out),
    }
}
