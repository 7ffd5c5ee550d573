//! What is printed and logged of a job.

use super::super::{Given, OutputOptions};
use super::settings::{Settings, complaint};
use crate::FioError;

/// fio's limit (`FIO_IO_U_LIST_MAX_LEN` in its stat.h).
const PERCENTILES_MAX: usize = 20;

/// Reads the options of output.
pub(super) fn output(settings: &Settings<'_>) -> Result<OutputOptions, FioError> {
    Ok(OutputOptions {
        group_reporting: settings.flag("group_reporting")?,
        disk_util: settings.boolean("disk_util")?,
        completion_percentiles: settings.boolean("clat_percentiles")?,
        total_percentiles: settings.boolean("lat_percentiles")?,
        submit_percentiles: settings.boolean("slat_percentiles")?,
        percentiles: settings.read("percentile_list", |text, _| percentiles(text))?,
        bandwidth_log: log(settings, "write_bw_log")?,
        latency_log: log(settings, "write_lat_log")?,
        rate_log: log(settings, "write_iops_log")?,
        log_average_ms: settings.integer("log_avg_msec")?,
        per_job_logs: settings.boolean("per_job_logs")?,
    })
}

/// The name may be missing; then the job's name counts.
fn log(settings: &Settings<'_>, name: &'static str) -> Result<Option<Given<String>>, FioError> {
    let Some(setting) = settings.last(name) else { return Ok(None) };
    let value = setting.value.clone().unwrap_or_default();
    if value.contains('\0') {
        return Err(complaint(setting, "no file has such a name"));
    }
    Ok(Some(Given { value, at: setting.at.clone() }))
}

fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let pieces = text.split(':').map(str::trim).filter(|piece| !piece.is_empty());
    let percent = |piece: &str| {
        let value = piece.parse().ok().filter(|value| (0.0..=100.0).contains(value));
        value.ok_or_else(|| format!("{piece:?} is no percentage"))
    };
    let mut list = pieces.map(percent).collect::<Result<Vec<f64>, String>>()?;
    // fio's list ends with the first 0.
    list.truncate(list.iter().position(|value| *value <= 0.0).unwrap_or(list.len()));
    if list.len() > PERCENTILES_MAX {
        return Err(format!("more than {PERCENTILES_MAX} percentiles"));
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}
