//! A guest's first process.
//!
//! Reads its orders below `/lab`, sends frames through the port and ends the guest.
//!
//! Every error is reported through the port, or on the console without a port, and ends the guest.

mod port;

use std::ffi::CStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use durio_observe::{LabFacts, device_serial};
use rustix::mount::{MountFlags, mount, mount_bind, mount_move};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, chroot, kill_process_group, wait};
use rustix::system::finit_module;

use crate::LabRequest;
use crate::request::LINKS;
use crate::wire::{GuestFrame, INIT_PATH, LAYER, ORDERS, OUT_FOLDER, Orders, ROOT_TAG};
use port::{Port, bring_out, device_in, link, link_witness, restart, shown};

/// Runs the first process of a guest, and never returns there. In any other process it only returns
/// an error.
///
/// # Errors
/// If this is not the first process of a guest of the lab.
pub fn guest_main() -> io::Result<()> {
    // Any other process that called this would mount over its machine's files and restart it.
    if std::process::id() != 1 || !Path::new(ORDERS).is_dir() {
        return Err(io::Error::other("only the first process of a durio lab guest may do this"));
    }
    let failure = match begin() {
        Ok((port, orders)) => serve(&port, &orders).err().inspect(|error| {
            let _ = port.send(&GuestFrame::Failed(error.to_string()));
        }),
        Err(error) => Some(error),
    };
    if let Some(error) = failure {
        // The console is QEMU's stderr, from which the host takes the reason if no frame came.
        let _ = fs::write("/dev/console", format!("durio lab: {error}\n"));
    }
    // The host ends the guest as soon as it has the last frame; this is for a lost host.
    restart()
}

/// Starts the guest up to the port.
fn begin() -> io::Result<(Port, Orders)> {
    mount_basics()?;
    let orders = Orders::read(Path::new(ORDERS))?;
    for module in &orders.modules {
        load(module)?;
    }
    // The kernel has the drivers for it only now.
    let port = Port::open()?;
    port.follow_host()?;
    Ok((port, orders))
}

fn load(path: &Path) -> io::Result<()> {
    let file = File::open(path).map_err(|error| about(path, &error))?;
    match finit_module(&file, c"", 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(about(path, &error.into())),
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("module '{}': {error}", path.display()))
}

fn serve(port: &Port, orders: &Orders) -> io::Result<()> {
    mount_root(orders)?;
    mount_conveniences()?;
    put_off_housekeeping()?;
    if orders.has_witness {
        link_witness()?;
    }
    link_disks(&orders.disks)?;
    fs::create_dir_all(OUT_FOLDER)?;
    fs::write(LabFacts::PATH, orders.facts.to_text())?;
    port.send(&GuestFrame::Ready)?;
    let code = run_command(port, orders)?;
    if orders.brings_out {
        bring_out(port, Path::new(OUT_FOLDER))?;
    }
    port.send(&GuestFrame::Exit(code))?;
    port.wait_for_host();
    Ok(())
}

/// Kernel settings and their values. A kernel without a setting does not have the feature.
///
/// Merging small pages into huge ones cost a step of 600 ms on devices of 4 ms 40 to 60 ms. It runs
/// every ten seconds, and scans some megabytes of the largest process.
const SETTINGS: [(&str, &str); 1] =
    [("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "4294967295")];

/// Makes the kernel leave the processor to the measured command: a counted guest has one processor,
/// which a kernel thread of Debian's kernels would keep until it is done.
fn put_off_housekeeping() -> io::Result<()> {
    for (path, value) in SETTINGS {
        match fs::write(path, value) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io::Error::new(error.kind(), format!("setting '{path}': {error}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where a shared root is put together.
const LOWER: &str = "/lab/lower";
const WORK: &str = "/lab/work";
const ROOT: &str = "/lab/root";
/// Folders in memory, which hold only files that the guest was given.
const PLACES_OF_MEMORY: [&str; 4] = ["/run", "/tmp", "/mnt", "/var/tmp"];

/// The kernel's own filesystems.
fn mount_basics() -> io::Result<()> {
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        attach(kind, kind, place, None)?;
    }
    Ok(())
}

/// Mounts the root that the command sees.
fn mount_root(orders: &Orders) -> io::Result<()> {
    let (given, empty) = places_with_files(if orders.shares_root { LAYER } else { "" });
    if orders.shares_root {
        share_root(&given)?;
    }
    open_to_all("", &given)?;
    for place in empty {
        fs::create_dir_all(place)?;
        attach("tmpfs", "tmpfs", place, Some(c"mode=1777"))?;
    }
    Ok(())
}

/// The places of memory that have given files below this folder, and the others. A mount over given files
/// would hide them.
fn places_with_files(below: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let has_files = |place: &&str| {
        fs::read_dir(format!("{below}{place}")).is_ok_and(|mut entries| entries.next().is_some())
    };
    PLACES_OF_MEMORY.into_iter().partition(has_files)
}

/// Gives these places below a folder the mode that they have as mounts.
fn open_to_all(below: &str, places: &[&str]) -> io::Result<()> {
    for place in places {
        fs::set_permissions(format!("{below}{place}"), Permissions::from_mode(0o1777))?;
    }
    Ok(())
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
        .map_err(|error| cannot_mount("the host's root", error))?;
    let options = format!("lowerdir={LOWER},upperdir={LAYER},workdir={WORK}\0");
    let options = CStr::from_bytes_with_nul(options.as_bytes()).map_err(io::Error::other)?;
    attach("overlay", "overlay", ROOT, Some(options))?;
    let durio = format!("{ROOT}/usr/local/bin/durio");
    mount_bind(INIT_PATH, &durio).map_err(|error| cannot_mount(&durio, error))?;
    for place in given {
        let there = format!("{ROOT}{place}");
        mount_bind(format!("{LAYER}{place}"), &there)
            .map_err(|error| cannot_mount(&there, error))?;
    }
    for place in ["/proc", "/sys", "/dev"] {
        let there = format!("{ROOT}{place}");
        fs::create_dir_all(&there)?;
        mount_move(place, &there).map_err(|error| cannot_mount(&there, error))?;
    }
    // As in switch_root(8): pivot_root(2) cannot leave the filesystem that a kernel is booted with.
    env::set_current_dir(ROOT)?;
    mount_move(".", "/").map_err(|error| cannot_mount("/", error))?;
    chroot(".").map_err(|error| cannot_mount("/", error))?;
    env::set_current_dir("/")
}

/// Mounts filesystems that programs expect or that help to inspect the kernel; a kernel may lack
/// them.
fn mount_conveniences() -> io::Result<()> {
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
    mount(source, place, kind, MountFlags::empty(), options)
        .map_err(|error| cannot_mount(place, error))
}

fn cannot_mount(place: &str, error: rustix::io::Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("cannot mount '{place}': {error}"))
}

/// Waits for each disk, and makes a link to it: the kernel's order of two disks varies.
fn link_disks(serials: &[String]) -> io::Result<()> {
    for serial in serials {
        let is_it = |folder: &Path| device_serial(folder).as_ref() == Some(serial);
        let device = shown(&format!("disk '{serial}'"), || device_in("/sys/block", is_it))?;
        link(&device, &Path::new(LINKS).join(serial))?;
    }
    Ok(())
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const PART_BYTES: usize = 1 << 16;
/// The shells' exit codes for a command that does not exist, or that cannot be run.
const NO_COMMAND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;
/// How long output written before the command's end may take.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Runs the command, and returns its exit code.
///
/// # Errors
/// If the port fails. A command that cannot be started has an exit code.
fn run_command(port: &Port, orders: &Orders) -> io::Result<u8> {
    let mut child = match start_command(orders) {
        Ok(child) => child,
        Err(error) => return cannot_start(port, orders, &error),
    };
    port.interrupts(Some(Pid::from_child(&child)));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let readers = [
            scope.spawn(|| stdout.map_or(Ok(()), |pipe| forward(pipe, port, GuestFrame::Stdout))),
            scope.spawn(|| stderr.map_or(Ok(()), |pipe| forward(pipe, port, GuestFrame::Stderr))),
        ];
        let status = reap_until(Pid::from_child(&child))?;
        port.interrupts(None);
        // A process that still runs and holds the output open would keep the guest alive forever.
        let begin = Instant::now();
        while begin.elapsed() < LAST_WORDS && !readers.iter().all(|reader| reader.is_finished()) {
            // For the first process, its group means all other processes.
            let _ = kill_process_group(Pid::INIT, Signal::KILL);
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            thread::sleep(Duration::from_millis(1));
        }
        // A signal is reported as shells do.
        let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    })
}

fn start_command(orders: &Orders) -> io::Result<Child> {
    let Some((program, arguments)) = orders.command.split_first() else {
        return Err(io::Error::other("no command"));
    };
    let directory = Path::new(&orders.directory);
    let directory = if directory.is_dir() { directory } else { Path::new("/") };
    let mut command = Command::new(program);
    // The kernel passes words of its command line to the first process as variables.
    command.args(arguments).env_clear().current_dir(directory).process_group(0);
    command.env("PATH", PATH).env("HOME", "/root").env("LANG", "C").env("TERM", "dumb");
    command.env("DURIO_LAB", orders.facts.timing.word()).env("DURIO_LAB_OUT", OUT_FOLDER);
    if orders.has_witness {
        command.env("DURIO_LAB_WITNESS", LabRequest::WITNESS_PATH);
    }
    command.envs(orders.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn cannot_start(port: &Port, orders: &Orders, error: &io::Error) -> io::Result<u8> {
    let name = orders.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
    port.send(&GuestFrame::Stderr(
        format!("durio lab: cannot run '{name}': {error}\n").into_bytes(),
    ))?;
    Ok(if error.kind() == io::ErrorKind::NotFound { NO_COMMAND } else { NOT_RUNNABLE })
}

fn forward(mut pipe: impl Read, port: &Port, frame: fn(Vec<u8>) -> GuestFrame) -> io::Result<()> {
    let mut bytes = vec![0; PART_BYTES];
    loop {
        match pipe.read(&mut bytes)? {
            0 => return Ok(()),
            count => port.send(&frame(bytes.get(..count).unwrap_or_default().to_vec()))?,
        }
    }
}

/// Waits for every child, because the first process inherits all orphans, until that of `command`
/// has ended.
fn reap_until(command: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process == command => return Ok(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_memory_with_given_files_are_kept_and_anyone_may_write_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().to_str().unwrap();
        for place in ["/tmp/own", "/var/tmp", "/run", "/srv"] {
            fs::create_dir_all(format!("{below}{place}")).unwrap();
        }
        let mode = |place: &str, mode: u32| {
            fs::set_permissions(format!("{below}{place}"), Permissions::from_mode(mode)).unwrap();
        };
        for file in ["/tmp/own/x", "/var/tmp/y", "/srv/z"] {
            fs::write(format!("{below}{file}"), "x").unwrap();
            mode(file, 0o640);
        }
        let folders = ["/tmp", "/tmp/own", "/var", "/var/tmp", "/run", "/srv"];
        for place in folders {
            mode(place, 0o755);
        }
        let (given, empty) = places_with_files(below);
        assert_eq!(
            (given.as_slice(), empty.as_slice()),
            (&["/tmp", "/var/tmp"][..], &["/run", "/mnt"][..])
        );
        open_to_all(below, &given).unwrap();
        let found = |place: &str| {
            let facts = fs::metadata(format!("{below}{place}")).unwrap();
            facts.permissions().mode() & 0o7777
        };
        assert_eq!(folders.map(found), [0o1777, 0o755, 0o755, 0o1777, 0o755, 0o755]);
        assert_eq!(["/tmp/own/x", "/var/tmp/y", "/srv/z"].map(found), [0o640; 3]);
        // A place that is not there has no mode.
        let missing = open_to_all(below, &["/mnt"]).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
