//! Trials with an agent that says what the test wants, when it wants.

use std::fs;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use durio_base::Bytes;
use durio_observe::{DriveCounters, Host, PowerState};
use durio_plan::proof::DurablePath;

use super::*;
use crate::layout::Layout;
use crate::ledger::Intent;
use crate::reading::ObservedCell;
use crate::stamp::StampOwner;
use crate::wire::{AgentSays, Hello, PROTOCOL, receive, send};

/// 64 cells, the least that a target has.
const SIZE: u64 = 256 << 10;

fn trials(folder: &Path, cut: &[&str]) -> (AgentTrials, SocketAddr) {
    let target = AgentTarget {
        name: "disk".into(),
        listen: "127.0.0.1:0".into(),
        token: "secret".into(),
        start: Vec::new(),
        cut: cut.iter().map(|word| (*word).to_owned()).collect(),
        restore: Vec::new(),
        off: Nanos::ZERO,
        load: Nanos::ZERO,
        patience: Nanos::from_secs(60),
        size: None,
    };
    let arm = Arm::new(DurablePath::RwfDsync, 4);
    let trials = AgentTrials::new(target, arm, 7, folder.join("ledger")).unwrap();
    let Address::Tcp(address) = trials.server.address() else { panic!("an address of TCP") };
    (trials, address)
}

/// An agent that is known, its target of this size.
fn come(address: SocketAddr, size: u64) -> (TcpStream, BufReader<TcpStream>) {
    come_as(address, Introduction { size, ..Introduction::default() })
}

fn come_as(address: SocketAddr, introduction: Introduction) -> (TcpStream, BufReader<TcpStream>) {
    let stream = TcpStream::connect(address).unwrap();
    let (protocol, token) = (PROTOCOL, "secret".to_owned());
    send(&stream, &AgentSays::Hello(Hello { protocol, token })).unwrap();
    send(&stream, &AgentSays::Has(introduction)).unwrap();
    let reader = BufReader::new(stream.try_clone().unwrap());
    (stream, reader)
}

/// Prepares as it is told, and acknowledges this many writes of the load.
fn acknowledges(address: SocketAddr, count: u64) -> TcpStream {
    loads(come(address, SIZE), count)
}

fn loads((stream, mut reader): (TcpStream, BufReader<TcpStream>), count: u64) -> TcpStream {
    let Ok(WitnessSays::Prepare { cells, .. }) = receive(&mut reader) else { panic!("prepare") };
    assert_eq!(cells, 64);
    send(&stream, &AgentSays::Prepared).unwrap();
    let Ok(WitnessSays::Load(WitnessedLoad { first_seq, seed, .. })) = receive(&mut reader) else {
        panic!("load")
    };
    // The seed of each life derives from that of the series.
    assert_eq!((first_seq, seed), (1, 8));
    let sector = Layout::new(cells).journal.start * 8;
    let intent = |seq| Intent { seq, sector, sectors: 8, is_control: false };
    send(&stream, &AgentSays::Intend { writes: (1..=64).map(intent).collect() }).unwrap();
    assert!(matches!(receive(&mut reader), Ok(WitnessSays::Intended)));
    (1..=count).for_each(|seq| send(&stream, &AgentSays::Acknowledged { seq }).unwrap());
    stream
}

fn cut(trials: &mut AgentTrials, tell: &dyn Fn(String)) -> (CutEvidence, CutFindings) {
    trials.cut(Operator { stop: &|| false, tell }).unwrap()
}

#[test]
fn power_goes_after_64_acknowledgements_and_those_half_a_second_to_a_second_later_were_none() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("cut");
    let (mut trials, address) = trials(folder.path(), &["touch", mark.to_str().unwrap()]);
    let agent = || {
        let mut stream = acknowledges(address, 63);
        thread::sleep(Duration::from_millis(200));
        assert!(!mark.exists(), "after 63");
        send(&stream, &AgentSays::Acknowledged { seq: 64 }).unwrap();
        let begin = Instant::now();
        while !mark.exists() {
            assert!(begin.elapsed() < Duration::from_secs(60), "not after 64");
            thread::sleep(Duration::from_millis(1));
        }
        // It never lost its power: one each 10 ms, until nobody hears it.
        let line = b"{\"say\":\"acknowledged\",\"seq\":64}\n";
        while stream.write_all(line).is_ok() {
            thread::sleep(Duration::from_millis(10));
        }
        drop(come(address, SIZE - 1));
    };
    let (evidence, found) = thread::scope(|scope| {
        scope.spawn(agent);
        cut(&mut trials, &|_| {})
    });
    // At most 50, and as many again of a witness that was held up.
    assert!((5..=100).contains(&evidence.acknowledged_after), "{evidence:?}");
    // The target that came back is smaller.
    assert_eq!(found.findings[0].class, durio_plan::proof::LossClass::Gone);
}

#[test]
fn power_is_shown_by_a_new_acknowledgement_that_comes_more_than_half_a_second_after_the_cut() {
    let cut_at = Nanos::from_secs(9);
    let shows = |acknowledged, nanos_later| {
        let last_at = Nanos::new(cut_at.get() + nanos_later);
        shows_power(70, &LoadHeard { acknowledged, last_at }, cut_at)
    };
    assert_eq!(
        [shows(71, 0), shows(71, 500_000_000), shows(71, 500_000_001)],
        [false, false, true]
    );
    assert_eq!([shows(70, 500_000_001), shows(70, 900_000_000)], [false, false], "nothing new");
}

#[test]
fn a_write_that_was_never_announced_ends_a_trial_while_the_power_goes_too() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("cut");
    let (mut trials, address) = trials(folder.path(), &["touch", mark.to_str().unwrap()]);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            let stream = acknowledges(address, 64);
            let begin = Instant::now();
            while !mark.exists() && begin.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(1));
            }
            send(&stream, &AgentSays::Acknowledged { seq: 65 }).unwrap();
            drop(come(address, SIZE - 1));
        });
        trials.cut(Operator { stop: &|| false, tell: &|_| {} })
    });
    assert!(matches!(ended, Err(ProveError::Ledger(LedgerError::Contradiction(_)))), "{ended:?}");
}

#[test]
fn by_hand_it_is_cut_when_nothing_was_acknowledged_for_three_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut trials, address) = trials(folder.path(), &[]);
    let begin = Instant::now();
    let told = Mutex::new(Vec::new());
    let tell = |line: String| told.lock().unwrap().push((begin.elapsed(), line));
    let (evidence, _) = thread::scope(|scope| {
        scope.spawn(|| {
            let _silent = acknowledges(address, 64);
            let is_over =
                || told.lock().unwrap().iter().any(|(_, line)| line.contains("is silent"));
            while !is_over() {
                thread::sleep(Duration::from_millis(5));
            }
            drop(come(address, SIZE - 1));
        });
        cut(&mut trials, &tell)
    });
    let told = told.into_inner().unwrap();
    let lines: Vec<&str> = told.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "durio: cut the power of 'disk' now; leave it off for 0 ns, then switch it on",
            "durio: 'disk' is silent; leave its power off for 0 ns",
            "durio: switch 'disk' on",
        ]
    );
    let silence = told[1].0.checked_sub(told[0].0).unwrap();
    assert!((3.0..5.5).contains(&silence.as_secs_f64()), "{silence:?}");
    assert_eq!(evidence.acknowledged_after, 0);
    assert!(fs::read_to_string(folder.path().join("ledger")).unwrap().contains("\"cut\""));
}

#[test]
fn a_gibibyte_of_a_larger_target_is_used_and_two_where_the_user_says_so() {
    for (size, cells) in [(None, 262_144), (Some(2), 524_288)] {
        let folder = tempfile::tempdir().unwrap();
        let (mut trials, address) = trials(folder.path(), &["true"]);
        trials.target.size = size.map(Bytes::from_gib);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (_stream, mut reader) = come(address, 5 << 30);
                let asked = receive(&mut reader).unwrap();
                let is_all = matches!(asked, WitnessSays::Prepare { cells: asked_cells, .. } if asked_cells == cells);
                assert!(is_all, "{asked:?}");
            });
            // It goes before it has prepared anything.
            assert!(trials.cut(Operator { stop: &|| false, tell: &|_| {} }).is_err());
        });
    }
}

#[test]
fn a_target_of_less_than_256_kib_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut trials, address) = trials(folder.path(), &["true"]);
    let refused = thread::scope(|scope| {
        scope.spawn(|| drop(come(address, SIZE - 1)));
        trials.cut(Operator { stop: &|| false, tell: &|_| {} }).unwrap_err().to_string()
    });
    assert_eq!(refused, "the target has 262143 bytes; a proof needs 256 KiB");
}

#[test]
fn a_trial_that_is_ended_while_the_power_is_off_does_not_switch_it_on() {
    let folder = tempfile::tempdir().unwrap();
    let [mark, restored] = ["cut", "restored"].map(|name| folder.path().join(name));
    let (mut trials, address) = trials(folder.path(), &["touch", mark.to_str().unwrap()]);
    trials.target.restore = vec!["touch".to_owned(), restored.to_str().unwrap().to_owned()];
    trials.target.off = Nanos::from_secs(600);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            let _stream = acknowledges(address, 64);
            let begin = Instant::now();
            while !mark.exists() && begin.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        trials.cut(Operator { stop: &|| mark.exists(), tell: &|_| {} })
    });
    assert!(matches!(ended, Err(ProveError::Stopped)), "{ended:?}");
    assert!(mark.exists() && !restored.exists());
}

/// A ledger whose witness ended amid a load: of three writes, from the log's second cell on, two were
/// acknowledged.
fn loaded(ledger: &Path) {
    let file = File::options().read(true).write(true).create_new(true).open(ledger).unwrap();
    let owner = StampOwner { run: [7; 16], target: 1 };
    let head = LedgerHead::new(owner, 64, Arm::new(DurablePath::RwfDsync, 4));
    let mut book = LedgerBook::begin(file, head).unwrap();
    let intent = |seq| Intent { seq, sector: 8 * (48 + seq), sectors: 8, is_control: false };
    for line in [
        LedgerLine::Prepared { at: Nanos::from_secs(1) },
        LedgerLine::Intended { writes: (1..=3).map(intent).collect() },
        LedgerLine::Acknowledged { seq: 1, at: Nanos::from_secs(2) },
        LedgerLine::Acknowledged { seq: 2, at: Nanos::from_secs(4) },
    ] {
        book.record(line).unwrap();
    }
}

#[test]
fn a_load_of_a_witness_that_ended_is_verified_before_the_next_and_shows_no_cut() {
    let folder = tempfile::tempdir().unwrap();
    loaded(&folder.path().join("ledger"));
    let (mut trials, address) = trials(folder.path(), &["true"]);
    let (evidence, found) = thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, mut reader) = come(address, SIZE);
            for _ in 0..2 {
                let Ok(WitnessSays::Read { cells, .. }) = receive(&mut reader) else {
                    panic!("read")
                };
                assert_eq!(cells, 64);
                // The third write did not arrive.
                let holds = |cell| {
                    ObservedCell::Whole(match cell {
                        49 => 1,
                        50 => 2,
                        _ => 0,
                    })
                };
                let cells = (1..64).map(holds).collect();
                send(&stream, &AgentSays::Observed { first: 1, cells }).unwrap();
                send(&stream, &AgentSays::ReadingDone).unwrap();
            }
        });
        cut(&mut trials, &|_| {})
    });
    assert_eq!(evidence, CutEvidence::default());
    assert_eq!((found.acknowledged, found.kept, found.findings.len()), (2, 2, 0));
    // The clock goes on at 4 s, 2 s after the first acknowledgement; up to a minute was waited.
    let nanos = found.acknowledging_ns.unwrap();
    assert!((2_000_000_000..62_000_000_000).contains(&nanos), "{nanos} ns");
    assert!(!trials.book().unwrap().state.has_load);
}

#[test]
fn a_ledger_that_does_not_take_the_end_of_a_life_ends_the_trial() {
    let folder = tempfile::tempdir().unwrap();
    loaded(&folder.path().join("ledger"));
    let (mut trials, address) = trials(folder.path(), &["true"]);
    // As if nothing had been stamped.
    trials.book().unwrap().state.history = None;
    let ended = thread::scope(|scope| {
        scope.spawn(|| drop(come(address, SIZE)));
        trials.cut(Operator { stop: &|| false, tell: &|_| {} })
    });
    assert!(matches!(ended, Err(ProveError::Ledger(LedgerError::Contradiction(_)))), "{ended:?}");
}

/// An agent's machine in this boot, with drives that have counted so many losses of power.
fn machine(size: u64, boot: &str, drives: [(&str, u64); 2]) -> Introduction {
    let drives = drives.map(|(drive, shutdowns)| DriveCounters {
        drive: drive.to_owned(),
        unsafe_shutdowns: Some(shutdowns),
        power_cycles: Some(shutdowns * 10),
        missing: None,
    });
    let power = PowerState { boot_id: Some(boot.to_owned()), drives: drives.into() };
    let inventory = Inventory { host: Host::default(), stack: None, qemu: None, power };
    Introduction { size, inventory: Some(Box::new(inventory)), ..Introduction::default() }
}

#[test]
fn what_a_machine_counted_before_the_cut_and_after_it_is_the_evidence() {
    let folder = tempfile::tempdir().unwrap();
    let (mut trials, address) = trials(folder.path(), &["true"]);
    let (evidence, found) = thread::scope(|scope| {
        scope.spawn(|| {
            let before = machine(SIZE, "a", [("one", 4), ("two", 7)]);
            drop(loads(come_as(address, before), 64));
            drop(come_as(address, machine(SIZE - 1, "b", [("two", 8), ("one", 6)])));
        });
        cut(&mut trials, &|_| {})
    });
    let expected = CutEvidence {
        unsafe_shutdowns: Some([7, 8]),
        power_cycles: Some([70, 80]),
        rebooted: Some(true),
        ..CutEvidence::default()
    };
    assert_eq!((evidence, found.acknowledged), (expected, 64));
    // What is under test is told once, as it was at first.
    let inventory = trials.take_inventory().unwrap();
    assert_eq!(inventory.power.boot_id.as_deref(), Some("a"));
    assert_eq!(trials.take_inventory(), None);
}
