//! `durio profile calibrate`: measures a database's software on this machine, with the database
//! itself.

use std::ffi::OsStr;
use std::time::SystemTime;

use durio_bench::{
    BenchError, BenchErrorKind, CalibrationWish, Execution, LocatedPlaces, Permission, RunOptions,
    busy_processors, calibrate, locate,
};
use durio_block::HeldTargets;
use durio_observe::read_host;
use durio_plan::{ClockChoice, Plan};
use durio_record::FolderName;
use durio_report::Format;
use durio_run::StopFlag;
use durio_spec::profile::{Profile, calibrated_text};
use durio_spec::{PredictRequest, plan_predict, predicted_clients};

use super::new_file::{named_as_file, refuse_existing, write_new};
use super::profile;
use crate::args::Calibrate;
use crate::exit_code::Exit;
use crate::measure::clear_up;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn calibrate_profile(arguments: &Calibrate) -> Result<Exit, BenchError> {
    // Before minutes of measuring, not after.
    refuse_existing(&arguments.profile)?;
    if arguments.output.format() == Format::FioJson {
        let hint = "there are text, json, html, markdown and csv";
        return Err(output::unsupported(arguments.output, hint));
    }
    let name = &arguments.name;
    let text = profile::text(OsStr::new(name))?;
    let profile = Profile::parse(name, &text)?;
    let clients = predicted_clients(&profile, &arguments.clients)?;
    let wish =
        CalibrationWish { database: profile.name, command: arguments.command.clone(), clients };
    let stop = stop_on_signals()?;
    let model = DatabaseModel { arguments, text: &text, clients: &wish.clients, stop: &stop };
    clear_up();
    drop(model.begin(1.0)?);
    let tell = |line: &str| output::remark(&format!("durio: {line}"));
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
    fn begin(&self, factor: f64) -> Result<(Execution, Plan, HeldTargets), BenchError> {
        let name = &self.arguments.name;
        let text = calibrated_text(name, self.text, factor, "a try")?;
        let profile = Profile::parse(name, &text)?;
        let execution = Execution::begin("calibrate", &RunOptions::default())?;
        let permission = Permission::Named { destroy: &[], force_signature: false };
        let LocatedPlaces { places, held } = locate([&self.arguments.memory], permission)?;
        let missing = || BenchError::new(BenchErrorKind::Fault, "a path was located nowhere");
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
    fn rates(&self, factor: f64) -> Result<Vec<f64>, BenchError> {
        let (execution, plan, held) = self.begin(factor)?;
        let executed = execution.execute(&plan, held, self.stop, &Terminal::new(false))?;
        let found = executed.findings.prediction;
        executed.outcome?;
        let rates: Vec<f64> =
            found.iter().flat_map(|it| &it.points).map(|it| it.rate_per_second).collect();
        let is_whole = !self.stop.is_set() && rates.len() == self.clients.len();
        match is_whole && rates.iter().all(|rate| *rate > 0.0) {
            true => {
                // The calibration has the rates of a try; its run is not needed.
                execution.remove()?;
                Ok(rates)
            }
            false => Err(BenchError::new(
                BenchErrorKind::Interrupted,
                "interrupted before the model was run with every number of clients",
            )),
        }
    }
}
