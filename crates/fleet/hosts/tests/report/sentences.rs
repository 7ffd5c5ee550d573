//! The first sentence, and how much room the text takes.

use durio_hosts::{
    FleetDoubtKind, FleetFindings, HostOutcome, HostVerdict, ScreeningMethod, SharedStorage,
};
use durio_report::{Format, Options, Report as _, SummaryVerdict};

use crate::sample::{fleet, judge, lose, troubled};
use crate::{verbose, written, written_with};

fn sentence(findings: &FleetFindings) -> String {
    findings.summary().unwrap().sentence
}

const MEDIAN: &str = "median 12.1 k commits/s (11.4 k to 12.6 k)";

#[test]
fn hosts_that_are_alike_are_good() {
    let expected = format!("Good: 8 of 8 hosts measured, no difference found; {MEDIAN}.");
    assert_eq!(sentence(&fleet(8)), expected);
    let mut doubted = fleet(8);
    doubted.doubts = troubled(30).doubts;
    let caveat =
        " Caveats: the starts of step 3 are 14 ms apart, which is more than 10 ms; + 4 more.";
    assert_eq!(sentence(&doubted), format!("{expected}{caveat}"));
}

#[test]
fn suspects_are_named_with_their_effect_and_what_decides() {
    let mut findings = fleet(8);
    judge(&mut findings.hosts[0], HostVerdict::Suspect);
    let one =
        "Caution: 1 of 8 hosts is suspect (rack1-db01: commit rate 1.34 × lower than 7 like it)";
    let expected = format!("{one}; durio fleet confirm FOLDER runs them again; {MEDIAN}.");
    assert_eq!(sentence(&findings), expected);
    findings.campaign = None;
    assert_eq!(sentence(&findings), format!("{one}; only fresh runs confirm that; {MEDIAN}."));
    for host in &mut findings.hosts[1..5] {
        judge(host, HostVerdict::Suspect);
    }
    let text = sentence(&findings);
    assert!(text.starts_with("Caution: 5 of 8 hosts are suspect (rack1-db01: "), "{text}");
    let named = "(rack1-db01: commit rate 1.34 × lower; rack1-db02: commit rate \
                 1.34 × lower; + 3 more); only fresh";
    assert!(text.contains(named), "{text}");
}

#[test]
fn the_sentence_has_at_most_200_characters_and_the_lists_have_the_rest() {
    for count in [30, 300, 1000] {
        let mut findings = troubled(count);
        for host in &mut findings.hosts {
            host.name = format!("{}.a-datacentre-with-a-long-name.example.com", host.name);
        }
        let text = sentence(&findings);
        assert!(text.chars().count() <= 200, "{}: {text}", text.chars().count());
        assert!(
            text.starts_with(&format!("Bad: 4 of {count} hosts are slow (rack1-db01")),
            "{text}"
        );
        assert!(text.contains("; + 2 more), confirmed by fresh runs"), "{text}");
    }
    let text = sentence(&troubled(300));
    let end = "fresh runs; median 12 k commits/s (11.4 k to 12.6 k). 5 caveats below.";
    assert!(text.ends_with(end), "{text}");
    assert_eq!(text.chars().count(), 200);
}

#[test]
fn a_doubt_has_no_capital_within_the_sentence_unless_it_begins_with_a_name() {
    let mut findings = fleet(8);
    findings.doubts = troubled(30).doubts;
    findings.doubts.truncate(1);
    findings.doubts[0].hosts = vec!["Ada".to_owned()];
    for (doubt, caveat) in [
        ("The clocks differ.", "the clocks differ"),
        ("A clock differs", "a clock differs"),
        ("Ada and Bo differ", "Ada and Bo differ"),
        ("NTP is off", "NTP is off"),
        ("8 hosts differ", "8 hosts differ"),
    ] {
        findings.doubts[0].sentence = doubt.to_owned();
        let text = sentence(&findings);
        assert!(text.ends_with(&format!("{MEDIAN}. Caveat: {caveat}.")), "{text}");
    }
    // What the operator ordered is in the list only.
    findings.doubts[0].kind = FleetDoubtKind::FreeStart;
    assert!(sentence(&findings).ends_with(&format!("{MEDIAN}.")), "{}", sentence(&findings));
    let text = written(Format::Text, &findings);
    assert!(text.contains("\ndoubt  8 hosts differ\n"), "{text}");
}

#[test]
fn confirmed_hosts_outweigh_suspects_and_lost_ones() {
    let mut findings = fleet(20);
    judge(&mut findings.hosts[0], HostVerdict::Slow);
    judge(&mut findings.hosts[1], HostVerdict::Suspect);
    lose(&mut findings.hosts[2], HostOutcome::Lost, "silent");
    let text = sentence(&findings);
    let begin = "Bad: 1 of 20 hosts is slow (rack1-db01: commit rate 1.34 × lower than 19 like it), \
                 confirmed by fresh runs; median ";
    assert!(text.starts_with(begin), "{text}");
    assert_eq!(findings.summary().unwrap().reasons.len(), 3);
    findings.hosts.drain(..2);
    let text = sentence(&findings);
    let begin = "Caution: 1 of 20 hosts has no complete run (rack1-db03 lost); median ";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn hosts_that_are_slower_by_a_fact_that_they_share_are_not_without_a_difference() {
    let mut findings = fleet(40);
    findings.shared_facts = troubled(40).shared_facts;
    let text = sentence(&findings);
    let begin = "Caution: firmware GDC5 (12 hosts): commit p99 1.18 × higher than on the other 28; \
                 median ";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn from_five_hosts_alike_on_a_host_is_judged() {
    let text = sentence(&fleet(4));
    let begin = "Unknown: only 4 hosts; at least 5 alike are needed to judge one; median ";
    assert!(text.starts_with(begin), "{text}");
    assert!(sentence(&fleet(5)).starts_with("Good: 5 of 5 hosts measured"));
    let mut apart = fleet(8);
    apart.groups[0].method = ScreeningMethod::TooFew;
    let text = sentence(&apart);
    assert!(text.starts_with("Unknown: no 5 of 8 hosts are alike, "), "{text}");
    // One of five was cut before it had a result.
    let mut cut = fleet(5);
    cut.groups[0].method = ScreeningMethod::TooFew;
    cut.groups[0].figures.iter_mut().for_each(|figure| figure.hosts = 4);
    assert!(sentence(&cut).starts_with(begin), "{}", sentence(&cut));
    cut.groups[0].figures.clear();
    assert_eq!(sentence(&cut), "Unknown: no host was measured.");
    let mut nothing = fleet(1);
    lose(&mut nothing.hosts[0], HostOutcome::Failed, "no space left");
    (nothing.groups, nothing.pooled) = (Vec::new(), Vec::new());
    assert_eq!(sentence(&nothing), "Unknown: no host was measured.");
}

#[test]
fn shared_storage_has_the_rate_of_all_hosts_together() {
    let mut findings = fleet(8);
    findings.pooled[0].shared = Some(SharedStorage::Stated);
    let together = "8 hosts share storage that gives 96 k commits/s to all together, p99 800 µs.";
    assert!(sentence(&findings).ends_with(together), "{}", sentence(&findings));
}

#[test]
fn a_text_of_any_number_of_hosts_fits_a_screen() {
    for count in [8, 300, 1000] {
        let troubled = if count < 30 { fleet(count) } else { troubled(count) };
        for findings in [fleet(count), troubled] {
            let text = written_with(Format::Text, &findings, &Options::default());
            assert!(text.lines().count() <= 45, "{count}: {}\n{text}", text.lines().count());
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
            assert!(text.contains("\nHosts, worst first\n"), "{text}");
        }
    }
}

#[test]
fn every_kind_of_trouble_has_its_line() {
    let labels = ["slow ", "suspect ", "cleared ", "unsteady ", "in common ", "doubt ", "differs "];
    let outcomes = [
        (HostOutcome::Lost, "lost"),
        (HostOutcome::Failed, "failed"),
        (HostOutcome::Refused, "refused"),
        (HostOutcome::Missing, "missing"),
        (HostOutcome::Partial, "partial"),
    ];
    let count_in = |text: &str, label: &str| {
        text.lines().filter(|line| line.trim_start().starts_with(label)).count()
    };
    let text = written(Format::Text, &troubled(300));
    for label in labels.into_iter().chain(["no result "]) {
        assert_eq!(count_in(&text, label), 1, "{label}: {text}");
    }
    for (outcome, word) in outcomes {
        let mut findings = fleet(8);
        lose(&mut findings.hosts[3], outcome, "the reason");
        let name = &findings.hosts[3].name;
        let text = written(Format::Text, &findings);
        let line = format!("\nno result  {name} {word}: the reason\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    assert!(text.contains("\nslow       rack1-db01: commit rate 1.34 × lower than 299 like it"));
    assert_eq!(troubled(300).summary().unwrap().verdict, SummaryVerdict::Bad);
}

#[test]
fn a_hundred_hosts_are_in_a_verbose_text_and_all_on_a_page() {
    let findings = fleet(1000);
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("  rack")).count();
    assert_eq!(rows(&verbose(Format::Text, &findings)), 100);
    assert!((4..=20).contains(&rows(&written(Format::Text, &findings))));
    let page = written(Format::Html, &troubled(1000));
    assert!(page.len() <= 3_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<th scope=\"row\">rack").count(), 1000);
    assert_eq!(page.matches("<g><title>rack").count(), 1000);
}

#[test]
fn hosts_of_small_groups_are_a_caveat_next_to_a_group_that_was_judged() {
    let mut findings = fleet(8);
    let mut small = findings.groups[0].clone();
    small.method = ScreeningMethod::TooFew;
    small.figures.iter_mut().for_each(|figure| figure.hosts = 3);
    findings.groups.push(small);
    let expected = "Good: 8 of 8 hosts measured, no difference found; median of the largest group \
                    12.1 k commits/s (11.4 k to 12.6 k). Caveat: 3 hosts not judged, because fewer \
                    than 5 are alike.";
    assert_eq!(sentence(&findings), expected);
}
