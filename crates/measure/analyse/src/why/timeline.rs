//! A slow call's time in parts: the caller's own timeline, and where it waits, the timeline of the
//! thread or the request that woke it.

use durio_observe::{KernelEvent, KernelEventKind, OffProcessor};

use super::PieceKind;
use super::evidence::{Beside, PieceEvidence};
use super::rules;
use super::threads::{Span, State};
use super::window::{IndexedWindow, LOOP_MAJOR, MD_MAJOR, Path, WindowPart};

/// The parts of the call, without gaps from its begin to its end.
pub(super) fn parts<'w>(indexed: &IndexedWindow<'w>) -> Vec<WindowPart<'w>> {
    let call = &indexed.window.call;
    let path = Path { threads: vec![call.thread.id], ..Path::default() };
    let mut follower = Follower { indexed, parts: Vec::new() };
    follower.follow(call.begin, call.end, &path);
    follower.parts
}

struct Follower<'t, 'w> {
    indexed: &'t IndexedWindow<'w>,
    parts: Vec<WindowPart<'w>>,
}

impl<'w> Follower<'_, 'w> {
    fn push(&mut self, begin: u64, end: u64, kind: PieceKind, path: &Path<'w>) {
        self.push_at(begin, end, kind, path, None, None);
    }

    fn push_at(
        &mut self,
        begin: u64,
        end: u64,
        kind: PieceKind,
        path: &Path<'w>,
        processor: Option<u32>,
        request: Option<usize>,
    ) {
        if begin < end {
            let thread = path.threads.last().copied().unwrap_or_default();
            let path = path.clone();
            self.parts.push(WindowPart { begin, end, kind, thread, processor, request, path });
        }
    }

    /// The timeline of the path's last thread between two times.
    fn follow(&mut self, begin: u64, end: u64, path: &Path<'w>) {
        let indexed = self.indexed;
        let thread = path.threads.last().copied().unwrap_or_default();
        let mut reached = begin;
        for span in indexed.threads.within(thread, begin, end) {
            let (from, to) = (span.begin.max(reached), span.end.min(end));
            if to <= from {
                continue;
            }
            self.push(reached, from, PieceKind::Unknown, path);
            match span.state {
                State::Running { processor, is_seen } => {
                    let is_sure = is_seen || self.has_every_event();
                    let known = if is_sure { self.known_from().clamp(from, to) } else { to };
                    self.push(from, known, PieceKind::Unknown, path);
                    self.push_at(known, to, PieceKind::OnProcessor, path, processor, None);
                }
                State::Runnable { processor } => {
                    self.push_at(from, to, PieceKind::Runnable, path, processor, None);
                }
                State::Blocked { .. } => self.blocked(span, from, to, path),
            }
            reached = to;
        }
        self.push(reached, end, PieceKind::Unknown, path);
    }

    /// A thread without any event ran all the time, if no event was lost.
    fn has_every_event(&self) -> bool {
        let window = self.indexed.window;
        let is_of_call =
            |event: &&KernelEvent| (window.call.begin..=window.call.end).contains(&event.at);
        !window.is_incomplete && self.indexed.events.iter().any(is_of_call)
    }

    /// Where events were lost, a thread that runs may have waited before the ring's first event: calls
    /// come from another buffer.
    fn known_from(&self) -> u64 {
        let is_of_call = |kind: &KernelEventKind| {
            matches!(kind, KernelEventKind::CallEntered { .. } | KernelEventKind::CallLeft { .. })
        };
        let first = self.indexed.events.iter().find(|event| !is_of_call(&event.kind));
        match first {
            _ if !self.indexed.window.is_incomplete => 0,
            Some(event) => event.at,
            None => u64::MAX,
        }
    }

    fn blocked(&mut self, span: &Span<'w>, from: u64, to: u64, path: &Path<'w>) {
        let State::Blocked { off, stack, waker } = span.state else { return };
        let mut path = path.clone();
        if !stack.is_empty() {
            path.stacks.push(stack);
        }
        if off == Some(OffProcessor::Stopped) {
            return self.push(from, to, PieceKind::Stopped, &path);
        }
        let is_known = waker.is_some() || !stack.is_empty();
        let kind = if is_known { PieceKind::Waiting } else { PieceKind::Unknown };
        let Some(waker) = waker.filter(|_| !rules::stops_at(stack)) else {
            return self.push(from, to, kind, &path);
        };
        if let Some(request) = self.indexed.ended_before(waker, None) {
            return self.request(request, from, to, &path);
        }
        let event = self.indexed.events.get(waker).filter(|event| !event.in_interrupt);
        let waking = event.map(|event| (event.task.id, event.at)).filter(|(id, _)| *id != 0);
        match waking {
            Some((thread, at)) if path.takes(thread) => {
                self.descend(thread, at, from, to, &path);
            }
            _ => self.push(from, to, kind, &path),
        }
    }

    /// The timeline of a thread that did something at `at` for the path's last one.
    fn descend(&mut self, thread: u32, at: u64, from: u64, to: u64, path: &Path<'w>) {
        let mut path = path.clone();
        path.threads.push(thread);
        path.works.extend(self.indexed.work_of(thread, from, at));
        self.follow(from, to, &path);
    }

    /// The time that a request took for a thread that waited for it.
    fn request(&mut self, number: usize, from: u64, to: u64, path: &Path<'w>) {
        let Some(life) = self.indexed.requests.lives.get(number).copied() else {
            return self.push(from, to, PieceKind::Waiting, path);
        };
        let above = path.requests.last().copied();
        let mut path = path.clone();
        path.requests.push(number);
        let done = life.done.unwrap_or(to).clamp(from, to);
        let wanted = life.queued.or(life.issued).unwrap_or(from);
        let queued = wanted.clamp(from, done);
        let first = self.parts.len();
        match life.by.map(|task| task.id) {
            Some(thread) if queued > from && path.takes(thread) => {
                self.descend(thread, wanted, from, queued, &path);
            }
            _ => self.push(from, queued, PieceKind::Waiting, &path),
        }
        self.held_above(first, above);
        let handed_over = self.indexed.handed_over(number);
        let handed_over = handed_over.filter(|(thread, _)| path.takes(*thread));
        let device_done = handed_over.map_or(done, |(_, at)| at.clamp(queued, done));
        self.stages(number, queued, device_done, &path);
        if let Some((thread, _)) = handed_over {
            self.descend(thread, done, device_done, done, &path);
        }
        self.push(done, to, PieceKind::Completion, &path);
    }

    /// Time that a layer such as dm let pass before it wanted the request below is the layer's.
    fn held_above(&mut self, first: usize, above: Option<usize>) {
        let lives = &self.indexed.requests.lives;
        let layer = above.filter(|above| lives.get(*above).is_some_and(|life| life.is_layered));
        let Some(layer) = layer else { return };
        for part in self.parts.iter_mut().skip(first) {
            if part.kind == PieceKind::Waiting {
                (part.kind, part.request) = (PieceKind::Device, Some(layer));
            }
        }
    }

    /// From a request's wish to its end: it or its flushes at the device, and the queue between.
    fn stages(&mut self, number: usize, from: u64, to: u64, path: &Path<'w>) {
        let lives = &self.indexed.requests.lives;
        let Some(life) = lives.get(number) else { return };
        let mut stages: Vec<(u64, u64, usize)> = Vec::new();
        if let (Some(issued), Some(done)) = (life.issued, life.data_done) {
            stages.push((issued, done, number));
        }
        if life.bytes == 0 || life.is_flushing {
            let flushes = lives.iter().enumerate().filter(|(flush, candidate)| {
                *flush != number && candidate.device == life.device && candidate.bytes == 0
            });
            stages.extend(flushes.filter_map(|(flush, candidate)| {
                let (issued, done) = (candidate.issued?, candidate.data_done?);
                (issued < to && done > from).then_some((issued, done, flush))
            }));
        }
        if stages.is_empty() {
            // Its issue was lost, or the device shows none.
            stages.push((from, to, number));
        }
        stages.sort_unstable();
        let mut reached = from;
        for (issued, done, stage) in stages {
            let (begin, end) = (issued.clamp(reached, to), done.clamp(reached, to));
            self.in_queue(number, Some(stage), [reached, begin], path);
            self.at_device(stage, begin, end, path);
            reached = begin.max(end);
        }
        self.in_queue(number, None, [reached, to], path);
    }

    /// Time in the queue until the next stage. If the worker that begins it had no processor, the
    /// worker is followed.
    fn in_queue(
        &mut self,
        number: usize,
        next: Option<usize>,
        [from, to]: [u64; 2],
        path: &Path<'w>,
    ) {
        let requests = &self.indexed.requests;
        let worker = next.and_then(|next| requests.lives.get(next)?.issued_by);
        let worker = worker.map(|task| task.id).filter(|worker| {
            let waited = self.indexed.threads.runnable(*worker, from, to);
            from < to && path.takes(*worker) && waited.saturating_mul(2) >= to - from
        });
        match worker {
            Some(worker) => self.descend(worker, to, from, to, path),
            None => self.push_at(from, to, PieceKind::Queued, path, None, Some(number)),
        }
    }

    /// True if a layer has much of others to do, which its worker may do first.
    fn is_crowded(&self, number: usize, begin: u64, end: u64, path: &Path<'w>) -> bool {
        let thread = path.threads.last().copied().unwrap_or_default();
        let (kind, processor, request) = (PieceKind::Device, None, Some(number));
        let path = path.clone();
        let part = WindowPart { begin, end, kind, thread, processor, request, path };
        let evidence = PieceEvidence::new(self.indexed, &part);
        let others = [Beside::LargeWrites, Beside::BufferedWriteback, Beside::Discard];
        others.into_iter().any(|others| evidence.beside(others))
    }

    /// A request at its device: one that does it with another device or a thread is followed.
    fn at_device(&mut self, number: usize, from: u64, to: u64, path: &Path<'w>) {
        if from >= to {
            return;
        }
        let indexed = self.indexed;
        let layered = indexed.requests.lives.get(number).copied();
        let layered = layered
            .filter(|life| life.is_layered || [LOOP_MAJOR, MD_MAJOR].contains(&life.device.0))
            .filter(|_| path.has_room() && !self.is_crowded(number, from, to, path));
        if let Some((life, end)) = layered.zip(indexed.end_of(number)) {
            let lower = indexed.ended_before(end, Some(life.device));
            if let Some(lower) = lower.filter(|lower| !path.requests.contains(lower)) {
                return self.request(lower, from, to, path);
            }
            let event = indexed.events.get(end).filter(|event| !event.in_interrupt);
            let thread = event.map(|event| event.task.id).filter(|thread| *thread != 0);
            let thread = thread.or_else(|| indexed.loop_worker(life.device, to));
            if let Some(thread) = thread.filter(|thread| path.takes(*thread)) {
                return self.descend(thread, to, from, to, path);
            }
        }
        self.push_at(from, to, PieceKind::Device, path, None, Some(number));
    }
}
