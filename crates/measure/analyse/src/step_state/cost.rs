//! What operations cost the processors, CPU time and context switches, and the devices.
//!
//! The ends of a stream's jobs and of its step give [`CpuFindings`], and switches per operation. The
//! record of all phases, and the kernel's counters of the devices over the same time, give
//! [`DeviceTime`] and its [`TimeShares`], where the path permits it: one device that counts, past
//! the page cache or waited for, and about as many requests as operations. Little's law cannot see
//! time that durio adds by looking late, because it is in both of its sides; this can.

use durio_base::Nanos;
use durio_base::stats::least_squares::{quotient, saturating_sum};
use durio_observe::{CpuCounters, DeviceCounters};
use durio_plan::EngineKind;
use durio_record::{JobEnded, OperationName};
use durio_workload::CacheMode;

use super::StreamState;
use crate::foreign_load::{SECTOR, foreign_cpus, kernel_cpus};
use crate::{CpuFindings, DeviceTime, TimeShares};

/// Context switches per operation, of the same operations as CPU time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switches {
    /// Context switches of the jobs' threads because they waited.
    pub(super) voluntary: f64,
    /// Context switches of the jobs' threads because they lost the processor.
    pub(super) involuntary: f64,
    /// By the whole machine.
    pub(super) machine: Option<f64>,
}

impl StreamState {
    /// CPU time of the process during the step, its recording thread left out.
    fn process_cpu(&self) -> Option<u64> {
        let ended = self.ended.as_ref()?;
        Some(ended.cpu_process_user?.get().saturating_add(ended.cpu_process_system?.get()))
    }

    /// CPUs that other programs used during the step.
    fn foreign_cores(&self) -> Option<f64> {
        let (all, span) = self.machine_cpu()?;
        Some(foreign_cpus(all, Nanos::new(self.process_cpu()?), span))
    }

    /// The machine's counters over the step, and its length.
    fn machine_cpu(&self) -> Option<(&CpuCounters, Nanos)> {
        // On virtual time the step has no length that the CPUs know.
        let is_real = self.started.engine != EngineKind::Null;
        let all = self.ended.as_ref()?.cpu.as_ref().filter(|_| is_real)?;
        Some((all, Nanos::new(self.span_ns())))
    }

    /// Operations of the measured phase that cost something each: reads, writes and syncs.
    pub(super) fn operations_done(&self) -> u64 {
        let names = [OperationName::Read, OperationName::Write, OperationName::Sync];
        let linked = if self.links_syncs { self.count(OperationName::Commit) } else { 0 };
        let counts = names.into_iter().map(|name| self.count(name));
        saturating_sum(counts.chain([linked]))
    }

    /// How long the longest job ran, ramp and measured phase.
    pub(super) fn span_ns(&self) -> u64 {
        self.jobs.iter().map(|job| job.accounting.engine_span_ns).max().unwrap_or(0)
    }

    /// The measured phase's share of the counts over all phases: CPU times and switches include the
    /// ramp, the counts of operations do not.
    fn measured_share(&self, measured: Nanos) -> f64 {
        quotient(measured.get(), self.span_ns()).min(1.0)
    }

    /// `alone` means that no other stream ran: only then are the machine's switches known.
    pub(super) fn switches(&self, measured: Nanos, alone: bool) -> Option<Switches> {
        let all = self.jobs.iter().map(|job| job.context_switches);
        let jobs = all.reduce(|sum, job| Some(sum?.saturating_add(job?)))??;
        let ended = self.ended.as_ref().filter(|_| alone);
        // The machine's counter knows nothing of streams, so it cannot be divided among several.
        let machine = ended.and_then(|ended| ended.cpu.as_ref()?.context_switches);
        let operations = self.operations_done();
        let share = self.measured_share(measured);
        let each = |count: u64| quotient(count, operations) * share;
        (operations > 0).then(|| Switches {
            voluntary: each(jobs.voluntary),
            involuntary: each(jobs.involuntary),
            machine: machine.map(each),
        })
    }

    /// `threads` are those of each job.
    pub(super) fn cpu(&self, measured: Nanos, alone: bool, threads: u32) -> CpuFindings {
        let span = self.span_ns();
        let sum =
            |of: fn(&JobEnded) -> Nanos| saturating_sum(self.jobs.iter().map(|job| of(job).get()));
        let (user, system) = (sum(|job| job.cpu_user), sum(|job| job.cpu_system));
        let jobs = user.saturating_add(system);
        let process = self.process_cpu().filter(|_| alone);
        // io_uring hands operations that would block to threads of the kernel, which count for the
        // process and not for a job: without them its cost per operation would look free.
        let workers = process.map(|process| process.saturating_sub(jobs));
        let all = jobs.saturating_add(workers.unwrap_or(0));
        let operations = self.operations_done();
        let measured_share = self.measured_share(measured);
        let shares = self.jobs.iter().map(|job| {
            let cpu = job.cpu_user.get().saturating_add(job.cpu_system.get());
            // One of several threads can fill a core no more than another.
            quotient(cpu, job.accounting.engine_span_ns) / f64::from(threads.max(1))
        });
        let job_shares: Vec<f64> = shares.collect();
        let machine = self.ended.as_ref().and_then(|ended| ended.cpu.as_ref());
        let share = |ticks: u64, total: u64| (total > 0).then(|| quotient(ticks, total));
        CpuFindings {
            // CPU time is counted over ramp and measured phase, operations over the latter.
            per_operation_ns: quotient(all, operations) * measured_share,
            user_cores: quotient(user, span),
            system_cores: quotient(system, span),
            workers_cores: workers.map(|workers| quotient(workers, span)),
            busiest_job_share: job_shares.iter().copied().fold(0.0, f64::max),
            job_shares,
            machine_system_share: machine.and_then(|cpu| {
                share(saturating_sum([cpu.system, cpu.irq, cpu.softirq]), cpu.total())
            }),
            machine_steal_share: machine.and_then(|cpu| share(cpu.steal, cpu.total())),
            foreign_cores: self.foreign_cores(),
            kernel_cores: self.machine_cpu().and_then(|(all, span)| kernel_cpus(all, span)),
            throttled: machine.and_then(|cpu| cpu.cgroup_throttled_usec).map(Nanos::from_micros),
        }
    }
}

/// Requests per access may deviate by this share.
// They may be others' or the journal's, or be missing because two were merged.
const OTHERS_MAX: f64 = 0.1;

const NANOS_PER_MILLI: u64 = 1_000_000;

impl StreamState {
    /// `waits`: every write is durable before the next, so its requests are waited for.
    pub(super) fn device_time(&self, alone: bool, waits: bool) -> Option<DeviceTime> {
        let device = counting(&self.ended.as_ref()?.devices)?;
        let is_direct = self.started.cache == CacheMode::Direct;
        let requests = device.reads_completed.saturating_add(device.writes_completed);
        let per_access = quotient(requests, self.accesses_ever);
        // A sync may write the blocks of a journal or an inode.
        let most = if waits { f64::MAX } else { 1.0 + OTHERS_MAX };
        let permitted = (1.0 - OTHERS_MAX..=most).contains(&per_access);
        // Counters are per device, not per stream; and later writeback by the page cache is not
        // part of any latency.
        if !(alone && permitted && (is_direct || waits)) {
            return None;
        }
        // The time of a flush is in that of the write that waited for it, which for a sync is an
        // empty one (block/blk-flush.c): `flush_ms` would count it twice.
        let millis = device.read_ms.saturating_add(device.write_ms);
        let at_device = millis.saturating_mul(NANOS_PER_MILLI);
        // Concurrent requests of one operation: the sum of their times exceeds its time.
        let outside = self.latency_sum_ns.checked_sub(at_device)?;
        Some(DeviceTime {
            device: device.name.clone(),
            requests_per_access: per_access,
            request_ns_mean: quotient(at_device, requests),
            outside_ns_mean: quotient(outside, self.accesses_ever),
            outside_share: quotient(outside, self.latency_sum_ns),
            shares: self.moved_own_bytes(device).then(|| self.time_shares(at_device)).flatten(),
        })
    }

    /// True if the device moved about the bytes of the operations. Larger requests than theirs, of
    /// other programs or a filesystem's writeback, run beside them, and their time is not theirs.
    fn moved_own_bytes(&self, device: &DeviceCounters) -> bool {
        let sectors = device.sectors_read.saturating_add(device.sectors_written);
        quotient(sectors.saturating_mul(SECTOR), self.bytes_ever) <= 1.0 + OTHERS_MAX
    }

    /// The latencies in three parts, by the CPU time and the waits for a CPU of the jobs' threads.
    fn time_shares(&self, at_device_ns: u64) -> Option<TimeShares> {
        let (latency, span) =
            (self.latency_sum_ns, self.sum_of_jobs(|job| job.accounting.engine_span_ns));
        // Several operations of a thread share its waits, and so do the threads of a log.
        let is_one_by_one = self.started.depth == 1
            && self.started.engine != EngineKind::Null
            && self.jobs.iter().all(|job| job.batches.is_none());
        let in_operations = quotient(latency, span);
        let is_known = latency >= COUNTED_MIN_NS && in_operations >= IN_OPERATIONS_MIN;
        if !is_one_by_one || !is_known {
            return None;
        }
        let waits: Option<Vec<u64>> =
            self.jobs.iter().map(|job| Some(job.run_delay?.get())).collect();
        let waited = saturating_sum(waits?);
        let cpu_wait = quotient(waited, span).min(1.0);
        let device = quotient(at_device_ns, latency).min(1.0 - cpu_wait);
        let mean_ns = quotient(latency, self.accesses_ever);
        let kernel = (1.0 - device - cpu_wait).max(0.0);
        Some(TimeShares { mean_ns, device, cpu_wait, kernel })
    }

    fn sum_of_jobs(&self, part: impl Fn(&JobEnded) -> u64) -> u64 {
        saturating_sum(self.jobs.iter().map(part))
    }
}

/// Below this the device's counters, which are whole milliseconds, are off by more than a
/// hundredth.
const COUNTED_MIN_NS: u64 = 100 * NANOS_PER_MILLI;

/// The jobs' threads must have an operation under way for at least this share of their time. The
/// waits for a CPU are counted over all of it, and in the rest may differ.
const IN_OPERATIONS_MIN: f64 = 0.9;

/// The one device that counted requests.
pub(super) fn counting(devices: &[DeviceCounters]) -> Option<&DeviceCounters> {
    let has = |device: &&DeviceCounters| device.reads_completed > 0 || device.writes_completed > 0;
    match devices {
        all if all.iter().any(|device| device.not_counted) => None,
        all => match &all.iter().filter(has).collect::<Vec<_>>()[..] {
            [device] => Some(device),
            _ => None,
        },
    }
}

/// The counters; `has_io` says that something must have reached the devices. If no counter moved
/// anyway, the devices do not count, and their zeros mean nothing.
pub(super) fn counted(mut devices: Vec<DeviceCounters>, has_io: bool) -> Vec<DeviceCounters> {
    if has_io && devices.iter().all(DeviceCounters::is_zero) {
        devices.iter_mut().for_each(|device| device.not_counted = true);
    }
    devices
}

#[cfg(test)]
mod tests {
    use durio_record::{
        Accounting, Batches, ContextSwitches, Exact, Latency, Outcome, StepEnded, StreamStarted,
    };
    use durio_workload::{Arrivals, RegionRule};

    use super::*;

    fn started() -> StreamStarted {
        StreamStarted {
            engine: EngineKind::Uring,
            jobs: 1,
            depth: 1,
            batch: 1,
            cache: CacheMode::Buffered,
            region: RegionRule::Shared,
            clock: "tsc".to_owned(),
            features: Vec::new(),
            fallbacks: Vec::new(),
            arrivals: Arrivals::Closed,
        }
    }

    fn ended(measured: Nanos, cpu: Option<CpuCounters>) -> StepEnded {
        StepEnded {
            step: 0,
            round: 0,
            outcome: Outcome::Complete,
            measured,
            cpu,
            devices: Vec::new(),
            cpu_process_user: None,
            cpu_process_system: None,
            idle_before: None,
            context_switches: None,
        }
    }

    fn job(accounting: Accounting) -> JobEnded {
        JobEnded {
            step: 0,
            round: 0,
            stream: 0,
            job: 0,
            measured: Nanos::ZERO,
            cpu_user: Nanos::ZERO,
            cpu_system: Nanos::ZERO,
            context_switches: None,
            run_delay: None,
            exchanges: 0,
            accounting,
            pacing: None,
            batches: None,
            operations: Vec::new(),
        }
    }

    /// One job of 1 s with 1000 syncs and 10 ms of CPU time, in a process that used `process`.
    fn with_process_cpu(process: Option<Nanos>) -> CpuFindings {
        by_threads(process, 1)
    }

    fn by_threads(process: Option<Nanos>, threads: u32) -> CpuFindings {
        let mut state = StreamState::new(started());
        let mut service = Latency::default();
        service.exact = Exact { count: 1000, ..Exact::default() };
        state.total(OperationName::Sync).service = service;
        let accounting = Accounting { engine_span_ns: 1_000_000_000, ..Accounting::default() };
        let (cpu_user, cpu_system) = (Nanos::from_millis(4), Nanos::from_millis(6));
        let measured = Nanos::from_secs(1);
        state.jobs.push(JobEnded { measured, cpu_user, cpu_system, ..job(accounting) });
        state.ended = Some(StepEnded {
            cpu_process_user: process.map(|_| Nanos::ZERO),
            cpu_process_system: process,
            ..ended(measured, None)
        });
        state.cpu(Nanos::from_secs(1), true, threads)
    }

    #[test]
    fn a_job_of_several_threads_fills_a_core_only_when_all_of_them_do() {
        let cpu = by_threads(None, 4);
        assert!((cpu.busiest_job_share - 0.01 / 4.0).abs() < 1e-9, "{}", cpu.busiest_job_share);
        assert!((cpu.user_cores + cpu.system_cores - 0.01).abs() < 1e-9);
    }

    #[test]
    fn the_kernels_workers_are_in_the_cost_of_an_operation() {
        let cpu = with_process_cpu(Some(Nanos::from_millis(30)));
        assert!((cpu.per_operation_ns - 30_000.0).abs() < 1e-6, "{}", cpu.per_operation_ns);
        assert!((cpu.workers_cores.unwrap() - 0.02).abs() < 1e-9);
    }

    /// A step of 1 s with 1000 writes in its measured half, by two jobs with these switches.
    fn switched(jobs: [Option<ContextSwitches>; 2], machine: Option<u64>) -> StreamState {
        let mut state = StreamState::new(started());
        let mut service = Latency::default();
        service.exact = Exact { count: 1000, ..Exact::default() };
        state.total(OperationName::Write).service = service;
        let accounting = Accounting { engine_span_ns: 1_000_000_000, ..Accounting::default() };
        let measured = Nanos::from_millis(500);
        state.jobs.extend(jobs.map(|context_switches| JobEnded {
            measured,
            context_switches,
            ..job(accounting)
        }));
        let cpu = CpuCounters { context_switches: machine, ..CpuCounters::default() };
        state.ended = Some(ended(Nanos::from_millis(500), Some(cpu)));
        state
    }

    #[test]
    fn switches_are_those_of_all_jobs_and_the_ramps_are_left_out() {
        let of = |voluntary, involuntary| Some(ContextSwitches { voluntary, involuntary });
        let state = switched([of(1500, 20), of(500, 0)], Some(9000));
        let half = Nanos::from_millis(500);
        let each = state.switches(half, true).unwrap();
        assert!((each.voluntary - 1.0).abs() < 1e-9 && (each.involuntary - 0.01).abs() < 1e-9);
        assert!((each.machine.unwrap() - 4.5).abs() < 1e-9);
        assert_eq!(state.switches(half, false).unwrap().machine, None, "others ran beside it");
    }

    #[test]
    fn without_counters_of_every_job_nothing_is_said_of_switches() {
        let one = Some(ContextSwitches { voluntary: 7, involuntary: 7 });
        let half = Nanos::from_millis(500);
        assert!(switched([one, None], None).switches(half, true).is_none());
        let mut idle = switched([one, one], None);
        assert!(idle.switches(half, true).is_some_and(|switch| switch.machine.is_none()));
        idle.totals.clear();
        assert!(idle.switches(half, true).is_none(), "there is no operation");
    }

    #[test]
    fn what_other_programs_used_is_counted_over_the_whole_step_and_not_on_virtual_time() {
        let of = |engine, process: Option<Nanos>| {
            let mut state = StreamState::new(StreamStarted { engine, ..started() });
            let accounting = Accounting { engine_span_ns: 2_000_000_000, ..Accounting::default() };
            state.jobs.push(job(accounting));
            let ticks = CpuCounters { user: 310, system: 70, idle: 20, ..CpuCounters::default() };
            state.ended = Some(StepEnded {
                cpu_process_user: process,
                cpu_process_system: process,
                ..ended(Nanos::from_secs(1), Some(ticks))
            });
            // Whether other streams ran beside it or not: durio's own are no other work.
            let [alone, beside] =
                [true, false].map(|alone| state.cpu(Nanos::from_secs(1), alone, 1).foreign_cores);
            assert_eq!(alone, beside);
            alone
        };
        // 3.8 s, of which 0.4 were durio's.
        let found = of(EngineKind::Uring, Some(Nanos::from_millis(200))).unwrap();
        assert!((found - 1.7).abs() < 1e-9, "{found}");
        assert_eq!(of(EngineKind::Uring, None), None);
        assert_eq!(of(EngineKind::Null, Some(Nanos::from_millis(200))), None);
    }

    #[test]
    fn a_record_without_the_process_has_the_jobs_alone() {
        let cpu = with_process_cpu(None);
        assert!((cpu.per_operation_ns - 10_000.0).abs() < 1e-6, "{}", cpu.per_operation_ns);
        assert_eq!(cpu.workers_cores, None);
    }

    /// 1000 accesses of 0.95 ms by a job of 1 s, 0.2 s of it on a CPU and 0.3 s waiting for one.
    fn timed(change: fn(&mut StreamState)) -> StreamState {
        let mut state = StreamState::new(started());
        (state.latency_sum_ns, state.accesses_ever) = (950_000_000, 1000);
        state.jobs.push(JobEnded {
            cpu_user: Nanos::from_millis(60),
            cpu_system: Nanos::from_millis(140),
            run_delay: Some(Nanos::from_millis(300)),
            ..job(Accounting { engine_span_ns: 1_000_000_000, ..Accounting::default() })
        });
        change(&mut state);
        state
    }

    fn assert_shares(found: Option<TimeShares>, expected: [f64; 4]) {
        let found = found.map(|found| [found.mean_ns, found.device, found.cpu_wait, found.kernel]);
        let is_near = |(a, b): (f64, f64)| (a - b).abs() <= b.abs().max(1e-3) * 1e-9;
        let found = found.unwrap();
        assert!(found.into_iter().zip(expected).all(is_near), "{found:?}, not {expected:?}");
    }

    #[test]
    fn an_operation_is_at_the_device_or_waits_for_a_cpu_or_is_in_the_kernel() {
        let device = 400.0 / 950.0;
        let expected = [950_000.0, device, 0.3, 0.7 - device];
        assert_shares(timed(|_| {}).time_shares(400_000_000), expected);
        // The device can have what the waits leave.
        for (at_device, device) in [(664, 664.0 / 950.0), (666, 0.7), (900, 0.7)] {
            let expected = [950_000.0, device, 0.3, 0.7 - device];
            assert_shares(timed(|_| {}).time_shares(at_device * 1_000_000), expected);
        }
        // A second job that never slept.
        let two = timed(|state| {
            let first = state.jobs[0].clone();
            let run_delay = Some(Nanos::from_millis(800));
            state.jobs.push(JobEnded { run_delay, ..first });
            state.latency_sum_ns = 2_000_000_000;
        });
        let expected = [2_000_000.0, 0.2, 0.55, 0.25];
        assert_shares(two.time_shares(400_000_000), expected);
    }

    #[test]
    fn the_parts_are_unknown_where_the_device_moved_a_tenth_more_than_the_operations() {
        let moved = |sectors_read, sectors_written| {
            let state = timed(|state| state.bytes_ever = 1000 * SECTOR);
            state.moved_own_bytes(&DeviceCounters {
                sectors_read,
                sectors_written,
                ..Default::default()
            })
        };
        assert_eq!([moved(0, 1100), moved(100, 1000), moved(0, 900)], [true; 3]);
        assert_eq!([moved(0, 1101), moved(101, 1000), moved(1101, 0)], [false; 3]);
    }

    #[test]
    fn nothing_is_said_of_the_parts_of_a_time_that_counters_do_not_show() {
        let is_known =
            |change: fn(&mut StreamState)| timed(change).time_shares(1_000_000).is_some();
        assert!(is_known(|state| state.latency_sum_ns = 900_000_000));
        assert!(!is_known(|state| state.latency_sum_ns = 899_999_999));
        let short = |state: &mut StreamState, nanos: u64| {
            state.latency_sum_ns = nanos;
            state.jobs[0].accounting.engine_span_ns = nanos;
        };
        let at = |nanos: u64| {
            let mut state = timed(|_| {});
            short(&mut state, nanos);
            state.time_shares(1_000_000).is_some()
        };
        assert_eq!([at(100_000_000), at(99_999_999)], [true, false]);
        assert!(!is_known(|state| state.started.depth = 2));
        assert!(!is_known(|state| state.started.engine = EngineKind::Null));
        assert!(!is_known(|state| state.jobs[0].batches = Some(Batches::default())));
        assert!(!is_known(|state| {
            let unknown = JobEnded { run_delay: None, ..state.jobs[0].clone() };
            state.jobs.push(unknown);
            state.latency_sum_ns *= 2;
        }));
    }

    fn device(writes_completed: u64) -> DeviceCounters {
        DeviceCounters { writes_completed, ..DeviceCounters::default() }
    }

    #[test]
    fn zeros_of_devices_that_were_written_to_are_no_figures() {
        let marked = |devices, has_io| -> Vec<bool> {
            counted(devices, has_io).iter().map(|device| device.not_counted).collect()
        };
        assert_eq!(marked(vec![device(0), device(0)], true), [true, true]);
        // One member of an array may well have had nothing to do.
        assert_eq!(marked(vec![device(0), device(9)], true), [false, false]);
        assert_eq!(marked(vec![device(0)], false), [false]);
        assert_eq!(marked(vec![], true), [] as [bool; 0]);
    }

    #[test]
    fn the_machines_processors_are_told_by_their_shares_of_all_ticks() {
        let ticks = CpuCounters {
            user: 100,
            nice: 20,
            system: 31,
            idle: 700,
            iowait: 90,
            irq: 7,
            softirq: 12,
            steal: 40,
            cgroup_throttled_usec: Some(2500),
            context_switches: Some(9),
            ..CpuCounters::default()
        };
        let of = |ticks: Option<CpuCounters>| {
            let mut state = StreamState::new(started());
            state.jobs.push(job(Accounting { engine_span_ns: 1, ..Accounting::default() }));
            state.ended = Some(ended(Nanos::from_secs(1), ticks));
            state.cpu(Nanos::from_secs(1), true, 1)
        };
        let found = of(Some(ticks));
        // 31, 7 and 12 of a thousand.
        assert!((found.machine_system_share.unwrap() - 0.05).abs() < 1e-9, "{found:?}");
        assert!((found.machine_steal_share.unwrap() - 0.04).abs() < 1e-9, "{found:?}");
        assert_eq!(found.throttled, Some(Nanos::from_micros(2500)));
        for unknown in [None, Some(CpuCounters::default())] {
            let found = of(unknown);
            let shares = (found.machine_system_share, found.machine_steal_share);
            assert_eq!((shares, found.throttled), ((None, None), None));
        }
    }
}
