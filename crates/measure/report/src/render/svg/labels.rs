//! Letters of two sizes, for a wide and for a narrow page, and places for labels that do not overlap.
//!
//! A sheet keeps its coordinates whatever its width on the screen, and its letters shrink with it. So each
//! plot has its labels twice, and the style sheet shows the set that suits the page.

use super::{ChartSpan, SvgSheet, TextAnchor, WIDTH, count, cut};

/// Width of a character in the widest of the page's fonts (digits of DejaVu Sans), by its size.
const CHARACTER_EM: f64 = 0.64;
/// On a narrow page a sheet is 320 px wide, and these are 11 px.
const NARROW: f64 = 38.0;
/// The least room left of the vertical axis.
const LEFT_MIN: f64 = 110.0;
/// From a mark's label to the axis.
const MARK_GAP: f64 = 14.0;

/// A set of labels: the class by which the style sheet finds it, and the size of its letters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LetterSize {
    pub(super) class: &'static str,
    pub(super) size: f64,
}

impl LetterSize {
    /// Both sets of a plot.
    pub(super) const fn of(span: ChartSpan) -> [Self; 2] {
        // About 14 px, where the sheet is 520 or 790 px wide.
        let size = match span {
            ChartSpan::Half => 30.0,
            ChartSpan::Full => 20.0,
        };
        [Self { class: "at-wide", size }, Self { class: "at-narrow", size: NARROW }]
    }

    /// Where the vertical axis begins, so that its largest labels have room.
    pub(super) fn left_of_marks(labels: impl Iterator<Item = String>) -> f64 {
        let narrow = Self { class: "at-narrow", size: NARROW };
        let widest = labels.map(|label| narrow.width(&label)).fold(0.0, f64::max);
        (widest + MARK_GAP + 6.0).max(LEFT_MIN)
    }

    pub(super) fn width(&self, text: &str) -> f64 {
        count(text.chars().count()) * self.size * CHARACTER_EM
    }

    /// The height of a line.
    pub(super) fn line(&self) -> f64 {
        self.size * 1.2
    }

    /// The middle of a text that would be at `x`, moved so that the sheet has room for the text.
    pub(super) fn within_sheet(&self, x: f64, text: &str) -> f64 {
        let half = self.width(text) / 2.0;
        x.min(WIDTH - half).max(half)
    }

    /// The title of an axis, as far as there is room.
    pub(super) fn title(&self, sheet: &mut SvgSheet, at: (f64, f64), side: TextAnchor, text: &str) {
        let room = if side == TextAnchor::Left { WIDTH - at.0 } else { at.0 };
        let fitting = (1..=text.chars().count())
            .take_while(|characters| count(*characters) * self.size * CHARACTER_EM <= room);
        if let Some(most) = fitting.last() {
            sheet.title(at, side, self.size, &cut(text, most));
        }
    }
}

/// A taken area of the sheet: left, top, right, bottom.
type SheetArea = (f64, f64, f64, f64);

fn is_apart(one: &SheetArea, other: &SheetArea) -> bool {
    one.2 <= other.0 || other.2 <= one.0 || one.3 <= other.1 || other.3 <= one.1
}

/// The places of the labels of marks; a label without room is left out, its line of the grid stays.
#[derive(Debug, Default)]
pub(super) struct LabelArea(Vec<SheetArea>);

impl LabelArea {
    pub(super) fn put(
        &mut self,
        sheet: &mut SvgSheet,
        size: &LetterSize,
        (x, y): (f64, f64),
        side: TextAnchor,
        text: &str,
    ) {
        let width = size.width(text);
        let left = match side {
            TextAnchor::Left => x,
            TextAnchor::Middle => x - width / 2.0,
            TextAnchor::Right => x - width,
        };
        // Half a character apart, so that two labels are not read as one.
        let air = size.size * CHARACTER_EM / 2.0;
        let half = size.line() / 2.0;
        let place = (left - air, y - half, left + width + air, y + half);
        if place.0.is_finite() && self.0.iter().all(|other| is_apart(&place, other)) {
            self.0.push(place);
            sheet.text((x, y), side, size.size, text);
        }
    }
}

/// How far a label is from its point.
const GAP: f64 = 20.0;

/// Labels next to points, where they do not cover each other. Labels without room are left out:
/// every value is in the table next to the chart.
pub(super) struct PlotLabels<'a> {
    size: &'a LetterSize,
    within: SheetArea,
    taken: Vec<SheetArea>,
}

impl<'a> PlotLabels<'a> {
    /// For a panel that lies within this.
    pub(super) fn new(size: &'a LetterSize, across: (f64, f64), down: (f64, f64)) -> Self {
        // Right of the panel there is room for half of the axis's last label.
        Self { size, within: (across.0, down.0, across.1 + 50.0, down.1), taken: Vec::new() }
    }

    /// Keeps labels away from a point.
    pub(super) fn avoid(&mut self, (x, y): (f64, f64)) {
        self.taken.push((x - 8.0, y - 8.0, x + 8.0, y + 8.0));
    }

    /// Draws a label above, left, right or below of the point, wherever there is room.
    pub(super) fn put(&mut self, sheet: &mut SvgSheet, (x, y): (f64, f64), text: &str) {
        let (width, line) = (self.size.width(text), self.size.line());
        let half = width / 2.0;
        let boxes = [
            ((x - half, y - GAP - line), (x, y - GAP - line / 2.0), TextAnchor::Middle),
            ((x - GAP - width, y - line / 2.0), (x - GAP, y), TextAnchor::Right),
            ((x + GAP, y - line / 2.0), (x + GAP, y), TextAnchor::Left),
            ((x - half, y + GAP), (x, y + GAP + line / 2.0), TextAnchor::Middle),
        ];
        for ((left, top), anchor, side) in boxes {
            let place = (left, top, left + width, top + line);
            if self.is_free(&place) {
                self.taken.push(place);
                return sheet.text(anchor, side, self.size.size, text);
            }
        }
    }

    fn is_free(&self, place: &SheetArea) -> bool {
        let (left, top, right, bottom) = self.within;
        let is_within = place.0 >= left && place.1 >= top && place.2 <= right && place.3 <= bottom;
        is_within && self.taken.iter().all(|other| is_apart(place, other))
    }
}

#[cfg(test)]
mod tests {
    use super::super::short;
    use super::*;

    /// The text, place and side of each label.
    fn labels(sheet: &SvgSheet) -> Vec<String> {
        let label = |part: &str| {
            let (tag, text) = part.split_once('>').unwrap();
            let value = |name: &str| {
                let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
                rest.split('"').next().unwrap().to_owned()
            };
            let text = text.split('<').next().unwrap();
            format!("{text} {} {} {}", value("x"), value("y"), value("text-anchor"))
        };
        sheet.0.split("<text").skip(1).map(label).collect()
    }

    #[test]
    fn letters_have_two_sizes_by_the_span_and_their_labels_find_room() {
        let sizes = |span| LetterSize::of(span).map(|letters| (letters.class, letters.size));
        assert_eq!(sizes(ChartSpan::Half), [("at-wide", 30.0), ("at-narrow", 38.0)]);
        assert_eq!(sizes(ChartSpan::Full), [("at-wide", 20.0), ("at-narrow", 38.0)]);
        // Three characters of a narrow page fit left of the least axis, a fourth moves it.
        let left = |label: &str| LetterSize::left_of_marks([label.to_owned()].into_iter());
        assert_eq!((left("1 s"), short(left("10 s"))), (110.0, 117.3));
        let size = LetterSize { class: "at-wide", size: 20.0 };
        assert_eq!((size.width("0123456789"), size.line()), (128.0, 24.0));
        let within = [0.0, 63.0, 65.0, 1055.0, 1057.0, 1120.0];
        let moved = within.map(|x| size.within_sheet(x, "0123456789"));
        assert_eq!(moved, [64.0, 64.0, 65.0, 1055.0, 1056.0, 1056.0]);
    }

    #[test]
    fn labels_of_marks_are_a_character_apart_and_their_lines_may_touch() {
        let size = LetterSize { class: "at-wide", size: 20.0 };
        let drawn = |x: f64, y: f64| {
            let (mut sheet, mut area) = (SvgSheet::default(), LabelArea::default());
            area.put(&mut sheet, &size, (100.0, 50.0), TextAnchor::Left, "ab");
            area.put(&mut sheet, &size, (x, y), TextAnchor::Left, "cd");
            labels(&sheet).len()
        };
        // "ab" ends at 125.6, a character is 12.8 wide, and a line is 24 high.
        assert_eq!((drawn(138.3, 50.0), drawn(138.5, 50.0)), (1, 2));
        assert_eq!((drawn(61.7, 50.0), drawn(61.5, 50.0)), (1, 2));
        assert_eq!((drawn(100.0, 73.9), drawn(100.0, 74.0)), (1, 2));
        assert_eq!((drawn(100.0, 26.1), drawn(100.0, 26.0)), (1, 2));
        assert_eq!(drawn(f64::NAN, 50.0), 1);
    }

    #[test]
    fn a_point_has_its_label_above_left_right_or_below_and_a_fifth_has_no_room() {
        let size = LetterSize { class: "at-wide", size: 20.0 };
        let mut sheet = SvgSheet::default();
        let mut plot = PlotLabels::new(&size, (0.0, 1000.0), (0.0, 500.0));
        plot.avoid((500.0, 250.0));
        for text in ["a1", "a2", "a3", "a4", "a5"] {
            plot.put(&mut sheet, (500.0, 250.0), text);
        }
        let expected =
            ["a1 500 218 middle", "a2 480 250 end", "a3 520 250 start", "a4 500 282 middle"];
        assert_eq!(labels(&sheet), expected);
    }

    #[test]
    fn labels_of_points_stay_in_their_panel_and_50_wide_right_of_it() {
        let size = LetterSize { class: "at-wide", size: 20.0 };
        let place = |x: f64, y: f64| {
            let mut sheet = SvgSheet::default();
            PlotLabels::new(&size, (0.0, 1000.0), (0.0, 500.0)).put(&mut sheet, (x, y), "ab");
            labels(&sheet).pop()
        };
        // Above it takes 44, and at the sides 12.8 on each.
        assert_eq!(place(500.0, 44.0).as_deref(), Some("ab 500 12 middle"));
        assert_eq!(place(500.0, 43.0).as_deref(), Some("ab 480 43 end"));
        assert_eq!(place(1037.0, 100.0).as_deref(), Some("ab 1037 68 middle"));
        assert_eq!(place(1038.0, 100.0).as_deref(), Some("ab 1018 100 end"));
        assert_eq!(place(12.0, 100.0).as_deref(), Some("ab 32 100 start"));
        assert_eq!(place(2000.0, 100.0), None);
    }
}
