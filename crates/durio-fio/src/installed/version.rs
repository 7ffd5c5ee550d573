//! fio's version.
//!
//! In: `fio-3.33`, `fio-3.33-74-gb2f1a`, `fio-3.42-dirty`. Out: [`FioVersion`]. Not here: what a
//! version can do.

use std::fmt;
use std::str::FromStr;

/// A release of fio, or what was built after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FioVersion {
    /// Before the point.
    pub major: u32,
    /// After the point: 9 is before 10.
    pub minor: u32,
}

/// Not a version of fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a version of fio, which is as fio-3.33")]
pub struct NotAVersion;

impl FromStr for FioVersion {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let numbers = text.trim().strip_prefix("fio-").ok_or(NotAVersion)?;
        // git's description of a build follows after a hyphen.
        let release = numbers.split('-').next().unwrap_or_default();
        let mut parts = release.split('.');
        let mut number = || parts.next().and_then(whole).ok_or(NotAVersion);
        Ok(Self { major: number()?, minor: number()? })
    }
}

fn whole(digits: &str) -> Option<u32> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok() } else { None }
}

impl fmt::Display for FioVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fio-{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_builds_from_git_are_understood() {
        for (text, expected) in [
            ("fio-3.33", (3, 33)),
            ("fio-3.9\n", (3, 9)),
            ("fio-3.35-74-gb2f1a", (3, 35)),
            ("fio-3.42-dirty", (3, 42)),
            ("fio-2.2.10", (2, 2)),
        ] {
            let version: FioVersion = text.parse().unwrap();
            assert_eq!((version.major, version.minor), expected, "{text}");
        }
    }

    #[test]
    fn other_answers_are_none() {
        for text in
            ["", "fio-", "fio-3", "3.33", "fio-x.y", "fio-+3.1", "fio-3.99999999999", "curl 8"]
        {
            assert_eq!(text.parse::<FioVersion>(), Err(NotAVersion), "{text}");
        }
    }

    #[test]
    fn ten_is_after_nine() {
        let of = |text: &str| text.parse::<FioVersion>().unwrap();
        assert!(of("fio-3.9") < of("fio-3.10") && of("fio-3.28") >= crate::installed::OLDEST);
    }
}
