//! The reader against the crate's own, and against damage.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use proptest::prelude::*;

use super::*;
use crate::latency::lowest_of;
use crate::latency::tests::{full as of, sparse};

fn compressed(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
    bytes
}

fn inner(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).unwrap();
    bytes
}

fn wrapped(inner: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(inner).unwrap();
    let stream = encoder.finish().unwrap();
    let length = u32::try_from(stream.len()).unwrap();
    [&COOKIE_COMPRESSED.to_be_bytes()[..], &length.to_be_bytes(), &stream].concat()
}

fn read(bytes: &[u8]) -> Option<SparseHistogram> {
    PayloadReader::default().read(STANDARD.encode(bytes).as_bytes())
}

/// What is read at all is what the crate reads too.
fn agrees_if_read(bytes: &[u8]) {
    let Some(found) = read(bytes) else { return };
    let theirs: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
    assert_eq!(found, sparse(&theirs));
}

#[test]
fn the_smallest_and_the_largest_entry_are_read() {
    assert_eq!(read(&compressed(&of(&[]))).unwrap().count(), 0);
    // Counts of nine bytes in every bucket.
    let every: Vec<_> = (0..BUCKETS).map(|bucket| (lowest_of(bucket), 1 << 40)).collect();
    let read = read(&compressed(&of(&every))).unwrap();
    assert_eq!(read.count(), (BUCKETS as u64) << 40);
    assert_eq!(read.buckets().count(), BUCKETS);
}

#[test]
fn the_buffers_of_one_entry_leave_nothing_in_the_next() {
    let mut reader = PayloadReader::default();
    let entries = [of(&[(5, 1), (1 << 40, 3)]), of(&[(7, 2)]), of(&[])];
    for entry in &entries {
        let text = STANDARD.encode(compressed(entry));
        let read = reader.read(text.as_bytes()).unwrap();
        assert_eq!(read, sparse(entry));
        assert!(reader.read(&text.as_bytes()[..text.len() / 2]).is_none());
    }
}

#[test]
fn histograms_of_other_bounds_are_refused() {
    for (low, high, digits) in [(1, LATENCY_NS_MAX, 2), (1, 1 << 50, 3), (1000, LATENCY_NS_MAX, 3)]
    {
        let other = Histogram::new_with_bounds(low, high, digits).unwrap();
        assert!(read(&compressed(&other)).is_none(), "{low} to {high}, {digits} digits");
    }
}

#[test]
fn an_entry_that_promises_more_than_it_has_is_refused_without_the_memory_for_it() {
    let whole = inner(&of(&[(5, 1)]));
    let promise = [&whole[..4], &u32::MAX.to_be_bytes(), &whole[8..]].concat();
    assert!(read(&wrapped(&promise)).is_none());
    // A stream that inflates to more than any histogram has.
    let bomb = [&whole[..HEADER], &vec![0; INFLATED_MAX]].concat();
    assert!(read(&wrapped(&bomb)).is_none());
}

#[test]
fn runs_of_any_length_never_overflow() {
    let header = |counts: &[u8]| {
        let whole = inner(&of(&[]));
        let length = u32::try_from(counts.len()).unwrap().to_be_bytes();
        wrapped(&[&whole[..4], &length, &whole[8..HEADER], counts].concat())
    };
    // The longest run of empty buckets that can be written, 2⁶³, and a count behind it.
    let longest = [0xff; NUMBER_MAX];
    assert!(read(&header(&longest)).is_some());
    assert!(read(&header(&[&longest[..], &longest, &[2]].concat())).is_none());
    // The last bucket, and the one behind it.
    let run = |buckets: u64| {
        let zigzag = 2 * buckets - 1;
        let low = |shift: u64| u8::try_from((zigzag >> shift) & 0x7f).unwrap();
        [low(0) | 0x80, low(7) | 0x80, low(14), 2]
    };
    assert_eq!(read(&header(&run(BUCKETS as u64 - 1))).unwrap().count(), 1);
    assert!(read(&header(&run(BUCKETS as u64))).is_none());
    // A number that is torn.
    assert!(read(&header(&[0x80])).is_none());
}

#[test]
fn a_number_has_seven_bits_a_byte_and_eight_in_the_ninth() {
    let read = |bytes: &[u8]| number(bytes).map(|(value, rest)| (value, rest.len()));
    for (bytes, value, rest) in [
        (&[0][..], 0, 0),
        (&[1], -1, 0),
        (&[2], 1, 0),
        (&[0x7f], -64, 0),
        (&[0x80, 0x01], 64, 0),
        (&[0x80, 0x01, 0x00], 64, 1),
        (&[0xfe, 0xff, 0x7f], 0x000f_ffff, 0),
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], 1 << 55, 0),
        (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80], 1 << 62, 0),
        (&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], i64::MAX, 0),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x05], i64::MIN, 1),
    ] {
        assert_eq!(read(bytes), Some((value, rest)), "{bytes:x?}");
    }
    for bytes in [&[][..], &[0x80], &[0xff; 8]] {
        assert_eq!(read(bytes), None, "{bytes:x?}");
    }
    assert_eq!([0, 1, 2, 3, 4].map(zigzag), [0, -1, 1, -2, 2]);
    assert_eq!((HEADER, NUMBER_MAX, INFLATED_MAX), (40, 9, 304_168));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_the_crate_wrote_is_read_as_the_crate_reads_it(
        values in prop::collection::vec((0_u64..4_000_000_000_000, 1_u64..1 << 50), 0..60),
        small in prop::collection::vec((0_u64..5000, 1_u64..200), 0..60),
    ) {
        let histogram = of(&[values, small].concat());
        let bytes = compressed(&histogram);
        prop_assert_eq!(read(&bytes).unwrap(), sparse(&histogram));
        agrees_if_read(&bytes);
    }

    #[test]
    fn damage_never_panics_and_never_reads_as_something_else(
        values in prop::collection::vec((0_u64..4_000_000_000, 1_u64..1 << 20), 0..20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let histogram = of(&values);
        let (mut outer, mut within) =
            (compressed(&histogram), inner(&histogram));
        for (place, byte) in changes {
            let (outside, inside) = (place.index(outer.len()), place.index(within.len()));
            outer[outside] = byte;
            within[inside] = byte;
        }
        agrees_if_read(&outer);
        agrees_if_read(&wrapped(&within));
        agrees_if_read(&outer[..cut.index(outer.len())]);
        agrees_if_read(&wrapped(&within[..cut.index(within.len())]));
    }

    #[test]
    fn any_text_is_no_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
        PayloadReader::default().read(&text);
        agrees_if_read(&wrapped(&text));
    }
}
