//! `durio lab`: commands in a throw-away virtual machine.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_bench::{emulation_remark, guest_failed, kernel_named, left_out_remark, time_limit};
use durio_lab::kernels::{self, DriverState};
use durio_lab::{Kernel, LabError, LabExit, LabFile, LabOutcome, LabRequest, Streams, guest_main};

use crate::args::{Lab, LabCommand, LabRun};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;
use crate::stop_signals::stop_on_signals;

pub(crate) fn lab(arguments: &Lab) -> Result<Exit, Failure> {
    match &arguments.command {
        LabCommand::Run(arguments) => run(arguments),
        LabCommand::Kernels(_) => list(),
        LabCommand::Compare(arguments) => super::lab_compare::compare(arguments),
    }
}

/// The hidden command by which a guest's kernel starts durio.
pub(crate) fn init() -> Result<Exit, Failure> {
    guest_main().map(|()| Exit::Fine).map_err(|error| Failure::of(Exit::WrongUse, error))
}

fn run(arguments: &LabRun) -> Result<Exit, Failure> {
    let request = request(arguments)?;
    let stop = stop_on_signals()?;
    let mut stdout = output::Stream(io::stdout());
    let mut stderr = output::Stream(io::stderr());
    let mut streams = Streams { stdout: &mut stdout, stderr: &mut stderr };
    let outcome = durio_lab::run(&request, &mut streams, &|| stop.is_set())?;
    emulation_remark(&outcome).iter().for_each(|line| output::remark(line));
    if arguments.verbose {
        describe(&request, &outcome);
    }
    left_out_remark(&outcome).iter().for_each(|line| output::remark(line));
    conclude(&request, &outcome)
}

fn conclude(request: &LabRequest, outcome: &LabOutcome) -> Result<Exit, Failure> {
    match &outcome.exit {
        LabExit::Code(code) => Ok(Exit::Command(*code)),
        LabExit::Stopped => Ok(Exit::Interrupted),
        LabExit::TimeLimit => Err(time_limit(request).into()),
        LabExit::GuestFailed(reason) => {
            Err(guest_failed(reason).hint("--verbose shows what its kernel said").into())
        }
    }
}

/// The request of these arguments.
fn request(arguments: &LabRun) -> Result<LabRequest, Failure> {
    let kernel = kernel_named(arguments.kernel.as_deref(), arguments.modules.as_deref())?;
    let program = std::env::current_exe().map_err(|error| {
        Failure::of(Exit::LabFailed, error).context("cannot find durio's own program")
    })?;
    let files = arguments.files.iter().map(|given| file(given)).collect::<Result<_, _>>()?;
    Ok(LabRequest {
        timing: arguments.timing.into(),
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
fn file(given: &OsStr) -> Result<LabFile, LabError> {
    let bytes = given.as_bytes();
    let (source, guest) = match bytes.iter().position(|byte| *byte == b':') {
        Some(at) => (bytes.get(..at), bytes.get(at + 1..)),
        None => (Some(bytes), None),
    };
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let source = path(source.unwrap_or_default());
    let unreadable =
        |error| LabError::Io { doing: format!("read '{}'", source.display()), source: error };
    std::fs::metadata(&source).map_err(unreadable)?;
    let guest = match guest {
        Some(guest) => path(guest),
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
fn list() -> Result<Exit, Failure> {
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

fn entry(kernel: &Kernel) -> Result<String, Failure> {
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
