//! `durio plan`: shows what a campaign would do.

use durio_bench::{BenchError, CampaignWish, Permission, plan_of_spec};
use durio_plan::ClockChoice;
use durio_report::ShownPlan;
use durio_spec::{CampaignSpec, SpecError, shipped_specs, spec_json_schema};

use super::{PLAN_FILE_NAME, fio, profile, refuse_profile_options};
use crate::args::PlanArguments;
use crate::exit_code::Exit;
use crate::output;

pub(crate) fn plan(arguments: &PlanArguments) -> Result<Exit, BenchError> {
    let Some(spec) = &arguments.spec else {
        let text = if arguments.schema { spec_json_schema() } else { listing()? };
        return output::answer(text.as_bytes()).map(|()| Exit::Fine);
    };
    if profile::is_profile(spec) {
        return show(arguments, &profile::plan(spec, arguments)?, &[]);
    }
    refuse_profile_options(spec, arguments.duration, arguments.size)?;
    if fio::is_job_file(spec) {
        return show(arguments, &fio::plan_file(spec, arguments)?, &[]);
    }
    let wish = CampaignWish {
        spec,
        targets: &arguments.target,
        scale: arguments.expanding.scale(),
        permission: Permission::Named {
            destroy: &arguments.destroy,
            force_signature: arguments.force_signature,
        },
        // A run draws its seed; a plan does not need one.
        seed: 0,
        clock: ClockChoice::Auto,
    };
    let file_name = || Ok::<_, BenchError>((PLAN_FILE_NAME.to_owned(), ()));
    let (made, _held, ()) = plan_of_spec(&wish, file_name)?;
    let obstacles: Vec<String> = made.obstacles.iter().map(obstacle).collect();
    show(arguments, &made.plan, &obstacles)
}

fn show(
    arguments: &PlanArguments,
    plan: &durio_plan::Plan,
    obstacles: &[String],
) -> Result<Exit, BenchError> {
    output::report(arguments.output, &ShownPlan { plan, obstacles }).map(|()| Exit::Fine)
}

fn obstacle(error: &SpecError) -> String {
    match &error.hint {
        None => error.message.clone(),
        Some(hint) => format!("{}; {hint}", error.message),
    }
}

/// Names and summaries of the specs within the program.
fn listing() -> Result<String, BenchError> {
    let width = shipped_specs().iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let mut text = String::from("Built-in specs; durio plan NAME --target PATH shows one:\n\n");
    for shipped in shipped_specs() {
        let spec = CampaignSpec::parse(shipped.name, shipped.text)?;
        text.push_str(&format!("  {:width$}  {}\n", shipped.name, spec.summary()));
    }
    Ok(text)
}
