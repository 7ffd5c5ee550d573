//! `durio explain`: the meaning of warnings, signals, verdicts and rules of any run.

use durio_analyse::Explanation;
use durio_base::nearest_word;
use durio_bench::BenchError;
use durio_judge::advise::advice_explanations;
use durio_judge::audit::audit_explanations;
use durio_judge::explanations;
use durio_report::{ShownExplanations, word_explanations};

use crate::args::Explain;
use crate::exit_code::Exit;
use crate::output;

pub(super) fn explain(arguments: &Explain) -> Result<Exit, BenchError> {
    let all = all()?;
    let shown = match &arguments.id {
        None => ShownExplanations::listed(all),
        Some(id) => {
            let asked = normal(id);
            let is_it = |it: &Explanation| normal(&it.id) == asked || is_named(it, &asked);
            let (found, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_it);
            if found.is_empty() {
                return Err(unknown(id, &asked, &others));
            }
            ShownExplanations::whole(found)
        }
    };
    output::report(arguments.output, &shown)?;
    Ok(Exit::Fine)
}

/// All explanations of reports' terms, in the order of the list.
fn all() -> Result<Vec<Explanation>, BenchError> {
    let mut all = word_explanations();
    all.extend(explanations());
    all.extend(audit_explanations());
    all.extend(advice_explanations()?);
    Ok(all)
}

/// In the form of ids: reports print `NOT STEADY` and `no documented threshold`.
fn normal(id: &str) -> String {
    id.trim().to_lowercase().replace([' ', '_'], "-")
}

/// A rule of advice has a name in addition to its id.
fn is_named(it: &Explanation, name: &str) -> bool {
    it.facts.iter().any(|fact| fact.label == "name" && fact.text == name)
}

fn unknown(id: &str, asked: &str, all: &[Explanation]) -> BenchError {
    let ids = || all.iter().map(|it| it.id.as_str());
    let part = ids().find(|id| id.contains(asked) || asked.contains(id));
    let near = nearest_word(asked, ids()).or(part);
    let error = BenchError::wrong_use(format!("nothing is called '{id}'"));
    match near.filter(|_| !asked.is_empty()) {
        Some(near) => error.hint(format!("did you mean {near}? durio explain lists all")),
        None => error.hint("durio explain lists all"),
    }
}
