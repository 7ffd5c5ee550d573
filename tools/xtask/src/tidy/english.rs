//! Patterns of foreign English in comments.

use super::map::product_of;
use super::tree::SourceFile;

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
pub(super) fn count(product: &[&SourceFile]) -> (Vec<(&'static str, usize)>, usize) {
    let comments: Vec<String> = product.iter().map(|source| comments_of(source)).collect();
    let words: Vec<&str> = comments.iter().flat_map(|text| words(text)).collect();
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
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c: char| !c.is_alphanumeric();
    let is_code = |word: &&str| !word.contains('`') && !word.contains("::");
    text.split_whitespace()
        .filter(is_code)
        .map(move |word| word.trim_matches(is_sign))
        .filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(comment: &str) -> Vec<usize> {
        let text = format!("//! {comment}\nfn whoever() {{ let beside = \"nobody told\"; }}\n");
        let (found, _) = count(&[&SourceFile::new("crates/a/src/b.rs", &text)]);
        found.into_iter().map(|(_, count)| count).collect()
    }

    #[test]
    fn words_are_counted_without_signs_and_code() {
        let text = "//! One two -- `three` crate::four, \"five\".\nfn six() {}\n";
        assert_eq!(count(&[&SourceFile::new("crates/a/src/b.rs", text)]).1, 3);
    }

    #[test]
    fn each_pattern_is_found_in_comments_alone() {
        assert_eq!(found("one two three four five six seven eight nine ten"), [0; 7]);
        assert_eq!(
            found("Nobody, whoever (anybody) reads four five six seven eight nine"),
            [3, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(found("what is here; What was there, and what it does"), [0, 2, 0, 0, 0, 0, 0]);
        assert_eq!(found("that is no name and those are none of these"), [0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(found("a file of its own has a name too, yes"), [0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(found("Of a file. Whose name? Part of a name, whose"), [0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(
            found("beside the other, besides it has nine ten words yes"),
            [0, 0, 0, 0, 0, 2, 0]
        );
        assert_eq!(
            found("told so many times it goes on, begun anew meanwhile"),
            [0, 0, 0, 0, 0, 0, 6]
        );
        assert_eq!(found("the code `whoever` and `beside` is fine one two three four"), [0; 7]);
    }
}
