//! The manifest and the cuts of a proof folder, divided by a zero byte, and what follows from them. A
//! manifest that is empty is that of the golden folder.
#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use durio_record::proof::{CUTS, PROOF_MANIFEST, ProofFolder, analyse_proof};
use durio_spec::impossible_series;

const GOLDEN: &[u8] = include_bytes!("../../../crates/core/record/tests/golden/proof1/proof.json");

thread_local! {
    static FOLDER: OnceCell<PathBuf> = const { OnceCell::new() };
}

/// A folder for this process.
fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("durio-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == 0);
    // A file of the golden folder alone is its cuts.
    let (manifest, cuts) = end.map_or((&bytes[..0], bytes), |at| (&bytes[..at], &bytes[at + 1..]));
    let manifest = if manifest.is_empty() { GOLDEN } else { manifest };
    FOLDER.with(|cell| {
        let path = cell.get_or_init(folder);
        fs::write(path.join(PROOF_MANIFEST), manifest).expect("writes");
        fs::write(path.join(CUTS), cuts).expect("writes");
        let Ok(folder) = ProofFolder::open(path) else { return };
        let _ = impossible_series(&folder.manifest.plan);
        if let Ok(cuts) = folder.cuts() {
            let _ = analyse_proof(&folder.manifest, &cuts);
        }
    });
});
