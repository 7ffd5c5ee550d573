//! Devices: added, started, found again, deleted.
//!
//! Requests are in `queue`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};
use rustix::thread::CpuSet;

use super::UblkQueue;
use super::{ControlCommand, DeviceInfo, Parameters, READ, READ_WRITE, SECTOR, UblkShape, command};
use crate::BlockError;

const CONTROL: &str = "/dev/ublk-control";
const CHARACTER_DEVICES: &str = "/sys/class/ublk-char";
/// UBLK_F_USER_RECOVERY and UBLK_F_USER_RECOVERY_REISSUE: users wait for the next server, which gets
/// again what the last did not answer. UBLK_F_CMD_IOCTL_ENCODE: commands are ioctl numbers.
pub(super) const FLAGS: u64 = 1 << 3 | 1 << 4 | 1 << 6;
/// Size of [`Parameters`], without padding.
pub(super) const PARAMETERS_BYTES: u32 = 60;
/// UBLK_PARAM_TYPE_BASIC and UBLK_PARAM_TYPE_DISCARD.
pub(super) const TYPES: u32 = 1 | 2;
/// Any device, any queue.
const NONE: u32 = u32::MAX;
/// How long the kernel may take to see that a server has died, and udev to make a name.
const PASSING: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// The state of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UblkState {
    /// Never started, or stopped.
    Dead,
    /// A server answers its requests.
    Live,
    /// Its server has died, and its users wait.
    Waiting,
}

/// A device that the kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UblkDevice {
    /// N of /dev/ublkbN.
    pub number: u32,
    pub state: UblkState,
    /// The process that serves it, or did.
    pub server: u32,
    /// [`UblkShape::mark`] that it was made with.
    pub mark: u64,
    pub queues: u16,
    depth: u16,
    buffer_bytes: u32,
}

impl UblkDevice {
    /// The block device that it is for users.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    /// True if the block device is claimed: by a mount, or another layer.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = rustix::fs::open(self.path(), flags, Mode::empty());
        matches!(opened, Err(rustix::io::Errno::BUSY))
    }
}

/// The kernel's control of ublk devices.
pub struct UblkControl {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl std::fmt::Debug for UblkControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UblkControl").finish_non_exhaustive()
    }
}

impl UblkControl {
    /// Opens it.
    ///
    /// # Errors
    /// If the kernel has no ublk ([`super::UBLK_NEEDS`]) or no io_uring, or a right is missing.
    pub fn open() -> Result<Self, BlockError> {
        let path = Path::new(CONTROL);
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| BlockError::at("open", path, error))?;
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(4);
        let ring = ring.map_err(|error| BlockError::new("set up io_uring", error))?;
        Ok(Self { file, ring })
    }

    /// Adds a device that stays invisible until it is started.
    pub fn add(&mut self, shape: &UblkShape) -> Result<UblkDevice, BlockError> {
        let mut info = DeviceInfo {
            queues: shape.queues,
            depth: shape.depth,
            buffer_bytes: shape.chunk,
            device: NONE,
            flags: FLAGS,
            mark: shape.mark,
            ..DeviceInfo::default()
        };
        self.command("add a ublk device", READ_WRITE, 0x04, NONE, 0, Some(&mut info))?;
        let device = device_of(&info);
        let shift = if shape.block < 4096 { 9 } else { 12 };
        let mut parameters = Parameters {
            length: PARAMETERS_BYTES,
            types: TYPES,
            logical_shift: shift,
            physical_shift: 12,
            optimal_shift: 12,
            minimal_shift: shift,
            max_sectors: shape.chunk / SECTOR,
            chunk_sectors: shape.chunk / SECTOR,
            device_sectors: shape.size / u64::from(SECTOR),
            // The kernel wants one, though no discard is taken.
            discard_granularity: shape.block,
            max_write_zeroes_sectors: shape.zeroes_max / SECTOR,
            ..Parameters::default()
        };
        let number = device.number;
        let set = self.command(
            "give a ublk device its shape",
            READ_WRITE,
            0x08,
            number,
            0,
            Some(&mut parameters),
        );
        if let Err(error) = set {
            // The device is useless; the first error is reported.
            let _ = self.delete(&device);
            return Err(error);
        }
        Ok(device)
    }

    /// The queues of a device, each for the thread that serves it.
    ///
    /// # Errors
    /// If its character device is not there, or another process has it.
    pub fn queues(&mut self, device: &UblkDevice) -> Result<Vec<UblkQueue>, BlockError> {
        let path = PathBuf::from(format!("/dev/ublkc{}", device.number));
        let open = || OpenOptions::new().read(true).write(true).open(&path);
        let file = patiently(open, |error| {
            [Some(libc::ENOENT), Some(libc::EBUSY)].contains(&error.raw_os_error())
        });
        let file = file.map_err(|error| BlockError::at("open", &path, error))?;
        let file = Arc::new(OwnedFd::from(file));
        let queue = |number| {
            let processors = (device.queues > 1).then(|| self.processors(device, number));
            let (file, depth, bytes) = (Arc::clone(&file), device.depth, device.buffer_bytes);
            UblkQueue::map(number, file, processors.transpose()?, depth, bytes)
        };
        (0..device.queues).map(queue).collect()
    }

    /// The processors whose requests come in this queue.
    fn processors(&mut self, device: &UblkDevice, queue: u16) -> Result<CpuSet, BlockError> {
        let mut bits = [0_u64; CpuSet::MAX_CPU / 64];
        let (what, number) = ("query the CPUs of a ublk queue", device.number);
        self.command(what, READ, 0x01, number, queue.into(), Some(&mut bits))?;
        let mut set = CpuSet::new();
        let is_set = |processor: &usize| bits[*processor / 64] >> (*processor % 64) & 1 != 0;
        (0..CpuSet::MAX_CPU).filter(is_set).for_each(|processor| set.set(processor));
        Ok(set)
    }

    /// The device with this mark, if there is one.
    pub fn find(&mut self, mark: u64) -> Result<Option<UblkDevice>, BlockError> {
        let fail = |error| BlockError::at("read", Path::new(CHARACTER_DEVICES), error);
        for entry in fs::read_dir(CHARACTER_DEVICES).map_err(fail)? {
            let name = entry.map_err(fail)?.file_name();
            let number =
                name.to_str().and_then(|number| number.strip_prefix("ublkc")?.parse().ok());
            // A device that has gone by now is not the wanted one.
            let Some(found) = number.and_then(|id| self.look(id).ok()) else { continue };
            if found.mark == mark {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The state of a device.
    pub fn look(&mut self, number: u32) -> Result<UblkDevice, BlockError> {
        let mut info = DeviceInfo::default();
        self.command("look at a ublk device", READ, 0x02, number, 0, Some(&mut info))?;
        Ok(device_of(&info))
    }

    /// Makes the block device, which this process serves; waits until all tags of its queues are fetched.
    pub fn start(&mut self, device: &UblkDevice) -> Result<(), BlockError> {
        let server = std::process::id().into();
        self.order("start a ublk device", 0x06, device, server)?;
        // A scheduler has a worker of the kernel's hand each request on, and the members have their own.
        // Where no scheduler can be chosen this costs nothing.
        let _ = fs::write(format!("/sys/block/ublkb{}/queue/scheduler", device.number), "none");
        Ok(())
    }

    /// Has the device of a dead server wait for the queues of this one. The kernel takes a moment to see
    /// that a server has died.
    ///
    /// # Errors
    /// If its server lives.
    pub fn begin_recovery(&mut self, device: &UblkDevice) -> Result<(), BlockError> {
        let begin = || self.order("take over a ublk device", 0x10, device, 0);
        patiently(begin, |error| error.source.raw_os_error() == Some(libc::EBUSY))
    }

    /// Continues with a device whose queues this process has fetched.
    pub fn end_recovery(&mut self, device: &UblkDevice) -> Result<(), BlockError> {
        let server = std::process::id().into();
        self.order("resume a ublk device", 0x11, device, server)
    }

    /// Takes the block device away once the requests on their way have been answered. The queues
    /// get nothing more. Requests to a device without a server fail.
    pub fn stop(&mut self, device: &UblkDevice) -> Result<(), BlockError> {
        self.order("stop a ublk device", 0x07, device, 0)
    }

    /// Deletes a stopped device; waits until no process has its queues.
    pub fn delete(&mut self, device: &UblkDevice) -> Result<(), BlockError> {
        self.order("delete a ublk device", 0x05, device, 0)
    }

    fn order(
        &mut self,
        what: &'static str,
        number: u32,
        device: &UblkDevice,
        data: u64,
    ) -> Result<(), BlockError> {
        self.command::<()>(what, READ_WRITE, number, device.number, data, None)
    }

    /// One command, whose answer is waited for. `buffer` is of one of the header's structs, or
    /// of words.
    fn command<T>(
        &mut self,
        what: &'static str,
        direction: u32,
        number: u32,
        device: u32,
        data: u64,
        buffer: Option<&mut T>,
    ) -> Result<(), BlockError> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "128 bytes at most, or one set of CPUs"
        )]
        let length = buffer.as_ref().map_or(0, |_| size_of::<T>() as u16);
        let address = buffer.map_or(0, |buffer| std::ptr::from_mut(buffer) as u64);
        let queue = u16::MAX;
        let order = ControlCommand { device, queue, length, address, data, ..Default::default() };
        let mut bytes = [0; 80];
        // SAFETY: the struct has 32 bytes without padding, and the array has room for them.
        unsafe { bytes.as_mut_ptr().cast::<ControlCommand>().write_unaligned(order) };
        let operation = command(direction, number, size_of::<ControlCommand>());
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, operation).cmd(bytes).build();
        let fail = |error| BlockError::new(what, error);
        // SAFETY: `buffer` is borrowed until this returns, which is after the command has ended, and the
        // kernel writes no more than its length.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|error| fail(io::Error::other(error)))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) => return Err(fail(error)),
            }
            if let Some(ended) = self.ring.completion().next() {
                return match ended.result() {
                    result if result < 0 => Err(fail(io::Error::from_raw_os_error(-result))),
                    _ => Ok(()),
                };
            }
        }
    }
}

fn device_of(info: &DeviceInfo) -> UblkDevice {
    UblkDevice {
        number: info.device,
        state: match info.state {
            0 => UblkState::Dead,
            1 => UblkState::Live,
            _ => UblkState::Waiting,
        },
        server: info.server.unsigned_abs(),
        mark: info.mark,
        queues: info.queues,
        depth: info.depth,
        buffer_bytes: info.buffer_bytes,
    }
}

/// Tries again while the error is one that passes, for as long as that may take.
fn patiently<R, E>(
    mut act: impl FnMut() -> Result<R, E>,
    passes: impl Fn(&E) -> bool,
) -> Result<R, E> {
    let begin = Instant::now();
    loop {
        match act() {
            Err(error) if passes(&error) && begin.elapsed() < PASSING => thread::sleep(LOOK),
            ended => return ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_what_the_kernel_says_of_it() {
        for (state, expected) in
            [(0, UblkState::Dead), (1, UblkState::Live), (2, UblkState::Waiting)]
        {
            let info = DeviceInfo {
                queues: 3,
                depth: 64,
                state,
                buffer_bytes: 1 << 20,
                device: 7,
                server: 4711,
                mark: u64::MAX - 1,
                ..DeviceInfo::default()
            };
            let device = device_of(&info);
            assert_eq!(device.state, expected);
            assert_eq!((device.number, device.server, device.mark), (7, 4711, u64::MAX - 1));
            assert_eq!((device.queues, device.depth, device.buffer_bytes), (3, 64, 1 << 20));
        }
    }
}
