//! Advice for made-up machines: trees of `/sys` and `/proc` by hand from the kernel's documentation.
//!
//! In: a root folder with settings. Out: how rules stand, with values and places.

use std::fs;
use std::path::Path;

use durio_judge::advise::{
    Advice, AdviceReport, AdviceRequest, AdviceRole, AdviceState, DatabaseSetting,
    DatabaseSettings, FactOrigin, GainBasis, advise,
};
use durio_observe::{Stack, TuningReadings, read_readings_in};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A machine whose settings can be set.
struct Machine {
    root: TempDir,
    stack: Value,
}

fn block(kind: &str, name: &str, number: &str, below: &[Value]) -> Value {
    json!({ "kind": kind, "name": name, "device": number, "block": {}, "below": below })
}

impl Machine {
    fn new(options: &[&str], kind: &str, below: &[Value]) -> Self {
        let filesystem = json!({
            "kind": "filesystem", "name": "/data",
            "filesystem": {
                "fs_type": kind, "mount_point": "/data", "options": options,
                "size_bytes": 1000, "free_bytes": 700,
            },
            "below": below,
        });
        let root = json!({ "kind": "directory", "name": "/data", "below": [filesystem] });
        let stack = json!({ "target": "/data", "root": root });
        Self { root: tempfile::tempdir().unwrap(), stack }
    }

    fn nvme() -> Self {
        let machine =
            Self::new(&["rw", "relatime"], "ext4", &[block("disk", "nvme0n1", "259:0", &[])]);
        machine
            .device("nvme0n1", "queue/scheduler", "none [mq-deadline] kyber")
            .device("nvme0n1", "queue/read_ahead_kb", "128")
            .device("nvme0n1", "queue/write_cache", "write through")
            .device("nvme0n1", "queue/rotational", "0")
            .device("nvme0n1", "queue/nomerges", "0")
    }

    fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn device(self, name: &str, file: &str, content: impl AsRef<[u8]>) -> Self {
        self.file(&format!("sys/class/block/{name}/{file}"), content)
    }

    fn stack(&self) -> Stack {
        serde_json::from_value(self.stack.clone()).unwrap()
    }

    fn readings(&self) -> TuningReadings {
        read_readings_in(self.root.path(), &self.stack())
    }

    fn report(&self, database: Option<&str>, role: Option<AdviceRole>) -> AdviceReport {
        self.report_with(database, role, &[])
    }

    fn report_with(
        &self,
        database: Option<&str>,
        role: Option<AdviceRole>,
        settings: &[(&str, &str)],
    ) -> AdviceReport {
        let setting = |(name, value): &(&str, &str)| DatabaseSetting {
            name: (*name).into(),
            value: (*value).into(),
            place: "--setting".into(),
        };
        let (stack, readings) = (self.stack(), self.readings());
        advise(&AdviceRequest {
            target: "/data".into(),
            system: FactOrigin { stack: &stack, readings: &readings },
            role,
            database: database.map(str::to_owned),
            settings: DatabaseSettings {
                given: settings.iter().map(setting).collect(),
                from_file: Vec::new(),
            },
            run: None,
            rule: None,
        })
        .unwrap()
    }
}

#[track_caller]
fn one<'a>(report: &'a AdviceReport, rule: &str) -> &'a Advice {
    report.advice.iter().find(|advice| advice.rule == rule).unwrap()
}

#[test]
fn a_scheduler_on_nvme_is_advised_away_with_command_udev_rule_and_undo() {
    let report = Machine::nvme().report(None, None);
    let advice = one(&report, "B01");
    assert_eq!(advice.state, AdviceState::NotMet);
    assert_eq!(advice.about, "nvme0n1");
    let read = "scheduler is mq-deadline (/sys/class/block/nvme0n1/queue/scheduler)";
    assert_eq!(advice.reason, read);
    let apply = &advice.apply;
    let (command, undo) = (apply.command.as_deref().unwrap(), apply.undo.as_deref().unwrap());
    assert_eq!(command, "echo none > /sys/block/nvme0n1/queue/scheduler");
    assert_eq!(undo, "echo mq-deadline > /sys/block/nvme0n1/queue/scheduler");
    let udev = r#"ACTION=="add|change", KERNEL=="nvme0n1", ATTR{queue/scheduler}="none""#;
    assert_eq!(apply.udev.as_deref(), Some(udev));
    assert!(advice.provable && !advice.evidence.is_empty());
    assert!(advice.evidence[0].line().starts_with("not checked: needs an NVMe drive"));
}

#[test]
fn an_instruction_has_the_present_value_and_the_advice_its_line_to_paste() {
    let machine = Machine::nvme().device("nvme0n1", "queue/read_ahead_kb", "64");
    let report = machine.report(None, Some(AdviceRole::Scan));
    let advice = one(&report, "A01");
    let text = "Set read-ahead to 4096 KiB for scans (now 64 KiB)";
    assert_eq!((advice.instruction().as_str(), advice.new.as_deref()), (text, Some("4096")));
    assert_eq!((advice.gain.basis, advice.gain.ratio), (GainBasis::AbTest, Some(2.2)));
    let file = &report.files[0];
    assert_eq!(file.name, "60-durio.rules");
    let line = r#"ACTION=="add|change", KERNEL=="nvme0n1", ATTR{queue/read_ahead_kb}="4096""#;
    assert!(file.lines.iter().any(|known| known == line), "{:?}", file.lines);
    let flag = Machine::nvme().device("nvme0n1", "queue/rotational", "1").report(None, None);
    let instruction = one(&flag, "B10").instruction();
    assert_eq!(instruction, "Set rotational to 0 if the disk is on flash (now 1)");
}

#[test]
fn what_durios_tests_refuted_is_neither_to_do_nor_a_line() {
    let machine = Machine::nvme().device("nvme0n1", "queue/read_ahead_kb", "128");
    let report = machine.report(Some("postgresql"), Some(AdviceRole::Data));
    let rules = |advice: Vec<&Advice>| -> Vec<String> {
        advice.iter().map(|advice| advice.rule.clone()).collect()
    };
    let (to_do, refuted) = (rules(report.to_do()), rules(report.refuted()));
    assert!(refuted.contains(&"A03".to_owned()), "{refuted:?}");
    assert!(to_do.contains(&"B01".to_owned()) && !to_do.contains(&"A03".to_owned()), "{to_do:?}");
    let lines: Vec<&String> = report.files.iter().flat_map(|file| &file.lines).collect();
    assert!(!lines.iter().any(|line| line.contains("read_ahead_kb")), "{lines:?}");
    assert!(report.summary().sentence.starts_with("Caution: "), "{:?}", report.summary());
}

#[test]
fn settings_that_are_unknown_are_lines_to_paste_unless_the_rule_needs_more() {
    let lines = |settings: &[(&str, &str)]| -> Vec<String> {
        let report = Machine::nvme().report_with(Some("postgresql"), None, settings);
        let file = report.files.into_iter().find(|file| file.name == "postgresql.sql");
        file.map(|file| file.lines).unwrap_or_default()
    };
    let set = |name: &str, value: &str| format!("ALTER SYSTEM SET {name} = '{value}';");
    let (fsync, prefetch) = (set("fsync", "on"), set("effective_io_concurrency", "16"));
    let unknown = lines(&[]);
    assert!(unknown.contains(&fsync) && unknown.contains(&prefetch), "{unknown:?}");
    assert_eq!(unknown.last().unwrap(), "SELECT pg_reload_conf();");
    // A delay needs a run, and `io_method` the version.
    let is_of = |name: &str| unknown.iter().any(|line| line.contains(name));
    assert!(!is_of("commit_delay") && !is_of("io_method"), "{unknown:?}");
    let known = lines(&[("fsync", "on"), ("effective_io_concurrency", "1")]);
    assert!(!known.contains(&fsync) && known.contains(&prefetch), "{known:?}");
    for (version, is_advised) in [("17", false), ("18", true)] {
        let lines = lines(&[("server_version", version)]);
        assert_eq!(lines.contains(&set("io_method", "worker")), is_advised, "{version}");
    }
}

#[test]
fn of_rules_that_contradict_each_other_only_the_one_that_gained_is_a_line() {
    let machine = Machine::nvme().device("nvme0n1", "queue/read_ahead_kb", "64");
    let report = machine.report(Some("mongodb"), None);
    assert_eq!(one(&report, "A02").gain.basis, GainBasis::Refuted);
    let file = report.files.iter().find(|file| file.name == "60-durio.rules").unwrap();
    let read_ahead: Vec<_> =
        file.lines.iter().filter(|line| line.contains("read_ahead_kb")).collect();
    // A01 alone: A02 and A04 gained nothing.
    assert_eq!(read_ahead.len(), 1, "{read_ahead:?}");
    assert!(read_ahead[0].starts_with("ACTION"), "{read_ahead:?}");
}

#[test]
fn settings_that_lose_acknowledged_writes_are_the_answer() {
    let settings = [("fsync", "off"), ("effective_io_concurrency", "1")];
    let report = Machine::nvme().report_with(Some("postgresql"), None, &settings);
    assert_eq!(report.to_do()[0].rule, "P08");
    let sentence = report.summary().sentence;
    let begin = "Bad: acknowledged writes can be lost until you set fsync to on (now off); ";
    assert!(sentence.starts_with(begin), "{sentence}");
}

#[test]
fn what_is_as_it_should_be_is_met_and_what_is_not_there_is_not_applicable() {
    let machine = Machine::nvme().device("nvme0n1", "queue/scheduler", "[none] mq-deadline");
    let report = machine.report(None, None);
    assert_eq!(one(&report, "B01").state, AdviceState::Met);
    assert_eq!(one(&report, "B03").state, AdviceState::NotApplicable);
    let array = one(&report, "R01");
    assert_eq!(
        (array.state, array.reason.as_str()),
        (AdviceState::NotApplicable, "there is no array here")
    );
    assert_eq!(one(&report, "P03").state, AdviceState::NotApplicable);
}

#[test]
fn garbage_in_a_setting_cannot_be_told_and_says_what_stands_there() {
    let machine = Machine::nvme()
        .device("nvme0n1", "queue/read_ahead_kb", [0xff, 0xfe, b'\n'])
        .device("nvme0n1", "queue/nomerges", "\n")
        .device("nvme0n1", "queue/rotational", "maybe");
    let report = machine.report(None, None);
    let advice = one(&report, "A01");
    assert_eq!(advice.state, AdviceState::CannotTell);
    assert!(advice.reason.contains("not a number of bytes"), "{}", advice.reason);
    assert!(advice.reason.contains("/queue/read_ahead_kb"), "{}", advice.reason);
    assert_eq!(one(&report, "B05").state, AdviceState::CannotTell);
    assert!(one(&report, "B10").reason.contains("'maybe' is not a flag"));
}

#[test]
fn mongodbs_read_ahead_contradicts_that_of_scans_and_both_sources_are_shown() {
    let report = Machine::nvme().report(Some("mongodb"), Some(AdviceRole::Data));
    assert_eq!(one(&report, "A02").state, AdviceState::NotMet);
    let conflict = report.conflicts.iter().find(|conflict| {
        conflict.statements.iter().any(|statement| statement.rule.as_deref() == Some("A02"))
    });
    let conflict = conflict.unwrap();
    assert!(conflict.about.contains("read_ahead_kb"), "{}", conflict.about);
    let documents: String = conflict
        .statements
        .iter()
        .flat_map(|advice| &advice.sources)
        .map(|source| source.document.as_str())
        .collect();
    assert!(documents.contains("MongoDB") && documents.contains("ClickHouse"), "{documents}");
}

#[test]
fn what_is_met_on_both_sides_is_no_conflict() {
    let machine = Machine::nvme().device("nvme0n1", "queue/read_ahead_kb", "16");
    let report = machine.report(Some("mongodb"), Some(AdviceRole::Data));
    assert_eq!(one(&report, "A02").state, AdviceState::Met);
    let about_a02 = |conflict: &&durio_judge::advise::Conflict| {
        conflict.statements.iter().any(|statement| statement.rule.as_deref() == Some("A02"))
    };
    assert!(report.conflicts.iter().find(about_a02).is_none());
}

#[test]
fn interrupts_huge_pages_discards_and_barriers_are_conflicts_where_they_are_not_met() {
    let machine = Machine::new(
        &["rw", "nobarrier", "discard"],
        "xfs",
        &[block("disk", "nvme0n1", "259:0", &[])],
    )
    .device("nvme0n1", "queue/discard_max_bytes", "2147450880")
    .file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")
    .file("proc/17/comm", "irqbalance\n")
    .file("etc/systemd/system/x", "");
    let pairs = [
        ("scylladb", "C05", Some("C06")),
        ("postgresql", "C09", Some("C10")),
        ("postgresql", "B24", Some("B26")),
        ("cockroachdb", "F02", None),
    ];
    for (database, rule, other) in pairs {
        let report = machine.report(Some(database), None);
        assert_eq!(one(&report, rule).state, AdviceState::NotMet, "{rule}");
        let found = report.conflicts.iter().any(|conflict| {
            let rules: Vec<_> =
                conflict.statements.iter().map(|statement| statement.rule.as_deref()).collect();
            rules.contains(&Some(rule)) && rules.contains(&other)
        });
        assert!(found, "{rule} against {other:?}: {:#?}", report.conflicts);
    }
}

#[test]
fn a_rule_that_needs_a_measurement_says_what_to_run() {
    let report = Machine::nvme().report(None, Some(AdviceRole::Log));
    let advice = one(&report, "W05");
    assert_eq!(advice.state, AdviceState::CannotTell);
    assert!(advice.reason.contains("durio durable") && advice.reason.contains("--run"));
}

#[test]
fn a_rule_that_needs_a_setting_says_where_to_look_and_takes_it() {
    let machine = Machine::nvme();
    let unknown = machine.report(Some("postgresql"), None);
    let advice = one(&unknown, "P03");
    assert_eq!(advice.state, AdviceState::CannotTell);
    assert!(advice.reason.contains("SHOW effective_io_concurrency"), "{}", advice.reason);
    for (value, state) in [("1", AdviceState::NotMet), ("64", AdviceState::Met)] {
        let settings = [("effective_io_concurrency", value)];
        let report = machine.report_with(Some("postgresql"), None, &settings);
        assert_eq!(one(&report, "P03").state, state, "{value}");
    }
}

fn array(scheduler_of_second: &str) -> Machine {
    let members = [("[mq-deadline] none", "1"), (scheduler_of_second, "1")];
    array_of("raid5", "3", &["rw", "relatime"], &members)
        .device("md0", "md/stripe_cache_size", "256")
        .device("md0", "md/degraded", "1")
        .device("md0", "md/sync_action", "recover")
        .device("md0", "queue/read_ahead_kb", "4096")
}

/// With chunks of 512 KiB, of members with these schedulers and whether they rotate.
fn array_of(level: &str, disks: &str, options: &[&str], members: &[(&str, &str)]) -> Machine {
    let names: Vec<String> =
        ('a'..).take(members.len()).map(|letter| format!("sd{letter}")).collect();
    let below: Vec<Value> =
        names.iter().map(|name| block("disk", name, &format!("8:{}", name.len()), &[])).collect();
    let machine = Machine::new(options, "ext4", &[block("md", "md0", "9:0", &below)])
        .device("md0", "md/level", level)
        .device("md0", "md/raid_disks", disks)
        .device("md0", "md/chunk_size", "524288");
    names.iter().zip(members).fold(machine, |machine, (name, (scheduler, rotates))| {
        machine.device(name, "queue/scheduler", scheduler).device(name, "queue/rotational", rotates)
    })
}

#[test]
fn a_stripe_has_as_many_chunks_as_the_level_has_members_with_data() {
    // Of six members with chunks of 128 blocks each.
    for (level, chunks) in [("raid0", 6), ("raid4", 5), ("raid5", 5), ("raid6", 4), ("raid10", 3)] {
        for (stripe, state) in [
            (chunks * 128, AdviceState::Met),
            ((chunks - 1) * 128, AdviceState::NotMet),
            ((chunks + 1) * 128, AdviceState::NotMet),
        ] {
            let option = format!("stripe={stripe}");
            let machine = array_of(level, "6", &["rw", &option], &[]);
            assert_eq!(one(&machine.report(None, None), "F10").state, state, "{level} {option}");
        }
    }
    let mirror = array_of("raid1", "2", &["rw", "stripe=128"], &[]).report(None, None);
    assert_eq!(one(&mirror, "F10").state, AdviceState::NotApplicable);
}

#[test]
fn every_member_of_an_array_is_compared_and_not_the_first_ones_alone() {
    let odd = ("mq-deadline [none]", "0");
    for place in 0..4 {
        let mut members = [("[mq-deadline] none", "0"); 4];
        members[place] = odd;
        let report = array_of("raid6", "4", &["rw"], &members).report(None, None);
        let advice = one(&report, "R09");
        assert_eq!(advice.state, AdviceState::NotMet, "{place}");
        assert!(advice.reason.contains("members_differ_in is scheduler ("), "{}", advice.reason);
    }
    let report = array_of("raid6", "4", &["rw"], &[odd; 4]).report(None, None);
    assert_eq!(one(&report, "R09").state, AdviceState::Met);
}

#[test]
fn an_array_rotates_if_any_of_its_members_does() {
    for rotate in [["1", "0", "0"], ["0", "0", "1"]] {
        let members = rotate.map(|rotates| ("none", rotates));
        let of = |level| array_of(level, "3", &["rw"], &members).device("md0", "md/layout", "258");
        assert_eq!(one(&of("raid10").report(None, None), "R06").state, AdviceState::NotMet);
        assert_eq!(one(&of("raid5").report(None, None), "R02").state, AdviceState::NotApplicable);
    }
    let members = [("none", "0"); 3];
    let machine = array_of("raid10", "3", &["rw"], &members).device("md0", "md/layout", "258");
    assert_eq!(one(&machine.report(None, None), "R06").state, AdviceState::NotApplicable);
}

#[test]
fn each_of_the_devices_below_a_filesystem_is_a_volume() {
    let disks = ["sda", "sdb", "sdc"].map(|name| block("disk", name, "8:0", &[]));
    let machine = Machine::new(&["rw"], "btrfs", &disks);
    let machine = ["sda", "sdb", "sdc"].into_iter().fold(machine, |machine, name| {
        machine.device(name, "queue/read_ahead_kb", if name == "sdb" { "16" } else { "4096" })
    });
    let report = machine.report(None, None);
    let read_ahead: Vec<_> = report.advice.iter().filter(|advice| advice.rule == "A01").collect();
    let found: Vec<_> =
        read_ahead.iter().map(|advice| (advice.about.as_str(), advice.state)).collect();
    assert_eq!(
        found,
        [("sda", AdviceState::Met), ("sdb", AdviceState::NotMet), ("sdc", AdviceState::Met),]
    );
}

#[test]
fn an_array_is_judged_as_a_whole_and_by_its_members() {
    let report = array("mq-deadline [none]").report(None, None);
    for rule in ["R01", "R04", "R08", "R09"] {
        assert_eq!(one(&report, rule).state, AdviceState::NotMet, "{rule}");
    }
    assert_eq!(one(&report, "R05").state, AdviceState::Met);
    assert!(one(&report, "R09").reason.contains("scheduler"), "{}", one(&report, "R09").reason);
    // The volume is the array, not its disks.
    assert_eq!(
        (one(&report, "A01").about.as_str(), one(&report, "A01").state),
        ("md0", AdviceState::Met)
    );
    let alike = array("[mq-deadline] none").report(None, None);
    assert_eq!(one(&alike, "R09").state, AdviceState::Met);
    // ext4 shows no stripe: that is not known, and not met is what it would be wrong to say.
    assert_eq!(one(&report, "F10").state, AdviceState::CannotTell);
}

#[test]
fn a_kernel_that_drops_flushes_is_told_in_plain_words() {
    let machine =
        Machine::nvme().device("nvme0n1", "device/scsi_disk/0:0:0:0/cache_type", "write back");
    let report = machine.report(None, None);
    let advice = one(&report, "W02");
    assert_eq!(advice.state, AdviceState::NotMet);
    assert!(advice.advice.contains("DATA LOSS"));
    assert_eq!(one(&Machine::nvme().report(None, None), "W02").state, AdviceState::CannotTell);
}

#[test]
fn roles_and_databases_choose_among_the_rules() {
    let machine = Machine::nvme();
    let log = machine.report(None, Some(AdviceRole::Log));
    assert!(log.advice.iter().all(|advice| advice.rule != "A01"));
    assert!(log.advice.iter().any(|advice| advice.rule == "A04"));
    let counts = log.counts;
    let sum = counts.met + counts.not_met + counts.cannot_tell + counts.not_applicable;
    assert_eq!(sum, log.advice.len() as u64);
}

#[test]
fn how_software_writes_its_log_is_advice_for_its_authors_and_not_for_a_databases_user() {
    let machine = Machine::nvme();
    let reason = "only a database's developers can apply it";
    for rule in ["W04", "W09", "B18"] {
        assert_ne!(one(&machine.report(None, None), rule).reason, reason);
        let named = machine.report(Some("postgresql"), None);
        let advice = one(&named, rule);
        assert_eq!(advice.state, AdviceState::NotApplicable, "{rule}");
        assert_eq!(advice.reason, reason);
    }
}

#[test]
fn a_machine_that_shows_nothing_is_advised_without_a_panic() {
    let machine = Machine::new(&[], "tmpfs", &[]);
    let report = machine.report(Some("postgresql"), None);
    assert_eq!(one(&report, "B01").state, AdviceState::NotApplicable);
    assert!(Path::new(&report.target).is_absolute());
}

#[test]
fn rules_are_counted_by_their_state() {
    for database in [None, Some("postgresql"), Some("mysql")] {
        let report = Machine::nvme().report(database, None);
        let of = |state| report.advice.iter().filter(|advice| advice.state == state).count() as u64;
        let found = [
            of(AdviceState::Met),
            of(AdviceState::NotMet),
            of(AdviceState::CannotTell),
            of(AdviceState::NotApplicable),
        ];
        let counts = report.counts;
        let told = [counts.met, counts.not_met, counts.cannot_tell, counts.not_applicable];
        assert_eq!(told, found, "{database:?}");
    }
}
