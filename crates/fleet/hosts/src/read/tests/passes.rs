//! Passes of a campaign that were cut.

use durio_analyse::RunState;
use durio_report::{Format, Options, Report, write};

use super::*;

/// The run of a pass, which `rate` reads a second tell from the others.
fn pass(path: &Path, host: &str, number: u64, rate: u64, outcome: Option<Outcome>) {
    let run = MadeRun {
        started: format!("2026-11-30T1{number}:00:00.000Z"),
        outcome,
        ..MadeRun::new(host, &[rate; 2])
    };
    run.write(&path.join("hosts").join(host).join(format!("run-{number}")));
}

/// A campaign of three passes on hosts that are alike.
fn three_passes(path: &Path, hosts: &[&str]) -> CampaignFolder {
    let campaign = campaign(path, hosts);
    for number in 0..3 {
        let label = String::new();
        let event = CampaignEvent::PassStarted { label, number, passes: 3, hosts: Vec::new() };
        let at = Nanos::new(u64::from(number));
        campaign.append_event(&TimedCampaignEvent { at, event }).unwrap();
    }
    campaign
}

const COMPLETE: Option<Outcome> = Some(Outcome::Complete);
const HOSTS: [&str; 8] = ["db1", "db2", "db3", "db4", "db5", "db6", "db7", "db8"];
const TOO_FEW: Option<&str> = Some("0 hosts left, 1 wanted");

fn text(findings: &FleetFindings) -> String {
    let mut out = Vec::new();
    write(Format::Text, findings, &Options::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn sentence(findings: &FleetFindings) -> String {
    findings.summary().unwrap().sentence
}

/// The doubts about runs that were cut, each with its hosts.
fn cut_runs(findings: &FleetFindings) -> Vec<(&str, Vec<&str>)> {
    let cut = findings.doubts.iter().filter(|doubt| doubt.kind == FleetDoubtKind::CutRun);
    cut.map(|doubt| (doubt.sentence.as_str(), doubt.hosts.iter().map(String::as_str).collect()))
        .collect()
}

#[test]
fn hosts_whose_last_of_three_runs_was_cut_are_measured_by_the_two_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = three_passes(&path, &HOSTS);
    for host in HOSTS {
        pass(&path, host, 0, 200, COMPLETE);
        pass(&path, host, 1, 800, COMPLETE);
        pass(&path, host, 2, 900, Some(Outcome::Interrupted));
        campaign.append_change(&change(host, HostState::Collected, TOO_FEW)).unwrap();
    }
    let findings = read(&path);
    assert_eq!(outcomes(&findings), HOSTS.map(|host| (host, HostOutcome::Measured, 3)));
    assert_eq!(HOSTS.map(|host| reason(&findings, host)), [""; 8]);
    let cut = "run 3 of 3 was cut short on 8 hosts: 0 hosts left, 1 wanted";
    assert_eq!(cut_runs(&findings), [(cut, HOSTS.to_vec())]);
    let host = &findings.hosts[0];
    assert_eq!((host.verdict, &host.rate_over_time[..]), (HostVerdict::Alike, &[800.0; 2][..]));
    let expected = "Good: 8 of 8 hosts measured, no difference found; median 400 randread reads/s \
                    (400 to 400). Caveat: run 3 of 3 was cut short on 8 hosts: 0 hosts left, 1 \
                    wanted.";
    assert_eq!(sentence(&findings), expected);
    let text = text(&findings);
    assert!(text.contains(&format!("\ndoubt  {cut}\n")), "{text}");
    assert!(!text.contains("partial") && !text.contains("no result"), "{text}");
}

#[test]
fn one_complete_run_of_three_is_judged_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = three_passes(&path, &HOSTS);
    for host in HOSTS {
        pass(&path, host, 0, 500, COMPLETE);
        pass(&path, host, 1, 600, Some(Outcome::Interrupted));
        // Its steps are complete, and the record is not.
        pass(&path, host, 2, 700, COMPLETE);
        let events = path.join("hosts").join(host).join("run-2/events.jsonl");
        let lines = fs::read_to_string(&events).unwrap();
        let ended = lines.trim_end().rfind('\n').unwrap();
        fs::write(&events, &lines[..=ended]).unwrap();
        campaign.append_change(&change(host, HostState::Collected, TOO_FEW)).unwrap();
    }
    let findings = read(&path);
    assert_eq!(outcomes(&findings), HOSTS.map(|host| (host, HostOutcome::Measured, 3)));
    let expected = [
        ("run 2 of 3 was cut short on 8 hosts: it was interrupted", HOSTS.to_vec()),
        ("run 3 of 3 was cut short on 8 hosts: 0 hosts left, 1 wanted", HOSTS.to_vec()),
    ];
    assert_eq!(cut_runs(&findings), expected);
    let host = &findings.hosts[0];
    let runs: Vec<_> = host.runs.iter().map(|run| (run.state, run.figures.len())).collect();
    let expected = [(RunState::Complete, 4), (RunState::Interrupted, 0), (RunState::Partial, 0)];
    assert_eq!(runs, expected);
    assert_eq!(host.rate_over_time, [500.0; 2]);
    let single = "8 hosts with a single run: its scatter is unknown, and a disturbed run looks like \
                  a slow host";
    assert_eq!(doubts(&findings, FleetDoubtKind::FewHosts), [single]);
    let begin = "Good: 8 of 8 hosts measured, no difference found; median 500 randread reads/s (500 to 500)";
    assert!(sentence(&findings).starts_with(begin), "{}", sentence(&findings));
}

#[test]
fn hosts_without_a_complete_run_have_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = three_passes(&path, &HOSTS);
    for host in HOSTS {
        pass(&path, host, 0, 500, Some(Outcome::Interrupted));
        pass(&path, host, 1, 600, None);
        campaign.append_change(&change(host, HostState::Collected, TOO_FEW)).unwrap();
    }
    let findings = read(&path);
    assert_eq!(outcomes(&findings), HOSTS.map(|host| (host, HostOutcome::Partial, 2)));
    assert_eq!(HOSTS.map(|host| reason(&findings, host)), ["0 hosts left, 1 wanted"; 8]);
    assert_eq!(cut_runs(&findings), []);
    let expected = [
        "no host was measured",
        "8 of 8 hosts have no complete run (db1 partial, db2 partial, + 6 more)",
    ];
    assert_eq!(findings.summary().unwrap().reasons[..2], expected);
    let text = text(&findings);
    let line = "\nno result  db1 partial: 0 hosts left, 1 wanted\n";
    assert!(text.contains(line), "{text}");
    // One of them among hosts that have one.
    for host in &HOSTS[..7] {
        pass(&path, host, 2, 700, COMPLETE);
        campaign.append_change(&change(host, HostState::Collected, None)).unwrap();
    }
    let findings = read(&path);
    let begin =
        "Caution: 1 of 8 hosts has no complete run (db8 partial); median 700 randread reads/s";
    assert!(sentence(&findings).starts_with(begin), "{}", sentence(&findings));
    let expected = [
        ("run 1 of 3 was cut short on 7 hosts: it was interrupted", HOSTS[..7].to_vec()),
        ("run 2 of 3 was cut short on 7 hosts: its record has no end", HOSTS[..7].to_vec()),
    ];
    assert_eq!(cut_runs(&findings), expected);
}

#[test]
fn each_way_to_lose_a_later_run_is_a_reason_of_the_doubt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("campaign");
    let campaign = three_passes(&path, &HOSTS);
    for host in HOSTS {
        pass(&path, host, 0, 500, COMPLETE);
        pass(&path, host, 1, 600, COMPLETE);
    }
    pass(&path, "db1", 2, 700, COMPLETE);
    campaign.append_change(&change("db1", HostState::Collected, None)).unwrap();
    for host in ["db2", "db3"] {
        campaign.append_change(&change(host, HostState::Lost, None)).unwrap();
    }
    pass(&path, "db4", 2, 700, Some(Outcome::Failed));
    campaign.append_change(&change("db4", HostState::Failed, Some("no space left"))).unwrap();
    campaign.append_change(&change("db5", HostState::Stopped, None)).unwrap();
    // Its record is whole, and the campaign says otherwise.
    pass(&path, "db6", 2, 700, COMPLETE);
    campaign.append_change(&change("db6", HostState::Lost, None)).unwrap();
    let torn = path.join("hosts/db7/run-2");
    fs::create_dir(&torn).unwrap();
    fs::write(torn.join("run.json"), "{").unwrap();
    let fresh = MadeRun {
        label: Some("confirm".to_owned()),
        started: "2026-11-30T19:00:00.000Z".to_owned(),
        outcome: None,
        ..MadeRun::new("db8", &[100; 2])
    };
    fresh.write(&path.join("hosts/db8/fresh"));
    let findings = read(&path);
    let runs = [3, 2, 2, 3, 2, 3, 2, 3];
    let measured: [_; 8] = std::array::from_fn(|at| (HOSTS[at], HostOutcome::Measured, runs[at]));
    assert_eq!(outcomes(&findings), measured);
    let [fresh, unreadable, last] = &cut_runs(&findings)[..] else { panic!("{findings:?}") };
    let expected = "a fresh run was cut short on 1 host: its record has no end";
    assert_eq!((fresh.0, &fresh.1[..]), (expected, &["db8"][..]));
    assert!(unreadable.0.starts_with("a run cannot be read on 1 host: "), "{unreadable:?}");
    assert!(unreadable.0.contains("run.json") && unreadable.1 == ["db7"], "{unreadable:?}");
    let expected = "run 3 of 3 was cut short on 5 hosts: it fell silent; it was stopped; + 1 more";
    assert_eq!((last.0, &last.1[..]), (expected, &["db2", "db3", "db4", "db5", "db6"][..]));
    let lost = "3 hosts fell silent while others ran: the load is unknown";
    assert_eq!(doubts(&findings, FleetDoubtKind::Lost), [lost]);
}
