//! Documents as bytes, and the list of formats.
//!
//! Writes a [`Document`] as text, HTML, Markdown, CSV or OpenMetrics. If a renderer must know a
//! kind of findings, the document lacks a block.

pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod openmetrics;
mod page;
mod svg;
pub(crate) mod text;

use std::fmt;
use std::io;

use crate::document::Document;
use crate::json::write_document;
use crate::{Options, Report};

#[derive(Debug, Clone, Copy)]
enum Renderer {
    /// From a builder's document.
    Document(fn(&Document, &Options, &mut dyn io::Write) -> io::Result<()>),
    /// From the whole findings, with their schema.
    Findings,
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
            #[must_use]
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
    /// As fio writes its results, for programs that read those.
    FioJson "fio-json" Renderer::Fio;
}

impl Format {
    /// True if it shows histograms, which the analyser keeps only on request.
    #[must_use]
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
    match format.renderer() {
        Renderer::Document(render) => render(&report.document(), options, out),
        Renderer::Findings => write_document(report, out),
        Renderer::Fio => report.write_fio_json(out),
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
