//! Whether a thing is what a step of a build made, and undoing it if so.
//!
//! Takes an [`UndoStep`], the values of its placeholders and the journal's record of the thing;
//! returns the outcome. Finding and undoing the thing of one kind of layer are in [`crate::kinds`].
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

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::identity::{HEAD, LayerIdentity};
use crate::permit::{Grounds, PermittedCommand, PermittedWrite, ProgramQuery, Proven};
use crate::place::Values;
use crate::system::{ExitedProcess, System, absent_or, in_shell};

/// Why something could not be undone, or not be found out; it may be later.
pub(crate) type UndoFailure = String;

/// How one thing that a step made is found, proven to be ours, and undone.
pub(crate) trait UndoStep {
    /// As it is shown.
    fn text(&self) -> String;
    /// Fills in the placeholders that are known.
    fn fill(&mut self, _values: &Values) {}
    /// The thing that has the name; the journal keeps its identity.
    fn find(&self, prover: &mut Prover<'_>) -> Result<Option<LiveThing>, UndoFailure>;
    /// The evidence against a thing whose step started and never ended: the journal has no identity
    /// of it. Only what this build alone can have made counts in its favour.
    fn fault_of_begun(&self, prover: &Prover<'_>, found: &LiveThing) -> Option<String>;
    /// Conditions in addition to its identity.
    fn further(
        &self,
        _prover: &mut Prover<'_>,
        _found: &LiveThing,
    ) -> Result<ThingState, UndoFailure> {
        Ok(ThingState::Ours(Vec::new()))
    }
    /// The state after a restart of the machine: things in memory are gone, and another thing may
    /// have the name. Ours, if it is known by the same identity as before.
    fn after_restart(&self, _prover: &Prover<'_>) -> ThingState {
        ThingState::Gone
    }
    /// Releases processes that wait for something that a dead process served, before anything is
    /// undone: otherwise the layers on it could not be taken down.
    fn release(
        &self,
        _undoer: &mut Undoer<'_>,
        _known: &UndoContext<'_>,
    ) -> Result<(), UndoFailure> {
        Ok(())
    }
    fn undo(&self, undoer: &mut Undoer<'_>, proven: &Proven) -> Result<Undone, UndoFailure>;
    /// Removes leftovers around the thing, whether the thing itself was there or not.
    fn tidy(&self, _undoer: &mut Undoer<'_>, _known: &UndoContext<'_>) -> Result<(), UndoFailure> {
        Ok(())
    }
    /// True if the devices below cannot have been used otherwise while it existed.
    fn holds_devices(&self) -> bool {
        false
    }
    /// The file or directory that its step itself makes.
    fn made_path(&self) -> Option<&str> {
        None
    }
    /// The folder of the build that the thing, or a part of it, is in.
    fn folder(&self) -> Option<&str> {
        None
    }
    /// The file of the build that the thing stands on.
    fn file(&self) -> Option<&str> {
        None
    }
    /// Whether a living builder's new thing is as intended; or the fault.
    fn check_made(&self, _grounds: &Grounds, _made: Option<&LayerIdentity>) -> Result<(), String> {
        Ok(())
    }
}

/// The known facts about a step that is undone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UndoContext<'a> {
    pub(crate) values: &'a Values,
    /// The beginning of every name of the build.
    pub(crate) tag: &'a str,
    /// What the step made, as the journal has it.
    pub(crate) recorded: Option<&'a LayerIdentity>,
    /// The folder of a file, as the journal has it.
    pub(crate) folder: Option<&'a LayerIdentity>,
    /// The file behind a loop device, as the journal has it.
    pub(crate) file: Option<&'a LayerIdentity>,
    /// The step's end is in the journal.
    pub(crate) done: bool,
    /// The machine has not been restarted since; disks in memory are gone otherwise.
    pub(crate) same_boot: bool,
    /// The builder itself takes down: no other process could get in between.
    pub(crate) live: bool,
    /// A layer of the build held the devices below it until now.
    pub(crate) vouched: bool,
    /// Why `vouched` does not hold for them, whatever else does.
    pub(crate) broken: Option<&'a str>,
}

impl<'a> UndoContext<'a> {
    /// For a thing that a living builder has just made.
    pub(crate) const fn new(values: &'a Values, tag: &'a str) -> Self {
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

const NO_RECORD: &str = "the journal does not say how to identify it";
const RESTARTED: &str = "the machine was restarted since then, so it may have been used";

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
}

/// The file behind a device, as losetup prints it.
pub(crate) fn backing_of(file: &LayerIdentity) -> Option<String> {
    Some(format!("{} {}", file.get("device")?, file.get("inode")?))
}

/// What became of a thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Undone {
    /// It was there, it was ours, and it is undone.
    Done,
    /// It had ended by itself, and its remains were removed; it no longer held anything below it.
    Remains,
    Gone,
    /// Something is there and was not touched, with the reason.
    LeftAlone(String),
}

/// Carries out undos on a machine.
#[derive(Debug)]
pub(crate) struct Undoer<'a> {
    pub(crate) system: &'a mut dyn System,
    /// Where the output of programs goes.
    pub(crate) output: PathBuf,
}

// Probing programs may hold a device open for a moment; retried for this long.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_millis(100);

impl Undoer<'_> {
    pub(crate) fn carry_out(
        &mut self,
        step: &dyn UndoStep,
        known: &UndoContext<'_>,
    ) -> Result<Undone, UndoFailure> {
        let undone = match self.prover(known).prove(step)? {
            OwnershipVerdict::NotOurs(why) => return Ok(Undone::LeftAlone(why)),
            OwnershipVerdict::Gone => Undone::Gone,
            OwnershipVerdict::Ours(proven) => step.undo(self, &proven)?,
        };
        // Also where the thing itself is gone: a restart takes an array away and leaves its link
        // and bitmap.
        step.tidy(self, known)?;
        Ok(undone)
    }

    pub(crate) fn prover<'p>(&'p mut self, known: &'p UndoContext<'p>) -> Prover<'p> {
        Prover { system: self.system, output: self.output.clone(), known }
    }

    /// Runs a program until the thing is gone, for a while.
    pub(crate) fn run_until(
        &mut self,
        proven: &Proven,
        program: &str,
        words: &[&str],
        is_gone: impl Fn(&dyn System) -> bool,
    ) -> Result<Undone, UndoFailure> {
        let mut failure = String::new();
        for _ in 0..TRIES {
            let ran = self.run(proven, program, words);
            // Not by its exit code: umount and mdadm fail if another process was faster, and
            // losetup succeeds before the kernel is done.
            if is_gone(self.system) {
                return Ok(Undone::Done);
            }
            failure = ran.err().unwrap_or_else(|| "it is still there".into());
            self.system.pause(PAUSE);
        }
        Err(format!("`{}`: {failure}", in_shell(program, words)))
    }

    pub(crate) fn run(
        &mut self,
        proven: &Proven,
        program: &str,
        words: &[&str],
    ) -> Result<String, UndoFailure> {
        self.run_permitted(&PermittedCommand::undoing(proven, program, words))
    }

    /// Its standard output, or what went wrong.
    pub(crate) fn run_permitted(
        &mut self,
        command: &PermittedCommand,
    ) -> Result<String, UndoFailure> {
        let ended = self.system.run(command, &self.output).map_err(|error| error.to_string())?;
        match ended.failure {
            None => Ok(ended.stdout),
            Some(how) => Err(format!("{how}: {}", ended.stderr.trim())),
        }
    }

    pub(crate) fn write_until_gone(
        &mut self,
        proven: &Proven,
        file: &str,
        thing: &str,
    ) -> Result<Undone, UndoFailure> {
        let write = PermittedWrite::undoing(proven, Path::new(file), proven.target());
        let mut failure = String::new();
        for _ in 0..TRIES {
            let written = self.system.write(&write);
            if !self.system.is_there(Path::new(thing)) {
                return Ok(Undone::Done);
            }
            failure = written.err().map_or_else(|| "it is still there".into(), |e| e.to_string());
            self.system.pause(PAUSE);
        }
        Err(format!("write {} to {file}: {failure}", proven.target()))
    }
}

pub(crate) fn in_words(result: io::Result<()>) -> Result<(), UndoFailure> {
    absent_or(result).map_err(|error| error.to_string())
}

/// The folder of a path.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::scripted::Scripted;
    use crate::tests::stacks::TAG;

    /// Links, each with the node that it leads to.
    const LINKS: [(&str, &str); 6] = [
        ("/dev/md/durioabc1234-1-0", "/dev/md7"),
        ("/dev/md/durioabc1234-1-1", "/dev/md8"),
        ("/dev/md/durioabc1234-1-2", "/dev/md9"),
        ("/dev/md/home", "/dev/md7"),
        ("/dev/md/duriozyx9876-1-0", "/dev/md7"),
        ("/dev/disk/durioabc1234-1-0", "/dev/md7"),
    ];

    #[test]
    fn a_link_is_ours_if_it_leads_nowhere_lies_in_the_folder_and_has_the_tag_of_this_build() {
        let mut machine = Scripted::default();
        let mut account = machine.0.borrow_mut();
        for (link, node) in LINKS {
            account.there.paths.insert(link.to_owned(), node.to_owned());
        }
        account.there.devices.extend(["/dev/md8".to_owned(), "/dev/md9".to_owned()]);
        drop(account);
        let values = Values::new();
        let known = UndoContext::new(&values, TAG);
        let prover = Prover { system: &mut machine, output: PathBuf::new(), known: &known };
        let own = |link: &str| {
            // The node of the last array of the three is there, and the array is not.
            let proven = prover.own_link("/dev/md/", link, |_, disk| disk == "md9");
            proven.map(|proven| proven.target().to_owned())
        };
        let ours: Vec<String> = LINKS.iter().filter_map(|(link, _)| own(link)).collect();
        assert_eq!(ours, ["/dev/md/durioabc1234-1-0", "/dev/md/durioabc1234-1-2"]);
        assert_eq!(own("/dev/md/durioabc1234-1-3"), None, "it is not there");
    }

    #[test]
    fn what_lies_in_a_folder_is_ours_if_the_folder_is_still_the_one_that_was_made() {
        let mut machine = Scripted::default();
        let mut account = machine.0.borrow_mut();
        for (path, inode) in [("/srv/new", 21), ("/srv/new/bitmap", 22), ("/srv", 2)] {
            account.there.paths.insert(path.to_owned(), String::new());
            account.inodes.insert(path.to_owned(), inode);
        }
        drop(account);
        let values = Values::new();
        let mut ours = |folder: Option<&str>, path: &str| {
            let inode = folder.map(str::to_owned);
            let made = LayerIdentity::of([("device", Some("8:1".to_owned())), ("inode", inode)]);
            let folder = folder.map(|_| &made);
            let known = UndoContext { folder, ..UndoContext::new(&values, TAG) };
            let prover = Prover { system: &mut machine, output: PathBuf::new(), known: &known };
            prover.made_in_folder(path).map(|proven| proven.target().to_owned())
        };
        assert_eq!(ours(Some("21"), "/srv/new/bitmap").as_deref(), Some("/srv/new/bitmap"));
        assert_eq!(ours(Some("20"), "/srv/new/bitmap"), None, "another folder of that name");
        assert_eq!(ours(Some("21"), "/srv/new"), None, "it lies in another folder");
        assert_eq!(ours(Some("21"), "/srv/new/other"), None, "it is not there");
        assert_eq!(ours(None, "/srv/new/bitmap"), None);
    }
}
