//! `durio report`: every view again, from the run folder alone; of a bench folder its
//! layers, of a comparison of kernels how they changed.

use std::path::Path;

use durio_analyse::{Analyser, Findings};
use durio_record::bench::{BenchFolder, is_bench_folder};
use durio_record::lab_compare::{LabCompareFolder, is_lab_compare_folder};
use durio_record::{RunFolder, file_names};

use crate::args::Report;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

pub(crate) fn report(arguments: &Report) -> Result<Exit, Failure> {
    // A folder that is both would be nobody's: the manifest of a run goes first.
    let is_run = arguments.run.join(file_names::MANIFEST).is_file();
    if is_bench_folder(&arguments.run) && !is_run {
        let folder = BenchFolder::open(&arguments.run)?;
        return super::stack::show_bench(&folder, arguments.format);
    }
    if is_lab_compare_folder(&arguments.run) && !is_run {
        let folder = LabCompareFolder::open(&arguments.run)?;
        return super::lab_compare::show(&folder, arguments.format);
    }
    let (findings, exit) = analysed(&arguments.run, arguments.format.shows_histograms())?;
    output::findings(arguments.format, &findings)?;
    Ok(exit)
}

/// The findings of a run folder, as far as it can be read; the exit code says whether that is to its
/// end.
pub(crate) fn analysed(run: &Path, keep_histograms: bool) -> Result<(Findings, Exit), Failure> {
    let folder = RunFolder::open(run)?;
    let mut analyser =
        Analyser::new(folder.manifest.clone(), folder.plan.clone(), folder.environment.clone());
    if keep_histograms {
        analyser.keep_histograms();
    }
    let mut exit = Exit::Fine;
    for event in folder.events()? {
        match event {
            Ok(timed) => analyser.observe(&timed.event),
            // What can be read is shown; the rest is missing, and the reader is told.
            Err(error) => {
                let failure = Failure::from(error);
                let damage = format!("the record is damaged: {:#}", failure.error);
                output::remark(&format!("durio: {damage}; the report ends there"));
                analyser.damaged(damage);
                exit = Exit::CannotMeasure;
                break;
            }
        }
    }
    let path = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    Ok((durio_signals::judged(analyser.finish(path.display().to_string())), exit))
}
