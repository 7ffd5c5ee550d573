//! The table of a campaign's section, as rows of text: the same in the terminal and in the page.
//!
//! In: a section's findings. Out: [`SectionTable`]. Not here: widths, borders, tags.

use durio_analyse::campaign::{Row, RowBasis, RowLatency, SectionFindings};
use durio_analyse::ladder::Phase;
use durio_analyse::ladder::limits::LimitKind;
use durio_analyse::{SearchFindings, Trial};
use durio_plan::SectionKind;
use durio_record::OperationName;

use crate::figures::{
    ABSENT, bandwidth, decimal, latency, latency_or_absent, mean_latency, rate_bare,
};

/// The figures of a section. Columns without a figure are left out.
#[derive(Debug)]
pub(crate) struct SectionTable {
    /// The headings: what the rows are, then the figures.
    pub(crate) header: Vec<&'static str>,
    /// A label and the figures, as many as headings.
    pub(crate) rows: Vec<TableRow>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct TableRow {
    /// True for a load that ran beside the one above, or a kind of operation of it.
    pub(crate) is_part: bool,
    /// As many as headings.
    pub(crate) cells: Vec<String>,
}

impl SectionTable {
    /// True if any percentile is absent.
    pub(crate) fn has_absent(&self) -> bool {
        self.rows.iter().any(|row| row.cells.iter().any(|cell| cell == ABSENT))
    }
}

/// How much the reader has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// A terminal: what decides.
    Narrow,
    /// A page: everything.
    Wide,
}

type Cell = fn(&Row) -> String;

/// Heading, figure, and whether a terminal has room for it.
const COLUMNS: [(&str, Cell, Room); 16] = [
    ("offered", offered, Room::Narrow),
    ("IOPS", |row| rate_bare(row.rate), Room::Narrow),
    ("range", range, Room::Narrow),
    ("bandwidth", |row| of_bandwidth(row.bandwidth), Room::Narrow),
    ("mean", |row| mean(row.service.as_ref()), Room::Narrow),
    ("p50", |row| percentile(row.service.as_ref(), |it| it.p50_ns), Room::Wide),
    ("p99", |row| percentile(row.service.as_ref(), |it| it.p99_ns), Room::Narrow),
    ("p99.9", |row| percentile(row.service.as_ref(), |it| it.p99_9_ns), Room::Narrow),
    ("resp. mean", |row| mean(row.response.as_ref()), Room::Wide),
    ("resp. p99", |row| percentile(row.response.as_ref(), |it| it.p99_ns), Room::Narrow),
    ("resp. p99.9", |row| percentile(row.response.as_ref(), |it| it.p99_9_ns), Room::Wide),
    ("device read", |row| factor(row.device_bytes_per_byte_read), Room::Wide),
    ("device written", |row| factor(row.device_bytes_per_byte_written), Room::Wide),
    ("idle before", idle, Room::Wide),
    ("phase", phase, Room::Narrow),
    ("limit", limit, Room::Narrow),
];

/// The table of a section.
pub(crate) fn section_table(section: &SectionFindings, room: Room) -> SectionTable {
    let varied = Varied::of(section);
    let figures = section
        .rows
        .iter()
        .map(|row| -> Vec<String> { COLUMNS.iter().map(|(_, cell, _)| cell(row)).collect() });
    let figures: Vec<Vec<String>> = figures.collect();
    let reads_ahead = ["device read", "device written"];
    let is_shown = |at: &usize| {
        let (name, _, wants) = COLUMNS[*at];
        // Of an open loop the response is what counts.
        let crowded = name == "p99.9" && section.rows.iter().any(|row| row.response.is_some());
        let fits = wants == Room::Narrow && !crowded;
        let has_room = room == Room::Wide || fits || is_asked(section, name);
        let says = figures.iter().any(|row| !row[*at].is_empty());
        has_room && says && (!reads_ahead.contains(&name) || is_asked(section, name))
    };
    let shown: Vec<usize> = (0..COLUMNS.len()).filter(is_shown).collect();
    let header = std::iter::once(varied.heading());
    let header = header.chain(shown.iter().map(|at| COLUMNS[*at].0)).collect();
    let mut rows = Vec::new();
    for (row, figures) in section.rows.iter().zip(&figures) {
        let cells = shown.iter().map(|at| figures[*at].clone());
        let cells = std::iter::once(varied.label(row)).chain(cells).collect();
        let is_part = row.stream > 0;
        rows.push(TableRow { is_part, cells });
        if room == Room::Wide {
            rows.extend(part_rows(row, &shown));
        }
    }
    SectionTable { header, rows }
}

/// Whether a section is about what the devices did for each byte: through the page cache.
fn is_asked(section: &SectionFindings, column: &str) -> bool {
    let on_axis = |axis: &str| section.rows.iter().any(|row| row.level(axis).is_some());
    match column {
        "device read" => on_axis("read_ahead"),
        "device written" => on_axis("volume"),
        _ => false,
    }
}

/// The kinds of operation of a row, where it has several.
fn part_rows(row: &Row, shown: &[usize]) -> Vec<TableRow> {
    let part = |part: &durio_analyse::campaign::RowPart| {
        let cell = |at: &usize| match COLUMNS[*at].0 {
            "IOPS" => rate_bare(part.rate),
            "mean" => mean_latency(part.service.mean_ns),
            "p50" => latency_or_absent(part.service.p50_ns),
            "p99" => latency_or_absent(part.service.p99_ns),
            "p99.9" => latency_or_absent(part.service.p99_9_ns),
            _ => String::new(),
        };
        let label = part.operation.name().to_owned();
        let cells = std::iter::once(label).chain(shown.iter().map(cell)).collect();
        TableRow { is_part: true, cells }
    };
    let parts = row.parts.iter();
    parts.filter(|part| part.operation != OperationName::Commit).map(part).collect()
}

/// In what the rows of a section differ: that is their label.
struct Varied {
    name: bool,
    target: bool,
    location: bool,
    levels: bool,
}

impl Varied {
    fn of(section: &SectionFindings) -> Self {
        let first = section.rows.first();
        let differs =
            |of: fn(&Row) -> &str| section.rows.iter().any(|it| first.map(of) != Some(of(it)));
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

    fn label(&self, row: &Row) -> String {
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
        match row.complete {
            true => label,
            false => format!("{label} (cut short)"),
        }
    }
}

/// The name of an axis as people say it.
pub(crate) fn axis_name(axis: &str) -> String {
    axis.replace('_', " ")
}

fn of_bandwidth(bytes_per_second: f64) -> String {
    // A sync moves no bytes: nothing, rather than 0 B/s.
    if bytes_per_second > 0.0 { bandwidth(bytes_per_second) } else { String::new() }
}

fn mean(latencies: Option<&RowLatency>) -> String {
    latencies.map_or_else(String::new, |it| mean_latency(it.mean_ns))
}

fn percentile(latencies: Option<&RowLatency>, of: fn(&RowLatency) -> Option<u64>) -> String {
    latencies.map_or_else(String::new, |it| latency_or_absent(of(it)))
}

fn offered(row: &Row) -> String {
    row.open_loop.map_or_else(String::new, |open| match open.keeps_up {
        true => rate_bare(open.offered_per_second),
        false => format!("{} not reached", rate_bare(open.offered_per_second)),
    })
}

/// How far the repetitions were apart.
fn range(row: &Row) -> String {
    match row.basis {
        RowBasis::Repeats { rate_min_per_second, rate_max_per_second, .. } => {
            format!("{}–{}", rate_bare(rate_min_per_second), rate_bare(rate_max_per_second))
        }
        RowBasis::Once | RowBasis::Window { .. } | RowBasis::Trial { .. } => String::new(),
    }
}

fn factor(bytes_per_byte: Option<f64>) -> String {
    bytes_per_byte.map_or_else(String::new, |it| format!("{} ×", decimal(it)))
}

fn idle(row: &Row) -> String {
    row.idle_before.map_or_else(String::new, |it| latency(it.get()))
}

fn phase(row: &Row) -> String {
    row.phase.map_or_else(String::new, |it| phase_name(it).to_owned())
}

/// The word for a phase.
pub(crate) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Linear => "linear",
        Phase::Onset => "onset",
        Phase::Saturated => "saturated",
        Phase::Retrograde => "retrograde",
    }
}

fn limit(row: &Row) -> String {
    row.limit.as_ref().map_or_else(String::new, |it| limit_name(it.kind).to_owned())
}

/// The words for what limited a step.
pub(crate) const fn limit_name(kind: LimitKind) -> &'static str {
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

/// What the rows' figures are, where that has to be said.
pub(crate) fn basis_note(section: &SectionFindings) -> Option<String> {
    let of = |row: &Row| match row.basis {
        RowBasis::Once => None,
        RowBasis::Repeats { count, .. } => {
            Some(format!("medians of {count} repetitions; range: lowest to highest rate"))
        }
        RowBasis::Window { first_round, last_round, .. } => {
            Some(format!("means of the rounds {first_round} to {last_round}"))
        }
        RowBasis::Trial { round } => {
            Some(format!("figures of trial {round}, on which the answer rests"))
        }
    };
    section.rows.iter().find_map(of)
}

/// The trials of a search.
pub(crate) fn trials_table(found: &SearchFindings) -> SectionTable {
    let row = |trial: &Trial| {
        let kept = match (trial.kept, trial.keeps_up) {
            _ if trial.too_few => "too few to tell",
            (true, _) => "kept",
            (false, true) => "missed",
            (false, false) => "rate not reached",
        };
        let cells = vec![
            (trial.round + 1).to_string(),
            rate_bare(trial.rate_per_second),
            rate_bare(trial.achieved_per_second),
            latency_or_absent(trial.latency_ns),
            kept.to_owned(),
        ];
        TableRow { is_part: false, cells }
    };
    SectionTable {
        header: vec!["trial", "offered", "done", "response", "goal"],
        rows: found.trials.iter().map(row).collect(),
    }
}

/// True if the rows are points of a curve.
pub(crate) fn is_ladder(section: &SectionFindings) -> bool {
    matches!(section.kind, SectionKind::Ladder { .. })
}
