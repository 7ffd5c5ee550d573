//! A window of events, indexed by thread, processor and request, and the parts that its call is cut
//! into.

use durio_observe::{KernelEvent, KernelEventKind, SlowWindow};

use super::PieceKind;
use super::requests::{DeviceNumber, Requests};
use super::threads::{State, ThreadSpans};

/// Threads and requests that are followed below one another.
const DEPTH_MAX: usize = 8;
/// Interrupts and the workers that end requests wake the waiter at once.
const WAKE_NS_MAX: u64 = 250_000;
/// Events that are looked at for the end of a request before a wake-up.
const WAKE_EVENTS_MAX: usize = 4096;
/// Major numbers of devices that do their requests with others.
pub(super) const LOOP_MAJOR: u32 = 7;
pub(super) const MD_MAJOR: u32 = 9;

/// How a part was reached from the caller, outermost first.
#[derive(Debug, Clone, Default)]
pub(super) struct Path<'w> {
    /// Where each thread on the way waited.
    pub(super) stacks: Vec<&'w [String]>,
    /// Functions of the workers on the way.
    pub(super) works: Vec<&'w str>,
    /// The threads that are followed, the caller first.
    pub(super) threads: Vec<u32>,
    pub(super) requests: Vec<usize>,
}

impl Path<'_> {
    pub(super) fn has_room(&self) -> bool {
        self.threads.len() + self.requests.len() < DEPTH_MAX
    }

    /// True for a thread that is not on the path already, if the path has room for it.
    pub(super) fn takes(&self, thread: u32) -> bool {
        self.has_room() && !self.threads.contains(&thread)
    }
}

/// A part of the time, before a rule names its cause.
#[derive(Debug, Clone)]
pub(super) struct WindowPart<'w> {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) kind: PieceKind,
    /// The thread that was looked at.
    pub(super) thread: u32,
    pub(super) processor: Option<u32>,
    /// The request that was waited for, queued or at its device.
    pub(super) request: Option<usize>,
    pub(super) path: Path<'w>,
}

/// A window, indexed by thread, processor and request.
#[derive(Debug)]
pub(super) struct IndexedWindow<'w> {
    pub(super) window: &'w SlowWindow,
    /// In the order of time.
    pub(super) events: Vec<&'w KernelEvent>,
    /// Those of journals' checkpoints, memory and dirty pages, of which there are few.
    pub(super) rare_events: Vec<&'w KernelEvent>,
    pub(super) threads: ThreadSpans<'w>,
    pub(super) requests: Requests<'w>,
}

impl<'w> IndexedWindow<'w> {
    pub(super) fn new(window: &'w SlowWindow) -> Self {
        let mut events: Vec<&KernelEvent> = window.events.iter().collect();
        // Rings of several processors may have been joined in another order.
        events.sort_by_key(|event| event.at);
        let is_rare = |event: &&KernelEvent| {
            matches!(
                event.kind,
                KernelEventKind::JournalCheckpoint { .. }
                    | KernelEventKind::ReclaimBegan
                    | KernelEventKind::ReclaimEnded { .. }
                    | KernelEventKind::DirtyPause { .. }
            )
        };
        let rare_events = events.iter().copied().filter(is_rare).collect();
        let threads = ThreadSpans::new(window, &events);
        let requests = Requests::new(&events);
        Self { window, events, rare_events, threads, requests }
    }

    /// The function that a worker ran when it did this.
    pub(super) fn work_of(&self, thread: u32, begin: u64, at: u64) -> Option<&'w str> {
        let to = self.events.partition_point(|event| event.at <= at);
        let before = self.events.get(..to)?.iter().rev();
        let mut before = before.take_while(|event| event.at >= begin);
        before.find_map(|event| match &event.kind {
            KernelEventKind::WorkBegan { function } if event.task.id == thread => {
                Some(function.as_str())
            }
            _ => None,
        })
    }

    /// The thread that did the work of a loop device last: a worker, or in older kernels the thread
    /// loop0. Its requests end in an interrupt that it asks for.
    pub(super) fn loop_worker(&self, device: DeviceNumber, at: u64) -> Option<u32> {
        if device.0 != LOOP_MAJOR {
            return None;
        }
        let name = format!("loop{}", device.1);
        let to = self.events.partition_point(|event| event.at <= at);
        let mut before = self.events.get(..to)?.iter().rev();
        let found = before.find(|event| match &event.kind {
            KernelEventKind::WorkBegan { function } => function.starts_with("loop_"),
            _ => !event.in_interrupt && event.task.name == name,
        });
        found.map(|event| event.task.id)
    }

    /// The request whose end this event belongs to: the last one that ended right before it in the
    /// same interrupt or the same thread. A layer's request ends after that of the device below.
    pub(super) fn ended_before(
        &self,
        position: usize,
        other_than: Option<DeviceNumber>,
    ) -> Option<usize> {
        let event = self.events.get(position)?;
        for (before, earlier) in
            self.events.iter().enumerate().take(position).rev().take(WAKE_EVENTS_MAX)
        {
            if earlier.at.saturating_add(WAKE_NS_MAX) < event.at {
                break;
            }
            if earlier.processor != event.processor {
                continue;
            }
            let is_same_thread = event.in_interrupt || earlier.task.id == event.task.id;
            if earlier.in_interrupt != event.in_interrupt || !is_same_thread {
                break;
            }
            let KernelEventKind::Request(request) = &earlier.kind else { continue };
            if Some(request.device) == other_than {
                continue;
            }
            if let Some(ended) = self.requests.ended_by(before) {
                return Some(ended);
            }
        }
        None
    }

    /// The thread for interrupts that ended a request late, and when the device had done it.
    pub(super) fn handed_over(&self, number: usize) -> Option<(u32, u64)> {
        let event = self.events.get(self.end_of(number)?)?;
        if !event.task.name.starts_with("ksoftirqd/") {
            return None;
        }
        let thread = event.task.id;
        let spans = self.threads.within(thread, self.window.call.begin, event.at).iter().rev();
        let mut waits = spans.skip_while(|span| matches!(span.state, State::Running { .. }));
        let wait = waits.next().filter(|span| matches!(span.state, State::Runnable { .. }))?;
        Some((thread, wait.begin))
    }

    /// The event that ended a request.
    pub(super) fn end_of(&self, number: usize) -> Option<usize> {
        let done = self.requests.lives.get(number)?.done?;
        let from = self.events.partition_point(|event| event.at < done);
        let same_time = self.events.get(from..)?.iter().take_while(|event| event.at == done);
        let mut positions = (from..).zip(same_time).map(|(position, _)| position);
        positions.find(|position| self.requests.ended_by(*position) == Some(number))
    }
}
