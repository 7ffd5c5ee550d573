//! Judgements as JUnit's XML, which services that run tests show case by case.
//!
//! Writes one suite with the cases of a report, which may be none, and its first sentence.

use std::io;

use durio_base::{EscapedText, visible};

use crate::document::Document;

/// A judgement of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCase {
    /// The group in which services show it, such as a location.
    pub class: String,
    pub name: String,
    pub outcome: CaseOutcome,
}

/// How a judgement ended, with the reason unless it passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    Passed,
    Failed(String),
    /// It could not be judged, or decides nothing.
    Skipped(String),
}

pub(crate) fn write(
    document: &Document,
    cases: &[TestCase],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let is_failed = |case: &&TestCase| matches!(case.outcome, CaseOutcome::Failed(_));
    let is_skipped = |case: &&TestCase| matches!(case.outcome, CaseOutcome::Skipped(_));
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" \
         errors=\"0\" skipped=\"{}\">",
        xml(&document.heading()),
        cases.len(),
        cases.iter().filter(is_failed).count(),
        cases.iter().filter(is_skipped).count()
    )?;
    for TestCase { class, name, outcome } in cases {
        let (class, name) = (xml(class), xml(name));
        let body = match outcome {
            CaseOutcome::Passed => "/>".to_owned(),
            CaseOutcome::Failed(why) => format!("><failure message=\"{}\"/></testcase>", xml(why)),
            CaseOutcome::Skipped(why) => format!("><skipped message=\"{}\"/></testcase>", xml(why)),
        };
        writeln!(out, "<testcase classname=\"{class}\" name=\"{name}\"{body}")?;
    }
    if let Some(summary) = &document.summary {
        writeln!(out, "<system-out>{}</system-out>", xml(&summary.sentence))?;
    }
    writeln!(out, "</testsuite>")
}

/// Text and values of attributes, in characters that XML 1.0 has.
fn xml(text: &str) -> String {
    EscapedText(&visible(text)).to_string().replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_passes_fails_or_is_skipped_with_its_reason_and_no_name_ends_an_attribute() {
        let case = |name: &str, outcome| TestCase {
            class: "/srv/<db>".to_owned(),
            name: name.to_owned(),
            outcome,
        };
        let cases = [
            case("etcd: p99 < 10 ms", CaseOutcome::Passed),
            case("a\"b\x1b\u{ffff}", CaseOutcome::Failed("measured 12 ms".to_owned())),
            case("c", CaseOutcome::Skipped("too short".to_owned())),
            case("d", CaseOutcome::Skipped("not asked".to_owned())),
        ];
        let mut out = Vec::new();
        write(&Document::new("durio check", "a&b"), &cases, &mut out).unwrap();
        let class = "<testcase classname=\"/srv/&#60;db&#62;\" name=";
        let expected = [
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
            "<testsuite name=\"durio check: a&#38;b\" tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\">"
                .to_owned(),
            format!("{class}\"etcd: p99 &#60; 10 ms\"/>"),
            format!(
                "{class}\"a&#34;b\\u{{1b}}\u{fffd}\"><failure message=\"measured 12 ms\"/></testcase>"
            ),
            format!("{class}\"c\"><skipped message=\"too short\"/></testcase>"),
            format!("{class}\"d\"><skipped message=\"not asked\"/></testcase>"),
            "</testsuite>".to_owned(),
        ];
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }
}
