//! The values of the axes, by length, and what a length leaves out of them.

use std::fmt::Display;

use super::DurableLength;

/// Chooses values for a slice, and says which it does not choose.
pub(super) struct Axes<'a> {
    length: DurableLength,
    slice: &'a str,
}

impl<'a> Axes<'a> {
    pub(super) fn of(length: DurableLength, slice: &'a str) -> Self {
        Self { length, slice }
    }

    /// The values of an axis: all, or with `--quick` those of `quick`.
    pub(super) fn values<T: Copy + PartialEq>(
        &self,
        all: &[T],
        quick: &[T],
        words: impl Fn(T) -> String,
        left_out: &mut Vec<String>,
    ) -> Vec<T> {
        if self.length != DurableLength::Quick {
            return all.to_vec();
        }
        let others: Vec<String> =
            all.iter().filter(|value| !quick.contains(value)).map(|&it| words(it)).collect();
        if !others.is_empty() {
            left_out.push(format!("{}: {} (--quick)", self.slice, shortened(&others, ", ")));
        }
        quick.to_vec()
    }
}

/// A number or a size with its axis.
pub(super) fn named<T: Display>(axis: &str) -> impl Fn(T) -> String {
    move |value| format!("{axis} {value}")
}

/// The words, or where there are many the first and how many more.
pub(super) fn shortened(words: &[String], between: &str) -> String {
    const SHOWN: usize = 6;
    match words.len() {
        count if count <= SHOWN + 1 => words.join(between),
        count => format!("{}{between}and {} more", words[..SHOWN].join(between), count - SHOWN),
    }
}
