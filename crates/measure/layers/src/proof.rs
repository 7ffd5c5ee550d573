//! Whether a thing is what a step of a build made.
//!
//! Makes an [`OwnershipVerdict`] from an undo and the journal's record of the thing. Finding the thing of one
//! kind of layer, and further conditions on it, are in [`crate::kinds`]; undoing is in
//! [`crate::undo`].
//!
//! A name proves nothing: it may belong to another thing by now. The proof, per kind:
//!
//! | thing | proof |
//! |---|---|
//! | file, directory | filesystem, inode, time of birth, size as the journal has them; of a file that the journal does not have yet: its folder |
//! | loop device | number, `diskseq`, and the filesystem and inode of its file |
//! | brd, zram | number, `diskseq`, size; without them only a disk that is still unused |
//! | null_blk | the directory in configfs |
//! | md | the identifier that durio chose, number and `diskseq` |
//! | array of durio | its server by the words of its process, among them a socket with the tag; its device by the identity in the members' superblocks |
//! | LVM, ZFS | name, and the identifier that the program chose |
//! | dm | name, identifier, number, `diskseq` |
//! | mount | the kernel's number of the mount, device and source |
//! | a device of the user's | number, `diskseq`, size; nothing on it but superblocks with the label and identifier that durio chose; and that a layer of the build held it until now, or that its superblock says it is unused |
//!
//! After a restart of the machine only files and directories can be proven.

use std::path::{Path, PathBuf};

use crate::identity::LayerIdentity;
use crate::permit::{ProgramQuery, Proven};
use crate::superblock::{HEAD, written};
use crate::system::{ExitedProcess, System};
use crate::undo::{UndoContext, UndoFailure, UndoStep};

/// The verdict on a thing to be undone.
#[derive(Debug)]
pub(crate) enum OwnershipVerdict {
    /// It is what the step made.
    Ours(Proven),
    /// It is not there.
    Gone,
    /// It is something else, or there is a doubt; with the reason.
    NotOurs(String),
}

/// The findings about a thing in addition to its identity.
#[derive(Debug)]
pub(crate) enum ThingState {
    /// It is ours; for a device of the user's with its signatures, in the words of wipefs(8).
    Ours(Vec<&'static str>),
    /// There is nothing to undo.
    Gone,
    /// Something speaks against it.
    NotOurs(String),
}

impl ThingState {
    /// For a thing that outlives a restart, after which it may have been used.
    pub(crate) fn restarted() -> Self {
        Self::NotOurs(RESTARTED.to_owned())
    }
}

/// That this module made a [`Proven`].
#[derive(Debug)]
pub(crate) struct ProofSeal(());

/// Looks at a machine.
#[derive(Debug)]
pub(crate) struct Prover<'a> {
    pub(crate) system: &'a mut dyn System,
    /// Where the output of programs goes.
    pub(crate) output: PathBuf,
    /// The known facts about the thing.
    pub(crate) known: &'a UndoContext<'a>,
}

/// A thing that is there under the name.
#[derive(Debug)]
pub(crate) struct LiveThing {
    /// Its path, or the name by which its program knows it.
    pub(crate) target: String,
    pub(crate) identity: LayerIdentity,
}

impl LiveThing {
    /// Nothing, if the thing has no identity.
    pub(crate) fn of(target: &str, identity: Option<LayerIdentity>) -> Option<Self> {
        identity.map(|identity| Self { target: target.to_owned(), identity })
    }
}

const NO_RECORD: &str = "the journal does not say by what to know it";
const RESTARTED: &str =
    "the machine was restarted since, and whether somebody used it cannot be told";

impl Prover<'_> {
    pub(crate) fn prove(&mut self, step: &dyn UndoStep) -> Result<OwnershipVerdict, UndoFailure> {
        let known = self.known;
        let Some(found) = step.find(self)? else { return Ok(OwnershipVerdict::Gone) };
        if !known.same_boot {
            match step.after_restart(self) {
                ThingState::Gone => return Ok(OwnershipVerdict::Gone),
                ThingState::NotOurs(why) => return Ok(OwnershipVerdict::NotOurs(why)),
                // That proves nothing: its identity must.
                ThingState::Ours(_) => (),
            }
        }
        let fault = match known.recorded {
            Some(recorded) if known.same_boot => recorded.difference(&found.identity),
            // The kernel renumbers devices when it starts.
            Some(recorded) => {
                let of = |identity: &LayerIdentity| identity.clone().without("device");
                of(recorded).difference(&of(&found.identity))
            }
            None if known.done => Some(NO_RECORD.to_owned()),
            None => step.fault_of_begun(self, &found),
        };
        if let Some(why) = fault {
            return Ok(OwnershipVerdict::NotOurs(why));
        }
        Ok(match step.further(self, &found)? {
            ThingState::Ours(types) => {
                let proven = Proven::new(ProofSeal(()), found.target, found.identity);
                OwnershipVerdict::Ours(proven.holding(types))
            }
            ThingState::Gone => OwnershipVerdict::Gone,
            ThingState::NotOurs(why) => OwnershipVerdict::NotOurs(why),
        })
    }

    /// What the journal keeps of a thing that a step has just made.
    pub(crate) fn identity(&mut self, step: &dyn UndoStep) -> Option<LayerIdentity> {
        step.find(self).ok().flatten().map(|found| found.identity)
    }

    pub(crate) fn look(&mut self, look: ProgramQuery<'_>) -> Result<ExitedProcess, UndoFailure> {
        let ended = self.system.look(look, &self.output).map_err(|error| error.to_string())?;
        match ended.failure {
            None => Ok(ended),
            Some(how) => Err(format!("`{}`: {how}: {}", look.command().0, ended.stderr.trim())),
        }
    }

    /// Nodes of loop devices, each with filesystem and inode of its file.
    pub(crate) fn loops(&mut self) -> Result<Vec<(String, String)>, UndoFailure> {
        let listed = self.look(ProgramQuery::Loops)?.stdout;
        // losetup fills its columns up with blanks that it writes so.
        let listed = listed.replace("\\x20", "");
        let of = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (node, filesystem, inode) = (words.next()?, words.next()?, words.next()?);
            Some((node.to_owned(), format!("{filesystem} {inode}")))
        };
        Ok(listed.lines().filter_map(of).collect())
    }

    /// A file that a program made in a folder of this build.
    pub(crate) fn made_in_folder(&self, path: &str) -> Option<Proven> {
        let folder = self.system.file_identity(Path::new(path).parent()?)?;
        // In a folder that only this user can enter, and that is still the same folder, everything
        // is ours.
        let is_ours = self.known.folder?.difference(&folder).is_none();
        let identity = self.system.file_identity(Path::new(path))?;
        is_ours.then(|| Proven::new(ProofSeal(()), path.to_owned(), identity))
    }

    /// A link in `folder` whose name has this build's tag, if its target is gone: a disk by its
    /// name, or nothing.
    pub(crate) fn own_link(
        &self,
        folder: &str,
        link: &str,
        is_gone: impl Fn(&dyn System, &str) -> bool,
    ) -> Option<Proven> {
        let path = Path::new(link);
        let node = self.system.resolve(path);
        let disk = node.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let leads_nowhere = disk.is_none_or(|disk| is_gone(self.system, &disk));
        let is_ours = link.starts_with(folder) && link.contains(self.known.tag);
        let identity = self.system.file_identity(path)?;
        (is_ours && leads_nowhere).then(|| Proven::new(ProofSeal(()), link.to_owned(), identity))
    }

    /// What a device begins with.
    pub(crate) fn head(&self, device: &str) -> Result<Vec<u8>, UndoFailure> {
        let head = self.system.head(Path::new(device), HEAD);
        head.map_err(|error| format!("{device}: {error}"))
    }

    /// No other process has written to devices that this build made and left behind.
    pub(crate) fn nothing_foreign_on(&self, nodes: &[String]) -> Result<ThingState, UndoFailure> {
        // A living builder has just taken down the layers on them; only after its death could
        // others come.
        for node in nodes.iter().filter(|_| !self.known.live) {
            let usage = self.system.usage(Path::new(node)).map_err(|error| error.to_string())?;
            if usage.is_in_use() {
                return Err(format!("{node} is in use"));
            }
            if usage.signatures.is_empty() {
                continue;
            }
            if let Err(what) = written(&self.head(node)?, &usage.signatures, self.known.tag) {
                return Ok(ThingState::NotOurs(format!("{node}: {what}")));
            }
        }
        Ok(ThingState::Ours(Vec::new()))
    }
}

/// The file behind a device, as losetup prints it.
pub(crate) fn backing_of(file: &LayerIdentity) -> Option<String> {
    Some(format!("{} {}", file.get("device")?, file.get("inode")?))
}
