//! Profiles of databases as documents: stream by stream, each field with its value and its source.
//!
//! Shows profiles as facts.

use durio_spec::profile::{Profile, ProfileSource, ShownFact};
use serde::Serialize;

use crate::Report;
use crate::document::{Document, Section, Tone};

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
    #[must_use]
    pub fn new(profiles: &'a [Profile]) -> Self {
        let listed = |it: &'a Profile| ListedProfile {
            name: &it.name,
            title: &it.title,
            summary: &it.summary,
            thresholds: it.thresholds.len(),
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
    fitting.into_iter().for_each(|it| section.toned(Tone::Warning, "fitting", it));
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
        section.say(Tone::Plain, "none is documented: figures are shown, and no grade");
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
    facts.iter().filter(|fact| fact.stream.is_empty()).for_each(|it| field(it, &mut section));
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
