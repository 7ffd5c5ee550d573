//! `durio prove`: power cuts and their consequences.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;

use durio_analyse::proof::{ProofFindings, ProofVerdict, SeriesFindings};
use durio_base::shell_word;
use durio_bench::{
    BenchError, BenchErrorKind, Ending, RunOptions, find_run, interrupted_power_proof,
    new_power_proof, plan_power_proof, read_power_proof, save_power_proof,
};
use durio_command::{random_seed, random_token};
use durio_plan::proof::{Arm, ProofTarget};
use durio_prove::{
    PowerProved, ProofStorage, WitnessWish, be_agent, command_in_guest, keep_ledger, name_kernels,
    prove_in_guest, prove_power, verify_target,
};
use durio_report::Format;

use crate::args::{
    OutputArguments, ProveArguments, ProveCommand, ProveRun, ProveVerify, ProveWitness, ProveWrite,
    TokenOptions,
};
use crate::exit_code::Exit;
use crate::measure::clear_up;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn prove(arguments: &ProveArguments) -> Result<Exit, BenchError> {
    match &arguments.command {
        ProveCommand::Run(arguments) => run(arguments),
        ProveCommand::Witness(arguments) => witness(arguments),
        ProveCommand::Write(arguments) => write(arguments),
        ProveCommand::Verify(arguments) => verify(arguments),
        ProveCommand::States(arguments) => super::prove_states::states(arguments),
        ProveCommand::InGuest { order } => prove_in_guest(order).map(|()| Exit::Fine),
        ProveCommand::CommandInGuest { order, command } => {
            command_in_guest(order, command).map(Exit::Command)
        }
        ProveCommand::Exec(arguments) => super::prove_exec::exec(arguments),
        ProveCommand::Plan(arguments) => super::prove_plan::plan(arguments),
    }
}

fn run(arguments: &ProveRun) -> Result<Exit, BenchError> {
    refuse_fio(arguments.output)?;
    clear_up();
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let folder = match (&arguments.resume, &arguments.spec) {
        (Some(folder), _) => interrupted_power_proof(&find_run(folder)?)?,
        (None, spec) => {
            let spec = spec.as_deref().unwrap_or(Path::new(""));
            let token = token(&arguments.token)?;
            let token = token.as_deref();
            let mut plan =
                plan_power_proof(spec, arguments.seed, arguments.cuts, &arguments.only, token)?;
            for series in &plan.series {
                if let ProofTarget::Agent(target) = &series.target
                    && let Ok(address) = target.listen.parse()
                {
                    warn_of_reach(address);
                }
            }
            let options = RunOptions { out: arguments.out.as_deref(), ..RunOptions::default() };
            name_kernels(&mut plan)?;
            new_power_proof(plan, &options)?
        }
    };
    conclude(arguments.output, prove_power(folder, &stop, &terminal)?)
}

/// Saves and shows a finished proof; the exit code is its verdict, if it is complete.
pub(super) fn conclude(wished: OutputArguments, proved: PowerProved) -> Result<Exit, BenchError> {
    let PowerProved { folder, findings, ending } = proved;
    save_power_proof(&folder, &findings)?;
    let ending = ending?;
    output::report(wished, &findings)?;
    if ending != Ending::Complete {
        return Ok(ending.into());
    }
    Ok(verdict(&findings))
}

/// 1 if a result was not as expected, 3 without a result.
fn verdict(findings: &ProofFindings) -> Exit {
    let is_open = |it: &SeriesFindings| it.verdict == ProofVerdict::Inconclusive;
    if findings.unexpected().any(|it| !is_open(it)) {
        Exit::Negative
    } else if findings.series.iter().any(is_open) {
        Exit::CANNOT_MEASURE
    } else {
        Exit::Fine
    }
}

fn witness(arguments: &ProveWitness) -> Result<Exit, BenchError> {
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let token = token(&arguments.token)?.unwrap_or_else(|| {
        let token = random_token();
        output::remark(&format!("durio: the token is {token}"));
        token
    });
    warn_of_reach(arguments.listen);
    let wish = WitnessWish {
        listen: arguments.listen,
        token: &token,
        ledger: &arguments.ledger,
        arm: Arm { write_cells: arguments.write_size, ..Arm::new(arguments.path, arguments.depth) },
        size: arguments.size,
        seed: arguments.seed.unwrap_or_else(random_seed),
        silence: arguments.silence,
    };
    let acknowledged = keep_ledger(&wish, &stop, &terminal)?;
    let ledger = shell_word(&arguments.ledger.display().to_string());
    output::answer_text(&format!(
        "the writer is gone; {acknowledged} writes were acknowledged\n\
         Next: durio prove verify TARGET --ledger {ledger}\n"
    ))?;
    Ok(if stop.is_set() { Exit::INTERRUPTED } else { Exit::Fine })
}

fn write(arguments: &ProveWrite) -> Result<Exit, BenchError> {
    let ProveWrite { target, destroy, force_signature, engine, .. } = arguments;
    let token = token(&arguments.token)?.ok_or_else(|| {
        BenchError::wrong_use("no token: the witness does not let in a writer without it")
            .hint("give --token-file or --token, or set DURIO_TOKEN")
    })?;
    let storage = ProofStorage::find(target, destroy, *force_signature, *engine)?;
    be_agent(storage, arguments.witness, &token)?;
    Ok(Exit::Fine)
}

fn warn_of_reach(address: SocketAddr) {
    output::warn_of_reach(address, "and knows the token can be the writer");
}

/// The longest token: it must fit into the first line of an agent.
const TOKEN_BYTES_MAX: u64 = 1024;

/// The given token: by an option, a file or the environment.
fn token(options: &TokenOptions) -> Result<Option<String>, BenchError> {
    let token = match (&options.token, &options.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(path)) => token_of(path)?,
        (None, None) => match std::env::var("DURIO_TOKEN") {
            Ok(token) => token,
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => {
                return Err(BenchError::of(BenchErrorKind::WrongUse, error).context("DURIO_TOKEN"));
            }
        },
    };
    let length = token.len() as u64;
    if length == 0 || length > TOKEN_BYTES_MAX || token.contains('\n') {
        let text = format!("the token has {length} bytes; expected one line of 1 to 1024 bytes");
        return Err(BenchError::wrong_use(text));
    }
    Ok(Some(token))
}

fn token_of(path: &Path) -> Result<String, BenchError> {
    let cannot = |error| BenchError::io("read the token file", path, error);
    let mut text = String::new();
    // With the end of its line, and one byte that shows that it is too long.
    let file = File::open(path).map_err(cannot)?;
    file.take(TOKEN_BYTES_MAX + 3).read_to_string(&mut text).map_err(cannot)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn verify(arguments: &ProveVerify) -> Result<Exit, BenchError> {
    refuse_fio(arguments.output)?;
    let storage = ProofStorage::find(&arguments.target, &[], false, None)?;
    let findings = verify_target(&arguments.target, storage, &arguments.ledger)?;
    output::report(arguments.output, &findings)?;
    Ok(verdict(&findings))
}

/// fio's format has no place for power cuts: refuse it before the first of them.
pub(super) fn refuse_fio(wished: OutputArguments) -> Result<(), BenchError> {
    match wished.format() {
        Format::FioJson => {
            Err(output::unsupported(wished, "there are text, json, html, markdown and csv"))
        }
        _ => Ok(()),
    }
}

/// `durio report` of a proof folder.
pub(super) fn show(path: &Path, wished: OutputArguments) -> Result<Exit, BenchError> {
    output::report(wished, &read_power_proof(path)?)?;
    Ok(Exit::Fine)
}
