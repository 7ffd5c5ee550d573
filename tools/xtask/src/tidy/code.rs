//! Rust source, split into code and comments.
//!
//! Returns the text of a file twice, once with everything except the code blanked out, once with
//! everything except the comments. Strings are in neither. The split is by token, not by grammar,
//! which is good enough for searching words.

/// The two views of a file; both have the file's lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) code: String,
    pub(super) comments: String,
}

/// The kind of a piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    Code,
    Comment,
    Literal,
}

impl Code {
    /// Splits the text.
    pub(super) fn of(text: &str) -> Self {
        let mut split = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            let (kind, length) = first_piece(rest);
            let (piece, after) = rest.split_at(length);
            split.push(kind, piece);
            rest = after;
        }
        split
    }

    fn push(&mut self, kind: TextKind, piece: &str) {
        let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
        let (code, comments) = (kind == TextKind::Code, kind == TextKind::Comment);
        self.code.extend(piece.chars().map(|c| if code { c } else { blank(c) }));
        self.comments.extend(piece.chars().map(|c| if comments { c } else { blank(c) }));
    }
}

/// The kind and the length of the first piece; never empty.
fn first_piece(text: &str) -> (TextKind, usize) {
    if text.starts_with("//") {
        (TextKind::Comment, text.find('\n').unwrap_or(text.len()))
    } else if text.starts_with("/*") {
        (TextKind::Comment, block_comment(text))
    } else if text.starts_with('"') {
        (TextKind::Literal, string(text))
    } else if let Some(length) = raw_string(text).or_else(|| character(text)) {
        (TextKind::Literal, length)
    } else {
        (TextKind::Code, word(text))
    }
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += first_char(rest);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == '"' && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| text.starts_with(prefix))?;
    let after = &text[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let content = prefix.len() + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    after[hashes..].starts_with('"').then(|| {
        text[content..].find(&end).map_or(text.len(), |length| content + length + end.len())
    })
}

/// A character in quotes; a quote that begins a lifetime does not count.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        // The second character may be a quote, as in '\''.
        return inner.get(2..)?.find('\'').map(|at| at + 4);
    }
    let length = first_char(inner);
    inner.get(length..)?.starts_with('\'').then_some(length + 2)
}

/// A whole word, so that no prefix of a string is seen in its middle; else one character.
fn word(text: &str) -> usize {
    let end = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    if end == 0 { first_char(text) } else { end }
}

fn first_char(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a line of code, without signs.
pub(super) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_words(text: &str) -> Vec<String> {
        words(&Code::of(text).code).map(str::to_owned).collect()
    }

    #[test]
    fn strings_are_neither_code_nor_comment() {
        for literal in
            ["\"a \\\" b\"", "r\"a\"", "r#\"a \" b\"#", "b\"a\"", "br##\"a\"# b\"##", "\"\\\\\""]
        {
            let text = format!("let x = {literal}; end");
            let prefix = if literal.starts_with("b\"") { vec!["b"] } else { vec![] };
            let expected = [vec!["let", "x"], prefix, vec!["end"]].concat();
            assert_eq!(code_words(&text), expected, "{text}");
            assert_eq!(Code::of(&text).comments.trim(), "");
        }
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        assert_eq!(code_words("f('a', '\\'', '\\n', '\"', '\\u{1F}') end"), ["f", "end"]);
        assert_eq!(code_words("fn f<'a>(x: &'a str) {}"), ["fn", "f", "a", "x", "a", "str"]);
    }

    #[test]
    fn comments_are_kept_apart_and_may_nest() {
        let split = Code::of("a // b \"c\nd /* e /* f */ g\n */ h");
        assert_eq!(split.comments.split_whitespace().collect::<Vec<_>>().join(" "), {
            "// b \"c /* e /* f */ g */"
        });
        assert_eq!(words(&split.code).collect::<Vec<_>>(), ["a", "d", "h"]);
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "a\n\"b\nc\"\n// d\ne";
        let split = Code::of(text);
        assert_eq!(split.code.lines().nth(4), Some("e"));
        assert_eq!(split.comments.lines().nth(3), Some("// d"));
    }

    #[test]
    fn unfinished_text_ends_with_the_file() {
        for text in ["\"a", "r#\"a", "/* a", "'\\", "'", "r#", "b", "'é"] {
            let split = Code::of(text);
            assert_eq!(split.code.chars().count(), text.chars().count(), "{text}");
        }
    }
}
