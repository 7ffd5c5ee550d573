//! The machine that durio runs on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use durio_base::Bytes;
use durio_block::lead_process_group;
use durio_observe::{DeviceUse, StackError, device_use, mounted_at};
use rustix::process::Signal;

use crate::identity::{
    HeldDevice, LayerIdentity, file_identity, made_directory, made_file, mount_number, open_device,
};
use crate::needs::has_driver;
use crate::permit::{PermittedBlock, PermittedCommand, PermittedWrite, ProgramQuery, Proven};
use crate::server;
use crate::system::{ExitedProcess, ServerRemains, System, beginning, program_file};

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
        lead_process_group(&mut command);
        command.stdin(Stdio::from(self.lock.try_clone()?));
        command.stdout(Stdio::from(File::create(&out)?)).stderr(Stdio::from(File::create(&err)?));
        let status = command.status()?;
        let failure = (!status.success()).then(|| status.to_string());
        Ok(ExitedProcess { failure, stdout: beginning(&out), stderr: beginning(&err) })
    }
}

/// A block of metadata.
const ERASED: usize = 4096;

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
        fs::metadata(path).is_ok_and(|data| data.file_type().is_block_device())
    }

    fn mounted_at(&self, mount_point: &Path) -> Vec<String> {
        mounted_at(mount_point).into_iter().map(|mount| mount.filesystem).collect()
    }

    fn usage(&self, device: &Path) -> Result<DeviceUse, StackError> {
        device_use(device)
    }

    fn has_driver(&self, module: &str) -> bool {
        has_driver(module)
    }

    fn pause(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

fn erase_at(file: &File, offset: u64) -> io::Result<()> {
    file.write_all_at(&[0; ERASED], offset)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

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
