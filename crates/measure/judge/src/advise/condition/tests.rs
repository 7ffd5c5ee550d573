//! Conditions by example, and by anything at all.

use proptest::prelude::*;

use super::*;

fn catalogue() -> &'static Catalogue {
    Catalogue::shipped().unwrap()
}

fn read(text: &str) -> Result<Condition, String> {
    let condition = parse::parse(text)?;
    condition.check(catalogue()).map(|()| condition)
}

fn facts() -> Facts {
    let mut facts = Facts::default();
    facts.put("device.read_ahead_kb", FactValue::Bytes(131_072.0), "a");
    facts.put("device.scheduler", FactValue::Text("none".into()), "b");
    facts.put("fs.options", FactValue::List(vec!["rw".into(), "noatime".into()]), "c");
    facts.put("device.fua", FactValue::Flag(false), "d");
    facts
}

fn holds(text: &str) -> Option<bool> {
    let condition = read(text).unwrap();
    condition.holds(&facts(), &mut SeenFacts::default())
}

#[test]
fn comparisons_heed_units() {
    assert_eq!(holds("device.read_ahead_kb >= 128KiB"), Some(true));
    assert_eq!(holds("device.read_ahead_kb > 128KiB"), Some(false));
    assert_eq!(holds("64KiB <= device.read_ahead_kb"), Some(true));
    assert_eq!(holds("device.read_ahead_kb < 2 * device.read_ahead_kb"), Some(true));
    assert_eq!(holds("device.scheduler == 'none'"), Some(true));
    assert_eq!(holds("device.scheduler in ['bfq', 'kyber']"), Some(false));
    assert_eq!(holds("fs.options has 'noatime' and not device.fua"), Some(true));
}

#[test]
fn and_binds_closer_than_or_and_parentheses_closer_still() {
    assert_eq!(holds("device.fua and device.fua or device.scheduler == 'none'"), Some(true));
    assert_eq!(holds("device.fua and (device.fua or device.scheduler == 'none')"), Some(false));
}

#[test]
fn what_is_missing_decides_nothing_unless_the_rest_decides() {
    assert_eq!(holds("device.nr_requests > 4"), None);
    assert_eq!(holds("device.nr_requests > 4 and device.fua"), Some(false));
    assert_eq!(holds("device.nr_requests > 4 or not device.fua"), Some(true));
    assert_eq!(holds("device.nr_requests > 4 and not device.fua"), None);
    assert_eq!(holds("not device.nr_requests > 4"), None);
}

#[test]
fn the_facts_that_decided_are_named_and_so_are_the_missing() {
    let condition = read("device.nr_requests > 4 and not device.fua").unwrap();
    let mut seen = SeenFacts::default();
    assert_eq!(condition.holds(&facts(), &mut seen), None);
    assert_eq!(
        (seen.used, seen.missing),
        (vec!["device.fua".into()], vec!["device.nr_requests".into()])
    );
}

#[test]
fn kinds_that_do_not_fit_are_errors() {
    for text in [
        "device.read_ahead_kb > 5ms",
        "device.read_ahead_kb > 128",
        "device.scheduler > 'none'",
        "device.scheduler has 'none'",
        "fs.options == 'noatime'",
        "device.scheduler",
        "2 * device.scheduler == 'x'",
        "device.furlongs > 1",
        "fs.options in ['a']",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
}

#[test]
fn sentences_that_are_none_are_errors() {
    for text in [
        "",
        "and",
        "device.fua and",
        "(device.fua",
        "device.fua)",
        "device.fua device.fua",
        "device.scheduler == 'none",
        "device.scheduler in []",
        "3 * 4 == 5",
        "128KiB * device.read_ahead_kb == 1",
        "device.fua & device.fua",
        "5",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
    let deep = format!("{}device.fua{}", "(".repeat(1000), ")".repeat(1000));
    assert!(read(&deep).unwrap_err().contains("deeply"));
    assert!(read(&"not ".repeat(100_000)).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z_.'()\\[\\]<>=!*0-9, é\u{0}]{0,60}") {
        let _ = read(&text);
    }
}
