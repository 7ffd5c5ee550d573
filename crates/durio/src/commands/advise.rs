//! `durio advise`: what is set, against rules; and the proof of one.

mod proof;
mod proof_spec;
mod proof_turns;

use std::path::Path;

use durio_advise::{AdviceRequest, DatabaseSettings, System, advise as judge};
use durio_analyse::Findings;
use durio_block::{open_input, read_bounded};
use durio_observe::{read_readings, read_stack};
use durio_units::Bytes;

use super::report::analysed;
use crate::args::Advise;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::switched;

/// A larger file is no configuration.
const CONFIG_BYTES_MAX: Bytes = Bytes::from_mib(1);

pub(crate) fn advise(arguments: &Advise) -> Result<Exit, Failure> {
    switched::restore_left();
    if let Some(rule) = &arguments.prove {
        return proof::prove(arguments, rule);
    }
    let stack = read_stack(&arguments.path).map_err(cannot_look)?;
    let readings = read_readings(&stack);
    let findings = arguments.run.as_deref().map(findings).transpose()?;
    let report = judge(&AdviceRequest {
        target: arguments.path.display().to_string(),
        system: System { stack: &stack, readings: &readings },
        role: arguments.role,
        database: arguments.database.clone(),
        settings: settings(arguments)?,
        run: findings.as_ref(),
        rule: arguments.rule.clone(),
    })?;
    let mut bytes = Vec::new();
    let options = output::terminal_options();
    // Whoever asks for one rule wants to see it, whatever it says.
    let all = arguments.all || arguments.rule.is_some();
    durio_report::write_advice(arguments.format, &report, all, &options, &mut bytes)
        .map_err(cannot_write)?;
    output::answer(&bytes)?;
    Ok(Exit::Fine)
}

fn cannot_look(error: durio_observe::StackError) -> Failure {
    Failure { exit: Exit::CannotMeasure, error: error.into(), hints: Vec::new() }
}

fn cannot_write(error: std::io::Error) -> Failure {
    Failure {
        exit: Exit::Fault,
        error: anyhow::Error::new(error).context("cannot make the report"),
        hints: Vec::new(),
    }
}

fn settings(arguments: &Advise) -> Result<DatabaseSettings, Failure> {
    let mut settings =
        DatabaseSettings { given: arguments.settings.clone(), ..DatabaseSettings::default() };
    if let Some(path) = &arguments.config {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        settings.read_file(&name, &text_of(path)?);
    }
    Ok(settings)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let read = open_input(path).and_then(|file| read_bounded(file, CONFIG_BYTES_MAX));
    let bytes = read.map_err(|error| {
        let message = format!("cannot read '{}': {error}", path.display());
        let failure = Failure::new(Exit::CannotMeasure, message);
        match error.kind() {
            std::io::ErrorKind::FileTooLarge => failure
                .hint("name postgresql.conf, my.cnf or the like, or give --setting NAME=VALUE"),
            _ => failure,
        }
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn findings(path: &Path) -> Result<Findings, Failure> {
    Ok(analysed(path, false)?.0)
}
