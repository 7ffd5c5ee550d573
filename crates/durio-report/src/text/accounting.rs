//! How the figures came about, and what checks them.

use durio_analyse::Findings;

use super::page::{Look, Page};
use crate::facts::{
    batches_line, data_line, device_time_line, engine_line, in_flight_line, largest_deviation,
    self_cost_line, switches_line,
};
use crate::figures::mean_latency;
use crate::rows::locations;

/// Wide enough for the names of the shipped workloads.
const NAME_WIDTH: usize = 13;

pub(super) fn write(findings: &Findings, page: &mut Page) {
    page.heading("How it was measured");
    let several = locations(findings).len() > 1;
    // A campaign has hundreds of steps; how each was measured is in the JSON document.
    let each = findings.campaign.is_none();
    for workload in findings.workloads.iter().filter(|_| each) {
        let place = if several { format!("at {}: ", workload.location) } else { String::new() };
        let cost = mean_latency(workload.cpu.per_operation_ns);
        let switches = switches_line(workload).map_or_else(String::new, |it| format!(", {it}"));
        let engine = engine_line(workload);
        let text = format!("{place}{engine}; {cost} CPU time per operation{switches}");
        page.labelled(&workload.name, NAME_WIDTH, Look::Plain, &text);
        if let Some(line) = device_time_line(workload) {
            page.labelled("", NAME_WIDTH, Look::Plain, &line);
        }
        if let Some(batches) = &workload.batches {
            page.labelled("batches", NAME_WIDTH, Look::Plain, &batches_line(batches));
        }
        if let Some(data) = data_line(workload) {
            page.labelled("data", NAME_WIDTH, Look::Plain, &data);
        }
    }
    if !each {
        data_of_campaign(findings, page);
    }
    for cost in &findings.self_cost {
        page.labelled("durio's cost", NAME_WIDTH, Look::Plain, &self_cost_line(cost));
    }
    if let Some(workload) = largest_deviation(findings) {
        let text = format!(
            "largest deviation at {}: {}",
            workload.name,
            in_flight_line(&workload.in_flight)
        );
        page.labelled("Little's law", NAME_WIDTH, Look::Plain, &text);
    }
}

/// What the steps of a campaign wrote: each kind of data once, with its steps where there are several.
fn data_of_campaign(findings: &Findings, page: &mut Page) {
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    for workload in &findings.workloads {
        let Some(data) = &workload.data else { continue };
        let (words, name) = (data.contents.as_str(), workload.name.as_str());
        match kinds.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => kinds.push((words, vec![name])),
        }
    }
    let is_one = kinds.len() == 1;
    for (words, names) in kinds {
        let of = if is_one { String::new() } else { format!(" ({})", names.join(", ")) };
        page.labelled("data", NAME_WIDTH, Look::Plain, &format!("{words}{of}"));
    }
}
