//! `durio prove`: power cuts and their consequences.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_base::{Bytes, Nanos, shell_word};
use durio_bench::plan_power_proof;
use durio_command::{CommandError, random_seed, random_token};
use durio_plan::EngineKind;
use durio_plan::proof::{Arm, DurablePath};
use durio_prove::enumerate::StateName;
use durio_prove::{
    CrashStatesRequest, ProofStorage, WitnessTerms, be_agent, check_crash_state,
    check_crash_states, command_in_guest, keep_ledger, prove_in_guest, verify_target,
};
use durio_record::proof::crash_states::CheckOutcome;
use durio_spec::proof_spec_json_schema;

use super::prove_run::{
    ProveExec, ProveRun, TokenOptions, exec, refuse_fio, run, token, verdict, warn_of_reach,
};
use super::spec;
use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Test with power cuts whether storage keeps acknowledged writes
///
/// Writes stamped data through a durable path, keeps a ledger of acknowledged writes, cuts the
/// power, and reports damage: lost, torn, misplaced, corrupt. Survival of n cuts is reported with
/// its statistical bound; the first loss of acknowledged data ends a series.
#[derive(Debug, Args)]
pub(crate) struct ProveArguments {
    #[command(subcommand)]
    pub(crate) command: ProveCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProveCommand {
    Run(Box<ProveRun>),
    Plan(ProvePlan),
    Exec(Box<ProveExec>),
    Witness(Box<ProveWitness>),
    Write(ProveWrite),
    Verify(ProveVerify),
    States(Box<ProveStates>),
    /// Run as the agent in a lab guest
    #[command(hide = true)]
    InGuest {
        /// What the host wants, as JSON
        order: String,
    },
    /// Run a user's command in a lab guest
    #[command(hide = true)]
    CommandInGuest {
        /// What the host wants, as JSON
        order: String,
        /// The command
        #[arg(last = true)]
        command: Vec<String>,
    },
}

/// Keep the ledger of a writer's acknowledged writes
///
/// Runs on a machine that keeps its power. Waits for `durio prove write`, has it stamp its target
/// and write to it, and records the announced and acknowledged writes in a file until the
/// connection is lost.
/// Then restore the target's power and run `durio prove verify`.
///
///   durio prove witness --listen 192.168.1.5:9119 --ledger cut-1.jsonl
///   durio prove write /dev/nvme1n1 --destroy /dev/nvme1n1 --witness 192.168.1.5:9119 \
///     --token-file token
///   durio prove verify /dev/nvme1n1 --ledger cut-1.jsonl
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveWitness {
    /// Address to wait at for the writer
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// Ledger file to create
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: PathBuf,

    #[command(flatten)]
    pub(crate) token: TokenOptions,

    /// How writes are made durable: fsync, fdatasync, rwf_dsync or o_dsync
    #[arg(long, value_name = "PATH", default_value = "fdatasync", value_parser = values::durable_path,
          help_heading = "Workload")]
    pub(crate) path: DurablePath,

    /// Writes in flight
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Workload")]
    pub(crate) depth: u32,

    /// Bytes of a write, a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = values::write_cells,
          help_heading = "Workload")]
    pub(crate) write_size: u64,

    /// Bytes of the target to use, from its start; all of it is read twice after each cut [default:
    /// 1GiB, at most all]
    #[arg(long, value_name = "SIZE", help_heading = "Workload")]
    pub(crate) size: Option<Bytes>,

    /// Seed of all random choices [default: a new one]
    #[arg(long, value_name = "NUMBER", help_heading = "Workload")]
    pub(crate) seed: Option<u64>,

    /// Treat the writer as gone after this long without a message
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) silence: Nanos,
}

/// Write stamped data for a witness until the power is cut
///
/// Runs on the machine whose power is cut, controlled by a witness: `durio prove witness`, or
/// `durio prove run`, for which it also reads the target after the cut. For that, start it at boot
/// by a systemd unit with Restart=always.
///
/// TARGET is a block device, a file, or an NBD URI such as nbd+unix:///?socket=/tmp/disk. All of it is
/// overwritten, so --destroy must name it; a device that is mounted or in use is refused.
///
///   durio prove write /dev/nvme1n1 --destroy /dev/nvme1n1 --witness 192.168.1.5:9119 \
///     --token-file token
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveWrite {
    /// A block device, a file, or an NBD URI
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,

    /// The witness's address
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) witness: SocketAddr,

    #[command(flatten)]
    pub(crate) token: TokenOptions,

    /// Allow overwriting this target (exact path, URI or serial number)
    #[arg(long, value_name = "TARGET", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    /// Allow --destroy also on a filesystem or a RAID member
    #[arg(long, requires = "destroy", help_heading = "Safety")]
    pub(crate) force_signature: bool,

    /// sync, uring or aio [default: uring where the kernel has it]
    #[arg(long, value_name = "ENGINE", value_parser = values::real_engine)]
    pub(crate) engine: Option<EngineKind>,
}

/// Read a target after a power cut, and report which writes of the ledger are missing
///
/// Reads everything twice, past the page cache, and writes nothing. Exits with 1 if acknowledged
/// data is missing, and with 3 if the cut is inconclusive.
///
///   durio prove verify /dev/nvme1n1 --ledger cut-1.jsonl
///   durio prove verify 'nbd+unix:///?socket=/tmp/disk' --ledger cut-1.jsonl --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveVerify {
    /// A block device, a file, or an NBD URI
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,

    /// Ledger of the witness
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Show what a proof spec would do: each series, its power cuts, the expected result
///
/// Writes nothing and cuts nothing. Without SPEC it lists the built-in proof specs.
/// `durio spec show NAME` prints one to start from; --schema prints a JSON schema for editors.
///
///   durio prove plan
///   durio prove plan prove-smoke
///   durio prove plan my-disks.toml --only nbd/ --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProvePlan {
    /// A TOML file, or the name of a built-in proof spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    /// Only series whose name contains this text (can be repeated)
    #[arg(long, value_name = "TEXT", requires = "spec", help_heading = "What")]
    pub(crate) only: Vec<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Print the JSON schema of proof specs
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}

/// Check every state that a power cut can leave on a disk, from a log of its writes
///
/// The log was written by the kernel's dm-log-writes, or by `durio simdisk serve --record`. Between two
/// boundaries (a mark, a flush, a write with FUA) a cut leaves the durable writes and any subset of
/// the others: durio creates the states with none, one, two, all but one and all of them.
///
/// CHECK is a command that examines one state. $DURIO_STATE is the state as a disk image, in a
/// folder that is removed at the end; the check may change it, as a journal's recovery does.
/// $DURIO_MARK is the last mark before the cut, which names the acknowledged work (durio simdisk
/// mark, dmsetup message DEVICE 0 mark NAME). Exit code 0 means that the state is good, 1 that it
/// is bad; any other code is inconclusive.
///
///   durio prove states run.log --size 64MiB -- sh check.sh
///   durio prove states run.log --base before.img --limit 5000 --format json -- ./check
///   durio prove states run.log --size 64MiB --only 120:all-7 --save bad.img
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveStates {
    /// The log of writes
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,

    /// The command that checks a state, after --
    #[arg(value_name = "CHECK", last = true, required_unless_present = "save")]
    pub(crate) check: Vec<OsString>,

    /// Size of the disk [default: the size of --base]
    #[arg(long, value_name = "SIZE", required_unless_present = "base", help_heading = "The disk")]
    pub(crate) size: Option<Bytes>,

    /// Image of the disk before the log [default: zeros]
    #[arg(long, value_name = "FILE", help_heading = "The disk")]
    pub(crate) base: Option<PathBuf>,

    /// Maximum number of states; if there are more, each part of the log gets fewer
    #[arg(long, value_name = "COUNT", default_value_t = 1000, help_heading = "Which states",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    /// Seed of the choice among them
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Which states")]
    pub(crate) seed: u64,

    /// Only this state, by its name in a report
    #[arg(long, value_name = "STATE", help_heading = "Which states")]
    pub(crate) only: Option<StateName>,

    /// Save that state, as the cut leaves it, to a new file
    #[arg(long, value_name = "FILE", requires = "only", help_heading = "Which states")]
    pub(crate) save: Option<PathBuf>,

    /// Time limit for each check; one that takes longer is killed and counts as inconclusive
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) time_limit: Nanos,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(super) fn prove(arguments: &ProveArguments) -> Result<Exit, CommandError> {
    match &arguments.command {
        ProveCommand::Run(arguments) => run(arguments),
        ProveCommand::Witness(arguments) => witness(arguments),
        ProveCommand::Write(arguments) => write(arguments),
        ProveCommand::Verify(arguments) => verify(arguments),
        ProveCommand::States(arguments) => states(arguments),
        ProveCommand::InGuest { order } => prove_in_guest(order).map(|()| Exit::Fine),
        ProveCommand::CommandInGuest { order, command } => {
            command_in_guest(order, command).map(Exit::Command)
        }
        ProveCommand::Exec(arguments) => exec(arguments),
        ProveCommand::Plan(arguments) => plan(arguments),
    }
}

fn witness(arguments: &ProveWitness) -> Result<Exit, CommandError> {
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let token = token(&arguments.token)?.unwrap_or_else(|| {
        let token = random_token();
        output::remark(&format!("durio: the token is {token}"));
        token
    });
    warn_of_reach(arguments.listen);
    let request = WitnessTerms {
        listen: arguments.listen,
        token: &token,
        ledger: &arguments.ledger,
        arm: Arm { write_cells: arguments.write_size, ..Arm::new(arguments.path, arguments.depth) },
        size: arguments.size,
        seed: arguments.seed.unwrap_or_else(random_seed),
        silence: arguments.silence,
    };
    let acknowledged = keep_ledger(&request, &stop, &terminal)?;
    let ledger = shell_word(&arguments.ledger.display().to_string());
    output::answer_text(&format!(
        "the writer is gone; {acknowledged} writes were acknowledged\n\
         Next: durio prove verify TARGET --ledger {ledger}\n"
    ))?;
    Ok(if stop.is_set() { Exit::INTERRUPTED } else { Exit::Fine })
}

fn write(arguments: &ProveWrite) -> Result<Exit, CommandError> {
    let ProveWrite { target, destroy, force_signature, engine, .. } = arguments;
    let token = token(&arguments.token)?.ok_or_else(|| {
        CommandError::wrong_use("no token: the witness refuses writers without one")
            .hint("give --token-file or --token, or set DURIO_TOKEN")
    })?;
    let storage = ProofStorage::find(target, destroy, *force_signature, *engine)?;
    be_agent(storage, arguments.witness, &token)?;
    Ok(Exit::Fine)
}

fn verify(arguments: &ProveVerify) -> Result<Exit, CommandError> {
    refuse_fio(arguments.output)?;
    let storage = ProofStorage::find(&arguments.target, &[], false, None)?;
    let findings = verify_target(&arguments.target, storage, &arguments.ledger)?;
    output::report(arguments.output, &findings)?;
    Ok(verdict(&findings))
}

pub(super) fn plan(arguments: &ProvePlan) -> Result<Exit, CommandError> {
    let Some(spec) = &arguments.spec else {
        let text = match arguments.schema {
            true => proof_spec_json_schema(),
            false => format!(
                "Built-in proof specs; durio prove plan NAME shows one:\n\n{}",
                spec::listed(&spec::proofs()?)
            ),
        };
        return output::answer(text.as_bytes()).map(|()| Exit::Fine);
    };
    output::refuse_fio(arguments.output, "PROOF")?;
    // A proof draws its seed; a plan does not need one.
    let plan = plan_power_proof(spec, Some(0), None, &arguments.only, None)?;
    output::report(arguments.output, &plan).map(|()| Exit::Fine)
}

pub(super) fn states(arguments: &ProveStates) -> Result<Exit, CommandError> {
    refuse_fio(arguments.output)?;
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let request = CrashStatesRequest {
        log: &arguments.log,
        base: arguments.base.as_deref(),
        size: arguments.size,
        limit: usize::try_from(arguments.limit).unwrap_or(usize::MAX),
        seed: arguments.seed,
        check: &arguments.check,
        patience: arguments.time_limit,
    };
    let findings = match arguments.only {
        Some(name) => check_crash_state(&request, name, arguments.save.as_deref(), &stop)?,
        None => check_crash_states(&request, &stop, &terminal)?,
    };
    if arguments.check.is_empty() {
        return Ok(Exit::Fine);
    }
    output::report(arguments.output, &findings)?;
    Ok(match findings.verdict() {
        _ if !findings.is_complete => Exit::INTERRUPTED,
        CheckOutcome::Passed => Exit::Fine,
        CheckOutcome::Failed => Exit::Negative,
        CheckOutcome::Undecided => Exit::CANNOT_MEASURE,
    })
}
