//! The rules of the audit.
//!
//! A rule sees one claim, or all that are compared, and reports at most once per claim.
//!
//! A rule is a file or a function, and a row of [`RULES`]. No rule speaks without evidence: silence
//! in a claim does not count against it.

mod bandwidth;
mod distribution;
mod durability;
mod in_flight;
mod method;
mod rows;
mod units;

use super::claim::{Claim, ClaimPlace};
use super::figure::significant;
use super::{EvidenceValue, FindingEvidence, Tier};
use crate::rules;

/// A rule's observation in a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observation {
    pub(super) tier: Tier,
    pub(super) reason: String,
    pub(super) evidence: FindingEvidence,
}

impl Observation {
    /// With the values that the reason rests on.
    fn new<const N: usize>(
        tier: Tier,
        reason: impl Into<String>,
        figures: [(&str, f64); N],
    ) -> Self {
        // Six digits: more would show the noise of the arithmetic.
        let number = |value| EvidenceValue::Number(significant(value, 6));
        let evidence = figures.map(|(name, value)| (name.to_owned(), number(value))).into();
        Self { tier, reason: reason.into(), evidence }
    }

    /// And a text that it rests on.
    fn with_text(mut self, name: &str, text: &str) -> Self {
        self.evidence.insert(name.to_owned(), EvidenceValue::Text(text.to_owned()));
        self
    }
}

/// A rule's observation, and its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LocatedObservation {
    pub(super) line: ClaimPlace,
    pub(super) label: String,
    pub(super) seen: Observation,
}

impl LocatedObservation {
    fn new(claim: &Claim, seen: Observation) -> Self {
        Self { line: claim.place(), label: claim.label(), seen }
    }
}

/// How a rule looks.
#[derive(Debug, Clone, Copy)]
pub(super) enum RuleCheck {
    /// At each claim by itself.
    Claim(fn(&Claim) -> Option<Observation>),
    /// At the claims together.
    Table(fn(&[Claim]) -> Vec<LocatedObservation>),
}

rules! {
    /// Every rule. The order is that of the meanings in the findings.
    pub(super) RULES of RuleCheck;
    Claim "in-flight-impossible" in_flight::impossible:
        "rate × latency is the mean number in flight (Little's law); it cannot be above jobs × \
         depth" =>
        "do not use the row; look whether the jobs are counted per drive or in total, and \
         whether rate and latency are of the same operations";
    Claim "bandwidth-impossible" bandwidth::contradiction:
        "bandwidth is rate × block size; one of the three figures, or a unit, is wrong" =>
        "look for the unit (MB, MiB, kB) and for a block size that differs from the one stated";
    Claim "unit-mistyped" units::mistyped:
        "a figure stands under a unit that it cannot have" =>
        "correct the unit at the source; do not use the figure until then";
    Claim "percentiles-out-of-order" distribution::out_of_order:
        "a higher percentile is never a shorter time" =>
        "do not use the distribution; go back to the tool's own output";
    Claim "mean-impossible" distribution::mean:
        "a mean lies between the shortest and the longest, and a percentile bounds it from below" =>
        "do not use the latency; go back to the tool's own output";
    Claim "in-flight-shortfall" in_flight::shortfall:
        "rate × latency leaves workers unaccounted for: they spent time elsewhere (in a sync that \
         the latency does not hold, in the program), or latency or rate is understated" =>
        "ask for the latency of the sync, or of the whole loop; a paced job says so in its row";
    Claim "in-flight-above" in_flight::above:
        "rate × latency is above jobs × depth by less than a tool's own figures may be apart: fio \
         averages the printed rate over samples, the latency over all operations" =>
        "nothing, if the difference is a few per cent and the tool is fio";
    Claim "columns-exchanged" units::exchanged:
        "the figures fit only if those of reads and writes change places" =>
        "exchange the columns at the source, and check the rows beside it";
    Claim "latency-unit" units::thousandfold:
        "rate × latency is off by a factor between units: ns, µs, ms, or a k that is missing" =>
        "look up the unit of the column at the source";
    Claim "digits-repeated" units::digits_repeated:
        "rate and latency have the same digits and do not fit: one was copied into the other's \
         place" =>
        "go back to the tool's own output for this row";
    Claim "mix-unlike-stated" units::mix:
        "the rates of reads and writes do not have the ratio that the workload asks for" =>
        "look whether rates are per kind of operation, and for a mix that differs from the one \
         stated";
    Table "unlike-neighbours" rows::neighbours:
        "the rows of the same series agree on a share of busy workers that this row does not have" =>
        "measure the row again, or go back to its output";
    Table "bandwidth-unit-of-series" bandwidth::unit_of_series:
        "other rows of the same series have a bandwidth in another unit than the column says" =>
        "state the unit once, and convert every row";
    Claim "parts-unlike-total" bandwidth::parts:
        "the figures per drive or per thread do not add up to the total" =>
        "look whether the parts are means or sums, and how many there are";
    Table "contradicting-rows" rows::contradictions:
        "rows that describe the same measurement have different figures: a setting that differed \
         is not given, or one of them is wrong" =>
        "give the setting that differed a column; without one, measure both rows again";
    Claim "page-cache" durability::fits_in_memory:
        "what fits into memory and is not read or written directly is measured in the page cache" =>
        "measure with O_DIRECT, or with a file of several times the memory";
    Table "page-cache-by-volume" durability::by_volume:
        "buffered writes that are much faster than larger volumes on the same storage: the page \
         cache was measured, not the device" =>
        "use the row with the largest volume, or measure with O_DIRECT";
    Claim "sync-never-issued" durability::never_issued:
        "a sync was asked for, and the figures leave no room for one" =>
        "look whether the engine ignores the sync option, and count flushes at the device \
         (durio run --trace-path, /sys/class/block/*/stat)";
    Claim "durability-without-sync" durability::without_sync:
        "neither a blocking call nor O_DIRECT makes a write durable; without a sync the device \
         may hold it in a volatile cache" =>
        "call the figure not durable, or measure with fdatasync or O_DSYNC";
    Claim "depth-not-real" method::depth_not_real:
        "a blocking engine has one operation in flight per job, and buffered asynchronous I/O on \
         most filesystems nearly so, whatever depth is asked for" =>
        "report jobs as the depth, or use an asynchronous engine with O_DIRECT";
    Claim "filesystem-as-device" method::filesystem_as_device:
        "a file was measured, and its figures are called those of the device" =>
        "name the filesystem with the figure, or measure the device";
    Claim "no-preconditioning" method::no_preconditioning:
        "a fresh flash device is faster than one that was written to for long" =>
        "write the device twice over before measuring, and go on until the rate is steady";
    Claim "idle-gap" method::idle_gap:
        "a device that idles collects its garbage, and is faster afterwards than it can sustain" =>
        "start the measured step right after preconditioning";
    Claim "stalls" distribution::stalls:
        "a storage that stands still for parts of a second: garbage collection, throttling, a \
         full cache" =>
        "look at the rate over time; quote p99.9 and the longest time beside the mean";
    Claim "submission-blocks" distribution::submission:
        "a call that should only submit waits: for allocation, locks, or a place in a full queue" =>
        "measure on a preallocated file or on the device, and with less depth";
    Claim "system-time" distribution::system_time:
        "much of a processor is spent in the kernel: the figure may be that of the processor, not \
         of the storage" =>
        "compare with larger blocks or another engine before blaming the storage";
    Claim "tail-gap" distribution::tail:
        "one operation in ten thousand is far slower than the p99 suggests, and a transaction of \
         many operations hits one often" =>
        "quote p99.9 and p99.99";
    Claim "too-short" method::too_short:
        "caches, garbage collection, burst credits and heat show after minutes; under 300 s \
         figures are provisional, under 5 s they may be those of a cache" =>
        "measure for 300 s or more before you rely on it";
    Claim "unlike-database" method::unlike:
        "the figures say little about a database that does other I/O" =>
        "measure with the database's block size and depth (durio profile show NAME)";
    Table "average-only" distribution::average_only:
        "transactions wait for the tail: an average tells neither p99 nor p99.9" =>
        "record percentiles (fio --output-format=json+), and quote p99 and p99.9";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::claim::Operations;
    use crate::audit::figure::Figure;
    use crate::audit::phrases::describe;

    // Claims for the tests of rules: sound ones, to be spoiled.

    pub(crate) fn operations(rate: f64, latency_us: f64) -> Operations {
        Operations {
            rate: Some(Figure::exact(rate)),
            latency_ns_mean: Some(Figure::exact(latency_us * 1e3)),
            percentiles_ns: vec![(99.0, Figure::exact(latency_us * 2e3))],
            ..Operations::default()
        }
    }

    /// Sound in every respect: 990 of 1000 ms of one worker are accounted for.
    pub(crate) fn sound(workload: &str) -> Claim {
        let mut claim = Claim {
            line: Some(ClaimPlace::Number(2)),
            stack: "raw NVMe".into(),
            workload: workload.into(),
            block_size: Some(durio_base::Bytes::from_kib(4)),
            jobs: Some(1),
            depth: Some(1),
            ..Claim::default()
        };
        describe(&mut claim);
        match claim.read_share {
            Some(share) if share > 0.0 && share < 1.0 => {
                claim.read = operations(10_000.0 * share, 99.0);
                claim.write = operations(10_000.0 * (1.0 - share), 99.0);
            }
            Some(share) if share < 0.5 => claim.write = operations(10_000.0, 99.0),
            _ => claim.read = operations(10_000.0, 99.0),
        }
        claim
    }

    /// All findings about one claim, as codes.
    pub(crate) fn codes(claim: &Claim) -> Vec<String> {
        let findings = crate::audit::audit(std::slice::from_ref(claim)).findings;
        findings.into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn the_sample_is_sound() {
        for workload in ["randread", "randwrite", "randrw read70"] {
            assert_eq!(codes(&sound(workload)), [""; 0], "{workload}");
        }
    }
}
