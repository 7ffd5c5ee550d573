//! What a reader finds of a capture.

use durio_analyse::capture::{Capture, CaptureFindings, CaptureSource};
use durio_observe::{
    CaptureEnd, CaptureEvent, CapturedDevice, CapturedFile, DeviceRequest, TRACED_CALLS,
};
use durio_report::{Format, Options, write};

/// Writes of these sizes to one log, each as often as it is told; the same requests to the device.
fn capture_of(sizes: &[(u64, u64)]) -> CaptureFindings {
    let call = TRACED_CALLS.iter().find(|call| call.name == "pwrite64").unwrap();
    let mut capture = Capture::default();
    let path = "/d/log".to_owned();
    capture.take(CaptureEvent::File(CapturedFile { path, flags: 0, size: Some(0) }));
    let (mut at, mut offset) = (0, 0);
    for &(bytes, count) in sizes {
        for _ in 0..count {
            let (holder, file, durable) = ((7, 5), Some(0), false);
            let (task, offset_of) = (7, Some(offset));
            capture.take(CaptureEvent::Entered {
                at,
                task,
                call,
                holder,
                file,
                offset: offset_of,
                durable,
            });
            let result = i64::try_from(bytes).unwrap();
            capture.take(CaptureEvent::Left { at: at + 1000, task, call, result });
            let request = DeviceRequest::Write { bytes, fua: false, metadata: false };
            capture.take(CaptureEvent::Issued { device: 0, request });
            (at, offset) = (at + 2000, offset + bytes);
        }
    }
    let device = CapturedDevice { name: "sdx".to_owned(), number: (8, 0), has_requests: true };
    let end = CaptureEnd {
        duration_ns: 1_000_000_000,
        processes: 1,
        devices: vec![device],
        sizes: vec![Some(offset)],
        ..CaptureEnd::default()
    };
    capture.finish(&end, CaptureSource::default())
}

fn written(format: Format, findings: &CaptureFindings) -> String {
    let mut out = Vec::new();
    write(format, findings, &Options { verbose: true, ..Options::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_sizes_of_a_cell_are_shares_of_all_writes_in_every_format() {
    let findings = capture_of(&[(512, 1), (4096, 1), (8192, 1), (16384, 1)]);
    for format in [Format::Text, Format::Markdown, Format::Html] {
        let text = written(format, &findings);
        // A page has itself as Markdown at its end.
        let text = text.split("id=\"markdown\"").next().unwrap();
        let (cell, rest) = ("512 B 25.0 %, 4k 25.0 %, 2", "more 50.0 %");
        // Once for the file, once for the device; in a text the first takes two lines.
        assert_eq!(text.matches(cell).count(), 2, "{format}: {text}");
        assert_eq!(text.matches(rest).count(), 2, "{format}: {text}");
        let mix = "512 B 25.0 %, 4k 25.0 %, 8k 25.0 %, 16k 25.0 %";
        // In the summary, and in the file's own section.
        assert_eq!(text.matches(mix).count(), 2, "{format}: {text}");
    }
}

#[test]
fn what_is_not_named_of_a_mix_has_its_share() {
    let findings = capture_of(&[(4096, 5), (8192, 2), (512, 1), (1024, 1), (16384, 1)]);
    let text = written(Format::Text, &findings);
    assert!(text.contains("4k 50.0 %, 8k 20.0 %, 3 more 30.0 %"), "{text}");
    let mix = "4k 50.0 %, 8k 20.0 %, 512 B 10.0 %, 1k 10.0 %, 1 more 10.0 %";
    assert!(text.contains(mix), "{text}");
}

#[test]
fn the_bars_of_sizes_end_with_the_share_of_those_without_one() {
    // 4096 twice, and 18 others once: 12 bars, of the first 10 %, and 7 of 20 are others.
    let others = (1..=18).map(|number| (512 * number + 4096, 1));
    let sizes: Vec<(u64, u64)> = [(4096, 2)].into_iter().chain(others).collect();
    let page = written(Format::Html, &capture_of(&sizes));
    let (_, chart) = page.split_once("Sizes of writes").unwrap();
    let (chart, _) = chart.split_once("Bytes written, by file").unwrap();
    assert!(chart.contains("others") && chart.contains("35.0 %"), "{chart}");
    assert!(chart.contains("10.0 %"), "{chart}");
}
