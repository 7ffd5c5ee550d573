//! fio's normal output, for people and for scripts that look for its lines.
//!
//! In: [`FioOutput`], and of each job how many copies it stands for. Out: fio's text after a run: a
//! block per job, a table of the whole run per reporting group, the counters of block devices. Not
//! here: the lines before a run, but for [`head`].

mod blocks;
mod number;

use std::fmt::Write as _;

use crate::json::{Direction, FioJob, FioOutput, MembersUtil};
use number::{Prefixes, short};

/// What fio shows of a job besides what its JSON has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFacts {
    /// How many jobs the row stands for.
    pub copies: u32,
    /// The number of the process.
    pub process: u32,
}

/// Digits and point of rates and sizes (fio's default of `significant_figures`).
const FIGURES: usize = 4;

/// The text; `rows` has the facts of each job, in order.
#[must_use]
pub fn write(output: &FioOutput, rows: &[RowFacts]) -> String {
    let time = output.time.as_deref().unwrap_or_default();
    let mut text = "\n".to_owned();
    for (job, row) in output.jobs.iter().zip(rows) {
        blocks::job(&mut text, job, *row, time);
    }
    let groups = output.jobs.iter().map(|job| job.groupid).max();
    for group in groups.into_iter().flat_map(|last| 0..=last) {
        whole_run(&mut text, group, &output.jobs);
    }
    disks(&mut text, output);
    text
}

/// What a job is going to do, in the line that fio prints before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHead {
    /// Its name.
    pub name: String,
    /// Its reporting group.
    pub group: u32,
    /// The pattern, as `rw` has it.
    pub pattern: String,
    /// The smallest and the largest access in bytes.
    pub block_bytes: (u64, u64),
    /// fio's name of the engine.
    pub engine: String,
    /// Accesses in flight per copy.
    pub depth: u32,
    /// How many copies run.
    pub copies: u32,
}

/// The lines before a run.
#[must_use]
pub fn head(version: &str, jobs: &[JobHead]) -> String {
    let mut text = String::new();
    for job in jobs {
        let JobHead { name, group, pattern, block_bytes: (least, most), engine, depth, copies } =
            job;
        let [least, most] = [least, most].map(|bytes| bytes_short(*bytes));
        line(
            &mut text,
            format_args!(
                "{name}: (g={group}): rw={pattern}, bs=(R) {least}-{most}, (W) {least}-{most}, \
             (T) {least}-{most}, ioengine={engine}, iodepth={depth}"
            ),
        );
        if *copies > 1 {
            line(&mut text, format_args!("..."));
        }
    }
    let copies: u32 = jobs.iter().map(|job| job.copies).fold(0, u32::saturating_add);
    line(&mut text, format_args!("{version}"));
    let processes = if copies == 1 { "process" } else { "processes" };
    line(&mut text, format_args!("Starting {copies} {processes}"));
    text
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{content}");
}

fn bytes_short(bytes: u64) -> String {
    short(bytes, FIGURES, Prefixes::Binary, "B")
}

/// Both ways: `90.9MiB/s (95.3MB/s)`, the parts apart.
fn rates(bytes_per_second: u64) -> [String; 2] {
    [Prefixes::Binary, Prefixes::Decimal].map(|it| short(bytes_per_second, FIGURES, it, "B/s"))
}

fn whole_run(text: &mut String, group: u64, jobs: &[FioJob]) {
    line(text, format_args!("\nRun status group {group} (all jobs):"));
    type Of = fn(&FioJob) -> Option<&Direction>;
    let directions: [(&str, Of); 3] = [
        ("   READ", |job| job.read.as_ref()),
        ("  WRITE", |job| job.write.as_ref()),
        ("   TRIM", |job| job.trim.as_ref()),
    ];
    for (name, of) in directions {
        let of_group = jobs.iter().filter(|job| job.groupid == group).filter_map(of);
        let ran: Vec<&Direction> = of_group.filter(|direction| direction.runtime > 0).collect();
        let runtimes = ran.iter().map(|it| it.runtime);
        let (Some(least), Some(most)) = (runtimes.clone().min(), runtimes.max()) else { continue };
        let bytes = ran.iter().map(|it| it.io_bytes).fold(0, u64::saturating_add);
        let [all, all_si] = rates(bytes.saturating_mul(1000) / most.max(1));
        let each = ran.iter().map(|it| it.bw_bytes);
        let [slowest, slowest_si] = rates(each.clone().min().unwrap_or(0));
        let [fastest, fastest_si] = rates(each.max().unwrap_or(0));
        let (moved, moved_si) = (bytes_short(bytes), short(bytes, FIGURES, Prefixes::Decimal, "B"));
        line(
            text,
            format_args!(
                "{name}: bw={all} ({all_si}), {slowest}-{fastest} ({slowest_si}-{fastest_si}), \
             io={moved} ({moved_si}), run={least}-{most}msec"
            ),
        );
    }
}

fn disks(text: &mut String, output: &FioOutput) {
    let disks = output.disk_util.iter().flatten().collect::<Vec<_>>();
    if disks.is_empty() {
        return;
    }
    line(text, format_args!("\nDisk stats (read/write):"));
    for disk in disks {
        let indent = if disk.members.is_some() { "    " } else { "  " };
        let members = disk.members.as_ref().map_or_else(String::new, members);
        line(
            text,
            format_args!(
                "{indent}{}: ios={}/{}, merge={}/{}, ticks={}/{}, in_queue={}, util={:.2}%{members}",
                disk.name,
                disk.read_ios,
                disk.write_ios,
                disk.read_merges,
                disk.write_merges,
                disk.read_ticks,
                disk.write_ticks,
                disk.in_queue,
                disk.util,
            ),
        );
    }
}

fn members(members: &MembersUtil) -> String {
    format!(
        ", aggrios={}/{}, aggrmerge={}/{}, aggrticks={}/{}, aggrin_queue={}, aggrutil={:.2}%",
        members.read_ios,
        members.write_ios,
        members.read_merges,
        members.write_merges,
        members.read_ticks,
        members.write_ticks,
        members.in_queue,
        members.util,
    )
}

#[cfg(test)]
mod tests;
