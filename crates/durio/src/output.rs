//! Writing to stdout and stderr: a closed pipe or terminal ends quietly, a full disk is an error.
//!
//! What is text goes through here to be spelt out (`durio_report::visible`): names, paths and the
//! messages of other programs steer no terminal. What durio-report wrote is spelt out already.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use durio_bench::{BenchError, BenchErrorKind, with_causes};
use durio_report::{Format, Options, Report, visible, visible_lines};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::exit_code::Exit;

/// Columns of a table where stdout is no terminal.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// Writes text that has no styles to stdout.
pub(crate) fn answer_text(text: &str) -> Result<(), BenchError> {
    answer(visible_lines(text).as_bytes())
}

/// Writes a document to stdout, or a report, as they are.
pub(crate) fn answer(bytes: &[u8]) -> Result<(), BenchError> {
    let mut stdout = Stream(io::stdout().lock());
    // Flushed here: what is still buffered would fail at the exit, where nobody looks at it.
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // Whoever reads has enough: that is no error of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let error = BenchError::of(BenchErrorKind::CannotMeasure, error);
            Err(error.context("cannot write to stdout"))
        }
    }
}

/// Writes a remark of durio's to stderr for each of these lines.
pub(crate) fn remarks<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) {
    lines.into_iter().for_each(|line| remark(&format!("durio: {line}")));
}

/// A standard stream. A terminal that was closed is for its writer what a closed pipe is.
pub(crate) struct Stream<W>(pub(crate) W);

impl<W: Write + AsFd> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| reader_gone(&self.0, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| reader_gone(&self.0, error))
    }
}

// A terminal answers EIO after its hang-up (drivers/tty/tty_io.c, `hung_up_tty_write`), when it does
// not say any more that it is one; a file's EIO is the storage's.
fn reader_gone(stream: &impl AsFd, error: io::Error) -> io::Error {
    let is_hung_up = || {
        let kind = rustix::fs::fstat(stream).map(|facts| FileType::from_raw_mode(facts.st_mode));
        kind == Ok(FileType::CharacterDevice)
    };
    match error.raw_os_error() == Some(Errno::IO.raw_os_error()) && is_hung_up() {
        true => io::ErrorKind::BrokenPipe.into(),
        false => error,
    }
}

/// Writes a report to stdout in `format`.
pub(crate) fn report(format: Format, report: &impl Report) -> Result<(), BenchError> {
    // Made whole before its first byte is written: a report that fails leaves no half document on
    // stdout, which a program might read.
    let mut bytes = Vec::new();
    durio_report::write(format, report, &terminal_options(), &mut bytes)
        .map_err(BenchError::unmade)?;
    answer(&bytes)
}

/// How stdout shows text.
fn terminal_options() -> Options {
    let stdout = io::stdout();
    // A terminal may say that it has no columns: serial lines and some emulators do.
    let columns = rustix::termios::tcgetwinsize(&stdout).map(|size| usize::from(size.ws_col));
    Options {
        width: columns.ok().filter(|&columns| columns > 0).unwrap_or(WIDTH_WITHOUT_TERMINAL),
        colour: takes_colour(),
    }
}

// As <https://no-color.org> and <https://bixense.com/clicolors> have it, and the terminal itself.
fn takes_colour() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

// A terminal of which nothing is known gets no colours, as one that is `dumb`; also from clap, which asks
// the same library.
pub(crate) fn begin() {
    let is_unknown = std::env::var_os("TERM").is_some_and(|kind| kind.is_empty());
    // Who forces colours knows the terminal better.
    if is_unknown && std::env::var_os("CLICOLOR_FORCE").is_none() {
        ColorChoice::Never.write_global();
    }
}

/// True if stderr is a terminal on which a line can be drawn again (terminfo(5): `dumb` cannot).
pub(crate) fn stderr_can_be_redrawn() -> bool {
    let kind = std::env::var_os("TERM").unwrap_or_default();
    io::stderr().is_terminal() && !kind.is_empty() && kind != "dumb"
}

/// Writes a line to stderr; there is nobody to tell if that fails. Further lines, such as another
/// program's, are indented: a name with line breaks makes no line that looks like durio's.
pub(crate) fn remark(text: &str) {
    let text = visible_lines(text.trim_end());
    let mut lines = text.split('\n');
    let mut shown = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        shown.push_str(if line.starts_with(' ') { "\n" } else { "\n    " });
        shown.push_str(line);
    }
    let _ = writeln!(io::stderr().lock(), "{shown}");
}

/// Shows clap's message: help and version on stdout, errors on stderr.
pub(crate) fn show_usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let _ = io::stderr().lock().write_all(wrong_words(error).as_bytes());
        return Exit::Failed(BenchErrorKind::WrongUse).into();
    }
    let text = error.render();
    let bytes = match takes_colour() {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    conclude(answer(bytes.as_bytes()).map(|()| Exit::Fine)).into()
}

// clap's message, which has the user's words as they are: first those are spelt out, then clap's styles
// are the only escape sequences, and taken out.
fn wrong_words(error: &clap::Error) -> String {
    let mut text = error.render().ansi().to_string();
    for word in std::env::args_os() {
        let word = word.to_string_lossy();
        let value = word.split_once('=').map(|(_, value)| value);
        // clap quotes the value of `--name=value` without the name.
        for part in [Some(&*word), value].into_iter().flatten() {
            let shown = visible(part);
            if shown != part {
                text = text.replace(part, &shown);
            }
        }
    }
    visible_lines(&anstream::adapter::strip_str(&text).to_string())
}

/// Prints the chain of causes and the hints of a failure, and gives the exit code.
pub(crate) fn conclude(outcome: Result<Exit, BenchError>) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            remark(&format!("durio: {}", with_causes(&failure)));
            failure.hints.iter().for_each(|hint| remark(&format!("hint: {hint}")));
            Exit::Failed(failure.kind)
        }
    }
}
