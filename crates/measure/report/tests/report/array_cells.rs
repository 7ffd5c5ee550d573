//! Each figure of an array, and of the superblocks of devices, is in its row, below its title or behind its
//! name, with its unit: in every format.

use durio_observe::{
    ArrayExamination, ArrayList, ArrayScrub, ArrayShape, ArrayState, ArrayStatus, ExaminedDevice,
    ExaminedMember, ListedArray, MemberStanding, MemberStatus, MismatchPlace,
};
use durio_report::Format;

use crate::cells::{assert_csv, assert_facts, assert_table, in_full};

const MIB: u64 = 1 << 20;

fn shape(number: u64) -> ArrayShape {
    ArrayShape {
        name: format!("array {number}"),
        array: format!("{number:032x}"),
        level: durio_base::RaidLevel::Raid6,
        members: 4 + u8::try_from(number).unwrap(),
        chunk_bytes: (16 * number) << 10,
        region_bytes: (2 + number) * MIB,
        size_bytes: (300 + number) * MIB,
        data_at_bytes: (4 + number) * MIB,
        member_bytes: (100 * number) * MIB,
    }
}

fn member(number: u64, role: Option<u8>, state: MemberStanding) -> MemberStatus {
    MemberStatus {
        role,
        replaces: None,
        state,
        path: Some(format!("/dev/m{number}")),
        rebuilt_bytes: None,
        by_map: false,
        in_flight: u32::try_from(20 + number).unwrap(),
        reads: 3000 + number,
        writes: 4000 + number,
        errors: 5000 + number,
    }
}

fn array() -> ArrayStatus {
    let rebuilding = MemberStatus {
        rebuilt_bytes: Some(25 * MIB),
        ..member(3, Some(2), MemberStanding::Rebuilding)
    };
    let replacement = MemberStatus {
        replaces: Some(1),
        rebuilt_bytes: Some(75 * MIB),
        ..member(4, None, MemberStanding::Rebuilding)
    };
    ArrayStatus {
        schema: ArrayStatus::schema(),
        shape: shape(1),
        served_at: "/dev/ublkb7".into(),
        state: ArrayState::Degraded,
        stopped_because: None,
        epoch: 61,
        is_settled: true,
        may_fail: 0,
        regions: 71,
        regions_dirty: 72,
        regions_to_resync: 7,
        requests: 74,
        scrub: Some(ArrayScrub {
            is_running: false,
            repairs: true,
            done_bytes: 81 * MIB,
            all_bytes: 82 * MIB,
            skipped_bytes: 83 * MIB,
            mismatches: 84,
            unreadable: 85,
            repaired: 86,
            places: vec![
                MismatchPlace { offset_bytes: 87_040, role: 3 },
                MismatchPlace { offset_bytes: 88_064, role: 1 },
            ],
        }),
        devices: vec![
            member(1, Some(0), MemberStanding::InSync),
            MemberStatus { path: None, ..member(2, Some(1), MemberStanding::Faulty) },
            rebuilding,
            replacement,
            member(5, None, MemberStanding::Spare),
            member(6, None, MemberStanding::GivenUp),
        ],
    }
}

#[test]
fn a_member_of_an_array_has_its_own_counters() {
    let expected = [
        ["role", "state", "device", "rebuilt", "in flight", "reads", "writes", "errors"],
        ["0", "in sync", "/dev/m1", "", "21", "3001", "4001", "5001"],
        ["1", "faulty", "", "", "22", "3002", "4002", "5002"],
        ["2", "rebuilding", "/dev/m3", "25.0 %", "23", "3003", "4003", "5003"],
        ["", "rebuilding, replaces 1", "/dev/m4", "75.0 %", "24", "3004", "4004", "5004"],
        ["", "spare", "/dev/m5", "", "25", "3005", "4005", "5005"],
        ["", "given up", "/dev/m6", "", "26", "3006", "4006", "5006"],
    ];
    assert_table(&array(), &expected);
    let expected = [
        ["role", "state", "replaces", "path", "in_flight", "reads", "writes", "errors"],
        ["0", "in sync", "", "/dev/m1", "21", "3001", "4001", "5001"],
        ["1", "faulty", "", "", "22", "3002", "4002", "5002"],
        ["2", "rebuilding", "", "/dev/m3", "23", "3003", "4003", "5003"],
        ["", "rebuilding", "1", "/dev/m4", "24", "3004", "4004", "5004"],
        ["", "spare", "", "/dev/m5", "25", "3005", "4005", "5005"],
        ["", "given up", "", "/dev/m6", "26", "3006", "4006", "5006"],
    ];
    assert_csv(&array(), &expected);
}

#[test]
fn an_array_that_is_served_has_each_figure_behind_its_name() {
    let facts = [
        ("served at", "/dev/ublkb7"),
        ("array", "RAID 6 of 5, chunks of 16 KiB, 301 MiB"),
        ("id", "00000000000000000000000000000001"),
        ("requests", "74 in flight"),
        ("regions", "72 of 3 MiB dirty, 7 still to be resynced"),
        (
            "scrub",
            "ended early, 81 MiB of 82 MiB: parities that differ: 84; chunks that cannot be read: 85, 86 repaired",
        ),
    ];
    assert_facts(&array(), &facts);
    let text = in_full(Format::Text, &array());
    for line in [
        "83 MiB had a member missing",
        "member 3 differs at byte 87040 of the array",
        "member 1 differs at byte 88064 of the array",
        "degraded: member 1 is missing; member 2 is being rebuilt, 25 % done; resyncing, 90 % done",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let json: serde_json::Value = serde_json::from_str(&in_full(Format::Json, &array())).unwrap();
    for (key, value) in [
        ("level", 6),
        ("members", 5),
        ("chunk_bytes", 16_384),
        ("region_bytes", 3 * MIB),
        ("size_bytes", 301 * MIB),
        ("data_at_bytes", 5 * MIB),
        ("member_bytes", 100 * MIB),
        ("epoch", 61),
        ("regions", 71),
        ("regions_dirty", 72),
        ("regions_to_resync", 7),
        ("requests", 74),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
    for (key, value) in [
        ("done_bytes", 81 * MIB),
        ("all_bytes", 82 * MIB),
        ("skipped_bytes", 83 * MIB),
        ("mismatches", 84),
        ("unreadable", 85),
        ("repaired", 86),
    ] {
        assert_eq!(json["scrub"][key], value, "{key}");
    }
    assert_eq!(json["scrub"]["places"][1], serde_json::json!({"offset_bytes": 88_064, "role": 1}));
    assert_eq!(json["devices"][3]["rebuilt_bytes"], 75 * MIB);
}

fn examined(number: u64, role: Option<u8>, state: MemberStanding) -> ExaminedDevice {
    let member = ExaminedMember {
        shape: shape(number),
        member: format!("{:032x}", 0xa0 + number),
        role,
        state,
        epoch: 30 + number,
        revision: 40 + number,
        regions_marked: u32::try_from(50 + number).unwrap(),
        roles: vec![state, MemberStanding::Faulty, MemberStanding::Spare],
    };
    ExaminedDevice {
        path: format!("/dev/m{number}"),
        problem: None,
        older: None,
        member: Some(member),
    }
}

#[test]
fn a_device_that_is_examined_says_what_its_own_superblock_says() {
    let damaged = ExaminedDevice {
        problem: Some("its last slot is older".into()),
        ..examined(2, None, MemberStanding::GivenUp)
    };
    let other = ExaminedDevice {
        path: "/dev/m3".into(),
        problem: Some("no superblock".into()),
        older: None,
        member: None,
    };
    let devices = vec![examined(1, Some(7), MemberStanding::InSync), damaged, other];
    let found = ArrayExamination::new(devices, None);
    let facts = [
        ("name", "array 1"),
        ("array", "RAID 6 of 5, chunks of 16 KiB, 301 MiB"),
        ("id", "00000000000000000000000000000001"),
        ("state", "role 7, in sync"),
        ("roles", "in sync, faulty, spare"),
        ("marked", "51 regions of 3 MiB"),
        ("data", "100 MiB from byte 5242880 on"),
        ("superblock", "epoch 31, written 41 times"),
        ("member", "000000000000000000000000000000a1"),
        ("damaged", "its last slot is older"),
        ("name", "array 2"),
        ("array", "RAID 6 of 6, chunks of 32 KiB, 302 MiB"),
        ("state", "no role, given up"),
        ("roles", "given up, faulty, spare"),
        ("marked", "52 regions of 4 MiB"),
        ("data", "200 MiB from byte 6291456 on"),
        ("superblock", "epoch 32, written 42 times"),
        ("member", "000000000000000000000000000000a2"),
        ("no member", "no superblock"),
    ];
    assert_facts(&found, &facts);
    let expected = [
        ["path", "problem", "array", "epoch"],
        ["/dev/m1", "", "00000000000000000000000000000001", "31"],
        ["/dev/m2", "its last slot is older", "00000000000000000000000000000002", "32"],
        ["/dev/m3", "no superblock", "", ""],
    ];
    assert_csv(&found, &expected);
    let text = in_full(Format::Text, &found);
    assert!(text.contains("can start, without the members that have a problem"), "{text}");
    let devices = found.devices.clone();
    let whole = ArrayExamination::new(devices[..1].to_vec(), None);
    assert!(in_full(Format::Text, &whole).contains("the members start together"));
    let why = "member 7 missed 3 epochs";
    let older = ExaminedDevice { older: Some(why.into()), ..devices[0].clone() };
    let older = ArrayExamination::new(vec![older], None);
    assert_facts(
        &older,
        &[("older", why), ("state", "role 7, in sync according to its superblock")],
    );
    let text = in_full(Format::Text, &older);
    assert!(text.contains("can start; older members will be rebuilt"), "{text}");
    let none = ArrayExamination::new(devices, Some("three are too few".into()));
    assert!(in_full(Format::Text, &none).contains("they do not start: three are too few"));
}

#[test]
fn a_list_has_each_array_with_its_socket_and_what_may_fail_or_why_it_does_not_answer() {
    let socket = |name: &str| format!("/run/{name}");
    let running = ArrayStatus {
        state: ArrayState::Running,
        may_fail: 2,
        devices: vec![member(0, Some(0), MemberStanding::InSync)],
        ..array()
    };
    let hanging = Some("cannot read from '/run/b.control': timed out".to_owned());
    let list = ArrayList::new(vec![
        ListedArray { socket: socket("a"), status: Some(running), problem: None },
        ListedArray { socket: socket("b"), status: None, problem: hanging },
    ]);
    let state = "running, redundant: any 2 members may fail";
    let no_answer = "no answer: cannot read from '/run/b.control': timed out";
    assert_table(
        &list,
        &[
            ["array", "socket", "served at", "state"],
            ["array 1", "/run/a", "/dev/ublkb7", state],
            ["", "/run/b", "", no_answer],
        ],
    );
    assert_csv(
        &list,
        &[
            ["name", "socket", "served_at", "state", "problem"],
            ["array 1", "/run/a", "/dev/ublkb7", "running", ""],
            ["", "/run/b", "", "", "cannot read from '/run/b.control': timed out"],
        ],
    );
    let none = in_full(Format::Text, &ArrayList::new(Vec::new()));
    assert!(none.contains("no array is served now; durio raid start serves one"), "{none}");
    assert!(in_full(Format::Json, &list).contains("\"durio-raid-list-1\""));
}
