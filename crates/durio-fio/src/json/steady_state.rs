//! fio's steady-state test of a job.
//!
//! In: the object `steadystate`. Out: [`SteadyState`]. Not here: SNIA's test, which is stricter.

use super::table::object;

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
    /// The window.
    pub data: SteadyStateData,
}

/// The intervals of the window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SteadyStateData {
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

object! {
    SteadyState {
        "ss" => ss,
        "duration" => duration,
        "attained" => attained,
        "criterion" => criterion,
        "max_deviation" => max_deviation,
        "slope" => slope,
        "data" => data,
    }
}

object! {
    SteadyStateData {
        "bw_mean" => bw_mean,
        "iops_mean" => iops_mean,
        "lat_mean" => latency?.lat_mean,
        "lat_ns" => latency?.lat_ns,
        "iops" => iops,
        "bw" => bw,
    }
}
