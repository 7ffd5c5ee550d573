//! The plan of a prediction: a database's log and its software, with several numbers of clients.
//!
//! Takes a profile with `[software]`, a directory, numbers of clients and goals; makes a plan with
//! a step for each number of clients, and for each rate that a goal asks for. The database's reads,
//! and its writes outside the log, are left out.

use std::collections::BTreeSet;

use durio_base::{Bytes, Nanos, counted};
use durio_plan::{
    Campaign, ClockChoice, EngineKind, Limit, Load, Location, ParameterValue, Plan, Purpose, Role,
    Step, Target, Threshold,
};
use durio_workload::{Arrivals, LogWriter, Software, Workload};

use crate::profile::{LogProfile, LogSetting, Profile, SoftwareProfile, profile};
use crate::profile_plan::{directory, layout, section};
use crate::written::PredictGoal;
use crate::{DURATION_MAX, DURATION_MIN, SpecError, interval_for, null_target, plan_of, ramp_for};

/// Numbers of clients, where a database has several.
const CLIENTS: [u32; 3] = [1, 8, 32];

/// Per number of clients.
const DURATION: Nanos = Nanos::from_secs(5);

/// What the user asks.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictRequest {
    /// The database, whose profile has `[software]`.
    pub profile: Profile,
    /// The directory of its log.
    pub log: Location,
    /// Numbers of clients, in the order in which they are run; none for the usual ones.
    pub clients: Vec<u32>,
    /// Values of the log that are not the profile's, for the reader.
    pub settings: Vec<LogSetting>,
    /// The goals for each number of clients.
    pub goals: Vec<PredictGoal>,
    /// Time per number of clients.
    pub duration: Option<Nanos>,
    /// Seed of every random choice.
    pub seed: u64,
    pub clock: ClockChoice,
    /// Begin of file names for filesystems without unnamed files: unique to the run.
    pub file_name: String,
}

/// Makes the plan.
///
/// # Errors
/// If the times of the database's software are unknown, the place is not a directory, there is too
/// little room, or a duration measures nothing.
pub fn plan_predict(request: &PredictRequest) -> Result<Plan, SpecError> {
    let profile = &request.profile;
    let (log, software) = log_and_software(profile)?;
    let duration = request.duration.unwrap_or(DURATION);
    if duration < DURATION_MIN || duration > DURATION_MAX {
        let text =
            format!("a duration of {duration} per number of clients measures nothing useful");
        return Err(SpecError::wrong_use(text).hint("give 100ms to 31d"));
    }
    let clients = predicted_clients(profile, &request.clients)?;
    let room = directory(&request.log)?;
    let size = log.file_size.value;
    let handling = log.file.value;
    let points = points(&clients, &request.goals);
    let files = if handling.is_used_up() { points.len() } else { 1 };
    if size.get().saturating_mul(files as u64) > room.free.get() / 10 {
        let text = format!("'{}' has only {} free", room.path, room.free);
        let hint =
            format!("free some space: {files} log files of {size} may take at most a tenth of it");
        return Err(SpecError::cannot_measure(text).hint(hint));
    }
    let mut targets = vec![null_target()];
    for number in 1..=files {
        let name = if files == 1 { "log".to_owned() } else { format!("log-{number}") };
        let file_name = format!("{}.{number}", request.file_name);
        let target = request.log.target(name, file_name, layout(handling), size);
        targets.push(Target { destroy: false, ..target });
    }
    let ramp = ramp_for(duration);
    let interval = interval_for(duration, ramp);
    let step = |(at, point): (usize, &PredictedStep)| {
        let target = if files == 1 { 1 } else { at + 1 };
        let load = point.load(log, software.software(), target);
        let step = Step::new(Role::Measure, load, Limit::Duration(duration), interval);
        Step { ramp, levels: point.levels(), section: Some(0), ..step }
    };
    let steps: Vec<Step> = points.iter().enumerate().map(step).collect();
    let count = u32::try_from(steps.len()).unwrap_or(u32::MAX);
    let clients = section("clients", "every number of clients alone".to_owned(), 0, count);
    let campaign = Campaign {
        name: profile.name.clone(),
        summary: format!("the log of {} and the software around it, by clients", profile.title),
        sections: vec![clients],
        notes: {
            let settings =
                request.settings.iter().map(|setting| format!("by --setting: {setting}"));
            let fittings = profile.fittings().filter(|(of, _)| *of == "log");
            settings.chain(fittings.map(|(_, fitting)| fitting.to_owned())).collect()
        },
        ..Campaign::default()
    };
    let plan = plan_of(Purpose::Predict, (request.seed, request.clock), targets, steps);
    let thresholds = request.goals.iter().map(PredictGoal::threshold).collect();
    let plan = Plan { campaign: Some(campaign), thresholds, ..plan };
    plan.validate().map_err(SpecError::wrong_use)?;
    Ok(plan)
}

#[derive(Debug, Clone, Copy)]
struct PredictedStep {
    clients: u32,
    /// At which rate transactions come; none if each client sends the next when the last is answered.
    rate_per_second: Option<f64>,
}

/// Databases that `durio check` predicts if the user names none.
const USUAL: [&str; 5] = ["postgresql", "mariadb", "sqlite-wal", "redis", "etcd"];

/// The profiles of the databases that `durio check` predicts if the user names none.
///
/// # Errors
/// None as the files are; a test reads every one.
pub fn usual_databases() -> Result<Vec<Profile>, SpecError> {
    USUAL.iter().map(|name| profile(name)).collect()
}

/// A database whose commits `durio check` predicts, with a step for each number of clients.
pub(crate) struct PredictedDatabase<'a> {
    name: &'a str,
    log: &'a LogProfile,
    software: Software,
    pub(crate) clients: Vec<u32>,
}

impl<'a> PredictedDatabase<'a> {
    /// With one number of clients if it is `brief`. None if the times of the database's software are
    /// unknown.
    pub(crate) fn new(profile: &'a Profile, brief: bool) -> Option<Self> {
        let (log, software) = (profile.log.as_ref()?, profile.software.as_ref()?.software());
        let [_, several, _] = CLIENTS;
        let clients = match (software.writer == LogWriter::Client, brief) {
            (true, _) => vec![1],
            (false, true) => vec![several],
            (false, false) => CLIENTS.to_vec(),
        };
        Some(Self { name: &profile.name, log, software, clients })
    }

    /// Its log files: one for all steps, or one for each if a step uses it up.
    pub(crate) fn log_count(&self) -> u64 {
        if self.log.file.value.is_used_up() { self.clients.len() as u64 } else { 1 }
    }

    /// The size of a log file, smaller than the database's where there is little room.
    pub(crate) fn log_size(&self, most: Bytes) -> Bytes {
        self.log.file_size.value.min(most)
    }

    /// Its log files in this directory.
    pub(crate) fn logs(&self, location: &Location, file_name: &str, most: Bytes) -> Vec<Target> {
        let log = |number| {
            let name = format!("{}-log-{number}", self.name);
            let file_name = format!("{file_name}.{name}");
            let layout = layout(self.log.file.value);
            let target = location.target(name, file_name, layout, self.log_size(most));
            Target { destroy: false, ..target }
        };
        (1..=self.log_count()).map(log).collect()
    }

    pub(crate) fn load(&self, clients: u32, target: usize) -> Load {
        let summary = format!(
            "predicted: the log of a database and the software around it, {}",
            counted(clients.into(), "client")
        );
        let name = format!("{}-{clients}", self.name);
        let workload = Workload { name, summary, ..self.log.transactions(clients, self.software) };
        Load::new(target, workload, EngineKind::Sync)
    }
}

/// The smallest log of a predicted database: hundreds of its largest writes.
const LOG_MIN: Bytes = Bytes::from_mib(2);

/// The databases that `durio check` predicts in a directory, and the size that no log exceeds.
pub(crate) struct Predictions<'a> {
    pub(crate) databases: Vec<PredictedDatabase<'a>>,
    pub(crate) log_max: Bytes,
}

impl<'a> Predictions<'a> {
    /// With logs that fit into `room` together; without databases where that is too little.
    pub(crate) fn new(profiles: &'a [Profile], brief: bool, room: Bytes) -> Self {
        let databases = profiles.iter();
        let databases: Vec<_> =
            databases.filter_map(|profile| PredictedDatabase::new(profile, brief)).collect();
        let logs: u64 = databases.iter().map(PredictedDatabase::log_count).sum();
        let log_max = Bytes::new(room.get() / logs.max(1)).rounded_down_to(Bytes::from_mib(1));
        let databases = if log_max < LOG_MIN { Vec::new() } else { databases };
        Self { databases, log_max }
    }

    /// The bytes of all logs.
    pub(crate) fn size(&self) -> u64 {
        let size = |database: &PredictedDatabase<'_>| {
            database.log_size(self.log_max).get() * database.log_count()
        };
        self.databases.iter().map(size).sum()
    }
}

/// All that is run: first without a rate, then with each.
fn points(clients: &[u32], goals: &[PredictGoal]) -> Vec<PredictedStep> {
    let mut rates = vec![None];
    for rate in goals.iter().map(|goal| goal.rate_per_second) {
        if !rates.contains(&rate) {
            rates.push(rate);
        }
    }
    let of = |rate_per_second| {
        clients.iter().map(move |&clients| PredictedStep { clients, rate_per_second })
    };
    rates.into_iter().flat_map(of).collect()
}

impl PredictedStep {
    fn load(self, log: &LogProfile, software: Software, target: usize) -> Load {
        let workload = log.transactions(self.clients, software);
        let Some(rate_per_second) = self.rate_per_second else {
            return Load::new(target, workload, EngineKind::Sync);
        };
        let workload = Workload { name: name_at(rate_per_second), ..workload };
        // As independent users come.
        let arrivals = Arrivals::Poisson { rate_per_second };
        Load { arrivals, ..Load::new(target, workload, EngineKind::Sync) }
    }

    fn levels(self) -> Vec<ParameterValue> {
        let level =
            |axis: &str, value: f64, label| ParameterValue { axis: axis.to_owned(), value, label };
        let clients = level("clients", self.clients.into(), self.clients.to_string());
        let rate = self.rate_per_second.map(|rate| level("rate", rate, format!("{rate}/s")));
        [clients].into_iter().chain(rate).collect()
    }
}

/// The workload to which transactions come at this rate.
fn name_at(rate_per_second: f64) -> String {
    format!("log at {rate_per_second}/s")
}

impl PredictGoal {
    /// The limit on the workload that has its rate.
    fn threshold(&self) -> Threshold {
        let workload = self.rate_per_second.map_or_else(|| "log".to_owned(), name_at);
        Threshold { workload, ..self.threshold.clone() }
    }
}

/// The numbers of clients to run: the requested ones, or the usual ones.
///
/// # Errors
/// If the times of the database's software are unknown, a number is named twice, or several clients
/// cannot be predicted.
pub fn predicted_clients(profile: &Profile, wished: &[u32]) -> Result<Vec<u32>, SpecError> {
    let (_, software) = log_and_software(profile)?;
    let is_alone = software.writer.value == LogWriter::Client;
    if is_alone && let Some(several) = wished.iter().find(|clients| **clients > 1) {
        let name = &profile.name;
        let text = format!(
            "{several} clients of '{name}' cannot be predicted: one commits at a time, and the others poll for \
             their turn"
        );
        return Err(SpecError::wrong_use(text).hint("--clients 1"));
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = wished.iter().find(|clients| !seen.insert(**clients)) {
        return Err(SpecError::wrong_use(format!("--clients names {twice} twice")));
    }
    Ok(match (wished.is_empty(), is_alone) {
        (false, _) => wished.to_vec(),
        (true, true) => vec![1],
        (true, false) => CLIENTS.to_vec(),
    })
}

fn log_and_software(profile: &Profile) -> Result<(&LogProfile, &SoftwareProfile), SpecError> {
    if let (Some(log), Some(software)) = (&profile.log, &profile.software) {
        return Ok((log, software));
    }
    let name = &profile.name;
    let text = format!("no prediction model for '{name}': its profile has no [software]");
    let hint = format!("durio run profile:{name} measures its storage alone");
    Err(SpecError::cannot_measure(text).hint(hint))
}

#[cfg(test)]
mod tests {
    use durio_plan::{FileLayout, LocationFacts, RawPath, TargetKind};

    use super::*;
    use crate::written::predict_goal;

    fn predicted(name: &str, clients: &[u32], goals: &[&str]) -> Plan {
        let facts = LocationFacts::Directory { free: Bytes::from_gib(40), filesystem: 1 };
        let request = PredictRequest {
            profile: profile(name).unwrap(),
            log: Location { path: RawPath::from("/srv/log"), facts, destroy: false },
            clients: clients.to_vec(),
            settings: Vec::new(),
            goals: goals.iter().map(|goal| predict_goal(goal).unwrap()).collect(),
            duration: None,
            seed: 3,
            clock: ClockChoice::Auto,
            file_name: ".durio-7".to_owned(),
        };
        plan_predict(&request).unwrap()
    }

    /// The log of each step, with its clients and rate.
    fn logs_of_steps(plan: &Plan) -> Vec<String> {
        let of = |step: &Step| {
            let levels: Vec<_> = step.levels.iter().map(|level| level.label.as_str()).collect();
            format!("{}: {}", plan.targets[step.load.target].name, levels.join(", "))
        };
        plan.measured_steps().map(of).collect()
    }

    #[test]
    fn each_step_has_its_own_log_where_a_step_uses_it_up_and_all_share_one_elsewhere() {
        let goals = ["p99 < 5ms at 500/s", "rate > 200"];
        for name in ["etcd", "redis"] {
            let all = logs_of_steps(&predicted(name, &[], &goals));
            let fresh = [
                "log-1: 1",
                "log-2: 8",
                "log-3: 32",
                "log-4: 1, 500/s",
                "log-5: 8, 500/s",
                "log-6: 32, 500/s",
            ];
            assert_eq!(all, fresh, "{name}");
            let two = logs_of_steps(&predicted(name, &[16, 4], &[]));
            assert_eq!(two, ["log-1: 16", "log-2: 4"], "{name}");
            assert_eq!(logs_of_steps(&predicted(name, &[8], &[])), ["log: 8"], "{name}");
        }
        let shared = logs_of_steps(&predicted("postgresql", &[2, 16], &goals));
        assert_eq!(shared, ["log: 2", "log: 16", "log: 2, 500/s", "log: 16, 500/s"]);
    }

    #[test]
    fn the_logs_of_a_prediction_are_separate_files_as_large_as_the_databases() {
        let files = |name: &str| -> Vec<(String, FileLayout, Bytes)> {
            let file = |target: &Target| match &target.kind {
                TargetKind::NewFile { file_name, layout, .. } => {
                    (file_name.to_string(), *layout, target.size)
                }
                other => panic!("{other:?}"),
            };
            // Before them is the target of durio's own cost.
            predicted(name, &[1, 8], &[]).targets[1..].iter().map(file).collect()
        };
        let two = |layout, size| [1, 2].map(|number| (format!(".durio-7.{number}"), layout, size));
        assert_eq!(files("etcd"), two(FileLayout::Preallocated, Bytes::new(64_000_000)));
        assert_eq!(files("redis"), two(FileLayout::Empty, Bytes::from_mib(64)));
        let recycled = (".durio-7.1".to_owned(), FileLayout::Incompressible, Bytes::from_mib(80));
        assert_eq!(files("postgresql"), [recycled]);
    }

    /// And one without a model.
    fn usual() -> Vec<Profile> {
        usual_databases().unwrap().into_iter().chain(profile("kafka")).collect()
    }

    #[test]
    fn a_check_predicts_databases_with_a_model_by_clients_and_briefly_with_eight() {
        let profiles = usual();
        let of = |brief| -> Vec<(&str, Vec<u32>, u64)> {
            let found = Predictions::new(&profiles, brief, Bytes::from_gib(8)).databases;
            found.iter().map(|one| (one.name, one.clients.clone(), one.log_count())).collect()
        };
        let all = || vec![1, 8, 32];
        let expected = [
            ("postgresql", all(), 1),
            ("mariadb", all(), 1),
            ("sqlite-wal", vec![1], 1),
            ("redis", all(), 3),
            ("etcd", all(), 3),
        ];
        assert_eq!(of(false), expected);
        let expected = expected.map(|(name, clients, _)| {
            (name, if clients.len() == 1 { clients } else { vec![8] }, 1)
        });
        assert_eq!(of(true), expected);
    }

    #[test]
    fn predicted_logs_fit_their_room_and_databases_without_room_are_left_out() {
        let profiles = usual();
        // Nine logs of 2 MiB.
        for (mib, count) in [(17, 0), (18, 5), (100, 5), (700, 5)] {
            let room = Bytes::from_mib(mib);
            let found = Predictions::new(&profiles, false, room);
            assert_eq!(found.databases.len(), count, "{mib} MiB");
            assert!(found.size() <= room.get(), "{mib} MiB: {}", found.size());
        }
        let whole = Predictions::new(&profiles, false, Bytes::from_gib(8)).size();
        let mib = 1 << 20;
        assert_eq!(whole, (80 + 96 + 3 * 64) * mib + 4_120_000 + 3 * 64_000_000);
    }
}
