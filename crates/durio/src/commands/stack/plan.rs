//! `durio stack plan`: every command of a bench with its undo, and every workload with its time.

use std::fmt::Write;

use durio_base::{Nanos, counted};
use durio_bench::{
    BenchError, BenchErrorKind, Planning, PointEstimate, chosen_stacks, estimates, read_stack_spec,
};
use durio_layers::{BuildCommand, BuildPlace, DeclaredStack, commands};
use durio_plan::{ClockChoice, Plan, Role};
use durio_report::Format;
use durio_spec::{SpecError, StackBench, shipped_stack_specs, stack_spec_json_schema};
use serde_json::{Value, json};

use crate::args::StackPlan;
use crate::exit_code::Exit;
use crate::output;

// Placeholder for the letters that distinguish the names of builds.
const ID: &str = "0000000";

pub(super) fn plan(arguments: &StackPlan) -> Result<Exit, BenchError> {
    let Some(path) = &arguments.spec else {
        let text = if arguments.schema { stack_spec_json_schema() } else { listing()? };
        return output::answer(text.as_bytes()).map(|()| Exit::Fine);
    };
    let (bench, choice) = (read_stack_spec(path)?, arguments.choosing.choice());
    let stacks = chosen_stacks(&bench, &choice)?;
    let clock = ClockChoice::Auto;
    // Any seed will do: sizes and times do not depend on it.
    let planning = Planning { bench: &bench, choice: &choice, seed: 0, clock };
    let estimates = estimates(&planning, &stacks)?;
    let files = std::env::temp_dir();
    let place =
        BuildPlace { destroy: arguments.destroy.clone(), ..BuildPlace::with_id(ID, &files) };
    let commands = stacks.iter().map(|stack| commands(stack, &place));
    let commands: Vec<Vec<BuildCommand>> = commands
        .collect::<Result<_, _>>()
        .map_err(|error| BenchError::of(BenchErrorKind::WrongUse, error))?;
    let shown =
        PlanView { bench: &bench, stacks: &stacks, commands: &commands, estimates: &estimates };
    match arguments.output.format() {
        Format::Text => output::answer_text(&shown.text())?,
        Format::Json => {
            let mut bytes = Vec::new();
            durio_report::write_document(&shown.json(), &mut bytes).map_err(BenchError::unmade)?;
            output::answer(&bytes)?;
        }
        _ => return Err(output::unsupported(arguments.output, "there are text and json")),
    }
    Ok(Exit::Fine)
}

/// Names and summaries of the specs within the program.
fn listing() -> Result<String, BenchError> {
    let width = shipped_stack_specs().iter().map(|spec| spec.name.len()).max().unwrap_or(0);
    let mut text = String::from("Built-in stack specs; durio stack plan NAME shows one:\n\n");
    for shipped in shipped_stack_specs() {
        let bench: Result<StackBench, SpecError> = StackBench::parse(shipped.name, shipped.text);
        text.push_str(&format!("  {:width$}  {}\n", shipped.name, bench?.summary));
    }
    Ok(text)
}

/// A plan that is shown.
struct PlanView<'a> {
    bench: &'a StackBench,
    stacks: &'a [DeclaredStack],
    /// Per stack.
    commands: &'a [Vec<BuildCommand>],
    estimates: &'a [PointEstimate],
}

impl PlanView<'_> {
    fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.bench.name, self.bench.summary);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}, {}, {} of measuring beside building, laying out and steps that are bounded by volume\n",
            counted(self.stacks.len() as u64, "stack"),
            counted(self.estimates.len() as u64, "point"),
            self.time()
        );
        if let Some(first) = self.estimates.first() {
            text.push_str("on each point:\n");
            text.push_str(&workloads(&first.plan));
        }
        for (number, (stack, commands)) in self.stacks.iter().zip(self.commands).enumerate() {
            let _ =
                writeln!(text, "\nstack {} of {}: {}", number + 1, self.stacks.len(), stack.name);
            for (index, layer) in stack.layers.iter().enumerate() {
                let measured = match self.estimate(number, index) {
                    Some(it) => format!("measured, {}", it.time()),
                    None => "not measured".to_owned(),
                };
                let _ = writeln!(text, "  {}. {}: {measured}", index + 1, layer.label());
                commands.iter().filter(|it| it.layer == index).for_each(|it| {
                    let _ = writeln!(text, "       {}", it.action);
                    if let Some(undo) = &it.undo {
                        let _ = writeln!(text, "         undo: {undo}");
                    }
                });
            }
        }
        text
    }

    fn json(&self) -> Value {
        let stack = |(number, (stack, commands)): (usize, (&DeclaredStack, &Vec<BuildCommand>))| {
            let layers = stack.layers.iter().enumerate().map(|(index, layer)| {
                let own = commands.iter().filter(|it| it.layer == index);
                let estimate = self.estimate(number, index);
                json!({
                    "label": layer.label(),
                    "commands": own.map(command).collect::<Vec<_>>(),
                    "measured_ns": estimate.map(|it| it.time().get()),
                    "steps": estimate.map(|it| it.plan.measured_steps().count()),
                })
            });
            json!({ "declared": stack, "layers": layers.collect::<Vec<_>>() })
        };
        let stacks = self.stacks.iter().zip(self.commands).enumerate().map(stack);
        json!({
            "name": self.bench.name,
            "summary": self.bench.summary,
            "measured_ns": self.time().get(),
            "workloads": self.estimates.first().map(|it| &it.plan),
            "stacks": stacks.collect::<Vec<_>>(),
        })
    }

    fn estimate(&self, stack: usize, layer: usize) -> Option<&PointEstimate> {
        self.estimates.iter().find(|it| (it.stack, it.layer) == (stack, layer))
    }

    fn time(&self) -> Nanos {
        let times = self.estimates.iter().map(|it| it.time().get());
        Nanos::new(times.fold(0, u64::saturating_add))
    }
}

fn command(command: &BuildCommand) -> Value {
    json!({
        "command": command.action.to_string(),
        "undo": command.undo.as_ref().map(ToString::to_string),
    })
}

/// The sections of a plan with their times.
fn workloads(plan: &Plan) -> String {
    let sections = plan.campaign.as_ref().map_or(&[][..], |campaign| &campaign.sections);
    let width = sections.iter().map(|section| section.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for section in sections {
        let steps = plan.steps.get(section.range()).unwrap_or_default();
        let part = Plan { steps: steps.to_vec(), campaign: None, ..plan.clone() };
        let is_precondition = steps.iter().any(|step| step.role == Role::Precondition);
        let time = match part.duration() {
            Nanos::ZERO if is_precondition => "preconditioning, by volume".to_owned(),
            Nanos::ZERO => "by volume".to_owned(),
            time => time.to_string(),
        };
        let count = counted(steps.len() as u64, "step");
        let summary = steps.first().map_or("", |step| step.load.workload.summary.as_str());
        let _ = writeln!(text, "  {:width$}  {count}, {time}  {summary}", section.name);
    }
    text
}
