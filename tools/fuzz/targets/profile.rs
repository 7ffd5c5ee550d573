//! Profiles of databases.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = durio_spec::profile::Profile::parse("x.toml", text);
});
