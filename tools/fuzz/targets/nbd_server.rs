//! What a client of the NBD server sends, after a first byte that says how far it is already.
#![no_main]

use std::io::{self, Read, Write};

use durio_nbd::{Command, Connection, Export, Request, Storage, serve_stream};

const SIZE: u64 = 40_000;

/// Ready answers to the greeting and options: none, an export, an export with all that there is.
const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"\0\0\0\x03",
    b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0",
    b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0\
      IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation\
      IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0",
];

/// Asserts that it is asked for nothing outside of itself.
struct Bounded(Export);

impl Storage for Bounded {
    fn export(&self) -> Export {
        self.0.clone()
    }

    fn connect(&self) -> Box<dyn Connection + '_> {
        Box::new(BoundedConnection(self))
    }
}

struct BoundedConnection<'s>(&'s Bounded);

impl BoundedConnection<'_> {
    fn check(&self, offset: u64, length: u64) {
        let min = u64::from(self.0.0.block_size_min);
        assert!(length > 0 && offset.is_multiple_of(min) && length.is_multiple_of(min));
        assert!(offset.checked_add(length).is_some_and(|end| end <= SIZE));
    }
}

impl Connection for BoundedConnection<'_> {
    fn carry_out(&mut self, batch: &mut [Request<'_>]) {
        for request in batch {
            match &request.command {
                Command::Flush => {}
                Command::Read { offset, into } => self.check(*offset, into.len() as u64),
                Command::Write { offset, data, .. } => self.check(*offset, data.len() as u64),
                Command::Trim { offset, length, .. }
                | Command::WriteZeroes { offset, length, .. } => self.check(*offset, *length),
            }
            request.outcome = Ok(());
        }
    }
}

struct Stream<'b>(&'b [u8]);

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let has = |bit: u8| first & (1 << bit) != 0;
    let storage = Bounded(Export {
        block_size_min: if has(2) { 512 } else { 1 },
        block_size_max: if has(3) { 4096 } else { 1 << 20 },
        flush: has(4),
        fua: has(5),
        trim: has(6),
        read_only: has(7),
        ..Export::new("", SIZE)
    });
    let words = [BEGINNINGS[usize::from(first & 3)], bytes].concat();
    let _ = serve_stream(&mut Stream(&words), &storage);
});
