//! fio's results: JSON between other text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = durio_fio::json::read(bytes);
});
