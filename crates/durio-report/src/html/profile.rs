//! A run of a profile in the page: the log idle beside the log under load.

use askama::Template;
use durio_analyse::Findings;

use crate::figures::ABSENT_NOTE;
use crate::profile_facts::{
    STATES, StateRow, has_absent, heading, not_durable, state_rows, undocumented,
};

/// What the template is filled with.
#[derive(Debug, Template)]
#[template(path = "profile.html")]
pub(super) struct ProfilePart {
    title: String,
    states: [&'static str; 3],
    rows: Vec<StateRow>,
    absent_note: Option<&'static str>,
    not_durable: Option<String>,
    undocumented: Vec<String>,
    notes: Vec<String>,
}

/// The part of the page; none for other runs.
pub(super) fn part(findings: &Findings) -> Option<ProfilePart> {
    let profile = findings.profile.as_ref()?;
    let rows = state_rows(profile);
    let without = undocumented(findings).into_iter();
    Some(ProfilePart {
        title: format!("{}, {}", profile.name, heading(profile)),
        states: STATES,
        absent_note: has_absent(&rows).then_some(ABSENT_NOTE),
        rows,
        not_durable: not_durable(profile),
        undocumented: without
            .map(|it| format!("{}: {}; {}", it.database, it.criterion, it.measured))
            .collect(),
        notes: profile.notes.clone(),
    })
}
