//! The layout of pages in a browser, on the width of a telephone and of a desk: labels are apart, nothing
//! scrolls sideways, and the first picture is on the first screen.

use durio_hosts::FleetFindings;
use durio_report::Format;
use serde_json::Value;

use crate::browser::{printed_pages, visit};
use crate::campaign::CAMPAIGN;
use crate::{compare, fleet_sample, poster, sample, why_cells, written};

/// The page in frames of these widths: a window is never as narrow as a telephone.
const WIDTHS: [u32; 2] = [390, 1280];

/// Logs where the first picture begins, opens everything that is folded, and logs which labels overlap
/// and which cells of tables are wider than their column.
// In a block: a window has a `top` already.
const MEASURE: &str = "<script>{
  const figure = document.querySelector('figure');
  const top = figure ? Math.round(figure.getBoundingClientRect().top) : -1;
  document.querySelectorAll('details').forEach((it) => { it.open = true; });
  const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
    || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
  const overlaps = [];
  let labels = 0;
  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')]
      .map((text) => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    labels += boxes.length;
    boxes.forEach(([one, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
      if (!apart(a, b)) overlaps.push(one + ' | ' + other);
    }));
  }
  for (const cell of document.querySelectorAll('td')) {
    if (cell.scrollWidth > cell.clientWidth + 1) overlaps.push('cell ' + cell.textContent);
  }
  const luminance = (colour) => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((part) => part > 0.04 ? ((part + 0.055) / 1.055) ** 2.4 : part / 12.92);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const paper = getComputedStyle(document.body).backgroundColor;
  const contrast = (colour) => {
    const [dark, light] = [luminance(colour), luminance(paper)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const unseen = [...document.querySelectorAll('svg text')]
    .filter((text) => contrast(getComputedStyle(text).fill) < 2)
    .map((text) => text.textContent);
  const page = document.documentElement;
  const scrolls = page.scrollWidth > page.clientWidth;
  const wide = !scrolls ? [] : [...document.querySelectorAll('body *')].filter((it) => {
    const shown = it.style.display;
    it.style.display = 'none';
    const helps = page.scrollWidth <= page.clientWidth;
    it.style.display = shown;
    return helps;
  }).slice(-3).map((it) => it.tagName + '.' + it.className + ' ' + it.textContent.slice(0, 40));
  console.log('layout '
    + JSON.stringify({ width: innerWidth, labels, overlaps, scrolls, top, wide, paper, unseen }));
}</script></body>";

/// What a browser says of the page at each width; `None` without a browser.
fn layouts(test: &str, html: &str) -> Option<Vec<Value>> {
    let page = html.replace("</body>", MEASURE).replace("Content-Security-Policy", "no-policy");
    assert_ne!(html, page);
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width: u32| {
        format!(
            "<iframe width=\"{width}\" height=\"900\" style=\"border:0\" srcdoc=\"{page}\"></iframe>"
        )
    };
    let frames: String = WIDTHS.into_iter().map(frame).collect();
    let visit = visit(test, &format!("<!doctype html>\n<title>frames</title>\n{frames}"))?;
    let layout = |line: &String| {
        let (_, rest) = line.split_once("\"layout ").unwrap_or_else(|| panic!("console: {line}"));
        let (json, _) = rest.rsplit_once("\", source:").unwrap();
        serde_json::from_str(json).unwrap()
    };
    let mut layouts: Vec<Value> = visit.console.iter().map(layout).collect();
    layouts.sort_by_key(|layout| layout["width"].as_u64());
    Some(layouts)
}

#[track_caller]
fn assert_laid_out(name: &str, html: &str, layouts: &[Value]) {
    let widths: Vec<_> = layouts.iter().map(|layout| layout["width"].as_u64()).collect();
    assert_eq!(widths, WIDTHS.map(|width| Some(u64::from(width))), "{name}");
    for layout in layouts {
        assert_eq!(layout["overlaps"], serde_json::json!([]), "{name}: {layout}");
        assert_eq!(layout["scrolls"], false, "{name}: {layout}");
        let has_charts = html.contains("<figure");
        assert_eq!(layout["labels"].as_u64() > Some(0), has_charts, "{name}: {layout}");
    }
    if html.contains("class=\"poster\"") {
        let top = layouts[1]["top"].as_i64().unwrap();
        assert!((1..900).contains(&top), "{name}: the first picture begins at {top}");
    }
}

fn fleet(findings: &FleetFindings) -> String {
    crate::cells::in_full(Format::Html, findings)
}

#[test]
fn labels_are_apart_and_the_first_picture_is_on_the_first_screen() {
    let comparison = crate::cells::in_full(
        Format::Html,
        &compare::comparison(vec![compare::step("commit"), compare::step("scan")]),
    );
    let pages = [
        ("check", written(Format::Html, &poster::placed())),
        ("hostile", written(Format::Html, &sample::hostile())),
        ("two places", written(Format::Html, &sample::two_locations())),
        ("campaign", written(Format::Html, &CAMPAIGN)),
        ("compare", comparison),
        ("why", crate::cells::in_full(Format::Html, &why_cells::many())),
        ("fleet", fleet(&fleet_sample::fleet(8))),
        ("troubled fleet", fleet(&fleet_sample::troubled(300))),
    ];
    let test = "labels_are_apart_and_the_first_picture_is_on_the_first_screen";
    for (name, html) in pages {
        let Some(layouts) = layouts(test, &html) else { return };
        assert_laid_out(name, &html, &layouts);
    }
}

#[test]
fn a_page_of_300_hosts_is_laid_out_in_dark_colours_as_in_light_ones() {
    const DARK: &str = "@media (prefers-color-scheme:dark)";
    let test = "a_page_of_300_hosts_is_laid_out_in_dark_colours_as_in_light_ones";
    let light = fleet(&fleet_sample::troubled(300));
    assert_eq!(light.matches(DARK).count(), 1);
    let dark = light.replace(DARK, "@media all");
    for (html, paper) in [(light, "rgb(246, 247, 249)"), (dark, "rgb(16, 20, 26)")] {
        let Some(layouts) = layouts(test, &html) else { return };
        assert_laid_out(paper, &html, &layouts);
        for layout in layouts {
            assert_eq!(layout["paper"], paper, "{layout}");
            assert_eq!(layout["unseen"], serde_json::json!([]), "{layout}");
        }
    }
}

#[test]
fn a_check_is_printed_on_twelve_pages_at_most() {
    let test = "a_check_is_printed_on_twelve_pages_at_most";
    for findings in [poster::placed(), sample::two_locations()] {
        let Some(pages) = printed_pages(test, &written(Format::Html, &findings)) else { return };
        assert!((2..=12).contains(&pages), "{pages} pages");
    }
}

#[test]
fn labels_that_overlap_and_a_wide_page_are_seen() {
    let html = written(Format::Html, &sample::complete());
    let (before, after) = html.split_once("<main>").unwrap();
    let wide = "<main><div style=\"width:3000px\">wide</div><svg viewBox=\"0 0 100 20\"><text \
                y=\"10\">one</text><text x=\"5\" y=\"10\">two</text></svg><table \
                style=\"table-layout:fixed;width:40px\"><tr><td style=\"white-space:nowrap\">longer than \
                forty pixels</td></tr></table>";
    let planted = format!("{before}{wide}{after}");
    let test = "labels_that_overlap_and_a_wide_page_are_seen";
    let Some(layouts) = layouts(test, &planted) else { return };
    for layout in layouts {
        let overlaps = serde_json::json!(["one | two", "cell longer than forty pixels"]);
        assert_eq!(layout["overlaps"], overlaps, "{layout}");
        assert_eq!(layout["scrolls"], true, "{layout}");
    }
}
