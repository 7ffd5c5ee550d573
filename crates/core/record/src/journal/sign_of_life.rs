//! The time of the journal as a sign that its run lives.
//!
//! What a dead run's file contains is the user's if it was changed after the run. So the journal says
//! until when the run lived; its lock says only that it does not any more. One wake-up each second
//! is 20 us of processor time or less, on the few filesystems where durio's files have names.

use std::fs::File;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

/// How often; who reads it adds more (`durio_block::remove_left`).
const PERIOD: Duration = Duration::from_secs(1);

/// Touches the journal until it is dropped.
#[derive(Debug)]
pub(super) struct SignOfLife {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SignOfLife {
    pub(super) fn begin(journal: &File) -> io::Result<Self> {
        // The same open file: its lock goes when both are closed.
        let journal = journal.try_clone()?;
        let (end, ended) = channel();
        let give = move || {
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // The journal's disk may be full or gone; then remaining files are kept in doubt.
                let _ = touch(&journal);
            }
        };
        let thread = std::thread::Builder::new().name("sign-of-life".to_owned()).spawn(give)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for SignOfLife {
    fn drop(&mut self) {
        // Woken at once: a run does not end a second later for it.
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sets the time to that of the kernel, which is the clock of all other files too.
fn touch(journal: &File) -> rustix::io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    futimens(journal, &Timestamps { last_access: now, last_modification: now })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_journal_goes_on_while_its_run_lives_and_stays_afterwards() {
        let file = tempfile::tempfile().unwrap();
        let at = || file.metadata().unwrap().modified().unwrap();
        let sign = SignOfLife::begin(&file).unwrap();
        let begin = at();
        while at() == begin {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(sign);
        let end = at();
        std::thread::sleep(PERIOD * 2);
        assert_eq!(at(), end);
    }
}
