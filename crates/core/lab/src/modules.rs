//! The modules of a kernel: which there are, which a set of them needs, and the indexes by which a
//! guest's modprobe finds them.
//!
//! Takes the folder `lib/modules/RELEASE` as a package has it, with or without depmod's files, and
//! returns unpacked modules in an order in which they can be loaded.
//!
//! What a module needs is read from the module itself (its section `.modinfo`), so that a kernel
//! package that was only unpacked works as one that is installed.

mod index_file;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use durio_command::CommandError;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use crate::error::{bad_module, cannot_read, missing_modules};
use crate::kernel_image::read_module;

pub(crate) use index_file::index_files;

/// Limit of nested folders; a tree of modules has five.
const DEPTH_MAX: usize = 16;
const SUFFIXES: [&str; 4] = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"];

/// Where a driver of a kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverState {
    /// Part of the image.
    BuiltIn,
    Module,
    /// Neither in the image nor among the modules.
    Absent,
}

/// The modules of a kernel by name.
#[derive(Debug, Clone)]
pub(crate) struct ModuleTree {
    root: PathBuf,
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
    /// The text of `modules.builtin`.
    pub(crate) built_in_list: String,
}

impl ModuleTree {
    /// Lists the folder `lib/modules/RELEASE`.
    pub(crate) fn open(root: &Path) -> Result<Self, CommandError> {
        let mut files = BTreeMap::new();
        collect(root, DEPTH_MAX, &mut files)?;
        let built_in_list = fs::read(root.join("modules.builtin")).unwrap_or_default();
        let built_in_list = String::from_utf8_lossy(&built_in_list).into_owned();
        let built_in = built_in_list.lines().filter_map(|line| module_name(Path::new(line)));
        Ok(Self { root: root.to_owned(), files, built_in: built_in.collect(), built_in_list })
    }

    /// Where the module of this name is.
    pub(crate) fn state(&self, name: &str) -> DriverState {
        let name = normalised(name);
        match (self.built_in.contains(&name), self.files.contains_key(&name)) {
            (true, _) => DriverState::BuiltIn,
            (false, true) => DriverState::Module,
            (false, false) => DriverState::Absent,
        }
    }

    /// The file of a module.
    pub(crate) fn file(&self, name: &str) -> Option<&Path> {
        self.files.get(&normalised(name)).map(PathBuf::as_path)
    }

    /// A module's file relative to the tree, with the ending `.ko`.
    pub(crate) fn unpacked_name(&self, file: &Path) -> PathBuf {
        let relative = file.strip_prefix(&self.root).unwrap_or(file);
        let name = relative.file_name().unwrap_or_default().to_string_lossy();
        let stem = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(&name);
        relative.with_file_name(format!("{stem}.ko"))
    }
}

/// In depmod's order of preference, so that later modules replace earlier ones: other folders
/// override `kernel`, and `updates` overrides all.
fn collect(
    folder: &Path,
    depth: usize,
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<(), CommandError> {
    let fail = |source| cannot_read(folder, source);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        // Links lead to the kernel's sources, and to trees of other kernels.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            paths.push(entry.path());
        }
    }
    paths.sort_by_key(|path| {
        let name = path.file_name().unwrap_or_default().to_owned();
        (name == "updates", name != "kernel", name)
    });
    for path in paths {
        if let Some(name) = module_name(&path) {
            files.insert(name, path);
        } else if depth > 0 && path.is_dir() {
            collect(&path, depth - 1, files)?;
        }
    }
    Ok(())
}

/// The name of the module in a file; `None` if the file is not a module.
fn module_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stem = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix))?;
    Some(normalised(stem))
}

/// Names have underscores; files and people also use hyphens.
fn normalised(name: &str) -> String {
    name.trim().replace('-', "_")
}

/// A module, ready to be packed.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// Its name, with underscores.
    pub(crate) name: String,
    /// Its file below `lib/modules/RELEASE`, such as `kernel/fs/xfs/xfs.ko`.
    pub(crate) path: PathBuf,
    /// The file that the kernel loads.
    pub(crate) content: Vec<u8>,
    pub(crate) info: ModuleInfo,
}

/// The modules `required`, those of `wanted` that exist, and their dependencies; each after those
/// it needs.
///
/// # Errors
/// If the kernel lacks some of `required`; for a damaged file, one of another kernel, or one that
/// needs a missing module.
pub(crate) fn closure<'n>(
    tree: &ModuleTree,
    release: &str,
    required: &'n [String],
    wanted: impl Iterator<Item = &'n str>,
) -> Result<Vec<Module>, CommandError> {
    let absent = |name: &&String| tree.state(name) == DriverState::Absent;
    let names: Vec<_> = required.iter().filter(absent).cloned().collect();
    if !names.is_empty() {
        return Err(missing_modules(release, &names));
    }
    let mut walk = ClosureWalk { tree, release, seen: BTreeSet::new(), ordered: Vec::new() };
    for name in required.iter().map(String::as_str).chain(wanted) {
        walk.visit(name)?;
    }
    Ok(walk.ordered)
}

struct ClosureWalk<'a> {
    tree: &'a ModuleTree,
    release: &'a str,
    seen: BTreeSet<String>,
    ordered: Vec<Module>,
}

/// A module whose dependencies are being visited.
struct OpenModule {
    module: Module,
    needs: Vec<String>,
}

impl ClosureWalk<'_> {
    /// Visits depth first, with an explicit stack: a file's contents determine the depth.
    fn visit(&mut self, name: &str) -> Result<(), CommandError> {
        let mut stack: Vec<OpenModule> = self.open(name)?.into_iter().collect();
        while let Some(top) = stack.last_mut() {
            match top.needs.pop() {
                Some(need) => stack.extend(self.open(&need)?),
                None => self.ordered.extend(stack.pop().map(|open| open.module)),
            }
        }
        Ok(())
    }

    /// The module of this name, unless it was visited before.
    fn open(&mut self, name: &str) -> Result<Option<OpenModule>, CommandError> {
        let name = normalised(name);
        let Some(file) = self.tree.file(&name) else { return Ok(None) };
        if self.tree.state(&name) == DriverState::BuiltIn || !self.seen.insert(name.clone()) {
            return Ok(None);
        }
        let bad = |why: &str| bad_module(file, why);
        let content = read_module(file).map_err(|error| bad(&error.to_string()))?;
        let info = module_info(&content).map_err(bad)?;
        self.check(file, &info)?;
        // Dependencies are taken from the end: the soft ones, which a module uses if they exist,
        // come first.
        let needs = info.soft.iter().chain(&info.depends).rev().cloned().collect();
        let path = self.tree.unpacked_name(file);
        Ok(Some(OpenModule { module: Module { name, path, content, info }, needs }))
    }

    fn check(&self, file: &Path, info: &ModuleInfo) -> Result<(), CommandError> {
        // The kernel would refuse it in the guest, where the reason is hard to see.
        if info.release != self.release {
            let why = format!("it belongs to kernel {}, not {}", info.release, self.release);
            return Err(bad_module(file, &why));
        }
        let absent = |name: &&String| self.tree.state(name) == DriverState::Absent;
        match info.depends.iter().find(absent) {
            Some(name) => Err(bad_module(file, &format!("it needs {name}, which is missing"))),
            None => Ok(()),
        }
    }
}

/// For each module everything that must be loaded before it, last first, as in `modules.dep`.
fn all_needs(modules: &[Module]) -> BTreeMap<&str, Vec<&Module>> {
    let mut needs: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
    // Each comes after those it needs, so that their lists are complete.
    for module in modules {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for name in module.info.depends.iter().map(|name| normalised(name)) {
            let Some(direct) = modules.iter().find(|module| module.name == name) else { continue };
            all.insert(&direct.name);
            all.extend(
                needs
                    .get(direct.name.as_str())
                    .into_iter()
                    .flatten()
                    .map(|needed| needed.name.as_str()),
            );
        }
        let listed =
            modules.iter().rev().filter(|module| all.contains(module.name.as_str())).collect();
        needs.insert(&module.name, listed);
    }
    needs
}

/// A module's metadata about loading: the section `.modinfo`, `KEY=VALUE` separated by zero bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ModuleInfo {
    /// The kernel it was built for: the first word of `vermagic`.
    pub(crate) release: String,
    /// Modules whose symbols it uses.
    pub(crate) depends: Vec<String>,
    /// Modules or aliases that should be loaded before it, or after it.
    pub(crate) soft: Vec<String>,
    /// The text of its soft dependencies, as in `modules.softdep`.
    pub(crate) soft_texts: Vec<String>,
    /// Other names by which it is requested.
    pub(crate) aliases: Vec<String>,
}

/// Reads the section; errors describe the defect in words.
fn module_info(module: &[u8]) -> Result<ModuleInfo, &'static str> {
    let file: ElfFile64 = ElfFile64::parse(module).map_err(|_| "it is not a 64-bit ELF file")?;
    let section = file.section_by_name(".modinfo").ok_or("it has no section .modinfo")?;
    Ok(parse(section.data().map_err(|_| "it is truncated")?))
}

fn parse(section: &[u8]) -> ModuleInfo {
    let mut info = ModuleInfo::default();
    for entry in section.split(|byte| *byte == 0) {
        let Ok(entry) = std::str::from_utf8(entry) else { continue };
        match entry.split_once('=') {
            Some(("depends", names)) => info.depends.extend(names_in(names, ',')),
            Some(("softdep", text)) => add_soft(&mut info, text),
            Some(("alias", alias)) => info.aliases.push(alias.to_owned()),
            Some(("vermagic", text)) => {
                info.release = text.split(' ').next().unwrap_or_default().to_owned();
            }
            _ => {}
        }
    }
    info
}

fn add_soft(info: &mut ModuleInfo, text: &str) {
    let names = names_in(text, ' ').filter(|name| name != "pre:" && name != "post:");
    info.soft.extend(names);
    info.soft_texts.push(text.trim().to_owned());
}

fn names_in(text: &str, separator: char) -> impl Iterator<Item = String> {
    text.split(separator).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str], built_in: &str) -> (tempfile::TempDir, ModuleTree) {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(root.path().join("modules.builtin"), built_in).unwrap();
        let tree = ModuleTree::open(root.path()).unwrap();
        (root, tree)
    }

    #[test]
    fn modules_are_found_packed_or_not_with_hyphens_or_underscores() {
        let (root, tree) = tree(
            &["kernel/drivers/md/dm-mod.ko.xz", "kernel/fs/xfs/xfs.ko", "kernel/fs/notes.txt"],
            "kernel/fs/ext4/ext4.ko\n",
        );
        assert_eq!(tree.state("dm-mod"), DriverState::Module);
        assert_eq!(tree.state("dm_mod"), DriverState::Module);
        assert_eq!(tree.state("ext4"), DriverState::BuiltIn);
        assert_eq!(tree.state("notes"), DriverState::Absent);
        let file = tree.file("dm_mod").unwrap();
        assert!(file.starts_with(root.path()));
        assert_eq!(tree.unpacked_name(file), Path::new("kernel/drivers/md/dm-mod.ko"));
    }

    #[test]
    fn a_module_among_the_updates_stands_for_that_of_the_kernel() {
        let files = ["updates/dkms/x.ko", "kernel/x.ko", "extra/x.ko"];
        let (root, tree) = tree(&files, "");
        assert_eq!(tree.file("x"), Some(root.path().join("updates/dkms/x.ko").as_path()));
    }

    #[test]
    fn modules_lie_up_to_sixteen_folders_deep() {
        let [sixteen, seventeen] = [16, 17].map(|depth| "d/".repeat(depth));
        let (_root, tree) =
            tree(&[&format!("{sixteen}near.ko"), &format!("{seventeen}far.ko")], "");
        let states = ["near", "far"].map(|name| tree.state(name));
        assert_eq!(states, [DriverState::Module, DriverState::Absent]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_it() {
        let error = ModuleTree::open(Path::new("/nonexistent/modules")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/modules"), "{error}");
    }

    #[test]
    fn a_loop_of_links_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("build")).unwrap();
        assert!(ModuleTree::open(root.path()).unwrap().files.is_empty());
    }

    #[test]
    fn dependencies_aliases_and_release_are_read() {
        let info = parse(
            b"license=GPL\0depends=raid6_pq,xor,\0softdep=pre: crc32c  post: x\0alias=fs-btrfs\0\
              alias=devname:btrfs-control\0vermagic=6.1.0-56-amd64 SMP mod_unload \0",
        );
        assert_eq!(info.depends, ["raid6_pq", "xor"]);
        assert_eq!(info.soft, ["crc32c", "x"]);
        assert_eq!(info.soft_texts, ["pre: crc32c  post: x"]);
        assert_eq!(info.aliases, ["fs-btrfs", "devname:btrfs-control"]);
        assert_eq!(info.release, "6.1.0-56-amd64");
    }

    #[test]
    fn a_module_that_needs_nothing_needs_nothing() {
        assert_eq!(parse(b"depends=\0"), ModuleInfo::default());
        assert_eq!(parse(b"garbage\0=\0\xff\xfe"), ModuleInfo::default());
    }

    #[test]
    fn what_is_no_module_is_told() {
        assert_eq!(module_info(b"").unwrap_err(), "it is not a 64-bit ELF file");
        assert_eq!(module_info(&[0xff; 512]).unwrap_err(), "it is not a 64-bit ELF file");
        let this_program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(module_info(&this_program).unwrap_err(), "it has no section .modinfo");
        for length in [16, 64, 200, 4096] {
            assert!(module_info(&this_program[..length]).is_err());
        }
    }
}
