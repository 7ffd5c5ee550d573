//! Bars side by side, each with its value beside it.

use std::io;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Chart;
use super::canvas::{Colour, Sheet, WIDTH, draw, failed, label_style};

const BAR_HEIGHT: i32 = 34;
const BAR_GAP: i32 = 6;
const GROUP_GAP: i32 = 28;
/// Room for the groups' names on the left, and for the values on the right.
const LEFT: i32 = 190;
const RIGHT: i32 = 190;
/// Longer names of groups do not fit on the left.
const NAME_MAX: usize = 11;

/// Bars that are compared with each other.
#[derive(Debug)]
pub(crate) struct BarGroup {
    /// What they have in common.
    pub(crate) name: String,
    /// From top to bottom.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    /// Its length, in any unit that the group shares.
    pub(crate) value: f64,
    /// The value with its unit.
    pub(crate) text: String,
    /// What it stands for.
    pub(crate) colour: Colour,
}

/// Draws groups below each other; the longest bar of each group is as long as the chart is wide.
pub(crate) fn bars(groups: &[BarGroup], legend: Vec<(String, Colour)>) -> io::Result<Chart> {
    let height: i32 = groups.iter().map(height_of).sum();
    let height = u32::try_from(height.max(GROUP_GAP)).unwrap_or(u32::MAX);
    let (svg, ()) = draw(height, |sheet| {
        let mut top = GROUP_GAP / 2;
        for group in groups {
            draw_group(sheet, group, top)?;
            top += height_of(group);
        }
        Ok(())
    })?;
    Ok(Chart { svg, legend, values: None })
}

fn height_of(group: &BarGroup) -> i32 {
    i32::try_from(group.bars.len()).unwrap_or(i32::MAX / 1000) * (BAR_HEIGHT + BAR_GAP) + GROUP_GAP
}

fn draw_group(sheet: &Sheet<'_>, group: &BarGroup, top: i32) -> io::Result<()> {
    let middle = top + (height_of(group) - GROUP_GAP - BAR_GAP) / 2;
    write_at(sheet, &shortened(&group.name), (LEFT - 20, middle), HPos::Right)?;
    let longest = group.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let mut top = top;
    for bar in &group.bars {
        draw_bar(sheet, bar, longest, top)?;
        top += BAR_HEIGHT + BAR_GAP;
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_MAX {
        true => name.chars().take(NAME_MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

fn draw_bar(sheet: &Sheet<'_>, bar: &Bar, longest: f64, top: i32) -> io::Result<()> {
    let right = LEFT + length(bar.value, longest);
    let corners = [(LEFT, top), (right, top + BAR_HEIGHT)];
    sheet.draw(&Rectangle::new(corners, bar.colour.rgb().filled())).map_err(failed)?;
    write_at(sheet, &bar.text, (right + 14, top + BAR_HEIGHT / 2), HPos::Left)
}

/// In pixels; at least a line, so that a small value is seen to be there.
#[expect(clippy::cast_possible_truncation, reason = "at most the width")]
fn length(value: f64, longest: f64) -> i32 {
    let room = f64::from(WIDTH) - f64::from(LEFT + RIGHT);
    match longest > 0.0 {
        true => ((value / longest * room).round() as i32).max(3),
        false => 3,
    }
}

fn write_at(sheet: &Sheet<'_>, text: &str, at: (i32, i32), side: HPos) -> io::Result<()> {
    let style = label_style().pos(Pos::new(side, VPos::Center));
    sheet.draw(&Text::new(text.to_owned(), at, style)).map_err(failed)
}
