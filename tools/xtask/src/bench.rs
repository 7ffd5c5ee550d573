//! `cargo xtask bench`: durio measured, next to the installed fio in the same run.
//!
//! Needs this checkout, fio, valgrind and strace; prints tables in Markdown and the goals that
//! hold. With `--write` they replace that bench's part of docs/benchmarks.md, which has the method.
//! Only ratios of the same run mean something on a shared machine.

mod agree;
mod build;
mod callgrind;
mod compare;
mod corpus;
mod databases;
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
mod nbd;
mod pg_test_fsync;
mod prove;
mod report;
mod scratch;
mod session;
mod strace;
mod table;
mod written;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use agree::Way;
pub(crate) use machine::print_machine;
pub(crate) use machine::{filesystem, kernel};
pub(crate) use pg_test_fsync::newest_postgresql;
pub(crate) use session::Interrupt;
pub(crate) use table::print as print_table;
pub(crate) use written::{replaced, run as write_down};

/// What is measured, and what becomes of it.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    bench: BenchCommand,
    /// Exit with 1 if a goal does not hold
    #[arg(long, global = true)]
    check: bool,
    /// Replace this bench's figures in docs/benchmarks.md by what is printed
    #[arg(long, global = true)]
    write: bool,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// CPU time per I/O and IOPS against fio, and durio's own limits
    #[command(name = "self")]
    Own(compare::CompareArguments),
    /// User instructions and system calls per I/O
    Instructions,
    /// The same job on a real file by fio, durio, and fio again
    Agree(agree::AgreeArguments),
    /// The same command line on a real file by fio, imported by durio, and by fio again
    Import(agree::AgreeArguments),
    /// Job files of fio from elsewhere: how many durio accepts, and whether it does the same
    Corpus(corpus::CorpusArguments),
    /// One block rewritten, each write made durable: by pg_test_fsync, durio, and it again
    Fsync(fsync::FsyncArguments),
    /// How often `durio compare --fail-over` is wrong, on runs of a real file
    #[command(name = "compare")]
    Gate(gate::GateArguments),
    /// CPU time and memory of report and compare over a campaign of 500 steps
    Report,
    /// CPU time per committed record, and group commit against independent writers on a real file
    GroupCommit(group_commit::GroupCommitArguments),
    /// The NBD server against nbdkit's memory plugin, under fio's nbd engine
    Nbd(nbd::NbdArguments),
    /// Real databases and what `durio predict` says of them, in the same folder, by turns
    ///
    /// postgresql, mariadb, etcd, redis, rocksdb, sqlite-wal, sqlite-rollback; how each is loaded is in
    /// tools/xtask/src/databases/table.rs. Exit code 3 if a package is missing.
    #[command(verbatim_doc_comment)]
    Databases(databases::DatabaseBenchArguments),
    /// Crash states of a recorded run, made and checked per second
    Prove,
    /// Time of a fresh build and of a rebuild, by crate, and the size of the packaged binary
    Build,
}

/// Exit code of a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs one bench; with `--check`, a missed goal is a failure.
pub(crate) fn run(arguments: &BenchArguments) -> Result<ExitCode> {
    if let BenchCommand::Databases(these) = &arguments.bench
        && let Some(code) = these.cannot(arguments.write)?
    {
        return Ok(code);
    }
    if arguments.write {
        return written::run_bench();
    }
    let interrupt = Interrupt::watch()?;
    let result = match &arguments.bench {
        BenchCommand::Own(arguments) => compare::run(arguments, &interrupt),
        BenchCommand::Instructions => instructions::run(&interrupt),
        BenchCommand::Agree(arguments) => agree::run(arguments, Way::Own, &interrupt),
        BenchCommand::Import(arguments) => agree::run(arguments, Way::Imported, &interrupt),
        BenchCommand::Corpus(arguments) => corpus::run(arguments, &interrupt),
        BenchCommand::Fsync(arguments) => fsync::run(arguments, &interrupt),
        BenchCommand::Gate(arguments) => gate::run(arguments, &interrupt),
        BenchCommand::Report => report::run(&interrupt),
        BenchCommand::GroupCommit(arguments) => group_commit::run(arguments, &interrupt),
        BenchCommand::Nbd(arguments) => nbd::run(arguments, &interrupt),
        BenchCommand::Databases(arguments) => databases::run(arguments, &interrupt),
        BenchCommand::Prove => prove::run(&interrupt),
        BenchCommand::Build => build::run(&interrupt),
    };
    if interrupt.came() {
        eprintln!("interrupted; the temporary files are removed");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let missed = result?.iter().any(|goal| !goal.holds);
    Ok(if arguments.check && missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
