//! fio's job files and command lines.
//!
//! ```text
//!  text of a file ──► parse_job_file ──────┐
//!                                          ├──► JobFile ──► resolve ──► ResolvedJob per job section
//!  words of a line ─► parse_command_line ──┘    sections       typed options, notes, refusals
//! ```
//!
//! [`HostParameters`] give what fio would look up: included files, environment, machine. The
//! grammar is that of fio 3.42 (`init.c`, `parse.c`, `options.c`), also where its documentation
//! says otherwise. A value that fio would silently misread (`size = 4k` is four bytes, `1.5g` one
//! byte) is an error here.

mod arithmetic;
mod command_line;
mod grammar;
mod note_lines;
mod options;
mod program;
mod resolve;
mod terms;
mod values;

use std::fmt;
use std::sync::Arc;

use crate::FioError;

pub use command_line::parse_command_line;
pub use grammar::parse_job_file;
pub use note_lines::note_lines;
pub use options::{
    Class, DataOptions, DurabilityOptions, Effect, JobOptions, NameOptions, OptionKind, OptionRow,
    OutputOptions, PatternOptions, PlacementOptions, QueueOptions, TargetOptions, TimingOptions,
    find_option, option_help, option_rows,
};
pub use program::{OutputFormat, PrintSettings, Question};
pub use resolve::{Each, GivenOption, GivenValue, Remark, ResolvedJob, resolve};
pub use terms::{
    AccessPattern, AdviceHint, BlockSizeShare, CpuPolicy, Direction, ExitScope, Fallocate,
    FileService, FileServiceOrder, FioEngine, MemoryPolicy, OffsetDistribution, PerDirection,
    RandomGenerator, RateProcess, ReadWrite, Sequencer, SizeValue, SubmitMode, SyncOpen, ZoneShare,
};

/// The longest line that is read, in bytes: fio cuts longer ones in two (`OPT_LEN_MAX`).
pub const LINE_BYTES_MAX: usize = 8191;
/// The longest job file, in bytes; fio has no limit.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// How deep `include` may nest; fio has no limit.
pub const INCLUDE_DEPTH_MAX: u32 = 8;
/// The most settings of a job file, included files too; fio has no limit.
pub const SETTINGS_MAX: usize = 1 << 17;
/// How many jobs there may be, with all their copies: as many as fio takes (`REAL_MAX_JOBS`).
pub const JOBS_MAX: u32 = 4096;
/// How many sections may be read, with those of defaults; fio limits jobs alone.
pub const SECTIONS_MAX: usize = 2 * JOBS_MAX as usize;
/// How many files a job may name, with its defaults; fio has no limit.
pub const FILENAMES_MAX: usize = 4096;
/// How many files all jobs together may name, each with its defaults; fio has no limit.
pub const ALL_FILENAMES_MAX: usize = 1 << 17;

/// Where a setting stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SourcePosition {
    /// A line of a file.
    Line {
        /// The file, as it was named.
        file: Arc<str>,
        /// The line, from 1.
        line: u32,
    },
    /// A word of the command line, from 1.
    Word(u32),
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Word(word) => write!(f, "word {word} of the fio command line"),
        }
    }
}

/// One option as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSetting {
    /// The option, with its main name: aliases are resolved.
    pub name: &'static str,
    /// The text after `=`, with variables replaced; `None` for a bare word.
    pub value: Option<String>,
    pub at: SourcePosition,
}

/// A `[section]`, or the options after `--name=` on a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSection {
    /// The text between the brackets.
    pub name: String,
    /// Whether it changes the defaults of all later sections (its name begins with `global`)
    /// instead of being a job.
    pub is_global: bool,
    /// Which job file it is from: 0 is the command line or the first file. With each later file
    /// the defaults are reset, and its first job waits for all jobs before it.
    pub file_number: u32,
    /// Where the section begins.
    pub at: SourcePosition,
    /// Its options in the order in which they stand; later ones win.
    pub settings: Vec<JobSetting>,
}

/// A job file, or several, or a command line, as sections in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFile {
    /// The sections in order.
    pub sections: Vec<JobSection>,
    /// Remarks on options that concern only fio's output.
    pub notes: Vec<Remark>,
    /// Where `--readonly` stands: no job may write.
    pub read_only: Option<SourcePosition>,
    /// What the program must print.
    pub printing: PrintSettings,
}

impl JobFile {
    /// The options of global sections that have a value, in order, as fio lists them.
    pub fn global_options(&self) -> Vec<(String, String)> {
        let globals = self.sections.iter().filter(|section| section.is_global);
        globals.flat_map(JobSection::valued_options).collect()
    }
}

impl JobSection {
    fn begun(name: &str, file_number: u32, at: &SourcePosition) -> Self {
        // fio compares the first six characters: [globalism] is global too.
        let is_global = name.starts_with("global");
        Self { name: name.to_owned(), is_global, file_number, at: at.clone(), settings: Vec::new() }
    }

    /// The options that have a value, in order. fio 3.33 lists no others; a name that was given on
    /// a command line is the first.
    pub(crate) fn valued_options(&self) -> Vec<(String, String)> {
        // On a command line the name is an option, in a file it stands in brackets.
        let is_named = !self.is_global && matches!(self.at, SourcePosition::Word(_));
        let name = is_named.then(|| ("name".to_owned(), self.name.clone()));
        let valued = |setting: &JobSetting| Some((setting.name.to_owned(), setting.value.clone()?));
        name.into_iter().chain(self.settings.iter().filter_map(valued)).collect()
    }
}

/// A text and the name of the file it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSource {
    /// The file, as it is to be named in messages, and as the base of relative includes.
    pub name: String,
    pub text: String,
}

/// What fio's keywords stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineValues {
    pub page_bytes: u64,
    /// `$mb_memory`: the memory in MiB.
    pub memory_mib: u64,
    /// `$ncpus`: the configured CPUs.
    pub cpus: u32,
}

/// Reads a file: `(name, from)`, where `from` is the file that names it, if any. fio takes a name
/// as it is; if an included file is not there, it looks in the folder of the including file. The
/// error is a sentence.
pub type ReadSource<'a> = dyn FnMut(&str, Option<&str>) -> Result<JobSource, String> + 'a;

/// What a job file may refer to.
pub struct HostParameters<'a> {
    /// Reads included files and the job files that a command line names.
    pub read: &'a mut ReadSource<'a>,
    /// The environment, for `${NAME}`.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The machine, for `$pagesize`, `$mb_memory` and `$ncpus`.
    pub machine: MachineValues,
}

impl fmt::Debug for HostParameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostParameters").field("machine", &self.machine).finish_non_exhaustive()
    }
}

/// True for an option of fio's program that is not a job's.
pub(crate) fn is_program_option(name: &str) -> bool {
    program::find_program_option(name).is_some()
}

/// Looks an option up, or says which one may be meant.
fn known_option(name: &str, at: &SourcePosition) -> Result<&'static OptionRow, FioError> {
    find_option(name).ok_or_else(|| FioError::job_file(at, options::unknown(name)))
}
