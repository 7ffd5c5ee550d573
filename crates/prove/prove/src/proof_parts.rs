//! The parts of a proof as separate processes: the agent at the target, the witness elsewhere, the
//! verifier. Whole campaigns are in `power_proof.rs`.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use durio_base::{Bytes, Nanos};
use durio_command::{CommandError, ProgressObserver, StopFlag, command_line, random_seed};
use durio_nbd::Address;
use durio_plan::proof::{AgentTarget, Arm, PROOF_PLAN_SCHEMA, ProofPlan, ProofSeries, ProofTarget};
use durio_record::Outcome;
use durio_record::proof::{
    CutRecord, PROOF_FOLDER_SCHEMA, ProofFindings, ProofManifest, analyse_proof,
};

use crate::agent::{follow, introduce};
use crate::classify::compare_power;
use crate::error::ProveError;
use crate::ledger_file::{LedgerHead, LedgerLine, read_ledger};
use crate::proof_target::ProofStorage;
use crate::verify::verify;
use crate::wire::{WitnessSays, WitnessedLoad};
use crate::witness::{LoadHeard, Patience, WitnessServer, hear_load};

/// How long an agent may take to stamp a target.
const STAMPING: Duration = Duration::from_secs(3600);
/// How long is waited for a message before the time is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A witness's terms for its agent.
#[derive(Debug, Clone)]
pub struct WitnessTerms<'a> {
    pub listen: SocketAddr,
    /// A secret that the agent must know.
    pub token: &'a str,
    /// The file that it makes.
    pub ledger: &'a Path,
    /// The writes and syncs to prove.
    pub arm: Arm,
    /// Bytes to use, from the start; all without it.
    pub size: Option<Bytes>,
    /// The seed of all choices.
    pub seed: u64,
    /// The agent is gone when it has said nothing for so long.
    pub silence: Nanos,
}

/// Waits for an agent, has it stamp its target and write to it, and keeps the ledger until it is gone.
/// Returns how many writes it acknowledged.
///
/// # Errors
/// If the ledger exists, or nothing was acknowledged.
pub fn keep_ledger(
    request: &WitnessTerms<'_>,
    stop: &StopFlag,
    observer: &dyn ProgressObserver,
) -> Result<u64, CommandError> {
    let file = File::options().read(true).write(true).create_new(true).open(request.ledger);
    let file = file.map_err(|error| CommandError::io("make", request.ledger, error))?;
    let server = WitnessServer::bind(&Address::Tcp(request.listen), request.token, Nanos::ZERO)?;
    observer.remark(&format!("durio: seed {}", request.seed));
    observer.remark(&format!("durio: the witness waits at {}", server.address()));
    let forever = Duration::from_secs(u64::MAX >> 2);
    let stopped = || stop.is_set();
    let (mut link, agent) = server.accept(forever, &stopped)?;
    let mut run = [0; 16];
    run[..8].copy_from_slice(&request.seed.to_le_bytes());
    run[8..].copy_from_slice(&random_seed().to_le_bytes());
    let target = (run, request.arm, request.size);
    let patience = Patience { time: STAMPING, stop: &stopped };
    let mut book = link.prepare((&server, &agent), target, patience, || Ok(file))?;
    let LedgerHead { owner, cells, arm, .. } = book.state.head;
    observer.remark("durio: the target is stamped; writing to it until its power is cut");
    let load = WitnessedLoad { owner, cells, arm, first_seq: 1, seed: request.seed };
    link.say(&WitnessSays::Load(load))?;
    let mut heard = LoadHeard::nothing_since(server.now());
    while !stop.is_set() {
        match hear_load(&mut link, &server, &mut book, &mut heard, LOOK) {
            Ok(true) => {}
            Ok(false) if heard.is_silent(server.now(), request.silence) => break,
            Ok(false) => {}
            Err(error @ ProveError::Ledger(_)) => return Err(error.into()),
            // Its power is gone, or its target: the event that the witness waits for.
            Err(_) => break,
        }
    }
    book.record(LedgerLine::Cut { at: heard.last_at }).map_err(CommandError::cannot)?;
    book.sync().map_err(CommandError::cannot)?;
    match heard.acknowledged {
        0 if stop.is_set() => Err(ProveError::Stopped.into()),
        0 => {
            Err(CommandError::cannot_measure("the agent disconnected before acknowledging a write"))
        }
        count => Ok(count),
    }
}

/// Follows a witness: stamps, writes and reads as it asks, until it says that this was all.
///
/// # Errors
/// If the witness cannot be reached, refuses, or is gone; if the target fails.
pub fn be_agent(
    mut storage: ProofStorage,
    witness: SocketAddr,
    token: &str,
) -> Result<(), CommandError> {
    let inventory = storage.inventory();
    let introduction = introduce(&mut storage, inventory)?;
    let reach = || -> io::Result<TcpStream> {
        let stream = TcpStream::connect(witness)?;
        // Each acknowledgement leaves at once.
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let stream = reach().map_err(|error| {
        CommandError::cannot(error).context(format!("cannot reach the witness at {witness}"))
    })?;
    Ok(follow(&stream, &mut storage, token, introduction)?)
}

/// Holds a target against a ledger.
///
/// # Errors
/// If either cannot be read, or they do not belong together.
pub fn verify_target(
    name: &str,
    mut storage: ProofStorage,
    ledger: &Path,
) -> Result<ProofFindings, CommandError> {
    let file = File::open(ledger).map_err(|error| CommandError::io("read", ledger, error))?;
    let state = read_ledger(&file).map_err(|error| {
        CommandError::cannot(error).context(format!("cannot read '{}'", ledger.display()))
    })?;
    let Some(mut history) = state.history else {
        return Err(CommandError::cannot_measure("the ledger ends before the target was stamped"));
    };
    if history.cut_at().is_none() {
        // The witness was killed: the last entry is the nearest to the cut.
        let cut = crate::ledger::LedgerEntry::Cut { at: state.last_at };
        history.take(cut).map_err(CommandError::cannot)?;
    }
    let inventory = storage.inventory();
    let findings = verify(&mut storage, state.head.owner, state.head.cells, history)?;
    let cut = CutRecord {
        series: 0,
        cut: 1,
        evidence: compare_power(&state.head.power, &inventory.power),
        findings,
        took_ns: 0,
        inventory: Some(Box::new(inventory)),
    };
    Ok(analyse_proof(&manifest(name, state.head.arm), &[cut]))
}

fn manifest(name: &str, arm: Arm) -> ProofManifest {
    let target = AgentTarget { name: name.to_owned(), ..AgentTarget::default() };
    let series = ProofSeries {
        name: name.to_owned(),
        target: ProofTarget::Agent(target),
        arm: Some(arm),
        cuts: 1,
        expected: None,
    };
    let plan = ProofPlan {
        schema: PROOF_PLAN_SCHEMA,
        name: name.to_owned(),
        summary: String::new(),
        seed: 0,
        series: vec![series],
    };
    ProofManifest {
        schema: PROOF_FOLDER_SCHEMA,
        proof: name.to_owned(),
        durio_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: String::new(),
        command: command_line(),
        plan,
        outcome: Some(Outcome::Complete),
    }
}
