//! Reads and writes the manifest of a bench folder.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::manifest::BenchManifest;
use crate::{RecordError, RecordErrorKind};

/// Version of the bench folder. A reader reads its own version and older ones.
pub const BENCH_FOLDER_SCHEMA: u32 = 1;
/// The file that makes a folder a bench folder.
pub const BENCH_MANIFEST: &str = "bench.json";

/// 500 stacks with their commands are a few megabytes.
const LENGTH_MAX: u64 = 64 << 20;

/// True if there is a bench folder at the path.
#[must_use]
pub fn is_bench_folder(path: &Path) -> bool {
    path.join(BENCH_MANIFEST).is_file()
}

/// Writes a bench folder.
#[derive(Debug)]
pub struct BenchWriter {
    folder: PathBuf,
}

impl BenchWriter {
    /// Makes the folder, which must not exist, and writes the manifest.
    ///
    /// # Errors
    /// If the folder exists or cannot be written to.
    pub fn create(folder: &Path, manifest: &BenchManifest) -> Result<Self, RecordError> {
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent)
                .map_err(|error| RecordError::io("make the folder", parent, error))?;
        }
        fs::create_dir(folder)
            .map_err(|error| RecordError::io("make the bench folder", folder, error))?;
        let writer = Self { folder: folder.to_owned() };
        writer.update(manifest)?;
        Ok(writer)
    }

    /// Replaces the manifest at once: whoever reads it sees the old one or this one, whole, also
    /// after a power loss.
    ///
    /// # Errors
    /// If it cannot be written, for example because its disk is full; the old one stays then.
    pub fn update(&self, manifest: &BenchManifest) -> Result<(), RecordError> {
        let path = self.folder.join(BENCH_MANIFEST);
        let new = self.folder.join(format!(".{BENCH_MANIFEST}.new"));
        let mut text = serde_json::to_vec_pretty(manifest)
            .map_err(|error| RecordError::malformed("write", &path, error))?;
        text.push(b'\n');
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&new, &path))
            .and_then(|()| File::open(&self.folder)?.sync_all())
            .map_err(|error| RecordError::io("write", &path, error))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// A bench folder that is read.
#[derive(Debug)]
pub struct BenchFolder {
    path: PathBuf,
    /// What was asked, and what has become of it.
    pub manifest: BenchManifest,
}

/// Only the schema, which is read before anything that depends on it.
#[derive(Deserialize)]
struct Schema {
    schema: u32,
}

impl BenchFolder {
    /// Opens the folder at `path`. Fields that are not known are passed over.
    ///
    /// # Errors
    /// If it is not a bench folder, is of a newer schema, or its manifest cannot be read.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let manifest = path.join(BENCH_MANIFEST);
        let refused = |kind, reason: String| RecordError {
            kind,
            operation: "read the bench folder",
            path: path.to_owned(),
            source: reason.into(),
        };
        if !manifest.is_file() {
            let reason = format!("it has no file '{BENCH_MANIFEST}'");
            return Err(refused(RecordErrorKind::NotARunFolder, reason));
        }
        let bytes = read(&manifest)?;
        let malformed = |error| RecordError::malformed("read", &manifest, error);
        let Schema { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if schema > BENCH_FOLDER_SCHEMA {
            let reason = format!(
                "its schema is {schema}, this durio reads up to {BENCH_FOLDER_SCHEMA}; use a newer durio"
            );
            return Err(refused(RecordErrorKind::NewerSchema, reason));
        }
        let manifest = serde_json::from_slice(&bytes).map_err(malformed)?;
        Ok(Self { path: path.to_owned(), manifest })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a run folder of this bench; none for a name that leads out of it.
    #[must_use]
    pub fn run(&self, name: &str) -> Option<PathBuf> {
        let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
        is_plain.then(|| self.path.join(name))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, RecordError> {
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
