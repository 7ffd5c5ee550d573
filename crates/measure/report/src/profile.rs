//! Profiles of databases as documents, and their calibration.
//!
//! A profile stream by stream, each field with its value and its source; a [`CalibrationFindings`]
//! with a headline, a row for each number of clients, and doubts.

use durio_analyse::calibration::{CalibrationFindings, CalibrationPoint};
use durio_base::counted;
use durio_base::stats::least_squares::median;
use durio_spec::profile::{Profile, ProfileSource, ShownFact};
use serde::Serialize;

use crate::Report;
use crate::document::{Cell, Column, Document, Section, Table, Tone, shown, words};
use crate::figures::{percent, rate_bare};

#[derive(Debug, Serialize)]
struct ListedProfile<'a> {
    name: &'a str,
    title: &'a str,
    summary: &'a str,
    thresholds: usize,
}

/// The names of profiles, with their descriptions.
#[derive(Debug, Serialize)]
pub struct ProfileList<'a> {
    profiles: Vec<ListedProfile<'a>>,
}

impl<'a> ProfileList<'a> {
    /// A list of these.
    pub fn new(profiles: &'a [Profile]) -> Self {
        let listed = |profile: &'a Profile| ListedProfile {
            name: &profile.name,
            title: &profile.title,
            summary: &profile.summary,
            thresholds: profile.thresholds.len(),
        };
        Self { profiles: profiles.iter().map(listed).collect() }
    }
}

impl Report for ProfileList<'_> {
    fn document(&self) -> Document {
        let mut document = Document::new("", "Profiles; see one with durio profile show NAME");
        let mut section = Section::default();
        for it in &self.profiles {
            section.toned(Tone::Strong, it.name, format!("{}: {}", it.title, it.summary));
        }
        document.push(section);
        document
    }
}

impl Report for Profile {
    fn document(&self) -> Document {
        let mut document = Document::new("", format!("{}: {}", self.name, self.title));
        let mut head = Section::default();
        head.say(Tone::Plain, &self.summary);
        document.push(head);
        let facts = self.facts();
        if let Some(log) = &self.log {
            document.push(stream("log", &log.summary, log.fitting.as_deref(), &facts));
        }
        for it in &self.streams {
            document.push(stream(&it.name, &it.summary, it.fitting.as_deref(), &facts));
        }
        document.push(thresholds(self));
        document.push(own(self, &facts));
        document.push(sources(&self.sources));
        document
    }
}

fn stream(name: &str, summary: &str, fitting: Option<&str>, facts: &[ShownFact]) -> Section {
    let mut section = Section::new(name);
    section.say(Tone::Plain, summary);
    facts.iter().filter(|fact| fact.stream == name).for_each(|fact| field(fact, &mut section));
    fitting.into_iter().for_each(|text| section.toned(Tone::Warning, "fitting", text));
    section
}

/// `sync_every        1 [source-code, wal] note`
fn field(fact: &ShownFact, section: &mut Section) {
    let source = format!("[{}, {}]", fact.source.kind.word(), fact.source.name);
    let text = match &fact.note {
        Some(note) => format!("{} {source} {note}", fact.value),
        None => format!("{} {source}", fact.value),
    };
    section.fact(fact.field, text);
}

fn thresholds(profile: &Profile) -> Section {
    let mut section = Section::new("thresholds");
    if profile.thresholds.is_empty() {
        section.say(Tone::Plain, "none is documented: results are shown without a grade");
    }
    for it in &profile.thresholds {
        let place = it.of.as_deref().or(it.check.as_deref()).unwrap_or_default();
        let asked = it.asked_as.as_deref().unwrap_or(&profile.name);
        let kind = profile.source(&it.from).map_or("", |source| source.kind.word());
        section.fact(asked, format!("{} ({place}) [{kind}, {}]", it.criterion, it.from));
        if let Some(note) = it.note.as_ref().or(it.check_note.as_ref()) {
            section.fact("", format!("note: {note}"));
        }
    }
    section
}

fn own(profile: &Profile, facts: &[ShownFact]) -> Section {
    let mut section = Section::new("the profile");
    facts.iter().filter(|fact| fact.stream.is_empty()).for_each(|fact| field(fact, &mut section));
    profile.notes.iter().for_each(|note| section.fact("note", note));
    section
}

fn sources(sources: &[ProfileSource]) -> Section {
    let mut section = Section::new("sources");
    for source in sources {
        section.fact(&source.name, source.line());
        source.url.iter().for_each(|url| section.fact("", url));
    }
    section
}

/// Processors that others may take before a round without a remark.
const OTHERS_TOLD: f64 = 0.1;

/// From this deviation on, the document says that predictions miss the wanted accuracy.
const OFF_TOLD: f64 = 0.15;

impl Report for CalibrationFindings {
    fn document(&self) -> Document {
        let mut document = Document::new("durio profile calibrate", &self.database);
        let mut section = Section::default();
        let (least, most) = self.factor_range;
        let text = format!(
            "here the database's software takes {:.2} times as long as the profile says ({least:.2} to {most:.2})",
            self.factor
        );
        section.say(Tone::Strong, text);
        section.table(Table::shown(COLUMNS, &self.points));
        section.note(
            "transactions without a disk, medians of the rounds: of the database as the command loaded it, of its \
             model with the profile's times and with calibrated ones. Last round: calibrated ÷ database. In \
             brackets: the middle half of what each round and number of clients says",
        );
        doubts(self).iter().for_each(|doubt| section.toned(Tone::Warning, "doubt", doubt));
        document.push(section);
        document
    }
}

const COLUMNS: &[Column<CalibrationPoint>] = &[
    shown("clients", |point| Cell::text(point.clients.to_string())),
    shown("database/s", |point| Cell::of(median(&point.real), Cell::Rate)),
    words(shown("rounds", |point| {
        let least = point.real.iter().copied().fold(f64::INFINITY, f64::min);
        let most = point.real.iter().copied().fold(0.0, f64::max);
        Cell::text(format!("{} to {}", rate_bare(least), rate_bare(most)))
    })),
    shown("profile/s", |point| Cell::of(median(&point.once), Cell::Rate)),
    shown("calibrated/s", |point| Cell::Rate(point.calibrated)),
    shown("last round", |point| Cell::Number(point.ratio())),
];

fn doubts(findings: &CalibrationFindings) -> Vec<String> {
    let mut doubts = Vec::new();
    if findings.scatters() {
        doubts.push(
            "rounds and numbers of clients disagree: calibrate again on a quieter machine".into(),
        );
    }
    for point in &findings.points {
        let off = (point.ratio() - 1.0).abs();
        if off > OFF_TOLD {
            doubts.push(format!(
                "with {} the model is {} off: expect predictions to be as far off",
                counted(point.clients.into(), "client"),
                percent(off)
            ));
        }
    }
    if findings.others > OTHERS_TOLD {
        let others = findings.others;
        doubts.push(format!("others took up to {others:.1} of a processor between the rounds"));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, write};

    #[test]
    fn a_calibration_says_the_factor_how_near_it_came_and_what_to_doubt() {
        let point = |clients, real: f64, calibrated| CalibrationPoint {
            clients,
            real: vec![real * 0.9, real * 1.1, real],
            once: vec![real / 2.0],
            twice: vec![real / 4.0],
            calibrated,
        };
        let findings = CalibrationFindings {
            schema: durio_analyse::calibration::CALIBRATION_SCHEMA,
            database: "redis".to_owned(),
            command: "load".to_owned(),
            factor: 0.5,
            factor_range: (0.4, 0.6),
            points: vec![point(1, 1000.0, 1020.0), point(32, 8000.0, 10_000.0)],
            others: 0.3,
        };
        let mut bytes = Vec::new();
        write(Format::Text, &findings, &Options::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        for said in [
            "takes 0.50 times as long as the profile says (0.40 to 0.60)",
            "900 to 1.1 k",
            "calibrate again",
            "with 32 clients the model is 25",
            "up to 0.3 of a processor",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(!text.contains("with 1 client the model"), "{text}");
    }
}
