//! A control group whose processes have a slow disk, or little of a processor where no disk can be
//! slowed down.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

const ROOT: &str = "/sys/fs/cgroup";
/// Processor time of each 100 ms, where the disk cannot be slowed down.
const PROCESSOR_US: u64 = 5_000;

/// A control group, until it is dropped: its processes must have ended.
#[derive(Debug)]
pub(super) struct LabGroup {
    path: PathBuf,
    /// What it limits, for the reader.
    pub(super) limit: String,
}

/// A file of a new group and the line that limits its processes.
#[derive(Debug, PartialEq, Eq)]
struct GroupLimit {
    parent: PathBuf,
    /// Controllers that the parent passes on, with version 2.
    enable: Option<&'static str>,
    lines: Vec<(&'static str, String)>,
    limit: String,
}

impl LabGroup {
    /// Reads and writes of the disk below `folder` each get this many operations per second.
    pub(super) fn new(folder: &Path, operations: u64) -> Result<Self> {
        let disk = disk_below(folder);
        let mut refused = Vec::new();
        for limit in limits(disk.as_deref(), operations) {
            match Self::with(&limit) {
                Ok(group) => return Ok(group),
                Err(error) => refused.push(format!("{error:#}")),
            }
        }
        bail!("no control group can slow a host down: {}", refused.join("; "))
    }

    fn with(limit: &GroupLimit) -> Result<Self> {
        let GroupLimit { parent, enable, lines, limit } = limit;
        if let Some(controller) = enable {
            write(&parent.join("cgroup.subtree_control"), controller)?;
        }
        let path = parent.join(format!("durio-lab-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let group = Self { path, limit: limit.clone() };
        for (file, line) in lines {
            write(&group.path.join(file), line)?;
        }
        Ok(group)
    }

    pub(super) fn add(&self, pid: u32) -> Result<()> {
        write(&self.path.join("cgroup.procs"), &pid.to_string())
    }
}

impl Drop for LabGroup {
    fn drop(&mut self) {
        // Killed processes leave their group a little later.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn write(path: &Path, line: &str) -> Result<()> {
    // Not created: where no controller is mounted, a plain file would limit nothing.
    let written = File::options().write(true).open(path);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    written.with_context(|| format!("cannot write {line} to {}", path.display()))
}

/// The number (MAJOR:MINOR) of the whole disk that a folder is on; `None` where there is no block device.
fn disk_below(folder: &Path) -> Option<String> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let entry = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let whole = if entry.join("partition").exists() { entry.parent()?.to_owned() } else { entry };
    Some(fs::read_to_string(whole.join("dev")).ok()?.trim().to_owned())
}

/// The limits to try, the best first: both versions of control groups, disk before processor.
fn limits(disk: Option<&str>, operations: u64) -> Vec<GroupLimit> {
    let mut limits = Vec::new();
    let roots = [ROOT.to_owned(), format!("{ROOT}/unified")].map(PathBuf::from);
    if let Some(disk) = disk {
        let limit = format!("disk {disk}: {operations} reads and {operations} writes per second");
        limits.extend(roots.iter().map(|root| GroupLimit {
            parent: root.clone(),
            enable: Some("+io"),
            lines: vec![("io.max", format!("{disk} riops={operations} wiops={operations}"))],
            limit: format!("io.max, {limit}"),
        }));
        let line = format!("{disk} {operations}");
        limits.push(GroupLimit {
            parent: format!("{ROOT}/blkio").into(),
            enable: None,
            lines: vec![
                ("blkio.throttle.read_iops_device", line.clone()),
                ("blkio.throttle.write_iops_device", line),
            ],
            limit: format!("blkio.throttle, {limit}"),
        });
    }
    let percent = PROCESSOR_US / 1_000;
    limits.extend(roots.iter().map(|root| GroupLimit {
        parent: root.clone(),
        enable: Some("+cpu"),
        lines: vec![("cpu.max", format!("{PROCESSOR_US} 100000"))],
        limit: format!("cpu.max, {percent} % of a processor"),
    }));
    limits.push(GroupLimit {
        parent: format!("{ROOT}/cpu").into(),
        enable: None,
        lines: vec![("cpu.cfs_quota_us", PROCESSOR_US.to_string())],
        limit: format!("cpu.cfs_quota_us, {percent} % of a processor"),
    });
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_slowed_down_before_a_processor() {
        let files = |disk| -> Vec<&str> {
            limits(disk, 100).iter().map(|limit| limit.lines[0].0).collect()
        };
        let processor = ["cpu.max", "cpu.max", "cpu.cfs_quota_us"];
        assert_eq!(files(None), processor);
        let with_disk = files(Some("254:0"));
        assert_eq!(with_disk[..3], ["io.max", "io.max", "blkio.throttle.read_iops_device"]);
        assert_eq!(with_disk[3..], processor);
        assert_eq!(limits(Some("8:0"), 70)[0].lines[0].1, "8:0 riops=70 wiops=70");
    }

    #[test]
    fn what_has_no_block_device_has_no_disk() {
        assert_eq!(disk_below(Path::new("/proc")), None);
    }
}
