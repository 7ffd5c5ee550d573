//! Settings of the kernel that durio changes for a while and then restores: at the end, on an
//! error, on a signal, and after a kill by the next durio. A setting is a file in sysfs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use durio_command::{CommandError, error_chain};
use durio_plan::RawPath;
use durio_record::{ChangedSetting, FolderName, SettingJournal, restore_left_settings};

use crate::observer::Observer;
use crate::state_folder::{state_folder, state_for};

/// The only settings that durio ever writes.
// A journal that names another is not durio's.
const FILES: [&str; 3] = ["read_ahead_kb", "scheduler", "nr_requests"];

/// A setting whose old value is remembered on disk.
pub(crate) struct SettingGuard<'a> {
    observer: &'a dyn Observer,
    path: PathBuf,
    before: String,
    journal: Option<SettingJournal>,
}

impl<'a> SettingGuard<'a> {
    /// Remembers the value `before`; nothing is changed yet.
    pub(crate) fn begin(
        path: &Path,
        before: &str,
        after: &str,
        observer: &'a dyn Observer,
    ) -> Result<Self, CommandError> {
        // What cannot be changed needs no journal.
        check_writable(path)?;
        let state = state_for("the old value")?;
        let changed = ChangedSetting {
            path: RawPath::from(path),
            before: before.into(),
            after: after.into(),
        };
        let name = FolderName::new("setting", SystemTime::now(), std::process::id());
        let journal = SettingJournal::begin(&state, name.as_str(), &changed)?;
        let (path, before) = (path.to_owned(), before.to_owned());
        Ok(Self { observer, path, before, journal: Some(journal) })
    }

    /// Sets a value, and reads it back.
    pub(crate) fn set(&self, value: &str) -> Result<(), CommandError> {
        fs::write(&self.path, value).map_err(|error| refused(&self.path, value, &error))?;
        // The kernel takes some values and keeps others: read_ahead_kb is rounded to whole pages.
        let now = current(&self.path).map_err(|error| refused(&self.path, value, &error))?;
        if now == value {
            return Ok(());
        }
        let message =
            format!("wrote {value} to '{}', but it reads back {now}", self.path.display());
        Err(CommandError::cannot_measure(message).hint("name a value that it accepts unchanged"))
    }

    /// Restores the old value; returns the value read afterwards.
    pub(crate) fn restore(mut self) -> Result<String, CommandError> {
        self.put_back()?;
        current(&self.path).map_err(|error| refused(&self.path, &self.before, &error))
    }

    fn put_back(&mut self) -> Result<(), CommandError> {
        // Once: dropping the guard comes here again.
        let Some(journal) = self.journal.take() else { return Ok(()) };
        match self.set(&self.before) {
            Ok(()) => {
                journal.end();
                Ok(())
            }
            // Its entry stays for the next durio.
            Err(failure) => Err(failure.hint(format!(
                "set it back yourself: echo {} > {}",
                self.before,
                self.path.display()
            ))),
        }
    }
}

impl Drop for SettingGuard<'_> {
    fn drop(&mut self) {
        // Also where an error or a panic ended the turns.
        if let Err(error) = self.put_back() {
            self.observer.remark(&format!("durio: {}", error_chain(&error)));
            for hint in error.hints {
                self.observer.remark(&format!("hint: {hint}"));
            }
        }
    }
}

/// The value of a setting; of a list, the chosen one.
pub(crate) fn current(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    // The kernel lists all schedulers and puts the one in use into brackets.
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    Ok(chosen.map_or(text.as_str(), |(word, _)| word).trim().to_owned())
}

/// The values that a setting takes, where it has a list of them.
pub(crate) fn choices(path: &Path) -> io::Result<Option<Vec<String>>> {
    let text = fs::read_to_string(path)?;
    let words = || text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned());
    Ok(text.contains('[').then(|| words().collect()))
}

fn check_writable(path: &Path) -> Result<(), CommandError> {
    // Opening changes nothing, only writing does.
    match fs::OpenOptions::new().write(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!("cannot change '{}': {error}", path.display());
            Err(CommandError::cannot_measure(message)
                .hint("run as root, and not in a container whose /sys is read-only"))
        }
    }
}

fn refused(path: &Path, value: &str, error: &io::Error) -> CommandError {
    let message = format!("cannot set '{}' to {value}: {error}", path.display());
    CommandError::cannot_measure(message)
}

/// Brings back what durios that were killed left changed; a line for each setting.
pub fn restore_settings() -> Vec<String> {
    let mut told = Vec::new();
    if let Ok(Some(state)) = state_folder() {
        restore_left_settings(&state, |left| restore_one(left, &mut told));
    }
    told
}

/// True if the setting needs nothing more.
fn restore_one(left: &ChangedSetting, told: &mut Vec<String>) -> bool {
    is_ours(left.path.as_path()) && set_back(left, told)
}

fn set_back(left: &ChangedSetting, told: &mut Vec<String>) -> bool {
    let path = left.path.as_path();
    let (shown, before) = (path.display(), &left.before);
    let now = match current(path) {
        // The device is gone, and its settings with it.
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
        Ok(now) => now,
    };
    if now == left.before {
        return true;
    }
    // A user changed it since, on purpose.
    if now != left.after {
        let text = format!("a killed run changed '{shown}' from {before}");
        told.push(format!("{text}; it is {now} now, which is left as it is"));
        return true;
    }
    let written = fs::write(path, before.as_bytes());
    told.push(match &written {
        Ok(()) => format!("restored '{shown}' to {before}; a killed run had left it at {now}"),
        Err(error) => {
            format!("'{shown}' was {before} before a killed run, and cannot be restored: {error}")
        }
    });
    written.is_ok()
}

/// True for a setting of a block device's queue, or for its read-ahead, as sysfs has them.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let parent = path.parent().and_then(Path::file_name);
    // Another user may have written the journal: as root durio would write to any file.
    let plain =
        path.components().all(|component| !matches!(component, std::path::Component::ParentDir));
    let is_queue = path.starts_with("/sys/") && parent.is_some_and(|parent| parent == "queue");
    let is_read_ahead = path.starts_with("/sys/class/bdi/") && name == FILES[0];
    plain && (is_queue && FILES.contains(&name) || is_read_ahead)
}

#[cfg(test)]
mod tests {
    use durio_record::StateFolder;

    use super::*;
    use crate::observer::ToldLines;

    #[test]
    fn of_a_list_the_chosen_value_and_all_choices_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("scheduler");
        fs::write(&file, "none [mq-deadline] kyber\n").unwrap();
        assert_eq!(current(&file).unwrap(), "mq-deadline");
        assert_eq!(choices(&file).unwrap().unwrap(), ["none", "mq-deadline", "kyber"]);
        fs::write(&file, "128\n").unwrap();
        assert_eq!((current(&file).unwrap().as_str(), choices(&file).unwrap()), ("128", None));
    }

    #[test]
    fn a_journal_that_names_another_file_is_not_obeyed() {
        for path in [
            "/etc/passwd",
            "/sys/block/sda/queue/../../../../etc/read_ahead_kb",
            "/sys/kernel/scheduler",
            "/sys/block/sda/queue/write_cache",
            "sys/block/sda/queue/scheduler",
            "/sys/class/bdi/8:0/max_ratio",
            "/sys/class/bdi/../../../etc/read_ahead_kb",
        ] {
            assert!(!is_ours(Path::new(path)), "{path}");
        }
        for path in
            ["/sys/class/block/nvme0n1/queue/read_ahead_kb", "/sys/class/bdi/8:0/read_ahead_kb"]
        {
            assert!(is_ours(Path::new(path)), "{path}");
        }
    }

    fn guard<'a>(file: &Path, observer: &'a ToldLines) -> SettingGuard<'a> {
        let (path, before) = (file.to_owned(), "128".into());
        SettingGuard { observer, path, before, journal: Some(journal(file)) }
    }

    fn journal(file: &Path) -> SettingJournal {
        let changed =
            ChangedSetting { path: RawPath::from(file), before: "128".into(), after: "16".into() };
        let state = StateFolder::make(file.parent().unwrap()).unwrap();
        SettingJournal::begin(&state, "test", &changed).unwrap()
    }

    #[test]
    fn the_old_value_comes_back_at_the_end_and_when_it_is_dropped_early() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("read_ahead_kb");
        fs::write(&file, "128").unwrap();
        let told = ToldLines::default();
        let setting = guard(&file, &told);
        setting.set("16").unwrap();
        assert_eq!(current(&file).unwrap(), "16");
        assert_eq!(setting.restore().unwrap(), "128");
        let setting = guard(&file, &told);
        setting.set("16").unwrap();
        drop(setting);
        assert_eq!(current(&file).unwrap(), "128");
        assert!(fs::read_dir(dir.path().join("settings")).unwrap().next().is_none());
    }

    fn left_at(path: &Path, before: &str, after: &str) -> ChangedSetting {
        ChangedSetting { path: RawPath::from(path), before: before.into(), after: after.into() }
    }

    #[test]
    fn what_a_killed_run_left_is_set_back_unless_others_changed_it_since() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nr_requests");
        let shown = file.display();
        let restored = |path: &Path| {
            let mut told = Vec::new();
            (set_back(&left_at(path, "128", "16"), &mut told), told)
        };
        fs::write(&file, "16\n").unwrap();
        let told = format!("restored '{shown}' to 128; a killed run had left it at 16");
        assert_eq!(restored(&file), (true, vec![told]));
        assert_eq!(fs::read_to_string(&file).unwrap(), "128");
        assert_eq!(restored(&file), (true, vec![]));
        fs::write(&file, "64\n").unwrap();
        let told = format!(
            "a killed run changed '{shown}' from 128; it is 64 now, which is left as it is"
        );
        assert_eq!(restored(&file), (true, vec![told]));
        assert_eq!(fs::read_to_string(&file).unwrap(), "64\n");
        assert_eq!(restored(&dir.path().join("gone")), (true, vec![]));
        // It is there and cannot be read now: the next durio tries again.
        assert_eq!(restored(dir.path()), (false, vec![]));
    }

    #[test]
    fn what_cannot_be_set_back_stays_in_the_journal_and_is_told_again() {
        let folders = fs::read_dir("/sys/class/bdi").unwrap().flatten();
        let file =
            folders.map(|folder| folder.path().join(FILES[0])).find(|path| path.exists()).unwrap();
        let now = current(&file).unwrap();
        // The kernel refuses text in place of a number.
        let left = left_at(&file, "many", &now);
        for _ in 0..2 {
            let mut told = Vec::new();
            assert!(!restore_one(&left, &mut told));
            let expected = format!(
                "'{}' was many before a killed run, and cannot be restored: ",
                file.display()
            );
            assert!(told.len() == 1 && told[0].starts_with(&expected), "{told:?}");
        }
        assert_eq!(current(&file).unwrap(), now);
    }
}
