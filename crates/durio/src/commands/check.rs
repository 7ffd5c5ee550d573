//! `durio check`: checks whether storage is fit for a database.

use std::collections::BTreeSet;

use durio_analyse::{Findings, Verdict, VerdictWord};
use durio_base::did_you_mean;
use durio_bench::{BenchError, LocatedPlaces};
use durio_observe::process_names;
use durio_plan::Threshold;
use durio_spec::profile::{Profile, known_databases, profile, profile_names};
use durio_spec::{CheckLength, CheckRequest, plan_check};

use crate::args::CheckArguments;
use crate::exit_code::Exit;
use crate::measure::{begin, execute, locate};
use crate::output;

pub(crate) fn check(arguments: CheckArguments) -> Result<Exit, BenchError> {
    // Before anything is looked up or laid out: a misspelt name must not cost a minute.
    let databases = known(&arguments.databases)?;
    let paths = if arguments.target.is_empty() { &arguments.paths } else { &arguments.target };
    let LocatedPlaces { places: locations, held } = locate(paths, &arguments.common)?;
    let predicted = predicted(&databases, &arguments.workloads, &process_names())?;
    let execution = begin("check", &arguments.common)?;
    let plan = plan_check(&CheckRequest {
        locations,
        length: length(&arguments),
        duration: arguments.duration,
        size: arguments.size,
        only: arguments.workloads,
        predicted,
        goals: arguments.goals,
        seed: execution.seed,
        clock: arguments.common.clock,
        file_name: execution.file_name(),
    })?;
    let (exit, findings) = execute(&execution, &plan, held, &arguments.common)?;
    // A failed or interrupted run says nothing about fitness.
    Ok(if exit == Exit::Fine { verdict(&findings, &databases) } else { exit })
}

/// The databases whose commits to predict: those that are named or run here, if their software is
/// known. None if the user names workloads.
fn predicted(
    named: &[String],
    workloads: &[String],
    running: &BTreeSet<String>,
) -> Result<Vec<Profile>, BenchError> {
    if !workloads.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for name in profile_names() {
        let profile = profile(name)?;
        let is_wanted = named.contains(&profile.name)
            || profile.processes.iter().any(|process| running.contains(process));
        if is_wanted && profile.software.is_some() {
            found.push(profile);
        }
    }
    Ok(found)
}

fn length(arguments: &CheckArguments) -> CheckLength {
    match (arguments.quick, arguments.thorough) {
        (true, _) => CheckLength::Quick,
        (_, true) => CheckLength::Thorough,
        _ => CheckLength::Usual,
    }
}

fn known(names: &[String]) -> Result<Vec<String>, BenchError> {
    let databases = known_databases()?;
    let all: Vec<&str> = databases.iter().map(String::as_str).collect();
    let find = |name: &String| {
        databases.iter().find(|known| *known == name).cloned().ok_or_else(|| {
            BenchError::wrong_use(format!("unknown database '{name}'")).hint(did_you_mean(
                name,
                &all,
                "known databases:",
            ))
        })
    };
    names.iter().map(find).collect()
}

// Unfit decides; a threshold that could not be compared leaves the question open, and stderr names
// it.
pub(super) fn verdict(findings: &Findings, databases: &[String]) -> Exit {
    let is_asked =
        |it: &&Verdict| databases.contains(&it.database) || it.database == Threshold::GOAL;
    let asked: Vec<_> = findings.verdicts.iter().filter(is_asked).collect();
    for verdict in asked.iter().filter(|it| it.verdict == VerdictWord::NoDocumentedThreshold) {
        output::remark(&format!(
            "durio: no limit is published for {}; name your own, such as --goal 'commit p99 < 5ms'",
            verdict.database
        ));
    }
    for verdict in asked.iter().filter(|verdict| verdict.verdict == VerdictWord::CannotTell) {
        let Verdict { database, criterion, measured, .. } = verdict;
        output::remark(&format!("durio: cannot tell for {database}: {criterion}: {measured}"));
    }
    let words: Vec<VerdictWord> = asked.iter().map(|verdict| verdict.verdict).collect();
    // One unfit database decides, even if others are undecided.
    if words.contains(&VerdictWord::Unfit) {
        Exit::Negative
    } else if words.contains(&VerdictWord::CannotTell) {
        Exit::CANNOT_MEASURE
    } else {
        Exit::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_that_run_or_are_named_are_predicted_unless_workloads_are_named() {
        let texts = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let of = |named: &[&str], workloads: &[&str], running: &[&str]| -> Vec<String> {
            let running = texts(running).into_iter().collect();
            let found = predicted(&texts(named), &texts(workloads), &running);
            found.unwrap_or_default().into_iter().map(|it| it.name).collect()
        };
        let servers = ["bash", "postgres", "redis-server"];
        assert_eq!(of(&[], &[], &["bash"]), texts(&[]));
        assert_eq!(of(&[], &[], &servers), texts(&["postgresql", "redis"]));
        // Of Kafka nobody knows what its software takes.
        assert_eq!(of(&["rocksdb", "kafka"], &[], &["bash"]), texts(&["rocksdb"]));
        assert_eq!(of(&["rocksdb"], &["commit"], &servers), texts(&[]));
    }
}
