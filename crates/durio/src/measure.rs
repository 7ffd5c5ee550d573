//! Common parts of all commands that measure: carry out a plan with progress on the terminal, and
//! print its report.

use std::io;
use std::path::{Path, PathBuf};

use durio_analyse::Findings;
use durio_base::{Bytes, Nanos};
use durio_bench::{
    Execution, InterruptedCampaign, LookFor, RunOutcome, clear_leftovers, memory_remark,
    restore_settings,
};
use durio_block::HeldTargets;
use durio_command::{CommandError, LocatedPlaces};
use durio_observe::{UnmountedPlace, unmounted_place};
use durio_plan::{Cost, LocationFacts, Plan, TargetKind};
use durio_prove::clear_dead_servers;
use durio_report::clock;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::io::Errno;

use crate::exit_code::Exit;
use crate::options::Measuring;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

/// Placeholder for the name of a run's file in a plan that is only displayed.
pub(crate) const PLAN_FILE_NAME: &str = ".durio-plan";

/// Names a run, and removes the remains of dead runs.
pub(crate) fn begin(command: &str, options: &Measuring) -> Result<Execution, CommandError> {
    let execution = Execution::begin(command, &options.run_options()).map_err(in_another_folder)?;
    clear_up();
    Ok(execution)
}

/// Adds the other way out to an error of the state folder; with --out there is none.
pub(crate) fn in_another_folder(error: CommandError) -> CommandError {
    error.hint("or give --out DIR to keep the run there")
}

/// Removes the remains of dead runs, and reports that.
pub(crate) fn clear_up() {
    // First: a setting left changed by a killed run would affect every result.
    output::remarks(restore_settings());
    output::remarks(clear_leftovers(LookFor::Marked));
    output::remarks(clear_dead_servers());
}

/// Looks up `paths`, with the permissions of `options`.
pub(crate) fn locate<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    options: &'a Measuring,
) -> Result<LocatedPlaces, CommandError> {
    let located = durio_command::locate(paths, options.permission())?;
    for place in &located.places {
        if matches!(place.facts, LocationFacts::Directory { .. }) {
            let directory = place.path.as_path();
            refuse_without_files(directory)?;
            output::remarks(missing_mount(directory));
        }
    }
    Ok(located)
}

/// Refuses a directory in which no file can be made, before its free space leads to other advice.
fn refuse_without_files(directory: &Path) -> Result<(), CommandError> {
    let Ok(facts) = statvfs(directory) else { return Ok(()) };
    let shown = directory.display();
    if facts.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let error = CommandError::cannot(io::Error::from(Errno::ROFS));
        return Err(error
            .context(format!("cannot make files in '{shown}'"))
            .hint("name a place on a filesystem mounted read-write"));
    }
    // As in /proc and /sys.
    if facts.f_blocks == 0 {
        let text = format!("'{shown}' is on a filesystem with no free space");
        return Err(
            CommandError::cannot_measure(text).hint("name a directory on the storage to measure")
        );
    }
    Ok(())
}

/// The warning about a mount point where nothing is mounted: another filesystem would be measured.
fn missing_mount(directory: &Path) -> Option<String> {
    let shown = directory.display();
    Some(match unmounted_place(directory)? {
        UnmountedPlace::Listed { mount_point, holder } => format!(
            "nothing is mounted at '{}', which /etc/fstab lists: '{shown}' is on the filesystem of '{}'",
            mount_point.display(),
            holder.display()
        ),
        UnmountedPlace::Empty { holder } => format!(
            "nothing is mounted at '{shown}', an empty directory on the filesystem of '{}'; if a disk \
             belongs there, mount it first",
            holder.display()
        ),
    })
}

/// Refuses targets that do not exist: with a misspelt or unmounted directory, durio would measure
/// the filesystem above it.
pub(crate) fn refuse_absent(plan: &Plan, options: &Measuring) -> Result<(), CommandError> {
    let absent = plan.targets.iter().find_map(|target| match &target.kind {
        TargetKind::NewFile { directory, file_name, named: true, .. } => {
            Some(directory.as_path().join(file_name.as_path()))
        }
        _ => None,
    });
    match absent.filter(|_| !options.create) {
        Some(path) => Err(CommandError::wrong_use(format!("'{}' does not exist", path.display()))
            .hint(
                "name an existing directory, file or block device; --create makes a file there for \
                 the run and removes it",
            )),
        None => Ok(()),
    }
}

/// Runs `plan` on the held targets, records it, prints the report. The exit code ignores verdicts.
pub(crate) fn execute(
    execution: &Execution,
    plan: &Plan,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), CommandError> {
    consent(plan.cost(), options)?;
    // Before the first file, so that a stop from now on leaves a record that says so.
    let stop = stop_on_signals()?;
    output::remarks(memory_remark(plan));
    conclude(execution.execute(plan, held, &stop, &Terminal::new(options.quiet))?, options)
}

// Starting a command implies consent to this much.
pub(crate) const TIME_MAX: Nanos = Nanos::from_secs(600);
const BYTES_MAX: Bytes = Bytes::from_gib(16);

/// Announces a high cost, and asks for consent.
pub(crate) fn consent(cost: Cost, options: &Measuring) -> Result<(), CommandError> {
    let Cost { time, written, writing, space } = cost;
    if time <= TIME_MAX && written <= BYTES_MAX && space <= BYTES_MAX {
        return Ok(());
    }
    let mut parts = Vec::new();
    if time > Nanos::ZERO {
        parts.push(format!("takes up to {}", clock(time)));
    }
    if written > Bytes::ZERO {
        parts.push(format!("writes up to {written}"));
    }
    if writing > Nanos::ZERO {
        parts.push(format!("writes as fast as the storage takes it for {}", clock(writing)));
    }
    if space > Bytes::ZERO {
        parts.push(format!("needs {space} of space"));
    }
    let text = format!("this {}", parts.join(", "));
    if options.yes {
        output::remark(&format!("durio: {text}"));
        return Ok(());
    }
    match output::agreed(&text)? {
        true => Ok(()),
        false => Err(CommandError::wrong_use("nothing was done")),
    }
}

/// Continues an interrupted run in its folder.
pub(crate) fn resume(
    execution: &Execution,
    interrupted: &InterruptedCampaign,
    held: HeldTargets,
    options: &Measuring,
) -> Result<(Exit, Findings), CommandError> {
    let stop = stop_on_signals()?;
    output::remarks(memory_remark(&interrupted.folder.plan));
    conclude(execution.resume(interrupted, held, &stop, &Terminal::new(options.quiet))?, options)
}

fn conclude(executed: RunOutcome, options: &Measuring) -> Result<(Exit, Findings), CommandError> {
    let RunOutcome { findings, outcome } = executed;
    // A report without results would only hide the error that follows.
    if outcome.is_ok() || !findings.workloads.is_empty() {
        output::report(options.output, &findings)?;
    }
    Ok((Exit::from(outcome?), findings))
}
