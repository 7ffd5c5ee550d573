//! `durio durable`: the cost of a durable write.

use durio_analyse::Findings;
use durio_base::counted;
use durio_bench::{BenchError, LocatedPlaces};
use durio_plan::{Plan, Role};
use durio_spec::{DurableLength, DurableRequest, plan_durable};

use crate::args::Durable;
use crate::exit_code::Exit;
use crate::measure::{begin, execute, locate};
use crate::output;

pub(crate) fn durable(arguments: Durable) -> Result<Exit, BenchError> {
    let length = length(&arguments);
    let common = arguments.common;
    let LocatedPlaces { mut places, held } =
        locate([arguments.target.as_ref().unwrap_or(&arguments.path)], &common)?;
    let Some(location) = places.pop() else {
        return Err(BenchError::wrong_use("there is no path to measure"));
    };
    let execution = begin("durable", &common)?;
    let plan = plan_durable(&DurableRequest {
        location,
        length,
        size: arguments.size,
        only: arguments.only,
        seed: execution.seed,
        clock: common.clock,
        file_name: execution.file_name(),
    })?;
    if !common.quiet {
        announce(&plan);
    }
    let (exit, findings) = execute(&execution, &plan, held, &common)?;
    // A refusal is a finding (docs/design/0008), unless everything is refused.
    let asked = plan.measured_steps().count();
    if exit == Exit::Fine && asked > 0 && findings.workloads.is_empty() {
        return Err(nothing_measured(&findings));
    }
    Ok(exit)
}

fn length(arguments: &Durable) -> DurableLength {
    match (arguments.quick, arguments.thorough) {
        (true, _) => DurableLength::Quick,
        (_, true) => DurableLength::Full,
        _ => DurableLength::Usual,
    }
}

/// Announces the steps to run, and those left out.
fn announce(plan: &Plan) {
    let steps = plan.steps.iter().filter(|step| step.role != Role::SelfCost).count();
    let campaign = plan.campaign.as_ref();
    let experiments = campaign.map_or(0, |campaign| campaign.sections.len());
    let (steps, experiments) =
        (counted(steps as u64, "step"), counted(experiments as u64, "experiment"));
    output::remarks([format!("{steps} in {experiments}, at most {}", plan.duration())]);
    let left_out = campaign.iter().flat_map(|campaign| &campaign.left_out);
    output::remarks(left_out.map(|it| format!("left out: {it}")));
}

fn nothing_measured(findings: &Findings) -> BenchError {
    let failure = BenchError::cannot_measure("nothing of this can be measured here");
    match findings.declined_steps.first() {
        Some(first) => failure.hint(first.reason.clone()),
        None => failure,
    }
}
