//! Tables of published results.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = durio_judge::audit::audit_table(bytes);
});
