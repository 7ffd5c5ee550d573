//! What a commit sends to the device, as bars over its time.
//!
//! In: traced commits. Out: [`Chart`]: a line per method, a bar per request from where the driver
//! got it to its completion, to one scale. Not here: what the requests mean.

use std::io;

use durio_analyse::durable::CommandsFindings;
use durio_record::{TracedRequest, TracedSequence};
use durio_units::{Bytes, Nanos};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Chart;
use super::canvas::{Colour, Sheet, WIDTH, draw, failed, label_style};
use crate::durable_facts::{cache_word, layout_word};

/// Room for a line: its name, its bars, and the letters below them.
const LINE: i32 = 132;
const BAR: i32 = 34;
const BELOW: i32 = 50;
const MARGIN: i32 = 20;

/// Letters are this wide, in the mean.
const CHARACTER: i32 = 18;

/// A bar without a known end is this long.
const UNKNOWN: i32 = 8;

/// The chart; none without a trace.
pub(crate) fn sequences(found: &[CommandsFindings]) -> io::Result<Option<Chart>> {
    let lines: Vec<(String, &TracedSequence)> = found.iter().filter_map(line).collect();
    let longest = lines.iter().map(|(_, it)| it.commit).max().unwrap_or(Nanos::ZERO);
    if longest == Nanos::ZERO {
        return Ok(None);
    }
    let count = i32::try_from(lines.len()).unwrap_or(i32::MAX / LINE - 1);
    let height = u32::try_from(count * LINE + BELOW).unwrap_or(u32::MAX);
    let scale = Scale { longest };
    let (svg, ()) = draw(height, |sheet| {
        for (at, (name, sequence)) in (0..).zip(&lines) {
            draw_line(sheet, &scale, at * LINE, name, sequence)?;
        }
        draw_axis(sheet, &scale, count * LINE)
    })?;
    let legend = [
        ("write", Colour::First),
        ("flush", Colour::Second),
        ("past the cache (FUA)", Colour::Third),
        ("metadata", Colour::Fourth),
        ("the commit, to its end", Colour::Shade),
    ];
    let legend = legend.map(|(name, colour)| (name.to_owned(), colour)).to_vec();
    Ok(Some(Chart { svg, legend, values: None }))
}

fn line(found: &CommandsFindings) -> Option<(String, &TracedSequence)> {
    let sequence = found.traced.sequences.first()?;
    let name =
        format!("{} {}, {}", found.method, cache_word(found.cache), layout_word(found.layout));
    Some((format!("{name}: {}", sequence.commit), sequence))
}

struct Scale {
    longest: Nanos,
}

impl Scale {
    /// Pixels of a time; at most the width.
    #[expect(clippy::cast_possible_truncation, reason = "at most the width")]
    fn x(&self, at: Nanos) -> i32 {
        let share = at.as_secs_f64() / self.longest.as_secs_f64();
        MARGIN + (share.min(1.0) * (f64::from(WIDTH) - 2.0 * f64::from(MARGIN))) as i32
    }
}

fn colour(request: &TracedRequest) -> Colour {
    let after = request.flags.strip_prefix('F').unwrap_or(&request.flags);
    let letters = after.get(1..).unwrap_or_default();
    if request.bytes == Bytes::ZERO && request.flags.starts_with('F') {
        Colour::Second
    } else if letters.contains('F') {
        Colour::Third
    } else if letters.contains('M') {
        Colour::Fourth
    } else {
        Colour::First
    }
}

fn draw_line(
    sheet: &Sheet<'_>,
    scale: &Scale,
    top: i32,
    name: &str,
    sequence: &TracedSequence,
) -> io::Result<()> {
    write_at(sheet, name, (MARGIN, top + 20), HPos::Left)?;
    let (above, below) = (top + 44, top + 44 + BAR);
    let whole = [(scale.x(Nanos::ZERO), above), (scale.x(sequence.commit), below)];
    let shade = Colour::Shade.rgb().mix(0.25).filled();
    sheet.draw(&Rectangle::new(whole, shade)).map_err(failed)?;
    let mut free_from = 0;
    for it in &sequence.requests {
        let left = scale.x(it.issued);
        let end = it.service.map(|span| Nanos::new(it.issued.get().saturating_add(span.get())));
        let right = end.map_or(left + UNKNOWN, |end| scale.x(end)).max(left + 3);
        let fill = colour(it).rgb().mix(0.85).filled();
        sheet.draw(&Rectangle::new([(left, above), (right, below)], fill)).map_err(failed)?;
        let width = i32::try_from(it.flags.chars().count()).unwrap_or(0) * CHARACTER;
        let at = left.max(free_from).min(i32::try_from(WIDTH).unwrap_or(0) - width);
        if at >= free_from {
            write_at(sheet, &it.flags, (at, below + 20), HPos::Left)?;
            free_from = at + width + CHARACTER / 2;
        }
    }
    Ok(())
}

fn draw_axis(sheet: &Sheet<'_>, scale: &Scale, top: i32) -> io::Result<()> {
    let longest = scale.longest.get();
    for (part, side) in [(0, HPos::Left), (1, HPos::Center), (2, HPos::Right)] {
        let at = Nanos::new(longest / 2 * part);
        write_at(sheet, &at.to_string(), (scale.x(at), top + BELOW / 2), side)?;
    }
    Ok(())
}

fn write_at(sheet: &Sheet<'_>, text: &str, at: (i32, i32), side: HPos) -> io::Result<()> {
    let style = label_style().pos(Pos::new(side, VPos::Center));
    sheet.draw(&Text::new(text.to_owned(), at, style)).map_err(failed)
}
