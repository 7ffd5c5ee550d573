//! `bench nbd`: durio's NBD server next to nbdkit's memory plugin, under the same client; with
//! `--array` a mirror of two files next to nbdkit's file plugin over one.
//!
//! Prints rates of fio's nbd engine against both, interleaved, and the goals. Both serve memory
//! over a unix socket, and fio's single job is one connection: this compares how requests are taken
//! and answered; with the mirror also the cost of writing two files, each durably, instead of one
//! that is not. Foreign load is not distinguished from that of the servers.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};

use super::figures::{self, BenchGoal, Ratio, median};
use super::session::{self, Interrupt};
use super::{fio, machine};
use crate::cargo;

/// Options of `bench nbd`.
#[derive(Debug, clap::Args)]
pub(crate) struct NbdArguments {
    /// Rounds; ratios are medians over them
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,

    /// Seconds per trial
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// Serve a mirror of two files in /dev/shm, beside nbdkit's file plugin over one
    #[arg(long)]
    array: bool,
}

const MEBIBYTES: u64 = 256;

/// How long a server may take until it answers.
const BEGIN: Duration = Duration::from_secs(20);

/// The workload, and the least ratio of durio's rate to nbdkit's.
type NbdCase = (&'static str, u32, f64);
const CASES: [NbdCase; 4] =
    [("randwrite", 16, 1.2), ("randread", 16, 1.0), ("randwrite", 1, 1.0), ("randread", 1, 1.0)];
const ARRAY_CASES: [NbdCase; 4] =
    [("randwrite", 16, 1.0), ("randread", 16, 1.0), ("randwrite", 1, 1.0), ("randread", 1, 1.0)];

/// A server, until it is dropped.
pub(super) struct NbdServerProcess {
    program: Child,
    socket: PathBuf,
}

impl NbdServerProcess {
    pub(super) fn begin(mut command: Command, socket: PathBuf) -> Result<Self> {
        // durio's ends with this pipe.
        let program = command.stdin(Stdio::piped()).spawn().context("cannot run the server")?;
        let serving = Self { program, socket };
        let begin = Instant::now();
        while std::os::unix::net::UnixStream::connect(&serving.socket).is_err() {
            ensure!(begin.elapsed() < BEGIN, "{}: nobody answers", serving.socket.display());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(serving)
    }

    pub(super) fn uri(&self) -> String {
        // The folder of benches has no name that would have to be spelt out.
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
}

impl Drop for NbdServerProcess {
    fn drop(&mut self) {
        // A server that has already ended is fine.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Runs `bench nbd`.
pub(super) fn run(arguments: &NbdArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    let scratch = session::folder(&target)?;
    // A socket's address has 108 bytes, which a folder among others' does not leave.
    let sockets = tempfile::tempdir().context("cannot make a folder for sockets")?;
    // Removed before the servers end: they keep the files open.
    let memory = tempfile::tempdir_in("/dev/shm").context("cannot make a folder in /dev/shm")?;
    let (title, cases, durio, nbdkit) = if arguments.array {
        let title =
            "a mirror of two files and nbdkit's file plugin over one, under fio's nbd engine";
        let durio = serve_array(&target, scratch.path(), sockets.path(), memory.path())?;
        (title, ARRAY_CASES, durio, serve_file(sockets.path(), memory.path())?)
    } else {
        let title = "durio's NBD server and nbdkit's memory plugin, under fio's nbd engine";
        let durio = serve_durio(&target, scratch.path(), sockets.path())?;
        (title, CASES, durio, serve_nbdkit(sockets.path())?)
    };
    machine::print_machine(title);
    println!("- fio: {}", printed(Command::new("fio").arg("--version"))?);
    println!("- nbdkit: {}", printed(Command::new("nbdkit").arg("--version"))?);
    println!(
        "- trials: {} rounds, {} s each, interleaved; blocks of 4 KiB in {MEBIBYTES} MiB of memory, \
         one connection over a unix socket",
        arguments.pairs, arguments.seconds
    );
    let mut rates = vec![[Vec::new(), Vec::new()]; cases.len()];
    for round in 1..=arguments.pairs {
        eprintln!("round {round} of {}", arguments.pairs);
        one_round((&cases, &mut rates), round, interrupt, [&durio, &nbdkit], arguments.seconds)?;
    }
    print(&cases, &rates);
    let goals: Vec<_> = cases.iter().zip(&rates).map(|(case, rates)| goal(case, rates)).collect();
    figures::print_goals(&goals);
    Ok(goals)
}

/// Each comes first by turns.
fn one_round(
    (cases, rates): (&[NbdCase], &mut [[Vec<f64>; 2]]),
    round: u32,
    interrupt: &Interrupt,
    servers: [&NbdServerProcess; 2],
    seconds: u32,
) -> Result<()> {
    for ((rw, depth, _), rates) in cases.iter().zip(rates) {
        let first = (round % 2) as usize;
        for which in [first, 1 - first] {
            let options = options(&servers[which].uri(), rw, *depth, seconds);
            let text = printed(Command::new("fio").args(options.split_whitespace()));
            // Before the outcome: Ctrl-C reaches fio too, which then fails as expected.
            interrupt.check()?;
            rates[which].push(fio::parse(&text?)?.iops);
        }
    }
    Ok(())
}

fn options(uri: &str, rw: &str, depth: u32, seconds: u32) -> String {
    format!(
        "--name=j --ioengine=nbd --uri={uri} --rw={rw} --bs=4k --iodepth={depth} --thread \
         --size={MEBIBYTES}M --runtime={seconds} --time_based --randrepeat=0 --output-format=json"
    )
}

fn serve_durio(target: &Path, scratch: &Path, sockets: &Path) -> Result<NbdServerProcess> {
    let mut command = built(target, scratch, "durio-nbd", "serve_memory")?;
    let socket = sockets.join("durio");
    command.arg(&socket).arg((MEBIBYTES << 20).to_string());
    NbdServerProcess::begin(command, socket)
}

fn serve_array(
    target: &Path,
    scratch: &Path,
    sockets: &Path,
    files: &Path,
) -> Result<NbdServerProcess> {
    let mut command = built(target, scratch, "durio-raid", "serve_mirror")?;
    let socket = sockets.join("durio");
    command.arg(files).arg(&socket).arg((MEBIBYTES << 20).to_string());
    NbdServerProcess::begin(command, socket)
}

/// An example of a crate, built.
fn built(target: &Path, scratch: &Path, of: &str, name: &str) -> Result<Command> {
    let words = ["build", "--release", "-p", of, "--example", name];
    let status = cargo::command(&words).status().context("cannot run cargo")?;
    ensure!(status.success(), "the server cannot be built");
    // A copy: a concurrent build replaces the original.
    let program = scratch.join(name);
    fs::copy(target.join("release/examples").join(name), &program)?;
    Ok(Command::new(program))
}

fn serve_file(sockets: &Path, files: &Path) -> Result<NbdServerProcess> {
    let (file, socket) = (files.join("nbdkit"), sockets.join("nbdkit"));
    fs::File::create_new(&file)?.set_len(MEBIBYTES << 20)?;
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--unix"]).arg(&socket).arg("file").arg(file);
    NbdServerProcess::begin(command, socket)
}

fn serve_nbdkit(sockets: &Path) -> Result<NbdServerProcess> {
    let socket = sockets.join("nbdkit");
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--unix"]).arg(&socket);
    command.args(["memory", &format!("{MEBIBYTES}M")]);
    NbdServerProcess::begin(command, socket)
}

/// A command's output; the command must succeed.
fn printed(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}\n{}", output.status, errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn print(cases: &[NbdCase], rates: &[[Vec<f64>; 2]]) {
    let rows = cases.iter().zip(rates).map(|((rw, depth, _), [durio, nbdkit])| {
        [
            format!("{rw}, depth {depth}"),
            Ratio::of(durio, nbdkit).to_string(),
            format!("{:.0}", median(durio)),
            format!("{:.0}", median(nbdkit)),
        ]
    });
    println!();
    figures::print_table(&["operations per second", "durio / nbdkit", "durio", "nbdkit"], rows);
}

fn goal((rw, depth, least): &NbdCase, [durio, nbdkit]: &[Vec<f64>; 2]) -> BenchGoal {
    let ratio = Ratio::of(durio, nbdkit).median;
    BenchGoal::at_least(format!("rate durio / nbdkit: {rw}, depth {depth}"), ratio, *least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_holds_from_its_ratio_on() {
        let holds = |durio| goal(&CASES[0], &[vec![durio; 3], vec![100.0; 3]]).holds;
        assert!(holds(120.0) && !holds(119.0) && !holds(f64::NAN));
    }

    #[test]
    fn options_name_the_server_and_the_case() {
        let options = options("nbd+unix:///?socket=/tmp/x", "randread", 16, 3);
        let words: Vec<_> = options.split_whitespace().collect();
        assert!(words.contains(&"--uri=nbd+unix:///?socket=/tmp/x"));
        assert!(words.contains(&"--iodepth=16") && words.contains(&"--rw=randread"));
    }
}
