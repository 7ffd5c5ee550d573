//! Rule: every package in the resolved graph may be used under permissive licences alone.
//!
//! Takes packages and the lock file; returns problems, at the package's place in the lock file.
//! `spdx` parses licence expressions.

use cargo_metadata::Package;

use super::{Problem, line_where, spdx};

/// Checks all packages, ours too.
pub(super) fn check(packages: &[Package], lock: &str) -> Vec<Problem> {
    let complaints = packages.iter().filter_map(|package| {
        let complaint = complaint(package.license.as_deref())?;
        Some((package.name.as_str(), package.version.to_string(), complaint))
    });
    complaints
        .map(|(name, version, complaint)| {
            let what = format!("{name} {version} {complaint}; use another package");
            Problem::new("Cargo.lock", line_of(lock, name, &version), what)
        })
        .collect()
}

fn complaint(licence: Option<&str>) -> Option<String> {
    let Some(licence) = licence else { return Some("states no licence".to_owned()) };
    match spdx::is_permissive(licence) {
        Ok(true) => None,
        Ok(false) => Some(format!("has a licence that is not permissive, '{licence}'")),
        Err(error) => Some(format!("has a licence that cannot be read, '{licence}' ({error})")),
    }
}

/// The line of the package's name; a package may be there in several versions.
fn line_of(lock: &str, name: &str, version: &str) -> usize {
    let (name, version) = (format!("name = \"{name}\""), format!("version = \"{version}\""));
    let lines: Vec<_> = lock.lines().collect();
    let pair = lines.windows(2).position(|pair| pair[0] == name && pair[1] == version);
    pair.map_or_else(|| line_where(lock, |line| line == name), |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_that_asks_for_more_is_caught() {
        assert_eq!(complaint(Some("MIT OR Apache-2.0")), None);
        assert!(complaint(Some("AGPL-3.0-only")).is_some_and(|it| it.contains("AGPL-3.0-only")));
    }

    #[test]
    fn a_missing_licence_is_caught() {
        assert_eq!(complaint(None).as_deref(), Some("states no licence"));
    }

    #[test]
    fn a_broken_licence_is_caught() {
        assert!(complaint(Some("MIT OR")).is_some_and(|it| it.contains("cannot be read")));
    }

    #[test]
    fn the_version_is_found_in_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n\
                    [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";
        assert_eq!(line_of(lock, "a", "2.0.0"), 6);
        assert_eq!(line_of(lock, "a", "1.0.0"), 2);
    }
}
