//! How many crash states are enumerated per second, for `cargo xtask bench prove`.
//!
//! Prints the states per second where every cell of each state is read, and where none is. The run
//! is of the prover's writer, 32 writes in flight.
#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]
#![expect(clippy::print_stdout, reason = "its answer")]

use std::time::Instant;

use durio_block::{Buffers, Ticks};
use durio_plan::proof::{Arm, DurablePath};
use durio_prove::enumerate::stamped::{MarkingLedger, StampCheck};
use durio_prove::enumerate::{Enumeration, EnumerationLimits, enumerate};
use durio_prove::layout::Layout;
use durio_prove::layout::Schedule;
use durio_prove::stamp::StampOwner;
use durio_prove::writer::{Writer, prepare};
use durio_simdisk::{Disk, Profile, SharedDisk, SimEngine};

const CELLS: u64 = 256;
const OWNER: StampOwner = StampOwner { run: [7; 16], target: 1 };
const DEPTH: u32 = 32;
const ACKNOWLEDGEMENTS: u64 = 40;

fn main() {
    let disk = SharedDisk::new(Disk::new(Profile::honest(CELLS * 4096), 1));
    let buffers = Buffers::try_new(DEPTH as usize + 1, 4096).unwrap();
    let mut engine = SimEngine::new(disk.clone(), 2, Ticks(0), 1, buffers);
    let layout = Layout::new(CELLS);
    prepare(&mut engine, OWNER, DurablePath::Fdatasync, layout.stamped()).unwrap();
    disk.lock().record();
    let mut ledger = MarkingLedger::new(disk.clone());
    let schedule = Schedule::new(layout, &Arm::new(DurablePath::Fdatasync, DEPTH), 1, 5);
    let target = (&mut engine, &mut ledger);
    let mut writer = Writer::new(target, OWNER, DurablePath::Fdatasync, DEPTH, schedule);
    writer.run(Ticks(u64::MAX), ACKNOWLEDGEMENTS).unwrap();
    let recording = disk.lock().take_recording().unwrap();
    let ledger = ledger.into_ledger();
    let mut check = StampCheck::new(OWNER, &Layout::new(CELLS), &ledger);
    let all = EnumerationLimits::default();
    rate(|| enumerate(&recording, all, |image, state| check.check(image, state)));
    rate(|| enumerate(&recording, all, |_, _| Ok(())));
}

fn rate(enumerating: impl FnOnce() -> Enumeration) {
    let begin = Instant::now();
    let found = enumerating();
    assert_eq!(found.failed, 0, "the prover's own writer keeps its word");
    println!("{:.0}", found.states as f64 / begin.elapsed().as_secs_f64());
}
