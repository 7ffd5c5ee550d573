//! `durio prove run` and `durio prove exec`: series of power cuts, of a spec and under a user's command.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use durio_base::{Bytes, Nanos};
use durio_bench::{
    RunOptions, find_run, interrupted_power_proof, new_power_proof, plan_command_proof,
    plan_power_proof, read_power_proof, save_power_proof,
};
use durio_command::{CommandError, CommandErrorKind, Ending};
use durio_lab::{LabRequest, LabRoot};
use durio_plan::proof::{CommandGuest, CommandTarget, GuestFrontEnd, GuestLayers, ProofTarget};
use durio_prove::{ProofOutcome, name_kernels, prove_power};
use durio_record::proof::{ProofFindings, ProofVerdict, SeriesFindings};
use durio_report::Format;

use super::{lab, simdisk};
use crate::exit_code::{Exit, TABLE};
use crate::measure::clear_up;
use crate::options::OutputArguments;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::{output, values};

/// Run a proof spec: its targets, paths and power cuts
///
/// Each target is tested on each path until it loses acknowledged data, or has survived the number
/// of power cuts in the spec. The seed is printed first; the same --seed gives the same table. The
/// result is a folder that `durio report` shows.
///
///   durio prove run prove-smoke
///   durio prove run prove-smoke --only flush-ignored --seed 7
///   durio prove run --resume ~/.local/state/durio/runs/NAME
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveRun {
    /// A TOML file, or the name of a built-in proof spec (durio spec show prints one)
    #[arg(value_name = "SPEC", required_unless_present = "resume")]
    pub(crate) spec: Option<PathBuf>,

    /// Resume an interrupted proof, in its folder
    #[arg(long, value_name = "RUN", conflicts_with_all = ["spec", "seed", "cuts", "only", "out"])]
    pub(crate) resume: Option<PathBuf>,

    /// Only series whose name contains this text (can be repeated)
    #[arg(long, value_name = "TEXT", help_heading = "What")]
    pub(crate) only: Vec<String>,

    /// Cuts per series, instead of the spec's number: a number, smoke (5), standard (59), strong
    /// (299) or paper (3000)
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
    /// Secret shared by witness and writer; visible in the process list, and sent in clear text
    /// [default: $DURIO_TOKEN; without it, witness and run generate one]
    #[arg(long, value_name = "TEXT", conflicts_with = "token_file")]
    pub(crate) token: Option<String>,

    /// Read the token from the first line of this file
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Test whether data that your command acknowledges survives power cuts
///
/// Runs COMMAND in a lab guest with its files on a simulated disk, cuts the power of disk and guest
/// at the same instant, boots again, and runs your check. Every cut starts with the disk as the
/// setup left it.
///
///   durio prove exec --disk flush-ignored --setup 'contrib/prove/sqlite.sh setup' \
///     --check 'contrib/prove/sqlite.sh check' -- contrib/prove/sqlite.sh load
///
/// The contract, for all three:
///
///   $DURIO_DATA          an empty folder on the disk's filesystem; its files are tested
///   COMMAND              prints one unbuffered line to stdout for each durable item, such as
///                        "committed 17"; runs until the power is cut
///   $DURIO_ACKNOWLEDGED  a file with the lines received before the power was cut; for --check
///   --check              exits with 0 if all items are intact, with 1 if one is missing or corrupt;
///                        any other code is inconclusive, and ends the proof with exit code 3
///
/// A filesystem that cannot be mounted after a cut counts as a loss. A cut counts if 32 lines were
/// printed before it; the first loss ends the proof. The result is a folder that `durio report`
/// shows; `durio prove run --resume` resumes it. Scripts for SQLite and PostgreSQL are in
/// contrib/prove, and in /usr/share/doc/durio/examples/prove of the package.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProveExec {
    /// Simulated disk, as listed by durio simdisk list; it misbehaves once the setup has ended
    #[arg(long, value_name = "PROFILE", default_value = "write-back", value_parser = values::SIMDISK,
          hide_possible_values = true, help_heading = "What")]
    pub(crate) disk: String,

    /// Command that looks for losses after each cut, run by sh -c
    #[arg(long, value_name = "SHELL_COMMAND", help_heading = "What")]
    pub(crate) check: String,

    /// Command that prepares $DURIO_DATA once, before the disk misbehaves, run by sh -c
    #[arg(long, value_name = "SHELL_COMMAND", help_heading = "What")]
    pub(crate) setup: Option<String>,

    /// Number of cuts without a loss that ends the proof
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "What")]
    pub(crate) cuts: u32,

    /// Time from the command's first line to the cut; the seed extends it to up to twice as long
    #[arg(long, value_name = "TIME", default_value = "2s", help_heading = "What")]
    pub(crate) load: Nanos,

    /// Seed of all random choices [default: a new one]
    #[arg(long, value_name = "NUMBER", help_heading = "What")]
    pub(crate) seed: Option<u64>,

    /// Size of the disk, 16 MiB to 4 GiB, a multiple of 4 KiB; formatted with ext4
    #[arg(long, value_name = "SIZE", default_value = "256MiB", help_heading = "Guest")]
    pub(crate) size: Bytes,

    /// Device type that QEMU emulates
    #[arg(long, value_name = "DEVICE", default_value = GuestFrontEnd::VirtioBlk.word(), help_heading = "Guest",
          value_parser = values::one_of(&GuestFrontEnd::ALL, GuestFrontEnd::word))]
    pub(crate) front_end: GuestFrontEnd,

    /// Whether that device has a volatile write cache; without it QEMU sends every write with FUA
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set,
          help_heading = "Guest")]
    pub(crate) write_cache: bool,

    /// Kernel to boot: an image, or a release as durio lab kernels lists it [default: the newest]
    #[arg(long, value_name = "KERNEL", help_heading = "Guest")]
    pub(crate) kernel: Option<String>,

    /// Root filesystem of the guest: this machine's, read-only (shared), or its own (hermetic)
    ///
    /// As for durio lab run: with a shared root the guest has everything that is installed here,
    /// and runs in the current folder; /tmp, /run, /mnt and /var/tmp are empty. A hermetic guest
    /// has durio, a shell, the usual programs, COMMAND, and what --tool and --file add; it runs in
    /// $DURIO_DATA.
    #[arg(long, value_name = "ROOT", default_value = LabRoot::Shared.word(), help_heading = "Guest",
          value_parser = values::one_of(&LabRoot::ALL, LabRoot::word))]
    pub(crate) root: LabRoot,

    /// Memory of the guest, including its files
    #[arg(long, value_name = "SIZE", default_value_t = LabRequest::MEMORY_DEFAULT,
          help_heading = "Guest")]
    pub(crate) memory: Bytes,

    /// Time limit for each boot, in this machine's time
    #[arg(long, value_name = "TIME", default_value = "30m", help_heading = "Guest")]
    pub(crate) time_limit: Nanos,

    /// Add a program and its libraries to a hermetic guest (can be repeated)
    #[arg(long = "tool", value_name = "PROGRAM", help_heading = "Contents")]
    pub(crate) tools: Vec<String>,

    /// Copy this file or folder into the guest, to the same path or to GUEST_PATH (can be repeated)
    #[arg(long = "file", value_name = "PATH[:GUEST_PATH]", help_heading = "Contents")]
    pub(crate) files: Vec<OsString>,

    /// Create the folder in this directory instead of the state folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub(crate) command: Vec<String>,
}

pub(super) fn run(arguments: &ProveRun) -> Result<Exit, CommandError> {
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
pub(super) fn conclude(
    wished: OutputArguments,
    proved: ProofOutcome,
) -> Result<Exit, CommandError> {
    let ProofOutcome { folder, findings, ending } = proved;
    save_power_proof(&folder, &findings)?;
    let ending = ending?;
    output::report(wished, &findings)?;
    if ending != Ending::Complete {
        return Ok(ending.into());
    }
    Ok(verdict(&findings))
}

/// 1 if a result was not as expected, 3 without a result.
pub(super) fn verdict(findings: &ProofFindings) -> Exit {
    let is_open = |series: &SeriesFindings| series.verdict == ProofVerdict::Inconclusive;
    if findings.unexpected().any(|series| !is_open(series)) {
        Exit::Negative
    } else if findings.series.iter().any(is_open) {
        Exit::CANNOT_MEASURE
    } else {
        Exit::Fine
    }
}

pub(super) fn warn_of_reach(address: SocketAddr) {
    output::warn_of_reach(address, "and knows the token can act as the writer");
}

/// The longest token: it must fit into the first line of an agent.
const TOKEN_BYTES_MAX: u64 = 1024;

/// The given token: by an option, a file or the environment.
pub(super) fn token(options: &TokenOptions) -> Result<Option<String>, CommandError> {
    let token = match (&options.token, &options.token_file) {
        (Some(token), _) => token.clone(),
        (None, Some(path)) => token_of(path)?,
        (None, None) => match std::env::var("DURIO_TOKEN") {
            Ok(token) => token,
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => {
                return Err(
                    CommandError::of(CommandErrorKind::WrongUse, error).context("DURIO_TOKEN")
                );
            }
        },
    };
    let length = token.len() as u64;
    if length == 0 || length > TOKEN_BYTES_MAX || token.contains('\n') {
        let text = format!("the token has {length} bytes; expected one line of 1 to 1024 bytes");
        return Err(CommandError::wrong_use(text));
    }
    Ok(Some(token))
}

fn token_of(path: &Path) -> Result<String, CommandError> {
    let cannot = |error| CommandError::io("read the token file", path, error);
    let mut text = String::new();
    // With the end of its line, and one byte that shows that it is too long.
    let file = File::open(path).map_err(cannot)?;
    file.take(TOKEN_BYTES_MAX + 3).read_to_string(&mut text).map_err(cannot)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// fio's format has no place for power cuts: refuse it before the first of them.
pub(super) fn refuse_fio(wished: OutputArguments) -> Result<(), CommandError> {
    match wished.format() {
        Format::FioJson => {
            Err(output::unsupported(wished, "expected text, json, html, markdown or csv"))
        }
        _ => Ok(()),
    }
}

/// `durio report` of a proof folder.
pub(super) fn show(path: &Path, wished: OutputArguments) -> Result<Exit, CommandError> {
    output::report(wished, &read_power_proof(path)?)?;
    Ok(Exit::Fine)
}

pub(super) fn exec(arguments: &ProveExec) -> Result<Exit, CommandError> {
    refuse_fio(arguments.output)?;
    let mut plan = plan_command_proof(target(arguments)?, arguments.cuts, arguments.seed)?;
    let options = RunOptions { out: arguments.out.as_deref(), ..RunOptions::default() };
    let stop = stop_on_signals()?;
    name_kernels(&mut plan)?;
    let folder = new_power_proof(plan, &options)?;
    conclude(arguments.output, prove_power(folder, &stop, &Terminal::new(false))?)
}

fn target(arguments: &ProveExec) -> Result<CommandTarget, CommandError> {
    let ProveExec { check, setup, load, size, front_end, write_cache, .. } = arguments;
    let files = arguments.files.iter().map(|given| {
        let file = lab::file(given).map_err(CommandError::cannot)?;
        Ok([written(&file.source.canonicalize().unwrap_or(file.source))?, written(&file.guest)?])
    });
    let guest = CommandGuest {
        kernel: arguments.kernel.clone(),
        shares_root: arguments.root == LabRoot::Shared,
        tools: arguments.tools.clone(),
        files: files.collect::<Result<_, CommandError>>()?,
        memory: arguments.memory,
        limit: arguments.time_limit,
    };
    let directory = here(Path::new("."))?;
    let mut command = arguments.command.clone();
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        // A hermetic guest runs it in another folder.
        *program = written(&here(Path::new(program.as_str()))?)?;
    }
    Ok(CommandTarget {
        command,
        setup: setup.clone(),
        check: check.clone(),
        directory: written(&directory)?,
        load: *load,
        profile: simdisk::known(&arguments.disk)?.name.to_owned(),
        size: *size,
        front_end: *front_end,
        write_cache: *write_cache,
        layers: GuestLayers::EXT4,
        guest,
    })
}

fn here(path: &Path) -> Result<PathBuf, CommandError> {
    std::path::absolute(path).map_err(|error| CommandError::io("find", path, error))
}

/// The record is JSON.
fn written(path: &Path) -> Result<String, CommandError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        CommandError::wrong_use(format!("the path '{}' is not UTF-8", path.display()))
    })
}
