//! `durio profile`, and `durio run profile:NAME`: profiles of databases' use of storage.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durio_bench::{BenchError, BenchErrorKind, LocatedPlaces, Permission, locate, read_text};
use durio_block::HeldTargets;
use durio_plan::ClockChoice;
use durio_report::ProfileList;
use durio_spec::profile::{LogSetting, Profile, profile, profile_names, profile_text};
use durio_spec::{ProfileRequest, plan_profile};

use super::{PLAN_FILE_NAME, calibrate};
use crate::args::{
    Expanding, PlanArguments, ProfileArguments as Arguments, ProfileCommand, RunCommand,
};
use crate::exit_code::Exit;
use crate::measure::{begin, execute};
use crate::output;

/// Prefix of a spec that names a profile.
const PREFIX: &[u8] = b"profile:";

/// True for `profile:NAME`.
pub(super) fn is_profile(spec: &Path) -> bool {
    spec.as_os_str().as_bytes().starts_with(PREFIX)
}

pub(super) fn show(arguments: &Arguments) -> Result<Exit, BenchError> {
    match &arguments.command {
        ProfileCommand::List { output: shown } => {
            let all: Result<Vec<Profile>, _> = profile_names().into_iter().map(profile).collect();
            output::report(*shown, &ProfileList::new(&all?))?;
        }
        ProfileCommand::Show { name, output: shown } => {
            output::report(*shown, &read(OsStr::new(name), &[])?)?;
        }
        ProfileCommand::Calibrate(arguments) => return calibrate::calibrate_profile(arguments),
    }
    Ok(Exit::Fine)
}

/// Measures a profile. The exit code ignores verdicts, because the user asked no yes-or-no
/// question.
pub(super) fn run(spec: &Path, arguments: &RunCommand) -> Result<Exit, BenchError> {
    let job = &arguments.job;
    let options = &job.common;
    let expanding = &arguments.expanding;
    let (request, held) = request(spec, &job.target, expanding, &options.destroy)?;
    let execution = begin("profile", options)?;
    let plan = plan_profile(&ProfileRequest {
        duration: job.duration,
        size: job.size,
        seed: execution.seed,
        clock: options.clock,
        file_name: execution.file_name(),
        ..request
    })?;
    execute(&execution, &plan, held, options).map(|(exit, _)| exit)
}

/// The plan that a run would carry out.
pub(super) fn plan(spec: &Path, arguments: &PlanArguments) -> Result<durio_plan::Plan, BenchError> {
    let (targets, destroy) = (&arguments.target, &arguments.destroy);
    let (request, _) = request(spec, targets, &arguments.expanding, destroy)?;
    let (duration, size) = (arguments.duration, arguments.size);
    Ok(plan_profile(&ProfileRequest { duration, size, ..request })?)
}

/// A request for a profile with its places. Duration, size, seed, clock and name are those of a
/// plan that is only displayed.
fn request(
    spec: &Path,
    targets: &[PathBuf],
    expanding: &Expanding,
    destroy: &[PathBuf],
) -> Result<(ProfileRequest, HeldTargets), BenchError> {
    let name = spec.as_os_str().as_bytes().strip_prefix(PREFIX).unwrap_or_default();
    let profile = read(OsStr::from_bytes(name), &[])?;
    if expanding.is_scaled() {
        let text = "--scale-time, --scale-size and --confirm-steps are for specs, not for profiles";
        return Err(BenchError::wrong_use(text).hint("give --duration, --size or --quick"));
    }
    let (log, data) = assign(targets)?;
    // One directory for both is named once: two names of one place are refused.
    let paths = std::iter::once(&log).chain((data != log).then_some(&data));
    let permission = Permission::Named { destroy, force_signature: false };
    let LocatedPlaces { places, held } = locate(paths, permission)?;
    let mut located = places.into_iter();
    let missing = || BenchError::new(BenchErrorKind::Fault, "a path was located nowhere");
    let log = located.next().ok_or_else(missing)?;
    let request = ProfileRequest {
        profile,
        data: located.next().unwrap_or_else(|| log.clone()),
        log,
        quick: expanding.quick,
        duration: None,
        size: None,
        seed: 0,
        clock: ClockChoice::Auto,
        file_name: PLAN_FILE_NAME.to_owned(),
    };
    Ok((request, held))
}

/// The directories of log and data: `log=PATH`, `data=PATH`, or one for both.
fn assign(targets: &[PathBuf]) -> Result<(PathBuf, PathBuf), BenchError> {
    let (mut log, mut data, mut both) = (None, None, None);
    for target in targets {
        let bytes = target.as_os_str().as_bytes();
        let named = |prefix: &[u8]| {
            // A directory may be called log=x.
            let path = bytes.strip_prefix(prefix).filter(|_| !target.exists())?;
            Some(PathBuf::from(OsStr::from_bytes(path)))
        };
        let (place, path) = match (named(b"log="), named(b"data=")) {
            (Some(path), _) => (&mut log, path),
            (_, Some(path)) => (&mut data, path),
            (None, None) => (&mut both, target.clone()),
        };
        if place.replace(path).is_some() {
            return Err(BenchError::wrong_use(format!("'{}' is one directory too many", target.display()),
            )
            .hint("a profile has one for its log and one for its data: --target log=DIR --target data=DIR"));
        }
    }
    let both = both.unwrap_or_else(|| PathBuf::from("."));
    Ok((log.unwrap_or_else(|| both.clone()), data.unwrap_or(both)))
}

/// Reads a profile by its name, or from a file if the name has a slash or ends in `.toml`.
/// `settings` override values of its log.
pub(super) fn read(name: &OsStr, settings: &[LogSetting]) -> Result<Profile, BenchError> {
    let shown = name.display().to_string();
    Ok(Profile::parse_with(&shown, &text(name)?, settings)?)
}

/// The text of a profile.
pub(super) fn text(name: &OsStr) -> Result<String, BenchError> {
    // A built-in name has neither, so a file in the directory cannot replace it.
    let is_file = name.as_bytes().contains(&b'/') || name.as_bytes().ends_with(b".toml");
    match is_file {
        true => read_text(Path::new(name), "profile"),
        false => Ok(profile_text(&name.display().to_string())?.to_owned()),
    }
}
