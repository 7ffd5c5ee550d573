//! Foreign load: how busy the processors were with other work, and which share of the time that all
//! on this machine wanted the hypervisor gave to other guests.
//!
//! From /proc/stat (user, nice, system, irq, softirq) minus this process's and its children's time
//! from /proc/self/stat. Work of kernel threads and interrupts for us counts as foreign; stolen
//! time is counted separately.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// The unit of both files on Linux (USER_HZ), in seconds.
const TICK: f64 = 0.01;

#[derive(Debug, Clone, Copy)]
pub(super) struct LoadReading {
    at: Instant,
    busy: f64,
    stolen: f64,
    ours: f64,
}

impl LoadReading {
    /// Reads the counters; children count once they have been waited for.
    pub(super) fn read() -> Option<Self> {
        Self::read_beside(None)
    }

    /// The same, counting the time of this living process and its descendants as ours too.
    pub(super) fn read_beside(server: Option<u32>) -> Option<Self> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        // Not 3 and 4, idle and iowait, when a processor does nothing; nor 8 and 9, guests of this
        // machine, which are in user and nice already (proc_stat(5)).
        let busy = ticks(&stat, &[0, 1, 2, 5, 6])?;
        let stolen = ticks(&stat, &[7])?;
        let ours = own_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
        let ours = ours + server.map_or(0.0, |server| ticks_of_family(server, &processes()));
        Some(Self { at: Instant::now(), busy, stolen, ours })
    }

    /// Foreign load since `earlier`, in cores.
    pub(super) fn foreign_since(&self, earlier: &Self) -> f64 {
        let foreign = (self.busy - earlier.busy) - (self.ours - earlier.ours);
        let seconds = self.at.duration_since(earlier.at).as_secs_f64();
        // The files are read one after the other, each rounded to ticks: it may be below zero.
        (foreign * TICK / seconds).max(0.0)
    }

    /// The stolen share, since `earlier`, of the time that was wanted.
    pub(super) fn stolen_since(&self, earlier: &Self) -> f64 {
        let stolen = self.stolen - earlier.stolen;
        // At least a tick: a machine that wanted nothing would give 0 / 0.
        stolen / (stolen + self.busy - earlier.busy).max(1.0)
    }
}

/// Foreign load and the stolen share per round.
#[derive(Debug, Default)]
pub(super) struct Foreign(Vec<(f64, f64)>);

impl Foreign {
    /// Does a round's work and measures the load during it.
    pub(super) fn during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = LoadReading::read();
        let value = work();
        if let Some((before, after)) = before.zip(LoadReading::read()) {
            self.0.push((after.foreign_since(&before), after.stolen_since(&before)));
        }
        value
    }

    /// Prints the load of every round.
    pub(super) fn print(&self) {
        let list = |words: Vec<String>| words.join(" ");
        let foreign = self.0.iter().map(|(foreign, _)| format!("{foreign:.2}")).collect();
        let stolen = self.0.iter().map(|(_, stolen)| format!("{:.0}", stolen * 100.0)).collect();
        println!("\nForeign load per round, in cores: {}", list(foreign));
        println!("Stolen by the hypervisor per round, in % of what was wanted: {}", list(stolen));
        if self.0.iter().any(|&(foreign, stolen)| foreign > NOISY || stolen > STOLEN) {
            println!(
                "Some rounds had more than {NOISY} cores of foreign load or {:.0} % stolen: repeat on a \
                 quieter machine.",
                STOLEN * 100.0
            );
        }
    }
}

const NOISY: f64 = 0.5;
const STOLEN: f64 = 0.05;

/// A process: its parent, and its ticks with those of its children that have ended.
type Process = (u32, f64);

/// All present processes.
fn processes() -> HashMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    // A process that is gone counts in its parent's time of ended children.
    let read = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((id, (parent, own_ticks(&stat)?)))
    };
    ids.filter_map(read).collect()
}

/// The ticks of a process and all its descendants.
fn ticks_of_family(first: u32, processes: &HashMap<u32, Process>) -> f64 {
    let belongs = |mut id: u32| {
        while id != first {
            // The first process has no parent.
            match processes.get(&id) {
                Some((parent, _)) if *parent != id => id = *parent,
                _ => return false,
            }
        }
        true
    };
    processes.iter().filter(|(id, _)| belongs(**id)).map(|(_, (_, ticks))| ticks).sum()
}

/// A sum over all processors, of these fields of line `cpu`.
fn ticks(stat: &str, figures: &[usize]) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    figures.iter().map(|&index| ticks.get(index)).sum()
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
        assert_eq!(ticks(stat, &[0, 1, 2, 5, 6]), Some(320.0));
        assert_eq!(ticks(stat, &[7]), Some(40.0));
    }

    #[test]
    fn a_family_is_a_process_and_all_that_descend_from_it() {
        let all = [(1, (0, 1.0)), (5, (1, 10.0)), (6, (5, 100.0)), (7, (6, 1000.0)), (8, (1, 5.0))];
        assert_eq!(ticks_of_family(5, &HashMap::from(all)), 1110.0);
        assert_eq!(ticks_of_family(9, &HashMap::from(all)), 0.0);
    }

    #[test]
    fn own_time_is_found_behind_a_name_with_blanks() {
        let stat = "12 (a b) c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";
        assert_eq!(own_ticks(stat), Some(11.0 + 12.0 + 13.0 + 14.0));
    }
}
