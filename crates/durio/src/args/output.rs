//! How a report is shown, the same for every command that has one.

use clap::Args;
use durio_report::Format;

use crate::values;

// No doc comment, which would be taken for a command's.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Output format: text, json, html, markdown, csv, openmetrics or fio-json [default: text; durio
    /// fio: fio's own]
    // Without it `durio fio` prints what fio would, so there is no default format.
    #[arg(long, value_name = "FORMAT", value_parser = values::format, conflicts_with = "json")]
    pub(crate) format: Option<Format>,

    /// The same as --format json
    #[arg(long)]
    pub(crate) json: bool,

    /// In text and Markdown, show details too: the layers, the method, the evidence
    #[arg(long)]
    pub(crate) verbose: bool,
}

impl OutputArguments {
    pub(crate) fn format(self) -> Format {
        self.named().unwrap_or(Format::Text)
    }

    /// The format, if one was named.
    pub(crate) fn named(self) -> Option<Format> {
        self.format.or_else(|| self.json.then_some(Format::Json))
    }
}
