//! `durio profile`, and `durio run profile:NAME`: profiles of databases' use of storage.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use durio_base::Nanos;
use durio_bench::{
    CalibrationRequest, Execution, RunOptions, busy_processors, calibrate, read_text,
};
use durio_block::HeldTargets;
use durio_command::{
    CommandError, CommandErrorKind, LocatedPlaces, Permission, ProgressObserver, StopFlag, locate,
};
use durio_observe::read_host;
use durio_plan::{ClockChoice, Plan};
use durio_record::FolderName;
use durio_report::{Format, ProfileList};
use durio_spec::profile::{
    LogSetting, Profile, calibrated_text, profile, profile_names, profile_text,
};
use durio_spec::{PredictRequest, ProfileRequest, plan_predict, plan_profile, predicted_clients};

use crate::exit_code::{Exit, TABLE};
use crate::measure::{PLAN_FILE_NAME, begin, clear_up, execute};
use crate::options::{Expanding, OutputArguments, PlanArguments, RunCommand};
use crate::output::{self, named_as_file, write_new};
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;
use crate::values::refuse_existing;

/// Show what databases do to their storage, field by field, each with its source
///
/// A profile describes the log that commits wait for, and the background load: lookups,
/// checkpoints, compactions. `durio run profile:NAME --target DIR` measures the log idle and under
/// that load.
///
///   durio profile list
///   durio profile show postgresql
///   durio profile show ./mine.toml
///   durio profile calibrate postgresql --profile mine.toml --command 'pgbench -c {clients} -T 5'
///   durio run profile:postgresql --target /data
///   durio run profile:./mine.toml --target log=/log --target data=/data
///
/// `durio spec show NAME` prints one to start from. Values without a source are marked as general
/// knowledge or as durio's guess: replace them with values from your own database.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the built-in profiles
    List {
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Show a profile: every field with its value and source
    Show {
        /// Name of a profile, or the path of a TOML file
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    Calibrate(Calibrate),
}

/// Measure the CPU time that a database's software takes on this machine
///
/// durio predict runs a model of the database: its threads, with CPU times measured on another
/// machine. This command runs your database (loaded by your command, without a disk) and that model
/// in memory alternately, and writes a profile that makes the model as fast as the database. It
/// takes three to four minutes.
///
///   durio profile calibrate postgresql --profile mine.toml \
///       --command 'pgbench -n -f insert.sql -c {clients} -T 5'
///   durio predict ./mine.toml /data
///
/// Set the database up so that it does not wait for a disk: PostgreSQL with fsync=off, Redis with
/// appendfsync no, any other with its files in /dev/shm. Use a database whose data you can afford
/// to lose, otherwise with your own settings. The command's transaction must be the smallest durable
/// one, such as one INSERT. The machine must be idle otherwise.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Calibrate {
    /// Name of a profile that has [software], or the path of a TOML file
    #[arg(value_name = "DATABASE")]
    pub(crate) name: String,

    /// Shell command that loads the database; {clients} is replaced by the number of clients
    ///
    /// It prints its rate like pgbench, redis-benchmark, sysbench, db_bench or YCSB, or ends with a
    /// line that has only the transactions per second. Five seconds per number of clients are
    /// enough.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) command: String,

    /// Numbers of concurrent clients [default: 1,8,32; 1 for SQLite]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) clients: Vec<u32>,

    /// Write the profile to this new file; durio predict FILE uses it
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: PathBuf,

    /// Measured time of the model per number of clients, in each round
    #[arg(long, value_name = "TIME", default_value = "3s")]
    pub(crate) duration: Nanos,

    /// In-memory directory for the model's log
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub(crate) memory: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Prefix of a spec that names a profile.
const PREFIX: &[u8] = b"profile:";

/// True for `profile:NAME`.
pub(super) fn is_profile(spec: &Path) -> bool {
    spec.as_os_str().as_bytes().starts_with(PREFIX)
}

pub(super) fn show(arguments: &ProfileArguments) -> Result<Exit, CommandError> {
    match &arguments.command {
        ProfileCommand::List { output: shown } => {
            let all: Result<Vec<Profile>, _> = profile_names().into_iter().map(profile).collect();
            output::report(*shown, &ProfileList::new(&all?))?;
        }
        ProfileCommand::Show { name, output: shown } => {
            output::report(*shown, &read(OsStr::new(name), &[])?)?;
        }
        ProfileCommand::Calibrate(arguments) => return calibrate_profile(arguments),
    }
    Ok(Exit::Fine)
}

/// Measures a profile. The exit code ignores verdicts, because the user asked no yes-or-no
/// question.
pub(super) fn run(
    spec: &Path,
    arguments: &RunCommand,
    gate: Option<UnixStream>,
) -> Result<Exit, CommandError> {
    let job = &arguments.job;
    let options = &job.common;
    let expanding = &arguments.expanding;
    let (request, held) = request(spec, &job.target, expanding, &options.destroy)?;
    let execution = begin("profile", options)?.with_gate(gate);
    let execution = execution.with_why(arguments.own.explained());
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
pub(super) fn plan(
    spec: &Path,
    arguments: &PlanArguments,
) -> Result<durio_plan::Plan, CommandError> {
    let (targets, destroy) = (&arguments.target, &arguments.destroy);
    let (request, _) = request(spec, targets, &arguments.expanding, destroy)?;
    let (duration, size) = (arguments.duration, arguments.size);
    plan_profile(&ProfileRequest { duration, size, ..request })
}

/// A request for a profile with its places. Duration, size, seed, clock and name are those of a
/// plan that is only displayed.
fn request(
    spec: &Path,
    targets: &[PathBuf],
    expanding: &Expanding,
    destroy: &[PathBuf],
) -> Result<(ProfileRequest, HeldTargets), CommandError> {
    let name = spec.as_os_str().as_bytes().strip_prefix(PREFIX).unwrap_or_default();
    let profile = read(OsStr::from_bytes(name), &[])?;
    if expanding.is_scaled() {
        let text = "--scale-time, --scale-size and --confirm-steps are for specs, not for profiles";
        return Err(CommandError::wrong_use(text).hint("give --duration, --size or --quick"));
    }
    let (log, data) = assign(targets)?;
    // One directory for both is named once: two names of one place are refused.
    let paths = std::iter::once(&log).chain((data != log).then_some(&data));
    let permission = Permission::Named { destroy, force_signature: false };
    let LocatedPlaces { places, held } = locate(paths, permission)?;
    let mut located = places.into_iter();
    let missing = || CommandError::new(CommandErrorKind::Fault, "a path has no location");
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
fn assign(targets: &[PathBuf]) -> Result<(PathBuf, PathBuf), CommandError> {
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
            return Err(CommandError::wrong_use(format!("one directory too many: '{}'", target.display()),
            )
            .hint("a profile has one target for its log and one for its data: --target log=DIR --target data=DIR"));
        }
    }
    let both = both.unwrap_or_else(|| PathBuf::from("."));
    Ok((log.unwrap_or_else(|| both.clone()), data.unwrap_or(both)))
}

/// Reads a profile by its name, or from a file if the name has a slash or ends in `.toml`.
/// `settings` override values of its log.
pub(super) fn read(name: &OsStr, settings: &[LogSetting]) -> Result<Profile, CommandError> {
    let shown = name.display().to_string();
    Profile::parse_with(&shown, &text(name)?, settings)
}

/// The text of a profile.
pub(super) fn text(name: &OsStr) -> Result<String, CommandError> {
    // A built-in name has neither, so a file in the directory cannot replace it.
    let is_file = name.as_bytes().contains(&b'/') || name.as_bytes().ends_with(b".toml");
    match is_file {
        true => read_text(Path::new(name), "profile"),
        false => Ok(profile_text(&name.display().to_string())?.to_owned()),
    }
}

pub(super) fn calibrate_profile(arguments: &Calibrate) -> Result<Exit, CommandError> {
    // Before minutes of measuring, not after.
    refuse_existing(&arguments.profile)?;
    if arguments.output.format() == Format::FioJson {
        let hint = "expected text, json, html, markdown or csv";
        return Err(output::unsupported(arguments.output, hint));
    }
    let name = &arguments.name;
    let text = text(OsStr::new(name))?;
    let profile = Profile::parse(name, &text)?;
    let clients = predicted_clients(&profile, &arguments.clients)?;
    let wish =
        CalibrationRequest { database: profile.name, command: arguments.command.clone(), clients };
    let stop = stop_on_signals()?;
    let model = DatabaseModel { arguments, text: &text, clients: &wish.clients, stop: &stop };
    clear_up();
    drop(model.begin(1.0)?);
    let terminal = Terminal::new(false);
    let tell = |line: &str| terminal.progress(&format!("durio: {line}"));
    let mut rates = |factor| model.rates(factor);
    let findings = calibrate(&wish, &stop, &mut rates, &tell, &busy_processors)?;
    let host = read_host().hostname.unwrap_or_else(|| "an unnamed machine".to_owned());
    let date = FolderName::rfc3339(SystemTime::now());
    let document = format!(
        "durio profile calibrate on {host}, {}: times {:.2} times as long; by: {}",
        date.split('T').next().unwrap_or_default(),
        findings.factor,
        findings.command
    );
    let text = calibrated_text(name, &text, findings.factor, &document)?;
    let path = &arguments.profile;
    write_new(path, text.as_bytes())?;
    output::report(arguments.output, &findings)?;
    output::remark(&format!(
        "durio: wrote {}; predict with it: durio predict {} DIR",
        path.display(),
        named_as_file(path)
    ));
    Ok(Exit::Fine)
}

/// The model of the database, with its log in memory.
struct DatabaseModel<'a> {
    arguments: &'a Calibrate,
    text: &'a str,
    clients: &'a [u32],
    stop: &'a StopFlag,
}

impl DatabaseModel<'_> {
    /// The parts of a run with times scaled by this factor.
    fn begin(&self, factor: f64) -> Result<(Execution, Plan, HeldTargets), CommandError> {
        let name = &self.arguments.name;
        let text = calibrated_text(name, self.text, factor, "a try")?;
        let profile = Profile::parse(name, &text)?;
        let execution = Execution::begin("calibrate", &RunOptions::default())?;
        let permission = Permission::Named { destroy: &[], force_signature: false };
        let LocatedPlaces { places, held } = locate([&self.arguments.memory], permission)?;
        let missing = || CommandError::new(CommandErrorKind::Fault, "a path has no location");
        let plan = plan_predict(&PredictRequest {
            profile,
            log: places.into_iter().next().ok_or_else(missing)?,
            clients: self.clients.to_vec(),
            settings: Vec::new(),
            goals: Vec::new(),
            duration: Some(self.arguments.duration),
            seed: execution.seed,
            clock: ClockChoice::Auto,
            file_name: execution.file_name(),
        })?;
        Ok((execution, plan, held))
    }

    /// Its rates by clients, with times by this factor.
    fn rates(&self, factor: f64) -> Result<Vec<f64>, CommandError> {
        let (execution, plan, held) = self.begin(factor)?;
        let executed = execution.execute(&plan, held, self.stop, &Terminal::new(false))?;
        let found = executed.findings.prediction;
        executed.outcome?;
        let rates: Vec<f64> = found
            .iter()
            .flat_map(|prediction| &prediction.points)
            .map(|point| point.rate_per_second)
            .collect();
        let is_whole = !self.stop.is_set() && rates.len() == self.clients.len();
        match is_whole && rates.iter().all(|rate| *rate > 0.0) {
            true => {
                // The calibration has the rates of a try; its run is not needed.
                execution.remove()?;
                Ok(rates)
            }
            false => Err(CommandError::new(
                CommandErrorKind::Interrupted,
                "interrupted before the model had run with every number of clients",
            )),
        }
    }
}
