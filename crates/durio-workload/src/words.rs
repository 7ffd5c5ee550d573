//! Places in a text, and what a misspelt word may have meant.
//!
//! In: the text of a file that a person wrote. Out: lines, columns, suggestions. Not here: what the
//! file means.

/// Line and column of a byte of `text`, both from 1; the column counts characters. A byte beyond the
/// end, or within a character, is taken for the character's begin.
#[must_use]
pub fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let mut end = byte.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_begin = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_begin..].chars().count() + 1)
}

/// The word of `known` that is nearest to `word`, if it is near enough to be meant: one change for
/// three characters, at most four.
pub fn nearest_word<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let allowed = word.chars().count().clamp(3, 12) / 3;
    known
        .map(|candidate| (distance(word, candidate), candidate))
        .min()
        .filter(|(distance, _)| *distance <= allowed)
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals, replacements and exchanges of neighbours that make `a` of `b` (optimal
/// string alignment); of long words only the beginning is compared.
fn distance(a: &str, b: &str) -> usize {
    const COMPARED: usize = 32;
    let a: Vec<char> = a.chars().take(COMPARED).collect();
    let b: Vec<char> = b.chars().take(COMPARED).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let replaced = last[column] + usize::from(x != y);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && *x == b[column - 1] && a[row - 1] == *y;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last[b.len()]
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
        let nearest = |word| nearest_word(word, known.into_iter());
        assert_eq!(nearest("blocksize"), Some("block_size"));
        assert_eq!(nearest("dpeth"), Some("depth"));
        assert_eq!(nearest("job"), Some("jobs"));
        assert_eq!(nearest("temperature"), None);
        assert_eq!(nearest(""), None);
    }
}
