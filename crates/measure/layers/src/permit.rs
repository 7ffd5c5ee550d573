//! The devices a build may write to and the questions it may ask: all need a value of this module.
//!
//! Permits cover devices that a step of this build made, or that the spec declares and `--destroy`
//! names, and things that are proven to be a dead build's. A [`System`] runs and writes nothing but
//! [`PermittedCommand`] and [`PermittedWrite`], and programs are asked nothing but a [`ProgramQuery`]. The
//! proof is in [`super::undo`].
//!
//! ```text
//!   a step made it ──┐
//!                    ├─► Grounds ─► DevicePermit ─┐
//!   declared, named, ┘   identity   open, compared ├─► PermittedCommand ─► System::run
//!   unused                                        │
//!   the journal's identity ─► Proven ─────────────┘
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::identity::{HeldDevice, LayerIdentity};
use super::system::{System, disk_identity};

/// Where null_blk is configured.
pub(super) const NULL_CONFIG: &str = "/sys/kernel/config/nullb";

/// Reading it makes a compressed RAM disk and gives its number.
pub(super) const ZRAM_ADD: &str = "/sys/class/zram-control/hot_add";

/// The file of the kernel that has the size of a compressed RAM disk.
pub(super) fn zram_size_file(number: &str) -> String {
    format!("/sys/block/zram{number}/disksize")
}

/// Why something may not be written to.
type WriteRefusal = String;

/// The devices that this build may write to, by their paths as commands have them.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    devices: BTreeMap<String, LayerIdentity>,
    /// Directories and files that this build made.
    made: BTreeMap<String, LayerIdentity>,
    /// Numbers of compressed RAM disks that the kernel made for this build.
    zram: Vec<String>,
}

/// The permission to write to one device: it is open, and is the one that the ground was found for.
#[derive(Debug)]
pub(super) struct DevicePermit {
    _held: HeldDevice,
}

impl DevicePermit {
    /// Opens the device and compares it with its known identity.
    fn ask(system: &dyn System, device: &str, known: &LayerIdentity) -> Result<Self, WriteRefusal> {
        let (held, identity) = held(system, device)?;
        match known.difference(&identity) {
            None => Ok(Self { _held: held }),
            Some(what) => Err(format!("{device} is no longer the same device: {what}")),
        }
    }
}

/// An open device, and its identity.
pub(super) fn held(
    system: &dyn System,
    device: &str,
) -> Result<(HeldDevice, LayerIdentity), WriteRefusal> {
    let failed = |error: std::io::Error| format!("{device}: {error}");
    let held = system.open_device(Path::new(device)).map_err(failed)?;
    // By the directory of the number that was opened; the name may be another device's by now.
    let identity = disk_identity(system, held.directory());
    let identity =
        identity.ok_or_else(|| format!("{device}: the kernel has no description of it"))?;
    Ok((held, identity))
}

impl Grounds {
    /// A step of this build, which is in the journal, made this device.
    pub(super) fn made(&mut self, system: &dyn System, device: &str) -> Result<(), WriteRefusal> {
        let (_held, identity) = held(system, device)?;
        self.devices.insert(device.to_owned(), identity);
        Ok(())
    }

    /// The spec declares the device, `--destroy` names it, and `unused` finds nothing against it
    /// while it is open.
    pub(super) fn named<E>(
        &mut self,
        system: &dyn System,
        device: &str,
        refused: impl Fn(&str) -> E,
        unused: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let (_held, identity) = held(system, device).map_err(|what| refused(&what))?;
        unused()?;
        // `unused` looked at the device by its name: opened once more, it must still be the same.
        let (_again, now) = held(system, device).map_err(|what| refused(&what))?;
        if let Some(what) = identity.difference(&now) {
            return Err(refused(&format!("it changed while it was checked: {what}")));
        }
        self.devices.insert(device.to_owned(), identity);
        Ok(())
    }

    /// This build made the directory or file.
    pub(super) fn made_path(&mut self, path: &str, identity: LayerIdentity) {
        self.made.insert(path.to_owned(), identity);
    }

    /// What this build made there.
    pub(super) fn path(&self, path: &Path) -> Option<&LayerIdentity> {
        self.made.get(path.to_str()?)
    }

    /// An answer of this build's program: the kernel makes a compressed RAM disk when its file is
    /// read, and returns the number.
    pub(super) fn answered(&mut self, words: &[String], answer: &str) {
        if words == [ZRAM_ADD] {
            self.zram.push(answer.to_owned());
        }
    }

    /// A command with a permit for every device that its words name; the devices are compared now
    /// and are open until the command has ended.
    pub(super) fn command(
        &self,
        system: &dyn System,
        program: &str,
        words: &[String],
    ) -> Result<PermittedCommand, WriteRefusal> {
        let mut permits = Vec::new();
        for device in words.iter().flat_map(|word| devices_in(system, word)) {
            let Some(identity) = self.devices.get(&device) else {
                return Err(format!("{device} was neither created by this build nor permitted"));
            };
            permits.push(DevicePermit::ask(system, &device, identity)?);
        }
        let (program, words) = (program.to_owned(), words.to_vec());
        Ok(PermittedCommand { program, words, _permits: permits })
    }

    /// A write to a file of the kernel that belongs to a device of this build.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<PermittedWrite, WriteRefusal> {
        let in_own = |directory: &String| {
            directory.starts_with(NULL_CONFIG)
                // Directly in it: a path with .. would begin with the directory and lead out of it.
                && Path::new(path).parent() == Some(Path::new(directory))
        };
        let zram = |number: &String| path == zram_size_file(number);
        if self.made.keys().any(in_own) || self.zram.iter().any(zram) {
            return Ok(PermittedWrite { path: path.into(), text: text.to_owned() });
        }
        Err(format!("{path} does not belong to a device that this build created"))
    }
}

/// The block devices that a word names, also within options, tables and patterns.
fn devices_in(system: &dyn System, word: &str) -> Vec<String> {
    // A device may be a part of a word: of a table of the device mapper, of `device=` among mount
    // options, of a filter of LVM. A permit missed here would be a write to another user's device.
    // LVM's patterns have a dot and a plus sign in brackets.
    let word = word.replace("[.]", ".").replace("[+]", "+");
    let parts = word.split(|c: char| c.is_whitespace() || ",\"|^$=".contains(c));
    let whole = std::iter::once(word.as_str());
    let mut devices: Vec<String> = Vec::new();
    for part in parts.chain(whole).filter(|part| part.starts_with('/')) {
        if system.is_block_device(Path::new(part)) && !devices.iter().any(|device| device == part) {
            devices.push(part.to_owned());
        }
    }
    devices
}

/// A command that may run.
#[derive(Debug)]
pub(super) struct PermittedCommand {
    program: String,
    words: Vec<String>,
    _permits: Vec<DevicePermit>,
}

impl PermittedCommand {
    /// A command that takes down a thing proven to be this build's.
    pub(super) fn undoing(proven: &Proven, program: &str, words: &[&str]) -> Self {
        // The proof is of this very thing; the words name the same one.
        debug_assert!(words.iter().any(|word| *word == proven.target));
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { program: program.to_owned(), words, _permits: Vec::new() }
    }

    /// A command that writes to a device which is proven to hold only this build's data: it is
    /// opened and compared once more.
    pub(super) fn wiping(
        system: &dyn System,
        proven: &Proven,
        program: &str,
        words: &[&str],
    ) -> Result<Self, WriteRefusal> {
        let permit = DevicePermit::ask(system, &proven.target, &proven.identity)?;
        Ok(Self { _permits: vec![permit], ..Self::undoing(proven, program, words) })
    }

    pub(super) fn program(&self) -> &str {
        &self.program
    }

    pub(super) fn words(&self) -> &[String] {
        &self.words
    }
}

/// A block of a device that may be overwritten with zeros.
#[derive(Debug)]
pub(super) struct PermittedBlock {
    device: PathBuf,
    offset: u64,
    _permit: DevicePermit,
}

impl PermittedBlock {
    /// A block on a device that is proven to hold only this build's data: it is opened and compared
    /// once more.
    pub(super) fn wiping(
        system: &dyn System,
        proven: &Proven,
        offset: u64,
    ) -> Result<Self, WriteRefusal> {
        let permit = DevicePermit::ask(system, &proven.target, &proven.identity)?;
        Ok(Self { device: proven.target.clone().into(), offset, _permit: permit })
    }

    pub(super) fn device(&self) -> &Path {
        &self.device
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }
}

/// A text that may be written to a file of the kernel.
#[derive(Debug)]
pub(super) struct PermittedWrite {
    path: PathBuf,
    text: String,
}

impl PermittedWrite {
    /// A write that takes down a thing proven to be this build's.
    pub(super) fn undoing(_proven: &Proven, path: &Path, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A thing that is proven to be what a step of this build made; only [`super::undo`] makes it.
#[derive(Debug)]
pub(super) struct Proven {
    target: String,
    identity: LayerIdentity,
    types: Vec<&'static str>,
}

impl Proven {
    /// `_proof` can be had in [`super::undo`] alone.
    pub(super) fn new(
        _proof: super::undo::ProofSeal,
        target: String,
        identity: LayerIdentity,
    ) -> Self {
        Self { target, identity, types: Vec::new() }
    }

    /// Adds the signatures found on a device of the user's, in the words of wipefs(8).
    pub(super) fn holding(self, types: Vec<&'static str>) -> Self {
        Self { types, ..self }
    }

    /// All that this build wrote on the device, in the words of wipefs(8).
    pub(super) fn types(&self) -> &[&'static str] {
        &self.types
    }

    /// A fact of its identity; empty if unknown.
    pub(super) fn fact(&self, name: &str) -> &str {
        self.identity.get(name).unwrap_or_default()
    }

    /// Its path, or the name by which its program knows it.
    pub(super) fn target(&self) -> &str {
        &self.target
    }
}

/// A question to a program, which changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramQuery<'a> {
    /// The version of mdadm.
    MdadmVersion,
    /// What an array is.
    Array { node: &'a str },
    /// Name and identifier of the volume groups on the devices of LVM's settings.
    Groups { config: &'a str },
    /// Every loop device with the filesystem and inode of its file.
    Loops,
    /// The identifier of a ZFS pool.
    Pool { name: &'a str },
}

impl ProgramQuery<'_> {
    pub(super) fn command(self) -> (&'static str, Vec<String>) {
        let (program, words): (_, &[&str]) = match self {
            Self::MdadmVersion => ("mdadm", &["--version"]),
            Self::Array { node } => ("mdadm", &["--detail", "--export", node]),
            Self::Groups { config } => {
                let options = "vg_name,vg_uuid";
                ("lvm", &["vgs", "--config", config, "--noheadings", "--options", options])
            }
            Self::Loops => {
                let columns = "NAME,BACK-MAJ:MIN,BACK-INO";
                ("losetup", &["--list", "--noheadings", "--raw", "--output", columns])
            }
            Self::Pool { name } => ("zpool", &["get", "-H", "-o", "value", "guid", name]),
        };
        (program, words.iter().map(|word| (*word).to_owned()).collect())
    }
}
