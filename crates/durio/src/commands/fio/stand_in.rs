//! durio in fio's place: runs fio's jobs and prints what fio would print.
//!
//! Takes fio's words; writes results to stdout or the file of `--output`, logs to files, and
//! returns an exit code. Notes and warnings go to stderr, or to stdout if that has no results:
//! programs that call fio take any output on stderr for an error.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::rc::Rc;
use std::time::{Instant, SystemTime};

use durio_analyse::{Findings, RunState, WarningFinding};
use durio_bench::RunOutcome;
use durio_command::CommandError;
use durio_fio::import::{ResultShape, StreamPlace};
use durio_fio::job_file::{PrintSettings, Question, option_help};
use durio_fio::json::OptionPairs;
use durio_report::{FioRequest, fio_logs, fio_version, has_unrecorded_parts, write_fio};

use super::status::{StatusObserver, StatusOutput};
use super::{ImportedJobs, import_file, parse, planning, running};
use crate::exit_code::Exit;
use crate::measure::begin;
use crate::options::Measuring;
use crate::output;
use crate::progress::Terminal;
use crate::stop_signals::stop_on_signals;

pub(super) fn run(words: &[String], options: &Measuring) -> Result<Exit, CommandError> {
    let began = Instant::now();
    let file = parse(words)?;
    let printing = &file.printing;
    match &printing.question {
        Some(Question::Version) => return say_version(),
        Some(Question::Option(name)) => return say_option(name),
        Some(Question::ParseOnly) => {
            import_file(&file, options.permission(), &planning(options))?;
            return Ok(Exit::Fine);
        }
        None => {}
    }
    // Programs that call fio take any output on stderr for an error.
    let is_quiet = !printing.shows_progress || !io::stderr().is_terminal();
    // `percentile_list` may contain any percentile, which only a histogram has.
    let execution = begin("fio", options)?.with_histograms();
    let settings = running(&execution, options);
    let imported = import_file(&file, options.permission(), &settings)?;
    let results = Rc::new(Results::open(began, printing, &imported)?);
    imported.notes.iter().try_for_each(|line| results.note(line))?;
    let stop = stop_on_signals()?;
    let terminal = Terminal::new(options.quiet || is_quiet);
    let output = printing.status_interval.map(|interval| StatusOutput {
        interval,
        print: {
            let (results, shape) = (Rc::clone(&results), imported.shape.clone());
            Rc::new(move |findings| {
                let mut shape = shape.clone();
                if keep_measured(&mut shape, findings) {
                    // A failed write fails again at the end of the run, where it is an error.
                    let _ = results.write(findings, &shape);
                }
            })
        },
    });
    let observer = StatusObserver { terminal: &terminal, output };
    let (plan, held) = (&imported.plan, imported.held.clone());
    let RunOutcome { findings, outcome } = execution.execute(plan, held, &stop, &observer)?;
    let mut imported = imported;
    let exit = match outcome {
        Ok(outcome) => Ok(Exit::from(outcome)),
        // Printed to its end, without the results of some jobs: those of the others are still
        // valid.
        Err(error)
            if findings.state == RunState::Complete
                && keep_measured(&mut imported.shape, &findings) =>
        {
            Err(error)
        }
        Err(error) => return Err(error),
    };
    results.write(&findings, &imported.shape)?;
    write_logs(&findings, &imported)?;
    results.remark_all(&findings, &imported)?;
    exit
}

/// Removes rows without a measured load, which would read as rates of 0; false if no row is left.
fn keep_measured(shape: &mut ResultShape, findings: &Findings) -> bool {
    let is_measured = |place: &StreamPlace| {
        findings.workloads.iter().any(|workload| {
            (workload.step, workload.stream) == (place.step, place.stream)
                && workload.unmeasured().is_none()
        })
    };
    shape.rows.retain(|row| row.places.iter().any(is_measured));
    shape.jobs.retain(|job| is_measured(&job.place));
    !shape.rows.is_empty()
}

fn say_version() -> Result<Exit, CommandError> {
    output::answer_text(&format!("{}\n", fio_version(env!("CARGO_PKG_VERSION"))))?;
    Ok(Exit::Fine)
}

fn say_option(name: &str) -> Result<Exit, CommandError> {
    let help = option_help(name).map_err(CommandError::wrong_use)?;
    output::answer_text(&help)?;
    Ok(Exit::Fine)
}

struct Results {
    /// The file of `--output`, else stdout.
    file: Option<(String, File)>,
    printing: PrintSettings,
    global_options: OptionPairs,
    /// When the program started.
    began: Instant,
    /// Results were written, after the lines about the jobs that come once.
    has_head: Cell<bool>,
}

impl Results {
    /// Makes the file, and sees to it that those of the logs can be made.
    // Before the run, so that unwritable results do not show only at its end.
    fn open(
        began: Instant,
        printing: &PrintSettings,
        imported: &ImportedJobs,
    ) -> Result<Self, CommandError> {
        for log in &imported.shape.logs {
            let folder =
                Path::new(&log.prefix).parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|missing| !missing.is_dir()) {
                let text = format!("the directory '{}' for logs does not exist", folder.display());
                return Err(CommandError::wrong_use(text));
            }
        }
        let open = |name: &String| -> Result<_, CommandError> {
            // Overwrites existing files, as fio does (docs/what-durio-touches.md).
            let file = File::create(name).map_err(|error| cannot_write(name, error))?;
            Ok((name.clone(), file))
        };
        Ok(Self {
            file: printing.output.as_ref().map(open).transpose()?,
            printing: printing.clone(),
            global_options: imported.global_options.clone(),
            began,
            has_head: Cell::new(false),
        })
    }

    fn remark(&self, line: &str) -> Result<(), CommandError> {
        match self.file {
            Some(_) => output::answer_text(&format!("{line}\n")),
            None => {
                output::remark(line);
                Ok(())
            }
        }
    }

    /// The same, in lines that fit.
    fn note(&self, line: &str) -> Result<(), CommandError> {
        let width = match self.file {
            Some(_) => output::columns(&io::stdout()),
            None => output::columns(&io::stderr()),
        };
        self.remark(&output::folded(line, width))
    }

    pub(super) fn write(
        &self,
        findings: &Findings,
        shape: &ResultShape,
    ) -> Result<(), CommandError> {
        let request = FioRequest {
            shape,
            global_options: self.global_options.clone(),
            printing: &self.printing,
            has_head: !self.has_head.replace(true),
            now: SystemTime::now(),
            elapsed: self.began.elapsed(),
            process: std::process::id(),
        };
        let mut bytes = Vec::new();
        write_fio(findings, &request, &mut bytes).map_err(|error| cannot_write("memory", error))?;
        match &self.file {
            Some((name, file)) => {
                let mut file: &File = file;
                file.write_all(&bytes).map_err(|error| cannot_write(name, error))
            }
            None => output::answer(&bytes),
        }
    }

    /// Prints durio's doubts, what it did not record, and the place of the record.
    fn remark_all(&self, findings: &Findings, imported: &ImportedJobs) -> Result<(), CommandError> {
        if has_unrecorded_parts(findings, &imported.shape.logs) {
            self.note(
                "note: write_lat_log: there is no _slat and no _clat log, as durio records submit \
                 and completion latency only in total",
            )?;
        }
        for warning in &findings.warnings {
            self.note(&line_of(warning))?;
        }
        self.remark(&format!("note: the record is in {}", findings.run_folder))
    }
}

fn line_of(warning: &WarningFinding) -> String {
    match &warning.about[..] {
        // It is about the whole run.
        [] => format!("warning: {}", warning.seen),
        about => format!("warning: {}: {}", about.join(", "), warning.seen),
    }
}

fn write_logs(findings: &Findings, imported: &ImportedJobs) -> Result<(), CommandError> {
    for log in fio_logs(findings, &imported.shape.logs) {
        std::fs::write(&log.name, log.text).map_err(|error| cannot_write(&log.name, error))?;
    }
    Ok(())
}

fn cannot_write(name: &str, error: io::Error) -> CommandError {
    CommandError::cannot(error).context(format!("cannot write '{name}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_its_jobs_and_one_of_the_whole_run_names_none() {
        let line = |about: &[&str]| {
            line_of(&WarningFinding {
                code: "recorder".to_owned(),
                about: about.iter().map(|line| (*line).to_owned()).collect(),
                seen: "jobs waited 480 times".to_owned(),
                why: String::new(),
                advice: String::new(),
            })
        };
        assert_eq!(line(&[]), "warning: jobs waited 480 times");
        assert_eq!(line(&["wal"]), "warning: wal: jobs waited 480 times");
        assert_eq!(line(&["wal", "reads"]), "warning: wal, reads: jobs waited 480 times");
    }
}
