//! The block of figures that fio prints for each kind of latency.
//!
//! In: `slat_ns`, `clat_ns`, `lat_ns`. Out: [`LatencyBlock`]. Not here: which of them to trust.

use super::cursor::{Cursor, Fault, Read};
use super::table::{FromJson, ToJson, object};
use super::write::Printer;
use crate::histogram::FioBins;

/// `(percent, ns)`, ascending by percent.
pub type PercentileList = Vec<(f64, u64)>;

/// One kind of latency of one kind of operation. All zero if nothing was measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyBlock {
    /// The smallest, in ns.
    pub min: u64,
    /// The largest, in ns; a percentile can exceed it, as it is the middle of a bucket.
    pub max: u64,
    /// In ns.
    pub mean: f64,
    /// In ns, of a sample (divided by N - 1).
    pub stddev: f64,
    /// How many were measured (`N`); `None` before fio 3.18, which does not say.
    pub n: Option<u64>,
    /// Empty unless asked for and something was measured.
    pub percentiles: PercentileList,
    /// All of the measured; empty unless in json+ and percentiles were asked for.
    pub bins: FioBins,
}

impl LatencyBlock {
    /// How many were measured: what fio says, or else what the bins hold.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.n.unwrap_or_else(|| self.bins.total())
    }

    /// The percentile that fio printed for exactly this percentage, in ns.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let printed = self.percentiles.iter().find(|&&(printed, _)| printed == percent);
        printed.map(|&(_, value_ns)| value_ns)
    }

    /// Of what was not measured, fio before 3.18 prints percentiles of 0.
    fn drop_zeros(&mut self) {
        let is_of_nothing = self.samples() == 0 && self.max == 0;
        if is_of_nothing && self.percentiles.iter().all(|&(_, ns)| ns == 0) {
            self.percentiles.clear();
        }
    }
}

object! {
    LatencyBlock {
        "min" => min,
        "max" => max,
        "mean" => mean,
        "stddev" => stddev,
        "N" => n,
        "percentile" => percentiles,
        "bins" => bins,
    }
    finish drop_zeros
}

/// Without the entries for 0 %, with which fio 3.0 fills its list.
impl FromJson for PercentileList {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        self.clear();
        cursor.object(|cursor, key| {
            let percent = key_number::<f64>(cursor, key)?;
            let value_ns = cursor.u64()?;
            if percent > 0.0 {
                self.push((percent, value_ns));
            }
            Ok(())
        })?;
        self.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Ok(())
    }
}

impl ToJson for PercentileList {
    fn put(&self, printer: &mut Printer, key: &str) {
        if self.is_empty() {
            return;
        }
        printer.object(Some(key), |printer| {
            for (percent, value_ns) in self {
                printer.plain(&format!("{percent:.6}"), value_ns);
            }
        });
    }
}

impl FromJson for FioBins {
    fn load(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        *self = Self::default();
        cursor.object(|cursor, key| {
            let value_ns = key_number(cursor, key)?;
            let count = cursor.u64()?;
            let line = cursor.line();
            self.add_middle(value_ns, count).map_err(|error| Fault::new(line, error.to_string()))
        })
    }
}

impl ToJson for FioBins {
    fn put(&self, printer: &mut Printer, key: &str) {
        if self.is_empty() {
            return;
        }
        printer.object(Some(key), |printer| {
            for (middle_ns, count) in self.iter() {
                printer.plain(&middle_ns.to_string(), &count);
            }
        });
    }
}

fn key_number<T: std::str::FromStr>(cursor: &mut Cursor<'_>, key: &str) -> Read<T> {
    let line = cursor.line();
    key.trim().parse().map_err(|_| Fault::new(line, "the key is not a number"))
}

/// The latency of operations of one I/O priority; only where there are at least two priorities.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriorityLatency {
    /// The class, 0 to 3.
    pub prioclass: u64,
    /// The level in the class, 0 to 7.
    pub prio: u64,
    /// The hint; since fio 3.36.
    pub priohint: Option<u64>,
    /// All of it, where the job has total latencies.
    pub lat_ns: Option<LatencyBlock>,
    /// Up to the completion, where it has not.
    pub clat_ns: Option<LatencyBlock>,
}

object! {
    PriorityLatency {
        "prioclass" => prioclass,
        "prio" => prio,
        "priohint" => priohint,
        "lat_ns" => lat_ns,
        "clat_ns" => clat_ns,
    }
}
