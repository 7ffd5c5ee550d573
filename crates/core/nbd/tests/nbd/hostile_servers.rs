//! Arbitrary servers: whatever they answer, every operation ends, once, and nothing panics.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

use durio_block::{
    Buffers, Completion, Engine, MonotonicClock, Operation, OperationKind, Ticks, WriteFlags,
};
use durio_nbd::{NbdEngine, NbdError, Socket};
use proptest::prelude::*;

const SLOTS: u32 = 4;

/// What a good server says before requests, with structured replies or not.
fn handshake(has_structure: bool) -> Vec<u8> {
    let reply = |option: u32, kind: u32, data: &[u8]| {
        let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    bytes.extend(reply(8, if has_structure { 1 } else { (1 << 31) + 1 }, &[]));
    // 1 MiB, all flags.
    bytes.extend(reply(7, 3, &[0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0xff, 0xfd]));
    bytes.extend(reply(7, 1, &[]));
    bytes
}

/// An engine whose server says this and no more.
fn engine(words: &[u8]) -> Result<NbdEngine<MonotonicClock>, NbdError> {
    let (own, mut server) = UnixStream::pair().unwrap();
    // Far less than the socket holds.
    server.write_all(words).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    // It takes what is said, so that nobody sees a broken pipe before an answer.
    thread::spawn(move || server.read_to_end(&mut Vec::new()));
    let buffers = Buffers::new(SLOTS as usize, 4096);
    NbdEngine::over(Socket::from(own), "", MonotonicClock, buffers)
}

fn operations() -> Vec<Operation> {
    let kinds =
        [OperationKind::Read, OperationKind::Write, OperationKind::Read, OperationKind::Fdatasync];
    let operation = |(slot, kind): (u32, OperationKind)| Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot,
        length: if kind.is_transfer() { 4096 } else { 0 },
        offset: u64::from(slot) * 4096,
        intended_start: Ticks::default(),
    };
    (0..SLOTS).zip(kinds).map(operation).collect()
}

/// The results of operations by slot; each ends once.
fn results(mut engine: NbdEngine<MonotonicClock>) -> Vec<i32> {
    let mut found = vec![None; SLOTS as usize];
    let mut completions = [Completion::default(); 3];
    let mut count = engine.exchange(&operations(), &mut completions).unwrap();
    while count > 0 {
        for completion in &completions[..count] {
            let before = found[completion.slot as usize].replace(completion.result);
            assert_eq!(before, None, "slot {} ended twice", completion.slot);
        }
        count = engine.exchange(&[], &mut completions).unwrap();
    }
    found.into_iter().map(|result| result.unwrap()).collect()
}

/// The cookie of the n-th request of an engine.
fn cookie(slot: u64) -> u64 {
    (slot + 1) << 32 | slot
}

fn any_cookie() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..5_u64).prop_map(cookie), 1 => any::<u64>(), 1 => 0..5_u64]
}

fn any_reply() -> impl Strategy<Value = Vec<u8>> {
    let error = prop_oneof![3 => Just(0), 1 => Just(5), 1 => any::<u32>()];
    let simple = (error, any_cookie(), prop_oneof![Just(0), Just(4096), 0..5000_usize]).prop_map(
        |(error, cookie, length)| {
            let mut bytes = 0x6744_6698_u32.to_be_bytes().to_vec();
            bytes.extend(error.to_be_bytes());
            bytes.extend(cookie.to_be_bytes());
            bytes.extend(vec![1; length]);
            bytes
        },
    );
    let kind = prop_oneof![0..3_u16, Just(5), Just(0x8001), Just(0x8002), any::<u16>()];
    let payload = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..40),
        (0..5_u64, 0..5000_usize).prop_map(|(block, length)| {
            [(block * 2048).to_be_bytes().to_vec(), vec![2; length]].concat()
        }),
        (0..5_u64, 0..5000_u32).prop_map(|(block, length)| {
            [&(block * 2048).to_be_bytes()[..], &length.to_be_bytes()].concat()
        }),
    ];
    let chunk = (0..2_u16, kind, any_cookie(), payload, prop_oneof![9 => Just(0), 1 => 0..9_u32]);
    let chunk = chunk.prop_map(|(flags, kind, cookie, payload, more)| {
        let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend((u32::try_from(payload.len()).unwrap() + more).to_be_bytes());
        bytes.extend(payload);
        bytes
    });
    prop_oneof![4 => simple, 6 => chunk, 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_arbitrary_server_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(engine(&bytes).is_err());
        prop_assert!(engine(&[b"NBDMAGICIHAVEOPT\0\x03", &bytes[..]].concat()).is_err());
    }

    #[test]
    fn whatever_a_server_answers_every_operation_ends(
        has_structure: bool,
        replies in prop::collection::vec(any_reply(), 0..8),
    ) {
        let engine = engine(&[handshake(has_structure), replies.concat()].concat()).unwrap();
        for (slot, result) in results(engine).into_iter().enumerate() {
            let whole = if slot == 3 { 0 } else { 4096 };
            prop_assert!(result == whole || (-200..0).contains(&result), "slot {slot}: {result}");
        }
    }
}

/// A chunk of a structured answer.
fn part_of_answer(flags: u8, kind: u16, cookie: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = 0x668e_33ef_u32.to_be_bytes().to_vec();
    bytes.extend([0, flags]);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn an_answer_in_pieces_and_one_with_an_error_are_understood() {
    let chunk = |flags: u8, kind: u16, slot: u64, payload: &[u8]| {
        part_of_answer(flags, kind, cookie(slot), payload)
    };
    let data = |offset: u64, length: usize| [&offset.to_be_bytes()[..], &vec![7; length]].concat();
    let hole = [&1024_u64.to_be_bytes()[..], &1024_u32.to_be_bytes()].concat();
    let words = [
        handshake(true),
        chunk(0, 1, 0, &data(2048, 2048)),
        chunk(1, 0x8001, 1, &[0, 0, 0, 28, 0, 2, b'n', b'o']),
        chunk(0, 2, 0, &hole),
        chunk(1, 0, 3, &[]),
        chunk(0, 1, 0, &data(0, 1024)),
        chunk(1, 1, 2, &data(2 * 4096, 4095)),
        chunk(1, 0, 0, &[]),
    ];
    // The third is short by a byte: it ends with the connection, as does the first, which follows.
    let lost = -libc::ENOTCONN;
    let short = results(engine(&words.concat()).unwrap());
    assert_eq!(short, [lost, -libc::ENOSPC, lost, 0]);
    let mut whole = words;
    whole[6] = chunk(1, 1, 2, &data(2 * 4096, 4096));
    assert_eq!(results(engine(&whole.concat()).unwrap()), [4096, -libc::ENOSPC, 4096, 0]);
}

#[test]
fn holes_of_an_answer_are_zeros_wherever_they_are_in_a_slot_that_was_used_before() {
    let (own, mut server) = UnixStream::pair().unwrap();
    server.write_all(&handshake(true)).unwrap();
    let buffers = Buffers::new(1, 4096);
    let mut engine = NbdEngine::over(Socket::from(own), "", MonotonicClock, buffers).unwrap();
    let read = Operation { length: 3072, offset: 8192, ..operations()[0] };
    // The parts in the order of their arrival: the place in what is read, bytes, and true for a hole.
    let answers: [&[(usize, usize, bool)]; 6] = [
        &[(0, 1024, true), (1024, 2048, false)],
        &[(0, 1024, false), (1024, 512, true), (1536, 1536, false)],
        &[(0, 2048, false), (2048, 1024, true)],
        &[(0, 3072, true)],
        &[(3071, 1, true), (0, 1, true), (1, 3070, false)],
        &[(0, 1000, true), (1000, 1000, true), (2000, 1072, false)],
    ];
    for (number, parts) in (1_u64..).zip(answers) {
        engine.slot_mut(0).fill(0xaa);
        // What was not asked for stays.
        let mut expected = [0xaa_u8; 4096];
        let mut words = Vec::new();
        for (at, part) in (1..).zip(parts) {
            let &(begin, length, is_hole) = part;
            let place = (8192 + begin as u64).to_be_bytes();
            let rest = match is_hole {
                true => u32::try_from(length).unwrap().to_be_bytes().to_vec(),
                false => vec![7; length],
            };
            expected[begin..begin + length].fill(if is_hole { 0 } else { 7 });
            let (is_last, kind) = (u8::from(at == parts.len()), if is_hole { 2 } else { 1 });
            let payload = [&place[..], &rest].concat();
            words.extend(part_of_answer(is_last, kind, number << 32, &payload));
        }
        server.write_all(&words).unwrap();
        let mut completions = [Completion::default()];
        assert_eq!(engine.exchange(&[read], &mut completions).unwrap(), 1);
        assert_eq!(completions[0].result, 3072, "bytes");
        assert!(*engine.slot_mut(0) == expected, "{parts:?}");
    }
}

#[test]
fn a_late_answer_is_none_to_the_next_request_of_its_slot() {
    let (own, mut server) = UnixStream::pair().unwrap();
    server.write_all(&handshake(false)).unwrap();
    let buffers = Buffers::new(SLOTS as usize, 4096);
    let mut engine = NbdEngine::over(Socket::from(own), "", MonotonicClock, buffers).unwrap();
    let flush = Operation { slot: 0, ..operations()[3] };
    let mut answered = |cookie: u64| {
        let answer = [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0][..], &cookie.to_be_bytes()].concat();
        server.write_all(&answer).unwrap();
        let mut completions = [Completion::default()];
        assert_eq!(engine.exchange(&[flush], &mut completions).unwrap(), 1);
        completions[0].result
    };
    // The number of the request stands above that of its slot.
    assert_eq!((answered(1 << 32), answered(2 << 32)), (0, 0));
    assert_eq!(answered(2 << 32), -libc::ENOTCONN);
}

#[test]
fn a_server_of_another_kind_is_told_apart() {
    let cases: [(&[u8], &str); 4] = [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the server there does not speak NBD"),
        (b"NBDMAGIC\0\0\x42\x02\x81\x86\x12\x53", "the server speaks the old style of NBD"),
        (b"", "failed to fill whole buffer"),
        (b"NBDMAGICIHAVEOPT\0\x03GET / HTTP/1.1\r\n\r\n", "the server's answer does not match"),
    ];
    for (words, expected) in cases {
        let error = engine(words).unwrap_err();
        assert!(error.source.to_string().contains(expected), "{}", error.source);
    }
}
