//! The folders of records, and the documents in them that are read and replaced whole: manifests,
//! also those of benches and comparisons, which grow with their contents, plans, and reports.
//!
//! A folder may come from any user. Reads take regular files of a bounded length; writes go into
//! the held folder, by new files alone, and as root never into another user's folder.

use std::io;
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use durio_block::{Folder, read_bounded};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{RecordError, RecordErrorKind};

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
    #[must_use]
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

    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Makes a folder for a record, which must not exist.
pub(crate) fn make_folder(path: &Path, operation: &'static str) -> Result<Folder, RecordError> {
    Folder::make(path).map_err(|error| RecordError::io(operation, path, error))
}

/// Opens a folder that is read.
pub(crate) fn open_folder(path: &Path, operation: &'static str) -> Result<Folder, RecordError> {
    Folder::open(path).map_err(|error| RecordError {
        kind: RecordErrorKind::NotARunFolder,
        operation,
        path: path.to_owned(),
        source: error.into(),
    })
}

/// Refuses to write into a folder that others can exchange files in, if durio is root.
pub(crate) fn check_owner(folder: &Folder) -> Result<(), RecordError> {
    folder.check_owner().map_err(|error| RecordError {
        kind: RecordErrorKind::NotOurs,
        operation: "write into",
        path: folder.path().to_owned(),
        source: error.into(),
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
    folder.replace(name, bytes).map_err(|error| RecordError::io("write", &path, error))
}

/// A document as a file has it.
pub(crate) fn to_json(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, RecordError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| RecordError::malformed("write", path, error))?;
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
    let refused = |kind, reason: String| RecordError {
        kind,
        operation,
        path: folder.path().to_owned(),
        source: reason.into(),
    };
    let bytes = bytes(folder, name)?.ok_or_else(|| {
        refused(RecordErrorKind::NotARunFolder, format!("it has no file '{name}'"))
    })?;
    let path = folder.path().join(name);
    let malformed = |error| RecordError::malformed("read", &path, error);
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
    let path = folder.path().join(name);
    let absent = || RecordError::io("read", &path, io::ErrorKind::NotFound.into());
    let bytes = bytes(folder, name)?.ok_or_else(absent)?;
    serde_json::from_slice(&bytes).map_err(|error| RecordError::malformed("read", &path, error))
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
        Err(error) => Err(RecordError::reading(&folder.path().join(name), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
