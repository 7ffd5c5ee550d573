//! `durio audit`: are these figures possible?

use std::fs::File;

use durio_analyse::audit::audit_table;
use durio_report::write_audit;

use crate::args::Audit;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(crate) fn audit(arguments: &Audit) -> Result<Exit, Failure> {
    let subject = arguments.file.display().to_string();
    let unreadable = |failure: Failure| Failure {
        error: failure.error.context(format!("cannot audit '{subject}'")),
        ..failure
    };
    let file = File::open(&arguments.file).map_err(durio_analyse::audit::AuditError::Read);
    let findings = file.and_then(audit_table).map_err(|error| unreadable(error.into()))?;
    let mut bytes = Vec::new();
    let options = output::terminal_options();
    write_audit(arguments.format, &findings, &subject, &options, &mut bytes).map_err(|error| {
        Failure {
            exit: Exit::Fault,
            error: anyhow::Error::new(error).context("cannot write the findings down"),
            hints: Vec::new(),
        }
    })?;
    output::answer(&bytes)?;
    Ok(if findings.has_impossible() { Exit::Negative } else { Exit::Fine })
}
