//! fio's command line: `--name=a --rw=read file.fio`.
//!
//! Makes the same [`JobFile`] as from a file, with each word's position in place of the line. Names
//! may be abbreviated as long as they fit one option only (getopt). Short options (fio has a few)
//! are not read.

use super::grammar::append_job_file;
use super::options::names_that_begin_with;
use super::program::{ProgramClass, ProgramOption, TakesWord, find_program_option};
use super::{
    HostParameters, JobFile, JobSection, JobSetting, LINE_BYTES_MAX, OptionKind, Question, Remark,
    SECTIONS_MAX, SETTINGS_MAX, SourcePosition, find_option, known_option,
};
use crate::FioError;

/// Reads the words of a fio command line, and the job files that it names.
///
/// Options before the first `--name` change the defaults; job files are read after all options,
/// each beginning with fresh defaults except the first, and each after the first waiting for all
/// jobs before it. Variables are not replaced, as a shell has done that; in job files they are.
///
/// # Errors
/// The first word that fio would reject or that makes fio do something else than run jobs, a job
/// file that cannot be read, or no job at all.
pub fn parse_command_line(
    words: &[String],
    host: &mut HostParameters<'_>,
) -> Result<JobFile, FioError> {
    let mut reader = CommandLineReader::default();
    reader.words(words)?;
    let CommandLineReader { mut file, job_files, sections, .. } = reader;
    for (number, (name, at)) in (0..).zip(&job_files) {
        let source = (host.read)(name, None)
            .map_err(|why| FioError::job_file(at, format!("cannot read {name:?}: {why}")))?;
        append_job_file(&mut file, &source, number, host)?;
    }
    // fio keeps the defaults whatever sections are asked for.
    if !sections.is_empty() {
        let wanted = |section: &JobSection| section.is_global || sections.contains(&section.name);
        file.sections.retain(wanted);
    }
    let needs_jobs = matches!(file.printing.question, None | Some(Question::ParseOnly));
    if file.sections.iter().all(|section| section.is_global) && needs_jobs {
        let what = "no job: give --name=NAME and its options, or a job file";
        return Err(FioError::job_file(&SourcePosition::Word(1), what));
    }
    Ok(file)
}

#[derive(Default)]
struct CommandLineReader {
    file: JobFile,
    job_files: Vec<(String, SourcePosition)>,
    sections: Vec<String>,
    settings: usize,
}

impl CommandLineReader {
    fn words(&mut self, words: &[String]) -> Result<(), FioError> {
        let mut rest = (1..).map(SourcePosition::Word).zip(words.iter().map(String::as_str));
        let mut are_options_over = false;
        while let Some((at, word)) = rest.next() {
            if word.len() >= LINE_BYTES_MAX {
                let what = format!("the word is longer than {LINE_BYTES_MAX} bytes");
                return Err(FioError::job_file(&at, what));
            }
            if word == "--" {
                are_options_over = true;
            } else if are_options_over || word == "-" || !word.starts_with('-') {
                // Wherever it stands, as getopt sorts words; a bare dash is stdin.
                self.job_files.push((word.to_owned(), at));
            } else {
                self.option(word, &at, &mut || rest.next().map(|(_, word)| word))?;
            }
        }
        Ok(())
    }

    fn option<'w>(
        &mut self,
        word: &'w str,
        at: &SourcePosition,
        next: &mut dyn FnMut() -> Option<&'w str>,
    ) -> Result<(), FioError> {
        let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
        let (name, value) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        };
        let name = completed(name, at)?;
        // Both are a job's: fio's own long options have neither.
        if let Some(option) = find_program_option(name).filter(|_| find_option(name).is_none()) {
            // getopt looks for an optional value within the word alone.
            let value = if option.takes == TakesWord::Value { value.or_else(next) } else { value };
            return self.program_option(option, value, at);
        }
        let row = known_option(name, at)?;
        let is_flag = matches!(row.kind, OptionKind::Flag);
        let value = if is_flag { value } else { value.or_else(next) };
        if !is_flag && value.is_none_or(str::is_empty) {
            return Err(FioError::job_file(at, format!("{name} needs a value: --{name}=VALUE")));
        }
        self.setting(row.name, value, at)
    }

    fn program_option(
        &mut self,
        option: &ProgramOption,
        value: Option<&str>,
        at: &SourcePosition,
    ) -> Result<(), FioError> {
        let name = option.name;
        let error = |what: String| Err(FioError::job_file(at, what));
        match (option.class, value) {
            (ProgramClass::Refused(reason), _) => error(format!("--{name}: {reason}")),
            (_, None) if option.takes == TakesWord::Value => {
                error(format!("--{name} needs a value"))
            }
            (ProgramClass::Section, Some("global")) => {
                error("--section expects a job, not global".to_owned())
            }
            (ProgramClass::Section, value) => {
                self.sections.extend(value.map(str::to_owned));
                Ok(())
            }
            (ProgramClass::ReadOnly, _) => {
                self.file.read_only = Some(at.clone());
                Ok(())
            }
            (ProgramClass::Printing(effect), value) => {
                let taken = effect(&mut self.file.printing, value.unwrap_or_default());
                taken.or_else(|what| error(format!("--{name}: {what}")))
            }
            (ProgramClass::Noted, value) => {
                let value = value.map(str::to_owned);
                let note = Remark::new(at, name, "it changes only what fio prints");
                self.file.notes.push(Remark { value, is_ignored: true, ..note });
                Ok(())
            }
        }
    }

    fn setting(
        &mut self,
        name: &'static str,
        value: Option<&str>,
        at: &SourcePosition,
    ) -> Result<(), FioError> {
        self.settings += 1;
        let sections = self.file.sections.len();
        if self.settings > SETTINGS_MAX || sections >= SECTIONS_MAX {
            return Err(FioError::job_file(at, "the command line has too many options"));
        }
        if name == "name" || sections == 0 {
            // An option before any --name changes the defaults.
            let section = if name == "name" { value.unwrap_or_default() } else { "global" };
            self.file.sections.push(JobSection::begun(section, 0, at));
        }
        if let (Some(section), true) = (self.file.sections.last_mut(), name != "name") {
            let value = value.map(str::to_owned);
            section.settings.push(JobSetting { name, value, at: at.clone() });
        }
        Ok(())
    }
}

/// The whole name of an option that is cut short, as getopt completes it.
fn completed<'w>(name: &'w str, at: &SourcePosition) -> Result<&'w str, FioError> {
    if find_option(name).is_some() || find_program_option(name).is_some() {
        return Ok(name);
    }
    match names_that_begin_with(name).as_slice() {
        [one] => Ok(one),
        // No option begins like this; the later look-up suggests a name.
        [] => Ok(name),
        several => {
            let what = format!("{name:?} may be one of: {}", several.join(", "));
            Err(FioError::job_file(at, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job_file::{JobSource, MachineValues, OutputFormat, PrintSettings};

    fn parse(line: &str) -> Result<JobFile, String> {
        let mut read = |name: &str, _: Option<&str>| match name {
            "one.fio" => {
                Ok(JobSource { name: name.into(), text: "[global]\nbs=8k\n[x]\n[y]".into() })
            }
            "two.fio" => Ok(JobSource { name: name.into(), text: "[z]\nrw=read".into() }),
            _ => Err("no such file".to_owned()),
        };
        let machine = MachineValues { page_bytes: 4096, memory_mib: 1000, cpus: 8 };
        let mut host = HostParameters { read: &mut read, environment: &|_| None, machine };
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse_command_line(&words, &mut host).map_err(|error| error.to_string())
    }

    fn shape(file: &JobFile) -> Vec<String> {
        let settings = |section: &JobSection| -> String {
            section
                .settings
                .iter()
                .map(|setting| format!(" {}={:?}", setting.name, setting.value))
                .collect()
        };
        let kind = |section: &JobSection| if section.is_global { "global " } else { "" };
        let sections = file.sections.iter();
        sections
            .map(|section| {
                format!(
                    "{}{}#{}:{}",
                    kind(section),
                    section.name,
                    section.file_number,
                    settings(section)
                )
            })
            .collect()
    }

    #[test]
    fn name_begins_a_job_and_what_stands_before_it_changes_the_defaults() {
        let file =
            parse("--direct=1 --name=a --rw read --time_based --name=global --bs=4k --name b");
        let expected = [
            "global global#0: direct=Some(\"1\")",
            "a#0: rw=Some(\"read\") time_based=None",
            "global global#0: bs=Some(\"4k\")",
            "b#0:",
        ];
        assert_eq!(shape(&file.unwrap()), expected);
    }

    #[test]
    fn the_place_is_the_position_of_the_word() {
        let file = parse("--name=a -bs 4k -iodepth=3").unwrap();
        let places: Vec<_> =
            file.sections[0].settings.iter().map(|setting| setting.at.clone()).collect();
        assert_eq!(places, [SourcePosition::Word(2), SourcePosition::Word(4)]);
    }

    #[test]
    fn a_name_is_completed_if_one_option_begins_so() {
        let file = parse("--name=a --loop=3 -norandomm --section=a").unwrap();
        assert_eq!(shape(&file), ["a#0: loops=Some(\"3\") norandommap=None"]);
        let error = parse("--name=a --buffer=1").unwrap_err();
        assert!(error.contains("may be one of: buffer") && error.contains("buffered"), "{error}");
    }

    #[test]
    fn job_files_are_read_after_all_options_and_sections_choose_among_their_jobs() {
        let file = parse("one.fio --bs=4k two.fio --section=x --section z").unwrap();
        let expected = [
            "global global#0: bs=Some(\"4k\")",
            "global global#0: bs=Some(\"8k\")",
            "x#0:",
            "z#1: rw=Some(\"read\")",
        ];
        assert_eq!(shape(&file), expected);
    }

    #[test]
    fn options_of_output_are_taken_or_noted_and_others_are_errors() {
        let line = "--status-interval 1 --eta-interval 2 --output-format=json,normal --eta never \
                    --name=a";
        let file = parse(line).unwrap();
        let noted: Vec<_> = file.notes.iter().map(|note| note.option.as_str()).collect();
        assert_eq!(noted, ["eta-interval"]);
        let PrintSettings { formats, shows_progress, status_interval, .. } = file.printing;
        assert_eq!(status_interval, Some(Duration::from_secs(1)));
        let shortest = parse("--status-interval=1ms --name=a").unwrap().printing.status_interval;
        assert_eq!(shortest, Some(Duration::from_millis(1)));
        assert_eq!(parse("--name=a").unwrap().printing.status_interval, None);
        assert_eq!(
            (formats, shows_progress),
            (vec![OutputFormat::Json, OutputFormat::Normal], false)
        );
        let file =
            parse("--output=f --output-format=json,json+ --terse-version 5 --name=a").unwrap();
        let printing = file.printing;
        assert_eq!(printing.formats, [OutputFormat::JsonPlus]);
        assert_eq!((printing.output.as_deref(), printing.terse_version), (Some("f"), 5));
        assert_eq!(parse("--minimal --name=a").unwrap().printing.formats, [OutputFormat::Terse]);
        let both = [OutputFormat::Normal, OutputFormat::Terse];
        assert_eq!(parse("--append-terse --name=a").unwrap().printing.formats, both);
        assert_eq!(parse("--version").unwrap().printing.question, Some(Question::Version));
        for (line, expected) in [
            ("--client=h --name=a", "word 1 of the fio command line: --client: durio does not"),
            ("--name=a --bs", "word 2 of the fio command line: bs needs a value"),
            ("--name=a --iodept=4", "word 2 of the fio command line: \"iodept\" may be one of"),
            ("--name=a --iodetph=4", "word 2 of the fio command line: fio has no option named"),
            ("--bs=4k", "word 1 of the fio command line: no job"),
            ("--name=a --section=b", "word 1 of the fio command line: no job"),
            ("gone.fio", "word 1 of the fio command line: cannot read \"gone.fio\""),
            (
                "--output-format=xml --name=a",
                "word 1 of the fio command line: --output-format: \"xml\"",
            ),
            (
                "--terse-version=1 --name=a",
                "word 1 of the fio command line: --terse-version: \"1\"",
            ),
            (
                "--status-interval=999us --name=a",
                "word 1 of the fio command line: --status-interval: \"999us\": expected 1 ms",
            ),
            ("--name=a --output", "word 2 of the fio command line: --output needs a value"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
