//! Rows that say the same about a measurement, and have other figures.
//!
//! In: a table. Out: each row of such a pair. Not here: rows that differ in any setting.

use std::collections::HashMap;

use super::super::wording::{bandwidth, evidence, percent, rate};
use super::{About, Claim, Seen, Tier};
use crate::{Figure, Line};

/// Repetitions of a measurement may differ by this share.
const REPEATED_WITHIN: f64 = 0.2;

pub(super) fn contradictions(claims: &[Claim]) -> Vec<About> {
    let mut same: HashMap<_, Vec<&Claim>> = HashMap::new();
    for claim in claims {
        same.entry(settings(claim)).or_default().push(claim);
    }
    let mut found = Vec::new();
    for claim in claims {
        let others = same.get(&settings(claim)).map_or(&[][..], Vec::as_slice);
        // The same line is the claim itself.
        let first = others.iter().take(REPETITIONS_MAX);
        let mut other = first.filter(|other| other.line != claim.line);
        if let Some(seen) = other.find_map(|other| differ(claim, other)) {
            found.push(About::new(claim, seen));
        }
    }
    found
}

/// A claim is compared with as many of the same settings, so that a table of nothing but repetitions
/// takes no longer than another.
const REPETITIONS_MAX: usize = 16;

type Settings<'a> = [Option<String>; 13];

fn settings(claim: &Claim) -> Settings<'_> {
    let text = |text: &str| Some(text.to_owned());
    [
        text(&claim.source),
        text(&claim.stack),
        text(&claim.workload),
        text(&claim.durable),
        text(&claim.note),
        claim.block_size.map(|it| it.get().to_string()),
        claim.jobs.map(|it| it.to_string()),
        claim.depth.map(|it| it.to_string()),
        claim.engine.clone(),
        claim.buffered.map(|it| it.to_string()),
        claim.target.clone(),
        claim.size.map(|it| it.get().to_string()),
        claim.runtime.map(|it| it.get().to_string()),
    ]
}

fn differ(claim: &Claim, other: &Claim) -> Option<Seen> {
    if other.line.is_none() || settings_are_empty(claim) {
        return None;
    }
    let pairs = [
        (claim.bandwidth, other.bandwidth, bandwidth as fn(f64) -> String),
        (claim.read.rate, other.read.rate, rate),
        (claim.write.rate, other.write.rate, rate),
    ];
    let (this, that, shown) = pairs.into_iter().find_map(|(this, that, shown)| {
        let (this, that): (Figure, Figure) = (this?, that?);
        (!this.agrees_with(that, REPEATED_WITHIN)).then_some((this, that, shown))
    })?;
    let place = match other.line.as_ref()? {
        Line::Number(number) => format!("line {number}"),
        Line::Name(name) => format!("'{name}'"),
    };
    let reason = format!(
        "{} here, {} in {place} ({} of it), and no setting differs",
        shown(this.value),
        shown(that.value),
        percent(this.value / that.value.max(1e-9)),
    );
    let evidence = evidence([("this", this.value), ("other", that.value)]);
    Some(Seen::new(Tier::Doubtful, reason, evidence))
}

/// Rows that say nothing about how they were measured may be anything.
fn settings_are_empty(claim: &Claim) -> bool {
    claim.block_size.is_none() || claim.workload.is_empty() || claim.stack.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::sample::sound;
    use super::*;

    fn rows(first: f64, second: f64) -> [Claim; 2] {
        let row = |line, rate| {
            let mut claim = sound("randread");
            claim.line = Some(Line::Number(line));
            claim.read.rate = Some(Figure::exact(rate));
            claim
        };
        [row(2, first), row(3, second)]
    }

    #[test]
    fn the_same_measurement_with_other_figures_is_told_on_both_rows() {
        let found = contradictions(&rows(1200.0, 554.0));
        assert_eq!(found.len(), 2);
        assert!(found[0].seen.reason.contains("line 3") && found[1].seen.reason.contains("line 2"));
    }

    #[test]
    fn repetitions_and_rows_that_differ_in_a_setting_are_fine() {
        assert!(contradictions(&rows(1200.0, 1100.0)).is_empty());
        let [first, second] = rows(1200.0, 554.0);
        let second = Claim { note: "after a reboot".into(), ..second };
        assert!(contradictions(&[first, second]).is_empty());
    }
}
