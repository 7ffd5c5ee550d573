//! Folders of hosts as users collect them, whole and damaged.

mod limits;
mod passes;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::symlink;

use durio_plan::{Threshold, ThresholdBound};
use durio_record::fleet::HostChange;
use durio_record::{OperationName, Outcome};
use testkit::fleet::{change, manifest};
use testkit::runs::MadeRun;

use super::*;
use crate::{FigureKey, HostStatistic, SharedStorage, judge_goal};

fn read(path: &Path) -> FleetFindings {
    read_hosts(&[path.to_owned()]).unwrap()
}

/// Each host by name, with its outcome and the number of its runs.
fn outcomes(findings: &FleetFindings) -> Vec<(&str, HostOutcome, usize)> {
    let mut hosts: Vec<_> = findings
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.outcome, host.runs.len()))
        .collect();
    hosts.sort_by_key(|(name, ..)| *name);
    hosts
}

fn reason<'f>(findings: &'f FleetFindings, host: &str) -> &'f str {
    let found = findings.hosts.iter().find(|found| found.name == host).unwrap();
    found.reason.as_deref().unwrap_or_default()
}

fn doubts(findings: &FleetFindings, kind: FleetDoubtKind) -> Vec<&str> {
    let of_kind = findings.doubts.iter().filter(|doubt| doubt.kind == kind);
    of_kind.map(|doubt| doubt.sentence.as_str()).collect()
}

fn campaign(path: &Path, hosts: &[&str]) -> CampaignFolder {
    CampaignFolder::create(path, manifest(hosts)).unwrap()
}

#[test]
fn a_campaign_has_every_host_that_was_asked_with_what_became_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let hosts = ["db2", "db1", "db3", "db4", "db5", "db6"];
    let campaign = campaign(&path, &hosts);
    let started = 1_000_000_000;
    for host in ["db1", "db2"] {
        let run = MadeRun { gate: Some((started, 0, 500)), ..MadeRun::new(host, &[100; 4]) };
        run.write(&path.join("hosts").join(host).join("run-1"));
        campaign.append_change(&change(host, HostState::Collected, None)).unwrap();
    }
    let cut = MadeRun { outcome: None, ..MadeRun::new("db3", &[100; 2]) };
    cut.write(&path.join("hosts/db3/run-1"));
    campaign.append_change(&change("db3", HostState::Running, None)).unwrap();
    campaign.append_change(&change("db3", HostState::Lost, None)).unwrap();
    campaign.append_change(&change("db4", HostState::Refused, Some("durio 0.2.0 there"))).unwrap();
    fs::create_dir_all(path.join("hosts/db5/run-1")).unwrap();
    fs::write(path.join("hosts/db5/run-1/run.json"), "{").unwrap();
    let findings = read(&path);
    assert_eq!((findings.campaign.as_deref(), findings.asked), (Some("nightly"), 6));
    assert_eq!(
        outcomes(&findings),
        [
            ("db1", HostOutcome::Measured, 1),
            ("db2", HostOutcome::Measured, 1),
            ("db3", HostOutcome::Lost, 1),
            ("db4", HostOutcome::Refused, 0),
            ("db5", HostOutcome::Failed, 0),
            ("db6", HostOutcome::Missing, 0),
        ]
    );
    assert_eq!(reason(&findings, "db3"), "it fell silent");
    assert_eq!(reason(&findings, "db4"), "durio 0.2.0 there");
    assert!(reason(&findings, "db5").contains("run.json"), "{}", reason(&findings, "db5"));
    assert_eq!(reason(&findings, "db6"), "its run was not collected");
    let lost = "1 host fell silent while others ran: the load is unknown";
    assert_eq!(doubts(&findings, FleetDoubtKind::Lost), [lost]);
    let pooled = &findings.pooled[0];
    assert_eq!((pooled.hosts, &pooled.shared), (2, &Some(SharedStorage::Stated)));
    let reason = "db3 did not complete it, with an unknown load until then";
    assert_eq!((pooled.rate, pooled.no_rate.as_deref()), (None, Some(reason)));
}

#[test]
fn a_host_that_came_back_counts_like_the_others_and_a_stranger_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = campaign(&path, &["db1"]);
    for host in ["db1", "db9"] {
        MadeRun::new(host, &[100; 2]).write(&path.join("hosts").join(host).join("run-1"));
        campaign.append_change(&change(host, HostState::Lost, None)).unwrap();
    }
    campaign.append_change(&change("db1", HostState::Collected, None)).unwrap();
    let findings = read(&path);
    assert_eq!(outcomes(&findings), [("db1", HostOutcome::Measured, 1)]);
    assert_eq!(
        doubts(&findings, FleetDoubtKind::Contradiction),
        ["'db9' has a folder and is not a host of the campaign"]
    );
}

#[test]
fn folders_of_hosts_are_read_with_runs_below_them_or_as_runs() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    // Figures of two runs; the newer one is in the folder that comes first by name.
    let newer = MadeRun {
        started: "2026-11-30T11:00:00.000Z".to_owned(),
        ..MadeRun::new("ignored", &[300; 2])
    };
    newer.write(&at("db1/a"));
    MadeRun::new("ignored", &[200; 2]).write(&at("db1/b"));
    MadeRun::new("ignored", &[400; 2]).write(&at("db2"));
    // The name of a run folder is not the name of a host.
    MadeRun::new("db3", &[500; 2]).write(&at("2026-11-30T100000-000Z-run-7"));
    fs::create_dir(at("db4")).unwrap();
    fs::write(at("inventory.ini"), "").unwrap();
    let findings = read(directory.path());
    assert_eq!(
        outcomes(&findings),
        [
            ("db1", HostOutcome::Measured, 2),
            ("db2", HostOutcome::Measured, 1),
            ("db3", HostOutcome::Measured, 1),
            ("db4", HostOutcome::Missing, 0),
        ]
    );
    assert_eq!((findings.campaign.as_deref(), findings.asked), (None, 4));
    assert_eq!(reason(&findings, "db4"), "its folder has no run folder");
    let db1 = findings.hosts.iter().find(|host| host.name == "db1").unwrap();
    let rates: Vec<f64> = db1.runs.iter().map(|run| run.figures[0].value).collect();
    assert_eq!(rates, [200.0, 300.0]);
    assert_eq!(db1.rate_over_time, [300.0, 300.0]);
    assert_eq!(db1.facts["kernel"], "6.12.9");
    let key = |statistic| FigureKey {
        workload: "randread".to_owned(),
        target: "data".to_owned(),
        operation: OperationName::Read,
        statistic,
    };
    let figures: Vec<_> =
        db1.runs[1].figures.iter().map(|figure| (figure.key.clone(), figure.value)).collect();
    // 600 operations of 100 µs have a median and a p99, and no p99.9.
    let expected = [
        (key(HostStatistic::Rate), 300.0),
        (key(HostStatistic::P50), 100_000.0),
        (key(HostStatistic::P99), 100_000.0),
    ];
    assert_eq!(figures, expected);
}

#[test]
fn loose_runs_of_one_machine_are_one_host_and_equal_names_are_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let made = |folder: &str, hostname: &str, id: &str, started: &str| {
        let path = directory.path().join(folder);
        let run = MadeRun {
            machine_id: Some(id.to_owned()),
            started: started.to_owned(),
            ..MadeRun::new(hostname, &[100; 2])
        };
        run.write(&path);
        path
    };
    let paths = [
        made("one", "localhost", "aaaa111111111111", "2026-11-30T10:00:00Z"),
        made("two", "renamed", "aaaa111111111111", "2026-11-30T11:00:00Z"),
        made("three", "localhost", "bbbb222222222222", "2026-11-30T10:00:00Z"),
    ];
    let findings = read_hosts(&paths).unwrap();
    assert_eq!(
        outcomes(&findings),
        [("localhost", HostOutcome::Measured, 2), ("localhost-bbbb22", HostOutcome::Measured, 1)]
    );
    // The same folder by another way is not a repeat.
    let twice = read_hosts(&[paths[0].clone(), directory.path().join("./one")]).unwrap();
    assert_eq!(outcomes(&twice), [("localhost", HostOutcome::Measured, 1)]);
    let again = format!("'{}' is named twice", directory.path().join("./one").display());
    assert_eq!(doubts(&twice, FleetDoubtKind::Contradiction), [again]);
}

#[test]
fn one_machine_under_two_names_and_two_machines_under_one_are_doubts() {
    let directory = tempfile::tempdir().unwrap();
    for (folder, id) in [("db1/a", "1"), ("db2/a", "1"), ("db2/b", "2")] {
        let id = Some(id.repeat(16));
        let run = MadeRun { machine_id: id, ..MadeRun::new("any", &[100; 2]) };
        run.write(&directory.path().join(folder));
    }
    let findings = read(directory.path());
    assert_eq!(
        doubts(&findings, FleetDoubtKind::SameMachine),
        ["db1 and db2 have the same machine ID: one machine, or copied images"]
    );
    assert_eq!(
        doubts(&findings, FleetDoubtKind::Contradiction),
        ["the runs of db2 are from 2 machines"]
    );
}

#[test]
fn other_plans_and_versions_are_doubts_with_the_hosts_that_differ() {
    let directory = tempfile::tempdir().unwrap();
    for host in ["db1", "db2", "db3"] {
        MadeRun::new(host, &[100; 2]).write(&directory.path().join(host));
    }
    let other = MadeRun { version: "0.2.0".to_owned(), ..MadeRun::new("db4", &[100; 3]) };
    other.write(&directory.path().join("db4"));
    let findings = read(directory.path());
    assert_eq!(
        doubts(&findings, FleetDoubtKind::MixedVersions),
        ["hosts ran different versions of durio: 0.1.0 (3 hosts), 0.2.0 (1 host)"]
    );
    assert_eq!(
        doubts(&findings, FleetDoubtKind::MixedPlans),
        ["1 host ran other steps or sizes than the 3 with the most common plan"]
    );
    let mixed = findings.doubts.iter().find(|doubt| doubt.kind == FleetDoubtKind::MixedPlans);
    assert_eq!(mixed.unwrap().hosts, ["db4"]);
}

#[test]
fn a_run_that_was_cut_is_partial_and_a_failed_one_failed() {
    let directory = tempfile::tempdir().unwrap();
    let made = |host: &str, outcome| {
        let run = MadeRun { outcome, ..MadeRun::new(host, &[100; 2]) };
        run.write(&directory.path().join(host));
    };
    made("db1", None);
    made("db2", Some(Outcome::Interrupted));
    made("db3", Some(Outcome::Failed));
    made("db4", Some(Outcome::Complete));
    // A power cut tore the last line.
    let events = directory.path().join("db4/events.jsonl");
    OpenOptions::new().append(true).open(events).unwrap().write_all(b"{\"at_ns\":9").unwrap();
    let findings = read(directory.path());
    assert_eq!(
        outcomes(&findings),
        [
            ("db1", HostOutcome::Partial, 1),
            ("db2", HostOutcome::Partial, 1),
            ("db3", HostOutcome::Failed, 1),
            ("db4", HostOutcome::Partial, 1),
        ]
    );
    assert_eq!(reason(&findings, "db1"), "its record has no end");
    assert_eq!(reason(&findings, "db2"), "its run was interrupted");
    assert_eq!(reason(&findings, "db3"), "an error ended its run");
    assert!(reason(&findings, "db4").contains("incomplete"), "{}", reason(&findings, "db4"));
    // Steps that were cut have no figures.
    let figures = |host: &str| {
        let found = findings.hosts.iter().find(|found| found.name == host).unwrap();
        found.runs[0].figures.len()
    };
    assert_eq!(["db1", "db2", "db3", "db4"].map(figures), [0, 0, 0, 3]);
}

#[test]
fn a_run_of_the_name_confirm_is_a_fresh_one_and_is_not_pooled() {
    let directory = tempfile::tempdir().unwrap();
    let names = [None, Some("confirm"), Some("confirm-2"), Some("confirmed")];
    for (hour, label) in (10..).zip(names) {
        let run = MadeRun {
            label: label.map(str::to_owned),
            started: format!("2026-11-30T{hour}:00:00.000Z"),
            ..MadeRun::new("db1", &[hour; 2])
        };
        run.write(&directory.path().join(format!("db1/{hour}")));
    }
    let findings = read(directory.path());
    let fresh: Vec<bool> = findings.hosts[0].runs.iter().map(|run| run.is_confirmation).collect();
    assert_eq!(fresh, [false, true, true, false]);
    assert_eq!(findings.hosts[0].rate_over_time, [13.0, 13.0]);
}

#[test]
fn hostile_names_and_links_are_passed_over_and_the_others_count() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fleet");
    MadeRun::new("db1", &[100; 2]).write(&path.join("db1"));
    for name in ["-o", "a\nb", ".hidden"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    symlink("/etc", path.join("db2")).unwrap();
    fs::create_dir(path.join("db3")).unwrap();
    symlink(path.join("db1"), path.join("db3/run-1")).unwrap();
    let findings = read(&path);
    assert_eq!(
        outcomes(&findings),
        [("db1", HostOutcome::Measured, 1), ("db3", HostOutcome::Missing, 0)]
    );
    let place = path.display();
    assert_eq!(
        doubts(&findings, FleetDoubtKind::Contradiction),
        [
            format!("the name '-o' in {place} begins with a dash or a dot"),
            format!("the name '.hidden' in {place} begins with a dash or a dot"),
            format!("the name 'a\\nb' in {place} contains a control character"),
            format!("the name 'db2' in {place} is a symbolic link"),
            format!("the name 'run-1' in {place}/db3 is a symbolic link"),
        ]
    );
    // A name from a record is not trusted either.
    let hostile = MadeRun { hostname: Some("../x".to_owned()), ..MadeRun::new("", &[100; 2]) };
    let loose = directory.path().join("loose");
    hostile.write(&loose);
    assert_eq!(outcomes(&read(&loose)), [("unnamed", HostOutcome::Measured, 1)]);
}

#[test]
fn nothing_to_read_is_an_error_with_each_reason() {
    let directory = tempfile::tempdir().unwrap();
    let error = |paths: &[PathBuf]| read_hosts(paths).unwrap_err().to_string();
    assert_eq!(error(&[]), "no run of any host can be read");
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let newer = directory.path().join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("fleet.json"), r#"{"schema":2}"#).unwrap();
    let (empty_text, newer_text) = (empty.display(), newer.display());
    assert_eq!(
        error(&[empty.clone(), newer.clone()]),
        format!(
            "no run of any host can be read: '{empty_text}' has no folder of a host or a run; \
             cannot read the campaign folder '{newer_text}': its schema is 2, this durio reads up \
             to 1; use a newer durio"
        )
    );
    let missing = error(&[directory.path().join("missing")]);
    assert!(missing.contains("cannot list the folders in"), "{missing}");
    let many = ReadError { reasons: (0..23).map(|number| number.to_string()).collect() };
    assert!(many.to_string().ends_with("; 18; 19; and 3 more reasons"), "{many}");
    assert!(many.to_string().starts_with("no run of any host can be read: 0; 1; "), "{many}");
}

#[test]
fn a_campaign_without_a_run_still_has_its_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = campaign(&path, &["db1", "db2"]);
    for host in ["db1", "db2"] {
        campaign.append_change(&change(host, HostState::Lost, None)).unwrap();
    }
    let findings = read(&path);
    let lost = [("db1", HostOutcome::Lost, 0), ("db2", HostOutcome::Lost, 0)];
    assert_eq!(outcomes(&findings), lost);
    assert_eq!(findings.pooled, []);
}

#[test]
fn losses_have_the_barriers_around_them_and_the_last_order_of_a_step_counts() {
    let passed = |step| CampaignEvent::BarrierPassed { step, skew_ns: 0, bound_ns: 0 };
    let order = |attempt, start_ns| CampaignEvent::BarrierOrdered {
        step: 2,
        attempt,
        start_ns,
        lead_ns: 1,
    };
    let decision = |decision: &str| CampaignEvent::Decision {
        decision: decision.into(),
        reason: "the operator".into(),
    };
    let lost = |host: &str| CampaignEvent::HostLost { host: host.into(), silent_ns: 1 };
    let events = [
        decision("go"),
        lost("a"),
        order(1, 40),
        order(2, 60),
        passed(2),
        lost("b"),
        lost("c"),
        passed(5),
        lost("d"),
        decision("stop"),
    ];
    let times = campaign_times(&timed(events));
    assert_eq!(times.orders, BTreeMap::from([(2, Nanos::new(60))]));
    assert_eq!(times.stops, [Nanos::new(9)]);
    let expected = [("b", 5, 2, Some(5)), ("c", 6, 2, Some(5)), ("d", 8, 5, None)];
    assert_eq!(
        losses(times),
        expected.map(|(host, at, step, next)| (host.to_owned(), at, step, next))
    );
}

fn timed(events: impl IntoIterator<Item = CampaignEvent>) -> Vec<TimedCampaignEvent> {
    let line = |(at, event)| TimedCampaignEvent { at: Nanos::new(at), event };
    (0..).zip(events).map(line).collect()
}

/// Each loss: the host, the time, and the steps before and after it.
fn losses(times: CampaignTimes) -> Vec<(String, u64, u32, Option<u32>)> {
    let losses = times.losses.into_iter();
    losses.map(|loss| (loss.host, loss.at.get(), loss.step, loss.next_step)).collect()
}

fn pass_started(label: &str, number: u32) -> CampaignEvent {
    let label = label.to_owned();
    CampaignEvent::PassStarted { label, number, passes: 2, hosts: Vec::new() }
}

#[test]
fn losses_of_the_newest_pass_count_until_its_runs_have_ended() {
    let passed = |step| CampaignEvent::BarrierPassed { step, skew_ns: 0, bound_ns: 0 };
    let order =
        |start_ns| CampaignEvent::BarrierOrdered { step: 0, attempt: 1, start_ns, lead_ns: 1 };
    let lost = |host: &str| CampaignEvent::HostLost { host: host.into(), silent_ns: 1 };
    let first = vec![pass_started("", 0), order(1), passed(0), lost("a"), passed(1), lost("b")];
    let both = [("a".to_owned(), 3, 0, Some(1)), ("b".to_owned(), 5, 1, None)];
    assert_eq!(losses(campaign_times(&timed(first.clone()))), both);
    // Until the next pass starts its first step, the runs of this one are the newest.
    let begun = [first.clone(), vec![pass_started("", 1), lost("c")]].concat();
    assert_eq!(losses(campaign_times(&timed(begun.clone()))), both);
    let second = [begun, vec![order(9), passed(0), lost("d")]].concat();
    let times = campaign_times(&timed(second.clone()));
    assert_eq!(times.orders, BTreeMap::from([(0, Nanos::new(9))]));
    let newest = [("d".to_owned(), 10, 0, None)];
    assert_eq!(losses(times), newest);
    // Losses of a pass that is continued count; those of a confirmation or a collection do not.
    let later = vec![pass_started("", 1), lost("e"), pass_started("confirm 2", 0)];
    let confirmed =
        vec![order(20), passed(0), lost("f"), pass_started("", 0), passed(1), lost("g")];
    let all = [second, later, confirmed].concat();
    let times = campaign_times(&timed(all));
    assert_eq!(times.orders, BTreeMap::from([(0, Nanos::new(9))]));
    assert_eq!(losses(times), [newest, [("e".to_owned(), 12, 0, None)]].concat());
}

#[test]
fn each_state_of_a_host_without_a_run_is_an_outcome_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let hosts = ["db1", "db2", "db3", "db4", "db5"];
    let campaign = campaign(&path, &hosts);
    let why = Some("no space left on device");
    for (host, state, reason) in [
        ("db1", HostState::Failed, None),
        ("db2", HostState::Failed, why),
        ("db3", HostState::Stopped, Some("the operator")),
        ("db4", HostState::Stopped, None),
        ("db5", HostState::Refused, None),
    ] {
        campaign.append_change(&change(host, state, reason)).unwrap();
    }
    // A run of a host that durio failed on counts, and the host is not measured.
    MadeRun::new("db2", &[100; 2]).write(&path.join("hosts/db2/run-1"));
    let findings = read(&path);
    assert_eq!(
        outcomes(&findings),
        [
            ("db1", HostOutcome::Failed, 0),
            ("db2", HostOutcome::Failed, 1),
            ("db3", HostOutcome::Missing, 0),
            ("db4", HostOutcome::Missing, 0),
            ("db5", HostOutcome::Refused, 0),
        ]
    );
    let reasons = hosts.map(|host| reason(&findings, host));
    let expected = [
        "durio failed there",
        "no space left on device",
        "the operator",
        "its run was not collected",
        "it was refused",
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_host_that_is_lost_while_suspects_are_confirmed_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = campaign(&path, &["db1", "db2"]);
    let at = |seconds, change: HostChange| HostChange { at: Nanos::from_secs(seconds), ..change };
    let line = |seconds, event| TimedCampaignEvent { at: Nanos::from_secs(seconds), event };
    campaign.append_event(&line(0, pass_started("", 0))).unwrap();
    for host in ["db1", "db2"] {
        MadeRun::new(host, &[100; 2]).write(&path.join("hosts").join(host).join("run-1"));
        campaign.append_change(&at(9, change(host, HostState::Collected, None))).unwrap();
    }
    campaign.append_event(&line(10, pass_started("confirm 1", 0))).unwrap();
    campaign.append_change(&at(10, change("db1", HostState::Lost, None))).unwrap();
    let measured = [("db1", HostOutcome::Measured, 1), ("db2", HostOutcome::Measured, 1)];
    let findings = read(&path);
    assert_eq!(outcomes(&findings), measured);
    assert_eq!(doubts(&findings, FleetDoubtKind::CutRun), [""; 0]);
    // A pass of the campaign itself, after that.
    campaign.append_event(&line(20, pass_started("", 1))).unwrap();
    campaign.append_change(&at(20, change("db2", HostState::Lost, None))).unwrap();
    let findings = read(&path);
    assert_eq!(outcomes(&findings), measured);
    let cut = "run 2 of 2 was cut short on 1 host: it fell silent";
    assert_eq!(doubts(&findings, FleetDoubtKind::CutRun), [cut]);
}

#[test]
fn a_mix_has_the_figures_of_its_reads_and_of_its_writes() {
    let directory = tempfile::tempdir().unwrap();
    let run = MadeRun { writes: vec![(2_000_000, 150)], ..MadeRun::new("db1", &[300; 2]) };
    run.write(&directory.path().join("db1"));
    let findings = read(directory.path());
    let figures: Vec<_> = findings.hosts[0].runs[0]
        .figures
        .iter()
        .map(|figure| (figure.key.operation, figure.key.statistic, figure.value))
        .collect();
    let each = |operation, rate, latency| {
        [
            (operation, HostStatistic::Rate, rate),
            (operation, HostStatistic::P50, latency),
            (operation, HostStatistic::P99, latency),
        ]
    };
    let expected = [
        each(OperationName::Read, 300.0, 100_000.0),
        each(OperationName::Write, 150.0, 2_000_000.0),
    ];
    assert_eq!(figures, expected.concat());
    // A goal is met by both together, as in a check of one host.
    let goal = |at_least_per_second| {
        let bound = ThresholdBound::RateAtLeast { at_least_per_second };
        let goal = Threshold::goal("N".to_owned(), "randread".to_owned(), bound);
        judge_goal(&goal, &findings).unwrap().missed
    };
    assert_eq!(goal(450.0), []);
    assert_eq!(goal(450.5), [("db1".to_owned(), 450.0)]);
}

#[test]
fn starts_that_two_campaigns_ordered_are_not_on_one_clock() {
    let directory = tempfile::tempdir().unwrap();
    let made = |name: &str, hosts: &[&str]| {
        let path = directory.path().join(name);
        campaign(&path, hosts);
        for host in hosts {
            let gate = Some((1_000_000_000, 0, 500));
            let run = MadeRun { gate, ..MadeRun::new(host, &[100; 2]) };
            run.write(&path.join("hosts").join(host).join("run-1"));
        }
        path
    };
    let found = |paths: &[PathBuf]| {
        let findings = read_hosts(paths).unwrap();
        let skewed = doubts(&findings, FleetDoubtKind::Skewed);
        let is_by_wall = skewed.iter().any(|doubt| doubt.starts_with("no process ordered"));
        (findings.campaign.clone(), findings.pooled[0].rate, is_by_wall)
    };
    let one = found(&[made("both", &["db1", "db2"])]);
    assert_eq!(one, (Some("nightly".to_owned()), Some(200.0), false));
    let two = found(&[made("first", &["db1"]), made("second", &["db2"])]);
    assert_eq!(two, (Some("nightly, nightly".to_owned()), Some(200.0), true));
}
