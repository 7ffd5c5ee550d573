//! Licence expressions of the SPDX standard.
//!
//! Takes a manifest's `license`; says whether some choice of licences in it is all permissive.

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
            "(" | ")" | "/" | "OR" | "AND" | "WITH" => Err(format!("'{token}' is no licence")),
            _ => Ok(token),
        }
    }

    fn takes(&mut self, wanted: &[&str]) -> bool {
        let is_wanted = self.tokens.get(self.at).is_some_and(|it| wanted.contains(&it.as_str()));
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
