//! The witness's side: hears agents, keeps the ledger, and decides the next step.
//!
//! Turns agents' messages into a ledger and observations. `trial.rs` decides when the power goes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::time::{Duration, Instant};

use durio_base::{Bytes, Nanos};
use durio_nbd::{Address, Listener, Socket};
use durio_plan::proof::Arm;

use crate::error::{LedgerError, ProveError};
use crate::guest_agent::READINGS;
use crate::layout::{CELL, CELLS_MIN, USED_MAX};
use crate::ledger_file::{LedgerBook, LedgerHead, LedgerLine};
use crate::reading::ObservedCell;
use crate::stamp::StampOwner;
use crate::wire::{
    AgentSays, Hello, Introduction, LINE_MAX, PROTOCOL, WitnessSays, is_silence, send,
};

/// How often the stop condition is polled.
const LOOK: Duration = Duration::from_millis(20);
/// How long a client may take for its first line, which has the token.
const HELLO_TIME: Duration = Duration::from_secs(2);
/// The longest first line, whose sender is not yet authenticated.
const HELLO_MAX: usize = 4 << 10;
/// How long an agent that knows the token may take to describe its target.
const INTRODUCTION_TIME: Duration = Duration::from_secs(10);
/// Clients that are heard at once. Beyond that, the one that has waited longest is dropped: an
/// agent sends its first line at once.
const CLIENTS_MAX: usize = 256;

/// The listener to which agents connect.
#[derive(Debug)]
pub(crate) struct WitnessServer {
    listener: Listener,
    token: String,
    begin: Instant,
    /// The clock's value when this witness started: it continues the clock of its ledger.
    offset: Nanos,
}

impl WitnessServer {
    /// Binds an address; clients must know the token. The clock starts at `offset`.
    pub(crate) fn bind(address: &Address, token: &str, offset: Nanos) -> Result<Self, ProveError> {
        let (token, begin) = (token.to_owned(), Instant::now());
        Ok(Self { listener: Listener::bind(address)?, token, begin, offset })
    }

    pub(crate) fn address(&self) -> Address {
        self.listener.address()
    }

    pub(crate) fn now(&self) -> Nanos {
        Nanos::from(Duration::from(self.offset).saturating_add(self.begin.elapsed()))
    }

    /// Waits for an agent. A client that does not know the token, speaks another protocol, or sends
    /// neither in time, is dropped; all clients are heard concurrently.
    pub(crate) fn accept(
        &self,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(AgentLink, Introduction), ProveError> {
        let (begin, mut clients) = (Instant::now(), VecDeque::new());
        loop {
            if stop() {
                return Err(ProveError::Stopped);
            }
            // At most as many as are heard, so that a flood of clients cannot delay the time check.
            for socket in (0..CLIENTS_MAX).map_while(|_| self.listener.accept().ok()) {
                clients.push_back(AgentCandidate::new(socket));
                if clients.len() > CLIENTS_MAX {
                    clients.pop_front();
                }
            }
            for mut client in std::mem::take(&mut clients) {
                match self.greet(&mut client) {
                    Greeting::Expected => clients.push_back(client),
                    Greeting::SentAway => {}
                    Greeting::Known(introduction) => return Ok((client.link, introduction)),
                }
            }
            if begin.elapsed() > patience {
                let text = format!("no agent came within {} s", patience.as_secs());
                return Err(ProveError::Failed(text));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Reads a client's messages so far.
    fn greet(&self, client: &mut AgentCandidate) -> Greeting {
        loop {
            let (longest, time) = match client.knows_token {
                false => (HELLO_MAX, HELLO_TIME),
                true => (LINE_MAX, INTRODUCTION_TIME),
            };
            let line = match client.link.said_by_now(longest) {
                Ok(Some(line)) => line,
                Ok(None) if client.since.elapsed() <= time => return Greeting::Expected,
                Ok(None) | Err(_) => return Greeting::SentAway,
            };
            match serde_json::from_slice(&line) {
                Ok(AgentSays::Hello(hello)) if !client.knows_token => {
                    if let Some(reason) = self.refusal(&hello) {
                        // A dropped client may be gone already.
                        let _ = client.link.say(&WitnessSays::Refused { reason });
                        return Greeting::SentAway;
                    }
                    (client.knows_token, client.since) = (true, Instant::now());
                }
                Ok(AgentSays::Has(introduction)) if client.knows_token => {
                    return Greeting::Known(introduction);
                }
                _ => return Greeting::SentAway,
            }
        }
    }

    fn refusal(&self, hello: &Hello) -> Option<String> {
        if hello.protocol != PROTOCOL {
            Some(format!("its protocol is {PROTOCOL}, the agent's is {}", hello.protocol))
        } else if !is_same(hello.token.as_bytes(), self.token.as_bytes()) {
            Some("the token is wrong".to_owned())
        } else {
            None
        }
    }
}

/// A client that may be an agent.
struct AgentCandidate {
    link: AgentLink,
    knows_token: bool,
    /// It connected, or said the token.
    since: Instant,
}

impl AgentCandidate {
    fn new(socket: Socket) -> Self {
        let link = AgentLink { socket, pending: Vec::new(), looked_at: 0 };
        Self { link, knows_token: false, since: Instant::now() }
    }
}

enum Greeting {
    /// It may say more.
    Expected,
    SentAway,
    Known(Introduction),
}

/// In constant time, wherever they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// An agent that has connected.
#[derive(Debug)]
pub(crate) struct AgentLink {
    socket: Socket,
    pending: Vec<u8>,
    /// Bytes of `pending` without a line's end.
    looked_at: usize,
}

impl AgentLink {
    pub(crate) fn say(&mut self, message: &WitnessSays) -> Result<(), ProveError> {
        send(&self.socket, message).map_err(agent_gone)
    }

    /// Waits for its next message; `None` after the timeout.
    pub(crate) fn hear(&mut self, patience: Duration) -> Result<Option<AgentSays>, ProveError> {
        let line = self.hear_line(patience).map_err(agent_gone)?;
        let said = line.map(|line| serde_json::from_slice(&line)).transpose();
        said.map_err(|error| agent_gone(error.into()))
    }

    fn hear_line(&mut self, patience: Duration) -> io::Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(line) = self.line(LINE_MAX)? {
                return Ok(Some(line));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.set_timeout(Some(left))?;
            let mut bytes = [0; 16 << 10];
            let count = (&self.socket).read(&mut bytes);
            self.take(count, &bytes)?;
        }
    }

    /// A line, if it has arrived completely; never waits.
    fn said_by_now(&mut self, longest: usize) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(line) = self.line(longest)? {
                return Ok(Some(line));
            }
            let mut bytes = [0; 16 << 10];
            let count = self.socket.read_by_now(&mut bytes);
            if !self.take(count, &bytes)? {
                return Ok(None);
            }
        }
    }

    /// A line of the received bytes.
    fn line(&mut self, longest: usize) -> io::Result<Option<Vec<u8>>> {
        let end = self.pending[self.looked_at..].iter().position(|&byte| byte == b'\n');
        let length = end.map_or(self.pending.len(), |end| self.looked_at + end + 1);
        if length > longest {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.looked_at = if end.is_some() { 0 } else { length };
        Ok(end.map(|_| {
            let rest = self.pending.split_off(length);
            std::mem::replace(&mut self.pending, rest)
        }))
    }

    /// Takes the result of a read; false if it is empty.
    fn take(&mut self, count: io::Result<usize>, bytes: &[u8]) -> io::Result<bool> {
        match count {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.pending.extend_from_slice(&bytes[..count]);
                Ok(true)
            }
            Err(error) if is_silence(&error) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Waits for the answer to a task. An agent that is gone, fails or is silent for too long is an
    /// error.
    pub(crate) fn answer(&mut self, patience: Patience<'_>) -> Result<AgentSays, ProveError> {
        let begin = Instant::now();
        loop {
            match self.hear(LOOK)? {
                Some(AgentSays::Failed { reason }) => return Err(said_failed(&reason)),
                Some(said) => return Ok(said),
                None if (patience.stop)() => return Err(ProveError::Stopped),
                None if begin.elapsed() > patience.time => {
                    return Err(agent_gone(io::ErrorKind::TimedOut.into()));
                }
                None => {}
            }
        }
    }

    /// Has the agent stamp its target, of which `size` is used. Returns the ledger, in the file that
    /// `make` gives once the stamps are there.
    pub(crate) fn prepare(
        &mut self,
        (server, agent): (&WitnessServer, &Introduction),
        (run, arm, size): ([u8; 16], Arm, Option<Bytes>),
        patience: Patience<'_>,
        make: impl FnOnce() -> io::Result<File>,
    ) -> Result<LedgerBook, ProveError> {
        let usable = agent.size.min(size.map_or(USED_MAX, Bytes::get));
        let (owner, cells) = (StampOwner { run, target: 1 }, usable / CELL as u64);
        if cells < CELLS_MIN {
            let text = format!("the target has {usable} bytes; a proof needs 256 KiB");
            return Err(ProveError::Failed(text));
        }
        self.say(&WitnessSays::Prepare { owner, cells, arm })?;
        if self.answer(patience)? != AgentSays::Prepared {
            return Err(ProveError::Unexpected);
        }
        let head = LedgerHead { power: agent.power(), ..LedgerHead::new(owner, cells, arm) };
        let mut book = LedgerBook::begin(make().map_err(LedgerError::Io)?, head)?;
        book.record(LedgerLine::Prepared { at: server.now() })?;
        Ok(book)
    }

    /// One reading of all cells.
    pub(crate) fn reading(
        &mut self,
        owner: StampOwner,
        cells: u64,
        first_cell: u64,
        patience: Patience<'_>,
    ) -> Result<Vec<ObservedCell>, ProveError> {
        self.say(&WitnessSays::Read { owner, cells })?;
        let mut readings = CellReadings::of(first_cell..cells);
        loop {
            readings.take(self.answer(patience)?).ok_or(ProveError::Unexpected)?;
            if let Some(reading) = readings.whole.pop() {
                return Ok(reading);
            }
        }
    }

    /// One cell once more.
    pub(crate) fn again(
        &mut self,
        owner: StampOwner,
        cell: u64,
        patience: Patience<'_>,
    ) -> Result<ObservedCell, ProveError> {
        self.say(&WitnessSays::Again { owner, cell })?;
        match self.answer(patience)? {
            AgentSays::Observed { first, cells } if first == cell => {
                cells.into_iter().next().ok_or(ProveError::Unexpected)
            }
            _ => Err(ProveError::Unexpected),
        }
    }
}

/// An agent's reports of all cells, which it may repeat.
#[derive(Debug)]
pub(crate) struct CellReadings {
    cells: Range<u64>,
    begun: Vec<ObservedCell>,
    whole: Vec<Vec<ObservedCell>>,
}

impl CellReadings {
    pub(crate) const fn of(cells: Range<u64>) -> Self {
        Self { cells, begun: Vec::new(), whole: Vec::new() }
    }

    /// `None` if this is not the next part of a reading.
    pub(crate) fn take(&mut self, said: AgentSays) -> Option<()> {
        let next = self.cells.start + self.begun.len() as u64;
        match said {
            AgentSays::Observed { first, cells }
                if first == next && first + cells.len() as u64 <= self.cells.end =>
            {
                self.begun.extend(cells);
                Some(())
            }
            AgentSays::ReadingDone if next == self.cells.end && self.whole.len() < READINGS => {
                self.whole.push(std::mem::take(&mut self.begun));
                Some(())
            }
            _ => None,
        }
    }

    /// The cells that were read, where each state was read once.
    pub(crate) fn first(self) -> Option<Vec<ObservedCell>> {
        <[Vec<ObservedCell>; 1]>::try_from(self.whole).ok().map(|[only]| only)
    }

    /// All of them, if none is missing.
    pub(crate) fn finish(self) -> Option<[Vec<ObservedCell>; READINGS]> {
        self.whole.try_into().ok()
    }
}

fn agent_gone(source: io::Error) -> ProveError {
    ProveError::Gone { who: "agent", source }
}

fn said_failed(reason: &str) -> ProveError {
    ProveError::Failed(format!("the agent: {reason}"))
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub(crate) time: Duration,
    /// True if it is not wanted any more.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// Counts of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadHeard {
    pub(crate) acknowledged: u64,
    /// The time of the last one; before the first, the start of the load.
    pub(crate) last_at: Nanos,
}

impl LoadHeard {
    /// The counts of a load that starts now.
    pub(crate) fn nothing_since(at: Nanos) -> Self {
        Self { acknowledged: 0, last_at: at }
    }

    /// True if the agent has been silent for longer than `silence`.
    pub(crate) fn is_silent(&self, now: Nanos, silence: Nanos) -> bool {
        now.get() > self.last_at.get().saturating_add(silence.get())
    }
}

/// Hears one message of a load, and writes it to the ledger. False on a timeout.
pub(crate) fn hear_load(
    link: &mut AgentLink,
    server: &WitnessServer,
    ledger: &mut LedgerBook,
    heard: &mut LoadHeard,
    patience: Duration,
) -> Result<bool, ProveError> {
    let line = match link.hear(patience)? {
        None => return Ok(false),
        Some(AgentSays::Intend { writes }) => LedgerLine::Intended { writes },
        Some(AgentSays::Acknowledged { seq }) => {
            let at = server.now();
            heard.acknowledged += 1;
            heard.last_at = at;
            LedgerLine::Acknowledged { seq, at }
        }
        Some(AgentSays::ControlDone { seq }) => LedgerLine::ControlDone { seq },
        Some(AgentSays::Failed { reason }) => return Err(said_failed(&reason)),
        Some(_) => return Err(ProveError::Unexpected),
    };
    let announces = matches!(line, LedgerLine::Intended { .. });
    ledger.record(line)?;
    if announces {
        link.say(&WitnessSays::Intended)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
