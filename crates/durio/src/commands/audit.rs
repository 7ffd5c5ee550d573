//! `durio audit`: are these figures possible?
//!
//! A run folder, durio's findings or a result of fio is recognised by its contents, not by its
//! name; anything else is read as a table.

use std::fs::File;
use std::io::{Read, Seek as _};
use std::path::{Path, PathBuf};

use clap::Args;
use durio_analyse::{FINDINGS_SCHEMA, Findings};
use durio_bench::{find_run, read_run};
use durio_block::open_input;
use durio_command::CommandError;
use durio_fio::FioError;
use durio_fio::json::{FioFile, FioOutput};
use durio_judge::audit::{AuditError, AuditFindings, Auditor, audit_table, fio_claims, run_claims};
use durio_report::ShownAudit;

use crate::exit_code::{Exit, TABLE};
use crate::options::OutputArguments;
use crate::output;
use crate::progress::Terminal;

/// Check published results for impossible values
///
/// Reads a run folder of durio or its findings.json, a fio result (--output-format=json or json+),
/// or a CSV table of results.
///
/// A table has the columns source, stack, workload, block_size, jobs, iodepth, durable, read_iops,
/// read_latency_us, write_iops, write_latency_us, bandwidth_mb_s. Leave cells of unknown values
/// empty. Optional columns: note, engine, direct, paced, runtime, size, memory, target,
/// preconditioned, idle, syncs, sync_latency_us, and for read, write and sync _latency_min_us,
/// _latency_max_us and percentiles such as read_latency_p99.9_us.
///
/// Each finding names the line or step, the reason and the numbers behind it; rounding alone never
/// causes one. The exit code is 1 if a number cannot be right, 3 if the file cannot be read.
#[derive(Debug, Args)]
#[command(after_help = TABLE)]
pub(crate) struct Audit {
    /// Table, result or run folder
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

pub(crate) fn audit(arguments: &Audit) -> Result<Exit, CommandError> {
    let subject = arguments.file.display().to_string();
    let unreadable = |failure: CommandError| failure.context(format!("cannot audit '{subject}'"));
    let (findings, damage) = findings(&find_run(&arguments.file)?).map_err(unreadable)?;
    output::report(arguments.output, &ShownAudit { findings: &findings, subject: &subject })?;
    Ok(match damage {
        Exit::Fine if findings.has_impossible() => Exit::Negative,
        damage => damage,
    })
}

/// The findings, and whether the file could be read to its end.
fn findings(path: &Path) -> Result<(AuditFindings, Exit), CommandError> {
    // Whatever its name: a folder is a run, or cannot be audited.
    if path.is_dir() {
        let read = read_run(path, false, &Terminal::new(true))?;
        return Ok((of_run(&read.findings)?, Exit::of_read(read.is_damaged)));
    }
    let mut file = open_input(path).map_err(unread)?;
    if !file.metadata().map_err(unread)?.is_file() {
        return Err(CommandError::cannot_measure("it is a pipe, which can be read only once")
            .hint("save it as a file first"));
    }
    match kind(&mut file).map_err(unread)? {
        InputFormat::Findings => Ok((of_run(&read_findings(file)?)?, Exit::Fine)),
        InputFormat::Json => Ok((of_json(path, file)?, Exit::Fine)),
        InputFormat::Table => Ok((audit_table(file).map_err(not_a_table)?, Exit::Fine)),
    }
}

/// The kind of a file, by its first bytes.
enum InputFormat {
    Findings,
    Json,
    Table,
}

// Within this many bytes fio's messages end and its result begins, or durio's findings name their
// schema.
const HEAD_BYTES: u64 = 64 << 10;

fn kind(file: &mut File) -> std::io::Result<InputFormat> {
    let mut head = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
    // The reader of the whole file starts at its beginning, which a pipe does not permit: pipes
    // were refused.
    file.rewind()?;
    let text = String::from_utf8_lossy(&head);
    // Spreadsheets write a byte order mark before the first column.
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let is_object = text.starts_with(['{', '[']);
    // The first schema is the document's own, behind its summary.
    let schema = text.split("\"schema\"").nth(1).unwrap_or_default();
    let schema = schema.trim_start().trim_start_matches(':').trim_start();
    Ok(if text.starts_with('{') && schema.starts_with("\"durio-findings-") {
        InputFormat::Findings
    } else if is_object || text.contains("\"fio version\"") {
        InputFormat::Json
    } else {
        InputFormat::Table
    })
}

// Limit of findings to read: those of 500 steps have some MiB.
const FINDINGS_BYTES_MAX: u64 = 256 << 20;

#[derive(serde::Deserialize)]
struct SchemaName {
    schema: String,
}

fn read_findings(file: File) -> Result<Findings, CommandError> {
    let mut bytes = Vec::new();
    // One byte above the limit shows that the file is too long.
    file.take(FINDINGS_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() as u64 > FINDINGS_BYTES_MAX {
        return Err(CommandError::cannot_measure("more than 256 MiB: not durio's findings")
            .hint("give the run folder that they were made from"));
    }
    let malformed = |error: serde_json::Error| {
        CommandError::cannot_measure(format!("no findings of durio: {error}"))
            .hint("make them again with durio report RUN --format json, or give the run folder")
    };
    let SchemaName { schema } = serde_json::from_slice(&bytes).map_err(malformed)?;
    if schema != FINDINGS_SCHEMA {
        let text = format!("the schema is {schema}, this durio reads {FINDINGS_SCHEMA}");
        return Err(CommandError::cannot_measure(text)
            .hint("give the run folder, or use the durio that made them"));
    }
    serde_json::from_slice(&bytes).map_err(malformed)
}

fn unread(error: std::io::Error) -> CommandError {
    not_a_table(AuditError::Read(error))
}

fn not_a_table(error: AuditError) -> CommandError {
    let hint = error.advice();
    CommandError::cannot(error).hint(hint)
}

fn of_run(findings: &Findings) -> Result<AuditFindings, CommandError> {
    let mut auditor = Auditor::new();
    for error in &findings.errors {
        auditor.note(format!("the run says: {error}"));
    }
    run_claims(findings).into_iter().for_each(|claim| auditor.observe(claim));
    match findings.workloads.is_empty() {
        true => Err(CommandError::cannot_measure("the run has no results")
            .hint("measure again; the run ended before its first step")),
        false => Ok(auditor.finish()),
    }
}

/// A result of fio; or findings with reordered keys.
fn of_json(path: &Path, file: File) -> Result<AuditFindings, CommandError> {
    match durio_fio::json::read_file(path) {
        Ok(result) => of_fio(&result),
        Err(FioError::NotFio { line }) => match read_findings(file) {
            Ok(findings) => of_run(&findings),
            Err(_) => Err(not_audited(FioError::NotFio { line })),
        },
        Err(error) => Err(not_audited(error)),
    }
}

fn not_audited(error: FioError) -> CommandError {
    CommandError::cannot(error)
        .hint("audit accepts a CSV table, a fio result as JSON, or a run folder of durio")
}

/// Audits all results of a file; the last one of each run.
fn of_fio(file: &FioFile) -> Result<AuditFindings, CommandError> {
    let results: Vec<&FioOutput> = file.earlier.iter().chain([&file.output]).collect();
    let jobs = || results.iter().flat_map(|result| &result.jobs);
    if jobs().next().is_none() {
        return Err(CommandError::cannot_measure("the JSON of fio has no job")
            .hint("fio ended before its first job did; repeat the run"));
    }
    let mut auditor = Auditor::new();
    if results.len() > 1 {
        let first_job = |result: &&FioOutput| result.jobs.first().map(|job| job.line.to_string());
        let lines: Vec<String> = results.iter().filter_map(first_job).collect();
        auditor.note(format!(
            "{} results are in the file and were all audited; their first jobs are in lines {}",
            results.len(),
            lines.join(", ")
        ));
    }
    if let Some(line) = file.cut_off_line {
        auditor.note(format!("a later result ends too early in line {line} and is left out"));
    }
    let wrong = jobs().filter(|job| job.error != 0).count();
    if wrong > 0 {
        auditor.note(format!("{wrong} of the entries ended with an error"));
    }
    for (number, result) in (1..).zip(&results) {
        for mut claim in fio_claims(result) {
            // Several runs of one job are not contradictory rows.
            if results.len() > 1 {
                claim.note = format!("result {number}, {}", claim.note);
            }
            auditor.observe(claim);
        }
    }
    Ok(auditor.finish())
}
