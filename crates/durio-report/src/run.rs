//! A run as a document: the answer, the figures, what was judged, what it was measured on and how.
//!
//! In: [`Findings`]. Out: one document for a check, a campaign, a study of durable writes and a run of
//! a profile. Not here: any figure that the findings do not have.

mod accounts;
mod campaign;
mod cards;
mod durable;
mod figures;
mod headline;
mod machine;
mod over_time;
mod profile;
mod records;
mod times;

use std::io;

use durio_analyse::{Findings, Headline, RunState};
use durio_record::file_names;
use durio_units::Bytes;

pub(crate) use figures::place_name;

use crate::document::{Body, Document, Fact, Level, Section, Tone};
use crate::figures::{latency, rate_bare};
use crate::{Format, Options, fio};

/// Writes `findings` in `format`.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk.
pub fn write(
    format: Format,
    findings: &Findings,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match format {
        Format::FioJson => fio::write_json(findings, out),
        _ => format.write(findings, document, options, out),
    }
}

fn document(findings: &Findings) -> Document {
    let places: Vec<_> = figures::locations(findings).into_iter().map(place_name).collect();
    let title = if places.is_empty() { "nothing measured".to_owned() } else { places.join(", ") };
    let mut document = Document::new(&format!("durio {}", findings.run.durio_version), title);
    document.push(head(findings));
    document.push(answer(findings));
    if let Some(profile) = &findings.profile {
        document.push(profile::section(findings, profile));
    }
    let rules = match (&findings.durable, &findings.campaign) {
        (Some(durable), _) => durable::add(durable, &mut document),
        (None, Some(campaign)) => campaign::add(findings, campaign, &mut document),
        (None, None) => {
            figures::add(findings, &mut document);
            None
        }
    };
    notes(rules, &mut document);
    document.push(cards::verdicts(findings));
    if findings.campaign.is_none() {
        document.push(over_time::workloads(findings));
        document.push(figures::write_and_sync(findings));
    }
    document.push(times::section(findings));
    document.push(cards::signals(findings));
    document.push(machine::section(findings));
    document.push(accounts::section(findings));
    document.push(environment(findings));
    document.push(cards::warnings(findings));
    document.push(closing(findings));
    document.records = records::records(findings);
    document
}

/// How to read the figures above.
fn notes(rules: Option<String>, document: &mut Document) {
    let mut section = Section::new("How to read the figures");
    rules.into_iter().chain(document.absences()).for_each(|it| section.note(it));
    document.push(section);
}

fn head(findings: &Findings) -> Section {
    let mut head = Section::default();
    let run = &findings.run;
    head.note(format!("{} · run {}", run.started, run.run));
    let host = machine::host_short(&findings.host);
    head.push(Level::Detail, Body::Text(Tone::Note, host));
    head
}

fn answer(findings: &Findings) -> Section {
    let mut section = Section::default();
    if let Some(campaign) = &findings.campaign {
        let kind = if findings.profile.is_some() { "profile" } else { "campaign" };
        section.say(Tone::Strong, format!("{kind} {}", campaign.name));
        section.say(Tone::Plain, &campaign.summary);
    }
    match &findings.headline {
        Some(it) => leading(it, &mut section),
        None if findings.campaign.is_some() => {}
        None => section.say(Tone::Warning, "No durable workload was measured."),
    }
    state(findings, &mut section);
    section
}

fn leading(it: &Headline, section: &mut Section) {
    let mut figure = |label: String, value: String| {
        section.fact_at(Level::Headline, Fact::new(Tone::Plain, &label, value));
    };
    let range = headline::range(it).map_or_else(String::new, |range| format!(" ({range})"));
    let rate = rate_bare(it.durable_commits_per_second);
    figure(format!("durable commits per second{range}"), rate);
    match it.commit_latency_ns_p99 {
        Some(nanos) => figure("p99 of a durable commit".to_owned(), latency(nanos)),
        None => {
            let label = "p99 of a durable commit: fewer than 100 commits".to_owned();
            figure(label, "unknown".to_owned());
        }
    }
    section.note(format!("workload {} at {}", it.workload, it.location));
    match headline::verdict(it) {
        headline::Verdict::Steady(how) => section.note(format!("steady: {how}")),
        headline::Verdict::NotSteady(why) => toned(section, Tone::Warning, "NOT STEADY", why),
        headline::Verdict::Unknown(why) => section.say(Tone::Warning, why),
    }
}

fn toned(section: &mut Section, tone: Tone, word: &str, text: impl Into<String>) {
    section.fact_at(Level::Headline, Fact::new(tone, word, text));
}

fn state(findings: &Findings, section: &mut Section) {
    let tone = match findings.state {
        RunState::Complete => Tone::Good,
        RunState::Interrupted | RunState::Partial => Tone::Warning,
        RunState::Failed => Tone::Bad,
    };
    let meaning = state_meaning(findings.state).unwrap_or("every step ran to its limit");
    toned(section, tone, state_word(findings.state), meaning);
    for error in &findings.errors {
        toned(section, Tone::Bad, "ERROR", error);
    }
    if let Some(reason) = &findings.provisional {
        toned(section, Tone::Warning, "PROVISIONAL", reason);
    }
}

/// The word for how the run ended.
const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Complete => "COMPLETE",
        RunState::Interrupted => "INTERRUPTED",
        RunState::Failed => "FAILED",
        RunState::Partial => "PARTIAL",
    }
}

/// What the state means for the reader; nothing if all is well.
const fn state_meaning(state: RunState) -> Option<&'static str> {
    match state {
        RunState::Complete => None,
        RunState::Interrupted => Some("the user stopped the run; later steps are missing"),
        RunState::Failed => Some("an error ended the run; later steps are missing"),
        RunState::Partial => Some("the record has no end: the run was killed, or is still running"),
    }
}

fn environment(findings: &Findings) -> Section {
    let mut section = Section::detail("Environment and plan");
    section.facts(machine::host_facts_other(&findings.host));
    let memory = findings.memory_max_bytes.map(|it| Bytes::new(it).to_string());
    section.facts(memory.map(|it| ("memory of durio, at most", it)));
    section.fact("command", findings.run.command.join(" "));
    section.fact("this page again", format!("durio report {} --format html", findings.run_folder));
    // A campaign has hundreds of steps.
    let plan = match findings.campaign.is_none() {
        true => serde_json::to_string_pretty(&findings.plan),
        false => serde_json::to_string(&findings.plan),
    };
    let mut group = Section::detail("The exact plan");
    plan.into_iter().for_each(|it| group.push(Level::Detail, Body::Verbatim(it)));
    section.group(group);
    section
}

/// Where to read on.
fn closing(findings: &Findings) -> Section {
    let mut section = Section::default();
    let folder = &findings.run_folder;
    let report = format!("{}/{}", folder.trim_end_matches('/'), file_names::REPORT);
    for line in [format!("run folder: {folder}"), format!("report: {report}")] {
        section.push(Level::Summary, Body::Verbatim(line));
    }
    section
}
