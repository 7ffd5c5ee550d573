//! The steps of a profile's plan, and the sections that they are shown in.

use durio_base::Nanos;
use durio_plan::{EngineKind, Limit, Load, ParameterValue, PlanSection, Role, Step};
use durio_workload::{Arrivals, Workload, check_workloads};

use super::files::{ProfileFiles, When};
use super::{Foreground, section};
use crate::check::ramp_for;
use crate::profile::{Profile, StreamProfile};
use crate::{SpecError, interval_for};

/// What the steps are made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProfileSteps<'a> {
    pub(super) profile: &'a Profile,
    pub(super) foreground: Foreground<'a>,
    pub(super) files: &'a ProfileFiles,
    pub(super) duration: Nanos,
}

/// Steps and sections, neither numbered for the whole plan yet.
#[derive(Debug, Default)]
pub(super) struct ProfileParts {
    pub(super) steps: Vec<Step>,
    pub(super) sections: Vec<PlanSection>,
}

impl ProfileParts {
    fn add(&mut self, name: &str, summary: String, steps: Vec<Step>) {
        let first = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        let count = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let index = u32::try_from(self.sections.len()).unwrap_or(u32::MAX);
        let section_of = |step| Step { section: Some(index), ..step };
        self.steps.extend(steps.into_iter().map(section_of));
        self.sections.push(section(name, summary, first, count));
    }
}

impl<'a> ProfileSteps<'a> {
    pub(super) fn all(self) -> Result<ProfileParts, SpecError> {
        let mut made = ProfileParts::default();
        let name = self.foreground.name();
        let always = self.beside(When::Idle);
        let with = match always.is_empty() {
            true => String::new(),
            false => format!(", with what is a part of every commit: {}", names(&always)),
        };
        made.add("idle", format!("{name} alone{with}"), vec![self.step(When::Idle)?]);
        let others = self.beside(When::Loaded);
        // Without more loads than the idle step has, it would be the idle step once again.
        if others.len() > always.len() {
            let summary = format!("{name} beside {}", names(&others));
            made.add("under load", summary, vec![self.step(When::Loaded)?]);
        }
        let asked = self.asked()?;
        if !asked.is_empty() {
            let summary = "the data file alone, with workloads of durio check".to_owned();
            made.add("what the documents ask for", summary, asked);
        }
        Ok(made)
    }

    /// The streams that run with the foreground.
    fn beside(self, when: When) -> Vec<&'a StreamProfile> {
        let runs = |it: &&StreamProfile| {
            !self.foreground.is(it) && (when == When::Loaded || it.runs_always())
        };
        self.profile.streams.iter().filter(runs).collect()
    }

    fn step(self, when: When) -> Result<Step, SpecError> {
        let load = match (self.foreground, &self.profile.log) {
            (Foreground::Stream(stream), _) => self.stream(stream, when)?,
            (Foreground::Log, Some(log)) => {
                let load = self.load("log", when, log.workload())?;
                Load { arrivals: log.arrivals(), ..load }
            }
            (Foreground::Log, None) => return Err(SpecError::wrong_use("there is no log")),
        };
        let streams = self.beside(when);
        let beside = streams.into_iter().map(|it| self.stream(it, when));
        let (value, label) = match when {
            When::Idle => (0.0, "idle"),
            When::Loaded => (1.0, "under load"),
        };
        let level = ParameterValue { axis: STATE_AXIS.to_owned(), value, label: label.to_owned() };
        Ok(Step {
            beside: beside.collect::<Result<_, _>>()?,
            levels: vec![level],
            // Otherwise readers would find the new files in memory.
            drop_cache: when == When::Loaded,
            ..self.timed(load)
        })
    }

    fn stream(self, stream: &StreamProfile, when: When) -> Result<Load, SpecError> {
        let load = self.load(&stream.name, when, stream.workload())?;
        Ok(Load { arrivals: stream.arrivals(), ..load })
    }

    fn load(self, stream: &str, when: When, workload: Workload) -> Result<Load, SpecError> {
        let targets = self.files.of_stream(stream, when);
        let Some((first, more)) = targets.split_first() else {
            return Err(SpecError::wrong_use(format!("the stream '{stream}' has no file")));
        };
        let engine = if workload.depth == 1 { EngineKind::Sync } else { EngineKind::Uring };
        Ok(Load { more_targets: more.to_vec(), ..Load::new(*first, workload, engine) })
    }

    fn timed(self, load: Load) -> Step {
        let ramp = ramp_for(self.duration);
        let interval = interval_for(self.duration, ramp);
        Step { ramp, ..Step::new(Role::Measure, load, Limit::Duration(self.duration), interval) }
    }

    /// The workloads of check that thresholds name and no stream shows.
    fn asked(self) -> Result<Vec<Step>, SpecError> {
        let thresholds = &self.profile.thresholds;
        let wanted = |name: &str| {
            thresholds.iter().any(|it| it.of.is_none() && it.check.as_deref() == Some(name))
        };
        let workloads = check_workloads().into_iter().filter(|(_, it)| wanted(&it.name));
        let step = |(_, workload): (_, Workload)| {
            // On the data file, which both steps share and neither uses up.
            let load = self.load(super::files::DATA, When::Idle, workload)?;
            Ok(self.timed(Load { arrivals: Arrivals::Closed, ..load }))
        };
        workloads.map(step).collect()
    }
}

/// The axis on which idle is 0 and under load is 1.
const STATE_AXIS: &str = "state";

fn names(streams: &[&StreamProfile]) -> String {
    streams.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>().join(", ")
}
