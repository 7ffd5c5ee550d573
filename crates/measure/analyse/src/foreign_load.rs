//! The processors that other work used while something was measured.

use durio_base::Nanos;
use durio_base::stats::least_squares::float;
use durio_observe::CpuCounters;

/// Ticks of a second in the kernel's counters of processors (USER_HZ, proc(5)).
const TICKS: f64 = 100.0;

/// Counters of ticks say nothing of a shorter time.
const SPAN_MIN: f64 = 0.01;

/// If other work uses more processors than this, reports name it: it may have slowed down what was
/// measured. Durio's choice, as in the bench of databases: an eighth of two processors.
pub const FOREIGN_CPUS_MAX: f64 = 0.25;

/// How many processors other programs used on average over `span`, in which all processors counted
/// `all` and durio used `own`.
///
/// Kernel threads are included, also those that serve durio's own I/O. Interrupts and the time that
/// the hypervisor took are not: they belong to no program.
pub(crate) fn foreign_cpus(all: &CpuCounters, own: Nanos, span: Nanos) -> f64 {
    let busy = float(all.user.saturating_add(all.nice).saturating_add(all.system)) / TICKS;
    let own = float(own.get()) / 1e9;
    (busy - own).max(0.0) / (float(span.get()) / 1e9).max(SPAN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
