//! The ring buffer of a trace as it is in memory: what `trace_pipe_raw` gives, a sub-buffer at a time.
//!
//! Takes the texts `events/header_page` and `events/*/*/format`, and gives the events of a
//! sub-buffer, each with its time, and fields by their names. `calls` knows the meaning of an
//! event.
//!
//! The place of a field differs between kernels and machines, so every place comes from the texts.
//! The head of an event, which they leave out, is fixed: a word of 5 and 27 bits
//! (include/linux/ring_buffer.h).

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FieldPlace {
    offset: usize,
    size: usize,
    is_signed: bool,
}

/// The layout of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// Its number in the buffer.
    pub id: u16,
    fields: Vec<(String, FieldPlace)>,
}

/// A field of an event, looked up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceField(FieldPlace);

impl EventFormat {
    /// Reads `events/SYSTEM/EVENT/format`; none if it is not of that form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }

    /// The field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<TraceField> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, place)| TraceField(*place))
    }
}

/// `field:unsigned int fd; offset:16; size:8; signed:0;`
fn field(line: &str) -> Option<(String, FieldPlace)> {
    let mut parts = line.trim().split(';').map(str::trim);
    let declared = parts.next()?.strip_prefix("field:")?.trim();
    let name = declared.rsplit([' ', '*']).next()?.split('[').next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let is_signed = number("signed:").is_some_and(|sign| sign == 1);
    Some((name.to_owned(), FieldPlace { offset, size, is_signed }))
}

impl TraceField {
    fn bytes(self, event: &[u8]) -> Option<&[u8]> {
        event.get(self.0.offset..self.0.offset.checked_add(self.0.size)?)
    }

    /// An unsigned number; of a signed one its bits.
    #[must_use]
    pub fn unsigned(self, event: &[u8]) -> Option<u64> {
        let number = match *self.bytes(event)? {
            [byte] => u64::from(byte),
            [a, b] => u64::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] if self.0.is_signed => {
                i64::from(i32::from_ne_bytes([a, b, c, d])).cast_unsigned()
            }
            [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            _ => return None,
        };
        Some(number)
    }

    /// A signed number.
    #[must_use]
    pub fn signed(self, event: &[u8]) -> Option<i64> {
        self.unsigned(event).map(u64::cast_signed)
    }

    /// Text of a fixed length, up to its first zero.
    #[must_use]
    pub fn text(self, event: &[u8]) -> Option<String> {
        let bytes = self.bytes(event)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The layout of a sub-buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubBuffer {
    commit: FieldPlace,
    data: usize,
    /// Bytes of a whole sub-buffer: the size of a read.
    pub size: usize,
}

/// An event of a sub-buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryEvent<'a> {
    /// On the clock of the trace.
    pub at: u64,
    /// Its fields, in places that its format names.
    pub bytes: &'a [u8],
}

/// More than any kernel's sub-buffer (buffer_subbuf_size_kb), so that a damaged text asks for no memory.
const SIZE_MAX: usize = 16 << 20;

/// The low bits of `commit` are a length, the highest say that events were lost before it.
const LENGTH_MASK: u64 = (1 << 27) - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a time-stamp event (TS_MSB in kernel/trace/ring_buffer.c); the rest is the page's.
const STAMP_BITS: u32 = 59;

impl SubBuffer {
    /// Reads `events/header_page`; none if it is not of that form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // `field: u64 timestamp;` has a space that an event's field has not.
        let fields: Vec<_> = text.lines().filter_map(field).collect();
        let place =
            |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, place)| *place);
        let (commit, data) = (place("commit")?, place("data")?);
        let size = data.offset.checked_add(data.size).filter(|size| *size <= SIZE_MAX)?;
        Some(Self { commit, data: data.offset, size })
    }

    /// Calls `take` with each event of a sub-buffer, in the order of time. Damage ends it.
    pub fn events<'a>(self, page: &'a [u8], mut take: impl FnMut(BinaryEvent<'a>)) -> Option<()> {
        let mut at = word64(page, 0)?;
        let length = TraceField(self.commit).unsigned(page)? & LENGTH_MASK;
        let end = self.data.checked_add(usize::try_from(length).ok()?)?;
        let data = page.get(self.data..end)?;
        let mut place = 0;
        while place < data.len() {
            let head = word(data, place)?;
            let (kind, delta) = split(head);
            let extra = || word(data, place + 4);
            let (payload, step) = match kind {
                PADDING if delta == 0 => return Some(()),
                PADDING => (None, usize::try_from(extra()?).ok()?.checked_add(4)?),
                TIME_EXTEND => {
                    at = at.wrapping_add(u64::from(extra()?) << 27);
                    (None, 8)
                }
                TIME_STAMP => {
                    let stamp = u64::from(extra()?) << 27 | u64::from(delta);
                    at = at >> STAMP_BITS << STAMP_BITS | stamp;
                    place += 8;
                    continue;
                }
                0 => {
                    let bytes = usize::try_from(extra()?).ok()?.checked_add(4)?;
                    (Some((place + 8, place.checked_add(bytes)?)), bytes)
                }
                words => {
                    let bytes = 4 * usize::try_from(words).ok()?;
                    (Some((place + 4, place + 4 + bytes)), bytes + 4)
                }
            };
            at = at.wrapping_add(u64::from(delta));
            if let Some((begin, end)) = payload {
                take(BinaryEvent { at, bytes: data.get(begin..end)? });
            }
            place = place.checked_add(step)?;
        }
        Some(())
    }
}

/// Kind (or length in words) and time since the event before: bit fields in the machine's order.
const fn split(head: u32) -> (u32, u32) {
    if cfg!(target_endian = "big") {
        (head >> 27, head & ((1 << 27) - 1))
    } else {
        (head & 31, head >> 5)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
}
