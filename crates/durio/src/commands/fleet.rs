//! `durio fleet`: many hosts as one. The report is made here, from folders alone; what needs a network
//! is the program `durio-fleet`, which replaces this process.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};
use durio_base::did_you_mean;
use durio_command::CommandError;
use durio_hosts::{FleetGoal, FleetReport, judge_goal, read_hosts};
use durio_plan::Threshold;
use durio_spec::written;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::output;

/// Measure many hosts as one, and name the slow ones
///
/// durio fleet report works on folders alone, which any tool may have collected; it needs no other
/// program and no network. The other commands are those of the program durio-fleet, which durio
/// starts with the same arguments; it lies next to durio or in a directory of PATH:
///
/// Before a campaign:
///   doctor       whether each host can take part, and this machine can lead them
///   plan         every write on every host; nothing is run
///
/// A campaign:
///   run          run a spec on every host at the same time, collect the runs and report
///   check        the same with the workloads of durio check
///   confirm      run the suspects of a campaign again, with other hosts for comparison
///
/// A campaign that runs, was cut, or has ended:
///   status       the hosts and what became of each
///   stop         end it in order; the runs are collected
///   resume       continue it after its coordinator ended
///   collect      fetch the runs of hosts that were lost, and are back
///   report       the results (needs durio alone)
///
/// The bus and the hosts:
///   permissions  what the users of a NATS server of your site may do, for --bus tls://HOST:PORT
///   serve        a bus that hosts join by themselves, for --via joined
///   invite       the credentials of such hosts
///   join         take part as a host; run starts it, or a service on the host
///
/// A host is suspect if it differs from hosts like it by more than chance explains, and slow once
/// fresh runs have confirmed that (durio fleet confirm).
///
///   durio fleet report hosts                   # run folders, in a folder for each host
///   durio fleet report hosts --goal 'commit p99 < 5ms'
///   durio fleet check --hosts db[01-40] --target data=/srv/data --goal 'commit p99 < 5ms'
///   durio fleet run db-ladder --hosts db[01-40] --target data=/srv/data
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct FleetArguments {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    Report(FleetReportArguments),
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Report on the runs of many hosts: slow hosts, what they share, and shared storage as a whole
///
/// DIR is the folder of a campaign, a folder with a folder for each host (hosts/db17/RUN), or a run
/// folder, whose host is then known from its record. Several runs of one host are repeats, and show
/// smaller differences than one.
///
///   durio fleet report campaign
///   durio fleet report hosts --output hosts.html
///   durio fleet report hosts --goal 'commit p99 < 5ms'
///
/// Hosts are compared with hosts of the same hardware and software only. From 20 alike on, a host is
/// suspect by its distance from the median (Benjamini-Hochberg over the hosts); below, by Student's
/// t against all others (Holm over hosts and figures). Fewer than 5 alike are shown, not judged.
/// Where hosts share storage, rates and latencies are those of all together, in the time in which
/// all ran: sums of rates and means of percentiles are numbers that the storage never gave.
///
/// Text has the worst hosts (100 with --verbose); html, csv, openmetrics and json have all.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct FleetReportArguments {
    /// Folder of a campaign, folder with a folder for each host, or run folder
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,

    /// Exit with 1 if a host misses this goal, such as 'commit p99 < 5ms' (can be repeated)
    ///
    /// Written as for durio check: WORKLOAD MEASURE < TIME for a latency (p50, p99 or p99.9), or
    /// WORKLOAD rate > N. The worst run of each host counts. Exit with 3 if a host could not be
    /// compared.
    #[arg(long = "goal", value_name = "GOAL", value_parser = written::check_goal)]
    pub(crate) goals: Vec<Threshold>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// The program with all that needs a network.
const PROGRAM: &str = "durio-fleet";

/// The commands that it has.
const COMMANDS: [&str; 13] = [
    "run",
    "check",
    "plan",
    "doctor",
    "confirm",
    "status",
    "stop",
    "resume",
    "collect",
    "join",
    "permissions",
    "serve",
    "invite",
];

pub(crate) fn fleet(arguments: &FleetArguments) -> Result<Exit, CommandError> {
    match &arguments.command {
        FleetCommand::Report(arguments) => report(arguments),
        FleetCommand::Other(words) => Err(hand_on(words)),
    }
}

fn report(arguments: &FleetReportArguments) -> Result<Exit, CommandError> {
    let findings = read_hosts(&arguments.folders).map_err(CommandError::cannot)?;
    let goals = arguments.goals.iter().map(|goal| judge_goal(goal, &findings));
    let goals = goals.collect::<Result<Vec<_>, String>>().map_err(CommandError::wrong_use)?;
    let report = FleetReport { findings: &findings, goals };
    output::report(arguments.output, &report)?;
    let missed: Vec<String> = report.goals.iter().filter_map(FleetGoal::missed_text).collect();
    let open: Vec<String> = report.goals.iter().filter_map(FleetGoal::open_text).collect();
    output::remarks(missed.iter().map(|text| format!("goal missed: {text}")));
    output::remarks(open.iter().map(|text| format!("goal not compared: {text}")));
    Ok(match (missed.is_empty(), open.is_empty()) {
        (false, _) => Exit::Negative,
        (true, false) => Exit::CANNOT_MEASURE,
        (true, true) => Exit::Fine,
    })
}

/// Becomes `durio-fleet`; the error, if that is not possible.
fn hand_on(words: &[OsString]) -> CommandError {
    let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    if !COMMANDS.contains(&&*name) {
        let known = [["report"].as_slice(), &COMMANDS].concat();
        let text = format!("'{name}' is not a command of durio fleet");
        return CommandError::wrong_use(text).hint(did_you_mean(&name, &known, "expected"));
    }
    if let Err(reason) = goals_of(words).try_for_each(|goal| written::check_goal(goal).map(drop)) {
        return CommandError::wrong_use(reason);
    }
    let neighbour = std::env::current_exe().ok();
    let neighbour = neighbour.and_then(|program| Some(program.parent()?.join(PROGRAM)));
    let program = neighbour.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(words).exec();
    if error.kind() != io::ErrorKind::NotFound {
        return CommandError::io("start", &program, error);
    }
    CommandError::cannot_measure(format!(
        "durio fleet {name} needs the program {PROGRAM}, which is not installed"
    ))
    .hint(format!("install {PROGRAM} next to durio or in a directory of PATH"))
    .hint("durio fleet report needs durio alone, on run folders that any tool has collected")
}

/// The values of `--goal`. The program that is started hands them to `durio fleet report`, after a
/// campaign that a misspelt one must not cost.
fn goals_of(words: &[OsString]) -> impl Iterator<Item = &str> {
    let after = words.iter().skip(1);
    let separate = words.iter().zip(after).filter(|(word, _)| *word == "--goal");
    let separate = separate.filter_map(|(_, value)| value.to_str());
    let joined = words.iter().filter_map(|word| word.to_str()?.strip_prefix("--goal="));
    separate.chain(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_read_before_the_hosts_are_asked() {
        let words = ["check", "--goal", "commit p99 < 5ms", "--yes", "--goal=lookup rate > 20"];
        let words = words.map(OsString::from);
        let goals: Vec<&str> = goals_of(&words).collect();
        assert_eq!(goals, ["commit p99 < 5ms", "lookup rate > 20"]);
        let wrong = ["check", "--goal=commit p98 < 5ms"].map(OsString::from);
        let error = hand_on(&wrong);
        assert!(error.to_string().contains("'commit p98 < 5ms' is not a goal"), "{error}");
    }
}
