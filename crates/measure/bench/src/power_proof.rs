//! Proofs by power cuts: series after series, each until it is decided, into a folder.
//!
//! A plan, or the folder of an interrupted proof, gives the folder and its findings. Writing,
//! cutting and verifying are durio-prove's, verdicts durio-analyse's.
//!
//! A simulated series begins from its seed, so an interrupted one is replayed up to the end of its
//! record: the table is the same as without the interruption.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use durio_analyse::proof::{ProofFindings, analyse_proof, why_ineffective};
use durio_lab::Qemu;
use durio_observe::{PowerState, read_host};
use durio_plan::proof::{
    AgentTarget, Arm, CommandTarget, PROOF_PLAN_SCHEMA, ProofPlan, ProofSeries, ProofTarget,
    SimulatedVia,
};
use durio_prove::simulation::{ArrayDisks, Simulation};
use durio_prove::trial::{AgentTrials, Operator, TrialError};
use durio_prove::witness::WitnessError;
use durio_record::Outcome;
use durio_record::proof::{
    CutEvidence, CutFindings, CutRecord, CutWriter, Inventory, PROOF_FOLDER_SCHEMA, ProofFolder,
    ProofManifest,
};
use durio_run::StopFlag;
use durio_spec::{impossible_series, plan_proof, shipped_proof_spec, shipped_proof_specs};

use crate::command_trials::CommandTrials;
use crate::error::{BenchError, BenchErrorKind, Ending, with_causes};
use crate::execute::{Execution, RunOptions, command_line, save_findings};
use crate::guest_trials::{GuestLab, GuestTrials, name_kernels};
use crate::observer::{Observer, ProgressTimer};
use crate::text_file::{name_if_no_file, read_spec};

/// Attempts for each effective cut that a series asks for; what fails more often will not come.
const ATTEMPTS: u64 = 3;
/// Guests that run at once: each takes a processor and some hundred MiB of memory.
const GUESTS_MAX: usize = 4;
/// How often the user's wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A proof that is over.
#[derive(Debug)]
pub struct PowerProved {
    pub findings: ProofFindings,
    pub ending: Ending,
}

/// The plan of a proof spec: of a file, or of the built-in one of this name. `only` leaves the series
/// whose name contains one of these texts.
///
/// # Errors
/// If it cannot be read, has a fault, or nothing is left of it.
pub fn plan_power_proof(
    path: &Path,
    seed: Option<u64>,
    cuts: Option<u32>,
    only: &[String],
    token: Option<&str>,
) -> Result<ProofPlan, BenchError> {
    let built_in = name_if_no_file(path).and_then(shipped_proof_spec);
    let (name, text) = match built_in {
        Some(spec) => (spec.name.into(), spec.text.into()),
        None => read_spec(path, "proof spec", shipped_proof_specs())?,
    };
    let mut plan = plan_proof(&name, &text, seed.unwrap_or_else(random_seed))?;
    if let Some(cuts) = cuts {
        plan.series.iter_mut().for_each(|it| it.cuts = cuts);
    }
    if !only.is_empty() {
        plan.series.retain(|it| only.iter().any(|text| it.name.contains(text.as_str())));
    }
    for series in &mut plan.series {
        if let ProofTarget::Agent(target) = &mut series.target
            && target.token.is_empty()
        {
            target.token = token.map_or_else(random_token, str::to_owned);
        }
    }
    if plan.series.is_empty() {
        return Err(BenchError::wrong_use("no series has one of these texts in its name")
            .hint("--only takes a part of a name, such as flush-ignored/fdatasync"));
    }
    Ok(plan)
}

/// The plan of a proof of one command, with `cuts` power cuts.
///
/// # Errors
/// If no disk has this profile or size.
pub fn plan_command_proof(
    target: CommandTarget,
    cuts: u32,
    seed: Option<u64>,
) -> Result<ProofPlan, BenchError> {
    let program = target.command.first().map(Path::new).and_then(Path::file_name);
    let program = program.unwrap_or_default().to_string_lossy().into_owned();
    let series = ProofSeries {
        name: format!("{}/{program}", target.profile),
        target: ProofTarget::Command(target),
        arm: None,
        cuts,
        expected: None,
    };
    let plan = ProofPlan {
        schema: PROOF_PLAN_SCHEMA,
        name: program,
        summary: String::new(),
        seed: seed.unwrap_or_else(random_seed),
        series: vec![series],
    };
    match impossible_series(&plan) {
        None => Ok(plan),
        // The command line has checked all else.
        Some(_) => {
            let text = "a guest's disk has 16 MiB to 4 GiB, a multiple of 4 KiB";
            Err(BenchError::wrong_use(text).hint("--size sets another one"))
        }
    }
}

/// A token that cannot be guessed.
#[must_use]
pub fn random_token() -> String {
    use std::hash::{BuildHasher, RandomState};
    // The standard library has the system's random numbers for its hash tables alone.
    let word = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", word(), word())
}

/// A seed for users who name none. Proofs that start at the same moment differ by their process.
#[must_use]
pub fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Small enough to be typed again.
    u64::from(now.subsec_nanos()) ^ u64::from(std::process::id())
}

/// A new proof.
///
/// # Errors
/// If its folder cannot be made or written, or a series cannot be tried here.
pub fn prove_power(
    mut plan: ProofPlan,
    options: &RunOptions<'_>,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<PowerProved, BenchError> {
    name_kernels(&mut plan)?;
    let execution = Execution::begin("prove", options)?;
    let (proof, started) = execution.identity();
    let manifest = ProofManifest {
        schema: PROOF_FOLDER_SCHEMA,
        proof,
        durio_version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
        command: command_line(),
        plan,
        outcome: None,
    };
    let folder = ProofFolder::create(execution.folder(), manifest)?;
    carry_out(folder, stop, observer)
}

/// Continues an interrupted proof; a complete one is only shown.
///
/// # Errors
/// As [`prove_power`].
pub fn resume_power_proof(
    path: &Path,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<PowerProved, BenchError> {
    let folder = ProofFolder::open(path)?;
    if let Some(series) = impossible_series(&folder.manifest.plan) {
        let text = format!("'{}': series '{}' cannot be tried", path.display(), series.name);
        return Err(BenchError::cannot_measure(text)
            .hint("its proof.json is of another durio, or was changed"));
    }
    carry_out(folder, stop, observer)
}

/// The findings of a proof, from its folder.
///
/// # Errors
/// If it cannot be read.
pub fn read_power_proof(path: &Path) -> Result<ProofFindings, BenchError> {
    let folder = ProofFolder::open(path)?;
    Ok(analyse_proof(&folder.manifest, &folder.cuts()?))
}

fn carry_out(
    mut folder: ProofFolder,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<PowerProved, BenchError> {
    observer.remark(&format!("durio: seed {}", folder.manifest.plan.seed));
    let before = folder.cuts()?;
    let writer = folder.writer()?;
    let plan = &folder.manifest.plan;
    let left: Vec<UndecidedSeries> = (0_u32..)
        .zip(&plan.series)
        .map(|(place, series)| UndecidedSeries::of(place, series, &before))
        .filter(|left| !left.progress.is_decided(left.series.cuts))
        .collect();
    let lab = GuestLab::of(plan);
    let ended = all(&left, (plan.seed, folder.path(), &lab), writer, stop, observer);
    folder.manifest.outcome = Some(match ended {
        Ok(Ending::Complete) => Outcome::Complete,
        Ok(Ending::Interrupted) => Outcome::Interrupted,
        _ => Outcome::Failed,
    });
    folder.update(&folder.manifest)?;
    observer.remark(&format!("durio: proof folder: {}", folder.path().display()));
    let findings = analyse_proof(&folder.manifest, &folder.cuts()?);
    save_findings(&findings, |name, bytes| folder.save(name, bytes))?;
    Ok(PowerProved { findings, ending: ended? })
}

/// A series that is not decided yet.
struct UndecidedSeries<'a> {
    place: u32,
    series: &'a ProofSeries,
    progress: SeriesProgress,
}

/// How far a series is.
#[derive(Debug, Clone, Copy, Default)]
struct SeriesProgress {
    cuts: u32,
    effective: u64,
    has_lost: bool,
}

impl SeriesProgress {
    fn take(&mut self, evidence: &CutEvidence, findings: &CutFindings) {
        self.cuts += 1;
        self.has_lost |= findings.is_loss();
        self.effective += u64::from(why_ineffective(evidence, findings).is_none());
    }

    fn is_decided(&self, cuts: u32) -> bool {
        let all = u64::from(cuts);
        self.has_lost || self.effective >= all || u64::from(self.cuts) >= ATTEMPTS * all
    }
}

impl<'a> UndecidedSeries<'a> {
    fn of(place: u32, series: &'a ProofSeries, before: &[CutRecord]) -> Self {
        let mut progress = SeriesProgress::default();
        for cut in before.iter().filter(|cut| cut.series == place) {
            progress.take(&cut.evidence, &cut.findings);
        }
        Self { place, series, progress }
    }
}

/// A message from a series.
enum TrialMessage {
    /// A cut is done.
    Cut(Box<CutRecord>),
    /// A series is decided.
    Over,
    /// The user must act.
    Say(String),
    /// It cannot go on.
    Failed(BenchError),
}

/// A life of a target.
struct CutAttempt {
    evidence: CutEvidence,
    findings: CutFindings,
    /// With the first.
    inventory: Option<Box<Inventory>>,
}

/// Runs all series, as many in parallel as there are processors.
fn all(
    left: &[UndecidedSeries<'_>],
    surroundings: (u64, &Path, &GuestLab),
    writer: CutWriter,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<Ending, BenchError> {
    // One machine has one power switch.
    let is_any = |is_it: fn(&ProofTarget) -> bool| left.iter().any(|it| is_it(&it.series.target));
    let has_agent = is_any(|it| matches!(it, ProofTarget::Agent(_)));
    let has_guest = is_any(|it| matches!(it, ProofTarget::Guest(_)));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = match has_agent {
        true => 1,
        false if has_guest => processors.min(GUESTS_MAX),
        false => processors,
    };
    let (next, ending) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, receiver) = sync_channel::<TrialMessage>(1024);
    thread::scope(|scope| {
        for _ in 0..threads.min(left.len()) {
            let (sender, next, ending) = (sender.clone(), &next, &ending);
            scope.spawn(move || {
                while let Some(it) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ended = series(it, surroundings, &sender, ending);
                    let is_over = ended.is_ok();
                    // The receiver has gone, or gets it.
                    let _ = sender
                        .send(ended.map_or_else(TrialMessage::Failed, |()| TrialMessage::Over));
                    if !is_over {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let ended = record(&receiver, left, writer, stop, observer);
        // Whatever is still being tried is not waited for.
        ending.store(true, Ordering::Relaxed);
        drop(receiver);
        ended
    })
}

fn record(
    receiver: &Receiver<TrialMessage>,
    left: &[UndecidedSeries<'_>],
    mut writer: CutWriter,
    stop: &StopFlag,
    observer: &dyn Observer,
) -> Result<Ending, BenchError> {
    let (mut due, mut cuts, mut over) = (ProgressTimer::new(), 0_u64, 0_usize);
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(TrialMessage::Cut(cut)) => {
                writer.write(&cut)?;
                cuts += 1;
            }
            Ok(TrialMessage::Over) => over += 1,
            Ok(TrialMessage::Say(text)) => observer.remark(&text),
            Ok(TrialMessage::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => return Ok(Ending::Complete),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.is_set() {
            return Ok(Ending::Interrupted);
        }
        if let Some(elapsed) = due.now() {
            let all = left.len();
            observer.progress(&format!("{over} of {all} series, cuts: {cuts}, {elapsed} s"));
        }
    }
}

/// Runs one series to its end, or until `ending` is set.
fn series(
    left: &UndecidedSeries<'_>,
    (seed, folder, lab): (u64, &Path, &GuestLab),
    sender: &SyncSender<TrialMessage>,
    ending: &AtomicBool,
) -> Result<(), BenchError> {
    let series = left.series;
    let failed = |error: BenchError| error.context(&series.name);
    let seed = durio_workload::job_seed(seed, left.place.into(), 0);
    let ledger = folder.join(format!("ledger-{}.jsonl", left.place));
    let done = left.progress.cuts;
    let begin_trial = |done| trial(series, seed, (ledger.clone(), done), lab).map_err(failed);
    let mut trial = begin_trial(done)?;
    // A simulated series starts again, an agent's continues, and a guest's continues with a new
    // disk.
    let is_again = matches!(series.target, ProofTarget::Simulated { .. } | ProofTarget::Array(_));
    let mut progress = if is_again { SeriesProgress::default() } else { left.progress };
    // On a busy machine an emulated guest now and then hangs, which says nothing about its disk.
    let mut may_fail = matches!(series.target, ProofTarget::Guest(_));
    while !progress.is_decided(series.cuts) && !ending.load(Ordering::Relaxed) {
        let begin = Instant::now();
        // A receiver that is gone has ended the proof.
        let tell = |text| drop(sender.send(TrialMessage::Say(text)));
        let stop = || ending.load(Ordering::Relaxed);
        let tried = match trial(Operator { stop: &stop, tell: &tell }) {
            Err(error) if error.kind == BenchErrorKind::Interrupted => return Ok(()),
            Err(error) if may_fail => {
                may_fail = false;
                tell(format!("durio: {}: {}; once more", series.name, with_causes(&error)));
                trial = begin_trial(progress.cuts)?;
                continue;
            }
            found => found.map_err(failed)?,
        };
        let CutAttempt { evidence, findings, inventory } = tried;
        progress.take(&evidence, &findings);
        // Recorded cuts are replayed, but not reported again.
        if progress.cuts <= left.progress.cuts {
            continue;
        }
        let took_ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let cut = progress.cuts;
        let series = left.place;
        let record = CutRecord { series, cut, evidence, findings, took_ns, inventory };
        if sender.send(TrialMessage::Cut(Box::new(record))).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// One life of a target: load, cut, verification.
type CutTrial = Box<dyn FnMut(Operator<'_>) -> Result<CutAttempt, BenchError>>;

fn trial(
    series: &ProofSeries,
    seed: u64,
    (ledger, done): (PathBuf, u32),
    lab: &GuestLab,
) -> Result<CutTrial, BenchError> {
    let cannot = |error| BenchError::of(BenchErrorKind::CannotMeasure, error);
    let arm = || {
        let text = "nothing says how it is written to";
        series.arm.ok_or_else(|| BenchError::new(BenchErrorKind::Fault, text))
    };
    let (profile, size, via) = match &series.target {
        ProofTarget::Simulated { profile, size, via } => (profile, size, via),
        ProofTarget::Array(target) => {
            let disks = ArrayDisks::of(target).ok_or_else(|| no_profile(&target.profile))?;
            let simulation = Simulation::of_array(&disks, arm()?, seed);
            let mut simulation = simulation.map_err(cannot)?;
            return Ok(Box::new(move |_| simulation.cut().map(simulated).map_err(cannot)));
        }
        ProofTarget::Agent(target) => return agent_trial(target, arm()?, seed, ledger),
        ProofTarget::Guest(target) => {
            let mut trials = GuestTrials::new(lab, target, (arm()?, series.cuts), seed, ledger)?;
            return Ok(in_guest(move |stop| trials.cut(stop)));
        }
        ProofTarget::Command(target) => {
            let mut trials = CommandTrials::new(target, seed, done)?;
            return Ok(in_guest(move |stop| trials.cut(stop)));
        }
    };
    let named = durio_simdisk::named(profile).ok_or_else(|| no_profile(profile))?;
    let (profile, arm) = (named.profile(size.get()), arm()?);
    Ok(match via {
        SimulatedVia::Process => {
            let mut simulation = Simulation::new(profile, arm, seed).map_err(cannot)?;
            Box::new(move |_| simulation.cut().map(simulated).map_err(cannot))
        }
        SimulatedVia::Nbd => {
            let mut simulation = Simulation::over_nbd(profile, arm, seed).map_err(cannot)?;
            Box::new(move |_| simulation.cut().map(simulated).map_err(cannot))
        }
    })
}

fn no_profile(name: &str) -> BenchError {
    BenchError::cannot_measure(format!("there is no profile '{name}'"))
}

fn simulated(findings: CutFindings) -> CutAttempt {
    let evidence = CutEvidence { simulated: true, ..CutEvidence::default() };
    CutAttempt { evidence, findings, inventory: None }
}

/// A trial in a guest, whose first life says what guests run on; their kernels and devices stand in the
/// plan.
fn in_guest(
    mut cut: impl FnMut(&dyn Fn() -> bool) -> Result<(CutEvidence, CutFindings), BenchError> + 'static,
) -> CutTrial {
    let qemu = Qemu::find().ok().map(|it| it.version);
    let inventory =
        Inventory { host: read_host(), stack: None, qemu, power: PowerState::default() };
    let mut inventory = Some(Box::new(inventory));
    Box::new(move |operator| {
        let (evidence, findings) = cut(operator.stop)?;
        Ok(CutAttempt { evidence, findings, inventory: inventory.take() })
    })
}

fn agent_trial(
    target: &AgentTarget,
    arm: Arm,
    seed: u64,
    ledger: PathBuf,
) -> Result<CutTrial, BenchError> {
    let cannot = |error: TrialError| {
        let stopped = matches!(error, TrialError::Witness(WitnessError::Stopped));
        let kind =
            if stopped { BenchErrorKind::Interrupted } else { BenchErrorKind::CannotMeasure };
        BenchError::of(kind, error)
    };
    let mut trials = AgentTrials::new(target.clone(), arm, seed, ledger).map_err(cannot)?;
    Ok(Box::new(move |operator| {
        let (evidence, findings) = trials.cut(operator).map_err(cannot)?;
        Ok(CutAttempt { evidence, findings, inventory: trials.take_inventory() })
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_agents_token_is_that_of_its_spec_else_the_one_that_was_told_else_a_random_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spec.toml");
        let text = "schema = 1\nname = \"hand\"\ncuts = 1\n\
             [[target]]\nname = \"own\"\nlisten = \"127.0.0.1:9\"\ntoken = \"of the spec\"\n\
             [[target]]\nname = \"other\"\nlisten = \"127.0.0.1:8\"\n\
             [[arm]]\npath = \"rwf_dsync\"\ndepth = 4\n";
        fs::write(&path, text).unwrap();
        let tokens = |told| {
            let plan = plan_power_proof(&path, Some(5), None, &[], told).unwrap();
            let series = plan.series.into_iter().map(|series| match series.target {
                ProofTarget::Agent(target) => target.token,
                other => panic!("{other:?}"),
            });
            <[String; 2]>::try_from(series.collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(tokens(Some("told")), ["of the spec", "told"]);
        let ([own, random], [_, again]) = (tokens(None), tokens(None));
        assert_eq!(own, "of the spec");
        // Nobody guesses 128 bits.
        let is_random = |it: &str| it.len() == 32 && it.bytes().all(|it| it.is_ascii_hexdigit());
        assert!(is_random(&random) && is_random(&again) && random != again, "{random} {again}");
    }
}
