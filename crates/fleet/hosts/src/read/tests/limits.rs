//! Bounds on what a folder of a host may hold.

use super::*;

#[test]
fn a_record_that_is_too_long_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    for (host, name) in [("db1", file_names::EVENTS), ("db2", file_names::HISTOGRAMS)] {
        let run = directory.path().join(host);
        MadeRun::new(host, &[100; 2]).write(&run);
        let file = OpenOptions::new().write(true).open(run.join(name)).unwrap();
        file.set_len((1 << 30) + 1).unwrap();
    }
    MadeRun::new("db3", &[100; 2]).write(&directory.path().join("db3"));
    let findings = read(directory.path());
    assert_eq!(
        outcomes(&findings),
        [
            ("db1", HostOutcome::Failed, 0),
            ("db2", HostOutcome::Failed, 0),
            ("db3", HostOutcome::Measured, 1),
        ]
    );
    for (host, name) in [("db1", file_names::EVENTS), ("db2", file_names::HISTOGRAMS)] {
        assert_eq!(reason(&findings, host), format!("its {name} is larger than 1 GiB"));
    }
}

#[test]
fn a_machine_id_of_another_form_identifies_no_machine() {
    let found = |id: &str| {
        let directory = tempfile::tempdir().unwrap();
        for host in ["db1", "db2"] {
            let run = MadeRun { machine_id: Some(id.to_owned()), ..MadeRun::new(host, &[100; 2]) };
            run.write(&directory.path().join(host));
        }
        doubts(&read(directory.path()), FleetDoubtKind::SameMachine).len()
    };
    assert_eq!(found("0123456789abcdef"), 1);
    for id in ["0123456789abcde", "0123456789abcdef0", "0123456789abcdeg", "../3456789abcdef", ""] {
        assert_eq!(found(id), 0, "{id}");
    }
}

#[test]
fn the_first_twenty_names_that_are_passed_over_are_listed_and_the_others_counted() {
    let found = |names: usize| {
        let directory = tempfile::tempdir().unwrap();
        MadeRun::new("db1", &[100; 2]).write(&directory.path().join("db1"));
        for number in 0..names {
            fs::create_dir(directory.path().join(format!(".hidden{number}"))).unwrap();
        }
        let findings = read(directory.path());
        let doubts = doubts(&findings, FleetDoubtKind::Contradiction);
        (doubts.len(), doubts.last().map(|last| (*last).to_owned()).unwrap_or_default())
    };
    let (count, last) = found(20);
    assert!(count == 20 && last.contains("'.hidden"), "{count} {last}");
    let more = "3 more names passed over for such reasons".to_owned();
    assert_eq!(found(23), (21, more));
}
