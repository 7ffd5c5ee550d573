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

pub(crate) use figures::location_name;

use crate::document::{Body, Document, Fact, Level, Section, Tone};
use crate::figures::{latency, rate_bare};
use crate::{Report, fio};

impl Report for Findings {
    fn document(&self) -> Document {
        let places: Vec<_> = figures::locations(self).into_iter().map(location_name).collect();
        let title = if places.is_empty() { "nothing measured".into() } else { places.join(", ") };
        let mut document = Document::new(&format!("durio {}", self.run.durio_version), title);
        document.push(head(self));
        document.push(answer(self));
        if let Some(profile) = &self.profile {
            document.push(profile::section(self, profile));
        }
        let rules = match (&self.durable, &self.campaign) {
            (Some(durable), _) => {
                durable::add(durable, &mut document);
                None
            }
            (None, Some(campaign)) => campaign::add(self, campaign, &mut document),
            (None, None) => {
                figures::add(self, &mut document);
                None
            }
        };
        // Of the tables above: those that follow say themselves why a cell is empty.
        document.push(notes(rules, document.absences()));
        document.push(cards::verdicts(self));
        if self.campaign.is_none() {
            document.push(over_time::workloads(self));
            document.push(figures::write_and_sync(self));
        }
        document.push(times::section(self));
        document.push(cards::signals(self));
        document.push(machine::section(self));
        document.push(accounts::section(self));
        document.push(environment(self));
        document.push(cards::warnings(self));
        document.push(closing(self));
        document.records = records::records(self);
        document
    }

    fn write_fio_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        fio::write_json(self, out)
    }
}

fn notes(rules: Option<String>, absences: Vec<String>) -> Section {
    let mut section = Section::new("How to read the figures");
    rules.into_iter().chain(absences).for_each(|it| section.note(it));
    section
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
        // A campaign need not be about durable commits.
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
    let (tone, word, meaning) = match findings.state {
        RunState::Complete => (Tone::Good, "COMPLETE", "every step ran to its limit"),
        RunState::Interrupted => {
            (Tone::Warning, "INTERRUPTED", "the user stopped the run; later steps are missing")
        }
        RunState::Failed => {
            (Tone::Bad, "FAILED", "an error ended the run; later steps are missing")
        }
        RunState::Partial => {
            let meaning = "the record has no end: the run was killed, or is still running";
            (Tone::Warning, "PARTIAL", meaning)
        }
    };
    toned(section, tone, word, meaning);
    for error in &findings.errors {
        toned(section, Tone::Bad, "ERROR", error);
    }
    if let Some(reason) = &findings.provisional {
        toned(section, Tone::Warning, "PROVISIONAL", reason);
    }
}

fn environment(findings: &Findings) -> Section {
    let mut section = Section::detail("Environment and plan");
    machine::host_facts_other(&findings.host, &mut section);
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

fn closing(findings: &Findings) -> Section {
    let mut section = Section::default();
    let folder = &findings.run_folder;
    let report = format!("{}/{}", folder.trim_end_matches('/'), file_names::REPORT);
    for line in [format!("run folder: {folder}"), format!("report: {report}")] {
        section.push(Level::Summary, Body::Verbatim(line));
    }
    section
}
