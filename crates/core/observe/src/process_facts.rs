//! What acts on this process: preloaded libraries, filters and tracers between it and the kernel, the
//! limits of its control group; and the names of other running programs. Whether a sync call works
//! is measured elsewhere.
//!
//! Limits of control groups of version 1 count as unknown. A limit holds for everything below it, so the effective one is the tightest on the way up.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use durio_base::Bytes;
use serde::{Deserialize, Serialize};

use crate::mountinfo::{MountEntry, parse_mountinfo};
use crate::system_dir::{SystemDir, line_after};

/// A process table longer than this is not searched to its end.
const PROCESSES_MAX: usize = 100_000;

/// Parts of the names of libraries that are made to do nothing in fsync and its like: libeatmydata
/// (<https://www.flamingspork.com/projects/libeatmydata/>) and those that people write for tests.
const SYNC_SWALLOWERS: &[&str] = &["eatmydata", "nosync", "nofsync", "no-fsync", "fakefsync"];

/// Software between this process, as in this run, and the kernel; absent if not shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessFacts {
    /// `LD_PRELOAD`, as the process was started with.
    pub preload_environment: Option<String>,
    /// The libraries in `/etc/ld.so.preload`, in one line.
    pub preload_file: Option<String>,
    /// Files mapped into the process whose name is one of those that do nothing in sync calls.
    pub sync_swallowers: Vec<String>,
    /// The mode of seccomp: 0 none, 1 strict, 2 a filter.
    pub seccomp: Option<u32>,
    /// The process that traces this one; 0 for none.
    pub tracer: Option<u32>,
    /// The kernel's own line of release, builder and date.
    pub kernel_version: Option<String>,
}

/// Never fails, for every part may be absent.
pub(crate) fn process_facts(root: &SystemDir) -> ProcessFacts {
    ProcessFacts {
        preload_environment: preload_environment(root),
        preload_file: preload_file(root),
        sync_swallowers: sync_swallowers(root),
        seccomp: status_field(root, "Seccomp:"),
        tracer: status_field(root, "TracerPid:"),
        kernel_version: root.text("proc/version"),
    }
}

/// The names of the processes that this one may see, as far as the kernel keeps them: 15 bytes.
pub fn process_names() -> BTreeSet<String> {
    names_of_processes(&SystemDir::live_root())
}

pub(crate) fn names_of_processes(root: &SystemDir) -> BTreeSet<String> {
    processes(root).filter_map(|process| process.text("comm")).collect()
}

fn processes(root: &SystemDir) -> impl Iterator<Item = SystemDir> {
    let entries = root.children("proc").into_iter().take(PROCESSES_MAX);
    entries.filter(|entry| entry.name().bytes().all(|byte| byte.is_ascii_digit()))
}

/// A running program, as /proc shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningProgram {
    pub process: u32,
    /// The identifier of its effective user, not of its real one.
    pub user: u32,
    pub group: u32,
    /// Its command line, as the program shows it now.
    pub arguments: Vec<String>,
    /// Its working directory; `None` if this process may not see it.
    pub directory: Option<PathBuf>,
}

/// The running programs with one of these names, as far as this process may see them.
pub fn running_programs(names: &[&str]) -> Vec<RunningProgram> {
    programs_named(&SystemDir::live_root(), names)
}

pub(crate) fn programs_named(root: &SystemDir, names: &[&str]) -> Vec<RunningProgram> {
    let is_meant = |process: &SystemDir| {
        process.text("comm").is_some_and(|name| names.contains(&name.as_str()))
    };
    processes(root).filter(is_meant).filter_map(|process| running_program(&process)).collect()
}

fn running_program(process: &SystemDir) -> Option<RunningProgram> {
    let status = process.text("status")?;
    // Real, effective, saved and filesystem identity (proc_pid_status(5)).
    let effective = |start: &str| -> Option<u32> {
        line_after(&status, start)?.split_whitespace().nth(1)?.parse().ok()
    };
    let line = process.bytes("cmdline")?;
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(RunningProgram {
        process: process.name().parse().ok()?,
        user: effective("Uid:")?,
        group: effective("Gid:")?,
        arguments: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
        directory: fs::read_link(process.path().join("cwd")).ok(),
    })
}

fn preload_environment(root: &SystemDir) -> Option<String> {
    let environment = root.bytes("proc/self/environ")?;
    let mut variables = environment.split(|byte| *byte == 0);
    // As the process was started: what it set later does not show in this file
    // (proc_pid_environ(5)).
    let value = variables.find_map(|variable| variable.strip_prefix(b"LD_PRELOAD="))?;
    let value = String::from_utf8_lossy(value).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// The dynamic linker takes names apart at blanks and colons, and a `#` begins a comment.
fn preload_file(root: &SystemDir) -> Option<String> {
    let text = root.text("etc/ld.so.preload")?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let names: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

fn sync_swallowers(root: &SystemDir) -> Vec<String> {
    let maps = root.text("proc/self/maps").unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    // The path is the rest of the line after five fields (proc_pid_maps(5)).
    for path in maps.lines().filter_map(|line| line.get(line.find('/')?..)) {
        if swallows_by_name(path) && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    found
}

fn swallows_by_name(path: &str) -> bool {
    let name = Path::new(path).file_name().map(OsStr::to_string_lossy).unwrap_or_default();
    let name = name.to_lowercase();
    // A program of such a name swallows nothing: the libraries that it preloads do.
    name.contains(".so") && SYNC_SWALLOWERS.iter().any(|known| name.contains(known))
}

fn status_field(root: &SystemDir, name: &str) -> Option<u32> {
    root.line_after("proc/self/status", name)?.parse().ok()
}

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
    let mounts = mounts(root);
    let Some(mount) = mounts.iter().find(|mount| mount.fs_type == "cgroup2") else {
        return Vec::new();
    };
    let top = root.join(mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point));
    let within = within_mount(mount, Path::new(path));
    within.ancestors().map(|relative| top.join(relative)).collect()
}

/// The control group that counts the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryGroup {
    pub directory: PathBuf,
    /// Name of the file with the limit in bytes, which differs between the versions.
    pub limit_file: &'static str,
}

/// The group of the memory controller, in a hierarchy of version 1 or the unified one; `None` if it
/// is not mounted.
pub fn memory_group() -> Option<MemoryGroup> {
    find_memory_group(&SystemDir::live_root())
}

fn find_memory_group(root: &SystemDir) -> Option<MemoryGroup> {
    let (groups, mounts) = (root.text("proc/self/cgroup")?, mounts(root));
    // `number:controllers:path`, where the path may have colons (cgroups(7)).
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let has_memory = |names: &str| names.split(',').any(|name| name == "memory");
    // A controller is in one hierarchy only: where version 1 has it, the unified one has no limit.
    let first_version = lines().find(|(controllers, _)| has_memory(controllers));
    let unified = || lines().find(|(controllers, _)| controllers.is_empty());
    let (path, fs_type, controller, limit_file) = match first_version {
        Some((_, path)) => (path, "cgroup", Some("memory"), "memory.limit_in_bytes"),
        None => (unified()?.1, "cgroup2", None, "memory.max"),
    };
    let has = |mount: &MountEntry, name: &str| mount.options.iter().any(|option| option == name);
    let mount = mounts
        .iter()
        .find(|mount| mount.fs_type == fs_type && controller.is_none_or(|name| has(mount, name)))?;
    let directory = mount.mount_point.join(within_mount(mount, Path::new(path)));
    Some(MemoryGroup { directory, limit_file })
}

fn mounts(root: &SystemDir) -> Vec<MountEntry> {
    parse_mountinfo(&root.bytes("proc/self/mountinfo").unwrap_or_default())
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
    use crate::tests::fixture::Fixture;

    #[test]
    fn a_machine_that_shows_nothing_has_no_facts() {
        assert_eq!(process_facts(&Fixture::new().root()), ProcessFacts::default());
    }

    #[test]
    fn running_programs_are_found_by_name_with_their_effective_user_and_words() {
        let fixture = Fixture::new();
        fixture.file("proc/812/comm", "postgres\n");
        fixture
            .file("proc/812/status", "Name:\tpostgres\nUid:\t0\t26\t26\t26\nGid:\t0\t27\t0\t0\n");
        fixture.file("proc/812/cmdline", b"postgres\0-D\0/data\0");
        fixture.file("proc/813/comm", "postgresql\n");
        fixture.file("proc/self/comm", "postgres\n");
        let found = programs_named(&fixture.root(), &["postgres", "mysqld"]);
        let arguments = ["postgres", "-D", "/data"].map(str::to_owned).to_vec();
        let expected =
            RunningProgram { process: 812, user: 26, group: 27, arguments, directory: None };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn preloaded_libraries_are_read_from_the_environment_the_file_and_the_mappings() {
        let fixture = Fixture::new();
        fixture.file("proc/self/environ", b"HOME=/x\0LD_PRELOAD=libeatmydata.so\0XLD_PRELOAD=y\0");
        fixture.file("etc/ld.so.preload", "# none\n/usr/lib/a.so /usr/lib/b.so # c\n");
        fixture.file(
            "proc/self/maps",
            "55d0-55d1 r-xp 00000000 fe:00 12 /usr/bin/eatmydata-test\n\
             7f00-7f01 r-xp 00000000 fe:00 13   /usr/lib/libeatmydata.so.1.3.0\n\
             7f01-7f02 rw-p 00000000 fe:00 13   /usr/lib/libeatmydata.so.1.3.0\n\
             7f02-7f03 rw-p 00000000 00:00 0    [heap]\n\
             7f03-7f04 r-xp 00000000 fe:00 14   /usr/lib/libc.so.6\n",
        );
        let facts = process_facts(&fixture.root());
        assert_eq!(facts.preload_environment.as_deref(), Some("libeatmydata.so"));
        assert_eq!(facts.preload_file.as_deref(), Some("/usr/lib/a.so /usr/lib/b.so"));
        assert_eq!(facts.sync_swallowers, ["/usr/lib/libeatmydata.so.1.3.0"]);
    }

    #[test]
    fn filters_and_tracers_are_told_from_fields_with_longer_names() {
        let fixture = Fixture::new();
        let status = "Name:\tx\nTracerPid:\t7\nSeccomp_filters:\t3\nSeccomp:\t2\n";
        fixture.file("proc/self/status", status);
        let facts = process_facts(&fixture.root());
        assert_eq!((facts.seccomp, facts.tracer), (Some(2), Some(7)));
    }

    #[test]
    fn this_process_has_no_tracer_unless_the_kernel_says_so_and_survives_being_saved() {
        let facts = process_facts(&SystemDir::live_root());
        assert!(facts.kernel_version.is_some() && facts.tracer.is_some());
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<ProcessFacts>(&text).unwrap(), facts);
    }

    fn limited() -> Fixture {
        let fixture = Fixture::new();
        fixture.file("proc/self/cgroup", "4:memory:/old\n0::/slice/job\n");
        fixture.mounts(UNIFIED);
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

    const UNIFIED: &str = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    /// As systemd mounts both versions: memory in one hierarchy with cpu, and processes by version 2.
    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                          32 23 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                          33 23 0:30 / /sys/fs/cgroup/cpu,memory rw - cgroup cgroup rw,cpu,memory\n";

    #[test]
    fn memory_is_counted_by_version_1_where_it_has_the_controller_and_else_by_the_unified_tree() {
        let found = |groups: &str, mounts: &str| {
            let fixture = Fixture::new();
            fixture.file("proc/self/cgroup", groups);
            fixture.mounts(mounts);
            let group = find_memory_group(&fixture.root())?;
            Some((group.directory.to_str().unwrap().to_owned(), group.limit_file))
        };
        let of = |directory: &str, limit: &'static str| Some((directory.to_owned(), limit));
        let (first, unified) = ("memory.limit_in_bytes", "memory.max");
        let alone = "32 23 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     33 23 0:30 / /cg/memory rw - cgroup cgroup rw,memory\n";
        // A container without a cgroup namespace: only its group is mounted.
        let container =
            "33 23 0:30 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let pod = "31 23 0:28 /pods/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (groups, mounts, expected) in [
            ("0::/\n", UNIFIED, of("/sys/fs/cgroup/", unified)),
            ("0::/user.slice/x\n", UNIFIED, of("/sys/fs/cgroup/user.slice/x", unified)),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/a:b.scope\n",
                UNIFIED,
                of(
                    "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/a:b.scope",
                    unified,
                ),
            ),
            ("4:memory:/a/b\n1:name=systemd:/c\n", alone, of("/cg/memory/a/b", first)),
            ("4:memory:/a/b\n0::/\n", alone, of("/cg/memory/a/b", first)),
            ("5:cpu,memory:/x\n0::/\n", HYBRID, of("/sys/fs/cgroup/cpu,memory/x", first)),
            ("0::/y\n5:memory,cpu:/x\n", HYBRID, of("/sys/fs/cgroup/cpu,memory/x", first)),
            // Another controller, whose name begins alike.
            ("3:cpuset,memory2:/z\n0::/y\n", HYBRID, of("/sys/fs/cgroup/unified/y", unified)),
            ("4:memory:/docker/ab\n", container, of("/sys/fs/cgroup/memory/", first)),
            ("4:memory:/docker/ab/job\n", container, of("/sys/fs/cgroup/memory/job", first)),
            ("4:memory:/\n", container, of("/sys/fs/cgroup/memory/", first)),
            ("0::/pods/ab/job\n", pod, of("/sys/fs/cgroup/job", unified)),
            ("0::/\n", "", None),
            ("4:memory:/a\n0::/\n", UNIFIED, None),
            ("", UNIFIED, None),
        ] {
            assert_eq!(found(groups, mounts), expected, "{groups}{mounts}");
        }
    }

    #[test]
    fn the_first_version_has_no_limits_that_are_known() {
        let fixture = Fixture::new();
        fixture.file("proc/self/cgroup", "4:memory:/old\n");
        assert_eq!(read_cgroup_limits(&fixture.root()), CgroupLimits::default());
        assert_eq!(throttled_usec(&fixture.root()), None);
    }
}
