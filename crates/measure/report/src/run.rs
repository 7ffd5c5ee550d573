//! A run as a document: the answer, the results, the verdicts, the tested storage and the method.
//!
//! Makes one document from [`Findings`] for a check, a campaign, a study of durable writes and a
//! run of a profile. Adds no number to the findings.

mod accounts;
mod campaign;
mod cards;
mod durable;
mod figures;
mod headline;
mod machine;
mod over_time;
mod prediction;
mod profile;
mod summary;
mod times;
mod verdicts;

use std::io;

use durio_analyse::{Findings, Headline, RunState};
use durio_base::Bytes;
use durio_plan::Purpose;

pub(crate) use figures::location_name;
pub(crate) use machine::host_short;

use crate::document::{DetailLevel, Document, LabelledFact, Section, SectionBody, Tone};
use crate::figures::{latency, rate_bare};
use crate::{Report, fio, stack_tree};

impl Report for Findings {
    fn document(&self) -> Document {
        let places: Vec<_> = figures::locations(self).into_iter().map(location_name).collect();
        let title = match places.is_empty() {
            true => "nothing measured".to_owned(),
            false => places.join(", "),
        };
        let host = self.host.hostname.iter().map(|name| format!("{name}: "));
        let title = format!("{}{title}", host.collect::<String>());
        let mut document = Document::new(&format!("durio {}", self.run.durio_version), title);
        document.push(head(self));
        document.push(verdicts::in_short_of_all(self));
        document.push(answer(self));
        if let Some(prediction) = &self.prediction {
            document.push(prediction::section(prediction));
        }
        if let Some(profile) = &self.profile {
            document.push(profile::section(self, profile));
        }
        // Before the verdicts, which it may undermine.
        let mut trust = summary::trust(self);
        let rules = match (&self.durable, &self.campaign) {
            (Some(durable), _) => {
                durable::add(durable, &mut document);
                None
            }
            (None, Some(campaign)) => campaign::add(self, campaign, &mut document),
            (None, None) => {
                let mut figures = figures::section(self);
                figures.blocks.append(&mut trust.blocks);
                document.push(figures);
                None
            }
        };
        // For the tables above: later tables explain their empty cells themselves.
        document.push(notes(rules, document.absences()));
        document.push(trust);
        document.push(verdicts::section(self));
        if self.campaign.is_none() {
            document.push(figures::beside_each_other(self));
            document.push(over_time::workloads(self));
            document.push(figures::write_and_sync(self));
        }
        // The user of a single job wants to know how it was done.
        let is_job = self.plan.purpose == Purpose::Run && self.campaign.is_none();
        let level = if is_job { DetailLevel::Summary } else { DetailLevel::Detail };
        document.push(Section { level, ..times::section(self) });
        document.push(cards::signals(self));
        document.push(cards::warnings(self));
        document.push(machine::section(self));
        document.push(Section { level, ..accounts::section(self) });
        document.push(environment(self));
        // Last, where the cursor of a terminal is.
        document.push(summary::next(self));
        document.records = figures::records(self);
        document
    }

    fn write_fio_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        fio::write_json(self, out)
    }
}

fn notes(rules: Option<String>, absences: Vec<String>) -> Section {
    let mut section = Section::detail("How to read the figures");
    rules.into_iter().chain(absences).for_each(|it| section.note(it));
    section
}

/// What it was measured on, and when.
fn head(findings: &Findings) -> Section {
    let mut head = Section::default();
    let run = &findings.run;
    let several = findings.stack.len() > 1;
    for stack in &findings.stack {
        let place = if several { format!("{}: ", stack.target) } else { String::new() };
        head.note(format!("{place}{}", stack_tree::in_short(stack)));
    }
    head.note(host_short(&findings.host));
    head.push(
        DetailLevel::Detail,
        SectionBody::Text(Tone::Note, format!("{} · run {}", run.started, run.run)),
    );
    head
}

fn answer(findings: &Findings) -> Section {
    let mut section = Section::default();
    // The title of a study of durable writes already names it.
    if let Some(campaign) = findings.campaign.as_ref().filter(|_| findings.durable.is_none()) {
        let kind = if findings.profile.is_some() { "profile" } else { "campaign" };
        section.say(Tone::Strong, format!("{kind} {}", campaign.name));
        section.say(Tone::Plain, &campaign.summary);
    }
    match &findings.headline {
        Some(it) => leading(findings, it, &mut section),
        // A campaign need not be about durable commits.
        None if findings.campaign.is_some() => {}
        None => section.say(Tone::Warning, "No durable workload was measured."),
    }
    state(findings, &mut section);
    section
}

fn leading(findings: &Findings, it: &Headline, section: &mut Section) {
    // A commit in memory is not durable.
    let in_memory =
        findings.stack.iter().any(|stack| stack.target == it.location && stack.is_in_memory());
    let durable = if in_memory { "" } else { "durable " };
    let mut figure = |label: String, value: String| {
        section.fact_at(DetailLevel::Headline, LabelledFact::new(Tone::Plain, &label, value));
    };
    let range = headline::range(it).map_or_else(String::new, |range| format!(" ({range})"));
    let rate = rate_bare(it.durable_commits_per_second);
    figure(format!("{durable}commits per second{range}"), rate);
    match it.commit_latency_ns_p99 {
        Some(nanos) => figure(format!("p99 of a {durable}commit"), latency(nanos)),
        None => {
            let label = format!("p99 of a {durable}commit: fewer than 100 commits");
            figure(label, "unknown".to_owned());
        }
    }
    let of = format!("workload {} at {}", it.workload, location_name(&it.location));
    match headline::verdict(it) {
        headline::SteadyVerdict::Steady(how) => section.note(format!("{of}; steady: {how}")),
        headline::SteadyVerdict::NotSteady(why) => {
            // With one target it goes without saying.
            if findings.stack.len() > 1 {
                section.note(of);
            }
            toned(section, Tone::Warning, "NOT STEADY", why);
        }
        headline::SteadyVerdict::Unknown(why) => section.note(format!("{of}; {why}")),
    }
    if in_memory {
        let meaning = "it lies in memory: a sync stores nothing, and nothing survives a power cut";
        toned(section, Tone::Warning, "MEMORY-BACKED", meaning);
    }
}

fn toned(section: &mut Section, tone: Tone, word: &str, text: impl Into<String>) {
    section.fact_at(DetailLevel::Headline, LabelledFact::new(tone, word, text));
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
    match findings.state {
        // What goes without saying.
        RunState::Complete => {
            section.fact_at(DetailLevel::Detail, LabelledFact::new(tone, word, meaning));
        }
        _ => toned(section, tone, word, meaning),
    }
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
    let mut group = Section { level: DetailLevel::Page, ..Section::new("The exact plan") };
    plan.into_iter().for_each(|it| group.push(DetailLevel::Page, SectionBody::Verbatim(it)));
    section.group(group);
    section
}
