//! Clocks and windows, with both sides of each limit.

use super::*;

fn starts(started: &str, lines: &[&str]) -> StartTimes {
    let manifest = Manifest {
        schema: 2,
        run: "made".to_owned(),
        durio_version: "0.1.0".to_owned(),
        started: started.to_owned(),
        command: Vec::new(),
        label: None,
    };
    let mut starts = StartTimes::new(&manifest);
    for line in lines {
        starts.observe(&TimedEvent::read(line.as_bytes()).unwrap());
    }
    starts
}

fn step_started(step: u32, at_ns: u64) -> String {
    format!(
        r#"{{"at_ns":{at_ns},"event":"step_started","step":{step},"engine":"sync","jobs":1,"depth":1,"batch":1,"cache":"direct","region":"shared","clock":"tsc","features":[],"fallbacks":[]}}"#
    )
}

const GATED: &str = r#"{"at_ns":4000000000,"event":"step_gated","step":0,"armed_ns":10,"ordered_at_ns":50,"started_ns":100,"offset_ns":900,"bound_ns":7}"#;

#[test]
fn a_step_is_on_the_clock_of_its_order_or_of_an_earlier_one_and_on_the_wall_clock() {
    let (first, second) = (step_started(0, 1_000_000_000), step_started(1, 6_000_000_000));
    let found = starts("1970-01-01T00:00:02Z", &[&first, GATED, &second]);
    let wall = |nanos| Some(ClockTime::from(nanos));
    let expected =
        AlignedStart { ordered: Some((1000, 7)), wall: wall(3_000_000_000_u64), is_agreed: true };
    assert_eq!(found.start_of(0, 0), expected);
    let expected = AlignedStart {
        ordered: Some((5_000_001_000, 10_000_007)),
        wall: wall(8_000_000_000_u64),
        is_agreed: false,
    };
    assert_eq!(found.start_of(1, 0), expected);
    assert_eq!(found.start_of(2, 0), AlignedStart::default());
    assert_eq!(found.start_of(0, 1), AlignedStart::default());
    let found = starts("noon", &[&first]);
    assert_eq!(found.start_of(0, 0), AlignedStart::default());
}

#[test]
fn a_resumed_run_has_no_clock_until_another_order() {
    let resumed =
        r#"{"at_ns":7000000000,"event":"run_resumed","step":1,"repeated":[],"resumed":"now"}"#;
    let (first, second) = (step_started(0, 1_000_000_000), step_started(1, 9_000_000_000));
    let lines = [first.as_str(), GATED, resumed, second.as_str()];
    let found = starts("1970-01-01T00:00:02Z", &lines);
    assert_eq!(found.start_of(0, 0), AlignedStart::default());
    assert_eq!(found.start_of(1, 0), AlignedStart::default());
    let gated = GATED.replace(r#""step":0"#, r#""step":1"#);
    let lines = [first.as_str(), GATED, resumed, second.as_str(), gated.as_str()];
    let found = starts("1970-01-01T00:00:02Z", &lines);
    let expected = AlignedStart { ordered: Some((1000, 7)), wall: None, is_agreed: true };
    assert_eq!(found.start_of(1, 0), expected);
}

/// Four measured seconds of reads, after one of ramp.
pub(crate) fn span(start: AlignedStart, interval: Nanos) -> StepSpan {
    StepSpan {
        key: HostStep {
            workload: "randread".to_owned(),
            target: "data".to_owned(),
            operation: OperationName::Read,
            occurrence: 0,
        },
        step: 0,
        round: 0,
        stream: 0,
        is_complete: true,
        start,
        from: Nanos::from_secs(1),
        to: Nanos::from_secs(5),
        interval,
        rate: 1.0,
        p99_ns: None,
        storage: StorageIdentity::default(),
    }
}

#[test]
fn a_start_is_agreed_if_every_host_had_an_order_for_it() {
    let is_agreed = |hosts: [bool; 2]| {
        let spans = hosts.map(|is_agreed| {
            let start = AlignedStart { ordered: Some((0, 0)), wall: Some(0), is_agreed };
            span(start, Nanos::from_secs(1))
        });
        let window = |has_order| CommonWindow::new(&[&spans[0], &spans[1]], has_order);
        assert!(!window(false).unwrap().is_agreed);
        window(true).unwrap().is_agreed
    };
    assert!(is_agreed([true, true]));
    assert!(!is_agreed([true, false]));
}

#[test]
fn the_skew_that_is_allowed_is_10_ms_or_a_hundredth_of_the_shortest_interval() {
    let limit = |millis: &[u64]| {
        let spans: Vec<StepSpan> = millis
            .iter()
            .map(|&millis| span(AlignedStart::default(), Nanos::from_millis(millis)))
            .collect();
        skew_limit(&spans.iter().collect::<Vec<_>>())
    };
    assert_eq!(limit(&[1000, 1000]), Nanos::from_millis(10));
    assert_eq!(limit(&[10_000, 60_000]), Nanos::from_millis(10));
    assert_eq!(limit(&[1000, 100]), Nanos::from_millis(1));
    assert_eq!(limit(&[]), Nanos::from_millis(10));
}

#[test]
fn a_window_begins_with_the_last_start_after_the_ramp_and_has_whole_intervals_alone() {
    let second = Nanos::from_secs(1);
    let at = |start| AlignedStart { wall: Some(start), ..AlignedStart::default() };
    let (early, late) = (span(at(0), second), span(at(500_000_000), second));
    let window = CommonWindow::new(&[&early, &late], true).unwrap();
    let expected = (Nanos::from_millis(500), Nanos::from_millis(3500), false);
    assert_eq!((window.skew, window.length, window.is_ordered), expected);
    let offset = |span: &StepSpan, from, to| {
        window.offset_of(span, Nanos::from_millis(from), Nanos::from_millis(to))
    };
    assert_eq!(offset(&early, 1000, 2000), None);
    assert_eq!(offset(&early, 1500, 5000), Some(Nanos::ZERO));
    assert_eq!(offset(&early, 1500, 5001), None);
    assert_eq!(offset(&late, 1000, 2000), Some(Nanos::ZERO));
    assert_eq!(offset(&late, 3000, 4000), Some(Nanos::from_secs(2)));
    assert_eq!(offset(&late, 4000, 5000), None);
    let unknown = span(AlignedStart::default(), second);
    assert_eq!(CommonWindow::new(&[&early, &unknown], true), None);
    assert_eq!(CommonWindow::new(&[], true), None);
}
