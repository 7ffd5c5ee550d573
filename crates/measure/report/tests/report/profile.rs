//! What a reader finds of a run of a profile.

use durio_analyse::profile::{LoadComparison, LoadRatio, ProfileFindings, StateLatency};
use durio_analyse::{Findings, ThresholdSource, Verdict, VerdictWord};
use durio_plan::Provenance;
use durio_record::OperationName;
use durio_report::{Format, Options, ProfileList, write};
use durio_spec::profile::{profile, profile_names};

use crate::{sample, written};

fn state(p99: Option<u64>) -> StateLatency {
    StateLatency {
        rate_per_second: 4750.0,
        p50_ns: Some(203_000),
        p99_ns: p99,
        p99_9_ns: None,
        max_ns: 9_000_000,
    }
}

/// A run of a profile with a practice's threshold and one without.
pub(crate) fn findings() -> Findings {
    let mut findings = sample::complete();
    let ratio = LoadRatio { rate: Some(1.0), p50: Some(1.0), p99: Some(3.25), p99_9: None };
    let (idle, loaded) = (Some(state(Some(400_000))), Some(state(Some(1_300_000))));
    findings.profile = Some(ProfileFindings {
        name: "sqlserver".into(),
        foreground: "log".into(),
        durable: true,
        committers: Some(32),
        comparisons: vec![LoadComparison { operation: OperationName::Commit, idle, loaded, ratio }],
        notes: vec!["reads: <b>page faults</b> are reads".into()],
    });
    let base = findings.verdicts.remove(0);
    let practice = ThresholdSource {
        publisher: "Somebody".into(),
        document: "A list".into(),
        url: "https://example.org".into(),
        kind: Some(Provenance::Practice),
    };
    let open = VerdictWord::NoDocumentedThreshold;
    findings.verdicts = vec![
        Verdict { source: Some(practice), ..base.clone() },
        Verdict {
            verdict: open,
            source: None,
            threshold: None,
            criterion: "its documents give none".into(),
            measured: "log, idle: p99 400 µs per durable commit".into(),
            ..base
        },
    ];
    findings
}

#[test]
fn both_states_stand_side_by_side_with_their_ratio() {
    let text = written(Format::Text, &findings());
    let p99 = text.lines().find(|line| line.contains("p99 ") && line.contains("3.25")).unwrap();
    assert!(p99.contains("400 µs") && p99.contains("1.3 ms"), "{text}");
    assert!(text.contains("log: idle and under the background's load"), "{text}");
    assert!(text.contains("too few samples"), "{text}");
}

#[test]
fn whose_number_of_committers_it_is_stands_beside_their_figures() {
    let mut findings = findings();
    let text = written(Format::Text, &findings);
    assert!(
        text.contains("commit of 32 ") && text.contains("32 on each log, the profile's own"),
        "{text}"
    );
    findings.profile.as_mut().unwrap().committers = None;
    let text = written(Format::Text, &findings);
    assert!(!text.contains("commit of") && !text.contains("committers"), "{text}");
}

#[test]
fn practice_is_no_makers_word_and_no_limit_is_no_grade() {
    let findings = findings();
    let text = written(Format::Text, &findings);
    assert!(text.contains("source (practice): Somebody, A list"), "{text}");
    assert!(text.contains("  etcd * "), "{text}");
    let mut by_code = findings.clone();
    by_code.verdicts[0].source.as_mut().unwrap().kind = Some(Provenance::SourceCode);
    let text_by_code = written(Format::Text, &by_code);
    assert!(!text_by_code.contains("etcd *") && text_by_code.contains("source (source-code)"));
    assert!(text.contains("its documents give none; log, idle: p99 400 µs"), "{text}");
    assert!(!text.contains("no limit is published"), "{text}");
    let page = written(Format::Html, &findings);
    assert!(page.contains("source (practice)"));
}

#[test]
fn the_page_has_the_same_table_and_escapes_what_it_shows() {
    let page = written(Format::Html, &findings());
    for part in [
        "sqlserver, log: idle and under",
        "under load",
        "3.25",
        "1.3 ms",
        "its documents give none",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("&#60;b&#62;page faults") && !page.contains("<b>page faults"));
}

#[test]
fn other_runs_have_no_such_part() {
    assert!(!written(Format::Html, &sample::complete()).contains("idle and under"));
    assert!(!written(Format::Text, &sample::complete()).contains("under load"));
}

#[test]
fn every_profile_is_shown_whole_with_every_source() {
    let mut all = Vec::new();
    for name in profile_names() {
        let profile = profile(name).unwrap();
        for format in [Format::Text, Format::Json, Format::Html] {
            let mut out = Vec::new();
            write(format, &profile, &Options::default(), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for source in &profile.sources {
                assert!(text.contains(&source.name), "{name}: {}", source.name);
            }
        }
        all.push(profile);
    }
    let mut out = Vec::new();
    write(
        Format::Text,
        &ProfileList::new(&all),
        &Options { verbose: true, ..Options::default() },
        &mut out,
    )
    .unwrap();
    assert!(String::from_utf8(out).unwrap().matches("\n  ").count() >= 22);
}
