//! Rules about the text of source files: nothing unfinished, no long files, names that say
//! something, a header in each module.
//!
//! Other tools check formatting and lints.

use super::Problem;
use super::code::words;
use super::tree::SourceFile;

const LINES_MAX: usize = 600;

/// Names without a meaning.
const EMPTY_NAMES: [&str; 4] = ["utils", "helpers", "common", "manager"];

/// Text that must not be in code, and the remedy.
const UNFINISHED: [(&str, &str); 3] = [
    ("todo!", "unfinished code; finish it"),
    ("unimplemented!", "unfinished code; finish it, or return an error"),
    ("#[ignore", "a test that never runs; let it run, or report its skip with the reason"),
];

const UNFINISHED_MARK: &str = "FIXME";

/// Where the stage of slow tests runs those that are marked so.
const SLOW_TESTS: &str = "crates/durio/tests/cli/";
const SLOW: &str = "#[ignore = \"slow\"]";

pub(super) fn check(source: &SourceFile) -> Vec<Problem> {
    [unfinished(source), too_long(source), empty_names(source), no_header(source)].concat()
}

fn unfinished(source: &SourceFile) -> Vec<Problem> {
    let parts = source.code.code.lines().zip(source.code.comments.lines());
    let numbered = (1..).zip(source.text.lines().zip(parts));
    let found = numbered.flat_map(|(number, (line, (code, comment)))| {
        let is_slow = source.path.starts_with(SLOW_TESTS) && line == SLOW;
        let in_code = UNFINISHED.iter().filter(move |(sign, _)| code.contains(sign) && !is_slow);
        let in_comment = comment
            .contains(UNFINISHED_MARK)
            .then_some("FIXME in a comment; do it, or drop the mark");
        in_code.map(|&(_, what)| what).chain(in_comment).map(move |what| (number, what))
    });
    found.map(|(number, what)| Problem::new(&source.path, number, what)).collect()
}

fn too_long(source: &SourceFile) -> Vec<Problem> {
    let lines = source.text.lines().count();
    let what = || format!("{lines} lines, more than {LINES_MAX}; split the file by what it owns");
    (lines > LINES_MAX).then(|| Problem::new(&source.path, lines, what())).into_iter().collect()
}

fn empty_names(source: &SourceFile) -> Vec<Problem> {
    let in_path = source.path.trim_end_matches(".rs").split('/').find_map(empty_word);
    let of_file = in_path.map(|word| Problem::new(&source.path, 1, empty_name(word)));
    let lines = (1..).zip(source.code.code.lines());
    let of_modules = lines.filter_map(|(number, line)| {
        // A module with a separate file is covered by the file's name.
        let name = line.contains('{').then(|| words(line).skip_while(|&it| it != "mod").nth(1));
        Some(Problem::new(&source.path, number, empty_name(empty_word(name??)?)))
    });
    of_file.into_iter().chain(of_modules).collect()
}

fn empty_name(word: &str) -> String {
    format!("'{word}' could hold anything; name the file or module after what it owns")
}

fn empty_word(name: &str) -> Option<&str> {
    name.split(['_', '-', '.']).find(|word| EMPTY_NAMES.contains(word))
}

fn no_header(source: &SourceFile) -> Vec<Problem> {
    let is_module = source.path.split('/').any(|folder| folder == "src");
    let what = "no module header; begin with `//!`: what goes in, what comes out, what is not here";
    let is_missing = is_module && !source.text.starts_with("//!");
    is_missing.then(|| Problem::new(&source.path, 1, what)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&SourceFile::new(path, text)).iter().map(|problem| problem.line).collect()
    }

    fn found_in_module(text: &str) -> Vec<usize> {
        found("crates/measure/run/src/job.rs", &format!("//! Header.\n{text}"))
    }

    #[test]
    fn a_proper_module_is_fine() {
        assert!(found_in_module("const COMMON: &str = \"todo!() #[ignore]\";\n").is_empty());
    }

    #[test]
    fn unfinished_code_is_caught() {
        assert_eq!(found_in_module("fn f() { todo!() }\n"), [2]);
        assert_eq!(found_in_module("fn f() {\n    unimplemented!(\"later\")\n}\n"), [3]);
        assert_eq!(found_in_module(concat!("// FIX", "ME: wrong\n")), [2]);
    }

    #[test]
    fn a_test_that_never_runs_is_caught() {
        assert_eq!(found_in_module("#[test]\n#[ignore = \"slow\"]\nfn f() {}\n"), [3]);
        assert_eq!(found_in_module("#[test]\n#[ignore]\nfn f() {}\n"), [3]);
        let slow = "//! Header.\n#[test]\n#[ignore = \"slow\"]\nfn f() {}\n";
        assert!(found("crates/durio/tests/cli/check.rs", slow).is_empty());
        let never = slow.replace(" = \"slow\"", "");
        assert_eq!(found("crates/durio/tests/cli/check.rs", &never), [3]);
    }

    #[test]
    fn a_file_of_more_than_600_lines_is_caught() {
        assert!(found_in_module(&"\n".repeat(599)).is_empty());
        assert_eq!(found_in_module(&"\n".repeat(600)), [601]);
    }

    #[test]
    fn names_that_say_nothing_are_caught() {
        for path in [
            "crates/measure/run/src/utils.rs",
            "crates/measure/run/src/job_manager.rs",
            "crates/durio/tests/common/mod.rs",
        ] {
            assert_eq!(found(path, "//! Header.\n"), [1], "{path}");
        }
        assert_eq!(found_in_module("pub(crate) mod helpers {}\n"), [2]);
        assert!(found_in_module("pub(crate) mod job {}\n").is_empty());
    }

    #[test]
    fn a_module_without_a_header_is_caught() {
        assert_eq!(found("crates/measure/run/src/job.rs", "\n//! Late.\n"), [1]);
        assert!(found("crates/durio/tests/check.rs", "fn f() {}\n").is_empty());
    }
}
