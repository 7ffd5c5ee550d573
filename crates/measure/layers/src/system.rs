//! The machine, as a build sees and changes it.
//!
//! Runs steps with all names filled in, and returns the machine's answers.
//!
//! A trait, so that tests can put a scripted machine in its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use durio_base::Bytes;
use rustix::process::Signal;

use super::identity::{
    HeldDevice, LayerIdentity, file_identity, made_directory, made_file, mount_number, open_device,
};
use super::kinds::DURIO;
use super::permit::{PermittedBlock, PermittedCommand, PermittedWrite, ProgramQuery, Proven};
use super::server::{self, ServerRemains};

use durio_observe::{DeviceUse, StackError, device_use, mounted_at};

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

/// The machine.
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

#[derive(Debug)]
pub(super) struct RealSystem {
    /// Every program gets it as its standard input: it is empty, and its lock stays until the last
    /// program has ended, even if this process dies before.
    lock: File,
}

impl RealSystem {
    pub(super) fn new(lock: File) -> Self {
        Self { lock }
    }

    fn run_words(
        &self,
        program: &str,
        words: &[String],
        output: &Path,
    ) -> io::Result<ExitedProcess> {
        let (out, err) = (output.with_extension("out"), output.with_extension("err"));
        let mut command = Command::new(program_file(program));
        // Answers of programs are parsed, and shown among our own words.
        command.args(words).env("LC_ALL", "C");
        // In the terminal's group it would get the very Ctrl-C that asks us to tear down.
        command.process_group(0);
        command.stdin(Stdio::from(self.lock.try_clone()?));
        command.stdout(Stdio::from(File::create(&out)?)).stderr(Stdio::from(File::create(&err)?));
        let status = command.status()?;
        let failure = (!status.success()).then(|| status.to_string());
        Ok(ExitedProcess { failure, stdout: beginning(&out), stderr: beginning(&err) })
    }
}

/// A block of metadata.
const ERASED: usize = 4096;

/// The file of a program; the one for durio's word is that of this process.
pub(super) fn program_file(program: &str) -> &str {
    // The running file itself, even if another version was installed over its name in the meantime.
    if program == DURIO { "/proc/self/exe" } else { program }
}

/// The most bytes of a program's output that are kept.
const MOST_OUTPUT: u64 = 64 * 1024;

impl System for RealSystem {
    fn run(&mut self, command: &PermittedCommand, output: &Path) -> io::Result<ExitedProcess> {
        self.run_words(command.program(), command.words(), output)
    }

    fn serve(
        &mut self,
        command: &PermittedCommand,
        output: &Path,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<ExitedProcess> {
        server::serve(command, output, stop)
    }

    fn served(&self, socket: &str, array: &str) -> io::Result<ServerRemains> {
        server::served(socket, array)
    }

    fn signal_server(&mut self, proven: &Proven, signal: Signal) -> io::Result<()> {
        server::signal_server(proven.target(), signal)
    }

    fn fail_users(&mut self, _proven: &Proven, array: &str) -> io::Result<()> {
        server::fail_users(array)
    }

    fn remove_served(&mut self, _proven: &Proven, array: &str) -> io::Result<()> {
        server::remove_device(array)
    }

    fn erase(&mut self, block: &PermittedBlock) -> io::Result<()> {
        erase_at(&OpenOptions::new().write(true).open(block.device())?, block.offset())
    }

    fn look(&mut self, look: ProgramQuery<'_>, output: &Path) -> io::Result<ExitedProcess> {
        let (program, words) = look.command();
        self.run_words(program, &words, output)
    }

    fn write(&mut self, write: &PermittedWrite) -> io::Result<()> {
        OpenOptions::new().write(true).open(write.path())?.write_all(write.text().as_bytes())
    }

    fn make_directory(&mut self, path: &Path) -> io::Result<LayerIdentity> {
        // /run/durio and its like are shared by builds: made where they lack, and never removed.
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        made_directory(path)
    }

    fn make_file(
        &mut self,
        path: &Path,
        size: Bytes,
        folder: &LayerIdentity,
    ) -> io::Result<LayerIdentity> {
        made_file(path, size, folder)
    }

    fn remove_file(&mut self, proven: &Proven) -> io::Result<()> {
        fs::remove_file(proven.target())
    }

    fn remove_directory(&mut self, proven: &Proven) -> io::Result<()> {
        fs::remove_dir(proven.target())
    }

    fn open_device(&self, device: &Path) -> io::Result<HeldDevice> {
        open_device(device)
    }

    fn file_identity(&self, path: &Path) -> Option<LayerIdentity> {
        file_identity(path)
    }

    fn mount_identity(&self, mount_point: &Path) -> Option<LayerIdentity> {
        let mount = mounted_at(mount_point).pop()?;
        Some(LayerIdentity::of([
            ("mount", mount_number(mount_point)),
            ("device", Some(mount.device)),
            ("source", Some(mount.source.to_string_lossy().into_owned())),
        ]))
    }

    fn read(&self, path: &Path) -> Option<String> {
        // An empty file is not the same as none, and both have an empty text.
        File::open(path).ok()?;
        Some(beginning(path).trim().to_owned())
    }

    fn head(&self, path: &Path, size: Bytes) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(size.get()).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn names(&self, directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn resolve(&self, path: &Path) -> Option<PathBuf> {
        fs::canonicalize(path).ok()
    }

    fn is_there(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
    }

    fn is_block_device(&self, path: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt;
        fs::metadata(path).is_ok_and(|data| data.file_type().is_block_device())
    }

    fn mounted_at(&self, mount_point: &Path) -> Vec<String> {
        mounted_at(mount_point).into_iter().map(|mount| mount.filesystem).collect()
    }

    fn usage(&self, device: &Path) -> Result<DeviceUse, StackError> {
        device_use(device)
    }

    fn has_driver(&self, module: &str) -> bool {
        super::needs::has_driver(module)
    }

    fn pause(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

fn erase_at(file: &File, offset: u64) -> io::Result<()> {
    file.write_all_at(&[0; ERASED], offset)?;
    file.sync_all()
}

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
    fn a_block_that_is_erased_is_zero_and_its_neighbours_stay() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 16_384]).unwrap();
        erase_at(file.as_file(), 8192).unwrap();
        let expected = [[7; 4096], [7; 4096], [0; 4096], [7; 4096]].concat();
        assert!(fs::read(file.path()).unwrap() == expected);
        // Opened for reading alone.
        assert!(erase_at(&File::open(file.path()).unwrap(), 0).is_err());
    }
}
