//! Rows of bars that begin where others end: values side by side, waterfalls, parts of a whole.
//!
//! Draws groups of bars without headings and legends. Names stand above their bars: at the side,
//! long names of layers would have no room, least of all on a narrow screen.

use super::{FONT_SIZE, SvgSheet, TextAnchor, WIDTH, count, cut, hex};
use crate::document::chart::{Bar, BarGroup, Bars};

const BAR_HEIGHT: f64 = 34.0;
// Letters of narrow screens, one row below the other.
const ROW_HEIGHT: f64 = 48.0;
/// The height of the line with a bar's name, or a group's title.
const NAME_HEIGHT: f64 = 48.0;
const GROUP_GAP: f64 = 20.0;
// Room for the text on the right of the longest bar, in the larger letters of narrow screens.
const RIGHT: f64 = 490.0;
// Longer titles and names do not fit on the sheet, in the larger letters of narrow screens.
const NAME_MAX: usize = 46;
// The same of a bar's text, by the room that is left of the sheet.
const CHARACTER: f64 = 24.4;
const POINT_RADIUS: f64 = 11.0;

pub(super) fn draw(bars: &Bars) -> String {
    let longest = bars.groups.iter().map(end).fold(0.0, f64::max);
    let mut sheet = SvgSheet::default();
    let mut top = 0.0;
    // Within one scale a slow workload's bars would be hairs compared with a fast one's.
    for group in &bars.groups {
        let scale = if bars.is_scaled_by_group { end(group) } else { longest };
        top = draw_group(&mut sheet, group, top, scale);
    }
    sheet.finish("spans", top)
}

/// Where the longest bar ends; NaN and infinity are ignored.
fn end(group: &BarGroup) -> f64 {
    let spans = group.bars.iter().flat_map(|bar| &bar.spans);
    let ends = spans.flat_map(|(from, to, _)| [*from, *to]);
    ends.filter(|end| end.is_finite()).fold(0.0, f64::max)
}

/// Draws a group; gives where it ends.
fn draw_group(sheet: &mut SvgSheet, group: &BarGroup, top: f64, longest: f64) -> f64 {
    let mut top = write_line(sheet, &group.title, top);
    for bar in &group.bars {
        top = write_line(sheet, &bar.name, top);
        draw_bar(sheet, bar, top + ROW_HEIGHT / 2.0, longest);
        top += ROW_HEIGHT;
    }
    top + GROUP_GAP
}

/// A text in one line from the left edge; no line is kept for an empty one.
fn write_line(sheet: &mut SvgSheet, text: &str, top: f64) -> f64 {
    if text.is_empty() {
        return top;
    }
    sheet.text((0.0, top + NAME_HEIGHT / 2.0), TextAnchor::Left, FONT_SIZE, &cut(text, NAME_MAX));
    top + NAME_HEIGHT
}

fn draw_bar(sheet: &mut SvgSheet, bar: &Bar, middle: f64, longest: f64) {
    let place = |value: f64| {
        let share = if longest > 0.0 { value / longest } else { 0.0 };
        if share.is_finite() { share.clamp(0.0, 1.0) * (WIDTH - RIGHT) } else { 0.0 }
    };
    let mut right = 0.0_f64;
    for (from, to, colour) in &bar.spans {
        let (left, end) = (place(from.min(*to)), place(from.max(*to)));
        // At least a line, so that a small value is seen to be there.
        let end = end.max(left + 3.0);
        let half = BAR_HEIGHT / 2.0;
        sheet.rect((left, middle - half), (end, middle + half), (hex(*colour), 1.0));
        right = right.max(end);
    }
    if let Some(point) = bar.point {
        sheet.point((place(point), middle), POINT_RADIUS);
        right = right.max(place(point) + POINT_RADIUS);
    }
    let room = WIDTH - right - 14.0;
    let fitting =
        (1..=bar.text.chars().count()).take_while(|most| count(*most) * CHARACTER <= room);
    let text = cut(&bar.text, fitting.last().unwrap_or(1));
    sheet.text((right + 14.0, middle), TextAnchor::Left, FONT_SIZE, &text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::chart::Colour;

    fn group(spans: Vec<(f64, f64, Colour)>) -> BarGroup {
        let bar = Bar { name: "ext4".into(), spans, point: None, text: "+1 µs".into() };
        BarGroup { title: "stack".into(), bars: vec![bar] }
    }

    fn drawn(groups: Vec<BarGroup>) -> String {
        draw(&Bars { groups, legend: Vec::new(), is_scaled_by_group: false })
    }

    /// Begin and width of each bar, from top to bottom.
    fn bars_of(groups: Vec<BarGroup>, is_scaled_by_group: bool) -> Vec<[f64; 2]> {
        let svg = draw(&Bars { groups, legend: Vec::new(), is_scaled_by_group });
        let number = |tag: &str, name: &str| -> f64 {
            let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let rects = svg.split("<rect ").skip(1);
        rects.map(|tag| [number(tag, "x"), number(tag, " width")]).collect()
    }

    #[test]
    fn bars_begin_where_they_are_told_and_share_one_scale_or_have_one_for_each_group() {
        let groups = || {
            vec![
                group(vec![(0.0, 5.0, Colour::First)]),
                group(vec![(5.0, 10.0, Colour::Second), (10.0, 8.0, Colour::Third)]),
            ]
        };
        // 630 pixels for 10: the first ends in the middle, where the second begins.
        let second = [[315.0, 315.0], [504.0, 126.0]];
        assert_eq!(bars_of(groups(), false), [&[[0.0, 315.0]], &second[..]].concat());
        // 630 pixels for 5, and for 10.
        assert_eq!(bars_of(groups(), true), [&[[0.0, 630.0]], &second[..]].concat());
    }

    #[test]
    fn names_have_a_line_and_are_cut_where_the_sheet_ends() {
        let mut long = group(vec![(0.0, 5.0, Colour::First)]);
        long.bars[0].name = "md RAID10 n2 chunk 64 KiB bitmap internal".into();
        let svg = drawn(vec![long]);
        assert!(svg.contains("bitmap internal") && svg.contains("0 0 1120 164"), "{svg}");
        let mut longer = group(vec![(0.0, 5.0, Colour::First)]);
        longer.bars[0].name = "x".repeat(100);
        let svg = drawn(vec![longer]);
        assert!(svg.contains(&format!("{}…", "x".repeat(45))) && !svg.contains(&"x".repeat(46)));
        let mut unnamed = group(vec![(0.0, 5.0, Colour::First)]);
        unnamed.bars[0].name.clear();
        assert!(drawn(vec![unnamed]).contains("0 0 1120 116"));
    }

    #[test]
    fn an_estimate_is_a_point_on_its_interval_and_the_text_keeps_clear_of_it() {
        let mut measured = group(vec![(0.0, 8.0, Colour::First), (8.0, 10.0, Colour::Second)]);
        measured.bars[0].point = Some(9.0);
        let svg = drawn(vec![measured]);
        // 630 pixels for 10, below a title and a name; the text begins behind the interval.
        assert!(svg.contains("<circle class=\"dot ink\" cx=\"567\" cy=\"120\" r=\"11\""), "{svg}");
        assert!(svg.contains("<text x=\"644\" "), "{svg}");
        let mut narrow = group(vec![(0.0, 10.0, Colour::First)]);
        narrow.bars[0].point = Some(10.0);
        let svg = drawn(vec![narrow]);
        assert!(svg.contains("cx=\"630\"") && svg.contains("<text x=\"655\" "), "{svg}");
        assert!(!drawn(vec![group(vec![(0.0, 1.0, Colour::First)])]).contains("<circle"));
    }

    #[test]
    fn odd_numbers_draw_nothing_wrong() {
        let odd = vec![(0.0, 1.0, Colour::First), (f64::INFINITY, -3.0, Colour::First)];
        let svg = drawn(vec![group(odd), group(vec![(0.0, f64::NAN, Colour::First)])]);
        assert!(!svg.contains("inf") && !svg.contains("NaN"), "{svg}");
    }
}
