//! Fit or unfit for which database, by whose limit: a table, and its sources.

use durio_analyse::{Findings, SignalWord, Verdict, VerdictWord, each_once};
use durio_plan::{Provenance, Threshold};

use crate::document::{
    Card, Cell, Column, DetailLevel, LabelledFact, Row, Section, SectionBody, Table, Tone, shown,
    words,
};
use crate::figures::{counted, decimal, factor, grouped, location_name};
use crate::{CaseOutcome, TestCase};

/// A row for each limit; with several locations a column for each. A detail where a screen has limits
/// in a line.
pub(super) fn section(findings: &Findings, is_detail: bool) -> Section {
    let provisional = findings.verdicts.iter().any(|verdict| verdict.provisional);
    let mut section = Section::new(if provisional { "Verdicts (provisional)" } else { "Verdicts" });
    section.level = if is_detail { DetailLevel::Detail } else { DetailLevel::Summary };
    let is_open = |verdict: &&Verdict| verdict.verdict == VerdictWord::NoDocumentedThreshold;
    let judged: Vec<&Verdict> =
        findings.verdicts.iter().filter(|verdict| !is_open(verdict)).collect();
    let locations = each_once(judged.iter().map(|verdict| verdict.location.as_str()));
    let in_states = findings.profile.is_some() || findings.prediction.is_some();
    let table = match locations.len() {
        0 | 1 => of_one_location(&judged, in_states),
        _ => side_by_side(&judged, &locations),
    };
    // A check holds many limits against few results: a screen has a line for each verdict.
    match in_states {
        true => section.table(table),
        false => {
            lines(&judged, &locations, &mut section);
            if !table.rows.is_empty() {
                section.push(DetailLevel::Detail, SectionBody::Table(table));
            }
        }
    }
    // A profile's table has said it.
    let not_said = findings.verdicts.iter().filter(|_| findings.profile.is_none());
    let open = each_once(not_said.filter(is_open).map(|verdict| verdict.database.as_str()));
    let practice = judged.iter().any(|verdict| is_practice(verdict));
    if practice {
        // Lines of a screen say it themselves.
        let level = if in_states { DetailLevel::Summary } else { DetailLevel::Detail };
        section.say_at(level, Tone::Note, "* rule of thumb, not a vendor limit");
    }
    if !open.is_empty() {
        let count = counted(open.len() as u64, "database");
        let text = format!("no limit is published for {count}: set one with --goal");
        section.say_at(DetailLevel::Detail, Tone::Note, text);
    }
    // The doubt between a result and its verdict is often the same for all.
    let doubted = judged
        .iter()
        .filter_map(|verdict| Some((verdict.doubt.as_deref()?, verdict.database.as_str())));
    for (why, databases) in grouped(doubted) {
        let text = match databases.len() == judged.len() {
            true => why.to_owned(),
            false => format!("{why} ({})", each_once(databases).join(", ")),
        };
        section.toned(Tone::Warning, VerdictWord::CannotTell.words(), text);
    }
    for it in judged.iter().filter(|verdict| verdict.location == locations[0]) {
        sources(it).into_iter().for_each(|fact| section.fact_at(DetailLevel::Detail, fact));
    }
    if !open.is_empty() {
        let text = LabelledFact::new(Tone::Plain, "no limit is published for", open.join(", "));
        section.fact_at(DetailLevel::Detail, text);
    }
    section
}

/// The missed limits and those that are met, on a line each.
fn lines(judged: &[&Verdict], locations: &[&str], section: &mut Section) {
    for location in locations {
        for word in [VerdictWord::Unfit, VerdictWord::Fit] {
            let is_here =
                |verdict: &&&Verdict| verdict.location == *location && verdict.verdict == word;
            let here: Vec<&Verdict> = judged.iter().filter(is_here).copied().collect();
            let items: Vec<String> = match word {
                VerdictWord::Unfit => here.iter().map(|verdict| missed(verdict)).collect(),
                _ => met(&here),
            };
            let label = match locations.len() {
                1 => word.words().to_owned(),
                _ => format!("{} {}", location_name(location), word.words()),
            };
            let is_any_practice = here.iter().any(|verdict| is_practice(verdict));
            let mark = if is_any_practice { " (* rule of thumb)" } else { "" };
            if !items.is_empty() {
                section.toned(tone(word), &label, format!("{}{mark}", items.join(", ")));
            }
        }
    }
}

/// `oracle * (mean of commit < 50 ms, measured 61 ms)`.
pub(super) fn missed(verdict: &Verdict) -> String {
    format!("{} ({}, measured {})", name(verdict), verdict.limit, measured(verdict).shown())
}

/// `etcd 4.70 ×`: each database with the least headroom of its limits, a goal with its limit.
fn met(fit: &[&Verdict]) -> Vec<String> {
    let named = fit.iter().map(|verdict| match verdict.database == Threshold::GOAL {
        true => (format!("goal {}", verdict.limit), verdict.headroom),
        false => (name(verdict), verdict.headroom),
    });
    let item = |(name, headrooms): (String, Vec<Option<f64>>)| {
        let least = headrooms.into_iter().flatten().reduce(f64::min);
        format!("{name}{}", least.map_or_else(String::new, |times| format!(" {}", factor(times))))
    };
    grouped(named).into_iter().map(item).collect()
}

/// Databases that the storage fails, doubtful ones and passed ones: the beginning of a page.
pub(super) fn in_short_of_all(findings: &Findings) -> Section {
    let mut section = Section::new("Summary");
    let of = |word: VerdictWord| {
        let same = findings.verdicts.iter().filter(move |verdict| verdict.verdict == word);
        same.map(|verdict| format!("{}: {}", verdict.database, verdict.limit)).collect::<Vec<_>>()
    };
    let suspect = findings
        .signals
        .iter()
        .filter(|signal| matches!(signal.word, SignalWord::UnsafeConfig | SignalWord::Suspect));
    let suspect =
        suspect.map(|signal| format!("{} {}", signal.word.words().to_uppercase(), signal.id));
    let unknown =
        of(VerdictWord::CannotTell).into_iter().map(|limit| format!("cannot tell {limit}"));
    let warnings = findings.warnings.iter().map(|warning| warning.code.clone());
    let fit = findings.verdicts.iter().filter(|verdict| verdict.verdict == VerdictWord::Fit);
    let lines = [
        (Tone::Bad, "fail", of(VerdictWord::Unfit)),
        (Tone::Warning, "doubt", suspect.chain(warnings).chain(unknown).collect()),
        // Databases that pass have a row below; the reasons for failing are here.
        (Tone::Good, "pass", fit.map(|verdict| verdict.database.clone()).collect()),
    ];
    let cards = lines.into_iter().filter(|(_, _, found)| !found.is_empty());
    let cards = cards.map(|(tone, word, found)| Card {
        tone,
        word: word.to_owned(),
        title: found.len().to_string(),
        about: String::new(),
        text: each_once(found.iter().map(String::as_str)).join("; "),
        facts: Vec::new(),
    });
    let cards: Vec<Card> = cards.collect();
    // Without a limit there is nothing to pass or to fail.
    if !findings.verdicts.is_empty() && !cards.is_empty() {
        section.push(DetailLevel::Page, SectionBody::Cards(cards));
    }
    section
}

/// Each limit that was compared. A missed one fails if it was asked for, as it decides the exit code.
pub(super) fn test_cases(findings: &Findings) -> Vec<TestCase> {
    let case = |verdict: &Verdict| {
        let is_asked = verdict.asked || verdict.database == Threshold::GOAL;
        let measured = format!("measured {}", measured(verdict).shown());
        let outcome = match verdict.verdict {
            VerdictWord::Fit => CaseOutcome::Passed,
            VerdictWord::Unfit if is_asked => CaseOutcome::Failed(measured),
            VerdictWord::Unfit => {
                CaseOutcome::Skipped(format!("missed, not asked for: {measured}"))
            }
            VerdictWord::CannotTell | VerdictWord::NoDocumentedThreshold => {
                CaseOutcome::Skipped(verdict.doubt.clone().unwrap_or_default())
            }
        };
        let class = location_name(&verdict.location).to_owned();
        TestCase { class, name: format!("{}: {}", verdict.database, verdict.limit), outcome }
    };
    let is_open = |verdict: &&Verdict| verdict.verdict == VerdictWord::NoDocumentedThreshold;
    findings.verdicts.iter().filter(|verdict| !is_open(verdict)).map(case).collect()
}

const COLUMNS: &[Column<Verdict>] = &[
    shown("database", |verdict| Cell::text(name(verdict))),
    words(shown("verdict", word)),
    words(shown("limit", |verdict| Cell::text(verdict.limit.as_str()))),
    words(shown("workload", |verdict| Cell::text(verdict.workload.as_str()))),
    shown("measured", measured),
    shown("headroom", |verdict| Cell::of(verdict.headroom, Cell::Factor)),
];

fn word(verdict: &Verdict) -> Cell {
    Cell::Word(tone(verdict.verdict), verdict.verdict.words().to_owned())
}

fn of_one_location(judged: &[&Verdict], in_states: bool) -> Table {
    let mut table = Table::shown(COLUMNS, judged.iter().copied());
    // The same limit is held against several states of a profile's log.
    if !in_states {
        table = table.with_level(DetailLevel::Detail, &["workload"]);
    }
    // Undecided ones are named below, with the reason.
    if judged.iter().any(|verdict| verdict.doubt.is_none()) {
        let rows = table.rows.iter_mut().zip(judged).filter(|(_, verdict)| verdict.doubt.is_some());
        rows.for_each(|(row, _)| row.level = DetailLevel::Detail);
    }
    table
}

fn side_by_side(judged: &[&Verdict], locations: &[&str]) -> Table {
    let places = locations.iter().map(|location| location_name(location));
    let mut table = Table::new(["database", "limit"].into_iter().chain(places));
    table.columns.iter_mut().for_each(|column| column.is_words = true);
    for (limit, same) in
        grouped(judged.iter().map(|verdict| ((&verdict.database, &verdict.limit), *verdict)))
    {
        let Some(first) = same.first() else { continue };
        let at = |location: &&str| {
            // A profile holds a limit against several states of one location.
            let here: Vec<_> =
                same.iter().filter(|verdict| verdict.location == *location).collect();
            let worst =
                here.iter().map(|verdict| verdict.verdict).max_by_key(|word| severity(*word));
            let words: Vec<String> = here.iter().map(|verdict| in_short(verdict)).collect();
            Cell::of(worst, |word| Cell::Word(tone(word), words.join("; ")))
        };
        let cells = [Cell::text(name(first)), Cell::text(limit.1.as_str())];
        let cells = cells.into_iter().chain(locations.iter().map(at)).collect();
        table.rows.push(Row { cells, ..Row::default() });
    }
    table
}

/// `fit 1.2 ms (8.3 ×)`.
fn in_short(it: &Verdict) -> String {
    let headroom = it.headroom.map_or_else(String::new, |times| format!(" ({})", factor(times)));
    format!("{} {}{headroom}", it.verdict.words(), measured(it).shown())
}

fn name(it: &Verdict) -> String {
    format!("{}{}", it.database, if is_practice(it) { " *" } else { "" })
}

pub(super) fn is_practice(it: &Verdict) -> bool {
    let kind = it.source.as_ref().and_then(|source| source.kind);
    kind.is_some_and(|kind| !matches!(kind, Provenance::VendorDoc | Provenance::SourceCode))
}

/// The value, in the unit of its limit.
fn measured(it: &Verdict) -> Cell {
    Cell::or_absent(it.value, |value| match it.unit.as_str() {
        "per second" => Cell::Rate(value),
        "bytes per second" => Cell::text(decimal_bandwidth(value)),
        _ => Cell::Latency(value),
    })
}

// As the limits have it, which are published in powers of ten.
fn decimal_bandwidth(bytes_per_second: f64) -> String {
    format!("{} MB/s", decimal((bytes_per_second / 1e6).round()))
}

const fn tone(word: VerdictWord) -> Tone {
    match word {
        VerdictWord::Fit => Tone::Good,
        VerdictWord::Unfit => Tone::Bad,
        // Both leave the question open; neither is in favour of the storage.
        VerdictWord::NoDocumentedThreshold | VerdictWord::CannotTell => Tone::Warning,
    }
}

const fn severity(word: VerdictWord) -> u8 {
    match word {
        VerdictWord::Unfit => 2,
        VerdictWord::CannotTell => 1,
        VerdictWord::Fit | VerdictWord::NoDocumentedThreshold => 0,
    }
}

/// The source of the limit, and remarks on it.
fn sources(it: &Verdict) -> Vec<LabelledFact> {
    // Practice is not a vendor's word.
    let kind = it
        .source
        .as_ref()
        .and_then(|source| source.kind)
        .filter(|source| *source != Provenance::VendorDoc);
    let kind = kind.map_or_else(String::new, |kind| format!(" ({})", kind.word()));
    let source = it.source.iter().map(|source| LabelledFact {
        link: Some(source.url.clone()),
        ..LabelledFact::new(
            Tone::Plain,
            &it.database,
            format!("{}; source{kind}: {}, {}", it.criterion, source.publisher, source.document),
        )
    });
    let note = it.note.iter().map(|note| LabelledFact::new(Tone::Plain, "", note));
    source.chain(note).collect()
}

#[cfg(test)]
mod tests {
    use durio_analyse::ThresholdSource;

    use super::*;

    #[test]
    fn a_screen_has_a_line_of_met_limits_and_one_of_missed_ones_for_each_place() {
        let of = |database: &str, location: &str, fits: bool, headroom: f64| Verdict {
            database: database.to_owned(),
            headroom: Some(headroom),
            ..verdict((location, if fits { VerdictWord::Fit } else { VerdictWord::Unfit }, 12.0))
        };
        let practice = ThresholdSource {
            publisher: "Somebody".to_owned(),
            document: "A list".to_owned(),
            url: String::new(),
            kind: Some(Provenance::Practice),
        };
        let all = [
            of("etcd", "/a", true, 4.7),
            of("cockroachdb", "/a", true, 46.6),
            of("cockroachdb", "/a", true, 11.4),
            of(Threshold::GOAL, "/a", true, 2.0),
            of("etcd", "/b", false, 0.83),
            Verdict { source: Some(practice), ..of("oracle", "/b", true, 176.0) },
        ];
        let judged: Vec<&Verdict> = all.iter().collect();
        let facts = |judged: &[&Verdict], locations: &[&str]| {
            let mut section = Section::default();
            lines(judged, locations, &mut section);
            let facts = section.blocks.into_iter().flat_map(|block| match block.body {
                SectionBody::Facts(facts) => facts,
                other => panic!("{other:?}"),
            });
            facts.map(|fact| (fact.tone, fact.label, fact.value)).collect::<Vec<_>>()
        };
        let met = "etcd 4.70 ×, cockroachdb 11.4 ×, goal p99 of sync < 10 ms 2.00 ×".to_owned();
        let missed = "etcd (p99 of sync < 10 ms, measured 12 ms)".to_owned();
        let expected = [
            (Tone::Good, "/a fit".to_owned(), met.clone()),
            (Tone::Bad, "/b unfit".to_owned(), missed),
            (Tone::Good, "/b fit".to_owned(), "oracle * 176 × (* rule of thumb)".to_owned()),
        ];
        assert_eq!(facts(&judged, &["/a", "/b"]), expected);
        assert_eq!(facts(&judged[..4], &["/a"]), [(Tone::Good, "fit".to_owned(), met)]);
    }

    fn verdict((location, verdict, millis): (&str, VerdictWord, f64)) -> Verdict {
        Verdict {
            database: "etcd".to_owned(),
            location: location.to_owned(),
            verdict,
            provisional: false,
            criterion: String::new(),
            limit: "p99 of sync < 10 ms".to_owned(),
            measured: String::new(),
            workload: String::new(),
            doubt: None,
            value: Some(millis * 1e6),
            headroom: None,
            threshold: None,
            unit: "ns".to_owned(),
            source: None,
            note: None,
            asked: false,
        }
    }

    #[test]
    fn of_several_verdicts_at_a_place_the_worst_gives_the_tone_wherever_it_stands() {
        use VerdictWord::{CannotTell, Fit, Unfit};
        let all = [
            ("/a", Unfit, 12.0),
            ("/b", Fit, 2.0),
            ("/c", CannotTell, 7.0),
            ("/a", CannotTell, 8.0),
            ("/b", Fit, 4.0),
            ("/c", Fit, 5.0),
            ("/a", Fit, 3.0),
            ("/d", Fit, 1.0),
            ("/d", Unfit, 11.0),
        ];
        let all = all.map(verdict);
        let judged: Vec<&Verdict> = all.iter().collect();
        let table = side_by_side(&judged, &["/a", "/b", "/c", "/d"]);
        assert_eq!(table.rows.len(), 1);
        let word = |tone, text: &str| Cell::Word(tone, text.to_owned());
        let expected = [
            word(Tone::Bad, "unfit 12 ms; cannot tell 8 ms; fit 3 ms"),
            word(Tone::Good, "fit 2 ms; fit 4 ms"),
            word(Tone::Warning, "cannot tell 7 ms; fit 5 ms"),
            word(Tone::Bad, "fit 1 ms; unfit 11 ms"),
        ];
        assert_eq!(table.rows[0].cells[2..], expected);
    }
}
