//! `durio profile`, and `durio run profile:NAME`: what databases do to their storage.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durio_bench::{Located, Permission, locate, read_text};
use durio_block::HeldTargets;
use durio_plan::ClockChoice;
use durio_report::{write_profile, write_profiles};
use durio_spec::{Location, ProfileRequest, SpecError, plan_profile};
use durio_units::{Bytes, Nanos};
use durio_workload::profile::{Profile, profile, profile_names};

use crate::args::{Expanding, Plan, Profile as Arguments, ProfileCommand, RunCommand};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::measure::{begin, execute};
use crate::output;

/// What a spec begins with that is a profile.
const PREFIX: &[u8] = b"profile:";

/// True for `profile:NAME`.
pub(super) fn is_profile(spec: &Path) -> bool {
    spec.as_os_str().as_bytes().starts_with(PREFIX)
}

pub(super) fn show(arguments: &Arguments) -> Result<Exit, Failure> {
    let options = output::terminal_options();
    let mut bytes = Vec::new();
    let written = match &arguments.command {
        ProfileCommand::List { format } => {
            let names = profile_names();
            let all: Result<Vec<Profile>, _> = names.into_iter().map(profile).collect();
            write_profiles(*format, &all.map_err(SpecError::from)?, &options, &mut bytes)
        }
        ProfileCommand::Show { name, format } => {
            write_profile(*format, &read(OsStr::new(name))?, &options, &mut bytes)
        }
    };
    written.map_err(|error| Failure::of(Exit::Fault, error).context("cannot show the profile"))?;
    output::answer(&bytes).map(|()| Exit::Fine)
}

/// Measures a profile. Nothing was asked that a verdict could answer with no: the exit code does
/// not know verdicts.
pub(super) fn run(spec: &Path, arguments: &RunCommand) -> Result<Exit, Failure> {
    let job = &arguments.job;
    let options = &job.common;
    let wanted = Wanted {
        spec,
        targets: &job.target,
        expanding: &arguments.expanding,
        duration: job.duration,
        size: job.size,
        destroy: &options.destroy,
    };
    let places = wanted.check()?;
    let execution = begin("profile", options)?;
    let held = places.held.clone();
    let request = places.request(execution.seed, options.clock, execution.file_name());
    execute(&execution, &plan_profile(&request)?, held, options).map(|(exit, _)| exit)
}

/// The plan that a run would carry out.
pub(super) fn plan(spec: &Path, arguments: &Plan) -> Result<durio_plan::Plan, Failure> {
    let wanted = Wanted {
        spec,
        targets: &arguments.target,
        expanding: &arguments.expanding,
        duration: arguments.duration,
        size: arguments.size,
        destroy: &arguments.destroy,
    };
    // Seed and clock of a run are its own.
    let request = wanted.check()?.request(0, ClockChoice::Auto, ".durio-plan".to_owned());
    Ok(plan_profile(&request)?)
}

/// What a profile is run with.
struct Wanted<'a> {
    spec: &'a Path,
    targets: &'a [PathBuf],
    expanding: &'a Expanding,
    duration: Option<Nanos>,
    size: Option<Bytes>,
    destroy: &'a [PathBuf],
}

/// The same, read and found.
struct Places {
    profile: Profile,
    held: HeldTargets,
    log: Location,
    data: Location,
    quick: bool,
    duration: Option<Nanos>,
    size: Option<Bytes>,
}

impl Wanted<'_> {
    fn check(&self) -> Result<Places, Failure> {
        let name = self.spec.as_os_str().as_bytes().strip_prefix(PREFIX).unwrap_or_default();
        let profile = read(OsStr::from_bytes(name))?;
        self.refuse_scales()?;
        let (log, data) = assign(self.targets)?;
        let mut paths = vec![&log];
        paths.extend((data != log).then_some(&data));
        let permission = Permission::Named { destroy: self.destroy, force_signature: false };
        let Located { places, held } = locate(paths, permission)?;
        let mut located = places.into_iter();
        let missing = || Failure::new(Exit::Fault, "a path was located nowhere");
        let log = located.next().ok_or_else(missing)?;
        let data = located.next().unwrap_or_else(|| log.clone());
        let (duration, size) = (self.duration, self.size);
        Ok(Places { profile, held, log, data, quick: self.expanding.quick, duration, size })
    }

    fn refuse_scales(&self) -> Result<(), Failure> {
        let it = self.expanding;
        if it.scale_time == 1000 && it.scale_size == 1000 && it.confirm_steps.is_none() {
            return Ok(());
        }
        let text = "--scale-time, --scale-size and --confirm-steps are for specs, not for profiles";
        Err(Failure::new(Exit::WrongUse, text).hint("give --duration, --size or --quick"))
    }
}

impl Places {
    fn request(self, seed: u64, clock: ClockChoice, file_name: String) -> ProfileRequest {
        let Self { profile, log, data, quick, duration, size, .. } = self;
        ProfileRequest { profile, log, data, quick, duration, size, seed, clock, file_name }
    }
}

/// The directories of log and data: `log=PATH`, `data=PATH`, or one for both.
fn assign(targets: &[PathBuf]) -> Result<(PathBuf, PathBuf), Failure> {
    let (mut log, mut data, mut both) = (None, None, None);
    for target in targets {
        let bytes = target.as_os_str().as_bytes();
        let named = |prefix: &[u8]| {
            let path = bytes.strip_prefix(prefix).filter(|_| !target.exists())?;
            Some(PathBuf::from(OsStr::from_bytes(path)))
        };
        let (place, path) = match (named(b"log="), named(b"data=")) {
            (Some(path), _) => (&mut log, path),
            (_, Some(path)) => (&mut data, path),
            (None, None) => (&mut both, target.clone()),
        };
        if place.replace(path).is_some() {
            return Err(Failure::new(
                Exit::WrongUse,
                format!("'{}' is one directory too many", target.display()),
            )
            .hint("a profile has one for its log and one for its data: --target log=DIR --target data=DIR"));
        }
    }
    let both = both.unwrap_or_else(|| PathBuf::from("."));
    Ok((log.unwrap_or_else(|| both.clone()), data.unwrap_or(both)))
}

/// A profile by its name, or of a file: what has a slash in it or ends in `.toml`.
fn read(name: &OsStr) -> Result<Profile, Failure> {
    let path = Path::new(name);
    let is_file = name.as_bytes().contains(&b'/') || name.as_bytes().ends_with(b".toml");
    if !is_file {
        return Ok(profile(&name.to_string_lossy()).map_err(SpecError::from)?);
    }
    let text = read_text(path, "profile")?;
    Ok(Profile::parse(&path.display().to_string(), &text).map_err(SpecError::from)?)
}
