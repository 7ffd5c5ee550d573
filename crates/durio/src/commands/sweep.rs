//! `durio sweep`: the highest rate that keeps a goal.

use durio_plan::Goal;
use durio_spec::{SweepRequest, plan_sweep};
use durio_workload::Arrivals;

use super::run::request;
use crate::args::Sweep;
use crate::execute::execute;
use crate::exit_code::Exit;
use crate::failure::Failure;

pub(crate) fn sweep(arguments: &Sweep) -> Result<Exit, Failure> {
    let job = &arguments.job;
    if job.rate.is_some() {
        return Err(Failure::new(Exit::WrongUse, "a sweep looks for the rate itself")
            .hint("give --from where the search shall begin, and leave --rate out"));
    }
    let (execution, mut run) = request("sweep", job)?;
    let rate_per_second = arguments.from;
    run.arrivals = match arguments.equally_spaced {
        true => Arrivals::Constant { rate_per_second },
        false => Arrivals::Poisson { rate_per_second },
    };
    let (percentile, latency) = arguments.goal;
    let plan = plan_sweep(&SweepRequest {
        run,
        goal: Goal { percentile, latency },
        precision: arguments.precision,
        trials_max: arguments.trials,
    })?;
    execute(&execution, &plan, &job.common).map(|(exit, _)| exit)
}
