//! The side of the witness: hears agents, keeps the ledger, says what is to be done next.
//!
//! In: agents that connect. Out: a ledger, observations. Not here: when the power goes (`cutter.rs`),
//! verdicts.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use durio_nbd::{Address, Listener, NbdError, Socket};
use durio_units::Nanos;
use serde::de::DeserializeOwned;

use crate::ledger_file::{LedgerBook, LedgerError, LedgerLine};
use crate::reading::Observed;
use crate::stamp::Owner;
use crate::wire::{AgentSays, Hello, PROTOCOL, WitnessSays, is_silence, send};

/// How often the wish to stop is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long who has connected may take to say who it is.
const GREETING: Duration = Duration::from_secs(10);
/// The longest line.
const LINE_MAX: usize = 1 << 20;

/// Why a witness cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Its address.
    #[error(transparent)]
    Listen(#[from] NbdError),
    /// The agent is gone, or does not keep to the protocol.
    #[error("the agent is gone")]
    Agent(#[source] io::Error),
    /// The agent says that something failed.
    #[error("the agent: {0}")]
    Failed(String),
    /// The agent says what it must not.
    #[error("the agent says something else than was asked for")]
    Unexpected,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Nobody came in time.
    #[error("no agent came within {} s", .0.as_secs())]
    NoAgent(Duration),
    /// The user wishes to stop.
    #[error("interrupted")]
    Stopped,
}

/// Where agents come.
#[derive(Debug)]
pub struct WitnessServer {
    listener: Listener,
    token: String,
    begin: Instant,
    /// What the clock showed when this witness began: it goes on with that of its ledger.
    offset: Nanos,
}

impl WitnessServer {
    /// Takes an address; whoever comes must know the token. Its clock goes on from `offset`.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(address: &Address, token: &str, offset: Nanos) -> Result<Self, WitnessError> {
        let (token, begin) = (token.to_owned(), Instant::now());
        Ok(Self { listener: Listener::bind(address)?, token, begin, offset })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> Address {
        self.listener.address()
    }

    /// The witness's clock.
    #[must_use]
    pub fn now(&self) -> Nanos {
        let elapsed = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Nanos::new(self.offset.get().saturating_add(elapsed))
    }

    /// Waits for an agent. Who does not know the token, or speaks another protocol, is sent away.
    ///
    /// # Errors
    /// [`WitnessError::NoAgent`], [`WitnessError::Stopped`].
    pub fn accept(
        &self,
        patience: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(AgentLink, Hello), WitnessError> {
        let begin = Instant::now();
        loop {
            if stop() {
                return Err(WitnessError::Stopped);
            }
            if let Ok(socket) = self.listener.accept() {
                if let Some(known) = self.greet(socket) {
                    return Ok(known);
                }
            } else if begin.elapsed() > patience {
                return Err(WitnessError::NoAgent(patience));
            } else {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn greet(&self, socket: Socket) -> Option<(AgentLink, Hello)> {
        let mut link = AgentLink { socket, pending: Vec::new() };
        let Ok(Some(AgentSays::Hello(hello))) = link.hear(GREETING) else { return None };
        let refusal = if hello.protocol != PROTOCOL {
            format!("it speaks protocol {PROTOCOL}, and the agent {}", hello.protocol)
        } else if !is_same(hello.token.as_bytes(), self.token.as_bytes()) {
            "the token is wrong".to_owned()
        } else {
            return Some((link, hello));
        };
        // Who is sent away may be gone already.
        let _ = link.say(&WitnessSays::Refused { reason: refusal });
        None
    }
}

/// In a time that does not depend on where they differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// An agent that has connected.
#[derive(Debug)]
pub struct AgentLink {
    socket: Socket,
    pending: Vec<u8>,
}

impl AgentLink {
    /// Says something.
    ///
    /// # Errors
    /// If the agent is gone.
    pub fn say(&mut self, message: &WitnessSays) -> Result<(), WitnessError> {
        send(&self.socket, message).map_err(WitnessError::Agent)
    }

    /// Waits for what it says next; none if it says nothing for so long.
    ///
    /// # Errors
    /// If it is gone, or says what is no message.
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
        self.socket.set_timeout(Some(patience))?;
        let mut looked_at = 0;
        loop {
            if let Some(end) = self.pending[looked_at..].iter().position(|&it| it == b'\n') {
                let rest = self.pending.split_off(looked_at + end + 1);
                return Ok(Some(std::mem::replace(&mut self.pending, rest)));
            }
            looked_at = self.pending.len();
            if looked_at > LINE_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut bytes = [0; 16 << 10];
            match (&self.socket).read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.pending.extend_from_slice(&bytes[..count]),
                Err(error) if is_silence(&error) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the answer to a task.
    ///
    /// # Errors
    /// If the agent is gone, fails, or says nothing for so long.
    pub fn answer(&mut self, patience: Duration) -> Result<AgentSays, WitnessError> {
        match self.hear(patience)? {
            Some(AgentSays::Failed { reason }) => Err(WitnessError::Failed(reason)),
            Some(said) => Ok(said),
            None => Err(WitnessError::Agent(io::ErrorKind::TimedOut.into())),
        }
    }

    /// One reading of all cells.
    ///
    /// # Errors
    /// As [`AgentLink::answer`].
    pub fn reading(
        &mut self,
        owner: Owner,
        cells: u64,
        first_cell: u64,
        patience: Duration,
    ) -> Result<Vec<Observed>, WitnessError> {
        self.say(&WitnessSays::Read { owner, cells })?;
        let mut observed: Vec<Observed> = Vec::new();
        loop {
            match self.answer(patience)? {
                AgentSays::Observed { first, cells: told }
                    if first == first_cell + observed.len() as u64
                        && first + told.len() as u64 <= cells =>
                {
                    observed.extend(told.into_iter().map(Observed::from));
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
        owner: Owner,
        cell: u64,
        patience: Duration,
    ) -> Result<Observed, WitnessError> {
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

/// What was heard during a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadHeard {
    /// Acknowledgements.
    pub acknowledged: u64,
    /// The last one.
    pub last_at: Nanos,
}

/// Hears one message of a load, and writes it to the ledger. False if nothing was said for so long.
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
