//! `durio explain`: the meaning of warnings, signals, verdicts and rules of any run; and
//! `durio typical`: typical latencies of classes of storage, with their sources.

use clap::Args;
use durio_analyse::Explanation;
use durio_base::nearest_word;
use durio_command::CommandError;
use durio_judge::typical::{TypicalClass, TypicalStorage, typical};
use durio_judge::{explained, explanations};
use durio_report::{ShownExplanations, ShownTypical};

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::output;

/// Explain a term of a report: a warning, a signal, a verdict, a rule
///
/// ID is a word, a label or a database as the report prints it, such as not-steady, flush-fast, "bound
/// by", B01 or cockroachdb. Without ID it lists the ids by kind; --all adds the meaning of each. The
/// same explanations are the reference part of the book.
///
///   durio explain
///   durio explain flush-fast
///   durio explain --all
///   durio explain --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Explain {
    /// Term to explain; all explanations with that id are shown
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,

    /// List all ids with their meaning
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(super) fn explain(arguments: &Explain) -> Result<Exit, CommandError> {
    let all = explanations()?;
    let shown = match &arguments.id {
        None if arguments.all => ShownExplanations::listed(all),
        None => ShownExplanations::indexed(all),
        Some(id) => match explained(&all, id) {
            found if found.is_empty() => return Err(unknown(id, &all)),
            found => ShownExplanations::whole(found),
        },
    };
    output::report(arguments.output, &shown)?;
    Ok(Exit::Fine)
}

fn unknown(id: &str, all: &[Explanation]) -> CommandError {
    let asked = id.trim().to_lowercase().replace([' ', '_'], "-");
    let ids = || all.iter().map(|explanation| explanation.id.as_str());
    let part = ids().find(|id| id.contains(&asked) || asked.contains(id));
    let near = nearest_word(&asked, ids()).or(part);
    let error = CommandError::wrong_use(format!("unknown name '{id}'"));
    match near.filter(|_| !asked.is_empty()) {
        Some(near) => error.hint(format!("did you mean {near}? durio explain --all lists all")),
        None => error.hint("durio explain --all lists all"),
    }
}

/// Show typical latencies of storage, by class and with their sources
///
/// For each class, shows the range of published latencies of one small durable write and of one
/// small random read. With CLASS, such as ebs-gp3 or a part of its name, every published latency is
/// shown with its publisher and date. A check compares its commits with them.
///
///   durio typical
///   durio typical ebs-gp3
///   durio typical power-loss
///   durio typical --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Typical {
    /// Class, or a part of its name; all matches are shown
    #[arg(value_name = "CLASS")]
    pub(crate) class: Option<String>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(super) fn show_typical(arguments: &Typical) -> Result<Exit, CommandError> {
    let storage = typical()?;
    let shown = match &arguments.class {
        None => ShownTypical::listed(storage),
        Some(name) => ShownTypical::whole(storage, named(storage, name)?),
    };
    output::report(arguments.output, &shown)?;
    Ok(Exit::Fine)
}

/// The class with this id, or those whose id or name has every word of it, in any case.
fn named<'a>(
    storage: &'a TypicalStorage,
    name: &str,
) -> Result<Vec<&'a TypicalClass>, CommandError> {
    let asked = name.trim().to_lowercase();
    let mut found: Vec<&TypicalClass> =
        storage.classes.iter().filter(|class| class.id == asked).collect();
    // An empty name has no words, and would mean every class.
    if found.is_empty() && !asked.is_empty() {
        let is_it =
            |class: &&TypicalClass| asked.split_whitespace().all(|word| has_word(class, word));
        found = storage.classes.iter().filter(is_it).collect();
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let error = CommandError::wrong_use(format!("unknown class of storage '{name}'"));
    let ids = storage.classes.iter().map(|class| class.id.as_str());
    Err(match nearest_word(&asked, ids).filter(|_| !asked.is_empty()) {
        Some(near) => error.hint(format!("did you mean {near}? durio typical lists all")),
        None => error.hint("durio typical lists all"),
    })
}

fn has_word(class: &TypicalClass, word: &str) -> bool {
    class.id.contains(word) || class.name.to_lowercase().contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(name: &str) -> Vec<&'static str> {
        let found = named(typical().unwrap(), name).unwrap();
        found.into_iter().map(|class| class.id.as_str()).collect()
    }

    #[test]
    fn a_class_is_found_by_its_id_or_by_words_of_its_name() {
        assert_eq!(ids("nvme"), ["nvme"]);
        assert_eq!(ids("EBS-gp3 "), ["ebs-gp3"]);
        assert_eq!(ids("gp3"), ["ebs-gp3"]);
        assert_eq!(ids("power-loss"), ["sata-ssd-plp", "nvme-plp"]);
        assert_eq!(ids("Premium azure"), ["azure-premium", "azure-premium-v2"]);
    }

    #[test]
    fn an_unknown_class_names_the_most_similar_one() {
        let hints = |name: &str| named(typical().unwrap(), name).unwrap_err().hints.join(" ");
        assert!(hints("ebs-gp4").contains("did you mean ebs-gp"), "{}", hints("ebs-gp4"));
        for unknown in ["", "floppy disk"] {
            assert_eq!(hints(unknown), "durio typical lists all", "{unknown}");
        }
    }
}
