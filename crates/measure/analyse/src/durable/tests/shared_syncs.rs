//! Syncs that several writes or commits share.

use super::*;

#[test]
fn a_sync_of_several_writes_takes_the_time_of_the_writer_per_write() {
    let mut made = Made::new();
    made.experiment(Experiment::SyncEvery);
    let of = |every, jobs| Workload {
        sync: SyncPolicy { method: SyncMethod::Fdatasync, every },
        ..write(SyncMethod::Fdatasync, 4, jobs)
    };
    for (every, rate) in [(16, 8000.0), (1, 1000.0)] {
        made.step(0, of(every, 1), rate);
    }
    let two = made.findings().sync_every.remove(0);
    assert!(matches!(
        two.declined,
        Some(crate::DeclinedAnalysis::TooFew { given: 2, needed: 3, .. })
    ));
    made.step(0, of(4, 1), 4000.0);
    // The rate is that of all writers together.
    made.step(0, of(8, 5), 2500.0);
    made.step(0, of(2, 5), 1000.0);
    let groups = made.findings().sync_every;
    let [found, of_five] = &groups[..] else { panic!("two numbers of jobs") };
    let rows = |found: &SyncEveryFindings| -> Vec<(u32, f64)> {
        found.rows.iter().map(|row| (row.arm.setting.every, row.ns_per_write)).collect()
    };
    assert_eq!(rows(found), [(1, 1e6), (4, 250_000.0), (16, 125_000.0)]);
    assert_eq!(rows(of_five), [(2, 5e6), (8, 2e6)]);
    assert!(!matches!(found.declined, Some(crate::DeclinedAnalysis::TooFew { .. })), "{found:?}");
}

#[test]
fn a_commit_delay_is_advised_for_each_place_by_its_own_commits() {
    let mut made = Made::new();
    made.experiment(Experiment::CommitDelay);
    let log = |micros| Workload {
        group_commit: Some(GroupCommit {
            delay: Nanos::from_micros(micros),
            ..GroupCommit::of(64)
        }),
        ..write(SyncMethod::Fdatasync, 4, 1)
    };
    for (target, micros, rate) in [(0, 200, 2000.0), (2, 50, 510.0), (0, 0, 1000.0), (2, 0, 500.0)]
    {
        made.step(target, log(micros), rate);
    }
    // Independent writers have no delay.
    made.step(0, write(SyncMethod::Fdatasync, 4, 64), 9000.0);
    let found = made.findings().commit_delays;
    let advised: Vec<_> = found
        .iter()
        .map(|found| {
            let advice = found.advice.as_ref().unwrap();
            let gain = thousandths(Some(advice.best_gain_share));
            let place = found.arms[0].setting.location.as_str();
            (place, rates(&found.arms), advice.delay, gain)
        })
        .collect();
    let expected = [
        ("/a", vec![1000.0, 2000.0], Nanos::from_micros(200), Some(1000)),
        // A fiftieth more is noise.
        ("/b", vec![500.0, 510.0], Nanos::ZERO, Some(20)),
    ];
    assert_eq!(advised, expected);
}
