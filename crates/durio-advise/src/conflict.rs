//! Documents that contradict each other.
//!
//! In: the advice that is shown, and all rules. Out: [`Conflict`]s, about what is not met here.
//! Not here: which side is right.

use super::document::{Advice, Conflict, Statement};
use super::rule::{AdviceState, Rule};

/// Every pair of rules that contradict each other, once, where one of them is shown and not met; and
/// every document that contradicts such a rule.
pub(super) fn conflicts(shown: &[Advice], rules: &[Rule]) -> Vec<Conflict> {
    let mut conflicts: Vec<Conflict> = Vec::new();
    let by_id = |id: &str| rules.iter().find(|rule| rule.id == id);
    for advice in shown.iter().filter(|advice| advice.state == AdviceState::NotMet) {
        let Some(rule) = by_id(&advice.rule) else { continue };
        let others = rule.conflicts.iter().filter_map(|id| by_id(id));
        let documents = rule.contradicted.iter().map(|it| Statement {
            rule: None,
            for_whom: String::new(),
            says: it.says.clone(),
            sources: vec![it.source.clone()],
        });
        for other in others.map(statement).chain(documents) {
            let about = about(advice);
            let conflict = Conflict { about, statements: vec![statement(rule), other] };
            if !conflicts.iter().any(|known| is_same(known, &conflict)) {
                conflicts.push(conflict);
            }
        }
    }
    conflicts
}

fn about(advice: &Advice) -> String {
    let facts: Vec<&str> = advice.read.iter().map(|read| read.fact.as_str()).collect();
    format!("{} of {}", facts.join(", "), advice.about)
}

fn is_same(one: &Conflict, other: &Conflict) -> bool {
    let same = |a: &Statement, b: &Statement| a.rule == b.rule && a.says == b.says;
    let (a, b) = (&one.statements, &other.statements);
    let straight = a.iter().zip(b).all(|(a, b)| same(a, b));
    let crossed = a.iter().zip(b.iter().rev()).all(|(a, b)| same(a, b));
    straight && one.about == other.about || crossed
}

/// What a rule says, and for whom.
fn statement(rule: &Rule) -> Statement {
    let roles: Vec<&str> = rule.roles.iter().map(|role| role.name()).collect();
    let mut for_whom = format!("role {}", roles.join(", "));
    if !rule.databases.is_empty() {
        for_whom = format!("{for_whom}; {}", rule.databases.join(", "));
    }
    Statement {
        rule: Some(rule.id.clone()),
        for_whom,
        says: rule.title.clone(),
        sources: rule.sources.clone(),
    }
}
