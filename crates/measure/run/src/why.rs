//! Watches running processes for slow durable writes, and keeps what the kernel did around each.
//!
//! Given processes and from when on a call is slow, it emits one [`SlowWindow`] after the other and
//! returns how the watch went; `durio-analyse` explains them.
//!
//! Two trace instances, of which one is read all the time: the begins and ends of the watched
//! threads' calls (`calls`). The other has everything that may hold a call up, of all processes, in
//! a ring that the kernel overwrites (`instances`); it is read only when a call was slow. At most
//! five windows a second are read out: where every call is slow, some tell as much as all.
//!
//! Counted are calls that make writes durable, and of other writes to files those that were slow:
//! they return at once unless the kernel makes the writer wait.

mod calls;
mod facts;
mod files;
mod instances;
mod saved;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use calls::{CallFollower, FollowedCall, Slowness, TRAIL, lead};
use durio_base::Nanos;
use durio_observe::{
    KernelEvent, KernelEventKind, SlowCall, SlowWatchFacts, SlowWindow, TraceTask, name_tasks,
};
use facts::{FactSampler, devices_below};
use files::{CallUse, WatchedDescriptors};
use instances::CallRecorder;

use crate::StopFlag;
use crate::error::RunError;
use crate::trace_files::TraceFiles;
use crate::watched_processes::{
    CaptureTarget, WriteCalls, monotonic, refuse_other_namespace, thread_cpu_time, untraced,
};

pub use calls::SlowLimit;
pub use saved::{RecordedTrace, window_text};

/// The request for a watch.
#[derive(Debug, Clone)]
pub struct WhyWish {
    pub target: CaptureTarget,
    pub duration: Nanos,
    pub limit: SlowLimit,
    /// The times whose calls count; all without it.
    pub times: Option<CountedTimes>,
}

/// The times whose calls count, on the clock of traces, for a program that watches itself: what it
/// writes before and after it measures must not be among the slowest calls.
#[derive(Debug, Clone, Default)]
pub struct CountedTimes(Arc<Mutex<Vec<Range<u64>>>>);

impl CountedTimes {
    /// Calls count from now on.
    pub fn begin(&self) {
        self.end();
        self.spans().push(monotonic()..u64::MAX);
    }

    /// Calls count up to now.
    pub fn end(&self) {
        if let Some(last) = self.spans().last_mut() {
            last.end = last.end.min(monotonic());
        }
    }

    fn contain(&self, call: &FollowedCall) -> bool {
        self.spans().iter().any(|span| span.start <= call.begin && call.end <= span.end)
    }

    // A panic in between leaves whole times.
    fn spans(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Between two looks at the calls.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_NANOS: u64 = 20_000_000;

/// Between two looks for new processes.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Windows that are read in a second, at most.
const WINDOWS_PER_SECOND: usize = 5;
const SECOND: u64 = 1_000_000_000;

/// Events of calls that are kept for windows of calls that still run.
const RECENT_CALLS: usize = 20_000;

/// Watches until its time is over, `stop` is set or all processes are gone. `root` is the folder
/// that contains `proc` and `sys`. The name of the target is left to the caller.
///
/// # Errors
/// If no process matches the target, or the kernel does not let this process trace.
pub fn watch_slow_calls(
    wish: &WhyWish,
    root: &Path,
    stop: &StopFlag,
    emit: &mut dyn FnMut(SlowWindow),
) -> Result<SlowWatchFacts, RunError> {
    begin_slow_watch(wish.clone(), root)?.until_the_end(stop, emit)
}

/// A watch that records, and whose calls are not read yet.
#[derive(Debug)]
pub struct BegunWatch<'a> {
    wish: WhyWish,
    processes: Vec<u32>,
    watch: SlowWatch<'a>,
}

/// Begins to record: afterwards only reading can fail.
///
/// # Errors
/// As [`watch_slow_calls`].
pub fn begin_slow_watch(wish: WhyWish, root: &Path) -> Result<BegunWatch<'_>, RunError> {
    // First: a user without the right to trace sees no files of others either, and would get an
    // error that they do not exist.
    let files = TraceFiles::open(root).map_err(RunError::unsupported)?;
    refuse_other_namespace(root)?;
    let processes = wish.target.processes(root)?;
    let devices = devices_below(root, &processes, wish.target.places());
    let numbers: Vec<(u32, u32)> = devices.iter().map(|(number, _)| *number).collect();
    let (recorder, blind) =
        CallRecorder::begin(files, root, &processes, &numbers).map_err(RunError::unsupported)?;
    let watch = SlowWatch {
        root,
        recorder,
        follower: CallFollower::default(),
        slowness: match wish.target {
            CaptureTarget::Own(_) => Slowness::new(wish.limit, monotonic()).of_few(),
            _ => Slowness::new(wish.limit, monotonic()),
        },
        times: wish.times.clone(),
        descriptors: WatchedDescriptors::new(root, wish.target.places()),
        sampler: FactSampler::new(root, devices, &processes),
        young: Vec::new(),
        recent: VecDeque::new(),
        read_in_second: (0, 0),
        facts: SlowWatchFacts { blind, processes: processes.len(), ..SlowWatchFacts::default() },
    };
    Ok(BegunWatch { wish, processes, watch })
}

impl BegunWatch<'_> {
    /// Watches as [`watch_slow_calls`] does.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn until_the_end(
        self,
        stop: &StopFlag,
        emit: &mut dyn FnMut(SlowWindow),
    ) -> Result<SlowWatchFacts, RunError> {
        let Self { wish, processes, mut watch } = self;
        let root = watch.root;
        let cpu = thread_cpu_time();
        let begin = Instant::now();
        let rate = watch.until_the_end(&wish, &processes, stop, emit);
        let rate = rate.map_err(RunError::unsupported)?;
        watch.facts.seconds = begin.elapsed().as_secs_f64();
        watch.facts.cpu_seconds = Nanos::new(thread_cpu_time().saturating_sub(cpu)).as_secs_f64();
        // The events end with it: they cost every process something as long as they are on.
        let mut facts = watch.end();
        if !facts.interrupted && facts.ended_early.is_none() {
            let duration = Duration::from_nanos(wish.duration.get());
            let without = untraced(root, &processes, duration, stop);
            (facts.rate_recorded, facts.rate_unrecorded) = (rate, without);
        }
        Ok(facts)
    }
}

#[derive(Debug)]
struct SlowWatch<'a> {
    root: &'a Path,
    recorder: CallRecorder,
    follower: CallFollower,
    slowness: Slowness,
    times: Option<CountedTimes>,
    descriptors: WatchedDescriptors<'a>,
    sampler: FactSampler<'a>,
    /// Events of calls that were read, and perhaps younger than some that were not read yet.
    young: Vec<KernelEvent>,
    /// Events of calls in order, for windows.
    recent: VecDeque<KernelEvent>,
    /// A second, by its number, and the windows that were read in it.
    read_in_second: (u64, usize),
    facts: SlowWatchFacts,
}

impl SlowWatch<'_> {
    /// Gives the write calls per second of the second half, the nearer one to the time without
    /// tracing that follows.
    fn until_the_end(
        &mut self,
        wish: &WhyWish,
        processes: &[u32],
        stop: &StopFlag,
        emit: &mut dyn FnMut(SlowWindow),
    ) -> Result<Option<f64>, String> {
        let duration = Duration::from_nanos(wish.duration.get());
        let begin = Instant::now();
        let mut half = None;
        let mut looked = begin;
        loop {
            // Events older than this are in the buffers now, on every processor.
            self.look(monotonic(), emit)?;
            let passed = begin.elapsed();
            self.facts.interrupted = stop.is_set();
            if self.facts.interrupted || passed >= duration {
                break;
            }
            if !processes.iter().any(|process| self.lives(*process)) {
                let text = format!("the watched process ended after {:.1} s", passed.as_secs_f64());
                self.facts.ended_early = Some(text);
                break;
            }
            if passed >= duration / 2 && half.is_none() {
                half = Some(WriteCalls::now(self.root, processes));
            }
            if looked.elapsed() >= LOOK_AGAIN {
                looked = Instant::now();
                self.look_for_processes(&wish.target)?;
            }
            sleep(PAUSE);
        }
        let rate = half.and_then(|half| half.rate(self.root));
        self.recorder.stop();
        self.look(u64::MAX, emit)?;
        self.report_running(emit)?;
        Ok(rate)
    }

    fn lives(&self, process: u32) -> bool {
        self.root.join(format!("proc/{process}")).exists()
    }

    fn look_for_processes(&mut self, target: &CaptureTarget) -> Result<(), String> {
        // An empty list is not the end: the database may be restarting.
        let now = target.processes(self.root).unwrap_or_default();
        // The kernel follows children itself.
        if !matches!(target, CaptureTarget::Process(_) | CaptureTarget::Own(_)) {
            self.recorder.also(self.root, &now)?;
        }
        self.sampler.also(&now);
        self.facts.processes = self.facts.processes.max(now.len());
        let root = self.root;
        self.follower.keep(|thread| root.join(format!("proc/{thread}")).exists());
        self.recorder.fit(monotonic(), self.needed());
        Ok(())
    }

    /// Nanoseconds that the ring has to hold: a slow call is seen at the next look.
    fn needed(&self) -> u64 {
        self.slowness.limit_now().unwrap_or(0).saturating_add(2 * PAUSE_NANOS)
    }

    /// Takes the calls that ended before `until`, and reads the windows of slow ones.
    fn look(&mut self, until: u64, emit: &mut dyn FnMut(SlowWindow)) -> Result<(), String> {
        self.recorder.read_calls(&mut self.young)?;
        self.young.sort_by_key(|event| event.at);
        let ready = self.young.partition_point(|event| event.at < until);
        let mut slow: Vec<FollowedCall> = Vec::new();
        for event in self.young.drain(..ready) {
            slow.extend(self.follower.take(&event));
            self.recent.push_back(event);
        }
        slow.retain(|call| self.is_slow(call));
        let now = monotonic();
        let running = self.follower.oldest().unwrap_or(now);
        let first = slow.iter().map(|call| call.begin).fold(running, u64::min).min(now);
        let horizon = first.saturating_sub(lead(now.saturating_sub(first)));
        self.sampler.sample_if_due(now, horizon);
        if !slow.is_empty() {
            self.read_windows(slow, horizon, emit)?;
        } else if self.slowness.is_slow(now.saturating_sub(running))
            && self.recorder.is_drain_due(now, self.needed())
        {
            self.recorder.drain(now, horizon)?;
        }
        self.forget(horizon);
        Ok(())
    }

    /// Forgets what no call that runs, or begins from now on, needs.
    fn forget(&mut self, horizon: u64) {
        self.recorder.forget(horizon);
        while self.recent.front().is_some_and(|event| event.at < horizon)
            || self.recent.len() > RECENT_CALLS
        {
            self.recent.pop_front();
        }
    }

    /// Counts a call; true if it is slow.
    fn is_slow(&mut self, call: &FollowedCall) -> bool {
        if self.times.as_ref().is_some_and(|times| !times.contain(call)) {
            return false;
        }
        let latency = call.latency();
        let mut used = self.descriptors.use_of(call);
        // The descriptor may be another file than at the last look.
        if used != CallUse::Durable && self.slowness.is_slow(latency) {
            used = self.descriptors.look_again(call).0;
        }
        match used {
            CallUse::Ignored => false,
            CallUse::Write if !self.slowness.is_slow(latency) => false,
            CallUse::Durable | CallUse::Write => self.slowness.take(latency, call.end),
        }
    }

    /// Calls that run as the watch ends have no end of their own.
    fn report_running(&mut self, emit: &mut dyn FnMut(SlowWindow)) -> Result<(), String> {
        let now = monotonic();
        let mut running = self.follower.still_running(now);
        // A short one says nothing: it has not ended.
        running.retain(|call| self.slowness.is_slow(call.latency()));
        running.retain(|call| self.is_slow(call));
        let first = running.iter().map(|call| call.begin).min().unwrap_or(now);
        let horizon = first.saturating_sub(lead(now.saturating_sub(first)));
        if running.is_empty() { Ok(()) } else { self.read_windows(running, horizon, emit) }
    }

    /// Reads the windows of these calls, of the longest first.
    fn read_windows(
        &mut self,
        mut slow: Vec<FollowedCall>,
        horizon: u64,
        emit: &mut dyn FnMut(SlowWindow),
    ) -> Result<(), String> {
        self.facts.slow += slow.len() as u64;
        slow.sort_by_key(|call| Reverse(call.latency()));
        let second = monotonic() / SECOND;
        if self.read_in_second.0 != second {
            self.read_in_second = (second, 0);
        }
        let room = WINDOWS_PER_SECOND - self.read_in_second.1;
        self.facts.passed_over += slow.len().saturating_sub(room) as u64;
        slow.truncate(room);
        let Some(last) = slow.iter().map(|call| call.end).max() else { return Ok(()) };
        self.read_in_second.1 += slow.len();
        // What follows the end belongs to the window.
        sleep(Duration::from_nanos((last + TRAIL).saturating_sub(monotonic()).min(TRAIL)));
        let now = monotonic();
        self.sampler.sample(now, horizon);
        self.recorder.fit(now, self.needed());
        self.recorder.drain(now, horizon)?;
        for call in slow {
            emit(self.window(&call));
        }
        Ok(())
    }

    fn window(&mut self, call: &FollowedCall) -> SlowWindow {
        let time = call.window();
        let (mut events, is_complete) =
            self.recorder.window(*time.start(), call.begin, *time.end());
        let calls = self.recent.iter().filter(|event| time.contains(&event.at));
        events.extend(calls.cloned());
        let process = self.descriptors.process(call.thread);
        let path = self.descriptors.look_again(call).1;
        let name =
            fs::read_to_string(self.root.join(format!("proc/{process}/task/{}/comm", call.thread)));
        let name = name.map(|name| name.trim_end().to_owned()).unwrap_or_default();
        let mut thread = TraceTask { id: call.thread, name };
        let is_begin = |event: &KernelEvent| {
            event.at == call.begin
                && event.task.id == call.thread
                && matches!(event.kind, KernelEventKind::CallEntered { .. })
        };
        if !events.iter().any(is_begin) {
            events.push(call.entered(&thread));
        }
        events.sort_by_key(|event| event.at);
        name_tasks(&mut events);
        // A thread that has ended since is named by its events.
        let own = events.iter().find(|event| event.task.id == thread.id);
        if let Some(own) = own.filter(|_| thread.name.is_empty()) {
            thread.name.clone_from(&own.task.name);
        }
        SlowWindow {
            call: SlowCall {
                process,
                thread,
                name: call.call.name.to_owned(),
                path: path.map(|path| path.to_string_lossy().into_owned()),
                begin: call.begin,
                end: call.end,
            },
            events,
            is_incomplete: !is_complete,
            facts: self.sampler.window(process, call.begin, call.end),
        }
    }

    fn end(self) -> SlowWatchFacts {
        let Self { recorder, follower, slowness, mut facts, .. } = self;
        facts.calls = slowness.calls;
        (facts.p50_ns, facts.p99_ns) = (slowness.quantile(0.5), slowness.quantile(0.99));
        facts.max_ns = slowness.longest();
        facts.limit_ns = slowness.limit_now().unwrap_or(0);
        facts.lost_events = recorder.lost_calls();
        if let Some(holds) = recorder.too_small {
            facts.blind.push(format!(
                "a ring of {} MiB held only {} of this machine's events: what was before that is \
                 missing in windows",
                recorder.ring_mib(),
                Nanos::new(holds)
            ));
        }
        if follower.rings > 0 {
            facts.blind.push(format!(
                "{} calls handed operations to io_uring, which are not followed",
                follower.rings
            ));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use calls::{call_named, number_of};
    use instances::tests::{entered, left, page_of, recorder};

    use super::*;

    const MILLI: u64 = 1_000_000;

    /// A watch of calls that are in the buffers: begin and end in milliseconds from `zero`, of
    /// threads from 1 on.
    fn watch<'a>(root: &'a Path, zero: u64, calls: &[(u64, Option<u64>)]) -> SlowWatch<'a> {
        let number = number_of(call_named("fsync").unwrap());
        let mut events = Vec::new();
        for (thread, (begin, end)) in (1..).zip(calls) {
            events.push(entered(zero + begin * MILLI, thread, number));
            events.extend(end.map(|end| left(zero + end * MILLI, thread, number)));
        }
        events.sort_by_key(|(at, _)| *at);
        let ring = page_of(&[left(zero + 5 * MILLI, 99, 1)], false);
        SlowWatch {
            root,
            recorder: recorder(root, &[page_of(&events, false)], &[ring]),
            follower: CallFollower::default(),
            slowness: Slowness::new(SlowLimit::SlowerThan(Nanos::from_millis(10)), zero),
            times: None,
            descriptors: WatchedDescriptors::new(root, &[]),
            sampler: FactSampler::new(root, Vec::new(), &[]),
            young: Vec::new(),
            recent: VecDeque::new(),
            read_in_second: (0, 0),
            facts: SlowWatchFacts::default(),
        }
    }

    #[test]
    fn of_seven_slow_calls_at_once_the_five_longest_are_read() {
        let root = tempfile::tempdir().unwrap();
        let zero = monotonic() - 500 * MILLI;
        let calls: Vec<(u64, Option<u64>)> =
            (1..=8).map(|thread| (thread, Some(10 * thread))).collect();
        let mut watch = watch(root.path(), zero, &calls);
        let mut windows = Vec::new();
        watch.look(u64::MAX, &mut |window| windows.push(window)).unwrap();
        let millis = windows.iter().map(|window| (window.call.end - window.call.begin) / MILLI);
        assert_eq!(millis.collect::<Vec<_>>(), [72, 63, 54, 45, 36], "ms");
        let facts = watch.end();
        assert_eq!((facts.calls, facts.slow, facts.passed_over), (8, 7, 2));
        assert_eq!((facts.max_ns, facts.limit_ns), (72 * MILLI, 10 * MILLI));
        let call = &windows[0].call;
        assert_eq!((call.name.as_str(), call.thread.id, call.process), ("fsync", 8, 8));
        // Those of all eight, and the one in the ring.
        assert_eq!((windows[0].events.len(), windows[0].is_incomplete), (17, false));
        assert!(windows[0].events.is_sorted_by_key(|event| event.at));
    }

    #[test]
    fn of_counted_times_only_whole_calls_count() {
        let root = tempfile::tempdir().unwrap();
        let zero = monotonic() - 500 * MILLI;
        let spans = [zero + 100 * MILLI..zero + 200 * MILLI, zero + 300 * MILLI..u64::MAX];
        let calls =
            [(80, 150), (100, 130), (150, 200), (180, 201), (210, 290), (299, 330), (300, 390)];
        let calls = calls.map(|(begin, end)| (begin, Some(end)));
        let mut watch = watch(root.path(), zero, &calls);
        watch.times = Some(CountedTimes(Arc::new(Mutex::new(spans.into()))));
        let mut threads = Vec::new();
        watch.look(u64::MAX, &mut |window| threads.push(window.call.thread.id)).unwrap();
        assert_eq!(threads, [7, 3, 2]);
        assert_eq!(watch.end().calls, 3);
    }

    #[test]
    fn times_that_count_begin_and_end_when_they_are_told_to() {
        let times = CountedTimes::default();
        let call = |begin: u64| FollowedCall {
            thread: 1,
            call: call_named("fsync").unwrap(),
            fd: 3,
            begin,
            end: monotonic(),
        };
        assert!(!times.contain(&call(monotonic())));
        times.begin();
        let during = call(monotonic());
        assert!(times.contain(&during) && !times.contain(&call(0)));
        times.end();
        sleep(Duration::from_millis(1));
        assert!(times.contain(&during) && !times.contain(&call(monotonic())));
        times.begin();
        assert!(times.contain(&call(monotonic())) && times.spans().len() == 2);
    }

    #[test]
    fn a_call_that_runs_at_the_end_is_told_if_it_was_slow_by_then() {
        // The second one seems to have begun just now, however busy the machine is.
        for (begin, told) in [(0, 1), (60_000, 0)] {
            let root = tempfile::tempdir().unwrap();
            let zero = monotonic() - 400 * MILLI;
            let mut watch = watch(root.path(), zero, &[(begin, None)]);
            let mut windows = Vec::new();
            // Events from this time on are not taken yet.
            watch.look(zero, &mut |window| windows.push(window)).unwrap();
            assert_eq!((watch.young.len(), watch.follower.oldest()), (1, None));
            watch.look(u64::MAX, &mut |window| windows.push(window)).unwrap();
            watch.report_running(&mut |window| windows.push(window)).unwrap();
            assert_eq!(windows.len(), told, "{begin} ms");
            assert_eq!(watch.facts.slow, told as u64);
            for window in windows {
                assert!(window.call.end - window.call.begin >= 400 * MILLI);
            }
        }
    }
}
