//! A step that compares sync calls: through the C library, as databases call them and as a preloaded
//! library may have replaced them, and by the kernel's own system calls.
//!
//! In: a step of [`durio_plan::Role::ProbeSyncCalls`]; its limit says how often each is called. Out: its
//! events, among them one of [`SyncCallsProbed`].
//!
//! Each call follows a write of one block through the page cache, always to the same place: a sync
//! that was swallowed leaves the block dirty, and the next call's write replaces it. The calls take
//! turns, and the devices' counters are read around each, so that what others send to the same
//! devices falls on all of them alike. Counts are therefore of what the devices did meanwhile: at
//! least what the calls sent.
//!
//! `Kernel` is the system call itself where rustix has its own (x86, ARM, RISC-V, POWER); on other
//! processors that, too, is the C library's function. In a durio that is linked statically nothing can
//! be preloaded, and both are the same.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use durio_block::OpenMode;
use durio_observe::{DeviceCounters, read_device_counters};
use durio_record::{Event, Outcome, ProbedCalls, SyncCaller, SyncCallsProbed};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::RunError;
use crate::step::Arming;
use crate::unmeasured::{SingleLoad, Watching, started};

/// Runs the calls of a step.
pub(crate) fn run_sync_probe(
    arming: Arming<'_>,
    names: &[String],
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let single = SingleLoad::open(arming)?;
    let target = arming.targets.get(arming.step.load.target).and_then(Option::as_ref);
    let target = target.ok_or_else(|| RunError::unsupported("a target was not made ready"))?;
    let file = target.open(OpenMode { write: true, ..OpenMode::default() })?.file;
    emit(started(arming, &single, Vec::new()));
    let watching = Watching::begin(names);
    let block = usize::try_from(single.effective.workload.block_size.get()).unwrap_or(usize::MAX);
    let mut probe = Probe {
        file,
        block: vec![0; block],
        offset: single.region.offset.get(),
        devices: names,
        random: Xoshiro256PlusPlus::seed_from_u64(arming.plan.seed),
    };
    let mut arms = ARMS.map(Arm::new);
    for _ in 0..single.count {
        if arming.stop.is_set() {
            break;
        }
        arms.iter_mut().for_each(|arm| probe.call(arm));
    }
    let is_done = |arm: &Arm| arm.errno.is_some() || arm.calls == single.count;
    let outcome = if arms.iter().all(is_done) { Outcome::Complete } else { Outcome::Interrupted };
    if outcome == Outcome::Complete {
        let calls = arms.into_iter().map(Arm::probed).collect();
        emit(Event::SyncCallsProbed(SyncCallsProbed { step: arming.step.index, calls }));
    }
    emit(watching.ended(arming, names, outcome));
    Ok(outcome)
}

/// A call through a caller.
type Sync = (SyncCaller, &'static str, fn(&OwnedFd) -> Result<(), i32>);

const ARMS: [Sync; 4] = [
    (SyncCaller::Library, "fsync", library_fsync),
    (SyncCaller::Kernel, "fsync", kernel_fsync),
    (SyncCaller::Library, "fdatasync", library_fdatasync),
    (SyncCaller::Kernel, "fdatasync", kernel_fdatasync),
];

fn library_fsync(file: &OwnedFd) -> Result<(), i32> {
    nix::unistd::fsync(file.as_fd()).map_err(|errno| errno as i32)
}

fn library_fdatasync(file: &OwnedFd) -> Result<(), i32> {
    nix::unistd::fdatasync(file.as_fd()).map_err(|errno| errno as i32)
}

fn kernel_fsync(file: &OwnedFd) -> Result<(), i32> {
    rustix::fs::fsync(file).map_err(rustix::io::Errno::raw_os_error)
}

fn kernel_fdatasync(file: &OwnedFd) -> Result<(), i32> {
    rustix::fs::fdatasync(file).map_err(rustix::io::Errno::raw_os_error)
}

/// What became of the calls of one kind.
struct Arm {
    sync: Sync,
    calls: u64,
    /// None if a device does not count them, or there is none.
    flushes: Option<u64>,
    writes: Option<u64>,
    elapsed: Duration,
    errno: Option<i32>,
}

impl Arm {
    const fn new(sync: Sync) -> Self {
        let (flushes, writes) = (Some(0), Some(0));
        Self { sync, calls: 0, flushes, writes, elapsed: Duration::ZERO, errno: None }
    }

    fn probed(self) -> ProbedCalls {
        let (caller, call, _) = self.sync;
        ProbedCalls {
            caller,
            call: call.to_owned(),
            calls: self.calls,
            flushes: self.flushes.filter(|_| self.calls > 0),
            writes: self.writes.filter(|_| self.calls > 0),
            elapsed: self.elapsed.into(),
            errno: self.errno,
        }
    }
}

/// What the calls work on.
struct Probe<'a> {
    file: OwnedFd,
    block: Vec<u8>,
    offset: u64,
    devices: &'a [String],
    random: Xoshiro256PlusPlus,
}

impl Probe<'_> {
    /// Writes the block and calls the sync once, unless an error has ended these calls. Nothing is
    /// tried again: after an error the kernel may have forgotten what was not written.
    fn call(&mut self, arm: &mut Arm) {
        if arm.errno.is_some() {
            return;
        }
        let before = counters(self.devices);
        let (_, _, sync) = arm.sync;
        if let Err(errno) = self.write() {
            arm.errno = Some(errno);
            return;
        }
        let begin = Instant::now();
        let result = sync(&self.file);
        arm.elapsed += begin.elapsed();
        arm.calls += 1;
        arm.errno = result.err();
        let after = counters(self.devices);
        let count = |of: fn(&DeviceCounters) -> Option<u64>| counted(&before, &after, of);
        arm.flushes = sum(arm.flushes, count(|device| device.flushes_completed));
        arm.writes = sum(arm.writes, count(|device| Some(device.writes_completed)));
    }

    fn write(&mut self) -> Result<(), i32> {
        // Other contents each time: no layer can find that nothing has changed.
        self.random.fill_bytes(&mut self.block);
        let mut data = self.block.as_slice();
        let mut offset = self.offset;
        while !data.is_empty() {
            match rustix::io::pwrite(&self.file, data, offset) {
                Ok(0) => return Err(rustix::io::Errno::NOSPC.raw_os_error()),
                Ok(count) => {
                    data = data.get(count..).unwrap_or_default();
                    offset += count as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.raw_os_error()),
            }
        }
        Ok(())
    }
}

fn sum(before: Option<u64>, more: Option<u64>) -> Option<u64> {
    Some(before?.saturating_add(more?))
}

/// The counters of all devices; none if one cannot be read, or there is none.
fn counters(devices: &[String]) -> Option<Vec<DeviceCounters>> {
    let all: Option<Vec<_>> = devices.iter().map(|name| read_device_counters(name).ok()).collect();
    all.filter(|all| !all.is_empty() && all.iter().all(|device| !device.not_counted))
}

/// What was counted between two readings, over all devices.
fn counted(
    before: &Option<Vec<DeviceCounters>>,
    after: &Option<Vec<DeviceCounters>>,
    of: fn(&DeviceCounters) -> Option<u64>,
) -> Option<u64> {
    let (before, after) = (before.as_ref()?, after.as_ref()?);
    let since = before.iter().zip(after).map(|(before, after)| of(&after.saturating_since(before)));
    since.sum()
}
