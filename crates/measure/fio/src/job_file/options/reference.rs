//! The table of options for people: `--cmdhelp`, and docs/fio-options.md, which a test compares.

use super::{Class, OptionRow, find_option, option_rows, unknown};
use crate::job_file::program::{ProgramClass, find_program_option};

/// What `--cmdhelp` prints about the option `name`, or about all with "" or "all".
///
/// # Errors
/// A sentence: fio has no such option.
pub fn option_help(name: &str) -> Result<String, String> {
    if matches!(name, "" | "all") {
        let line =
            |row: &OptionRow| format!("{:<24}: {} [{}]\n", row.name, row.meaning, row.word());
        return Ok(option_rows().map(line).collect());
    }
    let Some(row) = find_option(name) else {
        let row = find_program_option(name).ok_or_else(|| unknown(name))?;
        return Ok(lines([
            (row.name, Some(row.meaning.to_owned())),
            ("durio", Some(row.class.sentence())),
        ]));
    };
    let engines = (!row.engines.is_empty()).then(|| row.engines.join(", "));
    Ok(lines([
        (row.name, Some(row.meaning.to_owned())),
        ("alias", row.alias.map(str::to_owned)),
        ("type", Some(row.kind.words())),
        ("engines", engines),
        ("durio", Some(row.sentence())),
    ]))
}

/// The present entries in fio's layout, each after its key.
fn lines<const N: usize>(entries: [(&str, Option<String>); N]) -> String {
    let line = |(key, text): (&str, Option<String>)| Some(format!("{key:>20}: {}\n", text?));
    entries.into_iter().filter_map(line).collect()
}

impl ProgramClass {
    fn sentence(self) -> String {
        match self {
            Self::Section | Self::ReadOnly | Self::Printing(_) => "honoured".to_owned(),
            Self::Noted => "noted".to_owned(),
            Self::Refused(reason) => format!("refused: {reason}"),
        }
    }
}

impl OptionRow {
    fn word(&self) -> &'static str {
        match self.limit {
            Some(_) => "partly honoured",
            None => self.class.word(),
        }
    }

    fn sentence(&self) -> String {
        match self.limit {
            Some(limit) => format!("{}: {limit}", self.word()),
            None => self.class.sentence(),
        }
    }
}

impl Class {
    fn word(&self) -> &'static str {
        match self {
            Self::Honoured(_) => "honoured",
            Self::Noted { .. } => "noted",
            Self::Refused { .. } => "refused",
        }
    }

    fn sentence(&self) -> String {
        let (unless, refines, reason) = match *self {
            Self::Honoured(_) => return self.word().to_owned(),
            Self::Noted { unless, reason } => (unless, None, reason),
            Self::Refused { unless, refines, reason } => (unless, refines, reason),
        };
        let with = refines.map(|other| format!(" with {other}")).unwrap_or_default();
        let except = match unless {
            [] => String::new(),
            unless => format!(", except {}", unless.join(", ")),
        };
        format!("{}{with}{except}: {reason}", self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_file::program;

    const HEAD: &str = "# fio's options in durio\n\n\
        Written from the table of options in `crates/measure/fio/src/job_file/options`; \
        `DURIO_TEST_REWRITE=1 cargo test -p durio-fio --lib` rewrites it. \
        `durio fio --cmdhelp=NAME` prints one row.\n\n\
        - *honoured*: the job does it; a test checks each of them.\n\
        - *partly honoured*: the same, except for some values or combinations, which are refused by \
        name and line.\n\
        - *noted*: the option is ignored with a note, because it does not change the measurement.\n\
        - *refused*: it changes the measured work, and durio has no counterpart; the values after \
        *except* change nothing and are accepted.\n\n\
        fio (3.33 to 3.42) does not have a name that is not listed here.\n";

    fn code(words: impl IntoIterator<Item = &'static str>) -> String {
        words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    }

    fn table(head: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
        let rule = "---|".repeat(head.matches('|').count() - 1);
        let rows = rows.map(|row| format!("| {} |\n", row.join(" | ")));
        format!("\n{head}\n|{rule}\n{}", rows.collect::<String>())
    }

    fn job_options(word: &str, of_engines: bool) -> impl Iterator<Item = &'static OptionRow> {
        let rows = option_rows().filter(move |row| row.word() == word);
        rows.filter(move |row| row.engines.is_empty() != of_engines)
    }

    fn document() -> String {
        let honoured = |word: &'static str| {
            option_rows().filter(move |row| row.word() == word).map(|row| {
                let mut cells = vec![code(row.names()), row.kind.words(), row.meaning.to_owned()];
                cells.extend(row.limit.map(str::to_owned));
                cells
            })
        };
        let unused = |word: &'static str, of_engines: bool| {
            job_options(word, of_engines).map(move |row| {
                let mut cells = vec![code(row.names()), row.meaning.to_owned()];
                cells.extend(of_engines.then(|| row.engines.join(", ")));
                cells.push(row.class.sentence());
                cells
            })
        };
        let program = program::ROWS.iter().map(|row| {
            vec![format!("`--{}`", row.name), row.meaning.to_owned(), row.class.sentence()]
        });
        let without = "| option | meaning in fio | durio |";
        let of_engines = "| option | meaning in fio | engines | durio |";
        [
            HEAD.to_owned(),
            "\n## Honoured\n".to_owned(),
            table("| option | value | meaning |", honoured("honoured")),
            "\n## Partly honoured\n".to_owned(),
            table("| option | value | meaning | but |", honoured("partly honoured")),
            "\n## Noted or refused\n".to_owned(),
            table(without, unused("noted", false).chain(unused("refused", false))),
            "\n## Of single engines, noted or refused\n".to_owned(),
            table(of_engines, unused("noted", true).chain(unused("refused", true))),
            "\n## Of fio's command line\n".to_owned(),
            table(without, program),
        ]
        .concat()
    }

    /// `DURIO_TEST_REWRITE=1` writes the document.
    #[test]
    fn the_document_of_options_is_that_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/fio-options.md");
        if std::env::var_os("DURIO_TEST_REWRITE").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let now = std::fs::read_to_string(path).unwrap_or_default();
        assert!(now == document(), "{path} is behind the code; DURIO_TEST_REWRITE=1 writes it");
    }

    #[test]
    fn help_names_the_option_or_says_which_one_may_be_meant() {
        let help = option_help("blocksize").unwrap();
        assert!(help.contains("bs: bytes of an access\n") && help.ends_with("durio: honoured\n"));
        let verify = "durio: refused, except 0: durio run does not check contents; remove it, or use \
                      durio prove to check what survives\n";
        assert!(option_help("verify").unwrap().ends_with(verify));
        let trim = "durio: refused, except 0: durio does not send trims; use fio for this job\n";
        assert!(option_help("trim_backlog").unwrap().ends_with(trim));
        assert!(option_help("").unwrap().lines().count() > 300);
        let unknown = option_help("iodepht").unwrap_err();
        assert_eq!(unknown, "fio has no option named \"iodepht\"; did you mean iodepth?");
    }
}
