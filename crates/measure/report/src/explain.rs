//! The meaning of the words in reports: warnings, signals, rules, verdicts.

use durio_analyse::{Explanation, ExplanationKind};
use durio_judge::summary;
use serde::Serialize;

use crate::Report;
use crate::document::{DetailLevel, Document, LabelledFact, Section, Tone};

/// Name and version of the document.
const EXPLAIN_SCHEMA: &str = "durio-explain-1";

/// Explanations, as `durio explain` shows them.
#[derive(Debug, Serialize)]
pub struct ShownExplanations {
    schema: &'static str,
    explanations: Vec<Explanation>,
    /// Each by itself, with everything; else a line each.
    #[serde(skip)]
    whole: bool,
}

impl ShownExplanations {
    /// Each in a line, by kind.
    pub fn listed(explanations: Vec<Explanation>) -> Self {
        Self { schema: EXPLAIN_SCHEMA, explanations, whole: false }
    }

    /// Each with reason, advice and sources.
    pub fn whole(explanations: Vec<Explanation>) -> Self {
        Self { whole: true, ..Self::listed(explanations) }
    }
}

impl Report for ShownExplanations {
    fn document(&self) -> Document {
        if self.whole {
            let mut document = Document::new("", "");
            self.explanations.iter().for_each(|explanation| document.push(whole(explanation)));
            return document;
        }
        let title = "What reports say; see one with durio explain ID";
        let mut document = Document::new("", title);
        for (kind, heading) in HEADINGS {
            let mut section = Section::new(heading);
            let its = self.explanations.iter().filter(|explanation| explanation.kind == kind);
            its.for_each(|explanation| section.fact(&explanation.id, explanation.what.as_str()));
            document.push(section);
        }
        document
    }
}

const HEADINGS: [(ExplanationKind, &str); 5] = [
    (ExplanationKind::Word, "Words of reports"),
    (ExplanationKind::Warning, "Warnings about figures"),
    (ExplanationKind::Signal, "Signals about flushes"),
    (ExplanationKind::AuditRule, "Rules of the audit"),
    (ExplanationKind::AdviceRule, "Rules of advice"),
];

fn whole(it: &Explanation) -> Section {
    let mut section = Section::new(format!("{}: {}", it.id, it.kind.words()));
    let parts = [("what", &it.what), ("why", &it.why), ("what to do", &it.advice)];
    for (label, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
        section.fact(label, text.as_str());
    }
    for fact in &it.facts {
        let link = Some(fact.url.clone()).filter(|url| !url.is_empty());
        let shown = LabelledFact {
            link,
            ..LabelledFact::new(Tone::Plain, &fact.label, fact.text.as_str())
        };
        section.fact_at(DetailLevel::Summary, shown);
    }
    section
}

/// What the words of reports mean that are neither warnings nor rules, those of first lines first.
pub fn word_explanations() -> Vec<Explanation> {
    let others = WORDS.iter().map(|words| Explanation::new(ExplanationKind::Word, *words));
    summary::explanations().into_iter().chain(others).collect()
}

// Id, when it is said, its consequence, what to do. The tests compare the ids with the enumerations
// of words.
const WORDS: &[[&str; 4]] = &[
    [
        "fit",
        "the measured figure meets a limit that is documented for this database",
        "the limit and who says so stand beside it (--verbose); headroom is how many times worse the \
         figure could be",
        "",
    ],
    [
        "unfit",
        "the measured figure misses a documented limit",
        "the database's own documents say that it will not work well here; with --database NAME the \
         exit code is 1",
        "look at the warnings first; then durio advise, durio stack show and another storage",
    ],
    [
        "no-documented-threshold",
        "nobody publishes a limit for this database",
        "durio shows the figures that the database waits for, and gives no grade of its own",
        "set a goal: durio check --goal 'commit p99 < 5ms'",
    ],
    [
        "cannot-tell",
        "the limit's workload was not measured, or its figures are not the storage's",
        "a figure that contradicts itself, lies in memory or came from the page cache decides nothing",
        "the reason stands in the report; measure where it does not apply, or give what is missing",
    ],
    [
        "provisional",
        "a workload was measured for less than 300 s",
        "caches, garbage collection, burst credits and heat show after minutes",
        "durio check --thorough before you buy, size or blame",
    ],
    [
        "not-steady",
        "the rate drifted by more than 10 %, or fifths of the time differ by more than 20 %, or the \
         same workload had another rate elsewhere in the run",
        "another run may give another rate; the limits are those of SNIA's steady state",
        "measure for longer, with nothing else on the storage; look at the rate over time",
    ],
    [
        "steady",
        "the rate stayed within those limits",
        "it is a statement about this run: the storage may have another state later",
        "",
    ],
    [
        "expected",
        "between these rates the real one is expected: those from which the predicted one is 15 % off",
        "14 of 17 real rates were as near or nearer, on a machine that nothing was fitted to",
        "durio predict NAME DIR measures for longer; durio profile calibrate adapts it to your build",
    ],
    [
        "disk",
        "of a predicted rate: the log was being written or synced for 85 % of the time or more",
        "a faster disk gives more commits",
        "durio durable DIR finds the fastest way to write durably",
    ],
    [
        "cpu",
        "of a predicted rate: clients and database used 85 % of the processors' time or more",
        "they share this machine; a faster disk changes little",
        "more or faster processors, or clients on another machine",
    ],
    [
        "waits",
        "of a predicted rate: neither disk nor processors were busy for 85 % of the time",
        "threads waited to be woken, or for each other, one after the other",
        "more clients at the same time",
    ],
    [
        "offered",
        "of a predicted rate: no more transactions came, as a goal set their rate",
        "it is a rate that can be kept, not the most",
        "",
    ],
    [
        "typical",
        "the p50 of a check's commits, one write of 4 to 8 KiB in flight, is compared with published \
         latencies by class of storage; disks of a cloud, which their model names, with its classes alone",
        "it says whether the storage is as fast as others of its class, not what class it is: a disk that \
         ignores flushes is as fast as a protected one",
        "durio typical CLASS has the published latencies with their sources; durio stack names the disks",
    ],
    [
        "memory-backed",
        "what was measured lies in memory (tmpfs, a RAM disk, zram)",
        "nothing survives a power cut, and no figure is a device's",
        "name a directory on the storage that the database will use",
    ],
    [
        "unsafe-config",
        "a setting that is documented to drop syncs or flushes",
        "acknowledged commits can be lost at a power cut",
        "change the setting; the signal names it and where it was read",
    ],
    [
        "suspect",
        "what was measured is not plausible for the medium, or a claim is known to be false elsewhere",
        "it accuses nobody: protected caches look the same; durio never acquits by speed",
        "do what the signal says; only a power cut proves that a write survives one",
    ],
    [
        "declared",
        "a device, a server or a program says so of itself",
        "durio cannot check it",
        "ask whoever makes or runs it",
    ],
    ["fact", "read from the kernel, or counted", "it holds for this machine at this time", ""],
    [
        "faster",
        "better by more than the margin (5 % unless --threshold says otherwise), and the 95 % interval \
         excludes zero",
        "chance explains it in at most one of twenty comparisons",
        "",
    ],
    [
        "slower",
        "worse by more than the margin (5 % unless --threshold says otherwise), and the 95 % interval \
         excludes zero",
        "chance explains it in at most one of twenty comparisons",
        "look at what else differs: the comparison lists it",
    ],
    [
        "no-difference",
        "the 95 % interval lies within the margin on both sides of zero",
        "a difference that matters is excluded, not merely unseen",
        "",
    ],
    [
        "undecided",
        "the 95 % interval spans the margin of 5 % (--threshold): repeats scatter too far; of a rule of \
         advice: a value that it needs is not known",
        "where rates scatter by 3.3 % from run to run, 9 runs of each side find a change of 5 %; 3 % \
         would take 20",
        "the report has the number of runs that would probably decide, and the command",
    ],
    [
        "no-interval",
        "a side has a single run, or a result is missing: there is a ratio and no interval",
        "one run per side does not show how much the next one would differ",
        "measure by turns: durio compare DIR DIR, or durio compare --interleave A.toml B.toml",
    ],
    [
        "regression",
        "rate or p99 of a step is worse by more than --fail-over, and chance does not explain it \
         (one-sided, Holm's procedure over all figures)",
        "the exit code is 1",
        "look at the step and at what differs between the sides",
    ],
    ["met", "of a rule of advice: the setting is as the rule wants it", "", ""],
    [
        "not-met",
        "of a rule of advice: the setting differs",
        "the rule says what it costs, and who says so",
        "prove it before you keep it: durio advise --prove ID, or two measurements",
    ],
    ["not-applicable", "of a rule of advice: nothing here is what it is about", "", ""],
    [
        "impossible",
        "of an audit: figures of a row that cannot all be right",
        "at least one is wrong, whatever the storage; the exit code is 1",
        "go back to where they come from",
    ],
    [
        "shortfall",
        "of an audit: latency and rate leave much of the workers' time unexplained",
        "time was spent elsewhere, or latency or rate is understated",
        "ask for the latency of everything that a worker waits for",
    ],
    [
        "doubtful",
        "of an audit: something in the row speaks against a figure or a setting",
        "the figure may be right, and needs a second look",
        "do what the finding says",
    ],
    [
        "method",
        "of an audit: the method cannot show what it is used to show",
        "the figure may be right and still answer another question",
        "measure with the method that answers the question",
    ],
];

#[cfg(test)]
mod tests {
    use durio_analyse::prediction::RateBound;
    use durio_analyse::{SignalWord, VerdictWord};
    use durio_judge::advise::AdviceState;

    use super::*;
    use crate::{Format, Options, write};

    #[test]
    fn every_judgement_has_its_explanation() {
        use AdviceState::{CannotTell, Met, NotApplicable, NotMet};
        use RateBound::{Offered, Processors, Storage, Waiting};
        use SignalWord::{Declared, Fact, Suspect, UnsafeConfig};
        let verdicts = [
            VerdictWord::Fit,
            VerdictWord::Unfit,
            VerdictWord::NoDocumentedThreshold,
            VerdictWord::CannotTell,
        ];
        let words = verdicts.map(VerdictWord::words).into_iter();
        let words = words.chain([UnsafeConfig, Suspect, Declared, Fact].map(SignalWord::words));
        let bounds = [Storage, Processors, Waiting, Offered].map(RateBound::word);
        let words = words
            .chain(bounds)
            .chain([Met, NotMet, CannotTell, NotApplicable].map(AdviceState::words));
        let tiers = durio_judge::audit::Tier::ALL.map(|tier| serde_json::to_value(tier).unwrap());
        let tiers: Vec<String> =
            tiers.iter().map(|tier| tier.as_str().unwrap_or_default().to_owned()).collect();
        for word in words.chain(tiers.iter().map(String::as_str)) {
            let id = word.to_lowercase().replace(' ', "-");
            assert_eq!(WORDS.iter().filter(|words| words[0] == id).count(), 1, "{id}");
        }
    }

    #[test]
    fn a_list_has_a_line_each_and_one_has_everything() {
        let text = |shown: &ShownExplanations| {
            let mut bytes = Vec::new();
            write(Format::Text, shown, &Options::default(), &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let listed = text(&ShownExplanations::listed(word_explanations()));
        assert!(listed.contains("unfit") && !listed.contains("what to do"), "{listed}");
        let one = word_explanations()
            .into_iter()
            .filter(|explanation| explanation.id == "unfit")
            .collect();
        let whole = text(&ShownExplanations::whole(one));
        assert!(
            whole.contains("unfit: word of a report") && whole.contains("what to do"),
            "{whole}"
        );
    }
}
