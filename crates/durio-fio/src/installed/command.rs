//! fio's command line from lists of options.
//!
//! In: [`FioCommand`]. Out: arguments; no shell reads them. Not here: whether fio knows an option.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Fio;
use crate::FioError;

/// One job: its name and its options in order; a later one wins. A flag has the value `1`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobOptions {
    /// The job's name.
    pub name: String,
    /// `(option, value)`.
    pub options: Vec<(String, String)>,
}

/// What fio shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FioCommand {
    /// The program.
    pub fio: Fio,
    /// The jobs, in order.
    pub jobs: Vec<JobOptions>,
    /// Where fio runs: relative paths of options start there. `None` for the current folder.
    pub folder: Option<PathBuf>,
}

/// Options of the command line that are not a job's: they would change the result or where it goes.
const NOT_OF_A_JOB: [&str; 17] = [
    "name",
    "output",
    "output-format",
    "append-terse",
    "minimal",
    "status-interval",
    "client",
    "server",
    "remote-config",
    "daemonize",
    "debug",
    "parse-only",
    "showcmd",
    "eta",
    "section",
    "aux-path",
    "trigger-file",
];

impl FioCommand {
    /// The arguments: json+ to `result`.
    ///
    /// # Errors
    /// [`FioError::Command`] for no job, a name that is empty, an option that is not a job's, or a value
    /// that fio would read otherwise than it stands.
    pub(super) fn arguments(&self, result: &Path) -> Result<Vec<OsString>, FioError> {
        if self.jobs.is_empty() {
            return Err(wrong("", "there is no job to run"));
        }
        let mut arguments = vec![OsString::from("--output-format=json+"), "--eta=never".into()];
        arguments.push(with_path("--output=", result));
        for job in &self.jobs {
            add_job(&mut arguments, job)?;
        }
        Ok(arguments)
    }
}

fn with_path(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}

fn add_job(arguments: &mut Vec<OsString>, job: &JobOptions) -> Result<(), FioError> {
    if job.name.trim().is_empty() || job.name.contains('\0') {
        return Err(wrong(&job.name, "a job needs a name"));
    }
    arguments.push(format!("--name={}", job.name).into());
    for (option, value) in &job.options {
        if let Some(what) = complaint(option, value) {
            return Err(wrong(&job.name, &what));
        }
        arguments.push(format!("--{option}={value}").into());
    }
    Ok(())
}

fn complaint(option: &str, value: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if option.is_empty() || !option.bytes().all(is_part) {
        Some(format!("'{option}' is no name of an option"))
    } else if NOT_OF_A_JOB.contains(&option.replace('_', "-").as_str()) {
        Some(format!("'{option}' is not an option of a job"))
    } else if value.contains('\0') {
        Some(format!("the value of '{option}' has a zero byte"))
    } else if value.contains(['#', ';']) || value.trim() != value {
        // It takes what follows for a comment, and cuts blanks off: a file name would be another.
        Some(format!("the value of '{option}' is not what fio would read: '{value}'"))
    } else {
        None
    }
}

fn wrong(job: &str, what: &str) -> FioError {
    FioError::Command { job: job.to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(jobs: &[(&str, &[(&str, &str)])]) -> Result<Vec<String>, FioError> {
        let version = crate::installed::OLDEST;
        let fio = Fio { path: "fio".into(), version, version_text: version.to_string() };
        let job = |&(name, options): &(&str, &[(&str, &str)])| JobOptions {
            name: name.to_owned(),
            options: options
                .iter()
                .map(|(key, value)| (key.to_string(), value.to_string()))
                .collect(),
        };
        let command = FioCommand { fio, jobs: jobs.iter().map(job).collect(), folder: None };
        let arguments = command.arguments(Path::new("/r"))?;
        Ok(arguments.into_iter().map(|it| it.into_string().unwrap()).collect())
    }

    #[test]
    fn every_job_begins_with_its_name() {
        let found = arguments(&[("a b", &[("rw", "read"), ("bs", "4k")]), ("c", &[])]).unwrap();
        assert_eq!(found[3..], ["--name=a b", "--rw=read", "--bs=4k", "--name=c"]);
        assert_eq!(found[2], "--output=/r");
    }

    #[test]
    fn what_is_not_a_job_s_option_is_refused() {
        for options in [("output", "x"), ("name", "x"), ("status_interval", "1"), ("", "x")] {
            assert!(arguments(&[("a", &[options])]).is_err(), "{options:?}");
        }
        for options in [("rw read", "x"), ("rw", "a\0b"), ("filename", "a#b"), ("filename", "a ")] {
            assert!(arguments(&[("a", &[options])]).is_err(), "{options:?}");
        }
    }

    #[test]
    fn no_job_and_no_name_are_refused() {
        assert!(arguments(&[]).is_err());
        assert!(arguments(&[(" ", &[])]).is_err());
    }
}
