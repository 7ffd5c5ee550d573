//! The points to remember about a run, the next questions, and the evidence as cards.
//!
//! Adds no judgement to the findings; verdicts are in `verdicts`.

use durio_analyse::{EvidenceReading, Findings, Signal, SignalWord, WarningFinding};
use durio_base::{counted, shell_word};
use durio_observe::LayerKind;
use durio_plan::Purpose;
use durio_record::file_names;

use crate::document::{Card, DetailLevel, LabelledFact, Section, SectionBody, Tone};
use crate::runs::end_of_name;

// The rest is one option away.
const DOUBTS_MAX: usize = 5;

/// Whether the flush can be trusted, and the doubts.
pub(super) fn trust(findings: &Findings) -> Section {
    let mut section = Section::default();
    if let Some(worst) = findings.signals.first() {
        let against =
            |word: &SignalWord| matches!(word, SignalWord::UnsafeConfig | SignalWord::Suspect);
        let count = findings.signals.iter().filter(|signal| against(&signal.word)).count();
        let text = match count {
            0 => "nothing that was seen speaks against it; only a power cut proves it".to_owned(),
            _ => {
                let more =
                    if count > 1 { format!("; and {} more", count - 1) } else { String::new() };
                let word = worst.word.words().to_uppercase();
                format!("{word} {} ({}): {}{more}", worst.id, worst.layer, worst.implies)
            }
        };
        let tone = if count == 0 { Tone::Plain } else { tone(worst.word) };
        section.toned(tone, "flush", text);
    }
    let doubts = findings.warnings.iter().map(|warning| match warning.about.as_slice() {
        [] => warning.code.clone(),
        [one] => format!("{} ({one})", warning.code),
        about => format!("{} ({})", warning.code, counted(about.len() as u64, "workload")),
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
    let widest = widths.filter(|width| *width <= COMMAND_MAX).max().unwrap_or(0);
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
    let directory = findings.stack.iter().find(|stack| stack.root.kind == LayerKind::Directory);
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

fn cards(section: &mut Section, cards: impl Iterator<Item = Card>) {
    let cards: Vec<Card> = cards.collect();
    if !cards.is_empty() {
        section.push(DetailLevel::Summary, SectionBody::Cards(cards));
    }
}

fn fact(label: &str, value: impl Into<String>) -> LabelledFact {
    LabelledFact::new(Tone::Plain, label, value)
}

/// Whether the flush can be trusted: each signal with its word, its evidence and its consequence.
pub(super) fn signals(findings: &Findings) -> Section {
    let mut section = Section::detail("Can its flush be trusted?");
    if !findings.signals.is_empty() {
        section.note(
            "Observations, most severe first. They are evidence, not proof; only a power cut is.",
        );
    }
    cards(&mut section, findings.signals.iter().map(signal));
    section
}

/// How much a signal weighs.
const fn tone(word: SignalWord) -> Tone {
    match word {
        SignalWord::UnsafeConfig => Tone::Bad,
        SignalWord::Suspect => Tone::Warning,
        SignalWord::Declared | SignalWord::Fact => Tone::Plain,
    }
}

fn signal(it: &Signal) -> Card {
    let evidence = |reading: &EvidenceReading| {
        format!("{} = {} [{}]", reading.what, reading.value, reading.place)
    };
    let read: Vec<String> = it.read.iter().map(evidence).collect();
    let mut facts = vec![fact("read", read.join("; "))];
    if !it.advice.is_empty() {
        facts.push(fact("do", &it.advice));
    }
    Card {
        tone: tone(it.word),
        word: it.word.words().to_owned(),
        title: it.id.to_string(),
        about: it.layer.clone(),
        text: it.implies.clone(),
        facts,
    }
}

pub(super) fn warnings(findings: &Findings) -> Section {
    let mut section = Section::detail("Warnings");
    cards(&mut section, findings.warnings.iter().map(warning));
    section
}

fn warning(it: &WarningFinding) -> Card {
    Card {
        tone: Tone::Warning,
        word: "warning".to_owned(),
        title: it.code.to_string(),
        about: it.about.join(", "),
        text: String::new(),
        facts: vec![fact("seen", &it.seen), fact("why", &it.why), fact("do", &it.advice)],
    }
}
