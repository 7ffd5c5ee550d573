//! The crash states of one recorded life, each put on the guest's disk and read there.
//!
//! A disk that keeps its word records a life; each state is checked for the data acknowledged
//! before it. durio-prove enumerates the states; power cuts are in `guest_trials.rs`.
//!
//! ```text
//!  boot: stamp ──► boot: load, recorded ──► boot: ┌► host: state n on the disk, n in the mailbox
//!                                                 └─ guest: mount, read, unmount, forget ◄┘
//! ```
//!
//! A mark stands in the recording where the witness heard of an acknowledgement, a moment after the
//! guest had it: everything heard is durable in every state after its mark.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_command::CommandError;
use durio_lab::LabDisk;
use durio_record::proof::{CutEvidence, CutFindings};
use durio_simdisk::{Disk, DiskRequest, Image, Profile, Recording, SECTOR, SharedDisk};
use durio_workload::job_seed;

use super::machine::Conversation;
use super::{GuestTrials, lab_disk, load_for, not_stamped, said_failed, span_of};
use crate::background::BackgroundServer;
use crate::classify::{classify, gone};
use crate::enumerate::{EnumerationLimits, visit};
use crate::guest_agent::{GuestOrder, GuestTask};
use crate::history::History;
use crate::ledger::LedgerEntry;
use crate::reading::ObservedCell;
use crate::serving::Advertisement;
use crate::wire::AgentSays;
use crate::witness::CellReadings;

/// States of one boot: an emulated guest takes about a second for each, and has its time limit.
const BATCH: usize = 200;
/// The mailbox's serial number in the guest.
const SERIAL: &str = "durio-mailbox";
/// How long a disk may have requests in flight whose guest has ended, or has put it down.
const IDLE_WITHIN: Duration = Duration::from_secs(10);

/// The disk on which the guest finds the number of the state that is on the other.
#[derive(Debug)]
pub(super) struct StateMailbox {
    contents: SharedDisk,
    pub(super) disk: LabDisk,
    _server: BackgroundServer,
}

struct CrashState {
    image: Image,
    words: String,
    /// Acknowledgements before it.
    acknowledged: usize,
}

/// A life as its witness heard it.
#[derive(Default)]
struct WitnessedLife {
    /// All that was announced.
    intents: Vec<LedgerEntry>,
    /// The acknowledgements, one for each mark.
    acknowledged: Vec<(LedgerEntry, Nanos)>,
}

impl StateMailbox {
    pub(super) fn new(front_end: durio_plan::proof::GuestFrontEnd) -> Result<Self, CommandError> {
        let profile = Profile::honest(1 << 20);
        let advertised = Advertisement::of(&profile);
        let contents = SharedDisk::new(Disk::new(profile, 0));
        let server = BackgroundServer::start(&contents, advertised)?;
        let disk =
            LabDisk { serial: SERIAL.to_owned(), ..lab_disk(server.socket(), front_end, true) };
        Ok(Self { contents, disk, _server: server })
    }

    fn put(&self, number: u64, now: Nanos) -> Result<(), CommandError> {
        let mut data = [0; SECTOR];
        data[..8].copy_from_slice(&number.to_le_bytes());
        let request = DiskRequest::Write { sector: 0, data: &data, fua: true };
        self.contents.lock().carry_out(0, now, request, &mut []).map_err(CommandError::cannot)
    }
}

impl GuestTrials {
    /// The next crash state; of another life where those of one are all read.
    pub(super) fn next_state(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<(CutEvidence, CutFindings), CommandError> {
        if self.states.is_empty() {
            self.lives += 1;
            replace(self.disks.only(), &Image::default())?;
            self.prepare(stop)?;
            let (recording, heard) = self.recorded_load(stop)?;
            self.states = self.read_states(&recording, &heard, stop)?;
        }
        let none = || CommandError::cannot_measure("nothing was written that could be lost");
        self.states.pop_front().ok_or_else(none)
    }

    /// Loads the disk, and records the guest's requests.
    fn recorded_load(
        &mut self,
        stop: &dyn Fn() -> bool,
    ) -> Result<(Recording, WitnessedLife), CommandError> {
        let (disk, book) = (self.disks.only().clone(), self.book.as_mut().ok_or_else(not_stamped)?);
        let first_seq = book.state.next_seq;
        let seed = job_seed(self.seed, self.lives, 0);
        let order = GuestOrder { task: GuestTask::Load { first_seq, seed }, ..self.order.clone() };
        disk.lock().record();
        let mut heard = WitnessedLife::default();
        let recording = self.machine.boot(&order, stop, |guest| {
            let mut mark = |at, said: &AgentSays| {
                if let Some(seq) = heard.take(at, said) {
                    disk.lock().mark(&format!("acknowledged {seq}"));
                }
            };
            load_for(guest, book, span_of(seed), &mut mark)?;
            let recording = disk.lock().take_recording();
            guest.cut();
            // Writes that started before the end were announced before it.
            while let Some((at, said)) = guest.hear()? {
                if matches!(said, AgentSays::Intend { .. }) {
                    heard.take(at, &said);
                }
            }
            recording.ok_or_else(not_stamped)
        })?;
        Ok((recording, heard))
    }

    fn read_states(
        &mut self,
        recording: &Recording,
        heard: &WitnessedLife,
        stop: &dyn Fn() -> bool,
    ) -> Result<VecDeque<(CutEvidence, CutFindings)>, CommandError> {
        let mailbox = self.mailbox.as_ref().ok_or_else(not_stamped)?;
        let states = crash_states(recording, self.count.min(BATCH), self.seed);
        let stamped = self.stamped.clone().ok_or_else(not_stamped)?;
        let mut history = heard.announced(stamped)?;
        let order = GuestOrder { task: GuestTask::ReadStates, ..self.order.clone() };
        let (disk, machine) = (self.disks.only(), &self.machine);
        let mut taken = 0;
        machine.boot(&order, stop, |guest| {
            let mut found = VecDeque::new();
            for (number, state) in (1..).zip(states) {
                replace(disk, &state.image)?;
                mailbox.put(number, machine.now())?;
                let reading = read(guest, &history)?;
                let at = heard.acknowledge(&mut history, &mut taken, state.acknowledged)?;
                let findings = judge(history.clone(), at, reading.as_deref())?;
                let is_lost = !findings.findings.is_empty();
                let state = Some(state.words);
                let evidence = CutEvidence { simulated: true, state, ..CutEvidence::default() };
                found.push_back((evidence, findings));
                // A series ends at its first loss.
                if is_lost {
                    break;
                }
            }
            Ok(found)
        })
    }
}

impl WitnessedLife {
    /// Gives the number of a write that is acknowledged.
    fn take(&mut self, at: Nanos, said: &AgentSays) -> Option<u64> {
        match said {
            AgentSays::Intend { writes } => {
                self.intents.extend(writes.iter().map(|&intent| LedgerEntry::Intended(intent)));
                None
            }
            AgentSays::Acknowledged { seq } => {
                self.acknowledged.push((LedgerEntry::Acknowledged { seq: *seq, at }, at));
                Some(*seq)
            }
            _ => None,
        }
    }

    /// A state may hold everything announced in this life: later writes are not on the disk.
    fn announced(&self, mut history: History) -> Result<History, CommandError> {
        self.intents
            .iter()
            .try_for_each(|&intent| history.take(intent))
            .map_err(CommandError::cannot)?;
        Ok(history)
    }

    /// Adds acknowledgements up to `until`, and returns the time of the last.
    fn acknowledge(
        &self,
        history: &mut History,
        taken: &mut usize,
        until: usize,
    ) -> Result<Nanos, CommandError> {
        for &(entry, _) in &self.acknowledged[*taken..until] {
            history.take(entry).map_err(CommandError::cannot)?;
        }
        *taken = until;
        Ok(until.checked_sub(1).map_or(Nanos::ZERO, |last| self.acknowledged[last].1))
    }
}

/// In the order of the recording.
fn crash_states(recording: &Recording, count: usize, seed: u64) -> Vec<CrashState> {
    let mut states = Vec::new();
    visit(
        recording,
        EnumerationLimits { states: count, seed, ..EnumerationLimits::default() },
        |image, state| {
            let words = format!("{}: {state}", state.name());
            states.push(CrashState { image: image.clone(), words, acknowledged: state.marks });
            std::ops::ControlFlow::Continue(())
        },
    );
    states
}

/// The guest's reading of the state on the disk; `None` if it cannot be mounted.
fn read(
    guest: &Conversation<'_>,
    history: &History,
) -> Result<Option<Vec<ObservedCell>>, CommandError> {
    let (mut readings, mut is_gone) = (CellReadings::of(history.cells()), false);
    while let Some((_, said)) = guest.hear()? {
        match said {
            AgentSays::Gone { .. } => is_gone = true,
            AgentSays::Failed { reason } => return Err(said_failed(&reason)),
            AgentSays::Released if is_gone => return Ok(None),
            AgentSays::Released => {
                let whole = readings.first();
                return whole.map(Some).ok_or_else(super::unexpected);
            }
            said => readings.take(said).ok_or_else(super::unexpected)?,
        }
    }
    Err(guest.is_over("while it read a crash state"))
}

fn judge(
    mut history: History,
    at: Nanos,
    reading: Option<&[ObservedCell]>,
) -> Result<CutFindings, CommandError> {
    let Some(reading) = reading else { return Ok(gone(Some(&history))) };
    history.take(LedgerEntry::Cut { at }).map_err(CommandError::cannot)?;
    let begin = history.cells().start;
    let again = |cell: u64| {
        let place = usize::try_from(cell - begin).unwrap_or(usize::MAX);
        // A simulated disk that keeps its word says the same again.
        Ok::<_, CommandError>(reading[place].clone())
    };
    classify(&mut history, [reading, reading], again)
}

/// Waits until the disk is idle, and puts another medium in.
fn replace(disk: &SharedDisk, image: &Image) -> Result<(), CommandError> {
    let begin = Instant::now();
    while !disk.lock().replace_medium(image.clone()) {
        if begin.elapsed() > IDLE_WITHIN {
            return Err(CommandError::cannot_measure("the guest's disk did not become idle"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use durio_plan::proof::LossClass;

    use super::*;
    use crate::ledger::Intent;

    /// Cells 9 and 10 are written, and 9 once more.
    fn life() -> WitnessedLife {
        let intent =
            |seq, cell: u64| Intent { seq, sector: 8 * cell, sectors: 8, is_control: false };
        let writes = vec![intent(1, 9), intent(2, 10), intent(3, 9)];
        let mut life = WitnessedLife::default();
        let told = [
            (10, AgentSays::Intend { writes }),
            (20, AgentSays::Acknowledged { seq: 2 }),
            (30, AgentSays::Acknowledged { seq: 1 }),
            (35, AgentSays::ControlDone { seq: 2 }),
            (40, AgentSays::Acknowledged { seq: 3 }),
        ]
        .map(|(at, said)| life.take(Nanos::new(at), &said));
        assert_eq!(told, [None, Some(2), Some(1), None, Some(3)]);
        life
    }

    #[test]
    fn a_state_must_hold_what_was_acknowledged_before_it_and_may_hold_all_that_was_announced() {
        let life = life();
        let mut history = life.announced(History::new(8..14, Nanos::new(5))).unwrap();
        let mut taken = 0;
        // For each number of acknowledgements: what cells 9 and 10 hold, and which of them is lost.
        for (acknowledged, at, states) in [
            (0, 0, &[([0, 0], None), ([3, 2], None), ([1, 0], None)][..]),
            (1, 20, &[([0, 2], None), ([3, 2], None), ([0, 0], Some(80)), ([3, 0], Some(80))]),
            (1, 20, &[([1, 2], None), ([1, 0], Some(80))]),
            (3, 40, &[([3, 2], None), ([1, 2], Some(72)), ([0, 2], Some(72)), ([3, 0], Some(80))]),
        ] {
            let found = life.acknowledge(&mut history, &mut taken, acknowledged).unwrap();
            assert_eq!((found, taken), (Nanos::new(at), acknowledged));
            for &([nine, ten], lost) in states {
                let reading = [0, nine, ten, 0, 0, 0].map(ObservedCell::Whole);
                let found = judge(history.clone(), Nanos::new(at), Some(&reading)).unwrap();
                let losses: Vec<_> =
                    found.findings.iter().map(|finding| (finding.class, finding.sector)).collect();
                let expected = lost.map(|sector| (LossClass::Lost, sector));
                assert_eq!(
                    losses,
                    expected.into_iter().collect::<Vec<_>>(),
                    "{acknowledged} {nine} {ten}"
                );
                assert_eq!(found.acknowledged, acknowledged as u64);
            }
        }
        // One that cannot be mounted has lost all of it.
        let found = judge(history, Nanos::new(40), None).unwrap();
        assert_eq!((found.class(), found.acknowledged), (Some(LossClass::Gone), 3));
    }

    #[test]
    fn a_life_that_announces_out_of_order_is_refused() {
        let mut life = WitnessedLife::default();
        for seq in [1, 3] {
            let intent = Intent { seq, sector: 72, sectors: 8, is_control: false };
            assert_eq!(life.take(Nanos::new(1), &AgentSays::Intend { writes: vec![intent] }), None);
        }
        assert!(life.announced(History::new(8..14, Nanos::new(5))).is_err());
    }

    #[test]
    fn states_come_in_the_order_of_the_recording_with_the_acknowledgements_before_them() {
        let mut disk = Disk::new(Profile::honest(1 << 20), 1);
        disk.record();
        let data = [1; SECTOR];
        for sector in [0, 8, 16] {
            let write = DiskRequest::Write { sector, data: &data, fua: false };
            disk.carry_out(0, Nanos::new(1), write, &mut []).unwrap();
            disk.carry_out(0, Nanos::new(1), DiskRequest::Flush, &mut []).unwrap();
            disk.mark("acknowledged");
        }
        let recording = disk.take_recording().unwrap();
        let shown = |states: &[CrashState]| -> Vec<(usize, [bool; 3])> {
            let has =
                |image: &Image, sector| image.sector(sector).is_some_and(|bytes| bytes[0] == 1);
            let one = |state: &CrashState| {
                (state.acknowledged, [0, 8, 16].map(|sector| has(&state.image, sector)))
            };
            states.iter().map(one).collect()
        };
        let all = crash_states(&recording, 200, 1);
        let (o, x) = (false, true);
        let expected = [
            (0, [o, o, o]),
            (0, [x, o, o]),
            (1, [x, o, o]),
            (1, [x, x, o]),
            (2, [x, x, o]),
            (2, [x, x, x]),
            (3, [x, x, x]),
        ];
        assert_eq!(shown(&all), expected);
        assert!(
            all[0].words.starts_with("2:none: after the start, 2 events, "),
            "{}",
            all[0].words
        );
        for count in [1, 2, 3] {
            let some = crash_states(&recording, count, 1);
            assert!((1..=count).contains(&some.len()), "{} of {count}", some.len());
        }
    }
}
