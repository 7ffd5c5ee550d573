//! The witness's side: hears agents, keeps the ledger, and decides the next step.
//!
//! Turns agents' messages into a ledger and observations. `trial.rs` decides when the power goes.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_nbd::{Address, Listener, NbdError, Socket};
use serde::de::DeserializeOwned;

use crate::ledger_file::{LedgerBook, LedgerError, LedgerLine};
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

/// Why a witness cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    #[error(transparent)]
    Listen(#[from] NbdError),
    /// The agent is gone, or violates the protocol.
    #[error("the agent is gone")]
    Agent(#[source] io::Error),
    /// The agent says that something failed.
    #[error("the agent: {0}")]
    Failed(String),
    /// The agent sent an unexpected message.
    #[error("unexpected message from the agent")]
    Unexpected,
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// No agent came in time.
    #[error("no agent came within {} s", .0.as_secs())]
    NoAgent(Duration),
    /// The user wishes to stop.
    #[error("interrupted")]
    Stopped,
}

/// The listener to which agents connect.
#[derive(Debug)]
pub struct WitnessServer {
    listener: Listener,
    token: String,
    begin: Instant,
    /// The clock's value when this witness started: it continues the clock of its ledger.
    offset: Nanos,
}

impl WitnessServer {
    /// Binds an address; clients must know the token. The clock starts at `offset`.
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(address: &Address, token: &str, offset: Nanos) -> Result<Self, WitnessError> {
        let (token, begin) = (token.to_owned(), Instant::now());
        Ok(Self { listener: Listener::bind(address)?, token, begin, offset })
    }

    #[must_use]
    pub fn address(&self) -> Address {
        self.listener.address()
    }

    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos::from(Duration::from(self.offset).saturating_add(self.begin.elapsed()))
    }

    /// Waits for an agent. A client that does not know the token, speaks another protocol, or sends
    /// neither in time, is dropped; all clients are heard concurrently.
    ///
    /// # Errors
    /// [`WitnessError::NoAgent`], [`WitnessError::Stopped`].
    pub fn accept(
        &self,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(AgentLink, Introduction), WitnessError> {
        let (begin, mut clients) = (Instant::now(), VecDeque::new());
        loop {
            if stop() {
                return Err(WitnessError::Stopped);
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
                return Err(WitnessError::NoAgent(patience));
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
pub struct AgentLink {
    socket: Socket,
    pending: Vec<u8>,
    /// Bytes of `pending` without a line's end.
    looked_at: usize,
}

impl AgentLink {
    /// Sends a message.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn say(&mut self, message: &WitnessSays) -> Result<(), WitnessError> {
        send(&self.socket, message).map_err(WitnessError::Agent)
    }

    /// Waits for its next message; `None` after the timeout.
    ///
    /// # Errors
    /// If the agent is gone, or sends an invalid message.
    pub fn hear<T: DeserializeOwned>(
        &mut self,
        patience: Duration,
    ) -> Result<Option<T>, WitnessError> {
        self.hear_line(patience).map_err(WitnessError::Agent)?.map_or(Ok(None), |line| {
            serde_json::from_slice(&line)
                .map(Some)
                .map_err(|error| WitnessError::Agent(error.into()))
        })
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

    /// Waits for the answer to a task.
    ///
    /// # Errors
    /// If the agent is gone, fails, or is silent for too long; [`WitnessError::Stopped`].
    pub fn answer(&mut self, patience: Patience<'_>) -> Result<AgentSays, WitnessError> {
        let begin = Instant::now();
        loop {
            match self.hear(LOOK)? {
                Some(AgentSays::Failed { reason }) => return Err(WitnessError::Failed(reason)),
                Some(said) => return Ok(said),
                None if (patience.stop)() => return Err(WitnessError::Stopped),
                None if begin.elapsed() > patience.time => {
                    return Err(WitnessError::Agent(io::ErrorKind::TimedOut.into()));
                }
                None => {}
            }
        }
    }

    /// One reading of all cells.
    ///
    /// # Errors
    /// As [`AgentLink::answer`].
    pub fn reading(
        &mut self,
        owner: StampOwner,
        cells: u64,
        first_cell: u64,
        patience: Patience<'_>,
    ) -> Result<Vec<ObservedCell>, WitnessError> {
        self.say(&WitnessSays::Read { owner, cells })?;
        let mut observed: Vec<ObservedCell> = Vec::new();
        loop {
            match self.answer(patience)? {
                AgentSays::Observed { first, cells: told }
                    if first == first_cell + observed.len() as u64
                        && first + told.len() as u64 <= cells =>
                {
                    observed.extend(told.into_iter().map(ObservedCell::from));
                }
                AgentSays::ReadingDone if first_cell + observed.len() as u64 == cells => {
                    return Ok(observed);
                }
                _ => return Err(WitnessError::Unexpected),
            }
        }
    }

    /// One cell once more.
    ///
    /// # Errors
    /// As [`AgentLink::answer`].
    pub fn again(
        &mut self,
        owner: StampOwner,
        cell: u64,
        patience: Patience<'_>,
    ) -> Result<ObservedCell, WitnessError> {
        self.say(&WitnessSays::Again { owner, cell })?;
        match self.answer(patience)? {
            AgentSays::Observed { first, cells } if first == cell => {
                let one = cells.into_iter().next().ok_or(WitnessError::Unexpected)?;
                Ok(one.into())
            }
            _ => Err(WitnessError::Unexpected),
        }
    }
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    pub time: Duration,
    /// True if it is not wanted any more.
    pub stop: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Patience").field(&self.time).finish()
    }
}

/// Counts of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadHeard {
    pub acknowledged: u64,
    /// The time of the last one; before the first, the start of the load.
    pub last_at: Nanos,
}

impl LoadHeard {
    /// The counts of a load that starts now.
    #[must_use]
    pub fn nothing_since(at: Nanos) -> Self {
        Self { acknowledged: 0, last_at: at }
    }

    /// True if the agent has been silent for longer than `silence`.
    #[must_use]
    pub fn is_silent(&self, now: Nanos, silence: Nanos) -> bool {
        now.get() > self.last_at.get().saturating_add(silence.get())
    }
}

/// Hears one message of a load, and writes it to the ledger. False on a timeout.
///
/// # Errors
/// If the agent is gone or fails, or the ledger cannot be written.
pub fn hear_load(
    link: &mut AgentLink,
    server: &WitnessServer,
    ledger: &mut LedgerBook,
    heard: &mut LoadHeard,
    patience: Duration,
) -> Result<bool, WitnessError> {
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
        Some(AgentSays::Failed { reason }) => return Err(WitnessError::Failed(reason)),
        Some(_) => return Err(WitnessError::Unexpected),
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
