//! `durio spec`: the built-in specs and profiles as text, to read and to start a new one from.

use std::io;

use clap::{Args, Subcommand};
use durio_base::nearest_word;
use durio_command::CommandError;
use durio_report::wrapped;
use durio_spec::profile::{profile, profile_names, profile_text};
use durio_spec::{
    CampaignSpec, ShippedSpec, StackBench, plan_proof, shipped_proof_spec, shipped_proof_specs,
    shipped_spec, shipped_specs, shipped_stack_spec, shipped_stack_specs,
};

use crate::exit_code::{Exit, TABLE};
use crate::output;

/// List the built-in specs, or print one to start your own from
///
/// A spec is a TOML file: a campaign of measurements, a bench of stacks, a power-cut proof, or the
/// profile of a database. A command that takes a spec also accepts the path of a spec that you wrote.
///
///   durio spec list
///   durio spec show raid-modes > mine.toml
///   durio stack plan ./mine.toml
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct SpecArguments {
    #[command(subcommand)]
    pub(crate) command: SpecCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpecCommand {
    /// List the built-in specs, grouped by the command that takes them
    List,
    /// Print a built-in spec
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

pub(super) fn spec(arguments: &SpecArguments) -> Result<Exit, CommandError> {
    match &arguments.command {
        SpecCommand::List => output::answer_text(&listing()?)?,
        SpecCommand::Show { name } => output::answer(text_of(name)?.as_bytes())?,
    }
    Ok(Exit::Fine)
}

fn text_of(name: &str) -> Result<&'static str, CommandError> {
    let spec = shipped_spec(name).or_else(|| shipped_stack_spec(name));
    if let Some(spec) = spec.or_else(|| shipped_proof_spec(name)) {
        return Ok(spec.text);
    }
    let database = name.strip_prefix("profile:").unwrap_or(name);
    profile_text(database).map_err(|_| {
        let specs = [shipped_specs(), shipped_stack_specs(), shipped_proof_specs()].concat();
        let names = specs.iter().map(|spec| spec.name).chain(profile_names());
        let error = CommandError::wrong_use(format!("unknown built-in spec '{name}'"));
        match nearest_word(name, names) {
            Some(near) => error.hint(format!("did you mean {near}? durio spec list shows all")),
            None => error.hint("durio spec list shows all"),
        }
    })
}

fn listing() -> Result<String, CommandError> {
    let mut profiles = Vec::new();
    for name in profile_names() {
        profiles.push((name, profile(name)?.summary));
    }
    let groups = [
        ("Campaigns: durio run NAME --target DIR", campaigns()?),
        ("Stacks: durio stack bench NAME", stacks()?),
        ("Proofs: durio prove run NAME", proofs()?),
        ("Profiles: durio run profile:NAME --target DIR", profiles),
    ];
    let mut text = String::from("Built-in specs; durio spec show NAME prints one\n");
    for (title, mut rows) in groups {
        for (_, summary) in &mut rows {
            // The spec itself has its source.
            let short = summary.find(" (after ").unwrap_or(summary.len());
            summary.truncate(short);
        }
        text.push_str(&format!("\n{title}\n{}", listed(&rows)));
    }
    Ok(text)
}

/// The name of a spec, and what it does.
type SpecSummary = (&'static str, String);

pub(super) fn listed(rows: &[SpecSummary]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    // A narrow terminal must not leave a column of single words.
    let room = output::columns(&io::stdout()).saturating_sub(width + 4).max(30);
    let mut text = String::new();
    for &(name, ref summary) in rows {
        for (at, line) in wrapped(summary, room).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            text.push_str(&format!("  {name:width$}  {line}\n"));
        }
    }
    text
}

pub(super) fn campaigns() -> Result<Vec<SpecSummary>, CommandError> {
    summaries(shipped_specs(), |spec| Ok(CampaignSpec::parse(spec.name, spec.text)?.summary()))
}

/// The built-in benches of stacks.
pub(super) fn stacks() -> Result<Vec<SpecSummary>, CommandError> {
    summaries(shipped_stack_specs(), |spec| Ok(StackBench::parse(spec.name, spec.text)?.summary))
}

pub(super) fn proofs() -> Result<Vec<SpecSummary>, CommandError> {
    summaries(shipped_proof_specs(), |spec| Ok(plan_proof(spec.name, spec.text, 0)?.summary))
}

fn summaries(
    specs: &[ShippedSpec],
    summary: impl Fn(&ShippedSpec) -> Result<String, CommandError>,
) -> Result<Vec<SpecSummary>, CommandError> {
    let mut rows = Vec::new();
    for spec in specs {
        rows.push((spec.name, summary(spec)?));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spec_is_listed_and_printed_by_its_name() {
        let listing = listing().unwrap();
        let specs = [shipped_specs(), shipped_stack_specs(), shipped_proof_specs()].concat();
        for spec in specs {
            assert!(listing.contains(&format!("\n  {} ", spec.name)), "{}", spec.name);
            assert_eq!(text_of(spec.name).unwrap(), spec.text);
        }
        for name in profile_names() {
            assert!(listing.contains(&format!("\n  {name} ")), "{name}");
            assert_eq!(text_of(&format!("profile:{name}")).unwrap(), profile_text(name).unwrap());
        }
        let error = text_of("raid-mods").unwrap_err();
        assert_eq!(error.hints, ["did you mean raid-modes? durio spec list shows all"]);
    }
}
