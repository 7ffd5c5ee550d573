//! Configuration files of databases.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    durio_judge::advise::DatabaseSettings::default().read_file("x.conf", text);
});
