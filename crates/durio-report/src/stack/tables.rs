//! The tables of a bench.
//!
//! In: findings. Out: [`Table`]s. Not here: what is said around them.

use durio_analyse::attribution::{
    LayerRow, RaidFacts, RaidRow, RowFigures, StackFindings, WorkloadRows,
};

use super::words::{device_cells, interval, point, row_name, survives};
use crate::document::{Cell, Table};

/// A layer of a workload. Without figures it has the reason in what is said below the table.
struct Line<'f> {
    findings: &'f StackFindings,
    row: &'f LayerRow,
}

impl Line<'_> {
    fn name(&self) -> Cell {
        Cell::Text(row_name(self.findings, self.row.point))
    }

    fn cell(&self, cell: impl Fn(&RowFigures) -> Cell) -> Cell {
        self.row.figures.as_ref().map_or(Cell::Absent(""), cell)
    }

    fn figure(&self, kind: fn(f64) -> Cell, figure: impl Fn(&RowFigures) -> Option<f64>) -> Cell {
        self.cell(|it| Cell::or_absent(figure(it), kind))
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn p50(&self) -> Cell {
        self.figure(Cell::Latency, |it| Some(it.service.as_ref()?.p50_ns? as f64))
    }
}

fn lines<'f>(
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
) -> impl Iterator<Item = Line<'f>> {
    workload.rows.iter().map(move |row| Line { findings, row })
}

/// Rates and shares.
pub(super) fn rates(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    Table::of(
        lines(findings, workload),
        [
            ("layer", Line::name),
            ("per s", |it| it.cell(|it| Cell::Rate(it.rate_per_second))),
            ("±", |it| it.cell(interval)),
            ("of raw", |it| it.figure(Cell::Share, |it| it.share_of_raw)),
            ("of below", |it| it.figure(Cell::Share, |it| it.share_of_below)),
            ("p50", Line::p50),
            ("+ p50", |it| it.figure(Cell::Added, |it| it.against_below?.latency_ns_p50)),
            ("+ p99", |it| it.figure(Cell::Added, |it| it.against_below?.latency_ns_p99)),
        ],
    )
}

/// Costs other than time.
pub(super) fn costs(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    fn switches(more: f64) -> Cell {
        Cell::text(format!("{more:+.2}"))
    }
    Table::of(
        lines(findings, workload),
        [
            ("layer", Line::name),
            ("time/op", |it| it.cell(|it| Cell::Latency(it.time_per_operation_ns))),
            ("CPU/op", |it| it.figure(Cell::Latency, |it| it.cpu_ns_per_operation)),
            ("+ CPU", |it| it.figure(Cell::Added, |it| it.against_below?.cpu_ns_per_operation)),
            ("switches", |it| it.figure(Cell::Number, |it| it.context_switches_per_operation)),
            ("+ sw.", |it| {
                it.figure(switches, |it| it.against_below?.context_switches_per_operation)
            }),
            ("dev. writes", |it| it.cell(|it| device_cells(it)[0].clone())),
            ("dev. bytes", |it| it.cell(|it| device_cells(it)[1].clone())),
            ("flushes", |it| it.cell(|it| device_cells(it)[2].clone())),
        ],
    )
}

type Array<'f> = (String, &'f RaidRow, &'f RaidFacts);

/// The arrays among the rows, with their names.
fn all_arrays<'f>(
    findings: &'f StackFindings,
    workload: &'f WorkloadRows,
) -> impl Iterator<Item = Array<'f>> {
    workload.rows.iter().filter_map(move |row| {
        let raid = row.figures.as_ref()?.raid.as_ref()?;
        Some((row_name(findings, row.point), raid, point(findings, row)?.raid.as_ref()?))
    })
}

/// Arrays beside their models; without rows if there is none.
pub(super) fn arrays(findings: &StackFindings, workload: &WorkloadRows) -> Table {
    fn share(share: Option<f64>) -> Cell {
        Cell::or_absent(share, Cell::Share)
    }
    Table::of(
        all_arrays(findings, workload),
        [
            ("array", |(name, ..)| Cell::text(name)),
            ("of drives", |(_, it, _)| share(it.share_of_drives)),
            ("theory", |(_, it, _)| share(it.theoretical_share)),
            ("efficiency", |(_, it, _)| share(it.efficiency)),
            ("theory*", |(_, it, _)| share(it.theoretical_share_reads_counted)),
            ("efficiency*", |(_, it, _)| share(it.efficiency_reads_counted)),
            ("of whole", |(_, it, _)| share(it.share_of_healthy)),
            ("survives", |(.., facts)| Cell::text(survives(facts))),
        ],
    )
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
    let line = |(name, raid, facts): Array<'_>| {
        let model = facts.model.as_ref().map(|model| model.sentence.as_str());
        let parts = [model, raid.basis.as_deref(), raid.declined.as_deref()];
        format!("{name}: {}", parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    };
    all_arrays(findings, workload).map(line).collect()
}

/// Published beside measured shares.
pub(super) fn published(workload: &WorkloadRows) -> Option<Table> {
    let order = workload.published.as_ref()?;
    Some(Table::of(
        &order.rows,
        [
            ("layer", |it| Cell::text(&it.name)),
            ("published of raw", |it| Cell::Share(it.published)),
            ("measured of raw", |it| Cell::or_absent(it.measured, Cell::Share)),
            ("×", |it| {
                Cell::or_absent(it.measured.map(|measured| measured / it.published), Cell::Number)
            }),
        ],
    ))
}
