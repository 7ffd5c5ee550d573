//! The answer first: the leading figures, and whether they can be relied on.

use durio_analyse::{Findings, Leading, RunState};

use super::campaign;
use super::page::{Look, Page};
use crate::facts::{state_meaning, state_word};
use crate::figures::{latency, rate_bare};
use crate::headline::{Verdict, range, verdict};
use crate::rows::{locations, place_name};

pub(super) fn write(findings: &Findings, page: &mut Page) {
    title(findings, page);
    page.blank();
    let kind = if findings.profile.is_some() { "profile" } else { "campaign" };
    findings.campaign.iter().for_each(|it| campaign::title(kind, it, page));
    match &findings.leading {
        Some(leading) => figures(leading, page),
        None if findings.campaign.is_some() => {}
        None => page.paragraph("  ", Look::Plain, "No durable workload was measured."),
    }
    page.blank();
    state(findings, page);
}

fn title(findings: &Findings, page: &mut Page) {
    let run = &findings.run;
    let places: Vec<_> = locations(findings).into_iter().map(place_name).collect();
    let title = format!("durio {} · {}", run.durio_version, places.join(", "));
    page.paragraph("", Look::Bold, &title);
    page.paragraph("", Look::Dim, &format!("{} · run {}", run.started, run.run));
}

fn figures(leading: &Leading, page: &mut Page) {
    let rate = rate_bare(leading.durable_commits_per_second);
    let range = range(leading).map_or_else(String::new, |range| format!(" ({range})"));
    page.paragraph("  ", Look::Bold, &format!("{rate} durable commits per second{range}"));
    let tail = match leading.commit_latency_ns_p99 {
        Some(nanos) => format!("p99 of a durable commit {}", latency(nanos)),
        None => "p99 of a durable commit unknown: fewer than 100 commits".to_owned(),
    };
    page.paragraph("  ", Look::Bold, &tail);
    let basis = format!("workload {} at {}", leading.workload, leading.location);
    page.paragraph("  ", Look::Dim, &basis);
    match verdict(leading) {
        Verdict::Steady(how) => page.paragraph("  ", Look::Dim, &format!("steady: {how}")),
        Verdict::NotSteady(why) => page.labelled("NOT STEADY", 11, Look::Warning, &why),
        Verdict::Unknown(why) => page.paragraph("  ", Look::Warning, &why),
    }
}

fn state(findings: &Findings, page: &mut Page) {
    let look = match findings.state {
        RunState::Complete => Look::Good,
        RunState::Interrupted | RunState::Partial => Look::Warning,
        RunState::Failed => Look::Bad,
    };
    let meaning = state_meaning(findings.state).unwrap_or("every step ran to its limit");
    page.labelled(state_word(findings.state), 11, look, meaning);
    for error in &findings.errors {
        page.labelled("error", 11, Look::Bad, error);
    }
    if let Some(reason) = &findings.provisional {
        page.labelled("PROVISIONAL", 11, Look::Warning, reason);
    }
}
