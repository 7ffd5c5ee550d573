//! A prediction: commits by clients, and what bounds them.
//!
//! In: findings. Out: a section. Not here: any figure that the findings do not have.

use durio_analyse::prediction::{Bound, PredictionFindings, PredictionPoint};

use crate::document::{Cell, Section, Table};
use crate::figures::{rate, rate_bare};

pub(super) fn section(prediction: &PredictionFindings) -> Section {
    let mut section =
        Section::new(format!("{}: predicted commits by clients", prediction.database));
    let titles = [
        "clients",
        "commits",
        "range",
        "p50",
        "p99",
        "commits per sync",
        "log busy",
        "processors",
        "bound by",
        "storage twice as fast",
    ];
    section.table(
        Table::new(titles)
            .with_words(&["range", "bound by", "storage twice as fast"])
            .with(prediction.points.iter().map(row)),
    );
    section.note(
        "the smallest durable transaction; clients on this machine; no reads, checkpoints or replication. \
         docs/method/predict.md says how near to the real database this came",
    );
    prediction.notes.iter().for_each(|note| section.fact("note", note));
    section
}

fn row(point: &PredictionPoint) -> Vec<Cell> {
    let share = |share: f64| Cell::text(format!("{:.0} %", share * 100.0));
    let range = |(least, most): (f64, f64)| {
        Cell::text(format!("{} to {}", rate_bare(least), rate_bare(most)))
    };
    vec![
        Cell::text(point.clients.to_string()),
        Cell::text(rate(point.rate_per_second)),
        Cell::or_absent(point.rate_range, range),
        Cell::percentile(point.p50_ns),
        Cell::percentile(point.p99_ns),
        Cell::or_absent(point.commits_per_sync, Cell::Number),
        share(point.log_share),
        Cell::or_absent(point.processor_share, share),
        Cell::text(match point.bound {
            Bound::Storage => "storage",
            Bound::Processors => "processors",
            Bound::Waiting => "wake-ups",
        }),
        Cell::text(format!("at most {}", rate(point.twice_as_fast_at_most))),
    ]
}
