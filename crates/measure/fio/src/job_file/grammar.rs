//! The grammar of job files: sections, settings, comments, includes.
//!
//! Parses a [`JobSource`] into a [`JobFile`] without interpreting the settings.
//!
//! Before a line is split, `${NAME}` and fio's keywords in it become values; a keyword next to an
//! operator is computed (fio asks `bc` for that). Arithmetic in parentheses is left to `arithmetic`.

use std::sync::Arc;

use super::{
    FILE_BYTES_MAX, HostParameters, INCLUDE_DEPTH_MAX, JobFile, JobSection, JobSetting, JobSource,
    LINE_BYTES_MAX, MachineValues, SECTIONS_MAX, SETTINGS_MAX, SourcePosition, known_option,
};
use crate::FioError;

// The longest section name, in bytes; fio cuts longer ones.
const SECTION_NAME_BYTES_MAX: usize = 254;

/// Reads a job file into its sections.
///
/// # Errors
/// The first line that fio would reject, or would read as something else than it says: an option
/// before any section, an unknown option, a section without its bracket, a missing or too deeply
/// nested include, a text beyond the limits of this module.
pub fn parse_job_file(
    source: &JobSource,
    host: &mut HostParameters<'_>,
) -> Result<JobFile, FioError> {
    let mut file = JobFile::default();
    append_job_file(&mut file, source, 0, host)?;
    Ok(file)
}

/// Appends the sections of a job file, as the `file_number`th.
pub(super) fn append_job_file(
    file: &mut JobFile,
    source: &JobSource,
    file_number: u32,
    host: &mut HostParameters<'_>,
) -> Result<(), FioError> {
    let first = file.sections.len();
    // Over all files of a command line: each could be as long as the limit.
    let settings = file.sections.iter().map(|section| section.settings.len()).sum();
    let mut reader = JobFileReader { file, first, file_number, settings, host };
    reader.read(source, 0)
}

struct JobFileReader<'r, 's> {
    file: &'r mut JobFile,
    /// Where the sections of this file begin.
    first: usize,
    file_number: u32,
    settings: usize,
    host: &'r mut HostParameters<'s>,
}

impl JobFileReader<'_, '_> {
    fn read(&mut self, source: &JobSource, depth: u32) -> Result<(), FioError> {
        let name: Arc<str> = Arc::from(source.name.as_str());
        let place = |line| SourcePosition::Line { file: Arc::clone(&name), line };
        if source.text.len() > FILE_BYTES_MAX {
            let what = format!("the file is longer than {FILE_BYTES_MAX} bytes; is it a job file?");
            return fail(&place(1), what);
        }
        // Not `lines`: a \r is a blank that fio cuts wherever it stands.
        for (raw, number) in source.text.split('\n').zip(1..) {
            self.line(raw, &place(number), source, depth)?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        raw: &str,
        at: &SourcePosition,
        source: &JobSource,
        depth: u32,
    ) -> Result<(), FioError> {
        check_raw(raw, at)?;
        let Some(line) = without_comment(raw) else { return Ok(()) };
        if let Some(rest) = line.strip_prefix('[') {
            return self.section(rest, at, depth);
        }
        if let Some(name) = included_name(line) {
            return self.include(name, at, source, depth);
        }
        self.setting(line, at)
    }

    fn section(&mut self, rest: &str, at: &SourcePosition, depth: u32) -> Result<(), FioError> {
        if depth > 0 {
            return fail(at, "an included file cannot have sections");
        }
        let Some(name) = rest.strip_suffix(']') else {
            return fail(at, format!("the section [{rest} has no closing bracket at its end"));
        };
        if name.is_empty() || name.len() > SECTION_NAME_BYTES_MAX {
            return fail(
                at,
                format!("the name of a section has 1 to {SECTION_NAME_BYTES_MAX} bytes"),
            );
        }
        if self.file.sections.len() >= SECTIONS_MAX {
            return fail(at, format!("more than {SECTIONS_MAX} sections"));
        }
        self.file.sections.push(JobSection::begun(name, self.file_number, at));
        Ok(())
    }

    fn include(
        &mut self,
        name: &str,
        at: &SourcePosition,
        source: &JobSource,
        depth: u32,
    ) -> Result<(), FioError> {
        if self.file.sections.len() == self.first {
            return outside_of_sections(name, at);
        }
        if depth >= INCLUDE_DEPTH_MAX {
            let most = INCLUDE_DEPTH_MAX;
            return fail(at, format!("includes nest deeper than {most}; does one include itself?"));
        }
        // Counted as a setting: a file that includes another twice doubles the work with each level.
        self.count(at)?;
        let included = (self.host.read)(name, Some(&source.name))
            .map_err(|why| FioError::job_file(at, format!("cannot include {name:?}: {why}")))?;
        self.read(&included, depth + 1)
    }

    fn setting(&mut self, line: &str, at: &SourcePosition) -> Result<(), FioError> {
        if self.file.sections.len() == self.first {
            return outside_of_sections(line, at);
        }
        self.count(at)?;
        let line = replaced(line, self.host).map_err(|what| FioError::job_file(at, what))?;
        // fio cuts blanks before = and keeps those after it, which values then refuse.
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(value.to_owned())),
            None => (line.as_str(), None),
        };
        let row = known_option(name, at)?;
        let setting = JobSetting { name: row.name, value, at: at.clone() };
        if let Some(section) = self.file.sections.last_mut() {
            section.settings.push(setting);
        }
        Ok(())
    }

    fn count(&mut self, at: &SourcePosition) -> Result<(), FioError> {
        self.settings += 1;
        if self.settings > SETTINGS_MAX {
            return fail(at, format!("more than {SETTINGS_MAX} settings"));
        }
        Ok(())
    }
}

fn fail<T>(at: &SourcePosition, what: impl Into<String>) -> Result<T, FioError> {
    Err(FioError::job_file(at, what))
}

fn outside_of_sections(line: &str, at: &SourcePosition) -> Result<(), FioError> {
    fail(at, format!("{line:?} precedes all sections; start with [global] or [a name]"))
}

fn check_raw(raw: &str, at: &SourcePosition) -> Result<(), FioError> {
    if raw.len() >= LINE_BYTES_MAX {
        return fail(
            at,
            format!("the line is longer than {LINE_BYTES_MAX} bytes, where fio truncates it"),
        );
    }
    if raw.contains('\0') {
        return fail(at, "the line contains a NUL byte; is it a job file?");
    }
    Ok(())
}

/// The line without its comment and surrounding blanks; `None` if nothing is left.
///
/// `;` and `#` begin a comment anywhere, also within a value.
fn without_comment(raw: &str) -> Option<&str> {
    let front = raw.trim_start_matches(is_blank);
    let end = front.find([';', '#']).unwrap_or(front.len());
    let line = front.get(..end)?.trim_end_matches(|c: char| is_blank(c) || c.is_ascii_control());
    let is_something = line.contains(|c: char| !c.is_ascii_control());
    is_something.then_some(line)
}

/// A blank as `isspace` of C has it.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// The file that an `include` line names: the text after the word and one character.
fn included_name(line: &str) -> Option<&str> {
    line.strip_prefix("include")?.strip_prefix([' ', '\t', '='])
}

// The longest line that fio computes, and the longest value in it.
const COMPUTED_LINE_BYTES_MAX: usize = 127;
const COMPUTED_VALUE_BYTES_MAX: usize = 100;

/// The line with variables and keywords replaced.
///
/// # Errors
/// A sentence: the line grows too long, or cannot be computed.
pub(super) fn replaced(line: &str, host: &HostParameters<'_>) -> Result<String, String> {
    let line = with_variables(line, host.environment);
    if line.len() >= LINE_BYTES_MAX {
        return Err(format!(
            "with its variables replaced, the line exceeds {LINE_BYTES_MAX} bytes"
        ));
    }
    with_keywords(line, host.machine)
}

/// Replaces each `${NAME}` by the variable's value, or by nothing if it is unset.
fn with_variables(line: &str, environment: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        out.push_str(before);
        // A variable's text is not replaced again.
        out.push_str(&environment(name).unwrap_or_default());
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn with_keywords(line: String, machine: MachineValues) -> Result<String, String> {
    let keywords = [
        ("$pagesize", machine.page_bytes),
        ("$mb_memory", machine.memory_mib),
        ("$ncpus", u64::from(machine.cpus)),
    ];
    let mut replaced = line.clone();
    for (word, value) in keywords {
        replaced = replaced.replace(word, &value.to_string());
    }
    // fio computes no line in which it replaced no keyword.
    if replaced == line { Ok(line) } else { computed(replaced) }
}

/// Computes the value if there is an operator in the line, as `bc` would: with whole numbers.
fn computed(line: String) -> Result<String, String> {
    let Some((name, value)) = line.split_once('=') else { return Ok(line) };
    let is_math = line.contains(['+', '-', '*', '/']) && !line.contains('\'');
    if !is_math {
        return Ok(line);
    }
    if line.len() > COMPUTED_LINE_BYTES_MAX || value.len() > COMPUTED_VALUE_BYTES_MAX {
        return Err(format!("{value:?} is too long for fio to compute; write its value"));
    }
    let result = Calculator { rest: value }.whole().ok_or_else(|| {
        format!("{value:?} is not arithmetic with whole numbers (+ - * / % ^ and parentheses); write its value")
    })?;
    Ok(format!("{name}={result}"))
}

/// Whole numbers with the usual operators, by precedence; `None` is any error.
struct Calculator<'t> {
    rest: &'t str,
}

// Expressions have at most 100 bytes (checked above), which bounds the recursion too.
impl Calculator<'_> {
    fn whole(mut self) -> Option<i64> {
        let value = self.expression(0)?;
        self.rest.trim().is_empty().then_some(value)
    }

    fn take(&mut self, operators: &[char]) -> Option<char> {
        let rest = self.rest.trim_start();
        let next = rest.chars().next().filter(|operator| operators.contains(operator))?;
        self.rest = rest.get(next.len_utf8()..)?;
        Some(next)
    }

    /// What binds at least as strongly as `least`: 0 a sum, 1 a product, 2 a power.
    fn expression(&mut self, least: usize) -> Option<i64> {
        const OPERATORS: [&[char]; 3] = [&['+', '-'], &['*', '/', '%'], &['^']];
        let Some(operators) = OPERATORS.get(least) else { return self.operand() };
        let mut value = self.expression(least + 1)?;
        while let Some(operator) = self.take(operators) {
            // bc takes powers from the right: 2^3^2 is 2^9.
            let right = if operator == '^' { least } else { least + 1 };
            let other = self.expression(right)?;
            value = match operator {
                '+' => value.checked_add(other),
                '-' => value.checked_sub(other),
                '*' => value.checked_mul(other),
                '/' => value.checked_div(other),
                '%' => value.checked_rem(other),
                _ => value.checked_pow(u32::try_from(other).ok()?),
            }?;
        }
        Some(value)
    }

    fn operand(&mut self) -> Option<i64> {
        match self.take(&['(', '-']) {
            Some('(') => {
                let inner = self.expression(0)?;
                self.take(&[')']).map(|_| inner)
            }
            // A sign binds more strongly than a power, as in bc: -2^2 is 4.
            Some(_) => self.operand()?.checked_neg(),
            None => {
                let rest = self.rest.trim_start();
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let (digits, behind) = rest.split_at_checked(end)?;
                self.rest = behind;
                digits.parse().ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: MachineValues = MachineValues { page_bytes: 4096, memory_mib: 1000, cpus: 8 };

    fn parse(text: &str) -> Result<JobFile, String> {
        let mut read = |name: &str, _: Option<&str>| match name {
            "inner" => Ok(JobSource { name: name.into(), text: "bs=8k\ninclude deeper".into() }),
            "deeper" => Ok(JobSource { name: name.into(), text: "# none\nrw=read\n".into() }),
            "itself" => Ok(JobSource { name: name.into(), text: "include itself".into() }),
            "twice" => Ok(JobSource { name: name.into(), text: "include twice\n".repeat(1000) }),
            "sections" => Ok(JobSource { name: name.into(), text: "\n[x]".into() }),
            _ => Err("no such file".to_owned()),
        };
        let environment = |name: &str| (name == "BS").then(|| "16k".to_owned());
        let mut host =
            HostParameters { read: &mut read, environment: &environment, machine: MACHINE };
        let source = JobSource { name: "j.fio".into(), text: text.into() };
        parse_job_file(&source, &mut host).map_err(|error| error.to_string())
    }

    fn settings(text: &str) -> Vec<(&'static str, Option<String>, String)> {
        let file = parse(text).unwrap();
        let all = file.sections.into_iter().flat_map(|section| section.settings);
        all.map(|setting| (setting.name, setting.value, setting.at.to_string())).collect()
    }

    #[test]
    fn sections_are_read_in_order_and_any_name_that_begins_with_global_is_global() {
        let file = parse("[global]\n[a b]\n[globalism]\n[last]").unwrap();
        let names: Vec<_> = file
            .sections
            .iter()
            .map(|section| (section.name.as_str(), section.is_global))
            .collect();
        assert_eq!(names, [("global", true), ("a b", false), ("globalism", true), ("last", false)]);
    }

    #[test]
    fn comments_and_blanks_are_cut_anywhere_in_a_line() {
        let text = "; first\n  # second\n\n[a] ; a job\n\t bs=4k ; four\r\n size=1m#x\nrw=read  ";
        let values: Vec<_> = settings(text).into_iter().map(|setting| setting.1.unwrap()).collect();
        assert_eq!(values, ["4k", "1m", "read"]);
    }

    #[test]
    fn aliases_are_resolved_and_bare_words_have_no_value() {
        let found = settings("[a]\nreadwrite=read\ntime_based\nblocksize =4k");
        assert_eq!(found[0], ("rw", Some("read".into()), "j.fio:2".into()));
        assert_eq!(found[1], ("time_based", None, "j.fio:3".into()));
        assert_eq!(found[2], ("bs", Some("4k".into()), "j.fio:4".into()));
    }

    #[test]
    fn included_settings_stand_where_the_include_stands_and_keep_their_file() {
        let found = settings("[a]\nsize=1m\ninclude inner\nnumjobs=2");
        let places: Vec<_> = found.iter().map(|setting| (setting.0, setting.2.as_str())).collect();
        let expected =
            [("size", "j.fio:2"), ("bs", "inner:1"), ("rw", "deeper:2"), ("numjobs", "j.fio:4")];
        assert_eq!(places, expected);
    }

    #[test]
    fn variables_and_keywords_are_replaced() {
        let found = settings("[a]\nbs=${BS}\nsize=8*$mb_memory\nnumjobs=$ncpus");
        let values: Vec<_> = found.into_iter().map(|setting| setting.1.unwrap()).collect();
        assert_eq!(values, ["16k", "8000", "8"]);
    }

    #[test]
    fn errors_name_their_line() {
        let cases = [
            ("\nbs=4k\n[a]", "j.fio:2: \"bs=4k\" precedes all sections"),
            ("[a]\nbs=4k\n[b", "j.fio:3: the section [b has no closing bracket"),
            (
                "[a]\n\nblocksiez=4k",
                "j.fio:3: fio has no option named \"blocksiez\"; did you mean blocksize?",
            ),
            ("[a]\ninclude sections", "sections:2: an included file cannot have sections"),
            ("[a]\ninclude gone", "j.fio:2: cannot include \"gone\": no such file"),
            ("[a]\ninclude itself", "itself:1: includes nest deeper than 8"),
            ("[a]\n[]", "j.fio:2: the name of a section has 1 to 254 bytes"),
            ("[a]\nbs=\0", "j.fio:2: the line contains a NUL byte"),
            ("include inner", "j.fio:1: \"inner\" precedes all sections"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
    }

    #[test]
    fn texts_beyond_the_limits_are_errors() {
        assert!(parse(&"[a]\n".repeat(8193)).unwrap_err().contains("more than 8192 sections"));
        let many = format!("[a]\n{}", "bs=4k\n".repeat(SETTINGS_MAX + 1));
        assert!(parse(&many).unwrap_err().contains("more than 131072 settings"));
        assert!(parse("[a]\ninclude twice").unwrap_err().contains("includes nest deeper than 8"));
        let long = format!("[a]\ndescription={}", "x".repeat(9000));
        assert!(parse(&long).unwrap_err().contains("where fio truncates it"));
        assert!(parse(&"#\n".repeat((2 << 20) + 1)).unwrap_err().contains("is it a job file?"));
    }

    const TWO_CPUS: MachineValues = MachineValues { page_bytes: 4096, memory_mib: 7940, cpus: 2 };

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(with_keywords(line.to_owned(), TWO_CPUS).as_deref(), Ok(expected));
    }

    #[test]
    fn keywords_are_computed_where_an_operator_stands() {
        check("size=$mb_memory", "size=7940");
        check("size=$mb_memorym", "size=7940m");
        check("size=8*$mb_memory", "size=63520");
        check("bs=$pagesize*(2+2)-1", "bs=16383");
        check("numjobs=$ncpus*3/4", "numjobs=1");
        check("numjobs=-2^2+ 10 % 4+$ncpus", "numjobs=8");
        check("description=$nothing+1", "description=$nothing+1");
    }

    #[test]
    fn what_bc_could_not_compute_is_an_error() {
        for line in ["size=4k*$ncpus", "filename=/dev/sd$ncpus", "bs=$pagesize/0", "bs=$pagesize+"]
        {
            assert!(with_keywords(line.to_owned(), TWO_CPUS).is_err(), "{line}");
        }
        let deep = format!("bs=$ncpus+{}1", "(".repeat(90));
        assert!(with_keywords(deep, TWO_CPUS).is_err());
    }

    #[test]
    fn fio_computes_lines_of_127_bytes_and_values_of_100() {
        let of = |name: usize, value: usize| {
            let value = format!("{}2+2", "0".repeat(value - 3));
            computed(format!("{}={value}", "n".repeat(name)))
        };
        assert!(of(26, 100).is_ok(), "127 bytes with the sign: {:?}", of(26, 100));
        assert!(of(27, 100).unwrap_err().contains("too long for fio to compute"));
        assert!(of(1, 100).is_ok());
        assert!(of(1, 101).unwrap_err().contains("too long for fio to compute"));
    }

    #[test]
    fn a_variable_that_is_not_set_is_nothing() {
        let environment = |name: &str| (name == "A").then(|| "x${B}".to_owned());
        assert_eq!(with_variables("a=${A}${B}c${", &environment), "a=x${B}c${");
        assert_eq!(with_variables("a=${A", &environment), "a=${A");
        assert_eq!(with_variables("a=${}b", &environment), "a=b");
    }
}
