//! How accesses are submitted, how fast, and for how long.
//!
//! [`QueueOptions`] become the engine, depth, batch and rate of one copy, [`TimingOptions`] its
//! bounds; bounds over copies and groups are set elsewhere.

use durio_base::Nanos;
use durio_plan::{BatchPolicy, DrainPolicy, EngineKind, ThinkTime};
use durio_workload::{Arrivals, PerMille};

use super::accesses::AccessSizes;
use super::{ImportNotes, or, place_or};
use crate::job_file::{
    Direction, ExitScope, FioEngine, GivenOption, GivenValue, QueueOptions, RateProcess,
    SourcePosition, SubmitMode, TimingOptions,
};

#[derive(Debug)]
pub(super) struct ImportedQueue {
    pub(super) engine: EngineKind,
    pub(super) depth: u32,
    pub(super) batch: BatchPolicy,
    pub(super) drain: Option<DrainPolicy>,
    /// The rate of one copy.
    pub(super) arrivals: Arrivals,
    /// The share of reads, where rates of reads and of writes decide it.
    pub(super) read_share: Option<PerMille>,
}

/// The accesses that are queued: directions, sizes.
type Accesses<'a> = (Direction, &'a AccessSizes);

pub(super) fn queue(
    options: &QueueOptions,
    accesses: Accesses<'_>,
    at: &SourcePosition,
    said: &mut ImportNotes,
) -> ImportedQueue {
    // Every option is named here; those of batches and rates are taken below.
    let QueueOptions {
        engine,
        depth,
        submit_batch,
        complete_batch_min: _,
        complete_batch_max: _,
        depth_low: _,
        think_us,
        think_after: _,
        bytes_per_second: _,
        accesses_per_second: _,
        rate_process: _,
        submit_mode,
        registered_buffers,
        registered_files,
    } = options;
    let kind = engine_kind(engine.as_ref(), said);
    if let Some(given) = submit_mode.as_ref().filter(|given| given.value == SubmitMode::Offload) {
        offloaded(kind, given, or(depth, 1), said);
    }
    let queue_depth = depth_of(kind, depth.as_ref(), said);
    if or(engine, FioEngine::Psync) == FioEngine::Vsync && or(depth, 1) > 1 {
        let reason = "with several at once vsync joins neighbours into one call, durio makes a call \
                      for each access; give iodepth_batch=1, or a larger bs";
        said.refuse_unless(submit_batch, |batch| *batch == 1, reason);
    }
    if kind == EngineKind::Uring {
        let what = "durio registers buffers and files with io_uring in any case, which saves CPU \
                    time; the record lists what was registered";
        for given in [registered_buffers, registered_files].into_iter().flatten() {
            if !given.value {
                said.note(given, what);
            }
        }
    }
    let (batch, drain) = batch(options, queue_depth, said);
    let (arrivals, read_share) = arrivals(options, accesses, said);
    if let Some(given) = think_us.as_ref().filter(|given| given.value > 0)
        && !arrivals.is_closed()
    {
        let reason = "at a rate durio starts each access when it is due, without pauses; leave out \
                      the rate or thinktime";
        said.refuse(given, reason);
    } else if drain.is_some() && !arrivals.is_closed() {
        let reason = "at a rate durio starts each access when it is due, without batches; leave \
                      out the rate, or iodepth_low and the completion batches";
        said.refuse_at(at, "iodepth_batch_complete_min", reason);
    }
    ImportedQueue { engine: kind, depth: queue_depth, batch, drain, arrivals, read_share }
}

fn offloaded(kind: EngineKind, given: &GivenValue<SubmitMode>, depth: u32, said: &mut ImportNotes) {
    if !kind.is_asynchronous() && depth > 1 {
        let reason = "each of fio's threads waits for one access; use numjobs instead of iodepth, \
                      or an asynchronous engine";
        return said.refuse(given, reason);
    }
    let what = "durio keeps a rate's schedule without extra threads; response latency counts from \
                the scheduled start";
    said.note(given, what);
}

fn engine_kind(given: Option<&GivenValue<FioEngine>>, said: &mut ImportNotes) -> EngineKind {
    // fio's default is psync.
    let Some(given) = given else { return EngineKind::Sync };
    match given.value {
        FioEngine::Sync
        | FioEngine::Psync
        | FioEngine::Vsync
        | FioEngine::Pvsync
        | FioEngine::Pvsync2 => EngineKind::Sync,
        FioEngine::Posixaio => {
            let what = "the C library does the accesses of a file one at a time in a separate \
                        thread, durio in the job's thread: rates are alike, but fio's latency \
                        includes the wait for earlier accesses";
            said.note(given, what);
            EngineKind::Sync
        }
        FioEngine::Libaio => EngineKind::Aio,
        FioEngine::Mmap => EngineKind::Mmap,
        FioEngine::IoUring => EngineKind::Uring,
        FioEngine::Null => {
            let reason = "fio's null engine measures fio itself; durio measures its own cost with \
                          durio run --target /dev/zero";
            said.refuse(given, reason);
            EngineKind::Sync
        }
    }
}

fn depth_of(engine: EngineKind, given: Option<&GivenValue<u32>>, said: &mut ImportNotes) -> u32 {
    match given {
        Some(given) if !engine.is_asynchronous() && given.value > 1 => {
            let what = "this engine waits for each access: one is in flight, as in fio";
            said.note(given, what);
            1
        }
        given => given.map_or(1, |given| given.value),
    }
}

// fio fills its queue, submits whenever a batch is together, and takes completions when the queue is
// full. Where that is one refilled for one taken, durio's own loop does the same.
fn batch(
    options: &QueueOptions,
    depth: u32,
    said: &mut ImportNotes,
) -> (BatchPolicy, Option<DrainPolicy>) {
    let QueueOptions { submit_batch, complete_batch_min, complete_batch_max, depth_low, .. } =
        options;
    let think = think_time(options);
    // With one in flight there is nothing to gather, whatever the options say.
    if depth == 1 && think.is_none() {
        return (BatchPolicy { submit_max: 1 }, None);
    }
    // fio takes 0, and anything beyond the depth, for the depth.
    let within = |number: u32| if number == 0 { depth } else { number.min(depth) };
    let submit = within(or(submit_batch, 1));
    said.refuse_unless(
        complete_batch_min,
        |least| *least > 0,
        "durio waits for a completion when the queue is full, and does not poll",
    );
    let take_min = or(complete_batch_min, 1).clamp(1, depth);
    let take_max = or(complete_batch_max, 1).clamp(take_min, depth);
    let refill_at = within(or(depth_low, 0));
    if take_min == 1 && refill_at == depth && take_max <= submit && think.is_none() {
        return (BatchPolicy { submit_max: take_max }, None);
    }
    let drain = DrainPolicy { take_min, take_max, refill_at, think };
    (BatchPolicy { submit_max: submit }, Some(drain))
}

fn think_time(options: &QueueOptions) -> Option<ThinkTime> {
    let length_ns = or(&options.think_us, 0).saturating_mul(1000);
    let after = or(&options.think_after, 1).into();
    (length_ns > 0).then_some(ThinkTime { length_ns, after })
}

/// The values given for reads and for writes.
type ReadWriteValues<'g> = (Option<&'g GivenValue<u64>>, Option<&'g GivenValue<u64>>);

/// Those above 0, of the directions that occur.
fn sides<'g>(
    direction: Direction,
    read: &'g GivenOption<u64>,
    write: &'g GivenOption<u64>,
) -> ReadWriteValues<'g> {
    let is_set = |given: &&GivenValue<u64>| given.value > 0;
    let read = read.as_ref().filter(is_set).filter(|_| direction != Direction::Write);
    let write = write.as_ref().filter(is_set).filter(|_| direction != Direction::Read);
    (read, write)
}

fn arrivals(
    options: &QueueOptions,
    (direction, sizes): Accesses<'_>,
    said: &mut ImportNotes,
) -> (Arrivals, Option<PerMille>) {
    let QueueOptions { bytes_per_second: bytes, accesses_per_second: accesses, .. } = options;
    let by_bytes = sides(direction, &bytes.read, &bytes.write);
    let by_accesses = sides(direction, &accesses.read, &accesses.write);
    let (sides, unit) = match (by_bytes, by_accesses) {
        ((None, None), (None, None)) => return (Arrivals::Closed, None),
        ((None, None), sides) => (sides, 1),
        (sides, (None, None)) => (sides, sizes.block_size.max(1)),
        (_, (Some(given), _) | (None, Some(given))) => {
            said.refuse(given, "give one of rate and rate_iops");
            return (Arrivals::Closed, None);
        }
    };
    if let (Direction::Mixed, (Some(given), None) | (None, Some(given))) = (direction, sides) {
        let reason = "it limits only reads or only writes; durio limits both or neither: write a \
                      section for reads and one for writes";
        said.refuse(given, reason);
        return (Arrivals::Closed, None);
    }
    if let Some(given) = sides.0.or(sides.1) {
        if unit > 1 && !sizes.is_single() {
            said.refuse(given, "with several block sizes give rate_iops");
        }
        if direction == Direction::Mixed {
            let what = "fio paces reads and writes separately; durio draws which one is due, so \
                        each keeps its mean rate, whatever rwmixread says";
            said.note(given, what);
        }
        let what = "durio keeps the schedule however slow the storage is: service latency is \
                    fio's latency, response latency counts from the scheduled start";
        said.note(given, what);
    }
    let (rate_per_second, read_share) = together(direction, sides, unit);
    let arrivals = match or(&options.rate_process, RateProcess::Linear) {
        RateProcess::Linear => Arrivals::Constant { rate_per_second },
        RateProcess::Poisson => Arrivals::Poisson { rate_per_second },
    };
    (arrivals, read_share)
}

/// Accesses per second, and the share of reads that follows from two rates.
#[expect(clippy::cast_precision_loss, reason = "rates")]
fn together(
    direction: Direction,
    sides: ReadWriteValues<'_>,
    unit: u64,
) -> (f64, Option<PerMille>) {
    let rate = |given: &GivenValue<u64>| given.value as f64 / unit as f64;
    match (direction, sides) {
        (Direction::Mixed, (Some(reads), Some(writes))) => {
            let (reads, writes) = (rate(reads), rate(writes));
            let share = (reads / (reads + writes) * 1000.0).round();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "≤ 1000")]
            let share = PerMille(share as u16);
            (reads + writes, Some(share))
        }
        (_, (given, other)) => (given.or(other).map_or(0.0, rate), None),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JobTiming {
    /// True if `size` bounds it.
    pub(super) is_by_volume: bool,
    pub(super) duration: Option<Nanos>,
    pub(super) ramp: Nanos,
    /// Since the start of fio.
    pub(super) start_delay: Nanos,
    /// The delay is drawn; in fio by each copy of a job.
    pub(super) draws_start: bool,
    pub(super) loops: u32,
    /// The scope of `exitall`, if it is given.
    pub(super) ends: Option<ExitScope>,
}

/// Reads when and how long a job runs; `draw` is a number drawn from all of 64 bits.
pub(super) fn timing(
    options: &TimingOptions,
    (at, draw): (&SourcePosition, u64),
    said: &mut ImportNotes,
) -> JobTiming {
    let TimingOptions {
        runtime_us,
        time_based,
        ramp_us,
        start_delay_us,
        loops,
        // Groups are made of these where jobs are resolved.
        stonewall: _,
        wait_for: _,
        new_group: _,
        exit_all,
        exit_scope,
    } = options;
    let runtime = or(runtime_us, 0);
    let duration = (runtime > 0).then(|| nanos(runtime));
    let wants_time = time_based.as_ref().filter(|given| given.value);
    if let (Some(given), None) = (wants_time, duration) {
        said.note(given, "without a runtime the size decides, as in fio");
    }
    let is_timed = wants_time.is_some() && duration.is_some();
    if let (true, Some(given)) = (is_timed, loops.as_ref().filter(|given| given.value > 1)) {
        said.note(given, "time_based decides");
    }
    if duration.is_some_and(|duration| duration > TIME_MAX) {
        said.refuse_at(place_or(runtime_us, at), "runtime", "more than a year");
    }
    let start_delay = start_delay_us.as_ref().map_or(0, |given| drawn(given, draw, said));
    JobTiming {
        is_by_volume: !is_timed,
        duration,
        // Bytes moved in the ramp count towards the size of a job, in fio as in durio.
        ramp: nanos(or(ramp_us, 0)),
        start_delay: nanos(start_delay),
        draws_start: start_delay_us.as_ref().is_some_and(|given| given.value.0 < given.value.1),
        loops: or(loops, 1),
        ends: exit_all.as_ref().map(|_| or(exit_scope, ExitScope::Group)),
    }
}

/// Microseconds from the range, each as likely as another, as fio draws them.
fn drawn(given: &GivenValue<(u64, u64)>, draw: u64, said: &mut ImportNotes) -> u64 {
    let (least, most) = given.value;
    if most < least {
        said.refuse(given, "the range begins after its end");
    }
    if most <= least {
        return least;
    }
    // The high bits of a product: a remainder would favour low values.
    let width = u128::from((most - least).saturating_add(1));
    let above = (u128::from(draw) * width) >> 64;
    let delay = least.saturating_add(u64::try_from(above).unwrap_or(0));
    said.note(given, &format!("the drawn delay is {}", nanos(delay)));
    delay
}

// Beyond a year, a unit was mistaken; and sums of times must not overflow.
const TIME_MAX: Nanos = Nanos::from_secs(366 * 86_400);

fn nanos(micros: u64) -> Nanos {
    Nanos::from_micros(micros.min(TIME_MAX.get() / 1000 + 1))
}
