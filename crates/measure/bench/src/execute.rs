//! The path from a plan to a record and its findings, shared by everything that measures.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_analyse::why::WhyFindings;
use durio_analyse::{Analyser, Findings, WorkloadFindings};
use durio_base::Nanos;
use durio_block::{Folder, HeldTargets};
use durio_command::{CommandError, CommandErrorKind, StopFlag, command_line};
use durio_judge::judge;
use durio_observe::{Fact, Stack, leaf_devices, read_host, read_nodes, read_stack};
use durio_plan::{Plan, RawPath, Step, Target};
use durio_record::{
    Environment, Event, FolderName, Journal, Leftovers, Manifest, Outcome, RUN_FOLDER_SCHEMA,
    RecordError, RecordWriter, RoundDecision, StateFolder, StoppedBy, file_names, is_of_storage,
};
use durio_report::{Format, Options, Report};
use durio_run::{
    EventSink, LayoutProgress, Processors, Resume, RunContext, RunErrorKind, StepStart,
};

use crate::campaign::InterruptedCampaign;
use crate::gate::StartGate;
use crate::observer::{Observer, RunObserver};
use crate::own_commits::OwnCommits;
use crate::read_back::why_of;
use crate::runs::remove_run_folder;
use crate::state_folder::{runs_folder, state_for};

/// The user's options for a run, next to its plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunOptions<'a> {
    /// Where the run folder is made; the state folder without it.
    pub out: Option<&'a Path>,
    /// The seed of all random choices; a new one without it.
    pub seed: Option<u64>,
    /// The findings have their histograms.
    pub histograms: bool,
    /// The name that the user gives it.
    pub label: Option<&'a str>,
}

/// Identity of a run that is about to start.
#[derive(Debug)]
pub struct Execution {
    name: FolderName,
    started: SystemTime,
    folder: PathBuf,
    state: Option<StateFolder>,
    leftovers: Option<Leftovers>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The run is one of a bench.
    is_within: bool,
    /// The folder is where the user wants it.
    is_named: bool,
    histograms: bool,
    /// The socket over which another process orders when measured steps start.
    gate: Option<UnixStream>,
    /// How many of its slowest commits are explained, if they are recorded.
    why: Option<usize>,
    pub(crate) label: Option<String>,
}

impl Execution {
    /// Names the run.
    ///
    /// # Errors
    /// If its folder cannot be made.
    pub fn begin(command: &str, options: &RunOptions<'_>) -> Result<Self, CommandError> {
        let started = SystemTime::now();
        let name = FolderName::new(command, started, std::process::id());
        let folder = runs_folder(options.out)?.join(name.as_str());
        // One that cannot be used matters only if nothing else was named.
        let state = match state_for("what a run makes") {
            Err(error) if options.out.is_none() => return Err(error),
            other => other.ok(),
        };
        let leftovers = state.as_ref().map(Leftovers::below);
        let nanos = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        #[expect(clippy::cast_possible_truncation, reason = "any 64 bits of the time will do")]
        // Runs that start at the same moment differ by their process.
        let seed = options.seed.unwrap_or(nanos as u64 ^ u64::from(std::process::id()));
        let (is_named, histograms) = (options.out.is_some(), options.histograms);
        let label = options.label.map(str::to_owned);
        let is_within = false;
        Ok(Self {
            name,
            started,
            folder,
            state,
            leftovers,
            seed,
            is_within,
            is_named,
            histograms,
            gate: None,
            why: None,
            label,
        })
    }

    /// The run, with findings that have their histograms.
    #[must_use]
    pub fn with_histograms(self) -> Self {
        Self { histograms: true, ..self }
    }

    /// The run, with measured steps that start when the other end of this socket orders it.
    #[must_use]
    pub fn with_gate(self, gate: Option<UnixStream>) -> Self {
        Self { gate, ..self }
    }

    /// The run, with this many of its slowest commits recorded and explained.
    #[must_use]
    pub fn with_why(self, why: Option<usize>) -> Self {
        Self { why, ..self }
    }

    /// A run of this bench, in a folder of this name inside the bench's. Its files lie on storage
    /// that is removed with the bench.
    pub(crate) fn point(&self, name: &str) -> Self {
        Self {
            name: self.name.clone(),
            started: SystemTime::now(),
            folder: self.folder.join(name),
            state: self.state.clone(),
            leftovers: None,
            is_within: true,
            gate: None,
            why: None,
            label: None,
            ..*self
        }
    }

    /// The folder that it makes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where run folders are made.
    pub fn runs(&self) -> &Path {
        self.folder.parent().unwrap_or(Path::new("."))
    }

    /// Removes its folder, once it has ended and is not needed any more.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<(), CommandError> {
        Folder::open(self.runs())
            .and_then(|runs| remove_run_folder(&runs, self.name.as_str()))
            .map_err(|error| CommandError::io("remove", &self.folder, error))
    }

    /// The name of files on filesystems without unnamed files.
    pub fn file_name(&self) -> String {
        format!(".durio-{}", self.name)
    }

    /// Its name and its start time, for a manifest.
    pub(crate) fn identity(&self) -> (String, String) {
        (self.name.to_string(), FolderName::rfc3339(self.started))
    }

    fn manifest(&self) -> Manifest {
        Manifest {
            schema: RUN_FOLDER_SCHEMA,
            run: self.run_name(),
            durio_version: env!("CARGO_PKG_VERSION").to_owned(),
            started: FolderName::rfc3339(self.started),
            command: command_line(),
            label: self.label.clone(),
        }
    }

    /// The name of the folder; of one within a bench with that of the bench.
    fn run_name(&self) -> String {
        let own = self.folder.file_name().filter(|_| self.is_within);
        own.map_or_else(|| self.name.to_string(), |own| format!("{}/{}", self.name, own.display()))
    }

    /// The journal; a state folder that cannot be written to matters only if nothing else was named.
    fn journal(&self) -> Result<Journal, CommandError> {
        let pointed = Journal::begin(&self.folder, self.leftovers.as_ref());
        match pointed {
            // A home that cannot be written to (a container's) must not keep users from measuring
            // into a folder they named. Only the next run will not find this run's leftovers.
            Err(_) if self.is_named => {
                // The first attempt made it, and a new journal replaces nothing.
                let _ = fs::remove_file(self.folder.join(file_names::JOURNAL));
                Ok(Journal::begin(&self.folder, None)?)
            }
            other => Ok(other?),
        }
    }

    /// Runs `plan` on its located targets, and records it.
    ///
    /// # Errors
    /// If the run could not start, or its record not be written.
    pub fn execute(
        &self,
        plan: &Plan,
        held: HeldTargets,
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<RunOutcome, CommandError> {
        let gate = self.open_gate(stop)?;
        let environment = environment(plan)?;
        // First: without the right to trace nothing is made.
        let slow = SlowCommits { own: self.own_commits(plan)?, earlier: None };
        let manifest = self.manifest();
        let writer = RecordWriter::create(&self.folder, &manifest, plan, &environment)?;
        let journal = self.journal()?;
        let analyser = self.analyser(manifest, plan, &environment);
        let resume = None;
        let (folder, state) = (&self.folder, self.state.clone());
        Beginning { folder, plan, writer, journal, held, analyser, environment, state, resume }
            .carry_out((stop, gate), slow, observer)
    }

    /// Continues an interrupted run in its folder.
    ///
    /// # Errors
    /// As [`Execution::execute`].
    pub fn resume(
        &self,
        interrupted: &InterruptedCampaign,
        held: HeldTargets,
        stop: &StopFlag,
        observer: &dyn Observer,
    ) -> Result<RunOutcome, CommandError> {
        let InterruptedCampaign { folder, point } = interrupted;
        let plan = &folder.plan;
        let gate = self.open_gate(stop)?;
        // The machine may have changed since; the record keeps the first, the runner needs today's.
        let environment = environment(plan)?;
        let slow = SlowCommits { own: self.own_commits(plan)?, earlier: why_of(folder, observer) };
        // Before anything is appended, so that only the old record is read.
        let mut analyser = self.analyser(folder.manifest.clone(), plan, &folder.environment);
        // A power cut tore the record after the last whole event.
        let mut events = folder.events()?;
        for event in events.by_ref() {
            match event {
                Ok(event) => analyser.observe(&event.event),
                // What cannot be read now is not cut off: it may be whole.
                Err(error) if is_of_storage(&error) => return Err(error.into()),
                Err(_) => break,
            }
        }
        let part = point.resumed_before + 1;
        let writer = RecordWriter::resume(folder.path(), part, events.whole_bytes())?;
        let journal = Journal::resume(folder.path(), self.leftovers.as_ref())?;
        let resume = Some(interrupted.resume());
        let (folder, state) = (folder.path(), self.state.clone());
        Beginning { folder, plan, writer, journal, held, analyser, environment, state, resume }
            .carry_out((stop, gate), slow, observer)
    }

    /// Before anything is made: from then on the hang-up of the other end is noticed.
    fn open_gate(&self, stop: &StopFlag) -> Result<Option<StartGate>, CommandError> {
        self.gate.as_ref().map(|stream| StartGate::open(stream, stop)).transpose()
    }

    fn own_commits(&self, plan: &Plan) -> Result<Option<OwnCommits>, CommandError> {
        let places = plan.locations().into_iter().map(RawPath::as_path);
        self.why.map(|worst| OwnCommits::begin(places, worst)).transpose()
    }

    fn analyser(&self, manifest: Manifest, plan: &Plan, environment: &Environment) -> Analyser {
        let mut analyser = Analyser::new(manifest, plan.clone(), environment.clone());
        if self.histograms {
            analyser.keep_histograms();
        }
        analyser
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct RunOutcome {
    /// The findings, however the run ended.
    pub findings: Findings,
    pub outcome: Result<Outcome, CommandError>,
}

/// A warning before a run starts: it needs much memory. The runner refuses a run that cannot get
/// its memory at all.
pub fn memory_remark(plan: &Plan) -> Option<String> {
    let (step, need, available) = durio_run::large_step(plan)?;
    let jobs: u64 = step.loads().map(|load| u64::from(load.workload.jobs)).sum();
    let of = available.map_or(String::new(), |available| format!(" ({available} available)"));
    let name = &step.load.workload.name;
    Some(format!(
        "{name} needs up to {need} of memory{of} for the latencies and blocks of {jobs} jobs"
    ))
}

/// The start of a run, new or resumed.
struct Beginning<'a> {
    folder: &'a Path,
    plan: &'a Plan,
    writer: RecordWriter,
    journal: Journal,
    held: HeldTargets,
    analyser: Analyser,
    environment: Environment,
    state: Option<StateFolder>,
    resume: Option<Resume>,
}

/// The recorder of its slow commits, and what the run recorded before it was interrupted.
struct SlowCommits {
    own: Option<OwnCommits>,
    earlier: Option<Box<WhyFindings>>,
}

impl Beginning<'_> {
    fn carry_out(
        self,
        (stop, gate): (&StopFlag, Option<StartGate>),
        slow: SlowCommits,
        observer: &dyn Observer,
    ) -> Result<RunOutcome, CommandError> {
        let Self { folder, plan, writer, mut journal, held, analyser, environment, state, resume } =
            self;
        let SlowCommits { own, earlier } = slow;
        let observed = observer.run();
        let mut recording = RecordSink { plan, analyser, writer, observer: observed, gate, own };
        let context = RunContext {
            journal: &mut journal,
            targets: held,
            state,
            devices: devices(plan, &environment),
            processors: processors(plan, &environment),
            stop: stop.clone(),
            resume,
        };
        let outcome = durio_run::run(plan, context, &mut recording);
        // The gate stays open until the folder is complete.
        let RecordSink { analyser, writer, observer: ended, gate, own, .. } = recording;
        // Its line on the terminal ends before other output.
        drop(ended);
        journal.end();
        let folder = absolute(folder);
        // After any other error the record is worth a report.
        let outcome = match outcome {
            // Nothing more can be written where the record is.
            Err(error) if error.kind == RunErrorKind::Sink => {
                observer.remark(&format!("durio: the record so far is in {}", folder.display()));
                return Err(error.into());
            }
            other => other,
        };
        let mut findings = judge(analyser.finish(folder.display().to_string()));
        let why = own.and_then(OwnCommits::end).map(Box::new);
        if let Some(why) = &why {
            writer.save(file_names::WHY, &document(&**why, Format::Json)?)?;
        }
        findings.why = why.or(earlier);
        save_findings(&findings, |name, bytes| writer.save(name, bytes))?;
        let reason = gate.as_ref().and_then(StartGate::reason);
        let outcome =
            outcome.map_err(CommandError::from).and_then(|outcome| match (outcome, reason) {
                (Outcome::Complete, _) => all_measured(&findings).map(|()| outcome),
                (Outcome::Interrupted, Some(reason)) => {
                    Err(CommandError::new(CommandErrorKind::Interrupted, reason))
                }
                (Outcome::Interrupted | Outcome::Failed, _) => Ok(outcome),
            });
        Ok(RunOutcome { findings, outcome })
    }
}

/// Refuses a run with a step that measured nothing: a script must not take the absence of a number
/// for one. A workload without operations next to others that have some is only a doubt.
fn all_measured(findings: &Findings) -> Result<(), CommandError> {
    let workloads = || findings.workloads.iter();
    let is_step_empty = |workload: &WorkloadFindings| {
        let place = (workload.step, workload.round);
        workloads().all(|other| (other.step, other.round) != place || other.unmeasured().is_some())
    };
    let mut unmeasured = workloads()
        .filter(|workload| is_step_empty(workload))
        .filter_map(|workload| Some((workload, workload.unmeasured()?)));
    let Some((first, why)) = unmeasured.next() else { return Ok(()) };
    let more = match unmeasured.count() {
        0 => String::new(),
        more => format!("; nor of {more} more"),
    };
    let text = format!("nothing was measured of {}: {why}{more}", first.name);
    Err(CommandError::cannot_measure(text).hint(
        "give it more to do than its ramp takes, or a shorter ramp; operations during the ramp do \
         not count here (fio reports them if the job ends before its ramp_time)",
    ))
}

/// Saves the findings next to the record: for programs, and for a browser.
pub(crate) fn save_findings(
    found: &impl Report,
    save: impl Fn(&str, &[u8]) -> Result<(), RecordError>,
) -> Result<(), CommandError> {
    for (name, format) in [(file_names::FINDINGS, Format::Json), (file_names::REPORT, Format::Html)]
    {
        save(name, &document(found, format)?)?;
    }
    Ok(())
}

fn document(found: &impl Report, format: Format) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    durio_report::write(format, found, &Options::default(), &mut bytes)
        .map_err(CommandError::unmade)?;
    Ok(bytes)
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The sink of a run: each event goes to the analyser, the observer and the record.
struct RecordSink<'a> {
    plan: &'a Plan,
    analyser: Analyser,
    writer: RecordWriter,
    observer: Box<dyn RunObserver>,
    gate: Option<StartGate>,
    own: Option<OwnCommits>,
}

impl RecordSink<'_> {
    fn keep(&mut self, at: Nanos, event: Event) -> Result<(), RecordError> {
        // The record last: it takes the event, and a failure of it ends the run.
        self.analyser.observe(&event);
        self.observer.event(self.plan, &event);
        if self.observer.wants_results() {
            let so_far = self.analyser.clone().finish(String::new());
            self.observer.results_so_far(&so_far.findings);
        }
        // Syncing waits for the disk below the record: at ends alone, where nothing is measured.
        match event.must_last(self.plan) {
            true => self.writer.write_synced(at, event),
            false => self.writer.write(at, event),
        }
    }

    /// The reason for the end of the run, if the gate ended it.
    fn stopped_by_gate(&self, event: &Event) -> Option<Event> {
        let gate = self.gate.as_ref()?;
        let Event::RunEnded(ended) = event else { return None };
        let message = gate.reason().filter(|_| ended.outcome == Outcome::Interrupted)?.to_owned();
        let step = gate.running();
        Some(Event::Error(StoppedBy { step, message, errno: None, offset: None }))
    }
}

impl EventSink for RecordSink<'_> {
    fn event(
        &mut self,
        at: Nanos,
        event: Event,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if let Some(own) = &self.own {
            own.event(self.plan, &event);
        }
        if let Some(stopped) = self.stopped_by_gate(&event) {
            self.keep(at, stopped)?;
        }
        let ended = self.gate.as_mut().and_then(|gate| gate.ended(&event));
        self.keep(at, event)?;
        // The other end may read the record as soon as it hears of the end.
        if let (Some(gate), Some(ended)) = (&mut self.gate, ended) {
            gate.write(&ended);
        }
        Ok(())
    }

    fn step_ready(&mut self, step: &Step, round: u32) -> StepStart {
        let gate = self.gate.as_mut();
        gate.map_or(StepStart::Now, |gate| gate.step_ready(self.plan, step, round))
    }

    fn round_ended(&mut self, section: u32, round: u32) -> RoundDecision {
        self.analyser.decide(section, round)
    }

    fn first_rate(&mut self, section: u32) -> Option<f64> {
        self.analyser.first_rate(section)
    }

    fn layout_progress(&mut self, progress: LayoutProgress) {
        self.observer.layout(self.plan, progress);
    }
}

/// The machine and the stack under each location; of a file that is still to be made, under its
/// directory.
fn environment(plan: &Plan) -> Result<Environment, CommandError> {
    let stack = |location: &RawPath| -> Result<Stack, CommandError> {
        let path = location.as_path();
        let existing = match path.symlink_metadata() {
            Ok(_) => path,
            Err(_) => path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        };
        let stack = read_stack(existing).map_err(CommandError::cannot)?;
        let mut stack = Stack { target: location.to_string(), ..stack };
        stack.root.facts.extend(allocated(path));
        Ok(stack)
    };
    let stacks = plan.locations().into_iter().map(stack).collect::<Result<_, _>>()?;
    Ok(Environment { host: read_host(), stacks })
}

/// How much of an existing file is allocated.
// Unallocated blocks are read from no device.
fn allocated(path: &Path) -> Option<Fact> {
    // st_blocks counts these, whatever the blocks of the filesystem are (inode(7)).
    const BLOCK: u64 = 512;
    let facts = path.metadata().ok().filter(fs::Metadata::is_file)?;
    let value = facts.blocks().saturating_mul(BLOCK).to_string();
    Some(Fact { name: "allocated_bytes".to_owned(), value })
}

/// Per target the devices whose counters are read.
fn devices(plan: &Plan, environment: &Environment) -> Vec<Vec<String>> {
    let locations = plan.locations();
    let of = |target: &Target| {
        let location = target.location.as_ref()?;
        let index = locations.iter().position(|known| *known == location)?;
        // The lowest alone: each layer above counts the same requests again.
        environment.stacks.get(index).map(leaf_devices)
    };
    plan.targets.iter().map(|target| of(target).unwrap_or_default()).collect()
}

/// The machine's nodes, and per target the node of the devices below it, if they agree on one.
fn processors(plan: &Plan, environment: &Environment) -> Processors {
    let locations = plan.locations();
    let of = |target: &Target| -> Option<u32> {
        let location = target.location.as_ref()?;
        let index = locations.iter().position(|known| *known == location)?;
        let stack = environment.stacks.get(index)?;
        let nodes: BTreeSet<u32> = stack
            .walk()
            .filter_map(|(_, layer)| layer.block.as_ref()?.numa_node)
            .filter_map(|node| u32::try_from(node).ok())
            .collect();
        // If the devices are on several nodes, no node is near to all.
        nodes.first().copied().filter(|_| nodes.len() == 1)
    };
    Processors { nodes: read_nodes(), node_of_target: plan.targets.iter().map(of).collect() }
}
