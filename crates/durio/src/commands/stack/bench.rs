//! `durio stack bench`: builds, measures and takes down every stack of a spec.

use durio_analyse::attribution::StackFindings;
use durio_bench::{
    Bench, BenchError, BenchRequest, GuestBench, ReadBack, bench_of_guest, listing, read_bench,
    runs_folder,
};
use durio_layers::DeclaredStack;
use durio_plan::ClockChoice;
use durio_record::bench::BenchFolder;
use durio_report::Format;

use super::lines;
use crate::args::{OutputArguments, StackBenching};
use crate::exit_code::Exit;
use crate::measure::{clear_up, consent};
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn bench(arguments: &StackBenching) -> Result<Exit, BenchError> {
    let options = &arguments.common;
    // Before hours of measuring, not after.
    output::refuse_fio(options.output, "BENCH/RUN")?;
    if arguments.lab {
        return bench_in_lab(arguments);
    }
    // Ignored options would suggest that the results are a guest's.
    if arguments.guest.is_given() {
        return Err(BenchError::wrong_use("options of a guest are given without --lab"));
    }
    let choice = arguments.choosing.choice();
    let bench = Bench::prepare(BenchRequest {
        spec: &arguments.spec,
        choice: &choice,
        destroy: &options.destroy,
        force_signature: options.force_signature,
        clock: options.clock,
        options: options.run_options(),
    })?;
    consent(bench.cost(), options)?;
    clear_up();
    // Remains of a killed bench may hold the devices that this one needs.
    output::remarks(bench.clean()?.iter().flat_map(lines));
    let benched = bench.run(&stop_on_signals()?, &Terminal::new(options.quiet))?;
    show_found(&benched.folder, benched.found, options.output)?;
    Ok(benched.ending.into())
}

/// The same in a guest, with the exit code that it had there.
fn bench_in_lab(arguments: &StackBenching) -> Result<Exit, BenchError> {
    let options = &arguments.common;
    if !options.destroy.is_empty() {
        let text = "--destroy has no effect with --lab: a guest has none of this machine's devices";
        return Err(BenchError::wrong_use(text));
    }
    if options.clock != ClockChoice::Auto {
        let text = "the clock of a guest is the lab's: leave --clock out";
        return Err(BenchError::wrong_use(text));
    }
    let (stop, choice) = (stop_on_signals()?, arguments.choosing.choice());
    let bench = GuestBench {
        spec: &arguments.spec,
        choice: &choice,
        guest: arguments.guest.settings(),
        kernel: arguments.kernel.as_deref(),
        modules: arguments.modules.as_deref(),
        seed: options.seed,
        label: options.name.as_deref(),
        quiet: options.quiet,
        runs: &runs_folder(options.out.as_deref())?,
    };
    let benched = bench_of_guest(&bench, &stop, &Terminal::new(options.quiet))?;
    show_found(&benched.folder, benched.found, options.output)?;
    Ok(benched.ending.into())
}

/// Prints a bench: the cost of its layers, and the outcome of each stack.
pub(in crate::commands) fn show(
    folder: &BenchFolder<DeclaredStack>,
    wished: OutputArguments,
) -> Result<Exit, BenchError> {
    output::refuse_fio(wished, "BENCH/RUN")?;
    show_found(folder, read_bench(folder, &Terminal::new(true)), wished)
}

fn show_found(
    folder: &BenchFolder<DeclaredStack>,
    found: Result<ReadBack<StackFindings>, BenchError>,
    wished: OutputArguments,
) -> Result<Exit, BenchError> {
    let listed = listing(&folder.manifest, folder.path(), wished.verbose);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            // Nothing was measured: the outcomes of the stacks say why.
            if wished.format() == Format::Text {
                output::answer_text(&listed)?;
            }
            return Err(error);
        }
    };
    output::report(wished, &found.findings)?;
    if wished.format() == Format::Text {
        output::answer_text(&format!("\n{listed}"))?;
    }
    Ok(Exit::of_read(found.is_damaged))
}
