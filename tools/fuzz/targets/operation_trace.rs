//! Lines of a trace of `durio capture --trace`, as they are before they are packed.
#![no_main]

use std::io::Write;

use durio_record::OperationTrace;
use flate2::{Compression, write::GzEncoder};

libfuzzer_sys::fuzz_target!(|lines: &[u8]| {
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(lines).expect("memory");
    let packed = packed.finish().expect("memory");
    if let Ok(trace) = OperationTrace::read(packed.as_slice()) {
        let mut again = Vec::new();
        trace.write(&mut again).expect("memory");
        assert_eq!(OperationTrace::read(again.as_slice()).expect("its own"), trace);
    }
});
