//! Options of the fio program itself, which stand on its command line beside those of jobs.

use super::super::printing::{PrintSettings, Question};

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

/// Sets what is printed by an option's value, "" for none; the error is a sentence.
type Prints = fn(&mut PrintSettings, &str) -> Result<(), String>;

/// What durio does with an option of the program.
#[derive(Debug, Clone, Copy)]
pub(in crate::job_file) enum ProgramClass {
    /// Only jobs of that name are read.
    Section,
    /// Jobs that write are errors.
    ReadOnly,
    /// It says what is printed, where, and how.
    Printing(Prints),
    /// It changes only how fio prints or measures itself.
    Noted,
    /// It makes fio do something else.
    Refused(&'static str),
}

/// One option of the program.
#[derive(Debug, Clone, Copy)]
pub(in crate::job_file) struct ProgramOption {
    pub(in crate::job_file) name: &'static str,
    pub(in crate::job_file) takes: Takes,
    pub(in crate::job_file) class: ProgramClass,
    pub(super) meaning: &'static str,
}

const ASKS: ProgramClass =
    ProgramClass::Refused("it makes fio tell something instead of running jobs; ask fio itself");
const REMOTE: ProgramClass =
    ProgramClass::Refused("durio does not speak with fio's servers and clients");
const TRIGGER: ProgramClass = ProgramClass::Refused("durio has no triggers");
const REPLAY: ProgramClass = ProgramClass::Refused("durio replays no fio logs");
const INSTEAD: ProgramClass = ProgramClass::Refused("fio refuses it as well; use write_lat_log");

/// `class => { "name": Takes, "meaning"; }`.
macro_rules! program {
    ($($class:expr => { $($name:literal: $takes:ident, $meaning:literal;)+ })+) => {
        /// fio's options of 3.33 to 3.42 (`init.c`), without those that are also a job's.
        pub(super) const ROWS: &[ProgramOption] = &[$($(ProgramOption {
            name: $name,
            takes: Takes::$takes,
            class: $class,
            meaning: $meaning,
        },)+)+];
    };
}

const fn prints(effect: Prints) -> ProgramClass {
    ProgramClass::Printing(effect)
}

program! {
    ProgramClass::Section => { "section": Value, "only jobs of this name are run"; }
    ProgramClass::ReadOnly => { "readonly": Nothing, "jobs that write are errors"; }
    prints(PrintSettings::print_to) => { "output": Value, "the file of the results"; }
    prints(PrintSettings::print_as) => {
        "output-format": Value, "normal, terse, json, json+, and lists of them";
    }
    prints(PrintSettings::print_terse_alone) => {
        "minimal": Nothing, "the terse format";
    }
    prints(PrintSettings::print_terse_too) => {
        "append-terse": MaybeValue, "the terse format beside what else is printed";
    }
    prints(PrintSettings::print_terse_as) => {
        "terse-version": Value, "which terse format: 2, 3, 4 or 5";
    }
    prints(PrintSettings::show_progress) => { "eta": Value, "progress: always, never or auto"; }
    prints(|to, _| to.ask(Question::Version)) => {
        "version": Nothing, "prints the version";
    }
    prints(|to, _| to.ask(Question::ParseOnly)) => {
        "parse-only": Nothing, "reads the jobs and runs none";
    }
    prints(|to, name| to.ask(Question::Option(name.to_owned()))) => {
        "cmdhelp": MaybeValue, "prints what an option means; without a name, all of them";
    }
    ProgramClass::Noted => {
        "bandwidth-log": MaybeValue, "a log of the rate of all jobs";
        "eta-interval": Value, "how often progress is shown";
        "eta-newline": Value, "how often it is shown on a new line";
        "status-interval": Value, "how often results so far are printed";
        "debug": Value, "what fio prints about itself";
        "alloc-size": Value, "KiB of memory that fio shares between jobs";
        "max-jobs": Value, "the most jobs";
        "warnings-fatal": Nothing, "warnings of the parser are errors";
        "idle-prof": Value, "how idle the CPUs are is measured";
        "aux-path": Value, "the directory of files that fio makes";
    }
    INSTEAD => { "latency-log": Value, "a log of latencies"; }
    ASKS => {
        "help": Nothing, "prints the program's options";
        "enghelp": MaybeValue, "prints the engines, or the options of one";
        "showcmd": Nothing, "prints a job file as a command line";
        "cpuclock-test": Nothing, "tests the CPU's clock";
        "crctest": MaybeValue, "measures checksums";
        "memcpytest": MaybeValue, "measures copies in memory";
        "inflate-log": Value, "prints a compressed log";
    }
    REMOTE => {
        "server": MaybeValue, "run jobs sent by clients";
        "server-internal": Value, "the server's own processes";
        "daemonize": Value, "the server runs in the background";
        "client": Value, "run the jobs on this server";
        "remote-config": Value, "a job file of the server";
    }
    TRIGGER => {
        "trigger-file": Value, "the trigger is this file";
        "trigger-timeout": Value, "the trigger is this time";
        "trigger": Value, "the command of the trigger";
        "trigger-remote": Value, "the command of the trigger, on the server";
    }
    REPLAY => { "merge-blktrace-only": Nothing, "merges traces and runs nothing"; }
}

/// The option of the program of that name.
pub(in crate::job_file) fn find_program_option(name: &str) -> Option<&'static ProgramOption> {
    ROWS.iter().find(|row| row.name == name)
}
