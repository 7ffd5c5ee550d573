//! The machine, as a build sees and changes it.
//!
//! Runs steps with all names filled in, and returns the machine's answers.
//!
//! A trait, so that tests can put a scripted machine in its place.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use durio_base::{Bytes, shell_word};
use durio_observe::{DeviceUse, StackError};
use rustix::process::Signal;

use super::identity::{HeldDevice, LayerIdentity};
use super::permit::{PermittedBlock, PermittedCommand, PermittedWrite, ProgramQuery, Proven};

/// The word for durio among the programs of a build: the very file that runs.
pub(crate) const DURIO: &str = "durio";

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ExitedProcess {
    /// Its exit code, or the signal that ended it, in words; nothing on success.
    pub(super) failure: Option<String>,
    /// What it wrote to its standard output.
    pub(super) stdout: String,
    /// What it wrote to its standard error.
    pub(super) stderr: String,
}

/// What there is of an array that was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ServerRemains {
    pub(crate) has_server: bool,
    /// Its block device is there, with a living server or without.
    pub(crate) has_device: bool,
    /// It is in exclusive use: by a mount, or another layer.
    pub(crate) is_in_use: bool,
}

impl ServerRemains {
    pub(crate) fn refuse_in_use(self) -> Result<(), String> {
        if self.is_in_use { Err("its block device is in use".to_owned()) } else { Ok(()) }
    }
}

/// What a build asks of the machine and does to it.
pub(super) trait System: std::fmt::Debug {
    /// Runs a program to its end. Its output goes to the files `<output>.out` and `<output>.err`,
    /// where it is found even if this process dies.
    fn run(&mut self, command: &PermittedCommand, output: &Path) -> io::Result<ExitedProcess>;
    /// Starts a server as [`System::run`] does, and waits until it names its device, or until
    /// `stop` says so; returns that output.
    fn serve(
        &mut self,
        command: &PermittedCommand,
        output: &Path,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<ExitedProcess>;
    /// What there is of a served array, by the socket of its server and its identity.
    fn served(&self, socket: &str, array: &str) -> io::Result<ServerRemains>;
    /// Sends a signal to the server at the socket that is proven, if it lives.
    fn signal_server(&mut self, proven: &Proven, signal: Signal) -> io::Result<()>;
    /// Has the users of an array's device get errors, whose server has died.
    fn fail_users(&mut self, proven: &Proven, array: &str) -> io::Result<()>;
    /// Takes away the device of an array whose server has died.
    fn remove_served(&mut self, proven: &Proven, array: &str) -> io::Result<()>;
    /// Overwrites a block of a device with zeros.
    fn erase(&mut self, block: &PermittedBlock) -> io::Result<()>;
    /// Runs a program that changes nothing, as [`System::run`].
    fn look(&mut self, look: ProgramQuery<'_>, output: &Path) -> io::Result<ExitedProcess>;
    fn write(&mut self, write: &PermittedWrite) -> io::Result<()>;
    /// With all parents; the directory itself must not be there.
    fn make_directory(&mut self, path: &Path) -> io::Result<LayerIdentity>;
    /// In a folder that was made; the file must not be there.
    fn make_file(
        &mut self,
        path: &Path,
        size: Bytes,
        folder: &LayerIdentity,
    ) -> io::Result<LayerIdentity>;
    fn remove_file(&mut self, proven: &Proven) -> io::Result<()>;
    fn remove_directory(&mut self, proven: &Proven) -> io::Result<()>;
    /// Opens a block device for reading, not for itself alone.
    fn open_device(&self, device: &Path) -> io::Result<HeldDevice>;
    /// The identity of a file or directory, links not followed; nothing if it does not exist.
    fn file_identity(&self, path: &Path) -> Option<LayerIdentity>;
    /// The identity of the uppermost mount there; nothing without a mount.
    fn mount_identity(&self, mount_point: &Path) -> Option<LayerIdentity>;
    /// A short text without blanks at its ends; nothing if it cannot be read.
    fn read(&self, path: &Path) -> Option<String>;
    /// The first bytes of a file or device; fewer if it is shorter.
    fn head(&self, path: &Path, size: Bytes) -> io::Result<Vec<u8>>;
    /// The names in a directory, sorted; none if it is not there.
    fn names(&self, directory: &Path) -> Vec<String>;
    /// Where the path leads; nothing if it leads nowhere.
    fn resolve(&self, path: &Path) -> Option<PathBuf>;
    /// True if something has the name, be it a link that leads nowhere.
    fn is_there(&self, path: &Path) -> bool;
    fn is_block_device(&self, path: &Path) -> bool;
    /// The types of the filesystems mounted there, the topmost last.
    fn mounted_at(&self, mount_point: &Path) -> Vec<String>;
    fn usage(&self, device: &Path) -> Result<DeviceUse, StackError>;
    /// The driver is loaded, or a part of the kernel.
    fn has_driver(&self, module: &str) -> bool;
    fn pause(&self, span: Duration);
}

/// The identity of a disk or partition, by its directory in sysfs; nothing if it does not exist.
pub(super) fn disk_identity(system: &dyn System, directory: &str) -> Option<LayerIdentity> {
    let fact = |name: &str| system.read(Path::new(&format!("{directory}/{name}")));
    let size = fact("size")?;
    // The kernel has it since 5.15; before, number and size alone identify a disk. A partition has
    // the number of its disk, and begins somewhere on it.
    let diskseq = fact("diskseq").or_else(|| fact("../diskseq"));
    let facts = [("device", fact("dev")), ("diskseq", diskseq), ("size", Some(size))];
    let identity = LayerIdentity::of(facts);
    Some(match fact("start") {
        Some(start) => identity.with("start", &start),
        None => identity,
    })
}

/// The file of a program; the one for durio's word is that of this process.
pub(super) fn program_file(program: &str) -> &str {
    // The running file itself, even if another version was installed over its name in the meantime.
    if program == DURIO { "/proc/self/exe" } else { program }
}

/// As one would type it: words with signs that a shell takes otherwise stand in quotes.
pub(super) fn in_shell<S: AsRef<str>>(program: &str, arguments: &[S]) -> String {
    let words = arguments.iter().map(|word| shell_word(word.as_ref()));
    std::iter::once(shell_word(program)).chain(words).collect::<Vec<_>>().join(" ")
}

/// The most bytes of a program's output that are kept.
const MOST_OUTPUT: u64 = 64 * 1024;

/// What the file begins with; empty if it cannot be read.
pub(super) fn beginning(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_OUTPUT).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A missing file need not be removed.
pub(super) fn absent_or(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn of_what_a_program_writes_64_kib_are_kept() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[b'x'; 65_536]).unwrap();
        assert_eq!(beginning(file.path()).len(), 65_536);
        file.write_all(b"more").unwrap();
        assert_eq!(beginning(file.path()).len(), 65_536);
    }

    #[test]
    fn a_partition_is_told_from_its_neighbour_by_where_it_begins() {
        let machine = crate::tests::scripted::Scripted::default();
        let put = |path: &str, text: &str| {
            machine.0.borrow_mut().there.paths.insert(format!("/sys/{path}"), text.into());
        };
        for (name, number, start) in [("sda1", "8:1", "2048"), ("sda2", "8:2", "10240")] {
            put(&format!("{name}/dev"), number);
            put(&format!("{name}/size"), "8192");
            put(&format!("{name}/start"), start);
            put(&format!("{name}/../diskseq"), "7");
        }
        put("sda/dev", "8:0");
        put("sda/size", "20480");
        put("sda/diskseq", "7");
        let of = |name: &str| disk_identity(&machine, &format!("/sys/{name}")).unwrap();
        let facts = [("device", "8:1"), ("diskseq", "7"), ("size", "8192"), ("start", "2048")];
        let expected = facts.map(|(name, fact)| (name, Some(fact.to_owned())));
        assert_eq!(of("sda1"), LayerIdentity::of(expected));
        assert_eq!(of("sda").get("start"), None);
        // The number was reused: the partition table was rewritten.
        let before = of("sda1");
        put("sda1/start", "4096");
        let what = "its start was 2048 and is 4096";
        assert_eq!(before.difference(&of("sda1")).as_deref(), Some(what));
        assert_eq!(disk_identity(&machine, "/sys/sdb"), None);
    }
}
