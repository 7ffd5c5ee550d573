//! Power cuts, one after another, on simulated disks in a guest of the lab: boot, load, cut, boot,
//! verify. The guest's side is `proof_in_guest.rs`, QEMU durio-lab's.
//!
//! ```text
//!  boot: make layers, stamp ──► boot: load ──► cut: disks, then QEMU ──► restore ──► boot: read
//!                                   ▲                                                   │
//!                                   └───────────────────────────────────────────────────┘
//! ```
//!
//! The disks are in this process and lose what a power cut takes; QEMU, which keeps none of their
//! data, is killed within microseconds. The guest's earlier messages are in a pipe of this process.

mod machine;
mod states;

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::classify::gone;
use crate::guest_agent::{GuestOrder, GuestTask};
use crate::history::History;
use crate::layout::{CELL, CELL_SECTORS, Layout};
use crate::ledger_file::{LedgerBook, LedgerHead, LedgerLine};
use crate::stamp::StampOwner;
use crate::verify::settle;
use crate::wire::AgentSays;
use crate::witness::CellReadings;
use durio_base::{Bytes, Nanos};
use durio_command::{CommandError, CommandErrorKind, own_program};
use durio_lab::{LabDisk, LabRequest, LabTiming, PreparedGuest};
use durio_layers::NamedNeeds;
use durio_plan::proof::{Arm, FileWrites, GuestFrontEnd, GuestTarget, ProofPlan, ProofTarget};
use durio_record::proof::{CutEvidence, CutFindings};
use durio_simdisk::{NamedProfile, named};
use durio_workload::job_seed;

use crate::guest_layers;
use durio_lab::kernels::kernel_named;
use machine::{Conversation, GuestDisks, GuestMachine};
pub(crate) use machine::{GuestStreams, boot_guest, lab_disk};
use states::StateMailbox;

/// A quarter of a disk is used, at most so much: the rest is the filesystem's, and all of it is read
/// three times by an emulated processor.
const CELLS_MAX: u64 = 1024;
/// Where all are read in each crash state, or each is a file.
const CELLS_OF_FEW: u64 = 256;
const MEMORY: Bytes = Bytes::from_mib(1024);
/// The time limit of one boot; the longest that works takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(600);
/// How long a disk is written to at least, from the first acknowledgement on; twice as long at most.
const LOAD: Duration = Duration::from_millis(500);
/// As many acknowledgements in less time than an effective cut asks for (32 in 100 ms).
const BUSY: usize = 40;
const BUSY_NS: u64 = 90_000_000;
/// A guest that stays slow is cut anyway, and the cut does not count.
const BUSY_WITHIN: Duration = Duration::from_secs(5);
/// Acknowledgements that are heard so long after the cut were on their way.
const ON_THE_WAY: Nanos = Nanos::new(500_000_000);

/// Guests that are ready to be booted.
#[derive(Debug)]
pub(crate) struct GuestLab {
    targets: Vec<GuestTarget>,
    ready: OncePerKernel<PreparedGuest>,
}

/// One value per kernel, made when the first series needs it.
#[derive(Debug)]
struct OncePerKernel<T>(Mutex<Vec<(Option<String>, T)>>);

impl<T: Clone> OncePerKernel<T> {
    fn get(
        &self,
        kernel: Option<&String>,
        make: impl FnOnce() -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        // Held while it is made: the others need the same.
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, it)) = made.iter().find(|(of, _)| of.as_ref() == kernel) {
            return Ok(it.clone());
        }
        let it = make()?;
        made.push((kernel.cloned(), it.clone()));
        Ok(it)
    }
}

impl GuestLab {
    /// For all guests of a plan.
    pub(crate) fn of(plan: &ProofPlan) -> Self {
        let targets = plan.series.iter().filter_map(|series| match &series.target {
            ProofTarget::Guest(target) => Some(target.clone()),
            _ => None,
        });
        Self { targets: targets.collect(), ready: OncePerKernel(Mutex::default()) }
    }

    fn guest(&self, kernel: Option<&String>) -> Result<PreparedGuest, CommandError> {
        self.ready.get(kernel, || self.prepared(kernel))
    }

    /// The disks, programs and drivers of all guests with this kernel.
    fn needs(&self, kernel: Option<&String>) -> (Vec<GuestFrontEnd>, NamedNeeds) {
        let own = || self.targets.iter().filter(|target| target.kernel.as_ref() == kernel);
        let mut front_ends: Vec<GuestFrontEnd> = own().map(|target| target.front_end).collect();
        front_ends.sort_unstable();
        front_ends.dedup();
        (front_ends, guest_layers::needs(own().map(|target| target.layers)))
    }

    fn prepared(&self, kernel: Option<&String>) -> Result<PreparedGuest, CommandError> {
        let program = own_program()?;
        let (front_ends, needs) = self.needs(kernel);
        // Never booted with these disks: they say which drivers are needed.
        let disks = front_ends.into_iter().map(|front_end| LabDisk {
            serial: front_end.word().to_owned(),
            ..lab_disk(Path::new("/nonexistent"), front_end, true)
        });
        let kernel = kernel_named(kernel.map(Path::new), None).map_err(undecided)?;
        let request = LabRequest {
            timing: LabTiming::Wall,
            memory: MEMORY,
            limit: LIMIT,
            tools: needs.tools,
            modules: needs.modules,
            disks: disks.collect(),
            has_witness: true,
            ..LabRequest::new(kernel, program, vec!["durio".into()])
        };
        PreparedGuest::new(request).map_err(undecided)
    }
}

/// Names the kernel of each guest that takes the newest: the record shows which it was, and the
/// proof continues with the same.
///
/// # Errors
/// If no kernel is usable.
pub fn name_kernels(plan: &mut ProofPlan) -> Result<(), CommandError> {
    for series in &mut plan.series {
        let kernel = match &mut series.target {
            ProofTarget::Guest(target) => &mut target.kernel,
            ProofTarget::Command(target) => &mut target.guest.kernel,
            ProofTarget::Simulated { .. } | ProofTarget::Array(_) | ProofTarget::Agent(_) => {
                continue;
            }
        };
        if kernel.is_none() {
            *kernel = Some(kernel_named(None, None).map_err(undecided)?.release);
        }
    }
    Ok(())
}

/// A guest that does not work decides nothing about the disk.
pub(crate) fn undecided(mut error: CommandError) -> CommandError {
    if error.kind == CommandErrorKind::LabFailed {
        error.kind = CommandErrorKind::CannotMeasure;
    }
    error
}

/// Trials on the disks of one guest.
#[derive(Debug)]
pub(crate) struct GuestTrials {
    machine: GuestMachine,
    order: GuestOrder,
    disks: GuestDisks,
    seed: u64,
    ledger: PathBuf,
    /// `None` until the target is stamped.
    book: Option<LedgerBook>,
    /// The history of a freshly stamped target.
    stamped: Option<History>,
    /// For crash states: how many are read in a life, the mailbox that tells the guest which one is
    /// on the disk, the rest of the latest life's, and the number of lives.
    count: usize,
    mailbox: Option<StateMailbox>,
    states: VecDeque<(CutEvidence, CutFindings)>,
    lives: u64,
}

impl GuestTrials {
    /// Trials whose ledger is this file; the disks are new, and so is the ledger. Where crash states are
    /// read, `cuts` of them.
    pub(crate) fn new(
        lab: &GuestLab,
        target: &GuestTarget,
        (arm, cuts): (Arm, u32),
        seed: u64,
        ledger: PathBuf,
    ) -> Result<Self, CommandError> {
        let named = profile_named(&target.profile)?;
        let disks = GuestDisks::new(target, named, seed)?;
        let in_lab = disks.in_lab(target);
        let mut run = [0; 16];
        run[..8].copy_from_slice(&job_seed(seed, 0, 0).to_le_bytes());
        run[8..].copy_from_slice(&job_seed(seed, 0, 1).to_le_bytes());
        let mailbox = target.enumerated.then(|| StateMailbox::new(target.front_end)).transpose()?;
        // A file for each cell takes longer to make and to read.
        let is_small = target.enumerated || arm.writes.makes_files();
        let most = if is_small { CELLS_OF_FEW } else { CELLS_MAX };
        let order = GuestOrder {
            task: GuestTask::Prepare,
            owner: StampOwner { run, target: 1 },
            cells: (target.size.get() / CELL as u64 / 4).min(most),
            arm,
            engine: target.engine,
            layers: target.layers,
            disks: in_lab.iter().map(LabDisk::path_in_guest).collect(),
            mailbox: mailbox.as_ref().map(|mailbox| mailbox.disk.path_in_guest()),
        };
        let guest = lab.guest(target.kernel.as_ref())?;
        let all = in_lab.into_iter().chain(mailbox.as_ref().map(|mailbox| mailbox.disk.clone()));
        let machine = GuestMachine::new(guest, all.collect());
        Ok(Self {
            machine,
            order,
            disks,
            seed,
            ledger,
            book: None,
            stamped: None,
            count: usize::try_from(cuts).unwrap_or(usize::MAX),
            mailbox,
            states: VecDeque::new(),
            lives: 0,
        })
    }

    /// One life of the disks, or a crash state of the only one.
    pub(crate) fn cut(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<(CutEvidence, CutFindings), CommandError> {
        if self.mailbox.is_some() {
            return self.next_state(stop);
        }
        if self.book.is_none() {
            self.prepare(stop)?;
        }
        let evidence = self.load(stop)?;
        if !self.disks.restore() {
            return Ok((evidence, gone(self.book()?.state.history.as_ref())));
        }
        Ok((evidence, self.verify(stop)?))
    }

    fn prepare(&mut self, stop: &dyn Fn() -> bool) -> Result<(), CommandError> {
        let order = GuestOrder { task: GuestTask::Prepare, ..self.order.clone() };
        let at = self.machine.boot(&order, stop, |guest| {
            let mut at = None;
            while let Some((heard_at, said)) = guest.hear()? {
                match said {
                    AgentSays::Prepared => at = Some(heard_at),
                    AgentSays::Failed { reason } => return Err(said_failed(&reason)),
                    _ => return Err(unexpected()),
                }
            }
            at.ok_or_else(|| guest.is_over("before the disk was stamped"))
        })?;
        self.disks.begin_to_lie(self.machine.now())?;
        let file = File::create(&self.ledger)
            .map_err(|error| CommandError::io("make the ledger", &self.ledger, error))?;
        let GuestOrder { owner, cells, arm, .. } = self.order;
        let head = LedgerHead::new(owner, cells, arm);
        let mut book = LedgerBook::begin(file, head).map_err(CommandError::cannot)?;
        book.record(LedgerLine::Prepared { at }).map_err(CommandError::cannot)?;
        self.stamped.clone_from(&book.state.history);
        self.book = Some(book);
        Ok(())
    }

    /// Loads the disks, and takes their power away.
    fn load(&mut self, stop: &dyn Fn() -> bool) -> Result<CutEvidence, CommandError> {
        let (disks, seed) = (&self.disks, self.seed);
        let book = self.book.as_mut().ok_or_else(not_stamped)?;
        let first_seq = book.state.next_seq;
        let seed = job_seed(seed, first_seq, 0);
        let order = GuestOrder { task: GuestTask::Load { first_seq, seed }, ..self.order.clone() };
        let span = span_of(seed);
        let mut evidence = CutEvidence { simulated: true, ..CutEvidence::default() };
        self.machine.boot(&order, stop, |guest| {
            load_for(guest, book, span, &mut |_, _| {})?;
            // One moment for both: messages from in between count as earlier.
            disks.cut();
            let cut_at = guest.cut();
            while let Some((at, said)) = guest.hear()? {
                let is_late = at.get() > cut_at.get() + ON_THE_WAY.get();
                let is_acknowledged = matches!(said, AgentSays::Acknowledged { .. });
                evidence.acknowledged_after += u64::from(is_late && is_acknowledged);
                // Its disks have no power any more.
                if !matches!(said, AgentSays::Failed { .. }) {
                    record(book, at, said)?;
                }
            }
            book.record(LedgerLine::Cut { at: cut_at }).map_err(CommandError::cannot)
        })?;
        Ok(evidence)
    }

    fn verify(&mut self, stop: &dyn Fn() -> bool) -> Result<CutFindings, CommandError> {
        let order = GuestOrder { task: GuestTask::Read, ..self.order.clone() };
        let before = self.book()?.state.history.clone().ok_or_else(not_stamped)?;
        let cells = before.cells();
        let readings = self.machine.boot(&order, stop, |guest| {
            let mut readings = CellReadings::of(cells.clone());
            while let Some((_, said)) = guest.hear()? {
                match said {
                    AgentSays::Gone { .. } => return Ok(None),
                    AgentSays::Failed { reason } => return Err(said_failed(&reason)),
                    said => readings.take(said).ok_or_else(unexpected)?,
                }
            }
            readings.finish().ok_or_else(|| guest.is_over("before all was read")).map(Some)
        })?;
        let Some([first, second, third]) = readings else { return Ok(gone(Some(&before))) };
        // Only the guest can read again, and it did so once for all cells.
        let again = |cell: u64| {
            let place = usize::try_from(cell - cells.start).unwrap_or(usize::MAX);
            Ok(third[place].clone())
        };
        Ok(settle(self.book()?, &before, [&first, &second], again)?)
    }

    fn book(&mut self) -> Result<&mut LedgerBook, CommandError> {
        self.book.as_mut().ok_or_else(not_stamped)
    }
}

/// Up to as long again, so that the cut comes at any phase of whatever the guest does.
fn span_of(seed: u64) -> Duration {
    let nanos = u64::try_from(LOAD.as_nanos()).unwrap_or(u64::MAX);
    LOAD + Duration::from_nanos(job_seed(seed, 0, 1) % (nanos + 1))
}

/// Keeps the ledger until so long after the first acknowledgement, and until the disk is busy: a cut of
/// an idle one would not count. A log that grows must do so when the power goes, so half of it is enough.
/// `heard` gets each message first.
fn load_for(
    guest: &Conversation<'_>,
    book: &mut LedgerBook,
    span: Duration,
    heard: &mut dyn FnMut(Nanos, &AgentSays),
) -> Result<(), CommandError> {
    let (mut first, mut recent) = (None, VecDeque::with_capacity(BUSY));
    loop {
        let Some((at, said)) = guest.hear()? else {
            return Err(guest.is_over("before its power was cut"));
        };
        heard(at, &said);
        let acknowledged = match said {
            AgentSays::Acknowledged { seq } => Some(seq),
            _ => None,
        };
        record(book, at, said)?;
        let Some(seq) = acknowledged else { continue };
        if is_half_of_log(book, seq) {
            return Ok(());
        }
        let begin: Instant = *first.get_or_insert_with(Instant::now);
        if recent.len() == BUSY {
            recent.pop_front();
        }
        recent.push_back(at);
        let is_busy = recent.len() == BUSY && at.get() - recent[0].get() <= BUSY_NS;
        let elapsed = begin.elapsed();
        if elapsed >= span && (is_busy || elapsed >= span + BUSY_WITHIN) {
            return Ok(());
        }
    }
}

fn is_half_of_log(book: &LedgerBook, seq: u64) -> bool {
    let LedgerHead { cells, arm, .. } = book.state.head;
    let log = Layout::new(cells).journal;
    let half = log.start.midpoint(log.end) * CELL_SECTORS;
    let written = book.state.history.as_ref().and_then(|history| history.intent(seq));
    arm.writes == FileWrites::Append && written.is_some_and(|intent| intent.sector >= half)
}

fn record(book: &mut LedgerBook, at: Nanos, said: AgentSays) -> Result<(), CommandError> {
    let line = match said {
        AgentSays::Intend { writes } => LedgerLine::Intended { writes },
        AgentSays::Acknowledged { seq } => LedgerLine::Acknowledged { seq, at },
        AgentSays::ControlDone { seq } => LedgerLine::ControlDone { seq },
        AgentSays::Failed { reason } => return Err(said_failed(&reason)),
        _ => return Err(unexpected()),
    };
    book.record(line).map_err(CommandError::cannot)
}

pub(crate) fn profile_named(name: &str) -> Result<&'static NamedProfile, CommandError> {
    named(name).ok_or_else(|| no_profile(name))
}

pub(crate) fn no_profile(name: &str) -> CommandError {
    CommandError::cannot_measure(format!("there is no profile '{name}'"))
}

pub(crate) fn said_failed(reason: &str) -> CommandError {
    CommandError::cannot_measure(format!("the guest: {reason}"))
}

fn unexpected() -> CommandError {
    CommandError::cannot_measure("unexpected message from the guest")
}

fn not_stamped() -> CommandError {
    CommandError::new(CommandErrorKind::Fault, "the disk was not stamped")
}

#[cfg(test)]
mod tests;
