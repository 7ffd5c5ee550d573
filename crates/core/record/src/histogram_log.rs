//! The standard HdrHistogram interval log, entry by entry: each is a histogram in the V2 form,
//! compressed, in Base64.
//!
//! Entries that are not one of a record's histograms give nothing. The form is a cookie and a
//! length, then a zlib stream of a header of 40 bytes and counts, one after the other in LEB128 of
//! at most 9 bytes, zigzag; a negative number is a run of empty buckets (github.com/HdrHistogram:
//! AbstractHistogram, "V2 encoding").
//!
//! The crate's own reader makes a full histogram, and takes a damaged entry's word for how much
//! memory it needs; [`PayloadReader`] has buffers of a size that no entry of a record exceeds.

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

use crate::{LATENCY_NS_MAX, SIGNIFICANT_DIGITS, SparseHistogram};

/// Writes entries behind a header that every HdrHistogram library accepts.
pub(crate) struct HistogramLogWriter<W> {
    writer: W,
    serializer: V2DeflateSerializer,
    /// The form that the serializer takes, for one entry after the other.
    full: Histogram<u64>,
}

impl<W: Write> HistogramLogWriter<W> {
    pub(crate) fn new(mut writer: W, started: Duration) -> io::Result<Self> {
        writeln!(writer, "#[Logged with durio; values are nanoseconds]")?;
        writeln!(writer, "#[Histogram log format version 1.3]")?;
        writeln!(writer, "#[StartTime: {:.3} (seconds since epoch)]", started.as_secs_f64())?;
        Ok(Self::resumed(writer))
    }

    /// Continues a log that has its header.
    pub(crate) fn resumed(writer: W) -> Self {
        let full = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)
            .expect("constant bounds");
        Self { writer, serializer: V2DeflateSerializer::new(), full }
    }

    pub(crate) fn write(
        &mut self,
        tag: &str,
        start: Duration,
        length: Duration,
        histogram: &SparseHistogram,
    ) -> io::Result<()> {
        let tag = Tag::new(tag);
        assert!(tag.is_some(), "a tag has no comma and no blank");
        // One full histogram for all entries: a new one would be allocated for each.
        self.full.reset();
        for (lowest, _, count) in histogram.buckets() {
            self.full.saturating_record_n(lowest, count);
        }
        // Without options the builder writes no header, so this adds exactly one line.
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.writer, &mut self.serializer)?
            .write_histogram(&self.full, start, length, tag)
            .map_err(io::Error::other)
    }

    pub(crate) fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }
}

/// A histogram as the text of an entry, which [`PayloadReader`] reads.
pub fn payload_text(histogram: &SparseHistogram) -> Option<String> {
    let mut full = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).ok()?;
    for (lowest, _, count) in histogram.buckets() {
        full.saturating_record_n(lowest, count);
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&full, &mut bytes).ok()?;
    Some(STANDARD.encode(bytes))
}

/// The longest line that is read.
// An entry with a count in every bucket has 400 KiB.
const LINE_LENGTH_MAX: u64 = 1 << 20;

/// Reads entries in the order in which they were written.
pub(crate) struct HistogramLogReader<R> {
    reader: R,
    line: Vec<u8>,
    payload: PayloadReader,
}

impl<R: BufRead> HistogramLogReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), payload: PayloadReader::default() }
    }

    /// The histogram of the next entry if it has this tag; `None` at the end of the log, at a torn
    /// line, and where the log does not have what the events refer to.
    pub(crate) fn next_tagged(&mut self, tag: &str) -> io::Result<Option<SparseHistogram>> {
        loop {
            self.line.clear();
            let mut limited = Read::take(&mut self.reader, LINE_LENGTH_MAX);
            limited.read_until(b'\n', &mut self.line)?;
            // The end, a line left unfinished by a kill, or a line that is not from a record.
            let Some(line) = self.line.strip_suffix(b"\n") else { return Ok(None) };
            if let Some(text) = entry_tagged(line, tag) {
                return Ok(self.payload.read(text));
            }
        }
    }
}

/// The histogram's text in a line of that tag: tag, begin, length, maximum, histogram.
fn entry_tagged<'l>(line: &'l [u8], tag: &str) -> Option<&'l [u8]> {
    let line = line.strip_prefix(b"Tag=")?.strip_prefix(tag.as_bytes())?;
    let mut fields = line.strip_prefix(b",")?.splitn(4, |&byte| byte == b',');
    let numbers = [fields.next()?, fields.next()?, fields.next()?];
    let is_number =
        |field: &[u8]| std::str::from_utf8(field).is_ok_and(|number| number.parse::<f64>().is_ok());
    numbers.into_iter().all(is_number).then(|| fields.next())?
}

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
#[derive(Debug)]
pub struct PayloadReader {
    compressed: Vec<u8>,
    inflated: Box<[u8]>,
    inflater: Decompress,
}

impl Default for PayloadReader {
    fn default() -> Self {
        // Once, of the largest size: no entry's own word decides how much memory is taken.
        let inflated = vec![0; INFLATED_MAX].into_boxed_slice();
        Self { compressed: Vec::new(), inflated, inflater: Decompress::new(true) }
    }
}

impl PayloadReader {
    /// The histogram of an entry; none for damage, and for one of other bounds than a record's.
    pub fn read(&mut self, text: &[u8]) -> Option<SparseHistogram> {
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
