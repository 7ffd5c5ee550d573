//! `durio prove states`: the crash states of a log, each checked by the user's command.

use durio_analyse::crash_states::CheckOutcome;
use durio_bench::BenchError;
use durio_prove::{CrashStatesWish, check_crash_state, check_crash_states};

use crate::args::ProveStates;
use crate::exit_code::Exit;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn states(arguments: &ProveStates) -> Result<Exit, BenchError> {
    super::prove::refuse_fio(arguments.output)?;
    let (stop, terminal) = (stop_on_signals()?, Terminal::new(false));
    let wish = CrashStatesWish {
        log: &arguments.log,
        base: arguments.base.as_deref(),
        size: arguments.size,
        limit: usize::try_from(arguments.limit).unwrap_or(usize::MAX),
        seed: arguments.seed,
        check: &arguments.check,
        patience: arguments.time_limit,
    };
    let findings = match arguments.only {
        Some(name) => check_crash_state(&wish, name, arguments.save.as_deref(), &stop)?,
        None => check_crash_states(&wish, &stop, &terminal)?,
    };
    if arguments.check.is_empty() {
        return Ok(Exit::Fine);
    }
    output::report(arguments.output, &findings)?;
    Ok(match findings.verdict() {
        _ if !findings.is_complete => Exit::INTERRUPTED,
        CheckOutcome::Passed => Exit::Fine,
        CheckOutcome::Failed => Exit::Negative,
        CheckOutcome::Undecided => Exit::CANNOT_MEASURE,
    })
}
