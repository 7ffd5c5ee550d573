//! A simulated disk that is served by a thread, at a socket in a folder of its own.
//!
//! In: a disk. Out: a server that goes when its handle is dropped, with socket and folder. Not here: a
//! disk that users serve (`serving.rs`).

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use durio_nbd::{Address, NbdError, Server, StopHandle, Uri};
use durio_simdisk::SharedDisk;
use tempfile::TempDir;

use crate::served::{Advertised, ServedDisk};

/// Why a disk cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// The folder for its socket.
    #[error("cannot make a folder for a socket")]
    Folder(#[from] io::Error),
    /// The socket.
    #[error(transparent)]
    Nbd(#[from] NbdError),
}

/// A server in a thread of its own.
#[derive(Debug)]
pub struct BackgroundServer {
    uri: Uri,
    socket: PathBuf,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
    // Dropped after the server has removed its socket.
    _folder: TempDir,
}

impl BackgroundServer {
    /// Serves the disk from now on.
    ///
    /// # Errors
    /// If there is no place for a socket.
    pub fn start(disk: &SharedDisk, advertised: Advertised) -> Result<Self, BackgroundError> {
        let folder = tempfile::Builder::new().prefix("durio-").tempdir()?;
        let socket = folder.path().join("disk.sock");
        let storage = ServedDisk::new(disk.clone(), advertised);
        let server = Server::bind(&Address::Unix(socket.clone()))?;
        let (uri, stop) = (Uri::of(&server.address(), ""), server.stop_handle());
        let thread = std::thread::spawn(move || {
            // It ends when it is stopped; whoever lost a connection hears of it.
            let _ = server.serve(&storage);
        });
        Ok(Self { uri, socket, stop, thread: Some(thread), _folder: folder })
    }

    /// Where clients find it.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for BackgroundServer {
    fn drop(&mut self) {
        self.stop.stop();
        // A panic of the server has been told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
