//! The tables of a bench as cells, for the terminal and the page.
//!
//! In: findings. Out: [`Grid`]s. Not here: layout.

use durio_analyse::attribution::{LayerRow, RaidRow, RowFigures, StackFindings, WorkloadRows};

use super::words::{
    added_or_absent, device_cells, interval, number_or_absent, point, row_name, share,
    share_or_absent, survives, time_or_absent,
};
use crate::figures::{ABSENT, rate_bare};

/// A table of text.
#[derive(Debug)]
pub(super) struct Grid {
    /// What the rows are, then the columns.
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<GridRow>,
}

/// A row of it.
#[derive(Debug)]
pub(super) struct GridRow {
    pub(super) name: String,
    /// As many as there are columns.
    pub(super) cells: Vec<String>,
    /// Why there are none.
    pub(super) absent: Option<String>,
}

/// A header of fixed words.
pub(super) fn columns(words: Vec<&str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// Rates and shares.
pub(super) fn rates(findings: &StackFindings, workload: &WorkloadRows) -> Grid {
    let header = vec!["layer", "per s", "±", "of raw", "of below", "p50", "+ p50", "+ p99"];
    grid(findings, workload, header, |figures| {
        let service = figures.service.as_ref();
        let added = figures.against_below.as_ref();
        vec![
            rate_bare(figures.rate_per_second),
            interval(figures),
            share_or_absent(figures.share_of_raw),
            share_or_absent(figures.share_of_below),
            service.and_then(|it| it.p50_ns).map_or_else(|| ABSENT.into(), crate::figures::latency),
            added_or_absent(added.and_then(|it| it.latency_ns_p50)),
            added_or_absent(added.and_then(|it| it.latency_ns_p99)),
        ]
    })
}

/// Costs other than time.
pub(super) fn costs(findings: &StackFindings, workload: &WorkloadRows) -> Grid {
    let header = vec![
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
    grid(findings, workload, header, |figures| {
        let below = figures.against_below.as_ref();
        let switches = below.and_then(|it| it.context_switches_per_operation);
        let mut cells = vec![
            crate::figures::mean_latency(figures.time_per_operation_ns),
            time_or_absent(figures.cpu_ns_per_operation),
            added_or_absent(below.and_then(|it| it.cpu_ns_per_operation)),
            number_or_absent(figures.context_switches_per_operation),
            switches.map_or_else(|| ABSENT.to_owned(), |it| format!("{it:+.2}")),
        ];
        cells.extend(device_cells(figures));
        cells
    })
}

fn grid(
    findings: &StackFindings,
    workload: &WorkloadRows,
    header: Vec<&'static str>,
    cells: impl Fn(&RowFigures) -> Vec<String>,
) -> Grid {
    let row = |row: &LayerRow| GridRow {
        name: row_name(findings, row.point),
        cells: row.figures.as_ref().map_or_else(Vec::new, &cells),
        absent: row.absent.clone(),
    };
    Grid { header: columns(header), rows: workload.rows.iter().map(row).collect() }
}

/// Arrays beside their models; without rows if there is none.
pub(super) fn arrays(findings: &StackFindings, workload: &WorkloadRows) -> Grid {
    let header = vec![
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
        let mut cells = vec![share_or_absent(raid.share_of_drives)];
        cells.extend(model_cells(raid));
        cells.extend([share_or_absent(raid.share_of_healthy), survives(facts)]);
        Some(GridRow { name: row_name(findings, row.point), cells, absent: None })
    };
    Grid { header: columns(header), rows: workload.rows.iter().filter_map(row).collect() }
}

fn model_cells(raid: &RaidRow) -> [String; 4] {
    [
        raid.theoretical_share,
        raid.efficiency,
        raid.theoretical_share_reads_counted,
        raid.efficiency_reads_counted,
    ]
    .map(share_or_absent)
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
pub(super) fn published(workload: &WorkloadRows) -> Option<Grid> {
    let order = workload.published.as_ref()?;
    let row = |it: &durio_analyse::attribution::PublishedRow| GridRow {
        name: it.name.clone(),
        cells: vec![
            share(it.published),
            share_or_absent(it.measured),
            number_or_absent(it.measured.map(|measured| measured / it.published)),
        ],
        absent: None,
    };
    let header = vec!["layer", "published of raw", "measured of raw", "×"];
    Some(Grid { header: columns(header), rows: order.rows.iter().map(row).collect() })
}
