//! The log of clients' writes to a served disk, in a file.
//!
//! Turns a disk's recording into a log of dm-log-writes (durio_simdisk::trace), which can be read
//! while it grows.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use durio_simdisk::trace::MARK_MAX;
use durio_simdisk::{Disk, Logger};

/// A log, and its first error, after which nothing more is written.
#[derive(Debug)]
pub struct WriteLog(Mutex<WriteLogState>);

#[derive(Debug)]
struct WriteLogState {
    logger: Option<Logger<BufWriter<File>>>,
    error: Option<io::Error>,
}

impl WriteLog {
    /// Starts to record the disk into a new file.
    ///
    /// # Errors
    /// If the file exists, or cannot be made.
    pub fn create(path: &Path, disk: &mut Disk) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        let logger = Some(Logger::new(BufWriter::new(file))?);
        disk.record();
        Ok(Self(Mutex::new(WriteLogState { logger, error: None })))
    }

    /// Writes the events recorded since the last call.
    pub fn take(&self, disk: &mut Disk) {
        let events = disk.take_events();
        if events.is_empty() {
            return;
        }
        let state = &mut *self.state();
        let written = state.logger.as_mut().map_or(Ok(()), |logger| logger.take(&events));
        if let Err(error) = written {
            state.logger = None;
            state.error = Some(error);
            // Its events have no consumer any more.
            disk.take_recording();
        }
    }

    /// Marks this moment.
    ///
    /// # Errors
    /// If the log does not permit this mark.
    pub fn mark(&self, disk: &mut Disk, name: &str) -> Result<(), String> {
        if name.is_empty() || name.len() > MARK_MAX || name.contains('\0') {
            return Err(format!("a mark has 1 to {MARK_MAX} bytes, none of them zero"));
        }
        disk.mark(name);
        self.take(disk);
        if self.has_failed() { Err("the log cannot be written".to_owned()) } else { Ok(()) }
    }

    /// Whether the log has stopped.
    pub fn has_failed(&self) -> bool {
        self.state().error.is_some()
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first error of writing it.
    pub fn finish(&self, disk: &mut Disk) -> io::Result<()> {
        self.take(disk);
        disk.take_recording();
        let state = &mut *self.state();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let Some(logger) = state.logger.take() else { return Ok(()) };
        logger.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }

    fn state(&self) -> MutexGuard<'_, WriteLogState> {
        // An error at the moment of a panic is in the file's state, not in this one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use durio_simdisk::Profile;

    use super::*;

    #[test]
    fn a_log_that_cannot_be_written_says_so_at_each_mark_and_at_its_end() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let logger = Some(Logger::new(BufWriter::new(full)).unwrap());
        let log = WriteLog(Mutex::new(WriteLogState { logger, error: None }));
        let mut disk = Disk::new(Profile::honest(1 << 20), 1);
        disk.record();
        assert!(!log.has_failed());
        for name in ["one", "two"] {
            assert_eq!(log.mark(&mut disk, name).unwrap_err(), "the log cannot be written");
            assert!(log.has_failed());
        }
        assert_eq!(log.finish(&mut disk).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
