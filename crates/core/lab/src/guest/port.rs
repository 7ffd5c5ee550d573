//! The guest's end of the port to its host: frames, interrupts, and the archive of files to bring out.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::system::{RebootCommand, reboot};

use crate::LabRequest;
use crate::cpio::Tree;
use crate::wire::{GuestFrame, INTERRUPT, PORT_NAME, WITNESS_NAME};

/// How long the kernel may take to show a device after its driver was loaded.
const SHOWN_WITHIN: Duration = Duration::from_secs(20);
/// How long the host may take to end a guest that has ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// The port; frames of several threads do not interleave.
#[derive(Debug)]
pub(super) struct Port {
    file: Mutex<File>,
    command: Arc<Addressee>,
}

/// The command's process group, and whether the host has asked it to end.
#[derive(Debug, Default)]
struct Addressee {
    group: AtomicI32,
    is_asked: AtomicBool,
}

impl Addressee {
    fn is(&self, group: Option<Pid>) {
        // This stores the group and then checks for an interrupt; the other side stores the
        // interrupt and then reads the group. With sequential ordering one of the two sees the
        // other, so no Ctrl-C is lost.
        self.group.store(group.map_or(0, |group| group.as_raw_nonzero().get()), Ordering::SeqCst);
        if self.is_asked.load(Ordering::SeqCst) {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        self.is_asked.store(true, Ordering::SeqCst);
        if let Some(group) = Pid::from_raw(self.group.load(Ordering::SeqCst)) {
            let _ = kill_process_group(group, Signal::INT);
        }
    }
}

impl Port {
    /// Waits for the port and opens it.
    pub(super) fn open() -> io::Result<Self> {
        let path = shown("port to the host", || device_of_port(PORT_NAME))?;
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Self { file: Mutex::new(file), command: Arc::default() })
    }

    /// Sends a frame, and waits until the host has it.
    pub(super) fn send(&self, frame: &GuestFrame) -> io::Result<()> {
        frame.write_to(&mut *self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The processes that the host's interrupt reaches: those of this group, or none.
    pub(super) fn interrupts(&self, group: Option<Pid>) {
        self.command.is(group);
    }

    /// From now on the guest ends when its host is gone, such as by a kill, and its command is
    /// interrupted on the host's request.
    pub(super) fn follow_host(&self) -> io::Result<()> {
        let mut port = self.file.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?;
        let command = Arc::clone(&self.command);
        let watch = move || {
            // Reading ends when the host's end is closed.
            let mut byte = [0];
            while port.read(&mut byte).is_ok_and(|count| count > 0) {
                if byte == [INTERRUPT] {
                    command.interrupt();
                }
            }
            let _ = restart();
        };
        thread::Builder::new().spawn(watch).map(drop)
    }

    /// Gives the host time to end the guest.
    pub(super) fn wait_for_host(&self) {
        thread::sleep(FAREWELL);
    }
}

/// Ends the guest: QEMU ends where a machine would restart.
pub(super) fn restart() -> io::Result<()> {
    Ok(reboot(RebootCommand::Restart)?)
}

/// Waits until the kernel shows a device that its driver finds.
pub(super) fn shown<T>(what: &str, look: impl Fn() -> Option<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if begin.elapsed() > SHOWN_WITHIN {
            return Err(io::Error::other(format!("the kernel shows no {what}")));
        }
        // The guest has no listener for the kernel's events, and a wait costs a counted guest
        // nothing.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Links the port to the witness to the place where programs expect such ports.
pub(super) fn link_witness() -> io::Result<()> {
    let device = shown("port to the witness", || device_of_port(WITNESS_NAME))?;
    link(&device, Path::new(LabRequest::WITNESS_PATH))
}

/// A link in a folder that is made for it.
pub(super) fn link(target: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    std::os::unix::fs::symlink(target, path)
}

fn device_of_port(name: &str) -> Option<PathBuf> {
    device_in("/sys/class/virtio-ports", |folder| {
        fs::read_to_string(folder.join("name")).is_ok_and(|text| text.trim_end() == name)
    })
}

/// The device whose folder in a class is this one.
pub(super) fn device_in(class: &str, is_it: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut folders = fs::read_dir(class).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let device = Path::new("/dev").join(folders.find(|folder| is_it(folder))?.file_name()?);
    device.exists().then_some(device)
}

const PART_BYTES: usize = 1 << 18;

/// Sends the contents of the folder, but only folders, files and links.
///
/// # Errors
/// If a file cannot be read, is 4 GiB or larger, or changes during the copy; errors of the port.
pub(super) fn bring_out(port: &Port, folder: &Path) -> io::Result<()> {
    let mut tree = Tree::default();
    let sent = tree
        .host_tree(Path::new("/"), folder)
        .and_then(|()| tree.write_to(BufWriter::with_capacity(PART_BYTES, Sender { port })));
    sent.map(drop).map_err(|error| match error.source() {
        Some(source) => io::Error::other(format!("cannot copy out: {source}")),
        None => io::Error::other(error),
    })
}

/// Each write is a frame.
#[derive(Debug)]
struct Sender<'a> {
    port: &'a Port,
}

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A frame has a limit, and the host keeps one in memory.
        let part = bytes.get(..bytes.len().min(PART_BYTES)).unwrap_or_default();
        self.port.send(&GuestFrame::Archive(part.to_vec()))?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
