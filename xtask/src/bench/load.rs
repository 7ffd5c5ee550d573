//! Foreign load: how much of the processors was busy, and not by us.
//!
//! From /proc/stat (user, nice, system, irq, softirq) less this process's and its children's time
//! from /proc/self/stat. What kernel threads and interrupts do for us counts as foreign; time
//! stolen by the hypervisor does not.

use std::fs;
use std::time::Instant;

/// The unit of both files on Linux (USER_HZ), in seconds.
const TICK: f64 = 0.01;

/// A reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    at: Instant,
    busy: f64,
    ours: f64,
}

impl Load {
    /// Reads the counters; children count once they have been waited for.
    pub(super) fn read() -> Option<Self> {
        let busy = busy_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
        let ours = own_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
        Some(Self { at: Instant::now(), busy, ours })
    }

    /// Foreign load since `earlier`, in cores.
    pub(super) fn foreign_since(&self, earlier: &Self) -> f64 {
        let foreign = (self.busy - earlier.busy) - (self.ours - earlier.ours);
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        (foreign * TICK / seconds).max(0.0)
    }
}

/// Foreign load per round.
#[derive(Debug, Default)]
pub(super) struct Foreign(Vec<f64>);

impl Foreign {
    /// Does a round's work and notes the load meanwhile.
    pub(super) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = Load::read();
        let value = work();
        if let Some((before, after)) = before.zip(Load::read()) {
            self.0.push(after.foreign_since(&before));
        }
        value
    }

    /// Prints the load of every round.
    pub(super) fn print(&self) {
        let rounds: Vec<_> = self.0.iter().map(|load| format!("{load:.2}")).collect();
        println!("\nForeign load per round, in cores: {}", rounds.join(" "));
        if self.0.iter().any(|&load| load > NOISY) {
            println!("Some rounds had more than {NOISY} cores of it: repeat on a quieter machine.");
        }
    }
}

const NOISY: f64 = 0.5;

/// Busy time of all processors: the first, second, third, sixth and seventh figure of line `cpu`.
fn busy_ticks(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    [0, 1, 2, 5, 6].into_iter().map(|index| ticks.get(index)).sum()
}

/// utime, stime, cutime and cstime: fields 14 to 17, counted past the name, which may hold blanks.
fn own_ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields = after_name.split_whitespace().skip(11).take(4);
    fields.map(|field| field.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_waiting_and_stolen_time_is_not_busy() {
        let stat = "cpu  100 10 200 9999 500 3 7 40 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), Some(320.0));
    }

    #[test]
    fn own_time_is_found_behind_a_name_with_blanks() {
        let stat = "12 (a b) c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(own_ticks(stat), Some(11.0 + 12.0 + 13.0 + 14.0));
    }
}
