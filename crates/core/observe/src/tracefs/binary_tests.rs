//! Sub-buffers and formats of a kernel (Linux 6.18, x86-64), and damaged ones.

use proptest::prelude::*;

use super::binary::{CaptureEventKind, CaptureFormats, DeviceRequest};
use super::binary::{EventFormat, SubBuffer};

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

fn pwrite() -> String {
    format!(
        "name: sys_enter_pwrite64\nID: 836\nformat:\n{COMMON}
\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * buf;\toffset:24;\tsize:8;\tsigned:0;
\tfield:size_t count;\toffset:32;\tsize:8;\tsigned:0;
\tfield:loff_t pos;\toffset:40;\tsize:8;\tsigned:0;
"
    )
}

fn issue() -> String {
    format!(
        "name: block_rq_issue\nID: 2104\nformat:\n{COMMON}
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;
\tfield:unsigned short ioprio;\toffset:32;\tsize:2;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
"
    )
}

/// The event of a pwrite64 of thread 77 to descriptor 5 at 8192.
fn a_write() -> Vec<u8> {
    let mut event = vec![0; 48];
    event[0..2].copy_from_slice(&836_u16.to_ne_bytes());
    event[4..8].copy_from_slice(&77_i32.to_ne_bytes());
    event[16..24].copy_from_slice(&5_u64.to_ne_bytes());
    event[32..40].copy_from_slice(&4096_u64.to_ne_bytes());
    event[40..48].copy_from_slice(&8192_u64.to_ne_bytes());
    event
}

fn a_request(flags: &str, bytes: u32) -> Vec<u8> {
    let mut event = vec![0; 44];
    event[0..2].copy_from_slice(&2104_u16.to_ne_bytes());
    event[8..12].copy_from_slice(&(254_u32 << 20 | 1).to_ne_bytes());
    event[28..32].copy_from_slice(&bytes.to_ne_bytes());
    event[34..34 + flags.len()].copy_from_slice(flags.as_bytes());
    event
}

fn head(kind: u32, delta: u32) -> [u8; 4] {
    (if cfg!(target_endian = "big") { kind << 27 | delta } else { kind | delta << 5 }).to_ne_bytes()
}

/// A sub-buffer that begins at `at` with this data; the highest bit of `commit` tells of lost events.
fn page(at: u64, data: &[u8]) -> Vec<u8> {
    let mut page = at.to_ne_bytes().to_vec();
    page.extend((data.len() as u64 | 1 << 31).to_ne_bytes());
    page.extend(data);
    page.resize(4096, 0);
    page
}

fn times(page: &[u8]) -> (Vec<(u64, usize)>, Option<()>) {
    let mut all = Vec::new();
    let layout = SubBuffer::parse(HEADER_PAGE).unwrap();
    let end = layout.events(page, |event| all.push((event.at, event.bytes.len())));
    (all, end)
}

#[test]
fn a_sub_buffer_gives_its_events_with_their_times() {
    let mut data = Vec::new();
    // Twelve words after ten units of time.
    data.extend(head(12, 10));
    data.extend(a_write());
    // A time that does not fit into 27 bits, and five more.
    data.extend(head(30, 5));
    data.extend(2_u32.to_ne_bytes());
    // A length of its own, which counts itself.
    data.extend(head(0, 1));
    data.extend(52_u32.to_ne_bytes());
    data.extend(a_write());
    // One that was discarded.
    data.extend(head(29, 3));
    data.extend(8_u32.to_ne_bytes());
    data.extend([0; 4]);
    // A time of its own.
    data.extend(head(31, 9));
    data.extend(1_u32.to_ne_bytes());
    data.extend(head(1, 0));
    data.extend([0; 4]);
    data.extend(head(29, 0));
    let (events, end) = times(&page(1000, &data));
    let stamped = (1 << 27) + 9;
    assert_eq!(events, [(1010, 48), (1016 + (2 << 27), 48), (stamped, 4)]);
    assert_eq!(end, Some(()));
}

#[test]
fn a_write_and_requests_are_read_by_the_formats_of_the_kernel() {
    let mut formats = CaptureFormats::default();
    assert!(formats.add("syscalls/sys_enter_pwrite64", &pwrite()));
    assert!(formats.add("block/block_rq_issue", &issue()));
    assert!(!formats.add("sched/sched_switch", &issue()), "nobody asked for it");
    let (task, kind) = formats.read(&a_write()).unwrap();
    let CaptureEventKind::Entered { call, fd, offset, durable } = kind else { panic!("{kind:?}") };
    assert_eq!((task, call.name, fd, offset, durable), (77, "pwrite64", 5, Some(8192), false));
    let of = |flags, bytes| match formats.read(&a_request(flags, bytes)) {
        Some((_, CaptureEventKind::Issued { device, request })) => {
            assert_eq!(device, (254, 1));
            Some(request)
        }
        _ => None,
    };
    let write = |fua, metadata| Some(DeviceRequest::Write { bytes: 4096, fua, metadata });
    assert_eq!(of("WS", 4096), write(false, false));
    assert_eq!(of("WFSM", 4096), write(true, true));
    assert_eq!(of("FWFS", 4096), write(true, false), "a flush that comes before is one of its own");
    assert_eq!(of("FF", 0), Some(DeviceRequest::Flush));
    assert_eq!(of("FWS", 0), Some(DeviceRequest::Flush), "queued, it is an empty write");
    assert_eq!(of("RA", 512), Some(DeviceRequest::Read(512)));
    assert_eq!(of("DS", 4096), None);
}

#[test]
fn what_is_no_format_is_refused() {
    assert_eq!(EventFormat::parse("nothing"), None);
    assert_eq!(SubBuffer::parse("nothing"), None);
    let huge = HEADER_PAGE.replace("4080", "99999999999");
    assert_eq!(SubBuffer::parse(&huge), None);
}

proptest! {
    #[test]
    fn a_damaged_sub_buffer_ends_and_never_panics(
        at in any::<u64>(),
        data in proptest::collection::vec(any::<u8>(), 0..512),
        cut in 0_usize..4096,
    ) {
        let whole = page(at, &data);
        times(&whole);
        times(&whole[..cut]);
        let mut formats = CaptureFormats::default();
        formats.add("syscalls/sys_enter_pwrite64", &pwrite());
        formats.add("block/block_rq_issue", &issue());
        let _ = formats.read(&data);
    }
}

#[test]
fn a_length_has_27_bits_and_a_sub_buffer_16_mib() {
    let mut data = head(12, 10).to_vec();
    data.extend(a_write());
    let mut page = page(1000, &data);
    for bit in 27..32 {
        page[8..16].copy_from_slice(&(data.len() as u64 | 1 << bit).to_ne_bytes());
        assert_eq!(times(&page), (vec![(1010, 48)], Some(())), "bit {bit}");
    }
    // Bit 26 belongs to it: the page is shorter.
    page[8..16].copy_from_slice(&(data.len() as u64 | 1 << 26).to_ne_bytes());
    assert_eq!(times(&page), (vec![], None));
    let sized = |size: usize| {
        let text = HEADER_PAGE.replace("size:4080", &format!("size:{size}"));
        SubBuffer::parse(&text).map(|buffer| buffer.size)
    };
    assert_eq!((sized(16_777_200), sized(16_777_201)), (Some(16_777_216), None));
}

#[test]
fn a_time_of_its_own_has_59_bits_and_the_page_has_those_above() {
    let mut data = head(31, 7).to_vec();
    data.extend(2_u32.to_ne_bytes());
    data.extend(head(1, 0));
    data.extend([0; 4]);
    let above = 0b10_1101_u64 << 58;
    let (events, _) = times(&page(above | 12_345, &data));
    // Bit 58 is the event's.
    assert_eq!(events, [((0b1_0110 << 59 | 2 << 27 | 7), 4)]);
}

#[test]
fn a_sub_buffer_says_when_it_begins_and_whether_events_were_lost_before_it() {
    let layout = SubBuffer::parse(HEADER_PAGE).unwrap();
    let mut page = page(1000, &head(29, 0));
    for (bits, is_lost) in [(0, false), (1 << 30, false), (1 << 31, true), (3 << 30, true)] {
        page[8..16].copy_from_slice(&(4_u64 | bits).to_ne_bytes());
        assert_eq!((layout.begin(&page), layout.follows_loss(&page)), (Some(1000), is_lost));
    }
    assert_eq!((layout.begin(&page[..7]), layout.follows_loss(&page[..15])), (None, false));
}
