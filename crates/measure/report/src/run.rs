//! A run as a document: the answer, the results, the verdicts, the tested storage and the method.
//!
//! Makes one document from [`Findings`] for a check, a campaign, a study of durable writes and a
//! run of a profile. Adds no number to the findings.

mod accounts;
mod campaign;
mod databases;
mod durable;
mod figures;
mod intervals;
mod machine;
mod over_time;
mod poster;
mod profile;
mod summary;
mod verdicts;

use std::io;

use durio_analyse::{Findings, Headline, RateVariation, RunState, Steadiness};
use durio_base::{Bytes, Nanos};
use durio_judge::summary::{Summary, of_run, other_work};
use durio_observe::Stack;
use durio_plan::Purpose;
pub use intervals::ShownIntervals;
pub(crate) use machine::host_short;

use crate::document::{DetailLevel, Document, Section, SectionBody, Tone};
use crate::figures::{
    counted, deviation, grouped, latency, location_name, percent, rate, rate_bare, second,
};
use crate::{Report, TestCase, fio, stack_tree, typical, why};

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
        document.poster = poster::poster(self);
        document.push(head(self));
        document.push(verdicts::in_short_of_all(self));
        document.push(answer(self));
        document.push(databases::section(self));
        if let Some(prediction) = &self.prediction {
            document.push(profile::predicted(self, prediction));
        }
        if let Some(profile) = &self.profile {
            document.push(profile::section(self, profile));
        }
        // Before the verdicts, which it may undermine.
        let mut trust = summary::trust(self);
        let rules = match (&self.durable, &self.campaign) {
            (Some(durable), _) => {
                let mut facts = about_headline(self);
                join(&mut facts, std::mem::take(&mut trust));
                durable::add(durable, facts, &mut document);
                None
            }
            (None, Some(campaign)) => campaign::add(self, campaign, &mut document),
            (None, None) => {
                document.push(results(self, &mut trust));
                None
            }
        };
        // For the tables above: later tables explain their empty cells themselves.
        document.push(notes(rules, document.absences()));
        document.push(trust);
        document.push(verdicts::section(self, databases::has_limits_in_a_line(self)));
        document.push(typical::scale(&self.placements));
        if self.campaign.is_none() {
            document.push(figures::beside_each_other(self));
            document.push(over_time::workloads(self));
            document.push(figures::write_and_sync(self));
        }
        if let Some(why) = &self.why {
            document.push(why::own_commits(why));
        }
        // The user of a single job wants to know how it was done.
        let is_job = self.plan.purpose == Purpose::Run && self.campaign.is_none();
        let level = if is_job { DetailLevel::Summary } else { DetailLevel::Detail };
        document.push(Section { level, ..accounts::time_of_operations(self) });
        document.push(summary::signals(self));
        document.push(summary::warnings(self));
        document.push(machine::section(self));
        document.push(Section { level, ..accounts::section(self) });
        document.push(environment(self));
        // Last, where the cursor of a terminal is.
        document.push(summary::next(self));
        document.push(summary::next_of_page(self));
        document.records = figures::records(self);
        profile::add_records(self, &mut document.records);
        document
    }

    fn summary(&self) -> Option<Summary> {
        Some(of_run(self))
    }

    fn test_cases(&self) -> Vec<TestCase> {
        verdicts::test_cases(self)
    }

    fn write_fio_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        fio::write_json(self, out)
    }
}

/// The results of a run that is not a campaign, with what speaks for or against them; a check that
/// begins with databases has them in `trust` in short.
fn results(findings: &Findings, trust: &mut Section) -> Section {
    let mut figures = figures::section(findings);
    let come_databases_first = databases::come_first(findings);
    let mut facts = match come_databases_first {
        true => databases::storage(findings),
        false => Section::default(),
    };
    join(&mut facts, about_headline(findings));
    join(&mut facts, std::mem::take(trust));
    if databases::has_limits_in_a_line(findings) {
        databases::add_limits(findings, &mut facts);
    }
    if come_databases_first {
        *trust = facts;
        return Section { level: DetailLevel::Detail, ..figures };
    }
    figures.blocks.append(&mut facts.blocks);
    figures
}

/// Adds what another section says; facts of one level become one block with those before them.
fn join(section: &mut Section, other: Section) {
    for block in other.blocks {
        match block.body {
            SectionBody::Facts(facts) => {
                facts.into_iter().for_each(|fact| section.fact_at(block.level, fact));
            }
            body => section.push(block.level, body),
        }
    }
}

fn notes(rules: Option<String>, absences: Vec<String>) -> Section {
    let mut section = Section::detail("How to read the results");
    rules.into_iter().chain(absences).for_each(|rule| section.note(rule));
    section
}

/// What it was measured on, and when.
fn head(findings: &Findings) -> Section {
    let mut head = Section::default();
    let run = &findings.run;
    let several = findings.stack.len() > 1;
    let named = |stack: &Stack| {
        let label = figures::place_label(findings, &stack.target);
        let label = label.map_or_else(String::new, |label| format!("{label} "));
        format!("{label}{}", stack.target)
    };
    let layers = findings.stack.iter().map(|stack| (stack_tree::in_short(stack), named(stack)));
    for (layers, places) in grouped(layers) {
        let places = if several { format!("{}: ", places.join(", ")) } else { String::new() };
        head.note(format!("{places}{layers}"));
    }
    head.note(host_short(&findings.host));
    let started = format!("{} UTC · run {}", second(&run.started), run.run);
    head.say_at(DetailLevel::Detail, Tone::Note, started);
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
        None if findings.plan.purpose == Purpose::Check => {
            let text = "No durable workload was measured.";
            section.say_at(DetailLevel::Detail, Tone::Warning, text);
        }
        None => {}
    }
    // Others have it below their results.
    if findings.campaign.is_some() && findings.durable.is_none() {
        join(&mut section, about_headline(findings));
    }
    state(findings, &mut section);
    section
}

/// Where the headline's commits are among typical ones, and where their time goes.
fn about_headline(findings: &Findings) -> Section {
    let mut section = Section::default();
    if let Some(headline) = &findings.headline {
        typical::places(&findings.placements, &headline.location, &mut section);
    }
    section.facts(accounts::time_of_headline(findings).map(|line| ("time", line)));
    section
}

fn leading(findings: &Findings, it: &Headline, section: &mut Section) {
    // A commit in memory is not durable.
    let in_memory =
        findings.stack.iter().any(|stack| stack.target == it.location && stack.is_in_memory());
    let durable = if in_memory { "" } else { "durable " };
    let mut figure = |label: String, value: String| {
        section.toned_at(DetailLevel::Headline, Tone::Plain, &label, value);
    };
    let range = range(it).map_or_else(String::new, |range| format!(" ({range})"));
    let rate = rate_bare(it.durable_commits_per_second);
    figure(format!("{durable}commits per second{range}"), rate);
    match it.commit_latency_ns_p99 {
        Some(nanos) => figure("p99 commit latency".to_owned(), latency(nanos)),
        None => {
            let label = "p99 commit latency: fewer than 100 commits".to_owned();
            figure(label, "unknown".to_owned());
        }
    }
    let of = format!("workload {} at {}", it.workload, location_name(&it.location));
    match verdict(it) {
        SteadyVerdict::Steady(how) => note(section, format!("{of}; steady: {how}")),
        SteadyVerdict::NotSteady(why) => {
            // With one target it goes without saying.
            if findings.stack.len() > 1 {
                note(section, of);
            }
            let cause = other_work(findings).map(|work| format!("{why}; {work}"));
            toned(section, Tone::Warning, "NOT STEADY", cause.unwrap_or(why));
        }
        SteadyVerdict::Unknown(why) => note(section, format!("{of}; {why}")),
    }
    if in_memory {
        let meaning =
            "in memory, not persistent: a sync stores nothing, and nothing survives a power cut";
        toned(section, Tone::Warning, "MEMORY-BACKED", meaning);
    }
}

fn note(section: &mut Section, text: String) {
    section.say_at(DetailLevel::Detail, Tone::Note, text);
}

fn toned(section: &mut Section, tone: Tone, word: &str, text: impl Into<String>) {
    section.toned_at(DetailLevel::Headline, tone, word, text);
}

fn state(findings: &Findings, section: &mut Section) {
    let (tone, word, meaning) = match findings.state {
        RunState::Complete => (Tone::Good, "COMPLETE", "every step ran to its limit"),
        RunState::Interrupted => {
            (Tone::Bad, "INTERRUPTED", "the user stopped the run; later steps are missing")
        }
        RunState::Failed => {
            (Tone::Bad, "FAILED", "an error ended the run; later steps are missing")
        }
        RunState::Partial => {
            let meaning = "the record is incomplete: the run was killed, or is still running";
            (Tone::Bad, "PARTIAL", meaning)
        }
    };
    match findings.state {
        // What goes without saying.
        RunState::Complete => {
            section.toned_at(DetailLevel::Detail, tone, word, meaning);
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
    let memory = findings.memory_max_bytes.map(|bytes| Bytes::new(bytes).to_string());
    section.facts(memory.map(|bytes| ("memory of durio, at most", bytes)));
    section.fact("command", findings.run.command.join(" "));
    section.fact("this page again", format!("durio report {} --format html", findings.run_folder));
    // A campaign has hundreds of steps.
    let plan = match findings.campaign.is_none() {
        true => serde_json::to_string_pretty(&findings.plan),
        false => serde_json::to_string(&findings.plan),
    };
    let mut group = Section { level: DetailLevel::Page, ..Section::new("The exact plan") };
    plan.into_iter().for_each(|plan| group.push(DetailLevel::Page, SectionBody::Verbatim(plan)));
    section.group(group);
    section
}

// SNIA's limits, as in the analysis: a result beyond one of them is reported.
const RANGE_MAX: f64 = 0.2;
const DRIFT_MAX: f64 = 0.1;

/// Whether the headline's rate was steady.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SteadyVerdict {
    /// It was, and by how much.
    Steady(String),
    /// It was not, and why.
    NotSteady(String),
    /// Too short to tell.
    Unknown(String),
}

/// `4.1 k to 5.6 k over 14 intervals of 100 ms`; none without intervals.
fn range(leading: &Headline) -> Option<String> {
    let even = leading.rate_variation.filter(|variation| variation.interval > Nanos::ZERO)?;
    Some(format!(
        "{} to {} over {} of {}",
        rate_bare(even.rate_min_per_second),
        rate_bare(even.rate_max_per_second),
        counted(even.intervals, "interval"),
        even.interval
    ))
}

/// The verdict on the rate over its time, and against other steps.
fn verdict(leading: &Headline) -> SteadyVerdict {
    let steadiness = leading.rate_variation.and_then(|variation| variation.steadiness);
    let mut reasons: Vec<String> = steadiness.iter().filter_map(unsteady).collect();
    if let Some(other) = leading.same_workload.filter(|agreement| !agreement.agree) {
        reasons.push(format!(
            "the same workload gave {} to {} in {} of this run",
            rate(other.rate_min_per_second),
            rate(other.rate_max_per_second),
            counted(other.count, "step")
        ));
    }
    match (reasons.is_empty(), steadiness) {
        (false, _) => {
            SteadyVerdict::NotSteady(format!("{}; a repeat may differ", reasons.join("; ")))
        }
        (true, Some(it)) => SteadyVerdict::Steady(format!(
            "the rate varied by {} between fifths of the time and drifted {}",
            percent(it.range_share),
            deviation(it.drift_share)
        )),
        (true, None) => SteadyVerdict::Unknown(too_short(leading.rate_variation)),
    }
}

fn too_short(evenness: Option<RateVariation>) -> String {
    let intervals = evenness.map_or(0, |variation| variation.intervals);
    let counted = counted(intervals, "whole interval");
    // Steadiness is judged by fifths of the time (`fifths_per_second`).
    format!("too short to judge whether the rate is steady ({counted}, 5 needed)")
}

fn unsteady(it: &Steadiness) -> Option<String> {
    let word = match it.drift_share {
        drift if drift < -DRIFT_MAX => "fell",
        drift if drift > DRIFT_MAX => "rose",
        _ if it.range_share > RANGE_MAX => "varied",
        _ => return None,
    };
    let [first @ .., last] = it.fifths_per_second.map(rate_bare);
    Some(format!(
        "the rate {word} during the run: {} and {last} per second, by fifths of its time",
        first.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use durio_analyse::Agreement;

    use super::*;

    fn leading(steadiness: Option<Steadiness>, same_workload: Option<Agreement>) -> Headline {
        Headline {
            workload: "commit".to_owned(),
            location: "/data".to_owned(),
            durable_commits_per_second: 5220.0,
            commit_latency_ns_p99: None,
            rate_variation: Some(RateVariation {
                coefficient_of_variation: 0.1,
                intervals: 3,
                intervals_empty: 0,
                intervals_under_half: 0,
                interval: Nanos::from_secs(1),
                rate_min_per_second: 4100.0,
                rate_max_per_second: 5600.0,
                rate_median_per_second: 5000.0,
                steadiness,
            }),
            same_workload,
        }
    }

    fn fifths(rates: [f64; 5], drift_share: f64) -> Steadiness {
        let range_share = (rates[4] - rates[0]).abs() / rates[2];
        Steadiness { fifths_per_second: rates, range_share, drift_share, steady: true }
    }

    #[test]
    fn the_range_names_its_intervals() {
        let words = range(&leading(None, None)).unwrap();
        assert_eq!(words, "4.1 k to 5.6 k over 3 intervals of 1 s");
    }

    #[test]
    fn a_steady_rate_says_how_steady_and_a_short_one_that_it_cannot_tell() {
        let even = fifths([100.0, 100.0, 100.0, 100.0, 104.0], 0.03);
        let said = SteadyVerdict::Steady(
            "the rate varied by 4.0 % between fifths of the time and drifted +3.0 %".to_owned(),
        );
        assert_eq!(verdict(&leading(Some(even), None)), said);
        assert!(
            matches!(verdict(&leading(None, None)), SteadyVerdict::Unknown(why) if why.contains("3 whole"))
        );
    }

    #[test]
    fn a_drift_a_wide_range_and_steps_that_disagree_are_named() {
        let falling = fifths([900.0, 700.0, 500.0, 300.0, 120.0], -1.5);
        let apart = Agreement {
            count: 3,
            rate_min_per_second: 555.0,
            rate_max_per_second: 8627.0,
            agree: false,
        };
        let SteadyVerdict::NotSteady(said) = verdict(&leading(Some(falling), Some(apart))) else {
            panic!("not said")
        };
        for words in ["fell", "900, 700, 500, 300 and 120 per second", "8.63 k/s in 3 steps"] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn a_rate_is_steady_within_a_fifth_of_range_and_a_tenth_of_drift() {
        let of = |range_share: f64, drift_share: f64| {
            let fifths_per_second = [1.0, 2.0, 3.0, 4.0, 5.0];
            let found = Steadiness { fifths_per_second, range_share, drift_share, steady: true };
            match verdict(&leading(Some(found), None)) {
                SteadyVerdict::Steady(_) => "",
                SteadyVerdict::NotSteady(said) if said.contains("fell") => "fell",
                SteadyVerdict::NotSteady(said) if said.contains("rose") => "rose",
                SteadyVerdict::NotSteady(said) if said.contains("varied") => "varied",
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([of(0.2, 0.1), of(0.2, -0.1)], [""; 2]);
        assert_eq!([of(0.201, 0.1), of(0.2, 0.101), of(0.2, -0.101)], ["varied", "rose", "fell"]);
    }
}
