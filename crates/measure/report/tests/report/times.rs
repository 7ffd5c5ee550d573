//! Where the time of an operation goes, in the terminal and in the page.

use durio_analyse::{
    ComponentTime, DevicePerOperation, DeviceTime, Findings, LatencyBreakdown, LatencyComponent,
    TimeShares,
};
use durio_report::{Format, Options};

use crate::{durable_sample, sample, written, written_with};

fn components() -> LatencyBreakdown {
    let component = |(place, component): (u64, LatencyComponent)| ComponentTime {
        component,
        mean_ns: 1000.0 * (place + 1) as f64,
        p50_ns: 900 * (place + 1),
        p99_ns: (place > 0).then_some(9000 * (place + 1)),
        off_cpu_mean_ns: 0.0,
        off_cpu_p50_ns: 0,
        share: 0.1 * place as f64,
    };
    let device = |name: &str, lowest| DevicePerOperation {
        device: name.into(),
        lowest,
        reads: 0.0,
        read_bytes: 0.0,
        writes: 1.5,
        written_bytes: 6144.0,
        flushes: 1.0,
        fua: 0.0,
    };
    LatencyBreakdown {
        step: 9,
        operations: 300,
        lost_events: 0,
        clock: "x86-tsc".into(),
        resolution_ns: 1,
        mean_ns: 21_000.0,
        traced_p50_ns: Some(120_000),
        untraced_p50_ns: Some(100_000),
        overhead_share: Some(0.2),
        components: (0..).zip(LatencyComponent::ALL).map(component).collect(),
        off_cpu_share: 0.61,
        waits_per_operation: 1.02,
        preemptions_per_operation: 0.01,
        devices: vec![device("md0", false), device("ram1", true)],
        unavailable: None,
    }
}

fn with(breakdown: &LatencyBreakdown) -> Findings {
    let mut findings = sample::complete();
    for workload in &mut findings.workloads {
        workload.latency_breakdown = Some(breakdown.clone());
    }
    findings
}

#[test]
fn the_slices_of_a_step_are_told_once_with_what_tracing_cost() {
    let findings = with(&components());
    let text = written(Format::Text, &findings);
    for part in [
        "Where the time of an operation goes",
        "entry to first queue",
        "issue to complete",
        "300 operations followed; 61.0 % of their time on no processor",
        "p50 120 µs while traced, 100 µs without",
        "ram1",
    ] {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
        let page = written(Format::Html, &findings);
        assert!(page.contains(part), "no '{part}' in the page");
    }
    assert_eq!(text.matches("issue to complete").count(), 1, "{text}");
    assert!(!text.contains("the kernel lost") && !text.contains("trust the means"), "{text}");
}

#[test]
fn times_in_microseconds_and_lost_events_are_said() {
    let coarse = LatencyBreakdown { resolution_ns: 1000, lost_events: 7, ..components() };
    let text = written(Format::Text, &with(&coarse));
    assert!(
        text.contains("trust the means") && text.contains("the kernel lost 7 events"),
        "{text}"
    );
}

#[test]
fn what_is_lost_without_tracing_is_said() {
    let unavailable = Some("tracefs is not mounted".to_owned());
    let nothing = LatencyBreakdown { components: Vec::new(), unavailable, ..components() };
    let text = written(Format::Text, &with(&nothing));
    assert!(text.contains("nothing was traced: tracefs is not mounted"), "{text}");
    assert!(!text.contains("entry to first queue"), "{text}");
}

#[test]
fn without_a_trace_nothing_is_said() {
    let text = written(Format::Text, &sample::complete());
    assert!(!text.contains("Where the time of an operation goes"), "{text}");
}

#[test]
fn a_device_that_counts_nothing_is_said_to_have_counted_nothing() {
    let mut findings = sample::complete();
    for workload in &mut findings.workloads {
        workload.devices.iter_mut().for_each(|device| device.not_counted = true);
    }
    let page = written(Format::Html, &findings);
    assert!(page.contains("not counted: this device keeps no counters"));
    assert!(!page.contains("(all I/O)"));
}

#[test]
fn context_switches_stand_beside_the_cost() {
    let findings = sample::complete();
    let line = "1.02 voluntary and 0 involuntary context switches per operation";
    let text = written(Format::Text, &findings);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(line), "{text}");
    assert!(written(Format::Html, &findings).contains(line));
}

/// A mean of so many µs more than its step has, in three parts.
pub(crate) fn device_time(micros: u32) -> Option<DeviceTime> {
    let mean_ns = f64::from(micros) * 1000.0;
    let shares = TimeShares { mean_ns, device: 0.41, cpu_wait: 0.22, kernel: 0.37 };
    Some(DeviceTime {
        device: "vda".to_owned(),
        requests_per_access: 2.0,
        request_ns_mean: mean_ns * 0.205,
        outside_ns_mean: mean_ns * 0.59,
        outside_share: 0.59,
        shares: Some(shares),
    })
}

const PARTS: &str = "device 41 %, waiting for a CPU 22 %, filesystem and kernel 37 %";

#[test]
fn a_screen_says_where_the_time_of_a_commit_goes_and_the_page_shows_it_as_bars() {
    let mut findings = sample::complete();
    for workload in &mut findings.workloads {
        workload.device_time = device_time(139 + workload.step);
    }
    let options = Options { width: 400, ..Options::default() };
    let screen = written_with(Format::Text, &findings, &options);
    let lines: Vec<&str> = screen.lines().filter(|line| line.contains(PARTS)).collect();
    let [line] = &lines[..] else { panic!("{screen}") };
    assert!(line.starts_with("time") && line.contains("of a commit's 139 µs: device"), "{line}");
    let all = Options { verbose: true, ..options };
    let all = written_with(Format::Text, &findings, &all);
    assert!(all.contains("of a read's") && all.contains("of an operation's"), "{all}");
    let title = "Where the time of an operation goes, by the counters of the kernel";
    assert!(written(Format::Html, &findings).contains(title));
    for workload in &mut findings.workloads {
        workload.device_time.as_mut().unwrap().shares = None;
    }
    let unknown = written(Format::Html, &findings);
    assert!(!unknown.contains(PARTS) && !unknown.contains("Where the time of an operation goes"));
}

#[test]
fn a_study_of_durable_writes_says_it_of_its_fastest_method() {
    let mut findings = durable_sample::durable();
    for workload in &mut findings.workloads {
        workload.device_time = device_time(workload.step + 1);
    }
    let options = Options { width: 400, ..Options::default() };
    let screen = written_with(Format::Text, &findings, &options);
    // The second step.
    assert!(screen.contains(&format!("  2 µs by o_dsync: {PARTS}\n")), "{screen}");
}

#[test]
fn a_part_of_the_time_that_rounds_to_nothing_is_left_out() {
    let line = |cpu_wait: f64, kernel: f64| {
        let mut findings = sample::complete();
        for workload in &mut findings.workloads {
            workload.device_time = device_time(139);
            let time = workload.device_time.as_mut().unwrap();
            time.shares = Some(TimeShares { cpu_wait, kernel, ..time.shares.unwrap() });
        }
        let screen = written_with(Format::Text, &findings, &Options::default());
        let line = screen.lines().find(|line| line.starts_with("time ")).unwrap();
        line.split_once("139 µs: ").unwrap().1.to_owned()
    };
    let kernel = "filesystem and kernel 59 %";
    assert_eq!(line(0.004, 0.586), format!("device 41 %, {kernel}"));
    assert_eq!(line(0.006, 0.586), format!("device 41 %, waiting for a CPU 1 %, {kernel}"));
    assert_eq!(line(0.0, 0.0), "device 41 %");
}
