//! Whether this host permits what a campaign would write.
//!
//! The agent plans the spec with the durio of this host and compares every write to come with the host file:
//! an order names a target by its word, and the file says what that may be.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use durio_base::{Bytes, Nanos};
use durio_command::CommandError;
use serde::{Deserialize, Serialize};

use crate::clock::later;
use crate::host_file::{HostFile, HostLimits, HostPermit, PermittedHours, PermittedPlace};
use crate::host_name::shown;
use crate::message::{PlannedWrite, WritePlace};

const DAY_MINUTES: u32 = 24 * 60;
/// Time between two looks at what a run has written.
const WATCH_EVERY: Nanos = Nanos::from_millis(500);

/// All that a plan would write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWrites {
    pub writes: Vec<PlannedWrite>,
    /// Of the whole plan; absent if nothing limits it.
    pub duration: Option<Nanos>,
    /// False if programs other than durio write: their bytes cannot be watched.
    pub is_watchable: bool,
}

/// Where permits come from.
#[derive(Debug, Clone, Copy)]
pub enum PermitSource<'p> {
    File(&'p HostFile),
    /// Words and folders of `--target`, by ssh on a host without a file. The login is the consent:
    /// files that durio makes and removes there, and nothing else.
    Targets(&'p [(String, PathBuf)]),
}

/// Ends a run before it writes more than a permit allows, where the plan does not limit that itself.
///
/// The bytes of the whole run are counted: no single target has more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteWatch {
    target: String,
    allowed: Bytes,
    written: Bytes,
    due: Nanos,
}

impl WriteWatch {
    fn new(target: &str, allowed: Bytes) -> Self {
        let target = shown(target);
        Self { target, allowed, written: Bytes::ZERO, due: Nanos::ZERO }
    }

    /// When it looks next: twice a second.
    pub fn due(&self) -> Nanos {
        self.due
    }

    /// Why the run has to end, if by the next look it would have written too much; `written` is
    /// absent if the kernel does not tell.
    pub fn note(&mut self, now: Nanos, written: Option<Bytes>) -> Option<String> {
        let Self { target, allowed, .. } = &*self;
        let limit = format!("written_max of permit '{target}' is {allowed}");
        let Some(written) = written else {
            return Some(format!("cannot see how much the run writes; {limit}"));
        };
        let growth = written.get().saturating_sub(self.written.get());
        let is_near = written.get().saturating_add(growth) > allowed.get();
        (self.written, self.due) = (written, later(now, WATCH_EVERY));
        is_near.then(|| format!("the run has written {written}; {limit}"))
    }
}

/// The times in which the host's file permits a run, on the host's monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PermittedTime {
    duration_max: Option<Nanos>,
    hours: Option<OpenHours>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenHours {
    hours: PermittedHours,
    begin_by: Nanos,
    end: Nanos,
}

impl PermittedTime {
    /// Of a plan that was permitted at `today`, which is `now` on the monotonic clock.
    pub fn new(
        plan: &PlannedWrites,
        limits: &HostLimits,
        (today, now): (SystemTime, Nanos),
    ) -> Self {
        let open = |hours| {
            let (passed, length) = passed_and_length(hours, today);
            let end = later(now, length.saturating_sub(passed));
            let begin_by = end.saturating_sub(plan.duration.unwrap_or_default());
            OpenHours { hours, begin_by, end }
        };
        Self { duration_max: limits.duration_max, hours: limits.hours.map(open) }
    }

    /// Why a run must not begin now, if the operator agreed too late.
    pub fn too_late(&self, now: Nanos) -> Option<String> {
        let open = self.hours.filter(|open| now > open.begin_by)?;
        Some(format!("the run would not end within the hours {} UTC any more", open.hours))
    }

    /// The last moment of a run that began at `began` at which no limit is passed.
    pub fn last_moment(&self, began: Nanos) -> Option<Nanos> {
        let by_duration = self.duration_max.map(|allowed| later(began, allowed));
        self.hours.map(|open| open.end).into_iter().chain(by_duration).min()
    }

    /// The limit that is passed `at` this time by a run that began at `began`.
    pub fn passed(&self, began: Nanos, at: Nanos) -> Option<String> {
        if let Some(open) = self.hours.filter(|open| at > open.end) {
            return Some(format!("the hours {} UTC", open.hours));
        }
        let allowed = self.duration_max.filter(|allowed| at.saturating_sub(began) > *allowed)?;
        Some(format!("duration_max of {allowed}"))
    }
}

/// Permits all writes of a plan that is to start `now`, ordered by the coordinator of `key`. A watch
/// has to look at the run while it lasts.
///
/// # Errors
/// With the first permit that is missing or exceeded, what was asked and what is allowed.
pub fn permitted(
    plan: &PlannedWrites,
    source: PermitSource<'_>,
    now: SystemTime,
    key: &str,
) -> Result<Option<WriteWatch>, CommandError> {
    match source {
        PermitSource::File(file) => permitted_by_file(plan, file, now, key),
        PermitSource::Targets(targets) => {
            plan.writes.iter().try_for_each(|write| permitted_by_target(write, targets))?;
            Ok(None)
        }
    }
}

fn permitted_by_file(
    plan: &PlannedWrites,
    file: &HostFile,
    now: SystemTime,
    key: &str,
) -> Result<Option<WriteWatch>, CommandError> {
    let coordinator = file.coordinators.iter().find(|known| known.key == key).ok_or_else(|| {
        refused(format!("the coordinator's key '{}' is not in the host file", shown(key)))
            .hint("add it as [[coordinator]] to /etc/durio/fleet.toml if you trust it")
    })?;
    check_times(plan, &file.limits, now)?;
    let mut used: Vec<&HostPermit> = Vec::new();
    for write in &plan.writes {
        let permit = file
            .permits
            .iter()
            .find(|permit| permit.coordinator == coordinator.name && permit.target == write.target)
            .ok_or_else(|| no_permit(&write.target, &coordinator.name))?;
        check_place(permit, write)?;
        if !used.contains(&permit) {
            used.push(permit);
        }
    }
    let watches = used.into_iter().map(|permit| check_amounts(permit, plan));
    let watches = watches.collect::<Result<Vec<Option<WriteWatch>>, CommandError>>()?;
    Ok(watches.into_iter().flatten().min_by_key(|watch| watch.allowed))
}

/// The serial number of the device that the coordinator of this key may overwrite as this target, and
/// whether it may even hold a filesystem or an array's member.
pub fn overwritable<'f>(file: &'f HostFile, key: &str, target: &str) -> Option<(&'f str, bool)> {
    let coordinator = file.coordinators.iter().find(|known| known.key == key)?;
    let is_meant =
        |permit: &&HostPermit| permit.coordinator == coordinator.name && permit.target == target;
    match &file.permits.iter().find(is_meant)?.place {
        PermittedPlace::Device { serial, destroy: true, force_signature } => {
            Some((serial.as_str(), *force_signature))
        }
        PermittedPlace::Device { .. } | PermittedPlace::Folder(_) => None,
    }
}

fn no_permit(target: &str, coordinator: &str) -> CommandError {
    let target = shown(target);
    refused(format!("coordinator '{coordinator}' has no permit for target '{target}'"))
        .hint("add it as [[permit]] to /etc/durio/fleet.toml on this host")
}

fn permitted_by_target(
    write: &PlannedWrite,
    targets: &[(String, PathBuf)],
) -> Result<(), CommandError> {
    let target = shown(&write.target);
    let WritePlace::Folder(planned) = &write.place else {
        return Err(refused(format!(
            "target '{target}' is a device, and this host has no host file"
        ))
        .hint("only /etc/durio/fleet.toml permits devices, by serial number"));
    };
    let (_, folder) = targets.iter().find(|(word, _)| *word == write.target).ok_or_else(|| {
        refused(format!("target '{target}' is not among the folders of --target"))
    })?;
    check_folder(&target, folder, write, planned)
}

fn check_place(permit: &HostPermit, write: &PlannedWrite) -> Result<(), CommandError> {
    let target = shown(&permit.target);
    let permitted = match &permit.place {
        PermittedPlace::Folder(folder) => format!("the folder '{}'", folder.display()),
        PermittedPlace::Device { serial, .. } => format!("the device with serial '{serial}'"),
    };
    let asked = match (&permit.place, &write.place) {
        (PermittedPlace::Folder(folder), WritePlace::Folder(planned)) => {
            return check_folder(&target, folder, write, planned);
        }
        (
            PermittedPlace::Device { serial, destroy, .. },
            WritePlace::Device { serial: planned, .. },
        ) if serial == planned => {
            return match destroy {
                true => Ok(()),
                false => Err(refused(format!(
                    "permit '{target}' does not allow overwriting {permitted}"
                ))
                .hint("destroy = true in the permit allows it")),
            };
        }
        (PermittedPlace::Device { .. }, WritePlace::Device { serial, .. }) => {
            format!("'{}'", shown(serial))
        }
        (_, WritePlace::Device { path, .. }) => format!("the device '{}'", path.display()),
        (_, WritePlace::Folder(planned)) => format!("the folder '{}'", planned.display()),
    };
    Err(refused(format!("permit '{target}' is for {permitted}; the plan writes to {asked}")))
}

/// Only new files, in or below the folder, which is reached without a link.
fn check_folder(
    target: &str,
    folder: &Path,
    write: &PlannedWrite,
    planned: &Path,
) -> Result<(), CommandError> {
    let (permitted, asked) = (folder.display(), planned.display());
    let is_plain = planned.components().all(|part| part != Component::ParentDir);
    if !is_plain || !planned.starts_with(folder) {
        return Err(refused(format!(
            "permit '{target}' is for the folder '{permitted}'; the plan writes to '{asked}'"
        )));
    }
    if write.destroys {
        return Err(refused(format!(
            "permit '{target}' is for new files; the plan overwrites existing files in '{asked}'"
        )));
    }
    for place in planned.ancestors().filter(|place| !place.as_os_str().is_empty()) {
        let facts = match place.symlink_metadata() {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let reason = format!("permit '{target}': '{}' does not exist", place.display());
                return Err(refused(reason));
            }
            Err(error) => return Err(CommandError::io("look at", place, error)),
        };
        let is = match (facts.is_symlink(), facts.is_dir()) {
            (_, true) => continue,
            (true, false) => "is a symbolic link",
            (false, false) => "is not a folder",
        };
        return Err(refused(format!("permit '{target}': '{}' {is}", place.display()))
            .hint("permit the folder itself, by its path without links"));
    }
    Ok(())
}

/// The sums of all writes to the permit's target. A run writes an unknown amount in a given time, so
/// that is watched where it can be.
fn check_amounts(
    permit: &HostPermit,
    plan: &PlannedWrites,
) -> Result<Option<WriteWatch>, CommandError> {
    let of_target = || plan.writes.iter().filter(|write| write.target == permit.target);
    let size = sum(of_target().map(|write| Some(write.size)));
    let written = sum(of_target().map(|write| write.written));
    let rate = sum(of_target().map(|write| write.rate));
    let watched = permit.written_max.filter(|_| written.is_none() && plan.is_watchable);
    let written_max = permit.written_max.filter(|_| watched.is_none());
    let rows = [
        ("size", "size_max", size, permit.size_max, ""),
        ("bytes written", "written_max", written, written_max, ""),
        ("write rate", "rate_max", rate, permit.rate_max, "/s"),
    ];
    let target = shown(&permit.target);
    for (what, key, asked, allowed, per) in rows {
        let Some(allowed) = allowed else { continue };
        match asked {
            Some(asked) if asked <= allowed => {}
            Some(asked) => {
                return Err(refused(format!(
                    "permit '{target}': {what} {asked}{per} exceeds {key} of {allowed}{per}"
                )));
            }
            None => {
                return Err(refused(format!(
                    "permit '{target}': the plan does not limit its {what}; {key} is \
                     {allowed}{per}"
                ))
                .hint(match key {
                    "rate_max" => {
                        "give every step that writes a rate, and the target layout = \"empty\""
                    }
                    _ => "limit the volume or the operations of every step that writes",
                }));
            }
        }
    }
    Ok(watched.map(|allowed| WriteWatch::new(&permit.target, allowed)))
}

/// None if one of them is not limited.
fn sum(amounts: impl Iterator<Item = Option<Bytes>>) -> Option<Bytes> {
    let mut total = 0_u64;
    for amount in amounts {
        total = total.saturating_add(amount?.get());
    }
    Some(Bytes::new(total))
}

fn check_times(
    plan: &PlannedWrites,
    limits: &HostLimits,
    now: SystemTime,
) -> Result<(), CommandError> {
    let unlimited = |limit: String| {
        refused(format!("the plan does not limit its duration; {limit}"))
            .hint("limit it in the spec")
    };
    if let Some(allowed) = limits.duration_max {
        let limit = format!("duration_max is {allowed}");
        let duration = plan.duration.ok_or_else(|| unlimited(limit))?;
        if duration > allowed {
            let reason =
                format!("the plan takes {duration}, which exceeds duration_max of {allowed}");
            return Err(refused(reason));
        }
    }
    if let Some(hours) = limits.hours {
        let limit = format!("hours are {hours} UTC");
        let duration = plan.duration.ok_or_else(|| unlimited(limit))?;
        check_hours(hours, now, duration)?;
    }
    Ok(())
}

/// The whole plan has to be within one span of permitted hours.
fn check_hours(
    hours: PermittedHours,
    now: SystemTime,
    duration: Nanos,
) -> Result<(), CommandError> {
    let (passed, length) = passed_and_length(hours, now);
    if later(passed, duration) <= length {
        return Ok(());
    }
    let minute = of_day(now).get() / minutes(1).get();
    let (hour, minute) = (minute / 60, minute % 60);
    Err(refused(format!(
        "a plan of {duration} that starts at {hour:02}:{minute:02} UTC is not within the hours \
         {hours} UTC"
    )))
}

/// Time since the hours began, today or yesterday, and how long they last.
fn passed_and_length(hours: PermittedHours, now: SystemTime) -> (Nanos, Nanos) {
    let day = minutes(DAY_MINUTES).get();
    let passed = (of_day(now).get() + day - minutes(hours.begin).get()) % day;
    (Nanos::new(passed), minutes((hours.end + DAY_MINUTES - hours.begin) % DAY_MINUTES))
}

fn of_day(now: SystemTime) -> Nanos {
    let since_epoch = Nanos::from(now.duration_since(UNIX_EPOCH).unwrap_or_default());
    Nanos::new(since_epoch.get() % minutes(DAY_MINUTES).get())
}

fn minutes(count: u32) -> Nanos {
    const MINUTE_SECONDS: u64 = 60;
    Nanos::from_secs(u64::from(count) * MINUTE_SECONDS)
}

fn refused(reason: String) -> CommandError {
    CommandError::cannot_measure(reason)
}

#[cfg(test)]
mod tests;
