//! `durio stack bench`: builds, measures and takes down every stack of a spec.

use std::path::Path;

use durio_analyse::attribution::StackFindings;
use durio_layers::DeclaredStack;
use durio_layers::{BuildError, missing};
use durio_plan::ClockChoice;
use durio_record::Outcome;
use durio_record::bench::{
    BENCH_FOLDER_SCHEMA, BenchFolder, BenchManifest, BenchPublished, BenchStack, BenchWriter,
    SeveralDevices,
};
use durio_record::file_names;
use durio_report::{Format, Options};
use durio_run::StopFlag;
use durio_spec::{PublishedShare, RawDevices, StackBench};

use super::GuestBench;
use super::clean::lines;
use super::{chosen, files_folder, journals, read};
use crate::args::{Measuring, StackBenching};
use crate::bench::{
    BenchProgress, Course, Estimate, Machine, Measured, Planning, estimates, listing,
};
use crate::execute::{Execution, absolute, command_line, execute};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::stack_findings::stack_findings;
use crate::state_folder::runs_folder;
use crate::stop_signals::stop_on_signals;

pub(super) fn bench(arguments: &StackBenching) -> Result<Exit, Failure> {
    let options = &arguments.common;
    refuse_formats(options.report_format())?;
    if arguments.lab {
        return bench_in_lab(arguments);
    }
    if arguments.guest.is_given() {
        return Err(Failure::new(Exit::WrongUse, "options of a guest are given without --lab"));
    }
    let spec = read(&arguments.spec)?;
    let stacks = chosen(&spec, &arguments.choosing)?;
    refuse_unknown_destroy(&stacks, options)?;
    refuse_missing_destroy(&stacks, options)?;
    refuse_if_nothing_can_be_built(&stacks)?;
    let execution = Execution::begin("stack", options)?;
    let planning = Planning {
        bench: &spec,
        choosing: &arguments.choosing,
        seed: execution.seed,
        clock: options.clock,
    };
    let estimates = estimates(&planning, &stacks)?;
    let manifest = manifest(&execution, &planning, &stacks);
    for outcome in durio_layers::clean(&journals()?) {
        lines(&outcome).iter().for_each(|line| output::remark(&format!("durio: {line}")));
    }
    let stop = stop_on_signals()?;
    let writer = BenchWriter::create(execution.folder(), &manifest)?;
    let running = Running { execution: &execution, planning: &planning, options, stop: &stop };
    let manifest = running.run(manifest, &writer, &estimates)?;
    let folder = BenchFolder::open(&absolute(writer.folder()))?;
    conclude(&folder, options.report_format())?;
    Ok(match manifest.outcome {
        Some(Outcome::Complete) => Exit::Fine,
        Some(Outcome::Interrupted) => Exit::Interrupted,
        _ => Exit::CannotMeasure,
    })
}

/// The same in a guest, with the exit code that it had there.
fn bench_in_lab(arguments: &StackBenching) -> Result<Exit, Failure> {
    let options = &arguments.common;
    if !options.destroy.is_empty() {
        let text = "--destroy has no effect with --lab: a guest has none of this machine's devices";
        return Err(Failure::new(Exit::WrongUse, text));
    }
    if options.clock != ClockChoice::Auto {
        let text = "the clock of a guest is the lab's: leave --clock out";
        return Err(Failure::new(Exit::WrongUse, text));
    }
    let stop = stop_on_signals()?;
    let bench = GuestBench {
        spec: &arguments.spec,
        choosing: &arguments.choosing,
        guest: &arguments.guest,
        kernel: arguments.kernel.as_deref(),
        modules: arguments.modules.as_deref(),
        seed: options.seed,
        quiet: options.quiet,
        runs: &runs_folder(options.out.as_deref())?,
    };
    let (folder, exit) = bench.run(&stop)?;
    conclude(&BenchFolder::open(&absolute(&folder))?, options.report_format())?;
    Ok(exit)
}

/// Shows what a bench found, and keeps the same beside its manifest.
fn conclude(folder: &BenchFolder, format: Format) -> Result<(), Failure> {
    let found = stack_findings(folder);
    if let Ok((findings, _)) = &found {
        for (name, format) in
            [(file_names::FINDINGS, Format::Json), (file_names::REPORT, Format::Html)]
        {
            folder.save(name, &output::rendered_stack(format, findings, Options::default())?)?;
        }
    }
    show_found(folder, found, format).map(|_| ())
}

/// What every point is measured with.
struct Running<'a> {
    execution: &'a Execution,
    planning: &'a Planning<'a>,
    options: &'a Measuring,
    stop: &'a StopFlag,
}

impl Running<'_> {
    fn run(
        &self,
        manifest: BenchManifest,
        writer: &BenchWriter,
        estimates: &[Estimate],
    ) -> Result<BenchManifest, Failure> {
        let stacks = manifest.stacks.clone();
        let progress = BenchProgress::new(self.options.quiet, &stacks, estimates);
        let stop = || self.stop.is_set();
        let machine = Machine {
            files: files_folder(),
            journals: journals()?,
            destroy: self.options.destroy.clone(),
            force: self.options.force_signature,
            stop: &stop,
            progress: &|step| progress.step(step),
        };
        let course = Course {
            manifest,
            site: &machine,
            stop: &stop,
            save: &|manifest| Ok(writer.update(manifest)?),
            building: &|stack, layer| progress.building(stack, layer),
        };
        course.run(&mut |point| {
            progress.measuring(point.stack, point.layer.index);
            let execution = self.execution.point(&point.run, self.stop);
            let (plan, held) = self.planning.plan(point.layer, execution.file_name())?;
            let (exit, _) = execute(&execution, &plan, held, self.options)?;
            Ok(match exit {
                Exit::Fine => Measured::Complete,
                Exit::Interrupted => Measured::Stopped,
                _ => Measured::Failed,
            })
        })
    }
}

fn manifest(
    execution: &Execution,
    planning: &Planning<'_>,
    stacks: &[DeclaredStack],
) -> BenchManifest {
    let (bench, started) = execution.identity();
    let StackBench { name, summary, text, .. } = planning.bench.clone();
    let is_there = |share: &&PublishedShare| stacks.iter().any(|it| it.name == share.stack);
    BenchManifest {
        schema: BENCH_FOLDER_SCHEMA,
        bench,
        durio_version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        command: command_line(),
        name,
        summary,
        spec: text,
        seed: planning.seed,
        time_scale_per_mille: planning.choosing.scale_time,
        size_scale_per_mille: planning.choosing.scale_size,
        several_devices: match planning.bench.raw {
            RawDevices::One => SeveralDevices::One,
            RawDevices::All => SeveralDevices::All,
        },
        published: planning.bench.published.iter().filter(is_there).map(published).collect(),
        outcome: None,
        stacks: stacks.iter().map(waiting).collect(),
    }
}

fn waiting(stack: &DeclaredStack) -> BenchStack {
    let of = |layer: &durio_layers::DeclaredLayer| (layer.kind.name().to_owned(), layer.label());
    BenchStack::waiting(stack.clone(), stack.layers.iter().map(of).collect())
}

fn published(share: &PublishedShare) -> BenchPublished {
    let PublishedShare { stack, layer, workload, jobs, share_of_raw, rate, source } = share.clone();
    BenchPublished { stack, layer, workload, jobs, share_of_raw, rate, source }
}

fn refuse_formats(format: Format) -> Result<(), Failure> {
    match format {
        Format::FioJson => {
            Err(Failure::new(Exit::WrongUse, "fio JSON is not supported for stack benches")
                .hint("report one of its runs instead: durio report BENCH/RUN --format fio-json"))
        }
        _ => Ok(()),
    }
}

/// What may be overwritten must be part of a stack.
fn refuse_unknown_destroy(stacks: &[DeclaredStack], options: &Measuring) -> Result<(), Failure> {
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    };
    let names_nothing = |path: &&std::path::PathBuf| {
        !existing_devices(stacks).any(|device| same(path, Path::new(device)))
    };
    match options.destroy.iter().find(names_nothing) {
        None => Ok(()),
        Some(path) => Err(Failure::new(
            Exit::WrongUse,
            format!("--destroy '{}' names no device of the spec's stacks", path.display()),
        )
        .hint("devices that durio makes need no permission")),
    }
}

/// The devices of the user's that stacks stand on.
fn existing_devices(stacks: &[DeclaredStack]) -> impl Iterator<Item = &String> {
    stacks.iter().flat_map(|stack| &stack.layers).flat_map(|layer| match &layer.kind {
        durio_layers::DeclaredKind::Device(device) => device.paths.as_slice(),
        _ => &[],
    })
}

/// What would be overwritten must be named, before anything is built.
fn refuse_missing_destroy(stacks: &[DeclaredStack], options: &Measuring) -> Result<(), Failure> {
    let is_named =
        |device: &String| options.destroy.iter().any(|path| path.as_path() == Path::new(device));
    match existing_devices(stacks).find(|device| !is_named(device)) {
        None => Ok(()),
        Some(device) => {
            Err(Failure::new(Exit::WrongUse, format!("whatever is on '{device}' would be lost"))
                .hint(format!("allow that with --destroy {device}")))
        }
    }
}

/// Where each stack lacks something, nothing is begun.
fn refuse_if_nothing_can_be_built(stacks: &[DeclaredStack]) -> Result<(), Failure> {
    let lacking = stacks.iter().map(|stack| (stack, missing(stack)));
    let mut first = None;
    for (stack, missing) in lacking {
        if missing.is_empty() {
            return Ok(());
        }
        first.get_or_insert(BuildError::Missing { stack: stack.name.clone(), missing });
    }
    let Some(error) = first else { return Ok(()) };
    let hints = vec!["--lab does the same in a throw-away virtual machine, as any user".to_owned()];
    Err(Failure { exit: Exit::CannotMeasure, error: error.into(), hints })
}

/// A bench on stdout: what its layers cost, and what became of each of them.
pub(in crate::commands) fn show(folder: &BenchFolder, format: Format) -> Result<Exit, Failure> {
    refuse_formats(format)?;
    show_found(folder, stack_findings(folder), format)
}

fn show_found(
    folder: &BenchFolder,
    found: Result<(StackFindings, Exit), Failure>,
    format: Format,
) -> Result<Exit, Failure> {
    let listed = listing(&folder.manifest, folder.path());
    let (findings, exit) = match found {
        Ok(found) => found,
        Err(failure) => {
            // Nothing was measured: what became of the stacks says why.
            if format == Format::Text {
                output::answer_text(&listed)?;
            }
            return Err(failure);
        }
    };
    let mut bytes = output::rendered_stack(format, &findings, output::terminal_options())?;
    if format == Format::Text {
        bytes.push(b'\n');
        bytes.extend(listed.into_bytes());
    }
    output::answer(&bytes).map(|()| exit)
}
