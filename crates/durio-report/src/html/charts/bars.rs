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
/// The same where names have more room.
pub(super) const LEFT_ROOMY: i32 = 420;
const NAME_MAX_ROOMY: usize = 26;

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
    draw_groups(groups, legend, LEFT, longest)
}

/// The same to one scale: the longest bar of all is as long as the chart is wide. Names of groups
/// have more room.
pub(crate) fn bars_to_one_scale(
    groups: &[BarGroup],
    legend: Vec<(String, Colour)>,
) -> io::Result<Chart> {
    let of_all = groups.iter().map(longest).fold(0.0, f64::max);
    draw_groups(groups, legend, LEFT_ROOMY, |_| of_all)
}

fn longest(group: &BarGroup) -> f64 {
    group.bars.iter().map(|bar| bar.value).fold(0.0, f64::max)
}

/// `left` pixels are for the names; `longest` tells a group's scale.
fn draw_groups(
    groups: &[BarGroup],
    legend: Vec<(String, Colour)>,
    left: i32,
    longest: impl Fn(&BarGroup) -> f64,
) -> io::Result<Chart> {
    let height: i32 = groups.iter().map(height_of).sum();
    let height = u32::try_from(height.max(GROUP_GAP)).unwrap_or(u32::MAX);
    let (svg, ()) = draw(height, |sheet| {
        let mut top = GROUP_GAP / 2;
        for group in groups {
            let scale = Lengths { left, longest: longest(group) };
            draw_group(sheet, group, top, &scale)?;
            top += height_of(group);
        }
        Ok(())
    })?;
    Ok(Chart { svg, legend, values: None })
}

fn height_of(group: &BarGroup) -> i32 {
    i32::try_from(group.bars.len()).unwrap_or(i32::MAX / 1000) * (BAR_HEIGHT + BAR_GAP) + GROUP_GAP
}

fn draw_group(sheet: &Sheet<'_>, group: &BarGroup, top: i32, scale: &Lengths) -> io::Result<()> {
    let middle = top + (height_of(group) - GROUP_GAP - BAR_GAP) / 2;
    write_at(sheet, &shortened(&group.name, scale.left), (scale.left - 20, middle), HPos::Right)?;
    let mut top = top;
    for bar in &group.bars {
        draw_bar(sheet, bar, scale, top)?;
        top += BAR_HEIGHT + BAR_GAP;
    }
    Ok(())
}

pub(super) fn shortened(name: &str, left: i32) -> String {
    let most = if left > LEFT { NAME_MAX_ROOMY } else { NAME_MAX };
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

fn draw_bar(sheet: &Sheet<'_>, bar: &Bar, scale: &Lengths, top: i32) -> io::Result<()> {
    let right = scale.left + scale.length(bar.value);
    let corners = [(scale.left, top), (right, top + BAR_HEIGHT)];
    sheet.draw(&Rectangle::new(corners, bar.colour.rgb().filled())).map_err(failed)?;
    write_at(sheet, &bar.text, (right + 14, top + BAR_HEIGHT / 2), HPos::Left)
}

/// Where bars begin and how long they are.
struct Lengths {
    left: i32,
    longest: f64,
}

impl Lengths {
    /// In pixels; at least a line, so that a small value is seen to be there.
    #[expect(clippy::cast_possible_truncation, reason = "at most the width")]
    fn length(&self, value: f64) -> i32 {
        let room = f64::from(WIDTH) - f64::from(self.left + RIGHT);
        match self.longest > 0.0 {
            true => ((value / self.longest * room).round() as i32).max(3),
            false => 3,
        }
    }
}

pub(super) fn write_at(
    sheet: &Sheet<'_>,
    text: &str,
    at: (i32, i32),
    side: HPos,
) -> io::Result<()> {
    let style = label_style().pos(Pos::new(side, VPos::Center));
    sheet.draw(&Text::new(text.to_owned(), at, style)).map_err(failed)
}
