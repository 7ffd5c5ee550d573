//! Commits that the kernel traces, and sync calls that are compared, on the build folder's disk.
//!
//! Tracing needs root and a mounted tracefs. A test that finds none runs itself again where it may
//! mount one: in a mount namespace of its own, of which the system sees nothing.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use durio_base::{Bytes, Nanos};
use durio_block::testkit::note_skip;
use durio_observe::{find_tracefs, leaf_devices, read_device_counters, read_stack};
use durio_plan::{
    ClockChoice, EngineKind, FileLayout, Limit, Load, PLAN_SCHEMA, Plan, Purpose, RawPath, Role,
    Step, Target, TargetKind,
};
use durio_record::{CommitsTraced, Event, Journal, Outcome, PathTraced, ProbedCalls, SyncCaller};
use durio_run::{EventSink, RunContext, RunError, StopFlag, run};
use durio_workload::{CacheMode, PerMille, SyncMethod, SyncPolicy, Workload};

#[derive(Default)]
struct Sink {
    events: Vec<Event>,
    /// Set when a step begins.
    stop: Option<StopFlag>,
}

impl EventSink for Sink {
    fn event(&mut self, _: Nanos, event: Event) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let (Event::StepStarted(_), Some(stop)) = (&event, &self.stop) {
            stop.set();
        }
        self.events.push(event);
        Ok(())
    }
}

fn folder() -> tempfile::TempDir {
    // Not in /tmp: that may be a tmpfs.
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn commits(method: SyncMethod) -> Workload {
    Workload {
        name: "commits".into(),
        read_share: PerMille::NONE,
        sync: SyncPolicy::each(method),
        cache: CacheMode::Buffered,
        ..Workload::default()
    }
}

fn step(role: Role, workload: Workload, engine: EngineKind) -> Step {
    Step::new(role, Load::new(0, workload, engine), Limit::Operations(20), Nanos::from_millis(100))
}

/// A zero-filled file of 1 MiB.
fn plan(kind: TargetKind, step: Step) -> Plan {
    let size = Bytes::from_mib(1);
    let target = Target { name: "data".into(), location: None, kind, size, destroy: true };
    Plan {
        schema: PLAN_SCHEMA,
        purpose: Purpose::Durable,
        seed: 1,
        clock: ClockChoice::Monotonic,
        targets: vec![target],
        steps: vec![step],
        campaign: None,
        thresholds: Vec::new(),
    }
}

fn new_file(folder: &Path) -> TargetKind {
    TargetKind::NewFile {
        directory: RawPath::from(folder),
        file_name: RawPath::from(".durio-test"),
        named: false,
        layout: FileLayout::ZeroFilled,
    }
}

fn devices_below(path: &Path) -> Vec<String> {
    leaf_devices(&read_stack(path).unwrap())
}

fn run_plan(
    plan: &Plan,
    folder: &Path,
    devices: Vec<String>,
    stops: bool,
) -> (Result<Outcome, RunError>, Vec<Event>) {
    let _ = fs::remove_file(folder.join("journal.jsonl"));
    let mut journal = Journal::begin(folder, None).unwrap();
    let stop = StopFlag::default();
    let context =
        RunContext { devices: vec![devices], ..RunContext::new(&mut journal, stop.clone()) };
    let mut sink = Sink { events: Vec::new(), stop: stops.then_some(stop) };
    let result = run(plan, context, &mut sink);
    (result, sink.events)
}

/// Tests that count what reaches the disk do not run side by side; this process's own, at least.
static DISK: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    DISK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The event of a step that ran to its end.
fn trace(workload: Workload, engine: EngineKind) -> CommitsTraced {
    let folder = folder();
    let plan = plan(new_file(folder.path()), step(Role::Trace, workload, engine));
    let (result, events) = run_plan(&plan, folder.path(), devices_below(folder.path()), false);
    assert_eq!(result.unwrap(), Outcome::Complete);
    traced(&events).unwrap()
}

fn traced(events: &[Event]) -> Option<CommitsTraced> {
    events.iter().find_map(|event| match event {
        Event::CommitsTraced(traced) => Some(traced.clone()),
        _ => None,
    })
}

fn probed(events: &[Event]) -> Option<Vec<ProbedCalls>> {
    events.iter().find_map(|event| match event {
        Event::SyncCallsProbed(probed) => Some(probed.calls.clone()),
        _ => None,
    })
}

/// True if others write to the disk now, more than now and then.
fn is_written_to() -> bool {
    let devices = devices_below(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let writes_of = |device: &String| Some(read_device_counters(device).ok()?.writes_completed);
    let writes = || devices.iter().filter_map(writes_of).sum::<u64>();
    let before = writes();
    std::thread::sleep(std::time::Duration::from_millis(50));
    writes() > before + 5
}

/// A trace in which several commits are alike: the disk is others' too, and what they send is in it.
/// None, and a skip, if they are never quiet enough.
fn quiet_trace(test: &str, workload: &Workload, engine: EngineKind) -> Option<CommitsTraced> {
    for _ in 0..5 {
        // Of somebody who syncs all the time, several would be alike too.
        if is_written_to() {
            continue;
        }
        let traced = trace(workload.clone(), engine);
        assert_eq!((traced.commits, &traced.unavailable), (20, &None));
        if traced.lost > 0 {
            // So much happened elsewhere that the kernel's buffer was too small.
            continue;
        }
        let is_durable = workload.sync.method != SyncMethod::None;
        for sequence in &traced.sequences {
            let flushes = sequence.requests.iter().filter(|request| request.flags == "FF").count();
            assert!(flushes >= usize::from(is_durable), "whatever others do: {sequence:?}");
        }
        if traced.sequences[0].commits >= 4 {
            return Some(traced);
        }
    }
    note_skip(test, &"others keep the disk busy");
    None
}

/// True if the test can go on, with a tracefs; else it has been run again where there is one, or is
/// skipped.
fn has_tracefs(test: &str) -> bool {
    if find_tracefs(Path::new("/")).is_some() && rustix::process::geteuid().is_root() {
        return true;
    }
    if std::env::var_os("DURIO_TEST_UNSHARED").is_some() {
        return false;
    }
    let again = "mount -t tracefs tracefs /sys/kernel/tracing || exit 77; exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", again, "sh"]).arg(std::env::current_exe().unwrap());
    let full_name = format!("traces::{test}");
    unshare.args(["--exact", &full_name, "--nocapture"]).env("DURIO_TEST_UNSHARED", "1");
    match unshare.output() {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{full_name}");
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stderr))
        }
        Ok(output) => {
            note_skip(test, &String::from_utf8_lossy(&output.stderr).replace('\n', " "));
        }
        Err(error) => note_skip(test, &error),
    }
    false
}

/// The single device below the build folder, if a flush is sent to it.
fn flushed_device(test: &str) -> Option<String> {
    let [device] = &devices_below(Path::new(env!("CARGO_TARGET_TMPDIR")))[..] else {
        note_skip(test, &"the build folder is not on one disk");
        return None;
    };
    let cache = fs::read_to_string(format!("/sys/class/block/{device}/queue/write_cache"));
    if cache.is_ok_and(|cache| cache.trim() == "write back") {
        return Some(device.clone());
    }
    note_skip(test, &"the disk has no cache that the kernel would flush");
    None
}

/// Instances of this process that are left.
fn instances_left() -> Vec<PathBuf> {
    let instances = find_tracefs(Path::new("/")).unwrap().join("instances");
    let own = format!("durio-{}-", std::process::id());
    let entries = fs::read_dir(instances).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&own)).collect()
}

#[test]
fn a_commit_is_a_write_and_then_a_flush_and_no_instance_is_left() {
    const NAME: &str = "a_commit_is_a_write_and_then_a_flush_and_no_instance_is_left";
    let Some(device) = flushed_device(NAME) else { return };
    let _alone = alone();
    if !has_tracefs(NAME) {
        return;
    }
    for engine in [EngineKind::Sync, EngineKind::Uring] {
        let Some(traced) = quiet_trace(NAME, &commits(SyncMethod::Fdatasync), engine) else {
            break;
        };
        let first = &traced.sequences[0];
        let (data, last) = (&first.requests[0], first.requests.last().unwrap());
        eprintln!("{engine}: {} of {}: {:?}", first.commits, traced.commits, first.requests);
        assert!(data.flags.starts_with('W') && data.bytes == Bytes::from_kib(4), "{data:?}");
        assert_eq!((last.device.as_str(), last.flags.as_str()), (device.as_str(), "FF"));
        let end = last.service.unwrap().get() + last.issued.get();
        assert!(data.service.unwrap() > Nanos::ZERO && data.issued < last.issued);
        assert!(first.commit.get() > end / 2, "the flush is within the commit");
    }
    assert!(instances_left().is_empty());
}

#[test]
fn what_a_killed_run_left_is_removed_and_what_is_in_use_stays() {
    const NAME: &str = "what_a_killed_run_left_is_removed_and_what_is_in_use_stays";
    let _alone = alone();
    if !has_tracefs(NAME) {
        return;
    }
    let root = Path::new("/");
    let instances = find_tracefs(root).unwrap().join("instances");
    let made = |name: &str| {
        let folder = instances.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("events/block/block_rq_issue/enable"), "1").unwrap();
        folder
    };
    // More than any process's number; and a living process that is another one by its start.
    let (dead, reused) =
        (made("durio-4194305-77-0"), made(&format!("durio-{}-1-0", std::process::id())));
    let living = made(&durio_run::trace_instance_name(root, 0));
    let other = made(&format!("other-{}", std::process::id()));
    // As one of another container, whose processes are not to be seen.
    let held = made("durio-4194306-77-0");
    let marker = fs::OpenOptions::new().write(true).open(held.join("trace_marker")).unwrap();
    let removed = durio_run::remove_dead_trace_instances(root);
    let stay = [&living, &other, &held].map(|folder| folder.exists());
    let read = durio_observe::read_host().tracing;
    drop(marker);
    for folder in [&living, &other, &held] {
        fs::remove_dir(folder).unwrap();
    }
    assert!(!dead.exists() && !reused.exists() && stay == [true; 3], "{removed:?} {stay:?}");
    assert!(removed.contains(&reused), "{removed:?}");
    let traces = read.iter().find(|traces| Path::new(&traces.name) == other).unwrap();
    assert_eq!(traces.value, "events block:block_rq_issue");
}

#[test]
fn an_unsynced_write_sends_nothing_to_the_disk() {
    const NAME: &str = "an_unsynced_write_sends_nothing_to_the_disk";
    let _alone = alone();
    if flushed_device(NAME).is_none() || !has_tracefs(NAME) {
        return;
    }
    let unsynced = commits(SyncMethod::None);
    let Some(traced) = quiet_trace(NAME, &unsynced, EngineKind::Sync) else { return };
    assert_eq!(traced.sequences[0].requests, []);
}

#[test]
fn writes_that_share_a_sync_are_one_commit() {
    const NAME: &str = "writes_that_share_a_sync_are_one_commit";
    let _alone = alone();
    if flushed_device(NAME).is_none() || !has_tracefs(NAME) {
        return;
    }
    let sync = SyncPolicy { method: SyncMethod::Fdatasync, every: 4 };
    let workload = Workload { sync, cache: CacheMode::Direct, ..commits(SyncMethod::Fdatasync) };
    let Some(traced) = quiet_trace(NAME, &workload, EngineKind::Sync) else { return };
    let first = &traced.sequences[0];
    let is_data = |flags: &str| flags.starts_with('W') && !flags.contains('M');
    let writes = first.requests.iter().filter(|request| is_data(&request.flags));
    let data: u64 = writes.map(|request| request.bytes.get()).sum();
    let flushes = first.requests.iter().filter(|request| request.flags == "FF").count();
    assert_eq!((data, flushes), (4 * 4096, 1), "{traced:?}");
}

#[test]
fn without_devices_the_commits_are_made_and_the_reason_is_told() {
    let folder = folder();
    let workload = commits(SyncMethod::Fdatasync);
    let plan = plan(new_file(folder.path()), step(Role::Trace, workload, EngineKind::Sync));
    let (result, events) = run_plan(&plan, folder.path(), Vec::new(), false);
    assert_eq!(result.unwrap(), Outcome::Complete);
    let traced = traced(&events).unwrap();
    assert_eq!((traced.commits, traced.sequences.len()), (20, 0));
    assert!(traced.unavailable.unwrap().contains("no block device"));
    let ended = events.iter().any(
        |event| matches!(event, Event::StepEnded(ended) if ended.outcome == Outcome::Complete),
    );
    assert!(ended);
}

#[test]
fn a_step_that_is_stopped_tells_nothing_and_is_not_finished() {
    for role in [Role::Trace, Role::ProbeSyncCalls, Role::TracePath] {
        let folder = folder();
        let step = step(role, commits(SyncMethod::Fdatasync), EngineKind::Sync);
        let plan = plan(new_file(folder.path()), step);
        let (result, events) = run_plan(&plan, folder.path(), Vec::new(), true);
        assert_eq!(result.unwrap(), Outcome::Interrupted);
        assert!(traced(&events).is_none() && probed(&events).is_none());
        let ended = events.iter().any(|event| {
            matches!(event, Event::StepEnded(ended) if ended.outcome == Outcome::Interrupted)
        });
        assert!(ended);
    }
}

#[test]
fn a_full_device_ends_a_trace_with_its_error_and_a_probe_with_its_number() {
    const FULL: i32 = 28;
    let full = TargetKind::NullDevice { path: RawPath::from(PathBuf::from("/dev/full")) };
    let of = |role| {
        let folder = folder();
        let step = step(role, commits(SyncMethod::Fdatasync), EngineKind::Sync);
        let plan = plan(full.clone(), step);
        run_plan(&plan, folder.path(), Vec::new(), false)
    };
    let (result, events) = of(Role::Trace);
    assert!(result.unwrap_err().message.contains("cannot write 4096 B at offset 0"));
    assert_eq!(traced(&events).unwrap().commits, 0);
    let told = events.iter().any(|event| {
        matches!(event, Event::Error(stopped) if stopped.errno == Some(FULL) && stopped.step == Some(0))
    });
    assert!(told);
    let (result, events) = of(Role::ProbeSyncCalls);
    assert_eq!(result.unwrap(), Outcome::Complete);
    for calls in probed(&events).unwrap() {
        assert_eq!((calls.calls, calls.errno, calls.flushes), (0, Some(FULL), None));
    }
}

#[test]
fn a_method_that_the_kernel_does_not_have_is_told_and_the_run_goes_on() {
    // The full device takes no flags of pwritev2.
    let full = TargetKind::NullDevice { path: RawPath::from(PathBuf::from("/dev/full")) };
    let folder = folder();
    let step = step(Role::Trace, commits(SyncMethod::RwfDsync), EngineKind::Sync);
    let (result, events) = run_plan(&plan(full, step), folder.path(), Vec::new(), false);
    assert_eq!(result.unwrap(), Outcome::Complete);
    let traced = traced(&events).unwrap();
    assert!(traced.unavailable.unwrap().contains("does not have this sync method"));
}

#[test]
fn linked_syncs_and_syncs_of_a_range_flush_as_others_do() {
    const NAME: &str = "linked_syncs_and_syncs_of_a_range_flush_as_others_do";
    let _alone = alone();
    if flushed_device(NAME).is_none() || !has_tracefs(NAME) {
        return;
    }
    let methods = [
        (SyncMethod::LinkedFdatasync, EngineKind::Uring),
        (SyncMethod::FileRange, EngineKind::Sync),
    ];
    for (method, engine) in methods {
        let Some(traced) = quiet_trace(NAME, &commits(method), engine) else { return };
        let first = &traced.sequences[0];
        assert!(first.requests[0].flags.starts_with('W'), "{first:?}");
        assert_eq!(first.requests.last().unwrap().flags, "FF");
    }
}

#[test]
fn a_sync_that_fails_is_called_once_and_ends_a_trace() {
    // The null device takes writes and knows no sync.
    const INVALID: i32 = 22;
    let null = TargetKind::NullDevice { path: RawPath::from(PathBuf::from("/dev/null")) };
    let of = |role| {
        let folder = folder();
        let step = step(role, commits(SyncMethod::Fdatasync), EngineKind::Sync);
        run_plan(&plan(null.clone(), step), folder.path(), Vec::new(), false)
    };
    let (result, events) = of(Role::ProbeSyncCalls);
    assert_eq!(result.unwrap(), Outcome::Complete);
    for calls in probed(&events).unwrap() {
        assert_eq!((calls.calls, calls.errno), (1, Some(INVALID)));
    }
    let (result, events) = of(Role::Trace);
    assert!(result.unwrap_err().message.contains("fdatasync failed"));
    assert_eq!(traced(&events).unwrap().commits, 0);
    let failed = events
        .iter()
        .any(|event| matches!(event, Event::StepEnded(ended) if ended.outcome == Outcome::Failed));
    assert!(failed);
}

#[test]
fn what_cannot_be_traced_is_refused() {
    let refused = |step: Step| {
        let folder = folder();
        let plan = plan(new_file(folder.path()), step);
        run_plan(&plan, folder.path(), Vec::new(), false).0.unwrap_err().message
    };
    let durable = || step(Role::Trace, commits(SyncMethod::Fdatasync), EngineKind::Sync);
    let timed = Step { limit: Limit::Duration(Nanos::from_secs(1)), ..durable() };
    assert!(refused(timed).contains("number of operations"));
    let mut reading = durable();
    reading.load.workload.read_share = PerMille(500);
    assert!(refused(reading).contains("writes"));
    let mut two = durable();
    two.beside.push(two.load.clone());
    assert!(refused(two).contains("one load"));
}

/// Where the time of 60 operations went; none with the skip told, where nothing can be traced.
fn path(test: &str, workload: Workload, kind: Option<TargetKind>) -> Option<PathTraced> {
    if !has_tracefs(test) {
        return None;
    }
    let folder = folder();
    let operations = Limit::Operations(60);
    let kind = kind.unwrap_or_else(|| new_file(folder.path()));
    let step = Step { limit: operations, ..step(Role::TracePath, workload, EngineKind::Sync) };
    let mut plan = plan(kind, step);
    plan.clock = ClockChoice::Auto;
    let (result, events) = run_plan(&plan, folder.path(), devices_below(folder.path()), false);
    assert_eq!(result.unwrap(), Outcome::Complete);
    let traced = events.into_iter().find_map(|event| match event {
        Event::PathTraced(traced) => Some(traced),
        _ => None,
    });
    assert!(instances_left().is_empty());
    traced
}

#[test]
fn a_durable_write_is_followed_to_the_disk_and_back() {
    const NAME: &str = "a_durable_write_is_followed_to_the_disk_and_back";
    let Some(device) = flushed_device(NAME) else { return };
    let _alone = alone();
    let workload = Workload { cache: CacheMode::Direct, ..commits(SyncMethod::ODsync) };
    let Some(found) = path(NAME, workload, None) else { return };
    assert_eq!(found.unavailable, None);
    eprintln!("{} by {}, {} lost", found.operations.len(), found.clock, found.lost);
    let last = found.devices.last().unwrap();
    assert!(last.name == device && last.lowest && last.requests, "{:?}", found.devices);
    assert_eq!((found.untraced.len(), found.traced.len()), (60, 60));
    assert!(found.operations.len() > 50, "{} of 60", found.operations.len());
    for (path, service) in found.operations.iter().zip(&found.traced) {
        let it = &path.spent;
        let parts = [it.device, it.queued, it.entry, it.exit, it.between, it.program];
        let sum: u64 = parts.iter().map(|part| part.get()).sum();
        assert!(sum.abs_diff(service.get()) < 2000, "{sum} of {service}");
    }
    eprintln!("{:?}", found.operations.iter().take(12).collect::<Vec<_>>());
    let typical = |test: &dyn Fn(&durio_record::OperationPath) -> bool| {
        found.operations.iter().filter(|path| test(path)).count() * 2 > found.operations.len()
    };
    assert!(typical(&|path| path.io.iter().any(|io| io.writes > 0 && io.flushes + io.fua > 0)));
    assert!(typical(&|path| path.waits > 0 && path.off_cpu.device > Nanos::ZERO));
    // Not of each: what others have under way on the disk hides the one or the other.
    assert!(found.operations.iter().any(|path| path.spent.entry > Nanos::ZERO));
    assert!(found.operations.iter().any(|path| path.spent.exit > Nanos::ZERO));
}

#[test]
fn a_write_to_nowhere_is_an_entry_alone() {
    const NAME: &str = "a_write_to_nowhere_is_an_entry_alone";
    let _alone = alone();
    let null = TargetKind::NullDevice { path: RawPath::from(PathBuf::from("/dev/null")) };
    let Some(found) = path(NAME, commits(SyncMethod::None), Some(null)) else { return };
    assert_eq!((found.unavailable, found.devices.len()), (None, 0));
    assert!(found.operations.len() > 50, "{} of 60", found.operations.len());
    for path in &found.operations {
        assert!(path.io.is_empty() && path.waits == 0, "{path:?}");
        assert_eq!((path.spent.device, path.spent.between), (Nanos::ZERO, Nanos::ZERO));
    }
    assert!(found.operations.iter().any(|path| path.spent.entry > Nanos::ZERO));
}

#[test]
fn operations_that_cannot_be_followed_are_made_all_the_same() {
    let folder = folder();
    let workload = commits(SyncMethod::None);
    let script = durio_plan::NullScript { latencies: vec![Nanos::from_micros(9)], fails_at: None };
    let mut step = step(Role::TracePath, workload, EngineKind::Null);
    step.load.script = Some(script);
    let (result, events) =
        run_plan(&plan(TargetKind::Scripted, step), folder.path(), Vec::new(), false);
    assert_eq!(result.unwrap(), Outcome::Complete);
    let told = events.iter().any(|event| {
        let Event::PathTraced(found) = event else { return false };
        let reason = found.unavailable.as_deref().unwrap_or_default();
        found.operations.is_empty() && reason.contains("null")
    });
    assert!(told, "{events:?}");
}

/// The calls of a probe on a file on the disk.
fn probe() -> Vec<ProbedCalls> {
    let folder = folder();
    let step = step(Role::ProbeSyncCalls, commits(SyncMethod::Fdatasync), EngineKind::Sync);
    let plan = plan(new_file(folder.path()), step);
    let (result, events) = run_plan(&plan, folder.path(), devices_below(folder.path()), false);
    assert_eq!(result.unwrap(), Outcome::Complete);
    probed(&events).unwrap()
}

fn flushes(calls: &[ProbedCalls], caller: SyncCaller) -> u64 {
    let of = calls.iter().filter(|calls| calls.caller == caller);
    of.map(|calls| calls.flushes.unwrap()).sum()
}

#[test]
fn each_sync_call_flushes_the_disk_whoever_makes_it() {
    const NAME: &str = "each_sync_call_flushes_the_disk_whoever_makes_it";
    if flushed_device(NAME).is_none() {
        return;
    }
    let _alone = alone();
    let calls = probe();
    assert_eq!(calls.len(), 4);
    for arm in &calls {
        eprintln!("{arm:?}");
        assert_eq!((arm.calls, arm.errno), (20, None));
        assert!(arm.flushes.unwrap() >= 20 && arm.writes.unwrap() >= 20, "{arm:?}");
        assert!(arm.elapsed > Nanos::ZERO);
    }
}

/// The body of the test below, which is run with the library; nothing without it.
#[test]
fn swallowed_calls_are_those_of_the_library_alone() {
    if std::env::var_os("DURIO_TEST_PRELOADED").is_none() {
        return;
    }
    let calls = probe();
    let (library, kernel) =
        (flushes(&calls, SyncCaller::Library), flushes(&calls, SyncCaller::Kernel));
    // What others flush meanwhile is counted too.
    assert!(kernel >= 40 && library <= 20, "library {library}, kernel {kernel}");
    eprintln!("flushes of 40 calls each: library {library}, kernel {kernel}");
}

#[test]
fn a_preloaded_library_that_swallows_syncs_is_seen() {
    const NAME: &str = "a_preloaded_library_that_swallows_syncs_is_seen";
    if flushed_device(NAME).is_none() {
        return;
    }
    let folder = folder();
    let (source, library) = (folder.path().join("eat.c"), folder.path().join("eat.so"));
    let text = "int fsync(int f) { return 0 * f; }\nint fdatasync(int f) { return 0 * f; }\n";
    fs::write(&source, text).unwrap();
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output();
    match compiled {
        Ok(output) if output.status.success() => {}
        Ok(output) => return note_skip(NAME, &String::from_utf8_lossy(&output.stderr)),
        Err(error) => return note_skip(NAME, &format!("cc: {error}")),
    }
    let _alone = alone();
    if is_written_to() {
        return note_skip(NAME, &"others keep the disk busy");
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "traces::swallowed_calls_are_those_of_the_library_alone", "--nocapture"])
        .env("DURIO_TEST_PRELOADED", "1")
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("flushes of 40 calls each"), "{text}");
}
