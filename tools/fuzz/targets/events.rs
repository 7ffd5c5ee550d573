//! The events and the histogram log of a run folder, divided by a zero byte, and their figures.
#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use durio_analyse::Analyser;
use durio_record::{RunFolder, file_names};
use durio_judge::judge;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/core/record/tests/golden/v2");

thread_local! {
    static FOLDER: OnceCell<PathBuf> = const { OnceCell::new() };
}

/// A copy of a golden folder, for this process.
fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("durio-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    for entry in fs::read_dir(GOLDEN).expect("the golden folder").flatten() {
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("copies");
    }
    folder
}

fn read(path: &Path) -> Result<(), durio_record::RecordError> {
    let folder = RunFolder::open(path)?;
    let (manifest, plan) = (folder.manifest.clone(), folder.plan.clone());
    let mut analyser = Analyser::new(manifest, plan, folder.environment.clone());
    analyser.keep_histograms();
    for event in folder.events()?.map_while(Result::ok) {
        analyser.observe(&event.event);
    }
    let _ = judge(analyser.finish("x".to_owned()));
    Ok(())
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (events, log) = bytes.split_at(end);
    FOLDER.with(|cell| {
        let path = cell.get_or_init(folder);
        fs::write(path.join(file_names::EVENTS), events).expect("writes");
        fs::write(path.join(file_names::HISTOGRAMS), log.get(1..).unwrap_or_default())
            .expect("writes");
        read(path).expect("the other files are good");
    });
});
