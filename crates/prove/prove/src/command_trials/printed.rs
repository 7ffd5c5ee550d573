//! The lines that a command printed, and when the host had them: whole lines before the cut, their
//! number, and how late the others came.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A guest gets them back in its memory.
const BYTES_MAX: usize = 16 << 20;
/// Lines that come this long after the cut were not in flight: the cut did not work.
const ON_THE_WAY: Duration = Duration::from_millis(500);
/// As the other proofs count it.
const LATE: Duration = Duration::from_millis(100);
/// Bytes of other output that are kept.
const TAIL_BYTES: usize = 4096;
const LAST_LINES: usize = 3;

/// The lines of a command.
#[derive(Debug, Default)]
pub(super) struct CommandLines {
    bytes: Vec<u8>,
    /// Where the last whole line ends.
    whole: usize,
    /// Their number before the cut.
    pub(super) acknowledged: u64,
    first_at: Option<Instant>,
    /// When lines came, of the last [`LATE`].
    recent: VecDeque<(Instant, u64)>,
    cut_at: Option<Instant>,
    /// Lines after the cut, by how late they came.
    pub(super) on_the_way: u64,
    pub(super) late: u64,
}

impl CommandLines {
    fn take(&mut self, bytes: &[u8], now: Instant) {
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if let Some(cut_at) = self.cut_at {
            let is_late = now.duration_since(cut_at) > ON_THE_WAY;
            *(if is_late { &mut self.late } else { &mut self.on_the_way }) += lines;
            return;
        }
        if self.is_too_much() {
            return;
        }
        if let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n') {
            self.whole = self.bytes.len() + end + 1;
            self.first_at.get_or_insert(now);
        }
        self.bytes.extend_from_slice(bytes);
        self.acknowledged += lines;
        self.recent.push_back((now, lines));
        while self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) > LATE) {
            self.recent.pop_front();
        }
    }

    /// The power goes now.
    pub(super) fn ends_here(&mut self) {
        let now = *self.cut_at.get_or_insert_with(Instant::now);
        self.recent.retain(|(at, _)| now.duration_since(*at) <= LATE);
    }

    /// Time since the first line; `None` before it, and after the cut.
    pub(super) fn running_for(&self) -> Option<Duration> {
        self.first_at.filter(|_| self.cut_at.is_none()).map(|first| first.elapsed())
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.bytes.len() > BYTES_MAX
    }

    /// Whole lines before the cut.
    pub(super) fn lines(&self) -> &[u8] {
        self.bytes.get(..self.whole).unwrap_or_default()
    }

    pub(super) fn acknowledged_late(&self) -> u64 {
        self.recent.iter().map(|(_, lines)| lines).sum()
    }

    pub(super) fn last_acknowledged(&self) -> String {
        let text = String::from_utf8_lossy(self.lines());
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

/// Takes a command's stdout.
#[derive(Debug)]
pub(super) struct StdoutLines<'a>(pub(super) &'a Mutex<CommandLines>);

impl Write for StdoutLines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut printed = lock(self.0);
        // Read under the lock, which the cutter holds.
        printed.take(bytes, Instant::now());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the end of the output of several streams, in one buffer.
#[derive(Debug)]
pub(super) struct Tail<'a>(pub(super) &'a Mutex<Vec<u8>>);

impl Write for Tail<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = lock(self.0);
        kept.extend_from_slice(bytes);
        let excess = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..excess);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What such a stream has kept, as text.
pub(super) fn text(kept: &Mutex<Vec<u8>>) -> String {
    String::from_utf8_lossy(&lock(kept)).trim().to_owned()
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_if_it_was_whole_when_the_power_went() {
        let printed = Mutex::default();
        let mut stream = StdoutLines(&printed);
        assert_eq!(lock(&printed).running_for(), None);
        stream.write_all(b"committed 1\ncommitted 2\ncommit").unwrap();
        assert!(lock(&printed).running_for().is_some());
        lock(&printed).ends_here();
        stream.write_all(b"ted 3\ncommitted 4\n").unwrap();
        let printed = lock(&printed);
        assert_eq!(printed.lines(), b"committed 1\ncommitted 2\n");
        assert_eq!((printed.acknowledged, printed.acknowledged_late()), (2, 2));
        assert_eq!((printed.on_the_way, printed.late, printed.running_for()), (2, 0, None));
        assert_eq!(printed.last_acknowledged(), "committed 1\ncommitted 2");
    }

    #[test]
    fn a_line_that_comes_long_after_the_cut_shows_that_it_was_none() {
        let mut printed = CommandLines::default();
        let begin = Instant::now();
        printed.take(b"1\n", begin);
        printed.take(b"2\n", begin + LATE * 2);
        printed.cut_at = Some(begin + LATE * 2);
        printed.take(b"3\n", begin + ON_THE_WAY * 2);
        assert_eq!((printed.acknowledged, printed.acknowledged_late(), printed.late), (2, 1, 1));
    }

    #[test]
    fn output_without_end_takes_no_memory_without_end() {
        let mut printed = CommandLines::default();
        for _ in 0..40 {
            printed.take(&[b'\n'; 1 << 20], Instant::now());
        }
        assert!(printed.is_too_much() && printed.bytes.len() <= BYTES_MAX + (1 << 20));
        let kept = Mutex::default();
        Tail(&kept).write_all(&[b'x'; 100_000]).unwrap();
        Tail(&kept).write_all(b"end\n").unwrap();
        assert_eq!((text(&kept).len(), text(&kept).ends_with("xend")), (TAIL_BYTES - 1, true));
    }
}
