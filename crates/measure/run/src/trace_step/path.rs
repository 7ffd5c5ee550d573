//! A step in which one job makes a few hundred operations, one after the other, while the kernel
//! traces where their time goes: in system calls, in block layers, at the devices, on and off the
//! processor.
//!
//! Runs a step of [`durio_plan::Role::TracePath`]; its limit says how many operations. One of its
//! events is [`PathTraced`]. As many operations are made without tracing, half of them before and
//! half after, so that the cost of tracing is known. Where nothing can be traced, the event says
//! why.
//!
//! All I/O that reaches the target's devices in that time from the job, from other threads of this
//! process and from kernel threads is counted as the operation's; I/O of other programs is left
//! out.
//!
//! The devices below the target are [`TracedLayer`]s, top to bottom; a private instance of tracefs
//! gives the events of the calling thread and of these devices ([`PathTrace`]).

mod timeline;
#[cfg(test)]
mod timeline_tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use durio_base::Nanos;
use durio_block::{Clock, Engine, MonotonicClock, OperationKind};
use durio_observe::{
    Layer, LayerKind, Stack, TraceClock, TraceEventKind, TraceText, has_request_queue,
    leaf_devices, parse_trace, read_stack,
};
use durio_plan::EngineKind;
use durio_record::{Event, Outcome, PathDevice, PathTraced};
use durio_workload::job_seed;
use rustix::thread::gettid;
use timeline::timelines;

use crate::StopFlag;
use crate::conditions::path_of;
use crate::error::RunError;
use crate::job_input::RunClock;
use crate::measured_loop::EarlyEnding;
use crate::step::StepSetup;
use crate::tracefs::{TraceInstance, device_filter, tracefs};
use crate::unmeasured::{EndedEarly, OneByOne, SingleLoad, Watching, started, with_engine};

/// Follows the operations of a step. `root` is the folder in which `proc` and `sys` are.
pub(crate) fn run_path(
    setup: StepSetup<'_>,
    names: &[String],
    root: &Path,
    emit: &mut dyn FnMut(Event),
) -> Result<Outcome, RunError> {
    let mut single = SingleLoad::open(setup)?;
    let layers = match stack_of(setup) {
        Some(stack) => traced_layers(root, &stack),
        None => Vec::new(),
    };
    let tracer = match single.effective.engine {
        EngineKind::Null => Err("the null engine makes no system call".to_owned()),
        EngineKind::Fio => return Err(RunError::unsupported("operations of fio are not traced")),
        _ => PathTracer::make(root, &layers, setup.clock, single.count),
    };
    let place = tracer.as_ref().ok().map(|tracer| format!("traced by {}", tracer.place()));
    emit(started(setup, &single, place.into_iter().collect()));
    let watching = Watching::begin(setup, names);
    let made = match (&tracer, setup.clock) {
        // Stamps must be of the clock of the trace, else they cannot be laid over its events.
        (Ok(PathTracer { clock: TraceClock::Tsc, .. }), RunClock::Tsc(clock)) => {
            make(setup, &mut single, clock, tracer)
        }
        _ => make(setup, &mut single, MonotonicClock, tracer),
    }?;
    let stopped = setup.stop.is_set() && made.ending.failure.is_none();
    if !stopped {
        emit(Event::PathTraced(told(setup, &made, &layers)));
    }
    watching.conclude(made.ending, stopped, emit)
}

struct Traces {
    ending: EarlyEnding,
    untraced: Vec<Nanos>,
    traced: Vec<Nanos>,
    /// The followed operations, or the reason for their absence.
    followed: Result<PathTrace, String>,
    /// The stamps of the traced operations, on the clock of the trace.
    stamps: Vec<Stamps>,
    /// Nanoseconds of the ticks of that clock, as a factor.
    nanos: Box<dyn Fn(u64) -> u64>,
}

fn make<C: Clock + Copy + 'static>(
    setup: StepSetup<'_>,
    single: &mut SingleLoad,
    clock: C,
    tracer: Result<PathTracer, String>,
) -> Result<Traces, RunError> {
    let nanos = Box::new(move |ticks| clock.nanos(ticks));
    let mut made = Traces {
        ending: EarlyEnding::default(),
        untraced: Vec::new(),
        traced: Vec::new(),
        followed: Err("no operation was made".to_owned()),
        stamps: Vec::new(),
        nanos,
    };
    let Some(file) = single.file.take() else {
        made.followed = tracer.and(Err("the target has no file".to_owned()));
        return Ok(made);
    };
    let seed = job_seed(setup.plan.seed, setup.step.index.into(), 0);
    let mut making = TracedOperations {
        operations: OneByOne::new(&single.effective.workload, single.region, seed),
        stop: setup.stop,
    };
    let mut tracer = Some(tracer);
    let mut body = |engine: &mut dyn Engine<Clock = C>| {
        if let Some(tracer) = tracer.take() {
            phases(engine, &mut making, single.count, tracer, &mut made);
        }
    };
    let engine = (single.effective.engine, clock);
    with_engine(engine, &single.effective.workload, file, seed, &mut body)?;
    made.ending = making.operations.ending;
    Ok(made)
}

/// Operations without tracing, with it, and without it.
fn phases<C: Clock>(
    engine: &mut dyn Engine<Clock = C>,
    making: &mut TracedOperations<'_>,
    count: u64,
    tracer: Result<PathTracer, String>,
    made: &mut Traces,
) {
    // Half before and half after: drift is in both sides of the difference.
    let half = count / 2;
    let before = making.make(engine, half);
    made.followed = tracer.and_then(|mut tracer| {
        tracer.start()?;
        made.stamps = making.make(engine, count);
        tracer.finish()
    });
    let after = making.make(engine, count - half);
    let spans =
        |all: &[Stamps]| all.iter().map(|stamps| Nanos::new((made.nanos)(stamps.span()))).collect();
    // Service latencies of both, by the same stamps: their difference is the cost of tracing.
    made.untraced = [spans(&before), spans(&after)].concat();
    made.traced = spans(&made.stamps);
}

/// When an operation began and when it had ended, on the engine's clock. That is the trace's own:
/// nothing needs to be written to the trace between operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamps {
    begin: u64,
    end: u64,
}

impl Stamps {
    fn span(self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// Operations on their way: an access each, and the sync calls that follow it.
struct TracedOperations<'a> {
    operations: OneByOne<'a>,
    stop: &'a StopFlag,
}

impl TracedOperations<'_> {
    /// Makes `count` operations, or as many as come to their end.
    fn make<C: Clock>(&mut self, engine: &mut dyn Engine<Clock = C>, count: u64) -> Vec<Stamps> {
        let mut made = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let has_ended = self.operations.ending.is_early();
        while (made.len() as u64) < count && !self.stop.is_set() && !has_ended {
            match self.operation(engine) {
                Ok(stamps) => made.extend(stamps),
                Err(EndedEarly) => break,
            }
        }
        made
    }

    /// None when a segment returns to its first state, which is not part of an operation.
    fn operation<C: Clock>(
        &mut self,
        engine: &mut dyn Engine<Clock = C>,
    ) -> Result<Option<Stamps>, EndedEarly> {
        let access = self.operations.next(engine);
        let begin = engine.clock().now().0;
        self.operations.access_and_syncs(engine, access)?;
        let end = engine.clock().now().0;
        let is_access = matches!(access.kind, OperationKind::Read | OperationKind::Write);
        Ok(is_access.then_some(Stamps { begin, end }))
    }
}

/// The event; its results are those of the operations that the trace holds whole.
fn told(setup: StepSetup<'_>, made: &Traces, layers: &[TracedLayer]) -> PathTraced {
    let mut event = PathTraced {
        step: setup.step.index,
        clock: String::new(),
        resolution: Nanos::ZERO,
        devices: layers.iter().map(|layer| layer.device.clone()).collect(),
        operations: Vec::new(),
        untraced: made.untraced.clone(),
        traced: made.traced.clone(),
        lost: 0,
        unavailable: None,
    };
    match &made.followed {
        Ok(followed) => {
            event.clock = followed.clock.name().to_owned();
            // A tick of the counter is shorter.
            event.resolution = match followed.clock {
                TraceClock::Monotonic => Nanos::from_micros(1),
                TraceClock::Tsc => Nanos::new(1),
            };
            event.lost = followed.lost;
            event.operations = timelines(followed, layers, &made.stamps, &*made.nanos);
        }
        Err(reason) => event.unavailable = Some(reason.clone()),
    }
    event
}

/// The layers under the step's target.
fn stack_of(setup: StepSetup<'_>) -> Option<Stack> {
    let target = setup.plan.targets.get(setup.step.load.target)?;
    read_stack(path_of(&target.kind)?).ok()
}

/// A block device whose events are traced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TracedLayer {
    device: PathDevice,
    /// Its number, and those of its partitions on the way: I/O queued to a partition is done by the
    /// requests of its disk.
    numbers: Vec<(u32, u32)>,
}

impl TracedLayer {
    fn filter(&self) -> String {
        device_filter(self.numbers.iter().copied())
    }
}

fn traced_layers(root: &Path, stack: &Stack) -> Vec<TracedLayer> {
    let lowest = leaf_devices(stack);
    let mut traced: Vec<TracedLayer> = Vec::new();
    for (_, layer) in stack.walk() {
        let number = layer.device.as_deref().and_then(number_of);
        let (Some(number), Some(disk)) = (number, disk_of(layer)) else { continue };
        match traced.iter_mut().find(|known| known.device.name == disk.name) {
            // A disk below several members of an array is met several times.
            Some(known) if known.numbers.contains(&number) => {}
            Some(known) => known.numbers.push(number),
            None => {
                let device = PathDevice {
                    name: disk.name.clone(),
                    lowest: lowest.contains(&disk.name),
                    requests: has_request_queue(root, &disk.name),
                };
                traced.push(TracedLayer { device, numbers: vec![number] });
            }
        }
    }
    traced
}

/// The device that does a layer's I/O: for a partition its disk; none if the layer is not a block
/// device.
fn disk_of(layer: &Layer) -> Option<&Layer> {
    match layer.kind {
        LayerKind::Partition => layer.below.first().filter(|disk| disk.block.is_some()),
        _ => layer.block.as_ref().map(|_| layer),
    }
}

fn number_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Events of an operation: its calls, switches, and requests on several layers.
const EVENTS_EACH: u64 = 60;

// More would ask for more memory per processor than a small machine can spare.
const EVENTS_MAX: u64 = 40_000;

/// The mark by which a thread finds its number in the trace.
const HERE: &str = "durio is here";

/// The kernel's flag of kernel threads (PF_KTHREAD, sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

const BLOCK_EVENTS: [&str; 4] =
    ["block_bio_queue", "block_bio_complete", "block_rq_issue", "block_rq_complete"];

/// A trace that can begin.
struct PathTracer {
    instance: TraceInstance,
    clock: TraceClock,
    /// The calling thread, by the number that the trace has for it.
    thread: u32,
    root: PathBuf,
}

/// The events of a trace.
#[derive(Debug)]
struct PathTrace {
    text: TraceText,
    clock: TraceClock,
    thread: u32,
    /// Tasks of other programs that queued something during it.
    strangers: BTreeSet<u32>,
    /// Events that were not kept, or could not be read.
    lost: u64,
    /// Before this time events may be missing, on the clock of the trace.
    complete_from: u64,
}

impl PathTracer {
    /// Makes an instance for this many operations; the error text says why it cannot.
    fn make(
        root: &Path,
        layers: &[TracedLayer],
        clock: RunClock,
        operations: u64,
    ) -> Result<Self, String> {
        let clocks = match clock {
            RunClock::Tsc(_) => vec![TraceClock::Tsc, TraceClock::Monotonic],
            RunClock::Monotonic(_) => vec![TraceClock::Monotonic],
        };
        let names: Vec<&str> = clocks.iter().map(|clock| clock.name()).collect();
        let events = events_of(operations);
        let (mut instance, place) = TraceInstance::make(&tracefs(root)?, root, &names, events)?;
        let clock = clocks.get(place).copied().unwrap_or(TraceClock::Monotonic);
        let thread = number_in(&mut instance, clock)?;
        let tracer = Self { instance, clock, thread, root: root.to_path_buf() };
        tracer.set_up(layers)?;
        Ok(tracer)
    }

    fn set_up(&self, layers: &[TracedLayer]) -> Result<(), String> {
        let thread = self.thread;
        for call in ["sys_enter", "sys_exit"] {
            self.filter(&format!("raw_syscalls/{call}"), &format!("common_pid == {thread}"))?;
        }
        let switches = format!("prev_pid == {thread} || next_pid == {thread}");
        self.filter("sched/sched_switch", &switches)?;
        // Without a filter the events of every device would fill the buffer.
        if layers.is_empty() {
            return Ok(());
        }
        let devices: Vec<String> = layers.iter().map(TracedLayer::filter).collect();
        for event in BLOCK_EVENTS {
            self.filter(&format!("block/{event}"), &devices.join(" || "))?;
        }
        Ok(())
    }

    fn filter(&self, event: &str, filter: &str) -> Result<(), String> {
        self.instance.set(&format!("events/{event}/filter"), filter)
    }

    fn place(&self) -> String {
        self.instance.place()
    }

    /// Starts tracing. Events whose filter was not set are not switched on.
    fn start(&mut self) -> Result<(), String> {
        // An empty write clears the earlier trace.
        self.instance.set("trace", "")?;
        // Enabled last: the filters hold from the first event on.
        for event in ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_switch"] {
            self.instance.set(&format!("events/{event}/enable"), "1")?;
        }
        for event in BLOCK_EVENTS {
            let filter = format!("events/block/{event}/filter");
            if self.instance.reads(&filter).is_some_and(|text| text.trim() != "none") {
                self.instance.set(&format!("events/block/{event}/enable"), "1")?;
            }
        }
        self.instance.set("tracing_on", "1")
    }

    fn finish(self) -> Result<PathTrace, String> {
        let text = parse_trace(&self.instance.stopped_text()?, self.clock);
        let (clock, thread) = (self.clock, self.thread);
        let (lost, complete_from) = self.instance.losses(text.unreadable, |stats| match clock {
            TraceClock::Monotonic => stats.oldest.map(durio_base::Nanos::get),
            TraceClock::Tsc => stats.oldest_ticks,
        });
        let strangers = self.strangers(&text);
        let complete_from = complete_from.unwrap_or(0);
        Ok(PathTrace { text, clock, thread, strangers, lost, complete_from })
    }

    /// Tasks that queued something and are neither this process nor the kernel. Where the numbers
    /// of tasks differ from the trace (in a container), no task is known to be a stranger.
    fn strangers(&self, text: &TraceText) -> BTreeSet<u32> {
        let own = gettid().as_raw_nonzero().get().cast_unsigned();
        if own != self.thread {
            return BTreeSet::new();
        }
        let queued =
            text.events.iter().filter(|event| matches!(event.kind, TraceEventKind::Queued(_)));
        let tasks: BTreeSet<u32> = queued.map(|event| event.task).collect();
        tasks.into_iter().filter(|&task| task != own && self.is_stranger(task)).collect()
    }

    fn is_stranger(&self, task: u32) -> bool {
        let proc = self.root.join("proc");
        if proc.join("self/task").join(task.to_string()).exists() {
            return false;
        }
        // A thread of the kernel's outlives the trace, most often; a program may have ended.
        let stat = fs::read_to_string(proc.join(task.to_string()).join("stat"));
        !stat.is_ok_and(|text| is_kernel_thread(&text))
    }
}

/// The most events that this many operations make, or that there is room for.
fn events_of(operations: u64) -> u64 {
    operations.saturating_mul(EVENTS_EACH).min(EVENTS_MAX)
}

/// By the flags in `/proc/PID/stat`, the seventh field after the name (proc_pid_stat(5)).
fn is_kernel_thread(stat: &str) -> bool {
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// The number of the calling thread as the trace has it, which in a container is another than its
/// own.
fn number_in(instance: &mut TraceInstance, clock: TraceClock) -> Result<u32, String> {
    instance.set("tracing_on", "1")?;
    instance.mark_text(HERE)?;
    let text = parse_trace(&instance.stopped_text()?, clock);
    let is_mark =
        |kind: &TraceEventKind| matches!(kind, TraceEventKind::Mark(text) if text == HERE);
    let found = text.events.iter().find(|event| is_mark(&event.kind));
    found.map(|event| event.task).ok_or_else(|| "a mark does not appear in the trace".to_owned())
}

#[cfg(test)]
mod tests {
    use durio_observe::BlockFacts;

    use super::*;

    fn layer(kind: LayerKind, name: &str, device: &str, below: Vec<Layer>) -> Layer {
        let has_block = !matches!(kind, LayerKind::Filesystem | LayerKind::File);
        Layer {
            kind,
            name: name.to_owned(),
            device: Some(device.to_owned()),
            filesystem: None,
            block: has_block.then(BlockFacts::default),
            facts: Vec::new(),
            below,
        }
    }

    #[test]
    fn partitions_count_as_their_disks_and_members_as_themselves() {
        let disk = |name: &str, device| layer(LayerKind::Disk, name, device, vec![]);
        let part = layer(LayerKind::Partition, "sda1", "8:1", vec![disk("sda", "8:0")]);
        let array = layer(LayerKind::Md, "md0", "9:0", vec![part, disk("sdb", "8:16")]);
        let filesystem = layer(LayerKind::Filesystem, "/mnt", "9:0", vec![array]);
        let stack = Stack { target: "/mnt/file".to_owned(), root: filesystem };
        let traced = traced_layers(Path::new("/nowhere"), &stack);
        let short: Vec<_> = traced
            .iter()
            .map(|layer| (layer.device.name.as_str(), layer.device.lowest, &layer.numbers[..]))
            .collect();
        let numbers: [&[(u32, u32)]; 3] = [&[(9, 0)], &[(8, 1), (8, 0)], &[(8, 16)]];
        let [md0, sda, sdb] = numbers;
        assert_eq!(short, [("md0", false, md0), ("sda", true, sda), ("sdb", true, sdb)]);
        assert_eq!(traced[1].filter(), "dev == 8388609 || dev == 8388608");
    }

    #[test]
    fn what_has_no_number_is_not_traced() {
        for device in ["", "8", "x:y", "8:-1"] {
            let root = layer(LayerKind::Disk, "sda", device, vec![]);
            let stack = Stack { target: "/dev/sda".to_owned(), root };
            assert_eq!(traced_layers(Path::new("/nowhere"), &stack), [], "{device}");
        }
    }

    #[test]
    fn there_is_room_for_60_events_of_each_operation_up_to_40_000() {
        let events = [0, 1, 300, 666, 667, u64::MAX].map(events_of);
        assert_eq!(events, [0, 60, 18_000, 39_960, 40_000, 40_000]);
    }

    #[test]
    fn threads_of_the_kernel_are_told_from_programs() {
        let kernel = "54 (kworker/1:1H) I 2 0 0 0 -1 69238880 0 0 0 0 0 7 0 0 0 -20 1 0 24";
        let program = "812 (a) b) S 1 812 812 0 -1 4194560 2039 0 1 0 3 4 0 0 20 0 1 0 510";
        assert!(is_kernel_thread(kernel) && !is_kernel_thread(program));
        for odd in ["", ")", "1 (x) S", "1 (x) S 0 0 0 0 -1 x", "no name"] {
            assert!(!is_kernel_thread(odd), "{odd}");
        }
    }
}
