//! `cargo xtask bench`: durio measured, next to the installed fio in the same run.
//!
//! Needs this checkout, fio, valgrind and strace; prints tables in Markdown and the goals that
//! hold. With `--write` they replace that bench's part of docs/benchmarks.md, which has the method.
//! Only ratios of the same run mean something on a shared machine.

mod agree;
mod build;
mod compare;
mod corpus;
mod databases;
mod durio;
mod figures;
mod fio;
mod fleet_hosts;
mod fleet_lab;
mod fsync;
mod gate;
mod group_commit;
mod instructions;
mod machine;
mod nbd;
mod prove;
mod report;
mod session;
mod why;

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::{env, fs};

use agree::Way;
use anyhow::{Context, Result, ensure};
use clap::Subcommand;

use crate::cargo;

pub(crate) use figures::print_table;
pub(crate) use fleet_lab::load::live_report;
pub(crate) use fsync::newest_postgresql;
pub(crate) use machine::filesystem;
pub(crate) use machine::kernel;
pub(crate) use machine::print_machine;
pub(crate) use session::Interrupt;

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
    /// How often verdicts on hosts of a fleet are wrong, by simulated campaigns
    FleetHosts(fleet_hosts::FleetHostsArguments),
    /// Campaigns on hosts in network namespaces: a slow one, failures, one disk, kills, starts, costs
    FleetLab(fleet_lab::FleetLabArguments),
    /// What hundreds of scripted hosts cost the real coordinator and its bus
    FleetLoad(fleet_lab::load::FleetLoadArguments),
    /// Causes of slow commits that are planted, and what `durio why` calls them
    Why(why::WhyArguments),
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
        return run_bench();
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
        BenchCommand::FleetHosts(arguments) => fleet_hosts::run(arguments, &interrupt),
        BenchCommand::FleetLab(arguments) => fleet_lab::run(arguments, &interrupt),
        BenchCommand::FleetLoad(arguments) => fleet_lab::load::run(arguments, &interrupt),
        BenchCommand::Why(arguments) => why::run(arguments, &interrupt),
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

const DOCUMENT: &str = "docs/benchmarks.md";
const OPTION: &str = "--write";
const END: &str = "<!-- end -->";

/// Runs the bench of this process's arguments, and writes its output to the document.
fn run_bench() -> Result<ExitCode> {
    let words: Vec<_> = env::args().collect();
    write_down(&bench_name(&words)?)
}

/// Runs this process's arguments, and writes the output behind the mark of this command.
pub(crate) fn write_down(command: &str) -> Result<ExitCode> {
    let words: Vec<_> = env::args().skip(1).filter(|word| word != OPTION).collect();
    let path = cargo::workspace_root().join(DOCUMENT);
    let document = || fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"));
    // A bench takes minutes: report a missing mark before it.
    let mark = format!("<!-- cargo xtask {command} -->");
    replaced(&document()?, &mark, "")?;
    let program = env::current_exe().context("this program has no path")?;
    let mut child = Command::new(program)
        .args(&words)
        .stdout(Stdio::piped())
        .spawn()
        .context("the bench cannot be started")?;
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
        let line = line?;
        writeln!(io::stdout(), "{line}")?;
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let status = child.wait().context("the bench cannot be waited for")?;
    ensure!(status.success(), "the bench failed; {DOCUMENT} is as it was");
    // It may have been edited in the meantime.
    fs::write(&path, replaced(&document()?, &mark, &text)?)
        .with_context(|| format!("cannot write {DOCUMENT}"))?;
    eprintln!("written to {DOCUMENT}");
    Ok(ExitCode::SUCCESS)
}

/// The command of a bench, without its options.
fn bench_name(words: &[String]) -> Result<String> {
    let name = words
        .iter()
        .skip_while(|word| *word != "bench")
        .skip(1)
        .find(|word| !word.starts_with('-'));
    Ok(format!("bench {}", name.context("no bench is named")?))
}

/// The document with another text behind the mark.
pub(crate) fn replaced(document: &str, mark: &str, text: &str) -> Result<String> {
    let (before, rest) = document
        .split_once(mark)
        .with_context(|| format!("there is no line '{mark}' where its figures go"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("no '{END}' after '{mark}'"))?;
    Ok(format!("{before}{mark}\n\n{}\n\n{END}{after}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let document = "a\n<!-- cargo xtask bench x -->\nold\n<!-- end -->\nb\n<!-- end -->\n";
        let words = ["bench", "--check", "x", "--pairs", "7"].map(str::to_owned);
        let name = bench_name(&words).unwrap();
        assert_eq!(name, "bench x");
        let mark = format!("<!-- cargo xtask {name} -->");
        let now = replaced(document, &mark, "new\n").unwrap();
        let expected = "a\n<!-- cargo xtask bench x -->\n\nnew\n\n<!-- end -->\nb\n<!-- end -->\n";
        assert_eq!(now, expected);
        assert_eq!(replaced(&now, &mark, "new\n").unwrap(), expected);
        assert!(replaced(document, "<!-- cargo xtask bench y -->", "new").is_err());
    }
}
