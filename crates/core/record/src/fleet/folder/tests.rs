//! Campaign folders that are whole, torn, hostile or of another version.

use std::error::Error;
use std::fs::OpenOptions;
use std::os::unix::fs::symlink;

use durio_base::Nanos;

use super::super::{Barrier, CampaignPolicy, HostState, LostPolicy};
use super::*;

fn manifest(hosts: &[&str]) -> CampaignManifest {
    CampaignManifest {
        schema: CAMPAIGN_FOLDER_SCHEMA,
        campaign: "00112233445566778899aabbccddeeff".into(),
        name: "nightly".into(),
        version: "0.1.0".into(),
        started: "2026-11-30T10:00:00.000Z".into(),
        command: vec!["durio-fleet".into(), "run".into()],
        spec: "schema = 1\n".into(),
        spec_digest: "ab".repeat(32),
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        policy: CampaignPolicy {
            barrier: Barrier::Step,
            lost: LostPolicy::GoOn,
            hosts_min: 2,
            repeats: 3,
            shared: true,
        },
        key: None,
    }
}

fn change(host: &str, state: HostState) -> HostChange {
    HostChange {
        at: Nanos::from_millis(1500),
        host: host.to_owned(),
        state,
        reason: None,
        plan_digest: None,
        clock: None,
        run: None,
        folder_digest: None,
        unwritten: 0,
    }
}

fn states(campaign: &CampaignFolder) -> (Vec<HostState>, u64, Option<String>) {
    let read = campaign.changes().unwrap();
    (read.lines.iter().map(|line| line.state).collect(), read.unknown, read.damage)
}

fn cause(error: &RecordError) -> String {
    error.source().unwrap().to_string()
}

/// A campaign of two hosts, and the directory that it lies in.
fn campaign() -> (tempfile::TempDir, CampaignFolder) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("campaign");
    let campaign = CampaignFolder::create(&folder, manifest(&["db1", "db2"])).unwrap();
    (directory, campaign)
}

fn write_to(campaign: &CampaignFolder, name: &str, text: &[u8]) {
    let path = campaign.path().join(name);
    OpenOptions::new().append(true).open(path).unwrap().write_all(text).unwrap();
}

#[test]
fn a_campaign_is_read_as_it_was_written() {
    let (_directory, campaign) = campaign();
    campaign.append_change(&change("db1", HostState::Running)).unwrap();
    campaign.append_change(&change("db2", HostState::Lost)).unwrap();
    let lost = CampaignEvent::HostLost { host: "db2".into(), silent_ns: 1_540_000_000 };
    let ignored = CampaignEvent::MessagesIgnored { count: 7 };
    for event in [lost.clone(), ignored.clone()] {
        campaign.append_event(&TimedCampaignEvent { at: Nanos::from_secs(3), event }).unwrap();
    }
    let read = CampaignFolder::open(campaign.path()).unwrap();
    assert_eq!(read.manifest, manifest(&["db1", "db2"]));
    assert_eq!(states(&read), (vec![HostState::Running, HostState::Lost], 0, None));
    let events: Vec<_> = read.events().unwrap().lines.into_iter().map(|line| line.event).collect();
    assert_eq!(events, [lost, ignored]);
    assert_eq!(read.host_folders().unwrap(), NamedFolders::default());
}

#[test]
fn a_change_has_the_number_of_changes_without_a_line_and_older_lines_have_none() {
    let (_directory, campaign) = campaign();
    let old = br#"{"at_ns":1,"host":"db1","state":"running"}"#;
    write_to(&campaign, "hosts.jsonl", &[&old[..], b"\n"].concat());
    let change = HostChange { unwritten: 7, ..change("db1", HostState::Ended) };
    campaign.append_change(&change).unwrap();
    let counts: Vec<u64> =
        campaign.changes().unwrap().lines.iter().map(|line| line.unwritten).collect();
    assert_eq!(counts, [0, 7]);
}

#[test]
fn a_folder_that_exists_is_never_made_a_campaign() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes"), "a user's").unwrap();
    let error = CampaignFolder::create(directory.path(), manifest(&["db1"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot make the campaign folder '{}'", directory.path().display())
    );
    assert_eq!(error.source.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(!CampaignFolder::is_at(directory.path()));
}

#[test]
fn only_names_that_are_one_folder_and_no_option_are_names() {
    let long = "x".repeat(253);
    for name in ["db1", "db-1.example", "10.0.0.7", "fd00::7", "db 1", "a%b", "höst", &long] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    for (name, reason) in [
        ("", "is empty"),
        ("../x", "contains a slash"),
        ("/etc", "contains a slash"),
        (".", "begins with a dash or a dot"),
        ("..", "begins with a dash or a dot"),
        ("-oProxyCommand=x", "begins with a dash or a dot"),
        ("db\n1", "contains a control character"),
        ("db\u{1b}[2J", "contains a control character"),
        ("x".repeat(254).as_str(), "is longer than 253 bytes"),
        ("x".repeat(300).as_str(), "is longer than 253 bytes"),
    ] {
        assert_eq!(check_name(name), Err(reason), "{name:?}");
    }
}

#[test]
fn a_manifest_that_names_a_hostile_host_or_one_twice_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (host, shown) in [("../x", "../x"), ("-o", "-o"), ("a\nb", "a\\nb")] {
        let path = directory.path().join("campaign");
        let error = CampaignFolder::create(&path, manifest(&["db1", host])).unwrap_err();
        assert!(cause(&error).starts_with(&format!("the name '{shown}' ")), "{}", cause(&error));
        assert!(!path.exists());
        // The same from a folder that another program wrote.
        fs::create_dir(&path).unwrap();
        let text = serde_json::to_vec(&manifest(&["db1", host])).unwrap();
        fs::write(path.join("fleet.json"), text).unwrap();
        assert_eq!(CampaignFolder::open(&path).unwrap_err().kind, RecordErrorKind::Malformed);
        fs::remove_dir_all(&path).unwrap();
    }
    let path = directory.path().join("twice");
    let error = CampaignFolder::create(&path, manifest(&["db1", "db1"])).unwrap_err();
    assert_eq!(cause(&error), "the name 'db1' is listed twice");
}

#[test]
fn a_folder_of_an_unknown_schema_is_refused_with_both_numbers() {
    let (_directory, campaign) = campaign();
    let newer = r#"{"schema":2,"what":"another form"}"#;
    fs::write(campaign.path().join("fleet.json"), newer).unwrap();
    let error = CampaignFolder::open(campaign.path()).unwrap_err();
    assert_eq!(error.kind, RecordErrorKind::NewerSchema);
    assert_eq!(cause(&error), "its schema is 2, this durio reads up to 1; use a newer durio");
}

#[test]
fn an_incomplete_last_line_is_left_out_and_cut_off_before_the_next() {
    let (_directory, campaign) = campaign();
    campaign.append_change(&change("db1", HostState::Joined)).unwrap();
    write_to(&campaign, "hosts.jsonl", br#"{"at_ns":1,"host":"db1","sta"#);
    assert_eq!(states(&campaign), (vec![HostState::Joined], 0, None));
    let path = campaign.path().to_owned();
    let refused = CampaignFolder::resume(&path).unwrap_err();
    assert_eq!(cause(&refused), "another process writes to it: the campaign is running");
    drop(campaign);
    let resumed = CampaignFolder::resume(&path).unwrap();
    resumed.append_change(&change("db1", HostState::Collected)).unwrap();
    assert_eq!(states(&resumed), (vec![HostState::Joined, HostState::Collected], 0, None));
}

#[test]
fn a_line_that_is_not_json_or_huge_ends_the_reading_and_an_unknown_one_does_not() {
    let (_directory, campaign) = campaign();
    campaign.append_change(&change("db1", HostState::Joined)).unwrap();
    write_to(&campaign, "hosts.jsonl", b"{\"at_ns\":1,\"host\":\"db1\",\"state\":\"dreaming\"}\n");
    write_to(&campaign, "hosts.jsonl", b"{\"at_ns\":1,\"host\":\"../db1\",\"state\":\"lost\"}\n");
    write_to(
        &campaign,
        "hosts.jsonl",
        b"{\"at_ns\":1,\"host\":\"db1\",\"run\":\"-x\",\"state\":\"lost\"}\n",
    );
    campaign.append_change(&change("db1", HostState::Armed)).unwrap();
    assert_eq!(states(&campaign), (vec![HostState::Joined, HostState::Armed], 3, None));
    write_to(&campaign, "hosts.jsonl", b"not json\n");
    campaign.append_change(&change("db1", HostState::Running)).unwrap();
    let (read, unknown, damage) = states(&campaign);
    assert_eq!((read.len(), unknown), (2, 3));
    let damage = damage.unwrap();
    assert!(damage.starts_with("line 6 of hosts.jsonl: expected ident"), "{damage}");
    for (length, unknown, damage) in
        [(8_388_608, 1, None), (8_388_609, 0, Some("line 1 of events.jsonl is longer than 8 MiB"))]
    {
        let mut line = vec![b' '; length - 3];
        line.extend_from_slice(b"{}\n");
        fs::write(campaign.path().join("events.jsonl"), line).unwrap();
        let read = campaign.events().unwrap();
        assert_eq!((read.unknown, read.damage.as_deref()), (unknown, damage), "{length} bytes");
    }
}

#[test]
fn links_and_files_instead_of_folders_are_not_hosts() {
    let (directory, campaign) = campaign();
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let hosts = campaign.path().join("hosts");
    symlink(&elsewhere, hosts.join("db3")).unwrap();
    fs::create_dir(hosts.join("db2")).unwrap();
    fs::create_dir(hosts.join("-o")).unwrap();
    fs::write(hosts.join("notes"), "").unwrap();
    let found = campaign.host_folders().unwrap();
    assert_eq!(found.names, ["db2"]);
    let place = hosts.display();
    assert_eq!(
        found.refused,
        [
            format!("the name '-o' in {place} begins with a dash or a dot"),
            format!("the name 'db3' in {place} is a symbolic link"),
        ]
    );
    let error = campaign.make_run("db3", "run").unwrap_err();
    assert_eq!(cause(&error), "it is a link or not a folder");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    campaign.make_run("db2", "2026-run-7").unwrap().make_file("run.json").unwrap();
    assert!(hosts.join("db2/2026-run-7/run.json").is_file());
    for (host, run) in [("../db2", "run"), ("db2", "../../x"), ("db2", "-o")] {
        assert_eq!(campaign.make_run(host, run).unwrap_err().kind, RecordErrorKind::Malformed);
    }
}

#[test]
fn a_link_instead_of_a_file_of_the_campaign_is_neither_read_nor_written() {
    let (directory, campaign) = campaign();
    let secret = directory.path().join("secret");
    fs::write(&secret, "private\n").unwrap();
    let path = campaign.path().join("hosts.jsonl");
    fs::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    campaign.changes().unwrap_err();
    campaign.append_change(&change("db1", HostState::Joined)).unwrap_err();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "private\n");
    // Killed before the first line was written.
    fs::remove_file(&path).unwrap();
    assert_eq!(states(&campaign), (vec![], 0, None));
}

#[test]
fn lines_have_the_keys_of_schema_1() {
    for line in [
        r#"{"at_ns":1,"event":"barrier_reached","step":2,"hosts":3}"#,
        r#"{"at_ns":1,"event":"barrier_ordered","step":2,"attempt":3,"start_ns":4,"lead_ns":5}"#,
        r#"{"at_ns":1,"event":"barrier_cancelled","step":2,"attempt":3,"silent":["a"]}"#,
        r#"{"at_ns":1,"event":"barrier_passed","step":2,"skew_ns":3,"bound_ns":4}"#,
        r#"{"at_ns":1,"event":"host_lost","host":"a","silent_ns":2}"#,
        r#"{"at_ns":1,"event":"host_back","host":"a"}"#,
        r#"{"at_ns":1,"event":"late_joiner","host":"a"}"#,
        r#"{"at_ns":1,"event":"host_refused","host":"a","reason":"r"}"#,
        r#"{"at_ns":1,"event":"bus_lost"}"#,
        r#"{"at_ns":1,"event":"bus_back"}"#,
        r#"{"at_ns":1,"event":"resumed","hosts":2}"#,
        r#"{"at_ns":1,"event":"decision","decision":"go","reason":"r"}"#,
        r#"{"at_ns":1,"event":"messages_ignored","count":2}"#,
        r#"{"at_ns":1,"event":"ended","outcome":"too_few_hosts"}"#,
    ] {
        let read: TimedCampaignEvent = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
    let line = r#"{"at_ns":1,"host":"a","state":"collected","reason":"r","plan_digest":"p","clock":{"offset_ns":-1,"bound_ns":2},"run":"x","folder_digest":"d"}"#;
    let read: HostChange = serde_json::from_str(line).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), line);
    let manifest = serde_json::to_value(manifest(&["a"])).unwrap();
    let policy = &manifest["policy"];
    assert!(policy["barrier"] == "step" && policy["lost"] == "go_on", "{policy}");
}
