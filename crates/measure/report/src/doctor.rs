//! What durio may do on this machine, as a document.
//!
//! Shows a [`Diagnosis`]: a table of the attempts, and a remedy for each failure. `durio-bench`
//! makes the attempts and knows the needs of `durio check`.

use serde::Serialize;

use crate::Report;
use crate::document::{Cell, Column, Document, Section, Table, Tone, both, detail, record, words};

/// The form of the JSON document.
const DOCTOR_SCHEMA: &str = "durio-doctor-1";

/// How well something works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisState {
    Ok,
    /// With a restriction, or with something else in its place.
    Limited,
    /// Not at all.
    No,
}

impl DiagnosisState {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::No => "no",
        }
    }
}

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DiagnosisRow {
    pub name: &'static str,
    /// How well it works.
    pub state: DiagnosisState,
    pub found: String,
    /// What to do where it is not ok; empty if nothing is to be done.
    pub remedy: String,
    /// What durio uses it for.
    pub used_for: &'static str,
    /// Without it `durio check` cannot run.
    pub needed_by_check: bool,
}

/// What a machine lets durio do in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    schema: &'static str,
    directory: String,
    can_check: bool,
    rows: Vec<DiagnosisRow>,
}

impl Diagnosis {
    /// The rows in the order in which they are shown; `directory` as it was named.
    pub fn new(directory: String, rows: Vec<DiagnosisRow>) -> Self {
        let can_check = !rows.iter().any(DiagnosisRow::prevents_check);
        Self { schema: DOCTOR_SCHEMA, directory, can_check, rows }
    }

    /// What prevents `durio check` there.
    pub fn obstacles(&self) -> impl Iterator<Item = &DiagnosisRow> {
        self.rows.iter().filter(|row| row.prevents_check())
    }
}

impl DiagnosisRow {
    fn prevents_check(&self) -> bool {
        self.needed_by_check && self.state == DiagnosisState::No
    }

    fn tone(&self) -> Tone {
        match self.state {
            DiagnosisState::Ok => Tone::Good,
            _ if self.prevents_check() => Tone::Bad,
            _ => Tone::Warning,
        }
    }
}

impl Report for Diagnosis {
    fn document(&self) -> Document {
        let mut document = Document::new("durio doctor", self.directory.as_str());
        document.push(summary(self));
        document.push(remedies(&self.rows));
        document.records = Table::records(COLUMNS, &self.rows);
        document
    }
}

fn summary(diagnosis: &Diagnosis) -> Section {
    let mut section = Section::default();
    let names: Vec<_> = diagnosis.obstacles().map(|row| row.name).collect();
    match names.is_empty() {
        true => section.say(Tone::Good, "durio check can run here"),
        false => section.say(Tone::Bad, format!("durio check cannot run: {}", names.join(", "))),
    }
    section.table(Table::shown(COLUMNS, &diagnosis.rows));
    section
}

fn remedies(rows: &[DiagnosisRow]) -> Section {
    let mut section = Section::new("What to do");
    // What prevents a check is to be done first.
    let (first, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.prevents_check());
    let with_remedy = |row: &&&DiagnosisRow| !row.remedy.is_empty();
    for row in first.iter().chain(&others).filter(with_remedy) {
        section.toned(row.tone(), row.name, row.remedy.as_str());
    }
    section
}

const COLUMNS: &[Column<DiagnosisRow>] = &[
    words(both("what", "what", |row| Cell::text(row.name))),
    words(both("state", "works", |row| Cell::Word(row.tone(), row.state.word().to_owned()))),
    words(both("found", "found", |row| Cell::text(&row.found))),
    record("remedy", |row| Cell::text(&row.remedy)),
    detail(words(both("used_for", "used for", |row| Cell::text(row.used_for)))),
    record("needed_by_check", |row| Cell::text(row.needed_by_check.to_string())),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Options, write};

    fn row(name: &'static str, state: DiagnosisState, needed_by_check: bool) -> DiagnosisRow {
        let remedy = if state == DiagnosisState::Ok { "" } else { "repair it" };
        DiagnosisRow {
            name,
            state,
            found: format!("found of {name}"),
            remedy: remedy.to_owned(),
            used_for: "its purpose",
            needed_by_check,
        }
    }

    fn text(rows: Vec<DiagnosisRow>, verbose: bool) -> String {
        let diagnosis = Diagnosis::new("/data".to_owned(), rows);
        let mut bytes = Vec::new();
        let options = Options { verbose, ..Options::default() };
        write(Format::Text, &diagnosis, &options, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn only_what_check_needs_prevents_it() {
        use DiagnosisState::{Limited, No, Ok};
        let fine = [row("room", Ok, true), row("files", Limited, true), row("fio", No, false)];
        let diagnosis = Diagnosis::new("/data".to_owned(), fine.to_vec());
        assert!(diagnosis.can_check && diagnosis.obstacles().next().is_none());
        let [a, b, c] = fine;
        let bad = Diagnosis::new("/data".to_owned(), vec![a, b, c, row("state folder", No, true)]);
        assert!(!bad.can_check);
        assert_eq!(bad.obstacles().map(|row| row.name).collect::<Vec<_>>(), ["state folder"]);
    }

    #[test]
    fn what_prevents_a_check_is_first_among_what_to_do() {
        use DiagnosisState::{No, Ok};
        let rows = vec![row("fio", No, false), row("clock", Ok, false), row("room", No, true)];
        let text = text(rows, false);
        assert!(text.contains("durio check cannot run: room"), "{text}");
        let (_, remedies) = text.split_once("What to do").unwrap();
        assert!(remedies.find("room") < remedies.find("fio"), "{text}");
        assert!(!remedies.contains("clock"), "{text}");
    }

    #[test]
    fn what_it_is_used_for_is_a_detail() {
        let rows = || vec![row("clock", DiagnosisState::Ok, false)];
        assert!(!text(rows(), false).contains("its purpose"));
        assert!(text(rows(), true).contains("its purpose"));
    }

    #[test]
    fn each_row_has_its_own_words_in_the_table_among_what_to_do_and_in_the_csv() {
        use DiagnosisState::{Limited, No, Ok};
        let told = |name: &'static str, state, used_for, needed_by_check| DiagnosisRow {
            remedy: if name == "clock" { String::new() } else { format!("mend {name}") },
            used_for,
            ..row(name, state, needed_by_check)
        };
        let rows = || {
            vec![
                told("io_uring", Limited, "fast writes", false),
                told("clock", Ok, "times", false),
                told("room", No, "files", true),
            ]
        };
        let text = text(rows(), true);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        for line in [
            "io_uring limited found of io_uring fast writes",
            "clock ok found of clock times",
            "room no found of room files",
            "room mend room",
            "io_uring mend io_uring",
        ] {
            assert!(lines.contains(&line.split(' ').collect()), "{line}: {text}");
        }
        let mut bytes = Vec::new();
        let diagnosis = Diagnosis::new("/data".to_owned(), rows());
        write(Format::Csv, &diagnosis, &Options::default(), &mut bytes).unwrap();
        let expected = "what,state,found,remedy,used_for,needed_by_check\n\
                        io_uring,limited,found of io_uring,mend io_uring,fast writes,false\n\
                        clock,ok,found of clock,,times,false\n\
                        room,no,found of room,mend room,files,true\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn what_works_is_good_what_prevents_a_check_is_bad_and_the_rest_is_a_warning() {
        use DiagnosisState::{Limited, No, Ok};
        let tone = |state, needed| row("it", state, needed).tone();
        assert_eq!([tone(Ok, true), tone(Ok, false)], [Tone::Good; 2]);
        assert_eq!([tone(Limited, true), tone(Limited, false)], [Tone::Warning; 2]);
        assert_eq!([tone(No, true), tone(No, false)], [Tone::Bad, Tone::Warning]);
    }
}
