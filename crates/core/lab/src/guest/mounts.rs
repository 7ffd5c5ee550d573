//! The filesystems of a guest.

use std::env;
use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use rustix::process::chroot;

use super::orders::{INIT_PATH, LAYER, Orders, ROOT_TAG};

/// Where a shared root is put together.
const LOWER: &str = "/lab/lower";
const WORK: &str = "/lab/work";
const ROOT: &str = "/lab/root";
/// Folders in memory, which hold only files that the guest was given.
const PLACES_OF_MEMORY: [&str; 4] = ["/run", "/tmp", "/mnt", "/var/tmp"];

/// The kernel's own filesystems.
pub(super) fn mount_basics() -> io::Result<()> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        attach(kind, kind, place, None)?;
    }
    Ok(())
}

/// Mounts the root that the command sees.
pub(super) fn mount_root(orders: &Orders) -> io::Result<()> {
    let given_below = |place: &str| match orders.shares_root {
        true => format!("{LAYER}{place}"),
        false => place.to_owned(),
    };
    // A mount over a place with given files would hide them.
    let (given, empty): (Vec<_>, Vec<_>) =
        PLACES_OF_MEMORY.into_iter().partition(|place| has_entries(&given_below(place)));
    if orders.shares_root {
        share_root(&given)?;
    }
    for place in given {
        fs::set_permissions(place, Permissions::from_mode(0o1777))?;
    }
    for place in empty {
        fs::create_dir_all(place)?;
        attach("tmpfs", "tmpfs", place, Some(c"mode=1777"))?;
    }
    Ok(())
}

fn has_entries(folder: &str) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The host's root, read-only, with a layer of this guest's memory over it. Places with given files
/// show only these.
fn share_root(given: &[&str]) -> io::Result<()> {
    for place in [LOWER, WORK, ROOT] {
        fs::create_dir_all(place)?;
    }
    // cache=loose is meant for mounts that are read-only or exclusive (filesystems/9p.rst).
    let options = c"trans=virtio,version=9p2000.L,msize=512000,cache=loose";
    mount(ROOT_TAG, LOWER, "9p", MountFlags::RDONLY, Some(options))
        .map_err(|error| about("the host's root", error))?;
    let options = format!("lowerdir={LOWER},upperdir={LAYER},workdir={WORK}\0");
    let options = CStr::from_bytes_with_nul(options.as_bytes()).map_err(io::Error::other)?;
    attach("overlay", "overlay", ROOT, Some(options))?;
    let durio = format!("{ROOT}/usr/local/bin/durio");
    mount_bind(INIT_PATH, &durio).map_err(|error| about(&durio, error))?;
    for place in given {
        let there = format!("{ROOT}{place}");
        mount_bind(format!("{LAYER}{place}"), &there).map_err(|error| about(&there, error))?;
    }
    for place in ["/proc", "/sys", "/dev"] {
        let there = format!("{ROOT}{place}");
        fs::create_dir_all(&there)?;
        mount_move(place, &there).map_err(|error| about(&there, error))?;
    }
    // As in switch_root(8): pivot_root(2) cannot leave the filesystem that a kernel is booted with.
    env::set_current_dir(ROOT)?;
    mount_move(".", "/").map_err(|error| about("/", error))?;
    chroot(".").map_err(|error| about("/", error))?;
    env::set_current_dir("/")
}

/// Mounts filesystems that programs expect or that help to inspect the kernel; a kernel may lack
/// them.
pub(super) fn mount_conveniences() -> io::Result<()> {
    for place in ["/dev/shm", "/dev/pts"] {
        fs::create_dir_all(place)?;
    }
    for (kind, place) in [
        ("tmpfs", "/dev/shm"),
        ("devpts", "/dev/pts"),
        ("tracefs", "/sys/kernel/tracing"),
        ("debugfs", "/sys/kernel/debug"),
        ("configfs", "/sys/kernel/config"),
        ("cgroup2", "/sys/fs/cgroup"),
    ] {
        if Path::new(place).is_dir() {
            let _ = attach(kind, kind, place, None);
        }
    }
    for (name, target) in
        [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")]
    {
        let _ = std::os::unix::fs::symlink(target, Path::new("/dev").join(name));
    }
    Ok(())
}

fn attach(source: &str, kind: &str, place: &str, options: Option<&CStr>) -> io::Result<()> {
    mount(source, place, kind, MountFlags::empty(), options).map_err(|error| about(place, error))
}

fn about(place: &str, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("cannot mount '{place}': {error}"))
}
