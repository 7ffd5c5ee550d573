//! What all commands that measure have in common: a plan is carried out while the terminal watches,
//! and its report printed.

use std::path::PathBuf;

use durio_analyse::Findings;
use durio_base::{Bytes, Nanos};
use durio_bench::{
    BenchError, Executed, Execution, Interrupted, Located, LookFor, clear_leftovers, memory_remark,
    restore_settings,
};
use durio_block::HeldTargets;
use durio_plan::{Cost, Plan, TargetKind};
use durio_report::clock;

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
    output::remarks(clear_leftovers(LookFor::Marked));
}

/// What is at `paths`, with what `options` permit.
pub(crate) fn locate<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    options: &'a Measuring,
) -> Result<Located, BenchError> {
    durio_bench::locate(paths, options.permission())
}

/// Refuses targets that do not exist: whoever misspells a directory, or has not mounted it, would else
/// measure the filesystem above it.
pub(crate) fn refuse_absent(plan: &Plan, options: &Measuring) -> Result<(), BenchError> {
    let absent = plan.targets.iter().find_map(|target| match &target.kind {
        TargetKind::NewFile { directory, file_name, named: true, .. } => {
            Some(directory.as_path().join(file_name.as_path()))
        }
        _ => None,
    });
    match absent.filter(|_| !options.create) {
        Some(path) => {
            Err(BenchError::cannot_measure(format!("'{}' does not exist", path.display())).hint(
                "name an existing directory, file or block device; --create makes a file there for \
                 the run and removes it",
            ))
        }
        None => Ok(()),
    }
}

/// Runs `plan` on what was looked up for it, records it, prints the report. The exit code does not
/// know verdicts.
pub(crate) fn execute(
    execution: &Execution,
    plan: &Plan,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), BenchError> {
    consent(plan.cost(), options)?;
    // Before the first file: whoever stops durio from now on finds a record that says so.
    let stop = stop_on_signals()?;
    output::remarks(memory_remark(plan));
    conclude(execution.execute(plan, held, &stop, &Terminal::new(options.quiet))?, options)
}

// So much is agreed with by whoever starts a command.
pub(crate) const TIME_MAX: Nanos = Nanos::from_secs(600);
const BYTES_MAX: Bytes = Bytes::from_gib(16);

/// Says what it costs, and asks, where that is much.
pub(crate) fn consent(cost: Cost, options: &Measuring) -> Result<(), BenchError> {
    let Cost { time, written, writing, space } = cost;
    if time <= TIME_MAX && written <= BYTES_MAX && space <= BYTES_MAX {
        return Ok(());
    }
    let mut parts = Vec::new();
    if time > Nanos::ZERO {
        parts.push(format!("takes up to {}", clock(time)));
    }
    if written > Bytes::ZERO {
        parts.push(format!("writes up to {written}"));
    }
    if writing > Nanos::ZERO {
        parts.push(format!("writes as fast as the storage takes it for {}", clock(writing)));
    }
    if space > Bytes::ZERO {
        parts.push(format!("needs {space} of space"));
    }
    let text = format!("this {}", parts.join(", "));
    if options.yes {
        output::remark(&format!("durio: {text}"));
        return Ok(());
    }
    match output::agreed(&text)? {
        true => Ok(()),
        false => Err(BenchError::wrong_use("nothing was done")),
    }
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
        output::report(options.output, &findings)?;
    }
    Ok((Exit::from(outcome?), findings))
}
