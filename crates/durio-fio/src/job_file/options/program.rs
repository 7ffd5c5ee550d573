//! Options of the fio program itself, which stand on its command line beside those of jobs.

/// Whether a word follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job_file) enum Takes {
    /// Nothing.
    Nothing,
    /// A value: after `=`, or the next word.
    Value,
    /// A value only after `=`.
    MaybeValue,
}

/// What durio does with an option of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job_file) enum ProgramClass {
    /// Only jobs of that name are read.
    Section,
    /// Jobs that write are errors.
    ReadOnly,
    /// It says what is printed, where, and how.
    Printing(Printing),
    /// It changes only how fio prints or measures itself.
    OutputOnly,
    /// It makes fio do something else.
    Refused(&'static str),
}

/// The options that say what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job_file) enum Printing {
    /// `--output=FILE`.
    Output,
    /// `--output-format=LIST`.
    Formats,
    /// `--minimal`: terse alone.
    Minimal,
    /// `--append-terse`: terse beside what else is printed.
    AppendTerse,
    /// `--terse-version=N`.
    TerseVersion,
    /// `--eta=WHEN`.
    Eta,
    /// `--version`.
    Version,
    /// `--parse-only`.
    ParseOnly,
}

/// One option of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job_file) struct ProgramOption {
    /// Its name.
    pub(in crate::job_file) name: &'static str,
    /// Whether a word follows.
    pub(in crate::job_file) takes: Takes,
    /// What durio does with it.
    pub(in crate::job_file) class: ProgramClass,
}

const fn row(name: &'static str, takes: Takes, class: ProgramClass) -> ProgramOption {
    ProgramOption { name, takes, class }
}

const fn printing(what: Printing) -> ProgramClass {
    ProgramClass::Printing(what)
}

const ASKS: ProgramClass =
    ProgramClass::Refused("it makes fio tell something instead of running jobs; ask fio itself");
const REMOTE: ProgramClass =
    ProgramClass::Refused("durio does not speak with fio's servers and clients");
const TRIGGER: ProgramClass = ProgramClass::Refused("durio has no triggers");
const REPLAY: ProgramClass = ProgramClass::Refused("durio replays no fio logs");

/// fio's options of 3.33 to 3.42 (`init.c`), without those that are also a job's.
const ROWS: &[ProgramOption] = &[
    row("section", Takes::Value, ProgramClass::Section),
    row("output", Takes::Value, printing(Printing::Output)),
    row("output-format", Takes::Value, printing(Printing::Formats)),
    row("minimal", Takes::Nothing, printing(Printing::Minimal)),
    row("append-terse", Takes::MaybeValue, printing(Printing::AppendTerse)),
    row("terse-version", Takes::Value, printing(Printing::TerseVersion)),
    row("bandwidth-log", Takes::MaybeValue, ProgramClass::OutputOnly),
    row(
        "latency-log",
        Takes::Value,
        ProgramClass::Refused("fio refuses it as well; use write_lat_log"),
    ),
    row("eta", Takes::Value, printing(Printing::Eta)),
    row("eta-interval", Takes::Value, ProgramClass::OutputOnly),
    row("eta-newline", Takes::Value, ProgramClass::OutputOnly),
    row("status-interval", Takes::Value, ProgramClass::OutputOnly),
    row("debug", Takes::Value, ProgramClass::OutputOnly),
    row("alloc-size", Takes::Value, ProgramClass::OutputOnly),
    row("max-jobs", Takes::Value, ProgramClass::OutputOnly),
    row("warnings-fatal", Takes::Nothing, ProgramClass::OutputOnly),
    row("idle-prof", Takes::Value, ProgramClass::OutputOnly),
    row("aux-path", Takes::Value, ProgramClass::OutputOnly),
    row("readonly", Takes::Nothing, ProgramClass::ReadOnly),
    row("version", Takes::Nothing, printing(Printing::Version)),
    row("help", Takes::Nothing, ASKS),
    row("cmdhelp", Takes::MaybeValue, ASKS),
    row("enghelp", Takes::MaybeValue, ASKS),
    row("showcmd", Takes::Nothing, ASKS),
    row("parse-only", Takes::Nothing, printing(Printing::ParseOnly)),
    row("cpuclock-test", Takes::Nothing, ASKS),
    row("crctest", Takes::MaybeValue, ASKS),
    row("memcpytest", Takes::MaybeValue, ASKS),
    row("inflate-log", Takes::Value, ASKS),
    row("server", Takes::MaybeValue, REMOTE),
    row("daemonize", Takes::Value, REMOTE),
    row("client", Takes::Value, REMOTE),
    row("remote-config", Takes::Value, REMOTE),
    row("trigger-file", Takes::Value, TRIGGER),
    row("trigger-timeout", Takes::Value, TRIGGER),
    row("trigger", Takes::Value, TRIGGER),
    row("trigger-remote", Takes::Value, TRIGGER),
    row("merge-blktrace-only", Takes::Nothing, REPLAY),
];

/// The option of the program of that name.
pub(in crate::job_file) fn find_program_option(name: &str) -> Option<&'static ProgramOption> {
    ROWS.iter().find(|row| row.name == name)
}

/// The names of the program's own options.
pub(in crate::job_file) fn program_option_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}
