//! Findings as one page for a browser, which needs nothing but itself.
//!
//! In: findings. Out: one HTML file with style, charts, values and script inside; complete without
//! the script, and forbidden by its own policy to ask anybody for anything.
//! Not here: the words of facts and figures, which the terminal shares.

mod accounting;
mod campaign;
pub(crate) mod charts;
mod durable;
mod layers;
mod profile;
mod sections;
mod signals;
mod verdicts;

use std::collections::BTreeMap;
use std::io;

use askama::Template;
use durio_analyse::Findings;
use durio_units::Bytes;

use crate::facts::{host_facts, host_facts_other, host_short, state_meaning, state_word};
use crate::figures::{ABSENT_NOTE, latency, rate_bare};
use crate::headline;
use crate::layer_facts::Named;
use crate::rows::{COLUMNS, locations, place_name};
use crate::signal_words::{NO_PROOF, QUESTION};
use crate::time_facts::{TIME_HEADING, TimePart, time_parts};
use crate::visible::{is_hidden, visible_lines};
use accounting::Account;
use campaign::CampaignPart;
use charts::Values;
use layers::LayerBox;
use profile::ProfilePart;
use sections::{Picture, PlaceTable, WorkloadCharts};
use signals::SignalCard;
use verdicts::VerdictCard;

pub(crate) const STYLE: &str = include_str!("../../templates/report.css");

/// The policy in the template names this script by its hash, so that no other can run, whatever a
/// path is called. After a change the browser refuses the script, the test of the page fails and
/// shows the browser's message, which has the new hash.
const SCRIPT: &str = include_str!("../../templates/report.js");

/// What the template is filled with; all text in it is escaped there.
#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage<'a> {
    findings: &'a Findings,
    style: &'static str,
    script: &'static str,
    places: Vec<&'a str>,
    host: String,
    state: &'static str,
    state_meaning: Option<&'static str>,
    rate: String,
    range: Option<String>,
    steady: Option<headline::Verdict>,
    p99: Option<String>,
    verdicts: Vec<VerdictCard<'a>>,
    time_heading: &'static str,
    times: Vec<TimePart>,
    open_databases: Vec<&'a str>,
    signals: Vec<SignalCard<'a>>,
    signals_question: &'static str,
    signals_lead: &'static str,
    columns: [&'static str; 8],
    tables: Vec<PlaceTable>,
    absent_note: Option<&'static str>,
    workloads: Vec<WorkloadCharts<'a>>,
    campaign: Option<CampaignPart>,
    profile: Option<ProfilePart>,
    write_and_sync: Vec<Picture>,
    side_by_side: Vec<Picture>,
    stacks: Vec<LayerBox>,
    accounts: Vec<Account>,
    own_cost: Vec<String>,
    own_memory: Option<Bytes>,
    host_facts: Vec<Named>,
    host_facts_other: Vec<Named>,
    command: String,
    plan: String,
    values: String,
}

pub(crate) fn write(findings: &Findings, out: &mut dyn io::Write) -> io::Result<()> {
    let mut values = BTreeMap::new();
    let mut page = page(findings)?;
    match (&findings.durable, &findings.campaign) {
        (Some(found), _) => page.campaign = Some(durable::part(findings, found)?),
        (None, Some(campaign)) => {
            page.campaign = Some(campaign::part(findings, campaign, &mut values)?);
        }
        (None, None) => page.workloads = sections::workload_charts(findings, &mut values)?,
    }
    page.values = script_safe(&serde_json::to_string(&values)?);
    // Rendered first, so that what the writer says is not wrapped in an error of the template's.
    let html = page.render().map_err(io::Error::other)?;
    out.write_all(visible_lines(&html).as_bytes())
}

/// All but what the script needs.
fn page(findings: &Findings) -> io::Result<ReportPage<'_>> {
    // A campaign has hundreds of steps: they are shown section by section.
    let each = findings.campaign.is_none();
    let tables = if each { sections::tables(findings) } else { Vec::new() };
    let leading = findings.leading.as_ref();
    Ok(ReportPage {
        findings,
        style: STYLE,
        script: SCRIPT,
        places: locations(findings).into_iter().map(place_name).collect(),
        host: host_short(&findings.host),
        state: state_word(findings.state),
        state_meaning: state_meaning(findings.state),
        rate: leading.map(|it| rate_bare(it.durable_commits_per_second)).unwrap_or_default(),
        range: leading.and_then(headline::range),
        steady: leading.map(headline::verdict),
        p99: leading.and_then(|it| it.commit_latency_ns_p99).map(latency),
        verdicts: verdicts::cards(findings),
        time_heading: TIME_HEADING,
        times: time_parts(findings),
        open_databases: verdicts::without_threshold(findings),
        signals: signals::cards(findings),
        signals_question: QUESTION,
        signals_lead: NO_PROOF,
        columns: COLUMNS,
        absent_note: tables.iter().any(PlaceTable::has_absent).then_some(ABSENT_NOTE),
        tables,
        workloads: Vec::new(),
        campaign: None,
        profile: profile::part(findings),
        write_and_sync: if each { sections::write_and_sync(findings)? } else { Vec::new() },
        side_by_side: if each { sections::side_by_side(findings)? } else { Vec::new() },
        stacks: findings.stack.iter().map(|it| LayerBox::of(&it.root)).collect(),
        accounts: if each { accounting::accounts(findings) } else { Vec::new() },
        own_cost: findings.self_cost.iter().map(crate::facts::self_cost_line).collect(),
        own_memory: findings.memory_max_bytes.map(Bytes::new),
        host_facts: host_facts(&findings.host),
        host_facts_other: host_facts_other(&findings.host),
        command: findings.run.command.join(" "),
        plan: match each {
            true => serde_json::to_string_pretty(&findings.plan)?,
            false => serde_json::to_string(&findings.plan)?,
        },
        values: String::new(),
    })
}

/// Values by the chart's name in the page.
type ValuesByName = BTreeMap<String, Values>;

/// JSON that cannot end the element that it stands in, nor begin another, nor hide a character: what is
/// spelt out in the page would be no JSON.
fn script_safe(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if matches!(c, '<' | '>' | '&') || is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(c);
        }
    }
    safe
}
