//! Words for people: shares and counts in sentences, words of a shell, enums with words, lines and
//! columns in a text that a person wrote, and suggestions for misspelt words.

/// A share of one in whole per cent.
///
/// ```
/// assert_eq!(durio_base::percent(0.125), "12 %");
/// ```
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A count and its noun, in the plural if need be.
///
/// ```
/// assert_eq!(durio_base::counted(1, "step"), "1 step");
/// assert_eq!(durio_base::counted(0, "more step"), "0 more steps");
/// ```
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// A word as a user would type it: quoted if the shell gives one of its characters a meaning.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=,:+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Makes an enum of which every value has a word, for files and for people.
#[macro_export]
macro_rules! worded {
    ($(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$doc:meta])* $value:ident = $word:literal,)*
    }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $(#[$about])*
        $visible enum $name {
            $($(#[$doc])* $value,)*
        }

        impl $name {
            /// Every value, in this order.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];

            /// The word for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)*
                }
            }

            /// The value with this word.
            #[must_use]
            pub fn of_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.word() == word)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

/// Line and column of a byte of `text`, both from 1; the column counts characters. A byte beyond
/// the end, or within a character, is taken for the character's start.
pub fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_begin..].chars().count() + 1)
}

// Only the start of a longer word is compared: it may be a file that was taken for a name.
const COMPARED_CHARACTERS: usize = 32;

/// The word of `known` that is nearest to `word`, if it is near enough to be meant: one insertion,
/// removal, replacement or exchange of neighbours for three characters, at most four; case is
/// ignored.
///
/// Failing that, the only word that starts with it.
pub fn nearest_word<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let allowed = word.chars().count().clamp(3, 12) / 3;
    let wanted = compared(word);
    let known: Vec<&str> = known.into_iter().collect();
    let distance = |candidate: &'k str| strsim::osa_distance(&wanted, &compared(candidate));
    let nearest = known.iter().map(|&candidate| (distance(candidate), candidate)).min();
    let near = nearest.filter(|(distance, _)| *distance <= allowed).map(|(_, candidate)| candidate);
    near.or_else(|| {
        let mut longer =
            known.iter().copied().filter(|candidate| compared(candidate).starts_with(&wanted));
        let only = longer.next().filter(|_| wanted.chars().count() >= BEGIN_MIN)?;
        longer.next().is_none().then_some(only)
    })
}

// Fewer characters are the start of anything.
const BEGIN_MIN: usize = 3;

/// `did you mean 'etcd'?`, or `others` and all of `known` where none is near.
pub fn did_you_mean(word: &str, known: &[&str], others: &str) -> String {
    match nearest_word(word, known.iter().copied()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => format!("{others} {}", known.join(", ")),
    }
}

fn compared(word: &str) -> String {
    word.chars().take(COMPARED_CHARACTERS).collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters() {
        let text = "a = 1\nü = 2\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 9), (2, 3));
        assert_eq!(line_and_column(text, 7), (2, 1), "within a character");
        assert_eq!(line_and_column(text, 999), (3, 1));
    }

    #[test]
    fn misspelt_words_are_recognised_and_others_are_not() {
        let known = ["block_size", "block_mix", "depth", "jobs", "reads"];
        let nearest = |word| nearest_word(word, known);
        assert_eq!(nearest("blocksize"), Some("block_size"));
        assert_eq!(nearest("dpeth"), Some("depth"));
        assert_eq!(nearest("job"), Some("jobs"));
        assert_eq!(nearest("Jobs"), Some("jobs"));
        assert_eq!(nearest_word("cockroach", ["cockroachdb", "redis"]), Some("cockroachdb"));
        assert_eq!(nearest_word("sqlite", ["sqlite-wal", "sqlite-rollback"]), None);
        assert_eq!(nearest("temperature"), None);
        assert_eq!(nearest(""), None);
    }

    #[test]
    fn a_third_of_a_words_letters_may_be_wrong_and_a_begin_has_three() {
        let known = ["abcdefghi", "zz"];
        let nearest = |word| nearest_word(word, known);
        assert_eq!(nearest("abcdefxyz"), Some("abcdefghi"), "three of nine");
        assert_eq!(nearest("abcdexxyz"), None, "four of nine");
        assert_eq!(nearest("abc"), Some("abcdefghi"), "its begin");
        assert_eq!((nearest("ab"), nearest("z")), (None, Some("zz")));
        // Four of twelve and of more.
        let long = ["abcdefghijklmnop"];
        assert_eq!(nearest_word("abcdefghijklWXYZ", long), Some("abcdefghijklmnop"));
        assert_eq!(nearest_word("abcdefghijkVWXYZ", long), None);
        // Behind 32 characters all are equal.
        let (one, other) = ("a".repeat(32) + "bcdefgh", "a".repeat(32) + "ijklmno");
        assert_eq!(nearest_word(&one, [other.as_str()]), Some(other.as_str()));
        let (one, other) = ("a".repeat(31) + "bcdefgh", "a".repeat(26) + "ijklmnopq");
        assert_eq!(nearest_word(&one, [other.as_str()]), None);
        assert_eq!(did_you_mean("zy", &known, "known are"), "did you mean 'zz'?");
        assert_eq!(did_you_mean("q", &[], "known are"), "known are ");
        assert_eq!(did_you_mean("qqq", &known, "known are"), "known are abcdefghi, zz");
        assert_eq!(line_and_column("ab\ncd", 3), (2, 1));
        assert_eq!((line_and_column("ab\ncd", 2), line_and_column("", 0)), ((1, 3), (1, 1)));
    }
}
