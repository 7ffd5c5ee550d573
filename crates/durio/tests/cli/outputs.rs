//! What commands print, whole: `outputs/NAME.trycmd` has command lines with their outputs and exit codes,
//! `outputs/NAME.in` is the folder they run in. `TRYCMD=overwrite` writes the outputs again.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

#[test]
fn commands_print_what_is_kept() {
    let state = TempDir::new().unwrap();
    keep_runs(&state.path().join("durio/runs"));
    date_recordings();
    let cases = trycmd::TestCases::new();
    cases
        .env("XDG_STATE_HOME", state.path().to_str().unwrap())
        .insert_var("[STATE]", state.path().to_str().unwrap().to_owned())
        .unwrap()
        .insert_var("[OUTPUTS]", outputs().to_str().unwrap().to_owned())
        .unwrap()
        .case("tests/outputs/*.trycmd");
    cases.run();
}

/// Gives the recordings one date: a checkout dates them by the day it was made, and a capture of a
/// recording bears its file's date.
fn date_recordings() {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(20_758 * 86_400);
    for recording in fs::read_dir(outputs().join("capture.in")).unwrap() {
        let recording = recording.unwrap().path();
        File::options().write(true).open(recording).unwrap().set_modified(date).unwrap();
    }
}

fn outputs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs").canonicalize().unwrap()
}

/// The runs of a state folder, for `durio runs` and `durio history`.
fn keep_runs(folder: &Path) {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).unwrap();
    for number in 1..=3 {
        let kept = outputs().join(format!("compare.in/before-{number}"));
        let run = folder.join(format!("2026-11-28T18313{number}-000Z-campaign-{number}"));
        fs::create_dir(&run).unwrap();
        for file in fs::read_dir(kept).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), run.join(file.file_name())).unwrap();
        }
    }
}
