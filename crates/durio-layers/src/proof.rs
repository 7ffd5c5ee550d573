//! Whether a thing is what a step of a build made.
//!
//! In: an [`Undo`], what the journal says of the thing. Out: a [`Verdict`]. Not here: undoing
//! ([`super::carry_out`]).
//!
//! A name proves nothing: what has it may be somebody else's by now. What proves, per kind:
//!
//! | thing | proof |
//! |---|---|
//! | file, directory | filesystem, inode, time of birth, size as the journal has them; of a file that the journal does not have yet: its folder |
//! | loop device | number, `diskseq`, and the filesystem and inode of its file |
//! | brd, zram | number, `diskseq`, size; without them only a disk that nobody has used |
//! | null_blk | the directory in configfs |
//! | md | the identifier that durio chose, number and `diskseq` |
//! | LVM, ZFS | name, and the identifier that the program chose |
//! | dm | name, identifier, number, `diskseq` |
//! | mount | the kernel's number of the mount, device and source |
//! | a device of the user's | number, `diskseq`, size; nothing on it but superblocks with the label and identifier that durio chose; and that a layer of the build held it until now, or that it says itself that nobody used it |
//!
//! After a restart of the machine only files and directories can be proven.

use std::path::{Path, PathBuf};

use super::carry_out::Known;
use super::identity::{Identity, disk_identity};
use super::look::Look;
use super::names::{filled, is_open};
use super::permit::{Proven, held};
use super::plan::NULL_CONFIG;
use super::system::{Ended, System};
use super::undo::Undo;
use super::written::{HEAD, written};

/// What is known of a thing that is to be undone.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is what the step made.
    Ours(Proven),
    /// It is not there.
    Gone,
    /// It is something else, or there is a doubt; with the reason.
    NotOurs(String),
}

/// That this module made a [`Proven`].
#[derive(Debug)]
pub(super) struct Proof(());

/// Why nothing could be found out; it may be later.
type Failure = String;

/// Looks at a machine.
#[derive(Debug)]
pub(super) struct Prover<'a> {
    pub(super) system: &'a mut dyn System,
    /// Where the output of programs goes.
    pub(super) output: PathBuf,
}

/// A thing that is there under the name.
struct Found {
    target: String,
    identity: Identity,
}

const UNKNOWN_USE: &str = "whether somebody used what is on it since the bench was killed cannot be \
                           told; `wipefs --all` erases it";
const NO_RECORD: &str = "the journal does not say by what to know it";
const RESTARTED: &str =
    "the machine was restarted since, and whether somebody used it cannot be told";

impl Prover<'_> {
    pub(super) fn prove(&mut self, undo: &Undo, known: &Known<'_>) -> Result<Verdict, Failure> {
        let Some(found) = self.find(undo, known)? else { return Ok(Verdict::Gone) };
        if let Some(verdict) = self.after_restart(undo, known, &found) {
            return Ok(verdict);
        }
        let fault = match known.recorded {
            Some(recorded) if known.same_boot => recorded.difference(&found.identity),
            // The kernel renumbers devices when it starts.
            Some(recorded) => {
                let of = |identity: &Identity| identity.clone().without("device");
                of(recorded).difference(&of(&found.identity))
            }
            None if known.done => Some(NO_RECORD.to_owned()),
            None => self.fault_of_begun(undo, known, &found),
        };
        match fault {
            Some(why) => Ok(Verdict::NotOurs(why)),
            None => self.further(undo, known, found),
        }
    }

    /// What was in memory is gone; what is on devices cannot be told from what was put there since.
    fn after_restart(&self, undo: &Undo, known: &Known<'_>, found: &Found) -> Option<Verdict> {
        if known.same_boot {
            return None;
        }
        match undo {
            Undo::RemoveFile { .. } | Undo::RemoveDirectory { .. } => None,
            Undo::Wipe { .. } => {
                let usage = self.system.usage(Path::new(&found.target));
                let is_blank = usage.is_ok_and(|it| it.signatures.is_empty() && !it.is_in_use());
                Some(if is_blank { Verdict::Gone } else { Verdict::NotOurs(RESTARTED.into()) })
            }
            Undo::StopArray { .. } | Undo::RemoveVolumeGroup { .. } | Undo::DestroyPool { .. } => {
                Some(Verdict::NotOurs(RESTARTED.into()))
            }
            _ => Some(Verdict::Gone),
        }
    }

    /// The thing of the name that the undo has; its identity is also what the journal keeps.
    fn find(&mut self, undo: &Undo, known: &Known<'_>) -> Result<Option<Found>, Failure> {
        let found = |target: &str, identity: Option<Identity>| {
            Ok(identity.map(|identity| Found { target: target.to_owned(), identity }))
        };
        let system = &*self.system;
        match undo {
            Undo::RemoveFile { path } | Undo::RemoveDirectory { path } => {
                found(path, system.file_identity(Path::new(path)))
            }
            Undo::DetachLoop { device, .. } => {
                self.loop_device(&filled(device, known.values), known)
            }
            Undo::RemoveZram { number } => {
                let number = filled(number, known.values);
                // Without a number its driver was not asked, or did not answer.
                if is_open(&number) || number.parse::<u32>().is_err() {
                    return Ok(None);
                }
                let disk = disk_identity(system, &format!("/sys/block/zram{number}"));
                // It is given its size later.
                found(&number, disk.map(|disk| disk.without("size")))
            }
            Undo::UnloadBrd { .. } => found("brd", disk_identity(system, "/sys/block/ram0")),
            Undo::RemoveNull { name } => {
                let directory = format!("{NULL_CONFIG}/{name}");
                found(&directory, system.file_identity(Path::new(&directory)))
            }
            Undo::StopArray { uuid, .. } => self.array(uuid),
            Undo::RemoveVolumeGroup { name, config } => {
                self.group(name, &filled(config, known.values))
            }
            Undo::RemoveMapped { name } => Ok(self.mapped(name)),
            Undo::DestroyPool { name } => self.pool(name),
            Undo::Unmount { mount_point, .. } => {
                if system.mounted_at(Path::new(mount_point)).len() > 1 {
                    return Err("another filesystem is mounted over it; unmount that first".into());
                }
                found(mount_point, system.mount_identity(Path::new(mount_point)))
            }
            // The build writes nothing to it before the step has ended.
            Undo::Wipe { .. } if !known.done => Ok(None),
            Undo::Wipe { device, .. } => match held(system, device) {
                Ok((_held, identity)) => found(device, Some(identity)),
                Err(_) => Ok(None),
            },
        }
    }

    /// What the journal keeps of a thing that a step has just made.
    pub(super) fn identity(&mut self, undo: &Undo, known: &Known<'_>) -> Option<Identity> {
        self.find(undo, known).ok().flatten().map(|found| found.identity)
    }

    fn look(&mut self, look: Look<'_>) -> Result<Ended, Failure> {
        let ended = self.system.look(look, &self.output).map_err(|error| error.to_string())?;
        match ended.failure {
            None => Ok(ended),
            Some(how) => Err(format!("`{}`: {how}: {}", look.command().0, ended.stderr.trim())),
        }
    }

    /// By its name if its program answered, else by the file behind it.
    fn loop_device(&mut self, node: &str, known: &Known<'_>) -> Result<Option<Found>, Failure> {
        let backing = known.file.and_then(backing_of);
        for (name, behind) in self.loops()? {
            let is_meant = if is_open(node) || node.is_empty() {
                Some(&behind) == backing.as_ref()
            } else {
                name == node
            };
            let directory = format!("/sys/block/{}", name.trim_start_matches("/dev/"));
            let disk = disk_identity(self.system, &directory);
            if let (true, Some(disk)) = (is_meant, disk) {
                let identity = disk.with("file", &behind);
                return Ok(Some(Found { target: name, identity }));
            }
        }
        Ok(None)
    }

    /// Nodes of loop devices, each with filesystem and inode of its file.
    fn loops(&mut self) -> Result<Vec<(String, String)>, Failure> {
        let listed = self.look(Look::Loops)?.stdout;
        // losetup fills its columns up with blanks that it writes so.
        let listed = listed.replace("\\x20", "");
        let of = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let (node, filesystem, inode) = (words.next()?, words.next()?, words.next()?);
            Some((node.to_owned(), format!("{filesystem} {inode}")))
        };
        Ok(listed.lines().filter_map(of).collect())
    }

    fn array(&mut self, uuid: &str) -> Result<Option<Found>, Failure> {
        let disks = self.system.names(Path::new("/sys/block"));
        for disk in disks.iter().filter(|name| name.starts_with("md")) {
            let node = format!("/dev/{disk}");
            // One that was stopped meanwhile has no details.
            let Ok(detail) = self.look(Look::Array { node: &node }) else { continue };
            let is_meant = |line: &str| line.strip_prefix("MD_UUID=") == Some(uuid);
            let identity = disk_identity(self.system, &format!("/sys/block/{disk}"));
            if let (true, Some(identity)) = (detail.stdout.lines().any(is_meant), identity) {
                return Ok(Some(Found { target: node, identity }));
            }
        }
        Ok(None)
    }

    fn group(&mut self, name: &str, config: &str) -> Result<Option<Found>, Failure> {
        let groups = self.look(Look::Groups { config })?.stdout;
        let of = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some(name)).then(|| words.next().map(str::to_owned))
        };
        let uuid = groups.lines().find_map(of);
        let found =
            |uuid| Found { target: name.to_owned(), identity: Identity::of([("uuid", uuid)]) };
        Ok(uuid.map(found))
    }

    fn mapped(&self, name: &str) -> Option<Found> {
        let disks = self.system.names(Path::new("/sys/block"));
        let read = |disk: &str, file: &str| {
            self.system.read(Path::new(&format!("/sys/block/{disk}/dm/{file}")))
        };
        let disk = disks.iter().find(|disk| read(disk, "name").as_deref() == Some(name))?;
        let identity = disk_identity(self.system, &format!("/sys/block/{disk}"))?;
        let uuid = read(disk, "uuid").unwrap_or_default();
        Some(Found { target: name.to_owned(), identity: identity.with("uuid", &uuid) })
    }

    fn pool(&mut self, name: &str) -> Result<Option<Found>, Failure> {
        if !self.system.is_there(&Path::new("/proc/spl/kstat/zfs").join(name)) {
            return Ok(None);
        }
        let guid = self.look(Look::Pool { name })?.stdout.trim().to_owned();
        let identity = Identity::of([("guid", Some(guid))]);
        Ok(Some(Found { target: name.to_owned(), identity }))
    }

    /// What speaks against a thing whose step was begun and never ended: the journal has no
    /// identity of it.
    fn fault_of_begun(&self, undo: &Undo, known: &Known<'_>, found: &Found) -> Option<String> {
        let unless = |holds: bool, what: &str| (!holds).then(|| what.to_owned());
        match undo {
            Undo::RemoveFile { path } => {
                let folder = Path::new(path).parent();
                let now = folder.and_then(|folder| self.system.file_identity(folder));
                let is_ours =
                    matches!((known.folder, &now), (Some(a), Some(b)) if a.difference(b).is_none());
                unless(is_ours, "its folder is not the one that this bench made")
            }
            // Found by its file.
            Undo::DetachLoop { .. } => {
                let backing = known.file.and_then(backing_of);
                let is_ours = backing.is_some() && found.identity.get("file") == backing.as_deref();
                unless(is_ours, "another file is behind it")
            }
            // Only a disk that nobody has given a size can be the one that was just made.
            Undo::RemoveZram { .. } => {
                let size = format!("/sys/block/zram{}/disksize", found.target);
                let size = self.system.read(Path::new(&size));
                unless(size.as_deref() == Some("0"), "somebody has given it a size")
            }
            Undo::UnloadBrd { count, size_kib } => unless(
                self.are_as_asked(*count, *size_kib) && self.are_blank(*count),
                "its RAM disks are not those that this bench asked for, or something is on them",
            ),
            Undo::RemoveMapped { name } => {
                let uuid = found.identity.get("uuid").unwrap_or_default();
                unless(uuid.ends_with(name), "its identifier is another one")
            }
            Undo::Unmount { source, .. } => {
                let source = filled(source, known.values);
                let there = self.system.resolve(Path::new(found.identity.get("source")?));
                let is_ours = there.is_some() && there == self.system.resolve(Path::new(&source));
                unless(is_ours, "another device is mounted there")
            }
            // An empty directory, or something with an identifier or a name of this build's tag.
            Undo::RemoveDirectory { .. }
            | Undo::Wipe { .. }
            | Undo::RemoveNull { .. }
            | Undo::StopArray { .. }
            | Undo::RemoveVolumeGroup { .. }
            | Undo::DestroyPool { .. } => None,
        }
    }

    /// A file that a program made in a folder of this build.
    pub(super) fn made_in_folder(&self, path: &str, known: &Known<'_>) -> Option<Proven> {
        let folder = self.system.file_identity(Path::new(path).parent()?)?;
        let is_ours = known.folder?.difference(&folder).is_none();
        let identity = self.system.file_identity(Path::new(path))?;
        is_ours.then(|| Proven::new(Proof(()), path.to_owned(), identity))
    }

    /// The link of an array that is stopped, by a name of this build's tag: without udev nobody
    /// takes it away.
    pub(super) fn dead_link(&self, link: &str, known: &Known<'_>) -> Option<Proven> {
        let path = Path::new(link);
        let node = self.system.resolve(path);
        let disk = node.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let array = disk.map(|disk| format!("/sys/block/{disk}/md"));
        let leads_nowhere = array.is_none_or(|array| has_no_array(self.system, &array));
        let is_ours = link.starts_with("/dev/md/") && link.contains(known.tag);
        let identity = self.system.file_identity(path)?;
        (is_ours && leads_nowhere).then(|| Proven::new(Proof(()), link.to_owned(), identity))
    }

    fn are_as_asked(&self, count: u32, size_kib: u64) -> bool {
        let parameter =
            |name: &str| self.system.read(Path::new(&format!("/sys/module/brd/parameters/{name}")));
        parameter("rd_nr") == Some(count.to_string())
            && parameter("rd_size") == Some(size_kib.to_string())
    }

    fn are_blank(&self, count: u32) -> bool {
        (0..count).all(|n| {
            let usage = self.system.usage(Path::new(&format!("/dev/ram{n}")));
            usage.is_ok_and(|usage| !usage.is_in_use() && usage.signatures.is_empty())
        })
    }

    /// What beside its identity must be right.
    fn further(
        &mut self,
        undo: &Undo,
        known: &Known<'_>,
        found: Found,
    ) -> Result<Verdict, Failure> {
        let fault = match undo {
            Undo::Wipe { device, tag } => return self.content(device, tag, known, found),
            Undo::RemoveFile { .. } => return self.unused_file(found),
            Undo::DetachLoop { .. } => {
                self.foreign_on(std::slice::from_ref(&found.target), known)?
            }
            Undo::RemoveZram { .. } => {
                let node = format!("/dev/zram{}", found.target);
                self.foreign_on(&[node], known)?
            }
            Undo::UnloadBrd { count, .. } => {
                let nodes: Vec<String> = (0..*count).map(|n| format!("/dev/ram{n}")).collect();
                self.foreign_on(&nodes, known)?
            }
            _ => None,
        };
        Ok(fault.map_or_else(|| ours(found), Verdict::NotOurs))
    }

    /// A file that a loop device stands on is in use.
    fn unused_file(&mut self, found: Found) -> Result<Verdict, Failure> {
        let backing = backing_of(&found.identity);
        match self.loops()?.into_iter().find(|(_, behind)| Some(behind) == backing.as_ref()) {
            Some((node, _)) => Err(format!("{node} stands on it")),
            None => Ok(ours(found)),
        }
    }

    /// What somebody else has put on devices that this build made and left behind.
    fn foreign_on(&self, nodes: &[String], known: &Known<'_>) -> Result<Option<String>, Failure> {
        for node in nodes.iter().filter(|_| !known.live) {
            let usage = self.system.usage(Path::new(node)).map_err(|error| error.to_string())?;
            if usage.is_in_use() {
                return Err(format!("{node} is in use"));
            }
            if usage.signatures.is_empty() {
                continue;
            }
            let head = self.system.head(Path::new(node), HEAD);
            let head = head.map_err(|error| format!("{node}: {error}"))?;
            if let Err(what) = written(&head, &usage.signatures, known.tag) {
                return Ok(Some(format!("{node}: {what}")));
            }
        }
        Ok(None)
    }

    /// A device of the user's: only what this build wrote may be on it, and nobody may have used
    /// that since.
    fn content(
        &self,
        device: &str,
        tag: &str,
        known: &Known<'_>,
        found: Found,
    ) -> Result<Verdict, Failure> {
        let usage = self.system.usage(Path::new(device)).map_err(|error| error.to_string())?;
        if usage.is_in_use() {
            return Err(format!("{device} is in use"));
        }
        if usage.signatures.is_empty() && usage.partitions.is_empty() {
            return Ok(Verdict::Gone);
        }
        let head = self.system.head(Path::new(device), HEAD);
        let head = head.map_err(|error| format!("{device}: {error}"))?;
        let written = match written(&head, &usage.signatures, tag) {
            _ if !usage.partitions.is_empty() => return not_ours("it has partitions"),
            Err(what) => return not_ours(&what),
            Ok(written) => written,
        };
        if let Some(why) = known.broken {
            return not_ours(why);
        }
        if !known.vouched && !written.is_fresh {
            return not_ours(UNKNOWN_USE);
        }
        let proven = Proven::new(Proof(()), found.target, found.identity);
        Ok(Verdict::Ours(proven.holding(written.types)))
    }
}

fn ours(found: Found) -> Verdict {
    Verdict::Ours(Proven::new(Proof(()), found.target, found.identity))
}

fn not_ours(why: &str) -> Result<Verdict, Failure> {
    Ok(Verdict::NotOurs(why.to_owned()))
}

/// As losetup tells what is behind a device.
pub(super) fn backing_of(file: &Identity) -> Option<String> {
    Some(format!("{} {}", file.get("device")?, file.get("inode")?))
}

/// A stopped array may keep its name for a while, without a level.
pub(super) fn has_no_array(system: &dyn System, array: &str) -> bool {
    let state = system.read(Path::new(&format!("{array}/array_state")));
    state.is_none_or(|state| state == "clear")
}
