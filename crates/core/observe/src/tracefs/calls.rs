//! Events of a capture: system calls that write and sync, requests to devices, and rings.
//!
//! Makes a [`CaptureEventKind`] of each event of a sub-buffer. The kernel's event of a call has
//! numbers: descriptor, length, offset, flags, and addresses that are passed over. These events
//! hold no byte of a user's data.

use super::binary::{EventFormat, TraceField};

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
    /// It returns.
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
    #[must_use]
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
                let number = u32::try_from(device.unsigned(event)?).ok()?;
                let bytes = bytes.unsigned(event)? * if sectors { 512 } else { 1 };
                let request = request(&flags.text(event)?, bytes)?;
                CaptureEventKind::Issued { device: (number >> 20, number & 0xf_ffff), request }
            }
            Self::Ring { opcode } => {
                CaptureEventKind::Ring { opcode: u8::try_from(opcode.unsigned(event)?).ok()? }
            }
        };
        Some(kind)
    }
}

fn low_half(word: u64) -> Option<i32> {
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
