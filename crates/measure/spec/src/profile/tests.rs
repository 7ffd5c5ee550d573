//! The shipped profiles, and every way in which a file can be wrong.

mod meaning;

use std::collections::BTreeSet;

use durio_plan::{LatencyFigure, OperationName, Threshold, ThresholdBound};
use durio_workload::{CacheMode, SyncMethod};

use super::*;

/// A small profile with everything in it.
const GOOD: &str = r#"
schema = 1
name = "small"
title = "Small 1"
summary = "commits wait for a log"
check = { value = "commit", from = "guess" }

[sources.doc]
kind = "vendor-doc"
publisher = "Small"
document = "Manual"
url = "https://small.example/manual"

[sources.guess]
kind = "durio-guess"
document = "starting values"

[log]
summary = "a log"
records = { value = { "4KiB" = 700, "8KiB" = 300 }, from = "guess" }
padding = { value = "4KiB", from = "doc" }
file = { value = "recycled", from = "doc" }
file_size = { value = "16MiB", from = "doc" }
cache = { value = "direct", from = "doc" }
sync = { value = "fdatasync", from = "doc" }
sync_every = { value = 1, from = "doc" }
logs = { value = 1, from = "doc" }
committers = { value = 8, from = "guess" }
batch_max = { value = "1MiB", from = "doc" }
rate = { value = "unlimited", from = "guess" }

[[read]]
name = "reads"
summary = "pages"
access = { value = "zipf:0.99", from = "guess" }
sizes = { value = { "8KiB" = 1000 }, from = "doc" }
cache = { value = "mmap", from = "doc" }
jobs = { value = 2, from = "guess" }
depth = { value = 1, from = "guess" }
rate = { value = "8MiB/s", from = "guess" }
fitting = "reads stand for page faults"

[[write]]
name = "flush"
summary = "pages back"
access = { value = "sequential", from = "guess" }
sizes = { value = { "64KiB" = 1000 }, from = "guess" }
cache = { value = "buffered", from = "guess" }
jobs = { value = 1, from = "guess" }
depth = { value = 1, from = "guess" }
rate = { value = "100/s", from = "guess" }
file = { value = "extend", from = "guess" }
sync = { value = "fsync", from = "guess" }
sync_every = { value = 16, from = "guess" }

[[threshold]]
criterion = "p99 below 10 ms"
figure = "p99 of sync"
below = "10ms"
of = "log"
check = "commit"
from = "doc"
"#;

fn parse(text: &str) -> Result<Profile, String> {
    Profile::parse("small.toml", text).map_err(told)
}

/// An error with its hint.
pub(crate) fn told(error: SpecError) -> String {
    let message = durio_command::error_chain(&error);
    error.hints.into_iter().fold(message, |message, hint| format!("{message}; {hint}"))
}

/// The error for the good profile with one place changed.
#[track_caller]
fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1)).unwrap_err()
}

#[test]
fn every_shipped_profile_is_right_and_has_its_files_name() {
    let names = profile_names();
    assert_eq!(names.len(), 22);
    for name in names {
        let profile = profile(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name, name);
        if let Some(log) = &profile.log {
            log.workload().validate().unwrap();
        }
        for stream in &profile.streams {
            stream.workload().validate().unwrap();
            stream.arrivals().validate().unwrap();
        }
    }
}

#[test]
fn every_field_of_every_shipped_profile_has_a_source_that_says_something() {
    for name in profile_names() {
        let profile = profile(name).unwrap();
        let facts = profile.facts();
        let of_log = facts.iter().filter(|fact| fact.stream == "log").count();
        assert_eq!(profile.log.is_some(), of_log >= 10, "{name}: {of_log}");
        assert!(profile.log.is_some() || of_log == 0, "{name}: {of_log}");
        for fact in facts {
            assert!(!fact.source.document.is_empty() && !fact.value.is_empty(), "{name}: {fact:?}");
            assert_eq!(
                fact.source.kind.is_published(),
                fact.source.publisher.is_some() && fact.source.kind != Provenance::Operator,
                "{name}: {fact:?}"
            );
        }
    }
}

#[test]
fn general_knowledge_and_guesses_never_carry_an_address_that_would_make_them_look_published() {
    for name in profile_names() {
        for source in &profile(name).unwrap().sources {
            let is_own = !source.kind.is_published() && source.kind != Provenance::Operator;
            assert!(!is_own || source.url.is_none(), "{name}: {source:?}");
        }
    }
}

#[test]
fn check_knows_all_databases_and_the_second_threshold_of_etcd() {
    let known = known_databases().unwrap();
    for name in profile_names() {
        assert!(known.iter().any(|database| database == name), "{name}");
    }
    assert!(known.iter().any(|database| database == "etcd-openshift"));
    assert_eq!(known.len(), 23);
    assert_eq!(known[0], "etcd", "{known:?}");
}

#[test]
fn what_is_documented_is_what_the_project_cites() {
    let all = check_thresholds().unwrap();
    let of = |name: &str| -> Vec<&Threshold> {
        all.iter().filter(|threshold| threshold.database == name).collect()
    };
    let sync = |limit| ThresholdBound::LatencyBelow {
        operation: OperationName::Sync,
        figure: LatencyFigure::P99,
        limit: durio_base::Nanos::from_millis(limit),
    };
    assert_eq!(of("etcd")[0].bound, sync(10));
    assert_eq!(of("etcd-openshift")[0].bound, sync(20));
    assert_eq!(
        of("cockroachdb")[0].bound,
        ThresholdBound::OperationsPerCpu { at_least_per_second: 500.0 }
    );
    assert_eq!(of("postgresql")[0].bound, ThresholdBound::Undocumented);
    assert_eq!(of("sqlserver")[0].kind, Some(Provenance::Practice));
    let run = profile("etcd").unwrap().run_thresholds();
    assert_eq!(run[2].bound, sync(25));
    assert_eq!(run[2].workload, "backend-commit");
}

#[test]
fn the_good_profile_says_what_it_does() {
    let profile = parse(GOOD).unwrap();
    let log = profile.log.as_ref().unwrap();
    let workload = log.workload();
    assert_eq!((workload.sync.method, workload.cache), (SyncMethod::Fdatasync, CacheMode::Direct));
    let group = workload.group_commit.unwrap();
    assert_eq!((group.committers, group.pad_to.get()), (8, 4096));
    let reads = &profile.streams[0];
    assert_eq!(reads.workload().cache, CacheMode::Buffered);
    assert_eq!(reads.arrivals().rate_per_second(), Some(1024.0));
    assert_eq!(profile.fittings().collect::<Vec<_>>(), [("reads", "reads stand for page faults")]);
    let shown: BTreeSet<String> = profile.facts().into_iter().map(|fact| fact.value).collect();
    assert!(shown.contains("4 KiB 70 %, 8 KiB 30 %"), "{shown:?}");
}

#[test]
fn a_log_without_group_commit_fills_each_record_up() {
    let text = GOOD
        .replace(
            "committers = { value = 8, from = \"guess\" }",
            "committers = { value = 1, from = \"guess\" }",
        )
        .replace("batch_max = { value = \"1MiB\", from = \"doc\" }\n", "")
        .replace("{ \"4KiB\" = 700, \"8KiB\" = 300 }", "{ \"100B\" = 700, \"5000B\" = 300 }");
    let workload = parse(&text).unwrap().log.unwrap().workload();
    assert_eq!(workload.group_commit, None);
    let sizes: Vec<u64> = workload.block_sizes().iter().map(|size| size.get()).collect();
    assert_eq!(sizes, [4096, 8192]);
}

#[test]
fn a_field_without_a_source_is_refused_with_how_to_write_it() {
    let error = refused("sync = { value = \"fdatasync\", from = \"doc\" }", "sync = \"fdatasync\"");
    assert!(error.starts_with("small.toml:25:8: 'sync' has no source"), "{error}");
    let error = refused("{ value = \"fdatasync\", from = \"doc\" }", "{ value = \"fdatasync\" }");
    assert!(error.contains("has no source for its value"), "{error}");
    let error = refused("from = \"doc\" }\nsync =", "from = \"dok\" }\nsync =");
    assert!(error.contains("unknown source 'dok'; did you mean 'doc'?"), "{error}");
    let error = refused("check = \"commit\"\nfrom = \"doc\"", "check = \"commit\"");
    assert!(error.contains("a threshold needs a source"), "{error}");
}

#[test]
fn a_missing_field_is_named() {
    for key in [
        "records",
        "padding",
        "file",
        "file_size",
        "cache",
        "sync",
        "sync_every",
        "logs",
        "committers",
        "batch_max",
        "rate",
    ] {
        let lines: Vec<&str> = GOOD.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("{key} ="))).unwrap();
        let text = [&lines[..at], &lines[at + 1..]].concat().join("\n");
        let error = parse(&text).unwrap_err();
        assert!(error.contains(&format!("'{key}'")), "{key}: {error}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_what_may_be_meant() {
    let error = refused("padding =", "paddding =");
    assert!(error.contains("unknown key 'paddding'; did you mean 'padding'?"), "{error}");
    let error = refused("[log]", "[log]\ncolour = 3");
    assert!(error.contains("the keys of [log] are summary, records"), "{error}");
    let error = refused("sync = { value = \"fdatasync\"", "sync = { value = \"fdatasink\"");
    assert!(error.contains("did you mean 'fdatasync'?"), "{error}");
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    let cases = [
        (
            "committers = { value = 8,",
            "committers = { value = 1,",
            "meaningless with one committer",
        ),
        ("sync_every = { value = 1,", "sync_every = { value = 4,", "sync_every is 1"),
        ("padding = { value = \"4KiB\"", "padding = { value = \"100B\"", "O_DIRECT does not take"),
        ("padding = { value = \"4KiB\"", "padding = { value = \"512B\"", ""),
        ("padding = { value = \"4KiB\"", "padding = { value = \"none\"", ""),
        ("fitting = \"reads stand for page faults\"", "", "'fitting' must say"),
        (
            "access = { value = \"sequential\"",
            "access = { value = \"random\"",
            "not written at random",
        ),
        ("cache = { value = \"buffered\"", "cache = { value = \"mmap\"", "memory map"),
        ("of = \"log\"", "of = \"lok\"", "unknown stream 'lok'"),
        ("check = \"commit\"\n", "check = \"komit\"\n", "not a workload of check"),
        ("of = \"log\"\n", "", "'of' says which stream"),
        ("below = \"10ms\"", "at_least = 10", "needs 'below'"),
        (
            "check = \"commit\"\nfrom = \"doc\"",
            "check = \"commit\"\nfrom = \"guess\"",
            "a limit needs a document",
        ),
        ("name = \"flush\"", "name = \"reads\"", "taken"),
        ("name = \"small\"", "name = \"../small\"", "small letters"),
        ("\"4KiB\" = 700", "\"4KiB\" = 600", "add up to 900"),
        ("publisher = \"Small\"\n", "", "a publisher and a url"),
        ("https://small", "file:///small", "https://"),
        ("schema = 1", "schema = 2", "unknown schema 2; this durio reads 1"),
        (
            "[sources.guess]",
            "[sources.more]\nkind = \"durio-guess\"\ndocument = \"x\"\n[sources.guess]",
            "no field uses the source",
        ),
    ];
    for (from, to, says) in cases {
        if says.is_empty() {
            assert!(parse(&GOOD.replacen(from, to, 1)).is_ok(), "{to}");
            continue;
        }
        let error = refused(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn text_that_is_no_profile_is_refused_and_never_a_panic() {
    for text in [
        "",
        "\0\0",
        "schema = 1",
        "schema = \"x\"",
        "[log]",
        "log = 3",
        "[[sources]]",
        "schema = 1\nread = [1]\n[sources.a]\nkind=\"durio-guess\"\ndocument=\"x\"",
    ] {
        parse(text).unwrap_err();
    }
    for end in (0..GOOD.len()).filter(|end| GOOD.is_char_boundary(*end)).step_by(7) {
        let _ = parse(&GOOD[..end]);
    }
}

#[test]
fn a_profile_has_a_mebibyte_at_most_and_64_streams_of_a_kind() {
    let of_length = |bytes: usize| parse(&format!("{GOOD}#{}", "x".repeat(bytes - GOOD.len() - 1)));
    assert!(of_length(1_048_576).is_ok());
    let error = of_length(1_048_577).unwrap_err();
    assert!(error.contains("a profile of 1048577 bytes is longer than 1048576"), "{error}");
    let begin = GOOD.find("[[write]]").unwrap();
    let stream = &GOOD[begin..GOOD.find("[[threshold]]").unwrap()];
    let of_streams = |count: usize| {
        let more = (1..count).map(|number| stream.replace("\"flush\"", &format!("\"w{number}\"")));
        parse(&format!("{GOOD}\n{}", more.collect::<String>()))
    };
    assert_eq!(of_streams(64).unwrap().streams.len(), 65, "one reads");
    let error = of_streams(65).unwrap_err();
    assert!(error.contains("65 streams are more than 64"), "{error}");
}

#[test]
fn databases_are_known_by_the_words_that_people_use() {
    for (word, name) in [
        ("postgres", "postgresql"),
        ("PG", "postgresql"),
        ("sqlite", "sqlite-wal"),
        ("mongo", "mongodb"),
        ("cockroach", "cockroachdb"),
    ] {
        assert_eq!(profile(word).unwrap().name, name);
        assert!(!profile_names().contains(&word), "{word} is a name");
    }
    for name in profile_names() {
        assert_eq!(database_name(name), name);
    }
    assert_eq!(database_name("postgre"), "postgre");
}

#[test]
fn an_unknown_profile_is_named_with_what_may_be_meant() {
    assert!(profile("postgresq").unwrap_err().to_string().contains("did you mean 'postgresql'?"));
    assert!(
        profile("nothing-like-it")
            .unwrap_err()
            .to_string()
            .contains("the profiles are postgresql, mysql")
    );
}

/// What docs/method/databases.md has of a database.
fn evidence(name: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/method/databases.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mark = format!("<!-- cargo xtask databases trace {name} -->");
    let (_, rest) = page.split_once(&mark).unwrap_or_else(|| panic!("{name} has no section"));
    rest.split("<!-- end -->").next().unwrap().to_owned()
}

#[test]
fn what_a_profile_calls_traced_is_what_the_trace_shows() {
    let traced = |profile: &Profile| profile.source("traced").cloned();
    let all: Vec<Profile> =
        profile_names().into_iter().map(|database| profile(database).unwrap()).collect();
    let all: Vec<&Profile> = all.iter().filter(|profile| traced(profile).is_some()).collect();
    assert_eq!(all.len(), 7);
    for profile in all {
        let (name, evidence) = (&profile.name, evidence(&profile.name));
        let document = traced(profile).unwrap().document;
        let is_version =
            |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
        let version = document.split_whitespace().find(is_version).unwrap();
        assert!(evidence.contains(version), "{name}: {version}");
        let date = document.split_whitespace().find_map(|word| word.strip_suffix(':')).unwrap();
        assert!(evidence.contains(&format!("traced on {date},")), "{name}: {date}");
        let log = profile.log.as_ref().unwrap();
        let fact = |key: &str| {
            let start = format!("- {key}: ");
            let found = evidence.lines().find_map(|line| line.strip_prefix(&start));
            found.unwrap_or_else(|| panic!("{name}: {key}")).to_owned()
        };
        assert_eq!(fact("synced by"), format!("`{}`", log.sync.value), "{name}");
        let is_direct = log.cache.value == CachePath::Direct;
        assert_eq!(fact("opened").contains("O_DIRECT"), is_direct, "{name}");
        let alignment: u64 =
            fact("offsets and sizes are multiples of").trim_end_matches(" B").parse().unwrap();
        let padding = log.padding.value.0.get();
        assert_eq!(padding, if alignment < 512 { 0 } else { alignment }, "{name}");
        let is_extended = log.file.value == FileHandling::Extend;
        let grows =
            fact("file").starts_with("grows by what") || fact("file").starts_with("made anew");
        assert_eq!(grows, is_extended, "{name}");
        // The row of one client, whose commits share nothing: the mean of the records.
        let row = evidence.lines().find(|line| line.starts_with("|       1 |")).unwrap();
        let bytes: f64 = row.split('|').nth(8).unwrap().trim().parse().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let records: f64 = log
            .records
            .value
            .0
            .iter()
            .map(|record| record.size.get() as f64 * f64::from(record.weight.0) / 1000.0)
            .sum();
        assert!((records / bytes - 1.0).abs() < 0.05, "{name}: {records} and {bytes}");
    }
}
