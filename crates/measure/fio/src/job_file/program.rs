//! What fio's command line says in addition to jobs: the options of the program itself, and what
//! they make it print: where, in which formats, or only about itself.
//!
//! Each value is read by its row of the table of options (the error is a sentence), which collects
//! [`PrintSettings`] from `--output`, `--output-format`, `--terse-version`, `--eta` and the like.

use std::time::Duration;

use ProgramClass::{Noted, Printing, ReadOnly, Refused, Section};
use TakesWord::{MaybeValue, Nothing, Value};

use super::values::seconds;

/// A form of fio's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputFormat {
    /// A line of fields between semicolons per row.
    Terse,
    /// One JSON document (`json`).
    Json,
    /// The document with the histograms.
    JsonPlus,
    /// The text for people.
    Normal,
}

/// What fio does instead of running jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `--version`: say which version it is.
    Version,
    /// `--parse-only`: say whether the jobs can be read.
    ParseOnly,
    /// `--cmdhelp=NAME`: say what an option means; "" or "all" for all of them.
    Option(String),
}

/// What to print and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintSettings {
    /// The file of `--output`; none prints to stdout.
    pub output: Option<String>,
    /// The formats, each once.
    pub formats: Vec<OutputFormat>,
    /// The version of the terse format, 2 to 5.
    pub terse_version: u8,
    /// Progress on a terminal; not with `--eta=never`.
    pub shows_progress: bool,
    /// How often results so far are printed while jobs run.
    pub status_interval: Option<Duration>,
    /// The question asked instead of a run.
    pub question: Option<Question>,
}

impl Default for PrintSettings {
    fn default() -> Self {
        Self {
            output: None,
            formats: vec![OutputFormat::Normal],
            terse_version: 3,
            shows_progress: true,
            status_interval: None,
            question: None,
        }
    }
}

impl PrintSettings {
    /// True if a format is for people, so that lines about the start belong before it.
    pub fn is_for_people(&self) -> bool {
        self.formats.contains(&OutputFormat::Normal)
    }

    pub(super) fn print_to(&mut self, file: &str) -> Result<(), String> {
        self.output = Some(file.to_owned());
        Ok(())
    }

    // fio's list has commas between; json+ takes the place of json.
    pub(super) fn print_as(&mut self, list: &str) -> Result<(), String> {
        self.formats.clear();
        for word in list.split(',').map(str::trim) {
            self.add(match word {
                "minimal" | "terse" | "csv" => OutputFormat::Terse,
                "json" => OutputFormat::Json,
                "json+" => OutputFormat::JsonPlus,
                "normal" => OutputFormat::Normal,
                other => {
                    return Err(format!("{other:?}: expected one of: normal, terse, json, json+"));
                }
            });
        }
        // json+ has all that json has.
        if self.formats.contains(&OutputFormat::JsonPlus) {
            self.formats.retain(|format| *format != OutputFormat::Json);
        }
        Ok(())
    }

    pub(super) fn print_terse_too(&mut self, _: &str) -> Result<(), String> {
        self.add(OutputFormat::Terse);
        Ok(())
    }

    pub(super) fn ask(&mut self, question: Question) -> Result<(), String> {
        self.question = Some(question);
        Ok(())
    }

    fn add(&mut self, format: OutputFormat) {
        if !self.formats.contains(&format) {
            self.formats.push(format);
        }
    }

    pub(super) fn print_terse_as(&mut self, text: &str) -> Result<(), String> {
        let version = text.trim().parse().ok().filter(|version| (2..=5).contains(version));
        self.terse_version =
            version.ok_or_else(|| format!("{text:?}: expected one of: 2, 3, 4, 5"))?;
        Ok(())
    }

    pub(super) fn print_every(&mut self, text: &str) -> Result<(), String> {
        let micros = seconds(text)?;
        // As in fio.
        if micros < 1000 {
            return Err(format!("{text:?}: expected 1 ms or more"));
        }
        self.status_interval = Some(Duration::from_micros(micros));
        Ok(())
    }

    pub(super) fn show_progress(&mut self, text: &str) -> Result<(), String> {
        self.shows_progress = match text {
            "always" | "auto" => true,
            "never" => false,
            other => return Err(format!("{other:?}: expected one of: always, auto, never")),
        };
        Ok(())
    }
}

/// Whether a word follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::job_file) enum TakesWord {
    Nothing,
    /// A value: after `=`, or the next word.
    Value,
    /// A value only after `=`.
    MaybeValue,
}

/// Changes the print settings by an option's value, "" for none; the error is a sentence.
type Prints = fn(&mut PrintSettings, &str) -> Result<(), String>;

/// What durio does with an option of the program.
#[derive(Debug, Clone, Copy)]
pub(in crate::job_file) enum ProgramClass {
    /// Only jobs of that name are read.
    Section,
    /// Jobs that write are errors.
    ReadOnly,
    /// It sets the output: its contents, its place, its format.
    Printing(Prints),
    /// It changes only how fio prints or measures itself.
    Noted,
    /// It makes fio do something else.
    Refused(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(in crate::job_file) struct ProgramOption {
    pub(in crate::job_file) name: &'static str,
    pub(in crate::job_file) takes: TakesWord,
    pub(in crate::job_file) class: ProgramClass,
    pub(super) meaning: &'static str,
}

const ASKS: ProgramClass = Refused("it prints information instead of running jobs; ask fio itself");
const REMOTE: ProgramClass = Refused("durio does not support fio's clients and servers");
const TRIGGER: ProgramClass = Refused("durio has no triggers");
const REPLAY: ProgramClass = Refused("durio does not replay fio logs");
const INSTEAD: ProgramClass = Refused("fio refuses it as well; use write_lat_log");

/// `"name": TakesWord, class, "meaning";`.
macro_rules! program {
    ($($name:literal: $takes:expr, $class:expr, $meaning:literal;)+) => {
        /// fio's options of 3.33 to 3.42 (`init.c`), without those that are also a job's.
        pub(super) const ROWS: &[ProgramOption] =
            &[$(ProgramOption { name: $name, takes: $takes, class: $class, meaning: $meaning }),+];
    };
}

program! {
    "section": Value, Section, "only jobs of this name are run";
    "readonly": Nothing, ReadOnly, "jobs that write are errors";
    "output": Value, Printing(PrintSettings::print_to), "the file of the results";
    "output-format": Value, Printing(PrintSettings::print_as),
        "normal, terse, json, json+, and lists of them";
    "minimal": Nothing, Printing(|to, _| to.print_as("terse")), "the terse format";
    "append-terse": MaybeValue, Printing(PrintSettings::print_terse_too),
        "the terse format in addition to the others";
    "terse-version": Value, Printing(PrintSettings::print_terse_as),
        "version of the terse format: 2, 3, 4 or 5";
    "eta": Value, Printing(PrintSettings::show_progress), "progress: always, never or auto";
    "version": Nothing, Printing(|to, _| to.ask(Question::Version)), "prints the version";
    "parse-only": Nothing, Printing(|to, _| to.ask(Question::ParseOnly)),
        "reads the jobs and runs none";
    "cmdhelp": MaybeValue, Printing(|to, name| to.ask(Question::Option(name.to_owned()))),
        "prints what an option means; without a name, all of them";
    "bandwidth-log": MaybeValue, Noted, "a log of the rate of all jobs";
    "eta-interval": Value, Noted, "how often progress is shown";
    "eta-newline": Value, Noted, "how often the status is printed on a new line";
    "status-interval": Value, Printing(PrintSettings::print_every),
        "how often results so far are printed";
    "debug": Value, Noted, "what fio prints about itself";
    "alloc-size": Value, Noted, "KiB of memory that fio shares between jobs";
    "max-jobs": Value, Noted, "the most jobs";
    "warnings-fatal": Nothing, Noted, "warnings of the parser are errors";
    "idle-prof": Value, Noted, "measures how idle the CPUs are";
    "aux-path": Value, Noted, "the directory of files that fio creates";
    "latency-log": Value, INSTEAD, "a log of latencies";
    "help": Nothing, ASKS, "prints the program's options";
    "enghelp": MaybeValue, ASKS, "prints the engines, or the options of one";
    "showcmd": Nothing, ASKS, "prints a job file as a command line";
    "cpuclock-test": Nothing, ASKS, "tests the CPU's clock";
    "crctest": MaybeValue, ASKS, "measures checksums";
    "memcpytest": MaybeValue, ASKS, "measures copies in memory";
    "inflate-log": Value, ASKS, "prints a compressed log";
    "server": MaybeValue, REMOTE, "run jobs sent by clients";
    "server-internal": Value, REMOTE, "the server's own processes";
    "daemonize": Value, REMOTE, "the server runs in the background";
    "client": Value, REMOTE, "run the jobs on this server";
    "remote-config": Value, REMOTE, "a job file of the server";
    "trigger-file": Value, TRIGGER, "the trigger is this file";
    "trigger-timeout": Value, TRIGGER, "the trigger is this time";
    "trigger": Value, TRIGGER, "the command of the trigger";
    "trigger-remote": Value, TRIGGER, "the command of the trigger, on the server";
    "merge-blktrace-only": Nothing, REPLAY, "merges traces and runs nothing";
}

pub(in crate::job_file) fn find_program_option(name: &str) -> Option<&'static ProgramOption> {
    ROWS.iter().find(|row| row.name == name)
}
