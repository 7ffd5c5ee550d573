//! Carries out one step of a build.
//!
//! Takes an [`Action`] with all names filled in; returns the program's answer, or an error with its
//! message. The checks of one kind of layer are in [`crate::kinds`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_base::Bytes;

use crate::command::{Action, Checking};
use crate::error::BuildError;
use crate::permit::{Grounds, PermittedCommand};
use crate::system::{ExitedProcess, System};

/// What happens while a layer is built.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BuildProgress<'a> {
    /// A command is about to run; the text has its names filled in.
    Command(&'a str),
    /// An array is made equal: done and all, in the kernel's sectors.
    Syncing {
        /// The array.
        device: &'a str,
        /// Sectors done.
        done: u64,
        /// Sectors in all.
        all: u64,
    },
    /// Something is undone.
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
    /// Receives progress reports.
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

// A device that was asked for is there within moments, even where udev makes the node.
const PRESENT_TRIES: u32 = 100;
const PRESENT_PAUSE: Duration = Duration::from_millis(50);

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

    fn present(&self, device: &str, size: Option<Bytes>) -> Result<(), BuildError> {
        for _ in 0..PRESENT_TRIES {
            if self.system.is_block_device(Path::new(device)) {
                return self.of_size(device, size);
            }
            self.system.pause(PRESENT_PAUSE);
        }
        Err(BuildError::CameUpWrong(format!("{device} did not appear")))
    }

    fn of_size(&self, device: &str, size: Option<Bytes>) -> Result<(), BuildError> {
        let sectors = self.attribute(device, "size").and_then(|text| text.parse::<u64>().ok());
        match (size, sectors) {
            (Some(size), Some(sectors)) if sectors.saturating_mul(512) != size.get() => {
                let found = Bytes::new(sectors.saturating_mul(512));
                Err(BuildError::CameUpWrong(format!("{device} has {found} and not {size}")))
            }
            _ => Ok(()),
        }
    }

    /// A file of the device's directory in `/sys/block`.
    pub(crate) fn attribute(&self, device: &str, name: &str) -> Option<String> {
        let node = self.system.resolve(Path::new(device))?;
        let disk = node.file_name()?.to_string_lossy().into_owned();
        self.system.read(&Path::new("/sys/block").join(disk).join(name))
    }
}

/// A device node is there, waited for a short while, and has the given size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    pub(crate) device: String,
    /// Its size; of any size without it.
    pub(crate) size: Option<Bytes>,
}

impl Checking for Present {
    fn text(&self) -> String {
        format!("wait until {} is there", self.device)
    }

    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
        stepper.present(&self.device, self.size)?;
        let made = stepper.grounds.made(stepper.system, &self.device);
        made.map_err(BuildError::CameUpWrong)
    }
}

pub(crate) fn refused(device: &str, what: &str) -> BuildError {
    BuildError::Refused { device: device.into(), what: what.to_owned() }
}

fn in_words<T>(action: &Action, result: std::io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|error| failed(action, &error.to_string(), ""))
}

// A program gives its reason at the end of its output.
const LAST_LINES: usize = 8;

fn failed(action: &Action, how: &str, said: &str) -> BuildError {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let stderr = lines.get(from..).unwrap_or_default().join("\n");
    BuildError::Command { command: action.to_string(), how: how.to_owned(), stderr }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::scripted::Scripted;

    #[test]
    fn of_what_a_failed_program_said_the_last_8_lines_are_told() {
        let lines = |from: u32, to: u32| {
            (from..=to).map(|it| format!("line {it}")).collect::<Vec<_>>().join("\n")
        };
        let action = Action::MountConfigfs;
        for (said, told) in [(lines(1, 8), lines(1, 8)), (lines(1, 9), lines(2, 9))] {
            let BuildError::Command { stderr, .. } = failed(&action, "exit 1", &(said + "\n\n"))
            else {
                panic!("another error")
            };
            assert_eq!(stderr, told);
        }
    }

    #[test]
    fn a_device_has_the_very_size_that_was_asked_for() {
        let mut machine = Scripted::default();
        let mut account = machine.0.borrow_mut();
        account.there.devices.insert("/dev/loop3".into());
        account.there.paths.insert("/sys/block/loop3/size".into(), "2048".into());
        drop(account);
        let stepper = Stepper {
            system: &mut machine,
            grounds: &mut Grounds::default(),
            output: PathBuf::new(),
            options: BuildOptions::default(),
            stack: "s",
        };
        let present = |device, size| {
            let size: Option<u64> = size;
            stepper.present(device, size.map(Bytes::new)).map_err(|error| error.to_string())
        };
        assert_eq!(present("/dev/loop3", Some(1 << 20)), Ok(()));
        assert_eq!(present("/dev/loop3", None), Ok(()));
        for size in [(1 << 20) - 512, (1 << 20) + 512] {
            let error = present("/dev/loop3", Some(size)).unwrap_err();
            let expected = format!("/dev/loop3 has 1 MiB and not {}", Bytes::new(size));
            assert!(error.contains(&expected), "{error}");
        }
        let error = present("/dev/loop4", Some(1 << 20)).unwrap_err();
        assert!(error.contains("/dev/loop4 did not appear"), "{error}");
    }
}
