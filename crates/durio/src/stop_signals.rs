//! Signals that end a command in order, and the rule by which a repeated one ends it at once.
//!
//! SIGINT, SIGTERM and SIGHUP set a flag that the command polls; when a person repeats the signal,
//! the process ends.
//!
//! One request to end arrives as several signals. A terminal that closes sends SIGHUP to its
//! foreground group (the kernel, drivers/tty/tty_jobctrl.c), and its shell sends it to every job
//! again; `timeout` signals its child and then the group of both (coreutils, src/timeout.c); npm
//! and others forward the SIGINT that the terminal has already sent to the whole group. So a
//! hang-up never hurries, and a SIGINT or SIGTERM only some time after the first one.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use durio_command::{CommandError, StopFlag};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit_code::Exit;

// Signals within this time of the first are the same wish: longer than a wrapper takes to hand one
// on, shorter than a person needs to see that nothing has happened yet.
const SAME_WISH: Duration = Duration::from_millis(500);

/// The first signal ends the command in order; a person's second SIGINT or SIGTERM at once.
pub(crate) fn stop_on_signals() -> Result<StopFlag, CommandError> {
    let stop = stop_in_order()?;
    // Without SIGHUP: a shell sends it to every job again, which is not a second request.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(cannot_handle)?;
    let mut wish = Wish::default();
    let watch = move || {
        for _ in signals.forever() {
            if wish.is_repeated(Instant::now()) {
                // The only way past a write that hangs: unwinding would wait for it.
                signal_hook::low_level::exit(i32::from(Exit::INTERRUPTED.number()));
            }
        }
    };
    let thread = thread::Builder::new().name("durio-signals".to_owned());
    thread.spawn(watch).map_err(cannot_handle)?;
    Ok(stop)
}

/// Any number of signals end the command in order.
pub(crate) fn stop_in_order() -> Result<StopFlag, CommandError> {
    let stop = StopFlag::default();
    // A handler would override nohup(1).
    let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register(signal, stop.as_atomic()).map_err(cannot_handle)?;
    }
    Ok(stop)
}

/// Beyond the user's limit on the size of files (`ulimit -f`) a write fails, and does not end the process
/// with its files left behind.
pub(crate) fn outlive_file_limits() {
    // By a handler: commands that durio starts would inherit that a signal is ignored. The system refuses
    // this for no signal that it has.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

fn cannot_handle(error: std::io::Error) -> CommandError {
    // Too few descriptors or threads.
    CommandError::cannot(error).context("cannot handle signals")
}

// Under nohup(1) hang-ups are ignored, and must stay so.
fn is_hang_up_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(ignored_signals).is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0)
}

/// The mask of a line `SigIgn: 0000000000000001` (proc_pid_status(5)): bit 0 is signal 1.
fn ignored_signals(line: &str) -> Option<u64> {
    u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok()
}

/// A person's wish that the command ends.
#[derive(Debug, Default)]
struct Wish {
    first: Option<Instant>,
}

impl Wish {
    /// Takes a SIGINT or SIGTERM; true if it asks again.
    fn is_repeated(&mut self, now: Instant) -> bool {
        let first = *self.first.get_or_insert(now);
        now.saturating_duration_since(first) >= SAME_WISH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_are_one_wish_and_a_later_one_is_another() {
        let (mut wish, begin) = (Wish::default(), Instant::now());
        assert!(!wish.is_repeated(begin));
        assert!(!wish.is_repeated(begin));
        assert!(!wish.is_repeated(begin + Duration::from_millis(60)));
        assert!(!wish.is_repeated(begin + Duration::from_millis(499)));
        assert!(wish.is_repeated(begin + Duration::from_millis(500)));
        assert!(wish.is_repeated(begin + Duration::from_secs(1)));
    }

    #[test]
    fn the_mask_of_ignored_signals_is_read_from_its_line() {
        assert_eq!(ignored_signals("SigIgn:\t0000000000001001"), Some(0x1001));
        assert_eq!(ignored_signals("SigCgt:\t0000000000001001"), None);
    }
}
