//! What the tests stand on: a server in a thread of this process, for as long as a test needs it.

use std::path::PathBuf;
use std::thread;

use durio_block::{Buffers, MonotonicClock};
use durio_nbd::{Address, NbdEngine, Server, Storage, Uri};

/// A folder for a socket: short, since the address of a socket has 108 bytes.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("nbd").tempdir().unwrap()
}

/// What of other programs this machine lacks, by xtask's word.
pub(crate) fn is_missing(program: &str) -> bool {
    let missing = std::env::var("DURIO_TEST_MISSING").unwrap_or_default();
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    });
    !found || missing.split(',').any(|name| name == program)
}

/// Serves on a unix socket while `body` runs, which gets the URI of the export.
pub(crate) fn served(storage: &dyn Storage, body: impl FnOnce(&Uri)) {
    let folder = folder();
    served_at(&Address::Unix(folder.path().join("socket")), storage, body);
}

/// As [`served`], there.
pub(crate) fn served_at(address: &Address, storage: &dyn Storage, body: impl FnOnce(&Uri)) {
    let server = Server::bind(address).unwrap();
    let uri = Uri::of(&server.address(), &storage.export().name);
    thread::scope(|scope| {
        let served = scope.spawn(|| server.serve(storage));
        // Also when the body panics: else the scope would wait for ever.
        let stop = StopAtDrop(server.stop_handle());
        body(&uri);
        drop(stop);
        served.join().unwrap().unwrap();
    });
}

struct StopAtDrop(durio_nbd::StopHandle);

impl Drop for StopAtDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// An engine of eight slots of 16 KiB.
pub(crate) fn engine(uri: &Uri) -> NbdEngine<MonotonicClock> {
    NbdEngine::connect(uri, MonotonicClock, Buffers::new(8, 4 * 4096)).unwrap()
}

/// The path of a unix socket's URI.
pub(crate) fn socket_of(uri: &Uri) -> PathBuf {
    match &uri.endpoint {
        durio_nbd::Endpoint::Unix(path) => path.clone(),
        durio_nbd::Endpoint::Tcp { .. } => panic!("no unix socket"),
    }
}
