//! Takes events, live or read back, and gives findings at the end.

use std::collections::BTreeMap;

use durio_plan::{Plan, Purpose, Role};
use durio_record::{Environment, Event, Manifest, OperationName, Outcome};

use crate::step_state::StepState;
use crate::warning::{self, Basis};
use crate::{FINDINGS_SCHEMA, Findings, Leading, RunState, SelfCost, WorkloadFindings, verdict};

/// Gathers what one run shows. A step's histograms are merged as they come, and kept until
/// its figures are drawn from them when it ends.
#[derive(Debug)]
pub struct Analyser {
    manifest: Manifest,
    plan: Plan,
    environment: Environment,
    open: BTreeMap<u32, StepState>,
    done: BTreeMap<u32, WorkloadFindings>,
    errors: Vec<String>,
    notes: Vec<String>,
    outcome: Option<Outcome>,
    damaged: bool,
    memory_max_bytes: Option<u64>,
}

impl Analyser {
    /// An analyser of the run that the manifest names.
    #[must_use]
    pub fn new(manifest: Manifest, plan: Plan, environment: Environment) -> Self {
        Self {
            manifest,
            plan,
            environment,
            open: BTreeMap::new(),
            done: BTreeMap::new(),
            errors: Vec::new(),
            notes: Vec::new(),
            outcome: None,
            damaged: false,
            memory_max_bytes: None,
        }
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::StepStarted(started) => {
                self.open.insert(started.step, StepState::new(started.clone()));
            }
            Event::Interval(interval) => {
                let step = self.plan.steps.get(interval.step as usize);
                if let (Some(state), Some(step)) = (self.open.get_mut(&interval.step), step) {
                    state.take_interval(interval, step);
                }
            }
            Event::JobEnded(job) => {
                if let Some(state) = self.open.get_mut(&job.step) {
                    state.take_job(job);
                }
            }
            Event::StepEnded(ended) => {
                if let Some(mut state) = self.open.remove(&ended.step) {
                    state.take_end(ended.clone());
                    self.conclude(ended.step, &state);
                }
            }
            Event::Error(error) => self.errors.push(match error.errno {
                Some(errno) => {
                    format!("{}: {}", error.message, std::io::Error::from_raw_os_error(errno))
                }
                None => error.message.clone(),
            }),
            Event::Warning(warning) => self.notes.push(warning.message.clone()),
            Event::RunEnded(ended) => {
                self.outcome = Some(ended.outcome);
                self.memory_max_bytes = Some(ended.memory_max.get());
            }
            Event::TargetPrepared(_) | Event::Unknown => {}
        }
    }

    /// Takes note that the record cannot be read any further, and why.
    pub fn damaged(&mut self, reason: String) {
        self.damaged = true;
        self.errors.push(reason);
    }

    fn conclude(&mut self, index: u32, state: &StepState) {
        if let Some(step) = self.plan.steps.get(index as usize) {
            self.done.insert(index, state.findings(&self.plan, step));
        }
    }

    /// The findings of everything seen. A record without an end is marked as partial.
    #[must_use]
    pub fn finish(mut self, run_folder: String) -> Findings {
        for (index, state) in std::mem::take(&mut self.open) {
            self.conclude(index, &state);
        }
        let state = match self.outcome {
            Some(Outcome::Complete) if self.damaged => RunState::Partial,
            Some(Outcome::Complete) => RunState::Complete,
            Some(Outcome::Interrupted) => RunState::Interrupted,
            Some(Outcome::Failed) => RunState::Failed,
            None => RunState::Partial,
        };
        let role = |index: &u32| self.plan.steps.get(*index as usize).map(|step| step.role);
        let (own, measured): (Vec<_>, Vec<_>) = std::mem::take(&mut self.done)
            .into_iter()
            .partition(|(index, _)| role(index) == Some(Role::SelfCost));
        let self_cost: Vec<_> = own.into_iter().map(|(_, findings)| self_cost(&findings)).collect();
        let workloads: Vec<_> = measured.into_iter().map(|(_, findings)| findings).collect();
        let provisional = provisional(&self.plan, &workloads);
        let basis = Basis {
            plan: &self.plan,
            environment: &self.environment,
            workloads: &workloads,
            self_cost: &self_cost,
            provisional: provisional.as_deref(),
            notes: &self.notes,
        };
        let verdicts = match self.plan.purpose {
            Purpose::Check => verdict::verdicts(&basis),
            Purpose::Run => Vec::new(),
        };
        let warnings = warning::warnings(&basis);
        Findings {
            schema: FINDINGS_SCHEMA.to_owned(),
            run: self.manifest,
            state,
            run_folder,
            leading: leading(&workloads),
            provisional,
            workloads,
            verdicts,
            warnings,
            errors: self.errors,
            self_cost,
            stack: self.environment.stacks,
            host: self.environment.host,
            memory_max_bytes: self.memory_max_bytes,
            plan: self.plan,
        }
    }
}

/// The first durable workload's figures: `commit`, wherever it ran first.
fn leading(workloads: &[WorkloadFindings]) -> Option<Leading> {
    let workload = workloads.iter().find(|workload| workload.headline == OperationName::Commit)?;
    let commit = workload.operation(OperationName::Commit)?;
    Some(Leading {
        workload: workload.name.clone(),
        location: workload.location.clone(),
        durable_commits_per_second: commit.rate,
        commit_latency_ns_p99: commit.service.p99_ns,
    })
}

fn self_cost(findings: &WorkloadFindings) -> SelfCost {
    SelfCost {
        engine: findings.effective.engine,
        depth: findings.effective.depth,
        per_operation_ns: findings.cpu.per_operation_ns,
        iops: findings.iops,
    }
}

/// Seconds per workload from which the figures are not provisional: shorter runs do not see
/// garbage collection, throttling, or the end of a burst credit.
const FULL_SECONDS: u64 = 300;

fn provisional(plan: &Plan, workloads: &[WorkloadFindings]) -> Option<String> {
    if plan.purpose == Purpose::Run {
        return None;
    }
    let shortest = workloads.iter().map(|workload| workload.measured).min()?;
    (shortest.get() < FULL_SECONDS * 1_000_000_000).then(|| {
        format!(
            "{shortest} per workload; figures are settled from {FULL_SECONDS} s on (--thorough)"
        )
    })
}
