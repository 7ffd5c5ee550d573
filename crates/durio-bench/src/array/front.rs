//! How an array reaches its users: a socket of NBD, or a block device by ublk.
//!
//! In: an array that runs. Out: a name to find it by; in the end nothing. Not here: requests
//! (durio-raid), the kernel's commands (durio-block).
//!
//! A server that is killed leaves its block device, and users wait: the device is known by the array's
//! identity, so the next server of the same array goes on with it.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use durio_block::{ErrorKind, UBLK_NEEDS, UblkControl, UblkDevice, UblkShape, UblkState};
use durio_nbd::{Address, NbdError, Server, Uri};
use durio_raid::server::{ArrayHandle, ServerError};
use durio_raid::{Id, Table};

use super::serve::server_error;
use crate::error::{BenchError, BenchErrorKind};

/// Requests of a block device that are on their way.
const DEPTH: u16 = 128;

/// How an array is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontKind {
    /// Over a unix socket, to any client of NBD.
    Nbd,
    /// As a block device, by the kernel's ublk.
    Ublk,
}

/// The way to an array, taken before anything is written to a member.
#[derive(Debug)]
pub(super) enum Front {
    Nbd { server: Arc<Server>, serving: Option<JoinHandle<Result<(), NbdError>>> },
    Ublk { control: Box<UblkControl>, device: Option<UblkDevice> },
}

impl Front {
    pub(super) fn prepare(kind: FrontKind, socket: &Path) -> Result<Self, BenchError> {
        match kind {
            FrontKind::Nbd => {
                let server = Server::bind(&Address::Unix(socket.to_owned())).map_err(cannot)?;
                Ok(Self::Nbd { server: Arc::new(server), serving: None })
            }
            FrontKind::Ublk => match UblkControl::open() {
                Ok(control) => Ok(Self::Ublk { control: Box::new(control), device: None }),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
                    let text = format!("Linux {kernel} has no ublk here: it takes {UBLK_NEEDS}");
                    Err(BenchError::cannot_measure(text)
                        .hint("modprobe ublk_drv")
                        .hint("--front nbd needs nothing of the kernel"))
                }
                Err(error) => Err(BenchError::from(error)),
            },
        }
    }

    /// Has users come, to an array that runs. `alignment` is what they must keep to.
    pub(super) fn open(
        &mut self,
        handle: &ArrayHandle,
        table: &Table,
        alignment: u32,
    ) -> Result<(), BenchError> {
        match self {
            Self::Nbd { server, serving } => {
                let (server, storage) = (Arc::clone(server), handle.clone());
                let thread = thread::Builder::new().name("nbd".to_owned());
                let spawned = thread.spawn(move || server.serve(&storage));
                *serving = Some(spawned.map_err(|error| server_error(ServerError::Thread(error)))?);
                Ok(())
            }
            Self::Ublk { control, device } => {
                let shape = UblkShape {
                    size: table.geometry.size(),
                    chunk: table.geometry.chunk,
                    block: alignment,
                    depth: DEPTH,
                    mark: mark_of(table.array),
                };
                match waiting_device(control, shape.mark)? {
                    Some(found) => {
                        control.begin_recovery(&found)?;
                        handle.serve(found.queue()?).map_err(server_error)?;
                        control.end_recovery(&found)?;
                        *device = Some(found);
                    }
                    None => {
                        let added = control.add(&shape)?;
                        // It is taken away again, whatever comes.
                        *device = Some(added);
                        handle.serve(added.queue()?).map_err(server_error)?;
                        control.start(&added)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Where users find it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Nbd { server, .. } => Uri::of(&server.address(), "").to_string(),
            Self::Ublk { device, .. } => {
                device.map_or_else(String::new, |it| it.path().display().to_string())
            }
        }
    }

    /// True if nobody can come any more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Nbd { serving: Some(serving), .. } if serving.is_finished())
    }

    /// The reason why it may not end now: somebody would lose what he has open.
    pub(super) fn refuse_in_use(&self) -> Result<(), BenchError> {
        match self {
            Self::Ublk { device: Some(device), .. } if device.is_in_use() => {
                let text = format!("'{}' is in use", device.path().display());
                Err(BenchError::cannot_measure(text).hint("unmount what is on it first"))
            }
            Self::Nbd { .. } | Self::Ublk { .. } => Ok(()),
        }
    }

    /// Has nobody come any more; what is on its way is answered, for the array still runs. A device that
    /// is in use is left to the next server.
    pub(super) fn close(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Nbd { server, serving } => {
                server.stop_handle().stop();
                let served = serving.take().map(JoinHandle::join);
                let served = served.unwrap_or(Ok(Ok(())));
                served.unwrap_or_else(|it| std::panic::resume_unwind(it)).map_err(cannot)
            }
            Self::Ublk { control, device } => match device {
                Some(served) if served.is_in_use() => {
                    let text = format!("'{}' is in use, and waits", served.path().display());
                    *device = None;
                    Err(BenchError::cannot_measure(text)
                        .hint("start the array again: it goes on with the device"))
                }
                Some(served) => Ok(control.stop(served)?),
                None => Ok(()),
            },
        }
    }

    /// Leaves nothing. To be called when the array has ended: the kernel waits for its thread to let go
    /// of the device.
    pub(super) fn remove(self) -> Result<(), BenchError> {
        match self {
            Self::Ublk { mut control, device: Some(device) } => Ok(control.delete(&device)?),
            Self::Nbd { .. } | Self::Ublk { .. } => Ok(()),
        }
    }
}

/// The block device of a server of this array that has died, if there is one.
fn waiting_device(control: &mut UblkControl, mark: u64) -> Result<Option<UblkDevice>, BenchError> {
    match control.find(mark)? {
        // Nobody has seen it yet, or it was stopped.
        Some(device) if device.state == UblkState::Dead => {
            control.delete(&device)?;
            Ok(None)
        }
        found => Ok(found),
    }
}

/// What an array's block device is known by: the first half of its identity.
fn mark_of(array: Id) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the half that is meant")]
    let first = u128::from_le_bytes(array.0) as u64;
    first.max(1)
}

fn cannot(error: NbdError) -> BenchError {
    BenchError::of(BenchErrorKind::CannotMeasure, error)
}
