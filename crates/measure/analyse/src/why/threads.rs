//! What each thread did, and which thread each processor had, from switches and wake-ups.

use std::collections::HashMap;

use durio_observe::{KernelEvent, KernelEventKind, OffProcessor, SlowWindow, TraceTask};

/// What a thread did for a while.
#[derive(Debug, Clone, Copy)]
pub(super) enum State<'w> {
    Running {
        processor: Option<u32>,
        /// An event says so; otherwise it only follows from the call.
        is_seen: bool,
    },
    /// It waits for this processor.
    Runnable { processor: Option<u32> },
    Blocked {
        /// `None`: the window begins later.
        off: Option<OffProcessor>,
        /// Innermost first; empty where it was not recorded.
        stack: &'w [String],
        /// Position of the event that ended it.
        waker: Option<usize>,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'w> {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) state: State<'w>,
}

/// A thread on a processor.
#[derive(Debug, Clone, Copy)]
struct ProcessorRun {
    begin: u64,
    end: u64,
    thread: u32,
}

#[derive(Debug, Default)]
pub(super) struct ThreadSpans<'w> {
    /// Each thread's spans, in the order of time.
    spans: HashMap<u32, Vec<Span<'w>>>,
    /// Who had each processor, in the order of time.
    runs: HashMap<u32, Vec<ProcessorRun>>,
    names: HashMap<u32, &'w str>,
}

impl<'w> ThreadSpans<'w> {
    /// Reads events in the order of time.
    pub(super) fn new(window: &'w SlowWindow, events: &[&'w KernelEvent]) -> Self {
        let call = &window.call;
        let first = events.first().map_or(call.begin, |event| event.at.min(call.begin));
        let mut reader = Reader { first, open: HashMap::new(), threads: Self::default() };
        reader.threads.name(&call.thread);
        let mut has_begun = false;
        for (position, &event) in events.iter().enumerate() {
            if !has_begun && event.at >= call.begin {
                has_begun = true;
                reader.begin_call(call.thread.id, call.begin);
            }
            reader.read(position, event);
        }
        if !has_begun {
            reader.begin_call(call.thread.id, call.begin);
        }
        let last = events.last().map_or(call.end, |event| event.at.max(call.end));
        reader.close(last)
    }

    /// What the thread did between two times; may have gaps.
    pub(super) fn within(&self, thread: u32, begin: u64, end: u64) -> &[Span<'w>] {
        let spans = self.spans.get(&thread).map_or(&[][..], Vec::as_slice);
        let from = spans.partition_point(|span| span.end <= begin);
        let to = spans.partition_point(|span| span.begin < end);
        spans.get(from..to).unwrap_or_default()
    }

    /// The threads that a processor had between two times, with their nanoseconds.
    pub(super) fn on_processor(&self, processor: u32, begin: u64, end: u64) -> Vec<(u32, u64)> {
        let runs = self.runs.get(&processor).map_or(&[][..], Vec::as_slice);
        let from = runs.partition_point(|run| run.end <= begin);
        let mut found: Vec<(u32, u64)> = Vec::new();
        for run in runs.iter().skip(from).take_while(|run| run.begin < end) {
            let ns = run.end.min(end).saturating_sub(run.begin.max(begin));
            match found.iter_mut().find(|(thread, _)| *thread == run.thread) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => found.push((run.thread, ns)),
            }
        }
        found
    }

    /// Nanoseconds that a thread could have run and did not.
    pub(super) fn runnable(&self, thread: u32, begin: u64, end: u64) -> u64 {
        let spans = self.within(thread, begin, end).iter();
        let waits = spans.filter(|span| matches!(span.state, State::Runnable { .. }));
        waits.map(|span| span.end.min(end).saturating_sub(span.begin.max(begin))).sum()
    }

    /// Threads that waited in one of these functions between two times, with their nanoseconds.
    pub(super) fn waiting_in(&self, functions: &[String], begin: u64, end: u64) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for &thread in self.spans.keys() {
            let spans = self.within(thread, begin, end).iter();
            let waits = spans.filter(|span| match span.state {
                State::Blocked { stack, .. } => stack.iter().any(|name| functions.contains(name)),
                State::Running { .. } | State::Runnable { .. } => false,
            });
            let within = |span: &Span<'_>| span.end.min(end).saturating_sub(span.begin.max(begin));
            let ns: u64 = waits.map(within).sum();
            if ns > 0 {
                found.push((thread, ns));
            }
        }
        found
    }

    pub(super) fn name_of(&self, thread: u32) -> &'w str {
        self.names.get(&thread).copied().unwrap_or("thread")
    }

    fn name(&mut self, task: &'w TraceTask) {
        if !task.name.is_empty() {
            self.names.insert(task.id, &task.name);
        }
    }
}

/// Threads and processors while events are read.
struct Reader<'w> {
    /// When the window begins.
    first: u64,
    open: HashMap<u32, (u64, State<'w>)>,
    threads: ThreadSpans<'w>,
}

impl<'w> Reader<'w> {
    fn read(&mut self, position: usize, event: &'w KernelEvent) {
        let (at, processor) = (event.at, event.processor);
        match &event.kind {
            KernelEventKind::Switched { from, off, to } => {
                self.threads.name(from);
                self.threads.name(to);
                self.leave(at, processor, from.id, *off);
                self.enter(at, processor, to.id);
            }
            KernelEventKind::Stack(functions) => self.add_stack(event.task.id, functions),
            KernelEventKind::Woken { task, processor: target } => {
                self.threads.name(task);
                self.act(event);
                self.wake(at, task.id, *target, position);
            }
            _ => self.act(event),
        }
    }

    /// The caller was on a processor when it made the call.
    fn begin_call(&mut self, thread: u32, at: u64) {
        let is_running = matches!(self.open.get(&thread), Some((_, State::Running { .. })));
        if !is_running {
            self.change(thread, at, State::Running { processor: None, is_seen: false });
        }
    }

    /// A thread that does something is on a processor, also if its switch was lost.
    fn act(&mut self, event: &'w KernelEvent) {
        let thread = event.task.id;
        if event.in_interrupt || thread == 0 {
            return;
        }
        self.threads.name(&event.task);
        let running = State::Running { processor: Some(event.processor), is_seen: true };
        match self.open.get_mut(&thread) {
            Some((_, state @ State::Running { .. })) => *state = running,
            _ => self.change(thread, event.at, running),
        }
    }

    fn leave(&mut self, at: u64, processor: u32, thread: u32, off: OffProcessor) {
        let first = self.first;
        let runs = self.threads.runs.entry(processor).or_default();
        match runs.last_mut() {
            Some(run) if run.thread == thread => run.end = at,
            // The switch between them was lost.
            Some(run) => run.end = run.end.min(at),
            None => runs.push(ProcessorRun { begin: first, end: at, thread }),
        }
        if thread == 0 {
            return;
        }
        let seen = State::Running { processor: Some(processor), is_seen: true };
        match self.open.get_mut(&thread) {
            Some((_, state @ State::Running { .. })) => *state = seen,
            Some(_) => {}
            None => {
                self.open.insert(thread, (first, seen));
            }
        }
        let state = match off {
            OffProcessor::Preempted => State::Runnable { processor: Some(processor) },
            _ => State::Blocked { off: Some(off), stack: &[], waker: None },
        };
        self.change(thread, at, state);
    }

    fn enter(&mut self, at: u64, processor: u32, thread: u32) {
        // Its end is that of the window until another switch comes.
        let runs = self.threads.runs.entry(processor).or_default();
        runs.push(ProcessorRun { begin: at, end: u64::MAX, thread });
        if thread == 0 {
            return;
        }
        match self.open.get_mut(&thread) {
            // Where it ran is where it waited.
            Some((_, State::Runnable { processor: waited })) => *waited = Some(processor),
            Some(_) => {}
            None => {
                let runnable = State::Runnable { processor: Some(processor) };
                self.open.insert(thread, (self.first, runnable));
            }
        }
        self.change(thread, at, State::Running { processor: Some(processor), is_seen: true });
    }

    fn wake(&mut self, at: u64, thread: u32, processor: u32, position: usize) {
        match self.open.get_mut(&thread) {
            Some((_, State::Blocked { waker, .. })) => *waker = Some(position),
            // It has not left its processor yet, or may run already.
            Some(_) => return,
            None => {
                let blocked = State::Blocked { off: None, stack: &[], waker: Some(position) };
                self.open.insert(thread, (self.first, blocked));
            }
        }
        self.change(thread, at, State::Runnable { processor: Some(processor) });
    }

    fn add_stack(&mut self, thread: u32, functions: &'w [String]) {
        if let Some((_, State::Blocked { stack, .. })) = self.open.get_mut(&thread)
            && stack.is_empty()
        {
            *stack = functions;
        }
    }

    fn change(&mut self, thread: u32, at: u64, state: State<'w>) {
        if let Some((begin, before)) = self.open.insert(thread, (at, state)) {
            self.push(thread, Span { begin, end: at, state: before });
        }
    }

    fn push(&mut self, thread: u32, span: Span<'w>) {
        if span.end > span.begin {
            self.threads.spans.entry(thread).or_default().push(span);
        }
    }

    fn close(mut self, last: u64) -> ThreadSpans<'w> {
        for (thread, (begin, state)) in std::mem::take(&mut self.open) {
            self.push(thread, Span { begin, end: last, state });
        }
        self.threads
    }
}
