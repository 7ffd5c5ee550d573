//! Facts about a part of a slow call's time, for the rules.

use std::cell::OnceCell;

use durio_base::Bytes;
use durio_observe::{KernelEventKind, RequestOperation, TraceTask};
use serde::Deserialize;

use super::requests::{DeviceNumber, RequestLife};
use super::window::{IndexedWindow, WindowPart};
use super::{Other, PieceKind};

/// Smaller requests of others do not hold a device up.
const LARGE_BYTES: u64 = 128 << 10;
/// The caller's own data is large from here.
const OWN_BYTES: u64 = 1 << 20;
/// This many requests of others fill a device, however small they are.
const MANY_REQUESTS: usize = 16;
/// Filesystem blocks of a commit that is large: 1 MiB of 4 KiB.
const LARGE_COMMIT_BLOCKS: u32 = 256;
/// Others that are named.
const OTHERS_MAX: usize = 3;
/// Functions in which every waiting thread is: the next one says what it waits for.
const GENERAL_FUNCTIONS: [&str; 12] = [
    "schedule",
    "io_schedule",
    "schedule_timeout",
    "io_schedule_timeout",
    "schedule_preempt_disabled",
    "bit_wait",
    "bit_wait_io",
    "__wait_on_bit",
    "out_of_line_wait_on_bit",
    "__wait_for_common",
    "wait_for_completion",
    "wait_for_completion_io",
];

/// What others or the caller did at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Beside {
    /// Large requests of other threads, or very many, at the device.
    LargeWrites,
    /// Requests of the kernel's writeback.
    BufferedWriteback,
    Discard,
    /// A flush at the device while another request is there.
    Flush,
    /// Requests of an md resync.
    Resync,
    /// Several commits of the journal in the time of the call.
    SyncStorm,
    /// A commit that had begun before the call.
    OtherCommit,
    LargeCommit,
    Checkpoint,
    /// The thread looks for free memory.
    Reclaim,
    /// The thread has too many dirty pages.
    DirtyPause,
    /// One thread had the processor most of the time, or several had it.
    OneThread,
    ManyThreads,
    /// The caller's own data, much of it.
    OwnWrites,
    /// One request took most of the call.
    LongRequest,
    /// The driver gave the request back.
    Requeued,
}

/// Facts that are read next to the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WindowFact {
    Steal,
    Frozen,
    Resync,
    CpuThrottled,
}

/// Whom a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Who {
    /// Those who had the processor.
    Runners,
    /// Those whose requests were at the device.
    InFlight,
    /// The thread that held the lock or finished the work.
    Holder,
    /// The thread that was looked at.
    Lane,
    /// Those who waited in the same functions.
    SameStack,
    /// Those who wrote at any time of the call.
    Writers,
}

/// Requests of another thread during a part.
#[derive(Debug, Clone, Copy)]
struct Flight<'w> {
    task: &'w TraceTask,
    ns: u64,
    bytes: u64,
    operation: RequestOperation,
}

#[derive(Debug)]
pub(super) struct PieceEvidence<'t, 'w> {
    indexed: &'t IndexedWindow<'w>,
    pub(super) part: &'t WindowPart<'w>,
    flights: OnceCell<Vec<Flight<'w>>>,
}

impl<'t, 'w> PieceEvidence<'t, 'w> {
    pub(super) fn new(indexed: &'t IndexedWindow<'w>, part: &'t WindowPart<'w>) -> Self {
        Self { indexed, part, flights: OnceCell::new() }
    }

    fn ns(&self) -> u64 {
        self.part.end.saturating_sub(self.part.begin)
    }

    fn request(&self) -> Option<&'t RequestLife<'w>> {
        self.indexed.requests.lives.get(self.part.request?)
    }

    pub(super) fn operation(&self) -> Option<RequestOperation> {
        let request = self.request()?;
        Some(if request.bytes == 0 { RequestOperation::Flush } else { request.operation })
    }

    /// True if a thread on the way waits in one of these functions.
    pub(super) fn waits_in(&self, functions: &[String]) -> bool {
        let mut frames = self.part.path.stacks.iter().copied().flatten();
        frames.any(|frame| functions.contains(frame))
    }

    pub(super) fn works_on(&self, functions: &[String]) -> bool {
        let mut works = self.part.path.works.iter();
        works.any(|work| functions.iter().map(String::as_str).any(|function| function == *work))
    }

    pub(super) fn fact(&self, fact: WindowFact) -> bool {
        let facts = &self.indexed.window.facts;
        match fact {
            WindowFact::Steal => {
                let processor = self.part.processor.and_then(|number| usize::try_from(number).ok());
                let steal = processor.map_or_else(
                    || facts.steal.iter().copied().max(),
                    |number| facts.steal.get(number).copied(),
                );
                steal.is_some_and(|steal| steal.saturating_mul(3) >= self.ns())
            }
            WindowFact::Frozen => facts.is_frozen,
            WindowFact::Resync => !facts.resyncs.is_empty(),
            WindowFact::CpuThrottled => facts.cpu_throttled.saturating_mul(2) >= self.ns(),
        }
    }

    pub(super) fn beside(&self, beside: Beside) -> bool {
        let call = &self.indexed.window.call;
        let commits = &self.indexed.requests.commits;
        match beside {
            Beside::LargeWrites => self.fill(|flight| {
                flight.operation != RequestOperation::Discard
                    && !is_writeback(flight.task)
                    && !is_resync(flight.task)
            }),
            Beside::BufferedWriteback => self.fill(|flight| {
                flight.operation != RequestOperation::Discard && is_writeback(flight.task)
            }),
            Beside::Resync => self.fill(|flight| is_resync(flight.task)),
            Beside::Discard => {
                self.takes(5, |flight| flight.operation == RequestOperation::Discard)
            }
            Beside::Flush => {
                self.operation() != Some(RequestOperation::Flush)
                    && self.takes(2, |flight| flight.bytes == 0)
            }
            Beside::SyncStorm => {
                commits.iter().filter(|commit| commit.overlaps(call.begin, call.end)).count() >= 2
            }
            Beside::OtherCommit => commits.iter().any(|commit| {
                commit.began < call.begin && commit.overlaps(self.part.begin, self.part.end)
            }),
            Beside::LargeCommit => commits.iter().any(|commit| {
                commit.blocks >= LARGE_COMMIT_BLOCKS
                    && commit.overlaps(self.part.begin, self.part.end)
            }),
            Beside::Checkpoint => self.happened(|kind, thread| {
                matches!(kind, KernelEventKind::JournalCheckpoint { .. })
                    && thread != call.thread.id
            }),
            Beside::Reclaim => self.is_reclaiming(),
            Beside::DirtyPause => self.happened(|kind, thread| {
                matches!(kind, KernelEventKind::DirtyPause { pause_ms } if *pause_ms > 0)
                    && thread == self.part.thread
            }),
            Beside::OneThread => {
                let runners = self.runners();
                let busy: u64 = runners.iter().map(|(_, ns)| ns).sum();
                let most = runners.first().map_or(0, |(_, ns)| *ns);
                busy.saturating_mul(3) >= self.ns()
                    && most.saturating_mul(5) >= busy.saturating_mul(3)
            }
            Beside::ManyThreads => {
                let busy: u64 = self.runners().iter().map(|(_, ns)| ns).sum();
                busy > 0 && busy.saturating_mul(3) >= self.ns()
            }
            Beside::OwnWrites => self.own_bytes() >= OWN_BYTES,
            Beside::LongRequest => {
                let latency = call.end.saturating_sub(call.begin);
                self.request().is_some_and(|request| {
                    request.at_device(call.begin, call.end).saturating_mul(5)
                        >= latency.saturating_mul(3)
                })
            }
            Beside::Requeued => self.request().is_some_and(|request| request.is_requeued),
        }
    }

    /// An event from the begin of the call to the end of the part.
    fn happened(&self, is_it: impl Fn(&KernelEventKind, u32) -> bool) -> bool {
        let (begin, end) = (self.indexed.window.call.begin, self.part.end);
        let mut events = self.indexed.rare_events.iter();
        let is_then = |at: u64| (begin..=end).contains(&at);
        events.any(|event| is_then(event.at) && is_it(&event.kind, event.task.id))
    }

    /// True if the thread looked for memory in half of the part.
    fn is_reclaiming(&self) -> bool {
        let (begin, end) = (self.part.begin, self.part.end);
        let (mut began, mut ns) = (None, 0_u64);
        for event in self.indexed.rare_events.iter().take_while(|event| event.at < end) {
            if event.task.id != self.part.thread {
                continue;
            }
            match event.kind {
                KernelEventKind::ReclaimBegan => began = Some(event.at.max(begin)),
                KernelEventKind::ReclaimEnded { .. } => {
                    let since = began.take().unwrap_or(event.at);
                    ns = ns.saturating_add(event.at.saturating_sub(since));
                }
                _ => {}
            }
        }
        ns = ns.saturating_add(end.saturating_sub(began.unwrap_or(end)));
        ns > 0 && ns.saturating_mul(2) >= self.ns()
    }

    /// Threads that had the processor, the one that had it longest first.
    fn runners(&self) -> Vec<(u32, u64)> {
        let Some(processor) = self.part.processor else { return Vec::new() };
        let (begin, end) = (self.part.begin, self.part.end);
        let mut runners = self.indexed.threads.on_processor(processor, begin, end);
        runners.retain(|(thread, _)| *thread != 0 && *thread != self.part.thread);
        runners.sort_by_key(|(thread, ns)| (std::cmp::Reverse(*ns), *thread));
        runners
    }

    fn is_own(&self, task: &TraceTask) -> bool {
        let call = &self.indexed.window.call;
        self.part.path.threads.contains(&task.id) || task.id == call.process
    }

    /// Requests of others that were at the device, or at any device if the part has none.
    fn flights(&self) -> &[Flight<'w>] {
        self.flights.get_or_init(|| {
            let device = self.request().map(|request| request.device);
            let is_at_device = matches!(self.part.kind, PieceKind::Device | PieceKind::Queued);
            let lives = self.indexed.requests.lives.iter().enumerate();
            let lives = lives.filter(|(number, life)| {
                Some(*number) != self.part.request && (!is_at_device || Some(life.device) == device)
            });
            let flight = |(_, life): (usize, &RequestLife<'w>)| {
                let task = life.by.filter(|task| !self.is_own(task))?;
                let ns = life.at_device(self.part.begin, self.part.end);
                let (bytes, operation) = (life.bytes, life.operation);
                (ns > 0).then_some(Flight { task, ns, bytes, operation })
            };
            lives.filter_map(flight).collect()
        })
    }

    /// True if these requests of others fill the device for a third of the part.
    fn fill(&self, is_it: impl Fn(&Flight<'_>) -> bool) -> bool {
        let flights = self.flights().iter().filter(|flight| is_it(flight) && flight.bytes > 0);
        let (mut bytes, mut ns, mut requests) = (0_u64, 0_u64, 0_usize);
        for flight in flights {
            bytes = bytes.saturating_add(flight.bytes);
            ns = ns.saturating_add(flight.ns);
            requests += 1;
        }
        let is_much = bytes >= LARGE_BYTES || requests >= MANY_REQUESTS;
        is_much && ns.saturating_mul(3) >= self.ns()
    }

    /// True if these requests take this part of the time, such as a fifth.
    fn takes(&self, part: u64, is_it: impl Fn(&Flight<'_>) -> bool) -> bool {
        let flights = self.flights().iter().filter(|flight| is_it(flight));
        let ns = flights.map(|flight| flight.ns).fold(0, u64::saturating_add);
        ns > 0 && ns.saturating_mul(part) >= self.ns()
    }

    /// Bytes of the caller's requests that were at the device in the part.
    fn own_bytes(&self) -> u64 {
        let lives = self.indexed.requests.lives.iter();
        let own = lives.filter(|life| {
            life.by.is_some_and(|task| self.is_own(task))
                && life.at_device(self.part.begin, self.part.end) > 0
        });
        own.map(|life| life.bytes).fold(0, u64::saturating_add)
    }

    /// The others that a rule names, those first that were in the way most.
    pub(super) fn others(&self, who: Option<Who>, functions: &[String]) -> Vec<Other> {
        let (begin, end) = (self.part.begin, self.part.end);
        let named = |(thread, ns): (u32, u64)| {
            let name = self.indexed.threads.name_of(thread).to_owned();
            Other { thread, name, ns, bytes: 0 }
        };
        let mut others: Vec<Other> = match who {
            None => Vec::new(),
            Some(Who::Runners) => self.runners().into_iter().map(named).collect(),
            Some(Who::Holder) => {
                let holder = self.part.path.threads.get(1).copied();
                holder.map(|thread| named((thread, self.ns()))).into_iter().collect()
            }
            Some(Who::Lane) => vec![named((self.part.thread, self.ns()))],
            Some(Who::SameStack) => {
                let waiting = self.indexed.threads.waiting_in(functions, begin, end);
                let waiting = waiting.into_iter();
                let strangers =
                    waiting.filter(|(thread, _)| !self.part.path.threads.contains(thread));
                strangers.map(named).collect()
            }
            Some(Who::InFlight) => {
                let flights = self.flights().iter().filter(|flight| flight.bytes > 0);
                self.grouped(flights.map(|flight| (flight.task, flight.ns, flight.bytes)))
            }
            Some(Who::Writers) => self.writers(),
        };
        others.sort_by(|a, b| (b.bytes, b.ns, a.thread).cmp(&(a.bytes, a.ns, b.thread)));
        others.truncate(OTHERS_MAX);
        others
    }

    fn writers(&self) -> Vec<Other> {
        let call = &self.indexed.window.call;
        let lives = self.indexed.requests.lives.iter();
        let writes = lives.filter_map(|life| {
            let task = life.by.filter(|task| task.id != call.thread.id)?;
            let ns = life.at_device(call.begin, call.end);
            let is_write = life.operation == RequestOperation::Write && life.bytes > 0;
            (is_write && ns > 0).then_some((task, ns, life.bytes))
        });
        self.grouped(writes)
    }

    /// Requests by thread. Writeback is done for the process that dirties pages, if one is known.
    fn grouped<'a>(&self, requests: impl Iterator<Item = (&'a TraceTask, u64, u64)>) -> Vec<Other> {
        let dirtier = self.dirtier();
        let mut others: Vec<Other> = Vec::new();
        for (task, ns, bytes) in requests {
            let is_for_another = is_writeback(task) || task.name.starts_with("jbd2/");
            let task = dirtier.filter(|_| is_for_another).unwrap_or(task);
            match others.iter_mut().find(|other| other.thread == task.id) {
                Some(other) => {
                    other.ns = other.ns.saturating_add(ns);
                    other.bytes = other.bytes.saturating_add(bytes);
                }
                None => {
                    let name = match task.name.as_str() {
                        "" => self.indexed.threads.name_of(task.id),
                        name => name,
                    };
                    others.push(Other { thread: task.id, name: name.to_owned(), ns, bytes });
                }
            }
        }
        // Requests overlap at the device.
        for other in &mut others {
            other.ns = other.ns.min(self.ns());
        }
        others
    }

    /// The other process that dirties pages most.
    fn dirtier(&self) -> Option<&'w TraceTask> {
        let mut counts: Vec<(&TraceTask, usize)> = Vec::new();
        for &event in &self.indexed.rare_events {
            let is_pause = matches!(event.kind, KernelEventKind::DirtyPause { .. });
            if !is_pause || self.is_own(&event.task) {
                continue;
            }
            match counts.iter_mut().find(|(task, _)| task.id == event.task.id) {
                Some((_, count)) => *count += 1,
                None => counts.push((&event.task, 1)),
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(task, _)| task)
    }

    /// The name of the device that the piece waited for.
    pub(super) fn device(&self) -> Option<String> {
        let request = self.request()?;
        Some(self.device_name(request.device))
    }

    fn device_name(&self, device: DeviceNumber) -> String {
        let devices = &self.indexed.window.facts.devices;
        let named = devices.iter().find(|(number, _)| *number == device);
        named.map_or_else(|| format!("{}:{}", device.0, device.1), |(_, name)| name.clone())
    }

    /// The part in words.
    pub(super) fn detail(&self) -> String {
        if let (Some(request), Some(device)) = (self.request(), self.device()) {
            return match self.operation() {
                Some(RequestOperation::Flush) | None => format!("flush at {device}"),
                Some(operation) => {
                    let word = match operation {
                        RequestOperation::Read => "read",
                        RequestOperation::Write => "write",
                        RequestOperation::Discard => "discard",
                        RequestOperation::Flush | RequestOperation::Other => "request",
                    };
                    format!("{word} of {} at {device}", Bytes::new(request.bytes))
                }
            };
        }
        let path = &self.part.path;
        match self.part.kind {
            PieceKind::OnProcessor => path.works.last().copied().unwrap_or_default().to_owned(),
            PieceKind::Runnable => {
                self.part.processor.map_or_else(String::new, |number| format!("processor {number}"))
            }
            PieceKind::Unknown | PieceKind::Stopped => String::new(),
            _ => {
                let frames = path.stacks.last().copied().unwrap_or_default();
                let telling =
                    frames.iter().find(|name| !GENERAL_FUNCTIONS.contains(&name.as_str()));
                telling.cloned().unwrap_or_default()
            }
        }
    }
}

/// The kernel's own threads write for others.
fn is_writeback(task: &TraceTask) -> bool {
    task.name.starts_with("kworker")
}

/// The threads of md that make members equal: md0_resync, md127_reshape.
fn is_resync(task: &TraceTask) -> bool {
    task.name.starts_with("md")
        && ["_resync", "_reshape", "_recovery"].iter().any(|end| task.name.ends_with(end))
}
