//! Requests, byte by byte: what is answered, what reaches the storage.

use durio_nbd::{
    Command, Connection, Export, MemoryStorage, NbdError, Refusal, Request, Storage, serve_stream,
};

use crate::storages::{Seen, Watched};
use crate::wire::{
    BLOCK_STATUS, CACHE, CLIENT_FLAGS, DISCONNECT, FLUSH, FUA, READ, Said, Script, TRIM, WRITE,
    WRITE_ZEROES, go, option, request, structured,
};

const SIZE: u64 = 1 << 20;

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// What a server says after the handshake to a client without structured replies.
fn answers(storage: &dyn Storage, requests: &[Vec<u8>]) -> (Vec<u8>, Result<(), NbdError>) {
    let mut script = Script::new(&[&CLIENT_FLAGS, &go(""), &requests.concat()]);
    let outcome = serve_stream(&mut script, storage);
    let mut said = Said(&script.output);
    said.greeting();
    said.option_replies(7);
    (said.0.to_vec(), outcome)
}

/// The errors of requests, in their order; none of them is a read that succeeds.
fn errors(export: Export, requests: &[Vec<u8>]) -> (Vec<u32>, Vec<Seen>) {
    let storage = Watched::new(export);
    let (output, outcome) = answers(&storage, requests);
    outcome.unwrap();
    let mut said = Said(&output);
    let errors = (0..requests.len()).map(|_| said.simple().0).collect();
    assert!(said.0.is_empty());
    (errors, storage.seen())
}

fn write(flags: u16, offset: u64, data: &[u8]) -> Vec<u8> {
    let head = request(flags, WRITE, 7, offset, u32::try_from(data.len()).unwrap());
    [head, data.to_vec()].concat()
}

#[test]
fn what_is_written_is_read_and_what_arrives_together_is_one_batch() {
    let storage = MemoryStorage::new(Export::new("", SIZE));
    let requests = [write(0, 3, b"abc"), request(0, READ, 8, 2, 5), request(0, FLUSH, 9, 0, 0)];
    let (output, outcome) = answers(&storage, &requests);
    outcome.unwrap();
    let mut said = Said(&output);
    assert_eq!((said.simple(), said.simple()), ((0, 7), (0, 8)));
    assert_eq!((said.bytes(5), said.simple()), (&b"\0abc\0"[..], (0, 9)));
    let watched = Watched::new(Export::new("", SIZE));
    answers(&watched, &requests).1.unwrap();
    let batch = [Seen::Write(3, 3, false), Seen::Read(2, 5), Seen::Flush];
    assert_eq!(watched.batches(), [batch]);
}

#[test]
fn a_batch_has_1024_requests_or_4_mib_at_most() {
    let batches = |requests: &[Vec<u8>]| {
        let watched = Watched::new(Export::new("", 64 << 20));
        answers(&watched, requests).1.unwrap();
        watched.batches().iter().map(Vec::len).collect::<Vec<_>>()
    };
    let flushes = |count| vec![request(0, FLUSH, 1, 0, 0); count];
    assert_eq!(batches(&flushes(1024)), [1024]);
    assert_eq!(batches(&flushes(1025)), [1024, 1]);
    // The one that reaches the bound is the last.
    let reads = |length| vec![request(0, READ, 1, 0, length); 5];
    assert_eq!(batches(&reads(1 << 20)), [4, 1]);
    assert_eq!(batches(&reads((1 << 20) - 1)), [5]);
}

#[test]
fn flags_reach_the_storage() {
    let requests = [
        write(FUA, 0, b"a"),
        request(FUA, TRIM, 1, 0, 4096),
        request(FUA | 2, WRITE_ZEROES, 1, 0, 4096),
        request(0, WRITE_ZEROES, 1, 0, 1 << 20),
        // Clients are known to do so.
        request(FUA, FLUSH, 1, 0, 0),
    ];
    let (errors, seen) = errors(Export::new("", SIZE), &requests);
    assert_eq!(errors, [0; 5]);
    let expected = [
        Seen::Write(0, 1, true),
        Seen::Trim(0, 4096, true),
        Seen::WriteZeroes(0, 4096, true, true),
        Seen::WriteZeroes(0, 1 << 20, false, false),
        Seen::Flush,
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_is_beyond_the_end_of_no_length_or_of_four_gibibytes_is_refused_and_nothing_is_lost() {
    let most = u32::MAX;
    let requests = [
        request(0, READ, 1, SIZE, 1),
        request(0, READ, 1, SIZE - 1, 2),
        request(0, READ, 1, u64::MAX, 1),
        request(0, READ, 1, 0, 0),
        request(0, READ, 1, 0, most),
        write(0, SIZE, b"a"),
        write(0, u64::MAX, b"a"),
        write(0, 0, b""),
        request(0, TRIM, 1, 1, most),
        request(0, TRIM, 1, 0, 0),
        request(0, WRITE_ZEROES, 1, SIZE - 4096, 4097),
        request(0, WRITE_ZEROES, 1, 0, most),
        request(0, FLUSH, 1, 0, 1),
        write(0, SIZE - 1, b"z"),
    ];
    let (errors, seen) = errors(Export::new("", SIZE), &requests);
    let expected = [
        EINVAL, EINVAL, EINVAL, EINVAL, EINVAL, ENOSPC, ENOSPC, EINVAL, EINVAL, EINVAL, ENOSPC,
        ENOSPC, EINVAL, 0,
    ];
    assert_eq!(errors, expected);
    assert_eq!(seen, [Seen::Write(SIZE - 1, 1, false)]);
}

#[test]
fn a_write_that_is_too_long_is_read_past_and_refused() {
    let export = Export { block_size_max: 1 << 16, ..Export::new("", SIZE) };
    let requests =
        [write(0, 0, &[1; 4096]), write(0, 0, &vec![2; 700_000]), write(0, 4096, &[3; 4096])];
    let (errors, seen) = errors(export, &requests);
    assert_eq!(errors, [0, EINVAL, 0]);
    assert_eq!(seen, [Seen::Write(0, 4096, false), Seen::Write(4096, 4096, false)]);
}

#[test]
fn what_the_export_does_not_have_is_refused() {
    let export = Export {
        flush: false,
        fua: false,
        trim: false,
        write_zeroes: false,
        block_size_min: 512,
        ..Export::new("", SIZE)
    };
    let requests = [
        request(0, FLUSH, 1, 0, 0),
        request(0, TRIM, 1, 0, 512),
        request(0, WRITE_ZEROES, 1, 0, 512),
        request(0, CACHE, 1, 0, 512),
        request(0, BLOCK_STATUS, 1, 0, 512),
        request(0, 77, 1, 0, 512),
        // Without structured replies there is nothing to split.
        request(4, READ, 1, 0, 512),
        write(FUA, 0, &[1; 512]),
        write(1 << 14, 0, &[1; 512]),
        write(0, 256, &[1; 512]),
        write(0, 512, &[1; 100]),
        write(0, 512, &[1; 512]),
    ];
    let (errors, seen) = errors(export, &requests);
    assert_eq!(errors, [&[EINVAL; 11][..], &[0]].concat());
    assert_eq!(seen, [Seen::Write(512, 512, false)]);
}

#[test]
fn nothing_is_written_to_what_is_read_only() {
    let export = Export { read_only: true, ..Export::new("", SIZE) };
    let requests =
        [write(0, 0, b"a"), request(0, TRIM, 1, 0, 1), request(0, WRITE_ZEROES, 1, 0, 1)];
    assert_eq!(errors(export, &requests), (vec![EPERM; 3], vec![]));
}

#[test]
fn the_storage_decides_what_is_answered_and_the_power_cut_answers_nothing() {
    let mut storage = Watched::new(Export::new("", SIZE));
    storage.of_writes = Err(Refusal::Io);
    let requests = [request(0, FLUSH, 1, 0, 0), write(0, 0, b"a"), request(0, FLUSH, 2, 0, 0)];
    let (output, _) = answers(&storage, &requests);
    let mut said = Said(&output);
    assert_eq!([said.simple(), said.simple(), said.simple()], [(0, 1), (EIO, 7), (0, 2)]);
    storage.of_writes = Err(Refusal::Gone);
    let (output, outcome) = answers(&storage, &requests);
    assert!(output.is_empty() && outcome.is_ok());
}

#[test]
fn what_was_asked_before_the_client_leaves_is_answered_and_nothing_after() {
    let storage = Watched::new(Export::new("", SIZE));
    let requests = [write(0, 0, b"a"), request(0, DISCONNECT, 0, 0, 0), write(0, 1, b"b")];
    let (output, outcome) = answers(&storage, &requests);
    assert_eq!((Said(&output).simple(), output.len()), ((0, 7), 16));
    assert!(outcome.is_ok());
    assert_eq!(storage.seen(), [Seen::Write(0, 1, false)]);
}

#[test]
fn what_follows_a_request_and_is_none_ends_the_connection_after_the_answer() {
    let storage = Watched::new(Export::new("", SIZE));
    let (output, outcome) = answers(&storage, &[write(0, 0, b"a"), vec![9; 28]]);
    assert!(output.len() == 16 && outcome.is_err());
    let (output, outcome) = answers(&storage, &[write(0, 0, b"a"), vec![0x25, 0x60]]);
    assert!(output.len() == 16 && outcome.is_err());
}

#[test]
fn structured_answers_say_in_words_what_was_wrong() {
    let storage = MemoryStorage::new(Export::new("", SIZE));
    let requests = [
        request(0, READ, 1, 0, 0),
        request(4, READ, 2, 4096, 3),
        request(0, READ, 3, SIZE, 1),
        request(0, DISCONNECT, 0, 0, 0),
    ];
    let words: [&[u8]; 4] = [&CLIENT_FLAGS, &structured(), &go(""), &requests.concat()];
    let mut script = Script::new(&words);
    serve_stream(&mut script, &storage).unwrap();
    let mut said = Said(&script.output);
    said.greeting();
    said.option_replies(8);
    said.option_replies(7);
    let zero = [&[0, 0, 0, 22, 0, 16][..], b"a length of zero"].concat();
    assert_eq!(said.chunk(), (1, 0x8001, 1, &zero[..]));
    assert_eq!(said.chunk(), (1, 1, 2, &[0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0][..]));
    let (_, _, cookie, payload) = said.chunk();
    assert_eq!((cookie, &payload[6..]), (3, &b"beyond the end of the export"[..]));
}

#[test]
fn a_block_status_tells_zeros_from_data() {
    let mut contents = vec![0; 16 * 4096];
    contents[2 * 4096] = 1;
    let storage = MemoryStorage::new(Export::new("", 0)).with_contents(contents);
    let query = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
    let requests = [
        request(0, BLOCK_STATUS, 1, 0, 16 * 4096),
        request(8, BLOCK_STATUS, 2, 8192, 4096),
        // The flag asks for the first extent alone.
        request(8, BLOCK_STATUS, 3, 4096, 12288),
        request(0, BLOCK_STATUS, 4, 4096, 12288),
    ];
    let words: [&[u8]; 5] =
        [&CLIENT_FLAGS, &structured(), &option(10, query), &go(""), &requests.concat()];
    let mut script = Script::new(&words);
    serve_stream(&mut script, &storage).unwrap();
    let mut said = Said(&script.output);
    said.greeting();
    said.option_replies(8);
    let (_, context) = said.option_reply(10);
    said.option_replies(10);
    said.option_replies(7);
    let extents: [[u32; 2]; 3] = [[8192, 3], [4096, 0], [13 * 4096, 3]];
    let mut expected = context[..4].to_vec();
    expected.extend(extents.iter().flatten().flat_map(|extent| extent.to_be_bytes()));
    assert_eq!(said.chunk(), (1, 5, 1, &expected[..]));
    let one = [&context[..4], &4096_u32.to_be_bytes(), &[0; 4]].concat();
    assert_eq!(said.chunk(), (1, 5, 2, &one[..]));
    let pages = |states: &[u32]| {
        let words = states.iter().flat_map(|state| [4096_u32, *state]);
        [context[..4].to_vec(), words.flat_map(u32::to_be_bytes).collect()].concat()
    };
    assert_eq!(said.chunk(), (1, 5, 3, &pages(&[3])[..]));
    assert_eq!(said.chunk(), (1, 5, 4, &pages(&[3, 0, 3])[..]));
}

/// Each block holds its own number; one cannot be read.
struct BadBlock(u64);

const BLOCK: u32 = 4096;

impl Storage for BadBlock {
    fn export(&self) -> Export {
        Export::new("", SIZE)
    }

    fn connect(&self) -> Box<dyn Connection + '_> {
        Box::new(BadBlockConnection(self.0))
    }
}

struct BadBlockConnection(u64);

impl Connection for BadBlockConnection {
    fn carry_out(&mut self, batch: &mut [Request<'_>]) {
        for request in batch {
            let Command::Read { offset, into } = &mut request.command else { continue };
            let block = *offset / u64::from(BLOCK);
            if block == self.0 {
                request.outcome = Err(Refusal::Io);
                continue;
            }
            into.fill(u8::try_from(block).unwrap());
            request.outcome = Ok(());
        }
    }
}

#[test]
fn one_read_of_a_batch_that_fails_takes_nothing_from_the_others() {
    let block = u64::from(BLOCK);
    let reads = [4, 5, 6].map(|number| request(0, READ, number, number * block, BLOCK));
    for bad in 4..7 {
        let (output, outcome) = answers(&BadBlock(bad), &reads);
        outcome.unwrap();
        let mut said = Said(&output);
        for number in 4..7_u8 {
            let cookie = u64::from(number);
            if cookie == bad {
                assert_eq!(said.simple(), (EIO, cookie));
                continue;
            }
            assert_eq!(said.simple(), (0, cookie), "with {bad}");
            assert_eq!(said.bytes(4096), [number; 4096], "with {bad}");
        }
        assert!(said.0.is_empty(), "with {bad}");
    }
}

#[test]
fn one_read_that_fails_is_an_error_chunk_between_those_with_data() {
    let block = u64::from(BLOCK);
    let reads = [4, 5, 6].map(|number| request(0, READ, number, number * block, BLOCK));
    let words: [&[u8]; 4] = [&CLIENT_FLAGS, &structured(), &go(""), &reads.concat()];
    let mut script = Script::new(&words);
    serve_stream(&mut script, &BadBlock(5)).unwrap();
    let mut said = Said(&script.output);
    said.greeting();
    said.option_replies(8);
    said.option_replies(7);
    for number in 4..7_u8 {
        let (flags, kind, cookie, payload) = said.chunk();
        assert_eq!((flags, cookie), (1, u64::from(number)));
        if number == 5 {
            // NBD_REPLY_TYPE_ERROR and its errno.
            assert_eq!((kind, &payload[..4]), (0x8001, &EIO.to_be_bytes()[..]));
            continue;
        }
        let offset = u64::from(number) * block;
        assert_eq!((kind, &payload[..8]), (1, &offset.to_be_bytes()[..]));
        assert_eq!(payload[8..], [number; 4096]);
    }
    assert!(said.0.is_empty());
}

#[test]
fn block_statuses_and_refused_requests_between_reads_take_no_outcome_of_theirs() {
    let block = u64::from(BLOCK);
    let query = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
    let requests = [
        request(0, BLOCK_STATUS, 1, 0, BLOCK),
        request(0, READ, 4, 4 * block, BLOCK),
        request(0, BLOCK_STATUS, 2, 8 * block, 3 * BLOCK),
        request(0, READ, 3, SIZE, BLOCK),
        request(0, READ, 5, 5 * block, BLOCK),
        request(0, READ, 6, 6 * block, BLOCK),
    ];
    let words: [&[u8]; 5] =
        [&CLIENT_FLAGS, &structured(), &option(10, query), &go(""), &requests.concat()];
    let mut script = Script::new(&words);
    serve_stream(&mut script, &BadBlock(5)).unwrap();
    let mut said = Said(&script.output);
    said.greeting();
    said.option_replies(8);
    said.option_replies(10);
    said.option_replies(7);
    let status = |said: &mut Said<'_>, expected: u64, length: u32| {
        let (_, kind, cookie, payload) = said.chunk();
        assert_eq!((kind, cookie, payload.len()), (5, expected, 12));
        // After the context's number: the length, and that it is data.
        assert_eq!(payload[4..], [length.to_be_bytes(), [0; 4]].concat());
    };
    let data = |said: &mut Said<'_>, number: u8| {
        let (_, kind, cookie, payload) = said.chunk();
        assert_eq!((kind, cookie), (1, u64::from(number)));
        assert_eq!(payload[8..], [number; 4096]);
    };
    let error = |said: &mut Said<'_>, expected: u64, errno: u32| {
        let (_, kind, cookie, payload) = said.chunk();
        assert_eq!((kind, cookie), (0x8001, expected));
        assert_eq!(payload[..4], errno.to_be_bytes());
    };
    status(&mut said, 1, BLOCK);
    data(&mut said, 4);
    status(&mut said, 2, 3 * BLOCK);
    error(&mut said, 3, EINVAL);
    error(&mut said, 5, EIO);
    data(&mut said, 6);
    assert!(said.0.is_empty());
}
