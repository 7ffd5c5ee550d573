//! Many things as a cell each, with a letter and a shade, in rows with labels.

use durio_base::EscapedText;

use super::labels::LetterSize;
use super::{ChartSpan, SHADES, SvgSheet, TextAnchor, WIDTH, count, cut, hex, short};
use crate::document::chart::HostGrid;

/// Cells of a line: fewer and wider ones, as long as the picture is not higher than a screen.
const ACROSS: [usize; 2] = [25, 40];
/// More cells than this are drawn in longer lines.
const WIDE_CELLS_MAX: usize = 250;
const CELL_HEIGHT: f64 = 44.0;
const LEFT: f64 = 190.0;
/// Characters for which there is room left of the cells, in letters of a wide and a narrow page.
const LABEL_MAX: [usize; 2] = [13, 7];
const LETTER_MAX: f64 = 26.0;
/// Width of a character, by its size.
const CHARACTER_EM: f64 = 0.64;

pub(super) fn draw(grid: &HostGrid) -> String {
    let cells: usize = grid.rows.iter().map(|(_, cells)| cells.len()).sum();
    let across = ACROSS[usize::from(cells > WIDE_CELLS_MAX)];
    let width = (WIDTH - LEFT - 10.0) / count(across);
    let size = short(LETTER_MAX.min((width - 4.0) / CHARACTER_EM));
    let mut sheet = SvgSheet::default();
    let mut labels = Vec::new();
    let mut top = 0.0;
    for (label, cells) in &grid.rows {
        labels.push((label, top + CELL_HEIGHT / 2.0));
        for line in cells.chunks(across) {
            for (at, cell) in line.iter().enumerate() {
                let Some((name, colour)) = grid.letters.get(cell.letter) else { continue };
                let left = LEFT + count(at) * width;
                let shade = SHADES.0 + (SHADES.1 - SHADES.0) * cell.shade.clamp(0.0, 1.0);
                sheet.add(format_args!("<g><title>{}</title>", EscapedText(&cell.title)));
                let corners =
                    ((left + 1.0, top + 1.0), (left + width - 1.0, top + CELL_HEIGHT - 1.0));
                sheet.rect(corners.0, corners.1, (hex(*colour), shade));
                let middle = (left + width / 2.0, top + CELL_HEIGHT / 2.0);
                let letter: String = name.chars().take(1).collect();
                sheet.text(middle, TextAnchor::Middle, size, &letter);
                sheet.add(format_args!("</g>"));
            }
            top += CELL_HEIGHT;
        }
    }
    for (letters, most) in LetterSize::of(ChartSpan::Full).into_iter().zip(LABEL_MAX) {
        sheet.begin_letters(&letters);
        for (label, middle) in &labels {
            let place = (LEFT - 14.0, *middle);
            sheet.text(place, TextAnchor::Right, letters.size, &cut(label, most));
        }
        sheet.end_letters();
    }
    sheet.finish("", top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::chart::{Colour, GridCell};

    fn drawn(cells: usize) -> String {
        let cell = |at: usize| GridCell { letter: at % 2, shade: 2.0, title: format!("<db{at}>") };
        let letters =
            vec![("S slow".to_owned(), Colour::Alarm), ("· alike".to_owned(), Colour::First)];
        draw(&HostGrid {
            letters,
            rows: vec![("a long label".into(), (0..cells).map(cell).collect())],
        })
    }

    #[test]
    fn each_cell_has_its_letter_its_shade_and_its_words_escaped() {
        let svg = drawn(3);
        assert_eq!(svg.matches("<rect").count(), 3);
        assert_eq!((svg.matches(">S</text>").count(), svg.matches(">·</text>").count()), (2, 1));
        assert!(svg.contains("<title>&#60;db0&#62;</title>"), "{svg}");
        assert!(svg.contains("opacity=\"0.55\" fill=\"#D92D20\""), "{svg}");
        assert!(svg.contains(">a long label</text>") && svg.contains(">a long…</text>"), "{svg}");
    }

    #[test]
    fn lines_are_longer_from_251_cells_on() {
        let height = |cells| {
            let svg = drawn(cells);
            svg.split("viewBox=\"0 0 1120 ").nth(1).unwrap().split('"').next().unwrap().to_owned()
        };
        assert_eq!([25, 26, 250, 251].map(height), ["44", "88", "440", "308"]);
    }
}
