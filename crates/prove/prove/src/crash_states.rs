//! The crash states of a recorded run, each checked by a user's command. The input is a log of
//! dm-log-writes and the disk's contents before it; durio-prove enumerates the states.
//!
//! A state is a sparse file in a private folder, made again for each check: the check may write to
//! it, as a filesystem's recovery does.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::enumerate::{CutState, EnumerationLimits, StateName, visit, visit_one};
use durio_base::{Bytes, Nanos};
use durio_block::{ProgramAnswer, ask_stoppable, open_input};
use durio_command::{CommandError, CommandErrorKind, ProgressObserver, ProgressTimer, StopFlag};
use durio_record::proof::crash_states::{CheckOutcome, CrashStateFinding, CrashStateFindings};
use durio_simdisk::{DiskEvent, Image, Recording, SECTOR, trace};

/// A log is kept in memory, with all that was written.
const LOG_MAX: Bytes = Bytes::from_gib(4);
/// Bytes of a disk's image that are looked at together; zeros are not kept.
const PART: usize = 4096;
/// Lines of a check's output that are reported.
const LINES: usize = 3;

/// The user's request on a log.
#[derive(Debug)]
pub struct CrashStatesRequest<'a> {
    pub log: &'a Path,
    /// The disk's earlier contents; zeros without it.
    pub base: Option<&'a Path>,
    /// Bytes of the disk; without it those of the base.
    pub size: Option<Bytes>,
    /// How many states are checked at most.
    pub limit: usize,
    /// The seed of the choice among more.
    pub seed: u64,
    /// The command that checks a state; empty if a state is only saved.
    pub check: &'a [OsString],
    /// How long it may take for each.
    pub patience: Nanos,
}

/// Checks each state.
///
/// # Errors
/// If the log is invalid, the command cannot be run, or a state does not fit.
pub fn check_crash_states(
    request: &CrashStatesRequest<'_>,
    stop: &StopFlag,
    observer: &dyn ProgressObserver,
) -> Result<CrashStateFindings, CommandError> {
    let recorded = RecordedLog::read(request)?;
    let scratch = StateScratch::new(&recorded)?;
    let mut findings = CrashStateFindings::new(request.log.display().to_string(), request.seed);
    let limits = EnumerationLimits {
        states: request.limit,
        seed: request.seed,
        ..EnumerationLimits::default()
    };
    let (begin, mut due, mut ended) = (Instant::now(), ProgressTimer::new(), Ok(()));
    let found = visit(&recorded.recording, limits, |image, state| {
        let (states, failed) = (findings.states, findings.failed);
        let seconds = begin.elapsed().as_secs();
        let words = || format!("{states} crash states in {seconds} s, {failed} failed");
        observer.status(&words);
        if due.now().is_some() {
            observer.progress(&words());
        }
        match scratch.check(image, state, request, stop) {
            Ok((outcome, finding)) => {
                findings.take(outcome, || finding);
                ControlFlow::Continue(())
            }
            Err(error) => {
                ended = Err(error);
                ControlFlow::Break(())
            }
        }
    });
    match ended {
        Err(error) if error.kind == CommandErrorKind::Interrupted => findings.is_complete = false,
        ended => ended?,
    }
    findings.stretches = found.stretches;
    findings.duplicates = found.duplicates;
    findings.left_out = found.left_out;
    Ok(findings)
}

/// Checks one state, and saves its image in the new file `saved`.
///
/// # Errors
/// As [`check_crash_states`]; if the state does not exist, or the file does.
pub fn check_crash_state(
    request: &CrashStatesRequest<'_>,
    name: StateName,
    saved: Option<&Path>,
    stop: &StopFlag,
) -> Result<CrashStateFindings, CommandError> {
    let recorded = RecordedLog::read(request)?;
    let mut findings = CrashStateFindings::new(request.log.display().to_string(), request.seed);
    let checked = visit_one(&recorded.recording, name, |image, state| {
        if let Some(path) = saved {
            save(image, recorded.size, path)?;
        }
        if !request.check.is_empty() {
            let scratch = StateScratch::new(&recorded)?;
            let (outcome, finding) = scratch.check(image, state, request, stop)?;
            findings.take(outcome, || finding);
        }
        Ok(())
    });
    let missing = || {
        CommandError::wrong_use(format!("the log has no state '{name}'")).hint(
            "a state's name is valid only for the log, base and size that it was reported with",
        )
    };
    checked.ok_or_else(missing)?.map(|()| findings)
}

/// A log in replay.
struct RecordedLog {
    recording: Recording,
    size: Bytes,
}

impl RecordedLog {
    fn read(request: &CrashStatesRequest<'_>) -> Result<Self, CommandError> {
        let entries = trace::parse(&read_log(request.log)?).map_err(|error| {
            CommandError::of(CommandErrorKind::WrongUse, error)
                .context(format!("'{}'", request.log.display()))
                .hint("durio simdisk serve --record writes one, and so does the kernel's dm-log-writes")
        })?;
        let (base, base_size) = match request.base {
            Some(path) => read_base(path)?,
            None => (Image::default(), Bytes::ZERO),
        };
        let size = request.size.unwrap_or(base_size);
        let recording = Recording::from_log(base, &entries);
        let end = recording.events().iter().map(end_of).max().unwrap_or(0);
        let needed = end.max(base_size.get());
        if size.get() < needed || size.get() == 0 {
            let text = format!("the disk has at least {needed} bytes; --size {size} is too small");
            return Err(CommandError::wrong_use(text));
        }
        Ok(Self { recording, size })
    }
}

fn end_of(event: &DiskEvent) -> u64 {
    let DiskEvent::Begun(write) = event else { return 0 };
    // Zeros only count over existing data.
    let sector = write.sectors().filter_map(|(sector, bytes)| bytes.map(|_| sector)).max();
    sector.map_or(0, |sector| (sector + 1) * SECTOR as u64)
}

fn read_log(path: &Path) -> Result<Vec<u8>, CommandError> {
    let mut bytes = Vec::new();
    open_input(path)
        .and_then(|file| file.take(LOG_MAX.get() + 1).read_to_end(&mut bytes))
        .map_err(|error| CommandError::io("read", path, error))?;
    if bytes.len() as u64 > LOG_MAX.get() {
        let text = format!("'{}' has more than {LOG_MAX}", path.display());
        return Err(CommandError::cannot_measure(text).hint("record a shorter run"));
    }
    Ok(bytes)
}

/// The contents of a disk's image, and its size.
fn read_base(path: &Path) -> Result<(Image, Bytes), CommandError> {
    let failed = |error| CommandError::io("read", path, error);
    let mut file = open_input(path).map_err(failed)?;
    let (mut image, mut sector, mut part) = (Image::default(), 0, Vec::with_capacity(PART));
    loop {
        part.clear();
        let count = file.by_ref().take(PART as u64).read_to_end(&mut part).map_err(failed)?;
        if !count.is_multiple_of(SECTOR) {
            let text = format!("'{}' is not a disk: it ends within a sector", path.display());
            return Err(CommandError::wrong_use(text));
        }
        if part.iter().any(|&byte| byte != 0) {
            image.store(sector, &part);
        }
        sector += (count / SECTOR) as u64;
        if count < PART {
            return Ok((image, Bytes::new(sector * SECTOR as u64)));
        }
    }
}

fn save(image: &Image, size: Bytes, path: &Path) -> Result<(), CommandError> {
    let failed = |error| CommandError::io("save the state as", path, error);
    let file = File::options().write(true).create_new(true).open(path).map_err(failed)?;
    let written = write(image, size, &file);
    if written.is_err() {
        // Half a state is not a state; the first error counts.
        let _ = fs::remove_file(path);
    }
    written.map_err(failed)
}

fn write(image: &Image, size: Bytes, file: &File) -> io::Result<()> {
    file.set_len(size.get())?;
    for (sector, bytes) in image.written() {
        let at = sector * SECTOR as u64;
        // The last page may be of a disk that ends within it.
        let room = usize::try_from(size.get().saturating_sub(at)).unwrap_or(usize::MAX);
        file.write_all_at(&bytes[..bytes.len().min(room)], at)?;
    }
    Ok(())
}

/// A state's place during its check. Dropping it removes everything that the check left there.
struct StateScratch {
    image: PathBuf,
    size: Bytes,
    folder: tempfile::TempDir,
}

impl StateScratch {
    fn new(recorded: &RecordedLog) -> Result<Self, CommandError> {
        let only_owner = Permissions::from_mode(0o700);
        let made =
            tempfile::Builder::new().prefix("durio-states-").permissions(only_owner).tempdir();
        let parent = std::env::temp_dir();
        let folder = made.map_err(|error| CommandError::io("make a folder in", &parent, error))?;
        Ok(Self { image: folder.path().join("state.img"), size: recorded.size, folder })
    }

    fn check(
        &self,
        image: &Image,
        state: &CutState<'_>,
        request: &CrashStatesRequest<'_>,
        stop: &StopFlag,
    ) -> Result<(CheckOutcome, CrashStateFinding), CommandError> {
        let stopped = || CommandError::new(CommandErrorKind::Interrupted, "interrupted");
        if stop.is_set() {
            return Err(stopped());
        }
        self.put(image).map_err(|error| {
            CommandError::io("make the state", &self.image, error)
                .hint("TMPDIR names another folder for it")
        })?;
        let patience = Duration::from_nanos(request.patience.get());
        let asked =
            ask_stoppable(&mut self.command(state, request.check), patience, &|| stop.is_set());
        let (outcome, reason, said) = match asked {
            Ok(answer) => judge(&answer),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(stopped()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                (CheckOutcome::Undecided, error.to_string(), String::new())
            }
            Err(error) => {
                let program = request.check.first().map(Path::new).unwrap_or(Path::new(""));
                return Err(CommandError::io("run", program, error));
            }
        };
        let finding = CrashStateFinding {
            state: state.name().to_string(),
            description: state.to_string(),
            mark: state.mark.map(str::to_owned),
            reason,
            said,
        };
        Ok((outcome, finding))
    }

    /// Removes the last state first, which an earlier check may have changed.
    fn put(&self, image: &Image) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            let is_folder = fs::symlink_metadata(&path)?.is_dir();
            if is_folder { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        write(image, self.size, &File::create_new(&self.image)?)
    }

    fn command(&self, state: &CutState<'_>, check: &[OsString]) -> Command {
        let (program, arguments) = check.split_first().expect("a check has a program");
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("DURIO_STATE", &self.image);
        command.env("DURIO_MARK", state.mark.unwrap_or_default());
        command.env("DURIO_STATE_NAME", state.name().to_string());
        command
    }
}

fn judge(answer: &ProgramAnswer) -> (CheckOutcome, String, String) {
    let outcome = match answer.status.code() {
        Some(0) => CheckOutcome::Passed,
        Some(1) => CheckOutcome::Failed,
        _ => CheckOutcome::Undecided,
    };
    let said = [&answer.stdout[..], &answer.stderr[..]].concat();
    (outcome, ending(answer.status), last_lines(&String::from_utf8_lossy(&said)))
}

fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        // "signal: 9 (SIGKILL)"
        None => status.to_string(),
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_read_without_its_zeros_and_written_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("base"), folder.path().join("copy"));
        let mut bytes = vec![0; 5 * PART + SECTOR];
        bytes[PART..PART + 7].fill(1);
        bytes[5 * PART..].fill(2);
        fs::write(&path, &bytes).unwrap();
        let (image, size) = read_base(&path).unwrap();
        assert_eq!((image.written().count(), size.get()), (2, bytes.len() as u64));
        save(&image, size, &copy).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), bytes);
        assert!(save(&image, size, &copy).is_err(), "nothing that exists is overwritten");
        fs::write(&path, [0; 700]).unwrap();
        assert!(read_base(&path).unwrap_err().to_string().contains("ends within a sector"));
    }

    struct Unheard;

    impl ProgressObserver for Unheard {
        fn remark(&self, _: &str) {}

        fn progress(&self, _: &str) {}
    }

    /// Three records; two were flushed and acknowledged.
    fn log_of_records() -> Vec<u8> {
        let record = |number: u64| trace::WriteLogEntry::write(number, 0, &[7; SECTOR]);
        let flush = || trace::WriteLogEntry::write(0, trace::FLUSH, &[]);
        let mark = trace::WriteLogEntry::mark;
        let end = mark(trace::END_MARK);
        let entries =
            [record(1), flush(), mark("one"), record(2), flush(), mark("two"), record(3), end];
        let mut bytes = trace::superblock(entries.len() as u64).to_vec();
        entries.iter().for_each(|entry| bytes.extend(entry.to_bytes()));
        bytes
    }

    #[test]
    fn each_count_of_states_is_told_under_its_own_name() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, log_of_records()).unwrap();
        let counts = |limit, script: &str| {
            let check = ["sh", "-c", script].map(OsString::from);
            let request = CrashStatesRequest {
                log: &log,
                base: None,
                size: Some(Bytes::new(8192)),
                limit,
                seed: 1,
                check: &check,
                patience: Nanos::from_secs(120),
            };
            check_crash_states(&request, &StopFlag::default(), &Unheard).unwrap()
        };
        let found = counts(1000, "case $DURIO_MARK in one) exit 2;; two) exit 1;; esac");
        let made = (found.stretches, found.states, found.duplicates, found.left_out);
        assert_eq!(made, (5, 6, 2, 0));
        assert_eq!((found.passed, found.failed, found.undecided), (2, 2, 2));
        let [failed, undecided] =
            [&found.failures, &found.undecided_states].map(|list| (list.len(), list[0].clone()));
        assert_eq!((failed.0, failed.1.mark.as_deref()), (2, Some("two")));
        assert_eq!((undecided.0, undecided.1.mark.as_deref()), (2, Some("one")));
        assert_eq!([failed.1.reason, undecided.1.reason], ["exit code 1", "exit code 2"]);
        // Each is checked, a duplicate or left out.
        let some = counts(2, "true");
        assert!((1..=2).contains(&some.states), "{some:?}");
        assert_eq!((some.states + some.duplicates + some.left_out, some.stretches), (8, 5));
        assert!(found.is_complete && some.is_complete);
    }

    #[test]
    fn of_what_a_check_says_the_last_three_lines_are_told() {
        for (said, told) in [
            ("", ""),
            ("one", "one"),
            ("one\ntwo\nthree\n", "one\ntwo\nthree"),
            ("one\ntwo\n\n  three \nfour\n\n", "two\nthree\nfour"),
        ] {
            assert_eq!(last_lines(said), told);
        }
    }
}
