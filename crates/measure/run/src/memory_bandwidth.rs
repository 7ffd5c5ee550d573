//! The rate at which this machine copies memory, which buffered I/O cannot exceed.
//!
//! [`MemoryMeasured`] comes from all processors that the process may use, at once.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use durio_base::Bytes;
use durio_record::MemoryMeasured;

use crate::memory;

// Per processor and direction: with its copy larger than a core's caches, and on a machine with
// many cores together larger than the last one.
const BUFFER: usize = 16 << 20;

/// So long is copied; a copy of a buffer takes some milliseconds.
const SPAN: Duration = Duration::from_millis(60);

/// The buffers may take this part of the available memory.
const MEMORY_PART: u64 = 8;

/// Copies for a moment; none if the memory for it is not there.
pub(crate) fn measure() -> Option<MemoryMeasured> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let need = (2 * BUFFER as u64).saturating_mul(threads as u64);
    if memory::available().is_none_or(|available| need > available.get() / MEMORY_PART) {
        return None;
    }
    let begin = Barrier::new(threads);
    let rates = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| copy(&begin))).collect();
        workers.into_iter().map(|worker| worker.join().ok()).collect::<Option<Vec<f64>>>()
    })?;
    let copied_per_second: f64 = rates.iter().sum();
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2⁶³")]
    let copied = Bytes::new(copied_per_second as u64);
    (copied > Bytes::ZERO).then_some(MemoryMeasured { threads, copied_per_second: copied })
}

/// Bytes that one thread copies per second while all do.
#[expect(clippy::cast_precision_loss, reason = "far below 2⁵³ bytes")]
fn copy(begin: &Barrier) -> f64 {
    let from = vec![1_u8; BUFFER];
    let mut to = vec![2_u8; BUFFER];
    // Touched before: the kernel's zeroing of new pages is not copying.
    begin.wait();
    let started = Instant::now();
    let mut copies = 0_u32;
    while started.elapsed() < SPAN {
        // Otherwise the optimiser would find that the copy is never read.
        black_box(&mut to).copy_from_slice(black_box(&from));
        copies += 1;
    }
    BUFFER as f64 * f64::from(copies) / started.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_processors_copy_at_a_rate_that_a_machine_can_have() {
        let measured = measure().unwrap();
        assert!(measured.threads >= 1);
        // From a slow, shared guest to more than any machine of several sockets.
        let range = Bytes::from_mib(50)..Bytes::from_gib(10_000);
        assert!(range.contains(&measured.copied_per_second), "{measured:?}");
    }
}
