//! The files of a package.
//!
//! Takes a program's binary and the checkout; returns every file below the prefix (`/usr` in a Debian
//! package, the folder in a tarball). `deb` and `dist` make the archives.
//!
//! The licences of the libraries in the binary are one text, each licence once with its crates, from the
//! sources that cargo has downloaded. `tidy` decides which licences are permitted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use flate2::{Compression, GzBuilder};

use super::build::BuildTarget;
use super::{PackagedProgram, cargo, file_names};

/// Where units of systemd go below the prefix.
pub(super) const UNITS: &str = "lib/systemd/system";

/// The shells, and where each finds completions below the prefix, before and after the program's name;
/// Debian's zsh and fish keep those of packages apart from their own.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("bash", "share/bash-completion/completions/", ""),
    ("zsh", "share/zsh/vendor-completions/_", ""),
    ("fish", "share/fish/vendor_completions.d/", ".fish"),
];

/// A file of a package.
pub(super) struct PackageFile {
    /// Below the prefix.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl PackageFile {
    fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, bytes: bytes.into() }
    }
}

/// All files of a program's package, in the order of their paths; `runs_here` is a binary that this
/// machine runs, and writes the man pages.
pub(super) fn files(
    program: PackagedProgram,
    binary: &Path,
    runs_here: &Path,
) -> Result<Vec<PackageFile>> {
    let bytes = fs::read(binary).with_context(|| format!("no {}", binary.display()))?;
    let name = program.name();
    let mut files = vec![PackageFile { path: format!("bin/{name}"), mode: 0o755, bytes }];
    files.extend(man_pages(runs_here)?);
    for (shell, begin, end) in COMPLETIONS {
        let script = output(runs_here, &["completions", shell])?;
        files.push(PackageFile::new(format!("{begin}{name}{end}"), script));
    }
    files.extend(documents(program)?);
    files.extend(extras(program)?);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn man_pages(program: &Path) -> Result<Vec<PackageFile>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    output(program, &["man", &folder.path().display().to_string()])?;
    let pages = file_names(folder.path())?.into_iter().map(|name| {
        let page = fs::read(folder.path().join(&name))?;
        Ok(PackageFile::new(format!("share/man/man1/{name}.gz"), packed(&page)?))
    });
    pages.collect()
}

fn documents(program: PackagedProgram) -> Result<Vec<PackageFile>> {
    let root = cargo::workspace_root();
    let read =
        |name: &str| fs::read(root.join(name)).with_context(|| format!("{name} cannot be read"));
    let (mit, apache) = (read("LICENSE-MIT")?, read("LICENSE-APACHE")?);
    let named = |name: &str| format!("share/doc/{}/{name}", program.name());
    let licences = licence_text(program)?;
    Ok(vec![
        PackageFile::new(named("README.md"), read("README.md")?),
        PackageFile::new(named("changelog.gz"), packed(&read("CHANGELOG.md")?)?),
        PackageFile::new(named("copyright"), copyright(&mit, &apache)),
        PackageFile::new(named("third-party-licences.gz"), packed(licences.as_bytes())?),
    ])
}

fn copyright(mit: &[u8], apache: &[u8]) -> Vec<u8> {
    let head = "durio is licensed under MIT or Apache-2.0, at your choice. The licences of the \
                libraries in\nthe program are in third-party-licences.gz.\n\n";
    let rule = format!("\n{}\n\n", "-".repeat(80));
    [head.as_bytes(), mit, rule.as_bytes(), apache].concat()
}

/// The files of `contrib` that belong to the program: units where systemd finds them, all others as
/// examples.
fn extras(program: PackagedProgram) -> Result<Vec<PackageFile>> {
    let root = cargo::workspace_root().join("contrib");
    let mut found = Vec::new();
    // A role of Ansible has folders in its folder.
    let mut folders = folder_names(&root)?;
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        folders.extend(folder_names(&path)?.into_iter().map(|name| format!("{folder}/{name}")));
        for name in file_names(&path)?.into_iter().filter(|name| path.join(name).is_file()) {
            let example = format!("{folder}/{name}");
            if PackagedProgram::of_example(&example) != program {
                continue;
            }
            let is_unit = name.ends_with(".service") || name.ends_with(".timer");
            let place = match is_unit {
                true => format!("{UNITS}/{name}"),
                false => format!("share/doc/{}/examples/{example}", program.name()),
            };
            found.push(PackageFile::new(place, fs::read(path.join(&name))?));
        }
    }
    Ok(found)
}

fn folder_names(root: &Path) -> Result<Vec<String>> {
    let Ok(names) = file_names(root) else { return Ok(Vec::new()) };
    Ok(names.into_iter().filter(|name| root.join(name).is_dir()).collect())
}

fn output(program: &Path, words: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("{} does not start", program.display()))?;
    ensure!(output.status.success(), "{} {} failed", program.display(), words.join(" "));
    Ok(output.stdout)
}

/// Like `gzip -9n`: without a name and a time, so that the same text gives the same bytes.
pub(super) fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new().write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

/// Writes the files below a prefix.
pub(super) fn write(files: &[PackageFile], prefix: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    for file in files {
        let path = prefix.join(&file.path);
        let folder = path.parent().unwrap_or(prefix);
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&path, &file.bytes)
            .with_context(|| format!("cannot write {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
    }
    Ok(())
}

/// Prefixes of the names of licence files, in capital letters.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "UNLICENSE"];

const HEAD: &str = "\
The program has code of these libraries, under these licences.

The standard library of Rust: MIT or Apache-2.0, The Rust Project Contributors.
In the static program, musl libc: MIT, Rich Felker and others.
";

fn licence_text(program: PackagedProgram) -> Result<String> {
    let metadata = metadata()?;
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut text = HEAD.to_owned();
    for package in libraries(program, &metadata)? {
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

/// Other people's crates that the program is linked with, by name.
fn libraries(program: PackagedProgram, metadata: &Metadata) -> Result<Vec<&Package>> {
    let resolve = metadata.resolve.as_ref().context("cargo metadata has no graph")?;
    let name = program.name();
    let root = metadata.packages.iter().find(|package| package.name.as_str() == name);
    let mut left: Vec<&PackageId> = vec![&root.with_context(|| format!("no package {name}"))?.id];
    let mut seen: BTreeSet<&PackageId> = BTreeSet::new();
    while let Some(id) = left.pop() {
        // Macros run in the compiler.
        if is_macro(&metadata[id]) || !seen.insert(id) {
            continue;
        }
        let node = resolve.nodes.iter().find(|node| node.id == *id);
        let dependencies = node.context("a package that is not in the graph")?.deps.iter();
        let linked = dependencies.filter(|dependency| {
            dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        });
        left.extend(linked.map(|dependency| &dependency.pkg));
    }
    let others = metadata.packages.iter().filter(|package| package.source.is_some());
    let mut others: Vec<_> = others.filter(|package| seen.contains(&package.id)).collect();
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
    use std::io::Read;

    use super::*;

    #[test]
    fn packed_text_has_neither_a_time_nor_a_name() {
        let bytes = packed(b"text").unwrap();
        // RFC 1952: flags, then four bytes of time.
        assert_eq!(bytes[3..8], [0; 5]);
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn documents_have_the_licences() {
        let documents = documents(PackagedProgram::Fleet).unwrap();
        assert!(documents.iter().all(|file| file.path.starts_with("share/doc/durio-fleet/")));
        let copyright = documents.iter().find(|file| file.path.ends_with("/copyright")).unwrap();
        let text = String::from_utf8_lossy(&copyright.bytes);
        assert!(text.contains("Permission is hereby granted") && text.contains("Version 2.0"));
    }

    #[test]
    fn each_file_of_contrib_is_in_one_package() {
        let paths = |program| -> Vec<String> {
            extras(program).unwrap().into_iter().map(|file| file.path).collect()
        };
        let (durio, fleet) = (paths(PackagedProgram::Durio), paths(PackagedProgram::Fleet));
        let has = |paths: &[String], path: &str| paths.iter().any(|packed| packed == path);
        assert!(has(&durio, "lib/systemd/system/durio-watch@.service"), "{durio:?}");
        assert!(has(&durio, "share/doc/durio/examples/kubernetes/cronjob.yml"), "{durio:?}");
        assert!(!durio.iter().any(|path| path.contains("fleet")), "{durio:?}");
        assert!(has(&fleet, "lib/systemd/system/durio-fleet.service"), "{fleet:?}");
        for path in [
            "ansible/roles/durio_fleet/tasks/main.yml",
            "kubernetes/fleet.yml",
            "slurm/durio-fleet.sbatch",
        ] {
            let path = format!("share/doc/durio-fleet/examples/{path}");
            assert!(has(&fleet, &path), "{path}: {fleet:?}");
        }
    }

    #[test]
    fn what_is_linked_is_named_with_its_text_and_what_is_not_is_not() {
        let fleet = licence_text(PackagedProgram::Fleet).unwrap();
        for name in ["async-nats ", "ring ", "tokio "] {
            assert!(fleet.lines().any(|line| line.starts_with(name)), "{name}");
        }
        let text = licence_text(PackagedProgram::Durio).unwrap();
        assert!(text.lines().any(|line| line.starts_with("clap ")), "{text}");
        // Of tests, of this tool, of macros, of another platform, ours, and of durio-fleet.
        let others = [
            "proptest ",
            "cargo_metadata ",
            "serde_derive ",
            "syn ",
            "windows-sys ",
            "durio-base ",
            "tokio ",
        ];
        for name in others {
            assert!(!text.lines().any(|line| line.starts_with(name)), "{name}");
        }
        assert!(text.contains("Permission is hereby granted"), "{text}");
    }
}
