//! How accesses are submitted, and how fast.
//!
//! In: [`QueueOptions`]. Out: engine, depth, batch, and the rate of one copy. Not here: how many
//! copies there are.

use durio_plan::{BatchPolicy, EngineKind};
use durio_workload::Arrivals;

use super::said::{Said, or};
use super::sizes::Sizes;
use crate::job_file::{Direction, Engine, Given, PerDirection, Place, QueueOptions, RateProcess};

/// The queue of one copy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Queue {
    pub(super) engine: EngineKind,
    pub(super) depth: u32,
    pub(super) batch: BatchPolicy,
    /// Of one copy.
    pub(super) arrivals: Arrivals,
}

/// Reads the queue of a job with accesses of these directions and sizes.
pub(super) fn queue(
    options: &QueueOptions,
    (direction, sizes): (Direction, &Sizes),
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
        polled,
        registered_buffers,
        registered_files,
        submission_thread,
        submission_thread_cpu,
    } = options;
    let kind = engine_kind(engine.as_ref(), said);
    let depth = depth_of(kind, depth.as_ref(), said);
    let batch = Batch {
        submit: submit_batch.as_ref(),
        complete_min: complete_batch_min.as_ref(),
        complete_max: complete_batch_max.as_ref(),
        low: depth_low.as_ref(),
    };
    let rate = Rate { direction, sizes, process: rate_process.as_ref() };
    let polled = polled.as_ref();
    said.refuse_unless("hipri", polled, |on| !on, "durio waits for completions and does not poll");
    let reason = "durio submits itself, without a thread of the kernel";
    said.refuse_unless("sqthread_poll", submission_thread.as_ref(), |on| !on, reason);
    if let Some(given) = submission_thread_cpu {
        said.note("sqthread_poll_cpu", given, "it means something with sqthread_poll alone");
    }
    if kind == EngineKind::Uring {
        registered(registered_buffers.as_ref(), registered_files.as_ref(), at, said);
    }
    Queue {
        engine: kind,
        depth,
        batch: batch.policy(depth, said),
        arrivals: rate.arrivals(bytes_per_second, accesses_per_second, said),
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
        Engine::Sync | Engine::Psync | Engine::Pvsync | Engine::Pvsync2 => EngineKind::Sync,
        Engine::Libaio => EngineKind::Aio,
        Engine::IoUring => EngineKind::Uring,
        Engine::Null => {
            let reason = "fio's null engine measures fio itself; durio measures its own cost with \
                          durio run --target /dev/zero";
            said.refuse("ioengine", given, reason);
            EngineKind::Sync
        }
    }
}

fn depth_of(engine: EngineKind, given: Option<&Given<u32>>, said: &mut Said) -> u32 {
    match given {
        Some(given) if !engine.is_asynchronous() && given.value > 1 => {
            let what = "this engine waits for each access: one is in flight, in fio as in durio";
            said.note("iodepth", given, what);
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
            "iodepth_batch_complete_min",
            self.complete_min,
            |least| *least == 1,
            "durio takes what is complete as soon as one is, and waits for no more",
        );
        said.refuse_unless(
            "iodepth_low",
            self.low,
            |low| *low == 0 || *low >= depth,
            "durio refills each place as it is free and lets no queue run low",
        );
        if let Some(given) = self.complete_max.filter(|_| complete > submit) {
            let reason =
                "durio submits together what it took together; give iodepth_batch as large";
            said.refuse("iodepth_batch_complete_max", given, reason);
        }
        BatchPolicy { submit_max: submit.min(complete) }
    }
}

/// What a rate depends on.
struct Rate<'o> {
    direction: Direction,
    sizes: &'o Sizes,
    process: Option<&'o Given<RateProcess>>,
}

impl Rate<'_> {
    fn arrivals(
        &self,
        bytes: &PerDirection<Option<Given<u64>>>,
        accesses: &PerDirection<Option<Given<u32>>>,
        said: &mut Said,
    ) -> Arrivals {
        let bytes = self.side(bytes).filter(|given| given.value > 0);
        let accesses = self.side(accesses).filter(|given| given.value > 0);
        let rate_per_second = match (bytes, accesses) {
            (None, None) => return Arrivals::Closed,
            (Some(_), Some(given)) => {
                said.refuse("rate_iops", given, "give one of rate and rate_iops");
                return Arrivals::Closed;
            }
            (None, Some(given)) => self.paced("rate_iops", given, f64::from(given.value), said),
            (Some(given), None) => {
                let single = self.sizes.is_single();
                if !single {
                    let reason = "with several block sizes give rate_iops";
                    said.refuse("rate", given, reason);
                }
                #[expect(clippy::cast_precision_loss, reason = "a rate")]
                let rate = given.value as f64 / self.sizes.block_size.max(1) as f64;
                self.paced("rate", given, rate, said)
            }
        };
        match or(self.process, RateProcess::Linear) {
            RateProcess::Linear => Arrivals::Constant { rate_per_second },
            RateProcess::Poisson => Arrivals::Poisson { rate_per_second },
        }
    }

    fn side<'g, T>(&self, given: &'g PerDirection<Option<Given<T>>>) -> Option<&'g Given<T>> {
        match self.direction {
            Direction::Read => given.read.as_ref(),
            Direction::Write => given.write.as_ref(),
            Direction::Mixed => given.read.as_ref().or(given.write.as_ref()),
        }
    }

    fn paced<T>(&self, option: &str, given: &Given<T>, rate: f64, said: &mut Said) -> f64 {
        if self.direction == Direction::Mixed {
            let reason = "fio paces reads and writes each on its own; write a job that reads and \
                          one that writes";
            said.refuse(option, given, reason);
        }
        let what = "durio keeps the schedule whatever the storage does: service latency is fio's \
                    latency, response latency counts from the intended start";
        said.note(option, given, what);
        rate
    }
}
