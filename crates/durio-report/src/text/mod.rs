//! Findings for a terminal.
//!
//! In: findings and the terminal's width. Out: lines, the answer first, then the figures, then
//! what they were measured on, then what to know about them. Not here: progress, live figures.

mod accounting;
mod audit;
mod campaign;
mod closing;
mod durable;
mod head;
mod machine;
pub(crate) mod page;
mod plan;
mod profile;
mod profile_fields;
mod signals;
pub(crate) mod table;
mod times;
mod verdicts;

use std::io;

use durio_analyse::Findings;

use crate::Options;
pub(crate) use audit::write as write_audit;
use page::Page;
pub(crate) use plan::write as write_plan;
pub(crate) use profile_fields::{write as write_profile, write_list as write_profiles};

pub(crate) fn write(
    findings: &Findings,
    options: &Options,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut page = Page::new(options);
    head::write(findings, &mut page);
    profile::write(findings, &mut page);
    match (&findings.durable, &findings.campaign) {
        (Some(durable), _) => durable::write(durable, &mut page),
        (None, Some(campaign)) => campaign::write(campaign, &mut page),
        (None, None) => table::write(findings, &mut page),
    }
    times::write(findings, &mut page);
    verdicts::write(findings, &mut page);
    signals::write(findings, &mut page);
    machine::write(findings, &mut page);
    accounting::write(findings, &mut page);
    closing::write(findings, &mut page);
    out.write_all(page.text().as_bytes())
}
