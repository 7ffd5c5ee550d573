//! Hosts pooled by hand, and the numbers that averages would give.

use durio_observe::Stack;
use durio_record::{Outcome, SparseHistogram};
use testkit::runs::{MadeRun, disk, latency, mounted, nfs};

use super::*;
use crate::analyse::load_run;

/// Hosts db1, db2, … with these runs, and the folder that has them.
fn hosts(runs: &[MadeRun]) -> (tempfile::TempDir, Vec<HostRecord>) {
    let directory = tempfile::tempdir().unwrap();
    let host = |(number, run): (usize, &MadeRun)| {
        let name = format!("db{}", number + 1);
        let path = directory.path().join(&name);
        run.write(&path);
        HostRecord { name, runs: vec![load_run(&path).unwrap()] }
    };
    let hosts = runs.iter().enumerate().map(host).collect();
    (directory, hosts)
}

/// The findings of the one step of these runs.
fn pooled(runs: &[MadeRun], conditions: &PoolConditions) -> PooledFindings {
    let (_directory, hosts) = hosts(runs);
    let (mut found, _) = pool(&hosts, conditions);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn ordered() -> PoolConditions {
    PoolConditions { has_order: true, ..PoolConditions::default() }
}

/// Two hosts on storage that gives 1,000 reads a second to one or to both; the second starts `late`
/// seconds later, and each runs 10 s.
fn sharing(late: usize) -> [MadeRun; 2] {
    let alone = std::iter::repeat_n(1000, late);
    let together = std::iter::repeat_n(500, 10 - late);
    let first: Vec<u64> = alone.clone().chain(together.clone()).collect();
    let second: Vec<u64> = together.chain(alone).collect();
    let mut runs = [MadeRun::new("db1", &first), MadeRun::new("db2", &second)];
    runs[1].started = format!("2026-11-30T10:00:{late:02}.000Z");
    runs
}

#[test]
fn a_sum_of_rates_overstates_by_spread_over_run_time_and_the_window_does_not() {
    for (late, sum) in [(0, 1000.0), (1, 1100.0), (5, 1500.0)] {
        let found = pooled(&sharing(late), &PoolConditions::default());
        let window = 10.0 - f64::from(u8::try_from(late).unwrap());
        assert_eq!((found.hosts, found.window_seconds), (2, window));
        assert_eq!((found.rate, found.no_rate.as_deref()), (Some(1000.0), None));
        assert_eq!(found.sum_of_rates, sum);
        assert_eq!(found.skew_seconds, 10.0 - window);
        assert_eq!(found.latency.unwrap().count, 1000 * (10 - late as u64));
        assert_eq!(found.rate_over_time, vec![1000.0; 10 - late]);
        assert_eq!(found.fairness, 1.0);
        let shares: Vec<(&str, f64)> =
            found.shares.iter().map(|share| (share.host.as_str(), share.share)).collect();
        assert_eq!(shares, [("db1", 0.5), ("db2", 0.5)]);
    }
}

#[test]
fn local_drives_that_were_measured_one_after_the_other_are_no_reason_to_doubt() {
    let mut runs = sharing(0);
    runs[1].started = "2026-11-30T11:00:00.000Z".to_owned();
    let doubts = |runs: &[MadeRun]| {
        let (_directory, hosts) = hosts(runs);
        pool(&hosts, &PoolConditions::default()).1.len()
    };
    assert_eq!(doubts(&runs), 0);
    assert_eq!(doubts(&runs.map(|run| MadeRun { stack: nfs("nas:/db"), ..run })), 1);
}

#[test]
fn hosts_without_a_second_in_common_have_no_rate() {
    let mut runs = sharing(0);
    runs[1].started = "2026-11-30T10:00:10.000Z".to_owned();
    let found = pooled(&runs, &PoolConditions::default());
    assert_eq!((found.rate, found.window_seconds), (None, 0.0));
    let reason = "the last host started after the first had ended";
    assert_eq!(found.no_rate.as_deref(), Some(reason));
    assert_eq!((found.latency, found.sum_of_rates), (None, 1000.0));
    // Half a second in common has no whole interval of either.
    runs[1].started = "2026-11-30T10:00:09.500Z".to_owned();
    let found = pooled(&runs, &PoolConditions::default());
    let reason = "the common window of 500 ms has no whole interval of db1 and db2";
    assert_eq!(found.no_rate.as_deref(), Some(reason));
    runs[1].started = "no time".to_owned();
    let found = pooled(&runs, &PoolConditions::default());
    let reason = found.no_rate.unwrap();
    assert!(reason.starts_with("the starts are not on one clock"), "{reason}");
}

#[test]
fn intervals_that_are_cut_by_the_window_count_neither_in_counts_nor_in_time() {
    let mut runs = [MadeRun::new("db1", &[400; 10]), MadeRun::new("db2", &[600; 10])];
    runs[1].started = "2026-11-30T10:00:00.250Z".to_owned();
    let found = pooled(&runs, &PoolConditions::default());
    assert_eq!((found.window_seconds, found.rate), (9.75, Some(1000.0)));
    // Nine whole seconds of each.
    assert_eq!(found.latency.unwrap().count, 9000);
    let shares: Vec<f64> = found.shares.iter().map(|share| share.share).collect();
    assert_eq!((found.shares[0].host.as_str(), shares), ("db2", vec![0.6, 0.4]));
}

#[test]
fn a_mean_of_percentiles_is_a_latency_that_no_request_saw() {
    // 3 % of 0.8 ms everywhere; on 5 of 50 hosts, 3 % stalls of 50 ms.
    let healthy = vec![(250_000, 970), (800_000, 30)];
    let stalling = vec![(250_000, 940), (800_000, 30), (50_000_000, 30)];
    let run = |host: usize| {
        let counts = if host < 5 { &stalling } else { &healthy };
        let seconds = vec![counts.clone(); 2];
        MadeRun { seconds, ..MadeRun::new("db", &[]) }
    };
    let runs: Vec<MadeRun> = (0..50).map(run).collect();
    let found = pooled(&runs, &PoolConditions::default());
    let latency = found.latency.unwrap();
    assert_eq!((found.hosts, latency.count), (50, 100_000));
    // The largest value of the bucket of 800 µs, and the exact maximum.
    assert_eq!((latency.p99_ns, latency.p99_9_ns), (Some(800_255), Some(50_000_000)));
    // (45 × 0.8 + 5 × 50) ÷ 50
    assert_eq!(found.mean_of_p99_ns, Some(5_720_000.0));
    assert_eq!(found.shares[0].p99_ns.max(found.shares[49].p99_ns), Some(50_000_000));
}

#[test]
fn a_pooled_histogram_is_that_of_all_values() {
    let seconds = [
        vec![vec![(90_000, 7), (91_000, 2)], vec![(5_000_000, 1)], vec![(123, 40)]],
        vec![vec![(90_000, 3)], vec![], vec![(4_000_000_000, 2), (90_000, 9)]],
        vec![vec![(1, 1)], vec![(2047, 1), (2048, 1)], vec![(777_777, 5)]],
    ];
    let runs = seconds.clone().map(|seconds| MadeRun { seconds, ..MadeRun::new("db", &[]) });
    let (_directory, hosts) = hosts(&runs);
    let mut pools = pools(&hosts, &PoolConditions::default());
    add_runs(&mut pools, &hosts);
    let all: Vec<(u64, u64)> = seconds.into_iter().flatten().flatten().collect();
    let expected = latency(&all);
    assert_eq!(pools[0].totals.latency, expected);
    assert_eq!(expected.histogram().map(SparseHistogram::count), Some(72));
}

#[test]
fn fairness_is_jains_index() {
    assert_eq!(fairness(&[7.0; 4]), 1.0);
    assert_eq!(fairness(&[4.0, 0.0, 0.0, 0.0]), 0.25);
    // 6² ÷ (3 × 14)
    assert_eq!(fairness(&[1.0, 2.0, 3.0]), 36.0 / 42.0);
    assert_eq!(fairness(&[0.0, 0.0]), 1.0);
}

#[test]
fn a_host_whose_run_was_cut_is_not_pooled_and_leaves_no_rate() {
    let mut runs = [100, 200, 300].map(|reads| MadeRun::new("db", &[reads; 5]));
    for outcome in [None, Some(Outcome::Failed), Some(Outcome::Interrupted)] {
        runs[2].outcome = outcome;
        let found = pooled(&runs, &PoolConditions::default());
        assert_eq!((found.hosts, found.rate, found.sum_of_rates), (2, None, 300.0));
        let reason = "db3 did not complete it, with an unknown load until then";
        assert_eq!(found.no_rate.as_deref(), Some(reason));
        // Its load was on the latencies of the others as well.
        assert_eq!((found.latency, found.rate_over_time), (None, vec![300.0; 5]));
        let shares: Vec<_> =
            found.shares.iter().map(|share| (share.host.as_str(), share.p99_ns)).collect();
        assert_eq!(shares, [("db2", Some(100_000)), ("db1", Some(100_000))]);
    }
    // One host alone does not make a fleet.
    runs[1].outcome = None;
    let (_directory, hosts) = hosts(&runs);
    assert_eq!(pool(&hosts, &PoolConditions::default()).0, []);
}

#[test]
fn a_lost_host_takes_the_rate_of_the_steps_up_to_the_next_barrier() {
    let runs = [MadeRun::new("db1", &[100; 3]), MadeRun::new("db2", &[100; 3])];
    let no_rate = |host: &str, step, next_step| {
        let losses = vec![Loss { host: host.to_owned(), at: Nanos::ZERO, step, next_step }];
        let times = CampaignTimes { losses, ..CampaignTimes::default() };
        pooled(&runs, &PoolConditions { times, ..PoolConditions::default() }).no_rate
    };
    let lost = Some("db9 fell silent while it ran: the load is unknown".to_owned());
    assert_eq!(no_rate("db9", 0, None), lost);
    assert_eq!(no_rate("db9", 0, Some(1)), lost);
    assert_eq!(no_rate("db9", 0, Some(0)), None);
    assert_eq!(no_rate("db9", 1, None), None);
    // It came back, and its record has the whole step.
    assert_eq!(no_rate("db2", 0, None), None);
}

#[test]
fn gated_starts_are_aligned_by_the_senders_clock() {
    let mut runs = sharing(1);
    // The second wall clock is 2 s fast; both boot times differ from the sender's.
    runs[1].started = "2026-11-30T10:00:03.000Z".to_owned();
    (runs[0].gate, runs[1].gate) = (
        Some((70_000_000_000, -50_000_000_000, 1000)),
        Some((1_000_000_000, 20_000_000_000, 2000)),
    );
    let found = pooled(&runs, &ordered());
    assert_eq!((found.rate, found.window_seconds, found.skew_seconds), (Some(1000.0), 9.0, 1.0));
    let (_directory, hosts) = hosts(&runs);
    let sentence = |has_order| {
        let conditions = PoolConditions { has_order, ..PoolConditions::default() };
        pool(&hosts, &conditions).1.remove(0).sentence
    };
    assert_eq!(
        sentence(true),
        "1 of 1 agreed starts had more than 10 ms, or 1 % of an interval, between hosts: up to 1 s"
    );
    // Orders of different senders say nothing about each other.
    assert_eq!(
        sentence(false),
        "no process ordered the starts: hosts are aligned by their wall clocks, whose errors are \
         not known; starts differ by up to 3 s"
    );
}

/// Four seconds of 500 reads a second on two hosts, whose starts differ by `skew_ns` at most; the later
/// clock is right within 2 µs. In the common window there are three whole intervals of each.
fn skewed_by(skew_ns: u64) -> [MadeRun; 2] {
    let mut runs = [MadeRun::new("db1", &[500; 4]), MadeRun::new("db2", &[500; 4])];
    runs[0].gate = Some((1_000_000_000, 0, 0));
    runs[1].gate = Some((1_000_000_000 + skew_ns - 2000, 0, 2000));
    runs
}

#[test]
fn shared_storage_has_no_rate_if_agreed_starts_may_make_it_more_than_1_percent_wrong() {
    let stated = PoolConditions { is_shared: true, ..ordered() };
    // 2 × 15 ms ÷ 3 s
    let found = pooled(&skewed_by(15_000_000), &stated);
    assert_eq!((found.shared, found.no_rate), (Some(SharedStorage::Stated), None));
    assert_eq!((found.rate, found.rate_error), (Some(1000.0), Some(0.01)));
    assert_eq!(found.latency.unwrap().count, 3000);
    let found = pooled(&skewed_by(15_000_001), &stated);
    assert_eq!((found.rate, found.rate_error, found.latency), (None, None, None));
    let reason = "the starts on shared storage differ by up to 15.000001 ms, more than 15.000000 ms: \
                  the rate may be more than 1 % wrong";
    assert_eq!(found.no_rate.as_deref(), Some(reason));
    let reason = pooled(&skewed_by(20_000_000), &stated).no_rate.unwrap();
    assert!(reason.contains(" by up to 20 ms, more than 15 ms: "), "{reason}");
    // Local drives do not disturb each other.
    let found = pooled(&skewed_by(15_000_001), &ordered());
    assert_eq!((found.rate, found.rate_error), (Some(1000.0), None));
    // Runs that were started by other means have the rate of the window.
    let loose = sharing(1).map(|run| MadeRun { stack: nfs("nas:/db"), ..run });
    let found = pooled(&loose, &PoolConditions::default());
    let shared = Some(SharedStorage::Detected("nas:/db".to_owned()));
    assert_eq!((found.shared, found.rate, found.sum_of_rates), (shared, Some(1000.0), 1100.0));
    assert_eq!(found.rate_error, None);
}

#[test]
fn starts_more_than_10_ms_apart_are_a_doubt_and_have_a_rate_with_its_error() {
    let found = |skew_ns| {
        let (_directory, hosts) = hosts(&skewed_by(skew_ns));
        let (mut found, doubts) = pool(&hosts, &PoolConditions { is_shared: true, ..ordered() });
        let doubts: Vec<_> = doubts.into_iter().map(|doubt| doubt.sentence).collect();
        (found.remove(0).rate_error, doubts)
    };
    // 2 × 10 ms ÷ 3 s
    assert_eq!(found(10_000_000), (Some(2e7 / 3e9), vec![]));
    let (error, doubts) = found(10_000_001);
    assert_eq!(error, Some(20_000_002.0 / 3e9));
    let sentence = "1 of 1 agreed starts had more than 10 ms, or 1 % of an interval, between hosts: up \
                    to 10.000001 ms";
    assert_eq!(doubts, [sentence]);
}

#[test]
fn times_have_the_digits_that_distinguish_them() {
    let told = |nanos: [u64; 2]| told_apart(nanos.map(Nanos::new));
    assert_eq!(told([23_000_000, 10_000_000]), ["23 ms", "10 ms"]);
    assert_eq!(told([10_040_000, 10_000_000]), ["10.04 ms", "10.00 ms"]);
    assert_eq!(told([10_000_001, 10_000_000]), ["10.000001 ms", "10.000000 ms"]);
    assert_eq!(told([1_000_400_000, 1_000_000_000]), ["1000.4 ms", "1000.0 ms"]);
    assert_eq!(told([500, 500]), ["500 ns", "500 ns"]);
}

#[test]
fn steps_that_started_freely_are_not_skewed_and_are_said_to_be_free_once() {
    let runs = |skew_ns: u64, free_steps| {
        [0, skew_ns].map(|late| MadeRun {
            gate: Some((1_000_000_000 + late, 0, 0)),
            free_steps,
            ..MadeRun::new("db", &[500; 4])
        })
    };
    let found = |skew_ns, free_steps| {
        let (_directory, hosts) = hosts(&runs(skew_ns, free_steps));
        let (found, doubts) = pool(&hosts, &PoolConditions { is_shared: true, ..ordered() });
        let doubts = doubts.into_iter().map(|doubt| (doubt.kind, doubt.sentence));
        let rates: Vec<bool> = found.iter().map(|pooled| pooled.rate.is_some()).collect();
        (rates, doubts.collect::<Vec<_>>())
    };
    assert_eq!(found(4_000_000, 0), (vec![true], vec![]));
    let free = "2 of 3 steps were free to start when a host was ready: starts differ by up to 4 ms";
    let free = vec![(FleetDoubtKind::FreeStart, free.to_owned())];
    assert_eq!(found(4_000_000, 2), (vec![true, true, true], free));
    let (rates, doubts) = found(16_000_000, 1);
    assert_eq!(rates, [false, true]);
    let kinds: Vec<FleetDoubtKind> = doubts.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [FleetDoubtKind::Skewed, FleetDoubtKind::FreeStart]);
    let skewed = "1 of 1 agreed starts had more than 10 ms, or 1 % of an interval, between hosts: up \
                  to 16 ms";
    assert_eq!(doubts[0].1, skewed);
}

#[test]
fn starts_losses_and_stops_have_their_place_on_the_rate_of_all() {
    let mut runs = sharing(1);
    // On the sender's clock the starts are at 20 and 21 s, and the last end at 31 s.
    runs[0].gate = Some((70_000_000_000, -50_000_000_000, 0));
    runs[1].gate = Some((1_000_000_000, 20_000_000_000, 0));
    let marks = |orders: BTreeMap<u32, Nanos>| {
        let at = Nanos::from_secs;
        let loss = |host: &str, at| Loss { host: host.to_owned(), at, step: 0, next_step: Some(0) };
        let losses = vec![loss("db8", at(7)), loss("db9", at(13))];
        let times = CampaignTimes { losses, orders, stops: vec![at(19), at(20)] };
        let found = pooled(&runs, &PoolConditions { times, ..ordered() }).marks;
        found.into_iter().map(|mark| (mark.at_seconds, mark.kind, mark.host)).collect::<Vec<_>>()
    };
    let starts = [-1.0, 0.0].map(|at| (at, RateMarkKind::Start, None));
    assert_eq!(marks(BTreeMap::new()), starts);
    let ordered_at_8 = marks(BTreeMap::from([(0, Nanos::from_secs(8))]));
    let lost = (4.0, RateMarkKind::Lost, Some("db9".to_owned()));
    let [first, last] = starts;
    assert_eq!(ordered_at_8, [first, last, lost, (10.0, RateMarkKind::Stop, None)]);
}

#[test]
fn a_step_on_two_storages_is_one_start() {
    let hosts_of = [("a:/db", 0), ("b:/db", 0), ("a:/db", 1_000_000), ("b:/db", 1_000_000)];
    let runs = hosts_of.map(|(source, late)| MadeRun {
        stack: nfs(source),
        gate: Some((1_000_000_000 + late, 0, 11_000_000)),
        free_steps: 1,
        ..MadeRun::new("db", &[500; 4])
    });
    let (_directory, hosts) = hosts(&runs);
    let (found, doubts) = pool(&hosts, &ordered());
    let names: Vec<&str> = found.iter().map(|pooled| pooled.workload.as_str()).collect();
    assert_eq!(names, ["randread", "randread", "randread (repeat 2)", "randread (repeat 2)"]);
    let sentences: Vec<&str> = doubts.iter().map(|doubt| doubt.sentence.as_str()).collect();
    let expected = [
        "1 of 1 agreed starts had more than 10 ms, or 1 % of an interval, between hosts: up to 23 ms",
        "1 of 2 steps were free to start when a host was ready: starts differ by up to 1 ms",
    ];
    assert_eq!(sentences, expected);
}

#[test]
fn a_copied_image_is_a_doubt_and_not_shared_storage() {
    let found = |stacks: [Stack; 2], ids: [&str; 2]| {
        let run = |(stack, id): (Stack, &str)| MadeRun {
            stack,
            machine_id: Some(id.to_owned()),
            ..MadeRun::new("db", &[10; 2])
        };
        let runs: Vec<MadeRun> = stacks.into_iter().zip(ids).map(run).collect();
        let (_directory, hosts) = hosts(&runs);
        let (mut found, doubts) = pool(&hosts, &PoolConditions::default());
        let copied = |doubt: &FleetDoubt| doubt.kind == FleetDoubtKind::CopiedFilesystem;
        let doubt = doubts.into_iter().find(copied).map(|doubt| doubt.sentence);
        (found.remove(0).shared, doubt.unwrap_or_default())
    };
    let two = ["1111111111111111", "2222222222222222"];
    let lun = Some(SharedStorage::Detected("LUN 600a0b80".to_owned()));
    let none = String::new;
    let same = || mounted("1-2", "600a0b80");
    assert_eq!(found([same(), same()], two), (lun, none()));
    let drives = "db1 and db2 have the filesystem UUID 1-2: drives with different serial numbers, so \
                  copied images";
    assert_eq!(found([same(), mounted("1-2", "600a0b81")], two), (None, drives.to_owned()));
    let unknown = "db1 and db2 have the filesystem UUID 1-2: copied images, or one storage without a \
                   serial number";
    let unnamed = || mounted("1-2", "");
    assert_eq!(found([unnamed(), unnamed()], two), (None, unknown.to_owned()));
    assert_eq!(found([unnamed(), mounted("3-4", "")], two), (None, none()));
    assert_eq!(found([unnamed(), unnamed()], [two[0]; 2]), (None, none()));
}

#[test]
fn shared_storage_is_detected_on_different_machines() {
    let machines = ["1111111111111111", "2222222222222222", "3333333333333333"];
    let found = |stacks: [Stack; 3], ids: [Option<&str>; 3]| {
        let run = |(stack, id): (Stack, Option<&str>)| MadeRun {
            stack,
            machine_id: id.map(str::to_owned),
            ..MadeRun::new("db", &[10; 2])
        };
        let runs: Vec<MadeRun> = stacks.into_iter().zip(ids).map(run).collect();
        let found = pooled(&runs, &PoolConditions::default());
        (found.shared, found.hosts)
    };
    let detected = |text: &str| Some(SharedStorage::Detected(text.to_owned()));
    let ids = machines.map(Some);
    let export = || nfs("nas:/db");
    assert_eq!(found([export(), export(), export()], ids), (detected("nas:/db"), 3));
    // The load on another export does not count.
    assert_eq!(found([nfs("nas:/other"), export(), export()], ids), (detected("nas:/db"), 2));
    assert_eq!(found([nfs("a:/db"), nfs("b:/db"), nfs("c:/db")], ids), (None, 3));
    let lun = || disk("LUN", "600a0b80");
    assert_eq!(found([lun(), lun(), lun()], ids), (detected("LUN 600a0b80"), 3));
    // One machine under three names; hosts without an ID count by their names.
    assert_eq!(found([lun(), lun(), lun()], [Some(machines[0]); 3]), (None, 3));
    assert_eq!(found([lun(), lun(), lun()], [None; 3]), (detected("LUN 600a0b80"), 3));
    assert_eq!(found([disk("X", ""), disk("X", ""), disk("X", "")], ids), (None, 3));
}

#[test]
fn each_storage_has_the_rate_of_the_hosts_that_share_it_and_local_drives_have_theirs() {
    let stacks = [
        disk("X", "s001"),
        nfs("a:/db"),
        nfs("b:/db"),
        nfs("b:/db"),
        nfs("a:/db"),
        disk("X", "s002"),
        nfs("b:/db"),
    ];
    let mut runs: Vec<MadeRun> = (1..)
        .zip(stacks)
        .map(|(at, stack)| MadeRun { stack, ..MadeRun::new("db", &[100 * at; 4]) })
        .collect();
    let found = |runs: &[MadeRun], losses: Vec<Loss>| {
        let (_directory, hosts) = hosts(runs);
        let times = CampaignTimes { losses, ..CampaignTimes::default() };
        pool(&hosts, &PoolConditions { times, ..PoolConditions::default() }).0
    };
    let all = found(&runs, Vec::new());
    let rates: Vec<_> = all.iter().map(|pooled| (pooled.hosts, pooled.rate)).collect();
    // Hosts 3, 4 and 7; 1 and 6; 2 and 5.
    assert_eq!(rates, [(3, Some(1400.0)), (2, Some(700.0)), (2, Some(700.0))]);
    let detected = |text: &str| Some(SharedStorage::Detected(text.to_owned()));
    let shared: Vec<_> = all.iter().map(|pooled| pooled.shared.clone()).collect();
    assert_eq!(shared, [detected("b:/db"), None, detected("a:/db")]);
    let named: Vec<&str> = all[2].shares.iter().map(|share| share.host.as_str()).collect();
    assert_eq!((named, all[2].shares[0].share), (vec!["db5", "db2"], 5.0 / 7.0));
    assert_eq!(all[0].latency.as_ref().unwrap().count, 5600);
    // A cut affects only the storage of that host. A loss affects no storage if the host came back.
    runs[6].outcome = None;
    let loss = Loss { host: "db5".to_owned(), at: Nanos::ZERO, step: 0, next_step: None };
    let cut = found(&runs, vec![loss]);
    let rates: Vec<_> = cut.iter().map(|pooled| (pooled.hosts, pooled.rate)).collect();
    assert_eq!(rates, [(2, None), (2, Some(700.0)), (2, Some(700.0))]);
    let reason = "db7 did not complete it, with an unknown load until then";
    assert_eq!(cut[0].no_rate.as_deref(), Some(reason));
}

#[test]
fn a_host_that_was_cut_within_the_first_interval_leaves_no_rate() {
    let mut runs = [100, 200, 300].map(|reads| MadeRun::new("db", &[reads; 5]));
    runs[0].seconds.clear();
    // A step that completed without an interval is not measured.
    let found = pooled(&runs, &PoolConditions::default());
    assert_eq!((found.hosts, found.rate), (2, Some(500.0)));
    runs[0].outcome = None;
    let found = pooled(&runs, &PoolConditions::default());
    let reason = "db1 did not complete it, with an unknown load until then";
    assert_eq!((found.rate, found.no_rate.as_deref()), (None, Some(reason)));
    assert_eq!((found.hosts, found.sum_of_rates), (2, 500.0));
}

#[test]
fn hosts_without_a_common_window_are_compared_by_their_whole_steps() {
    let mut runs = [MadeRun::new("db1", &[300; 4]), MadeRun::new("db2", &[100; 4])];
    let found = |runs: &[MadeRun]| pooled(runs, &PoolConditions::default());
    let both = found(&runs);
    assert_eq!((both.fairness, both.shares[0].share), (0.8, 0.75));
    assert_eq!((both.shares[0].p50_ns, both.shares[0].p99_ns), (Some(100_000), Some(100_000)));
    runs[1].started = "2026-11-30T12:00:00.000Z".to_owned();
    let apart = found(&runs);
    assert_eq!((apart.rate, apart.fairness, apart.sum_of_rates), (None, 0.8, 400.0));
    let shares: Vec<_> =
        apart.shares.iter().map(|share| (share.host.as_str(), share.share, share.p50_ns)).collect();
    assert_eq!(shares, [("db1", 0.75, None), ("db2", 0.25, None)]);
    assert_eq!((apart.window_seconds, apart.skew_seconds), (0.0, 7200.0));
    assert_eq!((apart.mean_of_p99_ns, apart.rate_over_time), (Some(100_000.0), vec![]));
}

#[test]
fn marks_count_from_the_first_second_of_the_rate_that_all_hosts_cover() {
    let found = |late_ms: u64| {
        let mut runs = [MadeRun::new("db1", &[400; 10]), MadeRun::new("db2", &[600; 10])];
        runs[1].started = format!("2026-11-30T10:00:00.{late_ms:03}Z");
        let found = pooled(&runs, &PoolConditions::default());
        let marks: Vec<f64> = found.marks.iter().map(|mark| mark.at_seconds).collect();
        (found.rate_over_time.len(), found.rate_over_time.iter().all(|&rate| rate == 1000.0), marks)
    };
    // The first whole interval of db1 begins half a second, and three quarters, after db2 did.
    assert_eq!(found(500), (9, true, vec![-0.5, 0.0]));
    assert_eq!(found(250), (8, true, vec![-1.25, -1.0]));
    assert_eq!(found(0), (10, true, vec![0.0]));
}

#[test]
fn a_start_that_was_longer_ago_than_the_window_takes_has_no_mark() {
    let marks = |late| {
        let found = pooled(&sharing(late), &PoolConditions::default()).marks;
        found.iter().map(|mark| mark.at_seconds).collect::<Vec<_>>()
    };
    assert_eq!(marks(5), [-5.0, 0.0]);
    assert_eq!(marks(6), [0.0]);
}

#[test]
fn steps_without_an_order_have_the_marks_of_a_campaign_whose_first_start_was_ordered() {
    let gate = Some((20_000_000_000, 0, 0));
    let run = MadeRun { gate, free_steps: 1, ..MadeRun::new("db", &[500; 4]) };
    let (_directory, hosts) = hosts(&[run.clone(), run]);
    let found = |has_order| {
        let losses = vec![Loss {
            host: "db9".to_owned(),
            at: Nanos::from_secs(9),
            step: 1,
            next_step: Some(1),
        }];
        let orders = BTreeMap::from([(0, Nanos::from_secs(8))]);
        let times = CampaignTimes { losses, orders, stops: Vec::new() };
        let conditions = PoolConditions { times, has_order, is_shared: false };
        let lost = |pooled: PooledFindings| {
            let marks = pooled.marks.into_iter().filter(|mark| mark.kind == RateMarkKind::Lost);
            marks.map(|mark| mark.at_seconds).collect::<Vec<_>>()
        };
        pool(&hosts, &conditions).0.into_iter().map(lost).collect::<Vec<_>>()
    };
    assert_eq!(found(true), [vec![1.0], vec![1.0]]);
    assert_eq!(found(false), [vec![], vec![]] as [Vec<f64>; 2]);
}

/// Three hosts with 100 reads a second from 100 s on, and a fourth that started `before` that.
fn after_an_earlier_pass(before: Nanos, fourth: MadeRun) -> Vec<MadeRun> {
    let newest = 100_000_000_000;
    let run = MadeRun { gate: Some((newest, 0, 0)), ..MadeRun::new("db", &[100; 4]) };
    let gate = Some((newest - before.get(), 0, 0));
    vec![run.clone(), run.clone(), run, MadeRun { gate, ..fourth }]
}

#[test]
fn a_host_without_a_run_in_the_newest_pass_is_named_and_the_others_have_a_rate() {
    let found = |before, fourth| {
        let runs = after_an_earlier_pass(Nanos::new(before), fourth);
        let found = pooled(&runs, &PoolConditions { is_shared: true, ..ordered() });
        (found.hosts, found.absent, found.rate, found.no_rate)
    };
    let whole = || MadeRun::new("db4", &[700; 4]);
    let others = (3, vec!["db4".to_owned()], Some(300.0), None);
    assert_eq!(found(4_000_000_001, whole()), others);
    let touching = Some("the last host started after the first had ended".to_owned());
    assert_eq!(found(4_000_000_000, whole()), (4, vec![], None, touching));
    // A run that was cut may have loaded the storage for as long as the others ran.
    let cut = || MadeRun { outcome: None, ..MadeRun::new("db4", &[700; 2]) };
    assert_eq!(found(4_000_000_000, cut()), others);
    let reason = Some("db4 did not complete it, with an unknown load until then".to_owned());
    assert_eq!(found(3_999_999_999, cut()), (3, vec![], None, reason));
}

#[test]
fn an_earlier_run_neither_hides_a_loss_nor_makes_a_pool_of_one_host() {
    let runs = after_an_earlier_pass(Nanos::from_secs(9), MadeRun::new("db4", &[700; 4]));
    let lost = Loss { host: "db4".to_owned(), at: Nanos::ZERO, step: 0, next_step: None };
    let times = CampaignTimes { losses: vec![lost], ..CampaignTimes::default() };
    let found = pooled(&runs, &PoolConditions { times, ..ordered() });
    let reason = "db4 fell silent while it ran: the load is unknown";
    assert_eq!((found.hosts, found.no_rate.as_deref()), (3, Some(reason)));
    let found = pooled(&runs[2..], &ordered());
    let reason = "the last host started after the first had ended";
    assert_eq!((found.hosts, found.absent), (2, vec![]));
    assert_eq!(found.no_rate.as_deref(), Some(reason));
    // Clocks that different processes ordered do not tell passes apart.
    let found = pooled(&runs, &PoolConditions::default());
    assert_eq!((found.hosts, found.absent, found.rate), (4, vec![], Some(1000.0)));
}

#[test]
fn long_lists_of_hosts_are_cut() {
    let names = ["a", "b", "c", "d"];
    let expected = ["", "a", "a and b", "a, b and 1 more", "a, b and 2 more"];
    for (count, expected) in expected.into_iter().enumerate() {
        assert_eq!(listed(&names[..count]), expected);
    }
}
