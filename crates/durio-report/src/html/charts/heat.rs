//! A map: a cell for each pair of levels, with its figure in words and in a shade.

use std::io;

use durio_analyse::campaign::{MapFindings, Row, SectionFindings};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Chart;
use super::axis::logarithm;
use super::canvas::{Colour, FONT_SIZE, Sheet, WIDTH, draw, failed, label_style};
use crate::figures::latency;

const CELL_HEIGHT: i32 = 66;
const LEFT: i32 = 150;
const BELOW: i32 = 56;
/// Narrower cells have smaller words, and below the second none.
const CELL_ROOMY: i32 = 128;
const CELL_LEAST: i32 = 70;

/// Shades from the lightest to the darkest, as opacities; words stay readable on each.
const SHADES: (f64, f64) = (0.06, 0.55);

struct Grid {
    cell_width: i32,
    lines: i32,
}

impl Grid {
    fn of(map: &MapFindings) -> Self {
        let room = i32::try_from(WIDTH).unwrap_or(i32::MAX) - LEFT - 10;
        let count = |levels: usize| i32::try_from(levels.max(1)).unwrap_or(i32::MAX);
        Self { cell_width: (room / count(map.x.len())).max(1), lines: count(map.y.len()) }
    }

    /// The upper left corner of a cell; lines are counted from below.
    fn corner(&self, x: usize, y: usize) -> (i32, i32) {
        let (x, y) = (i32::try_from(x).unwrap_or(0), i32::try_from(y).unwrap_or(0));
        (LEFT + x * self.cell_width, 10 + (self.lines - 1 - y) * CELL_HEIGHT)
    }
}

/// The map of the 99th percentile.
pub(crate) fn heat_map(section: &SectionFindings, map: &MapFindings) -> io::Result<Chart> {
    let grid = Grid::of(map);
    let height = u32::try_from(grid.lines * CELL_HEIGHT + BELOW + 10).unwrap_or(u32::MAX);
    let (svg, ()) = draw(height, |sheet| {
        draw_cells(sheet, &grid, section, map)?;
        draw_labels(sheet, &grid, map)
    })?;
    Ok(Chart { svg, legend: Vec::new(), values: None })
}

fn draw_cells(
    sheet: &Sheet<'_>,
    grid: &Grid,
    section: &SectionFindings,
    map: &MapFindings,
) -> io::Result<()> {
    let p99 = |row: &Row| row.response.or(row.service).and_then(|it| it.p99_ns);
    let value = |at: usize| section.rows.get(at).and_then(p99);
    let known = || map.cells.iter().filter_map(|cell| value(cell.row)).map(logarithm);
    let (low, high) = (known().fold(f64::MAX, f64::min), known().fold(f64::MIN, f64::max));
    for cell in &map.cells {
        let (left, top) = grid.corner(cell.x, cell.y);
        let corners = [(left + 2, top + 2), (left + grid.cell_width - 2, top + CELL_HEIGHT - 2)];
        let shade = value(cell.row).map_or(0.0, |nanos| {
            let share = if high > low { (logarithm(nanos) - low) / (high - low) } else { 0.0 };
            SHADES.0 + (SHADES.1 - SHADES.0) * share
        });
        let fill = Colour::Second.rgb().mix(shade).filled();
        sheet.draw(&Rectangle::new(corners, fill)).map_err(failed)?;
        let text = value(cell.row).map_or_else(|| "-".to_owned(), latency);
        let middle = (left + grid.cell_width / 2, top + CELL_HEIGHT / 2);
        write_at(sheet, grid, &text, middle, HPos::Center)?;
    }
    Ok(())
}

fn draw_labels(sheet: &Sheet<'_>, grid: &Grid, map: &MapFindings) -> io::Result<()> {
    for (at, level) in map.x.iter().enumerate() {
        let (left, top) = grid.corner(at, 0);
        let middle = (left + grid.cell_width / 2, top + CELL_HEIGHT + BELOW / 2);
        write_at(sheet, grid, &level.label, middle, HPos::Center)?;
    }
    for (at, level) in map.y.iter().enumerate() {
        let (left, top) = grid.corner(0, at);
        let style = label_style().pos(Pos::new(HPos::Right, VPos::Center));
        let text = Text::new(level.label.clone(), (left - 14, top + CELL_HEIGHT / 2), style);
        sheet.draw(&text).map_err(failed)?;
    }
    Ok(())
}

fn write_at(
    sheet: &Sheet<'_>,
    grid: &Grid,
    text: &str,
    at: (i32, i32),
    side: HPos,
) -> io::Result<()> {
    if grid.cell_width < CELL_LEAST {
        return Ok(());
    }
    let size = if grid.cell_width < CELL_ROOMY { FONT_SIZE * 2 / 3 } else { FONT_SIZE };
    let style = ("sans-serif", size).into_font().color(&Colour::Ink.rgb());
    let style = style.pos(Pos::new(side, VPos::Center));
    sheet.draw(&Text::new(text.to_owned(), at, style)).map_err(failed)
}
