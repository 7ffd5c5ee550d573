//! `cargo xtask bench`: durio measured, with the installed fio beside it in the same run.
//!
//! In: this checkout, fio, valgrind, strace. Out: tables, in Markdown, and the goals that hold.
//! Not here: absolute claims. Only ratios of the same run mean something on a shared machine; the
//! method is in docs/benchmarks.md.

mod agree;
mod callgrind;
mod compare;
mod corpus;
mod durio;
mod figures;
mod fio;
mod fsync;
mod gate;
mod goals;
mod group_commit;
mod instructions;
mod limits;
mod load;
mod machine;
mod measured;
mod pg_test_fsync;
mod report;
mod scratch;
mod session;
mod strace;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use agree::Way;
pub(crate) use session::Interrupt;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// CPU time per I/O and IOPS against fio, and durio's own limits
    #[command(name = "self")]
    Own(compare::Arguments),
    /// User instructions and system calls per I/O
    Instructions(instructions::Arguments),
    /// The same job on a real file by fio, durio, and fio again
    Agree(agree::Arguments),
    /// The same command line on a real file by fio, imported by durio, and by fio again
    Import(agree::Arguments),
    /// Job files of fio from elsewhere: how many durio accepts, and whether it does the same
    Corpus(corpus::Arguments),
    /// One block rewritten, each write made durable: by pg_test_fsync, durio, and it again
    Fsync(fsync::Arguments),
    /// How often `durio compare --fail-over` is wrong, on runs of a real file
    #[command(name = "compare")]
    Gate(gate::Arguments),
    /// CPU time and memory of report and compare over a campaign of 500 steps
    Report(report::Arguments),
    /// CPU time per committed record, and group commit against independent writers on a real file
    GroupCommit(group_commit::Arguments),
}

/// Exit code of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Runs one bench; with `--check`, a goal that does not hold is a failure.
pub(crate) fn run(command: &Command) -> Result<ExitCode> {
    let interrupt = Interrupt::watch()?;
    let result = match command {
        Command::Own(arguments) => compare::run(arguments, &interrupt),
        Command::Instructions(_) => instructions::run(&interrupt),
        Command::Agree(arguments) => agree::run(arguments, Way::Own, &interrupt),
        Command::Import(arguments) => agree::run(arguments, Way::Imported, &interrupt),
        Command::Corpus(arguments) => corpus::run(arguments, &interrupt),
        Command::Fsync(arguments) => fsync::run(arguments, &interrupt),
        Command::Gate(arguments) => gate::run(arguments, &interrupt),
        Command::Report(arguments) => report::run(arguments, &interrupt),
        Command::GroupCommit(arguments) => group_commit::run(arguments, &interrupt),
    };
    if interrupt.came() {
        eprintln!("interrupted; the temporary files are removed");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let missed = result?.iter().any(|goal| !goal.holds);
    Ok(if command.checks() && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Command {
    fn checks(&self) -> bool {
        match self {
            Self::Own(arguments) => arguments.check,
            Self::Instructions(arguments) => arguments.check,
            Self::Agree(arguments) | Self::Import(arguments) => arguments.check,
            Self::Corpus(arguments) => arguments.check,
            Self::Fsync(arguments) => arguments.check,
            Self::Gate(arguments) => arguments.check,
            Self::Report(arguments) => arguments.check,
            Self::GroupCommit(arguments) => arguments.check,
        }
    }
}
