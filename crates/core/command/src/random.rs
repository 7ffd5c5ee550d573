//! Seeds and tokens for users who name none.

use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// A token that cannot be guessed.
pub fn random_token() -> String {
    // The standard library has the system's random numbers for its hash tables alone.
    let word = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", word(), word())
}

/// A seed. Commands that start at the same moment differ by their process.
pub fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Small enough to be typed again.
    u64::from(now.subsec_nanos()) ^ u64::from(std::process::id())
}
