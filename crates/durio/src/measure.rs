//! What all commands that measure have in common: a plan is carried out while the terminal watches,
//! and its report printed.

use std::path::PathBuf;

use durio_analyse::Findings;
use durio_bench::{
    BenchError, Executed, Execution, Interrupted, Located, clear_leftovers, memory_remark,
    restore_settings,
};
use durio_block::HeldTargets;
use durio_plan::Plan;

use crate::args::Measuring;
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

/// Names a run, and removes what dead runs left behind.
pub(crate) fn begin(command: &str, options: &Measuring) -> Result<Execution, BenchError> {
    let execution = Execution::begin(command, &options.run_options())?;
    clear_up();
    Ok(execution)
}

/// Removes what dead runs left behind, and tells of it.
pub(crate) fn clear_up() {
    // First: a setting that a killed run left changed would be in every figure.
    output::remarks(restore_settings());
    output::remarks(clear_leftovers());
}

/// What is at `paths`, with what `options` permit.
pub(crate) fn locate<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    options: &'a Measuring,
) -> Result<Located, BenchError> {
    durio_bench::locate(paths, options.permission())
}

/// Runs `plan` on what was looked up for it, records it, prints the report. The exit code does not
/// know verdicts.
pub(crate) fn execute(
    execution: &Execution,
    plan: &Plan,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), BenchError> {
    // Before the first file: whoever stops durio from now on finds a record that says so.
    let stop = stop_on_signals()?;
    output::remarks(memory_remark(plan));
    conclude(execution.execute(plan, held, &stop, &Terminal::new(options.quiet))?, options)
}

/// Goes on with an interrupted run in its own folder.
pub(crate) fn resume(
    execution: &Execution,
    interrupted: &Interrupted,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), BenchError> {
    let stop = stop_on_signals()?;
    output::remarks(memory_remark(&interrupted.folder.plan));
    conclude(execution.resume(interrupted, held, &stop, &Terminal::new(options.quiet))?, options)
}

fn conclude(executed: Executed, options: &Measuring) -> Result<(Exit, Findings), BenchError> {
    let Executed { findings, outcome } = executed;
    // A report without a figure would only hide the error that follows.
    if outcome.is_ok() || !findings.workloads.is_empty() {
        output::report(options.report_format(), &findings)?;
    }
    Ok((Exit::from(outcome?), findings))
}
