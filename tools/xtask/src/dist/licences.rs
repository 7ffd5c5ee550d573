//! The licences of the libraries in the binary.
//!
//! Takes the resolved graph and the sources that cargo has downloaded; returns one text, each
//! licence once, with its crates. `tidy` decides which licences are permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};

use super::build::BuildTarget;
use super::{cargo, file_names};

/// Prefixes of the names of licence files, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE"];

const HEAD: &str = "\
durio's program has code of these libraries, under these licences.

The standard library of Rust: MIT or Apache-2.0, The Rust Project Contributors.
In the static program, musl libc: MIT, Rich Felker and others.
";

pub(super) fn text() -> Result<String> {
    let metadata = metadata()?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut text = HEAD.to_owned();
    for package in libraries(&metadata)? {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.license.as_deref().unwrap_or("see its text");
        let _ = writeln!(text, "{name}: {licence}");
        let folder = package.manifest_path.parent().context("a manifest without a folder")?;
        for licence in licences_in(folder.as_std_path())? {
            texts.entry(licence).or_default().insert(name.clone());
        }
    }
    for (licence, names) in texts {
        let names: Vec<_> = names.into_iter().collect();
        let _ = write!(text, "\n{}\n{}\n\n{licence}\n", "=".repeat(80), names.join(", "));
    }
    Ok(text)
}

/// The graph of this platform: others need crates that are not in the program.
fn metadata() -> Result<Metadata> {
    let mut query = MetadataCommand::new();
    let platform = ["--filter-platform".to_owned(), BuildTarget::host()?.triple().to_owned()];
    query.current_dir(cargo::workspace_root()).other_options(platform);
    query.exec().context("cargo metadata failed")
}

/// Other people's crates that durio is linked with, by name.
fn libraries(metadata: &Metadata) -> Result<Vec<&Package>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata has no graph")?;
    let durio = metadata.packages.iter().find(|it| it.name.as_str() == "durio");
    let mut left: Vec<&PackageId> = vec![&durio.context("no package durio")?.id];
    let mut seen: BTreeSet<&PackageId> = BTreeSet::new();
    while let Some(id) = left.pop() {
        // Macros run in the compiler.
        if is_macro(&metadata[id]) || !seen.insert(id) {
            continue;
        }
        let node = resolve.nodes.iter().find(|node| node.id == *id);
        let dependencies = node.context("a package that is not in the graph")?.deps.iter();
        let linked = dependencies
            .filter(|it| it.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        left.extend(linked.map(|it| &it.pkg));
    }
    let others = metadata.packages.iter().filter(|it| it.source.is_some());
    let mut others: Vec<_> = others.filter(|it| seen.contains(&it.id)).collect();
    others.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(others)
}

fn is_macro(package: &Package) -> bool {
    package.targets.iter().any(cargo_metadata::Target::is_proc_macro)
}

fn licences_in(folder: &Path) -> Result<Vec<String>> {
    let is_licence = |name: &String| {
        let name = name.to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start))
    };
    let paths = file_names(folder)?.into_iter().filter(is_licence).map(|name| folder.join(name));
    let texts = paths.filter(|path| path.is_file()).map(|path| {
        let bytes = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").trim().to_owned())
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_named_with_its_text_and_what_is_not_is_not() {
        let text = text().unwrap();
        assert!(text.lines().any(|line| line.starts_with("clap ")), "{text}");
        // Of tests, of this tool, of macros, of another platform, and ours.
        let others = [
            "proptest ",
            "cargo_metadata ",
            "serde_derive ",
            "syn ",
            "windows-sys ",
            "durio-base ",
        ];
        for name in others {
            assert!(!text.lines().any(|line| line.starts_with(name)), "{name}");
        }
        assert!(text.contains("Permission is hereby granted"), "{text}");
    }
}
