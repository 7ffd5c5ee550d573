//! A step that compares sync calls: through the C library, as databases call them and as a preloaded
//! library may have replaced them, and by the kernel's own system calls.
//!
//! Runs a step of [`durio_plan::Role::ProbeSyncCalls`]; its limit says how often each is called.
//! One of its events is [`SyncCallsProbed`].
//!
//! Each call follows a write of one block through the page cache, always to the same place: a
//! swallowed sync leaves the block dirty, and the next call's write replaces it. The calls take
//! turns, and the devices' counters are read around each, so that other requests to the same
//! devices fall on all calls alike. Counts are therefore all requests to the devices in that time:
//! at least those of the calls.
//!
//! `Kernel` is the system call itself where rustix has its own (x86, ARM, RISC-V, POWER); on other
//! processors that, too, is the C library's function. In a durio that is linked statically nothing can
//! be preloaded, and both are the same.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use durio_block::OpenMode;
use durio_observe::{DeviceCounters, read_device_counters};
use durio_record::{Event, Outcome, ProbedCalls, SyncCaller, SyncCallsProbed};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use crate::error::RunError;
use crate::layout::write_at;
use crate::step::StepSetup;
use crate::unmeasured::{SingleLoad, Watching, started};

pub(crate) fn run_sync_probe(
    setup: StepSetup<'_>,
    names: &[String],
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let single = SingleLoad::open(setup)?;
    let target = setup.target(setup.step.load.target)?;
    let file = target.open(OpenMode { write: true, ..OpenMode::default() })?.file;
    emit(started(setup, &single, Vec::new()));
    let watching = Watching::begin(setup, names);
    let block = usize::try_from(single.effective.workload.block_size.get()).unwrap_or(usize::MAX);
    let mut probe = SyncProbe {
        file,
        block: vec![0; block],
        offset: single.region.offset.get(),
        devices: names,
        random: Xoshiro256PlusPlus::seed_from_u64(setup.plan.seed),
    };
    let mut arms = ARMS.map(ProbeArm::new);
    for _ in 0..single.count {
        if setup.stop.is_set() {
            break;
        }
        // In turns: the device's other work, and how full its cache is, affect all alike.
        arms.iter_mut().for_each(|arm| probe.call(arm));
    }
    let is_done = |arm: &ProbeArm| arm.errno.is_some() || arm.calls == single.count;
    let outcome = if arms.iter().all(is_done) { Outcome::Complete } else { Outcome::Interrupted };
    if outcome == Outcome::Complete {
        let calls = arms.into_iter().map(ProbeArm::probed).collect();
        emit(Event::SyncCallsProbed(SyncCallsProbed { step: setup.step.index, calls }));
    }
    emit(watching.ended(outcome));
    Ok(outcome)
}

/// A call through a caller.
type Sync = (SyncCaller, &'static str, fn(&OwnedFd) -> Result<(), Errno>);

// nix calls the C library's function, rustix makes the system call.
const ARMS: [Sync; 4] = [
    (SyncCaller::Library, "fsync", |file| of_library(nix::unistd::fsync(file))),
    (SyncCaller::Kernel, "fsync", |file| rustix::fs::fsync(file)),
    (SyncCaller::Library, "fdatasync", |file| of_library(nix::unistd::fdatasync(file))),
    (SyncCaller::Kernel, "fdatasync", |file| rustix::fs::fdatasync(file)),
];

fn of_library(result: nix::Result<()>) -> Result<(), Errno> {
    result.map_err(|errno| Errno::from_raw_os_error(errno as i32))
}

/// What became of the calls of one kind.
struct ProbeArm {
    sync: Sync,
    calls: u64,
    /// None if a device does not count them, or without devices.
    flushes: Option<u64>,
    writes: Option<u64>,
    elapsed: Duration,
    errno: Option<i32>,
}

impl ProbeArm {
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

struct SyncProbe<'a> {
    file: OwnedFd,
    block: Vec<u8>,
    offset: u64,
    devices: &'a [String],
    random: Xoshiro256PlusPlus,
}

impl SyncProbe<'_> {
    /// Writes the block and calls the sync once, unless an error has ended these calls.
    // No call is repeated: after an error the kernel may have forgotten the unwritten data.
    fn call(&mut self, arm: &mut ProbeArm) {
        if arm.errno.is_some() {
            return;
        }
        let before = counters(self.devices);
        let (_, _, sync) = arm.sync;
        // Other contents each time: no layer can find that nothing has changed.
        self.random.fill_bytes(&mut self.block);
        if let Err(errno) = write_at(&self.file, &self.block, self.offset) {
            arm.errno = Some(errno.raw_os_error());
            return;
        }
        // The sync alone: the write before it only makes the page cache dirty.
        let begin = Instant::now();
        let result = sync(&self.file);
        arm.elapsed += begin.elapsed();
        arm.calls += 1;
        arm.errno = result.err().map(Errno::raw_os_error);
        let after = counters(self.devices);
        let count = |of: fn(&DeviceCounters) -> Option<u64>| counted(&before, &after, of);
        arm.flushes = sum(arm.flushes, count(|device| device.flushes_completed));
        arm.writes = sum(arm.writes, count(|device| Some(device.writes_completed)));
    }
}

fn sum(before: Option<u64>, more: Option<u64>) -> Option<u64> {
    Some(before?.saturating_add(more?))
}

/// The counters of all devices; none if one cannot be read, or without devices.
fn counters(devices: &[String]) -> Option<Vec<DeviceCounters>> {
    let all: Option<Vec<_>> = devices.iter().map(|name| read_device_counters(name).ok()).collect();
    // For RAM disks, and with iostats off, the kernel counts nothing: zeros there would not mean
    // zero flushes.
    all.filter(|all| !all.is_empty() && all.iter().all(|device| !device.not_counted))
}

/// The counts between two readings, over all devices.
fn counted(
    before: &Option<Vec<DeviceCounters>>,
    after: &Option<Vec<DeviceCounters>>,
    of: fn(&DeviceCounters) -> Option<u64>,
) -> Option<u64> {
    let (before, after) = (before.as_ref()?, after.as_ref()?);
    let since = before.iter().zip(after).map(|(before, after)| of(&after.saturating_since(before)));
    since.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_devices_below_did_is_added_up() {
        let device = |writes_completed, flushes_completed| DeviceCounters {
            writes_completed,
            flushes_completed,
            ..DeviceCounters::default()
        };
        let before = Some(vec![device(5, Some(70)), device(100, Some(2000))]);
        let after = Some(vec![device(8, Some(110)), device(600, Some(2006))]);
        let of = |before, after| {
            let flushes = counted(before, after, |counters| counters.flushes_completed);
            (flushes, counted(before, after, |counters| Some(counters.writes_completed)))
        };
        assert_eq!(of(&before, &after), (Some(46), Some(503)));
        // One that counts no flushes leaves their sum unknown, and no other.
        let one_older = Some(vec![device(8, None), device(600, Some(2006))]);
        assert_eq!(of(&before, &one_older), (None, Some(503)));
        assert_eq!((of(&None, &after), of(&before, &None)), ((None, None), (None, None)));
        assert_eq!(
            (sum(Some(40), Some(2)), sum(None, Some(2)), sum(Some(40), None)),
            (Some(42), None, None)
        );
    }

    #[test]
    fn a_call_that_failed_is_the_last_of_its_arm_and_others_go_on() {
        let file = tempfile::tempfile().unwrap();
        let mut probe = SyncProbe {
            file: file.into(),
            block: vec![0; 512],
            offset: 4096,
            devices: &[],
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        };
        let refuses: Sync = (SyncCaller::Library, "fsync", |_| Err(Errno::IO));
        let mut arms = [refuses, ARMS[1]].map(ProbeArm::new);
        for _ in 0..3 {
            arms.iter_mut().for_each(|arm| probe.call(arm));
        }
        let [refused, other] = arms.map(ProbeArm::probed);
        assert_eq!((refused.calls, refused.errno), (1, Some(5)));
        assert_eq!((other.calls, other.errno, other.call.as_str()), (3, None, "fsync"));
        // Without devices nothing is counted, which is not zero.
        assert_eq!((other.flushes, other.writes), (None, None));
        assert!(other.elapsed > durio_base::Nanos::ZERO);
        let size = std::fs::File::from(probe.file).metadata().unwrap().len();
        assert_eq!(size, 4096 + 512);
    }
}
