//! The block of figures that fio prints for each kind of latency.
//!
//! In: `slat_ns`, `clat_ns`, `lat_ns`. Out: [`LatencyBlock`]. Not here: which of them to trust.

use super::cursor::{Cursor, Fault, Read};
use crate::histogram::FioBins;

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
    /// `(percent, ns)`, ascending by percent; empty unless asked for and something was measured.
    pub percentiles: Vec<(f64, u64)>,
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

    pub(super) fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut block = Self::default();
        cursor.object(|cursor, key| {
            match key {
                "min" => block.min = cursor.u64()?,
                "max" => block.max = cursor.u64()?,
                "mean" => block.mean = cursor.f64()?,
                "stddev" => block.stddev = cursor.f64()?,
                "N" => block.n = Some(cursor.u64()?),
                "percentile" => block.percentiles = percentiles(cursor)?,
                "bins" => block.bins = bins(cursor)?,
                _ => cursor.skip_value()?,
            }
            Ok(())
        })?;
        if block.is_of_nothing() {
            block.percentiles.clear();
        }
        Ok(block)
    }

    /// True if nothing was measured; of that, fio before 3.18 prints percentiles of 0.
    fn is_of_nothing(&self) -> bool {
        self.samples() == 0 && self.max == 0 && self.percentiles.iter().all(|&(_, ns)| ns == 0)
    }
}

/// Without the entries for 0 %, with which fio 3.0 fills its list.
fn percentiles(cursor: &mut Cursor<'_>) -> Read<Vec<(f64, u64)>> {
    let mut found = Vec::new();
    cursor.object(|cursor, key| {
        let percent = key_number::<f64>(cursor, key)?;
        let value_ns = cursor.u64()?;
        if percent > 0.0 {
            found.push((percent, value_ns));
        }
        Ok(())
    })?;
    found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    Ok(found)
}

fn bins(cursor: &mut Cursor<'_>) -> Read<FioBins> {
    let mut bins = FioBins::default();
    cursor.object(|cursor, key| {
        let value_ns = key_number(cursor, key)?;
        let count = cursor.u64()?;
        let line = cursor.line();
        bins.add_middle(value_ns, count).map_err(|error| Fault::new(line, error.to_string()))
    })?;
    Ok(bins)
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
    /// True if `latency` is `lat_ns`, false if it is `clat_ns`.
    pub is_total: bool,
    /// The figures.
    pub latency: LatencyBlock,
}

impl PriorityLatency {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut priority = Self::default();
        cursor.object(|cursor, key| {
            match key {
                "prioclass" => priority.prioclass = cursor.u64()?,
                "prio" => priority.prio = cursor.u64()?,
                "priohint" => priority.priohint = Some(cursor.u64()?),
                "lat_ns" | "clat_ns" => {
                    priority.is_total = key == "lat_ns";
                    priority.latency = LatencyBlock::read(cursor)?;
                }
                _ => cursor.skip_value()?,
            }
            Ok(())
        })?;
        Ok(priority)
    }
}
