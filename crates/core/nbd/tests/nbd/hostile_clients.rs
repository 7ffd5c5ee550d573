//! Arbitrary clients: nothing that they send brings the server down or reaches outside of the export.

use durio_nbd::{Export, serve_stream};
use proptest::prelude::*;

use crate::storages::Watched;
use crate::wire::{CLIENT_FLAGS, Said, Script, WRITE, go, option, request, structured};

/// Neither a power of two nor the whole of anything.
const SIZE: u64 = 3 * 4096 * 5;

/// Numbers near those that mean something.
fn hostile_u64() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..2 * SIZE,
        (0..8_u64).prop_map(|n| n * 4096),
        (0..3_u64).prop_map(|n| SIZE - 1 + n),
        (0..3_u64).prop_map(|n| u64::MAX - n),
        (0..3_u64).prop_map(|n| (1 << 32) - 1 + n),
    ]
}

fn hostile_u32() -> impl Strategy<Value = u32> {
    let near = hostile_u64().prop_map(|number| u32::try_from(number & 0xffff_ffff).unwrap());
    prop_oneof![near, 0..9000_u32]
}

fn export() -> impl Strategy<Value = Export> {
    let min = prop_oneof![Just(1), Just(512), Just(4096)];
    (any::<[bool; 6]>(), min, prop_oneof![Just(4096), Just(32 << 20)]).prop_map(
        |([flush, fua, trim, write_zeroes, multi_conn, read_only], min, max)| Export {
            flush,
            fua,
            trim,
            write_zeroes,
            multi_conn,
            read_only,
            block_size_min: min,
            block_size_max: max,
            ..Export::new("disk", SIZE)
        },
    )
}

/// A request that is one, and its data if it has some.
fn any_request() -> impl Strategy<Value = (u64, Vec<u8>)> {
    let flags = prop_oneof![Just(0), Just(1), 0..32_u16, any::<u16>()];
    let command = prop_oneof![Just(0), Just(1), 3..8_u16, 9..1000_u16];
    (flags, command, any::<u64>(), hostile_u64(), hostile_u32()).prop_map(
        |(flags, command, cookie, offset, length)| {
            // What would take gigabytes to send is tested by hand.
            let length = if command == WRITE { length % 10_000 } else { length };
            let mut bytes = request(flags, command, cookie, offset, length);
            if command == WRITE {
                bytes.extend(vec![1; length as usize]);
            }
            (cookie, bytes)
        },
    )
}

/// Options that are none or half of one, between whole ones.
fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let number = prop_oneof![1..12_u32, any::<u32>()];
    prop_oneof![
        4 => (number, data).prop_map(|(number, data)| option(number, &data)),
        1 => Just(structured()),
        1 => Just(option(10, b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation")),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_bring_no_server_down(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
        let storage = Watched::new(Export::new("disk", SIZE));
        let _ = serve_stream(&mut Script::new(&[&bytes]), &storage);
        let _ = serve_stream(&mut Script::new(&[&CLIENT_FLAGS, &bytes]), &storage);
        let _ = serve_stream(&mut Script::new(&[&CLIENT_FLAGS, &go(""), &bytes]), &storage);
    }

    #[test]
    fn arbitrary_options_bring_no_server_down(
        export in export(),
        options in prop::collection::vec(any_option(), 0..8),
    ) {
        let words = [&CLIENT_FLAGS[..], &options.concat(), &go("disk")].concat();
        let _ = serve_stream(&mut Script::new(&[&words]), &Watched::new(export));
    }

    /// The storage asserts that it is asked for nothing that it may not be asked for.
    #[test]
    fn every_request_is_answered_once_and_none_reaches_outside_of_the_export(
        export in export(),
        has_structure: bool,
        requests in prop::collection::vec(any_request(), 1..20),
        cut in 0..40_usize,
    ) {
        let storage = Watched::new(export);
        let options = if has_structure { structured() } else { Vec::new() };
        let bytes: Vec<u8> = requests.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let words: [&[u8]; 4] = [&CLIENT_FLAGS, &options, &go("disk"), &bytes];
        let mut script = Script::new(&words);
        serve_stream(&mut script, &storage).unwrap();
        let mut said = Said(&script.output);
        said.greeting();
        if has_structure {
            said.option_replies(8);
        }
        said.option_replies(7);
        let mut cookies: Vec<u64> = requests.iter().map(|(cookie, _)| *cookie).collect();
        let reads = storage.seen().into_iter().filter_map(|seen| match seen {
            crate::storages::Seen::Read(_, length) => Some(length),
            _ => None,
        });
        let mut reads: Vec<u64> = reads.collect();
        let mut answered = answered(said.0, has_structure, &requests, &mut reads);
        cookies.sort_unstable();
        answered.sort_unstable();
        prop_assert_eq!(cookies, answered);
        // Half a request at the end is half a request.
        let cut = cut.min(bytes.len() - 1).max(1);
        let words: [&[u8]; 4] = [&CLIENT_FLAGS, &options, &go("disk"), &bytes[..cut]];
        let _ = serve_stream(&mut Script::new(&words), &storage);
    }
}

/// The cookies of all answers, each taken apart to its end.
fn answered(
    output: &[u8],
    has_structure: bool,
    requests: &[(u64, Vec<u8>)],
    reads: &mut Vec<u64>,
) -> Vec<u64> {
    let mut said = Said(output);
    let mut cookies = Vec::new();
    while !said.0.is_empty() {
        if has_structure && said.0[..4] == 0x668e_33ef_u32.to_be_bytes() {
            let (flags, _, cookie, _) = said.chunk();
            assert_eq!(flags, 1);
            cookies.push(cookie);
            continue;
        }
        let (error, cookie) = said.simple();
        let is_read =
            requests.iter().any(|(wanted, bytes)| *wanted == cookie && bytes[6..8] == [0, 0]);
        if is_read && error == 0 {
            assert!(!has_structure);
            said.bytes(usize::try_from(reads.remove(0)).unwrap());
        }
        cookies.push(cookie);
    }
    cookies
}
