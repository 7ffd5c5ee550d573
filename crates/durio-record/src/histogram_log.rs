//! The standard HdrHistogram interval log (V2, compressed), entry by entry.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

/// Writes entries behind a header that every HdrHistogram library accepts.
pub(crate) struct HistogramLogWriter<W> {
    writer: W,
    serializer: V2DeflateSerializer,
}

impl<W: Write> HistogramLogWriter<W> {
    pub(crate) fn new(mut writer: W, started: Duration) -> io::Result<Self> {
        writeln!(writer, "#[Logged with durio; values are nanoseconds]")?;
        writeln!(writer, "#[Histogram log format version 1.3]")?;
        writeln!(writer, "#[StartTime: {:.3} (seconds since epoch)]", started.as_secs_f64())?;
        Ok(Self { writer, serializer: V2DeflateSerializer::new() })
    }

    /// Goes on with a log that has its header.
    pub(crate) fn resumed(writer: W) -> Self {
        Self { writer, serializer: V2DeflateSerializer::new() }
    }

    pub(crate) fn write(
        &mut self,
        tag: &str,
        start: Duration,
        length: Duration,
        histogram: &Histogram<u64>,
    ) -> io::Result<()> {
        let tag = Tag::new(tag);
        assert!(tag.is_some(), "a tag has no comma and no blank");
        // Without options the builder writes no header, so this adds exactly one line.
        IntervalLogWriterBuilder::new()
            .begin_log_with(&mut self.writer, &mut self.serializer)?
            .write_histogram(histogram, start, length, tag)
            .map_err(io::Error::other)
    }

    pub(crate) fn writer_mut(&mut self) -> &mut W {
        &mut self.writer
    }
}

/// Reads entries in the order in which they were written.
pub(crate) struct HistogramLogReader<R> {
    reader: R,
    line: Vec<u8>,
    deserializer: Deserializer,
}

impl<R: BufRead> HistogramLogReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), deserializer: Deserializer::new() }
    }

    /// The histogram of the next entry if it has this tag; `None` at the end of the log, at a torn
    /// line, and where the log does not have what the events refer to.
    pub(crate) fn next_tagged(&mut self, tag: &str) -> io::Result<Option<Histogram<u64>>> {
        loop {
            self.line.clear();
            if self.reader.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            let Some(Ok(entry)) = IntervalLogIterator::new(&self.line).next() else { continue };
            let LogEntry::Interval(interval) = entry else { continue };
            if interval.tag().map(|tag| tag.as_str()) != Some(tag) {
                continue;
            }
            return Ok(decode(&mut self.deserializer, interval.encoded_histogram()));
        }
    }
}

fn decode(deserializer: &mut Deserializer, text: &str) -> Option<Histogram<u64>> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    deserializer.deserialize(&mut bytes.as_slice()).ok()
}
