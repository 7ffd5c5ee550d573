//! Mutated inputs: every kind of file that durio reads, its command lines, its environment.
//!
//! Takes good inputs and reports forbidden reactions of durio to bad ones. `names` has hostile
//! names, `archives` archives of guests. In the place of a file may
//! also be a FIFO, a device, a link, a folder or a huge file.

mod commands;
mod folders;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::arena::{Arena, AttackCase};
use super::launch::{EndedProcess, Launch};
use super::mutate::{TextForm, mutate};
use super::random::Random;
use super::rows::{AttackRow, nothing};
use super::witness::{FolderTree, faults_but};

/// One file in this many is not a regular file.
const PLACE_ONCE_IN: usize = 8;

pub(super) fn rows() -> Vec<AttackRow> {
    let row = |name, small, full, attack| AttackRow { name, small, full, missing: nothing, attack };
    vec![
        row("inputs:spec", 120, 12_000, spec),
        row("inputs:stack-spec", 120, 12_000, stack_spec),
        row("inputs:profile", 80, 8_000, profile),
        row("inputs:job-file", 120, 12_000, job_file),
        row("inputs:fio-json", 80, 8_000, fio_json),
        row("inputs:table", 80, 8_000, table),
        row("inputs:run-folder", 160, 16_000, folders::run_folder),
        row("inputs:bench-folder", 60, 4_000, folders::bench_folder),
        row("inputs:histogram-log", 60, 6_000, folders::histogram_log),
        row("inputs:journal", 40, 2_000, folders::journal),
        row("inputs:configuration", 40, 4_000, configuration),
        row("inputs:command-line", 80, 5_000, commands::command_line),
        row("inputs:environment", 40, 2_800, commands::environment),
        row("inputs:dumb-terminal", 6, 200, commands::dumb_terminal),
    ]
}

fn spec(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let texts = &arena.corpus()?.specs;
    let formats = ["plan --target data", "plan --format json --target data", "plan"];
    one_file(arena, texts, TextForm::Settings, "x.toml", &formats, random)
}

fn stack_spec(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let texts = &arena.corpus()?.stack_specs;
    let formats = ["stack plan", "stack plan --format json", "stack plan --scale-size 0.1"];
    one_file(arena, texts, TextForm::Settings, "x.toml", &formats, random)
}

fn profile(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let texts = &arena.corpus()?.profiles;
    let formats = ["profile show", "profile show --format json"];
    one_file(arena, texts, TextForm::Settings, "./x.toml", &formats, random)
}

fn job_file(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    one_file(
        arena,
        &arena.corpus()?.job_files,
        TextForm::Settings,
        "x.fio",
        &["fio --plan"],
        random,
    )
}

fn fio_json(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let formats = ["audit", "audit --format json"];
    one_file(arena, &arena.corpus()?.fio_json, TextForm::Json, "x.json", &formats, random)
}

fn table(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    let formats = ["audit", "audit --format json"];
    one_file(arena, &arena.corpus()?.tables, TextForm::Cells, "x.csv", &formats, random)
}

/// Files of databases, read by `advise`.
fn configuration(arena: &Arena, _: usize, random: &mut Random) -> Result<Vec<String>> {
    const FILES: [(&str, &str); 3] = [
        (
            "postgresql",
            "fsync = on\nwal_sync_method = fdatasync # x\ncommit_delay = 100\n\
          shared_buffers = 128MB\ninclude = 'other.conf'\n",
        ),
        (
            "mysql",
            "[mysqld]\ninnodb_flush_method=O_DIRECT\ninnodb_flush_log_at_trx_commit=1\n\
          !include other.cnf\nsync_binlog=1\n",
        ),
        ("redis", "appendonly yes\nappendfsync everysec\nsave 3600 1\ninclude other.conf\n"),
    ];
    let (database, text) = random.pick(&FILES);
    let line = format!("advise data --database {database} --config");
    one_file(arena, &[text.as_bytes().to_vec()], TextForm::Settings, "x.conf", &[&line], random)
}

/// A file of ours, mutated, as the last word of one of the commands.
fn one_file(
    arena: &Arena,
    texts: &[Vec<u8>],
    form: TextForm,
    name: &str,
    commands: &[&str],
    random: &mut Random,
) -> Result<Vec<String>> {
    let case = arena.case()?;
    let path = case.path(name);
    let text = mutate(&random.pick(texts), form, texts, random);
    let place = if random.once_in(PLACE_ONCE_IN) {
        Some(put_place(&path, &text, random)?)
    } else {
        fs::write(&path, text)?;
        None
    };
    let command = random.pick(commands);
    let wrong = WatchedCase::begin(&case).run(case.durio(command).word(name))?;
    Ok(with_place(wrong, place))
}

/// The faults, and the object in place of a file.
fn with_place(wrong: Vec<String>, place: Option<&str>) -> Vec<String> {
    let place = place.map(|place| format!(" ({place} in place of a file)")).unwrap_or_default();
    wrong.into_iter().map(|fault| format!("{fault}{place}")).collect()
}

/// A user's files next to the case, which must not change.
struct WatchedCase<'a> {
    case: &'a AttackCase,
    before: FolderTree,
}

impl<'a> WatchedCase<'a> {
    fn begin(case: &'a AttackCase) -> Self {
        Self { case, before: foreign(case.root()) }
    }

    /// Runs a command that only reads.
    fn run(&self, launch: Launch) -> Result<Vec<String>> {
        let ended = launch.run()?;
        Ok(self.judge(&ended))
    }

    fn judge(&self, ended: &EndedProcess) -> Vec<String> {
        self.judge_but(ended, &[])
    }

    /// The same, with further exit codes that are right.
    fn judge_but(&self, ended: &EndedProcess, also: &[i32]) -> Vec<String> {
        let mut wrong = faults_but(ended, also);
        wrong.extend(self.before.differences(&foreign(self.case.root())));
        wrong
    }
}

/// Everything that durio may not make: all but its state, which is below home unless a variable
/// says otherwise.
fn foreign(case: &Path) -> FolderTree {
    // By times of change: hashing all files in each of thousands of cases would take longest.
    FolderTree::stamps_of(case).without(&["state", "out", "home/.local", "home/.cache"])
}

/// More than a reader may take into memory, and no blocks on the disk.
const HUGE_BYTES: u64 = 1 << 30;

/// Puts something other than a regular file with that text at a free path; returns its kind.
fn put_place(path: &Path, text: &[u8], random: &mut Random) -> Result<&'static str> {
    Ok(match random.below(10) {
        0 => {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            "a FIFO"
        }
        1 => linked("/dev/zero", path, "a link to /dev/zero")?,
        2 => linked(path, path, "a link to itself")?,
        3 => linked("/nowhere/at/all", path, "a link to nothing")?,
        4 => linked("/proc/self/fd/0", path, "a link to its input")?,
        5 => linked("/dev/random", path, "a link to /dev/random")?,
        6 => {
            fs::create_dir(path)?;
            "a folder"
        }
        7 => {
            fs::write(path, text)?;
            File::options().write(true).open(path)?.set_len(HUGE_BYTES)?;
            "a file of 1 GiB"
        }
        8 => {
            fs::write(path, text)?;
            fs::set_permissions(path, Permissions::from_mode(0o0))?;
            "a file without rights"
        }
        _ => {
            // The name of a socket has 107 bytes at most; one elsewhere does no harm.
            drop(UnixListener::bind(path).or_else(|_| UnixListener::bind("/tmp/attack-socket")));
            "a socket"
        }
    })
}

fn linked(to: impl AsRef<Path>, path: &Path, what: &'static str) -> Result<&'static str> {
    symlink(to, path)?;
    Ok(what)
}
