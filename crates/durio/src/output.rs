//! Writing to stdout and stderr: a closed pipe ends quietly, a full disk is an error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use durio_analyse::Findings;
use durio_analyse::attribution::{LabComparison, StackFindings};
use durio_report::{Format, Options};

use crate::exit_code::Exit;
use crate::failure::Failure;

/// Columns of a table where stdout is no terminal.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// Writes the answer to stdout.
pub(crate) fn answer(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // Whoever reads has enough: that is no error of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure {
            exit: Exit::CannotMeasure,
            error: anyhow::Error::new(error).context("cannot write to stdout"),
            hints: Vec::new(),
        }),
    }
}

/// Writes findings to stdout in `format`.
pub(crate) fn findings(format: Format, findings: &Findings) -> Result<(), Failure> {
    answer(&rendered(format, findings, terminal_options())?)
}

/// Findings as bytes.
pub(crate) fn rendered(
    format: Format,
    findings: &Findings,
    options: Options,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    durio_report::write(format, findings, &options, &mut bytes).map_err(unmade)?;
    Ok(bytes)
}

/// Findings of a bench of stacks as bytes.
pub(crate) fn rendered_stack(
    format: Format,
    findings: &StackFindings,
    options: Options,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    durio_report::render_stack(format, findings, &options, &mut bytes).map_err(unmade)?;
    Ok(bytes)
}

/// Writes how the cost of layers has changed to stdout.
pub(crate) fn lab_comparison(format: Format, comparison: &LabComparison) -> Result<(), Failure> {
    answer(&rendered_lab_comparison(format, comparison, terminal_options())?)
}

/// How the cost of layers has changed, as bytes.
pub(crate) fn rendered_lab_comparison(
    format: Format,
    comparison: &LabComparison,
    options: Options,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    durio_report::write_lab_comparison(format, comparison, &options, &mut bytes).map_err(unmade)?;
    Ok(bytes)
}

fn unmade(error: io::Error) -> Failure {
    Failure {
        exit: Exit::Fault,
        error: anyhow::Error::new(error).context("cannot make the report"),
        hints: Vec::new(),
    }
}

/// How stdout shows text.
pub(crate) fn terminal_options() -> Options {
    let stdout = io::stdout();
    let columns = rustix::termios::tcgetwinsize(&stdout).map(|size| usize::from(size.ws_col));
    Options {
        width: columns.ok().filter(|&columns| columns > 0).unwrap_or(WIDTH_WITHOUT_TERMINAL),
        colour: stdout.is_terminal() && wants_colour(),
    }
}

/// <https://no-color.org>: any non-empty value switches colours off.
pub(crate) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes a line to stderr; there is nobody to tell if that fails.
pub(crate) fn remark(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Shows clap's message: help and version on stdout, errors on stderr.
pub(crate) fn show_usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let _ = write!(io::stderr().lock(), "{}", error.render());
        return Exit::WrongUse.into();
    }
    let text = error.render();
    let bytes = match io::stdout().is_terminal() && wants_colour() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    conclude(answer(bytes.as_bytes()).map(|()| Exit::Fine)).into()
}

/// Prints the chain of causes and the hints of a failure, and gives the exit code.
pub(crate) fn conclude(outcome: Result<Exit, Failure>) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            let causes: Vec<String> = failure.error.chain().map(ToString::to_string).collect();
            remark(&format!("durio: {}", causes.join(": ")));
            for hint in &failure.hints {
                remark(&format!("hint: {hint}"));
            }
            failure.exit
        }
    }
}
