//! What the verifier makes of a cell of any bytes: of these alone, and of a whole one that they change.
#![no_main]

use durio_block::{Buffers, Ticks};
use durio_prove::reading::{label_of, observe_cell};
use durio_prove::writer::seal_write;
use durio_prove::stamp::StampOwner;
use durio_simdisk::{Disk, Profile, DiskRequest, SharedDisk, SimEngine};
use durio_base::Nanos;

const OWNER: StampOwner = StampOwner { run: [7; 16], target: 1 };
const CELL: usize = 4096;

fn written(cell: u64, data: &[u8]) -> SimEngine {
    let mut disk = Disk::new(Profile::honest(64 << 10), 7);
    let request = DiskRequest::Write { sector: cell * 8, data, fua: true };
    let ticket = disk.begin(0, Nanos::new(0), request).expect("it has power");
    disk.end(ticket, Nanos::new(1), &mut []).expect("it has power");
    let buffers = Buffers::try_new(1, CELL).expect("memory");
    SimEngine::new(SharedDisk::new(disk), 1, Ticks(1), 7, buffers)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(CELL)];
    let mut given = [0; CELL];
    given[..bytes.len()].copy_from_slice(bytes);
    let _ = label_of(&mut written(0, &given));
    let mut changed = [0; CELL];
    seal_write(OWNER, 9, 8, &mut changed);
    changed.iter_mut().zip(bytes).for_each(|(to, from)| *to ^= from);
    for data in [given, changed] {
        let observed = observe_cell(&mut written(1, &data), OWNER, 1).expect("it answers");
        assert_eq!(observed.sectors().len(), CELL / 512);
    }
});
