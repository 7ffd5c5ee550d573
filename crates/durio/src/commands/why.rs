//! `durio why`: which durable writes of a running database are slow, and why.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use durio_analyse::why::{SlowCalls, WhyFindings, explain};
use durio_base::{Bytes, Nanos};
use durio_bench::CaptureMark;
use durio_block::read_bounded;
use durio_command::{CommandError, ProgressObserver, ProgressTimer};
use durio_observe::{SlowWatchFacts, SlowWindow};
use durio_report::{Format, clock};
use durio_run::{RecordedTrace, SlowLimit, WhyWish, monotonic, watch_slow_calls, window_text};

use super::capture::{named, open_written, target, write_page};
use crate::exit_code::{Exit, TABLE};
use crate::measure::clear_up;
use crate::options::OutputArguments;
use crate::output::{self, write_new};
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::values::refuse_existing;

/// Say why durable writes of a running database are slow
///
/// Follows the calls of its threads that make writes durable (fsync, fdatasync, sync_file_range,
/// syncfs, msync, and writes with O_DSYNC or O_SYNC), and writes to files that the kernel makes
/// wait. For each slow one it shows where the time went: on a processor, behind others that ran
/// there, in a lock, the journal's commit, a limit, the block layer, the device. The causes are
/// summed up with the processes behind them and what to do about each.
///
///   durio why --unit postgresql@15-main
///   durio why --pid 812 --slower-than 20ms --for 10m --html why.html
///   durio why --path /var/lib/mysql --worst 50 --save windows
///   durio why --trace windows/0001-fdatasync-212ms.trace
///   durio why --trace /sys/kernel/tracing/trace --slower-than 5ms
///
/// Needs root and the kernel's tracefs; where that is not mounted, durio mounts it privately.
/// Nothing is left behind. Events run through a ring that is read only when a call was slow, at
/// most five times a second; the report says what this cost the database. File paths and names of
/// processes are recorded, contents never. Operations through io_uring are counted, not followed.
/// Ctrl-C ends the watch and shows the results so far.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct WhyArguments {
    #[command(flatten)]
    pub(crate) whom: WhyWhom,

    /// Explain calls that take at least this time, such as 20ms
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "worst",
        help_heading = "Which calls are slow"
    )]
    pub(crate) slower_than: Option<Nanos>,

    /// Explain the slowest calls, this many [default: 20]
    ///
    /// The watch begins with the p99 of the first 100 calls, or of the first second, as the limit.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1000),
        help_heading = "Which calls are slow"
    )]
    pub(crate) worst: Option<u16>,

    /// How long to watch, such as 60s or 24h
    ///
    /// Afterwards durio counts write calls without tracing them, for a tenth of that time and at
    /// most 4s; the report derives from the difference how much tracing slowed the database down.
    #[arg(
        long = "for",
        visible_alias = "duration",
        value_name = "TIME",
        default_value = "60s",
        conflicts_with = "trace",
        help_heading = "How long"
    )]
    pub(crate) duration: Nanos,

    /// Write the events of each slow call as text into this new directory, at most 1,000 files;
    /// each can be explained on any machine, by --trace
    #[arg(long, value_name = "DIR", conflicts_with = "trace", help_heading = "Output")]
    pub(crate) save: Option<PathBuf>,

    /// Write the report as a page to this new file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,

    /// Do not show progress on stderr
    #[arg(long, help_heading = "Output")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

// No doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "What to watch")]
pub(crate) struct WhyWhom {
    /// Process to watch, with its children, such as PostgreSQL's postmaster
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,

    /// Watch the processes of a running systemd unit; without a suffix, .service is added
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Option<String>,

    /// Watch processes with open files under this directory; only these files count
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Explain the slow calls in this file instead: saved by --save, or the text of the kernel's
    /// own trace, on any machine of this architecture and without root
    ///
    /// It needs the events raw_syscalls:sys_enter, raw_syscalls:sys_exit and sched:sched_switch;
    /// with those of the groups block, jbd2 and workqueue more causes are told.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

/// Where `proc` and `sys` are.
const ROOT: &str = "/";

const WORST_DEFAULT: u16 = 20;

/// Explained calls that are kept where a limit decides which are slow; their causes are all counted.
const KEPT: usize = 100;

/// The text of a trace of minutes.
const TRACE_MAX: Bytes = Bytes::from_mib(256);

/// Windows that are saved: at some 100 KB each, no disk is filled by a watch of days.
const SAVED_MAX: usize = 1000;

pub(super) fn why(arguments: &WhyArguments) -> Result<Exit, CommandError> {
    let limit = limit(arguments)?;
    if arguments.duration.get() == 0 {
        return Err(
            CommandError::wrong_use("--for 0s watches nothing").hint("give a time, such as 60s")
        );
    }
    if arguments.output.format() == Format::FioJson {
        let hint = "expected text, json, html, markdown, csv or openmetrics";
        return Err(output::unsupported(arguments.output, hint));
    }
    // Before a minute of watching, not after.
    for path in [&arguments.html, &arguments.save].into_iter().flatten() {
        refuse_existing(path)?;
    }
    let findings = match &arguments.whom.trace {
        Some(path) => read_trace(path, limit)?,
        None => watch(arguments, limit)?,
    };
    output::report(arguments.output, &findings)?;
    if let Some(path) = &arguments.html {
        write_page(path, &findings)?;
    }
    Ok(if findings.watch.interrupted { Exit::INTERRUPTED } else { Exit::Fine })
}

fn limit(arguments: &WhyArguments) -> Result<SlowLimit, CommandError> {
    match arguments.slower_than {
        Some(limit) if limit.get() == 0 => {
            let text = "--slower-than 0s would call every write slow";
            Err(CommandError::wrong_use(text).hint("give a time, such as 20ms, or --worst 20"))
        }
        Some(limit) => Ok(SlowLimit::SlowerThan(limit)),
        None => Ok(SlowLimit::Worst(arguments.worst.unwrap_or(WORST_DEFAULT).into())),
    }
}

const fn kept(limit: SlowLimit) -> usize {
    match limit {
        SlowLimit::SlowerThan(_) => KEPT,
        SlowLimit::Worst(worst) => worst,
    }
}

fn read_trace(path: &Path, limit: SlowLimit) -> Result<WhyFindings, CommandError> {
    let io = |error| CommandError::io("read", path, error);
    let text = open_written(path).and_then(|file| read_bounded(file, TRACE_MAX)).map_err(io)?;
    let trace = RecordedTrace::parse(&text).map_err(|why| {
        let text = format!("'{}' is not a usable trace: {why}", path.display());
        CommandError::wrong_use(text).hint(
            "durio why --save DIR makes them; or switch on the events that durio why --help names, \
             and copy /sys/kernel/tracing/trace",
        )
    })?;
    let (begin, mut calls) = (trace.begin(), SlowCalls::new(kept(limit)));
    let facts = trace.slow_calls(limit, &mut |window| calls.take(explain(&window, begin)));
    let target = format!("the trace {}", path.display());
    Ok(calls.findings(SlowWatchFacts { target, ..facts }))
}

fn watch(arguments: &WhyArguments, limit: SlowLimit) -> Result<WhyFindings, CommandError> {
    let WhyWhom { pid, unit, path, .. } = &arguments.whom;
    let target = target(*pid, unit.as_deref(), path.as_deref())?;
    let name = named(&target);
    let stop = stop_on_signals()?;
    clear_up();
    // Without a state folder only `durio stack clean` would find the remains of a kill.
    let _mark = CaptureMark::begin().ok();
    let wish = WhyWish { target, duration: arguments.duration, limit, times: None };
    let mut calls = SlowCalls::new(kept(limit));
    let mut saved = SavedWindows { folder: arguments.save.as_deref(), count: 0, failed: None };
    let begin = monotonic();
    let seen = SeenCalls::default();
    let mut emit = |window: SlowWindow| {
        seen.note(&window);
        saved.save(&window);
        if saved.failed.is_some() {
            stop.set();
        }
        calls.take(explain(&window, begin));
    };
    let watched = thread::scope(|scope| {
        // Also if it panics: the thread would be waited for.
        let _over = WatchOver(&seen.over);
        scope.spawn(|| seen.tell(arguments.quiet, arguments.duration));
        watch_slow_calls(&wish, Path::new(ROOT), &stop, &mut emit)
    });
    let facts = watched.map_err(|error| {
        CommandError::from(error).hint("durio doctor says what this machine permits")
    })?;
    saved.end()?;
    Ok(calls.findings(SlowWatchFacts { target: name, ..facts }))
}

/// What the terminal shows while it watches.
#[derive(Default)]
struct SeenCalls {
    slow: AtomicU64,
    longest: AtomicU64,
    over: AtomicBool,
}

struct WatchOver<'a>(&'a AtomicBool);

impl Drop for WatchOver<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl SeenCalls {
    fn note(&self, window: &SlowWindow) {
        let latency = window.call.end.saturating_sub(window.call.begin);
        self.slow.fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(latency, Ordering::Relaxed);
    }

    fn tell(&self, is_quiet: bool, duration: Nanos) {
        let (terminal, mut timer) = (Terminal::new(is_quiet), ProgressTimer::new());
        while !self.over.load(Ordering::Relaxed) {
            if let Some(seconds) = timer.now() {
                let so_far = match self.slow.load(Ordering::Relaxed) {
                    0 => "no slow call yet".to_owned(),
                    1 => format!("1 slow call, {}", self.longest()),
                    slow => format!("{slow} slow calls, the slowest {}", self.longest()),
                };
                let (passed, all) = (clock(Nanos::from_secs(seconds)), clock(duration));
                terminal.progress(&format!("durio: watching: {passed} of {all}, {so_far}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn longest(&self) -> Nanos {
        Nanos::new(self.longest.load(Ordering::Relaxed))
    }
}

/// The folder of `--save`.
struct SavedWindows<'a> {
    folder: Option<&'a Path>,
    count: usize,
    failed: Option<CommandError>,
}

impl SavedWindows<'_> {
    fn save(&mut self, window: &SlowWindow) {
        let Some(folder) = self.folder.filter(|_| self.failed.is_none()) else { return };
        self.count += 1;
        if self.count <= SAVED_MAX {
            self.failed = self.write(folder, window).err();
        }
    }

    fn write(&self, folder: &Path, window: &SlowWindow) -> Result<(), CommandError> {
        if self.count == 1 {
            fs::create_dir(folder).map_err(|error| CommandError::io("make", folder, error))?;
        }
        let call = &window.call;
        let millis = call.end.saturating_sub(call.begin) / 1_000_000;
        let name = format!("{:04}-{}-{millis}ms.trace", self.count, call.name);
        write_new(&folder.join(name), window_text(window).as_bytes())
    }

    fn end(self) -> Result<(), CommandError> {
        let Some(folder) = self.folder else { return Ok(()) };
        if let Some(error) = self.failed {
            return Err(error);
        }
        let shown = folder.display();
        output::remark(&match self.count {
            0 => format!("durio: no call was slow, so '{shown}' was not made"),
            count if count > SAVED_MAX => {
                format!("durio: wrote the first {SAVED_MAX} of {count} slow calls into {shown}")
            }
            _ => format!("durio: wrote {shown}; explain a file with: durio why --trace FILE"),
        });
        Ok(())
    }
}
