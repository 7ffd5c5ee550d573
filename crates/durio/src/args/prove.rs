//! The arguments of `durio prove`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use durio_base::{Bytes, Nanos};
use durio_plan::EngineKind;
use durio_plan::proof::DurablePath;

use super::{OutputArguments, ProveExec, ProvePlan, ProveStates};
use crate::exit_code::TABLE;
use crate::values;

/// Prove by power cuts whether storage keeps the writes that it acknowledges
///
/// Writes stamped data by a durable path, keeps a ledger of what was acknowledged, cuts the power, and
/// says what is missing: lost, torn, misplaced, corrupt. Survival of n cuts is stated with its bound;
/// the first loss of acknowledged data ends a series.
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
    /// Be the agent in a guest of the lab
    #[command(hide = true)]
    InGuest {
        /// What the host wants, as JSON
        order: String,
    },
    /// Run a command of the user's in a guest of the lab
    #[command(hide = true)]
    CommandInGuest {
        /// What the host wants, as JSON
        order: String,
        /// The command
        #[arg(last = true)]
        command: Vec<String>,
    },
}

/// Run a proof spec: targets, paths, cuts
///
/// Each target is tried on each path until it loses acknowledged data, or has survived the number of
/// power cuts that the spec asks for. The seed is told first; with --seed the same table comes out
/// again. The result is a folder (docs/formats/proof-folder.md) that `durio report` shows.
///
///   durio prove run prove-smoke
///   durio prove run prove-smoke --only flush-ignored --seed 7
///   durio prove run --resume ~/.local/state/durio/runs/NAME
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveRun {
    /// A TOML file (docs/formats/proof-spec.md), or the name of a built-in proof spec
    #[arg(value_name = "SPEC", required_unless_present = "resume")]
    pub(crate) spec: Option<PathBuf>,

    /// Go on with an interrupted proof, in its own folder
    #[arg(long, value_name = "RUN", conflicts_with_all = ["spec", "seed", "cuts", "only", "out"])]
    pub(crate) resume: Option<PathBuf>,

    /// Only series whose name contains this text (can be repeated)
    #[arg(long, value_name = "TEXT", help_heading = "What")]
    pub(crate) only: Vec<String>,

    /// Cuts of each series, instead of what the spec says: a number, smoke (5), standard (59), strong (299)
    /// or paper (3000)
    #[arg(long, value_name = "COUNT", value_parser = values::cuts, help_heading = "What")]
    pub(crate) cuts: Option<u32>,

    /// Seed of all random choices, to repeat a proof [default: a new one]
    #[arg(long, value_name = "NUMBER", help_heading = "What")]
    pub(crate) seed: Option<u64>,

    #[command(flatten)]
    pub(crate) token: TokenOptions,

    /// Create the folder in this directory instead of the state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The word by which a witness knows its writers.
///
/// Without an option it is that of `$DURIO_TOKEN`, which other users do not see in the list of processes.
#[derive(Debug, Default, Args)]
pub(crate) struct TokenOptions {
    /// The word by which witness and writer know each other; every user of the machine sees it in the list
    /// of processes, and it goes over the network as it is [default: $DURIO_TOKEN; without it, witness and
    /// run make one up]
    #[arg(long, value_name = "TEXT", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,

    /// Read the token from the first line of this file
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Keep the ledger of what a writer acknowledges
///
/// Runs on a machine that keeps its power. Waits for `durio prove write`, has it stamp its target and
/// write to it, and keeps what it announces and acknowledges in a file, until it is gone. Then give the
/// target its power back, and run `durio prove verify`.
///
///   durio prove witness --listen 192.168.1.5:9119 --ledger cut-1.jsonl
///   durio prove write /dev/nvme1n1 --destroy /dev/nvme1n1 --witness 192.168.1.5:9119 \
///     --token-file token
///   durio prove verify /dev/nvme1n1 --ledger cut-1.jsonl
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveWitness {
    /// Where to wait for the writer
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// The file to make (docs/formats/ledger.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: PathBuf,

    #[command(flatten)]
    pub(crate) token: TokenOptions,

    /// What makes writes durable: fsync, fdatasync, rwf_dsync or o_dsync
    #[arg(long, value_name = "PATH", default_value = "fdatasync", value_parser = values::durable_path,
          help_heading = "What is written")]
    pub(crate) path: DurablePath,

    /// Writes in flight
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "What is written")]
    pub(crate) depth: u32,

    /// Bytes of a write, a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = values::write_cells,
          help_heading = "What is written")]
    pub(crate) write_size: u64,

    /// Use so much of the target, from its begin; all of it is read twice after each cut [default:
    /// 1GiB, at most all]
    #[arg(long, value_name = "SIZE", help_heading = "What is written")]
    pub(crate) size: Option<Bytes>,

    /// Seed of all random choices [default: a new one]
    #[arg(long, value_name = "NUMBER", help_heading = "What is written")]
    pub(crate) seed: Option<u64>,

    /// Take the writer for gone when it has said nothing for so long
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) silence: Nanos,
}

/// Write stamped data for a witness, until the power goes
///
/// Runs on the machine whose power is cut, and does what its witness asks: `durio prove witness`, or
/// `durio prove run`, for which it also reads the target after the cut. Start it at boot for that
/// (docs/method/proof.md has a unit file).
///
/// TARGET is a block device, a file, or an NBD URI such as nbd+unix:///?socket=/tmp/disk. All of it is
/// overwritten, so --destroy must name it; what is mounted or in use is refused.
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
    #[arg(long, value_name = "TARGET", help_heading = "What may be overwritten")]
    pub(crate) destroy: Vec<PathBuf>,

    /// Also where a filesystem or an array's member is
    #[arg(long, requires = "destroy", help_heading = "What may be overwritten")]
    pub(crate) force_signature: bool,

    /// sync, uring or aio [default: uring where the kernel has it]
    #[arg(long, value_name = "ENGINE", value_parser = values::real_engine)]
    pub(crate) engine: Option<EngineKind>,
}

/// Read a target after a power cut, and say what of the ledger is missing
///
/// Reads everything twice, past the page cache, and only reads. Exits with 1 if acknowledged data is
/// missing, and with 3 if the cut has shown nothing.
///
///   durio prove verify /dev/nvme1n1 --ledger cut-1.jsonl
///   durio prove verify 'nbd+unix:///?socket=/tmp/disk' --ledger cut-1.jsonl --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveVerify {
    /// A block device, a file, or an NBD URI
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,

    /// The ledger that the witness kept
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}
