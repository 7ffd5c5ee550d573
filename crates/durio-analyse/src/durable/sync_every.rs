//! A sync after every N writes: what each write costs then.

use durio_plan::Slice;
use serde::{Deserialize, Serialize};

use super::arm::{Arm, Measured, arms, grouped};
use crate::Declined;
use crate::cost_model::{Estimate, relative_fit, time};

/// N and what it costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncEveryRow {
    /// As set and measured.
    #[serde(flatten)]
    pub arm: Arm,
    /// Time of the writer per write, its share of the syncs in it: one over the rate.
    pub ns_per_write: f64,
}

/// The cost of a write as a line over 1 ÷ N: the write itself, and a sync shared by N.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SharedSync {
    /// The write itself.
    pub write_ns: Estimate,
    /// A sync. It takes longer the more was written before it; then the line does not hold, and
    /// `residual_share_max` says by how much.
    pub sync_ns: Estimate,
    /// The largest relative error.
    pub residual_share_max: f64,
}

/// One method's row of N.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SyncEveryFindings {
    /// Rising N.
    pub rows: Vec<SyncEveryRow>,
    /// The line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SharedSync>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
}

/// Fewest different N for a line: two parameters, and one to spare.
const POINTS_MIN: usize = 3;

pub(super) fn sync_every(measured: &Measured<'_>) -> Vec<SyncEveryFindings> {
    let key = |it: &super::Setting| {
        (it.method, it.cache, it.layout, it.block_size, it.jobs, it.location.clone())
    };
    let groups = grouped(arms(measured, Slice::SyncEvery), key);
    groups.into_iter().map(of_group).filter(|it| !it.rows.is_empty()).collect()
}

fn of_group(arms: Vec<Arm>) -> SyncEveryFindings {
    let row = |arm: Arm| {
        let ns_per_write = f64::from(arm.setting.jobs) * 1e9 / arm.rate()?;
        Some(SyncEveryRow { arm, ns_per_write })
    };
    let mut rows: Vec<SyncEveryRow> = arms.into_iter().filter_map(row).collect();
    rows.sort_by_key(|row| row.arm.setting.every);
    let (line, declined) = match shared_sync(&rows) {
        Ok(line) => (Some(line), None),
        Err(reason) => (None, Some(reason)),
    };
    SyncEveryFindings { rows, line, declined }
}

fn shared_sync(rows: &[SyncEveryRow]) -> Result<SharedSync, Declined> {
    let durable: Vec<&SyncEveryRow> =
        rows.iter().filter(|row| row.arm.setting.is_durable()).collect();
    Declined::unless_enough("numbers of writes per sync", durable.len(), POINTS_MIN)?;
    let columns = durable.iter().map(|row| [1.0, 1.0 / f64::from(row.arm.setting.every.max(1))]);
    let figures: Vec<f64> = durable.iter().map(|row| row.ns_per_write).collect();
    let fit = relative_fit(&columns.collect::<Vec<_>>(), &figures);
    let fit = fit.ok_or_else(|| Declined::TooFew {
        what: "numbers of writes per sync that differ".to_owned(),
        given: 1,
        needed: POINTS_MIN,
    })?;
    let [write_ns, sync_ns] = fit.estimates;
    let residual_share_max = fit.relative.iter().map(|it| it.abs()).fold(0.0, f64::max);
    describing(SharedSync { write_ns, sync_ns, residual_share_max })
}

/// A line that misses a point by more than half of it describes nothing; up to then the report says
/// by how much.
const MISSES_MAX: f64 = 0.5;

fn describing(line: SharedSync) -> Result<SharedSync, Declined> {
    let why = if line.residual_share_max > MISSES_MAX {
        format!("it is off by up to {:.0} %", line.residual_share_max * 100.0)
    } else if !line.sync_ns.is_known() {
        let (low, high) = line.sync_ns.interval().unwrap_or_default();
        format!("by their scatter a sync takes anything from {} to {}", time(low), time(high))
    } else {
        return Ok(line);
    };
    Err(Declined::DoesNotDescribe { model: "a model of write and shared sync".to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_misses_its_points_or_knows_nothing_is_declined() {
        let known = |value: f64| Estimate { value, plus_minus: Some(value / 10.0) };
        let line = |sync_ns, residual_share_max| SharedSync {
            write_ns: known(3e3),
            sync_ns,
            residual_share_max,
        };
        assert!(describing(line(known(4e5), 0.4)).is_ok());
        let why = describing(line(known(4e5), 0.912)).unwrap_err().to_string();
        assert!(why.contains("off by up to 91 %"), "{why}");
        let vague = Estimate { value: 361e3, plus_minus: Some(751e3) };
        let why = describing(line(vague, 0.1)).unwrap_err().to_string();
        assert!(why.contains("anything from 0 ns to 1.11 ms"), "{why}");
    }
}
