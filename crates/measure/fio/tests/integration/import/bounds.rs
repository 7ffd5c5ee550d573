//! Both sides of each bound.

use durio_base::{Bytes, Nanos};
use durio_plan::Limit;
use durio_workload::{Region, Skew};

use super::{imported, load, step};

#[track_caller]
fn is_refused(lines: &str, option: &str) {
    let refusals = imported(&format!("[a]\nfilename=/dev/a\n{lines}")).unwrap_err();
    assert!(refusals.iter().any(|refusal| refusal.option == option), "{lines}: {refusals:?}");
}

#[test]
fn up_to_64_copies_are_a_load_each_and_more_are_one() {
    for (copies, expected) in [(64, vec![1; 64]), (65, vec![65])] {
        let step = step(&format!("[a]\nfilename=/dev/a\nrw=randread\nnumjobs={copies}"));
        let jobs: Vec<u32> = step.loads().map(|load| load.workload.jobs).collect();
        assert_eq!(jobs, expected);
    }
}

#[test]
fn a_job_runs_for_a_year_of_366_days_and_not_for_a_second_more() {
    let year = 366 * 86_400;
    let text = format!("[a]\nfilename=/dev/a\ntime_based\nruntime={year}");
    assert_eq!(step(&text).limit, Limit::Duration(Nanos::from_secs(year)));
    is_refused(&format!("time_based\nruntime={}", year + 1), "runtime");
}

#[test]
fn a_range_of_sizes_has_512_of_them_at_most() {
    let random = "rw=randread\nnorandommap\n";
    let text = format!("[a]\nfilename=/dev/a\n{random}bsrange=512-{}", 512 * 512);
    let mix = load(&text).workload.block_mix;
    let shares: u32 = mix.iter().map(|share| u32::from(share.weight.0)).sum();
    let ends = [&mix[0], &mix[511]].map(|share| share.size.get());
    assert_eq!((mix.len(), shares, ends), (512, 1000, [512, 262_144]));
    is_refused(&format!("{random}bsrange=512-{}", 513 * 512), "bsrange");
}

#[test]
fn a_region_begins_before_the_end_of_its_device() {
    let last = load("[a]\nfilename=/dev/a\noffset=1048572k").workload.within;
    let (offset, length) = (Bytes::new((1 << 30) - 4096), Bytes::from_kib(4));
    assert_eq!(last, Some(Region { offset, length }));
    is_refused("offset=1g", "size");
    is_refused("offset=1048577k", "offset");
}

#[test]
fn a_skew_is_in_whole_thousandths() {
    let skew = |distribution: &str| {
        let lines = format!("rw=randread\nrandom_distribution={distribution}");
        load(&format!("[a]\nfilename=/dev/a\n{lines}")).workload.skew
    };
    assert_eq!(skew("zipf:0.001"), Skew::Zipf { theta_per_mille: 1 });
    assert_eq!(skew("zipf:1.234"), Skew::Zipf { theta_per_mille: 1234 });
    assert_eq!(skew("zipf:10"), Skew::Zipf { theta_per_mille: 10_000 });
    assert_eq!(skew("pareto:0.001"), Skew::Pareto { h_per_mille: 1 });
    assert_eq!(skew("pareto:0.999"), Skew::Pareto { h_per_mille: 999 });
    for distribution in ["zipf:1.2345", "zipf:10.001", "pareto:0.0005", "pareto:0.1235"] {
        let lines = format!("rw=randread\nrandom_distribution={distribution}");
        is_refused(&lines, "random_distribution");
    }
}
