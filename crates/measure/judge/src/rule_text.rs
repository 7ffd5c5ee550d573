//! The words of rules that are functions, and of the verdicts: data/rules.
//!
//! Reports, `durio explain` and the reference take them from here. Rules of advice have their words
//! with their conditions (advise/rules).

use std::sync::OnceLock;

use durio_analyse::{Explanation, ExplanationKind, SignalWord};
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

static WORDS: RuleTexts = RuleTexts::new(&[include_str!("../data/rules/words.toml")]);

/// What the words of reports mean that belong to no rule.
pub(crate) fn word_explanations() -> impl Iterator<Item = Explanation> {
    WORDS.all().iter().map(|word| word.explanation(ExplanationKind::Word))
}

#[cfg(test)]
mod tests {
    use durio_analyse::VerdictWord;
    use durio_analyse::prediction::RateBound;

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
}
