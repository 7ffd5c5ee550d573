//! The summary of a watch for slow calls: what they waited for, the most time lost first.

use durio_analyse::why::{CauseFindings, WhyFindings, causes};
use durio_analyse::{Explanation, ExplanationFact, ExplanationKind};
use durio_base::stats::least_squares::float;
use durio_base::{Nanos, counted};

use super::{
    COMMIT_P99_MAX, NAMED_MAX, Summary, SummaryFigure, SummaryParts, SummaryReason, SummaryRule,
    whole,
};

/// Why commits were slow, or that none was.
pub fn of_why(findings: &WhyFindings) -> Summary {
    let watch = &findings.watch;
    let mut parts = SummaryParts::default();
    for (label, nanos) in [("p50 of all commits", watch.p50_ns), ("slowest commit", watch.max_ns)] {
        let value = float(nanos);
        parts.headline.push(SummaryFigure { label: label.to_owned(), value, unit: "ns" });
    }
    let mut reason = |rule, text: String| parts.reasons.push(SummaryReason::new(rule, text));
    if let Some(why) = &watch.ended_early {
        reason(SummaryRule::Incomplete, format!("it ended early ({why})"));
    }
    let seconds = Nanos::new(whole(watch.seconds * 1e9));
    let clauses = clauses(&findings.causes);
    let is_slow = Nanos::new(watch.max_ns) >= COMMIT_P99_MAX;
    if watch.calls == 0 {
        reason(SummaryRule::NothingSeen, format!("no commit was seen in {seconds}"));
    } else if watch.slow == 0 && clauses.is_empty() {
        parts.results = format!(
            "nothing slower than {} among {} in {seconds} (p50 {}, max {})",
            Nanos::new(watch.limit_ns),
            counted(watch.calls, "commit"),
            Nanos::new(watch.p50_ns),
            Nanos::new(watch.max_ns)
        );
    } else if clauses.is_empty() {
        let limit = Nanos::new(watch.limit_ns);
        let text = format!("{} of {limit} or more, not explained", counted(watch.slow, "commit"));
        match is_slow {
            true => reason(SummaryRule::SlowCalls, text),
            false => parts.results = text,
        }
    } else if is_slow && watch.ended_early.is_none() {
        clauses.into_iter().for_each(|text| reason(SummaryRule::SlowCalls, text));
    } else {
        let fast = if is_slow { vec![] } else { vec![format!("no commit took {COMMIT_P99_MAX}")] };
        let named = clauses.into_iter().take(NAMED_MAX);
        parts.results = fast.into_iter().chain(named).collect::<Vec<_>>().join("; ");
    }
    parts.finish()
}

/// `37 of 40 slow commits (p50 48 ms): waited for …`, then `3: …`.
fn clauses(causes: &[CauseFindings]) -> Vec<String> {
    let all: usize = causes.iter().map(|cause| cause.calls).sum();
    let main = causes.iter().filter(|cause| cause.calls > 0).enumerate();
    let clause = |(at, cause): (usize, &CauseFindings)| match at {
        0 => format!(
            "{} of {} (p50 {}): {}",
            cause.calls,
            counted(all as u64, "slow commit"),
            Nanos::new(cause.p50_ns),
            cause.sentence
        ),
        _ => format!("{}: {}", cause.calls, cause.sentence),
    };
    main.map(clause).collect()
}

/// What each cause means, what to do about it, and where that is from.
pub(crate) fn explanations() -> impl Iterator<Item = Explanation> {
    causes().iter().map(|cause| {
        let url = source_address(&cause.source).unwrap_or_default().to_owned();
        let source = ExplanationFact { url, ..ExplanationFact::new("source", &cause.source) };
        let facts = vec![ExplanationFact::new("in a report", &unfilled(&cause.sentence)), source];
        let words = [&*cause.id, &*cause.title, "", &*cause.advice];
        Explanation { facts, ..Explanation::new(ExplanationKind::Cause, words) }
    })
}

/// A sentence with dots for the names and figures of a call.
fn unfilled(sentence: &str) -> String {
    let mut parts = sentence.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    rest.fold(first, |text, part| format!("{text}…{part}"))
}

/// The address of a source, which stands behind its name or alone.
pub fn source_address(source: &str) -> Option<&str> {
    let from = source.find("https://")?;
    source[from..].split([' ', ')', ',', ';']).next()
}

#[cfg(test)]
mod tests {
    use durio_analyse::why::WHY_SCHEMA;
    use durio_observe::SlowWatchFacts;

    use super::*;
    use crate::summary::SummaryVerdict;

    fn cause(calls: usize, p50_ns: u64, sentence: &str) -> CauseFindings {
        CauseFindings {
            cause: "some-cause",
            title: "some cause",
            calls,
            lost_ns: p50_ns * calls as u64,
            p50_ns,
            sentence: sentence.to_owned(),
            who: Vec::new(),
            advice: "",
            source: "",
        }
    }

    fn said(causes: Vec<CauseFindings>, watch: SlowWatchFacts) -> (SummaryVerdict, String) {
        let summary = of_why(&WhyFindings { schema: WHY_SCHEMA, watch, causes, calls: Vec::new() });
        (summary.verdict, summary.sentence)
    }

    fn watch(max_ns: u64) -> SlowWatchFacts {
        SlowWatchFacts {
            seconds: 60.0,
            calls: 12_345,
            p50_ns: 300_000,
            max_ns,
            limit_ns: 20_000_000,
            slow: 40,
            ..SlowWatchFacts::default()
        }
    }

    #[test]
    fn causes_are_named_with_their_calls_and_the_median_of_the_first() {
        let causes = || {
            vec![
                cause(37, 48_000_000, "waited for the journal commit of 31 MiB"),
                cause(3, 20_000_000, "the processor was taken by gcc (7)"),
                cause(0, 20_000_000, "never the main one"),
            ]
        };
        let text = "37 of 40 slow commits (p50 48 ms): waited for the journal commit of 31 MiB; 3: \
                    the processor was taken by gcc (7).";
        let caution = (SummaryVerdict::Caution, format!("Caution: {text}"));
        assert_eq!(said(causes(), watch(10_000_000)), caution);
        let good = (SummaryVerdict::Good, format!("Good: no commit took 10 ms; {text}"));
        assert_eq!(said(causes(), watch(9_999_999)), good);
        let ended = SlowWatchFacts { ended_early: Some("x".to_owned()), ..watch(10_000_000) };
        let unknown = (SummaryVerdict::Unknown, format!("Unknown: it ended early (x); {text}"));
        assert_eq!(said(causes(), ended), unknown);
    }

    #[test]
    fn a_source_has_the_address_that_stands_in_it_and_every_cause_is_explained() {
        let address = Some("https://www.kernel.org/doc/x.html");
        for source in [
            "https://www.kernel.org/doc/x.html",
            "kernel.org, x (https://www.kernel.org/doc/x.html)",
            "kernel.org, https://www.kernel.org/doc/x.html, read in 2026",
        ] {
            assert_eq!(source_address(source), address, "{source}");
        }
        assert_eq!(source_address("man 2 fsync"), None);
        assert_eq!(unfilled("waited {time} for {who}"), "waited … for …");
        assert_eq!(unfilled("was frozen"), "was frozen");
        let explained: Vec<String> = explanations().map(|cause| cause.id).collect();
        let ids: Vec<&str> = causes().iter().map(|cause| &*cause.id).collect();
        assert!(explained.len() >= 15 && explained == ids, "{explained:?}");
    }

    #[test]
    fn without_slow_commits_their_number_and_latencies_are_the_answer() {
        let nothing = SlowWatchFacts { slow: 0, ..watch(4_000_000) };
        let text = "Good: nothing slower than 20 ms among 12345 commits in 1 min (p50 300 µs, max 4 \
                    ms).";
        assert_eq!(said(Vec::new(), nothing), (SummaryVerdict::Good, text.to_owned()));
        let unexplained = said(Vec::new(), watch(50_000_000));
        let text = "Caution: 40 commits of 20 ms or more, not explained.";
        assert_eq!(unexplained, (SummaryVerdict::Caution, text.to_owned()));
        let unseen = SlowWatchFacts { calls: 0, slow: 0, ..watch(0) };
        let text = "Unknown: no commit was seen in 1 min.";
        assert_eq!(said(Vec::new(), unseen), (SummaryVerdict::Unknown, text.to_owned()));
    }
}
