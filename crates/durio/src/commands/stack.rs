//! `durio stack`: shows the layers below a path, builds the stacks of a spec and measures the cost of
//! each layer, and takes down the remains of a killed bench.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use durio_analyse::attribution::StackFindings;
use durio_base::{Nanos, counted, visible, visible_lines};
use durio_bench::{
    Bench, BenchRequest, CampaignScale, GuestBench, LookFor, Planning, PointEstimate, ReadBack,
    bench_of_guest, chosen_stacks, clear_leftovers, estimates, journals_of_builds, listing,
    read_bench, read_stack_spec, runs_folder,
};
use durio_command::{CommandError, CommandErrorKind, error_chain};
use durio_layers::{BuildCommand, BuildPlace, CleanOutcome, CleanState, DeclaredStack, commands};
use durio_observe::{StackError, StackErrorKind, read_stack, read_stack_in};
use durio_plan::{ClockChoice, Plan, Role};
use durio_prove::clear_dead_servers;
use durio_record::bench::BenchFolder;
use durio_report::{Format, Stacks};
use durio_spec::{StackBench, stack_spec_json_schema};
use serde_json::{Value, json};

use super::lab::InGuest;
use super::spec;
use crate::exit_code::{Exit, TABLE};
use crate::measure::{clear_up, consent, in_another_folder};
use crate::options::{Choosing, Measuring, OutputArguments};
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

/// Show the layers below a path, and measure what each layer costs
///
/// A stack is everything between a file and its devices: filesystem, volumes, RAID, caches. `show`
/// prints the stack below a path. `plan` and `bench` take a spec that declares stacks from the
/// bottom up: durio builds one after the other, runs the same workloads on the raw devices, the
/// array and the filesystem, and takes everything down again, even after errors.
///
///   durio stack show /var/lib/postgresql
///   durio stack plan
///   durio stack plan ram-layers
///   durio stack bench loop-layers --quick
///   durio stack clean
///
/// `durio spec show NAME` prints a built-in spec to start from.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackArguments {
    #[command(subcommand)]
    pub(crate) command: StackCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StackCommand {
    Show(StackShow),
    Plan(StackPlan),
    Bench(Box<StackBenching>),
    Clean(StackClean),
}

/// Take down the stacks of a killed bench
///
/// Before each build step, a bench records in a journal in the user's state folder how to undo it. This
/// command takes down what a dead bench built, in reverse order, if it is provably unchanged. It
/// does not touch running benches or anything that durio did not create. The next bench does the
/// same when it starts.
///
/// The exit code is 3 if something could not be taken down; it stays in the journal.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct StackClean {}

/// Show the layers from a path to its devices
///
/// Writes nothing and needs no privileges; facts that only root can read are left out otherwise.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct StackShow {
    /// Files, directories or devices
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Read another machine's /sys and /proc, copied to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

/// Show every command that a bench would run, with its undo, and its workloads with their times
///
/// Builds, writes and measures nothing. Without SPEC it lists the built-in specs. Names that the
/// kernel will choose are in braces.
///
///   durio stack plan
///   durio stack plan bitmap-cost
///   durio stack plan loop-layers --quick
///   durio stack plan my-stacks.toml --only mirror-none --format json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackPlan {
    /// A TOML file, or the name of a built-in spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    /// As for bench: allow overwriting this block device
    #[arg(long, value_name = "PATH", requires = "spec", help_heading = "Safety")]
    pub(crate) destroy: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArguments,

    /// Print the JSON schema of stack specs
    #[arg(long, conflicts_with = "spec", help_heading = "Output")]
    pub(crate) schema: bool,
}

/// Build the stacks of a spec one after the other, measure each layer, and take them down
///
/// Each stack is built layer by layer, and the workloads run on each layer: the devices, the array,
/// the filesystem. Then the stack is taken down and the next one is built; the raw devices are
/// measured again for each stack, which shows drift. If something cannot be built or measured, the
/// reason is recorded and the bench continues with the next stack.
///
/// Building needs root and the kernel's modules. With --lab it needs neither: the bench runs in a
/// throw-away virtual machine. By default its clock counts instructions, so the results are
/// software costs per I/O without contention, the same on any machine; they are not speeds.
///
/// Sources such as ram, null and zram are made in memory, and loop files in $TMPDIR or /tmp: they
/// compare layers, and do not measure your storage. A spec with { device = … } does.
///
/// Devices that durio creates need no permission; each existing device in the spec must also be
/// named by --destroy. Ctrl-C takes the stack down and keeps the results so far. A second Ctrl-C
/// ends durio at once; `durio stack clean` then takes down the rest, as after a kill.
///
///   durio stack bench loop-layers --quick
///   durio stack bench loop-layers
///   durio stack bench ram-layers --only xfs --only xfs-on-raid5 --scale-time 0.1
///   durio stack bench my-stacks.toml --destroy /dev/nvme1n1 --destroy /dev/nvme2n1
///   durio stack bench raid-modes --lab --scale-time 0.02 --scale-size 0.3
///
/// The result is a bench folder: a manifest and a run folder for each point. `durio report` accepts
/// either.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct StackBenching {
    /// A TOML file, or the name of a built-in spec
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,

    /// Run in a guest of durio's lab (durio lab --help) instead of on this machine
    #[arg(long, help_heading = "Guest")]
    pub(crate) lab: bool,

    /// Kernel of the guest: an image, or a release as durio lab kernels lists it [default: the
    /// newest]
    #[arg(long, value_name = "KERNEL", requires = "lab", help_heading = "Guest")]
    pub(crate) kernel: Option<PathBuf>,

    /// Modules of the kernel: the folder lib/modules/RELEASE [default: those next to the kernel]
    #[arg(long, value_name = "DIR", requires = "kernel", help_heading = "Guest")]
    pub(crate) modules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) guest: InGuest,

    #[command(flatten)]
    pub(crate) choosing: Choosing,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

pub(crate) fn stack(arguments: StackArguments) -> Result<Exit, CommandError> {
    match arguments.command {
        StackCommand::Show(arguments) => {
            show(&arguments.paths, arguments.output, arguments.root.as_deref())
        }
        StackCommand::Plan(arguments) => plan(&arguments),
        StackCommand::Bench(arguments) => bench(&arguments),
        StackCommand::Clean(_) => clean(),
    }
}

/// Prints the stacks of `paths`; those that cannot be read are named, and the others still shown.
fn show(
    paths: &[PathBuf],
    wished: OutputArguments,
    root: Option<&Path>,
) -> Result<Exit, CommandError> {
    if let Some(root) = root {
        check_root(root)?;
    }
    let read = |path: &PathBuf| match root {
        Some(root) => read_stack_in(root, path),
        None => read_stack(path),
    };
    let (mut stacks, mut failures) = (Vec::new(), Vec::new());
    for outcome in paths.iter().map(read) {
        match outcome {
            Ok(stack) => stacks.push(stack),
            Err(error) => failures.push(error),
        }
    }
    // Readable stacks are shown first: a script gets them whatever happens to the others.
    if !stacks.is_empty() {
        output::report(wished, &Stacks::new(&stacks))?;
    }
    conclude(failures, root)
}

// A folder that holds no copy would only give paths that are not found.
fn check_root(root: &Path) -> Result<(), CommandError> {
    if root.join("proc/self/mountinfo").is_file() {
        return Ok(());
    }
    let text = format!("'{}' has no copy of a machine's files", root.display());
    Err(CommandError::wrong_use(text).hint(
        "it must have proc/self/mountinfo, and sys with class/block, dev/block and devices; copy \
         the links of sysfs as links",
    ))
}

/// The last failure ends the command; those before it are remarks.
fn conclude(mut failures: Vec<StackError>, root: Option<&Path>) -> Result<Exit, CommandError> {
    let Some(last) = failures.pop() else { return Ok(Exit::Fine) };
    output::remarks(failures.iter().map(|error| error_chain(error)));
    let hint = match (last.kind, root) {
        (StackErrorKind::NotFound, Some(_)) => {
            "give an absolute path of that machine, below a mount of its proc/self/mountinfo"
        }
        (StackErrorKind::NotFound, None) => "for a file that does not exist yet, give its folder",
        _ => "give a path that this user can read",
    };
    let failure = CommandError::cannot(last);
    Err(failure.hint(hint))
}

fn clean() -> Result<Exit, CommandError> {
    let mut cleared = clear_leftovers(LookFor::All);
    cleared.extend(clear_dead_servers());
    let journals = journals_of_builds()?;
    let outcomes = journals.map(|journals| durio_layers::clean(&journals)).unwrap_or_default();
    if outcomes.is_empty() && cleared.is_empty() {
        return output::answer_text("no bench left anything\n").map(|()| Exit::Fine);
    }
    let lines = cleared.into_iter().chain(outcomes.iter().flat_map(lines));
    let text: String = lines.map(|line| visible(&line) + "\n").collect();
    output::answer_text(&text)?;
    let is_left = |outcome: &CleanOutcome| {
        matches!(outcome.state, CleanState::Kept { .. } | CleanState::Unreadable(_))
    };
    // A script must see that something stays.
    Ok(if outcomes.iter().any(is_left) { Exit::CANNOT_MEASURE } else { Exit::Fine })
}

/// The outcome of a build, in lines.
fn lines(outcome: &CleanOutcome) -> Vec<String> {
    let name = format!("stack '{}' ({})", outcome.stack, outcome.id);
    let (head, undone, left_alone, failures): (_, &[String], &[String], &[String]) =
        match &outcome.state {
            CleanState::Alive { pid } => {
                let what = format!("its bench still runs (process {pid}); nothing was touched");
                (what, &[], &[], &[])
            }
            CleanState::Cleaned { undone, left_alone } if undone.is_empty() => {
                ("nothing that it made is left".to_owned(), &[], left_alone, &[])
            }
            CleanState::Cleaned { undone, left_alone } => {
                ("taken down".to_owned(), undone, left_alone, &[])
            }
            CleanState::Kept { undone, left_alone, failures } => {
                ("could not take everything down".to_owned(), undone, left_alone, failures)
            }
            CleanState::Unreadable(why) => {
                (format!("its journal cannot be read: {why}"), &[], &[], &[])
            }
        };
    let mut lines = vec![format!("{name}: {head}")];
    lines.extend(undone.iter().map(|what| format!("  {what}")));
    lines.extend(left_alone.iter().map(|what| format!("  left alone: {what}")));
    lines.extend(failures.iter().map(|what| format!("  failed: {what}")));
    lines
}

pub(super) fn bench(arguments: &StackBenching) -> Result<Exit, CommandError> {
    let options = &arguments.common;
    // Before hours of measuring, not after.
    output::refuse_fio(options.output, "BENCH/RUN")?;
    if arguments.lab {
        return bench_in_lab(arguments);
    }
    // Ignored options would suggest that the results are a guest's.
    if arguments.guest.is_given() {
        return Err(CommandError::wrong_use("options of a guest need --lab"));
    }
    let choice = arguments.choosing.choice();
    let bench = Bench::prepare(BenchRequest {
        spec: &arguments.spec,
        choice: &choice,
        destroy: &options.destroy,
        force_signature: options.force_signature,
        clock: options.clock,
        options: options.run_options(),
    })?;
    consent(bench.cost(), options)?;
    clear_up();
    // Remains of a killed bench may hold the devices that this one needs.
    output::remarks(bench.clean()?.iter().flat_map(lines));
    let benched = bench.run(&stop_on_signals()?, &Terminal::new(options.quiet))?;
    show_found(&benched.folder, benched.found, options.output)?;
    Ok(benched.ending.into())
}

/// The same in a guest, with the exit code that it had there.
fn bench_in_lab(arguments: &StackBenching) -> Result<Exit, CommandError> {
    let options = &arguments.common;
    if !options.destroy.is_empty() {
        let text = "--destroy has no effect with --lab: a guest has none of this machine's devices";
        return Err(CommandError::wrong_use(text));
    }
    if options.clock != ClockChoice::Auto {
        let text = "a guest has the lab's clock: leave out --clock";
        return Err(CommandError::wrong_use(text));
    }
    let (stop, choice) = (stop_on_signals()?, arguments.choosing.choice());
    let bench = GuestBench {
        spec: &arguments.spec,
        choice: &choice,
        guest: arguments.guest.settings(),
        kernel: arguments.kernel.as_deref(),
        modules: arguments.modules.as_deref(),
        seed: options.seed,
        label: options.name.as_deref(),
        quiet: options.quiet,
        runs: &runs_folder(options.out.as_deref()).map_err(in_another_folder)?,
    };
    let benched = bench_of_guest(&bench, &stop, &Terminal::new(options.quiet))?;
    show_found(&benched.folder, benched.found, options.output)?;
    Ok(benched.ending.into())
}

/// Prints a bench: the cost of its layers, and the outcome of each stack.
pub(super) fn show_bench(
    folder: &BenchFolder<DeclaredStack>,
    wished: OutputArguments,
) -> Result<Exit, CommandError> {
    output::refuse_fio(wished, "BENCH/RUN")?;
    show_found(folder, read_bench(folder, &Terminal::new(true)), wished)
}

fn show_found(
    folder: &BenchFolder<DeclaredStack>,
    found: Result<ReadBack<StackFindings>, CommandError>,
    wished: OutputArguments,
) -> Result<Exit, CommandError> {
    let listed = |whole| listing(&folder.manifest, folder.path(), whole);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            // Nothing was measured: the outcomes of the stacks say why.
            if wished.format() == Format::Text {
                output::answer_text(&listed(true))?;
            }
            return Err(error);
        }
    };
    output::report(wished, &found.findings)?;
    if wished.format() == Format::Text {
        output::answer_text(&format!("\n{}", listed(wished.verbose)))?;
    }
    Ok(Exit::of_read(found.is_damaged))
}

// Placeholder for the letters that distinguish the names of builds.
const ID: &str = "0000000";

pub(super) fn plan(arguments: &StackPlan) -> Result<Exit, CommandError> {
    let Some(path) = &arguments.spec else {
        let text = match arguments.schema {
            true => stack_spec_json_schema(),
            false => format!(
                "Built-in stack specs; durio stack plan NAME shows one:\n\n{}",
                spec::listed(&spec::stacks()?)
            ),
        };
        return output::answer(text.as_bytes()).map(|()| Exit::Fine);
    };
    let bench = read_stack_spec(path)?;
    let choice = arguments.choosing.choice().scaled_for(&bench)?;
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
        .map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))?;
    let shown = PlanView {
        bench: &bench,
        scale: choice.scale,
        stacks: &stacks,
        commands: &commands,
        estimates: &estimates,
    };
    match arguments.output.format() {
        Format::Text => output::deliver(arguments.output, visible_lines(&shown.text()).as_bytes())?,
        Format::Json => {
            let mut bytes = Vec::new();
            durio_report::write_document(&shown.json(), &mut bytes)
                .map_err(CommandError::unmade)?;
            output::deliver(arguments.output, &bytes)?;
        }
        _ => return Err(output::unsupported(arguments.output, "expected text or json")),
    }
    Ok(Exit::Fine)
}

/// A plan that is shown.
struct PlanView<'a> {
    bench: &'a StackBench,
    scale: CampaignScale,
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
            "{}, {}, {} of measuring, plus building, creating files and steps of a fixed volume",
            counted(self.stacks.len() as u64, "stack"),
            counted(self.estimates.len() as u64, "point"),
            self.time()
        );
        text.push_str(&scale_line(self.scale));
        text.push('\n');
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
                commands.iter().filter(|command| command.layer == index).for_each(|command| {
                    let _ = writeln!(text, "       {}", command.action);
                    if let Some(undo) = &command.undo {
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
                let own = commands.iter().filter(|command| command.layer == index);
                let estimate = self.estimate(number, index);
                json!({
                    "label": layer.label(),
                    "commands": own.map(command).collect::<Vec<_>>(),
                    "measured_ns": estimate.map(|estimate| estimate.time().get()),
                    "steps": estimate.map(|estimate| estimate.plan.measured_steps().count()),
                })
            });
            json!({ "declared": stack, "layers": layers.collect::<Vec<_>>() })
        };
        let stacks = self.stacks.iter().zip(self.commands).enumerate().map(stack);
        json!({
            "name": self.bench.name,
            "summary": self.bench.summary,
            "measured_ns": self.time().get(),
            "workloads": self.estimates.first().map(|estimate| &estimate.plan),
            "stacks": stacks.collect::<Vec<_>>(),
        })
    }

    fn estimate(&self, stack: usize, layer: usize) -> Option<&PointEstimate> {
        self.estimates.iter().find(|estimate| (estimate.stack, estimate.layer) == (stack, layer))
    }

    fn time(&self) -> Nanos {
        let times = self.estimates.iter().map(|estimate| estimate.time().get());
        Nanos::new(times.fold(0, u64::saturating_add))
    }
}

/// How much of a spec is planned; empty for all of it.
fn scale_line(scale: CampaignScale) -> String {
    let (time, size) = (scale.time_per_mille, scale.size_per_mille);
    if (time, size) == (1000, 1000) {
        return String::new();
    }
    let [times, sizes] = [time, size].map(|per_mille| f64::from(per_mille) / 1000.0);
    let so = if time < 1000 { ": results will be provisional" } else { "" };
    format!("times are {times} and sizes {sizes} of the spec's{so}\n")
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
