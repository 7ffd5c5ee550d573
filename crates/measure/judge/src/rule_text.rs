//! The words of rules that are functions, and of the verdicts: data/rules.
//!
//! Reports, `durio explain` and the reference take them from here. Rules of advice have their words
//! with their conditions (advise/rules).

use std::sync::OnceLock;

use durio_analyse::{Explanation, ExplanationKind, SignalWord};
use durio_spec::profile::{Profile, profile, profile_names};
use serde::Deserialize;

/// What a rule says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleText {
    /// For programs; it does not change. After a colon, the case that has words apart.
    pub(crate) id: String,
    /// The condition under which it speaks.
    pub(crate) what: String,
    /// Why that matters; empty where `what` covers it.
    #[serde(default)]
    pub(crate) why: String,
    /// What to do about it; empty where there is nothing to do.
    #[serde(default)]
    pub(crate) advice: String,
    /// The signals that it gives.
    #[serde(default)]
    pub(crate) signal: Vec<SignalText>,
}

/// What a signal says in one case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalText {
    /// Empty for a rule with one case, and for the usual one of several.
    #[serde(default)]
    pub(crate) case: String,
    pub(crate) word: SignalWord,
    /// Names in braces are replaced by values.
    pub(crate) implies: String,
    #[serde(default)]
    pub(crate) advice: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTextFile {
    rule: Vec<RuleText>,
}

/// Words of one kind of rule, read when they are first used.
#[derive(Debug)]
pub(crate) struct RuleTexts {
    files: &'static [&'static str],
    texts: OnceLock<Vec<RuleText>>,
}

impl RuleTexts {
    pub(crate) const fn new(files: &'static [&'static str]) -> Self {
        Self { files, texts: OnceLock::new() }
    }

    /// All in the order of the files; none if one cannot be read: a test would have said so.
    pub(crate) fn all(&self) -> &[RuleText] {
        self.texts.get_or_init(|| read(self.files).unwrap_or_default())
    }

    pub(crate) fn get(&self, id: &str) -> Option<&RuleText> {
        self.all().iter().find(|text| text.id == id)
    }
}

fn read(files: &[&str]) -> Result<Vec<RuleText>, toml::de::Error> {
    let mut texts = Vec::new();
    for file in files {
        texts.extend(toml::from_str::<RuleTextFile>(file)?.rule);
    }
    Ok(texts)
}

impl RuleText {
    pub(crate) fn explanation(&self, kind: ExplanationKind) -> Explanation {
        Explanation::new(kind, [&self.id, &self.what, &self.why, &self.advice])
    }
}

static WORDS: RuleTexts = RuleTexts::new(&[
    include_str!("../data/rules/words.toml"),
    include_str!("../data/rules/terms.toml"),
]);

/// What the words of reports mean that belong to no rule.
pub(crate) fn word_explanations() -> impl Iterator<Item = Explanation> {
    WORDS.all().iter().map(|word| word.explanation(ExplanationKind::Word))
}

/// No id has more words.
const LABEL_WORDS_MAX: usize = 6;

/// The explanations of a label, as reports print it: those of that id or name, or else of the longest
/// part of the label that has some, as `p99` of `B p99` and `caveats` of `caveats (7)`. A database has
/// that of its profile.
pub fn explained(all: &[Explanation], label: &str) -> Vec<Explanation> {
    let words: Vec<&str> =
        label.split([' ', ',', '(', ')']).filter(|word| !word.is_empty()).collect();
    let lengths = (1..=words.len().min(LABEL_WORDS_MAX)).rev();
    let called = |part: &[&str]| -> Vec<Explanation> {
        let asked = comparable(&part.join(" "));
        all.iter().filter(|explanation| is_called(explanation, &asked)).cloned().collect()
    };
    let mut found = lengths.flat_map(|length| words.windows(length)).map(called);
    let first = found.find(|found| !found.is_empty());
    first.unwrap_or_else(|| database(label).into_iter().collect())
}

/// Ids and labels in one form: reports print `NOT STEADY`, `disk ×2`, `A /s` and `1 client`.
fn comparable(label: &str) -> String {
    let label = label.to_lowercase().replace("/s", " per second").replace('×', "x");
    let mut id = label.trim().replace([' ', '_'], "-");
    if id == "per-s" || id.ends_with("-per-s") {
        id.push_str("econd");
    }
    id.trim_end_matches('s').to_owned()
}

/// A rule of advice has a name in addition to its id.
fn is_called(explanation: &Explanation, asked: &str) -> bool {
    let is_name = |label: &str, text: &str| label == "name" && comparable(text) == asked;
    comparable(&explanation.id) == asked
        || explanation.facts.iter().any(|fact| is_name(&fact.label, &fact.text))
}

/// A database, by the name of its profile or of one of its limits. Reports print `MySQL/MariaDB`, and
/// a mark after limits that are a rule of thumb.
fn database(label: &str) -> Option<Explanation> {
    let name = label.split('/').next()?.trim_end_matches(['*', ' ']).trim_start().to_lowercase();
    let has_limit = |profile: &Profile| {
        profile.thresholds.iter().any(|limit| limit.asked_as.as_deref() == Some(name.as_str()))
    };
    let mut all = profile_names().into_iter().filter_map(|known| profile(known).ok());
    let found = profile(&name).ok().or_else(|| all.find(has_limit))?;
    let limits: Vec<&str> = found.thresholds.iter().map(|limit| limit.criterion.as_str()).collect();
    let limits = match limits.is_empty() {
        true => "no limit is published".to_owned(),
        false => format!("its limits: {}", limits.join("; ")),
    };
    let what = format!("a database: {}; {}", found.title, found.summary);
    let advice = format!(
        "durio profile show {0} has its I/O and limits with their sources; durio check --database \
         {0} compares",
        found.name
    );
    Some(Explanation::new(ExplanationKind::Word, [&found.name, &what, &limits, &advice]))
}

#[cfg(test)]
mod tests {
    use durio_analyse::VerdictWord;
    use durio_analyse::prediction::RateBound;
    use durio_workload::{SyncMethod, check_workloads};

    use super::*;
    use crate::advise::AdviceState;

    #[test]
    fn a_file_has_known_keys_only_and_what_is_left_out_is_empty() {
        let text = "[[rule]]\nid = 'a:b'\nwhat = 'w'\n[[rule.signal]]\nword = 'unsafe-config'\n\
                    implies = 'i'\n";
        let rules = read(&[text, "[[rule]]\nid = 'c'\nwhat = 'x'\nadvice = 'y'\n"]).unwrap();
        let [first, second] = rules.as_slice() else { panic!("{rules:?}") };
        let signal = &first.signal[0];
        assert_eq!((signal.case.as_str(), signal.word), ("", SignalWord::UnsafeConfig));
        assert_eq!((signal.implies.as_str(), signal.advice.as_str()), ("i", ""));
        let words = second.explanation(ExplanationKind::Warning);
        assert_eq!([words.id, words.what, words.why, words.advice], ["c", "x", "", "y"]);
        let unknown = read(&["[[rule]]\nid = 'c'\nwhat = 'x'\nadvise = 'y'\n"]).unwrap_err();
        assert!(unknown.to_string().contains("advise"), "{unknown}");
        assert!(read(&["[[rule]]\nid = 'c'\n"]).unwrap_err().to_string().contains("what"));
    }

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
        let tiers = crate::audit::Tier::ALL.map(|tier| serde_json::to_value(tier).unwrap());
        let tiers: Vec<String> =
            tiers.iter().map(|tier| tier.as_str().unwrap_or_default().to_owned()).collect();
        for word in words.chain(tiers.iter().map(String::as_str)) {
            let id = word.to_lowercase().replace(' ', "-");
            let found = word_explanations().filter(|word| word.id == id);
            assert_eq!(found.count(), 1, "{id}");
        }
    }

    /// The ids of what a label leads to.
    fn found(label: &str) -> Vec<String> {
        let all = crate::explanations().unwrap();
        explained(&all, label).into_iter().map(|explanation| explanation.id).collect()
    }

    #[test]
    fn every_workload_of_a_check_and_every_sync_method_has_its_explanation() {
        let workloads = check_workloads().into_iter().map(|(_, workload)| workload.name);
        let methods = SyncMethod::ALL.into_iter().filter(|method| *method != SyncMethod::None);
        let methods = methods.map(|method| method.name().to_owned());
        for word in workloads.chain(methods).chain(["unsynced".to_owned()]) {
            assert_eq!(found(&word), [word]);
        }
    }

    #[test]
    fn a_label_leads_to_its_longest_part_that_is_explained() {
        for (label, expected) in [
            ("NOT STEADY", &["not-steady", "not-steady"][..]),
            ("caveats (7)", &["caveats"]),
            ("8 clients", &["clients"]),
            ("1 client", &["clients"]),
            ("A /s", &["per-second"]),
            ("write, jobs 2 per s", &["per-second"]),
            ("commits/s", &["commits-per-second"]),
            ("durable commits per second (4.1 k to 5.6 k)", &["commits-per-second"]),
            ("B p99", &["p99"]),
            ("p99.9", &["p99.9"]),
            ("bound by waits", &["bound-by"]),
            ("disk ×2", &["disk-x2"]),
            ("× raw", &["x-raw"]),
            ("limits A, B", &["limits", "limits"]),
            ("scheduler-nvme", &["B01"]),
            // Whole words only: a mistyped id is not explained by a part of it.
            ("flush-fats", &[]),
            ("", &[]),
            (" ()", &[]),
        ] {
            assert_eq!(found(label), expected, "{label}");
        }
        assert_eq!(found("of a long label the six words before p99"), ["p99"]);
    }

    #[test]
    fn a_database_is_explained_by_its_profile_with_its_limits() {
        for (label, name) in [
            ("cockroachdb", "cockroachdb"),
            ("PostgreSQL", "postgresql"),
            ("MySQL/MariaDB", "mysql"),
            ("SQLite", "sqlite-wal"),
            ("etcd-openshift", "etcd"),
            ("oracle *", "oracle"),
        ] {
            assert_eq!(found(label), [name], "{label}");
        }
        let all = crate::explanations().unwrap();
        let cockroach = explained(&all, "cockroachdb").remove(0);
        assert!(cockroach.what.starts_with("a database: CockroachDB 26 with Pebble; "));
        assert!(cockroach.why.contains("; 500 I/Os per second for each vCPU; "), "{cockroach:?}");
        assert!(cockroach.advice.starts_with("durio profile show cockroachdb "), "{cockroach:?}");
        assert_eq!(found("dbase"), [] as [&str; 0]);
    }
}
