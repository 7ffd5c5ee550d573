//! Documents as bytes, the list of formats, and JSON, which needs no document.
//!
//! Writes a [`Document`] as text, HTML, Markdown, CSV or OpenMetrics. If a renderer must know a
//! kind of findings, the document lacks a block.

pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod openmetrics;
mod svg;
pub(crate) mod text;

use std::{fmt, io};

use durio_base::is_hidden;
use durio_judge::summary::{Summary, SummaryVerdict};
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

use crate::document::{Document, Tone};
use crate::{Options, Report};

/// The tone of a summary's first word.
const fn verdict_tone(verdict: SummaryVerdict) -> Tone {
    match verdict {
        SummaryVerdict::Good => Tone::Good,
        SummaryVerdict::Caution | SummaryVerdict::Unknown => Tone::Warning,
        SummaryVerdict::Bad => Tone::Bad,
    }
}

#[derive(Debug, Clone, Copy)]
enum Renderer {
    /// From a builder's document.
    Document(fn(&Document, &Options, &mut dyn io::Write) -> io::Result<()>),
    /// From the whole findings, with their schema.
    Findings,
    /// Judgements alone, as test cases.
    Cases,
    /// As fio has it, which knows runs alone.
    Fio,
}

/// The list of formats: a new one is a module and its lines in this file.
macro_rules! formats {
    ($($(#[$about:meta])* $format:ident $name:literal $renderer:expr;)*) => {
        /// How findings are written down.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[$about])* $format,)*
        }

        impl Format {
            /// Every format, in the order in which help texts list them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$format),*];

            /// The name that users write and read.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$format => $name,)*
                }
            }

            fn renderer(self) -> Renderer {
                match self {
                    $(Self::$format => $renderer,)*
                }
            }
        }
    };
}

formats! {
    /// For a terminal.
    Text "text" Renderer::Document(text::render);
    /// The findings, whole, as one document.
    Json "json" Renderer::Findings;
    /// One file for a browser, with charts.
    Html "html" Renderer::Document(html::render);
    /// What a terminal shows, for issues, wikis and pull requests.
    Markdown "markdown" Renderer::Document(markdown::render);
    /// One line per workload and operation.
    Csv "csv" Renderer::Document(csv::render);
    /// One figure per line with labels, for Prometheus.
    OpenMetrics "openmetrics" Renderer::Document(openmetrics::render);
    /// A test case for each limit and each result of a gate, for services that run tests.
    JUnit "junit" Renderer::Cases;
    /// As fio writes its results, for programs that read those.
    FioJson "fio-json" Renderer::Fio;
}

impl Format {
    /// True if it shows histograms, which the analyser keeps only on request.
    pub const fn shows_histograms(self) -> bool {
        matches!(self, Self::FioJson)
    }
}

/// Writes a report in `format`.
///
/// # Errors
/// What the writer says, such as a closed pipe or a full disk; and that fio's JSON is unsupported, for
/// findings that it has no place for.
pub fn write(
    format: Format,
    report: &impl Report,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    match (format.renderer(), report.summary()) {
        (Renderer::Document(render), summary) => {
            render(&Document { summary, ..report.document() }, options, out)
        }
        (Renderer::Findings, Some(answer)) if report.has_field_summary() => {
            write_document(&AnsweredFindings { answer, findings: report }, out)
        }
        (Renderer::Findings, Some(summary)) => {
            write_document(&SummarizedFindings { summary, findings: report }, out)
        }
        (Renderer::Findings, None) => write_document(report, out),
        (Renderer::Cases, summary) => {
            junit::write(&Document { summary, ..report.document() }, &report.test_cases(), out)
        }
        (Renderer::Fio, _) => report.write_fio_json(out),
    }
}

/// The JSON document of findings with their summary at its head.
#[derive(Serialize)]
struct SummarizedFindings<'f, R> {
    summary: Summary,
    #[serde(flatten)]
    findings: &'f R,
}

/// The same, where the findings have a field `summary`.
#[derive(Serialize)]
struct AnsweredFindings<'f, R> {
    answer: Summary,
    #[serde(flatten)]
    findings: &'f R,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A document in which every character that controls a terminal is an escape of JSON: a parser gets
/// the same text, and a reader in a terminal is not misled.
///
/// # Errors
/// If it cannot be written.
pub fn write_document(
    value: &(impl Serialize + ?Sized),
    out: &mut dyn io::Write,
) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Escaping::default()))?;
    out.write_all(b"\n")
}

/// Indented, as serde_json does it.
#[derive(Default)]
struct Escaping(PrettyFormatter<'static>);

/// Passes calls on to the indenting formatter.
macro_rules! hand_on {
    ($($name:ident($($value:ident: $of:ty)?);)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, out: &mut W $(, $value: $of)?) -> io::Result<()> {
            self.0.$name(out $(, $value)?)
        })*
    };
}

impl Formatter for Escaping {
    // All of them: methods not passed on fall back to the trait's defaults, which write no blanks.
    hand_on! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    // serde_json's fragments need no escape by the grammar of JSON.
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut rest = text;
        while let Some(at) = rest.find(is_hidden) {
            let (plain, hidden) = rest.split_at(at);
            out.write_all(plain.as_bytes())?;
            let mut left = hidden.chars();
            // JSON spells characters beyond 16 bits as a pair of surrogates (RFC 8259, section 7).
            for unit in left.next().unwrap_or_default().encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = left.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_an_escape_and_the_text_is_the_same() {
        let names = ["\u{9b}31m", "a\u{7f}b", "\u{202e}x", "\u{e0041}", "plain é", "\u{1b}[0m"];
        let mut bytes = Vec::new();
        write_document(&names, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains(|c: char| is_hidden(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), names);
        let nested = serde_json::json!({"a": [1, {"b": []}], "c": {}});
        let mut bytes = Vec::new();
        write_document(&nested, &mut bytes).unwrap();
        let expected = serde_json::to_string_pretty(&nested).unwrap() + "\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
