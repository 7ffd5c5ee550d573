//! What following a rule is expected to gain, by the best evidence that there is.

use super::document::{Gain, GainBasis};
use super::evidence::{Evidence, EvidenceOutcome};
use super::facts::Facts;
use super::rule::{AdviceSource, GainFact, Rule, SourceKind};

/// The expected gain: durability, else a run's measurement, else durio's A/B test, else the source.
pub(super) fn gain(rule: &Rule, facts: &Facts) -> Gain {
    if rule.guards_data {
        let says = "protects acknowledged writes".to_owned();
        return Gain { basis: GainBasis::Durability, ratio: None, says };
    }
    let here = rule.gain.as_ref().and_then(|gain| measured(gain, facts));
    here.or_else(|| tested(&rule.evidence)).unwrap_or_else(|| Gain {
        basis: GainBasis::Source,
        ratio: None,
        says: format!("gain not measured ({})", cited(&rule.sources)),
    })
}

fn measured(gain: &GainFact, facts: &Facts) -> Option<Gain> {
    let ratio = facts.number(&gain.fact)?;
    let place = &facts.get(&gain.fact)?.place;
    let run = place.rsplit('/').next().unwrap_or(place);
    let says = format!("{} times the {} (measured by {run})", times(ratio), gain.over);
    Some(Gain { basis: GainBasis::Run, ratio: Some(ratio), says })
}

/// The result of durio's own tests; `None` if there is none.
fn tested(evidence: &[Evidence]) -> Option<Gain> {
    let of = |outcome: EvidenceOutcome| evidence.iter().find(move |one| one.outcome == outcome);
    let agrees = of(EvidenceOutcome::Agrees);
    let against = of(EvidenceOutcome::Disagrees)
        // Where it made no difference in one place and some in another, it is worth a try.
        .or_else(|| of(EvidenceOutcome::NoDifference).filter(|_| agrees.is_none()));
    if let Some(against) = against {
        let says = against.says.clone();
        return Some(Gain { basis: GainBasis::Refuted, ratio: None, says });
    }
    agrees?;
    let (ratio, says) = match evidence.iter().find_map(|one| one.gain.as_ref()) {
        Some(gain) => {
            let says = format!("{} times the {} (durio's A/B test)", times(gain.ratio), gain.over);
            (Some(gain.ratio), says)
        }
        None => (None, "durio's own test agrees".to_owned()),
    };
    Some(Gain { basis: GainBasis::AbTest, ratio, says })
}

/// Who wrote the first source: a document's name begins with it.
fn cited(sources: &[AdviceSource]) -> &str {
    let read = sources.iter().find(|source| source.kind != SourceKind::GeneralKnowledge);
    let author = read.and_then(|source| source.document.split([',', ':']).next());
    author.unwrap_or("general knowledge")
}

fn times(ratio: f64) -> String {
    let step = if ratio >= 10.0 { 1.0 } else { 100.0 };
    ((ratio * step).round() / step).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::facts::FactValue;
    use crate::advise::rule_named;

    fn of(id: &str, facts: &[(&str, f64)]) -> Gain {
        let mut known = Facts::default();
        for (name, value) in facts {
            known.put(*name, FactValue::Number(*value), "/state/runs/check-4711");
        }
        gain(rule_named(id).unwrap(), &known)
    }

    #[test]
    fn a_run_counts_before_durios_own_tests_and_those_before_a_source() {
        let run = of("W05", &[("run.append_over_recycled", 2.456)]);
        assert_eq!((run.basis, run.ratio), (GainBasis::Run, Some(2.456)));
        let says = "2.46 times the commits of a log that grows (measured by check-4711)";
        assert_eq!(run.says, says);
        let test = of("W05", &[("run.batch_gain", 9.0)]);
        assert_eq!((test.basis, test.ratio), (GainBasis::AbTest, Some(1.79)));
        assert_eq!(test.says, "1.79 times the commits of a log that grows (durio's A/B test)");
        let many = of("W09", &[("run.batch_gain", 54.4)]);
        assert!(many.says.starts_with("54 times the commits with a sync each"), "{}", many.says);
        let cited = of("C12", &[]);
        assert_eq!((cited.basis, cited.ratio), (GainBasis::Source, None));
        assert_eq!(cited.says, "gain not measured (MongoDB)");
        assert_eq!(of("B12", &[]).says, "gain not measured (general knowledge)");
    }

    #[test]
    fn what_durios_own_tests_refuted_is_marked_unless_a_run_here_measured_it_or_data_is_at_stake() {
        // One disagrees, one found no difference, one agrees in part and disagrees in part.
        for id in ["B03", "B09", "A03"] {
            assert_eq!(of(id, &[]).basis, GainBasis::Refuted, "{id}");
        }
        // It made a difference through the page cache, and none direct.
        assert_eq!(of("B18", &[]).basis, GainBasis::AbTest);
        assert_eq!(of("P01", &[]).basis, GainBasis::Refuted);
        assert_eq!(of("P01", &[("run.commit_delay_gain", 1.9)]).basis, GainBasis::Run);
        for id in ["F03", "P08", "W02"] {
            assert_eq!(of(id, &[]).basis, GainBasis::Durability, "{id}");
        }
    }
}
