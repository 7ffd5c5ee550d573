//! Whole transactions: clients that send them, servers that take processor time for them, and the log in
//! between.
//!
//! ```text
//!  client ──► request ──► server: before ──► log (leader.rs) ──► after ──► answer ──► client
//! ```
//!
//! Models a database's software and records commits, each as long as its client waited. Batches,
//! writes and syncs are in `leader`.
//!
//! Clients and servers are threads joined by sockets, so that the kernel's part (switches, wake-ups, the
//! choice of processors) is the real one. A client stops when its time is over and closes its connections,
//! which ends their servers. Looking at several sockets allocates, which takes less than what any database
//! does there.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::park_timeout;
use std::time::Duration;

use durio_base::Nanos;
use durio_block::{Clock, Ticks};
use durio_record::Pacing;
use durio_workload::{ArrivalSchedule, ClientThreads, LogWriter, Software};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::committer::Arriving;
use super::state::{CommitOutcome, Turns};
use super::{CommitterResult, CommitterTeam};
use crate::counters::ThreadUsage;
use crate::job_input::StartSignal;

/// About as long as a short statement: when it was sent, and how long the one before took.
const REQUEST_BYTES: usize = 128;
/// What says that it is committed.
const ANSWER_BYTES: usize = 16;

/// The longest sleep without a look whether the run is over.
const LOOK: Duration = Duration::from_millis(100);

/// Steps of [`burn`] in a microsecond of the processor on which the shipped times were found: an AMD EPYC
/// in a virtual machine, 2026-11-25, the fastest of 30 measurements.
const STEPS_PER_MICROSECOND: u64 = 1080;

/// Takes as much processor time as the reference takes in `time`. No loop over memory: a real
/// database finds caches warm or cold, and this time must be the same in every run.
fn burn(time: Nanos) {
    let mut x = 1_u32;
    for _ in 0..steps(time) {
        // A multiplication and an addition that each wait for the last.
        x = std::hint::black_box(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    }
}

fn steps(time: Nanos) -> u64 {
    time.get() * STEPS_PER_MICROSECOND / 1000
}

/// Both ends of the socket between a client and its server.
#[derive(Debug)]
pub(super) struct SocketPair {
    pub(super) client: UnixStream,
    pub(super) server: UnixStream,
}

/// A connection for each of `committers`; none where the database is a library.
pub(super) fn connect(
    software: Option<Software>,
    committers: u32,
) -> std::io::Result<Vec<SocketPair>> {
    if software.is_none_or(|software| software.clients == ClientThreads::Embedded) {
        return Ok(Vec::new());
    }
    let pair = |_| UnixStream::pair().map(|(client, server)| SocketPair { client, server });
    (0..committers).map(pair).collect()
}

/// A request that has come, and its client's wait for the one before.
struct ClientRequest {
    sent: Ticks,
    last: Option<WaitTimes>,
}

/// How long a client waited for an answer, in nanoseconds.
#[derive(Clone, Copy)]
struct WaitTimes {
    since_sent: u64,
    /// Where transactions are due by a schedule.
    since_due: Option<u64>,
}

struct ClientConnection {
    connection: UnixStream,
    /// When its transaction was sent; none while it has none.
    sent: Option<Ticks>,
    last: Option<WaitTimes>,
    /// When the next one is due; none if that is when the last is answered.
    arriving: Option<Arriving>,
}

impl ClientRequest {
    /// The next one; none if the client has gone.
    fn receive(mut from: &UnixStream) -> Option<Self> {
        let mut bytes = [0; REQUEST_BYTES];
        from.read_exact(&mut bytes).ok()?;
        let number = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let known = |at| Some(number(at)).filter(|nanos| *nanos > 0);
        let last = known(8).map(|since_sent| WaitTimes { since_sent, since_due: known(16) });
        Some(Self { sent: Ticks(number(0)), last })
    }

    fn send(&self, mut to: &UnixStream) -> std::io::Result<()> {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..8].copy_from_slice(&self.sent.0.to_le_bytes());
        // No request takes zero time, so zero means none.
        let since_sent = self.last.map_or(0, |times| times.since_sent);
        bytes[8..16].copy_from_slice(&since_sent.to_le_bytes());
        let since_due = self.last.and_then(|times| times.since_due).unwrap_or(0);
        bytes[16..24].copy_from_slice(&since_due.to_le_bytes());
        to.write_all(&bytes)
    }
}

impl<C: Clock + Copy + Send + Sync> CommitterTeam<'_, C> {
    /// The body of a server's thread that serves one client, or of a caller of a library, whose
    /// transactions may be due by a schedule.
    pub(super) fn transact(
        &self,
        me: u32,
        software: &Software,
        (schedule, connection): (Option<ArrivalSchedule>, Option<&UnixStream>),
    ) -> Option<Pacing> {
        let end = self.end();
        let mut arriving = schedule.map(|schedule| self.arriving(schedule));
        loop {
            let (sent, woken) = match (connection, &arriving) {
                (Some(client), _) => {
                    // As servers do that also wait for signals: it costs a call more.
                    readable([client], LOOK);
                    let Some(request) = ClientRequest::receive(client) else { break };
                    (self.note(&request), software.wake)
                }
                (None, Some(arriving)) if !self.wait_for(arriving) => break,
                (None, Some(_)) => (self.clock.now(), software.wake),
                (None, None) => (self.clock.now(), Nanos::ZERO),
            };
            if (connection.is_none() && sent >= end) || self.is_over() {
                break;
            }
            self.burn_in_turns(me, woken);
            self.burn_in_turns(me, software.before);
            if !self.commit_record(me, (sent, sent)) {
                break;
            }
            self.burn_in_turns(me, software.after);
            match connection {
                None => {
                    self.record_waited(self.waited(sent, arriving.as_ref()));
                    if let Some(arriving) = &mut arriving {
                        self.answered(arriving, sent);
                    }
                }
                Some(mut client) => {
                    if client.write_all(&[0; ANSWER_BYTES]).is_err() {
                        break;
                    }
                }
            }
        }
        arriving.map(|arriving| self.pacing_of(arriving))
    }

    /// The body of the one thread that serves all clients.
    pub(super) fn serve_all(
        &self,
        software: &Software,
        mut connections: Vec<UnixStream>,
    ) -> CommitterResult {
        if self.barrier.wait() == StartSignal::Aborted {
            return CommitterResult::default();
        }
        let before = ThreadUsage::of_thread();
        let mut served = Vec::with_capacity(connections.len());
        while !self.is_over() && !connections.is_empty() {
            let ready = readable(connections.iter(), LOOK);
            burn(software.wake);
            served.clear();
            let mut gone = Vec::new();
            for at in ready {
                let Some(request) = ClientRequest::receive(&connections[at]) else {
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
                    return CommitterResult {
                        usage: ThreadUsage::of_thread().since(before),
                        pacing: None,
                    };
                }
                burn(software.after);
                // A client that has gone is seen at the next look.
                let _ = (&connections[at]).write_all(&[0; ANSWER_BYTES]);
            }
            for at in gone.into_iter().rev() {
                connections.swap_remove(at);
            }
        }
        CommitterResult { usage: ThreadUsage::of_thread().since(before), pacing: None }
    }

    /// The body of the thread that does nothing but write the log.
    pub(super) fn write_log(&self) -> CommitterResult {
        if self.barrier.wait() == StartSignal::Aborted {
            return CommitterResult::default();
        }
        let before = ThreadUsage::of_thread();
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
                    burn(self.policy.software.map_or(Nanos::ZERO, |software| software.wake));
                }
            }
        }
        self.give_turn();
        CommitterResult { usage: ThreadUsage::of_thread().since(before), pacing: None }
    }

    /// The body of a client's thread: it sends a transaction on each of its connections, and the next one
    /// when that is answered, or when it is due.
    pub(super) fn send_transactions(
        &self,
        software: &Software,
        connections: Vec<(UnixStream, Option<ArrivalSchedule>)>,
    ) -> CommitterResult {
        if self.barrier.wait() == StartSignal::Aborted {
            return CommitterResult::default();
        }
        let before = ThreadUsage::of_thread();
        let client = |(connection, schedule): (UnixStream, Option<ArrivalSchedule>)| {
            let arriving = schedule.map(|schedule| self.arriving(schedule));
            ClientConnection { connection, sent: None, last: None, arriving }
        };
        let mut clients: Vec<ClientConnection> = connections.into_iter().map(client).collect();
        let (mut gone, mut ended) = (Vec::new(), Vec::with_capacity(clients.len()));
        while !clients.is_empty() && !self.is_over() {
            let idle = clients.iter_mut().filter(|client| client.sent.is_none());
            let next = idle.filter_map(|client| self.send_if_due(client)).min();
            let longest = next.map_or(LOOK, |due| {
                Duration::from_nanos(self.clock.nanos(due.since(self.clock.now()))).min(LOOK)
            });
            for at in readable(clients.iter().map(|client| &client.connection), longest) {
                let client = &mut clients[at];
                let mut answer = [0; ANSWER_BYTES];
                if (&client.connection).read_exact(&mut answer).is_err() {
                    gone.push(at);
                    continue;
                }
                if let Some(sent) = client.sent.take() {
                    client.last = Some(self.waited(sent, client.arriving.as_ref()));
                    if let Some(arriving) = &mut client.arriving {
                        self.answered(arriving, sent);
                    }
                }
                burn(software.client);
                self.send_if_due(client);
            }
            ended.extend(gone.drain(..).rev().map(|at| clients.swap_remove(at)));
            if self.clock.now() >= self.end() {
                ended.extend(clients.extract_if(.., |client| client.sent.is_none()));
            }
        }
        ended.append(&mut clients);
        let pacings = ended.into_iter().filter_map(|client| {
            // A server hears of an answer with the next transaction, which is never sent.
            client.last.into_iter().for_each(|waited| self.record_waited(waited));
            client.arriving.map(|arriving| self.pacing_of(arriving))
        });
        let pacing = super::all_pacings(pacings);
        CommitterResult { usage: ThreadUsage::of_thread().since(before), pacing }
    }

    /// Sends the next transaction; if it is not due yet, it says when. A server that has gone is seen at
    /// the next look.
    fn send_if_due(&self, client: &mut ClientConnection) -> Option<Ticks> {
        let (now, end) = (self.clock.now(), self.end());
        let due = client.arriving.as_ref().map_or(now, |arriving| arriving.due);
        if due > now || now >= end {
            return Some(due.min(end));
        }
        client.sent = Some(now);
        let _ = ClientRequest { sent: now, last: client.last.take() }.send(&client.connection);
        None
    }

    /// How long the answer took that has come.
    fn waited(&self, sent: Ticks, arriving: Option<&Arriving>) -> WaitTimes {
        let now = self.clock.now();
        let since = |begin: Ticks| self.clock.nanos(now.since(begin)).max(1);
        WaitTimes {
            since_sent: since(sent),
            since_due: arriving.map(|arriving| since(arriving.due)),
        }
    }

    /// Records the client's wait for its last transaction; gives when it sent this one.
    fn note(&self, request: &ClientRequest) -> Ticks {
        request.last.into_iter().for_each(|waited| self.record_waited(waited));
        request.sent
    }

    fn record_waited(&self, waited: WaitTimes) {
        let now = self.clock.now();
        self.lock().record_commit(waited.since_sent, waited.since_due, (now, &self.clock));
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
        if let Some(apply) = self.policy.software.and_then(|software| software.apply) {
            burn(apply);
        }
    }

    /// Takes this time, in as many turns as it needs where the database gives turns.
    fn burn_in_turns(&self, me: u32, mut left: Nanos) {
        let longest = self.turns.as_ref().map_or(left, |turns| turns.longest);
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

    /// True if a separate thread writes the log.
    pub(super) fn has_log_thread(&self) -> bool {
        self.policy.software.is_some_and(|software| software.writer == LogWriter::LogThread)
    }
}

/// Which connections have something to read, or have ended. It waits for the first, but not for ever.
fn readable<'a>(
    connections: impl IntoIterator<Item = &'a UnixStream>,
    longest: Duration,
) -> Vec<usize> {
    let polled = connections.into_iter().map(|connection| PollFd::new(connection, PollFlags::IN));
    let mut polled: Vec<_> = polled.collect();
    // LOOK at most, which fits.
    let longest = Timespec::try_from(longest).ok();
    match poll(&mut polled, longest.as_ref()) {
        Ok(_) => {}
        Err(error) if std::io::Error::from(error).kind() == ErrorKind::Interrupted => {}
        // Then each is read, and fails or not.
        Err(_) => return (0..polled.len()).collect(),
    }
    let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
    polled.iter().enumerate().filter(|(_, polled)| is_ready(polled)).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shipped times of databases were found with this: another number changes what they predict.
    #[test]
    fn a_microsecond_of_software_is_1080_steps() {
        let steps = [0, 999, 1000, 25_000].map(|nanos| steps(Nanos::new(nanos)));
        assert_eq!(steps, [0, 1078, 1080, 27_000]);
    }
}
