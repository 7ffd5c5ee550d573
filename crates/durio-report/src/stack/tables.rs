//! The tables of a bench.
//!
//! In: findings. Out: [`Table`]s. Not here: what is said around them.

use durio_analyse::attribution::{LayerRow, PublishedRow, RowFigures, StackFindings, WorkloadRows};

use super::words::{device_cells, interval, point, row_name, survives};
use crate::document::{Cell, Table};

/// Rates and shares.
pub(super) fn rates(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    let titles = ["layer", "per s", "±", "of raw", "of below", "p50", "+ p50", "+ p99"];
    layers(findings, workload, titles, |figures| {
        let service = figures.service.as_ref();
        let against = figures.against_below.as_ref();
        let share = |it| Cell::or_absent(it, Cell::Share);
        let added = |it| Cell::or_absent(it, Cell::Added);
        vec![
            Cell::Rate(figures.rate_per_second),
            interval(figures),
            share(figures.share_of_raw),
            share(figures.share_of_below),
            Cell::or_absent(service.and_then(|it| it.p50_ns), Cell::nanos),
            added(against.and_then(|it| it.latency_ns_p50)),
            added(against.and_then(|it| it.latency_ns_p99)),
        ]
    })
}

/// Costs other than time.
pub(super) fn costs(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    let titles = [
        "layer",
        "time/op",
        "CPU/op",
        "+ CPU",
        "switches",
        "+ sw.",
        "dev. writes",
        "dev. bytes",
        "flushes",
    ];
    layers(findings, workload, titles, |figures| {
        let below = figures.against_below.as_ref();
        let switches = below.and_then(|it| it.context_switches_per_operation);
        let mut cells = vec![
            Cell::Latency(figures.time_per_operation_ns),
            Cell::or_absent(figures.cpu_ns_per_operation, Cell::Latency),
            Cell::or_absent(below.and_then(|it| it.cpu_ns_per_operation), Cell::Added),
            Cell::or_absent(figures.context_switches_per_operation, Cell::Number),
            Cell::or_absent(switches, |it| Cell::text(format!("{it:+.2}"))),
        ];
        cells.extend(device_cells(figures));
        cells
    })
}

/// Rows without figures have their reason in what is said below.
fn layers<const N: usize>(
    findings: &StackFindings,
    workload: &WorkloadRows,
    titles: [&str; N],
    cells: impl Fn(&RowFigures) -> Vec<Cell>,
) -> Table {
    let row = |row: &LayerRow| {
        let mut all = vec![Cell::text(row_name(findings, row.point))];
        all.extend(row.figures.iter().flat_map(&cells));
        all.resize(N, Cell::Absent(""));
        all
    };
    Table::new(titles).with(workload.rows.iter().map(row))
}

/// Arrays beside their models; without rows if there is none.
pub(super) fn arrays(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    let titles = [
        "array",
        "of drives",
        "theory",
        "efficiency",
        "theory*",
        "efficiency*",
        "of whole",
        "survives",
    ];
    let row = |row: &LayerRow| {
        let figures = row.figures.as_ref()?;
        let raid = figures.raid.as_ref()?;
        let facts = point(findings, row)?.raid.as_ref()?;
        let mut cells = vec![Cell::text(row_name(findings, row.point))];
        cells.extend(
            [
                raid.share_of_drives,
                raid.theoretical_share,
                raid.efficiency,
                raid.theoretical_share_reads_counted,
                raid.efficiency_reads_counted,
                raid.share_of_healthy,
            ]
            .map(|it| Cell::or_absent(it, Cell::Share)),
        );
        cells.push(Cell::text(survives(facts)));
        Some(cells)
    };
    Table::new(titles).with(workload.rows.iter().filter_map(row))
}

/// Said under the table of arrays.
pub(super) const ARRAYS_NOTE: &str = "of drives: rate as a share of the raw rate of all its drives \
     together, which is that of the drives measured times their number, or where the processor limits \
     it that rate itself: the line of the model says which. theory: the share of that which the layout \
     leaves, device writes only counted. efficiency: of drives ÷ theory. theory*, efficiency*: device \
     reads counted too. of whole: of a degraded array, its rate as a share of the whole one's. \
     survives: failures of members.";

/// Each model once, and what each array was compared with.
pub(super) fn array_words(findings: &StackFindings, workload: &WorkloadRows) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in &workload.rows {
        let Some(raid) = row.figures.as_ref().and_then(|it| it.raid.as_ref()) else { continue };
        let Some(facts) = point(findings, row).and_then(|it| it.raid.as_ref()) else { continue };
        let name = row_name(findings, row.point);
        let mut parts: Vec<&str> = Vec::new();
        parts.extend(facts.model.iter().map(|model| model.sentence.as_str()));
        parts.extend(raid.basis.as_deref());
        parts.extend(raid.declined.as_deref());
        lines.push(format!("{name}: {}", parts.join("; ")));
    }
    lines
}

/// Published beside measured shares.
pub(super) fn published(workload: &WorkloadRows) -> Option<Table> {
    let order = workload.published.as_ref()?;
    let row = |it: &PublishedRow| {
        vec![
            Cell::text(&it.name),
            Cell::Share(it.published),
            Cell::or_absent(it.measured, Cell::Share),
            Cell::or_absent(it.measured.map(|measured| measured / it.published), Cell::Number),
        ]
    };
    let titles = ["layer", "published of raw", "measured of raw", "×"];
    Some(Table::new(titles).with(order.rows.iter().map(row)))
}
