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
//! `render/` and its lines in `render.rs`. docs/design/0011 has the reasons.

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

pub use advice::write_advice;
pub use audit::{AuditFormat, write_audit};
pub use compare::{gate_advice, write_comparison};
pub use fio::{FioLog, FioRequest, fio_logs, fio_version, has_unrecorded_parts, write_fio};
pub use json::write_document;
pub use plan::{PlanFormat, write_plan};
pub use profile::{ProfileFormat, write_profile, write_profiles};
pub use proof::write_proof;
pub use published::write_published;
pub use render::Format;
pub use run::write;
pub use stack::{render_stack, write_lab_comparison};
pub use stack_tree::{STACK_SCHEMA, StackFormat, write_stacks};
pub use visible::{visible, visible_lines};

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
