//! A claimed measurement: one neutral row, whatever it was read from. Readers fill the fields and
//! leave unknown ones absent; the sums that several rules need are here.

use durio_base::stats::least_squares::float;
use durio_base::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::Figure;

/// Where a claim stands: a line of a file, or the name of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClaimPlace {
    /// Line of the file, from 1; the header is line 1.
    Number(u64),
    /// Name of a job or a workload.
    Name(String),
}

/// Whether the claim says that a write was on stable media before it counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The claim says nothing of it.
    #[default]
    Unknown,
    /// It says that the writes were not durable.
    Denied,
    /// It says how the call was made (blocking, direct, asynchronous) where the durability belongs.
    OnlyTheCall,
    /// A call after each write, such as fsync.
    SyncCall,
    /// With the write itself: `O_SYNC`, `O_DSYNC`, `RWF_DSYNC`.
    InTheWrite,
}

/// Results of one kind of operation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Operations {
    /// Operations per second of this kind.
    pub rate: Option<Figure>,
    /// The true rate if a program lost the carry of its rounding, where that is possible.
    pub rate_of_lost_carry: Option<Figure>,
    /// A `k` or `M` is written behind the rate.
    pub rate_has_unit: bool,
    /// A unit is written behind the mean latency.
    pub latency_has_unit: bool,
    /// Mean latency from submission to completion, in nanoseconds.
    pub latency_ns_mean: Option<Figure>,
    /// The shortest, in nanoseconds.
    pub latency_ns_min: Option<Figure>,
    /// The longest, in nanoseconds.
    pub latency_ns_max: Option<Figure>,
    /// Percentile (0 to 100) and latency in nanoseconds, ascending by percentile.
    pub percentiles_ns: Vec<(f64, Figure)>,
    /// How many there were.
    pub count: Option<u64>,
    /// Mean time until the submitting call returned, in nanoseconds.
    pub submit_ns_mean: Option<Figure>,
    /// Bytes per second of the slowest sample, where there are enough to tell.
    pub bandwidth_min: Option<Figure>,
    /// Bytes per second, the mean of the samples.
    pub bandwidth_mean: Option<Figure>,
}

/// One claim. Text is unchanged.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claim {
    pub line: Option<ClaimPlace>,
    /// Publication, tool or run.
    pub source: String,
    /// The storage that was measured.
    pub stack: String,
    pub workload: String,
    /// The source's words about durability.
    pub durable: String,
    /// What else was said.
    pub note: String,
    /// Share of reads that the workload asks for, 0 to 1.
    pub read_share: Option<f64>,
    /// Random rather than sequential.
    pub random: Option<bool>,
    /// Bytes per operation, where all are of one size.
    pub block_size: Option<Bytes>,
    /// Bytes per operation in the mean, where they differ: a log's batches, padding included.
    pub mean_bytes: Option<Figure>,
    /// Workers in total, not per drive.
    pub jobs: Option<u32>,
    /// Operations that each may have in flight.
    pub depth: Option<u32>,
    /// Name of the engine, such as libaio.
    pub engine: Option<String>,
    /// Each worker waits for each operation.
    pub blocking: Option<bool>,
    /// Through the page cache.
    pub buffered: Option<bool>,
    /// How writes are said to be durable.
    pub durability: Durability,
    /// Writes of a job from one sync call to the next; unknown unless it is said.
    pub writes_per_sync: Option<u32>,
    /// Operations start at given times or after a pause, not as fast as they can.
    pub paced: bool,
    /// Ends of the measured time that operations may reach across: its start after a ramp, its end
    /// before the queue has drained. Each place in the queue has at most one such operation there.
    pub open_ends: u8,
    /// Time in which a job's places in the queue were taken, in the mean, as a share of the measured
    /// time: jobs may end one after the other, and make data in between.
    pub jobs_time_share: Option<f64>,
    /// How far correct values of this source may be apart, as a share.
    pub tolerance: f64,
    pub read: Operations,
    pub write: Operations,
    /// Calls such as fsync, apart from the writes.
    pub sync: Operations,
    /// Bytes per second, reads and writes together.
    pub bandwidth: Option<Figure>,
    /// The unit written behind it; `None` where its column or its document gives one for all.
    pub bandwidth_unit: Option<String>,
    /// The true bandwidth if a program lost the carry of its rounding, where that is possible.
    pub bandwidth_of_lost_carry: Option<Figure>,
    /// How long it ran.
    pub runtime: Option<Nanos>,
    /// Bytes read and written in all.
    pub total: Option<Bytes>,
    /// Bytes of the file or device that were touched.
    pub size: Option<Bytes>,
    /// Memory of the machine.
    pub memory: Option<Bytes>,
    /// Path of the file or device.
    pub target: Option<String>,
    /// Whether the device was filled and worn in before.
    pub preconditioned: Option<bool>,
    /// Time without I/O between preconditioning and test, or within the test.
    pub idle: Option<Nanos>,
    /// Time in the kernel per job, as a share of one processor.
    pub system_cpu_share: Option<f64>,
}

impl Claim {
    /// The kinds of operations, with their names.
    pub(super) const fn kinds(&self) -> [(&'static str, &Operations); 3] {
        [("read", &self.read), ("write", &self.write), ("sync", &self.sync)]
    }

    /// Most operations that can be in flight: jobs × depth.
    pub fn slots(&self) -> Option<f64> {
        Some(f64::from(self.jobs?) * f64::from(self.depth?))
    }

    /// Reads and writes per second, where at least one is known.
    pub fn rate(&self) -> Option<Figure> {
        sum(self.read.rate, self.write.rate)
    }

    /// Mean number in flight by Little's law: the sum of rate × latency. A kind of operation that
    /// has a rate and no latency leaves it unknown. Where a sync call follows writes, both are waited
    /// for; syncs whose rate is unknown are left out.
    pub fn in_flight(&self) -> Option<Figure> {
        let read = in_flight_of(&self.read, self.read.rate)?;
        let write = in_flight_of(&self.write, self.write.rate)?;
        let sum = sum(read, write)?;
        let syncs = in_flight_of(&self.sync, self.sync.rate.or_else(|| self.sync_rate()));
        Some(self.while_running(match (self.durability, syncs) {
            (Durability::SyncCall, Some(Some(sync))) => sum.plus(sync),
            _ => sum,
        }))
    }

    /// The part of the number in flight that is known where a latency is missing: no more than all of it.
    pub fn in_flight_at_least(&self) -> Option<Figure> {
        let known = |operations, rate| in_flight_of(operations, rate).flatten();
        let (read, write) =
            (known(&self.read, self.read.rate), known(&self.write, self.write.rate));
        let rate = self.sync.rate.or_else(|| self.sync_rate());
        let sync = known(&self.sync, rate).filter(|_| self.durability == Durability::SyncCall);
        Some(self.while_running(sum(sum(read, write), sync)?))
    }

    /// With the bounds that the ends of the measured time leave, and of the time in which all jobs
    /// ran.
    fn while_running(&self, in_flight: Figure) -> Figure {
        let carried = self.carried_over().unwrap_or(0.0);
        let running = self.jobs_time_share.filter(|share| *share > 0.0).unwrap_or(1.0);
        Figure {
            low: (in_flight.low - carried).max(0.0),
            high: (in_flight.high + carried) / running,
            ..in_flight
        }
    }

    /// The number in flight that operations across the ends of the measured time can make up: one
    /// for each place and end, each at most as long as the longest operation.
    fn carried_over(&self) -> Option<f64> {
        let runtime = self.runtime.filter(|runtime| *runtime > Nanos::ZERO)?;
        let longest = self
            .kinds()
            .into_iter()
            .filter_map(|(_, operations)| Some(operations.latency_ns_max?.high));
        let longest = longest.fold(0.0, f64::max);
        Some(f64::from(self.open_ends) * self.slots()? * longest / float(runtime.get()))
    }

    /// Sync calls per second, by the writes between them.
    fn sync_rate(&self) -> Option<Figure> {
        Some(self.write.rate?.scaled(1.0 / f64::from(self.writes_per_sync?.max(1))))
    }

    /// True if something was written.
    pub fn writes(&self) -> bool {
        self.write.rate.is_some_and(|rate| rate.value > 0.0)
            || self.read_share.is_some_and(|share| share < 1.0)
    }

    /// How long it ran at least, as stated or by its volume; nanoseconds and whether it was stated.
    pub fn ran_ns(&self) -> Option<(f64, bool)> {
        if let Some(runtime) = self.runtime {
            return Some((float(runtime.get()), true));
        }
        let (total, bandwidth) = (self.total?, self.bandwidth?);
        (bandwidth.low > 0.0).then(|| (float(total.get()) / bandwidth.low * 1e9, false))
    }

    /// The line, or without one the label.
    pub(super) fn place(&self) -> ClaimPlace {
        self.line.clone().unwrap_or_else(|| ClaimPlace::Name(self.label()))
    }

    /// A label for people: the workload and its load.
    pub fn label(&self) -> String {
        let jobs = self.jobs.map(|jobs| match (jobs, self.depth) {
            (1, None | Some(1)) => "1 job".to_owned(),
            (_, None | Some(1)) => format!("{jobs} jobs"),
            (_, Some(depth)) => format!("{jobs} × {depth}"),
        });
        let block = self.block_size.map(|bytes| bytes.to_string());
        let parts = [Some(self.stack.clone()), Some(self.workload.clone()), block, jobs];
        let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        parts.join(", ")
    }
}

fn sum(one: Option<Figure>, other: Option<Figure>) -> Option<Figure> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.plus(other)),
        (one, other) => one.or(other),
    }
}

/// `None` if a needed latency is missing, `Some(None)` if there are no operations of this kind.
fn in_flight_of(operations: &Operations, rate: Option<Figure>) -> Option<Option<Figure>> {
    match (rate, operations.latency_ns_mean) {
        (Some(rate), Some(latency)) => Some(Some(rate.times(latency).scaled(1e-9))),
        (Some(rate), None) if rate.value > 0.0 => None,
        _ => Some(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(rate: f64, latency_us: f64) -> Operations {
        Operations {
            rate: Some(Figure::exact(rate)),
            latency_ns_mean: Some(Figure::exact(latency_us * 1e3)),
            ..Operations::default()
        }
    }

    #[test]
    fn reads_and_writes_share_the_jobs() {
        let claim = Claim {
            read: operations(1000.0, 500.0),
            write: operations(2000.0, 200.0),
            ..Claim::default()
        };
        assert!((claim.in_flight().unwrap().value - 0.9).abs() < 1e-9);
    }

    #[test]
    fn a_sync_call_is_waited_for_with_its_write_and_one_in_the_write_is_not_counted_twice() {
        let mut claim = Claim {
            write: operations(28_571.0, 35.0),
            sync: Operations { rate: None, ..operations(0.0, 34.8) },
            durability: Durability::SyncCall,
            writes_per_sync: Some(1),
            ..Claim::default()
        };
        assert!((claim.in_flight().unwrap().value - 1.994).abs() < 1e-3);
        claim.writes_per_sync = Some(100);
        assert!((claim.in_flight().unwrap().value - 1.01).abs() < 1e-3);
        claim.writes_per_sync = None;
        assert!((claim.in_flight().unwrap().value - 1.0).abs() < 1e-3, "not known how often");
        claim.writes_per_sync = Some(1);
        claim.durability = Durability::InTheWrite;
        assert!((claim.in_flight().unwrap().value - 1.0).abs() < 1e-3);
    }

    #[test]
    fn operations_across_the_ends_of_the_measured_time_widen_the_bounds() {
        let mut claim = Claim { read: operations(1000.0, 1_020.0), ..Claim::default() };
        (claim.jobs, claim.depth) = (Some(1), Some(1));
        claim.runtime = Some(Nanos::from_secs(1));
        claim.read.latency_ns_max = Some(Figure::exact(15e6));
        assert!((claim.in_flight().unwrap().low - 1.02).abs() < 1e-9);
        claim.open_ends = 2;
        let in_flight = claim.in_flight().unwrap();
        assert!((in_flight.low - 0.99).abs() < 1e-9, "two of 15 ms in a second: {in_flight:?}");
        assert!((in_flight.high - 1.05).abs() < 1e-9 && in_flight.value > 1.0);
        claim.jobs_time_share = Some(0.5);
        assert!((claim.in_flight().unwrap().high - 2.1).abs() < 1e-9, "while all jobs ran");
    }

    #[test]
    fn a_latency_that_is_missing_leaves_the_number_unknown() {
        let mut claim = Claim { read: operations(1000.0, 500.0), ..Claim::default() };
        claim.write.rate = Some(Figure::exact(10.0));
        assert_eq!(claim.in_flight(), None);
        assert_eq!(Claim::default().in_flight(), None);
    }

    #[test]
    fn a_label_names_what_was_measured_and_how() {
        let label = |jobs, depth| {
            let block_size = Some(Bytes::from_kib(4));
            let (stack, workload) = ("xfs".to_owned(), "randread".to_owned());
            Claim { stack, workload, block_size, jobs, depth, ..Claim::default() }.label()
        };
        assert_eq!(label(None, Some(9)), "xfs, randread, 4 KiB");
        assert_eq!(label(Some(1), None), "xfs, randread, 4 KiB, 1 job");
        assert_eq!(label(Some(1), Some(1)), "xfs, randread, 4 KiB, 1 job");
        assert_eq!(label(Some(2), None), "xfs, randread, 4 KiB, 2 jobs");
        assert_eq!(label(Some(2), Some(1)), "xfs, randread, 4 KiB, 2 jobs");
        assert_eq!(label(Some(1), Some(2)), "xfs, randread, 4 KiB, 1 × 2");
        assert_eq!(label(Some(3), Some(4)), "xfs, randread, 4 KiB, 3 × 4");
        assert_eq!(Claim::default().label(), "");
    }

    #[test]
    fn jobs_times_depth_are_places_and_rates_are_added() {
        let mut claim = Claim { jobs: Some(3), depth: Some(5), ..Claim::default() };
        assert_eq!((claim.slots(), claim.rate()), (Some(15.0), None));
        claim.read = operations(100.0, 1.0);
        assert_eq!(claim.rate(), Some(Figure::exact(100.0)));
        claim.write = operations(20.0, 1.0);
        assert_eq!(claim.rate(), Some(Figure::exact(120.0)));
        claim.read = Operations::default();
        assert_eq!(claim.rate(), Some(Figure::exact(20.0)));
        claim.depth = None;
        assert_eq!(claim.slots(), None);
        let kinds = claim.kinds().map(|(name, operations)| (name, operations.rate.is_some()));
        assert_eq!(kinds, [("read", false), ("write", true), ("sync", false)]);
    }

    #[test]
    fn what_writes_has_a_rate_of_writes_or_is_not_all_reads() {
        let writes = |rate: Option<f64>, read_share| {
            let write = Operations { rate: rate.map(Figure::exact), ..Operations::default() };
            Claim { write, read_share, ..Claim::default() }.writes()
        };
        assert!(!writes(None, None) && !writes(Some(0.0), None) && !writes(None, Some(1.0)));
        assert!(
            writes(Some(0.1), None) && writes(None, Some(0.99)) && writes(Some(0.0), Some(0.0))
        );
    }

    #[test]
    fn a_run_is_as_long_as_it_says_or_as_its_volume_took_at_most() {
        let mut claim = Claim { total: Some(Bytes::new(6_000)), ..Claim::default() };
        assert_eq!(claim.ran_ns(), None);
        claim.bandwidth = Some(Figure { value: 3_000.0, low: 2_000.0, high: 4_000.0 });
        assert_eq!(claim.ran_ns(), Some((3e9, false)));
        claim.bandwidth = Some(Figure { value: 3_000.0, low: 0.0, high: 4_000.0 });
        assert_eq!(claim.ran_ns(), None);
        claim.runtime = Some(Nanos::from_secs(7));
        assert_eq!(claim.ran_ns(), Some((7e9, true)));
    }

    #[test]
    fn what_is_known_alone_is_a_part_of_the_number_in_flight() {
        let mut claim = Claim {
            read: operations(1000.0, 500.0),
            sync: operations(100.0, 1_000.0),
            durability: Durability::SyncCall,
            ..Claim::default()
        };
        claim.write.rate = Some(Figure::exact(10.0));
        let known = |claim: &Claim| claim.in_flight_at_least().map(|figure| figure.value);
        let is = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        assert!(is(known(&claim), 0.6));
        claim.durability = Durability::InTheWrite;
        assert!(is(known(&claim), 0.5), "the sync is in the write");
        // Syncs by the writes between them, 10 ÷ 4 in a second.
        claim.durability = Durability::SyncCall;
        (claim.sync.rate, claim.writes_per_sync) = (None, Some(4));
        assert!(is(known(&claim), 0.5025));
        claim.read = Operations::default();
        claim.sync = Operations::default();
        assert_eq!(known(&claim), None);
        // A rate of zero needs no latency.
        claim.read = operations(1000.0, 500.0);
        assert_eq!(claim.in_flight(), None);
        claim.write.rate = Some(Figure::exact(0.0));
        assert!(is(claim.in_flight().map(|figure| figure.value), 0.5));
    }

    #[test]
    fn ends_are_as_long_as_the_longest_of_all_kinds_and_there_is_less_than_none() {
        let mut claim = Claim { read: operations(1000.0, 1_000.0), ..Claim::default() };
        (claim.jobs, claim.depth, claim.open_ends) = (Some(2), Some(3), 1);
        claim.runtime = Some(Nanos::from_secs(1));
        claim.read.latency_ns_max = Some(Figure::exact(1e6));
        claim.sync.latency_ns_max = Some(Figure::exact(25e6));
        let bounds =
            |claim: &Claim| claim.in_flight().map(|figure| (figure.low, figure.high)).unwrap();
        // 6 places of 25 ms in a second.
        let (low, high) = bounds(&claim);
        assert!((low - 0.85).abs() < 1e-9 && (high - 1.15).abs() < 1e-9, "{low} {high}");
        claim.sync.latency_ns_max = Some(Figure::exact(250e6));
        assert_eq!(bounds(&claim).0, 0.0);
        claim.runtime = Some(Nanos::ZERO);
        assert_eq!(bounds(&claim), (1.0, 1.0));
        claim.jobs_time_share = Some(0.0);
        assert_eq!(bounds(&claim), (1.0, 1.0));
    }
}
