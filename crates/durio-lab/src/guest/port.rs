//! The guest's end of the port to its host.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{PORT_NAME, restart};
use crate::wire::Frame;

/// How long the kernel may take to show the port after its driver was loaded.
const SHOWN_WITHIN: Duration = Duration::from_secs(20);
/// How long the host may take to end a guest that has ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// The port; frames of several threads do not mix.
#[derive(Debug)]
pub(super) struct Port {
    file: Mutex<File>,
}

impl Port {
    /// Waits for the port and opens it.
    ///
    /// # Errors
    /// If the kernel shows none in time.
    pub(super) fn open() -> io::Result<Self> {
        let begin = Instant::now();
        loop {
            if let Some(path) = device_of_port() {
                let file = File::options().read(true).write(true).open(path)?;
                return Ok(Self { file: Mutex::new(file) });
            }
            if begin.elapsed() > SHOWN_WITHIN {
                return Err(io::Error::other("the kernel shows no port to the host"));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a frame, and waits until the host has it.
    ///
    /// # Errors
    /// Those of the port.
    pub(super) fn send(&self, frame: &Frame) -> io::Result<()> {
        frame.write_to(&mut *self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on the guest ends when its host is gone, such as by a kill.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn end_guest_with_host(&self) -> io::Result<()> {
        let mut port = self.file.lock().unwrap_or_else(PoisonError::into_inner).try_clone()?;
        let watch = move || {
            // The host never says anything; reading ends when its end is closed.
            let mut byte = [0];
            while port.read(&mut byte).is_ok_and(|count| count > 0) {}
            let _ = restart();
        };
        thread::Builder::new().spawn(watch).map(drop)
    }

    /// Gives the host time to end the guest.
    pub(super) fn wait_for_host(&self) {
        thread::sleep(FAREWELL);
    }
}

fn device_of_port() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let is_ours = |folder: &PathBuf| {
        fs::read_to_string(folder.join("name")).is_ok_and(|name| name.trim_end() == PORT_NAME)
    };
    let folder = ports.filter_map(|it| Some(it.ok()?.path())).find(is_ours)?;
    let device = Path::new("/dev").join(folder.file_name()?);
    device.exists().then_some(device)
}
