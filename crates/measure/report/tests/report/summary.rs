//! The answer of a run in one sentence.

use durio_analyse::prediction::{PredictionFindings, PredictionPoint, RateBound};
use durio_analyse::{
    Agreement, Findings, ForeignIo, RunState, Signal, SignalWord, Steadiness, Verdict, VerdictWord,
};
use durio_base::Nanos;
use durio_judge::summary::{Summary, SummaryVerdict, of_run};
use durio_plan::{Purpose, Threshold};
use durio_report::{Format, Options};

use crate::{durable_sample, sample, written, written_with};

/// A check whose only compared limits are met, on storage without a suspicion.
fn good() -> Findings {
    let mut findings = sample::complete();
    findings.signals.clear();
    findings.verdicts.retain(|verdict| verdict.verdict != VerdictWord::Unfit);
    findings
}

fn sentence(findings: &Findings) -> String {
    of_run(findings).sentence
}

fn goal(word: VerdictWord) -> Verdict {
    let etcd = good().verdicts.remove(0);
    Verdict {
        database: Threshold::GOAL.to_owned(),
        criterion: "commit p99 < 200us".to_owned(),
        workload: "commit".to_owned(),
        value: Some(236_000.0),
        verdict: word,
        ..etcd
    }
}

const RESULTS: &str = "7.12 k durable commits/s with one writer, p99 236 µs";

#[test]
fn a_check_is_good_if_every_limit_that_was_compared_is_met() {
    let summary = of_run(&good());
    assert_eq!(summary.verdict, SummaryVerdict::Good);
    let said = format!("Good: {RESULTS}; the only documented limit that applies is met.");
    assert_eq!(summary.sentence, said);
    let mut two = good();
    two.verdicts.push(two.verdicts[0].clone());
    assert_eq!(sentence(&two), format!("Good: {RESULTS}; all 2 documented limits are met."));
}

#[test]
fn a_missed_goal_is_in_the_sentence_with_what_was_measured() {
    let mut findings = good();
    findings.verdicts.insert(0, goal(VerdictWord::Unfit));
    let said = format!("Bad: goal missed: commit p99 < 200us (236 µs); {RESULTS}.");
    assert_eq!(sentence(&findings), said);
    // Where the goal does not name it, the workload stands with the value; so does one of several places.
    findings.verdicts[0].criterion = "p99 < 200us".to_owned();
    let mut other = goal(VerdictWord::Fit);
    other.location = "/dev/vdb".to_owned();
    findings.verdicts.push(other);
    let said = "Bad: goal missed at /srv/db: p99 < 200us (commit: 236 µs); ";
    assert!(sentence(&findings).starts_with(said), "{}", sentence(&findings));
    let mut open = good();
    open.verdicts.insert(0, goal(VerdictWord::CannotTell));
    let said = "Unknown: goal not decided: commit p99 < 200us; ";
    assert!(sentence(&open).starts_with(said), "{}", sentence(&open));
    let mut met = good();
    met.verdicts.insert(0, goal(VerdictWord::Fit));
    assert!(sentence(&met).contains("; the goal is met; the only"), "{}", sentence(&met));
}

#[test]
fn a_missed_limit_is_a_caution_and_all_of_them_are_bad() {
    let mut findings = sample::complete();
    findings.signals.clear();
    let missed = "oracle (mean of commit < 100 µs, measured 140 µs)";
    let said = format!("Caution: {RESULTS}, but it misses the limit of {missed}.");
    assert_eq!(sentence(&findings), said);
    findings.verdicts.retain(|verdict| verdict.verdict != VerdictWord::Fit);
    let said =
        format!("Bad: the storage misses the only limit that applies, of {missed}; {RESULTS}.");
    assert_eq!(sentence(&findings), said);
    findings.verdicts.push(findings.verdicts[0].clone());
    let said = format!("Bad: the storage misses all 2 limits, such as that of {missed}; ");
    assert!(sentence(&findings).starts_with(&said), "{}", sentence(&findings));
}

#[test]
fn a_suspect_flush_is_a_caution() {
    let mut findings = good();
    findings.signals = vec![Signal {
        id: "flush-fast".to_owned(),
        word: SignalWord::Suspect,
        layer: "disk vda".to_owned(),
        ..sample::complete().signals.remove(0)
    }];
    let said = format!("Caution: {RESULTS}, but flushes are suspect (flush-fast, disk vda).");
    assert_eq!(sentence(&findings), said);
}

#[test]
fn other_work_is_a_caveat_from_a_quarter_of_a_cpu_on_and_explains_an_unsteady_rate() {
    let with = |cores: Option<f64>, steady: bool| {
        let mut findings = good();
        for workload in &mut findings.workloads {
            workload.cpu.foreign_cores = cores;
        }
        let fifths_per_second = [5950.0, 6430.0, 5880.0, 5600.0, 5280.0];
        let found = Steadiness { fifths_per_second, range_share: 0.2, drift_share: -0.15, steady };
        let headline = findings.headline.as_mut().unwrap();
        headline.rate_variation.as_mut().unwrap().steadiness = Some(found);
        let sentence = sentence(&findings);
        sentence.split_once(" met.").unwrap().1.to_owned()
    };
    assert_eq!([with(None, true), with(Some(0.25), true)], ["", ""]);
    assert_eq!(with(Some(0.26), true), " Caveat: other work used 0.3 of 2 CPUs.");
    let both =
        " Caveat: other work used 1.9 of 2 CPUs while the rate ranged from 5.28 k to 6.43 k/s.";
    assert_eq!(with(Some(1.9), false), both);
    assert_eq!(with(None, false), " Caveat: the rate was not steady (5.28 k to 6.43 k/s).");
}

#[test]
fn other_work_is_averaged_over_the_measured_time_and_streams_of_a_step_count_once() {
    let mut findings = good();
    findings.workloads.truncate(3);
    for (workload, (cores, seconds, stream)) in
        findings.workloads.iter_mut().zip([(2.0, 1, 0), (1.0, 4, 0), (9.0, 9, 1)])
    {
        workload.cpu.foreign_cores = Some(cores);
        workload.measured = Nanos::from_secs(seconds);
        workload.stream = stream;
    }
    // (2 × 1 s + 1 × 4 s) / 5 s.
    assert!(sentence(&findings).contains("used 1.2 of 2 CPUs"), "{}", sentence(&findings));
}

#[test]
fn io_of_others_is_in_the_sentence_with_its_device_and_step() {
    let with = |io: &[(f64, f64)], cores: f64| {
        let mut findings = good();
        for workload in &mut findings.workloads {
            workload.cpu.foreign_cores = Some(cores);
        }
        for (workload, &(read, written)) in findings.workloads.iter_mut().zip(io) {
            workload.foreign_io = Some(ForeignIo {
                device: "vda".to_owned(),
                read_bytes_per_second: read,
                written_bytes_per_second: written,
            });
        }
        findings.workloads[1].name = "lookup".to_owned();
        let sentence = sentence(&findings);
        sentence.split_once(" met.").unwrap().1.to_owned()
    };
    const MIB: f64 = 1_048_576.0;
    let read = [(2.0 * MIB, 0.0), (35.0 * MIB, 0.0)];
    assert_eq!(with(&read, 0.1), " Caveat: other work read 35 MiB/s from vda during lookup.");
    let both = [(2.0 * MIB, 0.0), (5.0 * MIB, 3.0 * MIB)];
    let said = " Caveat: other work used 1.5 of 2 CPUs and read 5 MiB/s from vda and wrote 3 MiB/s \
                to vda during lookup.";
    assert_eq!(with(&both, 1.5), said);
    assert_eq!(with(&[], 0.1), "");
}

#[test]
fn steps_that_disagree_are_a_caveat_too() {
    let mut findings = good();
    findings.headline.as_mut().unwrap().same_workload = Some(Agreement {
        count: 3,
        rate_min_per_second: 555.0,
        rate_max_per_second: 8627.0,
        agree: false,
    });
    let said = "Caveat: the rate was not steady (555 to 8.63 k/s).";
    assert!(sentence(&findings).ends_with(said), "{}", sentence(&findings));
}

#[test]
fn a_run_without_its_end_allows_no_verdict() {
    let mut findings = good();
    for (state, why) in [
        (RunState::Interrupted, "the run was interrupted"),
        (RunState::Partial, "the run was killed, or is still running"),
        (RunState::Failed, "an error ended the run (EIO)"),
    ] {
        findings.state = state;
        findings.errors = vec!["EIO".to_owned()];
        assert_eq!(sentence(&findings), format!("Unknown: {why}; {RESULTS}."));
    }
    let mut nothing = sample::empty();
    nothing.signals.clear();
    let nothing = of_run(&nothing);
    assert_eq!(nothing.verdict, SummaryVerdict::Unknown);
    assert!(nothing.sentence.contains("nothing was measured"), "{}", nothing.sentence);
}

#[test]
fn a_limit_is_a_test_case_that_fails_if_it_was_asked_for() {
    let oracle = "<testcase classname=\"/srv/db\" name=\"oracle: mean of commit &#60; 100 µs\">";
    let mut findings = sample::complete();
    let text = written(Format::JUnit, &findings);
    for line in [
        "<testsuite name=\"durio 0.1.0: /srv/db\" tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"2\">",
        "<testcase classname=\"/srv/db\" name=\"etcd: p99 of sync &#60; 10 ms\"/>",
        &format!(
            "{oracle}<skipped message=\"missed, not asked for: measured 140 µs\"/></testcase>"
        ),
        "<testcase classname=\"/srv/db\" name=\"sqlserver: p99 of commit &#60; 5 ms\"><skipped \
         message=\"no workload of this run writes 60 KiB\"/></testcase>",
    ] {
        assert_eq!(text.lines().filter(|shown| *shown == line).count(), 1, "{line}: {text}");
    }
    assert!(text.contains("<system-out>Bad: a power cut can lose acknowledged"), "{text}");
    let mut verdicts = findings.verdicts.iter_mut();
    verdicts.find(|verdict| verdict.database == "oracle").unwrap().asked = true;
    let failed = format!("{oracle}<failure message=\"measured 140 µs\"/></testcase>\n");
    let text = written(Format::JUnit, &findings);
    assert!(text.contains(&failed) && text.contains(" failures=\"1\" "), "{text}");
}

#[test]
fn several_places_are_compared_and_have_a_rate_and_a_latency_each() {
    let summary = of_run(&sample::two_locations());
    let said = ": 9.13 k against 7.12 k commits/s (commit)";
    assert!(summary.sentence.contains(said), "{}", summary.sentence);
    let labels: Vec<&str> = summary.headline.iter().map(|figure| figure.label.as_str()).collect();
    assert_eq!(labels[0], "durable commits at /srv/db");
    assert_eq!(labels[2], "durable commits at /dev/vdb");
}

#[test]
fn reads_have_results_without_a_verdict_word() {
    let mut findings = good();
    findings.plan.purpose = Purpose::Run;
    findings.headline = None;
    findings.verdicts.clear();
    findings.workloads.retain(|workload| workload.name == "lookup");
    let summary = of_run(&findings);
    assert_eq!(summary.verdict, SummaryVerdict::Unknown);
    assert!(summary.sentence.starts_with("lookup: 81.4 k reads/s ("), "{}", summary.sentence);
    assert_eq!(summary.headline[0].label, "lookup reads");
}

#[test]
fn commits_without_a_published_limit_are_held_against_the_strictest() {
    let with = |p99: Option<u64>| {
        let mut findings = good();
        findings.verdicts.clear();
        findings.headline.as_mut().unwrap().commit_latency_ns_p99 = p99;
        of_run(&findings)
    };
    assert_eq!(with(Some(9_999_999)).sentence, format!("Good: {RESULTS}."));
    let slow = with(Some(10_000_000));
    let said = format!("Caution: {RESULTS}, but commits take 10 ms at p99 (slow from 10 ms on).");
    assert_eq!(slow.sentence, said);
    let few: Summary = with(None);
    assert_eq!((few.verdict, few.sentence), (SummaryVerdict::Unknown, format!("{RESULTS}.")));
}

/// Clients, commits per second and their p99 in nanoseconds.
type Point = (u32, f64, u64);

/// A check that predicted commits of these databases.
fn predicted(all: &[(&str, &[Point])]) -> Findings {
    let point = |&(clients, rate, p99_ns): &Point| PredictionPoint {
        clients,
        rate_per_second: rate,
        expected: Some((rate / 1.15, rate / 0.85)),
        rate_range: None,
        offered_per_second: None,
        p50_ns: Some(p99_ns / 4),
        p99_ns: Some(p99_ns),
        commits_per_sync: None,
        bytes_per_commit: 8192.0,
        log_share: 0.9,
        processor_share: None,
        bound: RateBound::Storage,
        twice_as_fast_at_most: None,
    };
    let database = |(name, points): &(&str, &[Point])| PredictionFindings {
        database: (*name).to_owned(),
        location: Some("/srv/db".to_owned()),
        points: points.iter().map(point).collect(),
        notes: Vec::new(),
    };
    Findings { predicted: all.iter().map(database).collect(), ..good() }
}

const ROWS: [(u32, f64, u64); 3] =
    [(1, 990.0, 2_000_000), (8, 12_340.0, 4_000_000), (32, 30_000.0, 9_000_000)];

const MET: &str = "the only documented limit that applies is met";

#[test]
fn a_database_that_was_predicted_is_named_with_the_clients_nearest_to_eight() {
    let summary = of_run(&predicted(&[("postgresql", &ROWS)]));
    let said =
        format!("Good for PostgreSQL: about 12 k commits/s with 8 clients, p99 4 ms; {MET}.");
    assert_eq!(summary.sentence, said);
    assert_eq!(summary.headline[0].label, "PostgreSQL commits with 8 clients");
    assert!((summary.headline[0].value - 12_340.0).abs() < 1e-9);
    assert_eq!(summary.headline[2].label, "durable commits");
    // Only numbers of clients that were measured are named.
    let one = sentence(&predicted(&[("postgresql", &ROWS[2..])]));
    assert!(one.starts_with("Good for PostgreSQL: about 30 k commits/s with 32 clients"), "{one}");
    let slow = sentence(&predicted(&[("postgresql", &[(8, 700.0, 12_000_000)])]));
    let why = "but commits of PostgreSQL with 8 clients take 12 ms at p99 (slow from 10 ms on).";
    assert!(
        slow.starts_with("Caution: PostgreSQL about 700 commits/s with 8 clients, p99 12 ms"),
        "{slow}"
    );
    assert!(slow.ends_with(why), "{slow}");
}

#[test]
fn of_several_databases_the_first_has_its_commits_in_the_sentence_and_slow_ones_are_one_reason() {
    let redis = [(8, 40_000.0, 900_000)];
    let all = [("postgresql", &ROWS[..]), ("mariadb", &ROWS[..]), ("redis", &redis[..])];
    let said = format!(
        "Good for PostgreSQL, MySQL/MariaDB and Redis: PostgreSQL about 12 k commits/s with 8 clients, \
         p99 4 ms; {MET}."
    );
    assert_eq!(sentence(&predicted(&all)), said);
    let slow = [(8, 700.0, 9_999_999)];
    let slower = [(8, 600.0, 10_000_000)];
    let slowest = [(8, 500.0, 30_000_000)];
    let all = [("redis", &slow[..]), ("etcd", &slower[..]), ("sqlite-wal", &slowest[..])];
    let why = "but commits are slow (p99 of 10 ms or more) with etcd (10 ms) and SQLite (30 ms).";
    let said = format!("Caution: Redis about 700 commits/s with 8 clients, p99 10 ms, {why}");
    assert_eq!(sentence(&predicted(&all)), said);
    // Of several locations the comparison is the answer.
    let mut two = predicted(&all);
    two.stack.push(two.stack[0].clone());
    assert!(!sentence(&two).contains("Redis"), "{}", sentence(&two));
}

/// A check that was asked about etcd, whose limit has this verdict; oracle's is missed.
fn asked(word: VerdictWord) -> Findings {
    let mut findings = predicted(&[("etcd", &ROWS)]);
    findings.verdicts = sample::complete().verdicts;
    let etcd = &mut findings.verdicts[0];
    assert_eq!((etcd.database.as_str(), etcd.verdict), ("etcd", VerdictWord::Fit));
    (etcd.asked, etcd.verdict) = (true, word);
    etcd.value = Some(15_800_000.0);
    findings
}

#[test]
fn a_database_that_was_named_alone_decides_the_verdict_by_its_own_limit() {
    let results = "about 12 k commits/s with 8 clients, p99 4 ms";
    let good = of_run(&asked(VerdictWord::Fit));
    assert_eq!(good.sentence, format!("Good for etcd: {results}; {MET}."));
    let unfit = of_run(&asked(VerdictWord::Unfit));
    let why = "the storage is unfit for etcd (p99 of sync < 10 ms, measured 15.8 ms)";
    assert_eq!(unfit.sentence, format!("Bad: {why}; etcd {results}."));
    assert_eq!((unfit.verdict, unfit.reasons), (SummaryVerdict::Bad, vec![why.to_owned()]));
    let open = of_run(&asked(VerdictWord::CannotTell));
    let why = "the limit of etcd could not be compared";
    assert_eq!(open.sentence, format!("Unknown: {why}; etcd {results}."));
    assert_eq!(open.verdict, SummaryVerdict::Unknown);
}

#[test]
fn mysql_is_named_with_the_model_that_predicts_it_and_mariadb_alone_when_it_is_asked_about() {
    let named = |database: &str| {
        let mut findings = predicted(&[(database, &ROWS)]);
        findings.verdicts = sample::complete().verdicts;
        let open = &mut findings.verdicts[4];
        assert_eq!(open.verdict, VerdictWord::NoDocumentedThreshold);
        (open.asked, open.database) = (true, database.to_owned());
        sentence(&findings)
    };
    let results = "about 12 k commits/s with 8 clients, p99 4 ms.";
    assert_eq!(named("mysql"), format!("Good for MySQL (by MariaDB's model): {results}"));
    assert_eq!(named("mariadb"), format!("Good for MariaDB: {results}"));
}

#[test]
fn a_database_that_was_named_and_not_predicted_ends_with_the_command_that_measures_it() {
    let next = |database: &str| {
        let mut findings = good();
        (findings.verdicts[0].asked, findings.verdicts[0].database) = (true, database.to_owned());
        let text = written_with(Format::Text, &findings, &Options::default());
        let commands = text.lines().skip_while(|line| *line != "Next").skip(1);
        let command = commands.map(|line| line.trim().split("  #").next().unwrap().trim_end());
        command.map(str::to_owned).next().unwrap()
    };
    assert_eq!(next("kafka"), "durio run profile:kafka --target /srv/db");
    assert_eq!(next("redis"), "durio predict redis /srv/db");
    assert_eq!(next("mysql"), "durio predict mysql /srv/db");
    assert_eq!(next("etcd-openshift"), "durio durable /srv/db");
}

#[test]
fn a_study_of_durable_writes_names_the_fastest_method_that_databases_use() {
    let mut findings = durable_sample::durable();
    findings.signals.clear();
    let summary = of_run(&findings);
    let said = "durable commits/s with one writer by o_dsync (direct), the fastest that databases use, p99 ";
    assert!(summary.sentence.contains(said), "{}", summary.sentence);
    assert_eq!(summary.headline[0].label, "durable commits by o_dsync (direct)");
}

#[test]
fn the_details_of_an_unsteady_rate_name_the_other_work() {
    let mut findings = good();
    for workload in &mut findings.workloads {
        workload.cpu.foreign_cores = Some(1.9);
    }
    let fifths_per_second = [5950.0, 6430.0, 5880.0, 5600.0, 5280.0];
    let found =
        Steadiness { fifths_per_second, range_share: 0.2, drift_share: -0.15, steady: false };
    let headline = findings.headline.as_mut().unwrap();
    headline.rate_variation.as_mut().unwrap().steadiness = Some(found);
    let options = Options { width: 400, verbose: true, ..Options::default() };
    let text = written_with(Format::Text, &findings, &options);
    let line = text.lines().find(|line| line.starts_with("NOT STEADY  ")).unwrap();
    assert!(line.ends_with("a repeat may differ; other work used 1.9 of 2 CPUs"));
    let rates =
        "fell during the run: 5.95 k, 6.43 k, 5.88 k, 5.6 k and 5.28 k per second, by fifths";
    assert!(line.contains(rates), "{line}");
    assert!(text.contains("other work 1.9 cores"), "{text}");
}
