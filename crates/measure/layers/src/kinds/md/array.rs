//! A running array: how it is looked at, proven to be ours, and stopped.

use std::time::Duration;

use crate::kinds::prelude::*;
use crate::place::md_uuid;
use crate::step::BuildProgress;
use crate::undo::{UndoContext, parent_of};

/// How often a sync is looked at.
const SYNC_PAUSE: Duration = Duration::from_millis(200);

/// The number of looks in a row, ten seconds in all, that an array may be idle before it is in
/// sync.
const IDLE_LOOKS: u32 = 50;

/// A check of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrayCheck {
    /// Its initial sync has ended, waited for as long as it takes.
    Synced { device: String },
    /// It runs with the declared level and the declared number of members missing.
    Runs {
        device: String,
        /// The kernel's name of the level: `raid10`.
        level: String,
        /// How many members are missing.
        missing: u32,
    },
    /// The kernel and mdadm have the lockless bitmap.
    LocklessBitmap,
}

impl Checking for ArrayCheck {
    fn text(&self) -> String {
        match self {
            Self::Synced { device } => format!("wait until {device} is in sync"),
            Self::Runs { device, level, missing: 0 } => {
                format!("check that {device} runs as {level} with all members")
            }
            Self::Runs { device, level, missing } => {
                format!("check that {device} runs as {level} without {missing} of its members")
            }
            Self::LocklessBitmap => {
                "check that mdadm and the kernel support lockless bitmaps".to_owned()
            }
        }
    }

    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
        match self {
            Self::Synced { device } => synced(stepper, device),
            Self::Runs { device, level, missing } => runs(stepper, device, level, *missing),
            Self::LocklessBitmap => lockless(stepper),
        }
    }
}

/// Waits until the array is in sync, or has been idle for too long.
fn synced(stepper: &Stepper<'_, '_>, device: &str) -> Result<(), BuildError> {
    // A sync begins a moment after the array is there, and members become active a moment after it
    // has ended; so an idle array is looked at for a while.
    let mut idle = 0;
    loop {
        if (stepper.options.stop)() {
            return Err(BuildError::Stopped(stepper.stack.to_owned()));
        }
        let action = stepper.attribute(device, "md/sync_action").unwrap_or_default();
        if ["", "idle", "frozen"].contains(&action.as_str()) {
            if is_in_step(stepper, device) {
                return Ok(());
            }
            idle += 1;
        } else {
            idle = 0;
        }
        if idle > IDLE_LOOKS {
            let what = format!("{device} is out of sync and is not resyncing");
            return Err(BuildError::Failed(what));
        }
        tell_sync(stepper, device);
        stepper.system.pause(SYNC_PAUSE);
    }
}

/// Nothing is left to copy or to compute (Documentation/admin-guide/md.rst, `resync_start` and
/// `degraded`).
fn is_in_step(stepper: &Stepper<'_, '_>, device: &str) -> bool {
    let is =
        |name: &str, value: &str| stepper.attribute(device, name).is_none_or(|text| text == value);
    is("md/resync_start", "none") && is("md/degraded", "0")
}

fn tell_sync(stepper: &Stepper<'_, '_>, device: &str) {
    let text = stepper.attribute(device, "md/sync_completed").unwrap_or_default();
    let numbers = text.split_once('/').map(|(done, all)| (done.trim(), all.trim()));
    if let Some((Ok(done), Ok(all))) = numbers.map(|(d, a)| (d.parse(), a.parse())) {
        (stepper.options.progress)(BuildProgress::Syncing { device, done, all });
    }
}

fn runs(
    stepper: &Stepper<'_, '_>,
    device: &str,
    level: &str,
    missing: u32,
) -> Result<(), BuildError> {
    let wrong = |what: String| Err(BuildError::Failed(format!("{device} {what}")));
    let found = stepper.attribute(device, "md/level").unwrap_or_default();
    if found != level {
        return wrong(format!("came up as '{found}' instead of {level}"));
    }
    let state = stepper.attribute(device, "md/array_state").unwrap_or_default();
    if ["", "clear", "inactive", "broken"].contains(&state.as_str()) {
        return wrong(format!("came up but is not running; its state is '{state}'"));
    }
    let degraded = stepper.attribute(device, "md/degraded");
    let degraded = degraded.and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
    if degraded != missing {
        return wrong(format!(
            "came up degraded: {degraded} members are missing instead of {missing}"
        ));
    }
    Ok(())
}

fn lockless(stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
    let ended = stepper.system.look(ProgramQuery::MdadmVersion, &stepper.output);
    // It writes its version to the standard error.
    let version = ended.map(|ended| format!("{}{}", ended.stdout, ended.stderr));
    let release = stepper.system.read(Path::new("/proc/sys/kernel/osrelease"));
    let fault = lockless_fault(&version.unwrap_or_default(), &release.unwrap_or_default());
    fault.map_or(Ok(()), |fault| Err(BuildError::Failed(fault)))
}

/// Why lockless bitmaps cannot be made: they are in Linux since 6.18 (drivers/md/md-llbitmap.c) and
/// in mdadm since 4.6 (md-raid-utilities/mdadm, pull request 233).
pub(super) fn lockless_fault(mdadm: &str, release: &str) -> Option<String> {
    let has = |text: &str, least: (u32, u32)| version_in(text).is_some_and(|found| found >= least);
    let found = |text: &str| version_in(text).map_or("unknown".into(), |(a, b)| format!("{a}.{b}"));
    if !has(release, (6, 18)) {
        return Some(format!("lockless bitmaps need Linux 6.18, and this is {}", found(release)));
    }
    if !has(mdadm, (4, 6)) {
        return Some(format!("lockless bitmaps need mdadm 4.6, and this is {}", found(mdadm)));
    }
    None
}

/// The first `major.minor` in a text.
fn version_in(text: &str) -> Option<(u32, u32)> {
    let words = text.split(|c: char| !(c.is_ascii_digit() || c == '.'));
    words.filter_map(|word| word.split_once('.')).find_map(|(major, rest)| {
        let minor = rest.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopArray {
    /// mdadm's form of its identifier.
    pub(crate) uuid: String,
    /// The link to its device.
    pub(crate) link: String,
    /// The file that mdadm makes for its bitmap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bitmap: Option<String>,
}

impl UndoStep for StopArray {
    fn text(&self) -> String {
        let stop = format!("mdadm --stop {}", self.link);
        self.bitmap.as_ref().map_or(stop.clone(), |file| format!("{stop}, remove file {file}"))
    }

    fn holds_devices(&self) -> bool {
        true
    }

    fn folder(&self) -> Option<&str> {
        self.bitmap.as_deref().and_then(parent_of)
    }

    /// By the identifier that durio chose.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        // Not by its link: without udev that outlives the array, and the number may be another
        // array's by now.
        let disks = prover.system.names(Path::new("/sys/block"));
        for disk in disks.iter().filter(|name| name.starts_with("md")) {
            let node = format!("/dev/{disk}");
            // An array that was stopped in the meantime has no details.
            let Ok(detail) = prover.look(ProgramQuery::Array { node: &node }) else { continue };
            let is_meant = |line: &str| line.strip_prefix("MD_UUID=") == Some(&self.uuid);
            let identity = disk_identity(prover.system, &format!("/sys/block/{disk}"));
            if let (true, Some(identity)) = (detail.stdout.lines().any(is_meant), identity) {
                return Ok(LiveThing::of(&node, Some(identity)));
            }
        }
        Ok(None)
    }

    /// It was found by an identifier of this build.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::restarted()
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let disk = proven.target().trim_start_matches("/dev/").to_owned();
        let gone = move |system: &dyn System| has_no_array(system, &disk);
        undoer.run_until(proven, "mdadm", &["--stop", "--quiet", proven.target()], gone)
    }

    /// The link of the array, which stays behind without udev, and the file that mdadm made for its
    /// bitmap.
    fn tidy(&self, undoer: &mut Undoer<'_>, known: &UndoContext<'_>) -> Result<(), UndoFailure> {
        let prover = undoer.prover(known);
        let link = prover.own_link("/dev/md/", &self.link, has_no_array);
        let bitmap = self.bitmap.as_ref().and_then(|path| prover.made_in_folder(path));
        for proven in link.iter().chain(&bitmap) {
            in_words(undoer.system.remove_file(proven))?;
        }
        Ok(())
    }
}

/// A stopped array may keep its name for a while, without a level.
fn has_no_array(system: &dyn System, disk: &str) -> bool {
    let state = system.read(Path::new(&format!("/sys/block/{disk}/md/array_state")));
    state.is_none_or(|state| state == "clear")
}

/// `set_uuid`, `set_name`, which begins with the name of a host or not (include/uapi/linux/raid/
/// md_p.h).
pub(super) fn superblock(head: &DeviceHead<'_>, tag: &str) -> Option<Ours> {
    let field = head.at(4096 + 32, 32)?;
    let name = std::str::from_utf8(field).ok()?.trim_end_matches('\0');
    let name = name.rsplit(':').next().unwrap_or(name);
    let is_ours = name.strip_prefix(tag).is_some_and(|rest| rest.starts_with('-'))
        && head.at(4096 + 16, 16)? == md_uuid(name).1;
    is_ours.then_some((&["linux_raid_member"], false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::scripted::Scripted;

    #[test]
    fn a_disk_without_a_state_or_with_a_clear_one_has_no_array() {
        let of = |state: Option<&str>| {
            let machine = Scripted::default();
            let path = "/sys/block/md7/md/array_state".to_owned();
            machine.0.borrow_mut().there.paths.extend(state.map(|text| (path, text.to_owned())));
            has_no_array(&machine, "md7")
        };
        assert!(of(None) && of(Some("clear")));
        for state in ["inactive", "clean", "active", "readonly", "broken", ""] {
            assert!(!of(Some(state)), "{state}");
        }
    }
}
