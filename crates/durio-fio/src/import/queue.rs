//! How accesses are submitted, and how fast.
//!
//! In: [`QueueOptions`]. Out: engine, depth, batch, and the rate of one copy. Not here: how many
//! copies there are.

use durio_plan::{BatchPolicy, EngineKind};
use durio_workload::{Arrivals, PerMille};

use super::said::{Said, or};
use super::sizes::Sizes;
use crate::job_file::{
    Direction, Engine, Given, PerDirection, Place, QueueOptions, RateProcess, SubmitMode,
};

/// The queue of one copy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Queue {
    pub(super) engine: EngineKind,
    pub(super) depth: u32,
    pub(super) batch: BatchPolicy,
    /// Of one copy.
    pub(super) arrivals: Arrivals,
    /// The share of reads, where rates of reads and of writes decide it.
    pub(super) read_share: Option<PerMille>,
}

/// Reads the queue of a job with accesses of these directions and sizes.
pub(super) fn queue(
    options: &QueueOptions,
    (direction, read_share, sizes): (Direction, PerMille, &Sizes),
    at: &Place,
    said: &mut Said,
) -> Queue {
    let QueueOptions {
        engine,
        depth,
        submit_batch,
        complete_batch_min,
        complete_batch_max,
        depth_low,
        bytes_per_second,
        accesses_per_second,
        rate_process,
        submit_mode,
        registered_buffers,
        registered_files,
    } = options;
    let kind = engine_kind(engine.as_ref(), said);
    if let Some(given) = submit_mode.as_ref().filter(|given| given.value == SubmitMode::Offload) {
        offloaded(kind, given, depth.as_ref(), said);
    }
    let asked_depth = or(depth.as_ref(), 1);
    let depth = depth_of(kind, depth.as_ref(), said);
    let batch = Batch {
        submit: submit_batch.as_ref(),
        complete_min: complete_batch_min.as_ref(),
        complete_max: complete_batch_max.as_ref(),
        low: depth_low.as_ref(),
    };
    let rate = Rate { direction, read_share, sizes, process: rate_process.as_ref() };
    if engine.as_ref().is_some_and(|given| given.value == Engine::Vsync) {
        unjoined(submit_batch.as_ref(), asked_depth, said);
    }
    if kind == EngineKind::Uring {
        registered(registered_buffers.as_ref(), registered_files.as_ref(), at, said);
    }
    let batch = batch.policy(depth, said);
    let (arrivals, read_share) = rate.arrivals(bytes_per_second, accesses_per_second, said);
    Queue { engine: kind, depth, batch, arrivals, read_share }
}

fn offloaded(
    kind: EngineKind,
    given: &Given<SubmitMode>,
    depth: Option<&Given<u32>>,
    said: &mut Said,
) {
    if !kind.is_asynchronous() && or(depth, 1) > 1 {
        let reason = "each of fio's threads waits for an access of its own; write numjobs for \
                      iodepth, or use an asynchronous engine";
        said.refuse(given, reason);
        return;
    }
    let what = "durio keeps the schedule of a rate without further threads, and tells the response \
                latency from the intended start";
    said.note(given, what);
}

/// fio's vsync makes one call of the neighbours that are submitted together.
fn unjoined(batch: Option<&Given<u32>>, depth: u32, said: &mut Said) {
    if depth > 1 {
        let reason = "with several at once vsync joins neighbours into one call, durio makes a call \
                      for each access; give iodepth_batch=1, or a larger bs";
        said.refuse_unless(batch, |batch| *batch == 1, reason);
    }
}

fn registered(
    buffers: Option<&Given<bool>>,
    files: Option<&Given<bool>>,
    at: &Place,
    said: &mut Said,
) {
    for (option, given) in [("fixedbufs", buffers), ("registerfiles", files)] {
        if !given.is_some_and(|given| given.value) {
            let what = "durio registers buffers and file with io_uring, which saves CPU time; the \
                        record says what was registered";
            said.note_at(given.map_or(at, |given| &given.at), option, what);
        }
    }
}

fn engine_kind(given: Option<&Given<Engine>>, said: &mut Said) -> EngineKind {
    let Some(given) = given else { return EngineKind::Sync };
    match given.value {
        Engine::Sync | Engine::Psync | Engine::Vsync | Engine::Pvsync | Engine::Pvsync2 => {
            EngineKind::Sync
        }
        Engine::Posixaio => {
            let what = "the C library does the accesses of a file one at a time, in a thread of its \
                        own; durio does them in the job's thread, one at a time: rates are alike, \
                        and fio's latency has the wait for those before";
            said.note(given, what);
            EngineKind::Sync
        }
        Engine::Libaio => EngineKind::Aio,
        Engine::IoUring => EngineKind::Uring,
        Engine::Null => {
            let reason = "fio's null engine measures fio itself; durio measures its own cost with \
                          durio run --target /dev/zero";
            said.refuse(given, reason);
            EngineKind::Sync
        }
    }
}

fn depth_of(engine: EngineKind, given: Option<&Given<u32>>, said: &mut Said) -> u32 {
    match given {
        Some(given) if !engine.is_asynchronous() && given.value > 1 => {
            let what = "this engine waits for each access: one is in flight, in fio as in durio";
            said.note(given, what);
            1
        }
        given => or(given, 1),
    }
}

/// What is said of batches.
struct Batch<'o> {
    submit: Option<&'o Given<u32>>,
    complete_min: Option<&'o Given<u32>>,
    complete_max: Option<&'o Given<u32>>,
    low: Option<&'o Given<u32>>,
}

impl Batch<'_> {
    /// As many are submitted at once as were taken at once; fio's default is one by one.
    fn policy(&self, depth: u32, said: &mut Said) -> BatchPolicy {
        let whole = |given: Option<&Given<u32>>| match or(given, 1) {
            0 => depth,
            batch => batch.min(depth),
        };
        if depth == 1 {
            return BatchPolicy { submit_max: 1 };
        }
        let (submit, complete) = (whole(self.submit), or(self.complete_max, 1).min(depth).max(1));
        said.refuse_unless(
            self.complete_min,
            |least| *least == 1,
            "durio takes what is complete as soon as one is, and waits for no more",
        );
        said.refuse_unless(
            self.low,
            |low| *low == 0 || *low >= depth,
            "durio refills each place as it is free and lets no queue run low",
        );
        if let Some(given) = self.complete_max.filter(|_| complete > submit) {
            let reason =
                "durio submits together what it took together; give iodepth_batch as large";
            said.refuse(given, reason);
        }
        BatchPolicy { submit_max: submit.min(complete) }
    }
}

/// What a rate depends on.
struct Rate<'o> {
    direction: Direction,
    read_share: PerMille,
    sizes: &'o Sizes,
    process: Option<&'o Given<RateProcess>>,
}

impl Rate<'_> {
    fn arrivals(
        &self,
        bytes: &PerDirection<Option<Given<u64>>>,
        accesses: &PerDirection<Option<Given<u32>>>,
        said: &mut Said,
    ) -> (Arrivals, Option<PerMille>) {
        let is_set = |given: &&Given<u64>| given.value > 0;
        let wide = |given: &Option<Given<u32>>| {
            let given = given.as_ref()?;
            let Given { value, option, at } = given;
            Some(Given { value: u64::from(*value), option, at: at.clone() })
        };
        let (read, write) = (wide(&accesses.read), wide(&accesses.write));
        let accesses = (read.as_ref().filter(is_set), write.as_ref().filter(is_set));
        let bytes = (bytes.read.as_ref().filter(is_set), bytes.write.as_ref().filter(is_set));
        let (by_bytes, by_accesses) = (self.of_direction(bytes), self.of_direction(accesses));
        let (sides, unit) = match (by_bytes, by_accesses) {
            ((None, None), (None, None)) => return (Arrivals::Closed, None),
            ((None, None), sides) => (sides, 1),
            (sides, (None, None)) => (sides, self.sizes.block_size.max(1)),
            (_, (Some(given), _) | (None, Some(given))) => {
                said.refuse(given, "give one of rate and rate_iops");
                return (Arrivals::Closed, None);
            }
        };
        if let (Some(given), true) = (sides.0.or(sides.1), unit > 1 && !self.sizes.is_single()) {
            said.refuse(given, "with several block sizes give rate_iops");
        }
        self.tell(sides, said);
        let (rate_per_second, read_share) = self.together(sides, unit);
        let arrivals = match or(self.process, RateProcess::Linear) {
            RateProcess::Linear => Arrivals::Constant { rate_per_second },
            RateProcess::Poisson => Arrivals::Poisson { rate_per_second },
        };
        (arrivals, read_share)
    }

    fn of_direction<'g>(&self, (read, write): Sides<'g>) -> Sides<'g> {
        match self.direction {
            Direction::Read => (read, None),
            Direction::Write => (None, write),
            Direction::Mixed => (read, write),
        }
    }

    /// Accesses per second, and the share of reads that follows from two rates.
    #[expect(clippy::cast_precision_loss, reason = "rates")]
    fn together(&self, sides: Sides<'_>, unit: u64) -> (f64, Option<PerMille>) {
        let rate = |given: &Given<u64>| given.value as f64 / unit as f64;
        let share = f64::from(self.read_share.0) / 1000.0;
        match (self.direction, sides) {
            (Direction::Mixed, (Some(reads), Some(writes))) => {
                let (reads, writes) = (rate(reads), rate(writes));
                let share = (reads / (reads + writes) * 1000.0).round();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "≤ 1000"
                )]
                let share = PerMille(share as u16);
                (reads + writes, Some(share))
            }
            // The other kind keeps its share beside the one that has a rate.
            (Direction::Mixed, (Some(reads), None)) => (rate(reads) / share, None),
            (Direction::Mixed, (None, Some(writes))) => (rate(writes) / (1.0 - share), None),
            (_, (given, other)) => (given.or(other).map_or(0.0, rate), None),
        }
    }

    fn tell(&self, sides: Sides<'_>, said: &mut Said) {
        let Some(given) = sides.0.or(sides.1) else { return };
        if self.direction == Direction::Mixed {
            let what = "fio paces reads and writes each on its own; durio draws which of the two is \
                        due, so that each has its rate in the mean, whatever rwmixread says";
            said.note(given, what);
        }
        let what = "durio keeps the schedule whatever the storage does: service latency is fio's \
                    latency, response latency counts from the intended start";
        said.note(given, what);
    }
}

/// What is given for reads and for writes.
type Sides<'g> = (Option<&'g Given<u64>>, Option<&'g Given<u64>>);
