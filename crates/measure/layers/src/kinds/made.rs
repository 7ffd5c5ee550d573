//! What several kinds make: devices out of memory or files, how many and how large; devices that a
//! step makes, once they are there; files and directories, and how they are removed.

use std::io;
use std::time::Duration;

use super::prelude::*;
use crate::undo::{backing_of, parent_of};

spec_keys! {
    /// Devices that durio makes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct NewDevices {
        /// How many. Default: 1.
        pub count: u32 = 1,
        /// Bytes of each.
        #[serde(rename = "size_bytes")]
        pub size: Bytes,
    }
}

impl NewDevices {
    /// Checks `count`, and that the size is a multiple of `unit`.
    pub(crate) fn check(self, unit: Bytes) -> Result<Below, CheckFault> {
        if self.count == 0 || self.count > MOST_DEVICES {
            return Err(format!("count is {}; 1 to {MOST_DEVICES} can be made", self.count));
        }
        if self.size.get() == 0 || !self.size.is_multiple_of(unit) {
            return Err(format!("its size, {}, is not a multiple of {unit}", self.size));
        }
        Ok(Below::of_devices(self.count, Some(self.size)))
    }

    /// `2 × ram 1 GiB`.
    pub(crate) fn label(self, word: &str) -> String {
        let one = format!("{word} {}", self.size);
        if self.count == 1 { one } else { format!("{} × {one}", self.count) }
    }

    pub(crate) fn sizes(self) -> Vec<Bytes> {
        vec![self.size; self.count as usize]
    }
}

// A device that was asked for is there within moments, even where udev makes the node.
const PRESENT_TRIES: u32 = 100;
const PRESENT_PAUSE: Duration = Duration::from_millis(50);

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
        wait_for(stepper, &self.device, self.size)?;
        let made = stepper.grounds.made(stepper.system, &self.device);
        made.map_err(BuildError::Failed)
    }
}

fn wait_for(
    stepper: &Stepper<'_, '_>,
    device: &str,
    size: Option<Bytes>,
) -> Result<(), BuildError> {
    for _ in 0..PRESENT_TRIES {
        if stepper.system.is_block_device(Path::new(device)) {
            return check_size(stepper, device, size);
        }
        stepper.system.pause(PRESENT_PAUSE);
    }
    Err(BuildError::Failed(format!("{device} did not appear")))
}

fn check_size(
    stepper: &Stepper<'_, '_>,
    device: &str,
    size: Option<Bytes>,
) -> Result<(), BuildError> {
    let sectors = stepper.attribute(device, "size").and_then(|text| text.parse::<u64>().ok());
    match (size, sectors) {
        (Some(size), Some(sectors)) if sectors.saturating_mul(512) != size.get() => {
            let found = Bytes::new(sectors.saturating_mul(512));
            Err(BuildError::Failed(format!("{device} has {found} instead of {size}")))
        }
        _ => Ok(()),
    }
}

/// A file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveFile {
    pub(crate) path: String,
}

impl UndoStep for RemoveFile {
    fn text(&self) -> String {
        format!("remove file {}", self.path)
    }

    fn made_path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn folder(&self) -> Option<&str> {
        parent_of(&self.path)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of(&self.path, prover.system.file_identity(Path::new(&self.path))))
    }

    fn fault_of_begun(&self, prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        let folder = Path::new(&self.path).parent();
        let now = folder.and_then(|folder| prover.system.file_identity(folder));
        let is_ours =
            matches!((prover.known.folder, &now), (Some(a), Some(b)) if a.difference(b).is_none());
        (!is_ours).then(|| "its folder is not the one that this bench created".to_owned())
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Ours(Vec::new())
    }

    /// A file that a loop device stands on is in use.
    fn further(
        &self,
        prover: &mut Prover<'_>,
        found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        let backing = backing_of(&found.identity);
        // The kernel would remove the name and keep the space until the device is detached, unseen.
        match prover.loops()?.into_iter().find(|(_, behind)| Some(behind) == backing.as_ref()) {
            Some((node, _)) => Err(format!("{node} is on top of it")),
            None => Ok(ThingState::Ours(Vec::new())),
        }
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        in_words(undoer.system.remove_file(proven)).map(|()| Undone::Done)
    }
}

/// A directory that was made, if it is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDirectory {
    pub(crate) path: String,
}

impl UndoStep for RemoveDirectory {
    fn text(&self) -> String {
        format!("remove directory {}", self.path)
    }

    fn made_path(&self) -> Option<&str> {
        Some(&self.path)
    }

    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        Ok(LiveThing::of(&self.path, prover.system.file_identity(Path::new(&self.path))))
    }

    /// Its name has this build's tag, and only an empty one is removed.
    fn fault_of_begun(&self, _prover: &Prover<'_>, _found: &LiveThing) -> Option<String> {
        None
    }

    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Ours(Vec::new())
    }

    /// Files that others put there are not removed with it.
    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        match undoer.system.remove_directory(proven) {
            Ok(()) => Ok(Undone::Done),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Ok(Undone::LeftAlone("it contains something that this bench did not create".into()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::permit::Grounds;
    use crate::step::BuildOptions;
    use crate::tests::scripted::Scripted;
    use crate::tests::stacks::TAG;
    use crate::undo::{OwnershipVerdict, UndoContext};

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
            wait_for(&stepper, device, size.map(Bytes::new)).map_err(|error| error.to_string())
        };
        assert_eq!(present("/dev/loop3", Some(1 << 20)), Ok(()));
        assert_eq!(present("/dev/loop3", None), Ok(()));
        for size in [(1 << 20) - 512, (1 << 20) + 512] {
            let error = present("/dev/loop3", Some(size)).unwrap_err();
            let expected = format!("/dev/loop3 has 1 MiB instead of {}", Bytes::new(size));
            assert!(error.contains(&expected), "{error}");
        }
        let error = present("/dev/loop4", Some(1 << 20)).unwrap_err();
        assert!(error.contains("/dev/loop4 did not appear"), "{error}");
    }

    /// A machine that has files with these inodes.
    fn with_files(files: &[(&str, u32)]) -> Scripted {
        let machine = Scripted::default();
        let mut account = machine.0.borrow_mut();
        for (file, inode) in files {
            account.there.paths.insert((*file).to_owned(), String::new());
            account.inodes.insert((*file).to_owned(), *inode);
        }
        drop(account);
        machine
    }

    /// Whether a file may be removed, or why not.
    fn verdict(machine: &Scripted, path: &str, known: &UndoContext<'_>) -> Result<(), String> {
        let mut machine = machine.clone();
        let step = RemoveFile { path: path.to_owned() };
        let mut prover = Prover { system: &mut machine, output: PathBuf::new(), known };
        match prover.prove(&step)? {
            OwnershipVerdict::Ours(proven) => {
                assert_eq!(proven.target(), path);
                Ok(())
            }
            OwnershipVerdict::Gone => Err("it is gone".to_owned()),
            OwnershipVerdict::NotOurs(why) => Err(why),
        }
    }

    fn identity(device: &str, inode: &str) -> LayerIdentity {
        let [device, inode] = [device, inode].map(|fact| Some(fact.to_owned()));
        LayerIdentity::of([("device", device), ("inode", inode)])
    }

    #[test]
    fn a_file_is_in_use_by_a_loop_device_on_it_and_not_by_one_on_its_inode_elsewhere() {
        let machine = with_files(&[("/files/a", 12), ("/files/b", 13), ("/other/a", 12)]);
        for (name, file) in [("loop3", "/other/a"), ("loop4", "/files/b")] {
            let behind = format!("/sys/block/{name}/loop/backing_file");
            machine.0.borrow_mut().there.paths.insert(behind, file.into());
        }
        let values = Values::new();
        let of = |path: &str, device: &str, inode: &str| {
            let recorded = identity(device, inode);
            let known = UndoContext { recorded: Some(&recorded), ..UndoContext::new(&values, TAG) };
            verdict(&machine, path, &known)
        };
        assert_eq!(of("/files/a", "8:1", "12"), Ok(()));
        assert_eq!(of("/files/b", "8:1", "13"), Err("/dev/loop4 is on top of it".to_owned()));
        assert_eq!(of("/other/a", "8:2", "12"), Err("/dev/loop3 is on top of it".to_owned()));
    }

    #[test]
    fn the_number_of_a_filesystem_counts_until_the_machine_is_restarted_and_an_inode_ever_after() {
        let machine = with_files(&[("/files/a", 12)]);
        let values = Values::new();
        let of = |device: &str, inode: &str, same_boot: bool| {
            let recorded = identity(device, inode);
            let known = UndoContext {
                recorded: Some(&recorded),
                same_boot,
                ..UndoContext::new(&values, TAG)
            };
            verdict(&machine, "/files/a", &known)
        };
        for same_boot in [true, false] {
            assert_eq!(of("8:1", "12", same_boot), Ok(()));
            let why = "its inode was 11 and is 12".to_owned();
            assert_eq!(of("8:1", "11", same_boot), Err(why));
        }
        assert_eq!(of("8:9", "12", false), Ok(()));
        assert_eq!(of("8:9", "12", true), Err("its device was 8:9 and is 8:1".to_owned()));
    }

    #[test]
    fn a_file_that_the_journal_does_not_have_is_ours_only_in_the_folder_that_was_made_for_it() {
        let machine = with_files(&[("/files/new", 21), ("/files/new/a", 22)]);
        let values = Values::new();
        let begun = UndoContext::new(&values, TAG);
        let of = |folder: Option<&LayerIdentity>, done: bool| {
            verdict(&machine, "/files/new/a", &UndoContext { folder, done, ..begun })
        };
        let (same, other) = (identity("8:1", "21"), identity("8:1", "20"));
        assert_eq!(of(Some(&same), false), Ok(()));
        let why = "its folder is not the one that this bench created".to_owned();
        assert_eq!(of(Some(&other), false), Err(why.clone()));
        assert_eq!(of(None, false), Err(why));
        // Its step ended, and wrote nothing down.
        let why = "the journal does not say how to identify it".to_owned();
        assert_eq!(of(Some(&same), true), Err(why));
    }

    #[test]
    fn a_directory_with_something_in_it_is_left_alone_and_an_empty_one_is_removed() {
        let machine =
            with_files(&[("/files/full", 31), ("/files/full/a", 32), ("/files/bare", 33)]);
        let values = Values::new();
        let known = UndoContext::new(&values, TAG);
        let undone = |path: &str| {
            let mut machine = machine.clone();
            let step = RemoveDirectory { path: path.to_owned() };
            let output = PathBuf::new();
            Undoer { system: &mut machine, output }.carry_out(&step, &known)
        };
        assert_eq!(undone("/files/bare"), Ok(Undone::Done));
        assert_eq!(undone("/files/bare"), Ok(Undone::Gone));
        let why = "it contains something that this bench did not create".to_owned();
        assert_eq!(undone("/files/full"), Ok(Undone::LeftAlone(why)));
        assert!(machine.0.borrow().there.paths.contains_key("/files/full/a"));
    }
}
