//! From sections to jobs: defaults applied, values read, what cannot be honoured named.
//!
//! In: a [`JobFile`]. Out: a [`ResolvedJob`] per job section. Not here: clones (`numjobs` is a
//! number of the job), defaults of options that nobody gave, and files.

mod choices;
mod order;
mod output;
mod pattern;
mod queue;
mod settings;
mod target;

use order::Order;
use settings::Settings;

use super::options::{Class, OptionRow, find_option};
use super::values;
use super::{Direction, JobFile, JobOptions, Note, Place, Refusal, ResolvedJob, Section, Setting};
use crate::FioError;

/// Resolves all jobs.
///
/// # Errors
/// The first value that fio would reject, or would read as something else than it says. Options
/// that are understood and cannot be honoured are no errors but refusals of their job.
pub fn resolve(file: &JobFile) -> Result<Vec<ResolvedJob>, FioError> {
    let mut jobs: Vec<ResolvedJob> = Vec::new();
    let mut defaults = Settings::default();
    let mut order = Order::default();
    let mut file_number = 0;
    let exit_all = exit_all_anywhere(file);
    for section in &file.sections {
        let begins_file = section.file_number != file_number;
        if begins_file {
            defaults = Settings::default();
            file_number = section.file_number;
        }
        if section.is_global {
            defaults.add(&section.settings)?;
            continue;
        }
        let waits = file_number > 0 && !jobs.iter().any(|job| is_of(job, file, file_number));
        let mut job = resolve_section(section, defaults.clone(), (&jobs, &mut order), waits)?;
        job.options.timing.exit_all.clone_from(&exit_all);
        job.refusals.extend(file.read_only.as_ref().and_then(|at| writes_read_only(&job, at)));
        jobs.push(job);
    }
    Ok(jobs)
}

/// With `--readonly` fio refuses jobs that write.
fn writes_read_only(job: &ResolvedJob, at: &Place) -> Option<Refusal> {
    let writes =
        job.options.pattern.access.as_ref().filter(|it| it.value.direction != Direction::Read)?;
    let reason = format!("with --readonly ({at}) no job may write");
    Some(refusal_at("rw", None, &writes.at, &reason))
}

/// Whether a job stands in the `number`th file.
fn is_of(job: &ResolvedJob, file: &JobFile, number: u32) -> bool {
    let sections = file.sections.iter();
    sections.filter(|it| it.file_number == number).any(|section| section.at == job.at)
}

/// Where `exitall` stands: fio takes it for all jobs, wherever it stands and whatever its value.
fn exit_all_anywhere(file: &JobFile) -> Option<super::Given<bool>> {
    let settings = file.sections.iter().flat_map(|section| &section.settings);
    let found = settings.into_iter().find(|setting| setting.name == "exitall")?;
    Some(super::Given { value: true, at: found.at.clone() })
}

fn resolve_section<'f>(
    section: &'f Section,
    mut settings: Settings<'f>,
    (jobs, order): (&[ResolvedJob], &mut Order),
    begins_file: bool,
) -> Result<ResolvedJob, FioError> {
    settings.add(&section.settings)?;
    let (mut notes, mut refusals) = (Vec::new(), Vec::new());
    for setting in settings.last_of_each() {
        sort_out(setting, &settings, &mut notes, &mut refusals);
    }
    let options = job_options(&settings, &mut notes, &mut refusals)?;
    let is_set = |name| settings.flag(name).map(|it| it.is_some_and(|it| it.value));
    let is_walled = begins_file || is_set("stonewall")?;
    let (waits, why_not) = order.waits(is_walled, &settings, jobs)?;
    refusals.extend(why_not.map(|reason| refusal_at("wait_for", None, &section.at, &reason)));
    let begins_group = is_walled || is_set("new_group")?;
    let previous = jobs.last();
    let first_or = |begins: bool, last: Option<u32>| last.map_or(0, |it| it + u32::from(begins));
    let name = settings.text("name")?;
    let copies = settings.positive("numjobs")?;
    Ok(ResolvedJob {
        name: name.map_or_else(|| section.name.clone(), |it| it.value),
        section: section.name.clone(),
        at: section.at.clone(),
        group: first_or(waits, previous.map(|it| it.group)),
        reporting_group: first_or(begins_group, previous.map(|it| it.reporting_group)),
        copies: copies.map_or(1, |it| it.value),
        options,
        listed: section.valued_options(),
        notes,
        refusals,
    })
}

fn job_options(
    settings: &Settings<'_>,
    notes: &mut Vec<Note>,
    refusals: &mut Vec<Refusal>,
) -> Result<JobOptions, FioError> {
    Ok(JobOptions {
        description: settings.text("description")?,
        target: target::target(settings)?,
        pattern: pattern::pattern(settings, notes, refusals)?,
        queue: queue::queue(settings, refusals)?,
        durability: choices::durability(settings)?,
        timing: choices::timing(settings)?,
        placement: choices::placement(settings)?,
        data: choices::data(settings)?,
        output: output::output(settings)?,
    })
}

/// Notes an option of output, refuses one that cannot be honoured.
fn sort_out(
    setting: &Setting,
    settings: &Settings<'_>,
    notes: &mut Vec<Note>,
    refusals: &mut Vec<Refusal>,
) {
    let Some(row) = find_option(setting.name) else { return };
    match row.class {
        Class::Honoured => {}
        Class::OutputOnly => {
            notes.push(note(setting, "it changes only what fio prints or how it measures itself"));
        }
        Class::WithoutEffect { reason } => notes.push(note(setting, reason)),
        Class::Refused { .. } if is_without_verify(row.name, settings) => {
            notes.push(note(setting, "without verify it changes nothing"));
        }
        Class::Refused { unless, .. } if is_neutral(setting.value.as_deref(), unless) => {}
        Class::Refused { reason, .. } => refusals.push(refusal(setting, reason)),
    }
    if let Some(reason) = wrong_engine(row, settings) {
        refusals.push(refusal(setting, &reason));
    }
}

/// Whether an option only says how fio verifies, and nothing is verified.
fn is_without_verify(option: &str, settings: &Settings<'_>) -> bool {
    let how =
        ["verify_async", "verify_backlog", "verify_interval", "verify_offset", "verify_pattern"];
    let is_off = settings.last("verify").and_then(|it| it.value.as_deref());
    let is_how = option != "verify_only" && how.iter().any(|begin| option.starts_with(begin));
    is_how && is_off.is_none_or(|it| it == "0")
}

/// Whether a value is one of those with which nothing changes, as text or as a number.
fn is_neutral(value: Option<&str>, unless: &[&str]) -> bool {
    let Some(value) = value else { return false };
    let number = values::size(value, 1024).ok();
    let is_same = |neutral: &&str| {
        value.trim() == *neutral || (number.is_some() && number == values::size(neutral, 1024).ok())
    };
    unless.iter().any(is_same)
}

/// Why an engine's option is wrong with the job's engine: fio drops such a job.
fn wrong_engine(row: &OptionRow, settings: &Settings<'_>) -> Option<String> {
    let engine = settings.last("ioengine").and_then(|it| it.value.as_deref()).unwrap_or("psync");
    let fits = row.engines.is_empty() || row.engines.contains(&engine);
    (!fits).then(|| {
        let engines = row.engines.join(", ");
        format!("the engine {engine} has no such option (engines that have it: {engines})")
    })
}

fn note(setting: &Setting, what: &str) -> Note {
    Note {
        option: setting.name.to_owned(),
        value: setting.value.clone(),
        at: setting.at.clone(),
        what: what.to_owned(),
    }
}

fn refusal(setting: &Setting, reason: &str) -> Refusal {
    refusal_at(setting.name, setting.value.clone(), &setting.at, reason)
}

fn refusal_at(option: &str, value: Option<String>, at: &Place, reason: &str) -> Refusal {
    let (option, reason) = (option.to_owned(), reason.to_owned());
    Refusal { option, value, at: at.clone(), reason }
}
