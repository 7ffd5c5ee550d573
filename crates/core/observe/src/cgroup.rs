//! The limits that a control group (version 2) sets on this process.
//!
//! Reads [`CgroupLimits`] and the time spent throttled; limits of version 1 count as unknown.
//!
//! A limit holds for everything below it, so the effective one is the tightest on the way up.

use std::path::Path;

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::mountinfo::{MountEntry, parse_mountinfo};
use crate::system_dir::SystemDir;

/// The limits of the control groups; `None` is unlimited or not shown.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupLimits {
    /// The group of this process, within its namespace.
    pub path: Option<String>,
    /// The most memory, page cache included.
    #[serde(rename = "memory_max_bytes")]
    pub memory_max: Option<Bytes>,
    /// The tightest processor limit as written: quota and period in microseconds.
    pub cpu_max: Option<String>,
    /// The same as a number of processors.
    pub cpu_quota_cores: Option<f64>,
    /// Limits on devices, as written, nearest group first.
    pub io_max: Vec<String>,
}

pub(crate) fn read_cgroup_limits(root: &SystemDir) -> CgroupLimits {
    let Some(path) = group_path(root) else { return CgroupLimits::default() };
    let groups = groups_upward(root, &path);
    // A group is held to the limits of all groups above it.
    let tightest = groups.iter().filter_map(cpu_limit).min_by(|a, b| a.1.total_cmp(&b.1));
    CgroupLimits {
        memory_max: groups
            .iter()
            // `max`, for unlimited, is not a number; likewise in cpu.max.
            .filter_map(|group| group.number("memory.max"))
            .min()
            .map(Bytes::new),
        cpu_quota_cores: tightest.as_ref().map(|(_, cores)| *cores),
        cpu_max: tightest.map(|(text, _)| text),
        io_max: io_limits(&groups),
        path: Some(path),
    }
}

/// Microseconds for which this process's groups were held back by their processor limits.
///
/// Summed over the way up: a group is held back also when one above it is.
pub(crate) fn throttled_usec(root: &SystemDir) -> Option<u64> {
    let groups = groups_upward(root, &group_path(root)?);
    groups.iter().filter_map(group_throttled_usec).reduce(u64::saturating_add)
}

fn group_throttled_usec(group: &SystemDir) -> Option<u64> {
    group.line_after("cpu.stat", "throttled_usec ")?.parse().ok()
}

fn group_path(root: &SystemDir) -> Option<String> {
    // The hierarchy of version 2 has number 0 and no controllers (cgroups(7)).
    root.line_after("proc/self/cgroup", "0::")
}

/// The group's directory and those above it, up to where the hierarchy is mounted.
fn groups_upward(root: &SystemDir, path: &str) -> Vec<SystemDir> {
    let mounts = parse_mountinfo(&root.bytes("proc/self/mountinfo").unwrap_or_default());
    let Some(mount) = mounts.iter().find(|mount| mount.fs_type == "cgroup2") else {
        return Vec::new();
    };
    let top = root.join(mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point));
    let within = within_mount(mount, Path::new(path));
    within.ancestors().map(|relative| top.join(relative)).collect()
}

fn within_mount<'a>(mount: &MountEntry, path: &'a Path) -> &'a Path {
    let below = path.strip_prefix(&mount.root).or_else(|_| path.strip_prefix("/"));
    below.unwrap_or(path)
}

fn cpu_limit(group: &SystemDir) -> Option<(String, f64)> {
    let text = group.text("cpu.max")?;
    let (quota, period) = text.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| (text.clone(), quota / period))
}

fn io_limits(groups: &[SystemDir]) -> Vec<String> {
    let texts = groups.iter().filter_map(|group| group.text("io.max"));
    texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn limited() -> Fixture {
        let fixture = Fixture::new();
        fixture.file("proc/self/cgroup", "4:memory:/old\n0::/slice/job\n");
        fixture.mounts("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        let groups = "sys/fs/cgroup";
        fixture.file(&format!("{groups}/slice/memory.max"), "1073741824\n");
        fixture.file(&format!("{groups}/slice/job/memory.max"), "max\n");
        fixture.file(&format!("{groups}/slice/cpu.max"), "max 100000\n");
        fixture.file(&format!("{groups}/slice/job/cpu.max"), "150000 100000\n");
        fixture.file(&format!("{groups}/slice/io.max"), "254:0 rbps=max wbps=1048576\n");
        fixture.file(&format!("{groups}/cpu.stat"), "usage_usec 900\n");
        fixture.file(&format!("{groups}/slice/cpu.stat"), "usage_usec 9\nthrottled_usec 40\n");
        fixture.file(&format!("{groups}/slice/job/cpu.stat"), "throttled_usec 2\n");
        fixture
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let limits = read_cgroup_limits(&limited().root());
        let expected = CgroupLimits {
            path: Some("/slice/job".into()),
            memory_max: Some(Bytes::from_gib(1)),
            cpu_max: Some("150000 100000".into()),
            cpu_quota_cores: Some(1.5),
            io_max: vec!["254:0 rbps=max wbps=1048576".into()],
        };
        assert_eq!(limits, expected);
    }

    #[test]
    fn of_several_limits_the_smallest_counts_wherever_it_stands() {
        let fixture = limited();
        let groups = "sys/fs/cgroup";
        let limits = |of_slice: [&str; 2], of_job: [&str; 2]| {
            for (place, [memory, cpu]) in [("slice", of_slice), ("slice/job", of_job)] {
                fixture.files(
                    &format!("{groups}/{place}"),
                    &[("memory.max", memory), ("cpu.max", cpu)],
                );
            }
            let limits = read_cgroup_limits(&fixture.root());
            (limits.memory_max.unwrap().get(), limits.cpu_max.unwrap(), limits.cpu_quota_cores)
        };
        // By the processors that it is worth, not by the number.
        let (more, less) = (["8192", "200000 50000"], ["4096", "300000 100000"]);
        let expected = (4096, "300000 100000".to_owned(), Some(3.0));
        assert_eq!(limits(more, less), expected);
        assert_eq!(limits(less, more), expected);
    }

    #[test]
    fn time_spent_throttled_is_summed_on_the_way_up() {
        assert_eq!(throttled_usec(&limited().root()), Some(42));
    }

    #[test]
    fn the_first_version_has_no_limits_that_are_known() {
        let fixture = Fixture::new();
        fixture.file("proc/self/cgroup", "4:memory:/old\n");
        assert_eq!(read_cgroup_limits(&fixture.root()), CgroupLimits::default());
        assert_eq!(throttled_usec(&fixture.root()), None);
    }
}
