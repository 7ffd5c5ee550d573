//! The modules that a set of modules needs, unpacked, in the order in which they can be loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ModuleTree;
use super::modinfo::{ModuleInfo, module_info};
use super::tree::normalised;
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
    /// What the kernel loads.
    pub(crate) content: Vec<u8>,
    /// What it says of itself.
    pub(crate) info: ModuleInfo,
}

/// The modules `required`, those of `wanted` that exist, and what they need; each after what it needs.
///
/// # Errors
/// [`LabError::MissingModules`] with all of `required` that the kernel lacks;
/// [`LabError::BadModule`] for a damaged file, one of another kernel, or one that needs a module that
/// is not there.
pub(crate) fn closure(
    tree: &ModuleTree,
    release: &str,
    required: &[String],
    wanted: &[&str],
) -> Result<Vec<Module>, LabError> {
    let absent = |name: &&String| tree.state(name) == DriverState::Absent;
    let names: Vec<_> = required.iter().filter(absent).cloned().collect();
    if !names.is_empty() {
        return Err(LabError::MissingModules { release: release.to_owned(), names });
    }
    let mut walk = Walk { tree, release, seen: BTreeSet::new(), ordered: Vec::new() };
    for name in required.iter().map(String::as_str).chain(wanted.iter().copied()) {
        walk.visit(name)?;
    }
    Ok(walk.ordered)
}

struct Walk<'a> {
    tree: &'a ModuleTree,
    release: &'a str,
    seen: BTreeSet<String>,
    ordered: Vec<Module>,
}

/// A module whose needs are being looked at.
struct Open {
    module: Module,
    needs: Vec<String>,
}

impl Walk<'_> {
    /// Visits depth first, with a stack of its own: a file's contents decide how deep it goes.
    fn visit(&mut self, name: &str) -> Result<(), LabError> {
        let mut stack: Vec<Open> = self.open(name)?.into_iter().collect();
        while let Some(top) = stack.last_mut() {
            match top.needs.pop() {
                Some(need) => stack.extend(self.open(&need)?),
                None => self.ordered.extend(stack.pop().map(|open| open.module)),
            }
        }
        Ok(())
    }

    /// The module of this name, if there is one that was not seen yet.
    fn open(&mut self, name: &str) -> Result<Option<Open>, LabError> {
        let name = normalised(name);
        let Some(file) = self.tree.file(&name) else { return Ok(None) };
        if self.tree.state(&name) == DriverState::BuiltIn || !self.seen.insert(name.clone()) {
            return Ok(None);
        }
        let bad = |why: String| LabError::BadModule { path: file.to_owned(), why };
        let content = read_module(file).map_err(|error| bad(error.to_string()))?;
        let info = module_info(&content).map_err(|why| bad(why.to_owned()))?;
        self.check(file, &info)?;
        let needs = info.soft.iter().chain(&info.depends).rev().cloned().collect();
        let path = self.tree.unpacked_name(file);
        Ok(Some(Open { module: Module { name, path, content, info }, needs }))
    }

    fn check(&self, file: &Path, info: &ModuleInfo) -> Result<(), LabError> {
        let bad = |why: String| LabError::BadModule { path: file.to_owned(), why };
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

/// For each module all that must be loaded before it, as `modules.dep` lists them: the last first.
pub(super) fn all_needs(modules: &[Module]) -> BTreeMap<&str, Vec<&Module>> {
    let mut needs: BTreeMap<&str, Vec<&Module>> = BTreeMap::new();
    // Each stands after what it needs, so that the lists of those are complete.
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
