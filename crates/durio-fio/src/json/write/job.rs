//! An entry of `jobs`.
//!
//! In: [`FioJob`]. Out: its keys in fio's order. Not here: directions.

use super::printer::Printer;
use super::{direction, options};
use crate::json::job::{Direction, FioJob, LatencySearch};
use crate::json::shares::Shares;
use crate::json::steady_state::SteadyState;

pub(super) fn write(printer: &mut Printer, job: &FioJob) {
    printer.text("jobname", &job.jobname);
    printer.count("groupid", job.groupid);
    printer.maybe_count("job_start", job.job_start);
    printer.whole("error", job.error);
    printer.maybe_count("eta", job.eta);
    printer.maybe_count("elapsed", job.elapsed);
    if let Some(given) = &job.options {
        options(printer, "job options", given);
    }
    directions(printer, job);
    processor(printer, job);
    distributions(printer, job);
    extras(printer, job);
}

fn directions(printer: &mut Printer, job: &FioJob) {
    // Where all directions are in one, fio prints it in the place of the reads.
    let only_mixed = job.read.is_none() && job.sync.is_none();
    let mixed = |printer: &mut Printer| write_direction(printer, "mixed", job.mixed.as_ref());
    if only_mixed {
        mixed(printer);
    }
    write_direction(printer, "read", job.read.as_ref());
    write_direction(printer, "write", job.write.as_ref());
    write_direction(printer, "trim", job.trim.as_ref());
    if let Some(sync) = &job.sync {
        printer.object(Some("sync"), |printer| direction::write_sync(printer, sync));
    }
    if !only_mixed {
        mixed(printer);
    }
}

fn write_direction(printer: &mut Printer, key: &str, direction: Option<&Direction>) {
    if let Some(direction) = direction {
        printer.object(Some(key), |printer| direction::write(printer, direction));
    }
}

fn processor(printer: &mut Printer, job: &FioJob) {
    printer.maybe_count("job_runtime", job.job_runtime);
    printer.figure("usr_cpu", job.usr_cpu);
    printer.figure("sys_cpu", job.sys_cpu);
    printer.count("ctx", job.ctx);
    printer.count("majf", job.majf);
    printer.count("minf", job.minf);
}

fn distributions(printer: &mut Printer, job: &FioJob) {
    shares(printer, "iodepth_level", &job.iodepth_level);
    shares(printer, "iodepth_submit", &job.iodepth_submit);
    shares(printer, "iodepth_complete", &job.iodepth_complete);
    shares(printer, "latency_ns", &job.latency.ns);
    shares(printer, "latency_us", &job.latency.us);
    shares(printer, "latency_ms", &job.latency.ms);
}

fn shares(printer: &mut Printer, key: &str, shares: &Shares) {
    printer.object(Some(key), |printer| {
        for (label, percent) in shares {
            printer.figure(label, *percent);
        }
    });
}

fn extras(printer: &mut Printer, job: &FioJob) {
    if let Some((total, first)) = job.errors {
        printer.count("total_err", total);
        printer.whole("first_error", first);
    }
    if let Some(search) = &job.latency_search {
        write_search(printer, search);
    }
    printer.maybe_text("desc", job.desc.as_deref());
    if let Some(steady) = &job.steadystate {
        printer.object(Some("steadystate"), |printer| steady_state(printer, steady));
    }
    printer.maybe_text("hostname", job.hostname.as_deref());
    printer.maybe_count("port", job.port);
}

fn write_search(printer: &mut Printer, search: &LatencySearch) {
    printer.count("latency_depth", search.depth);
    printer.count("latency_target", search.target);
    printer.figure("latency_percentile", search.percentile);
    printer.count("latency_window", search.window);
}

fn steady_state(printer: &mut Printer, steady: &SteadyState) {
    printer.text("ss", &steady.ss);
    printer.whole("duration", steady.duration);
    printer.count("attained", u64::from(steady.attained));
    printer.text("criterion", &steady.criterion);
    printer.figure("max_deviation", steady.max_deviation);
    printer.figure("slope", steady.slope);
    printer.object(Some("data"), |printer| {
        printer.count("bw_mean", steady.bw_mean);
        printer.count("iops_mean", steady.iops_mean);
        if let Some(latency) = &steady.latency {
            printer.count("lat_mean", latency.lat_mean);
            printer.counts("lat_ns", &latency.lat_ns);
        }
        printer.counts("iops", &steady.iops);
        printer.counts("bw", &steady.bw);
    });
}
