//! What a measurement must have, and its line.

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
        ("+31 %", "faster", "figure"),
        ("'p'", "'q'", "no place 'q'"),
        ("'agrees'", "'not-measurable'", "unmeasured.toml"),
        ("'agrees'", "'perhaps'", "perhaps"),
        ("2026-11-21", "21.11.2026", "no date"),
        ("2026-11-21", "2026-11", "no date"),
        ("2026-11-21", "2026-11-21-00", "no date"),
        ("durio advise --prove X1", "", "command"),
        ("says =", "sais =", "sais"),
    ];
    for (change, to, expected) in mistakes {
        let (_, reason) = entry(change, to).unwrap_err();
        assert!(reason.contains(expected), "{to}: {reason}");
    }
    let twice =
        "[[unmeasured]]\nneeds = 'a'\nrules = ['X1']\n[[unmeasured]]\nneeds = 'b'\nrules = ['X1']";
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
        measured(&text).unwrap()["X1"].iter().map(|it| it.outcome).collect();
    use EvidenceOutcome::{Agrees, Disagrees, NoDifference};
    assert_eq!(outcomes, [Disagrees, NoDifference, Agrees]);
}
