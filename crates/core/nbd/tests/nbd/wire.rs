//! The protocol's bytes as the tests write and read them: written from doc/proto.md, not from the
//! crate's own.

use std::io::{self, Cursor, Read, Write};

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;

/// What a client answers to the greeting: fixed newstyle, no zeros.
pub(crate) const CLIENT_FLAGS: [u8; 4] = [0, 0, 0, 3];

pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [b"IHAVEOPT", &number.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
}

/// NBD_OPT_GO for an export without information that is asked for.
pub(crate) fn go(name: &str) -> Vec<u8> {
    let length = u32::try_from(name.len()).unwrap().to_be_bytes();
    option(7, &[&length, name.as_bytes(), &[0, 0]].concat())
}

pub(crate) fn structured() -> Vec<u8> {
    option(8, &[])
}

pub(crate) fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// A client whose words are known beforehand, as a stream.
#[derive(Debug)]
pub(crate) struct Script {
    input: Cursor<Vec<u8>>,
    pub(crate) output: Vec<u8>,
}

impl Script {
    pub(crate) fn new(words: &[&[u8]]) -> Self {
        Self { input: Cursor::new(words.concat()), output: Vec::new() }
    }
}

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes what a server said apart.
pub(crate) struct Said<'b>(pub(crate) &'b [u8]);

impl<'b> Said<'b> {
    pub(crate) fn bytes(&mut self, count: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes(2).try_into().unwrap())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes(4).try_into().unwrap())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes(8).try_into().unwrap())
    }

    pub(crate) fn greeting(&mut self) {
        assert_eq!(self.bytes(18), b"NBDMAGICIHAVEOPT\0\x03");
    }

    /// An answer to an option: its kind and data.
    pub(crate) fn option_reply(&mut self, option: u32) -> (u32, &'b [u8]) {
        assert_eq!((self.u64(), self.u32()), (0x0003_e889_0455_65a9, option));
        let (kind, length) = (self.u32(), self.u32());
        (kind, self.bytes(length as usize))
    }

    /// All answers to an option up to the last: their kinds.
    pub(crate) fn option_replies(&mut self, option: u32) -> Vec<u32> {
        let mut kinds = Vec::new();
        while kinds.last().is_none_or(|&kind| (2..1 << 31).contains(&kind)) {
            kinds.push(self.option_reply(option).0);
        }
        kinds
    }

    /// An answer without structure: its error and cookie.
    pub(crate) fn simple(&mut self) -> (u32, u64) {
        assert_eq!(self.u32(), 0x6744_6698);
        (self.u32(), self.u64())
    }

    /// A chunk: its flags, kind, cookie and payload.
    pub(crate) fn chunk(&mut self) -> (u16, u16, u64, &'b [u8]) {
        assert_eq!(self.u32(), 0x668e_33ef);
        let (flags, kind, cookie, length) = (self.u16(), self.u16(), self.u64(), self.u32());
        (flags, kind, cookie, self.bytes(length as usize))
    }
}
