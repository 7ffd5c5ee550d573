//! Specs of proofs: a plan that is made can be tried.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(plan) = durio_spec::plan_proof("x.toml", text, 7) {
        assert_eq!(durio_spec::impossible_series(&plan), None);
    }
});
