//! What a guest of durio's lab knows about the lab.
//!
//! The lab puts the file `run/durio/lab` into its guests; other machines have no [`LabFacts`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::system_dir::SystemDir;

/// What the guest's clock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabTiming {
    /// Instructions: results repeat on any machine, and are software cost without contention.
    Counted,
    /// The host's time: results are those of an emulation, or of a guest that shares the host with
    /// other work.
    Wall,
}

impl LabTiming {
    pub const ALL: [Self; 2] = [Self::Counted, Self::Wall];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Wall => "wall",
        }
    }

    /// The meaning of results from there, for a reader of the report.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Counted => "counted: software cost per I/O without contention, never speed",
            Self::Wall => "wall: time of a guest, as emulated or virtualised; no speed of hardware",
        }
    }
}

impl fmt::Display for LabTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The lab that a guest runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabFacts {
    /// What its clock counts.
    pub timing: LabTiming,
    /// How instructions are carried out: `tcg` (emulation) or `kvm`.
    pub accelerator: String,
    /// Why it is emulated although its clock is the host's: the problem with KVM, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_kvm: Option<String>,
    /// QEMU's version.
    pub qemu_version: String,
    /// The processor that is shown to the guest.
    pub cpu_model: String,
    /// Counted only: each instruction advances the clock by 2 to the power of this, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icount_shift: Option<u8>,
    /// What the guest's root is: `hermetic` (its own memory) or `shared` (the host's, read-only).
    pub root: String,
}

impl LabFacts {
    /// Where the file is in a guest.
    pub const PATH: &'static str = "/run/durio/lab";

    /// The file's text: a line `NAME VALUE` for each fact.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { timing, accelerator, without_kvm, qemu_version, cpu_model, .. } = self;
        let Self { icount_shift, root, .. } = self;
        // A fact is a line, and QEMU's reason may be several.
        let reason = without_kvm.as_deref().map(|reason| reason.replace('\n', " "));
        let reason = reason.map(|reason| format!("without_kvm {reason}\n")).unwrap_or_default();
        let shift = icount_shift.map(|shift| format!("icount_shift {shift}\n")).unwrap_or_default();
        format!(
            "timing {timing}\naccelerator {accelerator}\n{reason}qemu_version {qemu_version}\n\
             cpu_model {cpu_model}\n{shift}root {root}\n"
        )
    }

    /// Reads the file's text; none if it is not of this form.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut values =
                text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.next().map(str::to_owned)
        };
        let timing = value("timing")?;
        Some(Self {
            timing: LabTiming::ALL.into_iter().find(|known| known.word() == timing)?,
            accelerator: value("accelerator")?,
            without_kvm: value("without_kvm"),
            qemu_version: value("qemu_version")?,
            cpu_model: value("cpu_model")?,
            icount_shift: value("icount_shift").and_then(|shift| shift.parse().ok()),
            root: value("root")?,
        })
    }
}

pub(crate) fn lab_facts(root: &SystemDir) -> Option<LabFacts> {
    let path = LabFacts::PATH.trim_start_matches('/');
    // A file of another form is not the lab's, and is ignored.
    LabFacts::of_text(&root.text(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn sample(icount_shift: Option<u8>) -> LabFacts {
        LabFacts {
            timing: if icount_shift.is_some() { LabTiming::Counted } else { LabTiming::Wall },
            accelerator: "tcg".into(),
            without_kvm: icount_shift.is_none().then(|| "no KVM: here".into()),
            qemu_version: "7.2.22 (Debian 1:7.2)".into(),
            cpu_model: "Westmere".into(),
            icount_shift,
            root: "hermetic".into(),
        }
    }

    #[test]
    fn facts_come_back_from_their_text_and_from_a_record() {
        for facts in [sample(Some(2)), sample(None)] {
            assert_eq!(LabFacts::of_text(&facts.to_text()), Some(facts.clone()));
            let saved = serde_json::to_string(&facts).unwrap();
            assert_eq!(serde_json::from_str::<LabFacts>(&saved).unwrap(), facts);
        }
    }

    #[test]
    fn a_guest_has_them_and_no_other_machine() {
        let fixture = Fixture::new();
        assert_eq!(lab_facts(&fixture.root()), None);
        fixture.file("run/durio/lab", sample(Some(2)).to_text());
        assert_eq!(lab_facts(&fixture.root()), Some(sample(Some(2))));
    }

    #[test]
    fn damaged_text_is_no_facts() {
        let text = sample(Some(2)).to_text();
        for end in 0..text.len() - "hermetic\n".len() {
            assert_eq!(LabFacts::of_text(&text[..end]), None, "{end}");
        }
        assert_eq!(LabFacts::of_text(&text.replace("counted", "fast")), None);
    }
}
