//! The watched system calls, how the events of their begin and end become calls, and from which
//! latency one is slow.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::RangeInclusive;

use durio_base::Nanos;
use durio_observe::{KernelEvent, KernelEventKind, TraceTask};
use nix::libc;
#[cfg(target_arch = "arm")]
use nix::libc::SYS_arm_sync_file_range as SYS_SYNC_FILE_RANGE;
#[cfg(not(target_arch = "arm"))]
use nix::libc::SYS_sync_file_range as SYS_SYNC_FILE_RANGE;

use crate::recorder::BucketCounts;

/// From when on a call is slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowLimit {
    /// From this latency on; not zero.
    SlowerThan(Nanos),
    /// The slowest calls, this many; not zero. The limit begins at the p99 of the first calls, or the
    /// p90 of durio's own, and rises.
    Worst(usize),
}

/// How long before a call its cause may have begun: as long as the call took, within these bounds.
const LEAD: RangeInclusive<u64> = 5_000_000..=100_000_000;
/// And what the kernel does after its end.
pub(super) const TRAIL: u64 = 1_000_000;

pub(super) fn lead(latency: u64) -> u64 {
    latency.clamp(*LEAD.start(), *LEAD.end())
}

/// What a watched call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchedCallRole {
    /// It makes writes to a descriptor durable.
    Sync,
    /// It makes writes durable, and has no descriptor as its first argument.
    SyncElsewhere,
    /// It writes to a descriptor; durable with O_DSYNC or O_SYNC.
    Write,
    /// It hands operations to a ring, which no event follows from here.
    Ring,
}

/// A watched call of this architecture.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WatchedCall {
    number: libc::c_long,
    pub(super) name: &'static str,
    pub(super) role: WatchedCallRole,
}

const fn call(number: libc::c_long, name: &'static str, role: WatchedCallRole) -> WatchedCall {
    WatchedCall { number, name, role }
}

static WATCHED_CALLS: [WatchedCall; 12] = [
    call(libc::SYS_fsync, "fsync", WatchedCallRole::Sync),
    call(libc::SYS_fdatasync, "fdatasync", WatchedCallRole::Sync),
    call(SYS_SYNC_FILE_RANGE, "sync_file_range", WatchedCallRole::Sync),
    call(libc::SYS_syncfs, "syncfs", WatchedCallRole::Sync),
    call(libc::SYS_sync, "sync", WatchedCallRole::SyncElsewhere),
    call(libc::SYS_msync, "msync", WatchedCallRole::SyncElsewhere),
    call(libc::SYS_write, "write", WatchedCallRole::Write),
    call(libc::SYS_pwrite64, "pwrite64", WatchedCallRole::Write),
    call(libc::SYS_writev, "writev", WatchedCallRole::Write),
    call(libc::SYS_pwritev, "pwritev", WatchedCallRole::Write),
    call(libc::SYS_pwritev2, "pwritev2", WatchedCallRole::Write),
    call(libc::SYS_io_uring_enter, "io_uring_enter", WatchedCallRole::Ring),
];

fn watched_call(number: u32) -> Option<&'static WatchedCall> {
    WATCHED_CALLS.iter().find(|call| u32::try_from(call.number) == Ok(number))
}

/// The call of this name.
#[cfg(test)]
pub(super) fn call_named(name: &str) -> Option<&'static WatchedCall> {
    WATCHED_CALLS.iter().find(|call| call.name == name)
}

#[cfg(test)]
pub(super) fn number_of(call: &WatchedCall) -> u32 {
    u32::try_from(call.number).unwrap()
}

/// A filter that lets the events of watched calls through.
pub(super) fn call_filter() -> String {
    let each: Vec<String> =
        WATCHED_CALLS.iter().map(|call| format!("id == {}", call.number)).collect();
    each.join(" || ")
}

/// A call that has ended, or still runs when the watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FollowedCall {
    pub(super) thread: u32,
    pub(super) call: &'static WatchedCall,
    pub(super) fd: i32,
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl FollowedCall {
    pub(super) const fn latency(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }

    /// The time whose events may explain it.
    pub(super) fn window(&self) -> RangeInclusive<u64> {
        self.begin.saturating_sub(lead(self.latency()))..=self.end.saturating_add(TRAIL)
    }

    /// The event of its begin, once the ring has dropped it.
    pub(super) fn entered(&self, thread: &TraceTask) -> KernelEvent {
        let number = u32::try_from(self.call.number).unwrap_or_default();
        KernelEvent {
            at: self.begin,
            processor: 0,
            task: thread.clone(),
            in_interrupt: false,
            kind: KernelEventKind::CallEntered { number, fd: self.fd },
        }
    }
}

/// Threads within watched calls.
#[derive(Debug, Default)]
pub(super) struct CallFollower {
    running: HashMap<u32, (&'static WatchedCall, i32, u64)>,
    /// Calls that handed operations to a ring.
    pub(super) rings: u64,
}

impl CallFollower {
    /// Takes an event; gives the call that ends with it.
    pub(super) fn take(&mut self, event: &KernelEvent) -> Option<FollowedCall> {
        match event.kind {
            KernelEventKind::CallEntered { number, fd } => {
                let call = watched_call(number)?;
                if call.role == WatchedCallRole::Ring {
                    self.rings += 1;
                } else {
                    self.running.insert(event.task.id, (call, fd, event.at));
                }
                None
            }
            KernelEventKind::CallLeft { number, .. } => {
                let (call, fd, begin) = self.running.remove(&event.task.id)?;
                // The begin of this call, or the end of that one, was lost.
                (watched_call(number) == Some(call)).then_some(FollowedCall {
                    thread: event.task.id,
                    call,
                    fd,
                    begin,
                    end: event.at,
                })
            }
            _ => None,
        }
    }

    /// Calls that run, as if they ended now.
    pub(super) fn still_running(&self, now: u64) -> Vec<FollowedCall> {
        let running = self.running.iter();
        let ended = running.map(|(&thread, &(call, fd, begin))| FollowedCall {
            thread,
            call,
            fd,
            begin,
            end: now,
        });
        ended.collect()
    }

    /// When the first of the running calls began.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.running.values().map(|(_, _, begin)| *begin).min()
    }

    /// Forgets threads that ended within a call: they were killed.
    pub(super) fn keep(&mut self, lives: impl Fn(u32) -> bool) {
        self.running.retain(|thread, _| lives(*thread));
    }
}

/// Calls that tell how long one usually takes, and the time after which fewer must do.
const FIRST_CALLS: u64 = 100;
const FIRST_NANOS: u64 = 1_000_000_000;

/// The latencies so far, and from which one a call is slow.
#[derive(Debug)]
pub(super) struct Slowness {
    limit: SlowLimit,
    begin: u64,
    /// The share of the first calls that is not slow.
    first_share: f64,
    counts: BucketCounts,
    pub(super) calls: u64,
    /// None until enough calls were seen.
    from: Option<u64>,
    /// Latencies of the worst calls, if those are looked for; the least of them is first.
    worst: BinaryHeap<Reverse<u64>>,
}

impl Slowness {
    pub(super) fn new(limit: SlowLimit, begin: u64) -> Self {
        let from = match limit {
            SlowLimit::SlowerThan(limit) => Some(limit.get()),
            SlowLimit::Worst(_) => None,
        };
        let counts = BucketCounts::default();
        let worst = BinaryHeap::new();
        Self { limit, begin, first_share: 0.99, counts, calls: 0, from, worst }
    }

    /// For a program that measures itself, of whose some hundred calls enough are to be slow.
    pub(super) fn of_few(self) -> Self {
        Self { first_share: 0.9, ..self }
    }

    /// The latency from which a call is slow now; none if that is not known yet.
    pub(super) const fn limit_now(&self) -> Option<u64> {
        self.from
    }

    /// True if a call of this latency would be slow.
    pub(super) fn is_slow(&self, latency: u64) -> bool {
        self.from.is_some_and(|from| latency >= from)
    }

    /// Counts a call; true if it is slow.
    pub(super) fn take(&mut self, latency: u64, end: u64) -> bool {
        self.counts.record(latency);
        self.calls += 1;
        // What is done before it measures takes seconds, without a call that counts.
        if self.calls == 1 && self.first_share < 0.99 {
            self.begin = end;
        }
        let SlowLimit::Worst(worst) = self.limit else { return self.is_slow(latency) };
        let waited = end.saturating_sub(self.begin) >= FIRST_NANOS;
        if self.from.is_none() && (self.calls >= FIRST_CALLS || waited) {
            self.from = Some(self.quantile(self.first_share));
        }
        let is_slow = self.is_slow(latency);
        if is_slow {
            self.worst.push(Reverse(latency));
            if self.worst.len() > worst {
                self.worst.pop();
            }
            // Only a call that is slower than one of them is among the worst.
            if let Some(Reverse(least)) = self.worst.peek().filter(|_| self.worst.len() == worst) {
                self.from = self.from.max(Some(least.saturating_add(1)));
            }
        }
        is_slow
    }

    pub(super) fn quantile(&self, quantile: f64) -> u64 {
        let latency = self.counts.latency();
        let longest = latency.exact.max_ns;
        // Values are those of buckets, and a bucket reaches beyond the longest.
        latency.histogram().map_or(0, |all| all.value_at_quantile(quantile).min(longest))
    }

    pub(super) fn longest(&self) -> u64 {
        self.counts.latency().exact.max_ns
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn number(name: &str) -> u32 {
        number_of(call_named(name).unwrap())
    }

    fn event(at: u64, thread: u32, kind: KernelEventKind) -> KernelEvent {
        let task = TraceTask { id: thread, name: String::new() };
        KernelEvent { at, processor: 0, task, in_interrupt: false, kind }
    }

    fn entered(at: u64, thread: u32, name: &str) -> KernelEvent {
        event(at, thread, KernelEventKind::CallEntered { number: number(name), fd: 5 })
    }

    fn left(at: u64, thread: u32, name: &str) -> KernelEvent {
        event(at, thread, KernelEventKind::CallLeft { number: number(name), result: 0 })
    }

    #[test]
    fn a_call_is_what_lies_between_its_two_events_of_one_thread() {
        let mut calls = CallFollower::default();
        assert_eq!(calls.take(&entered(10, 7, "fdatasync")), None);
        assert_eq!(calls.take(&entered(12, 8, "pwrite64")), None);
        assert_eq!(calls.oldest(), Some(10));
        let ended = calls.take(&left(40, 7, "fdatasync")).unwrap();
        assert_eq!((ended.thread, ended.call.name, ended.fd), (7, "fdatasync", 5));
        assert_eq!((ended.begin, ended.latency()), (10, 30), "ns");
        // The begin of the fsync was lost, and so was the end of the write.
        assert_eq!(calls.take(&left(41, 7, "fsync")), None);
        assert_eq!(calls.take(&left(42, 8, "fsync")), None);
        assert_eq!(calls.oldest(), None);
        assert_eq!(calls.take(&entered(50, 9, "io_uring_enter")), None);
        assert_eq!((calls.rings, calls.still_running(60).len()), (1, 0));
        let unknown = KernelEventKind::CallEntered { number: 1_000_000, fd: 5 };
        assert_eq!(calls.take(&event(51, 9, unknown)), None);
        assert_eq!(calls.still_running(60).len(), 0);
    }

    #[test]
    fn a_call_that_still_runs_ends_now_and_one_of_a_dead_thread_is_forgotten() {
        let mut calls = CallFollower::default();
        for thread in [7, 8] {
            calls.take(&entered(u64::from(thread), thread, "fsync"));
        }
        calls.keep(|thread| thread == 8);
        let running = calls.still_running(100);
        assert_eq!(running.iter().map(FollowedCall::latency).collect::<Vec<_>>(), [92], "ns");
    }

    #[test]
    fn the_filter_names_every_call_by_its_number() {
        let filter = call_filter();
        assert_eq!(filter.matches("id == ").count(), 12, "{filter}");
        if cfg!(target_arch = "x86_64") {
            // arch/x86/entry/syscalls/syscall_64.tbl
            assert!(filter.starts_with("id == 74 || id == 75 || id == 277 || id == 306"));
        }
        if cfg!(target_arch = "aarch64") {
            // include/uapi/asm-generic/unistd.h
            assert!(filter.starts_with("id == 82 || id == 83 || id == 84 || id == 267"));
        }
    }

    #[test]
    fn a_fixed_limit_is_reached_from_the_first_call_on() {
        let mut slow = Slowness::new(SlowLimit::SlowerThan(Nanos::from_millis(20)), 0);
        let taken = [19_999_999, 20_000_000, 5, 90_000_000].map(|latency| slow.take(latency, 1));
        assert_eq!(taken, [false, true, false, true]);
        assert_eq!(
            (slow.calls, slow.longest(), slow.limit_now()),
            (4, 90_000_000, Some(20_000_000))
        );
    }

    #[test]
    fn the_worst_calls_begin_at_the_p99_of_a_hundred_and_the_limit_rises() {
        let mut slow = Slowness::new(SlowLimit::Worst(2), 0);
        // Microseconds, so that each is a bucket of its own.
        let first: Vec<u64> = (1..=99).filter(|&latency| slow.take(latency, latency)).collect();
        assert_eq!((first, slow.limit_now()), (vec![], None));
        assert!(slow.take(100, 1000), "the hundredth is the slowest of all");
        assert_eq!(slow.limit_now(), Some(99), "ns");
        assert!(!slow.take(98, 1001));
        assert!(slow.take(99, 1002), "two are looked for");
        assert_eq!(slow.limit_now(), Some(100), "ns");
        assert!(!slow.take(99, 1003) && slow.take(150, 1004));
        assert_eq!(slow.limit_now(), Some(101), "ns");
        assert!(slow.take(101, 1005) && !slow.take(101, 1006));
        assert_eq!(slow.limit_now(), Some(102), "ns");
    }

    #[test]
    fn the_slowest_of_few_calls_begin_at_the_p90_a_second_after_the_first() {
        let mut slow = Slowness::new(SlowLimit::Worst(5), 0).of_few();
        assert!(!slow.take(900, 10 * FIRST_NANOS) && !slow.take(10, 11 * FIRST_NANOS - 1));
        let first: Vec<u64> =
            (1..=98).filter(|&latency| slow.take(latency, 11 * FIRST_NANOS - 1)).collect();
        assert_eq!((first, slow.limit_now()), (vec![98], Some(89)), "ns");
        let mut slow = Slowness::new(SlowLimit::Worst(5), 0).of_few();
        assert!(!slow.take(900, 10 * FIRST_NANOS) && slow.take(900, 11 * FIRST_NANOS));
    }

    #[test]
    fn after_a_second_fewer_than_a_hundred_calls_tell_what_is_slow() {
        let mut slow = Slowness::new(SlowLimit::Worst(20), 5);
        assert!(!slow.take(700, FIRST_NANOS + 4));
        assert!(slow.take(900, FIRST_NANOS + 5));
        assert_eq!(slow.limit_now(), Some(900), "ns");
    }
}
