//! Existing block devices; their contents are lost.
//!
//! A device is written to only if `--destroy` names it, it is not in use, and it is empty or
//! `--force-signature` is given. At the end its contents are erased only if this build wrote them,
//! by label and identifier, and they cannot have been used since.

use durio_block::MEMBER_SIGNATURE;
use durio_observe::{DeviceUse, Signature};

use super::prelude::*;
use super::written;
use crate::permit::{PermittedBlock, PermittedCommand, held};
use crate::step::refused;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "device",
    help: "Existing block devices, each of which --destroy must name.",
    role: LayerRole::Source,
    drivers: &[],
    tools: &[],
    superblock: None,
    #[cfg(test)]
    examples: tests::examples,
};

/// Existing block devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Where they are.
    pub paths: Vec<String>,
}

impl SpecField for Device {
    fn keys(_: &'static str, _: &'static str, _: bool) -> Vec<SpecKey> {
        Vec::<String>::keys("path", "A device or a list of devices, by paths below /dev.", true)
    }

    fn read(values: &SpecValues, _: &'static str) -> Result<Self, KeyFault> {
        Vec::read(values, "path").map(|paths| Self { paths })
    }
}

impl BuildableLayer for Device {
    fn label(&self) -> Vec<String> {
        vec![self.paths.join(" ")]
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("wipefs", "util-linux")]
    }

    fn check(&self, _below: Below) -> Result<Below, CheckFault> {
        let count = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        if count == 0 || count > MOST_DEVICES {
            return Err(format!("it names {count} devices; name 1 to {MOST_DEVICES}"));
        }
        for (n, path) in self.paths.iter().enumerate() {
            check_path(path)?;
            if self.paths.iter().take(n).any(|earlier| earlier == path) {
                return Err(format!("{path} is named twice"));
            }
        }
        Ok(Below::of_devices(count, None))
    }

    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes> {
        self.paths.iter().map(|path| (below.existing)(path).unwrap_or(Bytes::ZERO)).collect()
    }

    /// First all are looked at, then all are wiped: a refusal leaves every device as it is.
    fn plan(&self, draft: &mut PlanDraft<'_>, _below: &[String]) -> PlannedLayer {
        for device in &self.paths {
            let destroy = draft.place.destroy.iter().any(|path| path == Path::new(device));
            let (device, force) = (device.clone(), draft.place.force);
            draft.check(StepCheck::Unused(Unused { device, destroy, force }));
        }
        for device in &self.paths {
            let undo = Undo::Wipe(Wipe { device: device.clone(), tag: draft.place.tag() });
            draft.run("wipefs", &["--all", "--quiet", device], Some(undo));
        }
        PlannedLayer::of_devices(self.paths.clone())
    }
}

/// The path becomes a word of commands, a part of mount options, of a table of the device mapper
/// and of a pattern of LVM: nothing in it may mean something there.
fn check_path(path: &str) -> Result<(), CheckFault> {
    let shown = path.escape_debug();
    if !path.starts_with("/dev/") {
        return Err(format!("'{shown}' is not the path of a device; begin it with /dev/"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_-.:+@=%".contains(c);
    if !path.chars().all(is_plain) || path.split('/').any(|part| part == "..") {
        return Err(format!(
            "'{shown}' has characters that a device's path may not have here; name it by another \
             path, of letters, digits and /_-.:+@=% without '..'"
        ));
    }
    Ok(())
}

/// An existing device may be overwritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    pub(crate) device: String,
    /// It was named as one to destroy.
    pub(crate) destroy: bool,
    /// It may hold something.
    pub(crate) force: bool,
}

impl Checking for Unused {
    fn text(&self) -> String {
        let rest = if self.force { "" } else { " and that nothing is on it" };
        format!("check that {} is not in use{rest}", self.device)
    }

    /// The device may be written to if nothing speaks against it.
    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
        let device = &self.device;
        if !stepper.system.is_block_device(Path::new(device)) {
            return Err(refused(device, "it is not there, or not a block device"));
        }
        if !self.destroy {
            let what = format!("whatever is on it would be lost; say so with --destroy {device}");
            return Err(refused(device, &what));
        }
        let refuse = |what: &str| refused(device, what);
        let system = &*stepper.system;
        stepper.grounds.named(system, device, refuse, || self.is_unused(system))
    }
}

impl Unused {
    /// The device is not in use and holds nothing that may not be lost.
    fn is_unused(&self, system: &dyn System) -> Result<(), BuildError> {
        let usage = system.usage(Path::new(&self.device));
        let usage = usage.map_err(|error| refused(&self.device, &error.to_string()))?;
        if usage.is_in_use() {
            return Err(refused(&self.device, &in_use(&usage)));
        }
        if !usage.signatures.is_empty() && !self.force {
            let names = usage.signature_names().join(", ");
            let what = format!("{names} is on it; wipe it, or add --force-signature to lose it");
            return Err(refused(&self.device, &what));
        }
        Ok(())
    }
}

fn in_use(usage: &DeviceUse) -> String {
    let mounts = usage.mounts.iter().map(|mount| format!("mounted at {}", mount.mount_point));
    let holders = usage.holders.iter().map(|holder| format!("held by {}", holder.holder));
    let swaps = usage.swaps.iter().map(|swap| format!("{swap} is swap"));
    let mut reasons: Vec<String> = mounts.chain(holders).chain(swaps).collect();
    if reasons.is_empty() {
        reasons.push("it is held exclusively by another process or filesystem".into());
    }
    format!("it is in use ({}); nothing overrides that", reasons.join(", "))
}

const UNKNOWN_USE: &str = "it may have been used since the bench was killed; `wipefs --all` erases \
                           it";

/// What this build wrote to a device of the user's, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wipe {
    pub(crate) device: String,
    /// The label of this build's data; the identifiers follow from it.
    pub(crate) tag: String,
}

impl UndoStep for Wipe {
    fn text(&self) -> String {
        format!("wipefs what this bench wrote on {}", self.device)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        // The build writes nothing to it before the step has ended.
        if !prover.known.done {
            return Ok(None);
        }
        let identity = held(prover.system, &self.device).ok().map(|(_held, identity)| identity);
        Ok(LiveThing::of(&self.device, identity))
    }

    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, prover: &Prover<'_>) -> ThingState {
        let usage = prover.system.usage(Path::new(&self.device));
        match usage.is_ok_and(|usage| usage.signatures.is_empty() && !usage.is_in_use()) {
            true => ThingState::Gone,
            false => ThingState::restarted(),
        }
    }

    /// Only this build's data may be on it, unused since.
    fn further(
        &self,
        prover: &mut Prover<'_>,
        _found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        let device = Path::new(&self.device);
        let usage = prover.system.usage(device).map_err(|error| error.to_string())?;
        if usage.is_in_use() {
            return Err(format!("{} is in use", self.device));
        }
        if usage.signatures.is_empty() && usage.partitions.is_empty() {
            return Ok(ThingState::Gone);
        }
        let head = prover.head(&self.device)?;
        let written = match written(&head, &usage.signatures, &self.tag) {
            _ if !usage.partitions.is_empty() => {
                return Ok(ThingState::NotOurs("it has partitions".to_owned()));
            }
            Err(what) => return Ok(ThingState::NotOurs(what)),
            Ok(written) => written,
        };
        if let Some(why) = prover.known.broken {
            return Ok(ThingState::NotOurs(why.to_owned()));
        }
        if !prover.known.vouched && !written.is_fresh {
            return Ok(ThingState::NotOurs(UNKNOWN_USE.to_owned()));
        }
        Ok(ThingState::Ours(written.types))
    }

    /// Erases this build's data, by its types alone.
    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let device = proven.target();
        let is_of_durio = |name: &&str| *name == MEMBER_SIGNATURE;
        let types: Vec<&str> =
            proven.types().iter().copied().filter(|name| !is_of_durio(name)).collect();
        if !types.is_empty() {
            // Without the types, a signature that another process writes at this moment would be
            // erased with ours.
            let words = ["--all", "--quiet", "--types", &types.join(","), device];
            let command = PermittedCommand::wiping(undoer.system, proven, "wipefs", &words)?;
            undoer.run_permitted(&command)?;
        }
        if proven.types().iter().any(is_of_durio) {
            erase_members(undoer.system, proven)?;
        }
        match signatures(undoer.system, device)?.first() {
            None => Ok(Undone::Done),
            Some(left) => Err(format!("{} is still on {device}", left.name)),
        }
    }
}

/// The most copies of a superblock of durio's arrays; each look finds one.
const COPIES_MOST: usize = 8;

/// Erases superblocks of durio's arrays, which wipefs(8) does not know.
fn erase_members(system: &mut dyn System, proven: &Proven) -> Result<(), UndoFailure> {
    for _ in 0..COPIES_MOST {
        let found = signatures(system, proven.target())?;
        let Some(copy) = found.iter().find(|signature| signature.name == MEMBER_SIGNATURE) else {
            break;
        };
        let block = PermittedBlock::wiping(system, proven, copy.offset.get())?;
        in_words(system.erase(&block))?;
    }
    Ok(())
}

fn signatures(system: &dyn System, device: &str) -> Result<Vec<Signature>, UndoFailure> {
    let usage = system.usage(Path::new(device)).map_err(|error| error.to_string())?;
    Ok(usage.signatures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Action;
    use crate::tests::stacks::{TAG, btrfs, ext4, fault, md, place, stack, xfs};
    use crate::{BtrfsProfile, DeclaredKind, DeclaredStack, check_declared, commands};

    fn devices(paths: &[&str]) -> DeclaredKind {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        DeclaredKind::Device(Device { paths })
    }

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![devices(&["/dev/sdx", "/dev/sdy"]), DeclaredKind::Md(md(1)), ext4()])]
    }

    #[test]
    fn an_existing_device_is_looked_at_before_anything_is_wiped_and_labelled_as_ours() {
        let mut place = place();
        place.destroy = vec!["/dev/sdx".into()];
        let layers = vec![devices(&["/dev/sdx", "/dev/sdy"]), btrfs(BtrfsProfile::Raid1)];
        let plan = commands(&stack(layers), &place).unwrap();
        let unused = |device: &str, destroy| {
            Action::Check(StepCheck::Unused(Unused {
                device: device.into(),
                destroy,
                force: false,
            }))
        };
        assert_eq!(plan[0].action, unused("/dev/sdx", true));
        assert_eq!(plan[1].action, unused("/dev/sdy", false));
        let words: Vec<String> =
            plan[2..5].iter().map(|command| command.action.to_string()).collect();
        assert_eq!(
            words,
            [
                "wipefs --all --quiet /dev/sdx",
                "wipefs --all --quiet /dev/sdy",
                "mkfs.btrfs -q -f -K -d raid1 -m raid1 -U d8e07156-9f07-b4c4-9422-1e46fbea64d9 \
                 -L durioabc1234 /dev/sdx /dev/sdy",
            ]
        );
        let wipe = Undo::Wipe(Wipe { device: "/dev/sdx".into(), tag: TAG.into() });
        assert_eq!(plan[2].undo, Some(wipe));
    }

    #[test]
    fn devices_are_named_once_and_by_a_path_below_dev() {
        assert!(fault(vec![devices(&[])]).contains("names 0 devices"));
        assert!(fault(vec![devices(&["sda"])]).contains("begin it with /dev/"));
        assert!(fault(vec![devices(&["/dev/sda", "/dev/sda"])]).contains("named twice"));
        let unknown_size = stack(vec![devices(&["/dev/sdx"]), xfs()]);
        assert!(check_declared(&unknown_size).is_ok(), "its size is not known yet");
    }

    #[test]
    fn the_path_of_a_device_means_nothing_else_in_any_command() {
        check_declared(&stack(vec![devices(&["/dev/disk/by-id/nvme-eui.0025_1"])])).unwrap();
        for path in [
            "/home/x",
            "/dev/a b",
            "/dev/a,b",
            "/dev/../x",
            "/dev/{loop0}",
            "/dev/a|b",
            "/dev/\u{1b}",
        ] {
            let error = fault(vec![devices(&[path])]);
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }
}
