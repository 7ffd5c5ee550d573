//! A map: a cell for each pair of levels, with its figure in words and in a shade.

use super::{FONT_SIZE, Sheet, Side, WIDTH, hex};
use crate::document::chart::{Colour, Map};

const CELL_HEIGHT: f64 = 66.0;
const LEFT: f64 = 150.0;
const TOP: f64 = 10.0;
const BELOW: f64 = 56.0;
/// Narrower cells have smaller words, and below the second none.
const CELL_ROOMY: f64 = 128.0;
const CELL_LEAST: f64 = 70.0;

/// Shades from the lightest to the darkest, as opacities; words stay readable on each.
const SHADES: (f64, f64) = (0.06, 0.55);

#[expect(clippy::cast_precision_loss, reason = "a place on a chart")]
pub(super) fn draw(map: &Map) -> String {
    let width = (WIDTH - LEFT - 10.0) / map.x.len().max(1) as f64;
    let bottom = TOP + map.y.len().max(1) as f64 * CELL_HEIGHT;
    let corner = |x: usize, y: usize| (LEFT + x as f64 * width, TOP + y as f64 * CELL_HEIGHT);
    let mut sheet = Sheet::default();
    let size = if width < CELL_ROOMY { FONT_SIZE * 2.0 / 3.0 } else { FONT_SIZE };
    let write = |sheet: &mut Sheet, at: (f64, f64), text: &str| {
        if width >= CELL_LEAST {
            sheet.text(at, Side::Middle, size, text);
        }
    };
    let shade = shades(map);
    for cell in &map.cells {
        let (left, top) = corner(cell.x, cell.y);
        let end = (left + width - 2.0, top + CELL_HEIGHT - 2.0);
        sheet.rect((left + 2.0, top + 2.0), end, (hex(Colour::Second), shade(cell.value)));
        write(&mut sheet, (left + width / 2.0, top + CELL_HEIGHT / 2.0), &cell.text);
    }
    for (at, label) in map.x.iter().enumerate() {
        write(&mut sheet, (corner(at, 0).0 + width / 2.0, bottom + BELOW / 2.0), label);
    }
    for (at, label) in map.y.iter().enumerate() {
        let middle = corner(0, at).1 + CELL_HEIGHT / 2.0;
        sheet.text((LEFT - 14.0, middle), Side::Right, FONT_SIZE, label);
    }
    sheet.finish("", bottom + BELOW)
}

/// The shade of a value, by its logarithm.
fn shades(map: &Map) -> impl Fn(Option<f64>) -> f64 {
    let logarithm = |value: f64| value.max(1.0).log10();
    let known = map.cells.iter().filter_map(|cell| cell.value).map(logarithm);
    let (low, high) =
        known.fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)));
    move |value| {
        let Some(value) = value else { return 0.0 };
        let share = if high > low { (logarithm(value) - low) / (high - low) } else { 0.0 };
        SHADES.0 + (SHADES.1 - SHADES.0) * share
    }
}
