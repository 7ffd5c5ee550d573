//! `durio replay`: repeats a database's recorded operations on other storage.

use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use durio_analyse::capture::{CaptureFindings, CaptureSource, EarlierCapture, ReplayedTrace};
use durio_base::Nanos;
use durio_bench::replay_trace;
use durio_block::open_input;
use durio_command::{CommandError, CommandErrorKind, ProgressObserver, command_line};
use durio_observe::read_host;
use durio_record::{OperationTrace, TracedOperation};
use durio_report::{Format, clock};
use durio_run::{ReplayProgress, ReplayWish};

use super::capture::{day_of, write_page};
use crate::exit_code::{Exit, TABLE};
use crate::measure::{TIME_MAX, clear_up};
use crate::options::{OutputArguments, OwnCommitArguments};
use crate::output::{self};
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::values;
use crate::values::refuse_existing;

/// Repeat the writes and syncs of a database on other storage
///
/// Repeats the writes and syncs of a trace (durio capture --trace) on temporary files in the
/// directory: the same sizes, offsets, syncs and times, by as many threads. An operation starts
/// when it is due, but never before the previous operation of its thread, or operations on its file
/// that had already finished in the trace. The report shows whether this storage keeps up, and
/// compares rates and sync times with the trace.
///
///   durio capture --unit postgresql@15-main --duration 60s --trace mine.trace
///   durio replay mine.trace /mnt/other
///   durio replay mine.trace /mnt/other --speed 2
///
/// A trace has no contents, so the data is random. Files have their original sizes; only the parts
/// that are overwritten are allocated. On slower storage a database would group more commits per
/// sync, which a replay does not: see durio predict.
///
/// Exits with 1 if the storage does not keep up: if the replay ends, or 1 % of its operations
/// start, late by more than 1 % of the replay's time (at least 50 ms).
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ReplayArguments {
    /// Trace written by durio capture --trace
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// Directory on the storage to test
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Speed relative to the trace; 0.5 is half as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = values::speed)]
    pub(crate) speed: f64,

    /// Do not ask for confirmation of a replay that takes over 10 minutes
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) own: OwnCommitArguments,

    /// Write the report as a page to this new file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,

    /// Do not show progress on stderr
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Between two lines of progress.
const TELL: Duration = Duration::from_secs(5);

pub(super) fn replay(arguments: &ReplayArguments) -> Result<Exit, CommandError> {
    if arguments.output.format() == Format::FioJson {
        let hint = "expected text, json, html, markdown or csv";
        return Err(output::unsupported(arguments.output, hint));
    }
    arguments.html.as_deref().map(refuse_existing).transpose()?;
    let ReplayArguments { trace: path, directory, speed, .. } = arguments;
    let facts =
        fs::metadata(directory).map_err(|error| CommandError::io("find", directory, error))?;
    if !facts.is_dir() {
        let text = format!("'{}' is not a directory", directory.display());
        return Err(CommandError::wrong_use(text)
            .hint("name a directory on the storage to test: the replay creates its files there"));
    }
    let trace = read(path)?;
    // Before the work: the capture to compare with.
    let before = EarlierCapture::parse(&trace.capture.to_string()).map_err(|why| {
        let text = format!("'{}' has no capture to compare with: {why}", path.display());
        CommandError::wrong_use(text)
    })?;
    ask_for_time(&trace, arguments)?;
    clear_up();
    let stop = stop_on_signals()?;
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let wish = ReplayWish {
        trace: &trace,
        directory,
        speed: *speed,
        // Any number that differs each time.
        seed: seed.as_secs() ^ u64::from(seed.subsec_nanos()) << 32,
    };
    let (told, terminal) = (Cell::new(Instant::now()), Terminal::new(arguments.quiet));
    let own = arguments.own.explained();
    let (replayed, why) = replay_trace(wish, own, &stop, &mut |progress| {
        if told.get().elapsed() >= TELL {
            told.set(Instant::now());
            terminal.progress(&format!("durio: {}", words(progress)));
        }
    })?;
    if replayed.interrupted && replayed.operations.is_empty() {
        let text = "interrupted before anything was replayed";
        return Err(CommandError::new(CommandErrorKind::Interrupted, text));
    }
    let host = read_host();
    let source = CaptureSource {
        target: format!("{} in {}", path.display(), directory.display()),
        command: command_line().join(" "),
        date: day_of(SystemTime::now()),
        kernel: host.kernel,
        host: host.hostname.unwrap_or_else(|| "this machine".to_owned()),
    };
    let replayed = ReplayedTrace {
        trace: &trace,
        speed: *speed,
        operations: &replayed.operations,
        is_cached_instead: replayed.is_cached_instead,
        processors: replayed.processors,
        own_cpu_ns: replayed.own_cpu.get(),
    };
    let mut findings = CaptureFindings::of_replay(&replayed, before, source);
    findings.why = why;
    output::report(arguments.output, &findings)?;
    arguments.html.as_deref().map(|path| write_page(path, &findings)).transpose()?;
    Ok(match findings.replay.and_then(|replay| replay.kept_up) {
        None => Exit::INTERRUPTED,
        Some(true) => Exit::Fine,
        Some(false) => Exit::Negative,
    })
}

/// A trace may have gaps of any length, and a replay waits as long.
fn ask_for_time(trace: &OperationTrace, arguments: &ReplayArguments) -> Result<(), CommandError> {
    let nanos = trace.operations.iter().map(TracedOperation::end).max().unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    let time = Nanos::new((nanos as f64 / arguments.speed) as u64);
    if time <= TIME_MAX {
        return Ok(());
    }
    let text = format!("this takes {}", clock(time));
    if arguments.yes {
        output::remark(&format!("durio: {text}"));
        return Ok(());
    }
    match output::agreed(&text)? {
        true => Ok(()),
        false => Err(CommandError::wrong_use("nothing was done")),
    }
}

fn read(path: &Path) -> Result<OperationTrace, CommandError> {
    let read = open_input(path).and_then(OperationTrace::read);
    read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            CommandError::wrong_use(format!("'{}' cannot be replayed: {error}", path.display()))
                .hint("durio capture --pid PID --trace FILE makes a trace")
        }
        _ => CommandError::io("read", path, error),
    })
}

fn words(it: ReplayProgress) -> String {
    match it {
        ReplayProgress::Layout(done, all) => format!("creating files: {done} of {all}"),
        ReplayProgress::Operations(done, all) => format!("replayed {done} of {all} operations"),
    }
}
