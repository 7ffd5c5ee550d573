//! What fio's program is told to print: where, in which formats, or only about itself.
//!
//! In: the values of `--output`, `--output-format`, `--terse-version`, `--eta` and their like. Out:
//! [`PrintSettings`]. Not here: printing, and options of jobs.

use super::options::Printing;

/// A form of fio's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputFormat {
    /// A line of fields between semicolons per row.
    Terse,
    /// A document.
    Json,
    /// The document with the histograms.
    JsonPlus,
    /// For people.
    Normal,
}

/// What fio does instead of running jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// `--version`: say which version it is.
    Version,
    /// `--parse-only`: say whether the jobs can be read.
    ParseOnly,
}

/// What is printed and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintSettings {
    /// The file of `--output`; none prints to stdout.
    pub output: Option<String>,
    /// The formats, each once.
    pub formats: Vec<OutputFormat>,
    /// The version of the terse format, 2 to 5.
    pub terse_version: u8,
    /// False with `--eta=never`.
    pub shows_progress: bool,
    /// What is asked instead of a run.
    pub question: Option<Question>,
}

impl Default for PrintSettings {
    fn default() -> Self {
        Self {
            output: None,
            formats: vec![OutputFormat::Normal],
            terse_version: 3,
            shows_progress: true,
            question: None,
        }
    }
}

impl PrintSettings {
    /// True if a format is for people, so that lines about the start belong before it.
    #[must_use]
    pub fn is_for_people(&self) -> bool {
        self.formats.contains(&OutputFormat::Normal)
    }

    /// Takes an option; the error is a sentence.
    pub(super) fn take(&mut self, option: Printing, value: Option<&str>) -> Result<(), String> {
        let value = value.unwrap_or_default();
        match option {
            Printing::Output => self.output = Some(value.to_owned()),
            Printing::Formats => self.formats = formats(value)?,
            Printing::Minimal => self.formats = vec![OutputFormat::Terse],
            Printing::AppendTerse => add(&mut self.formats, OutputFormat::Terse),
            Printing::TerseVersion => self.terse_version = terse_version(value)?,
            Printing::Eta => self.shows_progress = shows_progress(value)?,
            Printing::Version => self.question = Some(Question::Version),
            Printing::ParseOnly => self.question = Some(Question::ParseOnly),
        }
        Ok(())
    }
}

fn add(formats: &mut Vec<OutputFormat>, format: OutputFormat) {
    if !formats.contains(&format) {
        formats.push(format);
    }
}

/// fio's list has commas between; json+ takes the place of json.
fn formats(list: &str) -> Result<Vec<OutputFormat>, String> {
    let mut found = Vec::new();
    for word in list.split(',').map(str::trim) {
        let format = match word {
            "minimal" | "terse" | "csv" => OutputFormat::Terse,
            "json" => OutputFormat::Json,
            "json+" => OutputFormat::JsonPlus,
            "normal" => OutputFormat::Normal,
            other => return Err(format!("{other:?} is none of: normal, terse, json, json+")),
        };
        add(&mut found, format);
    }
    if found.contains(&OutputFormat::JsonPlus) {
        found.retain(|format| *format != OutputFormat::Json);
    }
    Ok(found)
}

fn terse_version(text: &str) -> Result<u8, String> {
    let version = text.trim().parse().ok().filter(|version| (2..=5).contains(version));
    version.ok_or_else(|| format!("{text:?} is none of: 2, 3, 4, 5"))
}

fn shows_progress(text: &str) -> Result<bool, String> {
    match text {
        "always" | "auto" => Ok(true),
        "never" => Ok(false),
        other => Err(format!("{other:?} is none of: always, auto, never")),
    }
}
