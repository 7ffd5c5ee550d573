//! Recordings and their logs: against the disk itself, and against the programs that have the format:
//! `replay-log` (josefbacik/log-writes, as `DURIO_REPLAY_LOG` or in the path) replays what durio writes,
//! and durio reads what QEMU's blklogwrites and the kernel's dm-log-writes (`dm_log_writes/make.sh`) write.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use durio_base::Nanos;
use durio_block::testkit::note_skip;
use durio_simdisk::trace::{self, FLUSH, FUA, MARK, WriteLogEntry};
use durio_simdisk::{
    Disk, DiskEvent, DiskRequest, Image, Logger, Profile, Recording, SECTOR, Ticket, Unflushed,
};
use proptest::prelude::*;

const SECTORS: u64 = 512;
const BYTES: usize = 512 * SECTOR;

#[derive(Debug, Clone, Copy)]
enum Step {
    Write { sector: u64, sectors: u64, fua: bool },
    Zero { sector: u64, sectors: u64, fua: bool },
    Flush,
    End(usize),
    Mark,
    Cut,
}

fn steps(cuts: u32) -> impl Strategy<Value = Vec<Step>> {
    let place = (0..SECTORS, 1_u64..40, prop::bool::weighted(0.3));
    let place = place.prop_map(|(sector, length, fua)| (sector, length.min(SECTORS - sector), fua));
    let step = prop_oneof![
        5 => place.clone().prop_map(|(sector, sectors, fua)| Step::Write { sector, sectors, fua }),
        1 => place.prop_map(|(sector, sectors, fua)| Step::Zero { sector, sectors, fua }),
        2 => Just(Step::Flush),
        8 => (0_usize..4).prop_map(Step::End),
        2 => Just(Step::Mark),
        cuts => Just(Step::Cut),
    ];
    prop::collection::vec(step, 1..80)
}

/// What a disk did, and what was durable at each of its marks.
struct Life {
    recording: Recording,
    durable: Vec<Image>,
    end: Image,
}

fn live(steps: &[Step], seed: u64) -> Life {
    let mut disk = Disk::new(Profile::honest(BYTES as u64), seed);
    disk.record();
    let mut in_flight: Vec<Ticket> = Vec::new();
    let mut durable = Vec::new();
    for (now, &step) in (1_u64..).zip(steps) {
        let at = Nanos::new(now);
        let data = now.to_le_bytes().repeat(40 * SECTOR / 8);
        let request = match step {
            Step::Write { sector, sectors, fua } => {
                let length = usize::try_from(sectors).unwrap() * SECTOR;
                DiskRequest::Write { sector, data: &data[..length], fua }
            }
            Step::Zero { sector, sectors, fua } => DiskRequest::Zero { sector, sectors, fua },
            Step::Flush => DiskRequest::Flush,
            Step::End(which) => {
                if which < in_flight.len() {
                    disk.end(in_flight.remove(which), at, &mut []).unwrap();
                }
                continue;
            }
            Step::Mark => {
                disk.mark(&format!("mark {}", durable.len()));
                durable.push(disk.durable().clone());
                continue;
            }
            Step::Cut => {
                disk.cut();
                disk.restore().unwrap();
                in_flight.clear();
                continue;
            }
        };
        in_flight.push(disk.begin(0, at, request).unwrap());
    }
    let end = disk.durable().clone();
    Life { recording: disk.take_recording().unwrap(), durable, end }
}

fn log_of(events: &[DiskEvent]) -> Vec<u8> {
    let mut logger = Logger::new(Cursor::new(Vec::new())).unwrap();
    // Piece by piece, as a server takes them.
    events.chunks(3).for_each(|some| logger.take(some).unwrap());
    logger.finish().unwrap().into_inner()
}

fn bytes_of(image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    image.read(0, &mut bytes);
    bytes
}

/// What a disk of zeros holds after these entries, by a replay that knows nothing of images.
fn replay(entries: &[WriteLogEntry]) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    for entry in entries.iter().filter(|entry| entry.flags & MARK == 0) {
        let first = usize::try_from(entry.sector).unwrap() * SECTOR;
        let end = first + usize::try_from(entry.sectors).unwrap() * SECTOR;
        match entry.data.as_slice() {
            [] => bytes[first..end].fill(0),
            data => bytes[first..end].copy_from_slice(data),
        }
    }
    bytes
}

fn place_of_mark(entries: &[WriteLogEntry], name: &str) -> usize {
    entries.iter().position(|entry| entry.flags & MARK != 0 && entry.name() == name).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_log_up_to_a_mark_is_what_was_durable_at_the_mark(steps in steps(0), seed: u64) {
        let life = live(&steps, seed);
        let entries = trace::parse(&log_of(life.recording.events())).unwrap();
        for (number, image) in life.durable.iter().enumerate() {
            let place = place_of_mark(&entries, &format!("mark {number}"));
            prop_assert!(replay(&entries[..place]) == bytes_of(image), "mark {number}");
        }
    }

    #[test]
    fn a_recording_knows_what_a_cut_has_left(steps in steps(1), seed: u64) {
        let life = live(&steps, seed);
        let mut image = life.recording.base().clone();
        let mut unflushed = Unflushed::default();
        for event in life.recording.events() {
            unflushed.take(event).iter().for_each(|write| write.store_to(&mut image));
        }
        prop_assert_eq!(bytes_of(&image), bytes_of(&life.end));
    }

    #[test]
    fn a_recording_of_a_log_gives_the_same_log(steps in steps(1), seed: u64) {
        let entries = trace::parse(&log_of(live(&steps, seed).recording.events())).unwrap();
        let recording = Recording::from_log(Image::default(), &entries);
        let mut again = trace::parse(&log_of(recording.events())).unwrap();
        again.pop();
        // Zeros where nothing ever was are not kept.
        let count = |entries: &[WriteLogEntry], flag| entries.iter().filter(|entry| entry.flags & flag != 0).count();
        for flag in [FLUSH, MARK] {
            prop_assert_eq!(count(&again, flag), count(&entries, flag));
        }
        prop_assert!(replay(&again) == replay(&entries));
    }
}

#[test]
fn a_disk_that_is_not_recorded_keeps_nothing_and_neither_does_a_fork() {
    let mut disk = Disk::new(Profile::honest(BYTES as u64), 1);
    let write = DiskRequest::Write { sector: 0, data: &[1; SECTOR], fua: true };
    disk.carry_out(0, Nanos::ZERO, write, &mut []).unwrap();
    disk.mark("nobody listens");
    assert_eq!((disk.take_events(), disk.take_recording()), (Vec::new(), None));
    disk.record();
    let mut fork = disk.clone();
    fork.carry_out(0, Nanos::ZERO, write, &mut []).unwrap();
    assert_eq!((fork.take_events(), disk.take_events()), (Vec::new(), Vec::new()));
}

/// A life with all there is, which does not depend on chance.
fn known_life() -> Life {
    let write = |sector, sectors, fua| Step::Write { sector, sectors, fua };
    let ended = |step| [step, Step::End(0)];
    let mut steps = vec![];
    steps.extend(ended(write(0, 8, false)));
    steps.extend(ended(write(3, 2, true)));
    steps.push(Step::Mark);
    steps.extend([write(64, 40, false), write(70, 3, false), Step::End(1), Step::End(0)]);
    steps.extend(ended(Step::Flush));
    steps.push(Step::Mark);
    steps.extend(ended(Step::Zero { sector: 60, sectors: 11, fua: false }));
    steps.extend(ended(write(500, 12, false)));
    steps.extend([Step::Flush, write(1, 1, false), Step::End(0), Step::End(0)]);
    steps.push(Step::Mark);
    steps.extend(ended(write(200, 1, true)));
    live(&steps, 1)
}

fn replay_log() -> Option<PathBuf> {
    let named = std::env::var_os("DURIO_REPLAY_LOG").map(PathBuf::from);
    let program = named.unwrap_or_else(|| PathBuf::from("replay-log"));
    // Without arguments it says how it is used.
    Command::new(&program).output().is_ok().then_some(program)
}

fn told(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn replay_log_replays_to_what_was_durable() {
    let Some(program) = replay_log() else {
        return note_skip("replay_log_replays_to_what_was_durable", &"no replay-log");
    };
    let folder = tempfile::tempdir().unwrap();
    let (log, disk) = (folder.path().join("log"), folder.path().join("disk"));
    let life = known_life();
    let bytes = log_of(life.recording.events());
    std::fs::write(&log, &bytes).unwrap();
    let entries = trace::parse(&bytes).unwrap();
    let base = ["--log", log.to_str().unwrap()];
    let ask = |arguments: &[&str]| told(&program, &[&base[..], arguments].concat());
    assert_eq!(ask(&["--num-entries"]), entries.len().to_string());
    let replays_to = |arguments: &[&str], expected: &[u8]| {
        std::fs::write(&disk, vec![0; BYTES]).unwrap();
        ask(&[&["--replay", disk.to_str().unwrap()], arguments].concat());
        assert!(std::fs::read(&disk).unwrap() == expected, "{arguments:?}");
    };
    for (number, image) in life.durable.iter().enumerate() {
        let name = format!("mark {number}");
        let place = place_of_mark(&entries, &name);
        assert_eq!(ask(&["--find", "--end-mark", &name]), place.to_string());
        replays_to(&["--end-mark", &name], &bytes_of(image));
    }
    for (option, flag) in [("--next-fua", FUA), ("--next-flush", FLUSH)] {
        for start in [0, 6] {
            let after = entries[start..].iter().position(|entry| entry.flags & flag != 0).unwrap();
            let start = start.to_string();
            let found = ask(&["--find", "--start-entry", &start, option]);
            assert_eq!(found, (start.parse::<usize>().unwrap() + after).to_string());
        }
        let first = entries.iter().position(|entry| entry.flags & flag != 0).unwrap();
        replays_to(&[option], &replay(&entries[..=first]));
    }
    replays_to(&[], &replay(&entries));
    replays_to(&["--end-mark", trace::END_MARK], &replay(&entries));
}

#[test]
fn zeros_of_any_length_are_replayed_into_a_file() {
    let Some(program) = replay_log() else {
        return note_skip("zeros_of_any_length_are_replayed_into_a_file", &"no replay-log");
    };
    let folder = tempfile::tempdir().unwrap();
    let (log, replayed) = (folder.path().join("log"), folder.path().join("disk"));
    let mut disk = Disk::new(Profile::honest(160 << 20), 1);
    disk.record();
    let sectors = (160 << 20) / SECTOR as u64;
    let zero = DiskRequest::Zero { sector: 0, sectors, fua: true };
    disk.carry_out(0, Nanos::ZERO, zero, &mut []).unwrap();
    std::fs::write(&log, log_of(&disk.take_events())).unwrap();
    std::fs::write(&replayed, vec![1; 160 << 20]).unwrap();
    let [log, to] = [&log, &replayed].map(|path| path.to_str().unwrap());
    told(&program, &["--log", log, "--replay", to]);
    assert!(std::fs::read(&replayed).unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn a_log_of_qemu_is_read() {
    let is_there = Command::new("qemu-io").arg("--version").output().is_ok();
    if !is_there {
        return note_skip("a_log_of_qemu_is_read", &"no qemu-io");
    }
    for block in [512, 4096] {
        let folder = tempfile::tempdir().unwrap();
        let (log, disk) = (folder.path().join("log"), folder.path().join("disk"));
        std::fs::write(&disk, vec![0; BYTES]).unwrap();
        std::fs::write(&log, []).unwrap();
        let image = format!(
            "driver=blklogwrites,log-sector-size={block},file.driver=file,file.filename={},log.driver=file,log.filename={}",
            disk.display(),
            log.display()
        );
        let orders = ["write -P 1 0 16k", "write -f -P 2 8k 4k", "flush", "write -z 4k 4k"];
        let orders = orders.iter().chain(&["write -P 3 200k 56k", "discard 12k 4k", "flush"]);
        let mut qemu = Command::new("qemu-io");
        qemu.arg("--image-opts").args(orders.flat_map(|order| ["-c", order])).arg(&image);
        let output = qemu.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let entries = trace::parse(&std::fs::read(&log).unwrap()).unwrap();
        // QEMU 7.2 logs a write with FUA as a write and a flush.
        assert!(entries.iter().filter(|entry| entry.flags & FLUSH != 0).count() >= 3);
        let replayed = replay(&entries);
        assert!(replayed == std::fs::read(&disk).unwrap(), "sectors of {block}");
        let recording = Recording::from_log(Image::default(), &entries);
        let mut image = Image::default();
        let mut unflushed = Unflushed::default();
        for event in recording.events() {
            unflushed.take(event).iter().for_each(|write| write.store_to(&mut image));
        }
        assert!(bytes_of(&image) == replayed);
    }
}

#[test]
fn logs_of_the_kernel_are_read() {
    let logs = [
        (512, &include_bytes!("../dm_log_writes/512.log")[..]),
        (4096, &include_bytes!("../dm_log_writes/4096.log")[..]),
    ];
    for (block, log) in logs {
        let entries = trace::parse(log).unwrap();
        let marks = entries
            .iter()
            .filter(|entry| entry.flags & MARK != 0)
            .map(|mark| mark.name().into_owned());
        let marks: Vec<String> = marks.collect();
        assert_eq!(marks, ["first", "second", "third", trace::END_MARK], "blocks of {block}");
        let cells = |upto: usize| {
            let bytes = replay(&entries[..upto]);
            [0, 1, 2, 15].map(|cell| char::from(bytes[cell * 4096]))
        };
        let at = |name: &str| cells(place_of_mark(&entries, name));
        assert_eq!(at("first"), ['a', 'b', '\0', '\0']);
        assert_eq!(at("second"), ['a', 'c', 'd', '\0']);
        assert_eq!(at("third"), ['\0', 'c', 'd', 'e']);
        assert_eq!(at(trace::END_MARK), ['g', 'c', 'd', 'e']);
        // A write of one sector, where blocks have no more.
        assert_eq!(replay(&entries)[25 * SECTOR], if block == 512 { b'f' } else { 0 });
        // The kernel has the write with FUA before one that had ended earlier.
        let flags: Vec<u64> = entries.iter().map(|entry| entry.flags).collect();
        assert_eq!(flags[..7], [0, 0, FLUSH, MARK, FUA, 0, FLUSH]);
        let mut image = Image::default();
        let mut unflushed = Unflushed::default();
        for event in Recording::from_log(Image::default(), &entries).events() {
            unflushed.take(event).iter().for_each(|write| write.store_to(&mut image));
        }
        // What came after the last flush is left.
        assert_eq!(unflushed.writes().len(), 1);
        let flushed = replay(&entries[..place_of_mark(&entries, "third")]);
        assert!(bytes_of(&image) == flushed, "blocks of {block}");
    }
}
