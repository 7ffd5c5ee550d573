//! The answer of a report in one sentence, with its verdict, results and reasons.
//!
//! One function for each kind of result ([`of_run`], [`of_capture`], [`of_stacks`], [`of_proof`],
//! [`of_why`]) makes a [`Summary`] of the results. Reports put its sentence first, JSON documents the whole
//! of it. `SummaryRule` is the table of what makes which verdict, and by whose limit.

mod bench;
mod commits;
mod database;
mod run;
mod why;

use std::cmp::Reverse;

use durio_analyse::{Explanation, ExplanationFact, ExplanationKind};
use durio_base::{Nanos, Rate};
use serde::Serialize;

pub use bench::{of_capture, of_proof, of_stacks};
pub use database::{database_label, unpredicted};
pub use run::{of_run, other_work};
pub(crate) use why::explanations as cause_explanations;
pub use why::{of_why, source_address};

/// The answer of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub verdict: SummaryVerdict,
    /// Begins with the word of the verdict, unless no limit decides one.
    pub sentence: String,
    /// The results that the sentence names.
    pub headline: Vec<SummaryFigure>,
    /// What the verdict rests on, the weightiest first.
    pub reasons: Vec<String>,
}

/// A result of the sentence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SummaryFigure {
    pub label: String,
    pub value: f64,
    /// `per second`, `ns` or `times`.
    pub unit: &'static str,
}

/// The verdict of a summary: that of its weightiest reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
// Ordered by weight.
pub enum SummaryVerdict {
    Good,
    Caution,
    Unknown,
    Bad,
}

impl SummaryVerdict {
    /// Every verdict, the best first.
    pub const ALL: [Self; 4] = [Self::Good, Self::Caution, Self::Unknown, Self::Bad];

    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "Good",
            Self::Caution => "Caution",
            Self::Unknown => "Unknown",
            Self::Bad => "Bad",
        }
    }
}

impl Summary {
    /// The word of the verdict and the rest of the sentence; no word where no limit decides.
    pub fn parts(&self) -> (&str, &str) {
        let word = self.verdict.word();
        match self.sentence.strip_prefix(word) {
            Some(rest) if rest.starts_with([':', ' ']) => (word, rest),
            _ => ("", &self.sentence),
        }
    }
}

/// A p99 of commits from which on they are called slow: etcd's limit for the sync of its log
/// (etcd.io, Hardware recommendations), the strictest that a database publishes. It judges commits
/// for which no limit is published.
const COMMIT_P99_MAX: Nanos = Nanos::from_millis(10);

/// What speaks against a result, weightiest first within a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SummaryRule {
    GoalMissed,
    NotKeptUp,
    UnsafeSetting,
    Lost,
    NamedUnfit,
    AllLimitsMissed,
    Incomplete,
    NothingSeen,
    InMemory,
    Contradiction,
    GoalOpen,
    NamedOpen,
    NoLimit,
    LimitMissed,
    SlowCommits,
    SlowCalls,
    SuspectFlush,
    Unfinished,
    OtherWork,
    NotSteady,
    // Rules of many hosts, applied by the report of durio-hosts.
    SlowHost,
    FewHosts,
    DifferingHost,
}

impl SummaryRule {
    const ALL: [Self; 23] = [
        Self::GoalMissed,
        Self::NotKeptUp,
        Self::UnsafeSetting,
        Self::Lost,
        Self::NamedUnfit,
        Self::AllLimitsMissed,
        Self::Incomplete,
        Self::NothingSeen,
        Self::InMemory,
        Self::Contradiction,
        Self::GoalOpen,
        Self::NamedOpen,
        Self::NoLimit,
        Self::LimitMissed,
        Self::SlowCommits,
        Self::SlowCalls,
        Self::SuspectFlush,
        Self::Unfinished,
        Self::OtherWork,
        Self::NotSteady,
        Self::SlowHost,
        Self::FewHosts,
        Self::DifferingHost,
    ];

    const fn verdict(self) -> SummaryVerdict {
        self.row().0
    }

    /// The verdict that it makes, when it applies, and who sets the limit.
    const fn row(self) -> (SummaryVerdict, &'static str, &'static str) {
        use SummaryVerdict::{Bad, Caution, Good, Unknown};
        match self {
            Self::GoalMissed => (Bad, "a goal is missed", "the user (--goal)"),
            Self::NotKeptUp => (
                Bad,
                "a replay ended late, or started 1 of 100 operations late, by more than 1 % of its time",
                "durio's choice",
            ),
            Self::UnsafeSetting => (
                Bad,
                "a setting is documented to drop syncs or flushes",
                "the documents that the signal cites",
            ),
            Self::Lost => (
                Bad,
                "an acknowledged write did not survive a power cut, or a proof ended unexpectedly",
                "the proof's own expectation",
            ),
            Self::NamedUnfit => (
                Bad,
                "a database named by --database misses a documented limit",
                "database vendors; rules of thumb are marked with *",
            ),
            Self::AllLimitsMissed => (
                Bad,
                "every documented limit that could be compared is missed",
                "database vendors; rules of thumb are marked with *",
            ),
            Self::Incomplete => (Unknown, "the run did not end as planned", ""),
            Self::NothingSeen => (Unknown, "a watch for slow commits saw none at all", ""),
            Self::InMemory => (Unknown, "the target is in memory", ""),
            Self::Contradiction => (
                Unknown,
                "the result contradicts an independent count or clock",
                "Little's law within 2 %, clocks within 0.1 %",
            ),
            Self::GoalOpen => (Unknown, "a goal could not be compared", "the user (--goal)"),
            Self::NamedOpen => (
                Unknown,
                "a limit of a database named by --database could not be compared",
                "database vendors; rules of thumb are marked with *",
            ),
            Self::NoLimit => (Unknown, "no limit applies; the sentence has no verdict word", ""),
            Self::LimitMissed => (
                Caution,
                "a documented limit is missed",
                "database vendors; rules of thumb are marked with *",
            ),
            Self::SlowCommits => (
                Caution,
                "the p99 of commits without a published limit is 10 ms or more",
                "etcd's limit for the sync of its log, the strictest one published",
            ),
            Self::SlowCalls => (
                Caution,
                "a commit that durio why explains, or could not, took 10 ms or more",
                "etcd's limit for the sync of its log, the strictest one published",
            ),
            Self::SuspectFlush => {
                (Caution, "a flush is suspect", "the documents that the signal cites")
            }
            Self::Unfinished => (Caution, "parts of a proof are undecided or not done", ""),
            Self::OtherWork => (
                Good,
                "other work used more than 0.25 CPUs, or 1 MiB/s of the same device (a caveat)",
                "durio's choice: an eighth of two CPUs",
            ),
            Self::NotSteady => (
                Good,
                "the rate drifted by more than 10 % or varied by more than 20 % (a caveat)",
                "SNIA's steady state, over fifths of the time",
            ),
            Self::SlowHost => (
                Bad,
                "a host is slower than hosts like it, confirmed by fresh runs",
                "durio's choice: 5 %, and p below 0.05 over all hosts",
            ),
            Self::FewHosts => (Unknown, "no 5 hosts are alike", ""),
            Self::DifferingHost => (
                Caution,
                "a host is suspect, unsteady, slower by a fact that others share, or not complete",
                "hosts like it",
            ),
        }
    }
}

/// Why a summary is not simply good.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SummaryReason {
    rule: SummaryRule,
    text: String,
}

impl SummaryReason {
    fn new(rule: SummaryRule, text: impl Into<String>) -> Self {
        Self { rule, text: text.into() }
    }
}

/// What a summary is made of.
#[derive(Debug, Default)]
pub(crate) struct SummaryParts {
    /// What it is good for: `PostgreSQL`; may be empty.
    subject: String,
    /// The results, as a clause; may be empty.
    results: String,
    /// What the results are of, where only `subject` says so; may be empty.
    results_of: String,
    /// What speaks for it, as clauses.
    strengths: Vec<String>,
    headline: Vec<SummaryFigure>,
    reasons: Vec<SummaryReason>,
}

/// Reasons that a sentence names; the others are counted.
const NAMED_MAX: usize = 3;

impl SummaryParts {
    pub(crate) fn finish(self) -> Summary {
        let Self { subject, results, results_of, strengths, headline, mut reasons } = self;
        // Stable: within a verdict they stay in the order of the rules' functions.
        reasons.sort_by_key(|reason| Reverse(reason.rule.verdict()));
        let verdict = reasons.first().map_or(SummaryVerdict::Good, |reason| reason.rule.verdict());
        let of = |wanted: SummaryVerdict| -> Vec<&str> {
            let same = reasons.iter().filter(|reason| reason.rule.verdict() == wanted);
            same.map(|reason| reason.text.as_str()).collect()
        };
        let is_without_limit = reasons.iter().all(|reason| {
            matches!(reason.rule.verdict(), SummaryVerdict::Good)
                || reason.rule == SummaryRule::NoLimit
        });
        let decisive = named(&of(verdict));
        let is_named = verdict == SummaryVerdict::Good || results_of.is_empty();
        let results = if is_named { results } else { format!("{results_of} {results}") };
        let word = verdict.word();
        let sentence = match verdict {
            SummaryVerdict::Good => {
                let subject =
                    if subject.is_empty() { String::new() } else { format!(" for {subject}") };
                let clauses: Vec<String> = [results].into_iter().chain(strengths.clone()).collect();
                format!("{word}{subject}: {}", joined(clauses))
            }
            SummaryVerdict::Unknown if is_without_limit && !results.is_empty() => results,
            SummaryVerdict::Caution if !results.is_empty() => {
                format!("{word}: {results}, but {decisive}")
            }
            _ => format!("{word}: {}", joined(vec![decisive, results])),
        };
        let caveats = of(SummaryVerdict::Good);
        let caveat = match caveats.len() {
            0 => String::new(),
            1 => format!(" Caveat: {}.", named(&caveats)),
            _ => format!(" Caveats: {}.", named(&caveats)),
        };
        let texts = reasons.iter().map(|reason| reason.text.clone());
        let reasons = texts.chain(strengths).collect();
        Summary { verdict, sentence: format!("{sentence}.{caveat}"), headline, reasons }
    }
}

/// The first reasons, and how many more there are.
fn named(reasons: &[&str]) -> String {
    let (first, more) = reasons.split_at(reasons.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!("; and {} more", more.len()) };
    format!("{}{more}", first.join("; "))
}

/// The clauses that say something.
fn joined(clauses: Vec<String>) -> String {
    let clauses: Vec<String> = clauses.into_iter().filter(|clause| !clause.is_empty()).collect();
    clauses.join("; ")
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `5.82 k`: the sentence around it names the unit.
fn bare_rate(per_second: f64) -> String {
    let rate = rate(per_second);
    rate.trim_end_matches("/s").trim_end().to_owned()
}

fn rate(per_second: f64) -> String {
    // A quotient of damaged numbers is not a rate.
    Rate::new(if per_second.is_finite() { per_second.max(0.0) } else { 0.0 }).to_string()
}

/// `1 writer`, `8 writers`.
fn with(count: u32, noun: &str) -> String {
    match count {
        1 => format!("with one {noun}"),
        _ => format!("with {count} {noun}s"),
    }
}

fn p99(nanos: Option<u64>) -> String {
    nanos.map_or_else(|| "p99 unknown".to_owned(), |nanos| format!("p99 {}", Nanos::new(nanos)))
}

/// The reason that commits are slow, if they are.
fn slow(p99_ns: u64, whose: &str) -> Option<SummaryReason> {
    let p99 = Nanos::new(p99_ns);
    let text = format!("{whose} {p99} at p99 (slow from {COMMIT_P99_MAX} on)");
    (p99 >= COMMIT_P99_MAX).then(|| SummaryReason::new(SummaryRule::SlowCommits, text))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "printed only")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// What the words of verdicts mean, with the rules of each and who sets their limits.
pub(crate) fn explanations() -> Vec<Explanation> {
    let explanation = |verdict: SummaryVerdict| {
        let (label, what) = match verdict {
            SummaryVerdict::Good => ("caveat", "every limit that was compared is met"),
            SummaryVerdict::Caution => ("if", "something should be looked at first"),
            SummaryVerdict::Unknown => ("if", "the results allow no verdict on the storage"),
            SummaryVerdict::Bad => {
                ("if", "the storage misses a requirement, or may lose acknowledged commits")
            }
        };
        let rules = SummaryRule::ALL.into_iter().filter(|rule| rule.verdict() == verdict);
        let fact = |rule: SummaryRule| match rule.row() {
            (_, when, "") => ExplanationFact::new(label, when),
            (_, when, limit) => ExplanationFact::new(label, &format!("{when} (limit: {limit})")),
        };
        let (id, what) =
            (verdict.word().to_lowercase(), format!("the first word of a report: {what}"));
        let facts = rules.map(fact).collect();
        Explanation { facts, ..Explanation::new(ExplanationKind::Word, [&id, &what, "", ""]) }
    };
    SummaryVerdict::ALL.map(explanation).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_slow_from_a_p99_of_10_ms_on() {
        assert_eq!(slow(9_999_999, "commits take"), None);
        let reason = slow(10_000_000, "commits take").unwrap();
        assert_eq!(reason.text, "commits take 10 ms at p99 (slow from 10 ms on)");
    }

    fn parts(reasons: &[(SummaryRule, &str)]) -> SummaryParts {
        SummaryParts {
            subject: "PostgreSQL".to_owned(),
            results: "about 12 k commits/s with 8 clients, p99 4 ms".to_owned(),
            strengths: vec!["all 7 documented limits are met".to_owned()],
            reasons: reasons.iter().map(|(rule, text)| SummaryReason::new(*rule, *text)).collect(),
            ..SummaryParts::default()
        }
    }

    fn sentence(reasons: &[(SummaryRule, &str)]) -> (SummaryVerdict, String) {
        let summary = parts(reasons).finish();
        (summary.verdict, summary.sentence)
    }

    #[test]
    fn a_good_result_names_what_it_is_good_for_and_caveats_follow() {
        use SummaryRule::{NotSteady, OtherWork};
        let good = "Good for PostgreSQL: about 12 k commits/s with 8 clients, p99 4 ms; all 7 \
                    documented limits are met.";
        assert_eq!(sentence(&[]), (SummaryVerdict::Good, good.to_owned()));
        let one = [(OtherWork, "other work used 1.9 of 2 CPUs")];
        let said = format!("{good} Caveat: other work used 1.9 of 2 CPUs.");
        assert_eq!(sentence(&one), (SummaryVerdict::Good, said));
        let two = [one[0], (NotSteady, "x")];
        assert!(sentence(&two).1.ends_with(" Caveats: other work used 1.9 of 2 CPUs; x."));
    }

    #[test]
    fn the_weightiest_reason_makes_the_verdict_and_the_others_are_listed_behind_it() {
        use SummaryRule::{GoalMissed, LimitMissed, OtherWork, SuspectFlush};
        let results = "about 12 k commits/s with 8 clients, p99 4 ms";
        let (verdict, said) = sentence(&[(SuspectFlush, "a"), (LimitMissed, "b")]);
        assert_eq!(verdict, SummaryVerdict::Caution);
        assert_eq!(said, format!("Caution: {results}, but a; b."));
        let all = [(OtherWork, "o"), (SuspectFlush, "a"), (GoalMissed, "g")];
        let summary = parts(&all).finish();
        assert_eq!(summary.sentence, format!("Bad: g; {results}. Caveat: o."));
        assert_eq!(summary.reasons, ["g", "a", "o", "all 7 documented limits are met"]);
        let many = [(GoalMissed, "1"), (GoalMissed, "2"), (GoalMissed, "3"), (GoalMissed, "4")];
        assert_eq!(sentence(&many).1, format!("Bad: 1; 2; 3; and 1 more; {results}."));
    }

    #[test]
    fn without_a_limit_the_sentence_has_no_verdict_word() {
        use SummaryRule::{Incomplete, NoLimit, OtherWork};
        let summary = parts(&[(NoLimit, "no limit applies"), (OtherWork, "o")]).finish();
        let said = "about 12 k commits/s with 8 clients, p99 4 ms. Caveat: o.";
        assert_eq!((summary.verdict, summary.sentence.as_str()), (SummaryVerdict::Unknown, said));
        assert_eq!(summary.parts(), ("", said));
        let stopped = parts(&[(NoLimit, "no limit applies"), (Incomplete, "it was stopped")]);
        let stopped = stopped.finish();
        assert_eq!(stopped.parts().0, "Unknown");
        assert!(stopped.sentence.contains("it was stopped"), "{}", stopped.sentence);
    }

    #[test]
    fn the_word_is_told_apart_from_the_rest() {
        let summary = parts(&[]).finish();
        let (word, rest) = summary.parts();
        assert_eq!((word, format!("{word}{rest}")), ("Good", summary.sentence.clone()));
    }

    #[test]
    fn every_rule_is_explained_once_under_the_word_that_it_makes() {
        let all = explanations();
        let ids: Vec<&str> = all.iter().map(|word| word.id.as_str()).collect();
        assert_eq!(ids, ["good", "caution", "unknown", "bad"]);
        for rule in SummaryRule::ALL {
            let (verdict, what, limit) = rule.row();
            let facts = |word: &Explanation| -> Vec<String> {
                let texts = word.facts.iter().map(|fact| fact.text.clone());
                texts.filter(|text| text.starts_with(what)).collect()
            };
            let found: Vec<_> = all.iter().filter(|word| !facts(word).is_empty()).collect();
            let [found] = found.as_slice() else { panic!("{rule:?}: {}", found.len()) };
            assert_eq!(found.id, verdict.word().to_lowercase());
            assert!(facts(found)[0].contains(limit), "{:?}", found.facts);
        }
        assert!(SummaryRule::SlowCommits.row().1.contains(&COMMIT_P99_MAX.to_string()));
        let cores = durio_analyse::FOREIGN_CPUS_MAX.to_string();
        assert!(SummaryRule::OtherWork.row().1.contains(&format!("than {cores} CPUs")));
    }

    #[test]
    fn damaged_rates_are_none_and_lists_have_commas() {
        assert_eq!([f64::NAN, f64::INFINITY, -1.0].map(rate), ["0 /s"; 3]);
        assert_eq!(bare_rate(5822.0), "5.82 k");
        let list = |items: &[&str]| {
            listed(&items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            [list(&["a"]), list(&["a", "b"]), list(&["a", "b", "c"])],
            ["a", "a and b", "a, b and c"]
        );
        assert_eq!([with(1, "client"), with(8, "client")], ["with one client", "with 8 clients"]);
    }
}
