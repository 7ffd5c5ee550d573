//! The explanations of the shipped rules, without a machine to apply them to.

use durio_analyse::{Explanation, ExplanationFact, ExplanationKind};

use super::rule::{Rule, rules};
use super::{AdviceError, AdviceSource};

/// What every rule wants, in the order of reports.
///
/// # Errors
/// As for [`rules`].
pub fn advice_explanations() -> Result<Vec<Explanation>, AdviceError> {
    Ok(rules()?.iter().map(explained).collect())
}

fn explained(rule: &Rule) -> Explanation {
    let words = [rule.id.as_str(), &rule.title, "", &rule.advice];
    let mut explanation = Explanation::new(ExplanationKind::AdviceRule, words);
    let mut add = |label: &str, text: String, url: &str| {
        let (label, url) = (label.to_owned(), url.to_owned());
        explanation.facts.push(ExplanationFact { label, text, url });
    };
    add("name", rule.name.clone(), "");
    add("layer", rule.layer.clone(), "");
    let roles: Vec<&str> = rule.roles.iter().map(|role| role.name()).collect();
    add("for", roles.join(", "), "");
    if !rule.databases.is_empty() {
        add("databases", rule.databases.join(", "), "");
    }
    add("risk", rule.risk.name().to_owned(), "");
    let ways = [
        ("setting", &rule.setting),
        ("command", &rule.command),
        ("undo", &rule.undo),
        ("udev rule", &rule.udev),
    ];
    for (label, text) in ways {
        text.iter().for_each(|text| add(label, text.clone(), ""));
    }
    rule.sources.iter().for_each(|it| add("source", source(it), &it.url));
    for (says, by) in &rule.contradicting {
        add("contradicted", format!("{says} ({})", source(by)), &by.url);
    }
    rule.evidence.iter().for_each(|it| add("durio measured", it.line(), ""));
    explanation
}

fn source(it: &AdviceSource) -> String {
    format!("{} [{}]", it.document, it.kind.name())
}
