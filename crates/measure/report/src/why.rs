//! Slow commits with their causes: the causes by time lost, the worst calls, what to do, and what the
//! recording cost; a timeline for each call ([`timeline`]).

mod timeline;

use durio_analyse::why::{CauseFindings, ExplainedCall, Other, Piece, WhyFindings};
use durio_base::Bytes;
use durio_judge::summary::{Summary, of_why, source_address};
use durio_observe::SlowWatchFacts;

use crate::Report;
use crate::document::chart::{Bar, BarGroup, Chart, Colour};
use crate::document::{
    Cell, Column, DetailLevel, Document, LabelledFact, Section, Table, Tone, detail, record, shown,
    words,
};
use crate::figures::{cut, decimal, latency, percent, precise, rate, second};

/// From here on recording slowed the database down more than it should.
const SLOWDOWN_MAX: f64 = 0.03;

/// Rows for which a screen has room.
const CAUSES_SHOWN: usize = 3;
const CALLS_SHOWN: usize = 3;
const BLIND_SHOWN: usize = 1;

/// Characters of a file's path, the last ones.
const FILE_LENGTH: usize = 28;

/// Processes that a cell names.
const WHO_SHOWN: usize = 2;

/// Bars of the chart.
const BARS_MAX: usize = 8;

impl Report for WhyFindings {
    fn document(&self) -> Document {
        let SlowWatchFacts { target, seconds, processes, .. } = &self.watch;
        let title = format!("{target}, {seconds:.1} s, processes: {processes}");
        let mut document = Document::new("durio why", title);
        document.push(watched(&self.watch));
        document.push(causes(self));
        document.push(slowest(self));
        document.push(notes(self));
        document.push(timeline::timelines(&self.calls));
        document.poster = Some(time_lost(&self.causes)).filter(Chart::is_drawable);
        document.records = Table::records(&record_columns(), records(self));
        document
    }

    fn summary(&self) -> Option<Summary> {
        Some(of_why(self))
    }
}

/// The slow commits of durio itself, which it recorded while it measured.
pub(crate) fn own_commits(findings: &WhyFindings) -> Section {
    let mut section = Section::new("Slow commits");
    section.say(Tone::Strong, of_why(findings).sentence);
    section.warn(
        "recorded with --why while this was measured: rates and latencies include what recording \
         cost, which was not measured",
    );
    let parts = [watched(&findings.watch), causes(findings), slowest(findings), notes(findings)];
    for mut part in parts {
        match part.heading.as_str() {
            "" => section.blocks.append(&mut part.blocks),
            _ => section.group(part),
        }
    }
    section.group(timeline::timelines(&findings.calls));
    section
}

/// The commits that probes explained, the latest first, with the begin of each one's probe.
pub(crate) fn of_probes(heading: String, commits: &[(String, ExplainedCall)]) -> Section {
    let mut section = Section::new(heading);
    let columns: &[Column<(String, ExplainedCall)>] = &[
        words(shown("probe (UTC)", |(probe, _)| Cell::Text(second(probe)))),
        shown("latency", |(_, call)| Cell::nanos(call.latency_ns)),
        words(shown("cause", |(_, call)| Cell::text(call.cause))),
        shown("share", |(_, call)| Cell::Share(call.cause_share)),
        words(shown("what it did", |(_, call)| Cell::text(&call.sentence))),
    ];
    section.table(Table::shown(columns, commits));
    let calls = commits.iter().take(timeline::DRAWN_MAX).map(|(_, call)| call);
    section.group(timeline::timelines(calls));
    section
}

fn watched(watch: &SlowWatchFacts) -> Section {
    let mut section = Section::default();
    let early = watch.ended_early.as_deref().or(watch.interrupted.then_some("interrupted"));
    if let Some(why) = early {
        let text = format!("{why}; results cover the time until then");
        section.toned(Tone::Warning, "ended early", text);
    }
    if watch.calls > 0 {
        let [p50, p99, max, limit] =
            [watch.p50_ns, watch.p99_ns, watch.max_ns, watch.limit_ns].map(latency);
        let text = format!(
            "{}, p50 {p50}, p99 {p99}, max {max}; {} took {limit} or more",
            watch.calls, watch.slow
        );
        section.fact("calls", text);
    }
    section
}

/// A cause, and the time that all causes took.
type CauseRow<'f> = (&'f CauseFindings, u64);

fn causes(findings: &WhyFindings) -> Section {
    let mut section = Section::new("causes");
    let columns: &[Column<CauseRow<'_>>] = &[
        words(shown("cause", |(cause, _)| Cell::text(cause.cause))),
        detail(words(shown("meaning", |(cause, _)| Cell::text(cause.title)))),
        shown("calls", |(cause, _)| Cell::Count(cause.calls as u64)),
        shown("time lost", |(cause, _)| Cell::nanos(cause.lost_ns)),
        shown("share", |(cause, all)| Cell::Share(precise(cause.lost_ns) / precise((*all).max(1)))),
        shown("p50", |(cause, _)| match cause.calls {
            0 => Cell::Empty,
            _ => Cell::nanos(cause.p50_ns),
        }),
        words(shown("who", |(cause, _)| who(&cause.who))),
    ];
    let all: u64 = findings.causes.iter().map(|cause| cause.lost_ns).sum();
    let mut table = Table::shown(columns, findings.causes.iter().map(|cause| (cause, all)));
    hide_behind(&mut table, CAUSES_SHOWN);
    section.table(table);
    section
}

/// Rows behind the first are shown on request.
fn hide_behind(table: &mut Table, shown: usize) {
    for row in table.rows.iter_mut().skip(shown) {
        row.level = DetailLevel::Detail;
    }
}

/// `rsync (812) 31 MiB, gcc (99)`.
fn who(others: &[Other]) -> Cell {
    let name = |other: &Other| {
        let bytes = match other.bytes {
            0 => String::new(),
            bytes => format!(" {}", Bytes::new(bytes)),
        };
        format!("{} ({}){bytes}", other.name, other.thread)
    };
    let names: Vec<String> = others.iter().take(WHO_SHOWN).map(name).collect();
    if names.is_empty() { Cell::Empty } else { Cell::Text(names.join(", ")) }
}

fn slowest(findings: &WhyFindings) -> Section {
    let mut section = Section::new("slowest calls");
    let columns: &[Column<ExplainedCall>] = &[
        shown("at", |call| Cell::Latency(call.at_seconds * 1e9)),
        words(shown("call", |call| Cell::text(&call.call))),
        words(shown("file", |call| {
            Cell::of(call.path.as_ref(), |path| Cell::text(cut(path, FILE_LENGTH)))
        })),
        detail(words(shown("thread", |call| {
            Cell::Text(format!("{} ({})", call.name, call.thread))
        }))),
        shown("latency", |call| Cell::nanos(call.latency_ns)),
        words(shown("cause", |call| Cell::text(call.cause))),
        shown("share", |call| Cell::Share(call.cause_share)),
        detail(words(shown("second cause", |call| Cell::of(call.second_cause, Cell::text)))),
        detail(shown("unexplained", |call| Cell::Share(call.unexplained_share))),
        words(shown("doubt", |call| match call.doubts.is_empty() {
            true => Cell::Empty,
            false => Cell::Word(Tone::Warning, "doubtful".to_owned()),
        })),
    ];
    let mut table = Table::shown(columns, &findings.calls);
    hide_behind(&mut table, CALLS_SHOWN);
    section.table(table);
    section
}

/// What to do about causes, each with its source.
fn remedies(causes: &[CauseFindings], section: &mut Section) {
    let advised = causes.iter().filter(|cause| !cause.advice.is_empty());
    for (at, cause) in advised.enumerate() {
        let (level, label) = match at {
            0 => (DetailLevel::Summary, "what to do"),
            _ => (DetailLevel::Detail, cause.cause),
        };
        section.toned_at(level, Tone::Plain, label, format!("{}: {}", cause.cause, cause.advice));
        if !cause.source.is_empty() {
            let link = source_address(cause.source).map(str::to_owned);
            let source = LabelledFact::new(Tone::Plain, "", cause.source);
            section.fact_at(level, LabelledFact { link, ..source });
        }
    }
}

/// What to do, what recording cost, and what it did not see.
fn notes(findings: &WhyFindings) -> Section {
    let mut section = Section::default();
    remedies(&findings.causes, &mut section);
    let watch = &findings.watch;
    if watch.seconds > 0.0 && watch.cpu_seconds > 0.0 {
        let used = percent(watch.cpu_seconds / watch.seconds);
        let (tone, text) = slowdown(watch);
        section.toned(tone, "durio's cost", format!("{text}{used} of a CPU"));
    }
    if watch.passed_over > 0 {
        let text = format!("{} slow calls, since too many came at once", watch.passed_over);
        section.toned(Tone::Warning, "not explained", text);
    }
    if watch.lost_events > 0 {
        let text = format!("{} events; calls at that time are doubtful", watch.lost_events);
        section.toned(Tone::Warning, "lost", text);
    }
    for (at, blind) in watch.blind.iter().enumerate() {
        let label = if at == 0 { "cannot be told" } else { "" };
        let level = if at < BLIND_SHOWN { DetailLevel::Summary } else { DetailLevel::Detail };
        let more = match watch.blind.len() - BLIND_SHOWN.min(watch.blind.len()) {
            more @ 1.. if at + 1 == BLIND_SHOWN => format!(" (and {more} more)"),
            _ => String::new(),
        };
        section.toned_at(level, Tone::Plain, label, format!("{blind}{more}"));
    }
    section
}

/// Rates of write calls with and without recording, with their tone.
fn slowdown(watch: &SlowWatchFacts) -> (Tone, String) {
    let (Some(with), Some(without)) = (watch.rate_recorded, watch.rate_unrecorded) else {
        return (Tone::Plain, String::new());
    };
    let less = if without > 0.0 { 1.0 - with / without } else { 0.0 };
    let (tone, less) = match less {
        less if less > SLOWDOWN_MAX => {
            let limit = decimal(SLOWDOWN_MAX * 100.0);
            (
                Tone::Warning,
                format!("{} less (over {limit} %, if the load was the same)", percent(less)),
            )
        }
        less if less > 0.0 => (Tone::Plain, format!("{} less", percent(less))),
        _ => (Tone::Plain, "no slowdown seen".to_owned()),
    };
    let (with, without) = (rate(with), rate(without));
    (tone, format!("write calls {with}, without recording {without}: {less}; "))
}

fn time_lost(causes: &[CauseFindings]) -> Chart {
    let bar = |cause: &CauseFindings| {
        Bar::new(cause.title, precise(cause.lost_ns), Colour::First, latency(cause.lost_ns))
    };
    let bars = causes.iter().take(BARS_MAX).map(bar);
    let groups = vec![BarGroup::new("", bars)];
    Chart::bars("Time lost, by cause", groups, Vec::<(String, Colour)>::new())
}

/// A row for programs: a call, or a piece of it.
struct CallRecord<'f> {
    /// The number of the call, the slowest first.
    number: usize,
    call: &'f ExplainedCall,
    piece: Option<&'f Piece>,
}

fn records(findings: &WhyFindings) -> impl Iterator<Item = CallRecord<'_>> {
    let calls = findings.calls.iter().zip(1..);
    calls.flat_map(|(call, number)| {
        let pieces = call.pieces.iter().map(Some);
        let rows = std::iter::once(None).chain(pieces);
        rows.map(move |piece| CallRecord { number, call, piece })
    })
}

impl CallRecord<'_> {
    /// A value of rows of calls.
    fn of_call(&self, cell: impl FnOnce(&ExplainedCall) -> Cell) -> Cell {
        if self.piece.is_none() { cell(self.call) } else { Cell::Empty }
    }

    /// A value of rows of pieces.
    fn of_piece(&self, cell: impl FnOnce(&Piece) -> Cell) -> Cell {
        Cell::of(self.piece, cell)
    }
}

fn record_columns<'f>() -> Vec<Column<CallRecord<'f>>> {
    vec![
        record("row", |row| Cell::text(if row.piece.is_none() { "call" } else { "piece" })),
        record("number", |row| Cell::Count(row.number as u64)),
        record("at_seconds", |row| row.of_call(|call| Cell::Number(call.at_seconds))),
        record("process", |row| Cell::Count(row.call.process.into())),
        record("thread", |row| match row.piece {
            Some(piece) => Cell::Count(piece.lane.thread.into()),
            None => Cell::Count(row.call.thread.into()),
        }),
        record("thread_name", |row| match row.piece {
            Some(piece) => Cell::text(&piece.lane.name),
            None => Cell::text(&row.call.name),
        }),
        record("call", |row| Cell::text(&row.call.call)),
        record("file", |row| Cell::of(row.call.path.as_ref(), Cell::text)),
        record("kind", |row| row.of_piece(|piece| Cell::saved(&piece.kind))),
        record("detail", |row| row.of_piece(|piece| Cell::text(&piece.detail))),
        record("device", |row| row.of_piece(|piece| Cell::of(piece.device.as_ref(), Cell::text))),
        record("cause", |row| Cell::text(row.piece.map_or(row.call.cause, |piece| piece.cause))),
        record("second_cause", |row| row.of_call(|call| Cell::of(call.second_cause, Cell::text))),
        record("who", |row| row.of_piece(|piece| who(&piece.others))),
        record("doubts", |row| row.of_call(|call| Cell::Text(call.doubts.join("; ")))),
        record("slow_commit_ns", |row| row.of_call(|call| Cell::Count(call.latency_ns))),
        record("cause_share", |row| row.of_call(|call| Cell::Share(call.cause_share))),
        record("unexplained_share", |row| row.of_call(|call| Cell::Share(call.unexplained_share))),
        record("piece_begin_ns", |row| row.of_piece(|piece| Cell::Count(piece.begin_ns))),
        record("piece_ns", |row| row.of_piece(|piece| Cell::Count(piece.ns()))),
    ]
}
