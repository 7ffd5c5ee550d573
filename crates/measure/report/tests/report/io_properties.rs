//! A run as Seastar's io_properties.yaml.

use durio_analyse::{Findings, WorkloadFindings};
use durio_base::Bytes;
use durio_report::io_properties;
use durio_workload::{CacheMode, Pattern, PerMille, SyncMethod, SyncPolicy};

use crate::sample;

/// A run of `places` that measured the four results, each with numbers of its own.
fn measured(places: &[&str]) -> Findings {
    let mut findings = match places.len() {
        1 => sample::complete(),
        _ => sample::two_locations(),
    };
    let root = findings.stack[0].root.clone();
    findings.stack.iter_mut().for_each(|stack| stack.root = root.clone());
    let base = findings.workloads[2].clone();
    let kinds = [
        (Pattern::Sequential, PerMille::NONE, Bytes::from_mib(1)),
        (Pattern::Sequential, PerMille::ALL, Bytes::from_mib(1)),
        (Pattern::Random, PerMille::NONE, Bytes::from_kib(4)),
        (Pattern::Random, PerMille::ALL, Bytes::from_kib(4)),
    ];
    let kinds = places.iter().flat_map(|place| kinds.map(|kind| (place, kind)));
    let workloads = (0_u32..).zip(kinds).map(|(step, (place, (pattern, reads, size)))| {
        let mut workload = WorkloadFindings { step, ..base.clone() };
        workload.location = (*place).to_owned();
        workload.effective.cache = CacheMode::Direct;
        workload.definition.sync = SyncPolicy::each(SyncMethod::None);
        workload.definition.pattern = pattern;
        workload.definition.read_share = reads;
        workload.definition.block_size = size;
        workload.iops = 1000.4 + f64::from(step);
        workload.bandwidth = 500_000_000.6 + f64::from(step);
        workload
    });
    findings.workloads = workloads.collect();
    findings.provisional = None;
    findings
}

const RUN: &str = "# 2026-11-21T100900-000Z-check-4711, durio 0.1.0\n";

const FIRST: &str = "  - mountpoint: \"/srv\"\n    read_iops: 1003\n    read_bandwidth: 500000002\n    \
                     write_iops: 1002\n    write_bandwidth: 500000001\n";

#[test]
fn the_four_results_are_an_entry_for_each_place_in_operations_and_bytes_per_second() {
    let findings = measured(&["/srv/db"]);
    assert!(RUN.contains(&findings.run.run), "{}", findings.run.run);
    assert_eq!(io_properties(&findings).unwrap(), format!("{RUN}disks:\n{FIRST}"));
    let two = io_properties(&measured(&["/srv/db", "/dev/vdb"])).unwrap();
    let second = FIRST.replace("1003", "1007").replace("500000002", "500000006");
    let second = second.replace("1002", "1006").replace("500000001", "500000005");
    assert_eq!(two, format!("{RUN}disks:\n{FIRST}{second}"));
    let short = Findings { provisional: Some("short\nrun".to_owned()), ..findings };
    let text = io_properties(&short).unwrap();
    assert_eq!(text, format!("{RUN}# PROVISIONAL: short\\nrun\ndisks:\n{FIRST}"));
}

#[test]
fn a_mount_point_is_quoted_with_what_yaml_or_a_terminal_would_interpret() {
    let mut findings = measured(&["/srv/db"]);
    let filesystem = &mut findings.stack[0].root.below[0].filesystem;
    filesystem.as_mut().unwrap().mount_point = "/a \"b\": \x1b[31m#\n- c".to_owned();
    let text = io_properties(&findings).unwrap();
    assert!(
        text.contains("  - mountpoint: \"/a \\\"b\\\": \\u001b[31m#\\n- c\"\n    read"),
        "{text}"
    );
}

#[test]
fn the_highest_of_several_levels_is_taken() {
    let mut findings = measured(&["/srv/db"]);
    let mut more = findings.workloads[3].clone();
    (more.step, more.iops) = (9, 90_000.0);
    findings.workloads.insert(0, more);
    assert!(io_properties(&findings).unwrap().contains("    read_iops: 90000\n"));
}

#[test]
fn what_was_not_measured_as_seastar_means_it_is_named() {
    type Change = fn(&mut WorkloadFindings);
    let changes: [Change; 8] = [
        |workload| workload.complete = false,
        |workload| workload.effective.cache = CacheMode::Buffered,
        |workload| workload.definition.block_size = Bytes::new(4097),
        |workload| workload.definition.read_share = PerMille(999),
        |workload| workload.definition.pattern = Pattern::Sequential,
        |workload| workload.location = "/elsewhere".to_owned(),
        |workload| workload.definition.run_length = 2,
        // Another load of the step before.
        |workload| workload.step = 2,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut findings = measured(&["/srv/db"]);
        change(&mut findings.workloads[3]);
        let missing = io_properties(&findings).unwrap_err();
        let reads = "random reads of at most 4 KiB at /srv/db";
        assert_eq!(missing[0], reads, "{at}");
        assert_eq!(missing.len(), if at == 7 { 2 } else { 1 }, "{at}: {missing:?}");
    }
    let mut durable = measured(&["/srv/db"]);
    durable.workloads[0].definition.sync = SyncPolicy::each(SyncMethod::Fdatasync);
    let missing = io_properties(&durable).unwrap_err();
    assert_eq!(missing, ["sequential writes of at least 1 MiB at /srv/db"]);
    let mut smaller = measured(&["/srv/db"]);
    smaller.workloads[1].definition.block_size = Bytes::new((1 << 20) - 1);
    let missing = io_properties(&smaller).unwrap_err();
    assert_eq!(missing, ["sequential reads of at least 1 MiB at /srv/db"]);
    let mut device = measured(&["/srv/db"]);
    device.stack[0].root.below[0].filesystem = None;
    assert_eq!(io_properties(&device).unwrap_err(), ["a filesystem on storage at /srv/db"]);
    // A check measures other sizes.
    assert_eq!(io_properties(&sample::complete()).unwrap_err().len(), 4);
    assert_eq!(io_properties(&sample::empty()).unwrap_err(), ["any storage"]);
}
