//! Every kind of layer that can be built.
//!
//! A kind is one file: its keys in a spec, its label, limits and needs, the commands that make it,
//! their undo, the proof that a thing is ours, and its tests. A new kind is a file here and two
//! lines below; everything else goes over [`KINDS`] or [`SPEC_LAYERS`].
//!
//! [`crate::permit`] alone decides what a kind may write to and ask programs, so that the guard is
//! read in one place.

mod btrfs;
mod device;
mod dm;
mod ext4;
mod loop_file;
mod lvm;
mod made;
mod md;
mod mounted;
mod null;
mod raid;
mod ram;
mod xfs;
mod zfs;
mod zram;

use std::fmt;
use std::fs;

use durio_observe::Signature;

use crate::tool_words::{WordFault, check_words};
use mounted::{MountedFilesystem, Unmount};
use prelude::*;

pub use made::NewDevices;
pub(crate) use made::{Present, RemoveDirectory, RemoveFile};
pub use mounted::MadeFilesystem;

/// What the file of a kind is written with.
mod prelude {
    pub(super) use std::path::Path;

    pub(super) use durio_base::{Bytes, Nanos};
    pub(super) use serde::{Deserialize, Serialize};

    pub(super) use super::{
        BuildableLayer, DeclaredKind, Driver, DriverSign, KindEntry, LayerRole, NewDevices,
        SizesBelow, StepCheck, ToolWords, Undo, nothing_foreign_on,
    };
    pub(super) use crate::check::{Below, CheckFault, MOST_DEVICES, at_least, power_of_two};
    pub(super) use crate::declared::{filesystem_sizes, per_group};
    pub(super) use crate::error::{BuildError, Missing};
    pub(super) use crate::identity::LayerIdentity;
    pub(super) use crate::identity::{DeviceHead, Ours, SuperblockFormat, WrittenSuperblock};
    pub(super) use crate::permit::{ProgramQuery, Proven};
    pub(super) use crate::place::{Values, filesystem_uuid, filled, is_open};
    pub(super) use crate::plan::{PlanDraft, PlannedLayer};
    pub(super) use crate::spec::{KeyFault, SpecField, SpecForm, SpecKey, SpecScalar};
    pub(super) use crate::spec::{SpecValue, SpecValues, spec_keys, spec_words};
    pub(super) use crate::step::{Action, Checking, Stepper};
    pub(super) use crate::system::{DURIO, System, disk_identity};
    pub(super) use crate::tool_words::{
        Tool, ToolWord, WordArgument, WordForm, ZERO_ONE, word_list,
    };
    pub(super) use crate::undo::{LiveThing, Prover, ThingState, UndoFailure, UndoStep};
    pub(super) use crate::undo::{Undoer, Undone, in_words};
}

/// What all layers of a kind have in common.
pub(crate) struct KindEntry {
    /// Its word in a spec and in saved stacks.
    pub(crate) word: &'static str,
    /// What it is, for the reference of stack specs.
    pub(crate) help: &'static str,
    pub(crate) role: LayerRole,
    /// All that a layer of it may need.
    pub(crate) drivers: &'static [Driver],
    /// The programs that are handed words of a spec.
    pub(crate) tools: &'static [Tool],
    /// How its data on a device is recognised as a build's.
    pub(crate) superblock: Option<SuperblockFormat>,
    /// Stacks with it, for the tests that go over all kinds.
    #[cfg(test)]
    pub(crate) examples: fn() -> Vec<crate::DeclaredStack>,
}

/// A driver that a kind of layer may need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Driver {
    pub(crate) module: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
    /// Where one that is a part of the kernel and has no parameters shows: it has no directory in
    /// `/sys/module`.
    pub(crate) shown: DriverSign,
}

/// Where a driver shows itself.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DriverSign {
    /// It shows in `/sys/module` alone.
    AsModule,
    /// This path is there.
    At(&'static str),
    /// The file has the word.
    In(&'static str, &'static str),
}

impl Driver {
    pub(crate) const fn module(module: &'static str, purpose: &'static str) -> Self {
        Self { module, purpose, shown: DriverSign::AsModule }
    }

    pub(crate) const fn filesystem(module: &'static str, purpose: &'static str) -> Self {
        Self { module, purpose, shown: DriverSign::In("/proc/filesystems", module) }
    }

    pub(crate) const fn missing(self) -> Missing {
        Missing::Driver { module: self.module, purpose: self.purpose }
    }

    pub(crate) fn shows_itself(self) -> bool {
        match self.shown {
            DriverSign::AsModule => false,
            DriverSign::At(path) => Path::new(path).exists(),
            DriverSign::In(file, word) => {
                let text = fs::read_to_string(file).unwrap_or_default();
                text.split_ascii_whitespace().any(|other| other == word)
            }
        }
    }
}

/// A kind of layer as a spec has it.
#[derive(Debug)]
pub struct SpecLayer {
    /// Its word: `md`, `ext4`.
    pub word: &'static str,
    pub help: &'static str,
    /// Its keys, in addition to those of every layer.
    pub keys: fn() -> Vec<SpecKey>,
    /// The layer that has these values, which were read by the forms of the keys.
    pub read: fn(&SpecValues) -> Result<DeclaredKind, KeyFault>,
}

/// Where a layer can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerRole {
    /// At the bottom: it makes devices, or names them.
    Source,
    /// On devices, and gives devices.
    Devices,
    /// On devices and at the top: it is mounted.
    Filesystem,
}

/// The words of a layer that reach the command line of a program, with their key and the program.
pub(crate) type ToolWords<'a> = Vec<(&'static str, Tool, &'a [String])>;

/// What a declared layer of a kind can do.
pub(crate) trait BuildableLayer {
    /// The words of its label, empty ones left out.
    fn label(&self) -> Vec<String>;
    /// The programs and drivers without which it cannot be built.
    fn needs(&self) -> Vec<Missing>;
    /// What the next layer stands on, or why it cannot be built on any machine.
    fn check(&self, below: Below) -> Result<Below, CheckFault>;
    fn tool_words(&self) -> ToolWords<'_> {
        Vec::new()
    }
    /// The fault in the value of a key, where a message should point at it.
    fn key_fault(&self) -> Option<KeyFault> {
        self.tool_words().into_iter().find_map(|(key, tool, words)| {
            let WordFault { index, what, allowed } = check_words(tool, words).err()?;
            Some(KeyFault { key, index, what: format!("{key}: {what}"), hint: Some(allowed) })
        })
    }
    /// The same layer with less redundancy, once, if its spec asks for that as well as the whole
    /// one.
    fn take_degraded(&mut self) -> Option<DeclaredKind> {
        None
    }
    /// About how large its devices will be.
    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes>;
    /// The commands that make it on the devices `below`, with their undo.
    fn plan(&self, draft: &mut PlanDraft<'_>, below: &[String]) -> PlannedLayer;
    /// The devices that durio makes for it out of nothing.
    fn made(&mut self) -> Option<&mut NewDevices> {
        None
    }
}

/// The devices that a layer stands on, before any is there.
#[derive(Clone, Copy)]
pub(crate) struct SizesBelow<'a> {
    pub(crate) sizes: &'a [Bytes],
    pub(crate) groups: u32,
    /// The size of a device that is there already.
    pub(crate) existing: &'a dyn Fn(&str) -> Option<Bytes>,
}

/// Writes the enums of layers, undos and checks. The variants of saved ones are named by serde: a
/// name never changes, so that older journals and benches stay readable.
macro_rules! layer_kinds {
    ($($module:ident: $kind:ident($fields:ident $(, $part:ident)*)
        $(, undo $undo:ident)? $(, check $check:ident)?;)*) => {
        $(pub use $module::{$fields $(, $part)*};)*

        /// What a layer is. Lists of words are handed to the program that makes the layer, as they
        /// stand.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", tag = "layer")]
        pub enum DeclaredKind {
            $(
                #[doc = concat!("A layer of kind ", stringify!($module), ".")]
                $kind($fields),
            )*
        }

        pub(crate) const KINDS: &[&KindEntry] = &[$(&$module::KIND),*];

        /// All kinds as specs have them.
        pub const SPEC_LAYERS: &[SpecLayer] = &[$(SpecLayer {
            word: $module::KIND.word,
            help: $module::KIND.help,
            keys: || <$fields as SpecField>::keys("", "", true),
            read: |values| {
                let layer = <$fields as SpecField>::read(values, "")?;
                layer.key_fault().map_or(Ok(DeclaredKind::$kind(layer)), Err)
            },
        }),*];

        impl DeclaredKind {
            pub(crate) const fn facts(&self) -> &'static KindEntry {
                match self {
                    $(Self::$kind(_) => &$module::KIND,)*
                }
            }

            pub(crate) fn layer(&self) -> &dyn BuildableLayer {
                match self {
                    $(Self::$kind(layer) => layer,)*
                }
            }

            pub(crate) fn layer_mut(&mut self) -> &mut dyn BuildableLayer {
                match self {
                    $(Self::$kind(layer) => layer,)*
                }
            }
        }

        /// What undoes one step. Each is done only if the thing is there and is proven to be ours
        /// ([`crate::undo`]); so it can be done twice, and before the step itself.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", tag = "undo")]
        pub enum Undo {
            /// A file that was made.
            RemoveFile(RemoveFile),
            /// A directory that was made.
            RemoveDirectory(RemoveDirectory),
            /// A filesystem that was mounted.
            Unmount(Unmount),
            $($(
                #[doc = concat!("What a layer of ", stringify!($module), " made.")]
                $undo($module::$undo),
            )?)*
        }

        impl Undo {
            pub(crate) fn step(&self) -> &dyn UndoStep {
                match self {
                    Self::RemoveFile(step) => step,
                    Self::RemoveDirectory(step) => step,
                    Self::Unmount(step) => step,
                    $($(Self::$undo(step) => step,)?)*
                }
            }

            fn step_mut(&mut self) -> &mut dyn UndoStep {
                match self {
                    Self::RemoveFile(step) => step,
                    Self::RemoveDirectory(step) => step,
                    Self::Unmount(step) => step,
                    $($(Self::$undo(step) => step,)?)*
                }
            }
        }

        /// A check before or after a step; it changes nothing.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum StepCheck {
            /// A device is there.
            Present(Present),
            /// A filesystem is mounted.
            Mounted(MountedFilesystem),
            $($(
                #[doc = concat!("What a layer of ", stringify!($module), " asks.")]
                $check($module::$check),
            )?)*
        }

        impl StepCheck {
            pub(crate) fn checking(&self) -> &dyn Checking {
                match self {
                    Self::Present(check) => check,
                    Self::Mounted(check) => check,
                    $($(Self::$check(check) => check,)?)*
                }
            }
        }
    };
}

// Enums, because saved plans name the variant, and a match shows what a new kind lacks; a macro, so
// that this list alone knows all kinds. Module, variant with its fields and the types of their
// parts, its undo, its checks during the build.
layer_kinds! {
    ram: Ram(Ram), undo UnloadBrd, check NoRamDisks;
    zram: Zram(Zram), undo RemoveZram;
    null: Null(Null), undo RemoveNull;
    loop_file: Loop(Loop), undo DetachLoop;
    device: Device(Device), undo Wipe, check Unused;
    md: Md(DeclaredMd, MdBitmap), undo StopArray, check ArrayCheck;
    raid: Raid(Raid, RaidFront), undo EndServer;
    lvm: Lvm(Lvm, LvmLayout), undo RemoveVolumeGroup;
    dm: Dm(Dm, DmTarget), undo RemoveMapped;
    ext4: Ext4(Ext4);
    xfs: Xfs(Xfs);
    btrfs: Btrfs(Btrfs, BtrfsProfile);
    zfs: Zfs(Zfs, ZfsLayout), undo DestroyPool;
}

impl DeclaredKind {
    /// Its word in a spec: `md`, `ext4`.
    pub const fn name(&self) -> &'static str {
        self.facts().word
    }

    /// True if it is a mounted filesystem and no device: nothing can lie above it.
    pub const fn is_filesystem(&self) -> bool {
        matches!(self.facts().role, LayerRole::Filesystem)
    }

    /// True if it lies on nothing that is declared.
    pub const fn is_source(&self) -> bool {
        matches!(self.facts().role, LayerRole::Source)
    }

    /// The devices that durio makes for it out of nothing.
    pub fn made(&self) -> Option<NewDevices> {
        // A copy is cheap, and spares every kind a second method.
        self.clone().made_mut().copied()
    }

    /// The same, to be changed.
    pub fn made_mut(&mut self) -> Option<&mut NewDevices> {
        self.layer_mut().made()
    }

    /// The same layer with less redundancy, once, if its spec asks for that as well as the whole
    /// one.
    pub fn take_degraded(&mut self) -> Option<Self> {
        self.layer_mut().take_degraded()
    }
}

/// The words that programs may be handed, as Markdown, for docs/formats/stack-spec.md.
pub fn tool_words_reference() -> String {
    let tools = KINDS.iter().flat_map(|kind| kind.tools).copied();
    crate::tool_words::reference(&tools.collect::<Vec<_>>())
}

/// All signatures are this build's.
///
/// # Errors
/// The first one that is not.
pub(crate) fn written(
    head: &[u8],
    signatures: &[Signature],
    tag: &str,
) -> Result<WrittenSuperblock, String> {
    let head = DeviceHead(head);
    // A device may hold several superblocks of ours: if one has changed, the whole device may have
    // been used.
    let mut written = WrittenSuperblock { types: Vec::new(), is_fresh: true };
    for signature in signatures {
        let is_meant =
            |format: &&SuperblockFormat| format.signatures.contains(&signature.name.as_str());
        // One foreign signature, and the whole device is another user's.
        let superblock = KINDS.iter().filter_map(|kind| kind.superblock.as_ref()).find(is_meant);
        let found = superblock.and_then(|superblock| (superblock.read)(&head, tag));
        let Some((types, is_fresh)) = found else {
            return Err(format!("{} is on it, which this bench did not write", signature.name));
        };
        written.types.extend(types);
        written.is_fresh &= is_fresh;
    }
    Ok(written)
}

/// No other process has written to devices that this build made and left behind.
fn nothing_foreign_on(prover: &Prover<'_>, nodes: &[String]) -> Result<ThingState, UndoFailure> {
    // A living builder has just taken down the layers on them; only after its death could
    // others come.
    for node in nodes.iter().filter(|_| !prover.known.live) {
        let usage = prover.system.usage(Path::new(node)).map_err(|error| error.to_string())?;
        if usage.is_in_use() {
            return Err(format!("{node} is in use"));
        }
        if usage.signatures.is_empty() {
            continue;
        }
        if let Err(what) = written(&prover.head(node)?, &usage.signatures, prover.known.tag) {
            return Ok(ThingState::NotOurs(format!("{node}: {what}")));
        }
    }
    Ok(ThingState::Ours(Vec::new()))
}

impl Undo {
    /// With the placeholders filled in that are known.
    pub(crate) fn filled(&self, values: &Values) -> Self {
        let mut undo = self.clone();
        undo.step_mut().fill(values);
        undo
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.step().text())
    }
}

impl fmt::Display for StepCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.checking().text())
    }
}

#[cfg(test)]
mod tests {
    //! What holds for every kind: each is named, labelled, planned, checked, needs something, and is
    //! read again as it was written.
    //!
    //! That each is built, undone and proven at any step: the tests of the builder, over the same list.

    use std::collections::BTreeSet;

    use super::*;
    use crate::step::Action;
    use crate::tests::stacks::{TAG, head, one_of_each, place, signature, types_on};
    use crate::{check_declared, commands};

    #[test]
    fn every_kind_has_a_word_of_its_own_by_which_it_is_saved() {
        let mut words = BTreeSet::new();
        for kind in KINDS {
            assert!(words.insert(kind.word), "{} is there twice", kind.word);
            let stacks = (kind.examples)();
            let mut layers = stacks.iter().flat_map(|stack| &stack.layers);
            let layer = layers.find(|layer| layer.kind.name() == kind.word).expect(kind.word);
            let saved = serde_json::to_value(layer).unwrap();
            assert_eq!(saved["layer"], kind.word);
            let read: crate::DeclaredLayer = serde_json::from_value(saved).unwrap();
            assert_eq!(read, *layer);
        }
    }

    #[test]
    fn every_kind_passes_its_check_has_a_label_and_needs_something() {
        for declared in one_of_each() {
            check_declared(&declared).unwrap();
            for layer in &declared.layers {
                assert!(!layer.label().is_empty() && !layer.kind.layer().needs().is_empty());
            }
            let sizes = declared.device_sizes(|_| Some(Bytes::from_mib(100)));
            assert!(sizes.iter().flatten().all(|size| *size > Bytes::ZERO), "{sizes:?}");
        }
    }

    /// A kind that loads a driver, or needs one, says where the kernel shows it.
    #[test]
    fn every_driver_that_is_loaded_or_needed_is_listed() {
        let listed = |module: &str| {
            KINDS.iter().flat_map(|kind| kind.drivers).any(|driver| driver.module == module)
        };
        for declared in one_of_each() {
            let needs = declared.layers.iter().flat_map(|layer| layer.kind.layer().needs());
            for need in needs {
                assert!(
                    !matches!(need, Missing::Driver { module, .. } if !listed(module)),
                    "{need}"
                );
            }
            for command in commands(&declared, &place()).unwrap() {
                let action = command.action;
                assert!(
                    !matches!(&action, Action::Load { module, .. } if !listed(module)),
                    "{action}"
                );
            }
        }
    }

    #[test]
    fn every_name_begins_with_the_tag_and_every_making_step_has_its_undo() {
        for declared in one_of_each() {
            for command in commands(&declared, &place()).unwrap() {
                let makes = match &command.action {
                    Action::MakeDirectory { path } | Action::MakeFile { path, .. } => {
                        assert!(path.contains("/durioabc1234"), "{path}");
                        true
                    }
                    Action::Run { program, arguments, .. } => {
                        let first = arguments.first().map(String::as_str).unwrap_or_default();
                        let makers =
                            ["--create", "create", "vgcreate", "open", "brd", "-t", "--find"];
                        makers.contains(&first) && program != "mkfs.ext4"
                    }
                    _ => false,
                };
                assert!(!makes || command.undo.is_some(), "{}", command.action);
            }
        }
    }

    #[test]
    fn every_signature_must_be_one_that_a_build_wrote() {
        let (uuid, label) = (filesystem_uuid(TAG).1, TAG.as_bytes());
        assert!(types_on("gpt", &[]).unwrap_err().contains("gpt is on it"));
        let both = [signature("ext4"), signature("xfs")];
        assert!(written(&head(&[(0x468, &uuid), (0x478, label)]), &both, TAG).is_err());
    }

    /// A device may hold any bytes.
    #[test]
    fn no_superblock_of_a_short_or_empty_device_is_ours() {
        for kind in KINDS.iter().filter_map(|kind| kind.superblock.as_ref()) {
            for length in [0, 512, 4096, 70_000, 2 << 20] {
                assert!((kind.read)(&DeviceHead(&vec![0; length]), TAG).is_none());
                assert!((kind.read)(&DeviceHead(&vec![0xff; length]), TAG).is_none());
            }
        }
    }
}
