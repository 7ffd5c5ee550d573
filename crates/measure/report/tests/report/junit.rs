//! The cases of JUnit: each limit and each result of a gate, and which of them fail.

use durio_analyse::{Verdict, VerdictWord};
use durio_plan::Threshold;
use durio_report::{Format, Options, Report, write};

use crate::compare::{comparison, step};
use crate::sample;

fn junit(report: &impl Report) -> String {
    let mut out = Vec::new();
    write(Format::JUnit, report, &Options::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn cases(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("<testcase")).collect()
}

#[test]
fn a_missed_limit_fails_if_it_was_asked_for_and_one_that_nothing_documents_is_no_case() {
    use VerdictWord::{CannotTell, Fit, NoDocumentedThreshold, Unfit};
    let mut findings = sample::complete();
    let known = findings.verdicts[0].clone();
    let skipped = |why: &str| format!("><skipped message=\"{why}\"/></testcase>");
    let failed = "><failure message=\"measured 12 ms\"/></testcase>".to_owned();
    let rows = [
        (Fit, false, "etcd", None, "/>".to_owned()),
        (Unfit, true, "etcd", None, failed.clone()),
        (Unfit, false, "etcd", None, skipped("missed, not asked for: measured 12 ms")),
        (Unfit, false, Threshold::GOAL, None, failed),
        (CannotTell, true, "etcd", Some("too short"), skipped("too short")),
        (CannotTell, true, "etcd", None, skipped("")),
    ];
    let verdict = |word, asked, database: &str, doubt: Option<&str>| Verdict {
        verdict: word,
        asked,
        database: database.to_owned(),
        location: "/srv/db".to_owned(),
        limit: "p99 of sync < 10 ms".to_owned(),
        doubt: doubt.map(str::to_owned),
        value: Some(12e6),
        unit: "ns".to_owned(),
        ..known.clone()
    };
    let judged = rows
        .iter()
        .map(|(word, asked, database, doubt, _)| verdict(*word, *asked, database, *doubt));
    findings.verdicts = judged.collect();
    findings.verdicts.push(verdict(NoDocumentedThreshold, true, "mysql", None));
    let text = junit(&findings);
    let expected = rows.map(|(_, _, database, _, body)| {
        let name = format!("{database}: p99 of sync &#60; 10 ms");
        format!("<testcase classname=\"/srv/db\" name=\"{name}\"{body}")
    });
    assert_eq!(cases(&text), expected);
    let counts = "tests=\"6\" failures=\"2\" errors=\"0\" skipped=\"3\">";
    assert!(text.contains(counts), "{text}");
    for verdict in &mut findings.verdicts {
        verdict.location = String::new();
    }
    let text = junit(&findings);
    assert_eq!(text.matches("classname=\"no location\"").count(), 6, "{text}");
}

#[test]
fn a_regression_fails_and_an_open_result_is_skipped() {
    let mut comparison = comparison(vec![step("commit")]);
    let text = junit(&comparison);
    let worse = "B against A: commit: rate worse by 9.0 %";
    let begin = "<testcase classname=\"durio compare\" name=";
    let expected = [
        format!("{begin}\"{worse}\"><failure message=\"{worse}\"/></testcase>"),
        format!(
            "{begin}\"scan is missing in B\"><skipped message=\"scan is missing in B\"/></testcase>"
        ),
        format!("{begin}\"B against A: scan: p99 worse by 2.0 % at most\"/>"),
    ];
    assert_eq!(cases(&text), expected);
    comparison.gate = None;
    assert!(cases(&junit(&comparison)).is_empty(), "nothing was judged");
}
