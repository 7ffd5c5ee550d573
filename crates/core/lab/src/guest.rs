//! A guest's first process.
//!
//! Reads its orders below `/lab`, sends frames through the port and ends the guest.
//!
//! Every error is reported through the port, or on the console without a port, and ends the guest.

mod bring_out;
mod command;
mod disks;
mod mounts;
pub(crate) mod orders;
mod port;

use std::fs::{self, File};
use std::io;
use std::path::Path;

use durio_observe::LabFacts;
use rustix::system::finit_module;

use crate::guest::command::run_command;
use crate::guest::mounts::{mount_basics, mount_conveniences, mount_root};
use crate::guest::orders::{ORDERS, OUT_FOLDER, Orders};
use crate::guest::port::{Port, link_witness, restart};
use crate::wire::GuestFrame;

pub use orders::GUEST_COMMAND;

/// Runs the first process of a guest, and never returns there. In any other process it only returns
/// an error.
///
/// # Errors
/// If this is not the first process of a guest of the lab.
pub fn guest_main() -> io::Result<()> {
    // Any other process that called this would mount over its machine's files and restart it.
    if std::process::id() != 1 || !Path::new(ORDERS).is_dir() {
        return Err(io::Error::other(
            "only the first process of a guest of durio's lab may do this",
        ));
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
    disks::link_all(&orders.disks)?;
    fs::create_dir_all(OUT_FOLDER)?;
    fs::write(LabFacts::PATH, orders.facts.to_text())?;
    port.send(&GuestFrame::Ready)?;
    let code = run_command(port, orders)?;
    if orders.brings_out {
        bring_out::send(port, Path::new(OUT_FOLDER))?;
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
