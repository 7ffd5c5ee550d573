//! Stacks of made-up and recorded machines as text: what is shown of some, line by line, and that
//! something is shown of each, whatever its files hold.
//!
//! The trees in `golden/` are compared whole. After a change that is meant, write them anew with
//! `DURIO_WRITE_GOLDEN=1` in the environment and read what has changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use durio_observe::{Stack, read_stack_in};
use durio_report::{Format, Options, STACK_SCHEMA, Stacks, write};
use testkit::{Entry, Machine, machines};

fn written(format: Format, stacks: &[Stack]) -> String {
    let mut out = Vec::new();
    write(format, &Stacks::new(stacks), &Options::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn shown(root: &Path, machine: &Machine) -> Option<String> {
    let stack = read_stack_in(root, &machine.target).ok()?;
    Some(written(Format::Text, &[stack]))
}

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks/golden")
}

/// The golden trees by the name of their machine.
fn golden() -> BTreeMap<String, String> {
    let files = fs::read_dir(golden_folder()).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    files.map(named).collect()
}

#[test]
fn trees_are_shown_as_they_are_written_down() {
    let mut golden = golden();
    assert!(golden.len() >= 12, "{}", golden.len());
    let mut wrong = Vec::new();
    for machine in machines() {
        let Some(expected) = golden.remove(&machine.name) else { continue };
        let tree = machine.tree();
        let found = shown(tree.path(), &machine).unwrap();
        if std::env::var_os("DURIO_WRITE_GOLDEN").is_some() {
            fs::write(golden_folder().join(format!("{}.txt", machine.name)), &found).unwrap();
        } else if found != expected {
            wrong.push(format!("{}, found:\n{found}\nexpected:\n{expected}", machine.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(golden.is_empty(), "trees of machines that are not there: {golden:?}");
}

#[test]
fn every_layer_of_every_machine_is_in_its_tree_with_all_its_facts() {
    for machine in machines() {
        let tree = machine.tree();
        let stack = read_stack_in(tree.path(), &machine.target).unwrap();
        let text = written(Format::Text, std::slice::from_ref(&stack));
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (_, layer) in stack.walk() {
            assert!(text.contains(&layer.name), "{}: {}", machine.name, layer.name);
            for word in ["consistency_policy", "array_state", "firmware", "driver", "dm_targets"] {
                let value = layer.fact(word).unwrap_or_default().replace(',', " and ");
                assert!(flat.contains(&value), "{}: {word} {value}\n{text}", machine.name);
            }
        }
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
    }
}

#[test]
fn the_document_holds_the_stacks_as_they_are_recorded() {
    let machine = machines().remove(0);
    let tree = machine.tree();
    let stack = read_stack_in(tree.path(), &machine.target).unwrap();
    let text = written(Format::Json, &[stack.clone(), stack.clone()]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema"], STACK_SCHEMA);
    let stacks: Vec<Stack> = serde_json::from_value(document["stacks"].clone()).unwrap();
    assert_eq!(stacks, [stack.clone(), stack]);
}

/// A generator of seeded numbers (Numerical Recipes, a linear congruence).
struct Seeded(u32);

impl Seeded {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % bound.max(1)
    }
}

/// Damages one file of a tree.
fn damage(path: &Path, tree: &Path, random: &mut Seeded) {
    let content = fs::read(path).unwrap_or_default();
    fs::remove_file(path).unwrap();
    match random.below(9) {
        0 => {}
        1 => fs::write(path, b"").unwrap(),
        2 => fs::write(path, &content[..random.below(content.len())]).unwrap(),
        3 => {
            let noise: Vec<u8> = (0..64).map(|_| random.below(256).to_le_bytes()[0]).collect();
            fs::write(path, noise).unwrap();
        }
        4 => fs::create_dir(path).unwrap(),
        5 => symlink(path, path).unwrap(),
        6 => symlink(tree, path).unwrap(),
        7 => fs::write(path, "18446744073709551615\n").unwrap(),
        _ => fs::write(path, "x".repeat(1 << 20)).unwrap(),
    }
}

fn restore(path: &Path, content: &[u8]) {
    match fs::symlink_metadata(path).map(|entry| entry.is_dir()) {
        Ok(true) => fs::remove_dir(path).unwrap(),
        Ok(false) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
    fs::write(path, content).unwrap();
}

/// Damages of one machine at a time.
const DAMAGES: usize = 12;

#[test]
fn whatever_is_damaged_a_tree_or_an_error_is_shown() {
    let mut random = Seeded(20_260_723);
    let mut trees = 0;
    for machine in machines() {
        let tree = machine.tree();
        let files: Vec<&str> = machine.entries.iter().filter_map(file).collect();
        for _ in 0..DAMAGES {
            let damaged: Vec<(PathBuf, Vec<u8>)> = (0..=random.below(3))
                .map(|_| tree.path().join(files[random.below(files.len())].trim_start_matches('/')))
                .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
                .collect();
            for (path, _) in &damaged {
                if path.is_file() {
                    damage(path, tree.path(), &mut random);
                }
            }
            trees += usize::from(shown(tree.path(), &machine).is_some_and(|text| !text.is_empty()));
            damaged.iter().rev().for_each(|(path, content)| restore(path, content));
        }
        assert!(shown(tree.path(), &machine).is_some(), "{} was not restored", machine.name);
    }
    // Only without a list of mounts is there nothing to show.
    assert!(trees > 500, "{trees}");
}

fn file(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::File { path, .. } => Some(path),
        Entry::Link { .. } => None,
    }
}

#[test]
fn names_from_other_hands_cannot_steer_the_terminal() {
    let machine = machines().remove(0);
    let tree = machine.tree();
    let mut stack = read_stack_in(tree.path(), &machine.target).unwrap();
    stack.root.name = "a\x1b[31m\nb".to_owned();
    let text = written(Format::Text, &[stack]);
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.starts_with("directory a\\u{1b}[31m\\nb"), "{text}");
}
