//! Makes the bytes of a write: a stamp in each of its sectors.
//!
//! The verifier reads stamps with separate code.

use durio_simdisk::SECTOR;

use crate::stamp::{MAGIC, Stamp, StampOwner, VERSION, checksum, fill_words, place};

/// Fills `into` with the stamps of the write `seq` that begins at `sector`.
///
/// # Panics
/// If `into` is not a whole number of sectors, or has more than 65535.
pub fn seal_write(owner: StampOwner, seq: u64, sector: u64, into: &mut [u8]) {
    let (sectors, rest) = into.as_chunks_mut::<SECTOR>();
    assert!(rest.is_empty(), "a write has whole sectors");
    let count = u16::try_from(sectors.len()).expect("a write has at most 65535 sectors");
    for (index, bytes) in (0..count).zip(sectors) {
        let sector = sector + u64::from(index);
        seal(&Stamp { owner, sector, seq, index, count }, bytes);
    }
}

/// Makes one sector.
pub fn seal(stamp: &Stamp, into: &mut [u8; SECTOR]) {
    let mut put = |place: std::ops::Range<usize>, bytes: &[u8]| into[place].copy_from_slice(bytes);
    put(place::MAGIC, &MAGIC);
    put(place::VERSION, &VERSION.to_le_bytes());
    put(place::SECTOR_BYTES, &512_u16.to_le_bytes());
    put(place::INDEX, &stamp.index.to_le_bytes());
    put(place::COUNT, &stamp.count.to_le_bytes());
    put(place::RUN, &stamp.owner.run);
    put(place::TARGET, &stamp.owner.target.to_le_bytes());
    put(place::SECTOR, &stamp.sector.to_le_bytes());
    put(place::SEQ, &stamp.seq.to_le_bytes());
    let (words, _) = into[place::FILL].as_chunks_mut::<8>();
    for (bytes, word) in words.iter_mut().zip(fill_words(stamp)) {
        *bytes = word;
    }
    let sum = checksum(into).to_le_bytes();
    into[place::CHECKSUM].copy_from_slice(&sum);
}
