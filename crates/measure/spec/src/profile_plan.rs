//! The plan of a profile: the log idle, then under the database's own background load.
//!
//! From a [`Profile`] and the directories for its log and its data comes a plan whose sections are
//! `idle`, `under load` and, where the documents ask for results that no stream of the profile
//! shows, the workloads of `durio check` that show them. Verdicts and the runtime of group commit
//! are elsewhere.
//!
//! The foreground is the log; without a log, the profile's first writer, else its first stream.

mod files;
mod steps;
#[cfg(test)]
mod tests;

use durio_base::{Bytes, Nanos};
use durio_plan::{Campaign, ClockChoice, Location, Plan, PlanSection, Purpose, SectionKind};

use crate::check::{DURATION_MAX, DURATION_MIN};
use crate::profile::{Profile, StreamKind, StreamProfile};
use crate::{SpecError, plan_of, self_costs, with_costs};
pub(crate) use files::{directory, layout};

use files::ProfileFiles;
use steps::ProfileSteps;

/// Per step.
// More than a hundred of the ten commits a second that etcd's backend makes, so that their p99 is
// known.
const DURATION: Nanos = Nanos::from_secs(12);

/// Per step with `--quick`.
const DURATION_QUICK: Nanos = Nanos::from_secs(2);

/// What the user asks of a profile.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRequest {
    /// The profile.
    pub profile: Profile,
    /// The directory of its logs.
    pub log: Location,
    /// The directory of everything else; may be the same.
    pub data: Location,
    /// Two seconds per step on small files.
    pub quick: bool,
    /// Time per step.
    pub duration: Option<Nanos>,
    /// Size of the data file; may be more than a tenth of the free space.
    pub size: Option<Bytes>,
    /// Seed of every random choice.
    pub seed: u64,
    /// The clock.
    pub clock: ClockChoice,
    /// Begin of file names for filesystems without unnamed files: unique to the run.
    pub file_name: String,
}

impl ProfileRequest {
    fn time(&self) -> Result<Nanos, SpecError> {
        let usual = if self.quick { DURATION_QUICK } else { DURATION };
        let duration = self.duration.unwrap_or(usual);
        match duration < DURATION_MIN || duration > DURATION_MAX {
            false => Ok(duration),
            true => Err(SpecError::wrong_use(format!(
                "a duration of {duration} per step measures nothing useful"
            ))
            .hint("give 100ms to 31d")),
        }
    }
}

/// What a run of a profile is about.
#[derive(Debug, Clone, Copy)]
enum Foreground<'a> {
    Log,
    Stream(&'a StreamProfile),
}

impl<'a> Foreground<'a> {
    /// A profile has a log or a stream: who read it made sure.
    fn of(profile: &'a Profile) -> Result<Self, SpecError> {
        if profile.log.is_some() {
            return Ok(Self::Log);
        }
        let writer = profile.streams.iter().find(|stream| stream.kind == StreamKind::Write);
        let first = writer.or(profile.streams.first());
        first
            .map(Self::Stream)
            .ok_or_else(|| SpecError::wrong_use("the profile has neither a log nor a stream"))
    }

    fn name(self) -> &'a str {
        match self {
            Self::Log => "log",
            Self::Stream(stream) => &stream.name,
        }
    }

    fn is(self, stream: &StreamProfile) -> bool {
        matches!(self, Self::Stream(it) if it.name == stream.name)
    }
}

/// Makes the plan.
///
/// # Errors
/// If a place is no directory, there is too little room, or a duration measures nothing.
pub fn plan_profile(request: &ProfileRequest) -> Result<Plan, SpecError> {
    let profile = &request.profile;
    let foreground = Foreground::of(profile)?;
    let duration = request.time()?;
    let files = ProfileFiles::of(request, foreground)?;
    let mut made = ProfileSteps { profile, foreground, files: &files, duration }.all()?;
    let all = with_costs(self_costs(&made.steps), made.steps, &mut made.sections);
    let campaign = Campaign {
        name: profile.name.clone(),
        summary: format!("{}: {}", profile.title, profile.summary),
        sections: made.sections,
        notes: notes(profile, &files),
        ..Campaign::default()
    };
    let plan = plan_of(Purpose::Profile, (request.seed, request.clock), files.targets, all);
    let plan = Plan { campaign: Some(campaign), thresholds: profile.run_thresholds(), ..plan };
    plan.validate().map_err(SpecError::wrong_use)?;
    Ok(plan)
}

fn notes(profile: &Profile, files: &ProfileFiles) -> Vec<String> {
    let fittings = profile.fittings().map(|(stream, text)| format!("{stream}: {text}"));
    fittings.chain(profile.notes.iter().cloned()).chain(files.shortened.clone()).collect()
}

pub(crate) fn section(name: &str, summary: String, first_step: u32, steps: u32) -> PlanSection {
    PlanSection {
        name: name.to_owned(),
        summary,
        kind: SectionKind::Single,
        first_step,
        steps,
        rounds: None,
        baseline: None,
    }
}
