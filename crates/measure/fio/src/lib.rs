//! durio's knowledge of fio: its job files, its results, its histogram, the installed program.
//!
//! Reads job files, command lines and fio's JSON output, and makes jobs with typed options (each
//! with its line), plans from jobs, jobs from loads, typed results, fio's JSON, and errors that say
//! what to do. The caller reads included files.
//!
//! # Both ways
//!
//! `job_file` reads job files by fio's own grammar. Each option is a row of one table
//! (`job_file/options`): names, the reader of its value, its meaning, and whether it is honoured
//! (with the field that it sets), noted or refused (with the reason). Jobs, refusals, notes,
//! `--cmdhelp` and docs/fio-options.md come from it, and a test asks the installed fio whether an
//! option is missing. `import` makes a plan of the jobs, and takes every struct of honoured options
//! apart by name, so that a new option is a compile error until it is honoured or refused.
//! `export_job` is the inverse for one load: `measure/run/src/fio_step.rs` hands it to the
//! installed fio and turns fio's JSON into the events of a step, one interval long, with fio's own
//! bins next to the histogram. `durio fio` prints what fio would: `import` says which loads are in
//! which of fio's rows and logs (`ResultShape`), `measure/report/src/fio` makes fio's document of
//! findings with it, and `durio-fio` writes that down (`json::write`, `terse`, `normal`), which is
//! tested against fio's own output. fio and durio both run the job files in
//! `crates/durio/tests/fio`, and all counts must be equal. `cargo xtask bench corpus FOLDER` does
//! so with a folder of job files and command lines from elsewhere, by strace.

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
