//! The project's own measurements of a rule's claim, and their wording. `rules/measured.toml` holds
//! the measurements, `rules/unmeasured.toml` the reasons why a claim cannot be measured on the
//! storage at hand. Measurements on the user's storage are `--prove`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

word_enum! {
    /// What came of it.
    #[serde(rename_all = "kebab-case")]
    EvidenceOutcome, words:
    /// The measurement shows something else than the rule says.
    Disagrees "disagrees",
    /// With and without it, nothing differs by more than chance.
    NoDifference "no difference seen",
    /// The measurement shows what the rule says.
    Agrees "agrees",
    /// Nothing was measured: it needs something that was not at hand.
    NotMeasurable "not checked",
}

/// A measurement of a rule's claim, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What came of it.
    pub outcome: EvidenceOutcome,
    /// A sentence: the measurement with its numbers, or what a measurement would need.
    pub says: String,
    /// The conditions of the measurement; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Conditions>,
    /// The measured gain, where it is one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<MeasuredGain>,
}

/// How many times as much a rule gained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredGain {
    pub ratio: f64,
    /// What it is a multiple of.
    pub over: String,
}

/// The conditions of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The command that ran.
    pub command: String,
    /// The day, as 2026-11-21.
    pub date: String,
    pub kernel: String,
    /// Disk, cache and filesystem.
    pub storage: String,
    /// Processors of the machine.
    pub cores: u32,
    /// Other load during it, and its influence on the results.
    pub load: String,
    /// Why it may be wrong all the same; `None` for counts, which are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

impl Evidence {
    /// One line: the word, the numbers, and their source.
    pub fn line(&self) -> String {
        let word = self.outcome.words();
        let Some(conditions) = &self.measured else {
            return format!("{word}: needs {}", self.says);
        };
        let Conditions { command, date, kernel, storage, cores, load, doubt } = conditions;
        let doubt = doubt.as_ref().map(|doubt| format!("; {doubt}")).unwrap_or_default();
        format!(
            "checked, {word}: {} [{command}; {storage}, kernel {kernel}, {cores} cores, {load}, \
             {date}{doubt}]",
            self.says
        )
    }
}

const MEASURED: &str = include_str!("rules/measured.toml");
const UNMEASURED: &str = include_str!("rules/unmeasured.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EvidenceFile {
    place: BTreeMap<String, Testbed>,
    measured: Vec<Measurement>,
}

/// A machine and its storage, for several measurements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Testbed {
    kernel: String,
    storage: String,
    cores: u32,
    load: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurement {
    rule: String,
    outcome: EvidenceOutcome,
    says: String,
    command: String,
    place: String,
    date: String,
    doubt: Option<String>,
    gain: Option<MeasuredGain>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnmeasuredFile {
    unmeasured: Vec<MissingMeasurement>,
}

/// What several rules need.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MissingMeasurement {
    needs: String,
    rules: Vec<String>,
}

/// By the rule's identifier; what speaks against a rule stands first.
pub(super) type ByRule = BTreeMap<String, Vec<Evidence>>;

/// Which rule or file is wrong, and why.
pub(super) type WrongRule = (String, String);

/// Parses a file of rules, or says why it cannot.
pub(super) fn parsed<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, WrongRule> {
    toml::from_str(text).map_err(|error| (file.to_owned(), error.to_string()))
}

pub(super) fn shipped() -> Result<ByRule, WrongRule> {
    let mut found = measured(MEASURED)?;
    for (rule, evidence) in unmeasured(UNMEASURED)? {
        // One of the two would be out of date.
        if found.contains_key(&rule) {
            return Err((rule, "it is both measured and not measurable".to_owned()));
        }
        found.insert(rule, evidence);
    }
    Ok(found)
}

fn measured(text: &str) -> Result<ByRule, WrongRule> {
    let EvidenceFile { place: places, measured } = parsed("measured.toml", text)?;
    let mut found = ByRule::new();
    for measurement in measured {
        let rule = measurement.rule.clone();
        let evidence = evidence(measurement, &places).map_err(|reason| (rule.clone(), reason))?;
        found.entry(rule).or_default().push(evidence);
    }
    // The order of the outcomes: what speaks against a rule is read first.
    found.values_mut().for_each(|all| all.sort_by_key(|evidence| evidence.outcome));
    Ok(found)
}

fn evidence(
    measurement: Measurement,
    places: &BTreeMap<String, Testbed>,
) -> Result<Evidence, String> {
    let place = places
        .get(&measurement.place)
        .ok_or_else(|| format!("no place '{}'", measurement.place))?;
    if measurement.outcome == EvidenceOutcome::NotMeasurable {
        return Err("what is not measurable belongs into unmeasured.toml".to_owned());
    }
    // Without a number it would be an opinion.
    if !measurement.says.contains(|c: char| c.is_ascii_digit()) || measurement.command.is_empty() {
        return Err("a measurement needs a result and a command".to_owned());
    }
    if !is_date(&measurement.date) {
        return Err(format!("'{}' is not a date such as 2026-11-21", measurement.date));
    }
    let measured = Conditions {
        command: measurement.command,
        date: measurement.date,
        kernel: place.kernel.clone(),
        storage: place.storage.clone(),
        cores: place.cores,
        load: place.load.clone(),
        doubt: measurement.doubt,
    };
    Ok(Evidence {
        outcome: measurement.outcome,
        says: measurement.says,
        measured: Some(measured),
        gain: measurement.gain,
    })
}

/// Year, month and day, with as many digits as they have.
pub(super) fn is_date(text: &str) -> bool {
    let digits = |part: &str, count: usize| {
        part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut parts = text.split('-');
    let found = [parts.next(), parts.next(), parts.next(), parts.next()];
    matches!(found, [Some(year), Some(month), Some(day), None]
        if digits(year, 4) && digits(month, 2) && digits(day, 2))
}

fn unmeasured(text: &str) -> Result<ByRule, WrongRule> {
    let UnmeasuredFile { unmeasured } = parsed("unmeasured.toml", text)?;
    let mut found = ByRule::new();
    for MissingMeasurement { needs, rules } in unmeasured {
        for rule in rules {
            let outcome = EvidenceOutcome::NotMeasurable;
            let evidence = Evidence { outcome, says: needs.clone(), measured: None, gain: None };
            if needs.is_empty() || found.insert(rule.clone(), vec![evidence]).is_some() {
                return Err((rule, "it needs one reason".to_owned()));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "[place.p]\nkernel = '6.1'\nstorage = 'disk'\ncores = 2\nload = 'idle'\n";

    fn entry(change: &str, to: &str) -> Result<ByRule, WrongRule> {
        let text = format!(
            "{PLACE}[[measured]]\nrule = 'X1'\noutcome = 'agrees'\nsays = '+31 %'\n\
         command = 'durio advise --prove X1'\nplace = 'p'\ndate = '2026-11-21'\n"
        );
        measured(&text.replace(change, to))
    }

    #[test]
    fn a_measurement_says_what_was_run_where_and_when_in_one_line() {
        let line = entry("", "").unwrap()["X1"][0].line();
        let expected = "checked, agrees: +31 % [durio advise --prove X1; disk, kernel 6.1, 2 cores, \
                    idle, 2026-11-21]";
        assert_eq!(line, expected);
        let doubted = entry("date =", "doubt = 'one run'\ndate =").unwrap();
        assert!(doubted["X1"][0].line().ends_with("2026-11-21; one run]"), "{doubted:?}");
    }

    #[test]
    fn what_was_not_measured_says_what_it_needs() {
        let found = unmeasured("[[unmeasured]]\nneeds = 'an array'\nrules = ['X1', 'X2']").unwrap();
        assert_eq!(found["X2"][0].line(), "not checked: needs an array");
    }

    #[test]
    fn a_measurement_with_a_mistake_is_refused_and_named() {
        let mistakes = [
            ("+31 %", "faster", "needs a result"),
            ("'p'", "'q'", "no place 'q'"),
            ("'agrees'", "'not-measurable'", "unmeasured.toml"),
            ("'agrees'", "'perhaps'", "perhaps"),
            ("2026-11-21", "21.11.2026", "not a date"),
            ("2026-11-21", "2026-11", "not a date"),
            ("2026-11-21", "2026-11-21-00", "not a date"),
            ("durio advise --prove X1", "", "command"),
            ("says =", "sais =", "sais"),
        ];
        for (change, to, expected) in mistakes {
            let (_, reason) = entry(change, to).unwrap_err();
            assert!(reason.contains(expected), "{to}: {reason}");
        }
        let twice = "[[unmeasured]]\nneeds = 'a'\nrules = ['X1']\n[[unmeasured]]\nneeds = 'b'\nrules = ['X1']";
        assert!(unmeasured(twice).is_err());
    }

    #[test]
    fn what_speaks_against_a_rule_stands_first() {
        let one = |outcome: &str| {
            format!(
                "[[measured]]\nrule = 'X1'\noutcome = '{outcome}'\nsays = '1'\ncommand = 'c'\n\
             place = 'p'\ndate = '2026-11-21'\n"
            )
        };
        let text = format!("{PLACE}{}{}{}", one("agrees"), one("no-difference"), one("disagrees"));
        let outcomes: Vec<EvidenceOutcome> =
            measured(&text).unwrap()["X1"].iter().map(|evidence| evidence.outcome).collect();
        use EvidenceOutcome::{Agrees, Disagrees, NoDifference};
        assert_eq!(outcomes, [Disagrees, NoDifference, Agrees]);
    }
}
