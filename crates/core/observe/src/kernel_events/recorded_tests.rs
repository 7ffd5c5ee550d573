//! Recorded sub-buffers (Linux 6.18, x86-64) beside the text of the same trace, and damaged ones.

use proptest::prelude::*;

use super::formats_tests::{all_formats, event, format_of, symbols};
use super::*;
use crate::tracefs::SubBuffer;

/// The functions of the stacks and workers below, and those behind them.
const KALLSYMS: &str = include_str!("fixtures/linux-6.18.kallsyms");

/// Recorded there: a write and an fsync of a file on ext4 on a loop device, by thread 10206, while
/// another program (`job 0`) wrote to the disk below. Requests are those of the loop device.
const EXT4: [&[u8]; 2] = [
    include_bytes!("fixtures/linux-6.18-ext4-journal.cpu0"),
    include_bytes!("fixtures/linux-6.18-ext4-journal.cpu1"),
];
const EXT4_TEXT: &[u8] = include_bytes!("fixtures/linux-6.18-ext4-journal.trace");

/// Recorded there: the same on XFS, by thread 10590.
const XFS: [&[u8]; 2] = [
    include_bytes!("fixtures/linux-6.18-xfs.cpu0"),
    include_bytes!("fixtures/linux-6.18-xfs.cpu1"),
];
const XFS_TEXT: &[u8] = include_bytes!("fixtures/linux-6.18-xfs.trace");

const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

/// The events of the sub-buffers of both processors, in the order of time.
fn recorded(buffers: [&[u8]; 2]) -> Vec<KernelEvent> {
    let layout = SubBuffer::parse(HEADER_PAGE).unwrap();
    let (formats, symbols) = (all_formats(), symbols(KALLSYMS));
    let mut events = Vec::new();
    for (processor, pages) in (0..).zip(buffers) {
        for page in pages.chunks(layout.size) {
            let first = events.len();
            layout
                .events(page, |event| {
                    let read = formats.read(event.at, processor, event.bytes, &symbols);
                    events.push(read.unwrap());
                })
                .unwrap();
            assert!(events[first].at >= layout.begin(page).unwrap());
            assert!(!layout.follows_loss(page));
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

#[test]
fn recorded_sub_buffers_give_what_the_text_of_the_same_trace_gives() {
    for (buffers, text, events) in [(EXT4, EXT4_TEXT, 224), (XFS, XFS_TEXT, 183)] {
        let from_text = parse_kernel_events(text);
        assert_eq!((from_text.unreadable, from_text.lost), (0, 0));
        let mut from_buffers = recorded(buffers);
        name_tasks(&mut from_buffers);
        for event in &mut from_buffers {
            event.at = (event.at + 500) / 1000 * 1000;
        }
        assert_eq!(from_buffers.len(), events);
        for (from_buffers, from_text) in from_buffers.iter().zip(&from_text.events) {
            assert_eq!(from_buffers, from_text);
        }
        assert_eq!(from_text.events.len(), events);
    }
}

#[test]
fn an_fsync_of_ext4_waits_for_its_data_and_for_the_journal() {
    let events = recorded(EXT4);
    let of_thread = |event: &&KernelEvent| event.task.id == 10206 && !event.in_interrupt;
    let stacks: Vec<&[String]> = events
        .iter()
        .filter(of_thread)
        .filter_map(|event| match &event.kind {
            KernelEventKind::Stack(functions) => Some(&functions[..]),
            _ => None,
        })
        .collect();
    let data = ["schedule", "io_schedule", "folio_wait_bit", "folio_wait_writeback"];
    assert_eq!(stacks[0][..4], data);
    let journal = ["schedule", "jbd2_log_wait_commit", "ext4_sync_file", "do_fsync"];
    assert_eq!(stacks[1][..4], journal);
    assert_eq!(stacks.len(), 2);
    let device = (7, 0);
    for (kind, times) in [
        (KernelEventKind::CallEntered { number: 74, fd: 4 }, 1),
        (KernelEventKind::JournalCommitBegan { device, transaction: 4 }, 1),
        (KernelEventKind::JournalCommitted { device, transaction: 4, handles: 3, blocks: 8 }, 1),
        (KernelEventKind::JournalCommitEnded { device, transaction: 4 }, 1),
        (KernelEventKind::WorkBegan { function: "ext4_end_io_rsv_work".into() }, 2),
        (KernelEventKind::CallLeft { number: 74, result: 0 }, 1),
    ] {
        let seen = events.iter().filter(|event| event.kind == kind).count();
        assert_eq!(seen, times, "{kind:?}");
    }
}

proptest! {
    #[test]
    fn a_damaged_sub_buffer_never_panics(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut page = EXT4[1][..4096].to_vec();
        for (place, byte) in places {
            let place = place.index(page.len());
            page[place] = byte;
        }
        page.truncate(cut.index(page.len()) + 1);
        let layout = SubBuffer::parse(HEADER_PAGE).unwrap();
        let (formats, symbols) = (all_formats(), symbols(KALLSYMS));
        let mut events = 0;
        layout.events(&page, |event| {
            events += formats.read(event.at, 0, event.bytes, &symbols).into_iter().count();
        });
        prop_assert!(events < 4096 / 4);
    }

    #[test]
    fn any_bytes_of_an_event_are_read_without_harm(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        format in any::<prop::sample::Index>(),
    ) {
        let event = KERNEL_EVENTS[format.index(KERNEL_EVENTS.len())];
        let text = format_of(event.name);
        let id = text.lines().find_map(|line| line.strip_prefix("ID: ")).unwrap();
        let id: u16 = id.parse().unwrap();
        let bytes = [&id.to_ne_bytes()[..], &bytes[..]].concat();
        let _ = all_formats().read(1, 0, &bytes, &KernelSymbols::default());
    }

    #[test]
    fn damaged_formats_are_refused_or_read(
        places in prop::collection::vec((any::<prop::sample::Index>(), "[0-9a-z;:\\[ ]"), 1..8),
    ) {
        let mut text: Vec<char> = format_of("sched/sched_switch").chars().collect();
        for (place, letter) in places {
            let place = place.index(text.len());
            text[place] = letter.chars().next().unwrap();
        }
        let mut formats = KernelEventFormats::default();
        if formats.add("sched/sched_switch", &text.iter().collect::<String>()) {
            let bytes = event(format_of("sched/sched_switch"), &[]);
            let _ = formats.read(1, 0, &bytes, &KernelSymbols::default());
        }
    }

    #[test]
    fn any_lines_of_symbols_are_read_without_harm(
        text in "[0-9a-f]{0,17} [tTD ]{0,2}[a-z.\\n]{0,8}",
        address in any::<u64>(),
    ) {
        prop_assert!(!symbols(&text).name(address).is_empty());
    }
}
