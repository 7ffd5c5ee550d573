//! A picture of the medians: a bar for each database and one for its prediction.
//!
//! Returns text, for a page that has no other pictures.

use super::figures::DatabaseRow;
use crate::bench::figures::median;

/// Characters of the longest bar of a database.
const WIDTH: f64 = 48.0;

/// Eighths of a character.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub(super) fn print(rows: &[DatabaseRow]) {
    println!("\nCommits per second; each database by a scale of its own\n\n```");
    for row in rows {
        let most = rows.iter().filter(|it| it.database == row.database).flat_map(medians);
        let most = most.fold(f64::MIN_POSITIVE, f64::max);
        let name = format!("{}, {}", row.database, row.clients);
        for (name, what, value) in bars(&name, medians(row)) {
            println!("{name:<20} {what:<9} {} {value:.0}", bar(value / most));
        }
    }
    println!("```");
}

fn medians(row: &DatabaseRow) -> [f64; 2] {
    // A missing value draws no bar.
    row.rates().map(|it| median(&it)).map(|it| if it.is_finite() { it } else { 0.0 })
}

fn bars(name: &str, [real, predicted]: [f64; 2]) -> [(&str, &'static str, f64); 2] {
    [(name, "real", real), ("", "predicted", predicted)]
}

/// A bar of this share of the width.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a few dozen characters"
)]
fn bar(share: f64) -> String {
    let eighths = (share * WIDTH * 8.0).round() as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(1.0).chars().count(), 48);
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.5 / 48.0), "▌");
    }
}
