//! Whole transactions: clients that send them, servers that take processor time for them, and the log in
//! between.
//!
//! ```text
//!  client ──► request ──► server: before ──► log (leader.rs) ──► after ──► answer ──► client
//! ```
//!
//! In: what the database's software is like. Out: commits, each as long as its client waited. Not here:
//! batches, writes and syncs.
//!
//! Clients and servers are threads joined by sockets, so that the kernel's part (switches, wake-ups, the
//! choice of processors) is the real one. A client stops when its time is over and closes its connections,
//! which ends their servers. Looking at several sockets allocates, which takes less than what any database
//! does there.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::park_timeout;
use std::time::Duration;

use durio_block::{Clock, Ticks};
use durio_units::Nanos;
use durio_workload::{ClientThreads, LogWriter, Software};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::state::CommitOutcome;
use super::turns::Turns;
use super::{CommitterThreads, Ended};
use crate::counters::Usage;
use crate::start_barrier::Start;

/// About as long as a short statement: when it was sent, and how long the one before took.
const REQUEST_BYTES: usize = 128;
/// What says that it is committed.
const ANSWER_BYTES: usize = 16;

/// Nobody sleeps longer without looking whether all is over.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_SPEC: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Steps of [`burn`] in a microsecond of the processor on which the shipped times were found: an AMD EPYC
/// in a virtual machine, 2026-11-25, the fastest of 30 measurements.
const STEPS_PER_MICROSECOND: u64 = 1080;

/// Takes as much processor time as the reference takes in `time`. No loop over memory: caches are what a
/// real database finds warm or cold, and this one must be the same each time.
fn burn(time: Nanos) {
    let mut x = 1_u32;
    for _ in 0..time.get() * STEPS_PER_MICROSECOND / 1000 {
        // A multiplication and an addition that each wait for the last.
        x = std::hint::black_box(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    }
}

/// Both ends of what joins a client with its server.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: UnixStream,
    pub(super) server: UnixStream,
}

/// A connection for each of `committers`; none where the database is a library.
pub(super) fn connect(
    software: Option<Software>,
    committers: u32,
) -> std::io::Result<Vec<Connection>> {
    if software.is_none_or(|it| it.clients == ClientThreads::Embedded) {
        return Ok(Vec::new());
    }
    let pair = |_| UnixStream::pair().map(|(client, server)| Connection { client, server });
    (0..committers).map(pair).collect()
}

/// A request that has come.
struct Request {
    sent: Ticks,
    /// How long the client waited for its last answer, in nanoseconds; zero for the first.
    last_took: u64,
}

impl Request {
    /// The next one; none if the client has gone.
    fn receive(mut from: &UnixStream) -> Option<Self> {
        let mut bytes = [0; REQUEST_BYTES];
        from.read_exact(&mut bytes).ok()?;
        let number = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        Some(Self { sent: Ticks(number(0)), last_took: number(8) })
    }

    fn send(&self, mut to: &UnixStream) -> std::io::Result<()> {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..8].copy_from_slice(&self.sent.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.last_took.to_le_bytes());
        to.write_all(&bytes)
    }
}

impl<C: Clock + Copy + Send + Sync> CommitterThreads<'_, C> {
    /// The body of a server's thread that serves one client, or of a caller of a library.
    pub(super) fn transact(&self, me: u32, software: &Software, connection: Option<&UnixStream>) {
        let end = self.end();
        loop {
            // As servers do that also wait for signals: it costs a call more.
            if let Some(client) = connection {
                readable(&[client]);
            }
            let (sent, woken) = match connection.map(Request::receive) {
                None => (self.clock.now(), Nanos::ZERO),
                Some(Some(request)) => (self.note(&request), software.wake),
                Some(None) => return,
            };
            if (connection.is_none() && sent >= end) || self.is_over() {
                return;
            }
            self.burn_in_turns(me, woken);
            self.burn_in_turns(me, software.before);
            if !self.commit_record(me, (sent, sent)) {
                return;
            }
            self.burn_in_turns(me, software.after);
            match connection {
                None => self.record_taken(self.clock.nanos(self.clock.now().since(sent))),
                Some(mut client) => {
                    if client.write_all(&[0; ANSWER_BYTES]).is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// The body of the one thread that serves all clients.
    pub(super) fn serve_all(&self, software: &Software, mut connections: Vec<UnixStream>) -> Ended {
        if self.barrier.wait() == Start::Aborted {
            return Ended::default();
        }
        let before = Usage::of_thread();
        let mut served = Vec::with_capacity(connections.len());
        while !self.is_over() && !connections.is_empty() {
            let ready = readable(&connections);
            burn(software.wake);
            served.clear();
            let mut gone = Vec::new();
            for at in ready {
                let Some(request) = Request::receive(&connections[at]) else {
                    gone.push(at);
                    continue;
                };
                let sent = self.note(&request);
                burn(software.before);
                if self.lock().hand_over(u32::try_from(at).unwrap_or(u32::MAX), (sent, sent)) {
                    served.push(at);
                }
            }
            let leader = if served.is_empty() { None } else { self.lock().leader.take() };
            if let Some(leader) = leader {
                self.lead(leader);
            }
            for &at in &served {
                if self.lock().outcomes[at] != CommitOutcome::Acknowledged {
                    return Ended { usage: Usage::of_thread().since(before), pacing: None };
                }
                burn(software.after);
                // A client that has gone is seen at the next look.
                let _ = (&connections[at]).write_all(&[0; ANSWER_BYTES]);
            }
            for at in gone.into_iter().rev() {
                connections.swap_remove(at);
            }
        }
        Ended { usage: Usage::of_thread().since(before), pacing: None }
    }

    /// The body of the thread that does nothing but write the log.
    pub(super) fn write_log(&self) -> Ended {
        if self.barrier.wait() == Start::Aborted {
            return Ended::default();
        }
        let before = Usage::of_thread();
        let me = self.policy.committers;
        // It keeps its turn from one batch to the next, and has none while it sleeps.
        self.take_turn(me);
        loop {
            let leader = {
                let mut state = self.lock();
                if state.active == 0 {
                    break;
                }
                let has_work = state.log.queue.waiting() > 0;
                if has_work { state.leader.take() } else { None }
            };
            match leader {
                Some(leader) => self.lead(leader),
                None => {
                    self.give_turn();
                    park_timeout(LOOK);
                    self.take_turn(me);
                    burn(self.policy.software.map_or(Nanos::ZERO, |it| it.wake));
                }
            }
        }
        self.give_turn();
        Ended { usage: Usage::of_thread().since(before), pacing: None }
    }

    /// The body of a client's thread: it sends a transaction on each of its connections, and the next one
    /// when that is answered.
    pub(super) fn send_transactions(
        &self,
        software: &Software,
        mut connections: Vec<UnixStream>,
    ) -> Ended {
        if self.barrier.wait() == Start::Aborted {
            return Ended::default();
        }
        let before = Usage::of_thread();
        let end = self.end();
        let send = |connection: &UnixStream, last_took| {
            let sent = self.clock.now();
            Request { sent, last_took }.send(connection).map(|()| sent)
        };
        let mut sent: Vec<Ticks> = Vec::with_capacity(connections.len());
        for connection in &connections {
            sent.push(send(connection, 0).unwrap_or_default());
        }
        while !connections.is_empty() && !self.is_over() {
            let mut gone = Vec::new();
            for at in readable(&connections) {
                let mut answer = [0; ANSWER_BYTES];
                let has_answer = (&connections[at]).read_exact(&mut answer).is_ok();
                let now = self.clock.now();
                let took = self.clock.nanos(now.since(sent[at]));
                burn(software.client);
                if has_answer && now < end {
                    // A server that has gone is seen at the next look.
                    sent[at] = send(&connections[at], took).unwrap_or(now);
                    continue;
                }
                if has_answer {
                    self.record_taken(took);
                }
                gone.push(at);
            }
            for at in gone.into_iter().rev() {
                connections.swap_remove(at);
                sent.swap_remove(at);
            }
        }
        Ended { usage: Usage::of_thread().since(before), pacing: None }
    }

    /// Records what the client saw of its last transaction; gives when it sent this one.
    fn note(&self, request: &Request) -> Ticks {
        if request.last_took > 0 {
            self.record_taken(request.last_took);
        }
        request.sent
    }

    fn record_taken(&self, nanos: u64) {
        let now = self.clock.now();
        self.lock().record_commit(nanos, None, (now, &self.clock));
    }

    /// Takes the time of a thread that has slept.
    pub(super) fn burn_after_sleep(&self, me: u32) {
        if let Some(software) = self.policy.software {
            self.burn_in_turns(me, software.wake);
        }
    }

    /// Takes the time of a batch, before it is written.
    pub(super) fn burn_for_batch(&self) {
        if let Some(software) = self.policy.software {
            burn(software.batch);
        }
    }

    /// Takes the time of a committer's part in a batch.
    pub(super) fn burn_to_apply(&self) {
        if let Some(apply) = self.policy.software.and_then(|it| it.apply) {
            burn(apply);
        }
    }

    /// Takes this time, in as many turns as it needs where the database gives turns.
    fn burn_in_turns(&self, me: u32, mut left: Nanos) {
        let longest = self.turns.as_ref().map_or(left, |it| it.longest);
        while left > Nanos::ZERO {
            let now = left.min(longest);
            self.in_turn(me, || burn(now));
            left = left.saturating_sub(now);
        }
    }

    /// Does it in a turn, where the database gives turns.
    pub(super) fn in_turn(&self, me: u32, work: impl FnOnce()) {
        self.take_turn(me);
        work();
        self.give_turn();
    }

    /// Waits for a turn.
    pub(super) fn take_turn(&self, me: u32) {
        if let Some(turns) = &self.turns {
            turns.take(me, || park_timeout(LOOK), || self.is_over());
        }
    }

    pub(super) fn give_turn(&self) {
        if let Some(next) = self.turns.as_ref().and_then(Turns::give) {
            self.wake(&[next]);
        }
    }

    /// True if a thread of its own writes the log.
    pub(super) fn has_log_thread(&self) -> bool {
        self.policy.software.is_some_and(|it| it.writer == LogWriter::LogThread)
    }
}

/// Which connections have something to read, or have ended. It waits for the first, but not for ever.
fn readable<S: AsFd>(connections: &[S]) -> Vec<usize> {
    let mut polled: Vec<_> = connections.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&LOOK_SPEC)) {
        Ok(_) => {}
        Err(error) if std::io::Error::from(error).kind() == ErrorKind::Interrupted => {}
        // Then each is looked at, and says what it has.
        Err(_) => return (0..connections.len()).collect(),
    }
    let is_ready = |it: &PollFd<'_>| !it.revents().is_empty();
    polled.iter().enumerate().filter(|(_, it)| is_ready(it)).map(|(at, _)| at).collect()
}
