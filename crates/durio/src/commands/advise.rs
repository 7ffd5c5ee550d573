//! `durio advise`: checks settings against rules, and proves one.

use std::path::Path;

use durio_base::Bytes;
use durio_bench::{
    BenchError, BenchErrorKind, FinishedProof, ProofRequest, find_run, prove, read_run,
    restore_settings,
};
use durio_block::{open_input, read_bounded};
use durio_judge::advise::{AdviceRequest, DatabaseSettings, FactOrigin, advise as judge};
use durio_observe::{read_readings, read_stack};
use durio_report::ShownAdvice;

use crate::args::Advise;
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_in_order;

// A larger file is not a configuration.
const CONFIG_BYTES_MAX: Bytes = Bytes::from_mib(1);

pub(crate) fn advise(arguments: &Advise) -> Result<Exit, BenchError> {
    // First: advice about a setting left changed by a killed proof would be about durio's change.
    output::remarks(restore_settings());
    if let Some(rule) = &arguments.proof.prove {
        return proof(arguments, rule);
    }
    let unread = |error| {
        BenchError::of(BenchErrorKind::CannotMeasure, error)
            .hint("name an existing directory, file or block device")
    };
    let stack = read_stack(&arguments.path).map_err(unread)?;
    let readings = read_readings(&stack);
    let run = arguments.run.as_deref().map(find_run).transpose()?;
    let run = run.as_deref();
    let run = run.map(|path| read_run(path, false, &Terminal::new(true))).transpose()?;
    let report = judge(&AdviceRequest {
        target: arguments.path.display().to_string(),
        system: FactOrigin { stack: &stack, readings: &readings },
        role: arguments.role,
        database: arguments.database.clone(),
        settings: settings(arguments)?,
        run: run.as_ref().map(|run| &run.findings),
        rule: arguments.rule.clone(),
    })?;
    // A rule that the user names is shown in any state.
    let all = arguments.all || arguments.rule.is_some();
    output::report(arguments.output, &ShownAdvice { report: &report, all })?;
    Ok(Exit::Fine)
}

/// The rule measured before and after, in turns.
fn proof(arguments: &Advise, rule: &str) -> Result<Exit, BenchError> {
    let request = ProofRequest {
        rule,
        path: &arguments.path,
        value: arguments.proof.value.as_deref(),
        pairs: arguments.proof.pairs,
        duration: arguments.proof.duration,
        size: arguments.proof.size,
    };
    // The stop is orderly, so the old value always comes back.
    let FinishedProof { proof, ending } =
        prove(&request, &stop_in_order()?, &Terminal::new(false))?;
    if let Some(proof) = proof {
        output::report(arguments.output, &proof)?;
    }
    Ok(ending.into())
}

fn settings(arguments: &Advise) -> Result<DatabaseSettings, BenchError> {
    let mut settings =
        DatabaseSettings { given: arguments.settings.clone(), ..DatabaseSettings::default() };
    if let Some(path) = &arguments.config {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        settings.read_file(&name, &text_of(path)?);
    }
    Ok(settings)
}

fn text_of(path: &Path) -> Result<String, BenchError> {
    let read = open_input(path).and_then(|file| read_bounded(file, CONFIG_BYTES_MAX));
    let bytes = read.map_err(|error| {
        let message = format!("cannot read '{}': {error}", path.display());
        let failure = BenchError::cannot_measure(message);
        match error.kind() {
            std::io::ErrorKind::FileTooLarge => failure
                .hint("name postgresql.conf, my.cnf or the like, or give --setting NAME=VALUE"),
            _ => failure,
        }
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
