//! Rule: every package in the resolved graph may be used under permissive licences alone.
//!
//! Takes packages and the lock file; returns problems, at the package's place in the lock file.
//! Licence expressions are those of the SPDX standard.

use cargo_metadata::Package;

use super::{Problem, line_where};

/// Checks all packages, ours too.
pub(super) fn check(packages: &[Package], lock: &str) -> Vec<Problem> {
    let complaints = packages.iter().filter_map(|package| {
        let complaint = complaint(package.license.as_deref())?;
        Some((package.name.as_str(), package.version.to_string(), complaint))
    });
    complaints
        .map(|(name, version, complaint)| {
            let what = format!("{name} {version} {complaint}; use another package");
            Problem::new("Cargo.lock", line_of(lock, name, &version), what)
        })
        .collect()
}

fn complaint(licence: Option<&str>) -> Option<String> {
    let Some(licence) = licence else { return Some("states no licence".to_owned()) };
    match is_permissive(licence) {
        Ok(true) => None,
        Ok(false) => Some(format!("has a licence that is not permissive, '{licence}'")),
        Err(error) => Some(format!("has a licence that cannot be read, '{licence}' ({error})")),
    }
}

/// The line of the package's name; a package may be there in several versions.
fn line_of(lock: &str, name: &str, version: &str) -> usize {
    let (name, version) = (format!("name = \"{name}\""), format!("version = \"{version}\""));
    let lines: Vec<_> = lock.lines().collect();
    let pair = lines.windows(2).position(|pair| pair[0] == name && pair[1] == version);
    pair.map_or_else(|| line_where(lock, |line| line == name), |index| index + 1)
}

/// Licences that require only their notice.
const PERMISSIVE: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "0BSD",
    "CC0-1.0",
    "BSL-1.0",
];

/// Exceptions only add permissions, but each must be known with its licence.
const PERMISSIVE_WITH: [(&str, &str); 1] = [("Apache-2.0", "LLVM-exception")];

/// True if the expression can be met by permissive licences alone.
///
/// # Errors
/// The defect of the expression.
pub(super) fn is_permissive(expression: &str) -> Result<bool, String> {
    let mut parser = SpdxParser { tokens: tokens(expression), at: 0 };
    let verdict = parser.any()?;
    match parser.next() {
        None => Ok(verdict),
        Some(token) => Err(format!("'{token}' is not expected")),
    }
}

/// Words and brackets; the slash of old manifests is a word by itself.
fn tokens(expression: &str) -> Vec<String> {
    let spaced = ["(", ")", "/"]
        .iter()
        .fold(expression.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Recursive descent; AND binds tighter than OR, WITH tighter than AND.
#[derive(Debug)]
struct SpdxParser {
    tokens: Vec<String>,
    at: usize,
}

impl SpdxParser {
    /// Both sides are always parsed: no short cut.
    fn any(&mut self) -> Result<bool, String> {
        // Otherwise an error after `MIT OR` would pass.
        let mut verdict = self.all()?;
        while self.takes(&["OR", "/"]) {
            verdict |= self.all()?;
        }
        Ok(verdict)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut verdict = self.licence()?;
        while self.takes(&["AND"]) {
            verdict &= self.licence()?;
        }
        Ok(verdict)
    }

    fn licence(&mut self) -> Result<bool, String> {
        if self.takes(&["("]) {
            let verdict = self.any()?;
            return if self.takes(&[")"]) { Ok(verdict) } else { Err("')' is missing".to_owned()) };
        }
        let licence = self.name()?;
        if self.takes(&["WITH"]) {
            let exception = self.name()?;
            return Ok(PERMISSIVE_WITH.contains(&(licence.as_str(), exception.as_str())));
        }
        Ok(PERMISSIVE.contains(&licence.as_str()))
    }

    fn name(&mut self) -> Result<String, String> {
        let token = self.next().ok_or("a licence is missing at the end")?;
        match token.as_str() {
            "(" | ")" | "/" | "OR" | "AND" | "WITH" => Err(format!("'{token}' is not a licence")),
            _ => Ok(token),
        }
    }

    fn takes(&mut self, wanted: &[&str]) -> bool {
        let is_wanted =
            self.tokens.get(self.at).is_some_and(|token| wanted.contains(&token.as_str()));
        self.at += usize::from(is_wanted);
        is_wanted
    }

    fn next(&mut self) -> Option<String> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_that_asks_for_more_is_caught() {
        assert_eq!(complaint(Some("MIT OR Apache-2.0")), None);
        assert!(complaint(Some("AGPL-3.0-only")).is_some_and(|why| why.contains("AGPL-3.0-only")));
    }

    #[test]
    fn a_missing_licence_is_caught() {
        assert_eq!(complaint(None).as_deref(), Some("states no licence"));
    }

    #[test]
    fn a_broken_licence_is_caught() {
        assert!(complaint(Some("MIT OR")).is_some_and(|why| why.contains("cannot be read")));
    }

    #[test]
    fn the_version_is_found_in_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
        assert_eq!(line_of(lock, "a", "2.0.0"), 6);
        assert_eq!(line_of(lock, "a", "1.0.0"), 2);
    }

    #[test]
    fn permissive_expressions_are_accepted() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-2.0-only OR MIT",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "MIT OR GPL-2.0-only AND MPL-2.0",
            "((0BSD))",
        ] {
            assert_eq!(is_permissive(expression), Ok(true), "{expression}");
        }
    }

    #[test]
    fn other_expressions_are_refused() {
        for expression in [
            "GPL-3.0-only",
            "MIT AND MPL-2.0",
            "(MIT OR GPL-2.0-only) AND MPL-2.0",
            "GPL-2.0-only WITH Classpath-exception-2.0",
            "MIT WITH Surprise-exception",
            "mit",
        ] {
            assert_eq!(is_permissive(expression), Ok(false), "{expression}");
        }
    }

    #[test]
    fn broken_expressions_are_told() {
        for expression in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT Apache-2.0", "MIT WITH"] {
            assert!(is_permissive(expression).is_err(), "{expression}");
        }
    }
}
