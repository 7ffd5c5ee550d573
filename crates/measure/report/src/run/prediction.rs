//! A prediction: commits by clients, and their limits.
//!
//! Adds no number to the findings.

use durio_analyse::prediction::{PredictionFindings, PredictionPoint, RateBound};

use crate::document::{Cell, DetailLevel, Section, Table, Tone};
use crate::figures::rate_bare;

pub(super) fn section(prediction: &PredictionFindings) -> Section {
    let mut section =
        Section::new(format!("{}: predicted commits by clients", prediction.database));
    // Where transactions come at a rate: which.
    let has_rates = prediction.points.iter().any(|it| it.offered_per_second.is_some());
    let titles = [
        "clients",
        "offered",
        "commits/s",
        "expected",
        "range",
        "p50",
        "p99",
        "per sync",
        "log busy",
        "CPU",
        "bound by",
        "disk ×2",
    ];
    let detail: &[&str] =
        if has_rates { &["range", "log busy"] } else { &["range", "log busy", "offered"] };
    let table = Table::new(titles).with_level(DetailLevel::Detail, detail);
    section.table(
        table
            .with_words(&["expected", "range", "bound by"])
            .with(prediction.points.iter().map(row)),
    );
    section.note(
        "expected: within 15 % of the real rate were 14 of 17 predictions, on a fast disk of a machine that \
         nothing was fitted to; per sync: commits that share one; disk ×2: at most so many on storage twice as fast. The smallest \
         durable transaction, with clients on this machine; no reads, checkpoints or replication. How near to \
         real databases this came: docs/method/predict.md",
    );
    let text = "unless the profile was calibrated here (durio profile calibrate), what the database's software takes \
                was fitted on other machines";
    section.toned(Tone::Warning, "doubt", text);
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
        point.offered_per_second.map_or_else(|| Cell::text("max"), |it| Cell::text(rate_bare(it))),
        Cell::Rate(point.rate_per_second),
        Cell::or_absent(point.expected, |(least, most)| range((roughly(least), roughly(most)))),
        Cell::or_absent(point.rate_range, range),
        Cell::percentile(point.p50_ns),
        Cell::percentile(point.p99_ns),
        Cell::or_absent(point.commits_per_sync, Cell::Number),
        share(point.log_share),
        Cell::or_absent(point.processor_share, share),
        Cell::text(match point.bound {
            RateBound::Storage => "storage",
            RateBound::Processors => "CPU",
            RateBound::Waiting => "wake-ups",
            RateBound::Offered => "offered",
        }),
        Cell::or_absent(point.twice_as_fast_at_most, |it| {
            Cell::text(format!("≤ {}", rate_bare(it)))
        }),
    ]
}

/// Two digits: more would suggest that the ends of the expected range are exact.
fn roughly(rate: f64) -> f64 {
    if rate <= 0.0 {
        return rate;
    }
    let digit = 10_f64.powf(rate.log10().floor() - 1.0);
    (rate / digit).round() * digit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_an_expectation_have_two_digits() {
        for (rate, shown) in [(8174.0, 8200.0), (11_059.0, 11_000.0), (9.96, 10.0), (0.0, 0.0)] {
            assert!((roughly(rate) - shown).abs() < 1e-9, "{rate}: {}", roughly(rate));
        }
    }
}
