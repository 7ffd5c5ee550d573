//! Events of a running capture, as data: from the runner (`durio-run`), which traces, to the
//! analyser (`durio-analyse`).

use serde::{Deserialize, Serialize};

use crate::tracefs::{DeviceRequest, TracedCall};

/// One thing that was seen. Calls come in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureEvent {
    /// A path is met for the first time; files have numbers from 0 in this order.
    File(CapturedFile),
    /// A descriptor is this file from now on.
    Opened {
        /// Process and descriptor; threads of a process share it.
        holder: (u32, i32),
        file: usize,
        /// Where the next write without an offset goes, if that is known.
        position: Option<u64>,
    },
    /// A thread enters a call.
    Entered {
        /// When it entered, in nanoseconds of the trace's clock.
        at: u64,
        task: u32,
        call: &'static TracedCall,
        /// The process, and the descriptor that the call names.
        holder: (u32, i32),
        /// The descriptor's file; none if it was gone before it could be looked at.
        file: Option<usize>,
        /// Where it writes, if the call says so.
        offset: Option<u64>,
        /// The write is durable by its own flags.
        durable: bool,
    },
    Left {
        at: u64,
        task: u32,
        call: &'static TracedCall,
        /// What it returned: bytes, or a negated errno.
        result: i64,
    },
    /// A device got a request, from any process.
    Issued {
        /// Its place among [`CaptureEnd::devices`].
        device: usize,
        request: DeviceRequest,
    },
    /// An operation was handed to a ring (io_uring).
    Ring {
        /// The number of IORING_OP.
        opcode: u8,
    },
}

/// A file that was written or synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedFile {
    /// Its path, as the kernel names it.
    pub path: String,
    /// The flags of open(2).
    #[serde(with = "flag_names")]
    pub flags: u32,
    /// Its size in bytes when first met; none if only operations on it are known.
    #[serde(rename = "size_bytes")]
    pub size: Option<u64>,
}

/// Flags of open(2) that decide how a write becomes durable, by their names. On Linux they
/// are the same on every machine that durio is built for but O_DIRECT.
pub(crate) const OPEN_FLAGS: [(&str, u32); 4] = [
    ("O_APPEND", 0o2000),
    // It has the bit of O_DSYNC, too.
    ("O_SYNC", 0o4_010_000),
    ("O_DSYNC", 0o10_000),
    (
        "O_DIRECT",
        if cfg!(any(target_arch = "arm", target_arch = "aarch64")) { 0o200_000 } else { 0o40_000 },
    ),
];

impl CapturedFile {
    /// True if it was opened with this flag, such as `O_DIRECT`; O_SYNC has O_DSYNC in it.
    pub fn has(&self, name: &str) -> bool {
        OPEN_FLAGS.iter().any(|(known, flag)| *known == name && self.flags & flag == *flag)
    }

    /// Names of the relevant flags that it was opened with.
    pub fn flag_names(&self) -> Vec<&'static str> {
        OPEN_FLAGS.iter().map(|flag| flag.0).filter(|name| self.has(name)).collect()
    }
}

/// Flags as names, for their numbers differ between machines.
mod flag_names {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::OPEN_FLAGS;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(flags: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        let has = |flag: &&(&str, u32)| flags & flag.1 == flag.1;
        serializer.collect_seq(OPEN_FLAGS.iter().filter(has).map(|flag| flag.0))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let of =
            |name: &str| OPEN_FLAGS.iter().find(|flag| flag.0 == name).map_or(0, |flag| flag.1);
        Ok(names.iter().fold(0, |all, name| all | of(name)))
    }
}

/// A device that is below the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedDevice {
    /// As the kernel names it.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// False for devices whose driver takes queued I/O as it is.
    pub has_requests: bool,
}

/// How often the watched processes called to write, as the kernel counts it without a trace: calls per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WriteCallRates {
    /// In the first half of the trace and in the second.
    pub halves: [f64; 2],
    pub after: f64,
}

/// How a capture went.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CaptureEnd {
    /// How long it watched, nanoseconds.
    pub duration_ns: u64,
    /// Processes that were watched, all together.
    pub processes: usize,
    /// The devices below the files.
    pub devices: Vec<CapturedDevice>,
    /// Why it ended before its time.
    pub ended_early: Option<String>,
    /// The user ended it.
    pub interrupted: bool,
    /// Events that were read, of calls and of devices.
    pub events: u64,
    /// Events of calls that the kernel could not keep.
    pub lost_calls: u64,
    /// Requests to devices that the kernel could not keep.
    pub lost_requests: u64,
    /// Processor time of the capturing process, nanoseconds.
    pub cpu_ns: u64,
    /// Write calls of the watched processes with and without a trace; none if they were not
    /// counted.
    pub write_calls: Option<WriteCallRates>,
    /// What the text of a tracer cannot show, in a sentence.
    pub not_shown: Option<String>,
    /// Bytes of each file at the end, by its number; none for files that are gone.
    pub sizes: Vec<Option<u64>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(flags: u32) -> CapturedFile {
        CapturedFile { path: "/d".to_owned(), flags, size: Some(5) }
    }

    #[test]
    fn o_sync_has_o_dsync_in_it_and_its_own_bit_alone_is_neither() {
        assert_eq!(file(0o2001).flag_names(), ["O_APPEND"]);
        assert_eq!(file(0o10_002).flag_names(), ["O_DSYNC"]);
        assert_eq!(file(0o4_010_000).flag_names(), ["O_SYNC", "O_DSYNC"]);
        assert_eq!(file(0o4_000_000).flag_names(), [""; 0]);
        let (_, direct) = OPEN_FLAGS[3];
        assert_eq!(file(direct | 0o2000).flag_names(), ["O_APPEND", "O_DIRECT"]);
        let has = |name| file(0o10_000).has(name);
        assert_eq!(
            ["O_DSYNC", "O_SYNC", "O_DIRECT", "O_EXCL"].map(has),
            [true, false, false, false]
        );
    }

    #[test]
    fn flags_are_saved_by_name_and_names_that_are_not_known_are_passed_over() {
        let saved = serde_json::to_value(file(0o4_012_001)).unwrap();
        let flags = ["O_APPEND", "O_SYNC", "O_DSYNC"];
        assert_eq!(saved, json!({ "path": "/d", "flags": flags, "size_bytes": 5 }));
        let newer = json!({ "path": "/d", "flags": ["O_DSYNC", "O_NEW"], "size_bytes": null });
        let read: CapturedFile = serde_json::from_value(newer).unwrap();
        assert_eq!((read.flags, read.size), (0o10_000, None));
    }
}
