//! The points to remember about a run, and the next questions.
//!
//! Sections of a few lines; the evidence is in `cards`.

use durio_analyse::{Findings, SignalWord};
use durio_base::{counted, shell_word};
use durio_observe::LayerKind;
use durio_plan::Purpose;
use durio_record::file_names;

use super::cards;
use crate::document::{DetailLevel, Section, SectionBody, Tone};
use crate::runs::end_of_name;

// The rest is one option away.
const DOUBTS_MAX: usize = 5;

/// Whether the flush can be trusted, and the doubts.
pub(super) fn trust(findings: &Findings) -> Section {
    let mut section = Section::default();
    if let Some(worst) = findings.signals.first() {
        let against =
            |it: &SignalWord| matches!(it, SignalWord::UnsafeConfig | SignalWord::Suspect);
        let count = findings.signals.iter().filter(|it| against(&it.word)).count();
        let text = match count {
            0 => "nothing that was seen speaks against it; only a power cut proves it".to_owned(),
            _ => {
                let more =
                    if count > 1 { format!("; and {} more", count - 1) } else { String::new() };
                let word = worst.word.words().to_uppercase();
                format!("{word} {} ({}): {}{more}", worst.id, worst.layer, worst.implies)
            }
        };
        let tone = if count == 0 { Tone::Plain } else { cards::tone(worst.word) };
        section.toned(tone, "flush", text);
    }
    let doubts = findings.warnings.iter().map(|it| match it.about.as_slice() {
        [] => it.code.clone(),
        [one] => format!("{} ({one})", it.code),
        about => format!("{} ({})", it.code, counted(about.len() as u64, "workload")),
    });
    let mut doubts: Vec<String> = doubts.collect();
    if let Some(more) = doubts.len().checked_sub(DOUBTS_MAX).filter(|more| *more > 0) {
        doubts.truncate(DOUBTS_MAX);
        doubts.push(format!("and {more} more"));
    }
    match doubts.is_empty() {
        true => section.fact("doubts", "none"),
        false => section.toned(Tone::Warning, "doubts", doubts.join("; ")),
    }
    section
}

// What follows longer commands stands where they end.
const COMMAND_MAX: usize = 50;

/// Commands for the next questions, with the question each answers.
pub(super) fn next(findings: &Findings) -> Section {
    let mut section = Section::new("Next");
    let commands = commands(findings);
    let widths = commands.iter().map(|(command, _)| command.chars().count());
    let widest = widths.filter(|it| *it <= COMMAND_MAX).max().unwrap_or(0);
    // A command that is broken over lines cannot be copied.
    let lines = commands.iter().map(|(command, answer)| format!("{command:widest$}  # {answer}"));
    let folder = findings.run_folder.trim_end_matches('/');
    let page = format!("report: {folder}/{}", file_names::REPORT);
    let lines = lines.chain([page]).collect::<Vec<_>>().join("\n");
    section.push(DetailLevel::Summary, SectionBody::Verbatim(lines));
    section
}

/// The shortest that other commands take for the run.
fn run_word(findings: &Findings) -> String {
    let (folder, run) = (&findings.run_folder, &findings.run);
    // Where durio keeps runs it finds them by their names.
    let is_kept = folder.trim_end_matches('/').ends_with(&format!("/durio/runs/{}", run.run));
    match &run.label {
        Some(label) if is_kept => label.clone(),
        _ if is_kept => end_of_name(&run.run).to_owned(),
        _ => shell_word(folder),
    }
}

fn commands(findings: &Findings) -> Vec<(String, String)> {
    let run = run_word(findings);
    let purpose = findings.plan.purpose;
    let directory = findings.stack.iter().find(|it| it.root.kind == LayerKind::Directory);
    let mut commands = Vec::new();
    let mut add = |command: String, answer: &str| commands.push((command, answer.to_owned()));
    if let Some(stack) = directory {
        let path = shell_word(&stack.target);
        let in_memory = stack.is_in_memory();
        if in_memory {
            add("durio check DIR".to_owned(), "DIR on the storage that the database will use");
        } else if purpose == Purpose::Check && findings.provisional.is_some() {
            add(format!("durio check --thorough {path}"), "figures to buy and to size by");
        }
        if purpose != Purpose::Durable && !in_memory {
            add(format!("durio durable {path}"), "the fastest durable write here, and its price");
        }
        if !in_memory {
            add(format!("durio advise {path} --run {run}"), "settings to change");
        }
    }
    let warnings = findings.warnings.len() as u64;
    let answer = match warnings {
        0 => "layers, method, evidence".to_owned(),
        _ => format!("{} with what to do, layers, method", counted(warnings, "doubt")),
    };
    add(format!("durio report {run} --verbose"), &answer);
    commands
}
