//! Takes events, live or read back, and gives findings at the end.

use std::collections::BTreeMap;

use durio_plan::{Plan, Purpose, Role};
use durio_record::{
    CommitsTraced, Environment, Event, Manifest, MemoryMeasured, OperationName, Outcome,
    PathTraced, ProcessGap, RoundEnded, RunResumed, StepDeclined, StoppedBy, SyncCallsProbed,
};

use crate::campaign::{self, FULL_SECONDS};
use crate::declined::{DeclinedStep, with_cause};
use crate::durable;
use crate::latency_breakdown;
use crate::measurement::Measurements;
use crate::rate_variation::of_same_workload;
use crate::step_state::{StreamState, step_findings, streams};
use crate::{
    FINDINGS_SCHEMA, Findings, Headline, RunState, SelfCost, WorkloadFindings, prediction, profile,
};

/// The result of an analyser.
#[derive(Debug)]
pub struct Analysis {
    /// The findings, not judged yet: without verdicts, warnings and signals.
    pub findings: Findings,
    /// Further input to the judgement.
    pub evidence: RunEvidence,
}

/// Observations of a run that are not in any result.
#[derive(Debug)]
pub struct RunEvidence {
    pub notes: Vec<String>,
    /// When durio itself did not run.
    pub process_gaps: Vec<ProcessGap>,
    /// The effects of the same sync calls through the C library and without it.
    pub probed: Vec<SyncCallsProbed>,
}

/// Gathers what one run shows; a step's histograms are merged as they come, and dropped at its end.
#[derive(Debug, Clone)]
pub struct Analyser {
    manifest: Manifest,
    plan: Plan,
    environment: Environment,
    /// Per step and round.
    open: BTreeMap<(u32, u32), Vec<StreamState>>,
    done: BTreeMap<(u32, u32), Vec<WorkloadFindings>>,
    rounds: Vec<RoundEnded>,
    errors: Vec<String>,
    /// The same by the step that they ended.
    step_errors: Vec<(u32, String)>,
    traced: Vec<CommitsTraced>,
    probed: Vec<SyncCallsProbed>,
    paths: Vec<PathTraced>,
    notes: Vec<String>,
    process_gaps: Vec<ProcessGap>,
    declined_steps: Vec<DeclinedStep>,
    outcome: Option<Outcome>,
    damaged: bool,
    memory_max_bytes: Option<u64>,
    memory_copied: Option<MemoryMeasured>,
    keeps_histograms: bool,
}

impl Analyser {
    /// An analyser of the run that the manifest names.
    pub fn new(manifest: Manifest, plan: Plan, environment: Environment) -> Self {
        Self {
            manifest,
            plan,
            environment,
            open: BTreeMap::new(),
            done: BTreeMap::new(),
            rounds: Vec::new(),
            errors: Vec::new(),
            step_errors: Vec::new(),
            traced: Vec::new(),
            probed: Vec::new(),
            paths: Vec::new(),
            notes: Vec::new(),
            process_gaps: Vec::new(),
            declined_steps: Vec::new(),
            outcome: None,
            damaged: false,
            memory_max_bytes: None,
            memory_copied: None,
            keeps_histograms: false,
        }
    }

    /// Makes the findings of steps that end from now on keep their latencies whole, and their
    /// intervals the counts by operation, for a format that shows them: some KiB each.
    pub fn keep_histograms(&mut self) {
        self.keeps_histograms = true;
    }

    /// Takes the next event.
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::StepStarted(started) => {
                self.open.insert((started.step, started.round), streams(started));
            }
            Event::Interval(interval) => {
                let Some(step) = self.plan.steps.get(interval.step as usize) else { return };
                let streams = self.open.get_mut(&(interval.step, interval.round));
                let state = streams.and_then(|streams| streams.get_mut(interval.stream as usize));
                if let (Some(state), Some(load)) = (state, step.stream(interval.stream)) {
                    state.take_interval(interval, step, load, self.keeps_histograms);
                }
            }
            Event::JobEnded(job) => {
                let streams = self.open.get_mut(&(job.step, job.round));
                if let Some(state) = streams.and_then(|all| all.get_mut(job.stream as usize)) {
                    state.take_job(job);
                }
            }
            Event::StepGated(gated) => {
                let streams = self.open.get_mut(&(gated.step, gated.round));
                streams.into_iter().flatten().for_each(|stream| stream.take_gate(gated));
            }
            Event::StepEnded(ended) => {
                if let Some(mut streams) = self.open.remove(&(ended.step, ended.round)) {
                    streams.iter_mut().for_each(|stream| stream.take_end(ended));
                    self.conclude((ended.step, ended.round), &streams);
                }
            }
            Event::MemoryMeasured(measured) => self.memory_copied = Some(*measured),
            Event::RoundEnded(ended) => self.rounds.push(ended.clone()),
            Event::RunResumed(resumed) => self.resume(resumed),
            Event::StepDeclined(declined) => self.decline(declined),
            Event::Error(error) => self.fail(error),
            Event::Warning(warning) => self.notes.push(warning.message.clone()),
            Event::ProcessGap(gap) => self.process_gaps.push(*gap),
            Event::RunEnded(ended) => {
                self.outcome = Some(ended.outcome);
                self.memory_max_bytes = Some(ended.memory_max.get());
            }
            Event::CommitsTraced(traced) => self.traced.push(traced.clone()),
            Event::SyncCallsProbed(probed) => self.probed.push(probed.clone()),
            Event::PathTraced(traced) => self.paths.push(traced.clone()),
            // Records of a newer durio have events that this one does not know: the rest is still
            // of use.
            Event::TargetPrepared(_) | Event::Unknown => {}
        }
    }

    /// Takes note that the record cannot be read any further, and why.
    pub fn damaged(&mut self, reason: String) {
        self.damaged = true;
        self.errors.push(reason);
    }

    /// A step that was refused has no results, only a reason.
    fn decline(&mut self, declined: &StepDeclined) {
        self.open.remove(&(declined.step, declined.round));
        let Some(step) = self.plan.steps.get(declined.step as usize) else { return };
        let declined = DeclinedStep::new(step, declined);
        self.notes.push(declined.words());
        self.declined_steps.push(declined);
    }

    fn fail(&mut self, error: &StoppedBy) {
        let message = with_cause(&error.message, error.errno);
        self.step_errors.extend(error.step.map(|step| (step, message.clone())));
        self.errors.push(message);
    }

    fn conclude(&mut self, key: (u32, u32), streams: &[StreamState]) {
        if let Some(step) = self.plan.steps.get(key.0 as usize) {
            let findings = step_findings(streams, &self.plan, step, key.1, self.keeps_histograms);
            self.done.insert(key, findings);
        }
    }

    /// What had not ended is done again, and what ended the run before does not end it now.
    fn resume(&mut self, resumed: &RunResumed) {
        self.open.clear();
        self.outcome = None;
        self.errors.clear();
        self.step_errors.clear();
        // The runner repeats steps whose effect does not outlast an interruption, such as
        // preconditioning: their earlier results are not the state that later steps ran on
        // (docs/design/0006).
        let again = |step: u32| step >= resumed.step || resumed.repeated.contains(&step);
        self.done.retain(|(step, _), _| !again(*step));
        let notes = &mut self.notes;
        self.declined_steps.retain(|declined| {
            let forgotten = again(declined.step);
            let words = declined.words();
            if let Some(at) = notes.iter().position(|note| forgotten && *note == words) {
                notes.remove(at);
            }
            !forgotten
        });
        let campaign = self.plan.campaign.as_ref();
        let sections = campaign.map_or(&[][..], |campaign| &campaign.sections);
        self.traced.retain(|traced| !again(traced.step));
        self.probed.retain(|probed| !again(probed.step));
        self.paths.retain(|path| !again(path.step));
        self.process_gaps.retain(|gap| !again(gap.step));
        self.rounds.retain(|ended| {
            let section = sections.get(ended.section as usize);
            section.is_some_and(|section| !again(section.first_step))
        });
        self.notes.push(format!("the run was interrupted and continued at {}", resumed.resumed));
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The findings so far of a step's round.
    pub fn so_far(&self, step: u32, round: u32) -> &[WorkloadFindings] {
        self.done.get(&(step, round)).map_or(&[], Vec::as_slice)
    }

    /// The findings of everything seen. A record without an end is marked as partial.
    pub fn finish(mut self, run_folder: String) -> Analysis {
        // A step without an end was killed: its intervals are valid, but it is not complete.
        for (key, streams) in std::mem::take(&mut self.open) {
            self.conclude(key, &streams);
        }
        let state = match self.outcome {
            // An end after an unreadable part says nothing about that part.
            Some(Outcome::Complete) if !self.damaged => RunState::Complete,
            Some(Outcome::Interrupted) => RunState::Interrupted,
            Some(Outcome::Failed) => RunState::Failed,
            Some(Outcome::Complete) | None => RunState::Partial,
        };
        let mut own = Vec::new();
        let mut preconditioning = Vec::new();
        let mut workloads = Vec::new();
        for ((step, _), findings) in std::mem::take(&mut self.done) {
            match self.plan.steps.get(step as usize).map(|step| step.role) {
                Some(Role::SelfCost) => own.extend(findings),
                Some(Role::Precondition) => preconditioning.extend(findings),
                Some(Role::Measure) | None => workloads.extend(findings),
                // Their results are in separate events.
                Some(Role::Trace | Role::ProbeSyncCalls | Role::TracePath) => {}
            }
        }
        latency_breakdown::attach(&self.plan, &mut workloads, &self.paths);
        let is_predicting = |found: &WorkloadFindings| prediction::is_of_check(&self.plan, found);
        let (predicting, workloads): (Vec<_>, Vec<_>) =
            workloads.into_iter().partition(is_predicting);
        let self_cost: Vec<_> = own.iter().map(self_cost).collect();
        let table = Measurements::of_run(&self.plan, preconditioning.iter().chain(&workloads));
        let measured = Measurements::of_run(&self.plan, &workloads);
        let campaign = campaign::findings(&campaign::CampaignInput {
            plan: &self.plan,
            table: &table,
            self_cost: &self_cost,
            memory_copied: self.memory_copied,
        });
        let refused =
            self.declined_steps.iter().map(|declined| (declined.step, declined.reason.clone()));
        // For a reader who looks for the reason of a missing result, a refusal is an error like any
        // other.
        self.step_errors.extend(refused);
        let durable = durable::findings(
            &durable::ExperimentInput {
                plan: &self.plan,
                table: &measured,
                errors: &self.step_errors,
            },
            &self.environment.stacks,
            &self.traced,
            &self.probed,
        );
        // A campaign's steps are judged separately: those that end by a count have their intended
        // length.
        let provisional = match &campaign {
            Some(campaign) => campaign.provisional.clone(),
            None => provisional(&self.plan, &workloads),
        };
        let findings = Findings {
            schema: FINDINGS_SCHEMA.to_owned(),
            run: self.manifest,
            state,
            run_folder,
            headline: self.plan.campaign.is_none().then(|| headline(&workloads)).flatten(),
            provisional,
            predicted: prediction::of_check(
                &Measurements::of_run(&self.plan, &predicting),
                self.environment.host.cpus_allowed,
            ),
            profile: profile::findings(&self.plan, &measured),
            prediction: prediction::findings(
                &self.plan,
                &measured,
                self.environment.host.cpus_allowed,
            ),
            workloads,
            preconditioning,
            campaign,
            durable,
            why: None,
            verdicts: Vec::new(),
            placements: Vec::new(),
            signals: Vec::new(),
            warnings: Vec::new(),
            errors: self.errors,
            declined_steps: self.declined_steps,
            self_cost,
            stack: self.environment.stacks,
            host: self.environment.host,
            memory_max_bytes: self.memory_max_bytes,
            plan: self.plan,
        };
        let evidence =
            RunEvidence { notes: self.notes, process_gaps: self.process_gaps, probed: self.probed };
        Analysis { findings, evidence }
    }
}

/// The first durable workload's results: `commit`, wherever it ran first.
fn headline(workloads: &[WorkloadFindings]) -> Option<Headline> {
    let workload = workloads.iter().find(|workload| workload.headline == OperationName::Commit)?;
    let commit = workload.operation(OperationName::Commit)?;
    Some(Headline {
        workload: workload.name.clone(),
        location: workload.location.clone(),
        durable_commits_per_second: commit.rate,
        commit_latency_ns_p99: commit.service.p99_ns,
        rate_variation: workload.rate_variation,
        same_workload: of_same_workload(workload, workloads),
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

fn provisional(plan: &Plan, workloads: &[WorkloadFindings]) -> Option<String> {
    if plan.purpose == Purpose::Run {
        return None;
    }
    let shortest = workloads.iter().map(|workload| workload.measured).min()?;
    (shortest.get() < FULL_SECONDS * 1_000_000_000).then(|| {
        format!(
            "short run ({shortest} for the shortest workload); results are final only from \
             {FULL_SECONDS} s on (--thorough)"
        )
    })
}

#[cfg(test)]
mod tests {
    use durio_base::Nanos;
    use durio_plan::Step;
    use durio_record::TimedEvent;

    use super::*;
    use crate::GatedStart;
    use crate::tests::sample::sample;

    /// An analyser of a run with so many steps.
    fn analyser(steps: u32) -> Analyser {
        let mut made = sample();
        let step = made.plan.steps.remove(0);
        made.plan.steps = (0..steps).map(|index| Step { index, ..step.clone() }).collect();
        let manifest = Manifest {
            label: None,
            schema: 1,
            run: "made".into(),
            durio_version: "0".into(),
            started: "2026-11-21T10:09:00Z".into(),
            command: vec!["durio".into()],
        };
        Analyser::new(manifest, made.plan, made.environment)
    }

    #[test]
    fn a_refusal_of_a_step_that_is_done_again_is_forgotten() {
        let mut analyser = analyser(5);
        let refuse = |analyser: &mut Analyser, step: u32, message: &str| {
            let (round, message, errno) = (0, message.to_owned(), None);
            let declined = StepDeclined { step, round, message, errno };
            analyser.observe(&Event::StepDeclined(declined));
        };
        for step in 0..4 {
            refuse(&mut analyser, step, "before");
        }
        // Step 1 comes again, and everything from step 3 on.
        let (repeated, resumed) = (vec![1], "2026-11-21T11:00:00Z".to_owned());
        analyser.observe(&Event::RunResumed(RunResumed { step: 3, repeated, resumed }));
        refuse(&mut analyser, 3, "after");
        let noted = analyser.notes.clone();
        let findings = analyser.finish(String::new()).findings;
        let declined: Vec<(u32, &str)> =
            findings.declined_steps.iter().map(|step| (step.step, step.reason.as_str())).collect();
        assert_eq!(declined, [(0, "before"), (2, "before"), (3, "after")]);
        let words: Vec<String> = findings.declined_steps.iter().map(|step| step.words()).collect();
        let resumed = "the run was interrupted and continued at 2026-11-21T11:00:00Z".to_owned();
        assert_eq!(noted, [words[0].clone(), words[1].clone(), resumed, words[2].clone()]);
    }

    #[test]
    fn an_ordered_start_is_that_of_its_round_alone() {
        let mut analyser = analyser(1);
        for round in [0, 1] {
            let line = format!(
                r#"{{"at_ns":1,"event":"step_started","step":0,"round":{round},"engine":"null","jobs":1,"depth":1,"batch":1,"cache":"direct","region":"shared","clock":"tsc","features":[],"fallbacks":[]}}"#
            );
            analyser.observe(&TimedEvent::read(line.as_bytes()).unwrap().event);
        }
        let line = br#"{"at_ns":2,"event":"step_gated","step":0,"round":1,"armed_ns":10,"ordered_at_ns":5000,"started_ns":5021,"offset_ns":-8,"bound_ns":9}"#;
        analyser.observe(&TimedEvent::read(line).unwrap().event);
        let found = analyser.finish(String::new()).findings.workloads;
        let gated: Vec<_> = found.iter().map(|workload| workload.gated).collect();
        let (lateness_ns, offset_ns) = (21, -8);
        let start = GatedStart { lateness_ns, offset_ns, bound_ns: 9, ordered_at_ns: 5000 };
        assert_eq!(gated, [None, Some(start)]);
    }

    #[test]
    fn the_figures_to_read_first_are_those_of_the_first_commits_wherever_they_ran() {
        let first = sample().workloads.remove(0);
        let named = |name: &str, location: &str, rate: f64, p99| {
            let mut it = first.clone();
            (it.name, it.location) = (name.to_owned(), location.to_owned());
            it.operations[0].rate = rate;
            it.operations[0].service.p99_ns = p99;
            it
        };
        let mut reads = named("read", "/data", 9.0, Some(9));
        reads.headline = OperationName::Read;
        let all = [
            reads,
            named("commit", "/other", 250.0, Some(7_000_000)),
            named("commit", "/data", 800.0, None),
        ];
        let found = headline(&all).unwrap();
        assert_eq!((found.workload.as_str(), found.location.as_str()), ("commit", "/other"));
        assert_eq!(found.durable_commits_per_second, 250.0);
        assert_eq!(found.commit_latency_ns_p99, Some(7_000_000));
        assert!(headline(&all[..1]).is_none());
    }

    #[test]
    fn figures_are_provisional_by_the_shortest_workload_and_a_users_own_run_never() {
        let mut made = sample();
        let lasting = |seconds| {
            let mut it = sample().workloads.remove(0);
            it.measured = Nanos::from_secs(seconds);
            it
        };
        let all = [lasting(300), lasting(20), lasting(299)];
        let text = "short run (20 s for the shortest workload); results are final only from 300 s on (--thorough)";
        assert_eq!(provisional(&made.plan, &all).as_deref(), Some(text));
        assert_eq!(provisional(&made.plan, &all[..1]), None);
        assert!(
            provisional(&made.plan, &all[2..])
                .is_some_and(|text| text.starts_with("short run (4.98 min for"))
        );
        made.plan.purpose = Purpose::Run;
        assert_eq!(provisional(&made.plan, &all), None);
    }

    #[test]
    fn what_durio_costs_is_told_of_the_engine_and_depth_that_it_was_measured_at() {
        let mut it = sample().workloads.remove(0);
        (it.effective.depth, it.iops, it.cpu.per_operation_ns) = (16, 2_500_000.0, 390.0);
        let found = self_cost(&it);
        assert_eq!((found.engine, found.depth), (it.effective.engine, 16));
        assert_eq!((found.per_operation_ns, found.iops), (390.0, 2_500_000.0));
    }
}
