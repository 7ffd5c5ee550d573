//! The ring buffer of a trace as it is in memory: what `trace_pipe_raw` gives, a sub-buffer at a time.
//!
//! Takes the texts `events/header_page` and `events/*/*/format`, and gives the events of a
//! sub-buffer, each with its time, and fields by their names.
//!
//! The place of a field differs between kernels and machines, so every place comes from the texts.
//! The head of an event, which they leave out, is fixed: a word of 5 and 27 bits
//! (include/linux/ring_buffer.h).
//!
//! [`CaptureFormats`] knows the events of a capture: system calls that write and sync, requests to
//! devices, and rings. Each becomes a [`CaptureEventKind`]. The kernel's event of a call has numbers: descriptor, length, offset, flags, and addresses that are passed over. These events
//! hold no byte of a user's data.

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FieldPlace {
    offset: usize,
    size: usize,
    is_signed: bool,
    content: FieldContent,
}

/// What the place of a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldContent {
    /// The field holds the value itself.
    Value,
    /// Place in the event (low half) and length (high half) of a value of varying length: `__data_loc`.
    Location,
    /// The same, counted from the end of this field: `__rel_loc`.
    RelativeLocation,
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
    pub fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
        Some(Self { id, fields: text.lines().filter_map(field).collect() })
    }

    /// The field of this name.
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
    let content = match declared.split(' ').next() {
        Some("__data_loc") => FieldContent::Location,
        Some("__rel_loc") => FieldContent::RelativeLocation,
        _ => FieldContent::Value,
    };
    Some((name.to_owned(), FieldPlace { offset, size, is_signed, content }))
}

impl TraceField {
    fn bytes(self, event: &[u8]) -> Option<&[u8]> {
        let end = self.0.offset.checked_add(self.0.size)?;
        let field = event.get(self.0.offset..end)?;
        let from = match self.0.content {
            FieldContent::Value => return Some(field),
            FieldContent::Location => 0,
            FieldContent::RelativeLocation => end,
        };
        let location = number(field, false)?;
        let begin = usize::try_from(location & 0xffff).ok()?.checked_add(from)?;
        let length = usize::try_from(location >> 16).ok()?;
        event.get(begin..begin.checked_add(length)?)
    }

    /// An unsigned number; of a signed one its bits.
    pub fn unsigned(self, event: &[u8]) -> Option<u64> {
        number(self.bytes(event)?, self.0.is_signed)
    }

    pub fn signed(self, event: &[u8]) -> Option<i64> {
        self.unsigned(event).map(u64::cast_signed)
    }

    /// The words of an array, to the end of the event: the kernel writes more of them than the format
    /// announces (stacks).
    pub(crate) fn words(self, event: &[u8]) -> impl Iterator<Item = u64> {
        let words = event.get(self.0.offset..).unwrap_or_default();
        words.chunks_exact(8).map_while(|word| number(word, false))
    }

    /// Major and minor number of a device, which the kernel keeps in one word (kdev_t.h).
    pub(crate) fn device(self, event: &[u8]) -> Option<(u32, u32)> {
        let number = u32::try_from(self.unsigned(event)?).ok()?;
        Some((number >> 20, number & 0xf_ffff))
    }

    /// Text up to its first zero.
    pub fn text(self, event: &[u8]) -> Option<String> {
        let bytes = self.bytes(event)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

fn number(bytes: &[u8], is_signed: bool) -> Option<u64> {
    let number = match *bytes {
        [byte] => u64::from(byte),
        [a, b] => u64::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] if is_signed => i64::from(i32::from_ne_bytes([a, b, c, d])).cast_unsigned(),
        [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    };
    Some(number)
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
/// The bit RB_MISSED_EVENTS of the length (kernel/trace/ring_buffer.c).
const LOST_BEFORE: u64 = 1 << 31;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a time-stamp event (TS_MSB in kernel/trace/ring_buffer.c); the rest is the page's.
const STAMP_BITS: u32 = 59;

impl SubBuffer {
    /// Reads `events/header_page`; none if it is not of that form.
    pub fn parse(text: &str) -> Option<Self> {
        // `field: u64 timestamp;` has a space that an event's field has not.
        let fields: Vec<_> = text.lines().filter_map(field).collect();
        let place =
            |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, place)| *place);
        let (commit, data) = (place("commit")?, place("data")?);
        let size = data.offset.checked_add(data.size).filter(|size| *size <= SIZE_MAX)?;
        Some(Self { commit, data: data.offset, size })
    }

    /// When a sub-buffer begins: no event of it is older.
    pub fn begin(self, page: &[u8]) -> Option<u64> {
        word64(page, 0)
    }

    /// True if the kernel lost events between the sub-buffer before this one and this one.
    pub fn follows_loss(self, page: &[u8]) -> bool {
        let commit = TraceField(self.commit).unsigned(page);
        commit.is_some_and(|commit| commit & LOST_BEFORE != 0)
    }

    /// Calls `take` with each event of a sub-buffer, in the order of time. Damage ends it.
    pub fn events<'a>(self, page: &'a [u8], mut take: impl FnMut(BinaryEvent<'a>)) -> Option<()> {
        let mut at = self.begin(page)?;
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

/// What a traced call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRole {
    /// It writes to a descriptor.
    Write,
    /// It makes earlier writes durable.
    Sync,
    /// It moves the position of a descriptor.
    Seek,
    /// It gives a new descriptor.
    Open,
    /// It gives a descriptor up.
    Close,
}

/// A system call that is traced.
#[derive(Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// As the kernel names its events.
    pub name: &'static str,
    pub role: CallRole,
}

const fn call(name: &'static str, role: CallRole) -> TracedCall {
    TracedCall { name, role }
}

/// Every call that is traced.
pub static TRACED_CALLS: [TracedCall; 14] = [
    call("write", CallRole::Write),
    call("pwrite64", CallRole::Write),
    call("writev", CallRole::Write),
    call("pwritev", CallRole::Write),
    call("pwritev2", CallRole::Write),
    call("fsync", CallRole::Sync),
    call("fdatasync", CallRole::Sync),
    call("sync_file_range", CallRole::Sync),
    call("lseek", CallRole::Seek),
    call("open", CallRole::Open),
    call("openat", CallRole::Open),
    call("openat2", CallRole::Open),
    call("creat", CallRole::Open),
    call("close", CallRole::Close),
];

/// The kernel's RWF_DSYNC and RWF_SYNC (include/uapi/linux/fs.h).
const RWF_DURABLE: u64 = 2 | 4;

/// A request, as its driver got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceRequest {
    /// It reads this many bytes.
    Read(u64),
    Write {
        bytes: u64,
        /// They are durable when it is done (FUA).
        fua: bool,
        /// They are a filesystem's own: journal, inodes.
        metadata: bool,
    },
    /// It empties the device's cache.
    Flush,
}

/// The contents of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureEventKind {
    /// The task enters a call.
    Entered {
        call: &'static TracedCall,
        /// The descriptor; of no meaning for calls that open.
        fd: i32,
        /// Where it writes, if the call says so.
        offset: Option<u64>,
        /// The write is durable by its own flags.
        durable: bool,
    },
    Left {
        call: &'static TracedCall,
        /// Bytes, a descriptor, or minus the number of an error.
        result: i64,
    },
    /// The driver of a device got a request.
    Issued {
        /// Major and minor number of the device.
        device: (u32, u32),
        request: DeviceRequest,
    },
    /// An operation was handed to a ring (io_uring): neither file nor size is in the event.
    Ring {
        /// The number of IORING_OP.
        opcode: u8,
    },
}

/// What reads events of one number.
#[derive(Debug, Clone, Copy)]
enum FieldReader {
    Entered {
        call: &'static TracedCall,
        fd: Option<TraceField>,
        offset: Option<TraceField>,
        flags: Option<TraceField>,
    },
    Left {
        call: &'static TracedCall,
        result: TraceField,
    },
    Issued {
        device: TraceField,
        bytes: TraceField,
        sectors: bool,
        flags: TraceField,
    },
    Ring {
        opcode: TraceField,
    },
}

/// The events of a capture, by the formats of this kernel.
#[derive(Debug, Default)]
pub struct CaptureFormats {
    readers: Vec<(u16, FieldReader)>,
    task: Option<TraceField>,
}

impl CaptureFormats {
    /// Takes the format of `SYSTEM/EVENT`; false if the event is not known here.
    pub fn add(&mut self, event: &str, text: &str) -> bool {
        let Some(format) = EventFormat::parse(text) else { return false };
        let Some(reader) = reader(event, &format) else { return false };
        self.task = self.task.or(format.field("common_pid"));
        self.readers.push((format.id, reader));
        true
    }

    /// The contents of an event, with the number of its task; none for events of other kinds.
    pub fn read(&self, event: &[u8]) -> Option<(u32, CaptureEventKind)> {
        let id = u16::from_ne_bytes(*event.first_chunk()?);
        let (_, reader) = self.readers.iter().find(|(known, _)| *known == id)?;
        let task = u32::try_from(self.task?.signed(event)?).ok()?;
        Some((task, reader.read(event)?))
    }
}

fn reader(event: &str, format: &EventFormat) -> Option<FieldReader> {
    let field = |name: &str| format.field(name);
    let of_call = |prefix: &str| {
        let name = event.strip_prefix("syscalls/")?.strip_prefix(prefix)?;
        TRACED_CALLS.iter().find(|call| call.name == name)
    };
    if let Some(call) = of_call("sys_enter_") {
        // An array of pointers comes with a position in two halves, of which a machine of 64 bits
        // uses the low one.
        let offset = match call.role {
            CallRole::Write => field("pos").or_else(|| field("pos_l")),
            _ => None,
        };
        let flags = (call.name == "pwritev2").then(|| field("flags")).flatten();
        return Some(FieldReader::Entered { call, fd: field("fd"), offset, flags });
    }
    if let Some(call) = of_call("sys_exit_") {
        return Some(FieldReader::Left { call, result: field("ret")? });
    }
    match event {
        "block/block_rq_issue" => {
            let (device, flags) = (field("dev")?, field("rwbs")?);
            Some(FieldReader::Issued { device, bytes: field("bytes")?, sectors: false, flags })
        }
        "block/block_bio_queue" => {
            let (device, flags) = (field("dev")?, field("rwbs")?);
            Some(FieldReader::Issued { device, bytes: field("nr_sector")?, sectors: true, flags })
        }
        "io_uring/io_uring_submit_req" | "io_uring/io_uring_submit_sqe" => {
            Some(FieldReader::Ring { opcode: field("opcode")? })
        }
        _ => None,
    }
}

impl FieldReader {
    fn read(self, event: &[u8]) -> Option<CaptureEventKind> {
        let kind = match self {
            Self::Entered { call, fd, offset, flags } => CaptureEventKind::Entered {
                call,
                // The kernel keeps an argument as a whole word, of which the low half is a descriptor.
                fd: fd.map_or(Some(-1), |field| low_half(field.unsigned(event)?))?,
                // Minus one means "at the position" in pwritev2.
                offset: offset
                    .and_then(|field| field.unsigned(event))
                    .filter(|offset| *offset != u64::MAX),
                durable: flags
                    .and_then(|field| field.unsigned(event))
                    .is_some_and(|flags| flags & RWF_DURABLE != 0),
            },
            Self::Left { call, result } => {
                CaptureEventKind::Left { call, result: result.signed(event)? }
            }
            Self::Issued { device, bytes, sectors, flags } => {
                let device = device.device(event)?;
                let bytes = bytes.unsigned(event)? * if sectors { 512 } else { 1 };
                let request = request(&flags.text(event)?, bytes)?;
                CaptureEventKind::Issued { device, request }
            }
            Self::Ring { opcode } => {
                CaptureEventKind::Ring { opcode: u8::try_from(opcode.unsigned(event)?).ok()? }
            }
        };
        Some(kind)
    }
}

/// A descriptor out of a whole word, as which the kernel keeps an argument of a call.
pub(crate) fn low_half(word: u64) -> Option<i32> {
    u32::try_from(word & u64::from(u32::MAX)).ok().map(u32::cast_signed)
}

/// The kernel's letters (blk_fill_rwbs): F before the operation is a flush, after it FUA.
pub(crate) fn request(flags: &str, bytes: u64) -> Option<DeviceRequest> {
    let operation = flags.trim_start_matches('F');
    match operation.chars().next() {
        Some('W') if bytes > 0 => Some(DeviceRequest::Write {
            bytes,
            fua: operation.contains('F'),
            metadata: operation.contains('M'),
        }),
        Some('R') => Some(DeviceRequest::Read(bytes)),
        _ if flags.starts_with('F') => Some(DeviceRequest::Flush),
        _ => None,
    }
}
