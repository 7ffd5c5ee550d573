//! Each figure of a comparison and of a bench of stacks is in its row and below its title, in every format.

use durio_analyse::Findings;
use durio_analyse::attribution::{DeviceCost, IntervalBasis, RateInterval, StackFindings};
use durio_analyse::campaign::{OfferedLoad, RowBasis, RowLatency};
use durio_analyse::ladder::LadderPhase;
use durio_judge::compare::{FigureName, SideWord};

use durio_base::Nanos;

use crate::campaign::CAMPAIGN;
use crate::campaign_sample::level;
use crate::cells::{assert_csv, assert_table};
use crate::compare::{comparison, figure, step};
use crate::stack_sample::Runs;

#[test]
fn a_comparison_has_each_side_below_its_title_with_the_unit_of_its_figure() {
    let mut compared = step("commit");
    compared.figures = vec![
        figure(FigureName::Rate, [7_120.0, 6_480.0], SideWord::Slower),
        figure(FigureName::Bandwidth, [3_145_728.0, 5_242_880.0], SideWord::Faster),
        figure(FigureName::Mean, [150_000.0, 165_000.0], SideWord::NoDifference),
        figure(FigureName::P50, [140_000.0, 120_000.0], SideWord::Faster),
        figure(FigureName::P99, [412_000.0, 415_000.0], SideWord::Undecided),
        figure(FigureName::P99_9, [900_000.0, 1_800_000.0], SideWord::Slower),
        figure(FigureName::CpuPerOperation, [4000.0, 3000.0], SideWord::Faster),
    ];
    let mut found = comparison(vec![compared]);
    for (at, figure) in found.pairs[0].steps[0].figures.iter_mut().enumerate() {
        let at = at as f64;
        figure.interval = Some([-0.01 * (at + 1.0), 0.02 * (at + 1.0)]);
        figure.visible = Some(0.001 * (at + 1.0));
    }
    let expected = [
        ["", "A", "B", "effect", "95 % interval", "B is"],
        ["rate", "7.12 k/s", "6.48 k/s", "-9.0 %", "-1.0 % to +2.0 %", "slower"],
        ["bandwidth", "3 MiB/s", "5 MiB/s", "+66.7 %", "-2.0 % to +4.0 %", "faster"],
        ["commit mean", "150 µs", "165 µs", "+10.0 %", "-3.0 % to +6.0 %", "no difference"],
        ["commit p50", "140 µs", "120 µs", "-14.3 %", "-4.0 % to +8.0 %", "faster"],
        ["commit p99", "412 µs", "415 µs", "+0.7 %", "-5.0 % to +10.0 %", "undecided"],
        ["commit p99.9", "900 µs", "1.8 ms", "+100.0 %", "-6.0 % to +12.0 %", "slower"],
        ["CPU per operation", "4 µs", "3 µs", "-25.0 %", "-7.0 % to +14.0 %", "cheaper"],
    ];
    assert_table(&found, &expected);
    let expected = [
        ["workload", "operation", "figure", "baseline", "other", "visible", "word"],
        ["commit", "commit", "rate", "7120", "6480", "0.001", "slower"],
        ["commit", "commit", "bandwidth", "3145728", "5242880", "0.002", "faster"],
        ["commit", "commit", "mean", "150000", "165000", "0.003", "no_difference"],
        ["commit", "commit", "p50", "140000", "120000", "0.004", "faster"],
        ["commit", "commit", "p99", "412000", "415000", "0.005", "undecided"],
        ["commit", "commit", "p99.9", "900000", "1800000", "0.006", "slower"],
        ["commit", "commit", "CPU per operation", "4000", "3000", "0.007", "faster"],
    ];
    assert_csv(&found, &expected);
}

/// Row *n* has *n*.5 k operations per second and latencies of 100 + *n* µs and more.
fn unique_stack() -> StackFindings {
    let mut found = Runs::new().findings(None);
    for (row, number) in found.workloads[0].rows.iter_mut().zip(1_u32..) {
        let Some(figures) = &mut row.figures else { continue };
        let n = f64::from(number);
        let micros = |hundreds: f64| (100.0 * hundreds + n) * 1000.0;
        figures.rate_per_second = 1000.0 * n + 500.0;
        figures.rate_interval = Some(RateInterval {
            low_per_second: figures.rate_per_second * (1.0 - 0.01 * n),
            high_per_second: figures.rate_per_second * 1.005,
            basis: IntervalBasis::Batches,
        });
        (figures.share_of_raw, figures.share_of_below) = (Some(0.1 * n), Some(0.5 + 0.01 * n));
        if let Some(service) = &mut figures.service {
            service.p50_ns = Some(u64::from(100 + number) * 1000);
        }
        if let Some(against) = &mut figures.against_below {
            (against.latency_ns_p50, against.latency_ns_p99) =
                (Some(micros(2.0)), Some(micros(3.0)));
            against.cpu_ns_per_operation = Some(micros(4.0));
            against.context_switches_per_operation = Some(n + 0.25);
        }
        figures.time_per_operation_ns = micros(5.0);
        figures.cpu_ns_per_operation = Some(micros(6.0));
        figures.context_switches_per_operation = Some(n + 0.5);
        figures.devices = Some(DeviceCost::Counted {
            writes_per_write: n + 0.1,
            bytes_per_byte: n + 0.2,
            flushes_per_sync_call: Some(n + 0.3),
        });
    }
    found
}

#[test]
fn a_layer_has_its_own_rates_and_what_it_adds() {
    let expected = [
        ["layer", "per s", "±", "of raw", "of below", "p50", "+ p50", "+ p99"],
        ["raw [mirror]", "1.5 k", "±1.0 %", "10.0 %", "51.0 %", "101 µs", "-", "-"],
        ["RAID1", "2.5 k", "±2.0 %", "20.0 %", "52.0 %", "102 µs", "+202 µs", "+302 µs"],
        ["ext4 on RAID1", "3.5 k", "±3.0 %", "30.0 %", "53.0 %", "103 µs", "+203 µs", "+303 µs"],
        ["raw [degraded]", "4.5 k", "±4.0 %", "40.0 %", "54.0 %", "104 µs", "-", "-"],
        ["RAID1 less one", "5.5 k", "±5.0 %", "50.0 %", "55.0 %", "105 µs", "+205 µs", "+305 µs"],
        ["raw [broken]", "6.5 k", "±6.0 %", "60.0 %", "56.0 %", "106 µs", "-", "-"],
        ["xfs", "-", "-", "-", "-", "-", "-", "-"],
    ];
    assert_table(&unique_stack(), &expected);
}

#[test]
fn a_layer_has_its_own_costs() {
    let expected = [
        [
            "layer",
            "time/op",
            "CPU/op",
            "+ CPU",
            "switches",
            "+ sw.",
            "dev. writes",
            "dev. bytes",
            "flushes",
        ],
        ["raw [mirror]", "501 µs", "601 µs", "-", "1.5", "-", "1.1", "1.2", "1.3"],
        ["RAID1", "502 µs", "602 µs", "+402 µs", "2.5", "+2.25", "2.1", "2.2", "2.3"],
        ["ext4 on RAID1", "503 µs", "603 µs", "+403 µs", "3.5", "+3.25", "3.1", "3.2", "3.3"],
        ["raw [degraded]", "504 µs", "604 µs", "-", "4.5", "-", "4.1", "4.2", "4.3"],
        ["RAID1 less one", "505 µs", "605 µs", "+405 µs", "5.5", "+5.25", "5.1", "5.2", "5.3"],
        ["raw [broken]", "506 µs", "606 µs", "-", "6.5", "-", "6.1", "6.2", "6.3"],
        ["xfs", "-", "-", "-", "-", "-", "-", "-", "-"],
    ];
    assert_table(&unique_stack(), &expected);
}

/// Three rows of an open loop; row *n* has *n*.5 k operations per second and latencies of 100 + *n* µs
/// and more.
fn unique_campaign() -> Findings {
    let mut findings = CAMPAIGN.clone();
    let sections = &mut findings.campaign.as_mut().unwrap().sections;
    sections.retain(|section| section.name == "depths");
    let rows = &mut sections[0].rows;
    rows.truncate(3);
    for ((row, number), phase) in rows.iter_mut().zip(1_u32..).zip([
        LadderPhase::Linear,
        LadderPhase::Onset,
        LadderPhase::Saturated,
    ]) {
        let n = f64::from(number);
        let nanos = |hundreds: u64| (100 * hundreds + u64::from(number)) * 1000;
        let latency = |from: u64| RowLatency {
            mean_ns: (100.0 * from as f64 + n) * 1000.0,
            p50_ns: Some(nanos(from + 1)),
            p99_ns: Some(nanos(from + 2)),
            p99_9_ns: Some(nanos(from + 3)),
        };
        row.name = "w".into();
        row.levels = vec![level("depth", n, &number.to_string())];
        (row.rate, row.bandwidth) = (1000.0 * n + 500.0, 1_048_576.0 * n);
        (row.service, row.response) = (Some(latency(1)), Some(latency(5)));
        row.open_loop = Some(OfferedLoad {
            offered_per_second: 20_000.0 * n,
            achieved_per_second: 19_000.0 * n,
            keeps_up: number != 3,
        });
        row.basis = RowBasis::Repeats {
            count: 3,
            rate_min_per_second: 100.0 * n,
            rate_max_per_second: 7000.0 * n,
        };
        row.idle_before = Some(Nanos::from_millis(30 + u64::from(number)));
        (row.phase, row.limit) = (Some(phase), None);
        row.parts.clear();
        (row.device_bytes_per_byte_read, row.device_bytes_per_byte_written) = (None, None);
    }
    findings
}

#[test]
fn a_row_of_a_campaign_has_what_was_offered_done_and_waited_for() {
    let expected = [
        [
            "level",
            "offered",
            "IOPS",
            "range",
            "bandwidth",
            "mean",
            "p50",
            "p99",
            "p99.9",
            "resp. mean",
            "resp. p99",
            "resp. p99.9",
            "idle before",
            "phase",
        ],
        [
            "depth 1",
            "20 k",
            "1.5 k",
            "100–7 k",
            "1 MiB/s",
            "101 µs",
            "201 µs",
            "301 µs",
            "401 µs",
            "501 µs",
            "701 µs",
            "801 µs",
            "31 ms",
            "linear",
        ],
        [
            "depth 2",
            "40 k",
            "2.5 k",
            "200–14 k",
            "2 MiB/s",
            "102 µs",
            "202 µs",
            "302 µs",
            "402 µs",
            "502 µs",
            "702 µs",
            "802 µs",
            "32 ms",
            "onset",
        ],
        [
            "depth 3",
            "60 k not reached",
            "3.5 k",
            "300–21 k",
            "3 MiB/s",
            "103 µs",
            "203 µs",
            "303 µs",
            "403 µs",
            "503 µs",
            "703 µs",
            "803 µs",
            "33 ms",
            "saturated",
        ],
    ];
    assert_table(&unique_campaign(), &expected);
}
