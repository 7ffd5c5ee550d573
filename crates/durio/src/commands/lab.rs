//! `durio lab`: commands in a throw-away virtual machine, and the same stacks on two kernels, in turns.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_bench::{
    BenchError, BenchErrorKind, GuestBench, LabComparing, LabInterleaving, emulation_remark,
    guest_failed, left_out_remark, read_lab_comparison, save_lab_comparison, time_limit,
};
use durio_lab::kernels::{self, DriverState, kernel_named};
use durio_lab::{
    Accelerator, Kernel, LabError, LabExit, LabFile, LabOutcome, LabRequest, LabTiming, Streams,
    guest_main,
};
use durio_record::lab_compare::LabCompareFolder;

use crate::args::{LabArguments, LabCommand, LabCompare, LabRun, OutputArguments};
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(crate) fn lab(arguments: &LabArguments) -> Result<Exit, BenchError> {
    match &arguments.command {
        LabCommand::Run(arguments) => run(arguments),
        LabCommand::Kernels(_) => list(),
        LabCommand::Compare(arguments) => compare(arguments),
    }
}

/// The hidden command by which a guest's kernel starts durio.
pub(crate) fn init() -> Result<Exit, BenchError> {
    guest_main()
        .map(|()| Exit::Fine)
        .map_err(|error| BenchError::of(BenchErrorKind::WrongUse, error))
}

fn run(arguments: &LabRun) -> Result<Exit, BenchError> {
    let request = request(arguments)?;
    let stop = stop_on_signals()?;
    let mut stdout = output::StandardStream(io::stdout());
    let mut stderr = output::StandardStream(io::stderr());
    let mut streams = Streams { stdout: &mut stdout, stderr: &mut stderr };
    let outcome = durio_lab::run(&request, &mut streams, &|| stop.is_set())?;
    emulation_remark(&outcome).iter().for_each(|line| output::remark(line));
    if arguments.verbose {
        describe(&request, &outcome);
    }
    left_out_remark(&outcome).iter().for_each(|line| output::remark(line));
    conclude(&request, &outcome)
}

fn conclude(request: &LabRequest, outcome: &LabOutcome) -> Result<Exit, BenchError> {
    match &outcome.exit {
        // Any code: `lab run` takes the command's place.
        LabExit::Code(code) => Ok(Exit::Command(*code)),
        LabExit::Stopped | LabExit::Cut => Ok(Exit::INTERRUPTED),
        LabExit::TimeLimit => Err(time_limit(request)),
        LabExit::GuestFailed(reason) => {
            Err(guest_failed(reason).hint("--verbose shows what its kernel said"))
        }
    }
}

/// The request of these arguments.
fn request(arguments: &LabRun) -> Result<LabRequest, BenchError> {
    if arguments.timing == LabTiming::Counted && arguments.accelerator == Accelerator::Kvm {
        let text = "KVM counts no instructions";
        return Err(BenchError::wrong_use(text).hint("--accelerator kvm needs --timing wall"));
    }
    let kernel = kernel_named(arguments.kernel.as_deref(), arguments.modules.as_deref())?;
    let program = std::env::current_exe().map_err(|error| {
        BenchError::of(BenchErrorKind::LabFailed, error).context("cannot find durio's own program")
    })?;
    let files = arguments.files.iter().map(|given| file(given)).collect::<Result<_, _>>()?;
    Ok(LabRequest {
        timing: arguments.timing,
        accelerator: arguments.accelerator,
        cpus: arguments.cpus,
        memory: arguments.memory,
        limit: Duration::from_nanos(arguments.time_limit.get()),
        root: arguments.root(),
        tools: arguments.tools.clone(),
        modules: arguments.needed_modules.clone(),
        files,
        out: arguments.out.clone(),
        ..LabRequest::new(kernel, program, arguments.command.clone())
    })
}

/// `PATH` or `PATH:GUEST_PATH`.
pub(super) fn file(given: &OsStr) -> Result<LabFile, LabError> {
    let bytes = given.as_bytes();
    let (source, guest) = match bytes.iter().position(|byte| *byte == b':') {
        Some(at) => (bytes.get(..at), bytes.get(at + 1..)),
        None => (Some(bytes), None),
    };
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let source = path(source.unwrap_or_default());
    let unreadable =
        |error| LabError::Io { doing: format!("read '{}'", source.display()), source: error };
    // Before a guest is booted for nothing.
    std::fs::metadata(&source).map_err(unreadable)?;
    let guest = match guest {
        Some(guest) => path(guest),
        // At the same path in the guest, where another folder is the current one.
        None => std::path::absolute(&source).map_err(unreadable)?,
    };
    Ok(LabFile { source, guest })
}

fn describe(request: &LabRequest, outcome: &LabOutcome) {
    let facts = &outcome.facts;
    for line in outcome.console.lines() {
        output::remark(&format!("kernel: {line}"));
    }
    output::remark(&format!(
        "durio: kernel {}, QEMU {}, {}, processor {}, {} root, {}",
        request.kernel.release,
        facts.qemu_version,
        facts.accelerator,
        facts.cpu_model,
        facts.root,
        facts.timing.meaning()
    ));
    let boot = outcome.first_command_after.map_or("never".to_owned(), |it| format!("{it:.1?}"));
    let kernel = match outcome.was_unpacked {
        true => "kernel unpacked and files made",
        false => "kernel's image left to unpack itself, files made",
    };
    output::remark(&format!(
        "durio: {kernel} in {:.1?}, command started after {boot}",
        outcome.preparation
    ));
}

/// Prints the kernels as a table.
fn list() -> Result<Exit, BenchError> {
    let found = kernels::usable();
    if found.is_empty() {
        return Err(LabError::NoKernel { searched: kernels::places() }.into());
    }
    let mut text = String::new();
    for kernel in &found {
        text.push_str(&entry(kernel)?);
    }
    output::answer_text(&text).map(|()| Exit::Fine)
}

fn entry(kernel: &Kernel) -> Result<String, BenchError> {
    let drivers = kernel.drivers()?;
    let of = |state: DriverState| {
        let names = drivers.iter().filter(|(_, it)| *it == state).map(|(name, _)| *name);
        let names: Vec<_> = names.collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    };
    let Kernel { release, image, modules } = kernel;
    let line = |name: &str, value: String| format!("  {name:9} {value}\n");
    Ok(format!("{release}\n")
        + &line("image", shown(image))
        + &line("modules", shown(modules))
        + &line("built in", of(DriverState::BuiltIn))
        + &line("as module", of(DriverState::Module))
        + &line("absent", of(DriverState::Absent)))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn compare(arguments: &LabCompare) -> Result<Exit, BenchError> {
    output::refuse_fio(arguments.output, "FOLDER/a1/RUN")?;
    let [before, after] = arguments.kernels.as_slice() else {
        let text = format!("{} kernels are given, and two are compared", arguments.kernels.len());
        return Err(BenchError::wrong_use(text)
            .hint("write --kernel twice; durio lab kernels lists those that can be booted"));
    };
    let choice = arguments.choosing.choice();
    let bench = GuestBench {
        spec: &arguments.spec,
        choice: &choice,
        guest: arguments.guest.settings(),
        // Kernel, modules and folder are those of each turn.
        kernel: None,
        modules: None,
        // One seed for both kernels: they get the same operations.
        seed: Some(arguments.seed),
        label: None,
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
        Exit::INTERRUPTED => {
            output::remark("durio: interrupted; durio report FOLDER shows what is there");
            Ok(Exit::INTERRUPTED)
        }
        exit => {
            let read = read_lab_comparison(&compared.folder, &Terminal::new(true))?;
            // Before it is shown: a failing stdout must not cost hours of work.
            save_lab_comparison(&compared.folder, &read.findings)?;
            output::report(arguments.output, &read.findings)?;
            Ok(if exit == Exit::Fine { Exit::of_read(read.is_damaged) } else { exit })
        }
    }
}

/// Shows a comparison again, from its folder alone, as far as it got.
pub(super) fn show_comparison(
    folder: &LabCompareFolder,
    wished: OutputArguments,
) -> Result<Exit, BenchError> {
    output::refuse_fio(wished, "FOLDER/a1/RUN")?;
    let read = read_lab_comparison(folder, &Terminal::new(true))?;
    output::report(wished, &read.findings)?;
    Ok(Exit::of_read(read.is_damaged))
}
