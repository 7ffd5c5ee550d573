//! The tested systems: machines and their layers, guests and their devices.
//!
//! A section from [`ProofFindings`]; for simulated disks the table of series says all.

use durio_analyse::proof::{ProofFindings, SeriesFindings};
use durio_observe::DriveCounters;
use durio_plan::proof::{GuestTarget, ProofTarget};
use durio_record::proof::Inventory;

use crate::document::{Cell, DetailLevel, Section, SectionBody, Table};
use crate::figures::counted;
use crate::run::host_short;
use crate::stack_tree::tree;

pub(super) fn section(findings: &ProofFindings) -> Section {
    let mut section = Section::detail("Under test");
    let mut told: Vec<&Inventory> = Vec::new();
    for series in &findings.series {
        // The same machine on another path is the same.
        if let Some(inventory) = series.inventory.as_deref().filter(|it| !told.contains(it)) {
            told.push(inventory);
            machine(series, inventory, &mut section);
        }
    }
    let guests: Vec<&GuestTarget> = findings.series.iter().filter_map(guest).collect();
    section.table(guest_table(&guests));
    section
}

fn machine(series: &SeriesFindings, inventory: &Inventory, section: &mut Section) {
    let Inventory { host, stack, qemu, power } = inventory;
    let target = match &series.series.target {
        ProofTarget::Agent(agent) => agent.name.clone(),
        _ => "guests run on".to_owned(),
    };
    let name = host.hostname.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    section.fact(&target, format!("{name}{}", host_short(host)));
    section.facts(host.os.iter().map(|it| ("system", it.clone())));
    section.facts(qemu.iter().map(|it| ("QEMU", it.clone())));
    if matches!(series.series.target, ProofTarget::Agent(_)) {
        section.facts(power.drives.iter().map(|it| (it.drive.as_str(), counters(it))));
        section.fact("power", shown(series));
    }
    if let Some(stack) = stack {
        section.push(
            DetailLevel::Summary,
            SectionBody::Tree(vec![tree(&stack.root, DetailLevel::Summary)]),
        );
    }
}

/// What a drive has counted before the first cut.
fn counters(drive: &DriveCounters) -> String {
    match (drive.unsafe_shutdowns, &drive.missing) {
        (Some(count), _) => {
            let on = drive.power_cycles.map(|it| format!(" in {}", counted(it, "power cycle")));
            format!("{}{}", counted(count, "unexpected power-off"), on.unwrap_or_default())
        }
        (None, Some(why)) => format!("no counter of power losses: {why}"),
        (None, None) => "no counter of power losses".to_owned(),
    }
}

/// What showed that the power was gone.
fn shown(series: &SeriesFindings) -> String {
    let of = |count: u64| format!("{count} of {}", counted(series.cuts_done, "cut"));
    format!(
        "the drive's counter of power losses rose in {}, the machine booted again in {}, a control was \
         lost in {}",
        of(series.cuts_with_counter),
        of(series.cuts_with_reboot),
        of(series.cuts_with_lost_control)
    )
}

fn guest(series: &SeriesFindings) -> Option<&GuestTarget> {
    match &series.series.target {
        ProofTarget::Guest(guest) => Some(guest),
        _ => None,
    }
}

fn guest_table(guests: &[&GuestTarget]) -> Table {
    let mut told: Vec<&GuestTarget> = Vec::new();
    for guest in guests {
        if !told.contains(guest) {
            told.push(guest);
        }
    }
    let columns = ["profile", "device", "write cache", "layers", "engine", "size", "kernel"];
    let table = Table::new(columns).with_words(&columns);
    table.with(told.into_iter().map(|it| {
        vec![
            Cell::text(it.profile.as_str()),
            Cell::text(it.front_end.word()),
            Cell::text(if it.write_cache { "on" } else { "off" }),
            Cell::text(it.layers.to_string()),
            Cell::text(it.engine.to_string()),
            Cell::Bytes(it.size.get()),
            it.kernel.as_ref().map_or(Cell::Empty, Cell::text),
        ]
    }))
}
