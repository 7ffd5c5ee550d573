//! What durio knows of fio: its job files, its results, its histogram, the installed program.
//!
//! In: job files and command lines, bytes of fio's JSON output, loads to run. Out: jobs with typed
//! options, each with the line it came from, plans made of them, jobs made of loads, typed results,
//! fio's JSON, errors that say what to do.
//! Not here: what durio measures itself; the caller reads included files.

pub mod export_job;
pub mod histogram;
pub mod import;
pub mod installed;
pub mod job_file;
pub mod json;
pub mod normal;
pub mod terse;

mod error;

pub use error::FioError;
