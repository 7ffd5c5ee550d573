//! What a server of the NBD client answers, after a first byte that says how far it is already.
#![no_main]

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use durio_block::{
    Buffers, Completion, Engine, MonotonicClock, Operation, OperationKind, Ticks, WriteFlags,
};
use durio_nbd::{NbdEngine, Socket};

/// Ready words of a server: none, an export without structured replies, one with them.
const BEGINNINGS: [&[u8]; 3] = [
    b"",
    b"NBDMAGICIHAVEOPT\0\x03\
      \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x08\x80\0\0\x01\0\0\0\0\
      \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\0\xff\xff\0\x6d\
      \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0",
    b"NBDMAGICIHAVEOPT\0\x03\
      \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x08\0\0\0\x01\0\0\0\0\
      \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\0\xff\xff\0\x6d\
      \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0",
];

const KINDS: [OperationKind; 4] =
    [OperationKind::Read, OperationKind::Write, OperationKind::Fdatasync, OperationKind::Read];

fn operation(slot: u32) -> Operation {
    let kind = KINDS[slot as usize];
    Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length: if kind.is_transfer() { 64 } else { 0 },
        offset: u64::from(slot) * 64,
        intended_start: Ticks::default(),
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, bytes)) = bytes.split_first() else { return };
    let (own, mut server) = UnixStream::pair().expect("a pair of sockets");
    // At most 64 KiB, which the socket holds.
    server.write_all(BEGINNINGS[usize::from(first % 3)]).expect("room");
    server.write_all(bytes).expect("room");
    server.shutdown(Shutdown::Write).expect("an open socket");
    let buffers = Buffers::new(KINDS.len(), 64);
    let Ok(mut engine) = NbdEngine::over(Socket::from(own), "", MonotonicClock, buffers) else {
        return;
    };
    let operations: Vec<_> = (0..4).map(operation).collect();
    let mut completions = [Completion::default(); 3];
    let mut count = engine.exchange(&operations, &mut completions).expect("no error of its own");
    let mut in_flight = [true; KINDS.len()];
    while count > 0 {
        for completion in &completions[..count] {
            assert!(std::mem::take(&mut in_flight[completion.slot as usize]), "ended twice");
            assert!(completion.result <= 64);
        }
        count = engine.exchange(&[], &mut completions).expect("no error of its own");
    }
    assert_eq!(in_flight, [false; KINDS.len()]);
});
