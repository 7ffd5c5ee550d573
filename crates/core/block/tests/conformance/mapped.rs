//! The mmap engine where its pages cannot be had, and where a mapping is less than a file.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use durio_block::testkit::{note_skip, open_path};
use durio_block::{
    Buffers, Completion, Engine, MmapEngine, MonotonicClock, OpenMode, Operation, OperationKind,
    Ticks, WriteFlags,
};

const BLOCK: u64 = 4096;

fn engine(path: &Path) -> MmapEngine<MonotonicClock> {
    let file = open_path(path, OpenMode { write: true, ..OpenMode::default() }).unwrap().file;
    MmapEngine::mapped(MonotonicClock, file, Buffers::new(1, 8192)).unwrap()
}

/// The result of one operation at a block.
fn result(engine: &mut impl Engine, kind: OperationKind, block: u64, length: u64) -> i32 {
    let operation = Operation {
        kind,
        flags: WriteFlags::None,
        link: false,
        file: 0,
        slot: 0,
        length,
        offset: block * BLOCK,
        intended_start: Ticks::default(),
    };
    let mut completions = [Completion::default()];
    assert_eq!(engine.exchange(&[operation], &mut completions).unwrap(), 1);
    completions[0].result
}

use OperationKind::{Fdatasync, Fsync, Read, Write};

#[test]
fn a_page_that_was_cut_off_is_an_error_of_its_access_and_of_all_later_ones() {
    let directory = tempfile::tempdir().unwrap();
    for (name, kind) in [("read", Read), ("written", Write)] {
        let [path, other] = [name, "other"].map(|name| directory.path().join(name));
        fs::write(&path, [1; 16_384]).unwrap();
        fs::write(&other, [2; 4096]).unwrap();
        let (mut engine, mut other) = (engine(&path), engine(&other));
        assert_eq!(result(&mut engine, kind, 3, 4096), 4096);
        File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
        // The first of its two pages is there.
        assert_eq!(result(&mut engine, kind, 0, 8192), -libc::EIO);
        for (kind, length) in [(Read, 4096), (Write, 4096), (Fsync, 0), (Fdatasync, 0)] {
            assert_eq!(result(&mut engine, kind, 0, length), -libc::EIO, "{kind:?}");
        }
        // Of another mapping nothing is lost, before and after.
        assert_eq!(result(&mut other, kind, 0, 4096), 4096);
        assert_eq!(result(&mut other, Fsync, 0, 0), 0);
    }
}

#[test]
fn a_write_past_the_end_is_refused_and_what_was_added_since_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, [1; 6000]).unwrap();
    let mut engine = engine(&path);
    assert_eq!(result(&mut engine, Write, 1, 4096), -libc::EOPNOTSUPP);
    assert_eq!(result(&mut engine, Write, 9, 4096), -libc::EOPNOTSUPP);
    assert_eq!(fs::metadata(&path).unwrap().len(), 6000);
    assert_eq!(result(&mut engine, Read, 1, 4096), 1904);
    fs::write(&path, [3; 12_288]).unwrap();
    assert_eq!(result(&mut engine, Read, 1, 8192), 8192);
    assert_eq!(engine.slot_mut(0)[..], [3; 8192]);
    assert_eq!(result(&mut engine, Write, 2, 4096), 4096);
}

#[test]
fn what_cannot_be_mapped_is_refused_when_it_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let unreadable = File::options().write(true).create(true).truncate(true).open(&path).unwrap();
    fs::write(&path, [1; 4096]).unwrap();
    let full = File::options().read(true).write(true).open("/dev/full").unwrap();
    for (file, errno) in [(unreadable, libc::EACCES), (full, libc::ENODEV)] {
        let buffers = Buffers::new(1, 4096);
        let error = MmapEngine::mapped(MonotonicClock, file.into(), buffers).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(errno));
        assert_eq!(error.to_string(), "cannot map the file");
    }
}

/// A small filesystem in memory; gone at the end.
struct Small<'p>(&'p Path);

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_hole_for_which_a_full_filesystem_has_no_block_is_an_error() {
    let test = "a_hole_for_which_a_full_filesystem_has_no_block_is_an_error";
    let directory = tempfile::tempdir().unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=32k", "tmpfs"];
    let mounted = Command::new("mount").args(mount).arg(directory.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return note_skip(test, &"no filesystem can be mounted here");
    }
    let small = Small(directory.path());
    let path = small.0.join("holes");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let mut engine = engine(&path);
    let results: Vec<i32> =
        (0..16).map(|block| result(&mut engine, Write, 2 * block, 4096)).collect();
    assert_eq!(results, [[4096; 8], [-libc::EIO; 8]].concat());
    assert_eq!(result(&mut engine, Fdatasync, 0, 0), -libc::EIO);
}
