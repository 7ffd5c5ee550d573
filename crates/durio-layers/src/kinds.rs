//! Every kind of layer that can be built.
//!
//! A kind is one file: what a spec says of it, its label, limits and needs, the commands that make it,
//! what undoes them, what proves that a thing is ours, and its tests. A new kind is a file here and
//! two lines below; everything else goes over [`KINDS`].
//!
//! Not here: what a kind may write to and ask programs. That is decided in [`crate::permit`] alone, so
//! that the guard is read in one place.

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
mod ram;
mod xfs;
mod zfs;
mod zram;

use std::fmt;

use durio_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::check::{Below, Fault};
use crate::command::Checking;
use crate::needs::{Driver, Missing};
use crate::place::Values;
use crate::plan::{Draft, PlannedLayer};
use crate::step::Present;
use crate::superblock::Superblock;
use crate::tool_words::Tool;
use crate::undo::{RemoveDirectory, RemoveFile, UndoStep};
use mounted::{Mounted, Unmount};

pub use made::Made;
pub use mounted::MadeFilesystem;

/// What all layers of a kind have in common.
pub(crate) struct Kind {
    /// Its word in a spec and in saved stacks.
    pub(crate) word: &'static str,
    pub(crate) role: Role,
    /// All that a layer of it may need.
    pub(crate) drivers: &'static [Driver],
    /// The programs that are handed words of a spec.
    pub(crate) tools: &'static [Tool],
    /// How what it writes to a device is known to be a build's.
    pub(crate) superblock: Option<Superblock>,
    /// Stacks with it, for the tests that go over all kinds.
    #[cfg(test)]
    pub(crate) examples: fn() -> Vec<crate::DeclaredStack>,
}

/// Where a layer can stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// At the bottom: it makes devices, or names them.
    Source,
    /// On devices, and gives devices.
    Devices,
    /// On devices and at the top: it is mounted.
    Filesystem,
}

/// What a declared layer of a kind can do.
pub(crate) trait LayerKind {
    /// The words of its label, empty ones left out.
    fn label(&self) -> Vec<String>;
    /// The programs and drivers without which it cannot be built.
    fn needs(&self) -> Vec<Missing>;
    /// What the next layer stands on, or why it cannot be built on any machine.
    fn check(&self, below: Below) -> Result<Below, Fault>;
    /// The words that reach the command line of a program, with the program.
    fn tool_words(&self) -> Vec<(Tool, &[String])> {
        Vec::new()
    }
    /// About how large its devices will be.
    fn sizes(&self, below: SizesBelow<'_>) -> Vec<Bytes>;
    /// Its commands.
    fn plan(&self, draft: &mut Draft<'_>, below: &[String]) -> PlannedLayer;
    /// The devices that durio makes for it out of nothing.
    fn made(&mut self) -> Option<&mut Made> {
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
    ($($(#[$doc:meta])* $module:ident: $kind:ident($fields:ident $(, $part:ident)*)
        $(, undo $undo:ident)? $(, check $check:ident)?;)*) => {
        $(pub use $module::{$fields $(, $part)*};)*

        /// What a layer is. Lists of words are handed to the program that makes the layer, as they
        /// stand.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case", tag = "layer")]
        pub enum DeclaredKind {
            $($(#[$doc])* $kind($fields),)*
        }

        /// All kinds.
        pub(crate) const KINDS: &[&Kind] = &[$(&$module::KIND),*];

        impl DeclaredKind {
            pub(crate) const fn facts(&self) -> &'static Kind {
                match self {
                    $(Self::$kind(_) => &$module::KIND,)*
                }
            }

            pub(crate) fn layer(&self) -> &dyn LayerKind {
                match self {
                    $(Self::$kind(layer) => layer,)*
                }
            }

            pub(crate) fn layer_mut(&mut self) -> &mut dyn LayerKind {
                match self {
                    $(Self::$kind(layer) => layer,)*
                }
            }
        }

        /// What undoes one step. Each is done only if the thing is there and is proven to be ours
        /// ([`crate::proof`]); so it can be done twice, and before the step itself.
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

        /// What is looked at before or after a step; nothing changes.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Check {
            /// A device is there.
            Present(Present),
            /// A filesystem is mounted.
            Mounted(Mounted),
            $($(
                #[doc = concat!("What a layer of ", stringify!($module), " asks.")]
                $check($module::$check),
            )?)*
        }

        impl Check {
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

// Module, variant with its fields and the types of their parts, what undoes it, what it checks while it
// is built.
layer_kinds! {
    /// RAM disks of the kernel's brd: no request queue, no statistics.
    ram: Ram(Ram), undo UnloadBrd, check NoRamDisks;
    /// Compressed RAM disks: several microseconds per write, not for a raw baseline.
    zram: Zram(Zram), undo RemoveZram;
    /// null_blk, memory-backed, with a request queue.
    null: Null(Null), undo RemoveNull;
    /// Files of the host as block devices, with direct I/O where the filesystem has it.
    loop_file: Loop(Loop), undo DetachLoop;
    /// Existing block devices; whatever is on them is lost.
    device: Device(Device), undo Wipe, check Unused;
    /// A software RAID array of the kernel's md.
    md: Md(DeclaredMd, MdBitmap), undo StopArray, check ArrayCheck;
    /// A logical volume.
    lvm: Lvm(Lvm, LvmLayout), undo RemoveVolumeGroup;
    /// A target of the device mapper over each device by itself.
    dm: Dm(Dm, DmTarget), undo RemoveMapped;
    /// ext4.
    ext4: Ext4(Ext4);
    /// XFS.
    xfs: Xfs(Xfs);
    /// Btrfs over one device or several.
    btrfs: Btrfs(Btrfs, BtrfsProfile);
    /// A ZFS pool with one filesystem.
    zfs: Zfs(Zfs, ZfsLayout), undo DestroyPool;
}

impl DeclaredKind {
    /// Its word in a spec: `md`, `ext4`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.facts().word
    }

    /// True if it is a mounted filesystem and no device: nothing can lie above it.
    #[must_use]
    pub const fn is_filesystem(&self) -> bool {
        matches!(self.facts().role, Role::Filesystem)
    }

    /// True if it lies on nothing that is declared.
    #[must_use]
    pub const fn is_source(&self) -> bool {
        matches!(self.facts().role, Role::Source)
    }

    /// The devices that durio makes for it out of nothing.
    #[must_use]
    pub fn made(&self) -> Option<Made> {
        // A copy is cheap, and spares every kind a second method.
        self.clone().made_mut().copied()
    }

    /// The same, to be changed.
    pub fn made_mut(&mut self) -> Option<&mut Made> {
        self.layer_mut().made()
    }
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

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.checking().text())
    }
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
