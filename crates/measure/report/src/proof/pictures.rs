//! Pictures of the first cut that lost something: acknowledgements around it, and the target after it.
//!
//! Makes charts from a [`LossPicture`].

use durio_plan::proof::LossClass;
use durio_record::proof::{LossPicture, TileState, TimeSlot};

use crate::document::chart::{
    AxisScale, AxisUnit, Chart, ChartSeries, Colour, Panel, Style, TileArea, TileKind,
};
use crate::figures::{counted, latency, precise};

const CELL: u64 = 4096;

pub(super) fn charts(picture: &LossPicture) -> [Chart; 2] {
    [timeline(picture).in_summary(), map(picture).in_summary()]
}

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
            slots(|it| it.acknowledged),
        ),
        ChartSeries::new("not there", Colour::Alarm, Style::Columns, slots(|it| it.missing)),
        cut(),
    ];
    let writes = |is_there: bool| {
        let those = picture.writes.iter().filter(move |it| it.is_there == is_there);
        those.map(|it| (milliseconds(signed(it.at_ns)), precise(it.cell.saturating_mul(CELL))))
    };
    let lower = vec![
        ChartSeries::new("there", Colour::Third, Style::Dots, writes(true)),
        ChartSeries::new("not there", Colour::Alarm, Style::Crosses, writes(false)),
        cut(),
    ];
    let panel = |unit: AxisUnit, series: Vec<ChartSeries>| {
        let x = AxisScale::Linear(AxisUnit::Milliseconds);
        Panel { x, y: AxisScale::Linear(unit), series }
    };
    let panels = vec![panel(AxisUnit::Number, upper), panel(AxisUnit::Bytes, lower)];
    let title = "Acknowledgements around the cut, and where the last of these writes went";
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
    let all = || picture.areas.iter().flat_map(|it| &it.tiles.0);
    let shown: Vec<TileState> =
        TileState::ALL.into_iter().filter(|state| all().any(|it| it == state)).collect();
    let kind = |state: &TileState| {
        let count = all().filter(|it| *it == state).count();
        let (word, colour, fill) = look(*state);
        TileKind { letter: state.letter(), name: format!("{word}: {count}"), colour, fill }
    };
    let kinds = shown.iter().map(kind).collect();
    let place = |state: &TileState| shown.iter().position(|it| it == state).unwrap_or(0);
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
