//! The common part of filesystems: mkfs with a label and an identifier by which they are
//! recognised, a private mount point, mount, and umount.
//!
//! Tables are written in full and nothing is discarded, so that no later work of the filesystem
//! falls into a measurement.

use super::prelude::*;

spec_keys! {
    /// Options of mkfs and mount.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct MadeFilesystem {
        /// Words for the program that makes it, of those listed below: no device, label or file.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub mkfs: Vec<String> = Vec::new(),
        /// Options with which it is mounted, of those listed below.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub mount: Vec<String> = Vec::new(),
    }
}

impl MadeFilesystem {
    pub(super) fn label(&self, word: &str, profile: &str) -> Vec<String> {
        let mut words = vec![word.to_owned(), profile.to_owned()];
        words.extend(self.mkfs.iter().cloned());
        if !self.mount.is_empty() {
            words.push(format!("mounted {}", self.mount.join(",")));
        }
        words
    }

    pub(super) fn tool_words(&self, mkfs: Tool, mount: Tool) -> ToolWords<'_> {
        vec![("mkfs", mkfs, &self.mkfs), ("mount", mount, &self.mount)]
    }
}

/// Our words, and then the declared ones.
pub(super) fn words(own: &[&str], declared: &[String]) -> Vec<String> {
    own.iter().map(|word| (*word).to_owned()).chain(declared.iter().cloned()).collect()
}

/// The words by which mkfs gives the identifier of the build: `-U` and it, for most.
pub(super) fn uuid_words(draft: &PlanDraft<'_>) -> [String; 2] {
    ["-U".to_owned(), filesystem_uuid(&draft.place.tag()).0]
}

/// Makes a filesystem with the label of the build.
pub(super) fn mkfs(draft: &mut PlanDraft<'_>, program: &str, words: Vec<String>, below: &[String]) {
    let label = ["-L".to_owned(), draft.place.tag()];
    let words: Vec<String> = words.into_iter().chain(label).chain(below.to_vec()).collect();
    draft.run(program, &words, None);
}

/// Mounts it below the folder of the build.
pub(super) fn mount(
    draft: &mut PlanDraft<'_>,
    filesystem: &str,
    options: &[String],
    below: &[String],
) -> PlannedLayer {
    let at = mount_point(draft);
    let mut words = vec!["-t".to_owned(), filesystem.to_owned()];
    if !options.is_empty() {
        words.extend(["-o".to_owned(), options.join(",")]);
    }
    let source = below.first().cloned().unwrap_or_default();
    words.extend([source.clone(), at.clone()]);
    draft.run("mount", &words, Some(Undo::Unmount(Unmount { mount_point: at.clone(), source })));
    mounted(draft, filesystem, at, below)
}

/// A directory of the build's own.
pub(super) fn mount_point(draft: &mut PlanDraft<'_>) -> String {
    let at = draft.place.mounts.join(draft.place.tag()).display().to_string();
    draft.make_directory(&at);
    at
}

/// The layer, once it is seen that the filesystem is mounted.
pub(super) fn mounted(
    draft: &mut PlanDraft<'_>,
    filesystem: &str,
    at: String,
    below: &[String],
) -> PlannedLayer {
    let (mount_point, filesystem) = (at.clone(), filesystem.to_owned());
    draft.check(StepCheck::Mounted(MountedFilesystem { mount_point, filesystem }));
    PlannedLayer { devices: below.to_vec(), mount: Some(at) }
}

/// A filesystem of this type is mounted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedFilesystem {
    pub(crate) mount_point: String,
    /// The kernel's name of the filesystem.
    pub(crate) filesystem: String,
}

impl Checking for MountedFilesystem {
    fn text(&self) -> String {
        format!("check that {} is mounted at {}", self.filesystem, self.mount_point)
    }

    fn carry_out(&self, stepper: &mut Stepper<'_, '_>) -> Result<(), BuildError> {
        let Self { mount_point, filesystem } = self;
        let found = stepper.system.mounted_at(Path::new(mount_point));
        if found.last() == Some(filesystem) {
            return Ok(());
        }
        let found = found.last().map_or("nothing", String::as_str);
        Err(BuildError::Failed(format!(
            "{found} is mounted at {mount_point} instead of {filesystem}"
        )))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmount {
    /// The mount point, a directory that was made.
    pub(crate) mount_point: String,
    /// The device that is mounted, as a rule a placeholder.
    #[serde(default)]
    pub(crate) source: String,
}

impl UndoStep for Unmount {
    fn text(&self) -> String {
        format!("umount {}", self.mount_point)
    }

    fn fill(&mut self, values: &Values) {
        self.source = filled(&self.source, values);
    }

    fn holds_devices(&self) -> bool {
        true
    }

    /// By the kernel's number of the mount, device and source.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure> {
        let mount_point = Path::new(&self.mount_point);
        // umount takes the uppermost: it would unmount another's filesystem and leave ours.
        if prover.system.mounted_at(mount_point).len() > 1 {
            return Err("another filesystem is mounted over it; unmount that first".into());
        }
        Ok(LiveThing::of(&self.mount_point, prover.system.mount_identity(mount_point)))
    }

    fn fault_of_begun(&self, prover: &Prover<'_>, found: &LiveThing) -> Option<String> {
        let source = filled(&self.source, prover.known.values);
        let there = found.identity.get("source").map(Path::new);
        let there = there.and_then(|source| prover.system.resolve(source));
        let is_ours = there.is_some() && there == prover.system.resolve(Path::new(&source));
        (!is_ours).then(|| "another device is mounted there".to_owned())
    }

    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure> {
        let gone = |system: &dyn System| system.mounted_at(Path::new(&self.mount_point)).is_empty();
        undoer.run_until(proven, "umount", &[proven.target()], gone)
    }
}
