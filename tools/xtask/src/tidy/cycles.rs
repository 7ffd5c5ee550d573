//! Cycles among the files of a crate: groups of files in which each imports, over others, itself.
//!
//! An import is a `use` or a path in code that begins with `crate`, `self` or `super`, in the product without
//! its tests. Macros are not looked into.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use syn::visit::{self, Visit};

use super::map::product_of;
use super::tree::SourceFile;

/// Every cycle of two files or more, the largest first: the paths of its files.
pub(super) fn cycles<'a>(product: &[&'a SourceFile]) -> Vec<Vec<&'a str>> {
    let mut crates: BTreeMap<&str, BTreeMap<Vec<String>, &'a SourceFile>> = BTreeMap::new();
    for source in product {
        if let Some((name, inner)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().insert(module_of(inner), source);
        }
    }
    let mut found: Vec<Vec<&str>> = crates.values().flat_map(of_crate).collect();
    found.sort_by_key(|files| (usize::MAX - files.len(), files.first().copied()));
    found
}

fn of_crate<'a>(modules: &BTreeMap<Vec<String>, &'a SourceFile>) -> Vec<Vec<&'a str>> {
    let mut graph = DiGraphMap::<&str, ()>::new();
    for (module, source) in modules {
        for imported in imports(module, source, modules) {
            if imported.path != source.path {
                graph.add_edge(&source.path, &imported.path, ());
            }
        }
    }
    let groups = tarjan_scc(&graph).into_iter().filter(|files| files.len() > 1);
    groups
        .map(|mut files| {
            files.sort_unstable();
            files
        })
        .collect()
}

fn imports<'a>(
    module: &[String],
    source: &SourceFile,
    modules: &BTreeMap<Vec<String>, &'a SourceFile>,
) -> Vec<&'a SourceFile> {
    let Ok(file) = syn::parse_file(product_of(source)) else { return Vec::new() };
    let mut paths = Paths { module: module.to_vec(), found: BTreeSet::new() };
    paths.visit_file(&file);
    // A path names a module, or an item of one: the longest prefix that is a file.
    let file_of = |path: &Vec<String>| {
        (0..=path.len()).rev().find_map(|length| modules.get(path.get(..length)?).copied())
    };
    paths.found.iter().filter_map(file_of).collect()
}

/// `layers::kinds` of `layers/kinds.rs`; empty for `lib.rs` and `main.rs`.
fn module_of(inner: &str) -> Vec<String> {
    let path = inner.trim_end_matches(".rs").trim_end_matches("/mod");
    let is_root = ["lib", "main"].contains(&path);
    if is_root { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// Absolute paths that a module refers to.
struct Paths {
    module: Vec<String>,
    found: BTreeSet<Vec<String>>,
}

impl Paths {
    fn add(&mut self, segments: &[String]) {
        let (first, mut rest) = match segments.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => return,
        };
        let mut base = self.module.clone();
        match first {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop();
                while let Some(after) = rest.split_first().filter(|(name, _)| *name == "super") {
                    base.pop();
                    rest = after.1;
                }
            }
            _ => return,
        }
        base.extend(rest.iter().cloned());
        self.found.insert(base);
    }

    fn add_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(&with(&name.ident)),
            syn::UseTree::Rename(rename) => self.add(&with(&rename.ident)),
            syn::UseTree::Glob(_) => self.add(prefix),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(prefix, tree));
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A module that only re-exports its parts does not depend on them.
        if matches!(item.vis, syn::Visibility::Inherited) {
            self.add_tree(&[], &item.tree);
        }
    }

    /// `pub(super)` says who may import the item, and imports nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| SourceFile::new(&format!("crates/x/src/{path}"), text))
            .collect();
        let product: Vec<_> = sources.iter().collect();
        let name = |path: &str| path.trim_start_matches("crates/x/src/").to_owned();
        cycles(&product).into_iter().map(|cycle| cycle.into_iter().map(name).collect()).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_cycle_whatever_the_spelling() {
        let a = ("a.rs", "use super::b::{self, B};\n");
        for import in ["use crate::a::A;", "fn f(_: &crate::a::A) {}", "use super::{a, c};"] {
            assert_eq!(found(&[a, ("b.rs", import), ("c.rs", "")]), [["a.rs", "b.rs"]], "{import}");
        }
        assert!(found(&[a, ("b.rs", "use crate::c::C;\n"), ("c.rs", "")]).is_empty());
    }

    #[test]
    fn the_largest_cycle_comes_first_and_a_parent_may_be_in_it() {
        let files = [
            ("lib.rs", "mod p; mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A;"),
            ("p.rs", "mod q; use self::q::Q; fn f(_: u8) {}"),
            ("p/q.rs", "use super::r::R;"),
            ("p/r.rs", "use super::super::p::P;"),
        ];
        assert_eq!(found(&files), [vec!["p.rs", "p/q.rs", "p/r.rs"], vec!["a.rs", "b.rs"]]);
    }

    #[test]
    fn tests_and_what_is_only_shown_make_no_cycle() {
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n";
        assert!(found(&[("a.rs", tests), ("b.rs", "use crate::a::A;")]).is_empty());
        let seen_by_parent =
            [("a.rs", "mod b; use self::b::B;"), ("a/b.rs", "pub(super) struct B;")];
        assert!(found(&seen_by_parent).is_empty());
        let shows = "mod b;\npub(crate) use self::b::B;\n";
        assert!(found(&[("a.rs", shows), ("a/b.rs", "use super::A;")]).is_empty());
        let uses = "mod b;\nuse self::b::B;\n";
        assert!(found(&[("a.rs", uses), ("a/b.rs", "pub(super) struct B;")]).is_empty());
    }
}
