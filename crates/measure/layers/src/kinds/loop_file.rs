//! Files of the host as block devices, with direct I/O where the filesystem has it.
//!
//! A loop device is proven by the filesystem and inode of its file, which the journal has: losetup
//! looks a name up again, and by then it may belong to another file.

use super::RemoveFile;
use super::prelude::*;
use crate::permit::Grounds;
use crate::undo::backing_of;

pub(crate) const KIND: KindEntry = KindEntry {
    word: "loop",
    help: "Files of this machine as block devices, with direct I/O where possible.",
    role: LayerRole::Source,
    drivers: &[DRIVER],
    tools: &[],
    superblock: None,
    #[cfg(test)]
    examples: tests::examples,
};

const DRIVER: Driver = Driver {
    module: "loop",
    purpose: "files as disks",
    shown: DriverSign::At("/dev/loop-control"),
};

spec_keys! {
    /// Files as block devices.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Loop {
        /// How many, and how large.
        #[serde(flatten)]
        pub made: NewDevices,
        /// Directory of the files. Default: the one for temporary files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub directory: Option<String>,
    }
}

impl BuildableLayer for Loop {
    fn label(&self) -> Vec<String> {
        vec![self.made.label(KIND.word)]
    }

    fn needs(&self) -> Vec<Missing> {
        vec![Missing::program("losetup", "mount"), DRIVER.missing()]
    }

    fn check(&self, _below: Below) -> Result<Below, CheckFault> {
        if let Some(path) = self.directory.as_ref().filter(|path| !path.starts_with('/')) {
            return Err(format!("its directory, '{path}', is not an absolute path"));
        }
        self.made.check(Bytes::from_kib(4))
    }

    fn sizes(&self, _below: SizesBelow<'_>) -> Vec<Bytes> {
        self.made.sizes()
    }

    fn plan(&self, draft: &mut PlanDraft<'_>, _below: &[String]) -> PlannedLayer {
        let directory = self.directory.as_deref().map_or(draft.place.files.as_path(), Path::new);
        let folder = directory.join(draft.place.tag()).display().to_string();
        draft.load(DRIVER.module, &[]);
        draft.make_directory(&folder);
        let NewDevices { count, size } = self.made;
        let devices = (0..count).map(|n| one_device(draft, &folder, n, size)).collect();
        draft.wait_for(devices, size)
    }

    fn made(&mut self) -> Option<&mut NewDevices> {
        Some(&mut self.made)
    }
}

fn one_device(draft: &mut PlanDraft<'_>, folder: &str, n: u32, size: Bytes) -> String {
    let name = format!("loop{n}");
    let file = format!("{folder}/{name}");
    let undo = Undo::RemoveFile(RemoveFile { path: file.clone() });
    draft.push(Action::MakeFile { path: file.clone(), size }, Some(undo));
    let device = format!("{{{name}}}");
    let undo = Undo::DetachLoop(DetachLoop { file: file.clone(), device: device.clone() });
    // Otherwise writes to the device stay in the page cache of its file.
    draft.ask("losetup", &["--find", "--show", "--direct-io=on", &file], &name, Some(undo));
    device
}

/// The loop device of a file that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachLoop {
    pub(crate) file: String,
    /// The device, as a rule a placeholder.
    #[serde(default)]
    pub(crate) device: String,
}

impl UndoStep for DetachLoop {
    fn text(&self) -> String {
        format!("losetup --detach the loop device of {}", self.file)
    }

    fn fill(&mut self, values: &Values) {
        self.device = filled(&self.device, values);
    }

    fn file(&self) -> Option<&str> {
        Some(&self.file)
    }

    /// By its name if its program answered, else by the file behind it.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let node = filled(&self.device, prover.known.values);
        let backing = prover.known.file.and_then(backing_of);
        for (name, behind) in prover.loops()? {
            let is_meant = if is_open(&node) || node.is_empty() {
                Some(&behind) == backing.as_ref()
            } else {
                name == node
            };
            let directory = format!("/sys/block/{}", name.trim_start_matches("/dev/"));
            let disk = disk_identity(prover.system, &directory);
            if let (true, Some(disk)) = (is_meant, disk) {
                return Ok(LiveThing::of(&name, Some(disk.with("file", &behind))));
            }
        }
        Ok(None)
    }

    fn fault_of_begun(&self, prover: &Prover<'_>, found: &LiveThing) -> Option<String> {
        let backing = prover.known.file.and_then(backing_of);
        let is_ours = backing.is_some() && found.identity.get("file") == backing.as_deref();
        (!is_ours).then(|| "it is backed by another file".to_owned())
    }

    fn further(
        &self,
        prover: &mut Prover<'_>,
        found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        nothing_foreign_on(prover, std::slice::from_ref(&found.target))
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let disk = proven.target().trim_start_matches("/dev/");
        let behind = format!("/sys/block/{disk}/loop/backing_file");
        // Since Linux 3.7 losetup succeeds also while the device is in use: the kernel then
        // detaches it with its last user (losetup(8)). Only that no file is behind it any more says
        // that it is done.
        let gone = |system: &dyn System| system.read(Path::new(&behind)).is_none();
        undoer.run_until(proven, "losetup", &["--detach", proven.target()], gone)
    }

    fn check_made(&self, grounds: &Grounds, facts: Option<&LayerIdentity>) -> Result<(), String> {
        // losetup was given a name: between the making of the file and its start the name could
        // change hands.
        let behind = facts.and_then(|facts| facts.get("file"));
        let made = grounds.path(Path::new(&self.file)).and_then(backing_of);
        match made.is_some() && behind == made.as_deref() {
            true => Ok(()),
            false => Err(format!(
                "the loop device is not backed by {} as it was made: the file has been replaced",
                self.file
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::stacks::{ext4_with, fault, loops, made, plan, stack, xfs};
    use crate::{DeclaredKind, DeclaredStack, MadeFilesystem};

    pub(super) fn examples() -> Vec<DeclaredStack> {
        vec![stack(vec![loops(1, 300), xfs()])]
    }

    #[test]
    fn a_filesystem_in_a_file() {
        let options = MadeFilesystem {
            mkfs: vec!["-b".into(), "4096".into(), "-E".into(), "stride=4".into()],
            mount: vec!["noatime".into(), "data=journal".into()],
        };
        assert_eq!(
            plan(vec![loops(1, 64), ext4_with(options)]),
            [
                "modprobe loop  (unless the driver is there)",
                "make directory /files/durioabc1234  | remove directory /files/durioabc1234",
                "make file /files/durioabc1234/loop0 of 64 MiB  | remove file \
                 /files/durioabc1234/loop0",
                "losetup --find --show --direct-io=on /files/durioabc1234/loop0  → {loop0}  \
                 | losetup --detach the loop device of /files/durioabc1234/loop0",
                "wait until {loop0} is there",
                "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard,stride=4 -b \
                 4096 -U d8e07156-9f07-b4c4-9422-1e46fbea64d9 -L durioabc1234 {loop0}",
                "make directory /run/durio/durioabc1234  | remove directory \
                 /run/durio/durioabc1234",
                "mount -t ext4 -o noatime,data=journal {loop0} /run/durio/durioabc1234  \
                 | umount /run/durio/durioabc1234",
                "check that ext4 is mounted at /run/durio/durioabc1234",
            ]
        );
    }

    #[test]
    fn every_device_has_its_own_file_in_the_declared_directory() {
        let two = Loop { made: made(2, 5), directory: Some("/srv/files".into()) };
        let plan = plan(vec![DeclaredKind::Loop(two)]);
        let folder = "/srv/files/durioabc1234";
        assert_eq!(plan[1], format!("make directory {folder}  | remove directory {folder}"));
        let file = format!("{folder}/loop1");
        assert_eq!(
            plan[4..],
            [
                format!("make file {file} of 5 MiB  | remove file {file}"),
                format!(
                    "losetup --find --show --direct-io=on {file}  → {{loop1}}  \
                     | losetup --detach the loop device of {file}"
                ),
                "wait until {loop0} is there".to_owned(),
                "wait until {loop1} is there".to_owned(),
            ]
        );
    }

    #[test]
    fn the_directory_of_the_files_is_absolute() {
        let relative = Loop { made: made(1, 64), directory: Some("files".into()) };
        assert!(fault(vec![DeclaredKind::Loop(relative)]).contains("is not an absolute path"));
    }
}
