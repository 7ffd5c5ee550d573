//! The bytes of the protocol: its constants, and how to encode and decode them.
//!
//! All numbers are big-endian. The protocol is `doc/proto.md` of github.com/NetworkBlockDevice/nbd.

use crate::{Export, Refusal};

/// "NBDMAGIC", the first word of a server.
pub(crate) const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT", before every option; the second word of a server of the new style.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every answer to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Flags of the handshake, the same in both directions.
pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
pub(crate) const NO_ZEROES: u16 = 1 << 1;

/// Zeros after the answer to [`option::EXPORT_NAME`] unless both sides omit them.
pub(crate) const EXPORT_NAME_ZEROES: usize = 124;

/// Options of the handshake.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of answers to options.
pub(crate) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    /// Set in all errors.
    pub(crate) const ERROR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERROR | 1;
    pub(crate) const ERR_INVALID: u32 = ERROR | 3;
    pub(crate) const ERR_UNKNOWN: u32 = ERROR | 6;
    pub(crate) const ERR_TOO_BIG: u32 = ERROR | 9;
}

/// Kinds of information on an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Properties of an export.
pub(crate) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DF: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
}

/// The flags of an export's properties.
pub(crate) fn flags_of(export: &Export) -> u16 {
    let flags = [
        (true, transmission::HAS_FLAGS),
        (export.read_only, transmission::READ_ONLY),
        (export.flush, transmission::FLUSH),
        (export.fua, transmission::FUA),
        (export.rotational, transmission::ROTATIONAL),
        (export.trim, transmission::TRIM),
        (export.write_zeroes, transmission::WRITE_ZEROES),
        (export.multi_conn, transmission::MULTI_CONN),
    ];
    flags.iter().filter(|(has, _)| *has).fold(0, |all, (_, flag)| all | flag)
}

pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    /// For a read: one chunk of data at most.
    pub(crate) const DF: u16 = 1 << 2;
    /// For a block status: one extent at most.
    pub(crate) const REQ_ONE: u16 = 1 << 3;
}

/// Chunks of structured replies.
pub(crate) mod chunk {
    /// The flag of the last one.
    pub(crate) const DONE: u16 = 1 << 0;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    /// Set in all errors.
    pub(crate) const IS_ERROR: u16 = 1 << 15;
    pub(crate) const ERROR: u16 = IS_ERROR | 1;
}

/// The one metadata context.
pub(crate) const ALLOCATION: &str = "base:allocation";
pub(crate) const STATE_HOLE: u32 = 1 << 0;
pub(crate) const STATE_ZERO: u32 = 1 << 1;

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// The client's identifier of the request, which its answer carries.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl RequestHead {
    pub(crate) const BYTES: usize = 28;

    /// Parses a head; `None` if it is invalid.
    pub(crate) fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut reader = WireReader(bytes);
        if reader.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }

    pub(crate) fn bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// Parses numbers from the beginning of some bytes; `None` at their end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WireReader<'b>(pub(crate) &'b [u8]);

impl<'b> WireReader<'b> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A text after its length.
    pub(crate) fn text(&mut self) -> Option<&'b [u8]> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).ok()?)
    }
}

/// The length of an object in memory, far below 4 GiB.
pub(crate) fn length_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// An option or an answer to one: its magic number and words, and the data after its length.
pub(crate) fn push_option(out: &mut Vec<u8>, magic: u64, words: &[u32], data: &[&[u8]]) {
    let length = data.iter().map(|part| part.len()).sum();
    out.extend(magic.to_be_bytes());
    words.iter().for_each(|word| out.extend(word.to_be_bytes()));
    out.extend(length_u32(length).to_be_bytes());
    data.iter().for_each(|part| out.extend(*part));
}

/// The head of an unstructured answer.
pub(crate) fn push_simple_reply(out: &mut Vec<u8>, error: u32, cookie: u64) {
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

/// The head of the only chunk of an answer.
pub(crate) fn push_chunk(out: &mut Vec<u8>, kind: u16, cookie: u64, length: u32) {
    out.extend(CHUNK_MAGIC.to_be_bytes());
    out.extend(chunk::DONE.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(length.to_be_bytes());
}

/// The protocol's number of an error, and a message to the client; EIO for errors that are never
/// sent.
pub(crate) fn number_and_words(refusal: Refusal) -> (u32, &'static str) {
    match refusal {
        Refusal::Permission => (1, "not permitted"),
        Refusal::Io | Refusal::Gone => (5, "the storage failed"),
        Refusal::Memory => (12, "no memory"),
        Refusal::Invalid => (22, "the storage does not support this request"),
        Refusal::NoSpace => (28, "no space"),
        Refusal::TooLong => (75, "too long"),
        Refusal::Unsupported => (95, "not supported"),
        Refusal::Shutdown => (108, "the server is ending"),
    }
}

/// The errno of the protocol's number of an error; EINVAL for unknown ones.
pub(crate) fn errno(number: u32) -> i32 {
    match number {
        1 => libc::EPERM,
        5 => libc::EIO,
        12 => libc::ENOMEM,
        28 => libc::ENOSPC,
        75 => libc::EOVERFLOW,
        95 => libc::EOPNOTSUPP,
        108 => libc::ESHUTDOWN,
        _ => libc::EINVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let head =
            RequestHead { flags: 1, command: 6, cookie: 7 << 40, offset: 1 << 50, length: 9 };
        assert_eq!(RequestHead::parse(&head.bytes()), Some(head));
        assert_eq!(RequestHead::parse(&[0; 28]), None);
    }

    #[test]
    fn what_ends_too_early_is_nothing() {
        assert_eq!(WireReader(&[0, 0, 0, 2, b'a']).text(), None);
        assert_eq!(WireReader(&[0, 0, 0, 1, b'a', b'b']).text(), Some(&b"a"[..]));
        assert_eq!(WireReader(&[0, 0, 0]).u32(), None);
    }

    #[test]
    fn each_error_has_the_number_of_the_protocol_and_an_errno_of_its_own() {
        for (refusal, number, expected) in [
            (Refusal::Permission, 1, libc::EPERM),
            (Refusal::Io, 5, libc::EIO),
            (Refusal::Gone, 5, libc::EIO),
            (Refusal::Memory, 12, libc::ENOMEM),
            (Refusal::Invalid, 22, libc::EINVAL),
            (Refusal::NoSpace, 28, libc::ENOSPC),
            (Refusal::TooLong, 75, libc::EOVERFLOW),
            (Refusal::Unsupported, 95, libc::EOPNOTSUPP),
            (Refusal::Shutdown, 108, libc::ESHUTDOWN),
        ] {
            assert_eq!((number_and_words(refusal).0, errno(number)), (number, expected));
        }
        assert_eq!([0, 2, 13, u32::MAX].map(errno), [libc::EINVAL; 4]);
    }
}
