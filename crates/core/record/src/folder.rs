//! The folders of records, and the documents in them that are read and replaced whole: manifests,
//! also those of benches and comparisons, which grow with their contents, plans, environments, and
//! reports.
//!
//! The state folder ([`StateFolder`]) is where durio keeps runs, and journals of what it must take
//! back; the caller knows its place ($XDG_STATE_HOME). Each part is a folder that is held open, the
//! user's own and not a link, and decides which files are removed, also by root: so only paths
//! through this type are acted on.
//!
//! A folder may come from any user. Reads take regular files of a bounded length; writes go into
//! the held folder, by new files alone, and as root never into another user's folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fmt, io};

use durio_base::Bytes;
use durio_block::{Folder, read_bounded};
use durio_observe::{Host, Stack};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{failed, malformed, reading};
use crate::{RecordError, RecordErrorKind};

/// Version of the run folder. A reader reads its own version and older ones.
pub const RUN_FOLDER_SCHEMA: u32 = 2;

/// The files of a run folder.
pub mod file_names {
    /// Schema, identity and command of the run.
    pub const MANIFEST: &str = "run.json";
    pub const PLAN: &str = "plan.json";
    /// The machine and the stacks.
    pub const ENVIRONMENT: &str = "environment.json";
    /// The events, one JSON object per line.
    pub const EVENTS: &str = "events.jsonl";
    /// The histograms, in the HdrHistogram log format.
    pub const HISTOGRAMS: &str = "histograms.hlog";
    /// The files that durio made and removed.
    pub const JOURNAL: &str = "journal.jsonl";
    /// The findings, as `durio report --format json` prints them.
    pub const FINDINGS: &str = "findings.json";
    /// The report for a browser.
    pub const REPORT: &str = "report.html";
    /// Why slow commits were slow, where that was recorded.
    pub const WHY: &str = "why.json";
}

/// Schema, identity and command of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`RUN_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    pub run: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are not text are replaced.
    pub command: Vec<String>,
    /// The name that its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Manifest {
    /// The start by the machine's wall clock; `None` if it is not a time.
    pub fn started_at(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.started).ok()
    }
}

/// The machine, and the layers under each location of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub host: Host,
    /// One stack per location, in the plan's order.
    pub stacks: Vec<Stack>,
}

/// The name of a run folder: sorts by time, is unique on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderName(String);

impl FolderName {
    /// The name of a run of `command` by process `process` that starts `now`.
    pub fn new(command: &str, now: SystemTime, process: u32) -> Self {
        // Two runs in the same millisecond differ by their process.
        let time = Self::rfc3339(now);
        // Colons are not welcome in file names of other systems, to which folders are copied.
        Self(format!("{}-{command}-{process}", time.replace(':', "").replace('.', "-")))
    }

    /// A name that [`FolderName::new`] gave.
    pub fn parse(text: &str) -> Option<Self> {
        let (time, own) = text.split_once("Z-")?;
        let form = "dddd-dd-ddTdddddd-ddd";
        let is_of_form = |(byte, wanted): (u8, u8)| match wanted {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        };
        let is_time = time.len() == form.len() && time.bytes().zip(form.bytes()).all(is_of_form);
        let (command, process) = own.rsplit_once('-')?;
        let is_command =
            !command.is_empty() && command.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
        let is_process = process.parse::<u32>().is_ok_and(|id| id.to_string() == process);
        (is_time && is_command && is_process).then(|| Self(text.to_owned()))
    }

    /// A time as manifests have it.
    pub fn rfc3339(time: SystemTime) -> String {
        humantime::format_rfc3339_millis(time).to_string()
    }

    /// True for a run of this command.
    pub fn is_of(&self, command: &str) -> bool {
        let own = self.0.split_once("Z-").and_then(|(_, own)| own.rsplit_once('-'));
        own.is_some_and(|(own, _)| own == command)
    }

    /// True for a time as [`FolderName::rfc3339`] writes it.
    pub fn is_rfc3339(text: &str) -> bool {
        humantime::parse_rfc3339(text).is_ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A folder of the state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatePart {
    Runs,
    /// Run folders of `durio watch`: they are many, and never `last`.
    Probes,
    Replays,
    /// Pointers to the journals of runs.
    Leftovers,
    /// Journals of stacks that are built.
    Stacks,
    /// Old values of settings of the kernel.
    Settings,
    /// A mark for each capture that traces by a separate mount.
    Captures,
}

impl StatePart {
    pub const ALL: [Self; 7] = [
        Self::Runs,
        Self::Probes,
        Self::Replays,
        Self::Leftovers,
        Self::Stacks,
        Self::Settings,
        Self::Captures,
    ];

    /// Its name in the state folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Probes => "watch",
            Self::Replays => "replays",
            Self::Leftovers => "leftovers",
            Self::Stacks => "stacks",
            Self::Settings => "settings",
            Self::Captures => "captures",
        }
    }
}

/// The state folder, held open.
#[derive(Debug, Clone)]
pub struct StateFolder(Arc<Folder>);

impl StateFolder {
    /// Opens it; none if it is not there.
    ///
    /// # Errors
    /// If it is a link or another user's, or a link of another user leads to it.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        Ok(Folder::open_own_path(path)?.map(|folder| Self(Arc::new(folder))))
    }

    /// Opens it, made where it is not there.
    ///
    /// # Errors
    /// As [`StateFolder::open`], and if it cannot be made.
    pub fn make(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Folder::make_own_path(path)?)))
    }

    pub fn folder(&self) -> &Folder {
        &self.0
    }

    /// A part of it; none if it is not there.
    ///
    /// # Errors
    /// If it is a link or another user's.
    pub fn part(&self, part: StatePart) -> io::Result<Option<Folder>> {
        self.0.own_folder(part.name())
    }

    /// A part of it, made where it is not there.
    ///
    /// # Errors
    /// As [`StateFolder::part`], and if it cannot be made.
    pub fn make_part(&self, part: StatePart) -> io::Result<Folder> {
        self.0.own_folder_or_make(part.name())
    }
}

// 500 stacks with their commands are a few megabytes, and so is a plan of thousands of steps.
const LENGTH_MAX: Bytes = Bytes::from_mib(64);

/// Only the schema, which is read before anything that depends on it.
#[derive(Deserialize)]
struct ManifestSchema {
    schema: u32,
}

/// The manifest of a folder, which makes it a record.
pub trait FolderManifest: Serialize + DeserializeOwned {
    /// The name of its file.
    const FILE: &'static str;
    /// The schema that is written; older ones are read too.
    const SCHEMA: u32;
    /// What making such a folder is called in errors.
    const MAKING: &'static str;
    /// The same of reading one.
    const READING: &'static str;
}

/// A folder of other records' folders, with a manifest about them, written or read.
#[derive(Debug)]
pub struct ManifestFolder<M> {
    folder: Folder,
    /// The request, and its state when the folder was made or opened.
    pub manifest: M,
}

impl<M: FolderManifest> ManifestFolder<M> {
    /// True if there is such a folder at the path.
    pub fn is_at(path: &Path) -> bool {
        path.join(M::FILE).is_file()
    }

    /// Makes the folder, which must not exist, and writes the manifest.
    ///
    /// # Errors
    /// If the folder exists or cannot be written to.
    pub fn create(path: &Path, manifest: M) -> Result<Self, RecordError> {
        let folder = Self { folder: make_folder(path, M::MAKING)?, manifest };
        folder.update(&folder.manifest)?;
        Ok(folder)
    }

    /// Opens the folder at `path`. Fields that are not known are passed over.
    ///
    /// # Errors
    /// If the folder is of another kind or a newer schema, or its manifest cannot be read.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let folder = open_folder(path, M::READING)?;
        let manifest = read(&folder, M::FILE, M::SCHEMA, M::READING)?;
        Ok(Self { folder, manifest })
    }

    /// Replaces the manifest at once: readers see the old or the new one, whole, also after a power
    /// loss.
    ///
    /// # Errors
    /// If it cannot be written, for example because its disk is full; the old one stays then.
    pub fn update(&self, manifest: &M) -> Result<(), RecordError> {
        replace(&self.folder, M::FILE, manifest)
    }

    /// Saves a file that was derived from the records, such as the report.
    ///
    /// # Errors
    /// If it cannot be written, or must not be.
    pub fn save(&self, name: &str, contents: &[u8]) -> Result<(), RecordError> {
        replace_bytes(&self.folder, name, contents)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes a folder for a record, which must not exist.
pub(crate) fn make_folder(path: &Path, operation: &'static str) -> Result<Folder, RecordError> {
    Folder::make(path).map_err(|error| failed(operation, path, error))
}

/// Opens a folder that is read.
pub(crate) fn open_folder(path: &Path, operation: &'static str) -> Result<Folder, RecordError> {
    Folder::open(path).map_err(|error| RecordError {
        kind: RecordErrorKind::NotARunFolder,
        ..failed(operation, path, error)
    })
}

/// Refuses to write into a folder that others can exchange files in, if durio is root.
pub(crate) fn check_owner(folder: &Folder) -> Result<(), RecordError> {
    folder.check_owner().map_err(|error| {
        let error = failed("write into", folder.path(), error);
        RecordError { kind: RecordErrorKind::NotOurs, ..error }
    })
}

/// Replaces the file at once: readers see the old or the new one, whole, also after a power loss.
pub(crate) fn replace(
    folder: &Folder,
    name: &str,
    manifest: &impl Serialize,
) -> Result<(), RecordError> {
    replace_bytes(folder, name, &to_json(&folder.path().join(name), manifest)?)
}

/// The same for a file that is not a manifest.
pub(crate) fn replace_bytes(folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
    // Each time: the folder may have changed hands since it was opened.
    check_owner(folder)?;
    let path = folder.path().join(name);
    folder.replace(name, bytes).map_err(|error| failed("write", &path, error))
}

/// A document as a file has it.
pub(crate) fn to_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, RecordError> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| malformed("write", path, error))?;
    text.push(b'\n');
    Ok(text)
}

/// Reads the file, of which schemas up to this one are known. Fields that are not known are passed
/// over.
pub(crate) fn read<T: DeserializeOwned>(
    folder: &Folder,
    name: &str,
    schema_known: u32,
    operation: &'static str,
) -> Result<T, RecordError> {
    let refused = |kind, reason: String| {
        RecordError::because(kind, operation, reason).about(folder.path().display())
    };
    let bytes = bytes(folder, name)?.ok_or_else(|| {
        refused(RecordErrorKind::NotARunFolder, format!("it has no file '{name}'"))
    })?;
    let path = folder.path().join(name);
    let malformed = |error| malformed("read", &path, error);
    // First of all: changes of a newer durio must be reported as such, not as a wrong field.
    let ManifestSchema { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
    if schema > schema_known {
        let reason = format!(
            "its schema is {schema}, this durio reads up to {schema_known}; use a newer durio"
        );
        return Err(refused(RecordErrorKind::NewerSchema, reason));
    }
    serde_json::from_slice(&bytes).map_err(malformed)
}

/// Reads a document next to a manifest.
pub(crate) fn read_json<T: DeserializeOwned>(
    folder: &Folder,
    name: &str,
) -> Result<T, RecordError> {
    let absent = || failed("read", &folder.path().join(name), io::ErrorKind::NotFound.into());
    read_json_if_any(folder, name)?.ok_or_else(absent)
}

/// The same; none if the file is missing.
pub(crate) fn read_json_if_any<T: DeserializeOwned>(
    folder: &Folder,
    name: &str,
) -> Result<Option<T>, RecordError> {
    let Some(bytes) = bytes(folder, name)? else { return Ok(None) };
    let malformed = |error| malformed("read", &folder.path().join(name), error);
    serde_json::from_slice(&bytes).map(Some).map_err(malformed)
}

/// The path of a folder inside of `folder`; none for a name that leads out of it.
pub(crate) fn within(folder: &Path, name: &str) -> Option<PathBuf> {
    // A manifest may come from any user: names in it must not lead to other folders.
    let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    is_plain.then(|| folder.join(name))
}

/// None if the file does not exist.
fn bytes(folder: &Folder, name: &str) -> Result<Option<Vec<u8>>, RecordError> {
    let read = folder.open_file(name).and_then(|file| read_bounded(file, LENGTH_MAX));
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(reading(&folder.path().join(name), error)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn names_sort_by_time() {
        let at = |seconds| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            FolderName::new("check", now, 7).to_string()
        };
        assert_eq!(at(0), "1970-01-01T000000-000Z-check-7");
        assert!(at(1_800_000_000) < at(1_800_000_001));
    }

    #[test]
    fn only_names_that_durio_gives_are_names_of_folders() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
        for command in ["run", "replay", "stack-bench"] {
            let name = FolderName::new(command, now, 4711);
            assert_eq!(FolderName::parse(name.as_str()), Some(name));
        }
        for other in [
            "precious",
            "",
            "2027-01-15T080000-123Z-run",
            "2027-01-15T080000-123Z--7",
            "2027-01-15T080000-123Z-run-",
            "2027-01-15T080000-123Z-run-x",
            "2027-01-15T080000-123Z-run-007",
            "2027-01-15T080000-123Z-Run-7",
            "2027-01-15T08000-0123Z-run-7",
            "2027-01-15T080000-123Z-run-99999999999",
            "x2027-01-15T080000-123Z-run-7",
        ] {
            assert_eq!(FolderName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_tells_its_command_and_a_time_is_one_of_a_manifest() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
        let name = FolderName::new("stack-bench", now, 7);
        assert_eq!(name.as_str(), "2027-01-15T080000-123Z-stack-bench-7");
        assert!(name.is_of("stack-bench"));
        assert!(!name.is_of("stack") && !name.is_of("bench") && !name.is_of(""));
        assert_eq!(FolderName::rfc3339(now), "2027-01-15T08:00:00.123Z");
        assert!(FolderName::is_rfc3339("2027-01-15T08:00:00.123Z"));
        assert!(!FolderName::is_rfc3339("2027-01-15 08:00") && !FolderName::is_rfc3339(""));
    }

    #[test]
    fn a_name_leads_to_what_is_in_the_folder_and_nowhere_else() {
        let folder = Path::new("/b");
        assert_eq!(within(folder, "run-1"), Some(PathBuf::from("/b/run-1")));
        assert_eq!(within(folder, "..."), Some(PathBuf::from("/b/...")));
        for name in ["", ".", "..", "/etc", "a/b", "../x"] {
            assert_eq!(within(folder, name), None, "{name}");
        }
        assert_eq!(LENGTH_MAX.get(), 67_108_864);
    }
}
