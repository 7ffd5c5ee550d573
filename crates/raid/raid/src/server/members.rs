//! The contents of a device: read before it joins, written when it becomes a member.
//!
//! Takes open files; reads what assembly needs, and writes blocks. durio-raid-commands decides whether a
//! device may be written to.
//!
//! Files are open past the page cache where that is possible, so memory is aligned and places are those
//! of whole blocks.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use durio_block::Buffers;

use crate::assembly::own_marks;
use crate::geometry::{BLOCK, Geometry};
use crate::layout::{self, SUPERBLOCKS};
use crate::map_page::PageName;
use crate::{Blocks, FoundDevice, RecognizedMember, SuperblockError, log_entry, recognize};

/// Reads the superblocks of a device, and its map; an inner error if it is not a member.
pub fn find_member(
    file: &File,
    device: u8,
    device_bytes: u64,
) -> io::Result<Result<FoundDevice, SuperblockError>> {
    let read_block = |place| Ok(read(file, place, BLOCK)?.slot(0).to_vec());
    let recognized = recognize(device_bytes, read_block).map_err(|error: io::Error| error)?;
    let RecognizedMember { superblock, slot, damage } = match recognized {
        Ok(recognized) => recognized,
        Err(error) => return Ok(Err(error)),
    };
    if damage.is_some() {
        // Neither is trusted, and both may be beyond its end.
        let found = FoundDevice::without_log(device, superblock, slot, Vec::new());
        return Ok(Ok(FoundDevice { damage, ..found }));
    }
    let map_bytes = layout::map_bytes(&superblock.table.geometry);
    let map = match map_bytes {
        0 => Vec::new(),
        bytes => read(file, layout::map_slot(0, 0), bytes)?.slot(0).to_vec(),
    };
    let read_slot = |at: u64, into: &mut [u8]| {
        let slot = read(file, at, into.len() as u64);
        slot.is_ok_and(|block| {
            into.copy_from_slice(&block.slot(0)[..into.len()]);
            true
        })
    };
    let log = log_entry::read_log(&superblock.table.geometry, read_slot);
    Ok(Ok(FoundDevice { device, superblock, slot, map, log, damage }))
}

/// The marked regions of a member's map: dirty ones, and those that another member may lack. All
/// regions of a damaged page count.
#[must_use]
pub fn marked_regions(found: &FoundDevice) -> u32 {
    let table = &found.superblock.table;
    let role = table.entries.iter().position(|entry| entry.member == found.superblock.member);
    let Some(role) = role.filter(|&role| role < table.geometry.members.into()) else { return 0 };
    let set = role as u8 / table.geometry.set_members();
    let pages = 0..layout::map_pages(&table.geometry);
    let marks = pages.flat_map(|page| {
        own_marks(PageName { array: table.array, set, page }, &found.map).marks.collect::<Vec<_>>()
    });
    marks.take(table.geometry.regions() as usize).filter(|&mark| mark != 0).count() as u32
}

/// Has the first start make the copies equal: no page of the map is whole, so all is dirty.
pub fn leave_unsynced(blocks: &mut Blocks, geometry: &Geometry) {
    let pages = 0..layout::map_pages(geometry);
    let places: Vec<u64> = pages.map(|page| layout::map_slot(page, 0)).collect();
    blocks.iter_mut().filter(|(at, _)| places.contains(at)).for_each(|(_, block)| block.fill(0));
}

/// Zeroes a device's superblocks and map, so that it can no longer be taken for a member.
pub fn make_blank(file: &File, device_bytes: u64, geometry: &Geometry) -> io::Result<()> {
    let map = (0..layout::map_bytes(geometry) / BLOCK)
        .map(|number| layout::map_slot(0, 0) + number * BLOCK);
    let superblocks =
        (0..SUPERBLOCKS).filter_map(|number| layout::superblock_slot(device_bytes, number));
    let zeros = |place| (place, vec![0; BLOCK as usize]);
    write_metadata(file, &superblocks.chain(map).map(zeros).collect())
}

/// Writes blocks to their places, durably.
pub fn write_metadata(file: &File, blocks: &Blocks) -> io::Result<()> {
    let mut buffer = Buffers::new(1, BLOCK as usize);
    for (place, block) in blocks {
        buffer.slot_mut(0).copy_from_slice(block);
        file.write_all_at(buffer.slot(0), *place)?;
    }
    file.sync_all()
}

fn read(file: &File, place: u64, length: u64) -> io::Result<Buffers> {
    let length = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut buffer = Buffers::try_new(1, length).map_err(|error| error.source)?;
    file.read_exact_at(buffer.slot_mut(0), place)?;
    Ok(buffer)
}
