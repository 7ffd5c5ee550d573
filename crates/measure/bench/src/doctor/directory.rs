//! A directory: its storage, its room, the calls that a run makes on files there, and the state
//! folder.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use durio_base::Bytes;
use durio_block::{
    BlockError, Buffers, DirectIo, FileMark, OpenMode, OpenTarget, WriteFlags, create_named,
    create_unnamed, direct_io, probe_range_sync, probe_write_flags,
};
use durio_command::{CommandError, LocatedPlaces, Permission, locate};
use durio_observe::{Host, Stack, leaf_devices, read_stack};
use durio_plan::{ClockChoice, LocationFacts, Plan};
use durio_report::DiagnosisRow;
use durio_spec::{CheckLength, CheckRequest, plan_check, usual_databases};
use rustix::fs::{Access, AtFlags, CWD, accessat, fdatasync};
use rustix::io::pwrite;

use super::CheckedThing;
use crate::state_folder::{runs_folder, state_folder as existing_state, state_path};

// A commit of `durio check`, so that the same alignment is asked for.
const BLOCK: usize = 8192;

/// The findings on the directory, with a plan and a stack if there are any.
pub(super) struct DirectorySurvey {
    pub(super) rows: Vec<DiagnosisRow>,
    /// What `durio check` would do there.
    pub(super) plan: Option<Plan>,
    pub(super) stack: Option<Stack>,
}

pub(super) fn survey(directory: &Path, host: &Host) -> DirectorySurvey {
    let path = directory.to_owned();
    if matches!(path.try_exists(), Ok(false)) {
        return nothing(&no_directory(&path, "does not exist"));
    }
    let permission = Permission::Named { destroy: &[], force_signature: false };
    let located = match locate([&path], permission) {
        Ok(located) => located,
        Err(error) => return nothing(&error),
    };
    let is_directory = |located: &LocatedPlaces| {
        matches!(
            located.places.first().map(|place| place.facts),
            Some(LocationFacts::Directory { .. })
        )
    };
    if !is_directory(&located) {
        return nothing(&no_directory(&path, "is not a directory"));
    }
    let stack = read_stack(directory).ok();
    let (room, plan) = room(located);
    let below = stack.as_ref().map_or_else(|| CheckedThing::ok("a directory"), place);
    let mut rows = vec![below.needed("directory", "the storage to measure"), room];
    rows.extend(files(directory, host));
    DirectorySurvey { rows, plan, stack }
}

fn no_directory(path: &Path, what: &str) -> CommandError {
    CommandError::cannot_measure(format!("'{}' {what}", path.display()))
        .hint("name an existing directory on the storage to measure")
}

fn nothing(error: &CommandError) -> DirectorySurvey {
    let row = CheckedThing::error(error).needed("directory", "the storage to measure");
    DirectorySurvey { rows: vec![row], plan: None, stack: None }
}

/// The storage of the directory.
fn place(stack: &Stack) -> CheckedThing {
    let Some(filesystem) = stack.filesystem() else { return CheckedThing::ok("a directory") };
    let devices = leaf_devices(stack);
    let on = if devices.is_empty() { String::new() } else { format!(" on {}", devices.join(", ")) };
    let text = format!("{}{on}, mounted at {}", filesystem.fs_type, filesystem.mount_point);
    if filesystem.memory_backed || stack.is_in_memory() {
        let text = format!("memory-backed: {text}; nothing survives a power cut");
        return CheckedThing::limited(
            text,
            "name a directory on a disk, unless memory is to be measured",
        );
    }
    CheckedThing::ok(text)
}

/// Whether what `durio check` lays out has room, and its plan.
fn room(located: LocatedPlaces) -> (DiagnosisRow, Option<Plan>) {
    let used_for = "the files of durio check: 1.4 GiB, at most a tenth of the free space";
    let free = located.places.first().and_then(|place| match place.facts {
        LocationFacts::Directory { free, .. } => Some(free),
        _ => None,
    });
    let free = free.unwrap_or_default();
    let planned = plan_check(&CheckRequest {
        locations: located.places,
        length: CheckLength::Usual,
        duration: None,
        size: None,
        only: Vec::new(),
        predicted: usual_databases().unwrap_or_default(),
        asked: Vec::new(),
        goals: Vec::new(),
        seed: 1,
        clock: ClockChoice::Auto,
        file_name: ".durio-doctor".to_owned(),
    });
    match planned {
        Ok(plan) => (room_found(free, &plan).needed("room", used_for), Some(plan)),
        Err(error) => (CheckedThing::error(&error).needed("room", used_for), None),
    }
}

/// The size of the data file where there is room enough.
const DATA: Bytes = Bytes::from_gib(1);

fn room_found(free: Bytes, plan: &Plan) -> CheckedThing {
    let data = plan.targets.iter().find(|target| target.name == "data").map(|target| target.size);
    let text = format!("{free} free; durio check takes {}", plan.cost().space);
    match data.filter(|data| *data < DATA) {
        Some(data) => CheckedThing::limited(
            format!("{text}, its data file {data} instead of {DATA}"),
            "free some space, or give durio check a --size: a small data set is read from caches",
        ),
        None => CheckedThing::ok(text),
    }
}

/// An open file of durio in the directory, which has no name, or none any more.
struct TrialFile {
    /// Opened without O_DIRECT.
    plain: OwnedFd,
    /// With it, where that is possible.
    direct: Result<OpenTarget, BlockError>,
    had_name: bool,
}

impl TrialFile {
    fn make(directory: &Path) -> Result<Self, CommandError> {
        let unnamed = create_unnamed(directory)?;
        let had_name = unnamed.is_none();
        let made = match unnamed {
            Some(made) => made,
            None => create_named(directory, FileMark::new()?)?,
        };
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let direct = made.open(OpenMode { direct: true, ..mode });
        let plain = made.file.try_clone();
        // No journal remembers it, so its name is removed first.
        made.remove()?;
        let plain = plain.map_err(|error| CommandError::io("use the file in", directory, error))?;
        Ok(Self { plain, direct, had_name })
    }
}

/// A run's operations on files there; only the first if no file can be made.
fn files(directory: &Path, host: &Host) -> Vec<DiagnosisRow> {
    let used_for = "files that disappear with durio, even if it is killed";
    let file = match TrialFile::make(directory) {
        Ok(file) => file,
        Err(error) => return vec![CheckedThing::error(&error).needed("files", used_for)],
    };
    let made = match file.had_name {
        false => CheckedThing::ok("unnamed files (O_TMPFILE)"),
        true => CheckedThing::limited(
            "named files: this filesystem does not support unnamed ones, or syncs them differently",
            "nothing; durio removes them, and after a kill the next run does",
        ),
    };
    vec![
        made.needed("files", used_for),
        direct(&file).row("O_DIRECT", "results of the storage instead of the page cache"),
        sync(&file, host).needed("fdatasync", "durable commits"),
        write_flags(&file).row("write flags", "durio durable, --sync rwf_dsync and similar"),
    ]
}

fn write_block(file: impl AsFd) -> io::Result<()> {
    // Aligned as every block of a run is.
    let mut buffers = Buffers::try_new(1, BLOCK).map_err(|error| error.source)?;
    match pwrite(file, buffers.slot_mut(0), 0)? {
        BLOCK => Ok(()),
        written => Err(io::Error::other(format!("{written} of {BLOCK} bytes were written"))),
    }
}

fn direct(file: &TrialFile) -> CheckedThing {
    let remedy = "measure on another filesystem, or treat the results as those of the page cache";
    let opened = match &file.direct {
        Ok(opened) => opened,
        Err(error) => return CheckedThing::limited(format!("{error}: {}", error.source), remedy),
    };
    let answer = direct_io(opened.file.as_fd());
    // Some filesystems take the flag and use the page cache all the same.
    if !opened.direct || answer == DirectIo::Impossible {
        return CheckedThing::limited(
            "not possible: the page cache is measured, not the device",
            remedy,
        );
    }
    if let Err(error) = write_block(&opened.file) {
        return CheckedThing::limited(format!("a write of 8 KiB fails: {error}"), remedy);
    }
    match answer {
        DirectIo::Possible(alignment) => CheckedThing::ok(format!(
            "8 KiB written; offsets are multiples of {}",
            alignment.offset
        )),
        DirectIo::CachesParts(alignment) => CheckedThing::limited(
            format!("writes that are not a multiple of {} go through a cache", alignment.offset),
            "set the record size of the dataset to the database's block size (zfs set recordsize)",
        ),
        DirectIo::Unknown | DirectIo::Impossible => CheckedThing::ok("8 KiB written"),
    }
}

fn sync(file: &TrialFile, host: &Host) -> CheckedThing {
    let written = write_block(&file.plain);
    if let Err(error) = written.and_then(|()| fdatasync(&file.plain).map_err(io::Error::from)) {
        let remedy = "see dmesg: a filesystem that cannot sync a block is broken";
        return CheckedThing::no(format!("8 KiB cannot be written and synced: {error}"), remedy);
    }
    let swallowers = host.process.iter().flat_map(|process| &process.sync_swallowers);
    match swallowers.map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => CheckedThing::ok("8 KiB written and synced"),
        loaded => CheckedThing::limited(
            format!("{} makes sync calls do nothing", loaded.join(", ")),
            "start durio without it (LD_PRELOAD, /etc/ld.so.preload)",
        ),
    }
}

fn write_flags(file: &TrialFile) -> CheckedThing {
    let probes = [
        ("RWF_DSYNC", probe_write_flags(&file.plain, WriteFlags::Dsync)),
        ("RWF_SYNC", probe_write_flags(&file.plain, WriteFlags::Sync)),
        ("sync_file_range", probe_range_sync(&file.plain)),
    ];
    let of = |works: bool| {
        let those = probes.iter().filter(|(_, probed)| probed.is_ok() == works);
        those.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let (works, fails) = (of(true), of(false));
    if fails.is_empty() {
        return CheckedThing::ok(works);
    }
    let remedy = "use another --sync method there; durio durable leaves these out";
    match works.is_empty() {
        true => CheckedThing::no(format!("without {fails}"), remedy),
        false => CheckedThing::limited(format!("{works}; without {fails}"), remedy),
    }
}

/// Whether run folders can be made, without making one.
pub(super) fn state_folder() -> DiagnosisRow {
    let found = match (state_path(), existing_state()) {
        (Some(path), Ok(_)) => writable(&path),
        (_, Err(error)) => CheckedThing::error(&error),
        // Without a home, as a run says it.
        (None, _) => runs_folder(None)
            .map_or_else(|error| CheckedThing::error(&error), |folder| writable(&folder)),
    };
    found.needed("state folder", "records of runs, and journals of the files that durio creates")
}

fn writable(folder: &Path) -> CheckedThing {
    let remedy = "set XDG_STATE_HOME to a folder that you own, or give --out DIR";
    // durio creates the missing part of the path.
    let Some(nearest) = folder.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok())
    else {
        return CheckedThing::no(format!("'{}' leads nowhere", folder.display()), remedy);
    };
    if !nearest.is_dir() {
        return CheckedThing::no(format!("'{}' is not a directory", nearest.display()), remedy);
    }
    match accessat(CWD, nearest, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => CheckedThing::ok(folder.display().to_string()),
        Err(errno) => {
            let error = io::Error::from(errno);
            let what = match nearest == folder {
                true => format!("cannot write to '{}'", folder.display()),
                false => format!("cannot make '{}' in '{}'", folder.display(), nearest.display()),
            };
            CheckedThing::no(format!("{what}: {error}"), remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use durio_report::DiagnosisState;

    use super::*;

    #[test]
    fn a_state_folder_that_is_still_to_be_made_is_judged_by_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let found = writable(&folder.path().join("state/durio/runs"));
        assert_eq!(found.state, DiagnosisState::Ok);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(writable(&file.join("runs")).state, DiagnosisState::No);
    }

    #[test]
    fn a_trial_leaves_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let rows = files(folder.path(), &Host::default());
        assert_eq!(rows.len(), 4);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn little_room_makes_a_small_data_file() {
        let folder = tempfile::tempdir().unwrap();
        let with_free = |mib| {
            let permission = Permission::Named { destroy: &[], force_signature: false };
            let mut located = locate([&folder.path().to_owned()], permission).unwrap();
            let free = Bytes::from_mib(mib);
            located.places[0].facts = LocationFacts::Directory { free, filesystem: 1 };
            room(located).0
        };
        assert_eq!(with_free(100_000).state, DiagnosisState::Ok);
        assert_eq!(with_free(1000).state, DiagnosisState::Limited);
        let none = with_free(10);
        assert_eq!((none.state, none.needed_by_check), (DiagnosisState::No, true));
        assert!(none.remedy.contains("free some space"), "{}", none.remedy);
    }
}
