//! What power cuts lost: each write with the data in its place, and pictures of the first cut that lost
//! something.

use durio_plan::proof::LossClass;
use durio_record::proof::{
    CheckFindings, Finding, InPlace, LossFindings, LossPicture, SeriesFindings, TileState, TimeSlot,
};

use crate::document::chart::{
    AxisUnit, Chart, ChartSeries, Colour, Panel, Style, TileArea, TileKind,
};
use crate::document::{Card, DetailLevel, LabelledFact, Section, SectionBody, Tone};
use crate::figures::{counted, latency, percent, precise};

/// Losses that a terminal lists.
const LOSSES_SHOWN: usize = 1;

pub(super) fn section(series: &SeriesFindings, level: DetailLevel, has_pictures: bool) -> Section {
    let mut section = Section { level, ..Section::new(format!("Lost: {}", series.series.name)) };
    let Some(loss) = &series.loss else { return section };
    loss_facts(series, loss, &mut section);
    section.push(level, SectionBody::Cards(loss.check.iter().map(check_card).collect()));
    match &loss.picture {
        Some(picture) if has_pictures => {
            section.charts([timeline(picture).in_summary()]);
            // Its lines of letters would fill a screen.
            let map = Some(map(picture).in_summary()).filter(Chart::is_drawable);
            section.push(DetailLevel::Detail, SectionBody::Charts(map.into_iter().collect()));
        }
        Some(_) => {
            section.note("Charts are left out here; durio report --format json has their data.");
        }
        None => {}
    }
    let cards = |findings: &[Finding]| SectionBody::Cards(findings.iter().map(card).collect());
    let shown = loss.listed.len().min(LOSSES_SHOWN);
    section.push(level, cards(&loss.listed[..shown]));
    if loss.listed.len() > shown {
        section.push(DetailLevel::Detail, cards(&loss.listed[shown..]));
    }
    let told = loss.listed.len() as u64;
    if loss.cells > told {
        section.note(format!("{} more cells are wrong.", loss.cells - told));
    }
    section
}

fn loss_facts(series: &SeriesFindings, loss: &LossFindings, section: &mut Section) {
    let classes: Vec<_> = loss.classes.iter().map(|class| class.word()).collect();
    let what = if loss.state.is_some() { "state" } else { "cut" };
    section.fact(what, format!("{} of {}", loss.cut, series.cuts_done));
    if loss.check.is_none() {
        let cells = counted(loss.cells, "cell");
        section.fact("found", format!("{} ({cells} of 4 KiB)", classes.join(", ")));
    }
    section.facts(loss.state.iter().map(|state| ("is", state.clone())));
    if let (Some(oldest), Some(shape)) = (loss.oldest_ns, loss.shape) {
        section.fact("missing", format!("acknowledged up to {} before the cut", latency(oldest)));
        section.fact("order", shape.meaning());
    }
    let mut detail = |label: &str, value: String| {
        section.toned_at(DetailLevel::Detail, Tone::Plain, label, value);
    };
    if loss.check.is_none() {
        let kept = counted(loss.kept, "cell");
        detail("still there", format!("{kept} with an acknowledged write of this life"));
    }
    if let Some([low, high]) = series.interval {
        let interval = format!("{} to {} of cuts", percent(low), percent(high));
        detail("how often", format!("{interval} (95 % interval, {} effective)", series.effective));
    }
}

pub(super) fn in_a_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}

/// What the check of a user's command has to say.
fn check_card(check: &CheckFindings) -> Card {
    let title = match check.exit_code {
        Some(code) => format!("exit code {code}"),
        None => "the filesystem cannot be mounted".to_owned(),
    };
    let fact = |label: &str, text: &str| LabelledFact::new(Tone::Plain, label, in_a_line(text));
    Card {
        tone: Tone::Bad,
        word: "CHECK".to_owned(),
        title,
        about: String::new(),
        text: String::new(),
        facts: vec![fact("said", &check.said), fact("acknowledged last", &check.last_acknowledged)],
    }
}

fn card(finding: &Finding) -> Card {
    let age = match finding.acknowledged_before_ns {
        Some(age) => format!("acknowledged {} before the cut", latency(age)),
        None => "certain since an earlier cut".to_owned(),
    };
    let fact = |label: &str, value: String| LabelledFact::new(Tone::Plain, label, value);
    Card {
        tone: Tone::Bad,
        word: finding.class.word().to_uppercase(),
        title: format!("byte {}", finding.sector.saturating_mul(512)),
        about: counted(u64::from(finding.sectors), "sector"),
        text: String::new(),
        facts: vec![
            fact("must be", format!("write {}, {age}", finding.seq)),
            fact("is", in_place(&finding.found)),
        ],
    }
}

fn in_place(found: &InPlace) -> String {
    match found {
        InPlace::Older { seq: 0 } => "contents from before the first write".to_owned(),
        InPlace::Older { seq } => format!("write {seq}"),
        InPlace::OfElsewhere { home, seq } => {
            format!("write {seq}, which belongs to byte {}", home.saturating_mul(512))
        }
        InPlace::Foreign => "data of another campaign or target".to_owned(),
        InPlace::Zeros => "zeros".to_owned(),
        InPlace::Ones => "ones in every bit".to_owned(),
        InPlace::FlippedBits { bits } => {
            format!("the write with {} turned", counted((*bits).into(), "bit"))
        }
        InPlace::Garbage => "data that was never written".to_owned(),
        InPlace::Unreadable => "an error".to_owned(),
        InPlace::Changing { seqs } => {
            let seqs: Vec<_> = seqs.iter().map(u64::to_string).collect();
            format!("now one, now another: writes {}", seqs.join(", "))
        }
        InPlace::Nothing => "nothing: no target of this size, or no such file".to_owned(),
    }
}

const CELL: u64 = 4096;

/// Above, how many writes were acknowledged; below, where each of the last ones went.
fn timeline(picture: &LossPicture) -> Chart {
    let middle = precise(picture.slot_ns) / 2.0 - precise(picture.begin_before_ns);
    let slots = |of: fn(&TimeSlot) -> u32| -> Vec<(f64, f64)> {
        let slots = (0_u64..).zip(&picture.slots);
        let place = |at: u64| precise(at.saturating_mul(picture.slot_ns)) + middle;
        slots.map(|(at, slot)| (milliseconds(place(at)), f64::from(of(slot)))).collect()
    };
    let cut = || ChartSeries::new("the cut", Colour::Ink, Style::Upright, [(0.0, 0.0)]);
    let upper = vec![
        ChartSeries::new(
            format!("acknowledged per {}", latency(picture.slot_ns)),
            Colour::First,
            Style::Columns,
            slots(|slot| slot.acknowledged),
        ),
        ChartSeries::new("not there", Colour::Alarm, Style::Columns, slots(|slot| slot.missing)),
        cut(),
    ];
    let writes = |is_there: bool| {
        let those = picture.writes.iter().filter(move |write| write.is_there == is_there);
        those.map(|write| {
            (milliseconds(signed(write.at_ns)), precise(write.cell.saturating_mul(CELL)))
        })
    };
    let lower = vec![
        ChartSeries::new("there", Colour::Third, Style::Dots, writes(true)),
        ChartSeries::new("not there", Colour::Alarm, Style::Crosses, writes(false)),
        cut(),
    ];
    let panel = |unit: AxisUnit, series: Vec<ChartSeries>| {
        let x = AxisUnit::Milliseconds.linear();
        Panel { x, y: unit.linear(), series }
    };
    let panels = vec![panel(AxisUnit::Number, upper), panel(AxisUnit::Bytes, lower)];
    let title = "Acknowledgements around the cut, and the fate of the last of these writes";
    Chart::panels(title, panels)
}

#[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
const fn signed(nanos: i64) -> f64 {
    nanos as f64
}

fn milliseconds(nanos: f64) -> f64 {
    nanos / 1e6
}

fn map(picture: &LossPicture) -> Chart {
    let all = || picture.areas.iter().flat_map(|area| &area.tiles.0);
    let shown: Vec<TileState> =
        TileState::ALL.into_iter().filter(|state| all().any(|slot| slot == state)).collect();
    let kind = |state: &TileState| {
        let count = all().filter(|slot| *slot == state).count();
        let (word, colour, fill) = look(*state);
        TileKind { letter: state.letter(), name: format!("{word}: {count}"), colour, fill }
    };
    let kinds = shown.iter().map(kind).collect();
    let place = |state: &TileState| shown.iter().position(|kind| kind == state).unwrap_or(0);
    let areas = picture.areas.iter().map(|area| {
        let name = if area.name == "control" { "controls" } else { &area.name };
        (name.to_owned(), area.tiles.0.iter().map(place).collect())
    });
    let tiles = TileArea { kinds, areas: areas.collect() };
    let each = match picture.cells_per_tile {
        0 | 1 => "4 KiB each".to_owned(),
        cells => format!("{} of 4 KiB each, the gravest shown", counted(cells, "cell")),
    };
    Chart::tiles(format!("The target after the cut, {each}"), tiles)
}

/// Words, a colour and the filled share of its place: a loss fills all of it.
const fn look(state: TileState) -> (&'static str, Colour, f64) {
    match state {
        TileState::Wrong(LossClass::Lost) => ("lost", Colour::Alarm, 1.0),
        TileState::Wrong(LossClass::Torn) => ("torn", Colour::Second, 1.0),
        TileState::Wrong(class) => (class.word(), Colour::Ink, 1.0),
        TileState::ControlLost => ("controls gone", Colour::Second, 0.55),
        TileState::InFlight => ("not acknowledged, there", Colour::Fourth, 0.75),
        TileState::Kept => ("acknowledged, there", Colour::First, 0.75),
        TileState::ControlKept => ("controls there", Colour::Third, 0.75),
        TileState::Untouched => ("not written since the last cut", Colour::Shade, 0.3),
    }
}
