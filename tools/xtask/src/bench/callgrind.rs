//! callgrind: user instructions of a whole process, all threads together.

use std::ffi::OsString;

use anyhow::{Context, Result};

/// The words that count the instructions of `command`.
pub(super) fn wrap(command: Vec<OsString>) -> Vec<OsString> {
    // Only the sum is read; a profile per run would be left in the current folder.
    let callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    callgrind.into_iter().map(OsString::from).chain(command).collect()
}

/// Reads the count from valgrind's stderr: `==123== Collected : 12345`.
pub(super) fn parse(text: &str) -> Result<f64> {
    text.lines()
        .filter_map(|line| line.split_once("Collected :"))
        .find_map(|(_, count)| count.trim().parse().ok())
        .context("callgrind printed no count")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_the_other_lines() {
        let text = "==7== Events    : Ir\n==7== Collected : 12935461\n==7== \n\
                    ==7== I   refs:      12,935,461\n";
        assert_eq!(parse(text).expect("there is a count"), 12_935_461.0);
        assert!(parse("==7== Events    : Ir\n").is_err());
    }
}
