//! The state that all threads of a served array share, behind one lock: the engine and its devices.
//!
//! Takes requests, completions and time; hands each thread its work. Rings and buffers are private
//! to each thread, and no thread makes a system call for a request while it holds the lock.
//!
//! A thread takes the lock once for all its pending events, and takes their results with it. Work
//! for another thread waits in `due`, and that thread is woken: an operation on a request's buffer
//! or on a background copy belongs to the thread with the buffer, so a buffer is used by one ring
//! alone. Any thread may write the engine's metadata blocks: the first to see the need does.

use std::time::{Duration, Instant};

use super::{DEVICES_MAX, DeviceCounters, MemberFile, ServerError, ServerStatus};
use crate::{
    Config, Engine, EngineOutput, JoinAs, MemberOp, Newcomer, OpBuffer, OpOutcome, OpTag,
    RequestCompletion, StartPlan,
};

/// The engine's time is updated this often.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// A longer gap between looks at the clock is not counted against the members.
const STEP_MAX: Duration = Duration::from_secs(1);

/// A thread's request, as the engine knows it: the thread in the highest byte, then its number.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceName(pub(super) u32);

impl PieceName {
    pub(super) const fn new(thread: u8, index: u32) -> Self {
        Self((thread as u32) << 24 | index)
    }

    pub(super) const fn thread(self) -> u8 {
        (self.0 >> 24) as u8
    }

    pub(super) const fn index(self) -> usize {
        (self.0 & 0x00ff_ffff) as usize
    }
}

/// Threads, a bit each.
pub(super) type Threads = u64;

/// Work left for a thread by others, in this order; and the thread's backlog.
#[derive(Debug, Default)]
pub(super) struct ThreadWork {
    pub(super) ops: Vec<MemberOp>,
    pub(super) answers: Vec<RequestCompletion>,
    /// Its jobs that the engine has no room for.
    pub(super) backlog: u32,
}

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct LockedArray {
    pub(super) engine: Engine,
    pub(super) out: EngineOutput,
    devices: Vec<DeviceCounters>,
    /// One for each thread.
    pub(super) due: Vec<ThreadWork>,
    /// Requests in the engine.
    pub(super) requests: u32,
    metadata_in_flight: u32,
    looked: Instant,
    /// Threads that have looked at the clock since then.
    have_looked: Threads,
    now: Duration,
    told: Duration,
    pub(super) is_closing: bool,
    is_over: bool,
}

impl LockedArray {
    pub(super) fn new(
        plan: StartPlan,
        config: &Config,
        members: &[MemberFile],
        threads: u8,
    ) -> Self {
        let mut devices = vec![DeviceCounters::default(); DEVICES_MAX.into()];
        for member in members {
            let device = &mut devices[usize::from(member.device)];
            (device.is_open, device.is_used) = (true, true);
        }
        let mut out = EngineOutput::default();
        let mut array = Self {
            engine: Engine::start(plan, config, &mut out),
            out,
            devices,
            due: (0..threads).map(|_| ThreadWork::default()).collect(),
            requests: 0,
            metadata_in_flight: 0,
            looked: Instant::now(),
            have_looked: 0,
            now: Duration::ZERO,
            told: Duration::ZERO,
            is_closing: false,
            is_over: false,
        };
        // Present members that the array does not trust.
        array.drop_unused();
        array
    }

    pub(super) fn threads(&self) -> Threads {
        Threads::MAX >> (Threads::BITS as usize - self.due.len())
    }

    /// A thread has looked at the clock. A thread that is held up and does not look holds the clock
    /// for all: its members' completions arrive late through no fault of theirs.
    pub(super) fn look(&mut self, thread: u8, now: Instant) {
        self.have_looked |= 1 << thread;
        if self.have_looked != self.threads() {
            return;
        }
        self.have_looked = 0;
        self.now += now.saturating_duration_since(self.looked).min(STEP_MAX);
        self.looked = now;
        if self.now - self.told >= TICK {
            self.told = self.now;
            self.engine.tick(self.now.into(), &mut self.out);
        }
    }

    /// An operation has ended; false if its member was given up.
    pub(super) fn ended(
        &mut self,
        device: u8,
        is_good: bool,
        is_read: bool,
        is_metadata: bool,
    ) -> bool {
        self.metadata_in_flight -= u32::from(is_metadata);
        let device = &mut self.devices[usize::from(device)];
        device.in_flight -= 1;
        match (is_good, is_read) {
            (true, true) => device.reads += 1,
            (true, false) => device.writes += 1,
            (false, _) => device.errors += 1,
        }
        device.is_used
    }

    pub(super) fn completed(&mut self, tag: OpTag, outcome: OpOutcome) {
        self.engine.completed(tag, outcome, &mut self.out);
        self.note_lost();
    }

    pub(super) fn is_used(&self, device: u8) -> bool {
        self.devices[usize::from(device)].is_used
    }

    /// Threads with jobs that the engine had no room for.
    pub(super) fn waiting(&self) -> Threads {
        let waits = |(at, work): (usize, &ThreadWork)| Threads::from(work.backlog > 0) << at;
        self.due.iter().enumerate().map(waits).sum()
    }

    /// False if it must not start: its member was just given up.
    pub(super) fn begins(&mut self, op: &MemberOp) -> bool {
        let device = &mut self.devices[usize::from(op.device)];
        if device.is_used {
            device.in_flight += 1;
            self.metadata_in_flight += u32::from(matches!(op.buffer, OpBuffer::Metadata(_)));
        }
        device.is_used
    }

    /// The thread that must carry it out; `None` if any may.
    pub(super) fn thread_of(buffer: OpBuffer) -> Option<u8> {
        match buffer {
            OpBuffer::Request { buffer, .. } => Some(PieceName(buffer).thread()),
            OpBuffer::Copy(_) => Some(0),
            // With stripes there is one thread.
            OpBuffer::Metadata(_) | OpBuffer::Stripe { .. } | OpBuffer::None => None,
        }
    }

    /// Operations of a lost member that have not started never do, and its results are ignored.
    pub(super) fn note_lost(&mut self) {
        if std::mem::take(&mut self.out.has_lost) {
            self.drop_unused();
        }
    }

    #[cold]
    fn drop_unused(&mut self) {
        let status = self.engine.status();
        for (number, device) in (0..).zip(&mut self.devices) {
            device.is_used &= status.roles.iter().any(|role| role.device == Some(number));
        }
        for due in &mut self.due {
            due.ops.retain(|op| {
                let device = &mut self.devices[usize::from(op.device)];
                device.in_flight -= u32::from(!device.is_used);
                device.is_used
            });
        }
    }

    /// True once nothing is left to do.
    pub(super) fn is_over(&mut self) -> bool {
        let is_quiet = || {
            let is_free = self.requests == 0 && self.metadata_in_flight == 0;
            is_free && self.due.iter().all(|work| work.backlog == 0)
        };
        let has_stopped = || self.engine.status().stopped.is_some();
        self.is_over |= self.is_closing && (is_quiet() || has_stopped());
        self.is_over
    }

    /// A thread has ended: the others do, too.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// It ends before anything was written.
    pub(super) fn give_up(&mut self) {
        self.out = EngineOutput::default();
        self.end();
    }

    pub(super) fn close(&mut self) {
        self.is_closing = true;
        self.engine.close(&mut self.out);
    }

    pub(super) fn status(&self) -> ServerStatus {
        let waiting: u32 = self.due.iter().map(|work| work.backlog).sum();
        ServerStatus {
            engine: self.engine.status(),
            devices: self.devices.clone(),
            requests: self.requests + waiting,
        }
    }

    pub(super) fn opened(&mut self, device: u8) {
        self.devices[usize::from(device)] =
            DeviceCounters { is_open: true, ..DeviceCounters::default() };
    }

    pub(super) fn add(&mut self, what: JoinAs, newcomer: &Newcomer) -> Result<(), ServerError> {
        let device = &mut self.devices[usize::from(newcomer.device)];
        device.refuse_busy()?;
        self.engine.add(what, newcomer, &mut self.out)?;
        device.is_used = true;
        Ok(())
    }

    /// Resets the state of an unused device.
    pub(super) fn forget(&mut self, device: u8) -> Result<(), ServerError> {
        let counters = &mut self.devices[usize::from(device)];
        counters.refuse_busy()?;
        *counters = DeviceCounters::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Members;
    use super::*;
    use crate::{ArrayRequest, MemberOpKind, MemberState, RequestKind};

    /// That runs: its first superblocks are stored.
    fn array(members: &Members) -> LockedArray {
        let config = Config { parts_max: 256, ..Config::default() };
        let files = [members.member(0), members.member(1)];
        let mut array = LockedArray::new(members.plan(&[0, 1]), &config, &files, 2);
        while !array.out.ops.is_empty() {
            for op in std::mem::take(&mut array.out.ops) {
                assert!(array.begins(&op) && LockedArray::thread_of(op.buffer).is_none());
                assert!(array.ended(op.device, true, false, true));
                array.completed(op.tag, OpOutcome::Done);
            }
        }
        assert!(array.status().engine.is_running);
        array
    }

    #[test]
    fn a_thread_that_does_not_look_holds_the_clock() {
        let members = Members::new();
        let mut array = array(&members);
        let begin = array.looked;
        for second in 1..100 {
            array.look(0, begin + Duration::from_secs(second));
        }
        assert_eq!(array.now, Duration::ZERO);
        array.look(1, begin + Duration::from_secs(100));
        assert_eq!(array.now, STEP_MAX);
        array.look(1, begin + Duration::from_millis(100_100));
        array.look(0, begin + Duration::from_millis(100_200));
        assert_eq!(array.now, STEP_MAX + Duration::from_millis(200));
    }

    #[test]
    fn what_was_left_for_a_thread_does_not_begin_when_its_member_is_given_up() {
        let members = Members::new();
        let mut array = array(&members);
        let PieceName(name) = PieceName::new(1, 5);
        let (offset, length) = (0, 512);
        let request = ArrayRequest {
            tag: name.into(),
            kind: RequestKind::Write,
            offset,
            length,
            buffer: name,
        };
        array.engine.submit(request, &mut array.out).unwrap();
        // The mark of the region comes first, by anybody.
        for op in std::mem::take(&mut array.out.ops) {
            assert!(array.begins(&op) && LockedArray::thread_of(op.buffer).is_none());
            assert!(array.ended(op.device, true, false, true));
            array.completed(op.tag, OpOutcome::Done);
        }
        for op in std::mem::take(&mut array.out.ops) {
            assert!(array.begins(&op) && LockedArray::thread_of(op.buffer) == Some(1));
            array.due[1].ops.push(op);
        }
        assert_eq!((array.due[1].ops.len(), array.devices[1].in_flight), (2, 1));
        array.engine.member_failed(1, &mut array.out);
        array.note_lost();
        assert_eq!((array.due[1].ops.len(), array.devices[1].in_flight), (1, 0));
        assert_eq!(array.due[1].ops[0].device, 0);
    }

    /// Does what the engine asks for, with this outcome; what has none stays on its way.
    fn carry_out(array: &mut LockedArray, mut outcome: impl FnMut(&MemberOp) -> Option<OpOutcome>) {
        while !array.out.ops.is_empty() {
            for op in std::mem::take(&mut array.out.ops) {
                if !array.begins(&op) {
                    continue;
                }
                let Some(outcome) = outcome(&op) else { continue };
                let is_read = op.kind == MemberOpKind::Read;
                let is_metadata = matches!(op.buffer, OpBuffer::Metadata(_));
                array.ended(op.device, outcome == OpOutcome::Done, is_read, is_metadata);
                array.completed(op.tag, outcome);
            }
        }
    }

    /// Both threads look at the clock, again and again after so long.
    fn pass(array: &mut LockedArray, looks: u64, each: Duration) {
        for _ in 0..looks {
            let now = array.looked + each;
            array.look(0, now);
            array.look(1, now);
            carry_out(array, |_| Some(OpOutcome::Done));
        }
    }

    /// Member 0, which is asked first while nothing is on its way, refuses so many reads.
    fn refuse_reads(array: &mut LockedArray, count: u64) {
        let before = array.devices[0].errors;
        for round in 0.. {
            if array.devices[0].errors == before + count {
                return;
            }
            assert!(round < 1000, "member 0 is not read");
            let (offset, length) = (round % 64 * 16384, 512);
            let PieceName(name) = PieceName::new(1, 5);
            let request = ArrayRequest {
                tag: name.into(),
                kind: RequestKind::Read,
                offset,
                length,
                buffer: name,
            };
            array.engine.submit(request, &mut array.out).unwrap();
            let mut refused = false;
            carry_out(array, |op| {
                let refuses = op.device == 0 && op.kind == MemberOpKind::Read && !refused;
                refused |= refuses;
                Some(if refuses { OpOutcome::Error } else { OpOutcome::Done })
            });
            let answers = std::mem::take(&mut array.out.answers);
            assert!(answers.len() == 1 && answers[0].result.is_ok());
        }
    }

    fn state(array: &LockedArray, role: usize) -> MemberState {
        array.status().engine.roles[role].state
    }

    #[test]
    fn the_21st_read_that_fails_within_an_hour_ends_a_member() {
        let members = Members::new();
        let mut array = array(&members);
        refuse_reads(&mut array, 20);
        pass(&mut array, 3599, STEP_MAX);
        assert_eq!(state(&array, 0), MemberState::InSync);
        refuse_reads(&mut array, 1);
        assert_eq!((state(&array, 0), array.devices[0].is_used), (MemberState::Faulty, false));
        assert_eq!((array.devices[0].errors, array.devices[1].errors), (21, 0));
    }

    #[test]
    fn errors_count_half_after_each_hour_and_the_counters_keep_all_of_them() {
        let members = Members::new();
        let mut array = array(&members);
        refuse_reads(&mut array, 20);
        pass(&mut array, 3600, STEP_MAX);
        // 10 are left, so 10 more are 20.
        refuse_reads(&mut array, 10);
        assert_eq!(state(&array, 0), MemberState::InSync);
        pass(&mut array, 7200, STEP_MAX);
        // 5 are left.
        refuse_reads(&mut array, 15);
        assert_eq!(state(&array, 0), MemberState::InSync);
        refuse_reads(&mut array, 1);
        assert_eq!((state(&array, 0), array.devices[0].errors), (MemberState::Faulty, 46));
    }

    #[test]
    fn a_member_has_30_seconds_for_an_answer_and_no_look_at_the_clock_more() {
        let members = Members::new();
        let mut array = array(&members);
        let PieceName(name) = PieceName::new(1, 5);
        let (offset, length) = (0, 512);
        let request = ArrayRequest {
            tag: name.into(),
            kind: RequestKind::Write,
            offset,
            length,
            buffer: name,
        };
        array.engine.submit(request, &mut array.out).unwrap();
        let owes = |op: &MemberOp| op.device == 1 && matches!(op.buffer, OpBuffer::Request { .. });
        carry_out(&mut array, |op| (!owes(op)).then_some(OpOutcome::Done));
        assert_eq!(array.devices[1].in_flight, 1);
        pass(&mut array, 120, TICK);
        assert_eq!((array.now, state(&array, 1)), (Duration::from_secs(30), MemberState::InSync));
        assert!(array.out.answers.is_empty());
        pass(&mut array, 1, TICK);
        assert_eq!((state(&array, 1), array.devices[1].is_used), (MemberState::Faulty, false));
        let answers = std::mem::take(&mut array.out.answers);
        assert_eq!(answers.iter().map(|answer| answer.result).collect::<Vec<_>>(), [Ok(())]);
        // It is no error that a member has answered with, and it is still owed.
        assert_eq!((array.devices[1].errors, array.devices[1].in_flight), (0, 1));
    }

    #[test]
    fn a_server_ends_when_its_requests_and_its_own_blocks_have_ended_and_none_is_waiting() {
        let members = Members::new();
        let mut array = array(&members);
        let PieceName(name) = PieceName::new(1, 5);
        let (offset, length) = (0, 512);
        let request = ArrayRequest {
            tag: name.into(),
            kind: RequestKind::Write,
            offset,
            length,
            buffer: name,
        };
        array.engine.submit(request, &mut array.out).unwrap();
        carry_out(&mut array, |_| Some(OpOutcome::Done));
        assert!(!array.is_over(), "nobody has asked for its end");
        array.close();
        // The mark of the region goes, on both members.
        let mut left = Vec::new();
        while let Some(op) = array.out.ops.pop() {
            assert!(array.begins(&op) && matches!(op.buffer, OpBuffer::Metadata(_)));
            left.push(op);
        }
        assert!(!left.is_empty() && !array.is_over());
        array.requests = 1;
        for op in left {
            assert!(array.ended(op.device, true, false, true));
            array.completed(op.tag, OpOutcome::Done);
        }
        carry_out(&mut array, |_| Some(OpOutcome::Done));
        assert!(!array.is_over(), "a request is on its way");
        array.requests = 0;
        array.due[1].backlog = 1;
        assert!(!array.is_over(), "a job waits");
        array.due[1].backlog = 0;
        assert!(array.is_over());
    }

    #[test]
    fn a_name_has_a_thread_and_a_number() {
        let name = PieceName::new(63, 0x00ab_cdef);
        assert_eq!((name.thread(), name.index()), (63, 0x00ab_cdef));
    }

    #[test]
    fn a_device_counts_its_own_operations_by_how_they_ended() {
        let members = Members::new();
        let mut array = array(&members);
        array.devices[0].in_flight = 5;
        let before = [array.devices[0], array.devices[1]];
        let ends = [(true, true), (true, false), (true, false), (false, true), (false, false)];
        for (is_good, is_read) in ends {
            assert!(array.ended(0, is_good, is_read, false));
        }
        let expected = DeviceCounters {
            in_flight: 0,
            reads: before[0].reads + 1,
            writes: before[0].writes + 2,
            errors: before[0].errors + 2,
            ..before[0]
        };
        assert_eq!([array.devices[0], array.devices[1]], [expected, before[1]]);
    }

    #[test]
    fn a_device_joins_and_is_forgotten_only_while_nothing_uses_it() {
        let members = Members::new();
        let mut array = array(&members);
        let newcomer = |device| Newcomer {
            device,
            device_bytes: 8 << 20,
            id: crate::Id([5; 16]),
            found: None,
        };
        array.opened(5);
        array.devices[5].in_flight = 1;
        let joins = |array: &mut LockedArray, device| array.add(JoinAs::Spare, &newcomer(device));
        assert!(matches!(joins(&mut array, 0), Err(ServerError::Used)));
        assert!(matches!(joins(&mut array, 5), Err(ServerError::Draining)));
        assert!(matches!(array.forget(0), Err(ServerError::Used)));
        assert!(matches!(array.forget(5), Err(ServerError::Draining)));
        assert!(array.devices[5].is_open && !array.devices[5].is_used);
        array.devices[5].in_flight = 0;
        assert!(array.forget(5).is_ok());
        assert_eq!(array.devices[5], DeviceCounters::default());
    }

    #[test]
    fn work_belongs_to_the_thread_that_has_its_buffer() {
        let members = Members::new();
        let mut array = array(&members);
        assert_eq!((array.threads(), array.waiting(), array.status().requests), (0b11, 0, 0));
        (array.due[1].backlog, array.requests) = (3, 5);
        assert_eq!((array.waiting(), array.status().requests), (0b10, 8));
        array.due[0].backlog = 4;
        assert_eq!((array.waiting(), array.status().requests), (0b11, 12));
        let PieceName(buffer) = PieceName::new(9, 77);
        let thread = LockedArray::thread_of;
        assert_eq!(thread(OpBuffer::Request { buffer, offset: 4 }), Some(9));
        assert_eq!(thread(OpBuffer::Copy(3)), Some(0));
        let others =
            [OpBuffer::Metadata(9), OpBuffer::Stripe { part: 1, member: 2 }, OpBuffer::None];
        assert_eq!(others.map(thread), [None; 3]);
    }
}
