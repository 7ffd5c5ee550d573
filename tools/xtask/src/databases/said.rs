//! A load's report: parses lines of a name and a number into [`LoadReport`].

use anyhow::{Context, Result, bail, ensure};

/// A load's report.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct LoadReport {
    /// Transactions that were acknowledged.
    pub(crate) commits: u64,
    /// The duration of these commits, in seconds.
    pub(crate) seconds: f64,
    /// Latency of a transaction in microseconds; absent if the benchmark does not measure it.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// Commits that shared a sync; absent if only the database's counter knows it.
    pub(crate) per_sync: Option<f64>,
}

impl LoadReport {
    /// Reads it.
    ///
    /// # Errors
    /// If a line is something else, or commits or their time are missing.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut said = Self::default();
        for line in text.lines() {
            let number = line.split_once(' ').and_then(|(name, number)| {
                let number: f64 = number.trim().parse().ok()?;
                Some((name, number))
            });
            match number.with_context(|| format!("not understood: {line}"))? {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "commits of seconds, and below zero they are none"
                )]
                ("commits", number) => said.commits = number as u64,
                ("seconds", number) => said.seconds = number,
                ("p50_us", number) => said.p50_us = Some(number),
                ("p99_us", number) => said.p99_us = Some(number),
                ("per_sync", number) => said.per_sync = Some(number),
                (name, _) => bail!("'{name}' is not understood"),
            }
        }
        ensure!(said.commits > 0 && said.seconds > 0.0, "the load counted nothing: {text}");
        Ok(said)
    }

    /// Commits per second.
    #[expect(clippy::cast_precision_loss, reason = "commits of seconds")]
    pub(crate) fn rate(&self) -> f64 {
        self.commits as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_says_what_it_knows_and_what_it_does_not_is_none() {
        let said = LoadReport::parse("seconds 2000000000e-9\ncommits 50\np99_us 7.5\n").unwrap();
        assert_eq!((said.rate(), said.p50_us, said.p99_us), (25.0, None, Some(7.5)));
    }

    #[test]
    fn a_load_that_counted_nothing_or_says_something_else_is_an_error() {
        for text in ["", "commits 0\nseconds 1", "commits 5", "commits many", "5", "rate 5"] {
            assert!(LoadReport::parse(text).is_err(), "{text}");
        }
    }
}
