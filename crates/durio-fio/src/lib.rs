//! What fio wrote, and what was written for fio, read by its own rules.
//!
//! In: the text of a job file, or the words of a fio command line. Out: jobs with typed options,
//! each with the line it came from, and what cannot be honoured, named.
//! Not here: what durio then does (durio-plan), devices, files: the caller reads included files.

mod error;
pub mod job_file;

pub use error::FioError;
