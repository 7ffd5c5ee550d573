//! Texts of tracers that `durio capture` reads, by both of its readers, up to findings and a profile.
#![no_main]

use durio_analyse::capture::{Capture, CaptureSource, profile_text};
use durio_observe::{CaptureEnd, CaptureEvent, TraceTextError, read_block_trace, read_strace};

type Read = fn(&[u8], &mut dyn FnMut(CaptureEvent)) -> Result<CaptureEnd, TraceTextError>;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    let readers: [Read; 2] =
        [|text, take| read_strace(text, take), |text, take| read_block_trace(text, take)];
    for read in readers {
        let mut capture = Capture::default();
        let end = read(text, &mut |event| {
            let _ = capture.take(event);
        });
        if let Ok(end) = end {
            let findings = capture.finish(&end, CaptureSource::default());
            let sizes: u64 = findings.sizes.iter().map(|size| size.count).sum();
            assert_eq!(sizes, findings.writes);
            let _ = profile_text(&findings);
        }
    }
});
