//! `durio capture`: records what a running database does to its storage.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use durio_analyse::capture::{
    Capture, CaptureFindings, CaptureSource, EarlierCapture, profile_text,
};
use durio_base::{Bytes, Nanos};
use durio_bench::CaptureMark;
use durio_block::{open_input, read_bounded};
use durio_command::{CommandError, CommandErrorKind, command_line};
use durio_observe::{
    CaptureEnd, CaptureEvent, CapturedFile, TraceTextError, read_block_trace, read_host,
    read_strace,
};
use durio_record::{FolderName, OPERATIONS_MAX, OperationTrace, TracedOperation};
use durio_report::{Format, Options, Report};
use durio_run::{CaptureTarget, CaptureWish};
use durio_spec::profile::Profile;
use rustix::pipe::{SpliceFlags, tee};

use crate::exit_code::{Exit, TABLE};
use crate::measure::clear_up;
use crate::options::OutputArguments;
use crate::output::{self, named_as_file, write_new, write_new_by};
use crate::stop_signals::stop_on_signals;
use crate::values::refuse_existing;

/// Record what a running database does to its storage, and make a profile of it
///
/// Traces system calls of its processes and threads (write, pwrite64, writev, pwritev, pwritev2,
/// fsync, fdatasync, sync_file_range) and requests to the devices below: which files it writes, the
/// sizes and offsets, who syncs and how often. Needs root and the kernel's tracefs; where that is
/// not mounted, durio mounts it privately. Nothing is left behind.
///
///   durio capture --pid 812 --duration 60s --profile mine.toml
///   durio capture --unit postgresql@15-main
///   durio capture --path /var/lib/mysql --html page.html
///   durio run profile:mine.toml --target /mnt/other
///   durio capture --path /mnt/other --against before.json
///   durio capture --strace trace.txt --profile mine.toml
///   durio capture --pid 812 --trace mine.trace
///   durio replay mine.trace /mnt/other
///
/// File paths and sizes are recorded, contents never. Operations through io_uring are counted
/// without file and size. Ctrl-C ends the capture and shows the results so far. Reads are not
/// captured.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct CaptureArguments {
    #[command(flatten)]
    pub(crate) whom: Whom,

    /// How long to watch, such as 60s or 10m
    ///
    /// Afterwards durio counts write calls without tracing them, for a tenth of that time and at
    /// most 4s; the report derives from the difference how much tracing slowed the database down.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "60s",
        conflicts_with_all = ["strace", "block_trace"],
        help_heading = "How long"
    )]
    pub(crate) duration: Nanos,

    /// Compare with an earlier capture, saved by durio capture --json: of the database whose
    /// profile is running, or from before a change
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) against: Option<PathBuf>,

    /// Write a profile to this new file; durio run profile:FILE measures it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) profile: Option<PathBuf>,

    /// Save every write and sync with its time to this new file, for durio replay
    ///
    /// Each takes 100 bytes of memory until the capture ends; it ends after 20,000,000.
    #[arg(long, value_name = "FILE", conflicts_with = "block_trace", help_heading = "Output")]
    pub(crate) trace: Option<PathBuf>,

    /// Write the report as a page to this new file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

// No doc comment, which would be taken for a command's.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "What to trace")]
pub(crate) struct Whom {
    /// Process to trace, with its children, such as PostgreSQL's postmaster
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,

    /// Trace the processes of a running systemd unit; without a suffix, .service is added
    #[arg(long, value_name = "NAME")]
    pub(crate) unit: Option<String>,

    /// Trace processes with open files under this directory; only these files count
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Read a file written by strace instead, on any machine and without root
    ///
    /// It needs times and file paths: strace -f -ttt -T -y -o FILE -p PID. It has no devices.
    /// strace slows a database down, so rates and sync times are those of a slow one.
    #[arg(long, value_name = "FILE")]
    pub(crate) strace: Option<PathBuf>,

    /// Read the output of blkparse, perf, ftrace, iosnoop or biosnoop instead
    ///
    /// Each device counts as a file: its write requests are writes, durable with FUA, and its
    /// flushes are syncs. For example: blktrace -d DEV -w 60 -o - | blkparse -i - > FILE; or perf
    /// record -a -c 1 -e block:block_rq_issue -e block:block_rq_requeue -e block:block_rq_complete
    /// -- sleep 60, then perf script > FILE; or perf trace with the same events; or the kernel's
    /// own trace of them; or iosnoop -ts 60 > FILE; or biosnoop > FILE (of bcc, which shows neither
    /// flushes nor FUA).
    #[arg(long, value_name = "FILE")]
    pub(crate) block_trace: Option<PathBuf>,
}

/// Where `proc` and `sys` are.
const ROOT: &str = "/";

pub(super) fn capture(arguments: &CaptureArguments) -> Result<Exit, CommandError> {
    if arguments.duration.get() == 0 {
        return Err(CommandError::wrong_use("--duration 0s watches nothing")
            .hint("give a time, such as 60s"));
    }
    if arguments.output.format() == Format::FioJson {
        return Err(output::unsupported(
            arguments.output,
            "expected text, json, html, markdown or csv",
        ));
    }
    // Before a minute of watching, not after.
    for path in [&arguments.profile, &arguments.html, &arguments.trace].into_iter().flatten() {
        refuse_existing(path)?;
    }
    let before = arguments.against.as_deref().map(read_earlier).transpose()?;
    let mut taken = CaptureSink {
        kept: arguments.trace.as_ref().map(|_| KeptOperations::default()),
        ..CaptureSink::default()
    };
    let (mut findings, is_interrupted) = match (&arguments.whom.strace, &arguments.whom.block_trace)
    {
        (Some(path), _) => (read_trace(path, &STRACE, &mut taken)?, false),
        (_, Some(path)) => (read_trace(path, &BLOCK_TRACE, &mut taken)?, false),
        _ => watch(arguments, &mut taken)?,
    };
    // As captured, without the comparison. Problems with the trace are reported after the report.
    let trace = taken.kept.map(|kept| kept.trace(&findings));
    before.iter().for_each(|earlier| findings.compare_with(earlier));
    output::report(arguments.output, &findings)?;
    if let Some(path) = &arguments.html {
        write_page(path, &findings)?;
    }
    if let (Some(path), Some(trace)) = (&arguments.trace, trace) {
        write_trace(path, &trace?)?;
    }
    if let Some(path) = &arguments.profile {
        write_profile(path, &findings)?;
    }
    Ok(if is_interrupted { Exit::INTERRUPTED } else { Exit::Fine })
}

/// The consumer of events: counts, and each operation if those are kept.
#[derive(Default)]
struct CaptureSink {
    capture: Capture,
    kept: Option<KeptOperations>,
}

#[derive(Default)]
struct KeptOperations {
    files: Vec<CapturedFile>,
    operations: Vec<TracedOperation>,
}

impl CaptureSink {
    fn take(&mut self, event: CaptureEvent) {
        if let (Some(kept), CaptureEvent::File(file)) = (&mut self.kept, &event) {
            kept.files.push(file.clone());
        }
        let operation = self.capture.take(event);
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.operations.len() < OPERATIONS_MAX)
        {
            kept.operations.extend(operation);
        }
    }

    fn is_full(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.operations.len() >= OPERATIONS_MAX)
    }
}

impl KeptOperations {
    fn trace(self, findings: &CaptureFindings) -> Result<OperationTrace, CommandError> {
        if self.operations.is_empty() {
            let text = "no write or sync of a named file was seen, so there is no trace to write";
            return Err(CommandError::cannot_measure(text)
                .hint("watch the database while it works, and longer: --duration 10m"));
        }
        if self.operations.iter().all(|operation| operation.nanos == 1) {
            let text = "the text does not say how long calls took, so there is no trace to write";
            return Err(CommandError::wrong_use(text).hint(STRACE.made_by));
        }
        let document = serde_json::to_value(findings)
            .map_err(|error| CommandError::of(CommandErrorKind::Fault, error))?;
        Ok(OperationTrace::new(document, self.files, self.operations))
    }
}

/// Watches the requested processes; true if the user ended it.
fn watch(
    arguments: &CaptureArguments,
    taken: &mut CaptureSink,
) -> Result<(CaptureFindings, bool), CommandError> {
    let Whom { pid, unit, path, .. } = &arguments.whom;
    let target = target(*pid, unit.as_deref(), path.as_deref())?;
    let source = CaptureSource {
        target: named(&target),
        command: command_line().join(" "),
        date: day_of(SystemTime::now()),
        ..CaptureSource::default()
    };
    let stop = stop_on_signals()?;
    clear_up();
    // Without a state folder only `durio stack clean` would find the remains of a kill.
    let _mark = CaptureMark::begin().ok();
    let wish = CaptureWish { target, duration: arguments.duration };
    let mut take = |event| {
        taken.take(event);
        if taken.is_full() {
            stop.set();
        }
    };
    let end = durio_run::capture(&wish, Path::new(ROOT), &stop, &mut take);
    let mut end = end.map_err(|error| {
        CommandError::from(error).hint("durio doctor says what this machine permits")
    })?;
    if taken.is_full() {
        end.interrupted = false;
        end.ended_early = Some(format!("the trace has {OPERATIONS_MAX} operations"));
    }
    let host = read_host();
    let hostname = host.hostname.unwrap_or_else(|| "this machine".to_owned());
    let source = CaptureSource { kernel: host.kernel, host: hostname, ..source };
    let capture = std::mem::take(&mut taken.capture);
    Ok((capture.finish(&end, source), end.interrupted))
}

type Emit<'e> = &'e mut dyn FnMut(CaptureEvent);
type ReadTrace = fn(BufReader<File>, Emit<'_>) -> Result<CaptureEnd, TraceTextError>;

/// A program whose text can be read: its name, its reader, and the command that makes such a text.
struct TracerProgram {
    name: &'static str,
    read: ReadTrace,
    made_by: &'static str,
}

const STRACE: TracerProgram = TracerProgram {
    name: "strace",
    read: read_strace,
    made_by: "strace -f -ttt -T -y -o FILE -p PID makes one",
};

const BLOCK_TRACE: TracerProgram = TracerProgram {
    name: "blkparse, perf, ftrace, iosnoop or biosnoop",
    read: read_block_trace,
    made_by: "blktrace -d DEV -w 60 -o - | blkparse -i - > FILE makes one; durio capture --help has the others",
};

/// Opens a file named by the user. A pipe without a writer and without data is refused as such:
/// read as an empty text, it would cause an error about its contents.
pub(super) fn open_written(path: &Path) -> io::Result<File> {
    let file = open_input(path)?;
    if file.metadata()?.file_type().is_fifo() {
        let (_reader, writer) = io::pipe()?;
        // A copy of the first byte leaves it in the pipe; without a writer no byte would come.
        if tee(&file, &writer, 1, SpliceFlags::NONBLOCK) == Ok(0) {
            let text = "it is a pipe without a writer; save the text as a file";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
    }
    Ok(file)
}

/// Reads a tracer's text.
fn read_trace(
    path: &Path,
    tracer: &TracerProgram,
    taken: &mut CaptureSink,
) -> Result<CaptureFindings, CommandError> {
    let io = |error| CommandError::io("read", path, error);
    let file = open_written(path).map_err(io)?;
    let written = file.metadata().and_then(|facts| facts.modified()).map_err(io)?;
    let end = (tracer.read)(BufReader::new(file), &mut |event| taken.take(event));
    if taken.is_full() {
        let text = format!("'{}' has more than {OPERATIONS_MAX} operations", path.display());
        return Err(
            CommandError::wrong_use(text).hint("this is the limit for a trace: read a part of it")
        );
    }
    let end = end.map_err(|error| {
        let TracerProgram { name, made_by, .. } = tracer;
        let text = format!("'{}' is not a usable trace of {name}: {error}", path.display());
        CommandError::wrong_use(text).hint(*made_by)
    })?;
    let source = CaptureSource {
        target: format!("what {} wrote in {}", tracer.name, path.display()),
        command: command_line().join(" "),
        date: day_of(written),
        kernel: "of an unknown release".to_owned(),
        host: "an unknown machine".to_owned(),
    };
    Ok(std::mem::take(&mut taken.capture).finish(&end, source))
}

/// Limit for findings as JSON, which take about 1 KB per file; those of a trace may reach it.
const EARLIER_MAX: Bytes = Bytes::from_mib(32);

/// `2026-11-25`.
pub(super) fn day_of(time: SystemTime) -> String {
    FolderName::rfc3339(time).split('T').next().unwrap_or_default().to_owned()
}

fn read_earlier(path: &Path) -> Result<EarlierCapture, CommandError> {
    let io = |error| CommandError::io("read", path, error);
    let refused = |why: String| {
        CommandError::wrong_use(format!("'{}' is not an earlier capture: {why}", path.display()))
            .hint("durio capture --json > FILE makes one")
    };
    let bytes = match open_written(path).and_then(|file| read_bounded(file, EARLIER_MAX)) {
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            return Err(refused(error.to_string()));
        }
        read => read.map_err(io)?,
    };
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not text".to_owned()))?;
    EarlierCapture::parse(&text).map_err(refused)
}

/// The process, the unit or the directory that was named.
pub(super) fn target(
    pid: Option<u32>,
    unit: Option<&str>,
    path: Option<&Path>,
) -> Result<CaptureTarget, CommandError> {
    if let Some(pid) = pid {
        return Ok(CaptureTarget::Process(pid));
    }
    if let Some(unit) = unit {
        if unit.is_empty() || unit.contains('/') {
            return Err(CommandError::wrong_use(format!("invalid unit name '{unit}'")));
        }
        return Ok(CaptureTarget::Unit(unit.to_owned()));
    }
    let path = path.unwrap_or(Path::new("."));
    let real = fs::canonicalize(path).map_err(|error| CommandError::io("find", path, error))?;
    match real.is_dir() {
        true => Ok(CaptureTarget::Directory(real)),
        false => Err(CommandError::wrong_use(format!("'{}' is not a directory", path.display()))
            .hint("--path expects the directory of a database")),
    }
}

/// `process 812 (postgres)`.
pub(super) fn named(target: &CaptureTarget) -> String {
    match target {
        CaptureTarget::Process(process) => {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            match name.trim() {
                "" => format!("process {process}"),
                name => format!("process {process} ({name})"),
            }
        }
        CaptureTarget::Unit(unit) => format!("unit {unit}"),
        CaptureTarget::Directory(path) => format!("files below {}", path.display()),
        CaptureTarget::Own(_) => "durio itself".to_owned(),
    }
}

fn write_trace(path: &Path, trace: &OperationTrace) -> Result<(), CommandError> {
    write_new_by(path, |file| trace.write(file))?;
    output::remark(&format!(
        "durio: wrote {}; do it again with: durio replay {} DIR",
        path.display(),
        path.display()
    ));
    Ok(())
}

pub(super) fn write_page(path: &Path, findings: &impl Report) -> Result<(), CommandError> {
    let mut page = Vec::new();
    let options = Options { verbose: true, ..Options::default() };
    durio_report::write(Format::Html, findings, &options, &mut page)
        .map_err(CommandError::unmade)?;
    write_new(path, &page)
}

fn write_profile(path: &Path, findings: &CaptureFindings) -> Result<(), CommandError> {
    let Some(text) = profile_text(findings) else {
        let text = "no durable writes were seen, so there is no profile to write";
        return Err(CommandError::cannot_measure(text)
            .hint("watch the database while it commits, and longer: --duration 10m"));
    };
    // A profile that durio itself does not read would be found out too late.
    Profile::parse(&path.display().to_string(), &text)
        .map_err(|error| CommandError::of(CommandErrorKind::Fault, error))?;
    write_new(path, text.as_bytes())?;
    output::remark(&format!(
        "durio: wrote {}; measure it with: durio run profile:{} --target DIR",
        path.display(),
        named_as_file(path)
    ));
    Ok(())
}
