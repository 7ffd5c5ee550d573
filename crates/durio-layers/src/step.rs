//! Carries out one step of a build.
//!
//! In: an [`Action`] with all names filled in. Out: what a program answered, or an error with what
//! it said. Not here: the journal, undoing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_units::Bytes;

use super::builder::{BuildOptions, Progress};
use super::command::{Action, Check};
use super::error::BuildError;
use super::look::Look;
use super::missing::lockless_fault;
use super::names::{Values, filled};
use super::permit::Grounds;
use super::plan::HOT_ADD;
use super::system::{Ended, System};

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

/// A device that was asked for is there within moments, even where udev makes the node.
const PRESENT_TRIES: u32 = 100;
const PRESENT_PAUSE: Duration = Duration::from_millis(50);

/// How often a sync is looked at.
const SYNC_PAUSE: Duration = Duration::from_millis(200);

/// So many looks in a row, ten seconds, an array may be idle before it is in sync.
const IDLE_LOOKS: u32 = 50;

impl Stepper<'_, '_> {
    /// What the program wrote to its standard output, if it is asked for.
    pub(super) fn carry_out(&mut self, action: &Action) -> Result<Option<String>, BuildError> {
        match action {
            Action::Run { program, arguments, output } => {
                let answer = self.run(action, program, arguments)?;
                let kept = output.as_ref().map(|_| answer.trim().to_owned());
                if kept.as_ref().is_some_and(String::is_empty) {
                    return Err(failed(action, "it said nothing", ""));
                }
                if let (true, Some(number)) = (is_new_zram(arguments), &kept) {
                    self.grounds.made_zram(number);
                }
                Ok(kept)
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
                let folder = file.parent().and_then(|folder| self.grounds.path(folder));
                let folder =
                    folder.ok_or_else(|| refused(path, "its folder is not this build's"))?;
                let made = self.system.make_file(file, *size, folder);
                self.grounds.made_path(path, in_words(action, made)?);
                Ok(None)
            }
            Action::Check(check) => self.check(check).map(|()| None),
        }
    }

    fn run(
        &mut self,
        action: &Action,
        program: &str,
        words: &[String],
    ) -> Result<String, BuildError> {
        let permitted = self.grounds.command(self.system, program, words);
        let permitted = permitted.map_err(|what| failed(action, &what, ""))?;
        match self.system.run(&permitted, &self.output) {
            Ok(Ended { failure: None, stdout, .. }) => Ok(stdout),
            Ok(Ended { failure: Some(how), stderr, stdout }) => {
                let said = if stderr.trim().is_empty() { &stdout } else { &stderr };
                Err(failed(action, &how, said))
            }
            Err(error) => Err(failed(action, &error.to_string(), "")),
        }
    }

    fn load(&mut self, action: &Action, module: &str, words: &[String]) -> Result<(), BuildError> {
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

    fn check(&mut self, check: &Check) -> Result<(), BuildError> {
        match check {
            Check::Unused { device, destroy, force } => self.named(device, *destroy, *force),
            Check::NoRamDisks => self.no_ram_disks(),
            Check::Present { device, size } => self.present(device, *size).and_then(|()| {
                let made = self.grounds.made(self.system, device);
                made.map_err(BuildError::CameUpWrong)
            }),
            Check::Synced { device } => self.synced(device),
            Check::Array { device, level, missing } => self.array(device, level, *missing),
            Check::LocklessBitmap => self.lockless(),
            Check::Mounted { mount_point, filesystem } => self.mounted(mount_point, filesystem),
        }
    }

    /// The device may be written to if nothing speaks against it.
    fn named(&mut self, device: &str, destroy: bool, force: bool) -> Result<(), BuildError> {
        if !self.system.is_block_device(Path::new(device)) {
            return Err(refused(device, "it is not there, or not a block device"));
        }
        if !destroy {
            let what = format!("whatever is on it would be lost; say so with --destroy {device}");
            return Err(refused(device, &what));
        }
        let refuse = |what: &str| refused(device, what);
        let system = &*self.system;
        self.grounds.named(system, device, refuse, || unused(system, device, force))
    }

    fn no_ram_disks(&self) -> Result<(), BuildError> {
        let disks = self.system.names(Path::new("/sys/block"));
        let found = disks
            .iter()
            .any(|name| name.strip_prefix("ram").is_some_and(|rest| rest.parse::<u32>().is_ok()));
        if found || self.system.is_there(Path::new("/sys/module/brd")) {
            return Err(BuildError::Unsupported(
                "RAM disks of brd are there already and may be somebody's; unload them with \
                 `rmmod brd`, or declare another source"
                    .into(),
            ));
        }
        Ok(())
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
    fn attribute(&self, device: &str, name: &str) -> Option<String> {
        let node = self.system.resolve(Path::new(device))?;
        let disk = node.file_name()?.to_string_lossy().into_owned();
        self.system.read(&Path::new("/sys/block").join(disk).join(name))
    }

    /// A sync begins a moment after the array is there, and members become active a moment after it
    /// has ended; so an idle array is looked at for a while.
    fn synced(&mut self, device: &str) -> Result<(), BuildError> {
        let mut idle = 0;
        loop {
            if (self.options.stop)() {
                return Err(BuildError::Stopped(self.stack.to_owned()));
            }
            let action = self.attribute(device, "md/sync_action").unwrap_or_default();
            if ["", "idle", "frozen"].contains(&action.as_str()) {
                if self.is_in_step(device) {
                    return Ok(());
                }
                idle += 1;
            } else {
                idle = 0;
            }
            if idle > IDLE_LOOKS {
                let what = format!("{device} is not in sync and does not become so");
                return Err(BuildError::CameUpWrong(what));
            }
            self.tell_sync(device);
            self.system.pause(SYNC_PAUSE);
        }
    }

    /// Nothing is left to copy or to compute (Documentation/admin-guide/md.rst, `resync_start` and
    /// `degraded`).
    fn is_in_step(&self, device: &str) -> bool {
        let is =
            |name: &str, value: &str| self.attribute(device, name).is_none_or(|it| it == value);
        is("md/resync_start", "none") && is("md/degraded", "0")
    }

    fn tell_sync(&self, device: &str) {
        let text = self.attribute(device, "md/sync_completed").unwrap_or_default();
        let numbers = text.split_once('/').map(|(done, all)| (done.trim(), all.trim()));
        if let Some((Ok(done), Ok(all))) = numbers.map(|(d, a)| (d.parse(), a.parse())) {
            (self.options.progress)(Progress::Syncing { device, done, all });
        }
    }

    fn array(&self, device: &str, level: &str, missing: u32) -> Result<(), BuildError> {
        let wrong = |what: String| Err(BuildError::CameUpWrong(format!("{device} {what}")));
        let found = self.attribute(device, "md/level").unwrap_or_default();
        if found != level {
            return wrong(format!("came up as '{found}' and not as {level}"));
        }
        let state = self.attribute(device, "md/array_state").unwrap_or_default();
        if ["", "clear", "inactive", "broken"].contains(&state.as_str()) {
            return wrong(format!("came up and does not run; its state is '{state}'"));
        }
        let degraded = self.attribute(device, "md/degraded");
        let degraded = degraded.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        if degraded != missing {
            return wrong(format!(
                "came up degraded: {degraded} members are missing and {missing} were to be"
            ));
        }
        Ok(())
    }

    fn lockless(&mut self) -> Result<(), BuildError> {
        let ended = self.system.look(Look::MdadmVersion, &self.output);
        // It writes its version to the standard error.
        let version = ended.map(|ended| format!("{}{}", ended.stdout, ended.stderr));
        let release = self.system.read(Path::new("/proc/sys/kernel/osrelease"));
        let fault = lockless_fault(&version.unwrap_or_default(), &release.unwrap_or_default());
        fault.map_or(Ok(()), |fault| Err(BuildError::Unsupported(fault)))
    }

    fn mounted(&self, mount_point: &str, filesystem: &str) -> Result<(), BuildError> {
        let found = self.system.mounted_at(Path::new(mount_point));
        if found.last().is_some_and(|found| found == filesystem) {
            return Ok(());
        }
        let found = found.last().map_or("nothing", String::as_str);
        Err(BuildError::CameUpWrong(format!(
            "at {mount_point} {found} is mounted and not {filesystem}"
        )))
    }
}

/// Nobody uses the device, and nothing is on it that may not be lost.
fn unused(system: &dyn System, device: &str, force: bool) -> Result<(), BuildError> {
    let usage = system.usage(Path::new(device));
    let usage = usage.map_err(|error| refused(device, &error.to_string()))?;
    if usage.is_in_use() {
        return Err(refused(device, &in_use(&usage)));
    }
    if !usage.signatures.is_empty() && !force {
        let names = usage.signature_names().join(", ");
        let what = format!("{names} is on it; wipe it, or add --force-signature to lose it");
        return Err(refused(device, &what));
    }
    Ok(())
}

fn in_use(usage: &durio_observe::DeviceUse) -> String {
    let mounts = usage.mounts.iter().map(|mount| format!("mounted at {}", mount.mount_point));
    let holders = usage.holders.iter().map(|holder| format!("held by {}", holder.holder));
    let swaps = usage.swaps.iter().map(|swap| format!("{swap} is swap"));
    let mut reasons: Vec<String> = mounts.chain(holders).chain(swaps).collect();
    if reasons.is_empty() {
        reasons.push("some program or filesystem has it for itself".into());
    }
    format!("it is in use ({}); nothing overrides that", reasons.join(", "))
}

/// Reading this file has the kernel make a disk (Documentation/admin-guide/blockdev/zram.rst).
fn is_new_zram(words: &[String]) -> bool {
    words == [HOT_ADD]
}

fn refused(device: &str, what: &str) -> BuildError {
    BuildError::Refused { device: device.into(), what: what.to_owned() }
}

fn in_words<T>(action: &Action, result: std::io::Result<T>) -> Result<T, BuildError> {
    result.map_err(|error| failed(action, &error.to_string(), ""))
}

/// The end of what a program says is where it says why.
const LAST_LINES: usize = 8;

fn failed(action: &Action, how: &str, said: &str) -> BuildError {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    let stderr = lines.get(from..).unwrap_or_default().join("\n");
    BuildError::Command { command: action.to_string(), how: how.to_owned(), stderr }
}

impl Action {
    /// With the placeholders filled in that are known.
    pub(super) fn filled(&self, values: &Values) -> Self {
        let fill = |text: &String| filled(text, values);
        match self {
            Self::Run { program, arguments, output } => Self::Run {
                program: program.clone(),
                arguments: arguments.iter().map(fill).collect(),
                output: output.clone(),
            },
            Self::Write { path, text } => Self::Write { path: fill(path), text: fill(text) },
            Self::Check(check) => Self::Check(check.filled(values)),
            other => other.clone(),
        }
    }
}

impl Check {
    fn filled(&self, values: &Values) -> Self {
        match self {
            Self::Present { device, size } => {
                Self::Present { device: filled(device, values), size: *size }
            }
            other => other.clone(),
        }
    }
}
