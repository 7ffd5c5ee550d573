//! How an array reaches its users: a socket of NBD, or a block device, by ublk or the kernel's NBD client.
//!
//! A running array gets a name to find it by, removed at the end.
//!
//! A killed server leaves its block device, which the next one recognises by the array's identity.
//! With ublk users wait, and the next server of the same array continues with the device. With NBD
//! pending requests get an error when the next server starts, and the device is removed.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use durio_block::{ErrorKind, UBLK_NEEDS, UblkControl, UblkDevice, UblkShape, UblkState};
use durio_command::CommandError;
use durio_nbd::{
    Address, Export, KernelClient, NBD_DEVICE_NEEDS, NbdDevice, NbdError, Server, Storage, Uri,
};
use durio_raid::server::{ArrayHandle, ServerError, THREADS_MAX};
use durio_raid::{Id, MemberTable};

/// Requests of a queue of a block device that are on their way.
pub(super) const DEPTH: u16 = 128;

/// Chunks that a request for zeroes may touch, well below the parts that the engine has.
const ZEROES_CHUNKS: u32 = 32;

/// How long the kernel may take to free an unused device.
const PASSING: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FrontChoice {
    /// Over a unix socket, to NBD clients: works everywhere
    Nbd,
    /// As a kernel block device: faster, but needs the module ublk_drv (Linux 6.0)
    Ublk,
}

/// The way to an array, taken before anything is written to a member.
#[derive(Debug)]
pub(super) enum ArrayFront {
    Nbd {
        server: Arc<Server>,
        serving: Option<JoinHandle<Result<(), NbdError>>>,
        kernel: Option<KernelClient>,
        device: Option<NbdDevice>,
    },
    Ublk {
        control: Box<UblkControl>,
        device: Option<UblkDevice>,
    },
}

impl ArrayFront {
    /// `is_attached` has the kernel's NBD client make a block device of a socket.
    pub(super) fn prepare(
        choice: FrontChoice,
        is_attached: bool,
        socket: &Path,
    ) -> Result<Self, CommandError> {
        match choice {
            FrontChoice::Nbd => {
                let kernel = is_attached.then(KernelClient::open).transpose();
                let kernel = kernel.map_err(|error| match error.kind {
                    durio_nbd::NbdErrorKind::NotFound => {
                        kernel_lacks("NBD client", NBD_DEVICE_NEEDS).hint("modprobe nbd")
                    }
                    _ => CommandError::cannot(error),
                })?;
                let server = Server::bind(&Address::Unix(socket.to_owned()))
                    .map_err(CommandError::cannot)?;
                Ok(Self::Nbd { server: Arc::new(server), serving: None, kernel, device: None })
            }
            FrontChoice::Ublk => match UblkControl::open() {
                Ok(control) => Ok(Self::Ublk { control: Box::new(control), device: None }),
                Err(error) if error.kind == ErrorKind::NotFound => {
                    Err(kernel_lacks("ublk", UBLK_NEEDS)
                        .hint("modprobe ublk_drv")
                        .hint("--front nbd needs no kernel support"))
                }
                Err(error) => Err(CommandError::from(error)),
            },
        }
    }

    /// Threads that it takes: as many as are wished for, but a block device that waits for its next server
    /// keeps the queues that it has.
    pub(super) fn threads(&mut self, wished: u8, array: Id) -> Result<u8, CommandError> {
        let Self::Ublk { control, .. } = self else { return Ok(wished) };
        let waiting = waiting_device(control, mark_of(array))?;
        Ok(waiting.map_or(wished, |device| u8::try_from(device.queues).unwrap_or(THREADS_MAX)))
    }

    /// Opens a running array to users. They must keep to `alignment`.
    pub(super) fn open(
        &mut self,
        handle: &ArrayHandle,
        table: &MemberTable,
        alignment: u32,
    ) -> Result<(), CommandError> {
        match self {
            Self::Nbd { server, serving, kernel, device } => {
                let (served, storage) = (Arc::clone(server), handle.clone());
                let thread = thread::Builder::new().name("nbd".to_owned());
                let spawned = thread.spawn(move || served.serve(&storage));
                *serving = Some(
                    spawned.map_err(|error| CommandError::cannot(ServerError::Thread(error)))?,
                );
                let Some(kernel) = kernel else { return Ok(()) };
                let mark = mark_of(table.array);
                free_device(kernel, mark)?;
                // Whatever was answered is durable, and a kernel, unlike some clients, believes it.
                let export = Export { flush: false, fua: false, ..handle.export() };
                let uri = Uri::of(&server.address(), "");
                *device = Some(kernel.attach(&uri, &export, mark).map_err(CommandError::cannot)?);
                Ok(())
            }
            Self::Ublk { control, device } => {
                let shape = UblkShape {
                    size: table.geometry.size(),
                    chunk: table.geometry.chunk,
                    zeroes_max: table.geometry.chunk * ZEROES_CHUNKS,
                    block: alignment,
                    queues: handle.threads(),
                    depth: DEPTH,
                    mark: mark_of(table.array),
                };
                match waiting_device(control, shape.mark)? {
                    Some(found) => {
                        control.begin_recovery(&found)?;
                        handle.serve(control.queues(&found)?).map_err(CommandError::cannot)?;
                        control.end_recovery(&found)?;
                        *device = Some(found);
                    }
                    None => {
                        let added = control.add(&shape)?;
                        // It is taken away again, whatever comes.
                        *device = Some(added);
                        handle.serve(control.queues(&added)?).map_err(CommandError::cannot)?;
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
            Self::Nbd { device: Some(device), .. } => device.path().display().to_string(),
            Self::Nbd { server, .. } => Uri::of(&server.address(), "").to_string(),
            Self::Ublk { device, .. } => {
                device.map_or_else(String::new, |device| device.path().display().to_string())
            }
        }
    }

    /// True if no client can connect any more.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Nbd { serving: Some(serving), .. } if serving.is_finished())
    }

    /// The reason why it may not end now: a user would lose an open device.
    pub(super) fn refuse_in_use(&self) -> Result<(), CommandError> {
        let path = match self {
            Self::Ublk { device: Some(device), .. } if device.is_in_use() => device.path(),
            Self::Nbd { device: Some(device), .. } if device.is_in_use() => device.path(),
            Self::Nbd { .. } | Self::Ublk { .. } => return Ok(()),
        };
        let text = format!("'{}' is in use", path.display());
        Err(CommandError::cannot_measure(text).hint("unmount its filesystem first"))
    }

    /// Refuses new clients; requests in flight are answered, because the array still runs. A ublk
    /// device in use is left to the next server.
    pub(super) fn close(&mut self) -> Result<(), CommandError> {
        match self {
            Self::Nbd { server, serving, kernel, device } => {
                let attached = kernel.as_ref().zip(device.take());
                let detached = attached.map_or(Ok(()), |(kernel, device)| kernel.detach(&device));
                server.stop_handle().stop();
                let served = serving.take().map(JoinHandle::join);
                let served = served.unwrap_or(Ok(Ok(())));
                let served = served.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                detached.and(served).map_err(CommandError::cannot)
            }
            Self::Ublk { control, device } => match device {
                Some(served) if served.is_in_use() => {
                    let text =
                        format!("'{}' is in use, and its users wait", served.path().display());
                    *device = None;
                    Err(CommandError::cannot_measure(text)
                        .hint("start the array again: the device then continues"))
                }
                Some(served) => Ok(control.stop(served)?),
                None => Ok(()),
            },
        }
    }

    /// Leaves nothing. To be called when the array has ended: the kernel waits for its thread to let go
    /// of the device.
    pub(super) fn remove(self) -> Result<(), CommandError> {
        match self {
            Self::Ublk { mut control, device: Some(device) } => Ok(control.delete(&device)?),
            Self::Nbd { .. } | Self::Ublk { .. } => Ok(()),
        }
    }
}

/// The block device of a server of this array that has died, if there is one.
fn waiting_device(
    control: &mut UblkControl,
    mark: u64,
) -> Result<Option<UblkDevice>, CommandError> {
    match control.find(mark)? {
        // No user has seen it yet, or it was stopped.
        Some(device) if device.state == UblkState::Dead => {
            control.delete(&device)?;
            Ok(None)
        }
        found => Ok(found),
    }
}

/// Removes the block device of a dead server of this array. It waits for processes that have it
/// open.
fn free_device(kernel: &KernelClient, mark: u64) -> Result<(), CommandError> {
    let begin = Instant::now();
    let fail = |error| CommandError::io("read", Path::new("/sys/block"), error);
    let find = || NbdDevice::find(mark).map_err(fail);
    while let Some(device) = find()? {
        kernel.detach(&device).map_err(CommandError::cannot)?;
        if device.is_in_use() || begin.elapsed() > PASSING {
            let text = format!("'{}' of an earlier server is in use", device.path().display());
            return Err(CommandError::cannot_measure(text)
                .hint("unmount its filesystem: the device is gone"));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

fn kernel_lacks(what: &str, needs: &str) -> CommandError {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    CommandError::cannot_measure(format!("Linux {kernel} has no {what} here: it requires {needs}"))
}

/// The identifier of an array's block device: the first half of the array's identity.
fn mark_of(array: Id) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the half that is meant")]
    let first = u128::from_le_bytes(array.0) as u64;
    first.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_block_device_is_the_first_half_of_its_arrays_identity_and_never_0() {
        let numbered = Id(std::array::from_fn(|at| u8::try_from(at).unwrap() + 1));
        assert_eq!(mark_of(numbered), 0x0807_0605_0403_0201);
        let mut other = numbered;
        other.0[8..].fill(0xff);
        assert_eq!(mark_of(other), 0x0807_0605_0403_0201);
        other.0[7] = 9;
        assert_eq!(mark_of(other), 0x0907_0605_0403_0201);
        other.0[..8].fill(0);
        assert_eq!(mark_of(other), 1);
    }
}
