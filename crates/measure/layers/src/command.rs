//! One step of a build: its action, and its undo.
//!
//! A [`BuildCommand`] is both shown and carried out.
//!
//! A name that only the kernel knows stands as a placeholder in braces: `{loop0}`. The step whose
//! [`Action::Run::output`] has that name fills it in.

use std::fmt;

use durio_base::{Bytes, shell_word};

use crate::error::BuildError;
use crate::kinds::{StepCheck, Undo};
use crate::place::{Values, filled};
use crate::step::{Present, Stepper};

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildCommand {
    /// The layer that it belongs to, from zero at the bottom.
    pub layer: usize,
    pub action: Action,
    /// What undoes it, if anything needs to be undone.
    pub undo: Option<Undo>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A program is run, without a shell.
    Run {
        /// The program's name, looked for in PATH.
        program: String,
        /// Its words.
        arguments: Vec<String>,
        /// The placeholder that its standard output, without blanks at the ends, is kept under.
        output: Option<String>,
    },
    /// A program is started that stays, and serves a device until it is ended.
    Serve {
        program: String,
        /// Its words.
        arguments: Vec<String>,
        /// The placeholder that the device which it says is kept under.
        output: String,
    },
    /// A driver is loaded, unless it is there.
    Load {
        module: String,
        /// Its parameters.
        arguments: Vec<String>,
    },
    /// The kernel's configfs is mounted, unless it is; it stays so.
    MountConfigfs,
    /// A text is written to a file of the kernel.
    Write {
        /// The file.
        path: String,
        text: String,
    },
    /// A directory is made; it must not be there.
    MakeDirectory { path: String },
    /// A file is made, all of its space allocated; it must not be there.
    MakeFile { path: String, size: Bytes },
    /// Something is looked at; nothing changes.
    Check(StepCheck),
}

/// Something that is looked at before or after a step.
pub(crate) trait Checking {
    /// As it is shown.
    fn text(&self) -> String;
    /// Looks at it.
    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError>;
}

impl Action {
    /// A program and its words, and the placeholder that keeps its output.
    pub(crate) fn run<S: AsRef<str>>(
        program: &str,
        arguments: &[S],
        output: Option<String>,
    ) -> Self {
        let arguments = arguments.iter().map(|word| word.as_ref().to_owned()).collect();
        Self::Run { program: program.to_owned(), arguments, output }
    }

    /// The placeholder that it fills in.
    pub(crate) fn output(&self) -> Option<&String> {
        match self {
            Self::Run { output, .. } => output.as_ref(),
            Self::Serve { output, .. } => Some(output),
            _ => None,
        }
    }

    /// With the placeholders filled in that are known.
    pub(crate) fn filled(&self, values: &Values) -> Self {
        let fill = |text: &String| filled(text, values);
        match self {
            Self::Run { program, arguments, output } => Self::Run {
                program: program.clone(),
                arguments: arguments.iter().map(fill).collect(),
                output: output.clone(),
            },
            Self::Serve { program, arguments, output } => Self::Serve {
                program: program.clone(),
                arguments: arguments.iter().map(fill).collect(),
                output: output.clone(),
            },
            Self::Write { path, text } => Self::Write { path: fill(path), text: fill(text) },
            // The only check that may name a device whose number the kernel chooses.
            Self::Check(StepCheck::Present(present)) => {
                let device = fill(&present.device);
                Self::Check(StepCheck::Present(Present { device, size: present.size }))
            }
            other => other.clone(),
        }
    }

    /// True if it only looks.
    #[must_use]
    pub const fn is_check(&self) -> bool {
        matches!(self, Self::Check(_))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { program, arguments, output } => {
                f.write_str(&in_shell(program, arguments))?;
                output.as_ref().map_or(Ok(()), |name| write!(f, "  → {{{name}}}"))
            }
            Self::Serve { program, arguments, output } => {
                write!(f, "{} &  → {{{output}}}", in_shell(program, arguments))
            }
            Self::Load { module, arguments } => {
                let words: Vec<&String> = std::iter::once(module).chain(arguments).collect();
                write!(f, "{}  (unless the driver is there)", in_shell("modprobe", &words))
            }
            Self::MountConfigfs => {
                f.write_str("mount -t configfs configfs /sys/kernel/config  (unless it is mounted)")
            }
            Self::Write { path, text } => write!(f, "write {text} to {path}"),
            Self::MakeDirectory { path } => write!(f, "make directory {path}"),
            Self::MakeFile { path, size } => write!(f, "make file {path} of {size}"),
            Self::Check(check) => write!(f, "{check}"),
        }
    }
}

/// As one would type it: words with signs that a shell takes otherwise stand in quotes.
pub(super) fn in_shell<S: AsRef<str>>(program: &str, arguments: &[S]) -> String {
    let words = arguments.iter().map(|word| shell_word(word.as_ref()));
    std::iter::once(shell_word(program)).chain(words).collect::<Vec<_>>().join(" ")
}
