//! `durio run SPEC`: a campaign, or what is left of an interrupted one.

use std::path::Path;

use durio_bench::{CampaignWish, interrupted, plan_of_spec};
use durio_plan::Plan;

use crate::args::RunCommand;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::measure::{begin, execute, resume};
use crate::output;

pub(crate) fn run(spec: &Path, arguments: &RunCommand) -> Result<Exit, Failure> {
    let options = &arguments.job.common;
    let wish = CampaignWish {
        spec,
        targets: &arguments.job.target,
        scale: arguments.expanding.scale(),
        permission: options.permission(),
        seed: options.seed.unwrap_or(0),
        clock: options.clock,
    };
    let (made, held, execution) = plan_of_spec(&wish, || {
        let execution = begin("campaign", options)?;
        Ok::<_, Failure>((execution.file_name(), execution))
    })?;
    if let Some(obstacle) = made.obstacles.into_iter().next() {
        return Err(obstacle.into());
    }
    let plan = Plan { seed: execution.seed, ..made.plan };
    let earlier = match arguments.fresh {
        true => None,
        false => interrupted(execution.runs(), &plan, options.seed)?,
    };
    let Some(earlier) = earlier else {
        return execute(&execution, &plan, held, options).map(|(exit, _)| exit);
    };
    output::remark(&format!(
        "durio: resuming {} at step {} of {}; --fresh starts over",
        earlier.folder.path().display(),
        earlier.point.step + 1,
        plan.steps.len()
    ));
    resume(&execution, &earlier, held, options).map(|(exit, _)| exit)
}
