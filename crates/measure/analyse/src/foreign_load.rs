//! CPUs and I/O that other programs used while something was measured.

use durio_base::Nanos;
use durio_base::stats::least_squares::float;
use durio_observe::{CpuCounters, DeviceCounters};
use serde::{Deserialize, Serialize};

/// Ticks of a second in the kernel's counters of processors (USER_HZ, proc(5)).
const TICKS: f64 = 100.0;

/// Counters of ticks say nothing of a shorter time.
const SPAN_MIN: f64 = 0.01;

/// If other work uses more processors than this, reports name it: it may have slowed down what was
/// measured. Durio's choice, as in the bench of databases: an eighth of two processors.
pub const FOREIGN_CPUS_MAX: f64 = 0.25;

/// How many CPUs other programs used on average over `span`, in which all CPUs counted `all` and
/// durio used `own`.
///
/// Kernel threads are left out, because most of them serve durio's own I/O (kworker, jbd2, loop,
/// md). Where they were not counted ([`CpuCounters::kernel_threads_ns`]) they are included.
/// Interrupts and the time that the hypervisor took belong to no program.
pub(crate) fn foreign_cpus(all: &CpuCounters, own: Nanos, span: Nanos) -> f64 {
    let busy = float(all.user.saturating_add(all.nice).saturating_add(all.system)) / TICKS;
    let others = busy - float(own.get()) / 1e9 - kernel_seconds(all).unwrap_or(0.0);
    others.max(0.0) / seconds(span)
}

/// How many CPUs kernel threads used on average over `span`; `None` if they were not counted.
pub(crate) fn kernel_cpus(all: &CpuCounters, span: Nanos) -> Option<f64> {
    Some(kernel_seconds(all)? / seconds(span))
}

fn kernel_seconds(all: &CpuCounters) -> Option<f64> {
    all.kernel_threads_ns.map(|nanos| float(nanos) / 1e9)
}

fn seconds(span: Nanos) -> f64 {
    (float(span.get()) / 1e9).max(SPAN_MIN)
}

/// Fewer bytes, in all or per second, are background noise. Durio's choice: 256 pages a second are
/// about what a spinning disk can do.
const FOREIGN_BYTES_MIN: u64 = 1 << 20;

/// Reads beyond durio's own by this share may be the filesystem's, for its own tables.
const FOREIGN_READ_SHARE_MIN: f64 = 0.25;

/// Bytes of a sector in the kernel's counters, for every device (iostats.rst).
pub(crate) const SECTOR: u64 = 512;

/// I/O of other programs on the device below a step, as far as it is certain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignIo {
    /// The kernel's name of the device.
    pub device: String,
    /// Zero if they read little, or if it is not known what durio itself caused.
    pub read_bytes_per_second: f64,
    /// Bytes written per second, with the same rule.
    pub written_bytes_per_second: f64,
}

/// I/O that durio itself caused during a step, over all streams and phases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnIo {
    /// Bytes that it read from the device.
    pub(crate) read: u64,
    /// True if the device read these bytes and no others.
    pub(crate) reads_known: bool,
    /// True if nothing was written, nor left to be written back. Writes have no other bound: one
    /// sync makes the filesystem write an unknown number of blocks.
    pub(crate) writes_nothing: bool,
}

/// I/O of other programs on `device` during `span`; `None` if there was little, or none for
/// certain.
pub(crate) fn foreign_io(device: &DeviceCounters, own: &OwnIo, span: Nanos) -> Option<ForeignIo> {
    let per_second = |bytes: u64| float(bytes) / seconds(span);
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR);
    let read = bytes(device.sectors_read).saturating_sub(own.read);
    let is_beyond = float(read) > float(own.read) * FOREIGN_READ_SHARE_MIN;
    let certain = |is_known: bool, bytes: u64| match per_second(bytes) {
        rate if is_known && rate.min(float(bytes)) >= float(FOREIGN_BYTES_MIN) => rate,
        _ => 0.0,
    };
    let found = ForeignIo {
        device: device.name.clone(),
        read_bytes_per_second: certain(own.reads_known && is_beyond, read),
        written_bytes_per_second: certain(own.writes_nothing, bytes(device.sectors_written)),
    };
    (found.read_bytes_per_second + found.written_bytes_per_second > 0.0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Bytes per second read and written by others in 2 s.
    fn others(sectors: [u64; 2], own: OwnIo) -> Option<[u64; 2]> {
        others_in(2000, sectors, own)
    }

    fn others_in(millis: u64, sectors: [u64; 2], own: OwnIo) -> Option<[u64; 2]> {
        let [sectors_read, sectors_written] = sectors;
        let name = "sdb".to_owned();
        let device = DeviceCounters { name, sectors_read, sectors_written, ..Default::default() };
        let found = foreign_io(&device, &own, Nanos::from_millis(millis))?;
        assert_eq!(found.device, "sdb");
        let whole = |bytes: f64| format!("{bytes:.0}").parse().unwrap();
        Some([whole(found.read_bytes_per_second), whole(found.written_bytes_per_second)])
    }

    #[test]
    fn reads_beyond_durios_own_by_a_quarter_and_a_mebibyte_a_second_are_others() {
        let own = |read| OwnIo { read, reads_known: true, writes_nothing: false };
        // A step that reads nothing: 2 MiB in 2 s.
        assert_eq!(others([4096, 9_999_999], own(0)), Some([MIB, 0]));
        assert_eq!(others([4095, 9_999_999], own(0)), None);
        // 40 MiB of durio's own: a quarter is 10 MiB.
        assert_eq!(others([50 * 2048, 0], own(40 * MIB)), None);
        assert_eq!(others([50 * 2048 + 2, 0], own(40 * MIB)), Some([5 * MIB + 512, 0]));
        // In a short step a single read ahead would be a high rate.
        assert_eq!(others_in(100, [2048, 0], own(0)), Some([10 * MIB, 0]));
        assert_eq!(others_in(100, [2047, 0], own(0)), None);
        let cached = OwnIo { reads_known: false, ..own(0) };
        assert_eq!(others([1 << 20, 0], cached), None);
    }

    #[test]
    fn writes_are_others_only_where_durio_wrote_nothing() {
        let own = |writes_nothing| OwnIo { read: MIB, reads_known: true, writes_nothing };
        assert_eq!(others([2048, 6 * 2048], own(true)), Some([0, 3 * MIB]));
        assert_eq!(others([2048, 4095], own(true)), None);
        assert_eq!(others([2048, 6 * 2048], own(false)), None);
    }

    #[test]
    fn programs_count_without_durio_and_neither_idle_time_nor_interrupts_nor_steal_do() {
        let all = CpuCounters {
            user: 210,
            nice: 40,
            system: 70,
            idle: 300,
            iowait: 90,
            irq: 11,
            softirq: 13,
            steal: 17,
            ..CpuCounters::default()
        };
        // 3.2 s of programs, 0.8 s of them durio's, in 2 s.
        let foreign = foreign_cpus(&all, Nanos::from_millis(800), Nanos::from_secs(2));
        assert!((foreign - 1.2).abs() < 1e-9, "{foreign}");
        // Counters are in ticks of 10 ms, durio's own time is not.
        let none = foreign_cpus(&all, Nanos::from_millis(3209), Nanos::from_secs(2));
        assert!(none.abs() < 1e-9, "{none}");
        let short = foreign_cpus(&all, Nanos::from_millis(3100), Nanos::new(1));
        assert!((short - 10.0).abs() < 1e-9, "{short}");
    }

    #[test]
    fn kernel_threads_are_counted_apart_from_programs() {
        let counted = |kernel_threads_ns| {
            let all =
                CpuCounters { user: 100, system: 90, kernel_threads_ns, ..Default::default() };
            let (own, span) = (Nanos::from_millis(300), Nanos::from_secs(2));
            (foreign_cpus(&all, own, span), kernel_cpus(&all, span))
        };
        // 1.9 s in all, 0.3 of durio and 0.7 of kernel threads.
        let (programs, kernel) = counted(Some(700_000_000));
        assert!((programs - 0.45).abs() < 1e-9, "{programs}");
        assert!(kernel.is_some_and(|cores| (cores - 0.35).abs() < 1e-9), "{kernel:?}");
        let (with_kernel, unknown) = counted(None);
        assert!((with_kernel - 0.8).abs() < 1e-9, "{with_kernel}");
        assert_eq!(unknown, None);
    }
}
