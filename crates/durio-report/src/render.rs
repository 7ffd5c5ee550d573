//! Documents as bytes, and the list of formats.
//!
//! In: a [`Document`]. Out: text, HTML, CSV, into a writer. Not here: any kind of findings; a renderer
//! that has to know one lacks a block in the document.

pub(crate) mod csv;
pub(crate) mod html;
mod page;
mod svg;
pub(crate) mod text;

use std::fmt;
use std::io;

use serde::Serialize;

use crate::Options;
use crate::document::Document;
use crate::json::write_document;

/// How a format is made.
#[derive(Debug, Clone, Copy)]
enum Renderer {
    /// Of the document that a builder of this crate makes.
    Document(fn(&Document, &Options, &mut dyn io::Write) -> io::Result<()>),
    /// Of the findings themselves, whole, with their schema.
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
    /// One line per workload and operation.
    Csv "csv" Renderer::Document(csv::render);
    /// As fio writes its results, for programs that read those.
    FioJson "fio-json" Renderer::Fio;
}

impl Format {
    /// True if it shows histograms, which the analyser keeps only if told so.
    #[must_use]
    pub const fn shows_histograms(self) -> bool {
        matches!(self, Self::FioJson)
    }

    /// Writes findings of any kind, as themselves or as the document that is made of them.
    pub(crate) fn write<T: Serialize + ?Sized>(
        self,
        findings: &T,
        document: impl FnOnce(&T) -> Document,
        options: &Options,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        match self.renderer() {
            Renderer::Document(render) => render(&document(findings), options, out),
            Renderer::Findings => write_document(findings, out),
            Renderer::Fio => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
