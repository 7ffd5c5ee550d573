//! Repeated power cuts on storage of another machine: load, cut, wait, restore, verify.
//!
//! Takes an agent that connects to the witness, and commands (or a person) that cut the power and
//! restore it. Returns what each cut left, and the evidence that it was a cut.
//!
//! ```text
//!  agent comes ──► prepare (once) ──► load ──► cut ──► off ──► restore ──► agent comes ──► read twice
//!        ▲                                                                                    │
//!        └────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Every fact is in the ledger before it is acted on, so a witness that was killed continues where
//! it was: a life whose verification is not in the ledger is verified first.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use durio_base::Nanos;
use durio_block::{ProcessGroup, ask};
use durio_nbd::Address;
use durio_plan::proof::{AgentTarget, Arm};
use durio_record::proof::{CutEvidence, CutFindings, Inventory};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::classify::{compare_power, gone};
use crate::error::{LedgerError, ProveError};
use crate::ledger_file::{LedgerBook, LedgerHead, LedgerLine};
use crate::verify::settle;
use crate::wire::{Introduction, WitnessSays, WitnessedLoad};
use crate::witness::{AgentLink, LoadHeard, Patience, WitnessServer, hear_load};

/// How long a command that cuts or restores may take.
const COMMAND_MAX: Duration = Duration::from_secs(120);
/// How long an agent may take for an answer: the reading of a large target arrives in parts.
const ANSWER: Duration = Duration::from_secs(600);
/// Acknowledgements heard within this time after the cut were on their way.
const ON_THE_WAY: Nanos = Nanos::new(500_000_000);
/// How long the witness listens after a cut.
const AFTER_THE_CUT: Duration = Duration::from_secs(1);
/// How long to wait for a message before checking the time.
const LOOK: Duration = Duration::from_millis(10);
/// Acknowledgements before a cut, at least.
const ACKNOWLEDGED_MIN: u64 = 64;

/// The observer of a trial: may end it, and is asked to do manual steps.
#[derive(Clone, Copy)]
pub(crate) struct Operator<'a> {
    /// True to end the trial.
    pub(crate) stop: &'a dyn Fn() -> bool,
    pub(crate) tell: &'a dyn Fn(String),
}

impl Operator<'_> {
    fn for_an_answer(&self) -> Patience<'_> {
        Patience { time: ANSWER, stop: self.stop }
    }

    fn check(&self) -> Result<(), ProveError> {
        if (self.stop)() { Err(ProveError::Stopped) } else { Ok(()) }
    }

    fn say(&self, text: &str) {
        (self.tell)(format!("durio: {text}"));
    }
}

/// Trials on one target.
#[derive(Debug)]
pub(crate) struct AgentTrials {
    target: AgentTarget,
    arm: Arm,
    seed: u64,
    server: WitnessServer,
    /// `None` until the target is stamped.
    book: Option<LedgerBook>,
    ledger: PathBuf,
    /// The agent of this life, if it was started here.
    agent: Option<ProcessGroup>,
    /// The agent that verified the last life; it does the next load.
    link: Option<(AgentLink, Introduction)>,
    /// As the first agent reported it, until it is taken.
    inventory: Option<Box<Inventory>>,
    has_told: bool,
}

impl AgentTrials {
    /// Trials whose ledger is this file; an existing ledger is continued.
    pub(crate) fn new(
        target: AgentTarget,
        arm: Arm,
        seed: u64,
        ledger: PathBuf,
    ) -> Result<Self, ProveError> {
        let book = match File::options().read(true).write(true).open(&ledger) {
            Ok(file) => Some(LedgerBook::resume(file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(LedgerError::Io(error).into()),
        };
        let offset = book.as_ref().map_or(Nanos::ZERO, |book| book.state.last_at);
        let address = target.listen.parse().map(Address::Tcp).map_err(|_| {
            ProveError::Failed(format!("'{}' is not an address and port", target.listen))
        })?;
        let server = WitnessServer::bind(&address, &target.token, offset)?;
        let (agent, link, inventory) = (None, None, None);
        let has_told = false;
        Ok(Self { target, arm, seed, server, book, ledger, agent, link, inventory, has_told })
    }

    /// One life of the target.
    /// On an error nothing was decided, and the ledger has the known facts.
    pub(crate) fn cut(
        &mut self,
        operator: Operator<'_>,
    ) -> Result<(CutEvidence, CutFindings), ProveError> {
        let mut evidence = CutEvidence::default();
        let (mut link, before) = match self.link.take() {
            Some(known) => known,
            None => self.come(operator)?,
        };
        if !std::mem::replace(&mut self.has_told, true) {
            self.inventory.clone_from(&before.inventory);
        }
        if self.book.as_ref().is_some_and(|book| book.state.has_load) {
            // This process ended between a load and its verification. The end of that life was not
            // observed, so nothing shows that it was a cut; but the acknowledged writes must be
            // there.
            let at = self.server.now();
            self.book()?.record(LedgerLine::Cut { at })?;
            let findings = self.verify(&mut link, operator)?;
            self.link = Some((link, before));
            return Ok((evidence, findings));
        }
        if self.book.is_none() {
            self.prepare(&mut link, &before, operator)?;
        }
        let silent = self.load(link, &mut evidence, operator)?;
        self.agent = None;
        self.wait(self.target.off, operator)?;
        if self.target.restore.is_empty() && self.is_by_hand() {
            operator.say(&format!("switch '{}' on", self.target.name));
        }
        command("restore the power", &self.target.restore)?;
        let (mut link, after) = self.come(operator)?;
        let acknowledged_after = evidence.acknowledged_after + self.heard_late(silent)?;
        evidence =
            CutEvidence { acknowledged_after, ..compare_power(&before.power(), &after.power()) };
        if after.size < before.size {
            return Ok((evidence, gone(self.book()?.state.history.as_ref())));
        }
        let findings = self.verify(&mut link, operator)?;
        self.link = Some((link, after));
        Ok((evidence, findings))
    }

    /// The system under test, as the first agent reported it.
    pub(crate) fn take_inventory(&mut self) -> Option<Box<Inventory>> {
        self.inventory.take()
    }

    fn is_by_hand(&self) -> bool {
        self.target.cut.is_empty()
    }

    /// Waits for an agent; starts one if the target has a command for it.
    fn come(&mut self, operator: Operator<'_>) -> Result<(AgentLink, Introduction), ProveError> {
        let stop = operator.stop;
        if let Some((program, arguments)) = self.target.start.split_first() {
            let Address::Tcp(witness) = self.server.address() else {
                return Err(ProveError::failed("the witness has no address"));
            };
            let filled = |text: &String| {
                let text = text.replace("{witness}", &witness.to_string());
                text.replace("{token}", &self.target.token)
            };
            let mut command = Command::new(filled(program));
            command.args(arguments.iter().map(filled)).stdin(Stdio::null()).stdout(Stdio::null());
            // Every user of this machine can see a word of its command line.
            command.env("DURIO_TOKEN", &self.target.token);
            let started = ProcessGroup::start(&mut command);
            let fail = |error| failed("start the agent", &self.target.start, &error);
            self.agent = Some(started.map_err(fail)?);
        }
        let patience = Duration::from_nanos(self.target.patience.get());
        let agent = self.agent.as_ref();
        let has_ended = || agent.is_some_and(|agent| agent.has_ended().unwrap_or(true));
        match self.server.accept(patience, &|| stop() || has_ended()) {
            Err(ProveError::Stopped) if !stop() => {
                let why = "ended before it reached the witness; its output is above";
                Err(failed("start the agent", &self.target.start, &why))
            }
            known => known,
        }
    }

    fn prepare(
        &mut self,
        link: &mut AgentLink,
        agent: &Introduction,
        operator: Operator<'_>,
    ) -> Result<(), ProveError> {
        let mut run = [0; 16];
        Xoshiro256PlusPlus::seed_from_u64(self.seed).fill_bytes(&mut run);
        let target = (run, self.arm, self.target.size);
        let make = || File::options().read(true).write(true).create_new(true).open(&self.ledger);
        let patience = operator.for_an_answer();
        self.book = Some(link.prepare((&self.server, agent), target, patience, make)?);
        Ok(())
    }

    /// Loads the target, and cuts its power. Returns an agent that fell silent and may yet speak.
    fn load(
        &mut self,
        mut link: AgentLink,
        evidence: &mut CutEvidence,
        operator: Operator<'_>,
    ) -> Result<Option<AgentLink>, ProveError> {
        let state = &self.book()?.state;
        let (first_seq, LedgerHead { owner, cells, arm, .. }) =
            (state.next_seq, state.head.clone());
        let seed = self.seed.wrapping_add(first_seq);
        link.say(&WitnessSays::Load(WitnessedLoad { owner, cells, arm, first_seq, seed }))?;
        // Up to twice as long, so that the cut comes at any phase of the target's work.
        let load = self.target.load.get();
        let more = Xoshiro256PlusPlus::seed_from_u64(seed).next_u64() % (load + 1);
        let span = Duration::from_nanos(load.saturating_add(more));
        let (begin, mut heard) = (Instant::now(), LoadHeard::nothing_since(self.server.now()));
        while begin.elapsed() < span || heard.acknowledged < ACKNOWLEDGED_MIN {
            operator.check()?;
            if begin.elapsed() > ANSWER.max(2 * span) {
                return Err(ProveError::failed("the agent writes too little"));
            }
            self.hear(&mut link, &mut heard)?;
        }
        if self.is_by_hand() {
            let (at, silent) = self.cut_by_hand(link, &operator)?;
            self.book()?.record(LedgerLine::Cut { at })?;
            return Ok(silent);
        }
        let begun_at = self.server.now();
        self.cut_power(&mut link, &mut heard)?;
        self.listen_after(&mut link, &mut heard, evidence)?;
        // The power went at some moment of the command, but after the last acknowledgement.
        let at = begun_at.max(heard.last_at);
        self.book()?.record(LedgerLine::Cut { at })?;
        Ok(None)
    }

    /// Runs the command and listens at the same time: a machine that is slow to lose its power
    /// still acknowledges.
    fn cut_power(&mut self, link: &mut AgentLink, heard: &mut LoadHeard) -> Result<(), ProveError> {
        let words = self.target.cut.clone();
        std::thread::scope(|scope| {
            let cutting = scope.spawn(|| command("cut the power", &words));
            let mut is_heard = true;
            while is_heard && !cutting.is_finished() {
                is_heard = self.is_heard(link, heard)?;
            }
            cutting.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault))
        })
    }

    /// Hears messages that were on their way when the power went; later ones show that the power
    /// stayed on.
    fn listen_after(
        &mut self,
        link: &mut AgentLink,
        heard: &mut LoadHeard,
        evidence: &mut CutEvidence,
    ) -> Result<(), ProveError> {
        let (begin, cut_at) = (Instant::now(), self.server.now());
        let mut is_heard = true;
        while is_heard && begin.elapsed() < AFTER_THE_CUT {
            let before = heard.acknowledged;
            is_heard = self.is_heard(link, heard)?;
            evidence.acknowledged_after += u64::from(shows_power(before, heard, cut_at));
        }
        Ok(())
    }

    /// False if the target fails or its machine has no power: at a cut this is the expected result.
    fn is_heard(
        &mut self,
        link: &mut AgentLink,
        heard: &mut LoadHeard,
    ) -> Result<bool, ProveError> {
        match self.hear(link, heard) {
            Err(error @ ProveError::Ledger(_)) => Err(error),
            heard => Ok(heard.is_ok()),
        }
    }

    fn hear(&mut self, link: &mut AgentLink, heard: &mut LoadHeard) -> Result<(), ProveError> {
        let Some(book) = &mut self.book else { return Err(not_stamped()) };
        hear_load(link, &self.server, book, heard, LOOK)?;
        Ok(())
    }

    fn verify(
        &mut self,
        link: &mut AgentLink,
        operator: Operator<'_>,
    ) -> Result<CutFindings, ProveError> {
        let patience = operator.for_an_answer();
        let book = self.book()?;
        let (owner, cells) = (book.state.head.owner, book.state.head.cells);
        let Some(before) = book.state.history.clone() else { return Err(not_stamped()) };
        let first = link.reading(owner, cells, before.cells().start, patience)?;
        let second = link.reading(owner, cells, before.cells().start, patience)?;
        settle(book, &before, [&first, &second], |cell| link.again(owner, cell, patience))
    }

    fn book(&mut self) -> Result<&mut LedgerBook, ProveError> {
        self.book.as_mut().ok_or_else(not_stamped)
    }

    fn wait(&self, span: Nanos, operator: Operator<'_>) -> Result<(), ProveError> {
        let (begin, span) = (Instant::now(), Duration::from_nanos(span.get()));
        while begin.elapsed() < span {
            operator.check()?;
            std::thread::sleep(LOOK.min(span));
        }
        Ok(())
    }
}

/// Whether an acknowledgement came too late to have been in flight when the power went.
fn shows_power(before: u64, heard: &LoadHeard, cut_at: Nanos) -> bool {
    heard.acknowledged > before && heard.last_at.get() > cut_at.get() + ON_THE_WAY.get()
}

fn not_stamped() -> ProveError {
    ProveError::failed("the target was not stamped")
}

/// Runs a command of the user's to its end; succeeds without a command.
fn command(doing: &'static str, words: &[String]) -> Result<(), ProveError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let answer = ask(Command::new(program).args(arguments), COMMAND_MAX);
    let answer = answer.map_err(|error| failed(doing, words, &error))?;
    if answer.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&answer.stderr);
    Err(failed(doing, words, &format!("ended with {}: {}", answer.status, said.trim())))
}

fn failed(doing: &'static str, words: &[String], why: &dyn std::fmt::Display) -> ProveError {
    ProveError::Failed(format!("cannot {doing}: '{}': {why}", words.join(" ")))
}

/// An agent that acknowledges nothing for this long has no power, or so slow a disk that its cuts
/// do not count.
const SILENCE: Nanos = Nanos::from_secs(3);

impl AgentTrials {
    /// Asks the operator to cut the power, and listens until the target is silent. Returns an agent
    /// that is not known to be gone: a later message would show that it kept its power.
    fn cut_by_hand(
        &mut self,
        mut link: AgentLink,
        operator: &Operator<'_>,
    ) -> Result<(Nanos, Option<AgentLink>), ProveError> {
        let (name, off) = (self.target.name.clone(), self.target.off);
        operator.say(&format!(
            "cut the power of '{name}' now; leave it off for {off}, then switch it on"
        ));
        let (begin, patience) = (Instant::now(), self.target.patience);
        let mut heard = LoadHeard::nothing_since(self.server.now());
        let at_hand = loop {
            operator.check()?;
            if begin.elapsed() > Duration::from_nanos(patience.get()) {
                let text = format!("the power of '{name}' was not cut within {patience}");
                return Err(ProveError::Failed(text));
            }
            match self.hear(&mut link, &mut heard) {
                Err(error @ ProveError::Ledger(_)) => return Err(error),
                // Its connection has ended, or its target fails.
                Err(_) => break None,
                Ok(()) => {}
            }
            if heard.is_silent(self.server.now(), SILENCE) {
                break Some(link);
            }
        };
        operator.say(&format!("'{name}' is silent; leave its power off for {off}"));
        Ok((heard.last_at, at_hand))
    }

    /// How many acknowledgements came from an agent after its silence: it had power all the time.
    fn heard_late(&mut self, link: Option<AgentLink>) -> Result<u64, ProveError> {
        let (Some(mut link), Some(book)) = (link, &mut self.book) else { return Ok(0) };
        let mut heard = LoadHeard::nothing_since(self.server.now());
        loop {
            match hear_load(&mut link, &self.server, book, &mut heard, LOOK) {
                Ok(true) => {}
                Err(error @ ProveError::Ledger(_)) => return Err(error),
                Ok(false) | Err(_) => break,
            }
        }
        drop(link);
        if heard.acknowledged > 0 {
            // It ends when it finds its witness gone; its writes until then would be read as
            // unstable.
            std::thread::sleep(AFTER_THE_CUT);
        }
        Ok(heard.acknowledged)
    }
}

#[cfg(test)]
mod tests;
