//! `durio lab compare`: the same stacks on two kernels.

use std::path::Path;

use durio_analyse::attribution::{StackFindings, compare_labs};
use durio_record::bench::BenchFolder;
use durio_run::StopFlag;

use super::stack::GuestBench;
use crate::args::LabCompare;
use crate::execute::stop_on_signals;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::stack_findings::stack_findings;
use crate::state_folder::runs_folder;

pub(crate) fn compare(arguments: &LabCompare) -> Result<Exit, Failure> {
    let [before, after] = arguments.kernels.as_slice() else {
        let text = format!("{} kernels are given, and two are compared", arguments.kernels.len());
        return Err(Failure::new(Exit::WrongUse, text)
            .hint("write --kernel twice; durio lab kernels lists those that can be booted"));
    };
    let stop = stop_on_signals()?;
    let runs = runs_folder(arguments.out.as_deref())?;
    let (before, exit_before) = bench(arguments, before, &runs, &stop)?;
    if exit_before == Exit::Interrupted {
        return Ok(exit_before);
    }
    let (after, exit_after) = bench(arguments, after, &runs, &stop)?;
    if exit_after == Exit::Interrupted {
        return Ok(exit_after);
    }
    let comparison = compare_labs(&before, &after).map_err(|error| Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context("the two cannot be compared"),
        hints: Vec::new(),
    })?;
    output::lab_comparison(arguments.format, &comparison)?;
    Ok(if exit_before == Exit::Fine { exit_after } else { exit_before })
}

fn bench(
    arguments: &LabCompare,
    kernel: &Path,
    runs: &Path,
    stop: &StopFlag,
) -> Result<(StackFindings, Exit), Failure> {
    let bench = GuestBench {
        spec: &arguments.spec,
        choosing: &arguments.choosing,
        guest: &arguments.guest,
        kernel: Some(kernel),
        modules: None,
        seed: Some(arguments.seed),
        quiet: arguments.quiet,
        runs,
    };
    let (folder, exit) = bench.run(stop)?;
    output::remark(&format!("durio: bench folder: {}", folder.display()));
    let (findings, of_record) = stack_findings(&BenchFolder::open(&folder)?)?;
    Ok((findings, if exit == Exit::Fine { of_record } else { exit }))
}
