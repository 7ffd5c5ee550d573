//! fio's steady-state test of a job.
//!
//! In: the object `steadystate`. Out: [`SteadyState`]. Not here: SNIA's test, which is stricter.

use super::cursor::{Cursor, Read};
use super::fields;

/// What fio's test of one criterion found. The job's figures cover the whole run; only the lists and
/// means here cover the window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SteadyState {
    /// The criterion, as `iops_slope:0.300000%`.
    pub ss: String,
    /// The window in s.
    pub duration: i64,
    /// Whether the job ended because it was met.
    pub attained: bool,
    /// The value that was tested, with `%` if it is one.
    pub criterion: String,
    /// The largest deviation from the mean.
    pub max_deviation: f64,
    /// The slope per interval of the least-squares line.
    pub slope: f64,
    /// Mean of `bw`.
    pub bw_mean: u64,
    /// Mean of `iops`.
    pub iops_mean: u64,
    /// Latency; since fio 3.42 and with a criterion of latency.
    pub latency: Option<SteadyStateLatency>,
    /// Operations per second of each interval of the window.
    pub iops: Vec<u64>,
    /// Bytes per second of each interval of the window.
    pub bw: Vec<u64>,
}

/// Latency in the window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SteadyStateLatency {
    /// Mean in ns.
    pub lat_mean: u64,
    /// Per interval in ns.
    pub lat_ns: Vec<u64>,
}

impl SteadyState {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Read<Self> {
        let mut steady = Self::default();
        cursor.object(|cursor, key| {
            match key {
                "ss" => steady.ss = cursor.string()?,
                "duration" => steady.duration = cursor.i64()?,
                "attained" => steady.attained = cursor.i64()? != 0,
                "criterion" => steady.criterion = cursor.string()?,
                "max_deviation" => steady.max_deviation = cursor.f64()?,
                "slope" => steady.slope = cursor.f64()?,
                "data" => steady.read_data(cursor)?,
                _ => cursor.skip_value()?,
            }
            Ok(())
        })?;
        Ok(steady)
    }

    fn read_data(&mut self, cursor: &mut Cursor<'_>) -> Read<()> {
        cursor.object(|cursor, key| {
            match key {
                "bw_mean" => self.bw_mean = cursor.u64()?,
                "iops_mean" => self.iops_mean = cursor.u64()?,
                "iops" => self.iops = fields::counts(cursor)?,
                "bw" => self.bw = fields::counts(cursor)?,
                "lat_mean" => self.latency.get_or_insert_default().lat_mean = cursor.u64()?,
                "lat_ns" => {
                    self.latency.get_or_insert_default().lat_ns = fields::counts(cursor)?;
                }
                _ => cursor.skip_value()?,
            }
            Ok(())
        })
    }
}
