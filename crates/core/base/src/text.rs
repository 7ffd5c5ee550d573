//! Plain numbers in sentences: shares and counts.

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
