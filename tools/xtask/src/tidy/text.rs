//! Rules about the text of source files: nothing unfinished, no long files, names that say
//! something, a header in each module. Also counts patterns of foreign English in comments.
//!
//! Other tools check formatting and lints.

use super::Problem;
use super::code::words;
use super::map::product_of;
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
        let name = line.contains('{').then(|| words(line).skip_while(|&word| word != "mod").nth(1));
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

/// A pattern: its name, and whether it begins at the first of these words.
struct EnglishPattern {
    name: &'static str,
    begins: fn(&[&str]) -> bool,
}

const PATTERNS: [EnglishPattern; 7] = [
    EnglishPattern {
        name: "whoever, nobody, somebody, anybody",
        begins: |words| is_one_of(words, 0, &["whoever", "nobody", "somebody", "anybody"]),
    },
    EnglishPattern {
        name: "'what is', 'what was', 'what lies' as a noun",
        begins: |words| {
            is_one_of(words, 0, &["what"])
                && is_one_of(
                    words,
                    1,
                    &["is", "was", "lies", "are", "were", "has", "stands", "comes"],
                )
        },
    },
    EnglishPattern {
        name: "'is no', 'are none of'",
        begins: |words| {
            is_one_of(words, 0, &["is", "are", "was", "were"])
                && is_one_of(words, 1, &["no", "none"])
        },
    },
    EnglishPattern {
        name: "'of its own', 'of their own'",
        begins: |words| {
            is_one_of(words, 0, &["of"])
                && is_one_of(words, 1, &["its", "their", "our", "his"])
                && is_one_of(words, 2, &["own"])
        },
    },
    EnglishPattern {
        name: "a sentence that begins with 'Of' or 'Whose'",
        begins: |words| words.first().is_some_and(|word| ["Of", "Whose"].contains(word)),
    },
    EnglishPattern {
        name: "beside, besides",
        begins: |words| is_one_of(words, 0, &["beside", "besides"]),
    },
    EnglishPattern {
        name: "tells, told, begun, meanwhile, anew, shall, so many, goes on",
        begins: |words| {
            let single = ["tells", "told", "begun", "meanwhile", "anew", "shall"];
            is_one_of(words, 0, &single)
                || (is_one_of(words, 0, &["so"]) && is_one_of(words, 1, &["many"]))
                || (is_one_of(words, 0, &["go", "goes"]) && is_one_of(words, 1, &["on"]))
        },
    },
];

fn is_one_of(words: &[&str], at: usize, wanted: &[&str]) -> bool {
    words.get(at).is_some_and(|word| wanted.iter().any(|wanted| word.eq_ignore_ascii_case(wanted)))
}

/// How often each pattern occurs in comments, and the number of their words.
pub(super) fn count_patterns(product: &[&SourceFile]) -> (Vec<(&'static str, usize)>, usize) {
    let comments: Vec<String> = product.iter().map(|source| comments_of(source)).collect();
    let words: Vec<&str> = comments.iter().flat_map(|text| words_of(text)).collect();
    let of_pattern = |pattern: &EnglishPattern| {
        let found = (0..words.len()).filter(|at| (pattern.begins)(&words[*at..])).count();
        (pattern.name, found)
    };
    (PATTERNS.iter().map(of_pattern).collect(), words.len())
}

fn comments_of(source: &SourceFile) -> String {
    let lines = product_of(source).lines().count();
    source.code.comments.lines().take(lines).map(|line| line.trim().to_owned() + "\n").collect()
}

/// Words without punctuation; code in backticks does not count.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c: char| !c.is_alphanumeric();
    let is_code = |word: &&str| !word.contains('`') && !word.contains("::");
    text.split_whitespace()
        .filter(is_code)
        .map(move |word| word.trim_matches(is_sign))
        .filter(|word| !word.is_empty())
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

    fn pattern_counts(comment: &str) -> Vec<usize> {
        let text = format!("//! {comment}\nfn whoever() {{ let beside = \"nobody told\"; }}\n");
        let (found, _) = count_patterns(&[&SourceFile::new("crates/a/src/b.rs", &text)]);
        found.into_iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn words_are_counted_without_signs_and_code() {
        let text = "//! One two -- `three` crate::four, \"five\".\nfn six() {}\n";
        assert_eq!(count_patterns(&[&SourceFile::new("crates/a/src/b.rs", text)]).1, 3);
    }

    #[test]
    fn each_pattern_is_found_in_comments_alone() {
        assert_eq!(pattern_counts("one two three four five six seven eight nine ten"), [0; 7]);
        assert_eq!(
            pattern_counts("Nobody, whoever (anybody) reads four five six seven eight nine"),
            [3, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            pattern_counts("what is here; What was there, and what it does"),
            [0, 2, 0, 0, 0, 0, 0]
        );
        assert_eq!(
            pattern_counts("that is no name and those are none of these"),
            [0, 0, 2, 0, 0, 0, 0]
        );
        assert_eq!(pattern_counts("a file of its own has a name too, yes"), [0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(
            pattern_counts("Of a file. Whose name? Part of a name, whose"),
            [0, 0, 0, 0, 2, 0, 0]
        );
        assert_eq!(
            pattern_counts("beside the other, besides it has nine ten words yes"),
            [0, 0, 0, 0, 0, 2, 0]
        );
        assert_eq!(
            pattern_counts("told so many times it goes on, begun anew meanwhile"),
            [0, 0, 0, 0, 0, 0, 6]
        );
        assert_eq!(
            pattern_counts("the code `whoever` and `beside` is fine one two three four"),
            [0; 7]
        );
    }
}
