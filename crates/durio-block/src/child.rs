//! Programs that durio starts and that must not outlive it.
//!
//! In: a command. Out: the same, whose program the kernel ends when durio ends, however that comes
//! about. Not here: starting and waiting.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, id};

/// The kernel kills the program when the thread that starts it ends (prctl(2), `PR_SET_PDEATHSIG`):
/// start it from a thread that lives as long as it shall. What the program starts is not killed.
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = id();
    let arrange = move || {
        // SAFETY: both calls are async-signal-safe, and no memory is handed over.
        let is_arranged = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == 0;
        // SAFETY: as above.
        let is_orphan = unsafe { libc::getppid() }.cast_unsigned() != parent;
        match (is_arranged, is_orphan) {
            (false, _) => Err(io::Error::last_os_error()),
            // It ended between the two calls of fork and prctl.
            (true, true) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            (true, false) => Ok(()),
        }
    };
    // SAFETY: the closure allocates nothing and takes no lock, as is asked of what runs between fork and
    // exec.
    unsafe { command.pre_exec(arrange) }
}
