//! Every rule: met and not met by facts of its own, sources, and that none lowers durability.

use std::collections::BTreeSet;

use super::*;
use crate::advise::condition::SeenFacts;
use crate::advise::facts::Facts;

/// Per rule: its id, facts for which it applies, facts that meet it, facts that do not.
const CASES: &str = include_str!("cases.txt");

fn facts(texts: &[&str]) -> Facts {
    let catalogue = Catalogue::shipped().unwrap();
    let mut facts = Facts::default();
    for text in texts.iter().flat_map(|text| text.split(';')).map(str::trim) {
        let Some((name, value)) = text.split_once('=') else { continue };
        assert!(facts.read(catalogue, name, value, "test"), "no fact {name}");
        assert!(facts.value(name).is_some(), "{text}: {:?}", facts.get(name));
    }
    facts
}

fn cases() -> Vec<[&'static str; 4]> {
    let lines = CASES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let cases = lines.map(|line| {
        let mut parts = line.split('|').map(str::trim);
        [(); 4].map(|()| parts.next().unwrap_or_else(|| panic!("{line}")))
    });
    cases.collect()
}

fn holds(condition: &Condition, facts: &Facts) -> Option<bool> {
    condition.holds(facts, &mut SeenFacts::default())
}

#[test]
fn every_rule_is_met_and_not_met_by_facts_of_its_own() {
    for [id, applies, met, not_met] in cases() {
        let rule = rule_named(id).unwrap();
        let (good, bad) = (facts(&[applies, met]), facts(&[applies, not_met]));
        if let Some(condition) = &rule.applies {
            assert_eq!(holds(condition, &good), Some(true), "{id} applies");
            assert_eq!(holds(condition, &facts(&[])), None, "{id} without facts");
        }
        assert_eq!(holds(&rule.met, &good), Some(true), "{id} met by {met}");
        assert_eq!(holds(&rule.met, &bad), Some(false), "{id} not met by {not_met}");
        assert_eq!(holds(&rule.met, &facts(&[])), None, "{id} without facts");
    }
}

#[test]
fn every_rule_has_its_case_and_no_case_is_without_a_rule() {
    let tested: BTreeSet<&str> = cases().iter().map(|case| case[0]).collect();
    let shipped: BTreeSet<&str> = rules().unwrap().iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(tested, shipped);
    assert!(shipped.len() >= 45, "{}", shipped.len());
}

#[test]
fn every_rule_says_who_says_so_and_what_was_not_read_has_no_address() {
    for rule in rules().unwrap() {
        assert!(!rule.sources.is_empty() && !rule.advice.is_empty(), "{}", rule.id);
        for source in &rule.sources {
            let general = source.kind == SourceKind::GeneralKnowledge;
            assert!(!general || source.url.is_empty(), "{}", rule.id);
            assert!(source.url.is_empty() || source.url.starts_with("https://"), "{}", source.url);
        }
    }
}

#[test]
fn titles_are_instructions_and_the_present_value_is_left_to_the_report() {
    for rule in rules().unwrap() {
        let title = &rule.title;
        assert!(title.starts_with(|c: char| c.is_ascii_uppercase()), "{}: {title}", rule.id);
        assert!(!title.contains("${") && !title.ends_with('.'), "{}: {title}", rule.id);
        assert!(title.chars().count() <= 75, "{}: {title}", rule.id);
    }
}

#[test]
fn every_rule_ships_with_what_was_measured_of_it_or_why_nothing_was() {
    use crate::advise::evidence::EvidenceOutcome::{Disagrees, NotMeasurable};
    let mut measured = 0;
    for rule in rules().unwrap() {
        let first = rule.evidence.first().unwrap_or_else(|| panic!("{}", rule.id));
        let is_measured = first.outcome != NotMeasurable;
        measured += u32::from(is_measured);
        assert_eq!(first.measured.is_some(), is_measured, "{}", rule.id);
        let rest = rule.evidence.iter().skip(1);
        assert!(rest.clone().all(|evidence| evidence.measured.is_some()), "{}: {first:?}", rule.id);
        let against = rest.filter(|evidence| evidence.outcome == Disagrees).count();
        assert!(against == 0 || first.outcome == Disagrees, "{}", rule.id);
    }
    assert!(measured >= 45, "{measured} were measured");
}

#[test]
fn a_rule_without_evidence_and_evidence_without_a_rule_are_refused() {
    let all = || crate::advise::evidence::shipped().unwrap();
    let rules = rules().unwrap();
    let mut without = all();
    without.remove("W06");
    let (rule, reason) = checked(rules.to_vec(), without).unwrap_err();
    assert_eq!((rule.as_str(), reason.contains("no measurement")), ("W06", true), "{reason}");
    let mut further = all();
    further.insert("W99".into(), Vec::new());
    let (rule, reason) = checked(rules.to_vec(), further).unwrap_err();
    assert_eq!((rule.as_str(), reason.contains("no such rule")), ("W99", true), "{reason}");
}

#[test]
fn a_rule_whose_sources_were_not_found_is_general_knowledge() {
    for rule in rules().unwrap() {
        let known =
            |source: &AdviceSource| source.looked_up || source.kind == SourceKind::GeneralKnowledge;
        assert!(rule.sources.iter().any(known), "{}: {:?}", rule.id, rule.sources);
    }
}

/// Settings that give up acknowledged commits, in the spellings of those who have them.
const LOSES_DATA: &[&str] = &[
    "nobarrier",
    "barrier=0",
    "sync=disabled",
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "trx_commit=0",
    "trx_commit=2",
    "sync_binlog=0",
    "appendfsyncno",
    "appendfsynceverysec",
    "doublewrite=off",
    "o_direct_no_fsync",
    "unsafe-no-fsync",
    "data=writeback",
    "journal_async_commit",
    "synchronous=off",
    "synchronous=normal",
    "'writethrough'>",
    "nocacheflush=1",
    "echo1>/sys/module/zfs",
    "use_fsync=false",
    "libeatmydata",
    "volatile",
    "logbias=disabled",
];

#[test]
fn nothing_that_lowers_durability_is_ever_advised() {
    for rule in rules().unwrap() {
        let applied = [&rule.command, &rule.undo, &rule.udev, &rule.setting];
        for text in applied.into_iter().flatten() {
            let squeezed: String = text.to_lowercase().split_whitespace().collect();
            for loses in LOSES_DATA {
                assert!(!squeezed.contains(loses), "{}: {text}", rule.id);
            }
        }
    }
}

#[test]
fn advice_in_words_names_a_dangerous_setting_only_to_warn() {
    let warned = ["F03", "F08", "M04", "W01", "W02", "W03"];
    for rule in rules().unwrap() {
        let squeezed: String = rule.advice.to_lowercase().split_whitespace().collect();
        let named = LOSES_DATA.iter().any(|loses| squeezed.contains(loses));
        assert!(!named || warned.contains(&rule.id.as_str()), "{}: {}", rule.id, rule.advice);
    }
}

#[test]
fn a_switch_that_is_proved_never_makes_commits_less_durable() {
    let durable = ["fsync", "fdatasync", "o_dsync", "o_sync", "rwf_dsync", "rwf_sync"];
    let layouts = ["incompressible", "zeros", "preallocated", "empty"];
    let proofs: Vec<_> = rules().unwrap().iter().filter_map(|rule| rule.prove.as_ref()).collect();
    assert!(proofs.len() >= 8, "{}", proofs.len());
    for prove in proofs {
        let known: &[&str] = match prove.switch {
            Switch::SyncMethod => &durable,
            Switch::FileMode => &layouts,
            Switch::Scheduler => &["none", "mq-deadline"],
            Switch::ReadAheadKb | Switch::NrRequests => {
                assert!(prove.to.parse::<u32>().is_ok(), "{prove:?}");
                continue;
            }
        };
        assert!(known.contains(&prove.to.as_str()), "{prove:?}");
        assert!(prove.from.as_deref().is_none_or(|from| known.contains(&from)), "{prove:?}");
    }
}

#[test]
fn rules_are_named_by_id_or_name_and_a_wrong_one_is_corrected() {
    assert_eq!(rule_named("b01").unwrap().name, "scheduler-nvme");
    assert_eq!(rule_named("scheduler-nvme").unwrap().id, "B01");
    let error = rule_named("schedular-nvme").unwrap_err().to_string();
    assert!(error.contains("did you mean 'scheduler-nvme'?"), "{error}");
}

fn read(text: &str) -> Result<Vec<Rule>, (String, String)> {
    let sources = toml::from_str(
        "[s]\nkind = 'general-knowledge'\ndocument = 'd'\n[v]\nkind = 'vendor-doc'\ndocument = 'd'\n\
         [unread]\nkind = 'vendor-doc'\ndocument = 'd'\nurl = 'https://d'\n",
    );
    super::read("x.toml", text, &sources.unwrap(), Catalogue::shipped().unwrap())
}

fn rule(change: &str, to: &str) -> Result<Vec<Rule>, (String, String)> {
    let text = "[[rule]]\nid = 'X1'\nname = 'x'\ntitle = 't'\nlayer = 'l'\nsubject = 'disk'\n\
                roles = ['any']\nmet = \"device.fua\"\nadvice = 'a'\nrisk = 'safe'\nsources = ['s']\n";
    read(&text.replace(change, to))
}

#[test]
fn a_rule_with_a_mistake_is_refused_and_named() {
    assert!(rule("", "").is_ok());
    let mistakes = [
        ("['s']", "['nobody']", "no source"),
        ("['s']", "['v']", "incomplete"),
        ("['s']", "['unread']", "incomplete"),
        ("['s']", "[]", "no source"),
        ("device.fua", "device.fura", "no fact"),
        ("device.fua", "device.fua >", "device.fua"),
        ("advice = 'a'", "advice = '${device.fura}'", "no fact"),
        ("advice = 'a'", "advice = 'a'\ncommand = 'c'", "undoes"),
        ("roles = ['any']", "roles = ['any']\ndatabases = ['dbase']", "no database"),
        ("risk = 'safe'", "risk = 'mild'", "mild"),
        ("layer = 'l'", "layer = 'l'\nlair = 'l'", "lair"),
    ];
    for (change, to, expected) in mistakes {
        let (_, reason) = rule(change, to).unwrap_err();
        assert!(reason.contains(expected), "{to}: {reason}");
    }
}
