//! How the allocator gets large pieces of memory.
//!
//! In: nothing. Out: large allocations that take no memory until they are written to. Not here: the
//! buffers of blocks (`buffers`), which are filled before a measurement.

/// More than glibc's own default, less than a job's counts of latencies.
#[cfg(target_env = "gnu")]
const MAPPED_FROM_BYTES: libc::c_int = 256 << 10;

/// Has allocations from 256 KiB on come from the kernel, as pages that are zero and take no memory
/// until they are written to, for the rest of the process.
///
/// glibc does so from 128 KiB on, until the first of them is freed: then it takes all that are no
/// larger from its heap, where zeroing touches what the heap was extended by in advance. Thousands of
/// jobs took a gigabyte that way.
pub fn map_large_allocations() {
    #[cfg(target_env = "gnu")]
    // Justification: no crate in use wraps the call.
    // SAFETY: the call takes two numbers, may come at any time from any thread, and changes where later
    // allocations come from; those that exist know where they came from.
    unsafe {
        // A refusal costs memory and nothing else.
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
    }
}
