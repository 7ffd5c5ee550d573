//! A bench in a guest of the lab, whose folder is brought out. The bench itself is the same command
//! in the guest.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use durio_base::Bytes;
use durio_block::{Folder, rename_new};
use durio_command::{CommandError, CommandErrorKind, Ending, StopFlag, own_program};
use durio_lab::kernels::{DriverState, kernel_named};
use durio_lab::{
    Kernel, LabExit, LabFile, LabOutcome, LabRequest, LabTiming, Streams, find_program,
};
use durio_layers::{DeclaredKind, DeclaredStack, Missing, NamedNeeds, requirements};
use durio_plan::ClockChoice;
use durio_record::FolderName;
use durio_record::bench::BenchFolder;
use durio_spec::StackBench;

use crate::bench::{
    BenchOutcome, Planning, StackChoice, chosen_stacks, estimates, read_stack_spec, save_bench,
};
use crate::execute::absolute;
use crate::observer::Observer;
use crate::read_back::read_bench;

/// Where the guest has a spec that is a file.
const SPEC_IN_GUEST: &str = "/lab-spec.toml";
/// The guest's memory apart from the devices that it makes: its own files, durio and the page
/// cache.
const MEMORY_ASIDE: Bytes = Bytes::from_mib(1536);
/// ZFS's own cache, on top of the kernel's page cache.
const ZFS_CACHE: Bytes = Bytes::from_mib(1024);

/// The settings of a guest that benches.
#[derive(Debug, Clone, Copy)]
pub struct GuestSettings {
    /// What its clock counts.
    pub timing: LabTiming,
    pub cpus: u32,
    /// Its memory; by default what the largest stack needs.
    pub memory: Option<Bytes>,
    /// The longest time that it may take.
    pub limit: Duration,
}

/// A bench for a guest.
#[derive(Debug, Clone, Copy)]
pub struct GuestBench<'a> {
    /// The spec, as the user gave it.
    pub spec: &'a Path,
    pub choice: &'a StackChoice,
    pub guest: GuestSettings,
    /// The kernel's image or release; the newest without it.
    pub kernel: Option<&'a Path>,
    /// The folder of its modules, if they are not next to it.
    pub modules: Option<&'a Path>,
    /// The seed of every random choice, if one was given.
    pub seed: Option<u64>,
    /// The name that the user gives it.
    pub label: Option<&'a str>,
    /// No progress is shown.
    pub quiet: bool,
    /// The folder in which the bench folder is made.
    pub runs: &'a Path,
}

impl GuestBench<'_> {
    /// Boots the guest, benches there, and brings the bench folder out.
    ///
    /// # Errors
    /// If the guest cannot be booted, or leaves no bench behind.
    pub fn run(
        &self,
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<(PathBuf, Ending), CommandError> {
        let request = self.prepared()?;
        let (release, meaning) = (&request.kernel.release, request.timing.meaning());
        observer
            .progress(&format!("durio: benchmarking in a guest with kernel {release}, {meaning}"));
        // Next to the runs, so that moving it there is a rename.
        let brought = GuestResults::new(self.runs)
            .map_err(|error| CommandError::io("make a folder for results in", self.runs, error))?;
        let request = LabRequest { out: Some(brought.0.clone()), ..request };
        let (mut answers, mut messages) = (io::sink(), observer.messages());
        let mut streams = Streams { stdout: &mut answers, stderr: &mut messages };
        let outcome = durio_lab::run(&request, &mut streams, &|| stop.is_set())?;
        emulation_remark(&outcome).iter().for_each(|line| observer.progress(line));
        left_out_remark(&outcome).iter().for_each(|line| observer.remark(line));
        let ending = ending_of(&request, &outcome)?;
        let folder = brought.keep(self.runs)?;
        Ok((folder.ok_or_else(|| without_folder(&request, &outcome, ending))?, ending))
    }

    /// Refuses requests that cannot start: a wrong spec, devices of this machine, an unknown
    /// kernel.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn check(&self) -> Result<(), CommandError> {
        self.prepared().map(|_| ())
    }

    fn prepared(&self) -> Result<LabRequest, CommandError> {
        // All that the bench in the guest would refuse, before anything is booted.
        let spec = read_stack_spec(self.spec)?;
        let choice = self.choice.scaled_for(&spec)?;
        let stacks = chosen_stacks(&spec, &choice)?;
        refuse_devices(&stacks)?;
        self.request(&spec, &choice, &stacks)
    }

    fn request(
        &self,
        spec: &StackBench,
        choice: &StackChoice,
        stacks: &[DeclaredStack],
    ) -> Result<LabRequest, CommandError> {
        let kernel = kernel_named(self.kernel, self.modules)?;
        let program = own_program()?;
        let NamedNeeds { tools, modules } = guest_needs(stacks, &kernel);
        // A built-in spec is in the guest's durio too.
        let is_file = self.spec.exists();
        let files = is_file
            .then(|| LabFile { source: self.spec.to_owned(), guest: PathBuf::from(SPEC_IN_GUEST) });
        Ok(LabRequest {
            timing: self.guest.timing,
            cpus: self.guest.cpus,
            memory: match self.guest.memory {
                Some(given) => given,
                None => self.memory_for(spec, choice, stacks)?,
            },
            limit: self.guest.limit,
            tools,
            modules,
            files: files.into_iter().collect(),
            ..LabRequest::new(kernel, program, self.command(is_file))
        })
    }

    /// The guest's memory holds all devices of the largest stack, and the largest step's results.
    fn memory_for(
        &self,
        spec: &StackBench,
        choice: &StackChoice,
        stacks: &[DeclaredStack],
    ) -> Result<Bytes, CommandError> {
        // Any seed will do: sizes and times do not depend on it.
        let planning = Planning {
            bench: spec,
            choice,
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
        // Arguments are handed over as they are: nothing of them is quoted, or read by the shell.
        let script = r#"exec durio stack bench "$@" --yes --out "$DURIO_LAB_OUT" --format json"#;
        let spec = if is_file { SPEC_IN_GUEST.into() } else { self.spec.as_os_str().to_owned() };
        let mut command: Vec<OsString> =
            ["sh", "-c", script, "durio"].into_iter().map(OsString::from).collect();
        command.push(spec);
        for stack in &self.choice.only {
            command.extend([OsString::from("--only"), stack.into()]);
        }
        if self.choice.quick {
            command.push("--quick".into());
        }
        let mut with = |name: &str, value: String| {
            command.extend([OsString::from(name), OsString::from(value)]);
        };
        if !self.choice.quick {
            with("--scale-time", factor(self.choice.scale.time_per_mille));
            with("--scale-size", factor(self.choice.scale.size_per_mille));
        }
        let confirmed = self.choice.scale.steps_confirmed;
        if confirmed > 0 {
            with("--confirm-steps", confirmed.to_string());
        }
        if let Some(seed) = self.seed {
            with("--seed", seed.to_string());
        }
        if let Some(label) = self.label {
            with("--name", label.to_owned());
        }
        // The clock of an emulated processor need not look reliable to the guest, and is.
        if self.guest.timing == LabTiming::Counted {
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

// A guest has none of this machine's devices.
fn refuse_devices(stacks: &[DeclaredStack]) -> Result<(), CommandError> {
    let is_of_here = |stack: &&DeclaredStack| {
        stack.layers.iter().any(|layer| matches!(layer.kind, DeclaredKind::Device(_)))
    };
    match stacks.iter().find(is_of_here) {
        None => Ok(()),
        Some(stack) => Err(CommandError::wrong_use(format!(
            "stack '{}' is built of this machine's devices, which a guest has not",
            stack.name
        ))
        .hint("exclude it with --only, or bench it without --lab")),
    }
}

/// Bytes of a stack's devices that are made of memory.
fn devices_in_memory(stack: &DeclaredStack) -> u64 {
    let made = stack.layers.iter().filter_map(|layer| layer.kind.made());
    made.map(|made| made.size.get().saturating_mul(u64::from(made.count)))
        .fold(0, u64::saturating_add)
}

/// Why nothing was brought out.
fn without_folder(request: &LabRequest, outcome: &LabOutcome, ending: Ending) -> CommandError {
    // sh reports a signal as 128 plus its number.
    const BY_SIGNAL: u8 = 128;
    match outcome.exit {
        LabExit::Stopped | LabExit::Cut => CommandError::new(
            CommandErrorKind::Interrupted,
            "interrupted before anything was measured",
        ),
        LabExit::Code(code) if code > BY_SIGNAL => {
            let signal = code - BY_SIGNAL;
            let text = format!("the bench in the guest was killed by signal {signal}");
            CommandError::new(CommandErrorKind::LabFailed, text).hint(format!(
                "9 is what a guest without memory sends: it had {}; --memory gives it more",
                request.memory
            ))
        }
        _ => {
            let text = "the bench in the guest left no folder behind; see its message above";
            let kind = match ending {
                Ending::Complete => CommandErrorKind::CannotMeasure,
                Ending::Interrupted => CommandErrorKind::Interrupted,
                Ending::Failed(kind) => kind,
            };
            CommandError::new(kind, text)
        }
    }
}

fn ending_of(request: &LabRequest, outcome: &LabOutcome) -> Result<Ending, CommandError> {
    match &outcome.exit {
        LabExit::Code(code) => Ok(Ending::of_durio(Some(i32::from(*code)))),
        LabExit::Stopped | LabExit::Cut => Ok(Ending::Interrupted),
        LabExit::TimeLimit => Err(time_limit(request)),
        LabExit::GuestFailed(reason) => {
            let error = guest_failed(reason);
            Err(error.hint(format!("it had {} of memory; --memory gives it more", request.memory)))
        }
    }
}

/// The guest took too long.
pub fn time_limit(request: &LabRequest) -> CommandError {
    let seconds = request.limit.as_secs_f64();
    let text = format!("the guest was stopped at its time limit of {seconds} s");
    CommandError::new(CommandErrorKind::TimeLimit, text).hint("--time-limit sets another one")
}

/// The error for a guest that died before its command ended.
pub fn guest_failed(reason: &str) -> CommandError {
    CommandError::new(CommandErrorKind::LabFailed, format!("the guest failed: {reason}"))
}

/// A user who asks for the host's time may expect the host's processor.
pub fn emulation_remark(outcome: &LabOutcome) -> Option<String> {
    let reason = outcome.facts.without_kvm.as_ref()?;
    Some(format!("durio: the guest was emulated; KVM does not work here: {reason}"))
}

/// The remark on an incomplete folder from a guest.
pub fn left_out_remark(outcome: &LabOutcome) -> Option<String> {
    let first = outcome.skipped.first.as_ref()?;
    Some(format!(
        "durio: left out {} of what the guest brought out, such as '{}': links that are absolute or \
         lead outside, devices, FIFOs and sockets stay in the guest",
        outcome.skipped.count,
        first.display()
    ))
}

/// A bench in a guest, whose folder is brought out.
///
/// # Errors
/// If the guest leaves no bench behind.
pub fn bench_of_guest(
    bench: &GuestBench<'_>,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<BenchOutcome, CommandError> {
    let (folder, ending) = bench.run(stop, observer)?;
    let folder = BenchFolder::<DeclaredStack>::open(&absolute(&folder))?;
    let found = read_bench(&folder, observer);
    save_bench(&folder, &found)?;
    Ok(BenchOutcome { folder, found, ending })
}

/// The programs and drivers of the stacks that kernel and machine can satisfy: for each other one,
/// the bench in the guest records what is missing and continues. If no stack can be satisfied, the
/// needs of all, so that the lab reports what is missing before it boots.
fn guest_needs(stacks: &[DeclaredStack], kernel: &Kernel) -> NamedNeeds {
    let states = kernel.drivers().unwrap_or_default();
    let absent: Vec<&str> = states
        .into_iter()
        .filter_map(|(name, state)| (state == DriverState::Absent).then_some(name))
        .collect();
    let can_be_had = |need: &Missing| match need {
        Missing::Program { name, .. } => find_program(name.as_ref()).is_some(),
        Missing::Driver { module, .. } => !absent.contains(module),
        Missing::Root => true,
    };
    let all: Vec<Vec<Missing>> = stacks.iter().map(requirements).collect();
    let is_satisfied = |needs: &Vec<Missing>| needs.iter().all(can_be_had);
    let is_any = all.iter().any(is_satisfied);
    all.into_iter().filter(|needs| !is_any || is_satisfied(needs)).flatten().collect()
}

/// The folder that the guest's results are unpacked into; gone when this is dropped.
struct GuestResults(PathBuf);

impl GuestResults {
    // No other process can have made it: it is new.
    fn new(runs: &Path) -> io::Result<Self> {
        let name = FolderName::new("lab", SystemTime::now(), std::process::id());
        let path = runs.join(format!(".durio-{name}"));
        Folder::make(&path)?;
        Ok(Self(path))
    }

    /// Moves the bench folder among the runs, if there is one.
    fn keep(&self, runs: &Path) -> Result<Option<PathBuf>, CommandError> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(None) };
        let found = entries
            .flatten()
            .map(|entry| entry.path())
            .find(|path| BenchFolder::<DeclaredStack>::is_at(path));
        let Some((from, name)) = found.as_ref().and_then(|path| Some((path, path.file_name()?)))
        else {
            return Ok(None);
        };
        let to = runs.join(name);
        // Never over an existing folder: names have the time, but clocks of guests differ.
        rename_new(from, &to)
            .map_err(|error| CommandError::io("move the results to", &to, error))?;
        Ok(Some(to))
    }
}

impl Drop for GuestResults {
    fn drop(&mut self) {
        // If something of it stays, it has durio's name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::CampaignScale;

    #[test]
    fn a_quick_bench_is_quick_in_its_guest_and_another_has_its_factors() {
        let words = |quick: bool| {
            let scale =
                CampaignScale { time_per_mille: 20, size_per_mille: 500, steps_confirmed: 0 };
            let choice = StackChoice { only: vec!["xfs".to_owned()], scale, quick };
            let limit = Duration::from_secs(1);
            let guest = GuestSettings { timing: LabTiming::Counted, cpus: 1, memory: None, limit };
            let bench = GuestBench {
                spec: Path::new("ram-layers"),
                choice: &choice,
                guest,
                kernel: None,
                modules: None,
                seed: None,
                label: None,
                quiet: false,
                runs: Path::new(""),
            };
            // Behind the shell, its script and the name of that.
            let command = bench.command(false).into_iter().skip(4);
            command.map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
        };
        let factors = "--scale-time 0.020 --scale-size 0.500";
        assert_eq!(words(false), format!("ram-layers --only xfs {factors} --clock monotonic"));
        assert_eq!(words(true), "ram-layers --only xfs --quick --clock monotonic");
    }

    #[test]
    fn factors_are_written_as_the_command_line_reads_them() {
        assert_eq!(factor(1000), "1.000");
        assert_eq!(factor(25), "0.025");
        assert_eq!(factor(32_000), "32.000");
    }
}
