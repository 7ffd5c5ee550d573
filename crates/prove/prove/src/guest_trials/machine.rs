//! The guest of a trial. A target and a seed give its simulated disks, which share its power: they are
//! served, cut and restored together. One boot of it sends an order and receives messages with their
//! arrival times, until the guest has ended.

use std::io::{self, BufReader, PipeReader, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_command::{CommandError, CommandErrorKind};
use durio_lab::{Boot, Cutter, LabDisk, LabExit, LabOutcome, LabRequest, PreparedGuest, Streams};
use durio_plan::proof::{GuestFrontEnd, GuestTarget};
use durio_simdisk::{Disk, DiskRequest, Lie, NamedProfile, Profile, SharedDisk};
use durio_workload::job_seed;

use super::undecided;
use crate::background::BackgroundServer;
use crate::guest_agent::GuestOrder;
use crate::serving::Advertisement;
use crate::simulation;
use crate::wire::{AgentSays, receive};

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Messages that wait for the ledger; then the guest waits.
const WAITING_MAX: usize = 4096;

/// A guest with its disks.
#[derive(Debug)]
pub(super) struct GuestMachine {
    guest: PreparedGuest,
    disks: Vec<LabDisk>,
    begin: Instant,
}

/// A message, and when it came; or why there will be no other.
type AgentMessage = io::Result<(Nanos, AgentSays)>;

/// A guest that runs, as its witness sees it.
pub(super) struct Conversation<'a> {
    machine: &'a GuestMachine,
    words: Receiver<AgentMessage>,
    cutter: Cutter,
    /// True if it is not wanted any more.
    stop: &'a dyn Fn() -> bool,
}

impl GuestMachine {
    pub(super) fn new(guest: PreparedGuest, disks: Vec<LabDisk>) -> Self {
        Self { guest, disks, begin: Instant::now() }
    }

    pub(super) fn now(&self) -> Nanos {
        self.begin.elapsed().into()
    }

    /// Boots the guest with an order, and listens to it. When the listener has enough, the guest is
    /// ended; when it cannot continue, the guest's last words go with the error.
    pub(super) fn boot<T>(
        &self,
        order: &GuestOrder,
        stop: &dyn Fn() -> bool,
        listen: impl FnOnce(&Conversation<'_>) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let (sender, words) = sync_channel(WAITING_MAX);
        let (cutter, mut said) = (Cutter::new(), Vec::new());
        let conversation = Conversation { machine: self, words, cutter: cutter.clone(), stop };
        let booted = (&self.guest, self.request(order)?, &cutter);
        let streams: GuestStreams<'_> = [&mut io::sink(), &mut said];
        let (listened, outcome) = boot_guest(booted, streams, stop, |witness, _| {
            thread::scope(|scope| {
                scope.spawn(move || self.listen(witness, &sender));
                let listened = listen(&conversation);
                conversation.cutter.cut();
                drop(conversation);
                listened
            })
        })?;
        let said = String::from_utf8_lossy(&said);
        listened.map_err(|error| with_reason(error, &outcome, said.trim()))
    }

    fn request(&self, order: &GuestOrder) -> Result<LabRequest, CommandError> {
        let order = serde_json::to_string(order).map_err(CommandError::cannot)?;
        let words = ["durio", "prove", "in-guest", &order];
        Ok(LabRequest {
            command: words.map(Into::into).to_vec(),
            disks: self.disks.clone(),
            ..self.guest.request().clone()
        })
    }

    /// Until the guest has ended, or sends something that is not a message.
    fn listen(&self, reader: PipeReader, sender: &SyncSender<AgentMessage>) {
        let mut reader = BufReader::new(reader);
        loop {
            let news = receive(&mut reader).map(|said| (self.now(), said));
            let is_last = news.is_err();
            // The receiver is gone: the guest is being ended.
            if sender.send(news).is_err() || is_last {
                return;
            }
        }
    }
}

/// Where the guest's stdout and stderr go.
pub(crate) type GuestStreams<'a> = [&'a mut (dyn Write + Send); 2];

/// Boots a guest in another thread. While it runs, `watch` gets its messages to its witness, and can
/// ask whether it has ended. Returns the result of `watch`, and how the guest ended.
pub(crate) fn boot_guest<T>(
    (guest, request, cutter): (&PreparedGuest, LabRequest, &Cutter),
    [stdout, stderr]: GuestStreams<'_>,
    stop: &dyn Fn() -> bool,
    watch: impl FnOnce(PipeReader, &dyn Fn() -> bool) -> T,
) -> Result<(T, LabOutcome), CommandError> {
    let guest = guest.with_request(request).map_err(undecided)?;
    let (reader, writer) = io::pipe().map_err(CommandError::cannot)?;
    let (watched, ended) = thread::scope(|scope| {
        let booting = scope.spawn(|| {
            let streams = Streams { stdout, stderr };
            let (cutter, witness) = (Some(cutter), Some(writer.into()));
            guest.boot(Boot { streams, stop: &|| false, cutter, witness })
        });
        let watched = watch(reader, &|| booting.is_finished());
        (watched, booting.join())
    });
    let ended = ended.unwrap_or_else(|fault| std::panic::resume_unwind(fault));
    if stop() {
        return Err(stopped());
    }
    Ok((watched, ended.map_err(undecided)?))
}

fn with_reason(error: CommandError, outcome: &LabOutcome, said: &str) -> CommandError {
    match &outcome.exit {
        LabExit::GuestFailed(reason) => error.hint(format!("the guest failed: {reason}")),
        LabExit::TimeLimit => error.hint("the guest was stopped at its time limit"),
        _ if said.is_empty() => error,
        _ => error.hint(format!("the guest says: {said}")),
    }
}

fn stopped() -> CommandError {
    CommandError::new(CommandErrorKind::Interrupted, "interrupted")
}

impl Conversation<'_> {
    /// The guest's next message; `None` when it has ended.
    pub(super) fn hear(&self) -> Result<Option<(Nanos, AgentSays)>, CommandError> {
        loop {
            match self.words.recv_timeout(LOOK) {
                Ok(Ok(news)) => return Ok(Some(news)),
                // A cut leaves half a line.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Ok(Err(error)) => return Err(CommandError::cannot(error)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if (self.stop)() => return Err(stopped()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Ends the guest at once, and says when.
    pub(super) fn cut(&self) -> Nanos {
        let at = self.machine.now();
        self.cutter.cut();
        at
    }

    /// The guest has ended, and should not have.
    #[expect(clippy::unused_self, reason = "it is said of this guest")]
    pub(super) fn is_over(&self, when: &str) -> CommandError {
        CommandError::cannot_measure(format!("the guest ended {when}"))
    }
}

/// Disks of one profile.
#[derive(Debug)]
pub(super) struct GuestDisks {
    disks: Vec<SharedDisk>,
    /// Each serves a disk while it is here.
    servers: Vec<BackgroundServer>,
    /// Lies of each lying disk, in force once the layers are made.
    lies: Vec<Lie>,
    /// The only liar; all are, without it.
    liar: Option<u32>,
}

impl GuestDisks {
    /// As many as the target's layers take; each is new and, for now, honest.
    pub(super) fn new(
        target: &GuestTarget,
        named: &NamedProfile,
        seed: u64,
    ) -> Result<Self, CommandError> {
        let lying = named.profile(target.size.get());
        let advertised = Advertisement::of(&lying);
        let honest = Profile { lies: Vec::new(), ..lying.clone() };
        // A cut leaves something else of each.
        let seeds = (0..target.layers.disks()).map(|number| job_seed(seed, number.into(), 2));
        let disk = |seed| SharedDisk::new(Disk::new(honest.clone(), seed));
        let disks: Vec<SharedDisk> = seeds.map(disk).collect();
        let servers = disks.iter().map(|disk| BackgroundServer::start(disk, advertised));
        let servers = servers.collect::<Result<_, _>>()?;
        Ok(Self { disks, servers, lies: lying.lies, liar: target.liar })
    }

    /// As the guest has them.
    pub(super) fn in_lab(&self, target: &GuestTarget) -> Vec<LabDisk> {
        let disk = |(number, server): (usize, &BackgroundServer)| LabDisk {
            serial: format!("durio-proof-{number}"),
            ..lab_disk(server.socket(), target.front_end, target.write_cache)
        };
        self.servers.iter().enumerate().map(disk).collect()
    }

    /// The disk whose crash states are read: no array has them (durio-spec).
    pub(super) fn only(&self) -> &SharedDisk {
        &self.disks[0]
    }

    /// Only when the layers are made: a filesystem must be there to be tested.
    pub(super) fn begin_to_lie(&self, now: Nanos) -> Result<(), CommandError> {
        let is_liar = |number: u32| self.liar.is_none_or(|liar| liar == number);
        for (_, disk) in (0..).zip(&self.disks).filter(|(number, _)| is_liar(*number)) {
            let disk = &mut *disk.lock();
            if self.lies.contains(&Lie::ClaimsWriteThrough) {
                // A disk that claims write-through gets no flushes later.
                disk.carry_out(0, now, DiskRequest::Flush, &mut [])
                    .map_err(CommandError::cannot)?;
            }
            self.lies.iter().for_each(|&lie| disk.add_lie(lie));
        }
        Ok(())
    }

    /// Takes the power of all away in one instant.
    pub(super) fn cut(&self) {
        simulation::cut_power(&self.disks);
    }

    /// Restores the power; returns whether each disk came back with its old size.
    pub(super) fn restore(&self) -> bool {
        self.disks.iter().all(simulation::restore_power)
    }
}

/// A disk of a guest, without its serial number.
pub(crate) fn lab_disk(socket: &Path, front_end: GuestFrontEnd, write_cache: bool) -> LabDisk {
    LabDisk {
        socket: socket.to_owned(),
        export: String::new(),
        front_end,
        write_cache,
        serial: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use durio_base::{Bytes, RaidLevel};
    use durio_plan::EngineKind;
    use durio_plan::proof::GuestLayers;
    use durio_simdisk::named;

    use super::*;
    use crate::reading::ObservedCell;
    use crate::witness::CellReadings;

    const SECTOR: usize = 512;

    fn array(profile: &str) -> GuestDisks {
        array_of(profile, None)
    }

    fn array_of(profile: &str, liar: Option<u32>) -> GuestDisks {
        let target = GuestTarget {
            profile: profile.into(),
            liar,
            size: Bytes::from_mib(1),
            front_end: GuestFrontEnd::VirtioBlk,
            write_cache: true,
            layers: GuestLayers::md(RaidLevel::Raid5),
            engine: EngineKind::Uring,
            kernel: None,
            enumerated: false,
        };
        let disks = GuestDisks::new(&target, named(profile).unwrap(), 7).unwrap();
        let serials: Vec<String> =
            disks.in_lab(&target).into_iter().map(|disk| disk.serial).collect();
        assert_eq!(serials, ["durio-proof-0", "durio-proof-1", "durio-proof-2"]);
        disks
    }

    /// Writes a sector to each disk, flushes it, and says on which it stands after a cut.
    fn kept(disks: &GuestDisks) -> Vec<bool> {
        let data = [7; SECTOR];
        for disk in &disks.disks {
            let mut disk = disk.lock();
            let write = DiskRequest::Write { sector: 8, data: &data, fua: false };
            disk.carry_out(0, Nanos::new(1), write, &mut []).unwrap();
            disk.carry_out(0, Nanos::new(2), DiskRequest::Flush, &mut []).unwrap();
        }
        disks.cut();
        assert!(disks.disks.iter().all(|disk| disk.lock().stats().cuts == 1));
        assert!(disks.restore());
        let reads = disks.disks.iter().map(|disk| {
            let mut found = [0; SECTOR];
            let read = DiskRequest::Read { sector: 8 };
            disk.lock().carry_out(0, Nanos::new(3), read, &mut found).unwrap();
            found == data
        });
        reads.collect()
    }

    #[test]
    fn all_disks_of_an_array_lose_their_power_and_keep_what_was_flushed() {
        let disks = array("write-back");
        disks.begin_to_lie(Nanos::new(0)).unwrap();
        assert_eq!(kept(&disks), [true; 3]);
    }

    #[test]
    fn each_disk_of_an_array_lies_once_it_is_told_to() {
        let disks = array("dies");
        disks.begin_to_lie(Nanos::new(0)).unwrap();
        disks.cut();
        assert!(disks.restore());
        for _ in 0..2 {
            disks.cut();
            let _ = disks.restore();
        }
        assert!(!disks.restore());
        assert_eq!(kept(&array("flush-ignored")), [true; 3], "not yet");
    }

    #[test]
    fn where_one_disk_lies_its_neighbours_do_not() {
        let lies = |disks: &GuestDisks| -> Vec<usize> {
            disks.disks.iter().map(|disk| disk.lock().profile().lies.len()).collect()
        };
        for (liar, expected) in
            [(None, [1, 1, 1]), (Some(0), [1, 0, 0]), (Some(1), [0, 1, 0]), (Some(2), [0, 0, 1])]
        {
            let disks = array_of("flush-ignored", liar);
            assert_eq!(lies(&disks), [0; 3], "not yet");
            disks.begin_to_lie(Nanos::new(0)).unwrap();
            assert_eq!(lies(&disks), expected, "{liar:?}");
        }
    }

    #[test]
    fn only_a_disk_that_will_get_no_flush_is_flushed_before_it_lies() {
        for (profile, liar, left) in [
            ("claims-write-through", None, [0; 3]),
            ("claims-write-through", Some(1), [12_288, 0, 12_288]),
            ("flush-ignored", None, [12_288; 3]),
        ] {
            let disks = array_of(profile, liar);
            for disk in &disks.disks {
                for page in 0..3 {
                    let data = [7; SECTOR];
                    let write = DiskRequest::Write { sector: page * 8, data: &data, fua: false };
                    disk.lock().carry_out(0, Nanos::new(1), write, &mut []).unwrap();
                }
            }
            disks.begin_to_lie(Nanos::new(2)).unwrap();
            let waiting = disks.disks.iter().map(|disk| disk.lock().stats().volatile_bytes);
            assert_eq!(waiting.collect::<Vec<_>>(), left, "{profile} {liar:?}");
        }
    }

    fn observed(first: u64, seqs: &[u64]) -> AgentSays {
        let cells = seqs.iter().map(|&seq| ObservedCell::Whole(seq)).collect();
        AgentSays::Observed { first, cells }
    }

    #[test]
    fn three_readings_of_all_cells_are_kept_in_their_order() {
        let mut readings = CellReadings::of(8..12);
        for seq in [1, 2, 3] {
            readings.take(observed(8, &[seq])).unwrap();
            readings.take(observed(9, &[seq + 10, 0, seq + 20])).unwrap();
            readings.take(AgentSays::ReadingDone).unwrap();
        }
        let expected =
            [1, 2, 3].map(|seq| [seq, seq + 10, 0, seq + 20].map(ObservedCell::Whole).to_vec());
        assert_eq!(readings.finish(), Some(expected));
    }

    #[test]
    fn a_reading_that_is_not_all_cells_in_order_is_none() {
        for said in [
            vec![AgentSays::ReadingDone],
            vec![observed(7, &[1])],
            vec![observed(9, &[1])],
            vec![observed(8, &[1, 1]), observed(9, &[1, 1])],
            vec![observed(8, &[1, 1]), observed(11, &[1])],
            vec![observed(8, &[1; 5])],
            vec![observed(8, &[1; 4]), observed(12, &[1])],
            vec![observed(8, &[1; 3]), AgentSays::ReadingDone],
            vec![AgentSays::Prepared],
            vec![AgentSays::Acknowledged { seq: 1 }],
        ] {
            let mut readings = CellReadings::of(8..12);
            let shown = format!("{said:?}");
            let taken: Vec<bool> =
                said.into_iter().map(|message| readings.take(message).is_some()).collect();
            let (last, before) = taken.split_last().unwrap();
            assert!(!last && before.iter().all(|is_taken| *is_taken), "{shown}");
        }
    }

    #[test]
    fn as_many_readings_as_were_asked_for_and_no_more() {
        let of = |count: usize| {
            let mut readings = CellReadings::of(8..10);
            let taken = (0..count).filter(|_| {
                readings.take(observed(8, &[5, 5])).unwrap();
                readings.take(AgentSays::ReadingDone).is_some()
            });
            (taken.count(), readings)
        };
        let counts = [0, 1, 2, 3, 4].map(|count| of(count).0);
        assert_eq!(counts, [0, 1, 2, 3, 3]);
        let is_finished = [0, 1, 2, 3].map(|count| of(count).1.finish().is_some());
        assert_eq!(is_finished, [false, false, false, true]);
        // Of a crash state there is one.
        let has_first = [0, 1, 2, 3].map(|count| of(count).1.first().is_some());
        assert_eq!(has_first, [false, true, false, false]);
    }
}
