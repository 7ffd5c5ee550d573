//! Carries out what undoes a step.
//!
//! In: an [`Undo`], the values of its placeholders, what the journal says of the thing that was
//! made. Out: what became of it. Not here: in which order, the journal, and whether the thing is
//! ours ([`super::proof`]).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::command::in_shell;
use super::identity::Identity;
use super::journal::absent_or;
use super::names::{Values, filled};
use super::permit::{PermittedCommand, PermittedWrite, Proven};
use super::plan::NULL_CONFIG;
use super::proof::{Prover, Verdict, has_no_array};
use super::system::System;
use super::undo::Undo;

/// What is known of a step that is undone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) values: &'a Values,
    /// The beginning of every name of the build.
    pub(super) tag: &'a str,
    /// What the step made, as the journal has it.
    pub(super) recorded: Option<&'a Identity>,
    /// The folder of a file, as the journal has it.
    pub(super) folder: Option<&'a Identity>,
    /// The file behind a loop device, as the journal has it.
    pub(super) file: Option<&'a Identity>,
    /// The step's end is in the journal.
    pub(super) done: bool,
    /// The machine has not been restarted since; disks in memory are gone otherwise.
    pub(super) same_boot: bool,
    /// The builder itself takes down: nobody else could get in between.
    pub(super) live: bool,
    /// A layer of the build held the devices below it until now.
    pub(super) vouched: bool,
    /// Why that cannot be said of them, whatever else holds.
    pub(super) broken: Option<&'a str>,
}

impl<'a> Known<'a> {
    /// Of a thing that a living builder has just made.
    pub(super) const fn new(values: &'a Values, tag: &'a str) -> Self {
        Self {
            values,
            tag,
            recorded: None,
            folder: None,
            file: None,
            done: false,
            same_boot: true,
            live: true,
            vouched: true,
            broken: None,
        }
    }
}

/// What became of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Undone {
    /// It was there, it was ours, and it is undone.
    Done,
    /// Nothing was there.
    Gone,
    /// Something is there and was not touched, with the reason.
    LeftAlone(String),
}

/// Why something could not be undone.
type Failure = String;

/// Carries out undos on a machine.
#[derive(Debug)]
pub(super) struct Undoer<'a> {
    pub(super) system: &'a mut dyn System,
    /// Where the output of programs goes.
    pub(super) output: PathBuf,
}

/// A device may be opened for a moment by those who look what is on it; so long is tried again.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

impl Undoer<'_> {
    pub(super) fn carry_out(&mut self, undo: &Undo, known: &Known<'_>) -> Result<Undone, Failure> {
        let undone = match self.prover().prove(undo, known)? {
            Verdict::NotOurs(why) => return Ok(Undone::LeftAlone(why)),
            Verdict::Gone => Undone::Gone,
            Verdict::Ours(proven) => self.undo(undo, &proven)?,
        };
        if let Undo::StopArray { link, bitmap, .. } = undo {
            self.tidy_array(link, bitmap.as_deref(), known)?;
        }
        Ok(undone)
    }

    pub(super) fn prover(&mut self) -> Prover<'_> {
        Prover { system: self.system, output: self.output.clone() }
    }

    fn undo(&mut self, undo: &Undo, proven: &Proven) -> Result<Undone, Failure> {
        let target = proven.target();
        let done = match undo {
            Undo::RemoveFile { .. } => in_words(self.system.remove_file(proven)),
            Undo::RemoveDirectory { .. } => return self.remove_directory(proven),
            Undo::DetachLoop { .. } => {
                let disk = target.trim_start_matches("/dev/").to_owned();
                let behind = format!("/sys/block/{disk}/loop/backing_file");
                let gone = move |system: &dyn System| system.read(Path::new(&behind)).is_none();
                self.run_until(proven, "losetup", &["--detach", target], gone)
            }
            Undo::RemoveZram { .. } => {
                let disk = format!("/sys/block/zram{target}");
                self.write_until_gone(proven, "/sys/class/zram-control/hot_remove", &disk)
            }
            Undo::UnloadBrd { .. } => self.run_until(proven, "rmmod", &[target], |system| {
                !system.is_there(Path::new("/sys/module/brd"))
            }),
            Undo::RemoveNull { .. } => self.remove_null(proven),
            Undo::StopArray { .. } => {
                let disk = target.trim_start_matches("/dev/");
                let array = format!("/sys/block/{disk}/md");
                let gone = move |system: &dyn System| has_no_array(system, &array);
                self.run_until(proven, "mdadm", &["--stop", "--quiet", target], gone)
            }
            Undo::RemoveVolumeGroup { config, .. } => self.remove_group(proven, config),
            Undo::RemoveMapped { name } => {
                let gone = |system: &dyn System| !is_mapped(system, name);
                self.run_until(proven, "dmsetup", &["remove", "--verifyudev", target], gone)
            }
            Undo::DestroyPool { .. } => {
                self.run(proven, "zpool", &["destroy", "-f", target]).map(|_| ())
            }
            Undo::Unmount { mount_point, .. } => {
                let gone =
                    |system: &dyn System| system.mounted_at(Path::new(mount_point)).is_empty();
                self.run_until(proven, "umount", &[target], gone)
            }
            Undo::Wipe { .. } => self.wipe(proven),
        };
        done.map(|()| Undone::Done)
    }

    /// Runs a program until the thing is gone, for a while.
    fn run_until(
        &mut self,
        proven: &Proven,
        program: &str,
        words: &[&str],
        is_gone: impl Fn(&dyn System) -> bool,
    ) -> Result<(), Failure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            let ran = self.run(proven, program, words);
            if is_gone(self.system) {
                return Ok(());
            }
            failure = ran.err().unwrap_or_else(|| "it is still there".into());
            self.system.pause(PAUSE);
        }
        Err(format!("`{}`: {failure}", in_shell(program, words)))
    }

    fn run(&mut self, proven: &Proven, program: &str, words: &[&str]) -> Result<String, Failure> {
        self.run_permitted(&PermittedCommand::undoing(proven, program, words))
    }

    /// Its standard output, or what went wrong.
    fn run_permitted(&mut self, command: &PermittedCommand) -> Result<String, Failure> {
        let ended = self.system.run(command, &self.output).map_err(|error| error.to_string())?;
        match ended.failure {
            None => Ok(ended.stdout),
            Some(how) => Err(format!("{how}: {}", ended.stderr.trim())),
        }
    }

    /// What somebody has put there is not removed with it.
    fn remove_directory(&mut self, proven: &Proven) -> Result<Undone, Failure> {
        match self.system.remove_directory(proven) {
            Ok(()) => Ok(Undone::Done),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Undone::LeftAlone("something is in it that this bench did not make".into()))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn write_until_gone(
        &mut self,
        proven: &Proven,
        file: &str,
        thing: &str,
    ) -> Result<(), Failure> {
        let write = PermittedWrite::undoing(proven, Path::new(file), proven.target());
        let mut failure = String::new();
        for _ in 0..TRIES {
            let written = self.system.write(&write);
            if !self.system.is_there(Path::new(thing)) {
                return Ok(());
            }
            failure = written.err().map_or_else(|| "it is still there".into(), |e| e.to_string());
            self.system.pause(PAUSE);
        }
        Err(format!("write {} to {file}: {failure}", proven.target()))
    }

    fn remove_null(&mut self, proven: &Proven) -> Result<(), Failure> {
        let power = Path::new(proven.target()).join("power");
        in_words(self.system.write(&PermittedWrite::undoing(proven, &power, "0")))?;
        in_words(self.system.remove_directory(proven))
    }

    /// The link of the array, and the file that mdadm made for its bitmap.
    fn tidy_array(
        &mut self,
        link: &str,
        bitmap: Option<&str>,
        known: &Known<'_>,
    ) -> Result<(), Failure> {
        let prover = self.prover();
        let link = prover.dead_link(link, known);
        let bitmap = bitmap.and_then(|path| prover.made_in_folder(path, known));
        for proven in link.iter().chain(&bitmap) {
            in_words(self.system.remove_file(proven))?;
        }
        Ok(())
    }

    fn remove_group(&mut self, proven: &Proven, config: &str) -> Result<(), Failure> {
        let name = proven.target();
        let words = ["vgremove", "--config", config, "--yes", "--force", "--quiet", name];
        let ran = self.run(proven, "lvm", &words);
        ran.map(|_| ()).map_err(|how| format!("`lvm vgremove {name}`: {how}"))
    }

    /// Erases what this build wrote to a device of the user's, by its types alone.
    fn wipe(&mut self, proven: &Proven) -> Result<(), Failure> {
        let (device, types) = (proven.target(), proven.types().join(","));
        let words = ["--all", "--quiet", "--types", &types, device];
        let command = PermittedCommand::wiping(self.system, proven, "wipefs", &words)?;
        self.run_permitted(&command)?;
        let usage = self.system.usage(Path::new(device)).map_err(|error| error.to_string())?;
        match usage.signatures.first() {
            None => Ok(()),
            Some(left) => Err(format!("{} is still on {device}", left.name)),
        }
    }
}

fn is_mapped(system: &dyn System, name: &str) -> bool {
    let disks = system.names(Path::new("/sys/block"));
    disks.iter().any(|disk| {
        let path = format!("/sys/block/{disk}/dm/name");
        system.read(Path::new(&path)).as_deref() == Some(name)
    })
}

fn in_words(result: io::Result<()>) -> Result<(), Failure> {
    absent_or(result).map_err(|error| error.to_string())
}

impl Undo {
    /// With the placeholders filled in that are known.
    pub(super) fn filled(&self, values: &Values) -> Self {
        let fill = |text: &String| filled(text, values);
        match self {
            Self::RemoveVolumeGroup { name, config } => {
                Self::RemoveVolumeGroup { name: name.clone(), config: fill(config) }
            }
            Self::RemoveZram { number } => Self::RemoveZram { number: fill(number) },
            Self::DetachLoop { file, device } => {
                Self::DetachLoop { file: file.clone(), device: fill(device) }
            }
            Self::Unmount { mount_point, source } => {
                Self::Unmount { mount_point: mount_point.clone(), source: fill(source) }
            }
            other => other.clone(),
        }
    }
}

impl std::fmt::Display for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RemoveFile { path } => write!(f, "remove file {path}"),
            Self::RemoveDirectory { path } => write!(f, "remove directory {path}"),
            Self::DetachLoop { file, .. } => {
                write!(f, "losetup --detach the loop device of {file}")
            }
            Self::RemoveZram { number } => {
                write!(f, "write {number} to /sys/class/zram-control/hot_remove")
            }
            Self::UnloadBrd { .. } => f.write_str("rmmod brd"),
            Self::RemoveNull { name } => write!(
                f,
                "write 0 to {NULL_CONFIG}/{name}/power, remove directory {NULL_CONFIG}/{name}"
            ),
            Self::StopArray { link, bitmap: None, .. } => write!(f, "mdadm --stop {link}"),
            Self::StopArray { link, bitmap: Some(file), .. } => {
                write!(f, "mdadm --stop {link}, remove file {file}")
            }
            Self::RemoveVolumeGroup { name, .. } => write!(f, "lvm vgremove --force {name}"),
            Self::RemoveMapped { name } => write!(f, "dmsetup remove {name}"),
            Self::DestroyPool { name } => write!(f, "zpool destroy -f {name}"),
            Self::Unmount { mount_point, .. } => write!(f, "umount {mount_point}"),
            Self::Wipe { device, .. } => write!(f, "wipefs what this bench wrote on {device}"),
        }
    }
}
