//! A memory cgroup of durio's own, in which the process is while a step runs: pages that it brings
//! into the page cache count there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use durio_base::Bytes;

use crate::error::RunError;

/// The process is in a cgroup with a bound; dropped, it is where it was, and the cgroup is gone.
#[derive(Debug)]
pub(crate) struct MemoryBound {
    parent: PathBuf,
    own: PathBuf,
}

/// Where the memory controller is mounted, and the name of its bound.
struct Controller {
    current: PathBuf,
    limit: &'static str,
}

impl MemoryBound {
    /// Enters a cgroup bounded to `bytes`.
    ///
    /// Memory that the process has already stays counted where it is.
    pub(crate) fn enter(bytes: Bytes) -> Result<Self, RunError> {
        let controller = controller().ok_or_else(|| {
            refusal("no memory controller of control groups is mounted here", None)
        })?;
        let own = controller.current.join(format!("{OWN_NAME}{}", std::process::id()));
        let bound = Self { parent: controller.current, own };
        match fs::create_dir(&bound.own) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let place = bound.own.clone();
                // Nothing was made: there is nothing to leave, and nothing to remove.
                std::mem::forget(bound);
                return Err(refusal(
                    &format!("cannot make the control group '{}'", place.display()),
                    Some(error),
                ));
            }
            _ => {}
        }
        let write = |file: &str, text: String| fs::write(bound.own.join(file), text);
        // The bound before the process: no page comes in that it does not count.
        write(controller.limit, bytes.get().to_string())
            .and_then(|()| write("cgroup.procs", std::process::id().to_string()))
            .map_err(|error| {
                let text = format!("cannot bound the memory to {bytes}");
                refusal(&text, Some(error))
            })?;
        Ok(bound)
    }
}

impl Drop for MemoryBound {
    fn drop(&mut self) {
        // The error cannot be reported any more; the next run removes an empty one.
        let _ = fs::write(self.parent.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&self.own);
    }
}

/// How the names of durio's control groups begin; the number of its process follows.
const OWN_NAME: &str = "durio-memory-bound-";

/// Removes the control groups that killed runs left. The kernel removes none that has a process.
pub(crate) fn remove_left() {
    let groups = controller().and_then(|controller| fs::read_dir(controller.current).ok());
    for group in groups.into_iter().flatten().flatten() {
        let name = group.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(OWN_NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(group.path());
        }
    }
}

fn refusal(text: &str, error: Option<io::Error>) -> RunError {
    let refusal = match error {
        Some(error) => RunError::target(text).because(error),
        None => RunError::unsupported(text),
    };
    refusal
        .hint("run as root on a system with the memory controller, or leave the memory bound out")
}

fn controller() -> Option<Controller> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    find(&groups, &mounts)
}

/// From the texts of /proc/self/cgroup and /proc/self/mounts: the controller of version 1, or the
/// unified tree if that has it.
fn find(groups: &str, mounts: &str) -> Option<Controller> {
    let mount_of = |matches: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, place, kind, options, ..] = fields[..] else { return None };
            matches(kind, options).then(|| PathBuf::from(place))
        })
    };
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let inside = Path::new(path.trim_start_matches('/'));
        if controllers.split(',').any(|name| name == "memory") {
            let has_memory = |options: &str| options.split(',').any(|option| option == "memory");
            let mount = mount_of(&|kind, options| kind == "cgroup" && has_memory(options))?;
            let current = mount.join(inside);
            return Some(Controller { current, limit: "memory.limit_in_bytes" });
        }
        // A controller is in one hierarchy only: with version 1's, the unified tree has no bound.
        if number == "0" && !groups.lines().any(|line| line.contains(":memory:")) {
            let mount = mount_of(&|kind, _| kind == "cgroup2")?;
            return Some(Controller { current: mount.join(inside), limit: "memory.max" });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use durio_block::testkit::note_skip;

    #[test]
    fn the_group_of_a_dead_run_is_removed_and_that_of_a_living_one_stays() {
        const NAME: &str = "the_group_of_a_dead_run_is_removed_and_that_of_a_living_one_stays";
        let Some(controller) = controller() else {
            return note_skip(NAME, &"no memory controller is mounted");
        };
        // Above all numbers that processes can have (PID_MAX_LIMIT, 2^22).
        let [dead, living] = [5_000_000, std::process::id()]
            .map(|process| controller.current.join(format!("{OWN_NAME}{process}")));
        if let Err(error) = fs::create_dir(&dead) {
            return note_skip(NAME, &error);
        }
        fs::create_dir(&living).unwrap();
        remove_left();
        let left = [dead.exists(), living.exists()];
        fs::remove_dir(&living).unwrap();
        assert_eq!(left, [false, true]);
    }

    #[test]
    fn the_controller_is_found_in_both_versions() {
        let old = find(
            "4:memory:/a/b\n0::/\n",
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup /cg/memory cgroup rw,memory 0 0\n",
        );
        let old = old.unwrap();
        assert_eq!(
            (old.current.as_path(), old.limit),
            (Path::new("/cg/memory/a/b"), "memory.limit_in_bytes")
        );
        let new = find("0::/user.slice/x\n", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").unwrap();
        assert_eq!(new.current, Path::new("/sys/fs/cgroup/user.slice/x"));
        assert_eq!(new.limit, "memory.max");
        assert!(find("0::/\n", "").is_none());
        assert!(find("", "").is_none());
    }
}
