//! One step of a build: its action, its undo, and carrying it out.
//!
//! A [`BuildCommand`] is both shown and carried out. A name that only the kernel knows stands as a
//! placeholder in braces: `{loop0}`. The step whose [`Action::Run::output`] has that name fills it
//! in. The checks of one kind of layer are in [`crate::kinds`].

use std::fmt;
use std::path::{Path, PathBuf};

use durio_base::Bytes;

use crate::error::BuildError;
use crate::kinds::{Present, StepCheck, Undo};
use crate::permit::{Grounds, PermittedCommand};
use crate::place::{Values, filled};
use crate::system::{ExitedProcess, System, in_shell};

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
        arguments: Vec<String>,
        /// The placeholder that its standard output, without blanks at the ends, is kept under.
        output: Option<String>,
    },
    /// A program is started that stays, and serves a device until it is ended.
    Serve {
        program: String,
        arguments: Vec<String>,
        /// The placeholder that the device which it says is kept under.
        output: String,
    },
    /// A driver is loaded, unless it is there.
    Load { module: String, arguments: Vec<String> },
    /// The kernel's configfs is mounted, unless it is; it stays so.
    MountConfigfs,
    /// A text is written to a file of the kernel.
    Write { path: String, text: String },
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

/// What happens while a layer is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BuildProgress<'a> {
    /// A command is about to run; the text has its names filled in.
    Command(&'a str),
    /// An array is made equal: done and all, in the kernel's sectors.
    Syncing {
        device: &'a str,
        /// Sectors done.
        done: u64,
        /// Sectors in all.
        all: u64,
    },
    Undo(&'a str),
    /// Something was not undone, because the build did not make it.
    LeftAlone {
        /// What would have been done.
        undo: &'a str,
        /// Why it was not.
        why: &'a str,
    },
}

/// How a build is watched and stopped.
#[derive(Clone, Copy)]
pub struct BuildOptions<'a> {
    /// Asked between commands and while one runs: true ends the build, after the command.
    pub stop: &'a dyn Fn() -> bool,
    pub progress: &'a dyn Fn(BuildProgress<'_>),
}

impl std::fmt::Debug for BuildOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildOptions").finish_non_exhaustive()
    }
}

impl Default for BuildOptions<'_> {
    fn default() -> Self {
        Self { stop: &|| false, progress: &|_| () }
    }
}

/// Steps on a machine.
#[derive(Debug)]
pub(super) struct Stepper<'a, 'o> {
    pub(super) system: &'a mut dyn System,
    /// What may be written to.
    pub(super) grounds: &'a mut Grounds,
    /// Where the output of programs goes.
    pub(super) output: PathBuf,
    pub(super) options: BuildOptions<'o>,
    pub(super) stack: &'a str,
}

impl Stepper<'_, '_> {
    /// What the program wrote to its standard output, if it is asked for.
    pub(super) fn carry_out(&mut self, action: &Action) -> Result<Option<String>, BuildError> {
        match action {
            Action::Run { program, arguments, output } => {
                let answer = self.run(action, program, arguments)?;
                let kept = output.as_ref().map(|_| answer.trim().to_owned());
                // Otherwise the next command would have an empty word where the name of a device
                // belongs.
                if kept.as_ref().is_some_and(String::is_empty) {
                    return Err(failed(action, "it said nothing", ""));
                }
                if let Some(answer) = &kept {
                    self.grounds.answered(arguments, answer);
                }
                Ok(kept)
            }
            Action::Serve { program, arguments, .. } => {
                let (stop, output) = (self.options.stop, self.output.clone());
                let device = self.permitted(action, program, arguments, |system, permitted| {
                    system.serve(permitted, &output, stop)
                });
                match device {
                    Err(_) if stop() => Err(BuildError::Stopped(self.stack.to_owned())),
                    device => device.map(Some),
                }
            }
            Action::Load { module, arguments } => {
                self.load(action, module, arguments).map(|()| None)
            }
            Action::MountConfigfs => self.mount_configfs(action).map(|()| None),
            Action::Write { path, text } => {
                let write = self.grounds.write(path, text).map_err(|what| refused(path, &what))?;
                in_words(action, self.system.write(&write)).map(|()| None)
            }
            Action::MakeDirectory { path } => {
                let made = self.system.make_directory(Path::new(path));
                self.grounds.made_path(path, in_words(action, made)?);
                Ok(None)
            }
            Action::MakeFile { path, size } => {
                let file = Path::new(path);
                // The folder is compared when the file is made: by then another directory may have
                // its name.
                let folder = file.parent().and_then(|folder| self.grounds.path(folder));
                let folder =
                    folder.ok_or_else(|| refused(path, "its folder is not this build's"))?;
                let made = self.system.make_file(file, *size, folder);
                self.grounds.made_path(path, in_words(action, made)?);
                Ok(None)
            }
            Action::Check(check) => check.checking().carry_out(self).map(|()| None),
        }
    }

    fn run(
        &mut self,
        action: &Action,
        program: &str,
        words: &[String],
    ) -> Result<String, BuildError> {
        let output = self.output.clone();
        self.permitted(action, program, words, |system, it| system.run(it, &output))
    }

    fn permitted(
        &mut self,
        action: &Action,
        program: &str,
        words: &[String],
        run: impl FnOnce(&mut dyn System, &PermittedCommand) -> std::io::Result<ExitedProcess>,
    ) -> Result<String, BuildError> {
        let permitted = self.grounds.command(self.system, program, words);
        let permitted = permitted.map_err(|what| failed(action, &what, ""))?;
        match run(self.system, &permitted) {
            Ok(ExitedProcess { failure: None, stdout, .. }) => Ok(stdout),
            Ok(ExitedProcess { failure: Some(how), stderr, stdout }) => {
                let said = if stderr.trim().is_empty() { &stdout } else { &stderr };
                Err(failed(action, &how, said))
            }
            Err(error) => Err(failed(action, &error.to_string(), "")),
        }
    }

    fn load(&mut self, action: &Action, module: &str, words: &[String]) -> Result<(), BuildError> {
        // Its parameters stay as they are: the user who loaded it may have devices of it.
        if self.system.has_driver(module) {
            return Ok(());
        }
        let words: Vec<String> = std::iter::once(module.to_owned()).chain(words.to_vec()).collect();
        self.run(action, "modprobe", &words).map(|_| ())
    }

    fn mount_configfs(&mut self, action: &Action) -> Result<(), BuildError> {
        let place = "/sys/kernel/config";
        if self.system.mounted_at(Path::new(place)).iter().any(|kind| kind == "configfs") {
            return Ok(());
        }
        let words = ["-t", "configfs", "configfs", place].map(str::to_owned);
        self.run(action, "mount", &words).map(|_| ())
    }

    /// A file of the device's directory in `/sys/block`.
    pub(crate) fn attribute(&self, device: &str, name: &str) -> Option<String> {
        let node = self.system.resolve(Path::new(device))?;
        let disk = node.file_name()?.to_string_lossy().into_owned();
        self.system.read(&Path::new("/sys/block").join(disk).join(name))
    }
}

pub(crate) fn refused(device: &str, what: &str) -> BuildError {
    BuildError::Failed(format!("'{device}' is not overwritten: {what}"))
}

fn in_words<T>(action: &Action, result: std::io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|error| failed(action, &error.to_string(), ""))
}

// A program gives its reason at the end of its output.
const LAST_LINES: usize = 8;

fn failed(action: &Action, how: &str, said: &str) -> BuildError {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let said = match lines.get(from..).unwrap_or_default().join("\n").trim() {
        "" => String::new(),
        last => format!(": {last}"),
    };
    BuildError::Failed(format!("`{action}` failed ({how}){said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_failed_program_said_the_last_8_lines_are_told() {
        let lines = |from: u32, to: u32| {
            (from..=to).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n")
        };
        let action = Action::MountConfigfs;
        for (said, told) in [(lines(1, 8), lines(1, 8)), (lines(1, 9), lines(2, 9))] {
            let error = failed(&action, "exit 1", &(said + "\n\n"));
            assert_eq!(error.to_string(), format!("`{action}` failed (exit 1): {told}"));
        }
    }
}
