//! A simulated disk that a thread serves, at a socket in a private folder.
//!
//! The server ends when its handle is dropped, and removes socket and folder. `serving.rs` has the
//! disks that users serve.
//!
//! A killed process leaves its folder behind but not its lock, so a later process can tell such a
//! folder from those in use.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use durio_block::Folder;
use durio_command::CommandError;
use durio_nbd::{Address, Server, StopHandle, Uri, is_dead_socket};
use durio_simdisk::SharedDisk;
use tempfile::TempDir;

use crate::serving::{Advertisement, ServedDisk};

/// Prefix of the folders' names.
const PREFIX: &str = "durio-";
const SOCKET: &str = "disk.sock";

/// Removes folders that killed processes of this user have left below a folder for temporary files:
/// those that are unlocked and contain only a socket without a listener. Returns the removed
/// folders.
pub(crate) fn remove_dead_servers(place: &Path) -> Vec<PathBuf> {
    let Ok(parent) = Folder::open(place) else { return Vec::new() };
    let names = parent.names().unwrap_or_default();
    let candidates =
        names.iter().filter(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()));
    let mut removed: Vec<_> = candidates
        .filter(|name| {
            // A folder that cannot be inspected or removed stays; the next call tries again.
            parent
                .folder(name)
                .and_then(|folder| remove_if_dead(&parent, &folder, name))
                .unwrap_or(false)
        })
        .map(|name| place.join(name))
        .collect();
    removed.sort();
    removed
}

/// A lock is taken before the socket is made, so an unlocked folder with a socket has no owner.
fn remove_if_dead(parent: &Folder, folder: &Folder, name: &std::ffi::OsStr) -> io::Result<bool> {
    let is_dead = folder.is_own()?
        && folder.names()? == [SOCKET]
        && folder.try_lock()?
        && is_dead_socket(&folder.path().join(SOCKET));
    if is_dead {
        folder.remove_file(SOCKET)?;
        parent.remove_folder(name)?;
    }
    Ok(is_dead)
}

/// A server in a separate thread.
#[derive(Debug)]
pub(crate) struct BackgroundServer {
    uri: Uri,
    socket: PathBuf,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
    // Dropped after the server has removed its socket.
    _folder: TempDir,
    _lock: Folder,
}

impl BackgroundServer {
    /// Serves the disk from now on.
    pub(crate) fn start(
        disk: &SharedDisk,
        advertised: Advertisement,
    ) -> Result<Self, CommandError> {
        let only_owner = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(only_owner).tempdir();
        let folder = folder.map_err(|error| no_folder(&error))?;
        let lock = Folder::open(folder.path()).map_err(|error| no_folder(&error))?;
        // Where locks do not work, a killed process's folder is recognised by its socket alone.
        let _ = lock.try_lock();
        let socket = folder.path().join(SOCKET);
        let storage = ServedDisk::new(disk.clone(), advertised);
        let server = Server::bind(&Address::Unix(socket.clone()))?;
        let (uri, stop) = (Uri::of(&server.address(), ""), server.stop_handle());
        let thread = std::thread::spawn(move || {
            // It ends when it is stopped; clients see their lost connections.
            let _ = server.serve(&storage);
        });
        Ok(Self { uri, socket, stop, thread: Some(thread), _folder: folder, _lock: lock })
    }

    /// Where clients find it.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for BackgroundServer {
    fn drop(&mut self) {
        self.stop.stop();
        // A panic of the server has already been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn no_folder(error: &io::Error) -> CommandError {
    CommandError::cannot_measure(format!("cannot make a folder for a socket: {error}"))
}

/// Removes the sockets of disks that killed runs served; a line for each.
#[must_use]
pub fn clear_dead_servers() -> Vec<String> {
    let folders = remove_dead_servers(&std::env::temp_dir());
    let line = |folder: &PathBuf| {
        format!("removed '{}', a disk's socket left by a killed run", folder.display())
    };
    folders.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_a_killed_server_left_goes_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let folder = |name: &str| {
            fs::create_dir(path(name)).unwrap();
            path(name).join(SOCKET)
        };
        drop(UnixListener::bind(folder("durio-dead")).unwrap());
        let _answers = UnixListener::bind(folder("durio-answers")).unwrap();
        drop(UnixListener::bind(folder("durio-locked")).unwrap());
        let locked = Folder::open(&path("durio-locked")).unwrap();
        assert!(locked.try_lock().unwrap());
        folder("durio-empty");
        fs::write(folder("durio-file"), "mine").unwrap();
        drop(UnixListener::bind(folder("durio-more")).unwrap());
        fs::write(path("durio-more/other"), "mine").unwrap();
        drop(UnixListener::bind(folder("other-dead")).unwrap());
        symlink(path("other-dead"), path("durio-link")).unwrap();
        assert_eq!(remove_dead_servers(place.path()), [path("durio-dead")]);
        let mut left: Vec<_> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let kept = ["answers", "empty", "file", "link", "locked", "more"]
            .map(|name| format!("durio-{name}"));
        assert_eq!(left, [&kept[..], &["other-dead".to_owned()]].concat());
        assert!(
            path("durio-locked").join(SOCKET).exists() && path("other-dead").join(SOCKET).exists()
        );
        drop(locked);
        assert_eq!(remove_dead_servers(place.path()), [path("durio-locked")]);
    }
}
