//! `durio sweep`: the highest rate that keeps a goal.

use durio_bench::BenchError;
use durio_spec::{SweepRequest, plan_sweep};
use durio_workload::Arrivals;

use super::run::request;
use crate::args::SweepArguments;
use crate::exit_code::Exit;
use crate::measure::{execute, refuse_absent};

/// Accesses per second.
const FIRST_RATE: f64 = 100.0;

pub(crate) fn sweep(arguments: &SweepArguments) -> Result<Exit, BenchError> {
    let job = &arguments.job;
    if job.rate.is_some() {
        return Err(BenchError::wrong_use("a sweep looks for the rate itself")
            .hint("give --from where the search shall begin, and leave --rate out"));
    }
    let (execution, mut run, held) = request("sweep", job)?;
    // Without a first rate the closed loop decides; the plan shows this one.
    let rate_per_second = arguments.from.unwrap_or(FIRST_RATE);
    run.arrivals = match arguments.equally_spaced {
        true => Arrivals::Constant { rate_per_second },
        false => Arrivals::Poisson { rate_per_second },
    };
    let plan = plan_sweep(&SweepRequest {
        run,
        goal: arguments.goal,
        precision: arguments.precision,
        trials_max: arguments.trials,
        from_ceiling: arguments.from.is_none(),
    })?;
    refuse_absent(&plan, &job.common)?;
    let (exit, findings) = execute(&execution, &plan, held, &job.common)?;
    let section = findings.campaign.as_ref().and_then(|campaign| campaign.sections.last());
    let found = section.and_then(|section| section.search.as_ref());
    let is_open = found.is_none_or(|found| found.kept_per_second.is_none());
    // Finding no rate is a result too, but not the requested one.
    Ok(if exit == Exit::Fine && is_open { Exit::CANNOT_MEASURE } else { exit })
}
