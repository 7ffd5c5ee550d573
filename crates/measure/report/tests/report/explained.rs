//! Every label, column and judgement of the first screens leads to an explanation.

use std::collections::BTreeSet;

use durio_analyse::Explanation;
use durio_judge::{explained, explanations};
use durio_report::Report;
use durio_report::document::{Cell, DetailLevel, Section, SectionBody, Table};

use crate::campaign::CAMPAIGN;
use crate::stack_sample::Runs;
use crate::{compare, durable_sample, poster, prediction_cells, profile, sample, why_cells};

fn terms_of_table(table: &Table, terms: &mut BTreeSet<String>) {
    let shown = table.columns_up_to(DetailLevel::Summary);
    for row in table.rows_up_to(DetailLevel::Summary) {
        let cells = shown.iter().filter_map(|at| row.cells.get(*at));
        terms.extend(cells.filter_map(|cell| match cell {
            Cell::Word(_, word) => Some(word.clone()),
            _ => None,
        }));
    }
    terms.extend(shown.into_iter().map(|at| table.columns[at].title.clone()));
}

fn terms_of_section(section: &Section, terms: &mut BTreeSet<String>) {
    for block in section.up_to(DetailLevel::Summary) {
        match &block.body {
            SectionBody::Facts(facts) => {
                terms.extend(facts.iter().map(|fact| fact.label.clone()));
            }
            SectionBody::Table(table) => terms_of_table(table, terms),
            SectionBody::Cards(cards) => terms.extend(cards.iter().map(|card| card.title.clone())),
            SectionBody::Group(group) => terms_of_section(group, terms),
            SectionBody::Text(..)
            | SectionBody::Charts(_)
            | SectionBody::Tree(_)
            | SectionBody::Verbatim(_) => {}
        }
    }
}

/// What a screen of a report shows and a reader may ask for; without the names of its subjects.
fn terms(report: &impl Report, names: &[&str]) -> BTreeSet<String> {
    let mut terms = BTreeSet::new();
    let document = report.document();
    document.up_to(DetailLevel::Summary).for_each(|section| terms_of_section(section, &mut terms));
    terms.retain(|term| !term.is_empty() && !names.contains(&term.as_str()));
    terms
}

fn unexplained(all: &[Explanation], terms: &BTreeSet<String>) -> Vec<String> {
    terms.iter().filter(|term| explained(all, term).is_empty()).cloned().collect()
}

#[test]
fn every_label_column_and_judgement_of_a_first_screen_has_an_explanation() {
    let all = explanations().unwrap();
    let comparison = compare::comparison(vec![compare::step("commit"), compare::step("scan")]);
    let sections = CAMPAIGN.campaign.iter().flat_map(|campaign| &campaign.sections);
    let sections: Vec<&str> = sections.map(|section| section.name.as_str()).collect();
    let screens = [
        ("check", terms(&poster::placed(), &[])),
        ("check of databases", terms(&prediction_cells::check(&["/srv/db"]), &[])),
        ("check of two places", terms(&sample::two_locations(), &[])),
        ("failed check", terms(&sample::empty(), &[])),
        ("partial check", terms(&sample::partial(), &[])),
        ("durable", terms(&durable_sample::durable(), &[])),
        ("predict", terms(&prediction_cells::predicted(), &[])),
        ("profile", terms(&profile::findings(), &[])),
        ("campaign", terms(&*CAMPAIGN, &sections)),
        ("why", terms(&why_cells::many(), &[])),
        ("compare", terms(&comparison, &["A", "B"])),
        ("stack bench", terms(&Runs::new().findings(None), &["xfs"])),
    ];
    for (screen, terms) in &screens {
        assert!(!terms.is_empty(), "{screen}");
        assert_eq!(unexplained(&all, terms), [] as [&str; 0], "{screen}");
    }
    // The test sees columns, labels and cells: those of each kind are among the terms.
    let [checked, databases, places, .., compared, stacks] = &screens;
    for (screen, term) in [
        (checked, "p99"),
        (checked, "typical"),
        (databases, "8 clients"),
        (places, "B /s"),
        (compared, "B against A"),
        (compared, "-9.0 % slower"),
        (stacks, "× raw"),
    ] {
        assert!(screen.1.contains(term), "{term}: {screen:?}");
    }
    let unknown = BTreeSet::from(["frobnication".to_owned(), "p99".to_owned()]);
    assert_eq!(unexplained(&all, &unknown), ["frobnication"]);
}
