//! `bench corpus`: job files and command lines of fio from elsewhere, run by fio and by durio.
//!
//! Reads a folder of job files (any name) and command lines (`NAME.words`, one word a line). Prints
//! how many of those with plain I/O durio accepts, and whether it then does the same as fio, by
//! strace: reads, writes, bytes, syncs, the range of offsets, the flags of open files. Accesses to
//! mapped files are not calls: for these it compares the sums in both programs' JSON, and msync by
//! strace. Sizes are reduced equally for both.

mod calls;
mod entry;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, ensure};
use calls::FileActivity;
use entry::{CorpusEntry, EntryForm};

use super::figures::{self, BenchGoal};
use super::session::{self, Interrupt};
use crate::cargo;

/// Options of `bench corpus`.
#[derive(Debug, clap::Args)]
pub(crate) struct CorpusArguments {
    /// Folder with job files, and command lines as NAME.words with one word a line
    folder: PathBuf,
    /// Only entries whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Whether they are accepted, without running them
    #[arg(long)]
    parse_only: bool,
    /// Entries that are tried at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// Plain entries that must be accepted and do the same.
const SHARE_MIN: f64 = 0.95;
/// The time limit of one program for one entry.
const SECONDS_MAX: &str = "60";

/// The outcome of an entry.
enum EntryOutcome {
    NotPlain(String),
    FioRefuses(String),
    Refused(String),
    Accepted,
    Equal,
    /// With durio's note about it.
    Noted(String),
    FioFails(String),
    Fails(String),
    Different(String),
}

pub(super) fn run(arguments: &CorpusArguments, interrupt: &Interrupt) -> Result<Vec<BenchGoal>> {
    // The debug build: speed does not matter here, and it checks for overflow.
    let built = cargo::command(&["build", "--package", "durio"]).status()?;
    ensure!(built.success(), "durio cannot be built");
    let target = cargo::metadata()?.target_directory.into_std_path_buf();
    // A copy, so that another build cannot replace it during the comparison.
    let copy = session::folder(&target)?;
    let program = copy.path().join("durio");
    fs::copy(target.join("debug/durio"), &program)?;
    let names = chosen(arguments)?;
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    // Each takes the next entry, until all are taken.
    let work = || -> Result<()> {
        while let Some(path) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            interrupt.check()?;
            let scratch = session::folder(&target)?;
            let trial = EntryTrial { program: &program, folder: scratch.path() };
            let outcome = trial.outcome(path, arguments.parse_only)?;
            println!("{}\t{}", outcome.words(), name_of(path));
            outcomes.lock().map_err(|_| anyhow!("a trial panicked"))?.push(outcome);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<()>>| {
            worker.join().map_err(|_| anyhow!("a trial panicked"))?
        };
        workers.into_iter().try_for_each(join)
    })?;
    let outcomes = outcomes.into_inner().map_err(|_| anyhow!("a trial panicked"))?;
    Ok(conclude(&outcomes, arguments.parse_only))
}

/// The requested entries, by name.
fn chosen(arguments: &CorpusArguments) -> Result<Vec<PathBuf>> {
    let is_chosen = |path: &PathBuf| {
        let only = arguments.only.as_ref();
        path.is_file() && only.is_none_or(|only| name_of(path).contains(only))
    };
    let all = fs::read_dir(&arguments.folder)?.flatten().map(|entry| entry.path());
    let mut chosen: Vec<PathBuf> = all.filter(is_chosen).collect();
    chosen.sort();
    Ok(chosen)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl EntryOutcome {
    fn words(&self) -> String {
        match self {
            Self::NotPlain(why) => format!("not plain {why}"),
            Self::FioRefuses(why) => format!("fio refuses {why}"),
            Self::Refused(why) => format!("REFUSED {why}"),
            Self::Accepted => "accepted".into(),
            Self::Equal => "equal".into(),
            Self::Noted(what) => format!("noted {what}"),
            Self::FioFails(why) => format!("fio fails {why}"),
            Self::Fails(why) => format!("FAILS {why}"),
            Self::Different(what) => format!("DIFFERENT {what}"),
        }
    }
}

fn conclude(outcomes: &[EntryOutcome], parse_only: bool) -> Vec<BenchGoal> {
    let count = |wanted: &dyn Fn(&EntryOutcome) -> bool| {
        let count = outcomes.iter().filter(|outcome| wanted(outcome)).count();
        u32::try_from(count).map_or(f64::INFINITY, f64::from)
    };
    let foreign = count(&|outcome| {
        matches!(outcome, EntryOutcome::NotPlain(_) | EntryOutcome::FioRefuses(_))
    });
    let refused = count(&|outcome| matches!(outcome, EntryOutcome::Refused(_)));
    let different = count(&|outcome| matches!(outcome, EntryOutcome::Different(_)));
    let fails = count(&|outcome| matches!(outcome, EntryOutcome::Fails(_)));
    let unknown = count(&|outcome| matches!(outcome, EntryOutcome::FioFails(_)));
    let all = count(&|_| true);
    let plain = all - foreign;
    let equal = plain - refused - different - fails - unknown;
    println!(
        "\n{all} entries: {foreign} not plain or refused by fio; {plain} plain: {refused} refused, \
         {different} different, {fails} fail, {unknown} that fio fails to run, {equal} equal"
    );
    let (reached, of) =
        if parse_only { (plain - refused, plain) } else { (equal, plain - unknown) };
    let goals = vec![
        BenchGoal::at_least("plain entries that are accepted, and equal", reached / of, SHARE_MIN),
        BenchGoal::at_most("entries that are silently different", different, 0.0, 0, ""),
    ];
    figures::print_goals(&goals);
    goals
}

/// Where one entry is tried.
struct EntryTrial<'a> {
    program: &'a Path,
    folder: &'a Path,
}

impl EntryTrial<'_> {
    fn outcome(&self, path: &Path, parse_only: bool) -> Result<EntryOutcome> {
        let text = String::from_utf8_lossy(&fs::read(path)?).into_owned();
        let is_words = path.extension().is_some_and(|ending| ending == "words");
        let entry =
            if is_words { CorpusEntry::of_words(&text) } else { CorpusEntry::of_file(&text) };
        if let Some(why) = entry.not_plain() {
            return Ok(EntryOutcome::NotPlain(why));
        }
        let small = entry.made_small();
        let words = self.lay_out(&small, "accepted")?;
        let home = self.folder.join("accepted");
        let parsed = in_folder("fio", &home).arg("--parse-only").args(&words).output()?;
        if !parsed.status.success() {
            return Ok(EntryOutcome::FioRefuses(reason(&parsed)));
        }
        let planned = self.permitted(&home, &small, |mut command| {
            command.args(["--plan", "--"]).args(&words);
            command.output().context("cannot run durio")
        })?;
        if !planned.status.success() {
            return self.refused(&small.to_be_counted(), reason(&planned));
        }
        if parse_only {
            return Ok(EntryOutcome::Accepted);
        }
        self.compare(&small.to_be_counted())
    }

    /// A job that fio refuses, or that moves no bytes with fio, does not count as plain.
    fn refused(&self, entry: &CorpusEntry, why: String) -> Result<EntryOutcome> {
        // A stand-in for a device has no end to fill up to.
        if entry.has("fill_device") {
            return Ok(EntryOutcome::Refused(why));
        }
        let words = self.lay_out(entry, "asked")?;
        let home = self.folder.join("asked");
        let trace = self.folder.join("asked.trace");
        let mut fio = in_folder("fio", &home);
        fio.args(words);
        let output = run_traced(traced(&fio, &trace)?)?;
        if !output.status.success() {
            return Ok(EntryOutcome::FioFails(reason(&output)));
        }
        let done = calls::read(&trace, &home)?;
        Ok(match moves_no_byte(&done) {
            true => EntryOutcome::FioFails("it moves no byte".to_owned()),
            false => EntryOutcome::Refused(why),
        })
    }

    /// Runs durio with permission to write to the stand-ins for devices that it names.
    fn permitted(
        &self,
        home: &Path,
        entry: &CorpusEntry,
        run: impl Fn(Command) -> Result<Output>,
    ) -> Result<Output> {
        let mut devices = entry.places().0;
        devices.sort();
        devices.dedup();
        loop {
            let mut command = in_folder(self.program, home);
            command.arg("fio");
            for device in &devices {
                command.args(["--destroy", device]);
            }
            let output = run(command)?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            // durio refuses a permission that no job uses, and an entry may name
            // devices that it then does not use.
            let unused = devices
                .iter()
                .position(|device| text.contains(&format!("--destroy '{device}' does not match")));
            match unused {
                Some(unused) => devices.remove(unused),
                None => return Ok(output),
            };
        }
    }

    fn compare(&self, entry: &CorpusEntry) -> Result<EntryOutcome> {
        let words = self.lay_out(entry, "fio")?;
        let home = self.folder.join("fio");
        let mut fio = in_folder("fio", &home);
        let json = entry.maps_files().then_some("--output-format=json");
        fio.args(json).args(&words);
        let output = run_traced(traced(&fio, &self.folder.join("fio.trace"))?)?;
        if !output.status.success() {
            return Ok(EntryOutcome::FioFails(reason(&output)));
        }
        let sum_of_fio = json.map(|_| calls::sum(&output.stdout)).transpose()?;
        self.lay_out(entry, "durio")?;
        let other = self.folder.join("durio");
        let output = self.permitted(&other, entry, |mut command| {
            command.args(["--quiet", "--out", "../runs"]).args(json).arg("--").args(&words);
            run_traced(traced(&command, &self.folder.join("durio.trace"))?)
        })?;
        if !output.status.success() {
            return Ok(EntryOutcome::Fails(reason(&output)));
        }
        let mut by_fio = calls::read(&self.folder.join("fio.trace"), &home)?;
        let mut by_durio = calls::read(&self.folder.join("durio.trace"), &other)?;
        if let Some(fio) = sum_of_fio {
            let durio = calls::sum(&output.stdout)?;
            if !is_as_much(entry, &fio, &durio) {
                return Ok(EntryOutcome::Different(format!("JSON: fio {fio:?} durio {durio:?}")));
            }
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let outcome = verdict(entry, (&by_fio, &by_durio), &said);
        if !matches!(outcome, EntryOutcome::Different(_)) {
            return Ok(outcome);
        }
        by_fio.sort_by(FileActivity::by_what_is_not_drawn);
        by_durio.sort_by(FileActivity::by_what_is_not_drawn);
        Ok(verdict(entry, (&by_fio, &by_durio), &said))
    }

    /// A folder with the stand-ins for devices, and the words of the entry.
    fn lay_out(&self, entry: &CorpusEntry, name: &str) -> Result<Vec<String>> {
        let home = self.folder.join(name);
        fs::create_dir(&home)?;
        let (devices, folders) = entry.places();
        for folder in folders {
            fs::create_dir_all(home.join(folder))?;
        }
        let bytes = usize::try_from(entry.device_bytes())?;
        for device in devices {
            fs::write(home.join(device), vec![1_u8; bytes])?;
        }
        let text = entry.text();
        match entry.form {
            EntryForm::Words => Ok(text.lines().map(str::to_owned).collect()),
            EntryForm::File => {
                fs::write(home.join("job.fio"), &text)?;
                Ok(vec!["job.fio".to_owned()])
            }
        }
    }
}

fn in_folder(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// The same command under strace, with a bound on its time.
fn traced(command: &Command, trace: &Path) -> Result<Command> {
    let folder = command.get_current_dir().context("a command in no folder")?.to_owned();
    let mut traced = in_folder("timeout", &folder);
    // What ignores the first signal is killed.
    traced.args(["-k", "5", SECONDS_MAX]);
    // A file per thread (-ff): in one file strace tears calls that overlap into two lines. The
    // times (-ttt) put them in order again, and -y has the path of each descriptor.
    traced.args(["strace", "-ff", "-ttt", "-y", "-v", "-s", "0", "-e", calls::TRACED]);
    traced.arg("-o").arg(trace).arg(command.get_program()).args(command.get_args());
    Ok(traced)
}

fn run_traced(mut command: Command) -> Result<Output> {
    command.output().context("cannot run strace")
}

/// The first line that says why.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("note:")).collect();
    let named = lines.iter().position(|line| line.contains("cannot do what these jobs ask for"));
    let first = named.map_or(0, |at| at + 1);
    lines.get(first).map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
}

/// Compares file by file, ordered by their calls.
fn verdict(
    entry: &CorpusEntry,
    (fio, durio): (&[FileActivity], &[FileActivity]),
    stderr: &str,
) -> EntryOutcome {
    let show = || format!("fio {fio:?} durio {durio:?}");
    if fio.len() != durio.len() {
        return EntryOutcome::Different(format!("files: {}", show()));
    }
    let free = ["norandommap", "random_distribution", "io_size", "number_ios", "blockalign"];
    let is_free = free.iter().any(|key| entry.has(key));
    let mut said = Vec::new();
    for (one, other) in fio.iter().zip(durio) {
        let mixes = mixes(entry, one, other);
        let is_same = is_as_much(entry, one, other)
            && (one.flags == other.flags && one.mapped == other.mapped)
            && (range_is_same(one, other, is_free || mixes) || (is_free && accesses(one) < 32));
        if !is_same {
            return EntryOutcome::Different(show());
        }
        if one.syncs != other.syncs {
            said.push(format!("{} and {} syncs", one.syncs, other.syncs));
        }
    }
    match said.is_empty() {
        true => EntryOutcome::Equal,
        false if notes_syncs(stderr) => EntryOutcome::Noted(said.join(", ")),
        false => EntryOutcome::Different(format!("syncs: {}", show())),
    }
}

fn accesses(done: &FileActivity) -> u64 {
    done.reads + done.writes
}

// A few accesses may all be of one kind, or at any place, by chance.
fn mixes(entry: &CorpusEntry, one: &FileActivity, other: &FileActivity) -> bool {
    is_mixed(one) || is_mixed(other) || (entry.mixes() && accesses(one) < 32)
}

/// Accesses, bytes and writes are equal, or as close as random draws permit.
fn is_as_much(entry: &CorpusEntry, one: &FileActivity, other: &FileActivity) -> bool {
    let near = |a: u64, b: u64, share: u64| a.abs_diff(b) <= a.max(b) / share;
    let has_mix = ["bsrange", "bssplit"].iter().any(|key| entry.has(key));
    // Draws of a size scatter: where one in ten is 64 KiB and most are 4, fio itself makes 170 to 247
    // accesses of a MiB over six seeds, and 3300 to 3700 of 16 MiB.
    let most = match (has_mix, accesses(one)) {
        (false, _) => u64::MAX,
        (true, ..1000) => 2,
        (true, _) => 8,
    };
    let writes_are_near = match mixes(entry, one, other) {
        true => near_in_mix(one, other),
        false => near(one.writes, other.writes, most),
    };
    near(accesses(one), accesses(other), most)
        && near(one.bytes, other.bytes, most)
        && writes_are_near
}

/// True if it accesses files, each at its end. If strace saw no access at all, nothing is known.
fn moves_no_byte(done: &[FileActivity]) -> bool {
    done.iter().all(|file| file.bytes == 0 && !file.mapped) && !done.is_empty()
}

/// Whether durio has a note on syncs; a note on an asynchronous engine does not count.
fn notes_syncs(stderr: &str) -> bool {
    let notes = stderr.lines().filter(|line| line.starts_with("note:"));
    let mut words = notes.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphabetic()));
    words.any(|word| ["sync", "syncs"].contains(&word))
}

fn is_mixed(done: &FileActivity) -> bool {
    done.reads > 0 && done.writes > 0
}

/// Each access is drawn to be one of the two: within five standard deviations of even odds.
fn near_in_mix(one: &FileActivity, other: &FileActivity) -> bool {
    // At even odds the variance of each count is n/4; that of their difference is the sum.
    let variance = (one.reads + one.writes) / 2;
    one.writes.abs_diff(other.writes).pow(2) <= 25 * variance.max(1)
}

/// Offsets that are drawn freely need not reach the very ends.
fn range_is_same(one: &FileActivity, other: &FileActivity, is_free: bool) -> bool {
    match (one.range, other.range) {
        (Some(one), Some(other)) if is_free => {
            let length = (one.1 - one.0).max(other.1 - other.0);
            one.0.abs_diff(other.0).max(one.1.abs_diff(other.1)) <= length / 2
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    /// Accesses of a block each, over the first `reads + writes` blocks.
    fn done(reads: u64, writes: u64) -> FileActivity {
        let bytes = (reads + writes) * BLOCK;
        FileActivity { reads, writes, bytes, range: Some((0, bytes)), ..FileActivity::default() }
    }

    fn equal(text: &str, fio: FileActivity, durio: FileActivity) -> bool {
        matches!(verdict(&CorpusEntry::of_file(text), (&[fio], &[durio]), ""), EntryOutcome::Equal)
    }

    #[test]
    fn accesses_that_are_not_drawn_are_the_same_to_the_last() {
        assert!(equal("rw=write", done(0, 64), done(0, 64)));
        assert!(!equal("rw=write", done(0, 64), done(0, 63)));
        assert!(!equal("rw=write", done(0, 64), done(64, 0)));
        let flagged = FileActivity { flags: ["O_DSYNC".to_owned()].into(), ..done(0, 64) };
        assert!(!equal("rw=write", done(0, 64), flagged));
        let moved = FileActivity { range: Some((BLOCK, 65 * BLOCK)), ..done(0, 64) };
        assert!(!equal("rw=write", done(0, 64), moved));
    }

    #[test]
    fn drawn_sizes_may_differ_by_a_half_and_where_there_are_a_thousand_by_an_eighth() {
        // The same range, so that the counts alone decide.
        let read = |count| FileActivity { range: Some((0, 1 << 24)), ..done(count, 0) };
        for text in ["bsrange=4k-64k", "bssplit=4k/90:64k/10"] {
            assert!(equal(text, read(800), read(400)), "{text}");
            assert!(!equal(text, read(800), read(399)), "{text}");
            assert!(equal(text, read(1600), read(1400)), "{text}");
            assert!(!equal(text, read(1600), read(1399)), "{text}");
        }
        assert!(!equal("bs=4k", read(1600), read(1599)));
    }

    #[test]
    fn the_writes_of_a_mix_may_differ_by_five_deviations() {
        let mix = |writes| done(200 - writes, writes);
        assert!(equal("rw=randrw", mix(100), mix(150)));
        assert!(!equal("rw=randrw", mix(100), mix(151)));
        let mix = |writes| done(800 - writes, writes);
        assert!(equal("rw=randrw", mix(400), mix(300)));
        assert!(!equal("rw=randrw", mix(400), mix(299)));
    }

    #[test]
    fn offsets_that_are_drawn_freely_may_leave_half_of_the_range_out() {
        let within =
            |first, end| FileActivity { range: Some((first * BLOCK, end * BLOCK)), ..done(40, 0) };
        assert!(equal("norandommap=1", within(0, 40), within(20, 40)));
        assert!(!equal("norandommap=1", within(0, 40), within(21, 40)));
        assert!(!equal("norandommap=1", within(0, 40), within(0, 19)));
        assert!(!equal("norandommap=0", within(0, 40), within(1, 40)));
    }

    #[test]
    fn a_job_whose_accesses_all_end_at_once_moves_no_byte() {
        let at_end = || FileActivity { reads: 3, range: Some((0, 0)), ..FileActivity::default() };
        assert!(moves_no_byte(&[at_end(), at_end()]));
        assert!(!moves_no_byte(&[at_end(), done(0, 1)]));
        assert!(!moves_no_byte(&[]));
        let mapped = FileActivity { mapped: true, ..FileActivity::default() };
        assert!(!moves_no_byte(&[at_end(), mapped]));
    }

    #[test]
    fn mapped_accesses_are_those_of_the_json_and_not_of_another_number() {
        let text = b"fio: a word\n{\"jobs\": [{\"read\": {\"io_bytes\": 8192, \"total_ios\": 2}, \
                     \"write\": {\"io_bytes\": 0, \"total_ios\": 0}}, {\"read\": {\"io_bytes\": 4096, \
                     \"total_ios\": 1}, \"write\": {\"io_bytes\": 12288, \"total_ios\": 3}}]}\nmore\n";
        let sum = calls::sum(text).unwrap();
        assert_eq!(sum, FileActivity { range: None, ..done(3, 3) });
        let entry = CorpusEntry::of_file("ioengine=mmap\nrw=read");
        assert!(entry.maps_files());
        assert!(is_as_much(&entry, &done(0, 64), &done(0, 64)));
        assert!(!is_as_much(&entry, &done(0, 64), &done(0, 65)));
        let mapped = FileActivity { mapped: true, ..done(0, 64) };
        assert!(!equal("ioengine=mmap", mapped, done(0, 64)));
    }

    #[test]
    fn different_syncs_need_a_note_that_speaks_of_syncs() {
        let synced = |syncs| FileActivity { syncs, ..done(0, 16) };
        let of = |stderr: &str| {
            let entry = CorpusEntry::of_file("rw=write\nfsync=8");
            verdict(&entry, (&[synced(1)], &[synced(2)]), stderr).words()
        };
        let noted = "noted 1 and 2 syncs";
        assert_eq!(of("note: job.fio:3: fsync: durio also syncs after the last write\n"), noted);
        assert_eq!(of("note: the job submits nothing until each sync returns\n"), noted);
        for silent in [
            "",
            "note: give an asynchronous engine\n",
            "note: job.fio:3: fsync: it is every 8 writes\n",
            "durio syncs after the last write\n",
        ] {
            assert!(of(silent).starts_with("DIFFERENT syncs: "), "{silent}");
        }
    }
}
