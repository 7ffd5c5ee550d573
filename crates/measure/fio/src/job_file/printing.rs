//! What fio prints: where, in which formats, or only about itself.
//!
//! Collects [`PrintSettings`] from `--output`, `--output-format`, `--terse-version`, `--eta` and
//! the like; each value is read by its row of the table of options (the error is a sentence).

/// A form of fio's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputFormat {
    /// A line of fields between semicolons per row.
    Terse,
    /// One JSON document (`json`).
    Json,
    /// The document with the histograms.
    JsonPlus,
    /// The text for people.
    Normal,
}

/// What fio does instead of running jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `--version`: say which version it is.
    Version,
    /// `--parse-only`: say whether the jobs can be read.
    ParseOnly,
    /// `--cmdhelp=NAME`: say what an option means; "" or "all" for all of them.
    Option(String),
}

/// What to print and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintSettings {
    /// The file of `--output`; none prints to stdout.
    pub output: Option<String>,
    /// The formats, each once.
    pub formats: Vec<OutputFormat>,
    /// The version of the terse format, 2 to 5.
    pub terse_version: u8,
    /// Progress on a terminal; not with `--eta=never`.
    pub shows_progress: bool,
    /// The question asked instead of a run.
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
    pub fn is_for_people(&self) -> bool {
        self.formats.contains(&OutputFormat::Normal)
    }

    pub(super) fn print_to(&mut self, file: &str) -> Result<(), String> {
        self.output = Some(file.to_owned());
        Ok(())
    }

    // fio's list has commas between; json+ takes the place of json.
    pub(super) fn print_as(&mut self, list: &str) -> Result<(), String> {
        self.formats.clear();
        for word in list.split(',').map(str::trim) {
            self.add(match word {
                "minimal" | "terse" | "csv" => OutputFormat::Terse,
                "json" => OutputFormat::Json,
                "json+" => OutputFormat::JsonPlus,
                "normal" => OutputFormat::Normal,
                other => return Err(format!("{other:?} is none of: normal, terse, json, json+")),
            });
        }
        // json+ has all that json has.
        if self.formats.contains(&OutputFormat::JsonPlus) {
            self.formats.retain(|format| *format != OutputFormat::Json);
        }
        Ok(())
    }

    pub(super) fn print_terse_too(&mut self, _: &str) -> Result<(), String> {
        self.add(OutputFormat::Terse);
        Ok(())
    }

    pub(super) fn ask(&mut self, question: Question) -> Result<(), String> {
        self.question = Some(question);
        Ok(())
    }

    fn add(&mut self, format: OutputFormat) {
        if !self.formats.contains(&format) {
            self.formats.push(format);
        }
    }

    pub(super) fn print_terse_as(&mut self, text: &str) -> Result<(), String> {
        let version = text.trim().parse().ok().filter(|version| (2..=5).contains(version));
        self.terse_version = version.ok_or_else(|| format!("{text:?} is none of: 2, 3, 4, 5"))?;
        Ok(())
    }

    pub(super) fn show_progress(&mut self, text: &str) -> Result<(), String> {
        self.shows_progress = match text {
            "always" | "auto" => true,
            "never" => false,
            other => return Err(format!("{other:?} is none of: always, auto, never")),
        };
        Ok(())
    }
}
