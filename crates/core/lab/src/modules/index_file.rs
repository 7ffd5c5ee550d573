//! The files by which modprobe finds modules: `modules.dep`, `modules.alias`, `modules.softdep` and
//! `modules.builtin` as text, and the indexes that kmod reads instead of the first two and the last.
//!
//! Returns names and contents of files below `lib/modules/RELEASE`.
//!
//! An index is a trie, the form of which is that of kmod's own (`libkmod-index.h`): a magic number, a
//! version, the place of the root; a node is an optional prefix, the places of its children from the
//! first to the last character, and its values. All numbers are big endian; a place has in its upper
//! bits which of the three parts the node has.

use std::collections::BTreeMap;

use super::module_name;
use crate::modules::{Module, all_needs};

const MAGIC: u32 = 0xB007_F457;
const VERSION: u32 = 0x0002_0001;
const KEY_BYTES_MAX: usize = 1024;
const HAS_VALUES: u32 = 0x4000_0000;
const HAS_CHILDREN: u32 = 0x2000_0000;

/// Names and contents of all index files.
pub(crate) fn index_files(modules: &[Module], built_in_list: &str) -> Vec<(&'static str, Vec<u8>)> {
    let (mut dependencies, mut aliases, mut built_in) =
        (Trie::default(), Trie::default(), Trie::default());
    let (mut dep, mut alias, mut soft) = (String::new(), String::new(), String::new());
    let needs = all_needs(modules);
    for module in modules {
        let needed = needs.get(module.name.as_str()).into_iter().flatten();
        let mut line = format!("{}:", module.path.display());
        for other in needed {
            line.push_str(&format!(" {}", other.path.display()));
        }
        dependencies.insert(&module.name, &line);
        dep.push_str(&format!("{line}\n"));
        for name in &module.info.aliases {
            let name = underscored(name);
            aliases.insert(&name, &module.name);
            alias.push_str(&format!("alias {name} {}\n", module.name));
        }
        for text in &module.info.soft_texts {
            soft.push_str(&format!("softdep {} {text}\n", module.name));
        }
    }
    for name in built_in_list.lines().filter_map(|line| module_name(line.as_ref())) {
        built_in.insert(&name, "");
    }
    vec![
        ("modules.dep", dep.into_bytes()),
        ("modules.dep.bin", dependencies.to_bytes()),
        ("modules.alias", alias.into_bytes()),
        ("modules.alias.bin", aliases.to_bytes()),
        ("modules.softdep", soft.into_bytes()),
        ("modules.builtin", built_in_list.as_bytes().to_vec()),
        ("modules.builtin.bin", built_in.to_bytes()),
        // kmod opens these too, and complains if they are missing.
        ("modules.symbols.bin", Trie::default().to_bytes()),
        ("modules.builtin.alias.bin", Trie::default().to_bytes()),
    ]
}

/// kmod looks aliases up with underscores, except within brackets.
fn underscored(alias: &str) -> String {
    let mut depth = 0_u32;
    let mapped = alias.chars().map(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == '-' && depth == 0 { '_' } else { c }
    });
    mapped.collect()
}

/// A node for each character.
#[derive(Debug, Default)]
struct Trie {
    children: BTreeMap<u8, Trie>,
    values: Vec<String>,
}

impl Trie {
    /// Keys with bytes beyond ASCII cannot be in an index; keys longer than any alias of the kernel
    /// would only cost depth.
    fn insert(&mut self, key: &str, value: &str) {
        if !key.is_ascii() || key.len() > KEY_BYTES_MAX {
            return;
        }
        let mut node = self;
        for byte in key.bytes() {
            node = node.children.entry(byte).or_default();
        }
        node.values.push(value.to_owned());
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [MAGIC, VERSION, 0].map(u32::to_be_bytes).concat();
        let root = self.append_to(&mut bytes);
        if let Some(place) = bytes.get_mut(8..12) {
            place.copy_from_slice(&root.to_be_bytes());
        }
        bytes
    }

    /// Appends children first, and returns the node's place with its flags. Recursion is as deep as
    /// the longest key.
    fn append_to(&self, bytes: &mut Vec<u8>) -> u32 {
        let places: BTreeMap<u8, u32> =
            self.children.iter().map(|(key, child)| (*key, child.append_to(bytes))).collect();
        // Children come before their parent, which has their places; so the root comes last.
        let mut place = u32::try_from(bytes.len()).unwrap_or(0);
        if let (Some((first, _)), Some((last, _))) =
            (places.first_key_value(), places.last_key_value())
        {
            place |= HAS_CHILDREN;
            bytes.extend([*first, *last]);
            for key in *first..=*last {
                bytes.extend(places.get(&key).copied().unwrap_or(0).to_be_bytes());
            }
        }
        if !self.values.is_empty() {
            place |= HAS_VALUES;
            bytes.extend(u32::try_from(self.values.len()).unwrap_or(u32::MAX).to_be_bytes());
            for value in &self.values {
                // The priority of a value among those of its key.
                bytes.extend(0_u32.to_be_bytes());
                bytes.extend(value.as_bytes());
                bytes.push(0);
            }
        }
        place
    }
}

#[cfg(test)]
mod tests;
