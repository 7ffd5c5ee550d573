//! Specs of stacks.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = durio_spec::StackBench::parse("x.toml", text);
});
