//! A profile for a terminal: stream by stream, each field with its value and its source.

use std::io;

use durio_workload::profile::{Profile, ProfileSource, ShownFact};

use super::page::{Look, Page};
use crate::Options;

/// The widest key: with_every_commit.
const FIELD_WIDTH: usize = 17;

pub(crate) fn write_list(
    profiles: &[Profile],
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    page.paragraph("", Look::Bold, "Profiles; see one with durio profile show NAME");
    page.blank();
    let width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    for profile in profiles {
        let text = format!("{}: {}", profile.title, profile.summary);
        page.labelled(&profile.name, width, Look::Bold, &text);
    }
    out.write_all(page.text().as_bytes())
}

pub(crate) fn write(
    profile: &Profile,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    page.paragraph("", Look::Bold, &format!("{}: {}", profile.name, profile.title));
    page.paragraph("  ", Look::Plain, &profile.summary);
    let facts = profile.facts();
    if let Some(log) = &profile.log {
        stream("log", &log.summary, log.fitting.as_deref(), &facts, &mut page);
    }
    for it in &profile.streams {
        stream(&it.name, &it.summary, it.fitting.as_deref(), &facts, &mut page);
    }
    thresholds(profile, &mut page);
    own(profile, &facts, &mut page);
    sources(&profile.sources, &mut page);
    out.write_all(page.text().as_bytes())
}

fn stream(name: &str, summary: &str, fitting: Option<&str>, facts: &[ShownFact], page: &mut Page) {
    page.heading(name);
    page.paragraph("  ", Look::Plain, summary);
    for fact in facts.iter().filter(|fact| fact.stream == name) {
        field(fact, page);
    }
    if let Some(fitting) = fitting {
        page.labelled("fitting", FIELD_WIDTH, Look::Warning, fitting);
    }
}

/// `sync_every        1 [source-code, wal] note`
fn field(fact: &ShownFact, page: &mut Page) {
    let source = format!("[{}, {}]", fact.source.kind.word(), fact.source.name);
    let text = match &fact.note {
        Some(note) => format!("{} {source} {note}", fact.value),
        None => format!("{} {source}", fact.value),
    };
    page.labelled(fact.field, FIELD_WIDTH, Look::Plain, &text);
}

fn thresholds(profile: &Profile, page: &mut Page) {
    page.heading("thresholds");
    if profile.thresholds.is_empty() {
        page.paragraph("  ", Look::Plain, "none is documented: figures are shown, and no grade");
    }
    for it in &profile.thresholds {
        let place = it.of.as_deref().or(it.check.as_deref()).unwrap_or_default();
        let asked = it.asked_as.as_deref().unwrap_or(&profile.name);
        let kind = profile.source(&it.from).map_or("", |source| source.kind.word());
        let text = format!("{} ({place}) [{kind}, {}]", it.criterion, it.from);
        page.labelled(asked, FIELD_WIDTH, Look::Plain, &text);
        if let Some(note) = it.note.as_ref().or(it.check_note.as_ref()) {
            page.labelled("", FIELD_WIDTH, Look::Dim, &format!("note: {note}"));
        }
    }
}

fn own(profile: &Profile, facts: &[ShownFact], page: &mut Page) {
    page.heading("the profile");
    for fact in facts.iter().filter(|fact| fact.stream.is_empty()) {
        field(fact, page);
    }
    for note in &profile.notes {
        page.labelled("note", FIELD_WIDTH, Look::Plain, note);
    }
}

fn sources(sources: &[ProfileSource], page: &mut Page) {
    page.heading("sources");
    for source in sources {
        page.labelled(&source.name, FIELD_WIDTH, Look::Plain, &source.line());
        if let Some(url) = &source.url {
            page.labelled("", FIELD_WIDTH, Look::Dim, url);
        }
    }
}
