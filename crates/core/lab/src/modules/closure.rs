//! The dependencies of a set of modules, unpacked, in an order in which they can be loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};

use super::{ModuleTree, normalised};
use crate::LabError;
use crate::compression::read_module;
use crate::kernels::DriverState;

/// A module, ready to be packed.
#[derive(Debug, Clone)]
pub(crate) struct Module {
    /// Its name, with underscores.
    pub(crate) name: String,
    /// Its file below `lib/modules/RELEASE`, such as `kernel/fs/xfs/xfs.ko`.
    pub(crate) path: PathBuf,
    /// The file that the kernel loads.
    pub(crate) content: Vec<u8>,
    /// The module's metadata.
    pub(crate) info: ModuleInfo,
}

/// The modules `required`, those of `wanted` that exist, and their dependencies; each after those
/// it needs.
///
/// # Errors
/// [`LabError::MissingModules`] with all of `required` that the kernel lacks;
/// [`LabError::BadModule`] for a damaged file, one of another kernel, or one that needs a missing
/// module.
pub(crate) fn closure<'n>(
    tree: &ModuleTree,
    release: &str,
    required: &'n [String],
    wanted: impl Iterator<Item = &'n str>,
) -> Result<Vec<Module>, LabError> {
    let absent = |name: &&String| tree.state(name) == DriverState::Absent;
    let names: Vec<_> = required.iter().filter(absent).cloned().collect();
    if !names.is_empty() {
        return Err(LabError::MissingModules { release: release.to_owned(), names });
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
    fn visit(&mut self, name: &str) -> Result<(), LabError> {
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
    fn open(&mut self, name: &str) -> Result<Option<OpenModule>, LabError> {
        let name = normalised(name);
        let Some(file) = self.tree.file(&name) else { return Ok(None) };
        if self.tree.state(&name) == DriverState::BuiltIn || !self.seen.insert(name.clone()) {
            return Ok(None);
        }
        let bad = |why: String| LabError::BadModule { path: file.to_owned(), why };
        let content = read_module(file).map_err(|error| bad(error.to_string()))?;
        let info = module_info(&content).map_err(|why| bad(why.to_owned()))?;
        self.check(file, &info)?;
        // Dependencies are taken from the end: the soft ones, which a module uses if they exist,
        // come first.
        let needs = info.soft.iter().chain(&info.depends).rev().cloned().collect();
        let path = self.tree.unpacked_name(file);
        Ok(Some(OpenModule { module: Module { name, path, content, info }, needs }))
    }

    fn check(&self, file: &Path, info: &ModuleInfo) -> Result<(), LabError> {
        let bad = |why: String| LabError::BadModule { path: file.to_owned(), why };
        // The kernel would refuse it in the guest, where the reason is hard to see.
        if info.release != self.release {
            return Err(bad(format!("it is of kernel {}, not of {}", info.release, self.release)));
        }
        let absent = |name: &&String| self.tree.state(name) == DriverState::Absent;
        match info.depends.iter().find(absent) {
            Some(name) => Err(bad(format!("it needs {name}, which is not there"))),
            None => Ok(()),
        }
    }
}

/// For each module everything that must be loaded before it, last first, as in `modules.dep`.
pub(super) fn all_needs(modules: &[Module]) -> BTreeMap<&str, Vec<&Module>> {
    let mut needs: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
    // Each comes after those it needs, so that their lists are complete.
    for module in modules {
        let mut all: BTreeSet<&str> = BTreeSet::new();
        for name in module.info.depends.iter().map(|name| normalised(name)) {
            let Some(direct) = modules.iter().find(|it| it.name == name) else { continue };
            all.insert(&direct.name);
            all.extend(
                needs.get(direct.name.as_str()).into_iter().flatten().map(|it| it.name.as_str()),
            );
        }
        let listed = modules.iter().rev().filter(|it| all.contains(it.name.as_str())).collect();
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
    let file: ElfFile64 = ElfFile64::parse(module).map_err(|_| "it is no 64-bit ELF file")?;
    let section = file.section_by_name(".modinfo").ok_or("it has no section .modinfo")?;
    Ok(parse(section.data().map_err(|_| "it is cut off")?))
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
        assert_eq!(module_info(b"").unwrap_err(), "it is no 64-bit ELF file");
        assert_eq!(module_info(&[0xff; 512]).unwrap_err(), "it is no 64-bit ELF file");
        let this_program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(module_info(&this_program).unwrap_err(), "it has no section .modinfo");
        for length in [16, 64, 200, 4096] {
            assert!(module_info(&this_program[..length]).is_err());
        }
    }
}
