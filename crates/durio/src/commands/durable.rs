//! `durio durable`: the cost of a durable write.

use std::path::PathBuf;

use clap::Args;
use durio_analyse::Findings;
use durio_base::{Bytes, counted};
use durio_command::{CommandError, LocatedPlaces};
use durio_plan::{Plan, Role};
use durio_report::clock;
use durio_spec::{DurableLength, DurableRequest, plan_durable};

use crate::exit_code::{Exit, TABLE};
use crate::measure::{begin, execute, locate};
use crate::options::Measuring;
use crate::output;

/// Measure what a durable write costs, by method, file mode, size and number of writers
///
/// A database waits for its log. How long depends on how it writes: which call makes the write
/// durable, whether the file grows, how large the writes are, and how many sessions share one sync.
/// This command creates its own files in a directory (a log of 128 MiB, plus less than that for
/// logs of single writers; at most a tenth of the free space) and varies these parameters in
/// experiments, one short step per point, in about three minutes:
///
///   commands           the requests that a commit sends to the device, traced by the kernel where
///                      that is permitted: 20 commits per method and file mode
///   sync-calls         whether sync calls reach the device, through the C library and without it
///   methods            4 KiB by one writer into a recycled log, with each way to make it durable,
///                      O_DIRECT and buffered, and not durable for contrast
///   sync-every         fdatasync after every 1 to 1024 writes of 4 KiB, buffered
///   flush-slope        the time of a flush after 1 to 1024 random writes of 4 KiB, O_DIRECT
///   file-modes         a log that is recycled, zero-filled, preallocated (fallocate) or grows
///   writers            1 to 128 writers on one file, and on a file each, O_DIRECT, fdatasync each
///   sizes-and-writers  4 KiB to 1 MiB by 1 to 64 writers, the same volume for all
///   group-commit       1, 8 and 64 committers that share the syncs of one log, against as many
///                      independent durable writers, with records of 256 B and 8 KiB
///   commit-delay       64 committers: how long a leader waits for more records, and how many bytes a
///                      batch has at most
///   sizes              512 B to 16 MiB by one writer, durable and not
///   cross              only with --thorough: every method in every file mode, at every size and number
///                      of writers
///
/// If the kernel, filesystem or device refuses something (a flag, O_DIRECT, fallocate), the report
/// says so with the reason, and the rest is measured; an I/O error ends the run. The report also
/// lists what a shorter run skipped. Only the run folder with the record and the report is kept.
///
/// An existing file or block device is measured only if --destroy names it, without the experiments
/// that need several kinds of files.
///
///   durio durable --quick /var/lib/postgresql
///   durio durable --only methods --only sizes /data
///   durio durable --thorough --destroy /dev/nvme1n1 /dev/nvme1n1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_help = TABLE)]
pub(crate) struct Durable {
    /// Directory; or, with --destroy, a file or block device
    #[arg(value_name = "PATH", default_value = ".")]
    pub(crate) path: PathBuf,

    /// Same as PATH; as in durio run and durio sweep
    #[arg(long, value_name = "PATH", conflicts_with = "path", help_heading = "What")]
    pub(crate) target: Option<PathBuf>,

    /// Finish in about 30 s, with fewer points
    #[arg(long, conflicts_with = "thorough", help_heading = "How long, how large")]
    pub(crate) quick: bool,

    /// Twice the time per step, and the cross experiment: about twenty minutes
    #[arg(long, alias = "full", help_heading = "How long, how large")]
    pub(crate) thorough: bool,

    /// Only this experiment (can be repeated); its steps last as long as in a thorough run
    #[arg(long, value_name = "EXPERIMENT", help_heading = "How long, how large")]
    pub(crate) only: Vec<String>,

    /// Size of the log, such as 1GiB; may exceed a tenth of the free space
    #[arg(long, value_name = "SIZE", help_heading = "How long, how large")]
    pub(crate) size: Option<Bytes>,

    #[command(flatten)]
    pub(crate) common: Measuring,
}

pub(crate) fn durable(arguments: Durable) -> Result<Exit, CommandError> {
    let length = length(&arguments);
    let common = arguments.common;
    let LocatedPlaces { mut places, held } =
        locate([arguments.target.as_ref().unwrap_or(&arguments.path)], &common)?;
    let Some(location) = places.pop() else {
        return Err(CommandError::wrong_use("there is no path to measure"));
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

/// Announces the steps to run, their time, and how much is left out: the report says what.
fn announce(plan: &Plan) {
    let steps = plan.steps.iter().filter(|step| step.role != Role::SelfCost).count();
    let campaign = plan.campaign.as_ref();
    let experiments = campaign.map_or(0, |campaign| campaign.sections.len());
    let (steps, experiments) =
        (counted(steps as u64, "step"), counted(experiments as u64, "experiment"));
    let left_out = match campaign.map_or(0, |campaign| campaign.left_out.len()) {
        0 => String::new(),
        parts => format!("; {} left out (the report names them)", counted(parts as u64, "part")),
    };
    let time = clock(plan.cost().time);
    output::remarks([format!("{steps} in {experiments}, about {time}{left_out}")]);
}

fn nothing_measured(findings: &Findings) -> CommandError {
    let failure = CommandError::cannot_measure("none of this can be measured here");
    match findings.declined_steps.first() {
        Some(first) => failure.hint(first.reason.clone()),
        None => failure,
    }
}
