//! `durio advise`: what is set, against rules; and the proof of one.

use std::path::Path;

use durio_advise::{AdviceRequest, DatabaseSettings, System, advise as judge};
use durio_analyse::Findings;
use durio_bench::{ProofRequest, Proved, prove, read_run};
use durio_block::{open_input, read_bounded};
use durio_observe::{read_readings, read_stack};
use durio_units::Bytes;

use crate::args::Advise;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::measure::restore_settings_left;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_in_order;

/// A larger file is no configuration.
const CONFIG_BYTES_MAX: Bytes = Bytes::from_mib(1);

pub(crate) fn advise(arguments: &Advise) -> Result<Exit, Failure> {
    restore_settings_left();
    if let Some(rule) = &arguments.prove {
        return proof(arguments, rule);
    }
    let stack =
        read_stack(&arguments.path).map_err(|error| Failure::of(Exit::CannotMeasure, error))?;
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
        .map_err(Failure::unmade)?;
    output::answer(&bytes)?;
    Ok(Exit::Fine)
}

/// The rule measured before and after, in turns.
fn proof(arguments: &Advise, rule: &str) -> Result<Exit, Failure> {
    let request = ProofRequest {
        rule,
        path: &arguments.path,
        value: arguments.value.as_deref(),
        pairs: arguments.pairs,
        duration: arguments.duration,
        size: arguments.size,
    };
    // Nobody hurries it: the old value comes back.
    let Proved { proof, ending } = prove(&request, &stop_in_order()?, &Terminal::new(false))?;
    if let Some(proof) = proof {
        let (mut bytes, options) = (Vec::new(), output::terminal_options());
        durio_report::write_proof(arguments.format, &proof, &options, &mut bytes)
            .map_err(Failure::unmade)?;
        output::answer(&bytes)?;
    }
    Ok(ending.into())
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
    Ok(read_run(path, false, &Terminal::new(true))?.findings)
}
