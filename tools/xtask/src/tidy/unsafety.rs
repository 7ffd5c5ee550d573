//! Rule: unsafe code lives in one crate.
//!
//! Checks a source file. Whether unsafe code in that crate is sound is for reviewers.

use super::Problem;
use super::code::words;
use super::tree::SourceFile;

const ALLOWED: &str = "crates/core/block";

pub(super) fn check(source: &SourceFile) -> Vec<Problem> {
    if source.is_in(ALLOWED) {
        return Vec::new();
    }
    let lines = (1..).zip(source.code.code.lines());
    let unsafe_lines = lines.filter(|(_, line)| words(line).any(|word| word == "unsafe"));
    unsafe_lines
        .map(|(number, _)| {
            let what = format!("unsafe code outside {ALLOWED}; use a safe wrapper, or move it");
            Problem::new(&source.path, number, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&SourceFile::new(path, text)).iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn unsafe_code_outside_its_crate_is_caught() {
        let text =
            "//! Header.\nfn f() {\n    unsafe { g() }\n}\n#[unsafe(no_mangle)]\nfn h() {}\n";
        assert_eq!(found("crates/measure/run/src/lib.rs", text), [3, 5]);
        assert_eq!(found("crates/core/block-extra/src/lib.rs", text), [3, 5]);
        assert!(found("crates/core/block/src/lib.rs", text).is_empty());
    }

    #[test]
    fn the_word_in_a_comment_a_string_or_a_lint_is_none() {
        let text = "//! unsafe\n#![deny(unsafe_code)]\nconst X: &str = \"unsafe\";\n";
        assert!(found("crates/measure/run/src/lib.rs", text).is_empty());
    }
}
