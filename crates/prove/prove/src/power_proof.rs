//! Proofs by power cuts: series after series, each until it is decided, into a folder.
//!
//! The folder of a new or an interrupted proof, with its plan, gives the findings. Verdicts are
//! durio-record's.
//!
//! A simulated series begins from its seed, so an interrupted one is replayed up to the end of its
//! record: the table is the same as without the interruption.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::AnyError;
use crate::simulation::{ArrayDisks, DiskAccess, Simulation};
use crate::trial::{AgentTrials, Operator};
use durio_base::{Nanos, counted};
use durio_command::{
    CommandError, CommandErrorKind, Ending, ProgressObserver, ProgressTimer, StopFlag, error_chain,
};
use durio_lab::Qemu;
use durio_observe::{PowerState, read_host};
use durio_plan::proof::{ProofSeries, ProofTarget, SimulatedVia};
use durio_record::Outcome;
use durio_record::proof::{
    CutEvidence, CutFindings, CutRecord, CutWriter, Inventory, ProofFindings, ProofFolder,
    analyse_proof, why_ineffective,
};

use crate::command_trials::CommandTrials;
use crate::guest_trials::{GuestLab, GuestTrials, no_profile, profile_named};

/// Attempts for each effective cut that a series asks for; what fails more often will not come.
const ATTEMPTS: u64 = 3;
/// Guests that run at once: each takes a processor and some hundred MiB of memory.
const GUESTS_MAX: usize = 4;
/// How often the user's wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// A proof that is over.
#[derive(Debug)]
pub struct ProofOutcome {
    /// Its folder, with the outcome.
    pub folder: ProofFolder,
    pub findings: ProofFindings,
    /// How it ended, or why a series could not be tried.
    pub ending: Result<Ending, CommandError>,
}

/// Cuts the power for each series of the folder's plan that is not decided yet, into the folder.
///
/// # Errors
/// If the folder cannot be read or written. A series that cannot be tried here is the error of
/// [`ProofOutcome::ending`]: the cuts so far are worth a report.
pub fn prove_power(
    mut folder: ProofFolder,
    stop: &StopFlag,
    observer: &dyn ProgressObserver,
) -> Result<ProofOutcome, CommandError> {
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
    Ok(ProofOutcome { folder, findings, ending: ended })
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
    Failed(CommandError),
}

/// A life of a target.
struct CutAttempt {
    evidence: CutEvidence,
    findings: CutFindings,
    /// What the target runs on; with the first attempt of a series alone.
    inventory: Option<Box<Inventory>>,
}

/// Runs all series, as many in parallel as there are processors.
fn all(
    left: &[UndecidedSeries<'_>],
    surroundings: (u64, &Path, &GuestLab),
    writer: CutWriter,
    stop: &StopFlag,
    observer: &dyn ProgressObserver,
) -> Result<Ending, CommandError> {
    // One machine has one power switch.
    let is_any = |is_it: fn(&ProofTarget) -> bool| {
        left.iter().any(|undecided| is_it(&undecided.series.target))
    };
    let has_agent = is_any(|target| matches!(target, ProofTarget::Agent(_)));
    let has_guest = is_any(|target| matches!(target, ProofTarget::Guest(_)));
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
                while let Some(undecided) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ended = series(undecided, surroundings, &sender, ending);
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
    observer: &dyn ProgressObserver,
) -> Result<Ending, CommandError> {
    let (begin, mut due) = (Instant::now(), ProgressTimer::new());
    let (mut drawn, mut progress) = (begin, ProofProgress { all: left.len(), over: 0, cuts: 0 });
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(TrialMessage::Cut(cut)) => {
                writer.write(&cut)?;
                progress.cuts += 1;
            }
            Ok(TrialMessage::Over) => progress.over += 1,
            Ok(TrialMessage::Say(text)) => observer.remark(&text),
            Ok(TrialMessage::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => return Ok(Ending::Complete),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.is_set() {
            return Ok(Ending::Interrupted);
        }
        let words = || progress.words(begin.elapsed().as_secs());
        if drawn.elapsed() >= LOOK {
            drawn = Instant::now();
            observer.status(&words);
        }
        if due.now().is_some() {
            observer.progress(&words());
        }
    }
}

/// The progress of a proof, for its user.
#[derive(Debug)]
struct ProofProgress {
    all: usize,
    over: usize,
    cuts: u64,
}

impl ProofProgress {
    fn words(&self, seconds: u64) -> String {
        let Self { all, over, cuts } = self;
        let cuts = counted(*cuts, "power cut");
        // By what the decided series took: a disk that lies is decided by its first loss.
        let about = (seconds * *all as u64).checked_div(*over as u64);
        let about = about.map_or_else(String::new, |about| format!(" of about {about} s"));
        format!("{over} of {all} series, {cuts}, {seconds} s{about}")
    }
}

/// Runs one series to its end, or until `ending` is set.
fn series(
    left: &UndecidedSeries<'_>,
    (seed, folder, lab): (u64, &Path, &GuestLab),
    sender: &SyncSender<TrialMessage>,
    ending: &AtomicBool,
) -> Result<(), CommandError> {
    let series = left.series;
    let failed = |error: CommandError| error.context(&series.name);
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
            Err(error) if error.kind == CommandErrorKind::Interrupted => return Ok(()),
            Err(error) if may_fail => {
                may_fail = false;
                tell(format!("durio: {}: {}; once more", series.name, error_chain(&error)));
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
        let took_ns = Nanos::from(begin.elapsed()).get();
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
type CutTrial = Box<dyn FnMut(Operator<'_>) -> Result<CutAttempt, CommandError>>;

fn trial(
    series: &ProofSeries,
    seed: u64,
    (ledger, done): (PathBuf, u32),
    lab: &GuestLab,
) -> Result<CutTrial, CommandError> {
    let arm = || {
        let text = "no write path is given for it";
        series.arm.ok_or_else(|| CommandError::new(CommandErrorKind::Fault, text))
    };
    match &series.target {
        ProofTarget::Simulated { profile, size, via } => {
            let (profile, arm) = (profile_named(profile)?.profile(size.get()), arm()?);
            match via {
                SimulatedVia::Process => simulated(Simulation::new(profile, arm, seed)),
                SimulatedVia::Nbd => simulated(Simulation::over_nbd(profile, arm, seed)),
            }
        }
        ProofTarget::Array(target) => {
            let disks = ArrayDisks::of(target).ok_or_else(|| no_profile(&target.profile))?;
            simulated(Simulation::of_array(&disks, arm()?, seed))
        }
        ProofTarget::Agent(target) => {
            let mut trials = AgentTrials::new(target.clone(), arm()?, seed, ledger)?;
            Ok(Box::new(move |operator| {
                let (evidence, findings) = trials.cut(operator)?;
                Ok(CutAttempt { evidence, findings, inventory: trials.take_inventory() })
            }))
        }
        ProofTarget::Guest(target) => {
            let mut trials = GuestTrials::new(lab, target, (arm()?, series.cuts), seed, ledger)?;
            Ok(in_guest(move |stop| trials.cut(stop)))
        }
        ProofTarget::Command(target) => {
            let mut trials = CommandTrials::new(target, seed, done)?;
            Ok(in_guest(move |stop| trials.cut(stop)))
        }
    }
}

fn simulated<A: DiskAccess + 'static>(
    made: Result<Simulation<A>, AnyError>,
) -> Result<CutTrial, CommandError> {
    let mut simulation = made.map_err(CommandError::cannot)?;
    Ok(Box::new(move |_| {
        let findings = simulation.cut().map_err(CommandError::cannot)?;
        let evidence = CutEvidence { simulated: true, ..CutEvidence::default() };
        Ok(CutAttempt { evidence, findings, inventory: None })
    }))
}

/// A trial in a guest, whose first life says what guests run on; their kernels and devices stand in the
/// plan.
fn in_guest(
    mut cut: impl FnMut(&dyn Fn() -> bool) -> Result<(CutEvidence, CutFindings), CommandError> + 'static,
) -> CutTrial {
    let qemu = Qemu::find().ok().map(|qemu| qemu.version);
    let inventory =
        Inventory { host: read_host(), stack: None, qemu, power: PowerState::default() };
    let mut inventory = Some(Box::new(inventory));
    Box::new(move |operator| {
        let (evidence, findings) = cut(operator.stop)?;
        Ok(CutAttempt { evidence, findings, inventory: inventory.take() })
    })
}

#[cfg(test)]
mod tests {
    use durio_base::Bytes;
    use durio_plan::proof::{
        AgentTarget, Arm, DurablePath, LossClass, PROOF_PLAN_SCHEMA, ProofPlan,
    };
    use durio_record::proof::{Finding, InPlace, PROOF_FOLDER_SCHEMA, ProofManifest};

    use super::*;

    #[test]
    fn a_series_ends_with_a_loss_or_enough_effective_cuts_or_three_attempts_for_each() {
        let is_decided =
            |cuts, effective, has_lost| SeriesProgress { cuts, effective, has_lost }.is_decided(5);
        assert_eq!([is_decided(1, 0, true), is_decided(1, 1, false)], [true, false]);
        assert_eq!([is_decided(4, 4, false), is_decided(5, 5, false)], [false, true]);
        assert_eq!([is_decided(14, 4, false), is_decided(15, 4, false)], [false, true]);
    }

    #[test]
    fn progress_has_its_end_once_a_series_is_decided() {
        let words = |over, cuts| ProofProgress { all: 92, over, cuts }.words(6);
        assert_eq!(words(0, 1), "0 of 92 series, 1 power cut, 6 s");
        assert_eq!(words(23, 700), "23 of 92 series, 700 power cuts, 6 s of about 24 s");
        assert_eq!(words(92, 4000), "92 of 92 series, 4000 power cuts, 6 s of about 6 s");
    }

    struct Nobody;

    impl ProgressObserver for Nobody {
        fn remark(&self, _: &str) {}

        fn progress(&self, _: &str) {}
    }

    fn made(target: ProofTarget, cuts: u32) -> ProofSeries {
        let (name, arm) = ("made".to_owned(), Some(Arm::new(DurablePath::Fdatasync, 4)));
        ProofSeries { name, target, arm, cuts, expected: None }
    }

    fn simulated_disk() -> ProofTarget {
        ProofTarget::Simulated {
            profile: "write-back".to_owned(),
            size: Bytes::from_mib(1),
            via: SimulatedVia::Process,
        }
    }

    /// The cuts of a proof of these targets, and whether all of them could be tried.
    fn proved(targets: [ProofTarget; 2], cuts: u32) -> (Vec<CutRecord>, bool) {
        let place = tempfile::tempdir().unwrap();
        let plan = ProofPlan {
            schema: PROOF_PLAN_SCHEMA,
            name: "made".to_owned(),
            summary: String::new(),
            seed: 3,
            series: targets.map(|target| made(target, cuts)).into(),
        };
        let manifest = ProofManifest {
            schema: PROOF_FOLDER_SCHEMA,
            proof: "made".to_owned(),
            durio_version: "0".to_owned(),
            started: "2026-11-21T10:09:00Z".to_owned(),
            command: Vec::new(),
            plan,
            outcome: None,
        };
        let folder = ProofFolder::create(&place.path().join("proof"), manifest).unwrap();
        let proved = prove_power(folder, &StopFlag::default(), &Nobody).unwrap();
        let mut records = proved.folder.cuts().unwrap();
        records.sort_by_key(|record| (record.series, record.cut));
        (records, proved.ending.is_ok())
    }

    /// The series that have cuts.
    fn cut(targets: [ProofTarget; 2]) -> Vec<u32> {
        let (records, is_whole) = proved(targets, 1);
        assert!(!is_whole, "no agent comes");
        let mut cut: Vec<u32> = records.iter().map(|record| record.series).collect();
        cut.dedup();
        cut
    }

    #[test]
    fn beside_an_agents_target_one_series_is_tried_after_the_other() {
        let agent = || {
            ProofTarget::Agent(AgentTarget {
                name: "disk".to_owned(),
                listen: "127.0.0.1:0".to_owned(),
                token: "secret".to_owned(),
                patience: Nanos::from_secs(1),
                ..AgentTarget::default()
            })
        };
        // In the second that the agent is waited for, a simulated disk would be cut many times.
        assert!(cut([agent(), simulated_disk()]).is_empty());
        assert_eq!(cut([simulated_disk(), agent()]), [0_u32]);
    }

    #[test]
    fn two_series_of_one_disk_have_different_cuts_and_the_same_plan_has_the_same_again() {
        let findings = || {
            let (records, is_whole) = proved([simulated_disk(), simulated_disk()], 3);
            assert!(is_whole);
            let names: Vec<_> = records.iter().map(|record| (record.series, record.cut)).collect();
            assert_eq!(names, [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]);
            records.into_iter().map(|record| record.findings).collect::<Vec<_>>()
        };
        let first = findings();
        assert_eq!(first, findings());
        assert_ne!(first[..3], first[3..]);
    }

    fn recorded(series: u32, acknowledged: u64, class: Option<LossClass>) -> CutRecord {
        let finding = |class| Finding {
            class,
            sector: 8,
            sectors: 8,
            seq: 1,
            acknowledged_before_ns: Some(5),
            found: InPlace::Zeros,
        };
        let findings = class.map(finding).into_iter().collect();
        let findings = CutFindings { acknowledged, findings, ..CutFindings::default() };
        let evidence = CutEvidence { simulated: true, ..CutEvidence::default() };
        CutRecord { series, cut: 1, evidence, findings, took_ns: 0, inventory: None }
    }

    #[test]
    fn a_series_has_the_cuts_that_were_its_own_and_those_of_an_idle_disk_do_not_count() {
        let before = [
            recorded(0, 31, None),
            recorded(1, 32, None),
            recorded(1, 90, None),
            recorded(0, 32, None),
            recorded(2, 90, Some(LossClass::Torn)),
            recorded(1, 5, None),
        ];
        let series = made(simulated_disk(), 5);
        let progress = [0, 1, 2, 3].map(|place| {
            let SeriesProgress { cuts, effective, has_lost } =
                UndecidedSeries::of(place, &series, &before).progress;
            (cuts, effective, has_lost)
        });
        assert_eq!(progress, [(2, 1, false), (3, 2, false), (1, 1, true), (0, 0, false)]);
    }
}
