//! When the power of a guest goes, and what its witness takes from it.

use std::collections::BTreeSet;

use durio_base::RaidLevel;
use durio_plan::EngineKind;
use durio_plan::proof::{DurablePath, GuestLayers, PROOF_PLAN_SCHEMA, ProofSeries, SimulatedVia};

use super::*;
use crate::ledger::Intent;

/// Writes of a cell each, from the first of the log on, are announced.
fn announced(cells: u64, writes: FileWrites) -> LedgerBook {
    let owner = StampOwner { run: [7; 16], target: 1 };
    let arm = Arm { writes, ..Arm::new(DurablePath::Fdatasync, 1) };
    let head = LedgerHead::new(owner, cells, arm);
    let mut book = LedgerBook::begin(tempfile::tempfile().unwrap(), head).unwrap();
    let log = Layout::new(cells).journal;
    let intent = |(seq, cell)| Intent { seq, sector: 8 * cell, sectors: 8, is_control: false };
    let writes = (1..).zip(log).map(intent).collect();
    book.record(LedgerLine::Prepared { at: Nanos::new(5) }).unwrap();
    book.record(LedgerLine::Intended { writes }).unwrap();
    book
}

fn target(kernel: Option<&str>, front_end: GuestFrontEnd, layers: GuestLayers) -> GuestTarget {
    GuestTarget {
        profile: "honest".to_owned(),
        liar: None,
        size: Bytes::from_mib(64),
        front_end,
        write_cache: true,
        layers,
        engine: EngineKind::Uring,
        kernel: kernel.map(str::to_owned),
        enumerated: false,
    }
}

#[test]
fn each_kernel_has_a_guest_of_its_own_which_is_made_once() {
    let guests = OncePerKernel(Mutex::default());
    let mut made = 0;
    let kernels = [Some("6.1.0"), Some("6.12.9"), None, Some("6.12.9"), Some("6.1.0"), None];
    let got = kernels.map(|kernel| {
        let kernel = kernel.map(str::to_owned);
        let make = || {
            made += 1;
            Ok(made)
        };
        guests.get(kernel.as_ref(), make).unwrap()
    });
    assert_eq!(got, [1, 2, 3, 2, 1, 3]);
    // One that could not be made is tried again.
    let other = "5.15.7".to_owned();
    let failed = guests.get(Some(&other), || Err(CommandError::cannot_measure("no room")));
    assert_eq!(failed.map_err(|error| error.to_string()), Err("no room".to_owned()));
    let got = [40, 50].map(|number| guests.get(Some(&other), || Ok(number)).unwrap());
    assert_eq!(got, [40, 40]);
}

#[test]
fn a_guest_has_what_the_series_with_its_kernel_need_and_nothing_of_the_others() {
    use GuestFrontEnd::{Nvme, Scsi, VirtioBlk};
    let (old, new) = (Some("6.1.0"), Some("6.12.9"));
    let targets = vec![
        target(old, Scsi, GuestLayers::XFS),
        target(new, Nvme, GuestLayers::md(RaidLevel::Raid5)),
        target(old, VirtioBlk, GuestLayers::RAW),
        target(None, Nvme, GuestLayers::RAW),
        target(old, Scsi, GuestLayers::RAW),
    ];
    let lab = GuestLab { targets, ready: OncePerKernel(Mutex::default()) };
    let of = |kernel: Option<&str>| {
        let (front_ends, NamedNeeds { tools, modules }) =
            lab.needs(kernel.map(str::to_owned).as_ref());
        (front_ends, tools.join(" "), modules.join(" "))
    };
    assert_eq!(of(old), (vec![VirtioBlk, Scsi], "mkfs.xfs".to_owned(), "xfs".to_owned()));
    assert_eq!(of(new), (vec![Nvme], "mdadm".to_owned(), "raid456".to_owned()));
    assert_eq!(of(None), (vec![Nvme], String::new(), String::new()));
}

#[test]
fn guests_whose_kernel_is_named_keep_it() {
    let series = |target| ProofSeries {
        name: "honest/fdatasync/1".to_owned(),
        target,
        arm: Some(Arm::new(DurablePath::Fdatasync, 1)),
        cuts: 9,
        expected: None,
    };
    let guest = |kernel| {
        let target = target(Some(kernel), GuestFrontEnd::Scsi, GuestLayers::EXT4);
        series(ProofTarget::Guest(target))
    };
    let profile = "honest".to_owned();
    let via = SimulatedVia::Process;
    let simulated = ProofTarget::Simulated { profile, size: Bytes::from_mib(1), via };
    let plan = ProofPlan {
        schema: PROOF_PLAN_SCHEMA,
        name: "two kernels".to_owned(),
        summary: String::new(),
        seed: 7,
        series: vec![guest("6.1.0"), series(simulated), guest("/boot/vmlinuz-6.12.9")],
    };
    let mut named = plan.clone();
    name_kernels(&mut named).unwrap();
    assert_eq!(named, plan);
}

#[test]
fn a_log_that_grows_is_cut_at_its_half_and_no_other_is() {
    // Of 16 cells, and of 25.
    for (cells, first) in [(64, 9), (100, 13)] {
        let halves = |writes| {
            let book = announced(cells, writes);
            (0..200).filter(|&seq| is_half_of_log(&book, seq)).collect::<Vec<u64>>()
        };
        assert_eq!(halves(FileWrites::Append), (first..=cells / 4).collect::<Vec<_>>());
        for writes in [FileWrites::Overwrite, FileWrites::Replace, FileWrites::Rename] {
            assert!(halves(writes).is_empty(), "{writes:?}");
        }
    }
}

#[test]
fn a_load_takes_half_a_second_to_a_second_and_each_seed_another_time() {
    let spans: BTreeSet<Duration> = (0..100).map(span_of).collect();
    let bounds = Duration::from_millis(500)..=Duration::from_secs(1);
    assert!(spans.iter().all(|span| bounds.contains(span)), "{spans:?}");
    assert_eq!(spans.len(), 100);
    assert!(spans.last().unwrap().abs_diff(*spans.first().unwrap()) > Duration::from_millis(300));
}

#[test]
fn a_ledger_takes_what_a_guest_announces_and_does_and_nothing_else() {
    let mut book = announced(64, FileWrites::Overwrite);
    let mut said =
        |message| record(&mut book, Nanos::new(20), message).map_err(|error| error.to_string());
    assert_eq!(said(AgentSays::Acknowledged { seq: 16 }), Ok(()));
    assert_eq!(said(AgentSays::ControlDone { seq: 3 }), Ok(()));
    let contradiction = Err("the ledger contradicts itself".to_owned());
    assert_eq!(said(AgentSays::Acknowledged { seq: 17 }), contradiction);
    assert_eq!(said(AgentSays::ControlDone { seq: 99 }), contradiction);
    let intent = Intent { seq: 19, sector: 8 * 50, sectors: 8, is_control: false };
    assert_eq!(said(AgentSays::Intend { writes: vec![intent] }), contradiction);
    assert_eq!(
        said(AgentSays::Failed { reason: "no room".to_owned() }),
        Err("the guest: no room".to_owned())
    );
    let unexpected = Err("unexpected message from the guest".to_owned());
    for other in [AgentSays::Prepared, AgentSays::ReadingDone, AgentSays::Released] {
        assert_eq!(said(other), unexpected);
    }
    let history = book.state.history.unwrap();
    assert_eq!(history.acknowledged(), [(16, Nanos::new(20))]);
    assert_eq!(history.controls_done().map(|intent| intent.seq).collect::<Vec<_>>(), [3]);
}
