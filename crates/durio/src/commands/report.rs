//! `durio report`: every view again, from the run folder alone; of a bench folder its
//! layers, of a comparison of kernels how they changed.

use durio_bench::{BenchError, read_run};
use durio_record::bench::BenchFolder;
use durio_record::file_names;
use durio_record::lab_compare::LabCompareFolder;

use crate::args::Report;
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;

pub(crate) fn report(arguments: &Report) -> Result<Exit, BenchError> {
    // A folder that is both would be nobody's: the manifest of a run goes first.
    let is_run = arguments.run.join(file_names::MANIFEST).is_file();
    if BenchFolder::is_at(&arguments.run) && !is_run {
        let folder = BenchFolder::open(&arguments.run)?;
        return super::stack::show_bench(&folder, arguments.format);
    }
    if LabCompareFolder::is_at(&arguments.run) && !is_run {
        let folder = LabCompareFolder::open(&arguments.run)?;
        return super::lab::show_comparison(&folder, arguments.format);
    }
    let histograms = arguments.format.shows_histograms();
    let read = read_run(&arguments.run, histograms, &Terminal::new(true))?;
    output::report(arguments.format, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}
