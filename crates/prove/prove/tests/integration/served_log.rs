//! The log of a served disk: QEMU's client writes over NBD, orders mark moments, and what the log holds
//! up to a mark is what was durable then; `replay-log` (`DURIO_REPLAY_LOG`, or in the path) agrees.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use durio_block::testkit::note_skip;
use durio_command::CommandError;
use durio_nbd::Address;
use durio_nbd::control_of;
use durio_prove::enumerate::{EnumerationLimits, enumerate};
use durio_prove::serving::Advertisement;
use durio_prove::serving::{DiskOrder, OrderAnswer, Serving, order, serve_disk};
use durio_simdisk::trace::{self, END_MARK, MARK};
use durio_simdisk::{Disk, Image, Profile, Recording, SECTOR, SharedDisk};

const SIZE: u64 = 1 << 20;

fn serving(folder: &Path, log: PathBuf) -> Serving {
    let socket = folder.join("disk");
    Serving {
        control: control_of(&socket),
        address: Address::Unix(socket),
        advertised: Advertisement { flush: true, fua: true, memory: u64::MAX },
        log: Some(log),
    }
}

/// Serves a disk while `client` works with its URI.
fn while_served(serving: &Serving, client: impl FnOnce(&str)) -> Result<(), CommandError> {
    let disk = SharedDisk::new(Disk::new(Profile::honest(SIZE), 1));
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let ready = move |uri: &durio_nbd::Uri| sender.send(uri.to_string()).unwrap();
        let is_over = || stop.load(Ordering::Relaxed);
        let served = scope.spawn(move || serve_disk(&disk, serving, ready, &is_over));
        if let Ok(uri) = receiver.recv() {
            client(&uri);
        }
        stop.store(true, Ordering::Relaxed);
        served.join().unwrap()
    })
}

fn qemu_io(uri: &str, orders: &[&str]) {
    let mut command = Command::new("qemu-io");
    command
        .args(["-f", "raw", "-t", "writeback"])
        .args(orders.iter().flat_map(|order| ["-c", order]));
    let output = command.arg(uri).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn tell(serving: &Serving, wanted: &DiskOrder) -> OrderAnswer {
    order(&serving.control, wanted).unwrap()
}

fn mark(serving: &Serving, name: &str) {
    let answer = tell(serving, &DiskOrder::Mark { name: name.to_owned() });
    assert!(matches!(answer, OrderAnswer::Done(_)), "{answer:?}");
}

/// The first byte of each of the first four cells.
fn cells(image: &Image) -> [u8; 4] {
    [0, 1, 2, 3].map(|cell| image.sector(cell * 8).map_or(0, |bytes| bytes[0]))
}

fn replayed_to(log: &Path, folder: &Path, name: &str) -> Option<Vec<u8>> {
    let program = std::env::var_os("DURIO_REPLAY_LOG").unwrap_or_else(|| "replay-log".into());
    let disk = folder.join(format!("replayed to {name}"));
    std::fs::write(&disk, vec![0; usize::try_from(SIZE).unwrap()]).unwrap();
    let mut command = Command::new(program);
    command.arg("--log").arg(log).arg("--replay").arg(&disk).args(["--end-mark", name]);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(std::fs::read(&disk).unwrap())
}

#[test]
fn the_log_up_to_a_mark_is_what_was_durable_then() {
    let test = "the_log_up_to_a_mark_is_what_was_durable_then";
    if Command::new("qemu-io").arg("--version").output().is_err() {
        return note_skip(test, &"no qemu-io");
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let serving = serving(folder.path(), log.clone());
    let served = while_served(&serving, |uri| {
        qemu_io(uri, &["write -P 1 0 8k", "flush"]);
        mark(&serving, "one");
        qemu_io(uri, &["write -P 2 4k 8k", "write -f -P 3 12k 4k", "flush"]);
        mark(&serving, "two");
        // It can be read while it grows.
        assert!(trace::parse(&std::fs::read(&log).unwrap()).unwrap().len() >= 6);
        qemu_io(uri, &["write -P 4 0 4k", "discard 4k 4k", "flush"]);
        mark(&serving, "three");
        tell(&serving, &DiskOrder::Cut);
        tell(&serving, &DiskOrder::Restore);
    });
    served.unwrap();
    let entries = trace::parse(&std::fs::read(&log).unwrap()).unwrap();
    let names =
        entries.iter().filter(|entry| entry.flags & MARK != 0).map(|mark| mark.name().into_owned());
    let names: Vec<String> = names.collect();
    assert_eq!(names, ["one", "two", "three", "durio-cut", END_MARK]);
    let recording = Recording::from_log(Image::default(), &entries);
    let expected =
        [[0, 0, 0, 0], [1, 1, 0, 0], [1, 2, 2, 3], [4, 0, 2, 3], [4, 0, 2, 3], [4, 0, 2, 3]];
    let found = enumerate(&recording, EnumerationLimits::default(), |image, state| {
        let must: [u8; 4] = expected[state.marks];
        let next: [u8; 4] = expected[(state.marks + 1).min(5)];
        let holds = cells(image);
        let is_legal = (0..4).all(|cell| holds[cell] == must[cell] || holds[cell] == next[cell]);
        if is_legal { Ok(()) } else { Err(format!("{holds:?}")) }
    });
    assert_eq!(found.failures, []);
    assert!(found.states >= 10, "{found:?}");
    for (name, expected) in names.iter().zip(&expected[1..]) {
        let Some(bytes) = replayed_to(&log, folder.path(), name) else {
            return note_skip(test, &"no replay-log");
        };
        assert_eq!([0, 1, 2, 3].map(|cell| bytes[cell * 8 * SECTOR]), *expected, "{name}");
    }
}

#[test]
fn a_log_never_replaces_a_file_and_a_bad_mark_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, "of somebody else").unwrap();
    let serving = serving(folder.path(), log.clone());
    let error = while_served(&serving, |_| panic!("it is served")).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot create the log '{}'", log.display()));
    assert_eq!(std::fs::read(&log).unwrap(), b"of somebody else");
    std::fs::remove_file(&log).unwrap();
    let served = while_served(&serving, |_| {
        for name in [String::new(), "x".repeat(480), "a\0b".to_owned()] {
            let answer = tell(&serving, &DiskOrder::Mark { name });
            assert!(matches!(answer, OrderAnswer::Refused { .. }), "{answer:?}");
        }
        mark(&serving, &"x".repeat(479));
    });
    served.unwrap();
    assert_eq!(trace::parse(&std::fs::read(&log).unwrap()).unwrap().len(), 2);
}
