//! The header above the tables: program, machine, place and time of the measurement.
//!
//! Foreign load is how busy the processors were with other work, and which share of the time that all on
//! this machine wanted the hypervisor gave to other guests: /proc/stat (user, nice, system, irq, softirq)
//! minus this process's and its children's time from /proc/self/stat. Work of kernel threads and
//! interrupts for us counts as foreign; stolen time is counted separately.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Instant, SystemTime};

use super::session::BenchSession;

const UNKNOWN: &str = "unknown";

/// Prints the header of a bench of durio's cost.
pub(super) fn print(title: &str, session: &BenchSession) {
    print_machine(title);
    println!("- fio: {}", first_line("fio", &["--version"]));
    println!("- durio: {}", first_line(session.program(), &["--version"]));
    println!("- files: {}", filesystem(session.scratch()));
    println!("- priority of timed trials: {}", session.priority());
}

/// Prints the start of every header.
pub(crate) fn print_machine(title: &str) {
    println!("{title}\n");
    println!("- date: {}", humantime::format_rfc3339_seconds(SystemTime::now()));
    println!("- commit: {}", commit());
    println!("- machine: {}", machine());
    println!("- kernel: {}", kernel());
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    read("/proc/sys/kernel/osrelease")
}

/// The measured commit, and whether the checkout differs from it.
fn commit() -> String {
    let root = crate::cargo::workspace_root();
    let folder = root.to_string_lossy();
    let commit = first_line("git", &["-C", &folder, "rev-parse", "--short", "HEAD"]);
    match first_line("git", &["-C", &folder, "status", "--porcelain", "-uno"]).as_str() {
        // No line, and so no change.
        UNKNOWN => commit,
        _ => format!("{commit}, with changes"),
    }
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let model = value_of(&info, "model name").unwrap_or(UNKNOWN);
    let kib: f64 = value_of(&memory, "MemTotal")
        .and_then(|value| value.trim_end_matches("kB").trim().parse().ok())
        .unwrap_or_default();
    let guest = if info.contains(" hypervisor") { ", virtual" } else { "" };
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{processors} × {model}{guest}, {:.0} GiB", kib / 1024.0 / 1024.0)
}

/// The value of the first line `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

/// Type and source of the filesystem of a folder.
pub(crate) fn filesystem(folder: &Path) -> String {
    let folder = folder.to_string_lossy();
    first_line("findmnt", &["-n", "-o", "FSTYPE,SOURCE", "-T", &folder])
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
}

/// The first line of a program's output, with single blanks.
fn first_line(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.ok().and_then(|text| text.lines().next().map(str::to_owned));
    let line = line.unwrap_or_else(|| UNKNOWN.to_owned());
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

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
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
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
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|tick| tick.parse().ok()).collect();
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
    fn values_are_found_by_their_name() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\nMemTotal:       100 kB\n";
        assert_eq!(value_of(text, "model name"), Some("AMD EPYC"));
        assert_eq!(value_of(text, "MemTotal"), Some("100 kB"));
        assert_eq!(value_of(text, "none"), None);
    }

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
