//! `durio prove`: power cuts, and what they left.

use std::path::Path;

use durio_analyse::proof::ProofVerdict;
use durio_bench::{
    BenchError, Ending, RunOptions, find_run, plan_power_proof, prove_power, read_power_proof,
    resume_power_proof,
};

use crate::args::{Output, Prove, ProveCommand, ProveRun};
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn prove(arguments: &Prove) -> Result<Exit, BenchError> {
    match &arguments.command {
        ProveCommand::Run(arguments) => run(arguments),
    }
}

fn run(arguments: &ProveRun) -> Result<Exit, BenchError> {
    output::refuse_fio(arguments.output, "PROOF")?;
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(true));
    let proved = match (&arguments.resume, &arguments.spec) {
        (Some(folder), _) => resume_power_proof(&find_run(folder)?, &stop, &terminal)?,
        (None, spec) => {
            let spec = spec.as_deref().unwrap_or(Path::new(""));
            let plan = plan_power_proof(spec, arguments.seed, arguments.cuts, &arguments.only)?;
            let options = RunOptions { out: arguments.out.as_deref(), ..RunOptions::default() };
            prove_power(plan, &options, &stop, &terminal)?
        }
    };
    output::report(arguments.output, &proved.findings)?;
    if proved.ending != Ending::Complete {
        return Ok(proved.ending.into());
    }
    let unexpected: Vec<_> = proved.findings.unexpected().collect();
    let is_open = |verdict| verdict == ProofVerdict::Inconclusive;
    Ok(match unexpected.as_slice() {
        [] if proved.findings.series.iter().any(|it| is_open(it.verdict)) => Exit::CANNOT_MEASURE,
        [] => Exit::Fine,
        all if all.iter().all(|it| is_open(it.verdict)) => Exit::CANNOT_MEASURE,
        _ => Exit::Negative,
    })
}

/// `durio report` of a proof folder.
pub(super) fn show(path: &Path, wished: Output) -> Result<Exit, BenchError> {
    output::report(wished, &read_power_proof(path)?)?;
    Ok(Exit::Fine)
}
