//! An entry of the histogram log, decoded: HdrHistogram's V2 form, compressed, in Base64.
//!
//! Entries that are not one of a record's histograms give nothing. The form is a cookie and a
//! length, then a zlib stream of a header of 40 bytes and counts, one after the other in LEB128 of
//! at most 9 bytes, zigzag; a negative number is a run of empty buckets (github.com/HdrHistogram:
//! AbstractHistogram, "V2 encoding").
//!
//! The crate's own reader makes a full histogram, and takes a damaged entry's word for how much
//! memory it needs; this one has buffers of a size that no entry of a record exceeds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Decompress, FlushDecompress, Status};

use crate::{LATENCY_NS_MAX, SIGNIFICANT_DIGITS, SparseHistogram};

/// The compressed form's first four bytes; 0x10 says that numbers are LEB128.
const COOKIE_COMPRESSED: u32 = 0x1c84_9314;

/// The same of the form within.
const COOKIE: u32 = 0x1c84_9313;

/// Bytes of the form within before its counts.
const HEADER: usize = 40;

const BUCKETS: usize = SparseHistogram::BUCKETS;

/// Bytes of a number at most.
const NUMBER_MAX: usize = 9;

/// Bytes of the form within at most: a number for each bucket.
const INFLATED_MAX: usize = HEADER + BUCKETS * NUMBER_MAX;

/// Decodes entries, with one inflater and the same buffers for all.
pub(crate) struct PayloadReader {
    compressed: Vec<u8>,
    inflated: Box<[u8]>,
    inflater: Decompress,
}

impl PayloadReader {
    pub(crate) fn new() -> Self {
        // Once, of the largest size: no entry's own word decides how much memory is taken.
        let inflated = vec![0; INFLATED_MAX].into_boxed_slice();
        Self { compressed: Vec::new(), inflated, inflater: Decompress::new(true) }
    }

    /// The histogram of an entry; none for damage, and for one of other bounds than a record's.
    pub(crate) fn read(&mut self, text: &[u8]) -> Option<SparseHistogram> {
        self.compressed.clear();
        STANDARD.decode_vec(text, &mut self.compressed).ok()?;
        let mut outer = PayloadFields(&self.compressed);
        // Other versions of the form have other numbers; a record has but this one.
        if outer.u32()? != COOKIE_COMPRESSED {
            return None;
        }
        let length = outer.u32()?;
        let stream = outer.0.get(..usize::try_from(length).ok()?)?;
        // Into a buffer of the largest valid size: an entry that claims more ends here.
        self.inflater.reset(true);
        let status = self.inflater.decompress(stream, &mut self.inflated, FlushDecompress::Finish);
        if status.ok()? != Status::StreamEnd {
            return None;
        }
        let inflated = usize::try_from(self.inflater.total_out()).ok()?;
        histogram(self.inflated.get(..inflated)?)
    }
}

/// The form within.
fn histogram(bytes: &[u8]) -> Option<SparseHistogram> {
    let mut fields = PayloadFields(bytes);
    let is_known = fields.u32()? == COOKIE;
    let length = fields.u32()?;
    let layout = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?, fields.u64()?);
    // No shift, and values as they are.
    let ours = (0, SIGNIFICANT_DIGITS.into(), 1, LATENCY_NS_MAX, 1.0_f64.to_bits());
    if !is_known || layout != ours {
        return None;
    }
    counts(fields.0.get(..usize::try_from(length).ok()?)?)
}

fn counts(mut bytes: &[u8]) -> Option<SparseHistogram> {
    let mut histogram = SparseHistogram::default();
    let mut bucket = 0_usize;
    while !bytes.is_empty() {
        let (number, rest) = number(bytes)?;
        bytes = rest;
        let skipped = match u64::try_from(number) {
            Ok(count) => {
                if count > 0 && !histogram.push(bucket, count) {
                    return None;
                }
                1
            }
            Err(_) => usize::try_from(number.unsigned_abs()).ok()?,
        };
        // A damaged run of empty buckets may be longer than there are numbers.
        bucket = bucket.checked_add(skipped)?;
    }
    Some(histogram)
}

/// A number and what follows it.
fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (place, &byte) in bytes.iter().enumerate().take(NUMBER_MAX) {
        // The ninth byte has eight bits, and is the last.
        let is_last = byte < 0x80 || place == NUMBER_MAX - 1;
        let bits = if place == NUMBER_MAX - 1 { byte } else { byte & 0x7f };
        value |= u64::from(bits) << (7 * place);
        if is_last {
            return Some((zigzag(value), bytes.get(place + 1..)?));
        }
    }
    None
}

/// 0, −1, 1, −2, 2, … for 0, 1, 2, 3, 4, …
fn zigzag(value: u64) -> i64 {
    let half = (value >> 1).cast_signed();
    if value & 1 == 0 { half } else { !half }
}

/// The remaining big-endian fields.
struct PayloadFields<'b>(&'b [u8]);

impl PayloadFields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests;
