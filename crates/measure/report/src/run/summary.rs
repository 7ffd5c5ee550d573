//! The points to remember about a run, the next questions, and the evidence as cards.
//!
//! Adds no judgement to the findings; verdicts are in `verdicts`.

use durio_analyse::{EvidenceReading, Findings, Signal, SignalWord, WarningFinding};
use durio_base::{counted, shell_word};
use durio_judge::summary::unpredicted;
use durio_observe::LayerKind;
use durio_plan::Purpose;
use durio_record::file_names;

use crate::document::{Card, DetailLevel, LabelledFact, Section, SectionBody, Tone};
use crate::runs::end_of_name;

/// Characters of caveats that a line of 100 columns has room for beside their number and that of the
/// others, which are one option away.
const CAVEATS_MAX: usize = 61;

/// Whether the flush can be trusted, and the caveats, on a line each.
pub(super) fn trust(findings: &Findings) -> Section {
    let mut section = Section::default();
    if let Some(worst) = findings.signals.first() {
        let against =
            |word: &SignalWord| matches!(word, SignalWord::UnsafeConfig | SignalWord::Suspect);
        let count = findings.signals.iter().filter(|signal| against(&signal.word)).count();
        let text = match count {
            0 => "no sign of trouble (only a power-cut test can prove it)".to_owned(),
            _ => {
                let more =
                    if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
                let word = worst.word.words().to_uppercase();
                format!("{word} {} ({}){more}", worst.id, worst.layer)
            }
        };
        let tone = if count == 0 { Tone::Plain } else { tone(worst.word) };
        section.toned(tone, "flush", text);
    }
    let count = findings.warnings.len();
    match count {
        0 => section.fact("caveats", "none"),
        _ => section.toned(Tone::Warning, &format!("caveats ({count})"), caveats(findings)),
    }
    section
}

/// The codes of as many warnings as a line has room for.
fn caveats(findings: &Findings) -> String {
    let codes: Vec<&str> = findings.warnings.iter().map(|warning| warning.code.as_str()).collect();
    let length = |codes: &[&str]| codes.join(", ").chars().count();
    let fitting = (1..=codes.len()).rev().find(|count| length(&codes[..*count]) <= CAVEATS_MAX);
    let (shown, more) = codes.split_at(fitting.unwrap_or(codes.len().min(1)));
    match more.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more (--verbose)", shown.join(", ")),
    }
}

// What follows longer commands stands where they end.
const COMMAND_MAX: usize = 50;

/// Commands for the next questions, with the question each answers.
pub(super) fn next(findings: &Findings) -> Section {
    let mut section = Section { is_local: true, ..Section::new("Next") };
    let commands = commands(findings, &run_word(findings), &shell_word);
    // The first step, and where everything is; a screen has no room for more. With several places
    // the first step is to compare them, which stands with their results.
    let shown = if findings.stack.len() > 1 { 0 } else { 1 };
    let (first, rest) = commands.split_at(shown.min(commands.len().saturating_sub(1)));
    let (others, last) = rest.split_at(rest.len().saturating_sub(1));
    let shown: Vec<_> = first.iter().chain(last).collect();
    let folder = findings.run_folder.trim_end_matches('/');
    let page = format!("report: {folder}/{}", file_names::REPORT);
    let others = lines(&others.iter().collect::<Vec<_>>());
    if !others.is_empty() {
        section.push(DetailLevel::Detail, SectionBody::Verbatim(others.join("\n")));
    }
    let shown = lines(&shown).into_iter().chain([page]).collect::<Vec<_>>().join("\n");
    section.push(DetailLevel::Summary, SectionBody::Verbatim(shown));
    section
}

/// The same for a page, without the paths of the machine that measured.
pub(super) fn next_of_page(findings: &Findings) -> Section {
    let mut section = Section { level: DetailLevel::Page, ..Section::new("Next") };
    let commands = commands(findings, "RUN", &|_| "DIR".to_owned());
    let lines = lines(&commands.iter().collect::<Vec<_>>());
    section.push(DetailLevel::Page, SectionBody::Verbatim(lines.join("\n")));
    section
}

/// Commands with what each answers behind them, in a column.
fn lines(commands: &[&(String, String)]) -> Vec<String> {
    let widths = commands.iter().map(|(command, _)| command.chars().count());
    let widest = widths.filter(|width| *width <= COMMAND_MAX).max().unwrap_or(0);
    // A command that is broken over lines cannot be copied.
    commands.iter().map(|(command, answer)| format!("{command:widest$}  # {answer}")).collect()
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

/// `run` is how the run is named, and `path` how the path of a target is written.
fn commands(
    findings: &Findings,
    run: &str,
    path: &dyn Fn(&str) -> String,
) -> Vec<(String, String)> {
    let purpose = findings.plan.purpose;
    let directory = findings.stack.iter().find(|stack| stack.root.kind == LayerKind::Directory);
    let mut commands = Vec::new();
    let mut add = |command: String, answer: &str| commands.push((command, answer.to_owned()));
    if let Some(stack) = directory {
        let path = path(&stack.target);
        let in_memory = stack.is_in_memory();
        if in_memory {
            add("durio check DIR".to_owned(), "DIR on the storage that the database will use");
        } else if let Some((name, is_known)) = unpredicted(findings).into_iter().next() {
            match is_known {
                true => add(format!("durio predict {name} {path}"), "its commits by clients"),
                false => {
                    let command = format!("durio run profile:{name} --target {path}");
                    add(command, "its own I/O, idle and under load");
                }
            }
        } else if purpose == Purpose::Check && findings.provisional.is_some() {
            add(format!("durio check --thorough {path}"), "numbers for sizing and purchasing");
        }
        if purpose != Purpose::Durable && !in_memory {
            add(format!("durio durable {path}"), "find the fastest durable write method");
        }
        if !in_memory {
            add(format!("durio advise {path} --run {run}"), "settings to change");
        }
    }
    let warnings = findings.warnings.len() as u64;
    let answer = match warnings {
        0 => "layers, method, evidence".to_owned(),
        _ => format!("{} with fixes, layers, method", counted(warnings, "caveat")),
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
