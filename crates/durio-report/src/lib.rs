//! From findings to what people and programs read: text, JSON, HTML, CSV, fio's JSON.
//!
//! In: findings of a run, a comparison, a bench, an audit; a plan, advice, a profile, a stack.
//! Out: bytes, into a writer. Not here: any figure that the findings do not have. The reporter formats
//! numbers and places points on charts; it computes nothing else, and knows no file and no terminal.
//!
//! ```text
//! findings ──► document (document.rs) ──► render/text, render/html, render/csv
//!          a builder per kind: run, compare, published, stack, audit, plan, …
//! ```
//!
//! JSON is the serde form of the findings, fio's formats (`fio.rs`) imitate fio; all else is a document.
//! A new section is built where its findings are and touches no renderer. A new format is a module in
//! `render/` and a line in the list of formats below. docs/design/0011 has the reasons.

mod advice;
mod audit;
mod compare;
mod decimate;
mod document;
mod figures;
mod fio;
mod json;
mod plan;
mod profile;
mod proof;
mod published;
mod render;
mod run;
mod stack;
mod stack_tree;
mod visible;

use std::fmt;
use std::io;

use document::Document;
use serde::Serialize;

pub use advice::write_advice;
pub use audit::{AuditFormat, write_audit};
pub use compare::{gate_advice, write_comparison};
pub use fio::{FioLog, FioRequest, fio_logs, fio_version, has_unrecorded_parts, write_fio};
pub use json::write_document;
pub use plan::{PlanFormat, write_plan};
pub use profile::{ProfileFormat, write_profile, write_profiles};
pub use proof::write_proof;
pub use published::write_published;
pub use run::write;
pub use stack::{render_stack, write_lab_comparison};
pub use stack_tree::{STACK_SCHEMA, StackFormat, write_stacks};
pub use visible::{visible, visible_lines};

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

/// The list of formats: a new one is a module and a line here.
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
    Text "text" Renderer::Document(render::text::render);
    /// The findings, whole, as one document.
    Json "json" Renderer::Findings;
    /// One file for a browser, with charts.
    Html "html" Renderer::Document(render::html::render);
    /// One line per workload and operation.
    Csv "csv" Renderer::Document(render::csv::render);
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
    fn write<T: Serialize + ?Sized>(
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

/// How the reader sees it; only the text output uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal.
    pub width: usize,
    /// Colours, which are never the only sign.
    pub colour: bool,
}

impl Default for Options {
    /// What suits a file or a pipe.
    fn default() -> Self {
        Self { width: 100, colour: false }
    }
}
