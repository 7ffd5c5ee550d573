//! Specs of campaigns.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = durio_spec::CampaignSpec::parse("x.toml", text);
});
