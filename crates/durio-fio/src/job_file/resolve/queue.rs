//! How accesses are submitted, and how fast.

use super::super::options::option_words;
use super::super::values::{self, by_direction, pieces};
use super::super::{Engine, Given, QueueOptions, RateProcess, Refusal};
use super::refusal;
use super::settings::Settings;
use crate::FioError;

/// Reads the options of the queue.
pub(super) fn queue(
    settings: &Settings<'_>,
    refusals: &mut Vec<Refusal>,
) -> Result<QueueOptions, FioError> {
    let rate = |text: &str, base| by_direction(&pieces(text), |part| values::size(part, base));
    let rate_iops = |text: &str, base| by_direction(&pieces(text), |it| values::integer(it, base));
    Ok(QueueOptions {
        engine: engine(settings, refusals)?,
        depth: settings.positive("iodepth")?,
        submit_batch: settings.integer("iodepth_batch")?,
        complete_batch_min: settings.integer("iodepth_batch_complete_min")?,
        complete_batch_max: settings.integer("iodepth_batch_complete_max")?,
        depth_low: settings.integer("iodepth_low")?,
        bytes_per_second: settings.read_directions("rate", rate)?,
        accesses_per_second: settings.read_directions("rate_iops", rate_iops)?,
        rate_process: settings.read("rate_process", |text, _| rate_process(text))?,
        offloads: settings.read("io_submit_mode", |text, _| offloads(text))?,
        polled: settings.flag("hipri")?,
        registered_buffers: settings.flag("fixedbufs")?,
        registered_files: settings.flag("registerfiles")?,
        submission_thread: settings.flag("sqthread_poll")?,
        submission_thread_cpu: settings.integer("sqthread_poll_cpu")?,
    })
}

fn engine(
    settings: &Settings<'_>,
    refusals: &mut Vec<Refusal>,
) -> Result<Option<Given<Engine>>, FioError> {
    let Some(given) = settings.text("ioengine")? else { return Ok(None) };
    let value = match given.value.as_str() {
        "sync" => Engine::Sync,
        "psync" => Engine::Psync,
        "vsync" => Engine::Vsync,
        "pvsync" => Engine::Pvsync,
        "pvsync2" => Engine::Pvsync2,
        "libaio" => Engine::Libaio,
        "io_uring" => Engine::IoUring,
        "posixaio" => Engine::Posixaio,
        "mmap" => {
            let reason = "its accesses are page faults of mapped memory, which no call of durio's \
                          engines stands for; run this job with fio";
            refusals.extend(settings.last("ioengine").map(|it| refusal(it, reason)));
            return Ok(None);
        }
        "null" => Engine::Null,
        other => {
            let reason = format!(
                "durio has no engine {other}; it has sync, psync, vsync, pvsync, pvsync2, \
                 libaio, io_uring, posixaio, null"
            );
            refusals.extend(settings.last("ioengine").map(|it| refusal(it, &reason)));
            return Ok(None);
        }
    };
    Ok(Some(Given { value, at: given.at }))
}

fn offloads(text: &str) -> Result<bool, String> {
    match text {
        "inline" => Ok(false),
        "offload" => Ok(true),
        _ => Err(format!("{text:?} is none of: inline, offload")),
    }
}

fn rate_process(text: &str) -> Result<RateProcess, String> {
    match values::choice(text, option_words("rate_process"))? {
        ("linear", None) => Ok(RateProcess::Linear),
        ("poisson", None) => Ok(RateProcess::Poisson),
        _ => Err(format!("{text:?}: nothing follows here")),
    }
}
