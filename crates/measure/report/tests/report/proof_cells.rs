//! Each figure of a proof is in its row, below its title, with its unit: in every format.

use durio_base::{Bytes, RaidLevel};
use durio_observe::{DriveCounters, Host, PowerState};
use durio_plan::EngineKind;
use durio_plan::proof::{
    AgentTarget, Arm, ArrayTarget, DurablePath, ExpectedVerdict, FileWrites, GuestFrontEnd,
    GuestLayers, GuestTarget, LossClass, ProofSeries, ProofTarget, SimulatedVia,
};
use durio_record::Outcome;
use durio_record::proof::crash_states::{CrashStateFinding, CrashStateFindings};
use durio_record::proof::{
    AcknowledgedWrite, CheckFindings, CheckedCut, Controls, Finding, InFlightWrites, InPlace,
    Ineffective, Inventory, LossFindings, LossPicture, LossShape, MapArea, ProofFindings,
    ProofVerdict, SeriesFindings, TileState, Tiles, TimeSlot,
};
use durio_report::Format;

use crate::cells::{assert_csv, assert_facts, assert_table, chart_texts, in_full, panels};

fn guest(profile: &str, front_end: GuestFrontEnd, mib: u64) -> GuestTarget {
    GuestTarget {
        profile: profile.into(),
        liar: None,
        size: Bytes::from_mib(mib),
        front_end,
        write_cache: true,
        layers: GuestLayers::EXT4,
        engine: EngineKind::Uring,
        kernel: None,
        enumerated: false,
    }
}

/// A series that *number* tells apart in all its figures.
fn series(number: u32, target: ProofTarget, verdict: ProofVerdict) -> SeriesFindings {
    let n = u64::from(number);
    SeriesFindings {
        series: ProofSeries {
            name: format!("series {number}"),
            target,
            arm: Some(Arm::new(DurablePath::ALL[number as usize % 4], 10 + number)),
            cuts: 900,
            expected: Some(ExpectedVerdict::Holds),
        },
        verdict,
        cuts_done: 60 + n,
        effective: 50 + n,
        ineffective: vec![(Ineffective::Idle, 10)],
        losing: 20 + n,
        interval: Some([10 + number, 20 + number].map(|percent| f64::from(percent) / 100.0)),
        acknowledged: 7000 + n,
        at_risk: 4000 + n,
        controls: Controls { written: 300 + n, lost: 200 + n },
        cuts_with_lost_control: 40 + n,
        cuts_with_counter: 30 + n,
        cuts_with_reboot: 10 + n,
        in_flight: InFlightWrites { kept: 90 + n, torn: 80 + n },
        checks: Vec::new(),
        loss: None,
        inventory: None,
        as_expected: Some(number % 2 == 1),
    }
}

fn proof() -> ProofFindings {
    let size = Bytes::from_mib(64);
    let simulated =
        |profile: &str, via| ProofTarget::Simulated { profile: profile.into(), size, via };
    let breaks = |class| ProofVerdict::Breaks { class };
    let agent = AgentTarget { name: "box".into(), ..AgentTarget::default() };
    let array = ArrayTarget {
        level: RaidLevel::Raid6,
        members: 5,
        profile: "fua-ignored".into(),
        liar: Some(3),
        size,
    };
    let mut all = vec![
        series(1, simulated("honest", SimulatedVia::Process), ProofVerdict::NoLoss),
        series(2, simulated("liar", SimulatedVia::Nbd), breaks(LossClass::Torn)),
        series(3, ProofTarget::Agent(agent), ProofVerdict::Inconclusive),
        series(4, ProofTarget::Array(array), ProofVerdict::NoLoss),
        series(
            5,
            ProofTarget::Guest(guest("torn", GuestFrontEnd::Nvme, 96)),
            breaks(LossClass::Lost),
        ),
    ];
    all[1].series.expected = Some(ExpectedVerdict::Breaks { class: LossClass::Lost, within: 17 });
    all[2].series.expected = None;
    all[3].series.expected = Some(ExpectedVerdict::MayLose);
    all[4].series.expected = Some(ExpectedVerdict::Loses { within: 23 });
    all[4].series.arm.as_mut().unwrap().writes = FileWrites::Append;
    ProofFindings {
        schema: "durio-proof-1",
        name: "mine".into(),
        summary: String::new(),
        seed: 4711,
        started: "2026-11-27T09:10:11Z".into(),
        durio_version: "0.9.1".into(),
        outcome: Some(Outcome::Complete),
        series: all,
        not_begun: 0,
    }
}

#[test]
fn a_series_has_its_own_figures_and_a_bound_only_where_nothing_was_lost() {
    let expected = [
        [
            "target",
            "path",
            "depth",
            "result",
            "as expected",
            "cuts",
            "loss rate",
            "at risk",
            "controls lost",
        ],
        ["honest", "fdatasync", "11", "no loss", "yes", "61", "< 21.0 %", "4001", "201 of 301"],
        [
            "liar (nbd)",
            "rwf_dsync",
            "12",
            "torn",
            "NO (lost within 17)",
            "62",
            "-",
            "4002",
            "202 of 302",
        ],
        ["box", "o_dsync", "13", "inconclusive", "", "63", "-", "4003", "203 of 303"],
        [
            "raid6/fua-ignored@3",
            "fsync",
            "14",
            "no loss",
            "NO (a loss or none)",
            "64",
            "< 24.0 %",
            "4004",
            "204 of 304",
        ],
        [
            "torn / nvme / ext4",
            "append/fdatasync",
            "15",
            "lost",
            "yes",
            "65",
            "-",
            "4005",
            "205 of 305",
        ],
    ];
    assert_table(&proof(), &expected);
    let expected = [
        [
            "series",
            "path",
            "depth",
            "verdict",
            "as_expected",
            "cuts",
            "effective",
            "losing",
            "upper_bound",
            "acknowledged",
            "at_risk",
            "controls_written",
            "controls_lost",
        ],
        [
            "series 1",
            "fdatasync",
            "11",
            "no loss",
            "true",
            "61",
            "51",
            "21",
            "0.21",
            "7001",
            "4001",
            "301",
            "201",
        ],
        [
            "series 2",
            "rwf_dsync",
            "12",
            "torn",
            "false",
            "62",
            "52",
            "22",
            "0.22",
            "7002",
            "4002",
            "302",
            "202",
        ],
        [
            "series 3",
            "o_dsync",
            "13",
            "inconclusive",
            "true",
            "63",
            "53",
            "23",
            "0.23",
            "7003",
            "4003",
            "303",
            "203",
        ],
        [
            "series 4", "fsync", "14", "no loss", "false", "64", "54", "24", "0.24", "7004",
            "4004", "304", "204",
        ],
        [
            "series 5",
            "append/fdatasync",
            "15",
            "lost",
            "true",
            "65",
            "55",
            "25",
            "0.25",
            "7005",
            "4005",
            "305",
            "205",
        ],
    ];
    assert_csv(&proof(), &expected);
}

#[test]
fn a_proof_of_one_series_has_its_figures_in_a_sentence() {
    let alone = |at: usize| {
        let mut found = proof();
        found.series = vec![found.series.swap_remove(at)];
        in_full(Format::Text, &found)
    };
    let sentence = "No loss: in 51 effective power cuts of the simulated disk 'honest' by fdatasync at \
                    depth 11, 0 of 4001 acknowledged writes at risk were lost; with 95.0 % confidence \
                    fewer than 21.0 % of such cuts lose one.";
    assert!(alone(0).contains(sentence), "{}", alone(0));
    let sentence = "Inconclusive: 'box' by o_dsync at depth 13: the target was idle";
    assert!(alone(2).contains(sentence), "{}", alone(2));
}

fn finding(class: LossClass, number: u64, found: InPlace) -> Finding {
    Finding {
        class,
        sector: 800 + number,
        sectors: u16::try_from(number).unwrap(),
        seq: 500 + number,
        acknowledged_before_ns: (number != 4).then_some((30 + number) * 1_000_000),
        found,
    }
}

#[test]
fn a_loss_has_its_cut_its_cells_and_what_is_in_their_place() {
    let mut found = proof();
    let loss = LossFindings {
        cut: 9,
        state: None,
        classes: vec![LossClass::Misdirected, LossClass::Lost],
        shape: Some(LossShape::Suffix),
        oldest_ns: Some(77_000_000),
        cells: 12,
        kept: 345,
        listed: vec![
            finding(LossClass::Misdirected, 2, InPlace::OfElsewhere { home: 40, seq: 61 }),
            finding(LossClass::Lost, 3, InPlace::Older { seq: 62 }),
            finding(LossClass::Lost, 4, InPlace::Older { seq: 0 }),
            finding(LossClass::Corrupt, 5, InPlace::FlippedBits { bits: 6 }),
        ],
        check: None,
        picture: None,
    };
    found.series = vec![SeriesFindings { loss: Some(loss), ..found.series.swap_remove(1) }];
    let facts = [
        ("cut", "9 of 62"),
        ("found", "misdirected, lost (12 cells of 4 KiB)"),
        ("still there", "345 cells with an acknowledged write of this life"),
        ("missing", "acknowledged up to 77 ms before the cut"),
        ("order", "everything acknowledged after some moment is lost: a cache was dropped"),
        ("how often", "12.0 % to 22.0 % of cuts (95 % interval, 52 effective)"),
        ("seed", "4711"),
        ("started", "2026-11-27T09:10:11Z (durio 0.9.1)"),
    ];
    assert_facts(&found, &facts);
    let text = in_full(Format::Text, &found);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for card in [
        // 512 bytes of a sector.
        [
            "byte 410624 (2 sectors)",
            "must be: write 502, acknowledged 32 ms before the cut",
            "is: write 61, which belongs to byte 20480",
        ],
        [
            "byte 411136 (3 sectors)",
            "must be: write 503, acknowledged 33 ms before the cut",
            "is: write 62",
        ],
        [
            "byte 411648 (4 sectors)",
            "must be: write 504, certain since an earlier cut",
            "is: contents from before the first write",
        ],
        [
            "byte 412160 (5 sectors)",
            "must be: write 505, acknowledged 35 ms before the cut",
            "is: the write with 6 bits turned",
        ],
    ] {
        let at = lines.iter().position(|line| line.ends_with(card[0]));
        let at = at.unwrap_or_else(|| panic!("{}: {text}", card[0]));
        assert_eq!(lines[at + 1..at + 3], card[1..], "{text}");
    }
    assert!(text.contains("8 more cells are wrong."), "{text}");
}

#[test]
fn each_cut_under_a_users_command_has_its_own_row() {
    let mut found = proof();
    let cut = |cut: u32, exit_code, said: &str| CheckedCut {
        cut,
        acknowledged: 600 + u64::from(cut),
        check: CheckFindings {
            exit_code,
            said: said.into(),
            last_acknowledged: "row 7".into(),
            on_the_way: 20 + u64::from(cut),
        },
    };
    found.series[0].checks =
        vec![cut(1, Some(0), "all there"), cut(4, Some(33), "one\ngone"), cut(5, None, "")];
    let expected = [
        ["cut", "acknowledged", "came after", "check", "said"],
        ["1", "601", "21", "0", "all there"],
        ["4", "604", "24", "33", "one; gone"],
        ["5", "605", "25", "not mounted", ""],
    ];
    assert_table(&found, &expected);
}

#[test]
fn each_guest_stands_once_with_its_own_devices() {
    let mut found = proof();
    let plain = guest("torn", GuestFrontEnd::Nvme, 96);
    let without = GuestTarget {
        write_cache: false,
        layers: GuestLayers::md(RaidLevel::Raid1),
        engine: EngineKind::Sync,
        kernel: Some("6.12.9".into()),
        ..guest("honest", GuestFrontEnd::Scsi, 160)
    };
    for (at, target) in [(0, plain), (1, without)] {
        found.series[at].series.target = ProofTarget::Guest(target);
    }
    let expected = [
        ["profile", "device", "write cache", "layers", "engine", "size", "kernel"],
        ["torn", "nvme", "on", "ext4", "uring", "96 MiB", ""],
        ["honest", "scsi", "off", "md-raid1", "sync", "160 MiB", "6.12.9"],
    ];
    assert_table(&found, &expected);
}

#[test]
fn a_machine_is_told_with_its_own_drives_and_what_showed_the_cuts() {
    let mut found = proof();
    let drive = |drive: &str, unsafe_shutdowns, power_cycles| DriveCounters {
        drive: drive.into(),
        unsafe_shutdowns,
        power_cycles,
        missing: None,
    };
    let drives =
        vec![drive("S1", Some(12), Some(34)), drive("S2", Some(1), None), drive("S3", None, None)];
    let inventory = Inventory {
        host: Host { hostname: Some("db1".into()), ..Host::default() },
        stack: None,
        qemu: None,
        power: PowerState { boot_id: None, drives },
    };
    found.series[2].inventory = Some(Box::new(inventory));
    let facts = [
        ("S1", "12 unexpected power-offs in 34 power cycles"),
        ("S2", "1 unexpected power-off"),
        ("S3", "no counter of power losses"),
        (
            "power",
            "the drive's counter of power losses rose in 33 of 63 cuts, the machine booted again in 13 of 63 cuts, a control was lost in 43 of 63 cuts",
        ),
    ];
    assert_facts(&found, &facts);
}

#[test]
fn a_picture_of_a_loss_has_milliseconds_across_and_writes_and_bytes_up() {
    let slot = |number: u32| TimeSlot { acknowledged: 10 + number, missing: number };
    let write = |at_ns, cell, is_there| AcknowledgedWrite { at_ns, cell, is_there };
    let area = |name: &str, tiles: &[TileState]| MapArea {
        name: name.to_owned(),
        first_cell: 1,
        tiles: Tiles(tiles.to_vec()),
    };
    let picture = LossPicture {
        slot_ns: 2_000_000,
        begin_before_ns: 6_000_000,
        slots: (1..=4).map(slot).collect(),
        writes: vec![
            write(-5_000_000, 3, true),
            write(-1_500_000, 5, false),
            write(1_000_000, 7, true),
        ],
        areas: vec![
            area("journal", &[TileState::Kept, TileState::Kept, TileState::Untouched]),
            area("control", &[TileState::ControlLost, TileState::Wrong(LossClass::Torn)]),
        ],
        cells_per_tile: 9,
    };
    let mut found = proof();
    let loss = LossFindings {
        cut: 9,
        state: None,
        classes: vec![LossClass::Torn],
        shape: None,
        oldest_ns: None,
        cells: 1,
        kept: 1,
        listed: Vec::new(),
        check: None,
        picture: Some(Box::new(picture)),
    };
    found.series = vec![SeriesFindings { loss: Some(loss), ..found.series.swap_remove(1) }];
    let page = in_full(Format::Html, &found);
    let title = "Acknowledgements around the cut, and the fate of the last of these writes";
    let chart = panels(&page, title);
    let line = |name: &str, points: &[(f64, f64)]| (name.to_owned(), points.to_vec());
    // In the middle of its two milliseconds each.
    let acknowledged = [(-5.0, 11.0), (-3.0, 12.0), (-1.0, 13.0), (1.0, 14.0)];
    let missing = [(-5.0, 1.0), (-3.0, 2.0), (-1.0, 3.0), (1.0, 4.0)];
    let upper = [line("acknowledged per 2 ms", &acknowledged), line("not there", &missing)];
    assert_eq!((&chart[0].units[1], &chart[0].lines[..]), (&"number".to_owned(), &upper[..]));
    let lower = [
        line("there", &[(-5.0, 12_288.0), (1.0, 28_672.0)]),
        line("not there", &[(-1.5, 20_480.0)]),
    ];
    assert_eq!((&chart[1].units[1], &chart[1].lines[..]), (&"bytes".to_owned(), &lower[..]));
    let labels: Vec<String> = chart_texts(&page, title).into_iter().map(|chart| chart.2).collect();
    for label in ["-4 ms", "0 ms", "10 KiB", "20 KiB"] {
        assert!(labels.iter().any(|text| text == label), "{label} in {labels:?}");
    }
    assert!(page.contains("The target after the cut, 9 cells of 4 KiB each, the gravest shown"));
    let text = in_full(Format::Text, &found);
    let said = "acknowledged, there: 2";
    for said in [said, "not written since the last cut: 1", "controls gone: 1", "torn: 1"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_check_of_crash_states_has_each_count_behind_its_name() {
    let state = |number: u32| CrashStateFinding {
        state: format!("{number}:all"),
        description: format!("after mark {number}"),
        mark: None,
        reason: format!("exit code {number}"),
        said: format!("row {number} is gone\nand more"),
    };
    let found = CrashStateFindings {
        schema: "durio-crash-states-1",
        log: "log.bin".into(),
        seed: 77,
        stretches: 21,
        states: 500,
        passed: 430,
        failed: 41,
        undecided: 29,
        duplicates: 63,
        left_out: 84,
        is_complete: true,
        failures: vec![state(5), state(6)],
        undecided_states: vec![state(7)],
    };
    let facts = [
        ("checked", "500 states; 63 more have the contents of one of them"),
        ("failed", "41"),
        ("undecided", "29"),
        ("left out", "84; --limit takes more, another --seed takes others"),
        ("seed", "77"),
        ("stretches", "21 between marks, flushes and FUA"),
    ];
    assert_facts(&found, &facts);
    let expected = [
        ["log", "states", "passed", "failed", "undecided", "duplicates", "left_out"],
        ["log.bin", "500", "430", "41", "29", "63", "84"],
    ];
    assert_csv(&found, &expected);
    let text = in_full(Format::Text, &found);
    assert!(text.contains("41 of 500 crash states failed the check."), "{text}");
    let (failed, undecided) = text.split_once("Undecided").unwrap();
    assert!(failed.contains("row 6 is gone") && !failed.contains("row 7"), "{text}");
    assert!(undecided.contains("row 7 is gone") && !undecided.contains("row 5"), "{text}");
}
