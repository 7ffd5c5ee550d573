//! The table of a device-mapper volume: what each of its segments does, and on which devices.
//!
//! Reads a device number's table from the kernel, or the text that `dmsetup table` prints. What the
//! parameters of a target mean is in `durio-observe`.
//!
//! A table holds keys. Targets known to have no keys keep their parameters, others only selected
//! words: no key leaves this file.

use std::borrow::Cow;
use std::path::Path;

use rustix::ioctl::{Opcode, opcode};

use super::{ioctl, open_node};
use crate::BlockError;

/// Where the kernel takes the questions.
const CONTROL: &str = "/dev/mapper/control";

/// The version of the interface that every kernel since 2.6 answers to.
const VERSION: [u32; 3] = [4, 0, 0];

const FLAG_STATUS_TABLE: u32 = 1 << 4;
const FLAG_BUFFER_FULL: u32 = 1 << 8;
const FLAG_NO_FLUSH: u32 = 1 << 11;
const FLAG_SECURE_DATA: u32 = 1 << 15;

/// `struct dm_ioctl` of the kernel's linux/dm-ioctl.h.
#[repr(C)]
struct DmIoctlHeader {
    version: [u32; 3],
    data_size: u32,
    data_start: u32,
    target_count: u32,
    open_count: i32,
    flags: u32,
    event: u32,
    padding: u32,
    device: u64,
    name: [u8; 128],
    uuid: [u8; 129],
    data: [u8; 7],
}

/// The size of the header, as a test checks.
const HEADER_LEN: u32 = 312;

const TABLE_STATUS: Opcode = opcode::read_write::<DmIoctlHeader>(0xfd, 12);

/// Layout of `struct dm_target_spec`: start, length, status, offset of the next, target name.
const SPEC_LEN: usize = 40;
const SPEC_NEXT: usize = 20;
const SPEC_TYPE: usize = 24;

/// Room for some hundred segments; more do not fit, and are asked for with more room.
const BUFFER_LEN: usize = 16 << 10;
const BUFFER_LEN_MAX: usize = 1 << 20;

/// A segment of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmSegment {
    /// What it does: `linear`, `crypt`, `cache`.
    pub target: String,
    /// In sectors of 512 bytes.
    pub length_sectors: u64,
    /// The target's parameters, as the kernel writes them, with `-` for a possible key; none for an
    /// unknown target.
    pub parameters: Vec<String>,
}

/// The segments of a volume, in order.
pub type DmTable = Vec<DmSegment>;

/// Asks the kernel for the table of the volume with this number.
///
/// # Errors
/// If no volume has this number, or the process lacks CAP_SYS_ADMIN.
pub fn dm_table(major: u32, minor: u32) -> Result<DmTable, BlockError> {
    const OPERATION: &str = "query the table of a volume at";
    let path = Path::new(CONTROL);
    let control = open_node(OPERATION, path, false)?;
    let mut len = BUFFER_LEN;
    loop {
        let mut buffer = IoctlBuffer::new(len, major, minor);
        match buffer.ask(&control) {
            Ok(()) if buffer.is_full() && len < BUFFER_LEN_MAX => len *= 4,
            Ok(()) => return Ok(buffer.segments()),
            Err(errno) => return Err(BlockError::at(OPERATION, path, errno)),
        }
    }
}

/// Memory that is overwritten when it is let go: a table holds keys.
struct Secret<T: Default + Clone>(Vec<T>);

impl<T: Default + Clone> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.fill(T::default());
        // Otherwise the compiler sees that the filled memory is never read, and omits the fill.
        std::hint::black_box(&self.0);
    }
}

/// The header and room for the answer, aligned as the header is.
struct IoctlBuffer(Secret<u64>);

impl IoctlBuffer {
    fn new(len: usize, major: u32, minor: u32) -> Self {
        let mut buffer = Self(Secret(vec![0; len / 8]));
        let header = buffer.header();
        header.version = VERSION;
        header.data_size = u32::try_from(len).unwrap_or(u32::MAX);
        header.data_start = HEADER_LEN;
        // No flush: asking must not make a volume write. Secure data: the kernel wipes its copy of
        // the keys.
        header.flags = FLAG_STATUS_TABLE | FLAG_NO_FLUSH | FLAG_SECURE_DATA;
        header.device = device_number(major, minor);
        buffer
    }

    fn header(&mut self) -> &mut DmIoctlHeader {
        // Justification: header and answer are one piece of memory for the kernel.
        // SAFETY: the vector is at least `BUFFER_LEN` bytes long, aligned to 8 as the header is, and
        // every pattern of bits is a valid header, for it is made of numbers.
        unsafe { &mut *self.0.0.as_mut_ptr().cast::<DmIoctlHeader>() }
    }

    fn ask(&mut self, control: &std::fs::File) -> rustix::io::Result<()> {
        // SAFETY: the argument of DM_TABLE_STATUS is the header with as much room behind it as
        // `data_size` says, which is the length of the vector, to which no reference is in use. With the
        // flags that are set the call changes nothing.
        unsafe { ioctl(control, TABLE_STATUS, self.0.0.as_mut_ptr().cast()) }.map(drop)
    }

    fn is_full(&mut self) -> bool {
        self.header().flags & FLAG_BUFFER_FULL != 0
    }

    fn segments(&mut self) -> DmTable {
        let header = self.header();
        let (start, count) = (header.data_start as usize, header.target_count as usize);
        let bytes =
            Secret(self.0.0.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>());
        parse_answer(bytes.0.get(start..).unwrap_or_default(), count)
    }
}

/// As the kernel packs a device number for its interfaces (`new_encode_dev`).
fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}

fn parse_answer(data: &[u8], count: usize) -> DmTable {
    let mut segments = Vec::new();
    let mut place = 0;
    for _ in 0..count {
        let Some(spec) = data.get(place..).filter(|rest| rest.len() >= SPEC_LEN) else { break };
        let number = |at: usize| Some(u32::from_ne_bytes(spec.get(at..at + 4)?.try_into().ok()?));
        let length =
            spec.get(8..16).and_then(|length| length.try_into().ok()).map(u64::from_ne_bytes);
        let target = zero_ended(&spec[SPEC_TYPE..SPEC_LEN]);
        let parameters = zero_ended(&spec[SPEC_LEN..]);
        segments.push(segment(&target, length.unwrap_or_default(), &parameters));
        // Offsets are from the first one; one that does not lead on would lead round.
        match number(SPEC_NEXT).map(|next| next as usize) {
            Some(next) if next > place => place = next,
            _ => break,
        }
    }
    segments
}

fn zero_ended(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    // Borrowed: a copy, in which a key may be, would not be overwritten.
    String::from_utf8_lossy(&bytes[..end])
}

/// The table of the volume `name` in what `dmsetup table` prints: `name: start length target ...`
/// per line, one line per segment. Empty if the volume is not in it.
#[must_use]
pub fn parse_dm_table(text: &str, name: &str) -> DmTable {
    let of_volume = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    of_volume.filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<DmSegment> {
    let mut words = line.splitn(4, ' ');
    let (_start, length) = (words.next()?.parse::<u64>().ok()?, words.next()?.parse().ok()?);
    Some(segment(words.next()?, length, words.next().unwrap_or_default()))
}

/// Targets whose parameters hold no key. One that is not known may hold one.
const OPEN_TARGETS: &str = "linear striped raid mirror snapshot snapshot-origin snapshot-merge thin \
    thin-pool cache writecache clone delay flakey error zero multipath";

/// Stands for a key, which no record may hold.
const HIDDEN: &str = "-";

fn segment(target: &str, length_sectors: u64, parameters: &str) -> DmSegment {
    let words = parameters.split_whitespace();
    let parameters = match target {
        _ if OPEN_TARGETS.split_whitespace().any(|open| open == target) => {
            words.map(str::to_owned).collect()
        }
        // Cipher, key, offset of the vectors, device, start, options.
        "crypt" => {
            let shown = |(place, word): (usize, &str)| match place {
                1 => HIDDEN.to_owned(),
                _ => word.to_owned(),
            };
            words.enumerate().map(shown).collect()
        }
        // Names of keyed hashes and ciphers are followed by a colon and the key.
        "integrity" => words.map(without_key).collect(),
        _ => Vec::new(),
    };
    DmSegment { target: target.to_owned(), length_sectors, parameters }
}

/// `internal_hash:hmac(sha256):KEY` without its key; a device is major and minor.
fn without_key(word: &str) -> String {
    match word.match_indices(':').nth(1) {
        Some((place, _)) => format!("{}:{HIDDEN}", &word[..place]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(segment: &DmSegment) -> String {
        segment.parameters.join(" ")
    }

    #[test]
    fn the_header_has_the_size_that_the_kernel_expects() {
        assert_eq!(size_of::<DmIoctlHeader>(), HEADER_LEN as usize);
        assert_eq!(TABLE_STATUS, 0xc138_fd0c);
        assert_eq!(device_number(253, 1), 0xfd01);
        assert_eq!(device_number(253, 0x12345), 0x1230_fd45);
    }

    /// Flags and version are those of linux/dm-ioctl.h.
    #[test]
    fn a_volume_is_asked_for_its_table_without_a_flush_and_with_its_keys_wiped() {
        let mut buffer = IoctlBuffer::new(BUFFER_LEN, 253, 1);
        let header = buffer.header();
        assert_eq!((header.version, header.data_start), ([4, 0, 0], 312));
        assert_eq!((header.data_size, header.device), (16_384, 0xfd01));
        assert_eq!(header.flags, 1 << 4 | 1 << 11 | 1 << 15);
        for (flags, is_full) in [(1 << 4, false), (1 << 8, true), (1 << 9, false)] {
            buffer.header().flags = flags;
            assert_eq!(buffer.is_full(), is_full, "{flags:#x}");
        }
    }

    #[test]
    fn segments_are_read_from_the_text_of_dmsetup() {
        let text = "vg-a: 0 8192 linear 8:0 2048\nvg-a: 8192 64 striped 2 128 8:0 0 8:16 0\n\
                    vg-ab: 0 1 zero \nnonsense\nvg-a: x y z\n";
        let table = parse_dm_table(text, "vg-a");
        assert_eq!(table.len(), 2);
        assert_eq!((table[0].target.as_str(), table[0].length_sectors), ("linear", 8192));
        assert_eq!(words(&table[1]), "2 128 8:0 0 8:16 0");
        assert_eq!(parse_dm_table(text, "vg-ab")[0].parameters, Vec::<String>::new());
        assert!(parse_dm_table(text, "vg").is_empty());
    }

    #[test]
    fn no_key_is_kept() {
        let crypt = segment("crypt", 1, "aes-xts-plain64 c0ffee00 0 8:16 4096 1 allow_discards");
        assert_eq!(words(&crypt), "aes-xts-plain64 - 0 8:16 4096 1 allow_discards");
        let integrity = segment(
            "integrity",
            1,
            "8:0 0 32 J 2 internal_hash:hmac(sha256):c0ffee journal_crypt:ctr(aes):c0ffee",
        );
        assert_eq!(
            words(&integrity),
            "8:0 0 32 J 2 internal_hash:hmac(sha256):- journal_crypt:ctr(aes):-"
        );
        assert_eq!(words(&segment("verity", 1, "1 8:0 8:1 c0ffee")), "");
    }

    /// Made by hand from linux/dm-ioctl.h: one target after the other, each padded to 8 bytes.
    fn answer(segments: &[(&str, &str)]) -> Vec<u8> {
        let mut data = Vec::new();
        for (target, parameters) in segments {
            let begin = data.len();
            data.extend(0_u64.to_ne_bytes());
            data.extend(100_u64.to_ne_bytes());
            data.extend(0_u32.to_ne_bytes());
            data.extend(0_u32.to_ne_bytes());
            data.extend(target.bytes().chain(std::iter::repeat(0)).take(16));
            data.extend(parameters.bytes());
            data.resize((data.len() + 8) / 8 * 8, 0);
            let next = u32::try_from(data.len()).unwrap().to_ne_bytes();
            data[begin + 20..begin + 24].copy_from_slice(&next);
        }
        data
    }

    #[test]
    fn segments_are_read_from_the_kernels_answer() {
        let data = answer(&[("linear", "8:0 2048"), ("crypt", "aes k 0 8:0 0")]);
        let table = parse_answer(&data, 2);
        assert_eq!(table.len(), 2);
        assert_eq!(
            (words(&table[0]), words(&table[1])),
            ("8:0 2048".into(), "aes - 0 8:0 0".into())
        );
        assert_eq!(table[1].length_sectors, 100);
    }

    #[test]
    fn an_answer_that_ends_early_or_leads_round_ends() {
        let whole = answer(&[("linear", "8:0 2048"), ("striped", "2 128 8:0 0 8:16 0")]);
        for len in 0..whole.len() {
            assert!(parse_answer(&whole[..len], usize::MAX).len() <= 2);
        }
        let mut round = whole.clone();
        round[SPEC_NEXT..SPEC_NEXT + 4].fill(0);
        assert_eq!(parse_answer(&round, 1000).len(), 1);
    }
}
