//! Turns findings into output for people and programs: text, JSON, HTML, Markdown, CSV, fio's JSON.
//!
//! Takes findings of a run, a comparison, a bench or an audit; a plan, advice, a profile or a
//! stack; writes bytes. The reporter formats numbers and places points on charts. It computes
//! nothing else, shows no number that the findings do not have, and knows no file and no terminal.
//!
//! ```text
//! findings ──► document (document.rs) ──► render/text, render/html, render/markdown, render/csv
//!          a builder per kind: run, compare, stack, audit, plan, …
//! ```
//!
//! A document begins with the summary that durio-judge makes of its findings ([`Report::summary`]): the
//! first line of text, the first heading of a page, the head of JSON.
//!
//! JSON is the serde form of the findings, fio's formats (`fio.rs`) imitate fio; all else is a document.
//! A kind of findings implements [`Report`]. A new section is built where its findings are and touches no
//! renderer; a column is declared once for people and programs (`Column` in `document.rs`). A new format is
//! a module in `render/` and its lines in `render.rs`. docs/design/0011 has the reasons.

mod advice;
mod array;
mod audit;
mod capture;
mod compare;
mod crash_states;
mod doctor;
pub mod document;
mod explain;
pub mod figures;
mod fio;
mod io_properties;
mod plan;
mod profile;
mod proof;
mod render;
mod run;
mod runs;
mod stack;
mod stack_tree;
mod typical;
mod watch;
mod why;

use std::io;

use serde::Serialize;

pub use advice::ShownAdvice;
pub use array::array_standing;
pub use audit::ShownAudit;
pub use compare::ShownShapes;
pub use doctor::{Diagnosis, DiagnosisRow, DiagnosisState};
pub use durio_judge::summary::{Summary, SummaryFigure, SummaryVerdict};
pub use explain::ShownExplanations;
pub use fio::{FioLog, FioRequest, fio_logs, fio_version, has_unrecorded_parts, write_fio};
pub use io_properties::io_properties;
pub use plan::{ShownPlan, clock};
pub use profile::ProfileList;
pub use render::junit::{CaseOutcome, TestCase};
pub use render::text::wrapped;
pub use render::{Format, write, write_document};
pub use run::ShownIntervals;
pub use runs::ShownRuns;
pub use stack_tree::{STACK_SCHEMA, Stacks};
pub use typical::ShownTypical;
pub use watch::{SlowProbeCommits, WatchedLocation, WatchedProbe};

use document::{DetailLevel, Document};

/// Findings of a kind that can be reported. Their JSON is serde's.
pub trait Report: Serialize {
    /// What people and spreadsheets read.
    fn document(&self) -> Document;

    /// The answer in a sentence: the first line of a text, the first heading of a page, the head of
    /// the JSON document. `None` for what answers no question.
    fn summary(&self) -> Option<Summary> {
        None
    }

    /// True if the JSON document has a field `summary` of another meaning: then the answer is its
    /// field `answer`.
    fn has_field_summary(&self) -> bool {
        false
    }

    /// Its judgements, in JUnit's form; none where nothing was judged.
    fn test_cases(&self) -> Vec<TestCase> {
        Vec::new()
    }

    /// The same as fio writes its results.
    ///
    /// # Errors
    /// What the writer says; that it is unsupported where fio has no place for these findings.
    fn write_fio_json(&self, _out: &mut dyn io::Write) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// How the reader sees text and Markdown; other formats are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Columns of the terminal.
    pub width: usize,
    /// Colours, which are never the only sign.
    pub colour: bool,
    /// Details are shown too.
    pub verbose: bool,
}

impl Options {
    const fn level(&self) -> DetailLevel {
        if self.verbose { DetailLevel::Detail } else { DetailLevel::Summary }
    }
}

impl Default for Options {
    /// What suits a file or a pipe.
    fn default() -> Self {
        Self { width: 100, colour: false, verbose: false }
    }
}
