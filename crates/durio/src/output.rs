//! Writing to stdout and stderr: a closed pipe or terminal ends quietly, a full disk is an error. Files
//! that a command writes in addition are new ones.
//!
//! Text is made visible here (`durio_base::visible_lines`): names, paths and the messages of
//! other programs cannot control the terminal. Output of durio-report is visible already.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::{AutoStream, ColorChoice};
use durio_base::{visible, visible_lines};
use durio_command::http::reach_warning;
use durio_command::{CommandError, error_chain};
use durio_report::{Format, Options, Report, wrapped};
use rustix::fs::FileType;
use rustix::io::Errno;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::exit_code::Exit;
use crate::options::OutputArguments;

/// Columns of a table if stdout is not a terminal.
const WIDTH_WITHOUT_TERMINAL: usize = 100;

/// Writes text that has no styles to stdout.
pub(crate) fn answer_text(text: &str) -> Result<(), CommandError> {
    answer(visible_lines(text).as_bytes())
}

/// Writes a document to stdout, or a report, as they are.
pub(crate) fn answer(bytes: &[u8]) -> Result<(), CommandError> {
    clear_status();
    let mut stdout = StandardStream(io::stdout().lock());
    // Flushed here: a failure to write the rest at exit would go unnoticed.
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // The reader has closed the pipe: not an error of ours.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let error = CommandError::cannot(error);
            Err(error.context("cannot write to stdout"))
        }
    }
}

/// Announces an action and asks for consent on the terminal; wrong use without a terminal.
pub(crate) fn agreed(what: &str) -> Result<bool, CommandError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CommandError::wrong_use(format!(
            "{what}: confirmation needed, but there is no terminal"
        ))
        .hint("add --yes"));
    }
    let _ = write!(io::stderr().lock(), "{}; continue? [y/N] ", visible_lines(what));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes a remark of durio's to stderr for each of these lines.
pub(crate) fn remarks<T: std::fmt::Display>(lines: impl IntoIterator<Item = T>) {
    lines.into_iter().for_each(|line| remark(&format!("durio: {line}")));
}

/// Warns which machines can reach an address where durio listens, unless only this machine can.
pub(crate) fn warn_of_reach(address: SocketAddr, can: &str) {
    if let Some(warning) = reach_warning(address, can) {
        remark(&warning);
    }
}

/// A standard stream. A closed terminal counts as a closed pipe.
pub(crate) struct StandardStream<W>(pub(crate) W);

impl<W: Write + AsFd> Write for StandardStream<W> {
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

/// Writes a report to stdout as `wished`, or to the file that was named for it.
pub(crate) fn report(wished: OutputArguments, report: &impl Report) -> Result<(), CommandError> {
    // Made whole before its first byte is written: a report that fails leaves no half document on
    // stdout, which a program might read.
    let mut bytes = Vec::new();
    let shown = match wished.report_file {
        Some(_) => Options::default(),
        None => terminal_options(),
    };
    let options = Options { verbose: wished.verbose, ..shown };
    match durio_report::write(wished.format(), report, &options, &mut bytes) {
        Ok(()) => deliver(wished, &bytes),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            Err(unsupported(wished, "expected text, json, html or markdown"))
        }
        Err(error) => Err(CommandError::unmade(error)),
    }
}

/// Writes a report that is made to stdout, or to the file that was named for it.
pub(crate) fn deliver(wished: OutputArguments, bytes: &[u8]) -> Result<(), CommandError> {
    let Some(file) = wished.report_file else { return answer(bytes) };
    write_new(file.path, bytes)?;
    remark(&format!("durio: wrote {}", file.path.display()));
    Ok(())
}

/// The error for a format that the command does not support, with the formats that it does.
pub(crate) fn unsupported(wished: OutputArguments, hint: &str) -> CommandError {
    let format = wished.format();
    CommandError::wrong_use(format!("--format {format} is not supported here")).hint(hint)
}

/// Refuses fio's format for results that it cannot represent: before hours of measuring, not after.
pub(crate) fn refuse_fio(wished: OutputArguments, parts: &str) -> Result<(), CommandError> {
    match wished.format() {
        Format::FioJson => {
            let hint = format!("for one of its runs: durio report {parts} --format fio-json");
            Err(unsupported(wished, &hint))
        }
        _ => Ok(()),
    }
}

/// How stdout shows text.
fn terminal_options() -> Options {
    Options { width: columns(&io::stdout()), colour: takes_colour(), ..Options::default() }
}

/// The columns of a stream's terminal.
pub(crate) fn columns(stream: &impl AsFd) -> usize {
    // A terminal may say that it has no columns: serial lines and some emulators do.
    let columns = rustix::termios::tcgetwinsize(stream).map(|size| usize::from(size.ws_col));
    columns.ok().filter(|&columns| columns > 0).unwrap_or(WIDTH_WITHOUT_TERMINAL)
}

// As in <https://no-color.org> and <https://bixense.com/clicolors>, and by the terminal.
pub(crate) fn takes_colour() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

// An unknown terminal gets no colours, like a `dumb` one; also from clap, which asks the same
// library.
pub(crate) fn begin() {
    let is_unknown = std::env::var_os("TERM").is_some_and(|kind| kind.is_empty());
    // A user who forces colours knows the terminal better.
    if is_unknown && std::env::var_os("CLICOLOR_FORCE").is_none() {
        ColorChoice::Never.write_global();
    }
}

/// True if stderr is a terminal on which a line can be drawn again (terminfo(5): `dumb` cannot).
pub(crate) fn stderr_can_be_redrawn() -> bool {
    let kind = std::env::var_os("TERM").unwrap_or_default();
    io::stderr().is_terminal() && !kind.is_empty() && kind != "dumb"
}

/// True while stderr's last line is a status line.
// One per process, not per observer: a report or an error that follows from anywhere removes the line.
static IS_STATUS_SHOWN: AtomicBool = AtomicBool::new(false);

/// The start of the line, and nothing on it (ECMA-48, EL).
const EMPTY_LINE: &str = "\r\u{1b}[2K";

/// Shows a line that replaces the last one of this kind, cut to the terminal's width; only where
/// [`stderr_can_be_redrawn`].
pub(crate) fn status(line: &str) {
    // Some terminals wrap as soon as the last column is filled.
    let line = fitted(line, columns(&io::stderr()).saturating_sub(1));
    IS_STATUS_SHOWN.store(true, Ordering::Relaxed);
    let _ = write!(io::stderr().lock(), "{EMPTY_LINE}{line}");
}

/// Removes the status line, before other output.
pub(crate) fn clear_status() {
    if IS_STATUS_SHOWN.swap(false, Ordering::Relaxed) {
        let _ = write!(io::stderr().lock(), "{EMPTY_LINE}");
    }
}

/// The text on one line of at most `width` columns, with an ellipsis where it was cut.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    let text = visible(text.trim_end());
    if text.width() <= width {
        return text;
    }
    let mut shown = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        // Characters of East Asia take two columns.
        let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
        left = rest;
        shown.push(c);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

/// Writes a line to stderr, ignoring failures. Further lines, such as another program's, are
/// indented: a name with line breaks cannot imitate a line of durio's.
pub(crate) fn remark(text: &str) {
    clear_status();
    let text = visible_lines(text.trim_end());
    let mut lines = text.split('\n');
    let mut shown = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        shown.push_str(if line.starts_with(' ') { "\n" } else { "\n    " });
        shown.push_str(line);
    }
    let _ = writeln!(io::stderr().lock(), "{shown}");
}

/// Indentation of the further lines of a folded text.
const INDENT: &str = "    ";

/// The text in lines of at most `width` columns, further ones indented; a longer word, such as a path,
/// is not broken.
pub(crate) fn folded(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    wrapped(text, width.saturating_sub(INDENT.len())).join(&format!("\n{INDENT}"))
}

/// Prints the chain of causes and the hints of a failure, and gives the exit code.
pub(crate) fn conclude(outcome: Result<Exit, CommandError>) -> Exit {
    clear_status();
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            let chain = error_chain(&failure);
            remark(&format!("durio: {chain}"));
            failure.hints.iter().for_each(|hint| remark(&format!("hint: {hint}")));
            // Any file may be the one too many: asked here, not where each is opened.
            if chain.contains(&io::Error::from(Errno::MFILE).to_string()) {
                remark("hint: raise the limit on open files, such as 'ulimit -n 1024'");
            }
            Exit::Failed(failure.kind)
        }
    }
}

pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    write_new_by(path, |file| file.write_all(bytes))
}

/// The same, written piece by piece. A partial file is removed.
pub(crate) fn write_new_by(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), CommandError> {
    let fail = |error| CommandError::io("write", path, error);
    let mut file = BufWriter::new(File::create_new(path).map_err(fail)?);
    write(&mut file).and_then(|()| file.flush()).map_err(|error| {
        let _ = fs::remove_file(path);
        fail(error)
    })
}

/// The path of a profile as a command takes it: one without a slash or `.toml` would be the name of a built-in
/// profile.
pub(crate) fn named_as_file(path: &Path) -> String {
    let is_plain = path.extension().is_none_or(|ending| ending != "toml");
    let shown = path.display().to_string();
    if is_plain && !shown.contains('/') { format!("./{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::values::refuse_existing;

    #[test]
    fn only_a_new_name_in_a_directory_that_is_there_is_taken_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "a user's").unwrap();
        fs::create_dir(at("folder")).unwrap();
        for (to, name) in [("file", "link"), ("nothing", "dangling"), ("folder", "way")] {
            symlink(to, at(name)).unwrap();
        }
        let refused = |name: &str| refuse_existing(&at(name)).err().map(|error| error.to_string());
        for name in ["file", "folder", "link", "dangling", "way"] {
            let said = refused(name).unwrap_or_default();
            assert!(said.ends_with(&format!("/{name}' exists, and is not overwritten")), "{said}");
        }
        for name in ["nothing/new", "file/new", "dangling/new"] {
            assert!(refused(name).unwrap_or_default().ends_with(" is not a directory"));
        }
        assert_eq!(["new", "folder/new", "way/new"].map(refused), [const { None }; 3]);
    }

    #[test]
    fn a_status_line_is_cut_by_columns_and_never_longer_than_its_terminal() {
        let rows = [
            ("2/9 commit", 10, "2/9 commit"),
            ("2/9 commit", 9, "2/9 comm…"),
            ("2/9 commit  \n", 10, "2/9 commit"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
            ("a\u{1b}[2Kb", 9, "a\\u{1b}[…"),
        ];
        for (text, width, expected) in rows {
            assert_eq!(fitted(text, width), expected, "{text:?} in {width}");
            assert!(fitted(text, width).width() <= width, "{text:?} in {width}");
        }
    }

    #[test]
    fn a_note_is_folded_at_80_and_100_columns_and_one_that_fits_stays() {
        for width in [80, 100] {
            let note = |length: usize| format!("note: job.fio:3: {}", "x".repeat(length - 17));
            assert_eq!(folded(&note(width), width), note(width));
            let broken = format!("note: job.fio:3:\n    {}", "x".repeat(width - 16));
            assert_eq!(folded(&note(width + 1), width), broken);
        }
        let note = "note: job.fio:12: bsrange: every size of the range is drawn with the same chance, \
                    by 512 B, also where --bssplit is given";
        let in_80 = "note: job.fio:12: bsrange: every size of the range is drawn with the same\n    \
                     chance, by 512 B, also where --bssplit is given";
        let in_100 = "note: job.fio:12: bsrange: every size of the range is drawn with the same chance, \
                      by 512 B, also\n    where --bssplit is given";
        assert_eq!([folded(note, 80), folded(note, 100)], [in_80, in_100]);
        // A path that is longer than the line is whole.
        let path = format!("/{}", "p".repeat(90));
        let note = format!("note: it is in {path}");
        assert_eq!(folded(&note, 80), format!("note: it is in\n    {path}"));
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_is_removed_and_one_that_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        for length in [0, 10, 20_000] {
            let failed = write_new_by(&path, |file| {
                file.write_all(&vec![7; length])?;
                Err(io::Error::other("the disk is full"))
            });
            let said = error_chain(&failed.unwrap_err());
            assert!(said.contains("/page'") && said.contains("the disk is full"), "{said}");
            assert!(!path.exists(), "{length} bytes");
        }
        write_new(&path, b"whole").unwrap();
        write_new(&path, b"another").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn a_path_that_a_command_would_take_for_a_built_in_profile_gets_a_slash() {
        let paths = ["mine", "mine.conf", "mine.toml", "there/mine", "./mine", "/there/mine"];
        let named = ["./mine", "./mine.conf", "mine.toml", "there/mine", "./mine", "/there/mine"];
        assert_eq!(paths.map(|path| named_as_file(Path::new(path))), named);
    }
}
