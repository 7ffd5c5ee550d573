//! What a step needs of the kernel apart from its files: a cold page cache, a bound on the memory
//! that the page cache may use, another read-ahead. All of it ends with the step.
//!
//! While a step runs the process is in a memory cgroup of durio's own: pages that it brings into the
//! page cache count there. The kernel's read-ahead is set while files are opened and set back at
//! once: a file keeps the value that its device had when it was opened (file_ra_state_init in the
//! kernel's mm/readahead.c).

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use durio_base::Bytes;
use durio_observe::{MemoryGroup, memory_group};
use durio_plan::{Plan, RawPath, Step, TargetKind};
use durio_record::{ChangedSetting, SettingJournal, StateFolder};
use rustix::fs::{major, minor};

use crate::error::RunError;
use crate::layout::PreparedTarget;

/// Conditions that hold while it lives.
#[derive(Debug)]
pub(crate) struct HeldConditions {
    /// Files keep the read-ahead that they were opened with.
    read_ahead: Vec<ReadAhead>,
}

impl HeldConditions {
    /// Sets the conditions for opening the files.
    pub(crate) fn before_opening(
        step: &Step,
        plan: &Plan,
        prepared: &[Option<PreparedTarget>],
        state: Option<&StateFolder>,
    ) -> Result<Self, RunError> {
        let mut read_ahead = Vec::new();
        for target in step.loads().flat_map(|load| load.targets()) {
            if let (Some(prepared), true) = (&prepared[target], step.drop_cache) {
                prepared.drop_cache()?;
            }
            let Some(path) = path_of(&plan.targets[target].kind) else { continue };
            if let Some(bytes) = step.read_ahead {
                read_ahead.extend(ReadAhead::set(path, bytes, state)?);
            }
        }
        Ok(Self { read_ahead })
    }

    /// Sets the conditions for running the step, now that its memory is taken and its files are
    /// open; undoes those for opening alone.
    pub(crate) fn after_opening(self, step: &Step) -> Result<Option<MemoryBound>, RunError> {
        // Files keep the read-ahead they were opened with; other programs get theirs back as soon
        // as possible.
        for read_ahead in self.read_ahead {
            read_ahead.restore()?;
        }
        step.memory_bound.map(MemoryBound::enter).transpose()
    }
}

/// Where a target is, or will be; none for targets without storage.
pub(crate) fn path_of(kind: &TargetKind) -> Option<&Path> {
    match kind {
        TargetKind::NewFile { directory, .. } => Some(directory.as_path()),
        TargetKind::ExistingFile { path } | TargetKind::Device { path } => Some(path.as_path()),
        TargetKind::NullDevice { .. } | TargetKind::Scripted => None,
    }
}

/// The process is in a cgroup with a bound; dropped, it is where it was, and the cgroup is gone.
#[derive(Debug)]
pub(crate) struct MemoryBound {
    parent: PathBuf,
    own: PathBuf,
}

impl MemoryBound {
    /// Enters a cgroup bounded to `bytes`.
    ///
    /// Memory that the process has already stays counted where it is.
    pub(crate) fn enter(bytes: Bytes) -> Result<Self, RunError> {
        let MemoryGroup { directory, limit_file } = memory_group().ok_or_else(|| {
            refusal("the memory controller of control groups is not mounted", None)
        })?;
        let own = directory.join(format!("{OWN_NAME}{}", std::process::id()));
        let bound = Self { parent: directory, own };
        match fs::create_dir(&bound.own) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let place = bound.own.clone();
                // Nothing was made: there is nothing to leave, and nothing to remove.
                std::mem::forget(bound);
                return Err(refusal(
                    &format!("cannot make the control group '{}'", place.display()),
                    Some(error),
                ));
            }
            _ => {}
        }
        let write = |file: &str, text: String| fs::write(bound.own.join(file), text);
        // The bound before the process: no page comes in that it does not count.
        write(limit_file, bytes.get().to_string())
            .and_then(|()| write("cgroup.procs", std::process::id().to_string()))
            .map_err(|error| {
                let text = format!("cannot limit the memory to {bytes}");
                refusal(&text, Some(error))
            })?;
        Ok(bound)
    }
}

impl Drop for MemoryBound {
    fn drop(&mut self) {
        // The error cannot be reported any more; the next run removes an empty one.
        let _ = fs::write(self.parent.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.own);
    }
}

/// How the names of durio's control groups begin; the number of its process follows.
const OWN_NAME: &str = "durio-memory-bound-";

/// Removes the control groups that killed runs left. The kernel removes none that has a process.
pub(crate) fn remove_left() {
    let groups = memory_group().and_then(|group| fs::read_dir(group.directory).ok());
    for group in groups.into_iter().flatten().flatten() {
        let name = group.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(OWN_NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

fn refusal(text: &str, error: Option<io::Error>) -> RunError {
    let refusal = match error {
        Some(error) => RunError::target(text).because(error),
        None => RunError::unsupported(text),
    };
    refusal
        .hint("run as root on a system with the memory controller, or leave out the memory limit")
}

/// A changed setting; dropped, it is as it was.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    setting: PathBuf,
    before: String,
    restored: bool,
    /// Lets the next durio restore it if this one is killed; none without a state folder.
    journal: Option<SettingJournal>,
}

impl ReadAhead {
    /// Sets the read-ahead of the device below `path`; none if it has that value already.
    pub(crate) fn set(
        path: &Path,
        bytes: Bytes,
        state: Option<&StateFolder>,
    ) -> Result<Option<Self>, RunError> {
        let fail = |what: &str, error: std::io::Error| {
            let message = format!("cannot {what} the read-ahead below '{}'", path.display());
            RunError::target(message)
                .because(error)
                .hint("run as root, or leave out the read-ahead")
        };
        let facts = fs::metadata(path).map_err(|error| fail("find", error))?;
        let is_device = facts.file_type().is_block_device();
        let number = if is_device { facts.rdev() } else { facts.dev() };
        let name = format!("{}:{}", major(number), minor(number));
        let setting = Path::new("/sys/class/bdi").join(&name).join("read_ahead_kb");
        let before = fs::read_to_string(&setting).map_err(|error| fail("read", error))?;
        let before = before.trim().to_owned();
        let wanted = (bytes.get() / 1024).to_string();
        if before == wanted {
            return Ok(None);
        }
        let entry = ChangedSetting {
            path: RawPath::from(setting.as_path()),
            before: before.clone(),
            after: wanted.clone(),
        };
        // Before it is changed: after a kill only the journal knows the old value.
        let journal = state.map(|state| {
            SettingJournal::begin(
                state,
                &format!("read-ahead-{name}-{}", std::process::id()),
                &entry,
            )
        });
        let journal = journal.transpose().map_err(|error| RunError::sink(error.into()))?;
        let changed = Self { setting, before, restored: false, journal };
        fs::write(&changed.setting, &wanted).map_err(|error| fail("set", error))?;
        Ok(Some(changed))
    }

    pub(crate) fn restore(mut self) -> Result<(), RunError> {
        self.put_back().map_err(|error| {
            let (setting, before) = (self.setting.display(), &self.before);
            RunError::target(format!("cannot restore '{setting}' to {before}: restore it by hand"))
                .because(error)
        })
    }

    // Once: after a failure its entry in the journal stays, for the next run.
    fn put_back(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.restored, true) {
            return Ok(());
        }
        fs::write(&self.setting, &self.before)?;
        if let Some(journal) = self.journal.take() {
            journal.end();
        }
        Ok(())
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Another error is on its way.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use durio_block::testkit::note_skip;
    use durio_record::restore_left_settings;

    use super::*;

    #[test]
    fn the_group_of_a_dead_run_is_removed_and_that_of_a_living_one_stays() {
        const NAME: &str = "the_group_of_a_dead_run_is_removed_and_that_of_a_living_one_stays";
        let Some(group) = memory_group() else {
            return note_skip(NAME, &"no memory controller is mounted");
        };
        // Above all numbers that processes can have (PID_MAX_LIMIT, 2^22).
        let [dead, living] = [5_000_000, std::process::id()]
            .map(|process| group.directory.join(format!("{OWN_NAME}{process}")));
        if let Err(error) = fs::create_dir(&dead) {
            return note_skip(NAME, &error);
        }
        fs::create_dir(&living).unwrap();
        remove_left();
        let left = [dead.exists(), living.exists()];
        fs::remove_dir(&living).unwrap();
        assert_eq!(left, [false, true]);
    }

    /// A killed run cannot set it back; the next one finds the entry.
    #[test]
    fn a_changed_read_ahead_is_remembered_until_it_is_set_back() {
        let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = StateFolder::make(place.path()).unwrap();
        let entries = || fs::read_dir(place.path().join("settings")).map_or(0, Iterator::count);
        let number = fs::metadata(data.path()).unwrap().dev();
        let name = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(number), minor(number));
        let before = fs::read_to_string(&name).unwrap_or_default();
        let kib = before.trim().parse().unwrap_or(0);
        let other = Bytes::from_kib(kib + 4);
        let changed = match ReadAhead::set(data.path(), other, Some(&state)) {
            Ok(changed) => changed.unwrap(),
            Err(error) => return note_skip("a_changed_read_ahead_is_remembered", &error),
        };
        assert_eq!(entries(), 1);
        assert_eq!(fs::read_to_string(&name).unwrap().trim(), (kib + 4).to_string());
        restore_left_settings(&state, |_| panic!("its durio lives"));
        changed.restore().unwrap();
        assert_eq!((fs::read_to_string(&name).unwrap(), entries()), (before, 0));
    }

    #[test]
    fn what_cannot_be_set_back_is_an_error_and_stays_in_the_journal() {
        let place = tempfile::tempdir().unwrap();
        let state = StateFolder::make(place.path()).unwrap();
        let left = |state: &StateFolder| {
            let mut left = Vec::new();
            restore_left_settings(state, |setting| {
                left.push(setting.clone());
                false
            });
            left
        };
        // It can be opened for writing, and takes nothing.
        let setting = PathBuf::from("/dev/full");
        let entry = ChangedSetting {
            path: RawPath::from(setting.as_path()),
            before: "128".into(),
            after: "4096".into(),
        };
        for is_dropped in [false, true] {
            let journal = SettingJournal::begin(&state, "read-ahead-8:0-1", &entry).unwrap();
            let (before, journal) = ("128".to_owned(), Some(journal));
            let changed = ReadAhead { setting: setting.clone(), before, restored: false, journal };
            if is_dropped {
                drop(changed);
            } else {
                let error = changed.restore().unwrap_err().to_string();
                assert_eq!(error, "cannot restore '/dev/full' to 128: restore it by hand");
            }
            assert_eq!(left(&state), std::slice::from_ref(&entry), "dropped: {is_dropped}");
        }
    }
}
