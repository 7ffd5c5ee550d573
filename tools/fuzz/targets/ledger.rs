//! Ledgers of `durio prove witness`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = durio_prove::read_ledger(bytes);
});
