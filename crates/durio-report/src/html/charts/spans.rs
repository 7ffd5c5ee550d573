//! Rows of bars that begin where others end: waterfalls, and parts of a whole.
//!
//! In: groups of rows. Out: SVG, all groups to one scale. Not here: headings and legends.
//!
//! Names stand above their bars: beside them long names of layers would have no room, least of all
//! on a narrow screen.

use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::bars::write_at;
use super::canvas::{Colour, Sheet, WIDTH, draw, failed};

const BAR_HEIGHT: i32 = 30;
const ROW_HEIGHT: i32 = 40;
/// Of the line with a row's name.
const NAME_HEIGHT: i32 = 48;
const TITLE_HEIGHT: i32 = 48;
const GROUP_GAP: i32 = 20;
/// Room for the text on the right of the longest bar, in the larger letters of narrow screens.
const RIGHT: i32 = 440;
/// Longer titles and names do not fit on the sheet, in the larger letters of narrow screens.
const TITLE_MAX: usize = 46;

/// Rows that belong together.
#[derive(Debug)]
pub(crate) struct SpanGroup {
    /// Above them; no line is kept for an empty one.
    pub(crate) title: String,
    /// From top to bottom.
    pub(crate) rows: Vec<SpanRow>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct SpanRow {
    /// Above it; no line is kept for an empty one.
    pub(crate) name: String,
    /// From, to, in the unit of the chart, and what it stands for; in either direction.
    pub(crate) spans: Vec<(f64, f64, Colour)>,
    /// On the right of the last.
    pub(crate) text: String,
}

/// Draws the groups below each other; nothing if there is no length in any of them.
pub(crate) fn spans(groups: &[SpanGroup]) -> io::Result<Option<String>> {
    let longest = groups.iter().flat_map(|group| &group.rows).map(end).fold(0.0, f64::max);
    if longest <= 0.0 {
        return Ok(None);
    }
    let height: i32 = groups.iter().map(height_of).sum();
    let (svg, ()) = draw(u32::try_from(height).unwrap_or(u32::MAX), |sheet| {
        let mut top = 0;
        for group in groups {
            draw_group(sheet, group, top, longest)?;
            top += height_of(group);
        }
        Ok(())
    })?;
    Ok(Some(svg.replacen("<svg ", "<svg class=\"spans\" ", 1)))
}

/// Where a row ends; what is no number ends nowhere.
fn end(row: &SpanRow) -> f64 {
    let ends = row.spans.iter().flat_map(|(from, to, _)| [*from, *to]);
    ends.filter(|it| it.is_finite()).fold(0.0, f64::max)
}

fn title_height(group: &SpanGroup) -> i32 {
    if group.title.is_empty() { 0 } else { TITLE_HEIGHT }
}

fn height_of(group: &SpanGroup) -> i32 {
    group.rows.iter().map(row_height).fold(title_height(group) + GROUP_GAP, i32::saturating_add)
}

fn name_height(row: &SpanRow) -> i32 {
    if row.name.is_empty() { 0 } else { NAME_HEIGHT }
}

fn row_height(row: &SpanRow) -> i32 {
    name_height(row) + ROW_HEIGHT
}

/// A text in one line from the left edge.
fn write_line(sheet: &Sheet<'_>, text: &str, top: i32) -> io::Result<()> {
    let text: String = match text.chars().count() > TITLE_MAX {
        true => text.chars().take(TITLE_MAX - 1).chain(['…']).collect(),
        false => text.to_owned(),
    };
    write_at(sheet, &text, (0, top + TITLE_HEIGHT / 2), HPos::Left)
}

fn draw_group(sheet: &Sheet<'_>, group: &SpanGroup, top: i32, longest: f64) -> io::Result<()> {
    if !group.title.is_empty() {
        write_line(sheet, &group.title, top)?;
    }
    let mut top = top + title_height(group);
    for row in &group.rows {
        draw_row(sheet, row, top, longest)?;
        top += row_height(row);
    }
    Ok(())
}

fn draw_row(sheet: &Sheet<'_>, row: &SpanRow, top: i32, longest: f64) -> io::Result<()> {
    if !row.name.is_empty() {
        write_line(sheet, &row.name, top)?;
    }
    let middle = top + name_height(row) + ROW_HEIGHT / 2;
    let mut right = 0;
    for (from, to, colour) in &row.spans {
        let (left, end) = (place(from.min(*to), longest), place(from.max(*to), longest));
        let end = end.max(left + 3);
        let corners = [(left, middle - BAR_HEIGHT / 2), (end, middle + BAR_HEIGHT / 2)];
        sheet.draw(&Rectangle::new(corners, colour.rgb().filled())).map_err(failed)?;
        right = right.max(end);
    }
    write_at(sheet, &row.text, (right + 14, middle), HPos::Left)
}

/// In pixels from the left edge of the sheet.
#[expect(clippy::cast_possible_truncation, reason = "at most the width")]
fn place(value: f64, longest: f64) -> i32 {
    let room = f64::from(WIDTH) - f64::from(RIGHT);
    let share = if value.is_finite() { (value / longest).clamp(0.0, 1.0) } else { 0.0 };
    (share * room).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(spans: Vec<(f64, f64, Colour)>) -> SpanGroup {
        let row = SpanRow { name: "ext4".into(), spans, text: "+1 µs".into() };
        SpanGroup { title: "stack".into(), rows: vec![row] }
    }

    #[test]
    fn bars_begin_where_they_are_told_and_share_one_scale() {
        let groups = [
            group(vec![(0.0, 5.0, Colour::First)]),
            group(vec![(5.0, 10.0, Colour::Second), (10.0, 8.0, Colour::Third)]),
        ];
        let svg = spans(&groups).unwrap().unwrap();
        // 680 pixels for 10: the first ends in the middle, where the second begins.
        assert!(svg.contains("<rect x=\"0\"") && svg.contains("width=\"340\""), "{svg}");
        assert!(svg.contains("<rect x=\"340\"") && svg.contains("<rect x=\"544\""), "{svg}");
    }

    #[test]
    fn names_have_a_line_and_are_cut_where_the_sheet_ends() {
        let mut long = group(vec![(0.0, 5.0, Colour::First)]);
        long.rows[0].name = "md RAID10 n2 chunk 64 KiB bitmap internal".into();
        let svg = spans(&[long]).unwrap().unwrap();
        assert!(
            svg.contains("bitmap internal") && svg.contains(&format!("0 0 {WIDTH} 156")),
            "{svg}"
        );
        let mut longer = group(vec![(0.0, 5.0, Colour::First)]);
        longer.rows[0].name = "x".repeat(100);
        let svg = spans(&[longer]).unwrap().unwrap();
        assert!(svg.contains(&format!("{}…", "x".repeat(45))) && !svg.contains(&"x".repeat(46)));
        let mut unnamed = group(vec![(0.0, 5.0, Colour::First)]);
        unnamed.rows[0].name.clear();
        assert!(spans(&[unnamed]).unwrap().unwrap().contains(&format!("0 0 {WIDTH} 108")));
    }

    #[test]
    fn nothing_and_odd_numbers_draw_nothing_wrong() {
        assert!(spans(&[]).unwrap().is_none());
        assert!(spans(&[group(vec![(0.0, f64::NAN, Colour::First)])]).unwrap().is_none());
        let odd = vec![(0.0, 1.0, Colour::First), (f64::INFINITY, -3.0, Colour::First)];
        assert!(!spans(&[group(odd)]).unwrap().unwrap().contains("inf"));
    }
}
