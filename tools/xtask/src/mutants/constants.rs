//! Doubled constants, planted one at a time: do the tests pin each number?
//!
//! Takes the sources of a crate without its tests; returns its constants, and for which of them a
//! test of that crate fails when the first number in it is doubled (zero becomes one). [`super`]
//! draws the sample and prints the table.
//!
//! cargo-mutants changes operators and return values, not literals.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use syn::visit::{self, Visit};

use super::{Mutant, MutantsOutcome, TIMEOUT_SECONDS};
use crate::cargo;

/// Timeout of a build in seconds; the first one, on a busy machine, takes minutes.
const BUILD_SECONDS: &str = "3000";

/// The exit code of timeout(1) at the limit.
const TIMED_OUT: i32 = 124;

/// A constant with another number in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constant {
    pub(super) mutant: Mutant,
    /// Bytes of the number in its file.
    place: Range<usize>,
    doubled: String,
}

/// All constants of a crate that have a number.
pub(super) fn list(name: &str) -> Result<Vec<Constant>> {
    let root = cargo::workspace_root();
    let mut constants = Vec::new();
    for file in tracked(&root, &format!("{}/src", cargo::crate_folder(name)?))? {
        let is_test = ["/tests", "_tests.rs", "/testkit"].iter().any(|part| file.contains(part));
        if file.ends_with(".rs") && !is_test {
            let text = fs::read_to_string(root.join(&file)).with_context(|| file.clone())?;
            constants.extend(constants_of(&file, &text)?);
        }
    }
    ensure!(!constants.is_empty(), "'{name}' has no constants: is there such a crate?");
    Ok(constants)
}

/// The names of tracked files below a folder of the checkout.
fn tracked(root: &Path, folder: &str) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    let output = command.current_dir(root).args(["ls-files", "-z", folder]).output()?;
    ensure!(output.status.success(), "git cannot list '{folder}'");
    let names = String::from_utf8(output.stdout)?;
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

fn constants_of(file: &str, text: &str) -> Result<Vec<Constant>> {
    let parsed = syn::parse_file(text).with_context(|| file.to_owned())?;
    let mut finder = Finder { file, constants: Vec::new() };
    finder.visit_file(&parsed);
    Ok(finder.constants)
}

struct Finder<'file> {
    file: &'file str,
    constants: Vec<Constant>,
}

impl Finder<'_> {
    fn take(&mut self, name: &syn::Ident, value: &syn::Expr) {
        let mut number = FirstNumber::default();
        number.visit_expr(value);
        let Some((place, line, doubled)) = number.0 else { return };
        let file = self.file.to_owned();
        let change = format!("{file}:{line}:{}: {doubled} in {name}", place.start);
        self.constants.push(Constant {
            mutant: Mutant { name: change, file, line },
            place,
            doubled,
        });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        // `const _` is an assertion.
        if item.ident != "_" && !item.attrs.iter().any(is_for_tests) {
            self.take(&item.ident, &item.expr);
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.take(&item.ident, &item.expr);
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute
        .meta
        .require_list()
        .is_ok_and(|list| list.path.is_ident("cfg") && list.tokens.to_string().contains("test"))
}

/// Its place, its line, and twice its value.
#[derive(Default)]
struct FirstNumber(Option<(Range<usize>, usize, String)>);

impl<'ast> Visit<'ast> for FirstNumber {
    fn visit_lit(&mut self, literal: &'ast syn::Lit) {
        let doubled = match literal {
            syn::Lit::Int(number) => {
                let Ok(value) = number.base10_parse::<u64>() else { return };
                format!("{}{}", value.saturating_mul(2).max(1), number.suffix())
            }
            syn::Lit::Float(number) => {
                let Ok(value) = number.base10_parse::<f64>() else { return };
                format!("{:?}{}", if value == 0.0 { 1.0 } else { 2.0 * value }, number.suffix())
            }
            _ => return,
        };
        let span = literal.span();
        self.0.get_or_insert((span.byte_range(), span.start().line, doubled));
    }
}

/// Doubles each of these constants in a copy of the checkout and runs the crate's tests.
pub(super) fn try_out(name: &str, constants: &[Constant]) -> Result<MutantsOutcome> {
    let folder = cargo::metadata()?.target_directory.into_std_path_buf().join("mutants/constants");
    let copy = Copy { root: folder.join("tree"), target: folder.join("target"), name };
    copy.update()?;
    ensure!(copy.build()? == Some(0), "{name}: its tests do not compile");
    ensure!(copy.tests()? == Some(0), "{name}: its tests fail without a mutant");
    let mut outcome = MutantsOutcome::default();
    for constant in constants {
        let path = copy.root.join(&constant.mutant.file);
        let text = fs::read_to_string(&path)?;
        let mut changed = text.clone();
        changed.replace_range(constant.place.clone(), &constant.doubled);
        fs::write(&path, changed)?;
        let is_viable = copy.build()? == Some(0);
        let ended = if is_viable { copy.tests() } else { Ok(None) };
        fs::write(&path, text)?;
        let verdict = match ended? {
            None => {
                outcome.unviable += 1;
                "does not compile"
            }
            Some(0) => {
                outcome.missed.push(constant.mutant.name.clone());
                "MISSED"
            }
            Some(TIMED_OUT) => {
                outcome.timed_out += 1;
                "found by its time"
            }
            Some(_) => {
                outcome.found += 1;
                "found"
            }
        };
        // Its progress is for the waiting user, not part of the table.
        eprintln!("{verdict}: {}", constant.mutant.name);
    }
    Ok(outcome)
}

/// A copy of the checkout. Unchanged files keep their times, so cargo does not rebuild them.
struct Copy<'name> {
    root: PathBuf,
    target: PathBuf,
    name: &'name str,
}

impl Copy<'_> {
    fn update(&self) -> Result<()> {
        let root = cargo::workspace_root();
        for file in tracked(&root, ".")? {
            let (from, to) = (root.join(&file), self.root.join(&file));
            // Only the tests use links.
            let Ok(text) = fs::read(&from) else { continue };
            if fs::read(&to).ok().as_ref() != Some(&text) {
                fs::create_dir_all(to.parent().unwrap_or(&to))?;
                fs::copy(&from, &to).with_context(|| file.clone())?;
            }
        }
        Ok(())
    }

    fn build(&self) -> Result<Option<i32>> {
        self.cargo(BUILD_SECONDS, &["--no-run"])
    }

    fn tests(&self) -> Result<Option<i32>> {
        self.cargo(TIMEOUT_SECONDS, &[])
    }

    /// The exit code of `cargo test` on the crate.
    fn cargo(&self, seconds: &str, words: &[&str]) -> Result<Option<i32>> {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", seconds, "cargo", "test", "--quiet"]);
        command.args(["--package", self.name, "--lib", "--tests"]).args(words);
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command.status().context("timeout does not start")?.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_each_constant_outside_of_tests_is_doubled() {
        let text = "const A: u64 = 1_000 * 60;\nconst NAME: &str = \"7\";\n\
            impl S {\n    const B: f64 = -0.5;\n}\nconst C: [u8; 2] = [0u8, 3];\n\
            const _: () = assert!(1 < 2);\n#[cfg(test)]\nconst D: u8 = 4;\n\
            #[cfg(test)]\nmod tests {\n    const E: u8 = 5;\n}\n";
        let found = constants_of("a.rs", text).unwrap();
        let changed: Vec<_> = found
            .iter()
            .map(|constant| {
                (constant.mutant.line, &text[constant.place.clone()], constant.doubled.as_str())
            })
            .collect();
        assert_eq!(changed, [(1, "1_000", "2000"), (4, "0.5", "1.0"), (6, "0u8", "1u8")]);
        assert!(found[0].mutant.name.ends_with(": 2000 in A"), "{}", found[0].mutant.name);
    }
}
