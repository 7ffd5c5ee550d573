//! The tables of a campaign's section.

use durio_analyse::SearchFindings;
use durio_analyse::campaign::{CampaignRow, RowBasis, RowLatency, RowPart, SectionFindings};
use durio_analyse::ladder::LadderPhase;
use durio_analyse::ladder::limits::LimitKind;
use durio_plan::SectionKind;
use durio_record::OperationName;

use crate::document::{Cell, Column, ColumnHead, DetailLevel, Row as Line, Table, detail, shown};
use crate::figures::{decimal, rate_bare};

const COLUMNS: &[Column<CampaignRow>] = &[
    shown("offered", offered),
    shown("IOPS", rate),
    shown("range", range),
    shown("bandwidth", |row| Cell::bandwidth(row.bandwidth)),
    shown("mean", |row| mean(row.service.as_ref())),
    detail(shown("p50", |row| percentile(row.service.as_ref(), |latency| latency.p50_ns))),
    shown("p99", |row| percentile(row.service.as_ref(), |latency| latency.p99_ns)),
    shown("p99.9", |row| percentile(row.service.as_ref(), |latency| latency.p99_9_ns)),
    detail(shown("resp. mean", |row| mean(row.response.as_ref()))),
    shown("resp. p99", |row| percentile(row.response.as_ref(), |latency| latency.p99_ns)),
    detail(shown("resp. p99.9", |row| {
        percentile(row.response.as_ref(), |latency| latency.p99_9_ns)
    })),
    detail(shown(READ, |row| factor(row.device_bytes_per_byte_read))),
    detail(shown(WRITTEN, |row| factor(row.device_bytes_per_byte_written))),
    detail(shown("idle before", |row| Cell::of(row.idle_before, |idle| Cell::nanos(idle.get())))),
    shown("phase", |row| Cell::of(row.phase, |phase| Cell::text(phase_name(phase)))),
    shown("limit", limit),
];

/// A row without an operation has no rate.
fn rate(row: &CampaignRow) -> Cell {
    match row.service.is_none() && row.iops == 0.0 {
        true => Cell::Absent("nothing was measured"),
        false => Cell::Rate(row.rate),
    }
}

const READ: &str = "device read";
const WRITTEN: &str = "device written";

pub(super) fn figures(section: &SectionFindings) -> Table {
    let varied = VariedLabels::of(section);
    // In an open loop the response counts.
    let is_open = section.rows.iter().any(|row| row.response.is_some());
    let mut table = Table::new([varied.heading()]);
    let mut figures: Vec<&Column<CampaignRow>> = Vec::new();
    for column in COLUMNS {
        let title = column.title.unwrap_or_default();
        let is_asked = is_asked(section, title);
        let says = section.rows.iter().any(|row| (column.cell)(row) != Cell::Empty);
        if !says || ([READ, WRITTEN].contains(&title) && !is_asked) {
            continue;
        }
        let level = match title {
            "p99.9" if is_open => DetailLevel::Detail,
            _ if is_asked => DetailLevel::Summary,
            _ => column.level,
        };
        table.columns.push(ColumnHead { title: title.to_owned(), level, is_words: false });
        figures.push(column);
    }
    for row in &section.rows {
        let cells = figures.iter().map(|column| (column.cell)(row));
        let cells = std::iter::once(Cell::Text(varied.label(row))).chain(cells).collect();
        table.rows.push(Line { is_part: row.stream > 0, cells, ..Line::default() });
        // The row itself has the results of the commit.
        let parts = row.parts.iter().filter(|part| part.operation != OperationName::Commit);
        table.rows.extend(parts.map(|part| part_row(part, &figures)));
    }
    table
}

// Whether a section is about the devices' requests for each byte: through the page cache.
fn is_asked(section: &SectionFindings, column: &str) -> bool {
    let on_axis = |axis: &str| section.rows.iter().any(|row| row.level(axis).is_some());
    match column {
        "device read" => on_axis("read_ahead"),
        "device written" => on_axis("volume"),
        _ => false,
    }
}

/// A row's label among those of its section.
pub(super) fn label(section: &SectionFindings, row: &CampaignRow) -> String {
    VariedLabels::of(section).label(row)
}

fn part_row(part: &RowPart, figures: &[&Column<CampaignRow>]) -> Line {
    let figure = |column: &&Column<CampaignRow>| match column.title {
        Some("IOPS") => Cell::Rate(part.rate),
        Some("mean") => Cell::Latency(part.service.mean_ns),
        Some("p50") => Cell::percentile(part.service.p50_ns),
        Some("p99") => Cell::percentile(part.service.p99_ns),
        Some("p99.9") => Cell::percentile(part.service.p99_9_ns),
        _ => Cell::Empty,
    };
    let label = Cell::text(part.operation.name());
    let cells = std::iter::once(label).chain(figures.iter().map(figure)).collect();
    Line { level: DetailLevel::Detail, is_part: true, cells }
}

// The differences among the rows of a section: their label.
struct VariedLabels {
    name: bool,
    target: bool,
    location: bool,
    levels: bool,
}

impl VariedLabels {
    fn of(section: &SectionFindings) -> Self {
        let first = section.rows.first();
        let differs = |of: fn(&CampaignRow) -> &str| {
            section.rows.iter().any(|row| first.map(of) != Some(of(row)))
        };
        Self {
            name: differs(|row| &row.name),
            target: differs(|row| &row.target),
            location: differs(|row| &row.location),
            levels: section.rows.iter().any(|row| !row.levels.is_empty()),
        }
    }

    fn heading(&self) -> &'static str {
        if self.levels && !self.name { "level" } else { "workload" }
    }

    fn label(&self, row: &CampaignRow) -> String {
        let mut parts = Vec::new();
        if self.name || !self.levels {
            parts.push(row.name.clone());
        }
        parts.extend(
            row.levels.iter().map(|level| format!("{} {}", axis_name(&level.axis), level.label)),
        );
        let mut label = parts.join(", ");
        if self.target && !self.location {
            label = format!("{label} ({})", row.target);
        }
        if self.location {
            label = format!("{label} at {}", row.location);
        }
        if row.stream > 0 {
            label = format!("beside: {label}");
        }
        if row.complete { label } else { format!("{label} (cut short)") }
    }
}

/// The name of an axis as people say it.
pub(super) fn axis_name(axis: &str) -> String {
    axis.replace('_', " ")
}

fn mean(latencies: Option<&RowLatency>) -> Cell {
    Cell::of(latencies, |latency| Cell::Latency(latency.mean_ns))
}

fn percentile(latencies: Option<&RowLatency>, of: fn(&RowLatency) -> Option<u64>) -> Cell {
    Cell::of(latencies, |latency| Cell::percentile(of(latency)))
}

fn offered(row: &CampaignRow) -> Cell {
    Cell::of(row.open_loop, |open| match open.keeps_up {
        true => Cell::Rate(open.offered_per_second),
        false => Cell::text(format!("{} not reached", rate_bare(open.offered_per_second))),
    })
}

fn range(row: &CampaignRow) -> Cell {
    match row.basis {
        RowBasis::Repeats { rate_min_per_second: low, rate_max_per_second: high, .. } => {
            Cell::text(format!("{}–{}", rate_bare(low), rate_bare(high)))
        }
        RowBasis::Once | RowBasis::Window { .. } | RowBasis::Trial { .. } => Cell::Empty,
    }
}

fn factor(bytes_per_byte: Option<f64>) -> Cell {
    Cell::of(bytes_per_byte, |factor| Cell::text(format!("{} ×", decimal(factor))))
}

fn limit(row: &CampaignRow) -> Cell {
    Cell::of(row.limit.as_ref(), |limit| Cell::text(limit_name(limit.kind)))
}

pub(super) const fn phase_name(phase: LadderPhase) -> &'static str {
    match phase {
        LadderPhase::Linear => "linear",
        LadderPhase::Onset => "onset",
        LadderPhase::Saturated => "saturated",
        LadderPhase::Retrograde => "retrograde",
    }
}

pub(super) const fn limit_name(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::OfferedRate => "offered rate",
        LimitKind::Generator => "durio itself",
        LimitKind::CorePerJob => "core per job",
        LimitKind::KernelCpu => "kernel CPU",
        LimitKind::MemoryBandwidth => "memory",
        LimitKind::Device => "device",
        LimitKind::DepthOffered => "depth offered",
        LimitKind::CannotTell => "cannot tell",
    }
}

/// The basis of the rows' results, where it must be said.
pub(super) fn basis_note(section: &SectionFindings) -> Option<String> {
    let of = |row: &CampaignRow| match row.basis {
        RowBasis::Once => None,
        RowBasis::Repeats { count, .. } => {
            Some(format!("medians of {count} repetitions; range: lowest to highest rate"))
        }
        RowBasis::Window { first_round, last_round, .. } => {
            Some(format!("means of the rounds {first_round} to {last_round}"))
        }
        RowBasis::Trial { round } => {
            Some(format!("results of trial {round}, on which the answer is based"))
        }
    };
    section.rows.iter().find_map(of)
}

pub(super) fn trials(found: &SearchFindings) -> Table {
    Table::with_columns(
        &found.trials,
        [
            ("trial", |trial| Cell::text((trial.round + 1).to_string())),
            ("offered", |trial| Cell::Rate(trial.rate_per_second)),
            ("done", |trial| Cell::Rate(trial.achieved_per_second)),
            ("response", |trial| Cell::percentile(trial.latency_ns)),
            ("goal", |trial| {
                Cell::text(match (trial.kept, trial.keeps_up) {
                    // A percentile of too few responses is not an answer, kept or not.
                    _ if trial.too_few => "too few to tell",
                    (true, _) => "kept",
                    (false, true) => "missed",
                    (false, false) => "rate not reached",
                })
            }),
        ],
    )
}

/// True if the rows are points of a curve.
pub(super) fn is_ladder(section: &SectionFindings) -> bool {
    matches!(section.kind, SectionKind::Ladder { .. })
}
