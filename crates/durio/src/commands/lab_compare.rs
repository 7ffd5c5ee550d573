//! `durio lab compare`: the same stacks on two kernels, in turns.

use std::path::Path;

use durio_bench::{
    GuestBench, LabComparing, LabInterleaving, read_lab_comparison, save_lab_comparison,
};
use durio_record::lab_compare::LabCompareFolder;
use durio_report::Format;

use crate::args::LabCompare;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(crate) fn compare(arguments: &LabCompare) -> Result<Exit, Failure> {
    let [before, after] = arguments.kernels.as_slice() else {
        let text = format!("{} kernels are given, and two are compared", arguments.kernels.len());
        return Err(Failure::new(Exit::WrongUse, text)
            .hint("write --kernel twice; durio lab kernels lists those that can be booted"));
    };
    let choice = arguments.choosing.choice();
    let bench = GuestBench {
        spec: &arguments.spec,
        choice: &choice,
        guest: arguments.guest.settings(),
        kernel: None,
        modules: None,
        seed: Some(arguments.seed),
        quiet: arguments.quiet,
        runs: Path::new(""),
    };
    let turns = LabInterleaving::prepare(LabComparing {
        bench,
        kernels: [before, after],
        repeats: arguments.repeat,
        seed: arguments.seed,
        out: arguments.out.as_deref(),
    })?;
    let compared = turns.run(&stop_on_signals()?, &Terminal::new(arguments.quiet))?;
    match Exit::from(compared.ending) {
        Exit::Interrupted => {
            output::remark("durio: interrupted; durio report FOLDER shows what is there");
            Ok(Exit::Interrupted)
        }
        exit => {
            let read = read_lab_comparison(&compared.folder, &Terminal::new(true))?;
            save_lab_comparison(&compared.folder, &read.findings)?;
            output::lab_comparison(arguments.format, &read.findings)?;
            Ok(if exit == Exit::Fine { Exit::of_read(read.is_damaged) } else { exit })
        }
    }
}

/// A comparison again, from its folder alone, as far as it came.
pub(super) fn show(folder: &LabCompareFolder, format: Format) -> Result<Exit, Failure> {
    if format == Format::FioJson {
        return Err(Failure::new(Exit::WrongUse, "fio JSON is not supported for comparisons")
            .hint("report one of its runs instead: durio report FOLDER/a1/RUN --format fio-json"));
    }
    let read = read_lab_comparison(folder, &Terminal::new(true))?;
    output::lab_comparison(format, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}
