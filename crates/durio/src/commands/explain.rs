//! `durio explain`: the meaning of warnings, signals, verdicts and rules of any run.

use clap::Args;
use durio_analyse::Explanation;
use durio_base::nearest_word;
use durio_command::CommandError;
use durio_judge::explanations;
use durio_report::{ShownExplanations, word_explanations};

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::output;

/// Explain a term of a report: a warning, a signal, a verdict, a rule
///
/// ID is the word as the report prints it, such as not-steady, flush-fast, unfit or B01. The same
/// explanations are the reference part of the book. Without ID it lists all of them.
///
///   durio explain
///   durio explain flush-fast
///   durio explain --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Explain {
    /// Term to explain; all explanations with that id are shown
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(super) fn explain(arguments: &Explain) -> Result<Exit, CommandError> {
    // In the order of the list.
    let mut all = word_explanations();
    all.extend(explanations()?);
    let shown = match &arguments.id {
        None => ShownExplanations::listed(all),
        Some(id) => {
            let asked = normal(id);
            let is_it = |explanation: &Explanation| {
                normal(&explanation.id) == asked || is_named(explanation, &asked)
            };
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

/// In the form of ids: reports print `NOT STEADY` and `no documented threshold`.
fn normal(id: &str) -> String {
    id.trim().to_lowercase().replace([' ', '_'], "-")
}

/// A rule of advice has a name in addition to its id.
fn is_named(it: &Explanation, name: &str) -> bool {
    it.facts.iter().any(|fact| fact.label == "name" && fact.text == name)
}

fn unknown(id: &str, asked: &str, all: &[Explanation]) -> CommandError {
    let ids = || all.iter().map(|explanation| explanation.id.as_str());
    let part = ids().find(|id| id.contains(asked) || asked.contains(id));
    let near = nearest_word(asked, ids()).or(part);
    let error = CommandError::wrong_use(format!("unknown name '{id}'"));
    match near.filter(|_| !asked.is_empty()) {
        Some(near) => error.hint(format!("did you mean {near}? durio explain lists all")),
        None => error.hint("durio explain lists all"),
    }
}
