//! What each field of a profile comes to: workloads, arrivals, thresholds, words; and each rule of
//! contradictions.

use super::*;
use crate::table::value::WordValue;

/// The good profile with these places changed.
fn changed(changes: &[(&str, &str)]) -> Profile {
    let mut text = GOOD.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    parse(&text).unwrap()
}

const ONE_COMMITTER: [(&str, &str); 2] = [
    (
        "committers = { value = 8, from = \"guess\" }",
        "committers = { value = 1, from = \"guess\" }",
    ),
    ("batch_max = { value = \"1MiB\", from = \"doc\" }\n", ""),
];

#[test]
fn a_log_is_the_workload_that_its_fields_say() {
    use durio_base::{Bytes, Nanos};
    use durio_workload::{AtEnd, CommitterThreads, GroupCommit, Pattern, RegionRule};
    let log = changed(&[(
        "rate = { value = \"unlimited\", from = \"guess\" }\n\n[[read]]",
        "rate = { value = \"5/s\", from = \"guess\" }\n\
         commit_delay = { value = \"7us\", from = \"doc\" }\n\
         commit_siblings = { value = 3, from = \"doc\" }\n\n[[read]]",
    )])
    .log
    .unwrap();
    let policy = GroupCommit {
        committers: 8,
        threads: CommitterThreads::Multiplexed,
        delay: Nanos::from_micros(7),
        siblings: 3,
        batch_max: Bytes::from_mib(1),
        pad_to: Bytes::from_kib(4),
        rewrites_tail: false,
        double_buffered: true,
        software: None,
    };
    let workload = log.workload();
    assert_eq!(workload.group_commit, Some(policy));
    assert_eq!((workload.name.as_str(), workload.summary.as_str()), ("log", "a log"));
    assert_eq!((workload.pattern, workload.read_share.0), (Pattern::Sequential, 0));
    assert_eq!((workload.block_size, workload.block_mix.len()), (Bytes::from_kib(8), 2));
    assert_eq!((workload.at_end, workload.jobs, workload.sync.every), (AtEnd::WrapAround, 1, 1));
    assert_eq!(log.arrivals(), durio_workload::Arrivals::Poisson { rate_per_second: 5.0 });
    let software = log_software();
    let transactions = log.transactions(50, software);
    let threads = CommitterThreads::OneEach;
    let of_clients = GroupCommit { committers: 50, threads, software: Some(software), ..policy };
    assert_eq!(transactions.group_commit, Some(of_clients));
    assert_eq!((transactions.block_size, transactions.block_mix.len()), (Bytes::from_kib(8), 2));
    // Two logs have a part each.
    let two = changed(&[("logs = { value = 1", "logs = { value = 2")]).log.unwrap().workload();
    assert_eq!((two.jobs, two.region), (2, RegionRule::ShareEach));
}

fn log_software() -> durio_workload::Software {
    let micros = durio_base::Nanos::from_micros;
    durio_workload::Software {
        clients: durio_workload::ClientThreads::One,
        writer: durio_workload::LogWriter::Committer,
        wakes_all: true,
        flushes: 2,
        turn: None,
        client: micros(1),
        before: micros(2),
        after: micros(3),
        batch: micros(4),
        apply: Some(micros(5)),
        yields: Some(micros(6)),
        wake: micros(7),
    }
}

#[test]
fn only_a_preallocated_log_of_single_writes_of_one_size_returns_its_segments() {
    use durio_workload::AtEnd;
    let preallocated = ("file = { value = \"recycled\"", "file = { value = \"preallocated\"");
    let one_size = ("{ \"4KiB\" = 700, \"8KiB\" = 300 }", "{ \"4KiB\" = 1000 }");
    let at_end = |changes: &[(&str, &str)]| changed(changes).log.unwrap().workload().at_end;
    let single = [&ONE_COMMITTER[..], &[one_size]].concat();
    assert_eq!(at_end(&[&single[..], &[preallocated]].concat()), AtEnd::Reallocate);
    assert_eq!(at_end(&single), AtEnd::WrapAround);
    assert_eq!(at_end(&[preallocated, one_size]), AtEnd::WrapAround);
    assert_eq!(at_end(&[&ONE_COMMITTER[..], &[preallocated]].concat()), AtEnd::WrapAround);
    // Records that are filled up to the same write are one size.
    let alike = ("{ \"4KiB\" = 700, \"8KiB\" = 300 }", "{ \"100B\" = 700, \"4096B\" = 300 }");
    assert_eq!(at_end(&[&ONE_COMMITTER[..], &[preallocated, alike]].concat()), AtEnd::Reallocate);
    // A last block that is written again is a batch of its own.
    let tail = ("sync_every =", "rewrites_tail = { value = true, from = \"doc\" }\nsync_every =");
    let log = changed(&[&single[..], &[preallocated, tail]].concat()).log.unwrap().workload();
    assert_eq!(log.at_end, AtEnd::WrapAround);
    let policy = log.group_commit.unwrap();
    assert_eq!((policy.committers, policy.rewrites_tail), (1, true));
    assert_eq!(policy.batch_max, durio_workload::GroupCommit::BATCH_MAX_DEFAULT);
}

#[test]
fn streams_are_the_workloads_that_their_fields_say() {
    use durio_workload::{Arrivals, Pattern, Skew};
    let profile = parse(GOOD).unwrap();
    let [reads, flush] = [0, 1].map(|at| profile.streams[at].workload());
    assert_eq!((reads.name.as_str(), reads.read_share.0, reads.jobs), ("reads", 1000, 2));
    assert_eq!((reads.pattern, reads.skew), (Pattern::Random, Skew::Zipf { theta_per_mille: 990 }));
    assert_eq!((reads.sync.method, reads.cache), (SyncMethod::None, CacheMode::Buffered));
    assert_eq!(
        (flush.name.as_str(), flush.read_share.0, flush.pattern),
        ("flush", 0, Pattern::Sequential)
    );
    assert_eq!((flush.sync.method, flush.sync.every), (SyncMethod::Fsync, 16));
    assert_eq!(flush.block_size.get(), 65_536);
    let arrivals = [0, 1].map(|at| profile.streams[at].arrivals());
    let expected = [
        Arrivals::Constant { rate_per_second: 1024.0 },
        Arrivals::Poisson { rate_per_second: 100.0 },
    ];
    assert_eq!(arrivals, expected);
    assert_eq!(profile.log.as_ref().unwrap().arrivals(), Arrivals::Closed);
    // 4 and 8 KiB, 700 to 300: 5324.8 bytes in the mean.
    let log = changed(&[("rate = { value = \"unlimited\"", "rate = { value = \"53248B/s\"")]);
    let rate = log.log.unwrap().arrivals().rate_per_second().unwrap();
    assert!((rate - 10.0).abs() < 1e-9, "{rate}");
    let kinds = [0, 1].map(|at| (profile.streams[at].kind, profile.streams[at].file_handling()));
    let expected =
        [(StreamKind::Read, FileHandling::Recycled), (StreamKind::Write, FileHandling::Extend)];
    assert_eq!(kinds, expected);
    assert!(!profile.streams[1].runs_always());
    let always = (
        "sync_every = { value = 16",
        "with_every_commit = { value = true, from = \"guess\" }\nsync_every = { value = 16",
    );
    assert!(changed(&[always]).streams[1].runs_always());
    let used_up =
        FileHandling::words().into_iter().map(|(_, file)| file.is_used_up()).collect::<Vec<_>>();
    assert_eq!(used_up, [true, true, false, false]);
}

#[test]
fn each_rule_of_contradictions_is_told_in_its_place() {
    let long = |count: usize| format!("name = \"{}\"", "a".repeat(count));
    assert!(parse(&GOOD.replacen("name = \"small\"", &long(40), 1)).is_ok());
    let software = |extra: &str| {
        format!(
            "[software]\nclients = {{ value = \"one-thread\", from = \"guess\" }}\nwriter = {{ value = \"committer\", from = \"guess\" }}\nwakes_all = {{ value = true, from = \"guess\" }}\nclient = {{ value = \"1us\", from = \"guess\" }}\nbefore = {{ value = \"2us\", from = \"guess\" }}\nafter = {{ value = \"3us\", from = \"guess\" }}\nbatch = {{ value = \"4us\", from = \"guess\" }}\nwake = {{ value = \"7us\", from = \"guess\" }}\n{extra}\n[[read]]"
        )
    };
    let good = parse(&GOOD.replacen("[[read]]", &software(""), 1)).unwrap();
    let found = good.software.as_ref().unwrap();
    assert_eq!(found.software().flushes, 1);
    let times: Vec<_> = found.times().into_iter().map(|(key, time)| (key, time.get())).collect();
    assert_eq!(
        times,
        [("client", 1000), ("before", 2000), ("after", 3000), ("batch", 4000), ("wake", 7000)]
    );
    let turn = software("turn = { value = \"1ms\", from = \"guess\" }");
    let apply = software(
        "apply = { value = \"5us\", from = \"guess\" }\nyields = { value = \"6us\", from = \"guess\" }\nflushes = { value = 2, from = \"guess\" }",
    );
    let all = parse(&GOOD.replacen("[[read]]", &apply, 1)).unwrap().software.unwrap();
    assert_eq!(all.software(), log_software());
    assert_eq!(all.times().len(), 6);
    for (from, to, says) in [
        ("name = \"small\"", &*long(41), "small letters"),
        ("name = \"small\"", "name = \"a.b\"", "small letters"),
        ("[[read]]", &*turn, "[software]: turns are for a log"),
        ("name = \"flush\"", "name = \"log\"", "the name 'log' is taken"),
        ("name = \"flush\"", "name = \"data\"", "the name 'data' is taken"),
        ("name = \"flush\"", "name = \"null\"", "the name 'null' is taken"),
        ("batch_max = { value = \"1MiB\", from = \"doc\" }\n", "", "'batch_max' is missing"),
        (
            "rate = { value = \"unlimited\", from = \"guess\" }",
            "rate = { value = \"unlimited\", from = \"guess\" }\ncommit_siblings = { value = 1, from = \"doc\" }",
            "meaningless without 'commit_delay'",
        ),
        ("cache = { value = \"direct\"", "cache = { value = \"mmap\"", "has no commits"),
        ("file_size = { value = \"16MiB\"", "file_size = { value = \"0B\"", "more than 0 B"),
        ("batch_max = { value = \"1MiB\"", "batch_max = { value = \"0B\"", "more than 0 B"),
        (
            "cache = { value = \"buffered\", from = \"guess\" }\njobs = { value = 1",
            "cache = { value = \"direct\", from = \"guess\" }\njobs = { value = 0",
            "expected a whole number of 1 or more",
        ),
        (
            "sizes = { value = { \"64KiB\" = 1000 }, from = \"guess\" }\ncache = { value = \"buffered\"",
            "sizes = { value = { \"1000B\" = 1000 }, from = \"guess\" }\ncache = { value = \"direct\"",
            "flush: O_DIRECT does not take 1000 B",
        ),
        (
            "sync = { value = \"fsync\"",
            "with_every_commit = { value = true, from = \"guess\" }\nsync = { value = \"none\"",
            "a part of every commit needs a sync",
        ),
        ("of = \"log\"\ncheck = \"commit\"\n", "", "neither 'of' nor 'check'"),
        (
            "check = { value = \"commit\"",
            "check = { value = \"komit\"",
            "check: 'komit' is not a workload",
        ),
        ("schema = 1\n", "schema = 1\n[log2]\n", "unknown key 'log2'"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
    // What is nothing for O_DIRECT is fine through the page cache, and a check of data needs no stream.
    changed(&[(
        "sizes = { value = { \"64KiB\" = 1000 }",
        "sizes = { value = { \"1000B\" = 1000 }",
    )]);
    changed(&[("of = \"log\"\ncheck = \"commit\"\n", "check = \"lookup\"\n")]);
    changed(&[("of = \"log\"", "of = \"flush\"")]);
    let unpadded = ("padding = { value = \"4KiB\"", "padding = { value = \"none\"");
    let odd = ("\"4KiB\" = 700", "\"4097B\" = 700");
    let text = GOOD.replacen(unpadded.0, unpadded.1, 1).replacen(odd.0, odd.1, 1);
    assert!(parse(&text).unwrap_err().contains("[log]: O_DIRECT does not take 4097 B"));
    changed(&[odd]);
}

#[test]
fn thresholds_of_a_run_are_of_its_streams_and_those_of_check_of_its_workloads() {
    let noted =
        ("from = \"doc\"\n", "from = \"doc\"\nnote = \"of a run\"\ncheck_note = \"of check\"\n");
    let text = GOOD.replacen(
        "check = \"commit\"\nfrom = \"doc\"\n",
        &format!("check = \"commit\"\n{}", noted.1),
        1,
    );
    let profile = parse(&text).unwrap();
    let expected = |workload: &str, note: &str| Threshold {
        database: "small".to_owned(),
        criterion: "p99 below 10 ms".to_owned(),
        workload: workload.to_owned(),
        bound: ThresholdBound::LatencyBelow {
            operation: OperationName::Sync,
            figure: LatencyFigure::P99,
            limit: durio_base::Nanos::from_millis(10),
        },
        kind: Some(Provenance::VendorDoc),
        publisher: Some("Small".to_owned()),
        document: Some("Manual".to_owned()),
        url: Some("https://small.example/manual".to_owned()),
        note: Some(note.to_owned()),
        asked: false,
    };
    assert_eq!(profile.run_thresholds(), [expected("log", "of a run")]);
    assert_eq!(profile.thresholds_of_check(), [expected("commit", "of check")]);
    let named = text.replacen("criterion =", "asked_as = \"other\"\ncriterion =", 1);
    assert_eq!(parse(&named).unwrap().run_thresholds()[0].database, "other");
    let of_check = text.replacen("of = \"log\"\ncheck = \"commit\"", "check = \"lookup\"", 1);
    assert_eq!(parse(&of_check).unwrap().run_thresholds(), [expected("lookup", "of check")]);
    // Without any it says so, of the log or of the first stream.
    let (bare, _) = GOOD.split_once("[[threshold]]").unwrap();
    let none = |workload: &str| {
        let criterion = "its documentation gives no threshold that this run measures".to_owned();
        let it = Threshold::goal(criterion, workload.to_owned(), ThresholdBound::Undocumented);
        Threshold { database: "small".to_owned(), ..it }
    };
    let bare_profile = parse(bare).unwrap();
    assert_eq!(bare_profile.run_thresholds(), [none("log")]);
    assert_eq!(bare_profile.thresholds_of_check(), [none("commit")]);
    let mut unlogged = bare_profile;
    unlogged.log = None;
    assert_eq!(unlogged.run_thresholds(), [none("reads")]);
    unlogged.streams.clear();
    assert_eq!(unlogged.run_thresholds(), []);
    assert_eq!(Threshold::GOAL, "goal");
    assert_eq!((OperationName::Read.name(), LatencyFigure::P99_9.word()), ("read", "p99.9"));
}

#[test]
fn facts_are_shown_in_words_with_their_sources() {
    let shown = |changes: &[(&str, &str)], stream: &str, field: &str| {
        let facts = changed(changes).facts();
        let of = |fact: &&ShownFact| fact.stream == stream && fact.field == field;
        let found = facts.iter().find(of).unwrap();
        (found.value.clone(), found.source.line())
    };
    let doc = "vendor-doc: Small, Manual".to_owned();
    let guess = "durio-guess: starting values".to_owned();
    assert_eq!(shown(&[], "log", "padding"), ("4 KiB".to_owned(), doc.clone()));
    let none = ("padding = { value = \"4KiB\"", "padding = { value = \"none\"");
    assert_eq!(shown(&[none], "log", "padding").0, "none");
    assert_eq!(shown(&[], "log", "file"), ("recycled".to_owned(), doc));
    assert_eq!(shown(&[], "log", "rate"), ("unlimited".to_owned(), guess.clone()));
    assert_eq!(shown(&[], "reads", "access"), ("random, zipf 0.99".to_owned(), guess.clone()));
    assert_eq!(shown(&[], "flush", "access").0, "sequential");
    assert_eq!(shown(&[], "reads", "rate").0, "8 MiB/s");
    assert_eq!(shown(&[], "flush", "rate").0, "100 per second");
    assert_eq!(shown(&[], "reads", "sizes").0, "8 KiB");
    assert_eq!(shown(&[], "", "check"), ("commit".to_owned(), guess));
    let tail = (
        "sync_every = { value = 1,",
        "rewrites_tail = { value = false, from = \"doc\" }\nsync_every = { value = 1,",
    );
    assert_eq!(shown(&[tail], "log", "rewrites_tail").0, "no");
    let published = Provenance::ALL.map(Provenance::is_published);
    assert_eq!(published, [true, false, true, true, false, false, false, false]);
}
