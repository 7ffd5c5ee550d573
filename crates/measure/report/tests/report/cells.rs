//! Tables as the readers of each format see them: parsed back into rows and titles, cell by cell.

use std::collections::BTreeMap;

use durio_report::{Format, Options, Report, write};

/// A table that was parsed back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) titles: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// With all details, and no line broken.
pub(crate) fn in_full(format: Format, report: &impl Report) -> String {
    let mut out = Vec::new();
    let options = Options { width: 1000, verbose: true, ..Options::default() };
    write(format, report, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Holds the table with these titles against `expected`, whose first line has the titles of the page:
/// other formats may leave columns out, but each of their cells is in the row and below the title that
/// it has here.
#[track_caller]
pub(crate) fn assert_table<const N: usize>(report: &impl Report, expected: &[[&str; N]]) {
    let (titles, rows) = expected.split_first().unwrap();
    for format in [Format::Html, Format::Text, Format::Markdown] {
        let text = in_full(format, report);
        let grids = grids(format, &text);
        let is_it = |grid: &&Grid| {
            let mut titles = titles.iter();
            let first = grid.titles.first().is_some_and(|first| first == expected[0][0]);
            first
                && grid.titles.len() > N / 2
                && grid.titles.iter().all(|shown| titles.any(|title| title == shown))
        };
        let Some(grid) = grids.iter().find(is_it) else {
            let shown: Vec<_> = grids.iter().map(|grid| &grid.titles).collect();
            panic!("{format} has no table {titles:?}, but {shown:#?}");
        };
        if format == Format::Html {
            assert_eq!(grid.titles, titles, "{format}");
        }
        // In order: several columns may have the same title.
        let mut left = titles.iter().enumerate();
        let places = grid.titles.iter().map(|shown| left.find(|(_, it)| *it == shown).unwrap().0);
        let places: Vec<usize> = places.collect();
        let expected: Vec<Vec<&str>> =
            rows.iter().map(|row| places.iter().map(|at| row[*at]).collect()).collect();
        assert_eq!(grid.rows, expected, "{format}: {:?}", grid.titles);
    }
}

/// Holds lines of the CSV against `expected`, whose first line names some of its columns.
#[track_caller]
pub(crate) fn assert_csv<const N: usize>(report: &impl Report, expected: &[[&str; N]]) {
    let text = in_full(Format::Csv, report);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let lines = reader.deserialize().map(Result::unwrap);
    let lines: Vec<BTreeMap<String, String>> = lines.collect();
    let (titles, rows) = expected.split_first().unwrap();
    let found: Vec<Vec<&str>> =
        lines.iter().map(|line| titles.iter().map(|title| &*line[*title]).collect()).collect();
    assert_eq!(found, rows, "{titles:?}");
}

/// Holds each of these labels to its value: one fact has both, in every format for people.
#[track_caller]
pub(crate) fn assert_facts(report: &impl Report, expected: &[(&str, &str)]) {
    let text = in_full(Format::Text, report);
    let markdown = in_full(Format::Markdown, report);
    let html = in_full(Format::Html, report);
    let rows = html.split("<tr").map(|row| row.split("</tr>").next().unwrap());
    let rows: Vec<String> = rows
        .filter_map(|row| row.split_once("<th scope=\"row\">"))
        .map(|(_, row)| plain(&without_tags(&row.replace("</th><td>", "\t"))))
        .collect();
    for (label, value) in expected {
        let has = |line: &str| {
            let rest = line.trim_start().strip_prefix(label).unwrap_or_default();
            rest.starts_with("  ") && rest.trim_start() == *value
        };
        assert!(text.lines().any(has), "{label}: {value} in {text}");
        let line = format!("- **{label}**: {value}");
        let is_it = |shown: &str| shown.replace('\\', "") == line;
        assert!(markdown.lines().any(is_it), "{label}: {value} in {markdown}");
        let row = format!("{label}\t{value}");
        assert!(rows.contains(&row), "{label}: {value} in {rows:#?}");
    }
}

/// Every table of a report.
pub(crate) fn grids(format: Format, text: &str) -> Vec<Grid> {
    match format {
        Format::Text => of_text(text),
        Format::Markdown => of_markdown(text),
        Format::Html => of_html(text),
        other => panic!("{other} has no tables for people"),
    }
}

/// Below each line of dashes that is under titles.
fn of_text(text: &str) -> Vec<Grid> {
    let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let is_rule =
        |line: &[char]| line.contains(&'─') && line.iter().all(|c| matches!(c, '─' | ' '));
    let rules = (1..lines.len()).filter(|at| is_rule(&lines[*at]));
    rules.map(|at| grid_below(&lines[at - 1], &lines[at + 1..])).collect()
}

fn grid_below(titles: &[char], below: &[Vec<char>]) -> Grid {
    let mut lines = vec![titles];
    lines.extend(below.first().map(Vec::as_slice));
    let count = columns(&lines).len();
    for line in below.iter().skip(1).take_while(|line| !line.is_empty()) {
        lines.push(line);
        // A sentence below the table fills the gaps between its columns.
        if columns(&lines).len() < count {
            lines.pop();
            break;
        }
    }
    let columns = columns(&lines);
    let cells = |line: &&[char]| {
        let cell = |&(from, to): &(usize, usize)| {
            let part: String = line.iter().skip(from).take(to - from).collect();
            part.trim().to_owned()
        };
        columns.iter().map(cell).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    Grid { titles: rows.remove(0), rows }
}

/// From where to where columns reach: two blanks or more in every line are between them.
fn columns(lines: &[&[char]]) -> Vec<(usize, usize)> {
    let width = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let is_blank = |at: usize| lines.iter().all(|line| line.get(at).is_none_or(|c| *c == ' '));
    let mut columns: Vec<(usize, usize)> = Vec::new();
    for at in (0..width).filter(|at| !is_blank(*at)) {
        match columns.last_mut() {
            Some(last) if at <= last.1 + 1 => last.1 = at + 1,
            _ => columns.push((at, at + 1)),
        }
    }
    columns
}

fn of_markdown(text: &str) -> Vec<Grid> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &&str| line.starts_with("| --");
    let rules = (1..lines.len()).filter(|at| is_rule(&lines[*at]));
    let grid = |at: usize| {
        let rows = lines[at + 1..].iter().take_while(|line| line.starts_with('|'));
        Grid {
            titles: markdown_cells(lines[at - 1]),
            rows: rows.map(|line| markdown_cells(line)).collect(),
        }
    };
    rules.map(grid).collect()
}

fn markdown_cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut characters = line.trim_start_matches('|').chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => cells.last_mut().unwrap().extend(characters.next()),
            '|' => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells.pop();
    // A part of the row above is marked so.
    cells.iter().map(|cell| cell.trim().trim_start_matches("· ").to_owned()).collect()
}

fn of_html(text: &str) -> Vec<Grid> {
    let tables = text.split("<table class=\"figures\">").skip(1);
    tables.map(|table| html_grid(table.split("</table>").next().unwrap())).collect()
}

fn html_grid(table: &str) -> Grid {
    let (head, body) = table.split_once("</thead>").unwrap();
    let titles: Vec<String> = html_cells(head).into_iter().map(|(_, text)| text).collect();
    let rows = body.split("<tr").skip(1).map(|row| {
        let cells = html_cells(row);
        assert_eq!(cells.len(), titles.len(), "{row}");
        for ((tag, _), title) in cells.iter().zip(&titles) {
            // A narrow screen and a screen reader say this in place of the heading.
            if let Some((_, label)) = tag.split_once("data-label=\"") {
                assert_eq!(plain(label.split('"').next().unwrap()), *title, "{tag}");
            }
        }
        cells.into_iter().map(|(_, text)| text).collect()
    });
    let rows = rows.collect();
    Grid { titles, rows }
}

/// Each cell's tag and text.
fn html_cells(row: &str) -> Vec<(String, String)> {
    let cells = row.split("<t").filter(|part| {
        part.starts_with("h>")
            || part.starts_with("d>")
            || part.starts_with("h ")
            || part.starts_with("d ")
    });
    let cell = |part: &str| {
        let (tag, rest) = part.split_once('>').unwrap();
        let end = rest.find("</t").unwrap_or(rest.len());
        (tag.to_owned(), plain(&without_tags(&rest[..end])).trim().to_owned())
    };
    cells.map(cell).collect()
}

pub(crate) fn without_tags(html: &str) -> String {
    let parts = html.split('<').enumerate();
    let text = |(at, part): (usize, &str)| match (at, part.split_once('>')) {
        (0, _) => part.to_owned(),
        (_, Some((_, text))) => text.to_owned(),
        (_, None) => String::new(),
    };
    parts.map(text).collect()
}

/// With the characters that were escaped.
pub(crate) fn plain(html: &str) -> String {
    let mut text = html.to_owned();
    for (escaped, c) in
        [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")]
    {
        text = text.replace(escaped, c);
    }
    text
}

/// What a wide page shows in the chart of this title: the labels of its axes and points without titles, in
/// the order in which they are drawn, each with its place from the left and from the top.
#[track_caller]
pub(crate) fn chart_texts(html: &str, title: &str) -> Vec<(f64, f64, String)> {
    let (_, rest) = html.split_once(&format!(">{title}")).unwrap_or_else(|| panic!("no {title}"));
    let (_, rest) = rest.split_once("<svg").unwrap();
    let svg = rest.split("</svg>").next().unwrap().split("<g class=\"at-narrow\">").next().unwrap();
    let number = |tag: &str, name: &str| {
        let (_, value) = tag.split_once(&format!(" {name}=\"")).unwrap();
        value.split('"').next().unwrap().parse::<f64>().unwrap()
    };
    let labels = svg.split("<text").skip(1).filter(|part| !part.starts_with(" class=\"axis\""));
    let texts = labels.map(|part| {
        let (tag, rest) = part.split_once('>').unwrap();
        let text = plain(rest.split("</text>").next().unwrap());
        (number(tag, "x"), number(tag, "y"), text)
    });
    texts.collect()
}

/// The spans behind the lines of the first chart of this title, in the unit of its axis across, with their
/// colours; the axis is identified by its first and last mark.
#[track_caller]
pub(crate) fn spans(html: &str, title: &str, marks: [(&str, f64); 2]) -> Vec<(f64, f64, String)> {
    let texts = chart_texts(html, title);
    let place = |mark: &str| texts.iter().find(|(.., text)| text == mark).unwrap().0;
    let [(left, low), (right, high)] = marks.map(|(mark, value)| (place(mark), value));
    let value = |x: f64| low + (x - left) / (right - left) * (high - low);
    let (_, rest) = html.split_once(&format!(">{title}")).unwrap();
    let (_, rest) = rest.split_once("<svg").unwrap();
    let svg = rest.split("</svg>").next().unwrap();
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        Some(rest.split('"').next().unwrap().to_owned())
    };
    let number = |tag: &str, name: &str| attribute(tag, name).unwrap().parse::<f64>().unwrap();
    let rects = svg.split("<rect").skip(1).map(|part| part.split('>').next().unwrap());
    let behind = rects.filter(|tag| attribute(tag, "opacity").is_some());
    let span = |tag: &str| {
        let (x, width) = (number(tag, "x"), number(tag, "width"));
        (value(x), value(x + width), attribute(tag, "fill").unwrap())
    };
    behind.map(span).collect()
}

/// The element of the page's chart of this title, from its tag on.
fn figure<'h>(html: &'h str, title: &str) -> &'h str {
    let caption = format!("<figcaption>{title}</figcaption>");
    let at = html.find(&caption).unwrap_or_else(|| panic!("no chart {title}"));
    let begin = html[..at].rfind("<figure").unwrap();
    html[begin..].split("</figure>").next().unwrap()
}

/// What is written beside the bars of this chart, from top to bottom: titles of groups, names, figures.
#[track_caller]
pub(crate) fn bars(html: &str, title: &str) -> Vec<String> {
    let texts = figure(html, title).split("</text>").filter_map(|part| part.rsplit_once('>'));
    let mut texts: Vec<String> = texts.map(|(_, text)| plain(text)).collect();
    // After the last text the rest of the picture follows.
    texts.pop();
    texts
}

/// The bars of this chart in the order in which they are drawn, with left edge and width.
#[track_caller]
pub(crate) fn bar_widths(html: &str, title: &str) -> Vec<[f64; 2]> {
    let rects = figure(html, title).split("<rect ").skip(1);
    let number = |tag: &str, name: &str| -> f64 {
        let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    rects.map(|tag| [number(tag, "x"), number(tag, " width")]).collect()
}

/// The panels of the page's chart of this title, as its script gets them.
#[track_caller]
pub(crate) fn panels(html: &str, title: &str) -> Vec<ChartPanel> {
    let (_, rest) = figure(html, title).split_once("id=\"").unwrap();
    let id = rest.split('"').next().unwrap();
    let (_, rest) = html.split_once("id=\"values\">").unwrap();
    let mut values: serde_json::Value =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let panel = |panel: &serde_json::Value| {
        let unit = |axis: &str| panel[axis]["unit"].as_str().unwrap().to_owned();
        let lines = panel["lines"].as_array().unwrap().iter().map(|line| {
            let points = serde_json::from_value(line["points"].clone()).unwrap();
            (line["name"].as_str().unwrap().to_owned(), points)
        });
        ChartPanel { units: [unit("x"), unit("y")], lines: lines.collect() }
    };
    values[id].take().as_array().unwrap().iter().map(panel).collect()
}

/// Units across and up, and each line by its name.
#[derive(Debug, PartialEq)]
pub(crate) struct ChartPanel {
    pub(crate) units: [String; 2],
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
}

#[test]
fn a_table_is_read_back_from_each_format_with_empty_cells_and_blanks_in_its_titles() {
    let expected = Grid {
        titles: ["workload", "per second", "p99"].map(str::to_owned).into(),
        rows: vec![
            ["commit a|b", "1.5 k", "-"].map(str::to_owned).into(),
            ["write", "", "7 µs"].map(str::to_owned).into(),
        ],
    };
    let text = "title
  workload    per second   p99
  ────────────────────────────
  commit a|b       1.5 k     -
    write                 7 µs
  Latencies: service, syncs apart. Per second: operations.
";
    assert_eq!(
        of_text(text),
        [&expected].map(|grid| Grid { titles: grid.titles.clone(), rows: grid.rows.clone() })
    );
    let text = "| workload | per second | p99 |\n| --- | ---: | ---: |\n| commit a\\|b | 1.5 k | \\- |\n| · write |  | 7 µs |\n";
    assert_eq!(of_markdown(text)[0], expected);
    let text = "<table class=\"figures\">\n<thead><tr><th scope=\"col\">workload</th><th scope=\"col\">per second</th><th scope=\"col\">p99</th></tr></thead>\n<tbody>\n<tr><th scope=\"row\">commit a|b</th><td data-label=\"per second\" data-v=\"1500\">1.5 k</td><td data-label=\"p99\"><span class=\"word\">-</span></td></tr>\n<tr class=\"part\"><th scope=\"row\">write</th><td class=\"fine\" data-label=\"per second\"></td><td data-label=\"p99\">7 µs</td></tr></tbody></table>";
    assert_eq!(of_html(text)[0], expected);
}
