//! The status of an array, from its engine and its server.

use durio_base::RaidLevel;
use durio_raid::StopReason;

use super::*;

#[test]
fn as_many_members_may_fail_as_the_weakest_set_has_to_spare() {
    let of = |level, members, lacking: &[usize], unsynced| {
        let geometry =
            Geometry { level, members, chunk: 4096, region: 1 << 20, member_bytes: 1 << 20 };
        let has_all: Vec<_> = (0..members.into()).map(|at| !lacking.contains(&at)).collect();
        may_fail(&geometry, &has_all, unsynced)
    };
    assert_eq!([of(RaidLevel::Raid0, 3, &[], 0), of(RaidLevel::Raid0, 3, &[1], 0)], [0, 0]);
    let mirror = |lacking: &[usize], unsynced| of(RaidLevel::Raid1, 3, lacking, unsynced);
    assert_eq!([mirror(&[], 0), mirror(&[], 9), mirror(&[2], 0), mirror(&[0, 2], 0)], [2, 2, 1, 0]);
    let pairs = |lacking: &[usize]| of(RaidLevel::Raid10, 6, lacking, 0);
    assert_eq!([pairs(&[]), pairs(&[3]), pairs(&[0, 3])], [1, 0, 0]);
    let parity = |lacking: &[usize], unsynced| of(RaidLevel::Raid5, 4, lacking, unsynced);
    assert_eq!([parity(&[], 0), parity(&[], 1), parity(&[3], 0)], [1, 0, 0]);
    let double = |lacking: &[usize], unsynced| of(RaidLevel::Raid6, 5, lacking, unsynced);
    assert_eq!([double(&[], 0), double(&[], 1), double(&[0], 0), double(&[0, 4], 0)], [2, 0, 1, 0]);
}

#[test]
fn an_array_runs_when_each_member_has_all_and_nothing_is_left_to_make_equal() {
    let state = |stopped, is_running, regions_unsynced, has_all: &[bool]| {
        let engine = Status {
            is_running,
            is_settled: true,
            stopped,
            epoch: 7,
            roles: Vec::new(),
            regions_unsynced,
            regions_dirty: 3,
            scrub: None,
        };
        state_of(&engine, has_all)
    };
    for (is_running, unsynced, has_all, expected) in [
        (true, 0, [true; 3], ArrayState::Running),
        (true, 1, [true; 3], ArrayState::Resyncing),
        (true, 0, [true, true, false], ArrayState::Degraded),
        (true, 9, [false, true, true], ArrayState::Degraded),
        (false, 0, [true; 3], ArrayState::Starting),
        (false, 9, [false; 3], ArrayState::Starting),
    ] {
        assert_eq!(state(None, is_running, unsynced, &has_all), expected);
        let stopped = state(Some(StopReason::NoMajority), is_running, unsynced, &has_all);
        assert_eq!(stopped, ArrayState::Stopped);
    }
}

#[test]
fn each_counter_of_a_device_is_told_under_its_own_name() {
    let (in_flight, reads, writes, errors) = (2, 30, 400, 5);
    let counters =
        DeviceCounters { in_flight, reads, writes, errors, is_open: true, is_used: true };
    let told = member_status(Some("/dev/x".to_owned()), counters, None);
    assert_eq!((told.in_flight, told.reads, told.writes, told.errors), (2, 30, 400, 5));
    assert_eq!(
        (told.role, told.replaces, told.rebuilt_bytes, told.by_map),
        (None, None, None, false)
    );
    assert_eq!((told.path.as_deref(), told.state), (Some("/dev/x"), MemberStanding::GivenUp));
}

#[test]
fn a_member_is_told_with_its_role_and_a_replacement_with_the_one_that_it_takes() {
    let told = |role, replaces, state, by_map| {
        let is_read = state == MemberState::InSync;
        let of =
            RoleStatus { device: Some(3), state, is_read, rebuilt: 48 << 20, by_map, replaces };
        let counters = DeviceCounters { reads: 30, ..DeviceCounters::default() };
        let told = member_status(Some("/dev/x".to_owned()), counters, Some((role, &of)));
        assert_eq!((told.path.as_deref(), told.reads), (Some("/dev/x"), 30));
        (told.role, told.replaces, told.state, told.rebuilt_bytes, told.by_map)
    };
    let member = told(Some(1), None, MemberState::InSync, false);
    assert_eq!(member, (Some(1), None, MemberStanding::InSync, None, false));
    let replacement = told(None, Some(2), MemberState::Rebuilding, false);
    let rebuilt = Some(50_331_648);
    assert_eq!(replacement, (None, Some(2), MemberStanding::Rebuilding, rebuilt, false));
    let back = told(Some(0), None, MemberState::Rebuilding, true);
    assert_eq!(back, (Some(0), None, MemberStanding::Rebuilding, rebuilt, true));
    let spare = told(None, None, MemberState::Spare, false);
    assert_eq!(spare, (None, None, MemberStanding::Spare, None, false));
}

#[test]
fn a_server_of_an_array_is_known_by_its_command_line_and_its_socket_is_where_it_started() {
    let program = |words: &[&str], directory: Option<&str>| RunningProgram {
        process: 7,
        user: 1000,
        group: 1000,
        arguments: words.iter().map(|word| (*word).to_owned()).collect(),
        directory: directory.map(PathBuf::from),
    };
    let socket = |words: &[&str], directory| {
        socket_of_server(&program(words, directory)).map(|path| path.display().to_string())
    };
    let apart = ["durio", "raid", "start", "--front", "nbd", "--socket", "s", "a", "b"];
    assert_eq!(socket(&apart, Some("/srv")).as_deref(), Some("/srv/s"));
    let joined = ["/usr/bin/durio", "raid", "start", "--detached", "--socket=/run/data", "a"];
    assert_eq!(socket(&joined, Some("/srv")).as_deref(), Some("/run/data"));
    assert_eq!(socket(&joined, None).as_deref(), Some("/run/data"));
    // Relative to a directory that this user may not see.
    assert_eq!(socket(&apart, None), None);
    for other in [
        &["durio", "raid", "status", "--socket", "/run/data"][..],
        &["durio", "check", "raid"],
        &["durio", "raid", "start", "a", "--socket"],
        &["durio"],
        &[],
    ] {
        assert_eq!(socket(other, Some("/srv")), None, "{other:?}");
    }
}
