//! `read`, `write`, `trim`, `mixed` and `sync`.
//!
//! In: [`Direction`], [`SyncSection`]. Out: their keys in fio's order. Not here: rates from counts.

use super::printer::Printer;
use crate::json::job::{Direction, SyncSection};
use crate::json::latency::{LatencyBlock, PriorityLatency};

pub(super) fn write(printer: &mut Printer, direction: &Direction) {
    printer.count("io_bytes", direction.io_bytes);
    printer.count("io_kbytes", direction.io_bytes >> 10);
    printer.count("bw_bytes", direction.bw_bytes);
    printer.count("bw", direction.bw);
    printer.figure("iops", direction.iops);
    printer.count("runtime", direction.runtime);
    printer.count("total_ios", direction.total_ios);
    printer.count("short_ios", direction.short_ios);
    printer.count("drop_ios", direction.drop_ios);
    latency(printer, "slat_ns", &direction.slat_ns);
    latency(printer, "clat_ns", &direction.clat_ns);
    latency(printer, "lat_ns", &direction.lat_ns);
    if !direction.prios.is_empty() {
        priorities(printer, &direction.prios);
    }
    samples(printer, direction);
}

fn samples(printer: &mut Printer, direction: &Direction) {
    printer.count("bw_min", direction.bw_min);
    printer.count("bw_max", direction.bw_max);
    printer.figure("bw_agg", direction.bw_agg);
    printer.figure("bw_mean", direction.bw_mean);
    printer.figure("bw_dev", direction.bw_dev);
    printer.count("bw_samples", direction.bw_samples);
    printer.count("iops_min", direction.iops_min);
    printer.count("iops_max", direction.iops_max);
    printer.figure("iops_mean", direction.iops_mean);
    printer.figure("iops_stddev", direction.iops_stddev);
    printer.count("iops_samples", direction.iops_samples);
    if let Some(percent) = direction.cachehit {
        printer.figure("cachehit", percent);
    }
}

pub(super) fn write_sync(printer: &mut Printer, section: &SyncSection) {
    printer.count("total_ios", section.total_ios);
    latency(printer, "lat_ns", &section.lat_ns);
}

fn priorities(printer: &mut Printer, priorities: &[PriorityLatency]) {
    printer.array("prios", |printer| {
        for one in priorities {
            printer.object(None, |printer| {
                printer.count("prioclass", one.prioclass);
                printer.count("prio", one.prio);
                printer.maybe_count("priohint", one.priohint);
                let key = if one.is_total { "lat_ns" } else { "clat_ns" };
                latency(printer, key, &one.latency);
            });
        }
    });
}

fn latency(printer: &mut Printer, key: &str, block: &LatencyBlock) {
    printer.object(Some(key), |printer| {
        printer.count("min", block.min);
        printer.count("max", block.max);
        printer.figure("mean", block.mean);
        printer.figure("stddev", block.stddev);
        printer.maybe_count("N", block.n);
        if !block.percentiles.is_empty() {
            printer.object(Some("percentile"), |printer| {
                for &(percent, value_ns) in &block.percentiles {
                    printer.count(&format!("{percent:.6}"), value_ns);
                }
            });
        }
        if !block.bins.is_empty() {
            printer.object(Some("bins"), |printer| {
                for (middle_ns, count) in block.bins.iter() {
                    printer.count(&middle_ns.to_string(), count);
                }
            });
        }
    });
}
