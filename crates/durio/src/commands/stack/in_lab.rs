//! `durio stack bench --lab`: the same bench in a guest, whose folder is brought out.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_block::{Folder, rename_new};
use durio_lab::{Kernel, LabExit, LabFile, LabOutcome, LabRequest, LabTiming, Streams};
use durio_layers::{DeclaredKind, DeclaredStack};
use durio_plan::ClockChoice;
use durio_record::FolderName;
use durio_record::bench::is_bench_folder;
use durio_run::StopFlag;
use durio_spec::StackBench;
use durio_units::Bytes;

use super::guest_needs::GuestNeeds;
use super::{chosen, read};
use crate::args::{Choosing, InGuest};
use crate::bench::{Planning, estimates};
use crate::commands::lab::{kernel_for, say_if_emulated, say_left_out};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output;

/// Where the guest has a spec that is a file.
const SPEC_IN_GUEST: &str = "/lab-spec.toml";
/// What the guest needs beside the devices that it makes: its own files, durio and the page cache.
const MEMORY_ASIDE: Bytes = Bytes::from_mib(1536);
/// What ZFS takes for itself, beside the kernel's page cache.
const ZFS_CACHE: Bytes = Bytes::from_mib(1024);

/// A bench for a guest.
pub(in crate::commands) struct GuestBench<'a> {
    /// The spec, as it was given.
    pub(in crate::commands) spec: &'a Path,
    pub(in crate::commands) choosing: &'a Choosing,
    pub(in crate::commands) guest: &'a InGuest,
    /// The kernel's image or release; the newest without it.
    pub(in crate::commands) kernel: Option<&'a Path>,
    /// The folder of its modules, if they are not beside it.
    pub(in crate::commands) modules: Option<&'a Path>,
    /// The seed of every random choice, if one was given.
    pub(in crate::commands) seed: Option<u64>,
    pub(in crate::commands) quiet: bool,
    /// The folder in which the bench folder is made.
    pub(in crate::commands) runs: &'a Path,
}

impl GuestBench<'_> {
    /// Boots the guest, benches there, and brings the bench folder out.
    pub(in crate::commands) fn run(&self, stop: &StopFlag) -> Result<(PathBuf, Exit), Failure> {
        let request = self.prepared()?;
        if !self.quiet {
            output::remark(&format!(
                "durio: benching in a guest with kernel {}, {}",
                request.kernel.release,
                request.timing.meaning()
            ));
        }
        let brought = Brought::new(self.runs)
            .map_err(|error| cannot("make a folder for results in", self.runs, error))?;
        let request = LabRequest { out: Some(brought.0.clone()), ..request };
        let mut answers = io::sink();
        let mut stderr = output::Stream(io::stderr());
        let mut silent = io::sink();
        let remarks: &mut (dyn io::Write + Send) =
            if self.quiet { &mut silent } else { &mut stderr };
        let mut streams = Streams { stdout: &mut answers, stderr: remarks };
        let outcome = durio_lab::run(&request, &mut streams, &|| stop.is_set())?;
        if !self.quiet {
            say_if_emulated(&outcome);
        }
        say_left_out(&outcome);
        let exit = exit_of(&request, &outcome)?;
        let folder = brought.keep(self.runs)?;
        Ok((folder.ok_or_else(|| without_folder(&request, &outcome, exit))?, exit))
    }

    /// Refuses what could not be begun: a wrong spec, devices of this machine, an unknown kernel.
    pub(in crate::commands) fn check(&self) -> Result<(), Failure> {
        self.prepared().map(|_| ())
    }

    fn prepared(&self) -> Result<LabRequest, Failure> {
        let spec = read(self.spec)?;
        let stacks = chosen(&spec, self.choosing)?;
        refuse_devices(&stacks)?;
        self.request(&spec, &stacks)
    }

    fn request(&self, spec: &StackBench, stacks: &[DeclaredStack]) -> Result<LabRequest, Failure> {
        let kernel: Kernel = kernel_for(self.kernel, self.modules)?;
        let program = std::env::current_exe()
            .map_err(|error| cannot("find durio's own program,", Path::new("durio"), error))?;
        let GuestNeeds { tools, modules } = GuestNeeds::of(stacks, &kernel);
        let is_file = self.spec.exists();
        let files = is_file
            .then(|| LabFile { source: self.spec.to_owned(), guest: PathBuf::from(SPEC_IN_GUEST) });
        Ok(LabRequest {
            timing: self.guest.timing(),
            cpus: self.guest.cpus(),
            memory: match self.guest.memory {
                Some(given) => given,
                None => self.memory_for(spec, stacks)?,
            },
            limit: self.guest.time_limit(),
            tools,
            modules,
            files: files.into_iter().collect(),
            ..LabRequest::new(kernel, program, self.command(is_file))
        })
    }

    /// All devices of the largest stack lie in the guest's memory, and the largest step's figures.
    fn memory_for(&self, spec: &StackBench, stacks: &[DeclaredStack]) -> Result<Bytes, Failure> {
        let planning = Planning {
            bench: spec,
            choosing: self.choosing,
            seed: self.seed.unwrap_or(0),
            clock: ClockChoice::Monotonic,
        };
        let plans = estimates(&planning, stacks)?;
        let steps = plans.iter().flat_map(|point| &point.plan.steps);
        let step = steps.map(durio_run::memory_of).max().unwrap_or(Bytes::ZERO);
        let devices = stacks.iter().map(devices_in_memory).max().unwrap_or(0);
        let mut layers = stacks.iter().flat_map(|stack| &stack.layers);
        let has_zfs = layers.any(|layer| matches!(layer.kind, DeclaredKind::Zfs(_)));
        let cache = if has_zfs { ZFS_CACHE } else { Bytes::ZERO };
        let all = [devices, step.get(), cache.get(), MEMORY_ASIDE.get()];
        Ok(Bytes::new(all.into_iter().fold(0, u64::saturating_add)))
    }

    /// The same command, in the guest.
    fn command(&self, is_file: bool) -> Vec<OsString> {
        let script = r#"exec durio stack bench "$@" --out "$DURIO_LAB_OUT" --format json"#;
        let spec = if is_file { SPEC_IN_GUEST.into() } else { self.spec.as_os_str().to_owned() };
        let mut command: Vec<OsString> =
            ["sh", "-c", script, "durio"].into_iter().map(OsString::from).collect();
        command.push(spec);
        for stack in &self.choosing.only {
            command.extend([OsString::from("--only"), stack.into()]);
        }
        let mut with = |name: &str, value: String| {
            command.extend([OsString::from(name), OsString::from(value)]);
        };
        with("--scale-time", factor(self.choosing.scale_time));
        with("--scale-size", factor(self.choosing.scale_size));
        if let Some(steps) = self.choosing.confirm_steps {
            with("--confirm-steps", steps.to_string());
        }
        if let Some(seed) = self.seed {
            with("--seed", seed.to_string());
        }
        // The clock of an emulated processor need not look reliable to the guest, and is.
        if self.guest.timing() == LabTiming::Counted {
            with("--clock", "monotonic".to_owned());
        }
        if self.quiet {
            command.push("--quiet".into());
        }
        command
    }
}

/// Thousandths as the command line has them.
fn factor(per_mille: u32) -> String {
    format!("{}.{:03}", per_mille / 1000, per_mille % 1000)
}

/// A guest has none of this machine's devices.
fn refuse_devices(stacks: &[DeclaredStack]) -> Result<(), Failure> {
    let is_of_here = |stack: &&DeclaredStack| {
        stack.layers.iter().any(|layer| matches!(layer.kind, DeclaredKind::Device(_)))
    };
    match stacks.iter().find(is_of_here) {
        None => Ok(()),
        Some(stack) => Err(Failure::new(
            Exit::WrongUse,
            format!(
                "stack '{}' is built of this machine's devices, which a guest has not",
                stack.name
            ),
        )
        .hint("leave it out with --only, or bench it without --lab")),
    }
}

/// Bytes of a stack's devices that are made of memory.
fn devices_in_memory(stack: &DeclaredStack) -> u64 {
    let made = stack.layers.iter().filter_map(|layer| layer.kind.made());
    made.map(|made| made.size.get().saturating_mul(u64::from(made.count)))
        .fold(0, u64::saturating_add)
}

/// Why nothing was brought out.
fn without_folder(request: &LabRequest, outcome: &LabOutcome, exit: Exit) -> Failure {
    const BY_SIGNAL: u8 = 128;
    match outcome.exit {
        LabExit::Stopped => Failure::new(exit, "interrupted before anything was measured"),
        LabExit::Code(code) if code > BY_SIGNAL => {
            let signal = code - BY_SIGNAL;
            let text = format!("the bench in the guest was ended by signal {signal}");
            Failure::new(Exit::LabFailed, text).hint(format!(
                "9 is what a guest without memory sends: it had {}; --memory gives it more",
                request.memory
            ))
        }
        _ => {
            let text = "the bench in the guest left no folder behind; its message stands above";
            Failure::new(if exit == Exit::Fine { Exit::CannotMeasure } else { exit }, text)
        }
    }
}

fn exit_of(request: &LabRequest, outcome: &LabOutcome) -> Result<Exit, Failure> {
    match &outcome.exit {
        LabExit::Code(0) => Ok(Exit::Fine),
        LabExit::Code(code) if *code == Exit::Interrupted.number() => Ok(Exit::Interrupted),
        LabExit::Code(code) if *code == Exit::WrongUse.number() => Ok(Exit::WrongUse),
        LabExit::Code(_) => Ok(Exit::CannotMeasure),
        LabExit::Stopped => Ok(Exit::Interrupted),
        LabExit::TimeLimit => {
            let seconds = request.limit.as_secs_f64();
            let text = format!("the guest was ended after its time limit of {seconds} s");
            Err(Failure::new(Exit::TimeLimit, text).hint("--time-limit sets another one"))
        }
        LabExit::GuestFailed(reason) => {
            Err(Failure::new(Exit::LabFailed, format!("the guest failed: {reason}"))
                .hint(format!("it had {} of memory; --memory gives it more", request.memory)))
        }
    }
}

fn cannot(doing: &str, path: &Path, error: io::Error) -> Failure {
    let context = format!("cannot {doing} '{}'", path.display());
    Failure {
        exit: Exit::CannotMeasure,
        error: anyhow::Error::new(error).context(context),
        hints: Vec::new(),
    }
}

/// The folder that the guest's results are unpacked into; gone when this is dropped.
struct Brought(PathBuf);

impl Brought {
    /// Nobody else can have made it: it is new.
    fn new(runs: &Path) -> io::Result<Self> {
        let name = FolderName::new("lab", SystemTime::now(), std::process::id());
        let path = runs.join(format!(".durio-{name}"));
        Folder::make(&path)?;
        Ok(Self(path))
    }

    /// Moves the bench folder among the runs, if there is one.
    fn keep(&self, runs: &Path) -> Result<Option<PathBuf>, Failure> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(None) };
        let found = entries.flatten().map(|entry| entry.path()).find(|path| is_bench_folder(path));
        let Some((from, name)) = found.as_ref().and_then(|it| Some((it, it.file_name()?))) else {
            return Ok(None);
        };
        let to = runs.join(name);
        rename_new(from, &to).map_err(|error| cannot("move the results to", &to, error))?;
        Ok(Some(to))
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        // If something of it stays, it has durio's name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_written_as_the_command_line_reads_them() {
        assert_eq!(factor(1000), "1.000");
        assert_eq!(factor(25), "0.025");
        assert_eq!(factor(32_000), "32.000");
    }
}
