//! Logs of dm-log-writes; other input is refused, and an entry is written as it was read.
#![no_main]

use durio_simdisk::trace::{MARK, parse, superblock};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(entries) = parse(bytes) else { return };
    // A mark's name may fill its sector when it is read, and never when it is written.
    let entries: Vec<_> = entries.into_iter().filter(|it| it.flags & MARK == 0).collect();
    let mut log = superblock(entries.len() as u64).to_vec();
    entries.iter().for_each(|entry| log.extend(entry.to_bytes()));
    assert_eq!(parse(&log).expect("it was just written"), entries);
});
