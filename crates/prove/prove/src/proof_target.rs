//! Storage that an agent of the prover writes to: a device or file of this machine, or an NBD export.
//!
//! A path or a URI, with a permission to overwrite, gives engines over it, past the page cache.
//! durio-prove decides what to write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::{AgentStorage, TargetOpening};
use crate::layout::CELL;
use durio_block::{
    BlockError, Buffers, EngineKind, EngineSetup, EngineUser, MonotonicClock, OpenMode,
    TargetAccess, TargetType,
};
use durio_command::{CommandError, CommandErrorKind, Permission, locate};
use durio_nbd::{NbdEngine, Uri};
use durio_observe::{PowerState, read_host, read_power_state, read_stack};
use durio_record::proof::Inventory;

use crate::folder_engine::{FolderEngine, FolderWrites};

/// A target that can be opened again and again.
#[derive(Debug)]
pub struct ProofStorage {
    kind: PlaceKind,
    size: u64,
    may_write: bool,
}

#[derive(Debug)]
enum PlaceKind {
    Nbd(Uri),
    Local {
        path: PathBuf,
        access: Arc<TargetAccess>,
        engine: EngineKind,
    },
    /// A file for each cell.
    Folder {
        path: PathBuf,
        writes: FolderWrites,
    },
}

impl ProofStorage {
    /// Finds the target. `destroy` names targets that may be overwritten; without it the target is
    /// only read.
    ///
    /// # Errors
    /// If it is not a device, file or export; if it is in use; if it would be written to without
    /// permission.
    pub fn find(
        target: &str,
        destroy: &[PathBuf],
        force_signature: bool,
        engine: Option<EngineKind>,
    ) -> Result<Self, CommandError> {
        if target.starts_with("nbd") && target.contains("://") {
            return Self::of_nbd(target, destroy);
        }
        let path = PathBuf::from(target);
        let located = locate([&path], Permission::Named { destroy, force_signature })?;
        let access = located.held.find(&path).map_err(|_| {
            CommandError::wrong_use(format!(
                "'{target}' is neither a device, a file nor an NBD URI"
            ))
            .hint("make a file with: fallocate -l 1GiB FILE")
        })?;
        let size = match access.target().kind() {
            TargetType::File(size) | TargetType::BlockDevice(size) => size.get(),
            _ => 0,
        };
        let engine = engine.unwrap_or(match EngineKind::Uring.probe() {
            Ok(()) => EngineKind::Uring,
            Err(_) => EngineKind::Sync,
        });
        let may_write = matches!(*access, TargetAccess::Write(_));
        Self::check_direct(&access, &path)?;
        Ok(Self { kind: PlaceKind::Local { path, access, engine }, size, may_write })
    }

    /// A folder that exists, with room for `size` bytes, which only the prover writes to.
    pub(crate) fn of_folder(path: PathBuf, size: u64, writes: FolderWrites) -> Self {
        Self { kind: PlaceKind::Folder { path, writes }, size, may_write: true }
    }

    fn of_nbd(target: &str, destroy: &[PathBuf]) -> Result<Self, CommandError> {
        let uri: Uri =
            target.parse().map_err(|error| CommandError::of(CommandErrorKind::WrongUse, error))?;
        if let Some(other) = destroy.iter().find(|path| path.as_path() != Path::new(target)) {
            let text = format!("--destroy '{}' does not match '{target}'", other.display());
            return Err(CommandError::wrong_use(text));
        }
        let buffers = Buffers::try_new(1, 4096)?;
        let size = NbdEngine::connect(&uri, MonotonicClock, buffers)
            .map_err(CommandError::cannot)?
            .export()
            .size;
        Ok(Self { kind: PlaceKind::Nbd(uri), size, may_write: !destroy.is_empty() })
    }

    /// I/O through the page cache proves nothing about the layers below.
    fn check_direct(access: &TargetAccess, path: &Path) -> Result<(), CommandError> {
        let opened = access.open(OpenMode { direct: true, ..OpenMode::default() })?;
        if opened.direct {
            return Ok(());
        }
        let text = format!("'{}' cannot be read past the page cache (O_DIRECT)", path.display());
        Err(CommandError::cannot_measure(text).hint("use a block device, or a file on ext4 or XFS"))
    }

    /// The target's description, and the signs that show later whether its power was gone.
    pub(crate) fn inventory(&self) -> Inventory {
        let stack = match &self.kind {
            // A target that can be written to can be proved, whether its layers are shown or not.
            PlaceKind::Local { path, .. } | PlaceKind::Folder { path, .. } => read_stack(path).ok(),
            PlaceKind::Nbd(_) => None,
        };
        let power = stack.as_ref().map_or_else(PowerState::of_machine, read_power_state);
        Inventory { host: read_host(), stack, qemu: None, power }
    }

    fn setup(
        access: &TargetAccess,
        wanted: TargetOpening,
    ) -> Result<EngineSetup<MonotonicClock>, BlockError> {
        let TargetOpening { write, data_sync, depth, slot } = wanted;
        let file =
            access.open(OpenMode { write, direct: true, data_sync, ..OpenMode::default() })?;
        Ok(EngineSetup {
            clock: MonotonicClock,
            file: file.file,
            more_files: Vec::new(),
            buffers: Buffers::try_new(depth as usize, slot)?,
            depth,
            entries: depth,
            blocking_syncs: false,
            advice: None,
        })
    }
}

impl AgentStorage for ProofStorage {
    fn size(&self) -> u64 {
        self.size
    }

    fn open<U: EngineUser<MonotonicClock>>(&mut self, wanted: TargetOpening, user: U) -> U::Output {
        if wanted.write && !self.may_write {
            let reason = "nobody permitted to overwrite it (--destroy)";
            return user.refused(refusal(
                durio_block::ErrorKind::PermissionDenied,
                "write to",
                reason,
            ));
        }
        match &self.kind {
            PlaceKind::Nbd(uri) => {
                let engine =
                    Buffers::try_new(wanted.depth as usize, wanted.slot).and_then(|buffers| {
                        let connected = NbdEngine::connect(uri, MonotonicClock, buffers);
                        connected.map_err(|error| {
                            refusal(durio_block::ErrorKind::Io, "use the target", error)
                        })
                    });
                match engine {
                    Ok(engine) => user.drive(engine),
                    Err(error) => user.refused(error),
                }
            }
            PlaceKind::Folder { path, writes } => {
                let buffers = Buffers::try_new(wanted.depth as usize, CELL);
                match buffers.and_then(|buffers| FolderEngine::open(path, writes.clone(), buffers))
                {
                    Ok(engine) => user.drive(engine),
                    Err(error) => user.refused(error),
                }
            }
            PlaceKind::Local { access, engine, .. } => match Self::setup(access, wanted) {
                Ok(setup) => engine.open(setup, user),
                Err(error) => user.refused(error),
            },
        }
    }
}

fn refusal(
    kind: durio_block::ErrorKind,
    operation: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> BlockError {
    BlockError { kind, operation, path: None, source: std::io::Error::other(source) }
}
