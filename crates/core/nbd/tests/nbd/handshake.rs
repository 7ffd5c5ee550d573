//! The handshake, word by word.

use durio_nbd::{Export, MemoryStorage, NbdError, NbdErrorKind, serve_stream};

use crate::wire::{CLIENT_FLAGS, Said, Script, go, option, structured};

const SIZE: u64 = 1 << 20;

const ACK: u32 = 1;
const ERR_UNSUP: u32 = (1 << 31) + 1;
const ERR_INVALID: u32 = (1 << 31) + 3;
const ERR_UNKNOWN: u32 = (1 << 31) + 6;
const ERR_TOO_BIG: u32 = (1 << 31) + 9;

fn answers(words: &[&[u8]]) -> (Vec<u8>, Result<(), NbdError>) {
    let storage = MemoryStorage::new(Export::new("disk", SIZE));
    let mut script = Script::new(words);
    let outcome = serve_stream(&mut script, &storage);
    (script.output, outcome)
}

/// The kinds of all answers to one option, before the client leaves.
fn kinds(number: u32, data: &[u8]) -> Vec<u32> {
    let (output, outcome) = answers(&[&CLIENT_FLAGS, &option(number, data), &option(2, &[])]);
    let mut said = Said(&output);
    said.greeting();
    let kinds = said.option_replies(number);
    assert_eq!(said.option_replies(2), [ACK]);
    assert!(said.0.is_empty() && outcome.is_ok());
    kinds
}

#[test]
fn an_export_is_described_and_entered() {
    let asks = [&[0, 0, 0, 4][..], b"disk", &[0, 2, 0, 1, 0, 3]].concat();
    let (output, outcome) = answers(&[&CLIENT_FLAGS, &option(7, &asks)]);
    outcome.unwrap();
    let mut said = Said(&output);
    said.greeting();
    let (kind, data) = said.option_reply(7);
    let flags = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;
    let expected = [&[0, 0][..], &SIZE.to_be_bytes(), &u16::to_be_bytes(flags)].concat();
    assert_eq!((kind, data), (3, &expected[..]));
    assert_eq!(said.option_reply(7), (3, &b"\0\x01disk"[..]));
    let (_, sizes) = said.option_reply(7);
    assert_eq!(sizes, [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(said.option_reply(7), (ACK, &[][..]));
}

#[test]
fn reads_that_are_not_to_be_split_are_offered_with_structured_replies_alone() {
    let (output, _) = answers(&[&CLIENT_FLAGS, &go("")]);
    let flags = |output: &[u8], before: usize| {
        let mut said = Said(output);
        said.greeting();
        said.bytes(before);
        Said(&said.option_reply(7).1[10..]).u16()
    };
    assert_eq!(flags(&output, 0), 0x16d);
    let (output, _) = answers(&[&CLIENT_FLAGS, &structured(), &go("")]);
    // Behind the answer to the option of structured replies.
    assert_eq!(flags(&output, 20), 0x16d | 1 << 7);
}

#[test]
fn the_default_export_is_the_one_that_there_is() {
    let (output, outcome) = answers(&[&CLIENT_FLAGS, &go("")]);
    outcome.unwrap();
    let mut said = Said(&output);
    said.greeting();
    assert_eq!(said.option_replies(7), [3, 3, ACK]);
}

#[test]
fn an_export_by_its_name_alone_comes_with_zeros_unless_they_are_declined() {
    for (flags, zeros) in [(3, 0), (1, 124)] {
        let (output, outcome) = answers(&[&[0, 0, 0, flags], &option(1, b"disk")]);
        outcome.unwrap();
        let mut said = Said(&output);
        said.greeting();
        assert_eq!((said.u64(), said.u16() & 1), (SIZE, 1));
        assert_eq!(said.0, vec![0; zeros]);
    }
}

#[test]
fn an_export_that_does_not_exist_is_refused() {
    let name = [0, 0, 0, 3, b'a', b'b', b'c', 0, 0];
    assert_eq!(kinds(7, &name), [ERR_UNKNOWN]);
    assert_eq!(kinds(6, &name), [ERR_UNKNOWN]);
    // This option has no such answer.
    let (output, outcome) = answers(&[&CLIENT_FLAGS, &option(1, b"abc")]);
    assert_eq!((output.len(), outcome.unwrap_err().kind), (18, NbdErrorKind::Protocol));
}

#[test]
fn exports_are_listed() {
    assert_eq!(kinds(3, &[]), [2, ACK]);
    assert_eq!(kinds(3, &[0]), [ERR_INVALID]);
}

#[test]
fn tls_and_what_nobody_knows_are_refused_and_the_handshake_goes_on() {
    assert_eq!(kinds(5, &[]), [ERR_UNSUP]);
    assert_eq!(kinds(11, &[]), [ERR_UNSUP]);
    assert_eq!(kinds(0x7fff_ffff, &[1; 1000]), [ERR_UNSUP]);
}

#[test]
fn options_whose_lengths_do_not_fit_are_refused() {
    for data in
        [&[][..], &[0, 0, 0, 9], &[0, 0, 0, 0, 0, 2, 0, 0], &[0xff; 6], &[0, 0, 0, 0, 0, 0, 0]]
    {
        assert_eq!(kinds(7, data), [ERR_INVALID], "{data:?}");
    }
    assert_eq!(kinds(8, &[0]), [ERR_INVALID]);
    assert_eq!(kinds(7, &vec![0; 100_000]), [ERR_TOO_BIG]);
    let (_, outcome) = answers(&[&CLIENT_FLAGS, &option(7, &vec![0; 2 << 20])]);
    assert_eq!(outcome.unwrap_err().kind, NbdErrorKind::Protocol);
}

#[test]
fn an_option_has_64_kib_and_is_read_past_up_to_1_mib_and_there_are_64() {
    let unknown = |length: usize| kinds(0x7fff_ffff, &vec![0; length]);
    assert_eq!(unknown(65_536), [ERR_UNSUP]);
    assert_eq!((unknown(65_537), unknown(1_048_576)), (vec![ERR_TOO_BIG], vec![ERR_TOO_BIG]));
    let longer = answers(&[&CLIENT_FLAGS, &option(0x7fff_ffff, &vec![0; 1_048_577]), &go("")]);
    assert_eq!(longer.1.unwrap_err().kind, NbdErrorKind::Protocol);
    let with = |options| {
        let options = option(11, &[]).repeat(options);
        answers(&[&CLIENT_FLAGS, &options, &go("")]).1.map_err(|error| error.kind)
    };
    assert_eq!((with(63), with(64)), (Ok(()), Err(NbdErrorKind::Protocol)));
}

#[test]
fn metadata_contexts_need_structured_replies_and_are_then_found() {
    let ask = |query: &[u8]| {
        let length = u32::try_from(query.len()).unwrap().to_be_bytes();
        [&[0, 0, 0, 4][..], b"disk", &[0, 0, 0, 1], &length, query].concat()
    };
    assert_eq!(kinds(10, &ask(b"base:allocation")), [ERR_INVALID]);
    let cases = [
        (10, ask(b"base:allocation"), vec![4, ACK]),
        (10, ask(b"base:"), vec![ACK]),
        (9, ask(b"base:"), vec![4, ACK]),
        (9, ask(b"qemu:dirty"), vec![ACK]),
        (9, b"\0\0\0\0\0\0\0\0".to_vec(), vec![4, ACK]),
        (10, b"\0\0\0\0\0\0\0\0".to_vec(), vec![ACK]),
        (10, b"\0\0\0\0\xff\xff\xff\xff".to_vec(), vec![ERR_INVALID]),
        (9, b"\0\0\0\x01x\0\0\0\0".to_vec(), vec![ERR_UNKNOWN]),
    ];
    for (number, data, expected) in cases {
        let (output, _) = answers(&[&CLIENT_FLAGS, &structured(), &option(number, &data)]);
        let mut said = Said(&output);
        said.greeting();
        assert_eq!(said.option_replies(8), [ACK]);
        assert_eq!(said.option_replies(number), expected, "{data:?}");
    }
}

#[test]
fn a_client_that_speaks_something_else_is_left() {
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 4], &[0, 0, 0, 3, b'X'], &[0]] {
        assert!(answers(&[words, &[7; 100]]).1.is_err());
    }
    let endless = vec![option(3, &[]); 1000].concat();
    let (_, outcome) = answers(&[&CLIENT_FLAGS, &endless]);
    assert_eq!(outcome.unwrap_err().kind, NbdErrorKind::Protocol);
}
