//! The bench folder: written first and replaced whole, read with what is not known passed over.

use std::fs;
use std::path::{Path, PathBuf};

use durio_base::{Bytes, Nanos};
use durio_layers::{DeclaredKind, DeclaredStack, MdBitmap};
use durio_record::bench::{
    BENCH_MANIFEST, BenchFolder, BenchManifest, BenchStack, LayerState, TearDown,
};
use durio_record::{Outcome, RecordErrorKind};
use proptest::prelude::*;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/bench1")
}

fn golden_manifest() -> BenchManifest<DeclaredStack> {
    BenchFolder::<DeclaredStack>::open(&golden()).unwrap().manifest
}

#[test]
fn the_golden_folder_of_version_1_reads_as_it_always_did() {
    assert!(BenchFolder::<DeclaredStack>::is_at(&golden()));
    let folder = BenchFolder::<DeclaredStack>::open(&golden()).unwrap();
    let manifest = &folder.manifest;
    assert_eq!((manifest.name.as_str(), manifest.seed), ("mirror", 7));
    assert_eq!(manifest.outcome, Some(Outcome::Interrupted));
    assert_eq!((manifest.published[0].layer, manifest.published[0].jobs), (1, Some(1)));
    let stack = &manifest.stacks[0];
    let DeclaredKind::Md(md) = &stack.declared.layers[1].kind else { panic!() };
    assert_eq!((md.level, &md.bitmap, md.removed), (1, &MdBitmap::Internal, 1));
    assert_eq!(md.bitmap_chunk, Some(Bytes::from_mib(64)));
    assert!(!stack.declared.layers[2].measured);
    let states: Vec<LayerState> = stack.layers.iter().map(|layer| layer.state).collect();
    assert_eq!(states, [LayerState::Measured, LayerState::Partial, LayerState::Unknown]);
    assert_eq!(stack.layers[1].build, Some(Nanos::from_millis(900)));
    assert_eq!(stack.tear_down, Some(TearDown::Done));
    let run = folder.run(stack.layers[0].run.as_deref().unwrap());
    assert_eq!(run, Some(golden().join("01-mirror-ram")));
}

#[test]
fn a_name_that_leads_out_of_the_folder_is_no_run() {
    let folder = BenchFolder::<DeclaredStack>::open(&golden()).unwrap();
    for name in ["", ".", "..", "../other", "/etc", "a/b"] {
        assert_eq!(folder.run(name), None, "{name}");
    }
}

#[test]
fn what_is_written_is_read_back_and_replaced_whole() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("new/bench");
    let mut manifest = golden_manifest();
    manifest.stacks[0].layers.pop();
    manifest.outcome = None;
    let writer = BenchFolder::<DeclaredStack>::create(&path, manifest.clone()).unwrap();
    assert_eq!(BenchFolder::<DeclaredStack>::open(&path).unwrap().manifest, manifest);
    manifest.outcome = Some(Outcome::Complete);
    let declared = manifest.stacks[0].declared.clone();
    manifest.stacks.push(BenchStack::waiting(declared, vec![("ram".into(), "ram".into())]));
    manifest.stacks[1].tear_down = Some(TearDown::Failed { reason: "busy".into() });
    writer.update(&manifest).unwrap();
    assert_eq!(BenchFolder::<DeclaredStack>::open(&path).unwrap().manifest, manifest);
    let names: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [BENCH_MANIFEST], "nothing is left beside it");
}

#[test]
fn a_folder_that_exists_is_not_written_to() {
    let place = tempfile::tempdir().unwrap();
    let error = BenchFolder::<DeclaredStack>::create(place.path(), golden_manifest()).unwrap_err();
    assert_eq!(error.kind, RecordErrorKind::Io);
    assert!(!BenchFolder::<DeclaredStack>::is_at(place.path()));
}

#[test]
fn a_manifest_that_cannot_be_replaced_stays_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("bench");
    let writer = BenchFolder::<DeclaredStack>::create(&path, golden_manifest()).unwrap();
    // A folder stands where the new manifest is to be written.
    fs::create_dir(path.join(format!(".{BENCH_MANIFEST}.new"))).unwrap();
    let before = fs::read(path.join(BENCH_MANIFEST)).unwrap();
    assert_eq!(writer.update(&golden_manifest()).unwrap_err().kind, RecordErrorKind::Io);
    assert_eq!(fs::read(path.join(BENCH_MANIFEST)).unwrap(), before);
}

#[test]
fn a_newer_schema_and_a_missing_manifest_are_told_by_name() {
    let place = tempfile::tempdir().unwrap();
    let open = || BenchFolder::<DeclaredStack>::open(place.path()).unwrap_err();
    assert_eq!(open().kind, RecordErrorKind::NotARunFolder);
    fs::write(place.path().join(BENCH_MANIFEST), "{\"schema\":2}").unwrap();
    assert_eq!(open().kind, RecordErrorKind::NewerSchema);
    for damage in ["", "{", "null", "{\"schema\":1}", "[]", "\u{0}"] {
        fs::write(place.path().join(BENCH_MANIFEST), damage).unwrap();
        assert_eq!(open().kind, RecordErrorKind::Malformed, "{damage}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_manifest_is_read_or_an_error(at in 0_usize..3000, byte in any::<u8>(), end in any::<bool>()) {
        let place = tempfile::tempdir().unwrap();
        let mut bytes = fs::read(golden().join(BENCH_MANIFEST)).unwrap();
        let at = at % bytes.len();
        if end { bytes.truncate(at) } else { bytes[at] = byte }
        fs::write(place.path().join(BENCH_MANIFEST), bytes).unwrap();
        let _ = BenchFolder::<DeclaredStack>::open(place.path());
    }
}
