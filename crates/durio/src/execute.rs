//! The line from a plan to a report, the same for every command that measures.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_analyse::{Analyser, Findings};
use durio_block::HeldTargets;
use durio_observe::{Fact, Stack, leaf_devices, read_host, read_nodes, read_stack};
use durio_plan::{Plan, RawPath};
use durio_record::{
    Environment, FolderName, Journal, Leftovers, Manifest, Outcome, RUN_FOLDER_SCHEMA,
    RecordWriter, file_names,
};
use durio_report::{Format, Options};
use durio_run::{Context, Processors, Resume, RunErrorKind, StopFlag};

use crate::args::Measuring;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::leftovers;
use crate::output;
use crate::progress::Progress;
use crate::recording::Recording;
use crate::resume::Interrupted;
use crate::state_folder::{runs_folder, state_folder};
use crate::stop_signals::stop_on_signals;

/// Identity of a run that is about to begin.
pub(crate) struct Execution {
    name: FolderName,
    started: SystemTime,
    folder: PathBuf,
    leftovers: Option<Leftovers>,
    pub(crate) seed: u64,
    /// The run is one of a bench, which is stopped as a whole and reports as a whole.
    within: Option<StopFlag>,
    /// Whoever began it prints what was found, with the histograms.
    is_printed_by_caller: bool,
    /// No progress is shown, whatever the options say.
    is_quiet: bool,
}

impl Execution {
    /// Names the run, and removes what dead runs left behind.
    pub(crate) fn begin(command: &str, options: &Measuring) -> Result<Self, Failure> {
        let started = SystemTime::now();
        let name = FolderName::new(command, started, std::process::id());
        let folder = runs_folder(options.out.as_deref())?.join(name.as_str());
        crate::switched::restore_left();
        leftovers::clear().iter().for_each(|line| output::remark(&format!("durio: {line}")));
        let leftovers = state_folder().as_deref().map(Leftovers::below);
        let nanos = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        #[expect(clippy::cast_possible_truncation, reason = "any 64 bits of the time will do")]
        let seed = options.seed.unwrap_or(nanos as u64 ^ u64::from(std::process::id()));
        Ok(Self {
            name,
            started,
            folder,
            leftovers,
            seed,
            within: None,
            is_printed_by_caller: false,
            is_quiet: false,
        })
    }

    /// A run of this bench, in a folder of this name inside of the bench's own: it prints no report,
    /// and `stop` ends it. Its files are on what goes with the bench.
    pub(crate) fn point(&self, name: &str, stop: &StopFlag) -> Self {
        Self {
            name: self.name.clone(),
            started: SystemTime::now(),
            folder: self.folder.join(name),
            leftovers: None,
            seed: self.seed,
            within: Some(stop.clone()),
            is_printed_by_caller: false,
            is_quiet: false,
        }
    }

    /// It prints nothing but progress, and that not if `is_quiet`; the findings that it gives have
    /// their histograms.
    pub(crate) fn printed_by_caller(self, is_quiet: bool) -> Self {
        Self { is_printed_by_caller: true, is_quiet, ..self }
    }

    /// The folder that it makes.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its name and its begin, for a manifest.
    pub(crate) fn identity(&self) -> (String, String) {
        (self.name.to_string(), FolderName::rfc3339(self.started))
    }

    /// Where run folders are made.
    pub(crate) fn runs(&self) -> &Path {
        self.folder.parent().unwrap_or(Path::new("."))
    }

    /// The name of files on filesystems without unnamed files.
    pub(crate) fn file_name(&self) -> String {
        format!(".durio-{}", self.name)
    }

    fn manifest(&self) -> Manifest {
        Manifest {
            schema: RUN_FOLDER_SCHEMA,
            run: self.run_name(),
            durio_version: env!("CARGO_PKG_VERSION").to_owned(),
            started: FolderName::rfc3339(self.started),
            command: command_line(),
        }
    }

    /// The name of the folder; of one within a bench with that of the bench.
    fn run_name(&self) -> String {
        let own = self.folder.file_name().filter(|_| self.within.is_some());
        own.map_or_else(|| self.name.to_string(), |own| format!("{}/{}", self.name, own.display()))
    }

    /// The journal; a state folder that cannot be written to matters only if nothing else was named.
    fn journal(&self, options: &Measuring) -> Result<Journal, Failure> {
        let pointed = Journal::begin(&self.folder, self.leftovers.as_ref());
        match pointed {
            Err(_) if options.out.is_some() => {
                let _ = fs::remove_file(self.folder.join(file_names::JOURNAL));
                Ok(Journal::begin(&self.folder, None)?)
            }
            other => Ok(other?),
        }
    }
}

/// Runs `plan` on what was looked up for it, records it, prints the report. The exit code does not know verdicts.
pub(crate) fn execute(
    execution: &Execution,
    plan: &Plan,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), Failure> {
    // Before the first file: whoever stops durio from now on finds a record that says so.
    let stop = execution.within.clone().map_or_else(stop_on_signals, Ok)?;
    if !execution.is_printed_by_caller {
        say_memory(plan);
    }
    let environment = environment(plan)?;
    let manifest = execution.manifest();
    let writer = RecordWriter::create(&execution.folder, &manifest, plan, &environment)?;
    let journal = execution.journal(options)?;
    let mut analyser = Analyser::new(manifest, plan.clone(), environment.clone());
    if execution.is_printed_by_caller || options.report_format().shows_histograms() {
        analyser.keep_histograms();
    }
    let prints = execution.within.is_none() && !execution.is_printed_by_caller;
    let progress = Progress::new(options.quiet || execution.is_quiet);
    let beginning =
        Beginning { writer, journal, held, analyser, environment, resume: None, progress, prints };
    carry_out(&execution.folder, plan, beginning, stop, options)
}

/// Tells of much memory before anything is begun. What cannot be had at all is refused by the runner.
fn say_memory(plan: &Plan) {
    let Some((step, need, available)) = durio_run::large_step(plan) else { return };
    let jobs: u64 = step.loads().map(|load| u64::from(load.workload.jobs)).sum();
    let of = available.map_or(String::new(), |available| format!(" ({available} available)"));
    output::remark(&format!(
        "durio: {} needs up to {need} of memory{of} for the latencies and blocks of {jobs} jobs",
        step.load.workload.name
    ));
}

/// Goes on with an interrupted run in its own folder.
pub(crate) fn go_on(
    execution: &Execution,
    interrupted: &Interrupted,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), Failure> {
    let stop = stop_on_signals()?;
    let Interrupted { folder, point } = interrupted;
    say_memory(&folder.plan);
    let environment = environment(&folder.plan)?;
    // Before anything is appended: what was recorded so far is read as it is.
    let mut analyser =
        Analyser::new(folder.manifest.clone(), folder.plan.clone(), folder.environment.clone());
    if options.report_format().shows_histograms() {
        analyser.keep_histograms();
    }
    // Behind the last whole one a power cut has torn the record.
    let mut events = folder.events()?;
    for event in events.by_ref().map_while(Result::ok) {
        analyser.observe(&event.event);
    }
    let part = point.resumed_before + 1;
    let writer = RecordWriter::resume(folder.path(), part, events.whole_bytes())?;
    let journal = Journal::resume(folder.path(), execution.leftovers.as_ref())?;
    let resume = Some(interrupted.resume());
    let progress = Progress::new(options.quiet);
    let beginning =
        Beginning { writer, journal, held, analyser, environment, resume, progress, prints: true };
    carry_out(folder.path(), &folder.plan, beginning, stop, options)
}

/// What a run begins or goes on with.
struct Beginning {
    writer: RecordWriter,
    journal: Journal,
    held: HeldTargets,
    analyser: Analyser,
    environment: Environment,
    resume: Option<Resume>,
    progress: Progress,
    prints: bool,
}

fn carry_out(
    folder: &Path,
    plan: &Plan,
    beginning: Beginning,
    stop: StopFlag,
    options: &Measuring,
) -> Result<(Exit, Findings), Failure> {
    let Beginning { writer, mut journal, held, analyser, environment, resume, progress, prints } =
        beginning;
    let mut recording = Recording { plan, analyser, writer, progress };
    let context = Context {
        journal: &mut journal,
        targets: held,
        state: state_folder(),
        devices: devices(plan, &environment),
        processors: processors(plan, &environment),
        stop,
        resume,
    };
    let result = durio_run::run(plan, context, &mut recording);
    recording.progress.finish();
    journal.end();
    let folder = absolute(folder);
    let findings = durio_signals::judged(recording.analyser.finish(folder.display().to_string()));
    let outcome = match result {
        // Nothing more can be written where the record is.
        Err(error) if error.kind == RunErrorKind::Sink => {
            output::remark(&format!("durio: the record so far is in {}", folder.display()));
            return Err(error.into());
        }
        other => other,
    };
    save(&recording.writer, &findings)?;
    if prints && (outcome.is_ok() || !findings.workloads.is_empty()) {
        output::findings(options.report_format(), &findings)?;
    }
    match outcome? {
        Outcome::Complete => Ok((Exit::Fine, findings)),
        Outcome::Interrupted => Ok((Exit::Interrupted, findings)),
        Outcome::Failed => Ok((Exit::CannotMeasure, findings)),
    }
}

/// The command line; bytes that are no text are replaced.
pub(crate) fn command_line() -> Vec<String> {
    std::env::args_os().map(|word| RawPath::from(word).to_string()).collect()
}

fn save(writer: &RecordWriter, findings: &Findings) -> Result<(), Failure> {
    for (name, format) in [(file_names::FINDINGS, Format::Json), (file_names::REPORT, Format::Html)]
    {
        writer.save(name, &output::rendered(format, findings, Options::default())?)?;
    }
    Ok(())
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The machine and the stack under each location; of a file that is still to be made, under its
/// directory.
fn environment(plan: &Plan) -> Result<Environment, Failure> {
    let stack = |location: &RawPath| -> Result<Stack, Failure> {
        let path = location.as_path();
        let existing = match path.symlink_metadata() {
            Ok(_) => path,
            Err(_) => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        };
        let stack = read_stack(existing).map_err(|error| Failure {
            exit: Exit::CannotMeasure,
            error: error.into(),
            hints: Vec::new(),
        })?;
        let mut stack = Stack { target: location.to_string(), ..stack };
        stack.root.facts.extend(allocated(path));
        Ok(stack)
    };
    let stacks = plan.locations().into_iter().map(stack).collect::<Result<_, _>>()?;
    Ok(Environment { host: read_host(), stacks })
}

/// How much of an existing file is allocated: what is not is read from no device.
fn allocated(path: &Path) -> Option<Fact> {
    const BLOCK: u64 = 512;
    let facts = path.metadata().ok().filter(fs::Metadata::is_file)?;
    let value = facts.blocks().saturating_mul(BLOCK).to_string();
    Some(Fact { name: "allocated_bytes".to_owned(), value })
}

/// Per target the devices whose counters are read.
fn devices(plan: &Plan, environment: &Environment) -> Vec<Vec<String>> {
    let locations = plan.locations();
    let of = |target: &durio_plan::Target| {
        let location = target.location.as_ref()?;
        let index = locations.iter().position(|known| *known == location)?;
        environment.stacks.get(index).map(leaf_devices)
    };
    plan.targets.iter().map(|target| of(target).unwrap_or_default()).collect()
}

/// The machine's nodes, and per target the node of the devices below it, if they agree on one.
fn processors(plan: &Plan, environment: &Environment) -> Processors {
    let locations = plan.locations();
    let of = |target: &durio_plan::Target| -> Option<u32> {
        let location = target.location.as_ref()?;
        let index = locations.iter().position(|known| *known == location)?;
        let stack = environment.stacks.get(index)?;
        let nodes: BTreeSet<u32> = stack
            .walk()
            .filter_map(|(_, layer)| layer.block.as_ref()?.numa_node)
            .filter_map(|node| u32::try_from(node).ok())
            .collect();
        nodes.first().copied().filter(|_| nodes.len() == 1)
    };
    Processors { nodes: read_nodes(), node_of_target: plan.targets.iter().map(of).collect() }
}
