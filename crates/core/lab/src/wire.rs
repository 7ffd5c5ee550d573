//! The agreements of host and guest: names and paths, the guest's orders, and the frames that it sends over
//! one serial port.
//!
//! A frame is a kind (1 byte), the length of its content (4 bytes, little endian), and the content.
//! The host sends at most a single byte.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use durio_observe::LabFacts;
use serde::{Deserialize, Serialize};

/// The argument that makes a program a guest's first process.
pub const GUEST_COMMAND: &str = "lab-init";
/// The name of the port between guest and host.
pub(crate) const PORT_NAME: &str = "durio.lab";
/// The name of the port between guest and witness, which is the last part of its path.
pub(crate) const WITNESS_NAME: &str = "durio.witness";
/// QEMU's tag of the host's root, which a guest may share.
pub(crate) const ROOT_TAG: &str = "durio-root";
/// The guest's path of the program that is its first process.
pub(crate) const INIT_PATH: &str = "/usr/bin/durio";
/// The folder of the guest's orders.
pub(crate) const ORDERS: &str = "/lab";
/// The layer over a shared root.
pub(crate) const LAYER: &str = "/lab/layer";

/// Limit of a frame's content; a longer one means that the stream is not ours.
pub(crate) const CONTENT_BYTES_MAX: usize = 1 << 20;

/// The one byte that the host sends: end the command, as by Ctrl-C.
// ETX, which Ctrl-C is on a terminal.
pub(crate) const INTERRUPT: u8 = 3;

/// A message of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GuestFrame {
    /// The command is about to start.
    Ready,
    /// The command wrote this to its stdout.
    Stdout(Vec<u8>),
    /// The command wrote this to its stderr.
    Stderr(Vec<u8>),
    /// The next part of the archive to bring out.
    Archive(Vec<u8>),
    /// The command ended with this exit code; the last frame.
    Exit(u8),
    /// The guest failed before running the command, or could not finish; the last frame.
    Failed(String),
}

impl GuestFrame {
    fn kind(&self) -> u8 {
        match self {
            Self::Ready => 1,
            Self::Stdout(_) => 2,
            Self::Stderr(_) => 3,
            Self::Archive(_) => 4,
            Self::Exit(_) => 5,
            Self::Failed(_) => 6,
        }
    }

    fn content(&self) -> &[u8] {
        match self {
            Self::Ready => &[],
            Self::Stdout(bytes) | Self::Stderr(bytes) | Self::Archive(bytes) => bytes,
            Self::Exit(code) => std::slice::from_ref(code),
            Self::Failed(text) => text.as_bytes(),
        }
    }

    /// Writes the frame, in one call if the port takes it.
    ///
    /// # Errors
    /// Errors of the writer; content longer than [`CONTENT_BYTES_MAX`].
    pub(crate) fn write_to(&self, port: &mut impl Write) -> io::Result<()> {
        let content = self.content();
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "a frame that is too long");
        if content.len() > CONTENT_BYTES_MAX {
            return Err(too_long());
        }
        let length = u32::try_from(content.len()).map_err(|_| too_long())?;
        // In one piece: each call on the port waits for the host.
        let mut bytes = Vec::with_capacity(content.len() + 5);
        bytes.push(self.kind());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(content);
        port.write_all(&bytes)?;
        port.flush()
    }

    /// Reads the next frame; `None` at the end of the stream.
    ///
    /// # Errors
    /// A stream that ends within a frame, or that has an invalid frame.
    pub(crate) fn read_from(port: &mut impl Read) -> io::Result<Option<Self>> {
        let mut kind = [0];
        // A stream may end between two frames, but not within one.
        if port.read(&mut kind)? == 0 {
            return Ok(None);
        }
        let mut length = [0; 4];
        port.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        // Before memory is allocated: the guest is not trusted.
        if length > CONTENT_BYTES_MAX {
            return Err(not_ours("is longer than any frame"));
        }
        let mut content = vec![0; length];
        port.read_exact(&mut content)?;
        Self::of(kind[0], content).map(Some)
    }

    fn of(kind: u8, content: Vec<u8>) -> io::Result<Self> {
        Ok(match kind {
            1 => Self::Ready,
            2 => Self::Stdout(content),
            3 => Self::Stderr(content),
            4 => Self::Archive(content),
            5 => Self::Exit(*content.first().ok_or_else(|| not_ours("has no exit code"))?),
            6 => Self::Failed(String::from_utf8_lossy(&content).into_owned()),
            _ => return Err(not_ours("is of an unknown kind")),
        })
    }
}

fn not_ours(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the guest's message {why}"))
}

/// Where a command puts files to bring out.
pub(crate) const OUT_FOLDER: &str = "/run/durio/out";

/// The orders. Host and guest run the same program, so no other program depends on the format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// Modules to load first, in this order.
    pub(crate) modules: Vec<PathBuf>,
    /// The serial numbers of the disks that must exist before the command starts.
    pub(crate) disks: Vec<String>,
    /// There is a second port.
    pub(crate) has_witness: bool,
    /// The command and its arguments.
    pub(crate) command: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The working directory, if it exists. Not a path, which as JSON must be UTF-8.
    pub(crate) directory: OsString,
    /// The facts about the lab.
    pub(crate) facts: LabFacts,
    /// Send the contents of [`OUT_FOLDER`] at the end.
    pub(crate) brings_out: bool,
    /// The root is the host's, below a layer of memory.
    pub(crate) shares_root: bool,
}

impl Orders {
    pub(crate) const FILE: &'static str = "orders";

    pub(crate) fn to_text(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads them from the folder that the host put them into.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(folder.join(Self::FILE))?)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use durio_observe::LabTiming;
    use proptest::prelude::*;

    use super::*;

    fn every_kind() -> [GuestFrame; 6] {
        [
            GuestFrame::Ready,
            GuestFrame::Stdout(vec![0, 255, b'\n']),
            GuestFrame::Stderr(Vec::new()),
            GuestFrame::Archive(vec![7; 100_000]),
            GuestFrame::Exit(3),
            GuestFrame::Failed("no port".to_owned()),
        ]
    }

    #[test]
    fn frames_come_back_as_they_were_and_the_stream_ends() {
        let mut bytes = Vec::new();
        for frame in every_kind() {
            frame.write_to(&mut bytes).unwrap();
        }
        let mut stream = bytes.as_slice();
        for frame in every_kind() {
            assert_eq!(GuestFrame::read_from(&mut stream).unwrap(), Some(frame));
        }
        assert_eq!(GuestFrame::read_from(&mut stream).unwrap(), None);
    }

    #[test]
    fn a_stream_that_ends_within_a_frame_is_an_error() {
        let mut bytes = Vec::new();
        GuestFrame::Stdout(vec![1, 2, 3]).write_to(&mut bytes).unwrap();
        for length in 1..bytes.len() {
            assert!(GuestFrame::read_from(&mut &bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_length_without_bounds_is_an_error_and_asks_for_no_memory() {
        let error = GuestFrame::read_from(&mut [2, 255, 255, 255, 255].as_slice()).unwrap_err();
        assert!(error.to_string().contains("longer"), "{error}");
    }

    #[test]
    fn a_frame_has_a_mebibyte_at_most_for_who_writes_and_who_reads() {
        let (longest, mut bytes) = (GuestFrame::Stdout(vec![7; 1_048_576]), Vec::new());
        longest.write_to(&mut bytes).unwrap();
        assert_eq!(GuestFrame::read_from(&mut bytes.as_slice()).unwrap(), Some(longest));
        let longer = GuestFrame::Stdout(vec![7; 1_048_577]);
        assert!(longer.write_to(&mut Vec::new()).is_err());
        let head = [&[2][..], &1_048_577_u32.to_le_bytes(), &[7; 1_048_577]].concat();
        let error = GuestFrame::read_from(&mut head.as_slice()).unwrap_err();
        assert!(error.to_string().contains("longer than any frame"), "{error}");
    }

    #[test]
    fn an_interrupt_is_what_a_terminal_sends() {
        // ETX, which ^C gives on a terminal.
        assert_eq!(INTERRUPT, b'\x03');
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut stream = bytes.as_slice();
            while let Ok(Some(_)) = GuestFrame::read_from(&mut stream) {}
        }
    }

    fn text(bytes: &[u8]) -> OsString {
        OsString::from_vec(bytes.to_vec())
    }

    #[test]
    fn words_may_be_empty_and_have_any_bytes_and_a_value_an_equals_sign() {
        let facts = LabFacts {
            timing: LabTiming::Wall,
            accelerator: "tcg".into(),
            without_kvm: None,
            qemu_version: "7.2".into(),
            cpu_model: "Westmere".into(),
            icount_shift: None,
            root: "hermetic".into(),
        };
        let orders = Orders {
            modules: vec!["/lab/modules/x.ko".into()],
            disks: vec!["a-1".into()],
            has_witness: true,
            command: vec![text(b"a"), text(b""), text(b"\xff b")],
            environment: vec![(text(b"A"), text(b"b=c"))],
            directory: text(b"/home/\xe4"),
            facts,
            brings_out: true,
            shares_root: false,
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(Orders::FILE), orders.to_text().unwrap()).unwrap();
        assert_eq!(Orders::read(folder.path()).unwrap(), orders);
    }

    #[test]
    fn orders_that_are_missing_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Orders::read(folder.path()).is_err());
    }
}
