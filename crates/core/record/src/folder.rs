//! The contents of a run folder other than its events: names, the manifest, the environment; and
//! the names of run folders.

use std::fmt;
use std::time::SystemTime;

use durio_observe::{Host, Stack};
use serde::{Deserialize, Serialize};

/// Version of the run folder. A reader reads its own version and older ones.
pub const RUN_FOLDER_SCHEMA: u32 = 2;

/// The files of a run folder.
pub mod file_names {
    /// Schema, identity and command of the run.
    pub const MANIFEST: &str = "run.json";
    pub const PLAN: &str = "plan.json";
    /// The machine and the stacks.
    pub const ENVIRONMENT: &str = "environment.json";
    /// The events, one JSON object per line.
    pub const EVENTS: &str = "events.jsonl";
    /// The histograms, in the HdrHistogram log format.
    pub const HISTOGRAMS: &str = "histograms.hlog";
    /// The files that durio made and removed.
    pub const JOURNAL: &str = "journal.jsonl";
    /// The findings, as `durio report --format json` prints them.
    pub const FINDINGS: &str = "findings.json";
    /// The report for a browser.
    pub const REPORT: &str = "report.html";
}

/// Schema, identity and command of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`RUN_FOLDER_SCHEMA`] of the writer.
    pub schema: u32,
    pub run: String,
    /// The version of durio that wrote it.
    pub durio_version: String,
    /// Begin, in RFC 3339.
    pub started: String,
    /// The command line; bytes that are not text are replaced.
    pub command: Vec<String>,
    /// The name that its user gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// The machine, and the layers under each location of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine.
    pub host: Host,
    /// One stack per location, in the plan's order.
    pub stacks: Vec<Stack>,
}

/// The name of a run folder: sorts by time, is unique on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderName(String);

impl FolderName {
    /// The name of a run of `command` by process `process` that starts `now`.
    #[must_use]
    pub fn new(command: &str, now: SystemTime, process: u32) -> Self {
        // Two runs in the same millisecond differ by their process.
        let time = Self::rfc3339(now);
        // Colons are not welcome in file names of other systems, to which folders are copied.
        Self(format!("{}-{command}-{process}", time.replace(':', "").replace('.', "-")))
    }

    /// A name that [`FolderName::new`] gave.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (time, own) = text.split_once("Z-")?;
        let form = "dddd-dd-ddTdddddd-ddd";
        let is_of_form = |(byte, wanted): (u8, u8)| match wanted {
            b'd' => byte.is_ascii_digit(),
            other => byte == other,
        };
        let is_time = time.len() == form.len() && time.bytes().zip(form.bytes()).all(is_of_form);
        let (command, process) = own.rsplit_once('-')?;
        let is_command =
            !command.is_empty() && command.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
        let is_process = process.parse::<u32>().is_ok_and(|id| id.to_string() == process);
        (is_time && is_command && is_process).then(|| Self(text.to_owned()))
    }

    /// A time as manifests have it.
    #[must_use]
    pub fn rfc3339(time: SystemTime) -> String {
        humantime::format_rfc3339_millis(time).to_string()
    }

    /// True for a run of this command.
    #[must_use]
    pub fn is_of(&self, command: &str) -> bool {
        let own = self.0.split_once("Z-").and_then(|(_, own)| own.rsplit_once('-'));
        own.is_some_and(|(own, _)| own == command)
    }

    /// True for a time as [`FolderName::rfc3339`] writes it.
    #[must_use]
    pub fn is_rfc3339(text: &str) -> bool {
        humantime::parse_rfc3339(text).is_ok()
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_sort_by_time() {
        let at = |seconds| {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            FolderName::new("check", now, 7).to_string()
        };
        assert_eq!(at(0), "1970-01-01T000000-000Z-check-7");
        assert!(at(1_800_000_000) < at(1_800_000_001));
    }

    #[test]
    fn only_names_that_durio_gives_are_names_of_folders() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
        for command in ["run", "replay", "stack-bench"] {
            let name = FolderName::new(command, now, 4711);
            assert_eq!(FolderName::parse(name.as_str()), Some(name));
        }
        for other in [
            "precious",
            "",
            "2027-01-15T080000-123Z-run",
            "2027-01-15T080000-123Z--7",
            "2027-01-15T080000-123Z-run-",
            "2027-01-15T080000-123Z-run-x",
            "2027-01-15T080000-123Z-run-007",
            "2027-01-15T080000-123Z-Run-7",
            "2027-01-15T08000-0123Z-run-7",
            "2027-01-15T080000-123Z-run-99999999999",
            "x2027-01-15T080000-123Z-run-7",
        ] {
            assert_eq!(FolderName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_tells_its_command_and_a_time_is_one_of_a_manifest() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_800_000_000_123);
        let name = FolderName::new("stack-bench", now, 7);
        assert_eq!(name.as_str(), "2027-01-15T080000-123Z-stack-bench-7");
        assert!(name.is_of("stack-bench"));
        assert!(!name.is_of("stack") && !name.is_of("bench") && !name.is_of(""));
        assert_eq!(FolderName::rfc3339(now), "2027-01-15T08:00:00.123Z");
        assert!(FolderName::is_rfc3339("2027-01-15T08:00:00.123Z"));
        assert!(!FolderName::is_rfc3339("2027-01-15 08:00") && !FolderName::is_rfc3339(""));
    }
}
