//! The standard HdrHistogram interval log (V2, compressed), entry by entry.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::payload::PayloadReader;
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
        Self { reader, line: Vec::new(), payload: PayloadReader::new() }
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
