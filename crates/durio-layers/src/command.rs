//! One step of a build: what is done, and what undoes it.
//!
//! In: words. Out: [`BuildCommand`], which is both shown and carried out. Not here: carrying out.
//!
//! A name that only the kernel knows stands as a placeholder in braces: `{loop0}`. The step whose
//! [`Action::Run::output`] has that name fills it in.

use std::fmt;

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use super::undo::Undo;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildCommand {
    /// The layer that it belongs to, from zero at the bottom.
    pub layer: usize,
    /// What is done.
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
    /// A driver is loaded, unless it is there.
    Load {
        /// The module's name.
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
        /// The text.
        text: String,
    },
    /// A directory is made; it must not be there.
    MakeDirectory {
        /// Where.
        path: String,
    },
    /// A file is made, all of its space allocated; it must not be there.
    MakeFile {
        /// Where.
        path: String,
        /// Its size.
        size: Bytes,
    },
    /// Something is looked at; nothing changes.
    Check(Check),
}

/// What is looked at before or after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "check")]
pub enum Check {
    /// An existing device may be overwritten.
    Unused {
        /// The device.
        device: String,
        /// It was named as one to destroy.
        destroy: bool,
        /// It may hold something.
        force: bool,
    },
    /// No RAM disks are there yet.
    NoRamDisks,
    /// The device node is there, waited for a little while, and has so many bytes.
    Present {
        /// The device.
        device: String,
        /// Its size; of any size without it.
        size: Option<Bytes>,
    },
    /// The initial sync of an array has ended, waited for as long as it takes.
    Synced {
        /// The array.
        device: String,
    },
    /// An array runs with the declared level and so many members missing.
    Array {
        /// The array.
        device: String,
        /// The kernel's name of the level: `raid10`.
        level: String,
        /// How many members are missing.
        missing: u32,
    },
    /// The kernel and mdadm have the lockless bitmap.
    LocklessBitmap,
    /// A filesystem of this type is mounted there.
    Mounted {
        /// The mount point.
        mount_point: String,
        /// The kernel's name of the filesystem.
        filesystem: String,
    },
}

impl Action {
    /// A program and its words, of which nothing is kept.
    pub(super) fn run<S: AsRef<str>>(program: &str, arguments: &[S]) -> Self {
        let arguments = arguments.iter().map(|word| word.as_ref().to_owned()).collect();
        Self::Run { program: program.to_owned(), arguments, output: None }
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

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused { device, force, .. } => {
                let rest = if *force { "" } else { " and that nothing is on it" };
                write!(f, "check that {device} is not in use{rest}")
            }
            Self::NoRamDisks => f.write_str("check that no RAM disks of brd are there"),
            Self::Present { device, .. } => write!(f, "wait until {device} is there"),
            Self::Synced { device } => write!(f, "wait until {device} is in sync"),
            Self::Array { device, level, missing: 0 } => {
                write!(f, "check that {device} runs as {level} with all members")
            }
            Self::Array { device, level, missing } => {
                write!(f, "check that {device} runs as {level} without {missing} of its members")
            }
            Self::LocklessBitmap => {
                f.write_str("check that mdadm and the kernel have lockless bitmaps")
            }
            Self::Mounted { mount_point, filesystem } => {
                write!(f, "check that {filesystem} is mounted at {mount_point}")
            }
        }
    }
}

/// As one would type it: words with signs that a shell takes otherwise stand in quotes.
pub(super) fn in_shell<S: AsRef<str>>(program: &str, arguments: &[S]) -> String {
    let words = arguments.iter().map(|word| quoted(word.as_ref()));
    std::iter::once(quoted(program)).chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=,:+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
