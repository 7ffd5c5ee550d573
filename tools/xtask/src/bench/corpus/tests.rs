//! What the judgement of two traces calls equal, with both sides of each bound.
//!
//! In: what fio and durio did, made up. Out: verdicts. Not here: how traces are read.

use super::*;

const BLOCK: u64 = 4096;

/// Accesses of a block each, over the first `reads + writes` blocks.
fn done(reads: u64, writes: u64) -> FileActivity {
    let bytes = (reads + writes) * BLOCK;
    FileActivity { reads, writes, bytes, range: Some((0, bytes)), ..FileActivity::default() }
}

fn equal(text: &str, fio: FileActivity, durio: FileActivity) -> bool {
    matches!(verdict(&CorpusEntry::of_file(text), (&[fio], &[durio]), ""), EntryOutcome::Equal)
}

#[test]
fn accesses_that_are_not_drawn_are_the_same_to_the_last() {
    assert!(equal("rw=write", done(0, 64), done(0, 64)));
    assert!(!equal("rw=write", done(0, 64), done(0, 63)));
    assert!(!equal("rw=write", done(0, 64), done(64, 0)));
    let flagged = FileActivity { flags: ["O_DSYNC".to_owned()].into(), ..done(0, 64) };
    assert!(!equal("rw=write", done(0, 64), flagged));
    let moved = FileActivity { range: Some((BLOCK, 65 * BLOCK)), ..done(0, 64) };
    assert!(!equal("rw=write", done(0, 64), moved));
}

#[test]
fn drawn_sizes_may_differ_by_a_half_and_where_there_are_a_thousand_by_an_eighth() {
    // The same range, so that the counts alone decide.
    let read = |count| FileActivity { range: Some((0, 1 << 24)), ..done(count, 0) };
    for text in ["bsrange=4k-64k", "bssplit=4k/90:64k/10"] {
        assert!(equal(text, read(800), read(400)), "{text}");
        assert!(!equal(text, read(800), read(399)), "{text}");
        assert!(equal(text, read(1600), read(1400)), "{text}");
        assert!(!equal(text, read(1600), read(1399)), "{text}");
    }
    assert!(!equal("bs=4k", read(1600), read(1599)));
}

#[test]
fn the_writes_of_a_mix_may_differ_by_five_deviations() {
    let mix = |writes| done(200 - writes, writes);
    assert!(equal("rw=randrw", mix(100), mix(150)));
    assert!(!equal("rw=randrw", mix(100), mix(151)));
    let mix = |writes| done(800 - writes, writes);
    assert!(equal("rw=randrw", mix(400), mix(300)));
    assert!(!equal("rw=randrw", mix(400), mix(299)));
}

#[test]
fn offsets_that_are_drawn_freely_may_leave_half_of_the_range_out() {
    let within =
        |first, end| FileActivity { range: Some((first * BLOCK, end * BLOCK)), ..done(40, 0) };
    assert!(equal("norandommap=1", within(0, 40), within(20, 40)));
    assert!(!equal("norandommap=1", within(0, 40), within(21, 40)));
    assert!(!equal("norandommap=1", within(0, 40), within(0, 19)));
    assert!(!equal("norandommap=0", within(0, 40), within(1, 40)));
}

#[test]
fn a_job_whose_accesses_all_end_at_once_moves_no_byte() {
    let at_end = || FileActivity { reads: 3, range: Some((0, 0)), ..FileActivity::default() };
    assert!(moves_no_byte(&[at_end(), at_end()]));
    assert!(!moves_no_byte(&[at_end(), done(0, 1)]));
    assert!(!moves_no_byte(&[]));
    let mapped = FileActivity { mapped: true, ..FileActivity::default() };
    assert!(!moves_no_byte(&[at_end(), mapped]));
}

#[test]
fn mapped_accesses_are_those_of_the_json_and_not_of_another_number() {
    let text = b"fio: a word\n{\"jobs\": [{\"read\": {\"io_bytes\": 8192, \"total_ios\": 2}, \
                 \"write\": {\"io_bytes\": 0, \"total_ios\": 0}}, {\"read\": {\"io_bytes\": 4096, \
                 \"total_ios\": 1}, \"write\": {\"io_bytes\": 12288, \"total_ios\": 3}}]}\nmore\n";
    let sum = calls::sum(text).unwrap();
    assert_eq!(sum, FileActivity { range: None, ..done(3, 3) });
    let entry = CorpusEntry::of_file("ioengine=mmap\nrw=read");
    assert!(entry.maps_files());
    assert!(is_as_much(&entry, &done(0, 64), &done(0, 64)));
    assert!(!is_as_much(&entry, &done(0, 64), &done(0, 65)));
    let mapped = FileActivity { mapped: true, ..done(0, 64) };
    assert!(!equal("ioengine=mmap", mapped, done(0, 64)));
}

#[test]
fn different_syncs_need_a_note_that_speaks_of_syncs() {
    let synced = |syncs| FileActivity { syncs, ..done(0, 16) };
    let of = |stderr: &str| {
        let entry = CorpusEntry::of_file("rw=write\nfsync=8");
        verdict(&entry, (&[synced(1)], &[synced(2)]), stderr).words()
    };
    let noted = "noted 1 and 2 syncs";
    assert_eq!(of("note: job.fio:3: fsync: durio also syncs after the last write\n"), noted);
    assert_eq!(of("note: the job waits in each sync\n"), noted);
    for silent in [
        "",
        "note: give an asynchronous engine\n",
        "note: job.fio:3: fsync: it is every 8 writes\n",
        "durio syncs after the last write\n",
    ] {
        assert!(of(silent).starts_with("DIFFERENT syncs: "), "{silent}");
    }
}
