//! The answer of `durio advise` in a sentence.

use durio_base::counted;

use super::document::{Advice, AdviceReport, GainBasis};
use super::rule::AdviceState;
use crate::summary::{Summary, SummaryFigure, SummaryVerdict};

impl AdviceReport {
    /// What there is to do, the most important first: what protects data, then by the expected gain.
    pub fn to_do(&self) -> Vec<&Advice> {
        let mut found: Vec<&Advice> =
            self.not_met().filter(|advice| !advice.is_refuted()).collect();
        found.sort_by(|a, b| {
            let is_speed = |advice: &Advice| advice.gain.basis != GainBasis::Durability;
            let ratio = |advice: &Advice| advice.gain.ratio.unwrap_or_default();
            let by_gain = is_speed(a).cmp(&is_speed(b)).then(ratio(b).total_cmp(&ratio(a)));
            by_gain.then(a.gain.basis.cmp(&b.gain.basis))
        });
        found
    }

    /// Advice that gained nothing in durio's own tests.
    pub fn refuted(&self) -> Vec<&Advice> {
        self.not_met().filter(|advice| advice.is_refuted()).collect()
    }

    fn not_met(&self) -> impl Iterator<Item = &Advice> {
        self.advice.iter().filter(|advice| advice.state == AdviceState::NotMet)
    }

    /// The answer in a sentence.
    pub fn summary(&self) -> Summary {
        let to_do = self.to_do();
        let (verdict, text) = match to_do.first() {
            Some(first) if first.gain.basis == GainBasis::Durability => {
                let more = match to_do.len() - 1 {
                    0 => String::new(),
                    more => format!("; {more} more to do"),
                };
                let text = format!(
                    "acknowledged writes can be lost until you {}{more}",
                    uncapitalised(&first.instruction())
                );
                (SummaryVerdict::Bad, text)
            }
            Some(first) => (SummaryVerdict::Caution, changes(to_do.len(), first)),
            None => self.nothing_to_do(),
        };
        let undecided = match self.counts.cannot_tell {
            0 => String::new(),
            _ if verdict == SummaryVerdict::Unknown => String::new(),
            count => format!(" Caveat: {} undecided.", counted(count, "rule")),
        };
        let gains = to_do.iter().filter_map(|advice| {
            let (label, value) = (advice.rule.clone(), advice.gain.ratio?);
            Some(SummaryFigure { label, value, unit: "times" })
        });
        Summary {
            verdict,
            sentence: format!("{}: {text}.{undecided}", verdict.word()),
            headline: gains.collect(),
            reasons: to_do.iter().map(|advice| advice.instruction()).collect(),
        }
    }

    fn nothing_to_do(&self) -> (SummaryVerdict, String) {
        let counts = self.counts;
        if counts.met > 0 || counts.not_met > 0 {
            let met = counted(counts.met, "rule");
            return (SummaryVerdict::Good, format!("nothing to change ({met} met)"));
        }
        let text = match self.advice.as_slice() {
            [one] => format!("{} was not decided: {}", one.rule, one.reason),
            _ => "no rule could be decided here".to_owned(),
        };
        (SummaryVerdict::Unknown, text)
    }
}

fn changes(count: usize, first: &Advice) -> String {
    let what = uncapitalised(&first.title);
    let gain = match first.gain.ratio {
        Some(_) => format!("the largest expected gain: {what}, {}", first.gain.says),
        None => format!("first, {what}"),
    };
    format!("{} to make; {gain}", counted(count as u64, "change"))
}

/// Titles begin with a verb.
fn uncapitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

impl Advice {
    /// What to set, and its present value: `Set the I/O scheduler to none (now mq-deadline)`.
    pub fn instruction(&self) -> String {
        let Self { title, now, new, .. } = self;
        let new = new.as_ref().filter(|new| !title.contains(new.as_str()));
        match (now, new) {
            (Some(now), Some(new)) => format!("{title} (now {now}; new {new})"),
            (Some(now), None) => format!("{title} (now {now})"),
            (None, Some(new)) => format!("{title} (new {new})"),
            (None, None) => title.clone(),
        }
    }

    fn is_refuted(&self) -> bool {
        self.gain.basis == GainBasis::Refuted
    }
}
