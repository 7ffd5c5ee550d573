//! What durio knows of fio: its results, its histogram, the installed program.
//!
//! In: bytes of fio's JSON output, jobs to run. Out: typed results, fio's JSON, errors that say what
//! to do. Not here: what durio measures itself.

pub mod histogram;
pub mod installed;
pub mod json;

mod error;

pub use error::FioError;
