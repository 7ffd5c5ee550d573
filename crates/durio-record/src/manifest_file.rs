//! Files that are replaced whole: manifests, also those of benches and comparisons, which grow with what
//! they tell of, and reports.
//!
//! In: a value. Out: the same, read back, if its schema is known. Not here: what it holds.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{RecordError, RecordErrorKind};

/// 500 stacks with their commands are a few megabytes.
const LENGTH_MAX: u64 = 64 << 20;

/// Only the schema, which is read before anything that depends on it.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

/// Replaces the file at once: whoever reads it sees the old one or this one, whole, also after a
/// power loss.
pub(crate) fn replace(
    folder: &Path,
    name: &str,
    manifest: &impl Serialize,
) -> Result<(), RecordError> {
    let mut text = serde_json::to_vec_pretty(manifest)
        .map_err(|error| RecordError::malformed("write", &folder.join(name), error))?;
    text.push(b'\n');
    replace_bytes(folder, name, &text)
}

/// The same of a file that is no manifest.
pub(crate) fn replace_bytes(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), RecordError> {
    let path = folder.join(name);
    let new = folder.join(format!(".{name}.new"));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&new, &path))
        .and_then(|()| sync_folder(folder))
        .map_err(|error| RecordError::io("write", &path, error))
}

/// Makes the names in a folder last.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match File::open(folder)?.sync_all() {
        // Some network and userland filesystems have no sync of folders.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

/// Reads the file, of which schemas up to this one are known. Fields that are not known are passed
/// over.
pub(crate) fn read<T: DeserializeOwned>(
    folder: &Path,
    name: &str,
    schema_known: u32,
    operation: &'static str,
) -> Result<T, RecordError> {
    let path = folder.join(name);
    let refused = |kind, reason: String| RecordError {
        kind,
        operation,
        path: folder.to_owned(),
        source: reason.into(),
    };
    if !path.is_file() {
        let reason = format!("it has no file '{name}'");
        return Err(refused(RecordErrorKind::NotARunFolder, reason));
    }
    let bytes = bytes(&path)?;
    let malformed = |error| RecordError::malformed("read", &path, error);
    let Schema { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
    if schema > schema_known {
        let reason = format!(
            "its schema is {schema}, this durio reads up to {schema_known}; use a newer durio"
        );
        return Err(refused(RecordErrorKind::NewerSchema, reason));
    }
    serde_json::from_slice(&bytes).map_err(malformed)
}

/// The path of a folder inside of `folder`; none for a name that leads out of it.
pub(crate) fn within(folder: &Path, name: &str) -> Option<PathBuf> {
    let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    is_plain.then(|| folder.join(name))
}

fn bytes(path: &Path) -> Result<Vec<u8>, RecordError> {
    let fail = |error| RecordError::io("read", path, error);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LENGTH_MAX + 1).read_to_end(&mut bytes))
        .map_err(fail)?;
    match bytes.len() as u64 > LENGTH_MAX {
        true => {
            Err(RecordError::malformed("read", path, "it is longer than any that durio writes"))
        }
        false => Ok(bytes),
    }
}
