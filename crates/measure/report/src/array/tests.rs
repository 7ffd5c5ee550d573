//! What is said of an array in each of its states: the first line, and that of a scrub.

use super::*;
use crate::{Format, Options, write};

const MIB: u64 = 1 << 20;

/// A device in a role, with figures of its own.
fn member(role: u8, state: MemberStanding) -> MemberStatus {
    MemberStatus {
        role: Some(role),
        replaces: None,
        state,
        path: Some(format!("/dev/m{role}")),
        rebuilt_bytes: None,
        by_map: false,
        in_flight: 0,
        reads: 10 + u64::from(role),
        writes: 20 + u64::from(role),
        errors: 30 + u64::from(role),
    }
}

/// That has so much of its 50 MiB.
fn rebuilding(role: u8, done: u64) -> MemberStatus {
    MemberStatus { rebuilt_bytes: Some(done), ..member(role, MemberStanding::Rebuilding) }
}

fn replacement(role: u8, done: u64) -> MemberStatus {
    MemberStatus { role: None, replaces: Some(role), ..rebuilding(9, done) }
}

/// That runs, with members of 50 MiB in regions of 1 MiB.
fn status(level: u8, members: u8, may_fail: u8) -> ArrayStatus {
    let shape = ArrayShape {
        name: "data".to_owned(),
        array: "00".repeat(16),
        level: RaidLevel::of_number(level).unwrap(),
        members,
        chunk_bytes: 16 << 10,
        region_bytes: MIB,
        size_bytes: 50 * MIB,
        data_at_bytes: MIB,
        member_bytes: 50 * MIB,
    };
    ArrayStatus {
        schema: ArrayStatus::schema(),
        shape,
        served_at: "nbd+unix:///?socket=/s".to_owned(),
        state: ArrayState::Running,
        stopped_because: None,
        epoch: 7,
        is_settled: true,
        may_fail,
        regions: 50,
        regions_dirty: 0,
        regions_to_resync: 0,
        requests: 0,
        scrub: None,
        devices: (0..members).map(|role| member(role, MemberStanding::InSync)).collect(),
    }
}

fn resyncing(level: u8, members: u8, may_fail: u8, left: u32) -> ArrayStatus {
    ArrayStatus {
        state: ArrayState::Resyncing,
        regions_to_resync: left,
        regions_dirty: left + 2,
        ..status(level, members, may_fail)
    }
}

/// With these members in the place of others.
fn degraded(status: ArrayStatus, lacking: Vec<MemberStatus>) -> ArrayStatus {
    let mut devices = status.devices.clone();
    for member in lacking {
        let role = usize::from(member.role.unwrap());
        devices[role] = member;
    }
    ArrayStatus { state: ArrayState::Degraded, devices, ..status }
}

fn text(status: &ArrayStatus) -> String {
    let mut bytes = Vec::new();
    // Wide enough that no line is broken.
    let options = Options { width: 200, ..Options::default() };
    write(Format::Text, status, &options, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The line below the name.
fn first_line(status: &ArrayStatus) -> String {
    text(status).lines().nth(1).unwrap().to_owned()
}

/// The line of the scrub, and the one below it if that belongs to it.
fn scrub_lines(status: &ArrayStatus, scrub: ArrayScrub) -> Vec<String> {
    let text = text(&ArrayStatus { scrub: Some(scrub), ..status.clone() });
    let lines = text.lines().skip_while(|line| !line.starts_with("scrub"));
    let lines = lines.take_while(|line| !line.is_empty());
    lines.map(|line| line.trim_start_matches("scrub").trim().to_owned()).collect()
}

/// Of 100 MiB, after so many.
fn scrub_at(done: u64) -> ArrayScrub {
    ArrayScrub {
        is_running: true,
        repairs: false,
        done_bytes: done * MIB,
        all_bytes: 100 * MIB,
        skipped_bytes: 0,
        mismatches: 0,
        unreadable: 0,
        repaired: 0,
        places: Vec::new(),
    }
}

fn ended_at(done: u64) -> ArrayScrub {
    ArrayScrub { is_running: false, ..scrub_at(done) }
}

#[test]
fn the_first_line_of_an_array_that_is_whole_says_how_many_members_may_fail() {
    for (level, members, may_fail, expected) in [
        (0, 3, 0, "running, without redundancy: one failure loses data"),
        (1, 2, 1, "running, redundant: any one member may fail"),
        (1, 4, 3, "running, redundant: any 3 members may fail"),
        (5, 4, 1, "running, redundant: any one member may fail"),
        (6, 5, 2, "running, redundant: any 2 members may fail"),
        (10, 6, 1, "running, redundant: any one member may fail"),
    ] {
        assert_eq!(first_line(&status(level, members, may_fail)), expected, "{level} {members}");
    }
}

#[test]
fn an_array_that_is_made_equal_is_not_said_to_be_redundant_or_in_sync() {
    let fresh = resyncing(1, 2, 1, 50);
    assert_eq!(
        first_line(&fresh),
        "resyncing, 0 % done: elsewhere copies may differ until then; any one member may fail"
    );
    assert!(text(&fresh).contains("52 of 1 MiB dirty, 50 still to be resynced"));
    assert_eq!(
        first_line(&resyncing(1, 3, 2, 1)),
        "resyncing, 98 % done: elsewhere copies may differ until then; any 2 members may fail"
    );
    assert_eq!(
        first_line(&resyncing(5, 4, 0, 17)),
        "resyncing, 66 % done: elsewhere parities may be wrong until then; one failure loses data"
    );
    let almost = ArrayStatus { regions: 1000, ..resyncing(6, 4, 0, 1) };
    assert_eq!(
        first_line(&almost),
        "resyncing, 99 % done: elsewhere parities may be wrong until then; one failure loses data"
    );
}

#[test]
fn an_array_that_lacks_members_says_which_and_what_one_more_failure_does() {
    let missing = |role| member(role, MemberStanding::Faulty);
    let first = |base, lacking| first_line(&degraded(base, lacking));
    assert_eq!(
        first(status(1, 2, 0), vec![missing(1)]),
        "degraded: member 1 is missing; one more failure loses data"
    );
    assert_eq!(
        first(status(1, 3, 1), vec![missing(0)]),
        "degraded: member 0 is missing; any one more member may fail"
    );
    assert_eq!(
        first(status(6, 5, 0), vec![missing(2), rebuilding(4, 20 * MIB)]),
        "degraded: member 2 is missing; member 4 is being rebuilt, 40 % done; one more failure loses \
         data"
    );
    assert_eq!(
        first(status(10, 4, 0), vec![rebuilding(3, 50 * MIB - 1)]),
        "degraded: member 3 is being rebuilt, 99 % done; one more failure loses data"
    );
    assert_eq!(
        first(resyncing(1, 3, 1, 25), vec![missing(2)]),
        "degraded: member 2 is missing; resyncing, 50 % done: elsewhere copies may differ until \
         then; any one more member may fail"
    );
}

#[test]
fn a_replacement_takes_nothing_away() {
    let mut replaced = status(1, 2, 1);
    replaced.devices.push(replacement(1, 5 * MIB));
    assert_eq!(
        first_line(&replaced),
        "running, redundant: any one member may fail; member 1 is being replaced, 10 % done"
    );
    let mut striped = status(0, 2, 0);
    striped.devices.push(replacement(0, 45 * MIB));
    assert_eq!(
        first_line(&striped),
        "running, without redundancy: one failure loses data; member 0 is being replaced, 90 % done"
    );
}

#[test]
fn an_array_that_does_not_run_says_so() {
    let in_state = |state| ArrayStatus { state, ..status(1, 2, 0) };
    assert_eq!(
        first_line(&in_state(ArrayState::Starting)),
        "starting: writing its first superblocks"
    );
    let stopped = ArrayStatus {
        stopped_because: Some("the last copy, member 1, failed".to_owned()),
        ..in_state(ArrayState::Stopped)
    };
    assert_eq!(first_line(&stopped), "stopped by itself: no reads or writes are served");
    assert!(text(&stopped).contains("the last copy, member 1, failed"));
}

#[test]
fn a_scrub_says_that_copies_were_equal_when_it_has_compared_all_of_them_and_not_before() {
    let mirror = status(1, 2, 1);
    for (scrub, expected) in [
        (scrub_at(0), "running, 0 B of 100 MiB: nothing was compared"),
        (scrub_at(30), "running, 30 MiB of 100 MiB: no difference in 30 MiB so far"),
        (scrub_at(100), "running, 100 MiB of 100 MiB: no difference in 100 MiB so far"),
        (ended_at(100), "finished, 100 MiB: all copies were equal"),
        (ended_at(40), "ended early, 40 MiB of 100 MiB: no difference in 40 MiB"),
        (ended_at(0), "ended early, 0 B of 100 MiB: nothing was compared"),
    ] {
        assert_eq!(scrub_lines(&mirror, scrub), [expected]);
    }
    let parity = status(5, 4, 1);
    assert_eq!(scrub_lines(&parity, ended_at(100)), ["finished, 100 MiB: all parities were right"]);
}

#[test]
fn a_scrub_waits_for_resync_and_rebuild_and_says_so() {
    let fresh = resyncing(1, 2, 1, 50);
    assert_eq!(
        scrub_lines(&fresh, scrub_at(0)),
        ["waits for resync and rebuild: nothing was compared"]
    );
    let rebuilt = degraded(status(1, 3, 1), vec![rebuilding(2, 0)]);
    let paused = "30 MiB of 100 MiB, paused by resync or rebuild: no difference in 30 MiB so far";
    assert_eq!(scrub_lines(&rebuilt, scrub_at(30)), [paused]);
}

#[test]
fn what_a_scrub_found_left_out_and_repaired_is_counted() {
    let mirror = status(1, 2, 1);
    let found = ArrayScrub { mismatches: 3, ..scrub_at(60) };
    assert_eq!(
        scrub_lines(&mirror, found),
        ["running, 60 MiB of 100 MiB: copies of chunks that differ: 3"]
    );
    let repaired =
        ArrayScrub { repairs: true, mismatches: 3, unreadable: 2, repaired: 4, ..ended_at(100) };
    assert_eq!(
        scrub_lines(&mirror, repaired),
        [
            "finished, 100 MiB: copies of chunks that differ: 3; chunks that cannot be read: 2, 4 repaired"
        ]
    );
    let clean = ArrayScrub { repairs: true, ..ended_at(100) };
    assert_eq!(
        scrub_lines(&mirror, clean),
        ["finished, 100 MiB: all copies were equal, 0 repaired"]
    );
    let partly = ArrayScrub { skipped_bytes: 25 * MIB, ..ended_at(100) };
    assert_eq!(
        scrub_lines(&mirror, partly),
        ["finished, 100 MiB: no difference in 75 MiB", "25 MiB had no second copy in sync"]
    );
    let nothing = ArrayScrub { skipped_bytes: 100 * MIB, ..ended_at(100) };
    assert_eq!(
        scrub_lines(&status(6, 5, 2), nothing),
        ["finished, 100 MiB: nothing was compared", "100 MiB had a member missing"]
    );
}

#[test]
fn the_document_for_programs_has_state_and_what_may_fail() {
    let mut bytes = Vec::new();
    let shown = resyncing(6, 5, 0, 17);
    write(Format::Json, &shown, &Options::default(), &mut bytes).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(json["state"], "resyncing");
    assert_eq!(
        [&json["may_fail"], &json["regions"], &json["regions_to_resync"], &json["regions_dirty"]],
        [0, 50, 17, 19]
    );
    assert_eq!(serde_json::from_slice::<ArrayStatus>(&bytes).unwrap(), shown);
}
