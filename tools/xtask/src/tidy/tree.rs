//! The files that the rules check, in memory.
//!
//! Takes the workspace's folder and metadata; returns manifests and Rust sources, with paths
//! relative to the workspace.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata};

use super::code::Code;

/// Folders that hold Rust sources of ours.
const SOURCE_FOLDERS: [&str; 2] = ["crates", "tools"];

/// A crate of the workspace, from its manifest.
#[derive(Debug)]
pub(super) struct CrateManifest {
    pub(super) crate_name: String,
    pub(super) path: String,
    pub(super) text: String,
    /// The crate's dependencies, without those of its tests only.
    pub(super) dependencies: Vec<String>,
}

/// A Rust source file.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) code: Code,
}

impl SourceFile {
    /// The file at `path`, which is relative to the workspace.
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned(), code: Code::of(text) }
    }

    /// The crate's folder, such as `crates/core/base`.
    pub(super) fn is_in(&self, folder: &str) -> bool {
        self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// All manifests of the workspace.
pub(super) fn manifests(root: &Path, metadata: &Metadata) -> Result<Vec<CrateManifest>> {
    let packages = metadata.workspace_packages();
    let manifests = packages.into_iter().map(|package| {
        let path = relative(root, package.manifest_path.as_std_path());
        let own = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind != DependencyKind::Development);
        Ok(CrateManifest {
            crate_name: package.name.to_string(),
            text: read(root, &path)?,
            path,
            dependencies: own.map(|dependency| dependency.name.clone()).collect(),
        })
    });
    manifests.collect()
}

/// All Rust sources of the workspace.
pub(super) fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let mut sources = Vec::new();
    for folder in SOURCE_FOLDERS {
        add_sources(root, &root.join(folder), &mut sources)?;
    }
    Ok(sources)
}

/// The text of a file of the workspace.
pub(super) fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read"))
}

fn add_sources(root: &Path, folder: &Path, sources: &mut Vec<SourceFile>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("no folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !is_built(&path) {
            add_sources(root, &path, sources)?;
        } else if path.is_file() && path.extension().is_some_and(|extension| extension == "rs") {
            let path = relative(root, &path);
            sources.push(SourceFile::new(&path, &read(root, &path)?));
        }
    }
    Ok(())
}

fn is_built(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == "target")
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_in_all_folders_but_the_built_ones() {
        let root = tempfile::tempdir().unwrap();
        for path in ["crates/a/src/lib.rs", "crates/a/target/x.rs", "tools/xtask/src/main.rs"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "//! Text.\n").unwrap();
        }
        fs::write(root.path().join("crates/a/Cargo.toml"), "").unwrap();
        let found = sources(root.path()).unwrap();
        let mut paths: Vec<_> = found.iter().map(|source| source.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["crates/a/src/lib.rs", "tools/xtask/src/main.rs"]);
    }
}
