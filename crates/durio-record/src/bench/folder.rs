//! Reads and writes the manifest of a bench folder.

use std::path::{Path, PathBuf};

use durio_block::Folder;

use super::manifest::BenchManifest;
use crate::{RecordError, manifest_file};

/// Version of the bench folder. A reader reads its own version and older ones.
pub const BENCH_FOLDER_SCHEMA: u32 = 1;
/// The file that makes a folder a bench folder.
pub const BENCH_MANIFEST: &str = "bench.json";

/// What reading one is called in errors.
const READING: &str = "read the bench folder";

/// True if there is a bench folder at the path.
#[must_use]
pub fn is_bench_folder(path: &Path) -> bool {
    path.join(BENCH_MANIFEST).is_file()
}

/// Writes a bench folder.
#[derive(Debug)]
pub struct BenchWriter {
    folder: Folder,
}

impl BenchWriter {
    /// Makes the folder, which must not exist, and writes the manifest.
    ///
    /// # Errors
    /// If the folder exists or cannot be written to.
    pub fn create(folder: &Path, manifest: &BenchManifest) -> Result<Self, RecordError> {
        let writer = Self { folder: manifest_file::make_folder(folder, "make the bench folder")? };
        writer.update(manifest)?;
        Ok(writer)
    }

    /// Replaces the manifest at once: whoever reads it sees the old one or this one, whole, also
    /// after a power loss.
    ///
    /// # Errors
    /// If it cannot be written, for example because its disk is full; the old one stays then.
    pub fn update(&self, manifest: &BenchManifest) -> Result<(), RecordError> {
        manifest_file::replace(&self.folder, BENCH_MANIFEST, manifest)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A bench folder that is read.
#[derive(Debug)]
pub struct BenchFolder {
    folder: Folder,
    /// What was asked, and what has become of it.
    pub manifest: BenchManifest,
}

impl BenchFolder {
    /// Opens the folder at `path`. Fields that are not known are passed over.
    ///
    /// # Errors
    /// If it is not a bench folder, is of a newer schema, or its manifest cannot be read.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let folder = manifest_file::open_folder(path, READING)?;
        let manifest = manifest_file::read(&folder, BENCH_MANIFEST, BENCH_FOLDER_SCHEMA, READING)?;
        Ok(Self { folder, manifest })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Saves a file that was derived from the bench, such as the report.
    ///
    /// # Errors
    /// If it cannot be written, or must not be.
    pub fn save(&self, name: &str, contents: &[u8]) -> Result<(), RecordError> {
        manifest_file::replace_bytes(&self.folder, name, contents)
    }

    /// The path of a run folder of this bench; none for a name that leads out of it.
    #[must_use]
    pub fn run(&self, name: &str) -> Option<PathBuf> {
        manifest_file::within(self.path(), name)
    }
}
