//! The run folder: what is written is read back, old versions are read for ever, and no damage to
//! a file makes more than an error or an early end.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use durio_base::Nanos;
use durio_block::testkit::note_skip;
use durio_plan::Plan;
use durio_record::{
    Environment, Event, Exact, Manifest, OperationName, Outcome, Phase, RUN_FOLDER_SCHEMA,
    RecordError, RecordErrorKind, RecordWriter, RoundDecision, RunEnded, RunFolder,
    SparseHistogram, file_names,
};
use proptest::prelude::*;
use testkit::runs;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn read(folder: &Path) -> Result<Vec<Event>, RecordError> {
    RunFolder::open(folder)?.events()?.map(|timed| timed.map(|timed| timed.event)).collect()
}

fn read_counts(events: &[Event], phase: Phase) -> (u64, u64) {
    let mut exact = 0;
    let mut in_histograms = 0;
    for event in events {
        let Event::Interval(interval) = event else { continue };
        for record in interval.operations.iter().filter(|_| interval.phase == phase) {
            exact += record.service.exact.count;
            in_histograms += record.service.histogram().map_or(0, SparseHistogram::count);
        }
    }
    (exact, in_histograms)
}

/// Figures of a run of two jobs, depth 2, with latencies of 100, 120, 90 µs and 4 ms.
#[test]
fn the_golden_folder_of_version_1_reads_as_it_always_did() {
    let folder = RunFolder::open(&golden()).unwrap();
    assert_eq!(folder.manifest.schema, 1);
    assert_eq!(folder.plan.seed, 1);
    let events = read(&golden()).unwrap();
    let (ramp, measured) =
        (read_counts(&events, Phase::Ramp), read_counts(&events, Phase::Measure));
    assert_eq!(ramp.0 + measured.0, 3000);
    assert_eq!(measured, (1884, 1884));
    let ended = Event::RunEnded(RunEnded {
        outcome: Outcome::Complete,
        memory_max: match events.last() {
            Some(Event::RunEnded(ended)) => ended.memory_max,
            other => panic!("{other:?}"),
        },
    });
    assert_eq!(events.last(), Some(&ended));
}

fn manifest() -> Manifest {
    Manifest {
        label: None,
        schema: RUN_FOLDER_SCHEMA,
        run: "test".into(),
        durio_version: "0".into(),
        started: "1970-01-01T00:00:00Z".into(),
        command: vec!["durio".into()],
    }
}

fn plan_and_environment() -> (Plan, Environment) {
    let folder = RunFolder::open(&golden()).unwrap();
    (folder.plan, folder.environment)
}

fn interval(index: u64, latencies: &[u64]) -> Event {
    let counts: Vec<(u64, u64)> = latencies.iter().map(|&latency| (latency, 1)).collect();
    Event::Interval(runs::interval(index, vec![runs::operation(OperationName::Read, &counts)]))
}

fn write(folder: &Path, events: &[Event]) -> RecordWriter {
    let (plan, environment) = plan_and_environment();
    let mut writer = RecordWriter::create(folder, &manifest(), &plan, &environment).unwrap();
    for (index, event) in events.iter().enumerate() {
        writer.write(Nanos::from_secs(index as u64 + 1), event.clone()).unwrap();
    }
    writer
}

/// The latencies of events, without the tags that writing gives them.
fn latencies(events: &[Event]) -> Vec<(Exact, Option<SparseHistogram>)> {
    let records = events.iter().flat_map(|event| match event {
        Event::Interval(interval) => interval.operations.clone(),
        _ => Vec::new(),
    });
    records.map(|record| (record.service.exact, record.service.histogram().cloned())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_written_is_read_back(
        batches in prop::collection::vec(
            prop::collection::vec(0_u64..10_000_000_000_000, 0..50), 1..5),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let events: Vec<_> =
            (0..).zip(&batches).map(|(index, batch)| interval(index, batch)).collect();
        let folder = directory.path().join("run");
        write(&folder, &events);
        let read = read(&folder).unwrap();
        prop_assert_eq!(read.len(), events.len());
        prop_assert_eq!(latencies(&read), latencies(&events));
    }
}

/// A copy of a folder of three intervals, to be damaged.
fn sample() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("run");
    write(&folder, &[interval(0, &[100, 200]), interval(1, &[300]), interval(2, &[400, 500, 600])]);
    (directory, folder)
}

#[test]
fn every_torn_end_of_the_events_gives_the_whole_events_before_it_and_says_what_is_missing() {
    let (_directory, folder) = sample();
    let path = folder.join(file_names::EVENTS);
    let whole = fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let lines = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
        let opened = RunFolder::open(&folder).unwrap();
        let mut reader = opened.events().unwrap();
        let (mut read, mut errors) = (0, Vec::new());
        for event in reader.by_ref() {
            match event {
                Ok(_) => read += 1,
                Err(error) => errors.push(error.source.to_string()),
            }
        }
        let whole_bytes = usize::try_from(reader.whole_bytes()).unwrap();
        assert_eq!(read, lines, "{length} of {} bytes", whole.len());
        let missing = format!("the last {} of its {length} bytes", length - whole_bytes);
        assert_eq!(errors.len(), usize::from(whole_bytes < length), "{errors:?}");
        assert!(errors.iter().all(|error| error.contains(&missing)), "{missing}: {errors:?}");
        let line = format!("line {}: ", lines + 1);
        assert!(errors.iter().all(|error| error.starts_with(&line)), "{line}: {errors:?}");
        assert!(reader.is_torn_end(&opened.plan));
    }
}

#[test]
fn a_torn_histogram_log_is_an_error_at_the_event_that_needs_it() {
    let (_directory, folder) = sample();
    let path = folder.join(file_names::HISTOGRAMS);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let kind = read(&folder).unwrap_err().kind;
        assert_eq!(kind, RecordErrorKind::Malformed, "{length} of {} bytes", whole.len());
    }
}

#[test]
fn damage_before_what_was_synced_is_no_torn_end() {
    let (_directory, folder) = sample();
    let path = folder.join(file_names::EVENTS);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let is_torn = |rest: &[&str]| {
        let broken = [&lines[..1], &["{\"at_ns\":3,\"ev"], rest].concat().join("\n") + "\n";
        fs::write(&path, broken).unwrap();
        let opened = RunFolder::open(&folder).unwrap();
        let mut reader = opened.events().unwrap();
        assert!(reader.next().unwrap().is_ok());
        let error = reader.next().unwrap().unwrap_err();
        assert!(error.source.to_string().starts_with("line 2: "), "{}", error.source);
        assert!(reader.next().is_none());
        assert_eq!(reader.whole_bytes(), lines[0].len() as u64 + 1);
        reader.is_torn_end(&opened.plan)
    };
    let synced = r#"{"at_ns":9,"event":"run_ended","outcome":"complete","memory_max_bytes":1}"#;
    assert!(is_torn(&[]) && is_torn(&lines[1..]));
    assert!(!is_torn(&[synced]) && !is_torn(&["{\"at_ns", lines[1], synced, lines[2]]));
}

#[test]
fn as_root_nothing_is_written_into_a_folder_of_somebody_else() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return note_skip("run_folder", &"only root can give a folder to another user");
    }
    let (_directory, folder) = sample();
    let opened = RunFolder::open(&folder).unwrap();
    opened.check_owner().unwrap();
    std::os::unix::fs::chown(&folder, Some(12_345), None).unwrap();
    assert_eq!(opened.check_owner().unwrap_err().kind, RecordErrorKind::NotOurs);
    let resumed = RecordWriter::resume(&folder, 1, 0).unwrap_err();
    assert_eq!(resumed.kind, RecordErrorKind::NotOurs);
    assert!(fs::metadata(folder.join(file_names::EVENTS)).unwrap().len() > 0);
}

#[test]
fn a_histogram_of_other_counts_than_its_event_is_no_figure() {
    let (_directory, folder) = sample();
    let path = folder.join(file_names::EVENTS);
    let text = fs::read_to_string(&path).unwrap();
    let changed = text.replace("\"count\":3,", "\"count\":2,");
    assert_ne!(changed, text);
    fs::write(&path, changed).unwrap();
    let error = read(&folder).unwrap_err();
    assert!(error.source.to_string().contains("counts 2 where the entry"), "{}", error.source);
}

#[test]
fn damaged_bytes_never_panic() {
    let seed = 20_261_121_u64;
    println!("seed {seed}");
    let (_directory, folder) = sample();
    let mut state = seed;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let names = [
        file_names::EVENTS,
        file_names::HISTOGRAMS,
        file_names::MANIFEST,
        file_names::PLAN,
        file_names::ENVIRONMENT,
    ];
    for _ in 0..600 {
        let path = folder.join(names[next(names.len())]);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        for _ in 0..=next(4) {
            let position = next(damaged.len());
            damaged[position] = u8::try_from(next(256)).unwrap();
        }
        fs::write(&path, damaged).unwrap();
        // Either it reads, or it says why not.
        let _ = read(&folder);
        fs::write(&path, whole).unwrap();
    }
    assert_eq!(read(&folder).unwrap().len(), 3);
}

/// A ring of 32768 places over 45 minutes: its latencies sum to more than the two years that a
/// single time can have.
#[test]
fn sums_over_a_deep_queue_are_no_damage() {
    let (_directory, folder) = sample();
    let path = folder.join(file_names::EVENTS);
    let text = fs::read_to_string(&path).unwrap();
    let sum: u64 = 32_768 * 31 * 86_400 * 1_000_000;
    let large = text.replace("\"sum_ns\":300,", &format!("\"sum_ns\":{sum},"));
    assert_ne!(large, text);
    fs::write(&path, large).unwrap();
    assert_eq!(read(&folder).unwrap().len(), 3);
    let endless = text.replace("\"max_ns\":300,", &format!("\"max_ns\":{sum},"));
    assert_ne!(endless, text);
    fs::write(&path, endless).unwrap();
    assert_eq!(read(&folder).unwrap_err().kind, RecordErrorKind::Malformed);
}

#[test]
fn a_newer_schema_and_a_folder_that_is_none_are_told_apart() {
    let (directory, folder) = sample();
    let path = folder.join(file_names::MANIFEST);
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace(&format!("\"schema\": {RUN_FOLDER_SCHEMA}"), "\"schema\": 999");
    fs::write(&path, text).unwrap();
    assert_eq!(read(&folder).unwrap_err().kind, RecordErrorKind::NewerSchema);
    assert_eq!(read(directory.path()).unwrap_err().kind, RecordErrorKind::NotARunFolder);
}

#[test]
fn events_and_fields_of_a_newer_durio_are_passed_over() {
    let (_directory, folder) = sample();
    let path = folder.join(file_names::EVENTS);
    let mut text = fs::read_to_string(&path).unwrap();
    text = text.replace("\"phase\":\"measure\"", "\"phase\":\"measure\",\"later\":{\"a\":1}");
    text.push_str("{\"at_ns\":5,\"event\":\"aurora\",\"colour\":\"green\"}\n");
    fs::write(&path, text).unwrap();
    let events = read(&folder).unwrap();
    assert_eq!(events.len(), 4);
    assert_eq!(events[3], Event::Unknown);
}

#[test]
fn a_line_of_events_is_shorter_than_16_mib() {
    for (bytes, is_read) in [(16_777_215, true), (16_777_216, false)] {
        let (_directory, folder) = sample();
        let path = folder.join(file_names::EVENTS);
        let mut text = fs::read_to_string(&path).unwrap();
        let event = "{\"at_ns\":5,\"event\":\"aurora\"}";
        text.push_str(&format!("{event}{}\n", " ".repeat(bytes - event.len() - 1)));
        fs::write(&path, text).unwrap();
        match read(&folder) {
            Ok(events) => assert_eq!((events.len(), is_read), (4, true), "{bytes}"),
            Err(error) => {
                let reason = error.source.to_string();
                assert!(
                    !is_read && reason.contains("line 4: it is longer than 16 MiB"),
                    "{reason}"
                );
            }
        }
    }
}

#[test]
fn a_line_of_histograms_has_a_mebibyte_at_most() {
    for (bytes, is_read) in [(1_048_576, true), (1_048_577, false)] {
        let (_directory, folder) = sample();
        let path = folder.join(file_names::HISTOGRAMS);
        let entries = fs::read_to_string(&path).unwrap();
        // One of another tag, before those of the events.
        let other = format!("Tag=other,0.1,0.2,3.0,{}\n", "x".repeat(bytes - 23));
        assert_eq!(other.len(), bytes);
        fs::write(&path, other + &entries).unwrap();
        assert_eq!(read(&folder).is_ok(), is_read, "{bytes}");
    }
}

#[test]
fn a_run_folder_is_never_overwritten() {
    let (_directory, folder) = sample();
    let (plan, environment) = plan_and_environment();
    let before = fs::read(folder.join(file_names::EVENTS)).unwrap();
    assert!(RecordWriter::create(&folder, &manifest(), &plan, &environment).is_err());
    assert_eq!(fs::read(folder.join(file_names::EVENTS)).unwrap(), before);
}

#[test]
fn a_resumed_record_cuts_off_what_was_torn_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    drop(write(&folder, &[interval(0, &[1, 2, 3]), interval(1, &[4])]));
    // Killed after the histogram of interval 2 and within its event.
    let log = folder.join("histograms.hlog");
    let text = std::fs::read_to_string(&log).unwrap();
    let stale = text.lines().last().unwrap().replace("interval1", "interval2");
    std::fs::write(&log, format!("{text}{stale}\nTag=torn")).unwrap();
    let events = folder.join("events.jsonl");
    let text = std::fs::read_to_string(&events).unwrap();
    std::fs::write(&events, format!("{text}{{\"at_ns\":3,\"ev")).unwrap();
    let mut reader = RunFolder::open(&folder).unwrap().events().unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 2);
    let mut writer = RecordWriter::resume(&folder, 1, reader.whole_bytes()).unwrap();
    let again = interval(2, &[7, 8]);
    writer.write(Nanos::from_secs(9), again.clone()).unwrap();
    // Those of the first time have no part.
    let text = std::fs::read_to_string(&log).unwrap();
    let tags: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("Tag=")).collect();
    let tags = tags.into_iter().filter_map(|tag| tag.split(',').next()).collect::<Vec<_>>();
    let [tag, again_tag] = ["", ".part1"].map(|part| format!("step0.interval2.read.service{part}"));
    let before = [0, 1].map(|interval| format!("step0.interval{interval}.read.service"));
    assert_eq!(tags, [&before[0], &before[1], &tag, &again_tag]);
    let opened = RunFolder::open(&folder).unwrap();
    let read: Vec<Event> = opened.events().unwrap().map(|event| event.unwrap().event).collect();
    assert_eq!(latencies(&read), latencies(&[interval(0, &[1, 2, 3]), interval(1, &[4]), again]));
}

/// A search of eight trials for the highest rate, on the virtual clock.
#[test]
fn the_golden_folder_of_version_2_reads_as_it_always_did() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2");
    let folder = RunFolder::open(&path).unwrap();
    assert_eq!(folder.manifest.schema, 2);
    assert_eq!(folder.plan.campaign.as_ref().unwrap().sections.len(), 2);
    let events = read(&path).unwrap();
    let trials: Vec<(u32, RoundDecision)> = events
        .iter()
        .filter_map(|event| match event {
            Event::RoundEnded(ended) => Some((ended.round, ended.decision)),
            _ => None,
        })
        .collect();
    assert_eq!(trials.len(), 8);
    assert_eq!(trials[0], (0, RoundDecision::AgainAt { rate_per_second: 4_000.999_000_999_001 }));
    assert_eq!(trials[7], (7, RoundDecision::NotReached));
    let last = events.iter().rev().find_map(|event| match event {
        Event::Interval(interval) if interval.round == 7 => Some(interval),
        _ => None,
    });
    let record = &last.unwrap().operations[0];
    let response = record.response.as_ref().unwrap();
    assert_eq!(response.exact.count, record.service.exact.count);
    assert_eq!(response.exact.max_ns, 1_266_136);
    assert!(response.histogram().is_some());
}

#[test]
fn what_stands_in_the_place_of_a_records_file_is_not_written_through() {
    let (directory, folder) = sample();
    let victim = directory.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let writer = RecordWriter::resume(&folder, 1, 0).unwrap();
    for name in ["report.html", ".report.html.new"] {
        std::os::unix::fs::symlink(&victim, folder.join(name)).unwrap();
    }
    writer.save("report.html", b"new").unwrap();
    assert_eq!(fs::read(folder.join("report.html")).unwrap(), b"new");
    for name in [file_names::EVENTS, file_names::HISTOGRAMS] {
        let path = folder.join(name);
        let kept = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(RecordWriter::resume(&folder, 1, 0).is_err(), "{name}: a symbolic link");
        fs::remove_file(&path).unwrap();
        fs::hard_link(&victim, &path).unwrap();
        assert!(RecordWriter::resume(&folder, 1, 0).is_err(), "{name}: a hard link");
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn a_file_of_another_kind_or_without_end_is_an_error_at_once() {
    let (_directory, folder) = sample();
    let error = || RunFolder::open(&folder).and_then(|run| run.events().map(drop)).unwrap_err();
    let names = [
        file_names::MANIFEST,
        file_names::PLAN,
        file_names::ENVIRONMENT,
        file_names::EVENTS,
        file_names::HISTOGRAMS,
    ];
    for name in names {
        let (path, kept) = (folder.join(name), folder.join("kept"));
        fs::rename(&path, &kept).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(error().kind, RecordErrorKind::Malformed, "{name}: a FIFO");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(error().kind, RecordErrorKind::Malformed, "{name}: a device, by a link");
        fs::remove_file(&path).unwrap();
        fs::rename(&kept, &path).unwrap();
    }
    for name in &names[..3] {
        let path = folder.join(name);
        let kept = fs::read(&path).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(5 << 30).unwrap();
        assert!(error().source.to_string().contains("larger than 64 MiB"), "{name}");
        fs::write(&path, kept).unwrap();
    }
    assert!(RunFolder::open(&folder).is_ok());
}
